"""hotlap node audit"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core.errors import InputError, nearest
from hotlap.core.store import paths, select
from hotlap.nodes import audit, growth, odd
from hotlap.nodes.facts import Facts
from hotlap.nodes.inspect import node
from hotlap.nodes.show import audit as printing
from hotlap.nodes.show import junit

KEPT = "facts"  # in the folder of a run
PROFILES = "; ".join(f"{name}: {about}" for name, about in audit.PROFILES.items())


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("given", nargs="*", help=argparse.SUPPRESS)  # answered with the option that takes it
    parser.add_argument("--profile", default="bench", metavar="NAME", help=f"what the node is for (default: bench; {PROFILES})")
    parser.add_argument(
        "--root", default="/", metavar="DIR|FILE", help="a node's root folder, snapshot or JSON facts (default: this machine)"
    )
    parser.add_argument(
        "--redfish", default="", metavar="DIR|TARBALL|TOML", help="firmware and BIOS: a recorded Redfish tree, or a file of its BMC"
    )
    parser.add_argument(
        "--rules", action="append", default=[], metavar="FILE", help="rules of your own; those of the same name are overridden"
    )
    parser.add_argument(
        "--fail-on", default="error", metavar="SEVERITY", help="least severity that exits 1: info, warning, error (default)"
    )
    parser.add_argument(
        "--since", metavar="FILE", help="an earlier snapshot or JSON facts of the node: counters are judged by their growth since then"
    )
    parser.add_argument("--junit", metavar="FILE", help="also as JUnit XML, for CI")
    parser.add_argument("--explain", metavar="RULE", help="all of one rule")
    parser.add_argument("--list", action="store_true", help="the rules")
    parser.add_argument(
        "--fleet", nargs="+", metavar="NODE", help="snapshots or JSON facts of many nodes, folders of them, or a campaign: the odd ones out"
    )
    parser.add_argument(
        "--against", nargs="+", metavar="NODE", help="with --fleet, a second group of nodes: the facts in which the two differ"
    )


def run(args: argparse.Namespace) -> int:
    """Exit code 1 where a finding is an error, 3 where no rule could be decided."""
    if args.given:
        one, files = args.given[0], " ".join(args.given[:3])
        raise InputError(f"which is '{one}'? one node: --root {one}; nodes to compare with each other: --fleet {files}")
    if args.fail_on not in audit.SEVERITIES:
        raise InputError(f"there is no severity '{args.fail_on}'; {nearest(args.fail_on, audit.SEVERITIES)}")
    if args.profile not in audit.PROFILES:
        raise InputError(f"there is no profile '{args.profile}'; {nearest(args.profile, audit.PROFILES)}")
    rules = audit.load(args.rules)
    if args.explain or args.list:
        return _rules(args, rules)
    if args.fleet:
        if args.since or args.junit:
            raise InputError(f"--fleet knows no {'--since' if args.since else '--junit'}: leave it out; --json prints all that was found")
        return _fleet(args)
    if args.against:
        raise InputError("--against is the second of two groups; name the first with --fleet NODE…")
    before = node.read(args.since) if args.since else None
    facts = node.read(args.root, args.redfish)
    earlier = growth.between(before, facts) if before else None
    rules = audit.growing(rules) if earlier else rules
    outcomes = audit.audit(facts, rules, args.profile, earlier)
    if args.junit:
        terminal.write(Path(args.junit), junit.audit(facts.host, outcomes, rules, args.fail_on))
    if args.json:
        since = {"since": before.taken} if before else {}
        found = {"host": facts.host, "profile": args.profile, **since, "outcomes": outcomes}
        terminal.answer(args.json, found, code=audit.reached(outcomes, args.fail_on))
    else:
        if before and earlier:
            print(f"growth since {before.taken or args.since}{f', {growth.span(earlier.hours)} before' if earlier.hours else ''}")
        print(printing.audit(facts, args.profile, outcomes, rules, terminal.width(), terminal.color()))
    return audit.reached(outcomes, args.fail_on)


def _rules(args: argparse.Namespace, rules: dict[str, audit.AuditRule]) -> int:
    if args.explain and args.explain not in rules:
        raise InputError(f"there is no rule '{args.explain}'; {nearest(args.explain, rules)}")
    chosen = rules[args.explain] if args.explain else None
    if args.json:
        terminal.answer(args.json, chosen or list(rules.values()), "rule" if chosen else "rules")
    else:
        print(printing.rule(chosen, terminal.width()) if chosen else printing.rules(rules, terminal.width()))
    return 0


def _fleet(args: argparse.Namespace) -> int:
    """Exit code 1 where a node differs from the majority, or one group from the other; 3 where a node could not be read."""
    nodes, lost = _nodes(args.fleet)
    if args.against:
        others, more = _nodes(args.against)
        groups, lost = odd.against(nodes, others), lost + more
        code = 1 if groups.apart else _unread(lost)
        if args.json:
            terminal.answer(args.json, groups, code=code)
        else:
            print(printing.groups(groups, terminal.width(), terminal.color()))
        return code
    found = odd.compare(nodes)
    code = 1 if found.odd else _unread(lost)
    if args.json:
        terminal.answer(args.json, found, code=code)
    else:
        print(printing.fleet(found, terminal.width(), terminal.color()))
    return code


def _unread(lost: int) -> int:
    """Nodes that could not be read are not known to be like the others."""
    if lost:
        print(f"hotlap: {lost} of the nodes named could not be read, so nothing is said of them", file=sys.stderr)
    return 3 if lost else 0


def _place(name: str) -> Path:
    """A file or folder; of a run that keeps the facts of many nodes, the folder of them."""
    path = Path(name)
    if path.is_dir() and (path / KEPT).is_dir():
        return path / KEPT
    if path.exists():
        return path
    try:
        entries = select.entries([name], paths.home())
    except InputError:
        return path
    kept = [entry.path / KEPT for entry in entries]
    if len(kept) == 1 and not kept[0].is_dir():
        how = "hotlap cluster run node inspect --hosts 'n[01-16]' collects them"
        raise InputError(f"the run {entries[0].id} keeps no facts of nodes; {how}")
    return kept[0] if len(kept) == 1 and kept[0].is_dir() else path


def _nodes(named: list[str]) -> tuple[dict[str, Facts], int]:
    """The facts of files, and of those in folders, by host; how many could not be read."""
    nodes, files, lost = dict[str, Facts](), list[Path](), 0
    for one in map(_place, named):
        inside = sorted(path for path in one.iterdir() if path.name.endswith((".json", ".tar.gz", ".tgz"))) if one.is_dir() else []
        files += inside or [one]
    for file in files:
        try:
            facts = node.read(str(file))
        except InputError as error:  # one that cannot be read is named, the rest goes on
            print(f"hotlap: left out: {error}", file=sys.stderr)
            lost += 1
            continue
        names = (facts.host, f"{facts.host} ({file.name})", *(f"{facts.host} ({file.name}, {n})" for n in range(2, len(files) + 2)))
        nodes[next(name for name in names if name not in nodes)] = facts
    return nodes, lost
