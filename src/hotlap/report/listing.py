"""Lists beside the results: devices, runs, the machine table, a prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hotlap.record import Case, Device, Limit, Run
from hotlap.report import layout, words
from hotlap.report.layout import Cell, Column
from hotlap.store.bundle import Bundle
from hotlap.units import size
from hotlap.work import find, label


def heading(bundle: Bundle) -> str:
    """Two lines over a table: which run, of what, on what, how long, and why it stopped."""
    run = bundle.run
    labels = "  ".join(f"{k}={v}" for k, v in run.labels.items())
    rounds = 1 + max((s.round for s in bundle.samples), default=-1)
    first = [run.id, f"plan {run.plan.name}", words.counted(rounds, "round"), _ending(run), labels]
    second = [f"{d.selector} {d.name}" for d in measured(run)] + [f"on {run.machine.host}", f"hotlap {run.hotlap}"]
    return "\n".join(words.clean(" · ".join(part for part in parts if part)) for parts in (first, second)) + "\n"


def measured(run: Run) -> list[Device]:
    """The devices that the run measured, in its order; one the machine does not list stands with its key alone."""
    known = {device.key: device for device in run.machine.devices}
    return [known.get(key) or Device(target=run.target, index=0, name=key, kind="other") for key in run.devices]


def _ending(run: Run) -> str:
    if not run.ended:
        return "not finished: hotlap run --resume goes on"
    said = {"rounds_max": "all rounds done", "precision reached": "stopped at the precision asked", "budget": "stopped at the end of its budget"}
    return said.get(run.stopped, run.stopped)


# ---------------------------------------------------------------- devices


def devices(
    found: Sequence[Device], missing: Mapping[str, Mapping[str, str]], injections: Mapping[str, Mapping[str, str]], width: int = 100,
    color: bool = False,
) -> str:
    """What is here, what is not usable with what would make it so, and what the simulated GPU can be asked for."""
    lines = _devices(found, width, color) if found else ["no device that can be measured was found"]
    if missing:
        lines += ["", layout.painted("not usable here", "bold", color)]
        room = max(map(len, missing))
        for name, why in missing.items():
            remedy = f" → {why['remedy']}" if why.get("remedy") else ""
            lines += layout.paragraph(f"  {name:<{room}}  ", words.clean(f"{why.get('reason', '')}{remedy}"), width)
    if injections:
        lines += ["", layout.painted("simulated", "bold", color) + "  any GPU of the machine table: --target simulated:h200-sxm?OPTION&OPTION …"]
        room = max(len(why["example"]) for why in injections.values())
        for name, why in injections.items():
            example = why["example"] or name
            lines += layout.paragraph(f"  {example:<{room}}  ", why["about"], width)
    return "\n".join(lines)


def _devices(found: Sequence[Device], width: int, color: bool) -> list[str]:
    columns = [
        Column("device", [Cell(d.selector, "bold") for d in found]),
        Column("name", [Cell(words.clean(d.name)) for d in found], wrap=True),
        Column("units", [Cell(str(d.compute_units) if d.compute_units is not None else words.DASH) for d in found], right=True),
        Column("clock", [Cell(words.quantity(d.clock_max_hz, "Hz")) for d in found], right=True),
        Column("memory", [Cell(words.quantity(d.memory_bytes, "B")) for d in found], right=True),
        Column("machine table", [Cell(d.machine or words.DASH) for d in found]),
        Column("driver", [Cell(words.clean(d.driver) or words.DASH, "dim") for d in found], wrap=True),
    ]
    while len(columns) > 3 and layout.total([c for c in columns if not c.wrap]) + 40 > width:
        columns.pop(-2)
    return layout.Grid(columns, width).lines(color)


# ---------------------------------------------------------------- runs


def runs(bundles: Sequence[Bundle], width: int = 100, color: bool = False) -> str:
    """One line per run: id, when, plan, device, rounds, cases, how it ended, labels."""
    if not bundles:
        return "no runs are kept yet: hotlap run measures the plan quick"
    kept = [b.run for b in bundles]
    columns = [
        Column("run", [Cell(words.clean(r.id), "bold") for r in kept]),
        Column("began (UTC)", [Cell(words.clean(r.began.replace("T", " ")[:16])) for r in kept]),
        Column("plan", [Cell(words.clean(r.plan.name)) for r in kept]),
        Column("device", [Cell(", ".join(words.clean(d.selector) for d in measured(r))) for r in kept]),
        Column("rounds", [Cell(str(len({s.round for s in b.samples}))) for b in bundles], right=True),
        Column("cases", [Cell(str(len(r.plan.cases))) for r in kept], right=True),
        Column("ended", [_ended(r) for r in kept]),
        Column("labels", [Cell(words.clean(" ".join(f"{k}={v}" for k, v in r.labels.items()))) for r in kept], wrap=True),
    ]
    if layout.total(columns) > width:
        columns = [c for c in columns if c.head not in ("rounds", "cases")]
    if layout.total(columns) > width:
        columns = [c for c in columns if c.head != "began (UTC)"]  # the id begins with it
    return "\n".join(layout.Grid(columns, width).lines(color))


def _ended(run: Run) -> Cell:
    if not run.ended:
        return Cell("not finished", "warn")
    return Cell(words.clean(run.stopped), "warn" if run.stopped.startswith(("interrupted", "error")) else "")


# ---------------------------------------------------------------- the machine table


def machines(specs: Sequence[Any], width: int = 100, color: bool = False) -> str:
    """The machine table: a line per GPU; what is unknown is a dash."""
    facts = [_facts(spec) for spec in specs]
    columns = [Column("machine", [Cell(f["slug"], "bold") for f in facts])]
    for head, key, unit in (
        ("memory", "memory_bytes", "B"), ("bandwidth", "memory_bandwidth_b_s", "B/s"), ("units", "compute_units", ""), ("clock", "clock_max_hz", "Hz"),
        ("last cache", "cache_bytes", "B"), ("fp64", "fma.fp64", "FLOP/s"), ("fp32", "fma.fp32", "FLOP/s"), ("bf16 matrix", "matrix.bf16", "FLOP/s"),
    ):
        texts = [_fact(f, key, unit) for f in facts]
        if any(text != words.DASH for text in texts):
            columns.append(Column(head, [Cell(text) for text in layout.aligned(texts)]))
    while layout.total(columns) > width and len(columns) > 3:
        columns.pop()
    return "\n".join(layout.Grid(columns, width).lines(color))


def machine(spec: Any, width: int = 100) -> str:
    """One machine: every figure that is known, and where it comes from."""
    facts = _facts(spec)
    lines = [facts["slug"]]
    room = max(len(key) for key in facts)
    for key, value in facts.items():
        if value in (None, "", [], {}) or key == "slug":
            continue
        for number, text in enumerate(value if isinstance(value, list) else [value]):
            lines += layout.paragraph(f"  {key if number == 0 else '':<{room}}  ", _plain(text), width, most=8)
    return "\n".join(lines)


def _facts(spec: Any) -> dict[str, Any]:
    from hotlap.model import machines as table

    facts: dict[str, Any] = table.facts(spec)
    return facts


def _fact(facts: Mapping[str, Any], key: str, unit: str) -> str:
    value = facts.get(key)
    return str(value) if isinstance(value, int) and not unit else words.quantity(value, unit)


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.12g}".replace(",", " ")
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_plain(v)}" for k, v in value.items())
    return words.clean(str(value))


# ---------------------------------------------------------------- predict


def prediction(case: Case, machine_name: str, limit: Limit, width: int = 100) -> str:
    """Bound and expected time of one call, the rates they mean, what sets the limit, and the source of each term."""
    spec = find(case.workload)
    lines = [f"{label(case)} on {machine_name}"]
    if limit.kind == "unknown":
        return "\n".join([*lines, *layout.paragraph("  unknown   ", limit.reason or "no figure is known", width)])
    for name, seconds in (("bound", limit.bound_s), ("expected", limit.expected_s)):
        if seconds is not None:
            rate = f"  {words.quantity(spec.value(float(seconds), case.params), spec.unit)}" if spec.unit != "s" else ""
            between = _between(limit) if name == "expected" else "  nothing can be faster"
            lines.append(f"  {name:<9} {words.quantity(float(seconds), 's'):>9}{rate}{between}")
    if limit.limiter:
        lines.append(f"  set by    {limit.limiter}")
    for number, one in enumerate(limit.provenance):
        lines += layout.paragraph(f"  {'from' if number == 0 else '':<9} ", f"{one.name} {words.quantity(one.value, one.unit)}: {one.source}", width)
    return "\n".join(lines)


def _between(limit: Limit) -> str:
    if limit.low_s is None or limit.high_s is None:
        return ""
    return f"  between {words.quantity(float(limit.low_s), 's')} and {words.quantity(float(limit.high_s), 's')}"


def case_facts(case: Case) -> str:
    """Work of one call in words: bytes and operations."""
    done = find(case.workload).work(case.params)
    parts = [f"{size(done.memory_bytes)} of memory"] if done.memory_bytes else []
    parts += [f"{words.quantity(n, 'FLOP' if 'int' not in unit else 'OP')} {unit}" for unit, n in done.operations.items()]
    return ", ".join(parts)


def as_plain(value: Any) -> Any:
    """Records as dictionaries and lists, for JSON."""
    return msgspec.to_builtins(value)
