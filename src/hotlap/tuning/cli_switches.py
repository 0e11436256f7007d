"""hotlap tuning switches [NAME …]"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core import plan as plans
from hotlap.core.errors import InputError, nearest
from hotlap.core.model import machines
from hotlap.core.show import layout, shape
from hotlap.core.show.table import Cell, Column, Table
from hotlap.tuning import applying, benches, catalogue
from hotlap.tuning.applying import TriedOn
from hotlap.tuning.catalogue import SwitchFacts, TuningSwitch
from hotlap.tuning.record import TuningAsked

KINDS = ("program", "plan", "server")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="of switches, with all that is known of them (default: all, in a table)")
    on = "only those that can be tried on such: program, plan, server, or a command line, plan or server's file as of tuning run"
    parser.add_argument("--for", dest="subject", default="", metavar="KIND|SUBJECT", help=on)
    parser.add_argument("--here", action="store_true", help="only those that apply here; the others below, by reason")
    parser.add_argument("--machine", default="", metavar="NAME", help="of the machine table, for what the model expects there")


def run(args: argparse.Namespace) -> int:
    """What each may change in results, whether it applies here, what to expect of it."""
    if args.machine:
        machines.load(args.machine)
    every, facts = catalogue.switches(), catalogue.here(args.machine)
    on = _on(args.subject) if args.subject else None
    for name in args.names:
        if name not in every:
            raise InputError(f"there is no switch '{name}'; {nearest(name, every)}")
        if on and on.subject not in every[name].subjects:
            raise InputError(f"{name} is of a {' and a '.join(every[name].subjects)}, not of a {on.subject}")
    chosen = {name: every[name] for name in args.names or every if not on or on.subject in every[name].subjects}
    reasons = {name: refused(name, switch, facts, on) for name, switch in chosen.items()}
    left = {name: reason for name, reason in reasons.items() if reason and args.here}
    shown = {name: switch for name, switch in chosen.items() if name not in left}
    if args.json:
        keys = {name: document(switch, facts, reasons[name]) for name, switch in shown.items()}
        terminal.answer(args.json, {"switches": keys, "left_out": left} if args.json == shape.SHAPE else keys)
        return 0
    width = terminal.width()
    parts = ["\n".join(lines(name, switch, facts, reasons[name])) for name, switch in shown.items()] if args.names else []
    if shown and not args.names:
        grid = layout.fitted(table(shown, facts, reasons).columns, width, ("what it is", "changes"), "of")
        parts = ["\n".join([*grid.lines(terminal.color()), *legend(shown, width)])]
        parts += ["\n".join(["the model expects:", *modelled(shown, facts, width)])] if args.machine else []
    if left:
        parts.append("\n".join(["do not apply here:" if shown else "none applies here:", *others(left, width)]))
    print("\n\n".join(parts))
    return 0


def _on(subject: str) -> TriedOn:
    """Of a kind, or of a subject with its command. Raises InputError."""
    if subject in KINDS:
        return TriedOn(subject, None, True)
    kind = benches.kind_of(subject)
    if kind == "program" and " " not in subject.strip() and not (shutil.which(subject) or Path(subject).exists()):
        raise InputError(f"--for {subject}: no kind, plan, file or program has this name; {nearest(subject, [*KINDS, *plans.builtin()])}")
    asked = TuningAsked(subject=subject, kind=kind, goal="")
    return TriedOn(kind, applying.places_of(benches.words_of(asked)), True, benches.client_alone(asked))


def refused(name: str, switch: TuningSwitch, facts: SwitchFacts, on: TriedOn | None) -> str:
    """Why it cannot be tried here; "" where it can."""
    why = applying.refusal(name, switch, facts, on or TriedOn(switch.subjects[0], None, True))
    return why[1] if why else ""


def others(left: Mapping[str, str], width: int) -> list[str]:
    """What does not apply, by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in left.items():
        by_reason.setdefault(reason.replace(name, "NAME") if f"{{{name}}}" in reason else reason, []).append(name)
    return [line for reason, names in by_reason.items() for line in layout.paragraph("  ", f"{reason}: {', '.join(names)}", width, None)]


def document(switch: TuningSwitch, facts: SwitchFacts, reason: str) -> dict[str, object]:
    return {
        **{name: getattr(switch, name) for name in ("about", "group", "subjects", "changes", "tolerance", "undo", "expect", "source")},
        "how": switch.how, "standing": switch.standing, "values": catalogue.values(switch, facts),
        "lacking": reason, "expected_here": catalogue.expected(switch, facts),
    }  # fmt: skip


def table(switches: Mapping[str, TuningSwitch], facts: SwitchFacts, reasons: Mapping[str, str]) -> Table:
    """`reasons`: why a switch does not apply here."""
    rows = list(switches.items())
    return Table([
        Column("switch", [Cell(name, "" if reasons[name] else "bold") for name, _ in rows], names=True),
        Column("of", [Cell(switch.group) for _, switch in rows]),
        Column("values", [Cell(", ".join(catalogue.values(switch, facts))) for _, switch in rows], wrap=True),
        Column("changes", [Cell(switch.changes) for _, switch in rows]),
        Column("here", [Cell(reasons[name] or applies(switch)) for name, switch in rows], wrap=True),
        Column("what it is", [Cell(switch.about) for _, switch in rows], wrap=True),
    ])  # fmt: skip


def applies(switch: TuningSwitch) -> str:
    """How it is tried."""
    how = {
        "variables": "yes", "prefix": "yes", "load": "yes", "file": "by its name", "argument": "as {name}", "verb": switch.verb,
    }[switch.how]  # fmt: skip
    return f"{how} †" if switch.changes == "results" else how


def modelled(switches: Mapping[str, TuningSwitch], facts: SwitchFacts, width: int) -> list[str]:
    """What the model expects of those that it knows."""
    each = {name: expected for name, switch in switches.items() if (expected := catalogue.expected(switch, facts))}
    return [line for name, expected in each.items() for line in layout.paragraph(f"  {name}: ", expected, width, None)]


def legend(switches: Mapping[str, TuningSwitch], width: int) -> list[str]:
    """What the words of the table mean."""
    every = switches.values()
    words = [
        *(["as {name}: the command has this word where its value stands"] if any(switch.argument for switch in every) else []),
        *(["by its name: only where --switches names it, because it changes the machine"] if any(one.path for one in every) else []),
        *(["†: only with --result, a number of the output that must stay"] if any(one.changes == "results" for one in every) else []),
    ]
    return ["", *layout.paragraph("", "; ".join(words), width, None)] if words else []


def lines(name: str, switch: TuningSwitch, facts: SwitchFacts, reason: str) -> list[str]:
    """All that is known of one."""
    set_by = {
        "variables": " ".join(f"{key}={value}" for key, value in switch.variables.items()), "argument": f"{{{name}}} in the command",
        "prefix": " ".join(switch.prefix), "file": f"{switch.path} ← {switch.content}", "load": switch.load, "verb": switch.verb,
    }[switch.how]  # fmt: skip
    tolerance = f", within {switch.tolerance:g} relative" if switch.tolerance is not None else ""
    pairs = [
        ("is", switch.about), ("of", " and ".join(f"a {subject}" for subject in switch.subjects)), ("set by", set_by),
        ("as found", switch.standing), ("values", ", ".join(catalogue.values(switch, facts))),
        ("here", reason or applies(switch)),
        ("changes", f"{switch.changes}{tolerance}"), ("undone", switch.undo), ("expect", switch.expect),
        ("model", catalogue.expected(switch, facts)), ("source", switch.source),
    ]  # fmt: skip
    width = terminal.width()
    return [name, *(line for label, what in pairs if what for line in layout.paragraph(f"  {label:<9}", what, width))]
