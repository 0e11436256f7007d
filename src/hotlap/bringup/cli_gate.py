"""hotlap cluster gate"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from hotlap.bringup import gate_accepted, gate_decide, gate_evidence, gate_labels, gate_rules, gate_tests, show_gate, topology
from hotlap.bringup.cli_isolate import MOST_MEMBERS
from hotlap.bringup.gate_record import GATE, Gate, GateEvidence, GateRule, RuleAnswer, RuleKnown
from hotlap.cli import terminal
from hotlap.cluster import asked, session
from hotlap.cluster.asked import dashed as rewritten  # noqa: F401 - the dispatcher asks for it
from hotlap.cluster.launch.base import AgentLauncher
from hotlap.cluster.record import Campaign
from hotlap.core.errors import InputError, Interrupted
from hotlap.core.store import files, paths

Place = tuple[str, str]
"""Rule and node."""


class _Way(NamedTuple):
    """How members are reached."""

    launcher: AgentLauncher
    options: dict[str, object]
    python: str


def add(parser: argparse.ArgumentParser) -> None:
    asked.add_members(parser)
    parser.add_argument("--risk", default="1%", metavar="SHARE", help="chance of a fault since that makes evidence stale (default: 1%%)")
    parser.add_argument("--loss", default="10%", metavar="SHARE", help="of a node's transfers that matters (default: 10%%)")
    parser.add_argument("--budget", default="30 s", metavar="TIME", help="for all tests (default: 30 s)")
    parser.add_argument("--evidence", action="store_true", help="answer by what is kept; test nothing")
    parser.add_argument("--again", action="store_true", help="test by all rules, however new the evidence is")
    parser.add_argument("--rules", default="", metavar="FILE", help="rules of your own, beside the package's: commands, in shadow at first")
    parser.add_argument("--topology", default="", metavar="FILE", help="as of cluster isolate")
    parser.add_argument("--limit", type=int, default=0, metavar="N", help="as of cluster isolate: pairs that an uplink carries")
    parser.add_argument("--time", default="0.5 s", metavar="TIME", help="of a transfer (default: 0.5 s)")
    parser.add_argument("--labels", choices=["json", *gate_labels.WAYS], help="print verdicts as labels or commands; nothing is changed")
    parser.add_argument("--apply", choices=gate_labels.WAYS, help="take nodes out that failed; needs --cluster and --node")
    parser.add_argument("--cluster", default="", metavar="NAME", help="with --apply: Slurm's ClusterName, or a context of kubectl")
    parser.add_argument("--node", default="", metavar="NAMES", help="with --apply: the nodes, with commas")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 every node passes, 1 one fails, 3 of one there is no evidence that is new enough."""
    risk, budget_s = terminal.share(args.risk, "--risk"), asked.seconds(args.budget, "--budget")
    until_s = time.monotonic() + budget_s
    nodes = gate_labels.named(args.apply, args.cluster, args.node) if args.apply else []
    if args.limit < 0:
        raise InputError(f"--limit is a number from 0 on, not {args.limit}")
    if args.evidence and args.again:
        raise InputError("--evidence tests nothing and --again everything: leave out one of both")
    if (args.cluster or args.node) and not args.apply:
        raise InputError("--cluster and --node go with --apply; leave them out, or add that")
    rules = gate_rules.load(args.rules)
    args.kubernetes = None
    asked.joined(args)
    name, options, python = asked.launcher(args)
    launcher = session.launcher_of(Campaign(id="", hotlap="", began="", launcher=name, options=options, python=python, steps=[]))
    try:
        gate = _gated(args, _Way(launcher, options, python), rules, risk, until_s)
    except Interrupted:
        raise Interrupted("interrupted: the tests of this gate do not count, and evidence from before stays; run it again") from None
    finally:
        launcher.release()
    if nodes:
        gate = msgspec.structs.replace(gate, applied=gate_labels.apply(gate, args.apply, args.cluster, nodes, show_gate.reason))
        _keep(gate)
    verdicts = {each.verdict for each in gate.nodes}
    code = 1 if "fail" in verdicts else 3 if "inconclusive" in verdicts else 0
    _print(args, gate, code)
    return code


def _print(args: argparse.Namespace, gate: Gate, code: int) -> None:
    if args.json or args.labels == "json":
        labels = gate_labels.labels(gate, show_gate.reason)
        terminal.answer(args.json or 3, {"gate": gate, "labels": labels}, code=code)
    elif args.labels:
        commands = gate_labels.commands(gate, args.labels, show_gate.reason)
        for command in commands:
            print(shlex.join(command))
        if not commands:
            counts = Counter(each.verdict for each in gate.nodes)
            known = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
            print(f"hotlap: no node failed, so there is nothing to take out: {known}", file=sys.stderr)
    else:
        print("\n".join(show_gate.lines(gate, terminal.width(), terminal.color())))
        for command in gate.applied:
            print(f"done    {shlex.join(command)}")
        if gate.run:
            print(f"\nrun     {paths.runs(paths.home()) / gate.run}")


def _gated(args: argparse.Namespace, way: _Way, rules: Mapping[str, GateRule], risk: float, until_s: float) -> Gate:
    members, least = way.launcher.members(), terminal.share(args.loss, "--loss")
    if len(members) > MOST_MEMBERS:
        raise InputError(f"{len(members)} members are too many for one controller; give at most {MOST_MEMBERS}")
    names = [member.name for member in members]
    leaves = topology.leaves(topology.read(args.topology, names)) if args.topology else {}
    ledgers = gate_accepted.read(paths.home(), least)
    history = gate_evidence.beside(gate_evidence.read(paths.home(), rules, least), ledgers.evidence)
    known = {name: gate_decide.known(rule, history) for name, rule in rules.items()}
    answers = gate_decide.from_evidence(names, known, gate_evidence.last(history.evidence, names), time.time())
    worst = dict.fromkeys(rules, 1.0) if args.again else gate_decide.stale(answers.values(), risk)
    chosen, left_out, kept, machines = list[str](), list[str](), "", dict[str, str]()
    if worst and not args.evidence:
        chosen, left_out = gate_decide.plan(worst, rules, until_s - time.monotonic() - gate_tests.CLOSE_S)
    if chosen:
        wanted = gate_tests.GateAsked(rules, chosen, leaves, args.limit, asked.seconds(args.time, "--time"), until_s, least)
        folder = gate_tests.begun(wanted, way.launcher, members, way.python, way.options)
        came, kept = gate_tests.tested(wanted, folder, way.launcher, history), folder.path.name
        machines = {member.name: gate_evidence.machine(member) for member in folder.members()}
        answers = _newer(answers, came, machines, known)
    if args.again:  # what was to be tested and had no time is not answered by what is kept
        for name in left_out:
            nothing = {node: GateEvidence(rule=name, node=node, at_s=time.time(), holds="unknown", code="no time") for node in names}
            answers |= {(name, node): RuleAnswer(seen=seen, acts=known[name].acts) for node, seen in nothing.items()}
    accepted = gate_accepted.answers(ledgers, names, machines, time.time())
    by_node = {node: [answers[name, node] for name in rules] + ([accepted[node]] if node in accepted else []) for node in names}
    gate = Gate(
        nodes=[gate_decide.verdict(node, each, risk) for node, each in by_node.items()], rules=list(known.values()),
        risk=risk, budget_s=asked.seconds(args.budget, "--budget"), at_s=time.time(), left_out=left_out, run=kept,
        unread=ledgers.unread,
    )  # fmt: skip
    _keep(gate)
    return gate


def _keep(gate: Gate) -> None:
    if gate.run:
        files.write_whole(paths.runs(paths.home()) / gate.run / GATE, msgspec.json.format(msgspec.json.encode(gate), indent=2) + b"\n")


def _newer(
    answers: Mapping[Place, RuleAnswer], came: Mapping[Place, GateEvidence], machines: Mapping[str, str], known: Mapping[str, RuleKnown]
) -> dict[Place, RuleAnswer]:
    """What was tested in place of the evidence; evidence of another machine says nothing. `machines`: that answered, by node."""
    newer = dict(answers)
    for place, answer in answers.items():
        rule, node = place
        before = answer.seen
        if place in came:
            newer[place] = gate_decide.answered(came[place], known[rule], time.time(), True)
        elif before.machine and machines[node] not in ("", before.machine):
            other = GateEvidence(rule=rule, node=node, at_s=time.time(), holds="unknown", code="other machine")
            newer[place] = RuleAnswer(seen=other, acts=known[rule].acts, tested=True)
    return newer
