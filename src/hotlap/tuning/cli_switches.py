"""hotlap tuning switches [NAME …]"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.core.errors import InputError, nearest
from hotlap.core.model import machines
from hotlap.core.show import layout
from hotlap.core.show.table import Cell, Column, Table
from hotlap.tuning import catalogue
from hotlap.tuning.catalogue import SwitchFacts, TuningSwitch


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="of switches, with all that is known of them (default: all, in a table)")
    parser.add_argument("--for", dest="subject", choices=("program", "plan", "server"), help="only those that can be tried on such")
    parser.add_argument("--machine", default="", metavar="NAME", help="of the machine table, for what the model expects there")


def run(args: argparse.Namespace) -> int:
    """What each may change in results, whether it applies here, what to expect of it."""
    if args.machine:
        machines.load(args.machine)
    every, facts = catalogue.switches(), catalogue.here(args.machine)
    for name in args.names:
        if name not in every:
            raise InputError(f"there is no switch '{name}'; {nearest(name, every)}")
        if args.subject and args.subject not in every[name].subjects:
            raise InputError(f"{name} is of a {' and a '.join(every[name].subjects)}, not of a {args.subject}")
    chosen = {name: every[name] for name in args.names or every if not args.subject or args.subject in every[name].subjects}
    if args.json:
        terminal.answer(args.json, {name: document(switch, facts) for name, switch in chosen.items()}, "switches")
    elif args.names:
        print("\n\n".join("\n".join(lines(name, switch, facts)) for name, switch in chosen.items()))
    else:
        print("\n".join(layout.fitted(table(chosen, facts, bool(args.machine)).columns, terminal.width()).lines(terminal.color())))
    return 0


def document(switch: TuningSwitch, facts: SwitchFacts) -> dict[str, object]:
    return {
        **{name: getattr(switch, name) for name in ("about", "group", "subjects", "changes", "tolerance", "undo", "expect", "source")},
        "how": switch.how, "standing": switch.standing, "values": catalogue.values(switch, facts),
        "lacking": catalogue.lacking(switch, facts, switch.subjects[0]), "expected_here": catalogue.expected(switch, facts),
    }  # fmt: skip


def table(switches: dict[str, TuningSwitch], facts: SwitchFacts, modelled: bool) -> Table:
    """`modelled`: with what the model expects."""
    rows = [(name, switch, catalogue.lacking(switch, facts, switch.subjects[0])) for name, switch in switches.items()]
    return Table([
        Column("switch", [Cell(name, "bold" if not reason else "") for name, _, reason in rows], names=True),
        Column("of", [Cell(switch.group) for _, switch, _ in rows]),
        Column("values", [Cell(", ".join(catalogue.values(switch, facts))) for _, switch, _ in rows]),
        Column("changes", [Cell(switch.changes) for _, switch, _ in rows]),
        Column("here", [Cell(reason or applies(switch)) for _, switch, reason in rows]),
        *([Column("model", [Cell(catalogue.expected(switch, facts)) for _, switch, _ in rows])] if modelled else []),
        Column("what it is", [Cell(switch.about) for _, switch, _ in rows]),
    ])  # fmt: skip


def applies(switch: TuningSwitch) -> str:
    """How it is tried."""
    return {
        "variables": "yes", "prefix": "yes", "load": "yes", "file": "as root, only where it is named",
        "argument": "as {name} of the command", "verb": switch.verb,
    }[switch.how]  # fmt: skip


def lines(name: str, switch: TuningSwitch, facts: SwitchFacts) -> list[str]:
    """All that is known of one."""
    set_by = {
        "variables": " ".join(f"{key}={value}" for key, value in switch.variables.items()), "argument": f"{{{name}}} in the command",
        "prefix": " ".join(switch.prefix), "file": f"{switch.path} ← {switch.content}", "load": switch.load, "verb": switch.verb,
    }[switch.how]  # fmt: skip
    tolerance = f", within {switch.tolerance:g} relative" if switch.tolerance is not None else ""
    pairs = [
        ("is", switch.about), ("of", " and ".join(f"a {subject}" for subject in switch.subjects)), ("set by", set_by),
        ("as found", switch.standing), ("values", ", ".join(catalogue.values(switch, facts))),
        ("here", catalogue.lacking(switch, facts, switch.subjects[0]) or applies(switch)),
        ("changes", f"{switch.changes}{tolerance}"), ("undone", switch.undo), ("expect", switch.expect),
        ("model", catalogue.expected(switch, facts)), ("source", switch.source),
    ]  # fmt: skip
    width = terminal.width()
    return [name, *(line for label, what in pairs if what for line in layout.paragraph(f"  {label:<9}", what, width))]
