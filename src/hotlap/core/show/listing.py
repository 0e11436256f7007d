"""Lists beside the results: devices, runs, the machine table, a prediction."""

from __future__ import annotations

import dataclasses
import statistics
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hotlap.core.analysis import fleets, reference
from hotlap.core.model.gap import from_bound
from hotlap.core.model.machines import Spec
from hotlap.core.record import UNNAMED, Baseline, Case, Device, Limit, Notice, Reference, Result, Row, RunRecord, Stop, StopKind
from hotlap.core.show import kinds, layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.stats import repeatability
from hotlap.core.store.bundle import Bundle, RunHeader
from hotlap.core.store.fold import bad
from hotlap.core.units import percent, show, size
from hotlap.core.work import find, label, unsaid

FEW_DEVICES = 2  # of a run, that are named one by one in a list
STATES = {"pass": "good", "fail": "bad", "inconclusive": "warn"}  # of a stress run that came to its end
ENDINGS: dict[StopKind, str] = {
    "precision": "enough rounds", "rounds_max": "all rounds done", "budget": "budget spent", "no_number": "no case gave a number",
    "planned_pairs": "no answer within the planned pairs", "interrupted": "interrupted", "error": "error", "over": "the time is over",
    "by_hand": "stopped by hand", "program_ended": "the program ended", "imported": "imported", "unknown": "",
}

FINISHED: tuple[StopKind, ...] = ("precision", "rounds_max", "budget", "imported")  # ends that were planned


def heading(bundle: Bundle, rows: Sequence[Row] = ()) -> str:
    """Two lines over a table: which run, of what, on what, how long, and why it stopped. `rows`: what can be said of its precision."""
    run = bundle.run
    labels = "  ".join(f"{k}={v}" for k, v in run.labels.items())
    rounds = 1 + max((s.round for s in bundle.samples), default=-1) if kinds.has_cases(run.kind) else 0
    replaced = ", bad ones among them" if rounds > run.plan.measure.rounds_max and any(map(bad, bundle.samples)) else ""
    counted = f"{words.counted(rounds, 'round')}{replaced}{early(rows, rounds)}" if rounds else ""
    first = [run.id, kinds.subject(run), counted, ending(run, bundle.is_being_measured), labels]
    asked = _precision(run, rows) if run.plan.cases and rounds else ""
    second = [*_named(measured(run)), "" if run.machine.host == UNNAMED else f"on {run.machine.host}", f"hotlap {run.hotlap}", asked]
    return "\n".join(words.clean(" · ".join(part for part in parts if part)) for parts in (first, second)) + "\n"


def early(rows: Sequence[Row], rounds: int) -> str:
    """That cases have fewer rounds than the run; "" where they have not."""
    fewer = any(row.summary.reached and len(row.result.rounds) < rounds for row in rows)
    return "; cases that reach the precision stop earlier" if fewer else ""


def _precision(run: RunRecord, rows: Sequence[Row]) -> str:
    if run.asked is None or run.asked.sustain_s:
        return ""
    asked, wider = f"± {show(run.asked.precision, '%', 2)}", words.wider(rows, run.asked.precision)
    if not wider:
        return f"precision asked {asked}"
    if {stop.kind for stop in run.stops} == {"precision"}:
        return f"every case is expected within {asked}; {wider}"
    return f"precision asked {asked}; {wider}"


def _named(devices: Sequence[Device]) -> list[str]:
    """Each by selector and name; several of one name together."""
    by: dict[str, list[str]] = {}
    for one in devices:
        by.setdefault(one.name, []).append(one.selector)
    return [f"{s[0]} … {s[-1]} {len(s)} × {name}" if len(s) > 2 else f"{' and '.join(s)} {name}" for name, s in by.items()]


def measured(run: RunRecord) -> list[Device]:
    """The devices that the run measured, in its order; one the machine does not list stands with its key alone."""
    known = {device.key: device for device in run.machine.devices}
    return [known.get(key) or Device(target=run.target, index=0, name=key, kind="other") for key in run.devices]


BEING_MEASURED = "being measured now: what it has so far"


def ending(run: RunRecord, being_measured: bool = False) -> str:
    """How a run ended, in words."""
    if being_measured:
        return BEING_MEASURED
    if not run.ended:
        return kinds.unfinished(run.kind, run.part_of)
    return stopped(run.stops, kinds.ended(run.kind))


def stopped(stops: Sequence[Stop], own: Mapping[str, str] = {}) -> str:
    """Why a run ended, in words. `own`: those of its kind."""
    return "; ".join(_stopped(stop, own.get(stop.kind, ENDINGS[stop.kind])) for stop in stops)


def _stopped(stop: Stop, ending: str) -> str:
    if stop.kind == "program_ended" and stop.detail:
        return f"{ending} with {stop.detail}"
    return ": ".join(part for part in (ending, stop.detail or stop.state) if part)


# ---------------------------------------------------------------- devices


def devices(devices: Sequence[Device], missing: Mapping[str, Mapping[str, str]], width: int = 100, color: bool = False) -> str:
    """What is here, and what is not usable with what would make it so."""
    lines = _devices(devices, width, color) if devices else ["no device that can be measured was found"]
    if missing:
        lines += ["", layout.painted("not usable here", "bold", color)]
        room = max(map(len, missing))
        for name, why in missing.items():
            remedy = f" → {why['remedy']}" if why.get("remedy") else ""
            lines += layout.paragraph(f"  {name:<{room}}  ", words.clean(f"{why.get('reason', '')}{remedy}"), width)
    hint = "any GPU of the machine table: --target simulated:h200-sxm; hotlap devices --simulated lists GPUs and faults"
    return "\n".join([*lines, "", *layout.paragraph(layout.painted("simulated", "bold", color) + "  ", hint, width)])


def simulated(names: Sequence[str], injections: Mapping[str, Mapping[str, str]], width: int = 100, color: bool = False) -> str:
    """What a simulated GPU can be asked for: the machines of the table, and options that make noise and faults."""
    lines = [layout.painted("machines", "bold", color), *layout.paragraph("  ", ", ".join(names), width, most=20), ""]
    usage = "--target 'simulated:h200-sxm?OPTION&OPTION': what it does → what Hotlap then says"
    lines += [f"{layout.painted('options', 'bold', color)}  {usage}"]
    room = max((len(why["example"] or name) for name, why in injections.items()), default=0)
    for name, why in injections.items():
        lines += layout.paragraph(f"  {why['example'] or name:<{room}}  ", f"{why['about']} → {why['answer']}", width)
    return "\n".join(lines)


def _devices(devices: Sequence[Device], width: int, color: bool) -> list[str]:
    columns = [
        Column("device", [Cell(d.selector, "bold") for d in devices]),
        Column("name", [Cell(words.clean(d.name)) for d in devices], wrap=True),
        Column("units", [Cell(str(d.compute_units) if d.compute_units is not None else words.DASH) for d in devices], right=True),
        Column("clock", [Cell(words.quantity(d.clock_max_hz, "Hz")) for d in devices], right=True),
        Column("memory", [Cell(words.DASH if d.memory_bytes is None else size(d.memory_bytes)) for d in devices], right=True),
        Column("machine table", [Cell(d.machine or words.DASH) for d in devices]),
        Column("driver", [Cell(words.clean(d.driver) or words.DASH, "dim") for d in devices], wrap=True),
    ]
    for head in ("driver", "machine table", "units"):
        if layout.total(columns) > width:
            columns = [column for column in columns if column.head != head]
    return layout.Grid(columns, width).lines(color)


# ---------------------------------------------------------------- runs


def runs(kept: Sequence[RunHeader], width: int = 100, color: bool = False, left_out: int = 0, now: Collection[str] = ()) -> str:
    """One line per run: id, when, plan, device, rounds, cases, how it ended, labels. `left_out`: older ones that are not shown. `now`:
    ids of those that are being measured."""
    older = f"… {words.counted(left_out, 'older run')}: hotlap list --all\n" if left_out else ""
    return older + _runs(kept, width, color, now)


def _runs(kept: Sequence[RunHeader], width: int, color: bool, now: Collection[str]) -> str:
    if not kept:
        return "no runs are kept yet: hotlap run measures the plan quick"
    columns = [
        Column("run", [Cell(words.clean(r.id), "bold") for r in kept]),
        Column("began (UTC)", [Cell(words.clean(r.began.replace("T", " ")[:16])) for r in kept]),
        Column("plan", [Cell(words.clean(r.plan or r.kind)) for r in kept], wrap=True),
        Column("device", [Cell(words.clean(_on(r))) for r in kept], wrap=True),
        Column("rounds", [Cell(words.DASH if r.rounds is None else str(r.rounds)) for r in kept], right=True),
        Column("cases", [Cell(str(r.cases)) for r in kept], right=True),
        Column("ended", [Cell("measured now", "good") if r.id in now else _ended(r) for r in kept], wrap=True),
    ]
    if len({r.host for r in kept if r.host}) > 1:
        columns.insert(3, Column("host", [Cell(words.clean(r.host) or words.DASH) for r in kept], wrap=True))
    labels = [" ".join(words.clean(f"{name}={value}") for name, value in r.labels.items()) for r in kept]
    forms = [[column for column in columns if column.head not in spare] for spare in RUN_SPARE]
    beside = [[*form, Column("labels", list(map(Cell, labels)))] for form in forms]
    fits = next((form for form in beside if layout.total(form) <= width), None)
    if fits:
        return "\n".join(layout.Grid(fits, width).lines(color))
    grid = layout.Grid(next((form for form in forms if layout.total(form) <= width), forms[-1]), width)
    lines = [grid.header(color)]
    for place, own in enumerate(labels):  # below their run, each whole: it is a selector to copy
        lines += [*grid.line(place, color), *textwrap.wrap(own, width, **_WHOLE)]
    return "\n".join(lines)


RUN_SPARE = ((), ("rounds", "cases"), ("rounds", "cases", "began (UTC)"))  # columns that go first: an id begins with the time
_WHOLE: dict[str, Any] = {"initial_indent": "    ", "subsequent_indent": "    ", "break_long_words": False, "break_on_hyphens": False}


def _on(run: RunHeader) -> str:
    """The devices: a few by their selectors, more by model and number."""
    if len(run.devices) <= FEW_DEVICES:
        several = Counter(run.devices).items()
        named = ", ".join(f"{name} × {count}" if count > 1 else name for name, count in several)
        return named + (f" on {run.host}" if run.written_by and run.host else "")
    counts = Counter(run.models or [name.partition(":")[0] for name in run.devices])
    return words.some([f"{model} × {count}" for model, count in counts.items()], 2)


def _ended(run: RunHeader) -> Cell:
    if run.written_by:
        return Cell(f"needs hotlap {words.clean(run.written_by)}", "warn")
    if not run.ended:
        return Cell("not finished", "warn")
    stop = next(iter(run.stops), Stop("unknown"))
    if stop.state in STATES:
        return Cell(stop.state.upper(), STATES[stop.state])
    if stop.kind == "error":
        return Cell(f"error: {layout.shortened(words.clean(stop.detail), 40)}", "bad")
    return Cell(words.clean(stopped(run.stops)), "warn" if stop.kind == "interrupted" else "")


# ---------------------------------------------------------------- baselines


def baselines(baselines: Sequence[Baseline], promoted: str, width: int = 100, color: bool = False) -> str:
    """One line per baseline; the promoted one is marked."""
    if not baselines:
        return "no baselines are saved yet: hotlap baseline save RUN --name N learns one"
    columns = [
        Column("baseline", [Cell(one.name + (" (promoted)" if one.name == promoted else ""), "bold") for one in baselines]),
        Column("saved (UTC)", [Cell(one.saved.replace("T", " ")[:16]) for one in baselines]),
        Column("runs", [Cell(str(len({run for ref in one.references for run in ref.runs}))) for one in baselines], right=True),
        Column("devices", [Cell(str(len({ref.identity for ref in one.references}))) for one in baselines], right=True),
        Column("cases", [Cell(str(len({ref.case.id for ref in one.references}))) for one in baselines], right=True),
        Column("models", [Cell(words.clean(", ".join(dict.fromkeys(r.model for r in one.references)))) for one in baselines], wrap=True),
    ]
    return "\n".join(layout.Grid(columns, width).lines(color))


def baseline(baseline: Baseline, width: int = 100, color: bool = False) -> str:
    """A line per case and device: what is normal, how much runs differ, and from how many runs that is known. Of more than eight devices a
    line per case and model."""
    refs, gates = baseline.references, _gates(baseline.references)
    columns = _folded(refs, gates) if len({one.identity for one in refs}) > fleets.MANY else _each(refs, gates)
    few = sum(len(one.runs) < 4 for one in refs)
    good, usable = (percent(share * TOLERANCE) for share in (repeatability.GOOD, repeatability.USABLE))
    reading = (
        f"usable as gate: how widely runs of the same code spread ({repeatability.WIDTH:g} standard deviations): under {good} of the value "
        f"is good, up to {usable} usable, above too noisy to see a loss; cannot tell: too few runs"
    )
    lines = [f"{baseline.name}, saved {baseline.saved.replace('T', ' ')[:16]} UTC", *layout.fitted(columns, width).lines(color)]
    if few:
        which = "it has" if len(refs) == 1 else f"{few} of {len(refs)} {'has' if few == 1 else 'have'}"
        advice = f"{which} fewer than 4 runs, which say little of how runs differ; add runs with --add"
        lines += ["", *layout.paragraph("", advice, width)]
    if useless := sum(map(reference.too_few, refs)):
        which = "it has" if len(refs) == 1 else f"{useless} of {len(refs)} {'has' if useless == 1 else 'have'}"
        lines += ["", *layout.paragraph("", f"{which} fewer than {reference.FEWEST_ROUNDS} rounds: no gate can compare with so few", width)]
    if noisy := _noisy(refs):
        lines += ["", *layout.paragraph("", noisy, width)]
    return "\n".join([*lines, "", *(layout.painted(piece, "dim", color) for piece in layout.paragraph("", reading, width))])


def disturbed(results: Sequence[Result], baseline: Baseline) -> str:
    """That other programs ran while a baseline's rounds were measured, and what to do."""
    cases = list(dict.fromkeys(label(one.case) for one in results))
    known = words.counted(len({one.case.id for one in baseline.references}), "case")
    which = f"{len(cases)} of {known} ({words.some(cases)}) {'was' if len(cases) == 1 else 'were'}"
    return (
        f"other programs ran while {which} measured: what is called normal may be too slow, and a gate against it then misses losses; "
        "measure again on a quiet machine, and save it anew with --replace"
    )


def _noisy(refs: Sequence[Reference]) -> str:
    """Which cases can hardly gate, and what is found of them at all; "" where none is so noisy."""
    seen: dict[str, float] = {}
    for one in refs:
        if (share := reference.finds(one) or 0.0) > reference.NOISIEST:
            seen[label(one.case)] = max(share, seen.get(label(one.case), 0.0))
    if not seen:
        return ""
    worst = f"{'' if len(seen) == 1 else 'up to '}{percent(max(seen.values()), 2)}"
    few = words.some(list(seen))
    finds = f"by its noise alone a gate against it finds only losses above {worst} of {few}, or more where the new run is noisier"
    drift = "" if reference.is_of_days(refs) else ", and what is allowed for drift comes on top until it has runs of three days"
    return f"noisy: {finds}{drift}; more rounds, or a quieter machine, and save it anew"


def _each(refs: Sequence[Reference], gates: Mapping[str, str]) -> list[Column]:
    medians = [[statistics.median(values) for values in one.runs.values()] for one in refs]
    spreads = [statistics.stdev(m) / abs(statistics.mean(m)) if len(m) > 1 and statistics.mean(m) else None for m in medians]
    return [
        Column("case", [Cell(words.clean(label(one.case))) for one in refs], wrap=True),
        Column("device", [Cell(words.clean(f"{one.target} {one.model}"), "dim") for one in refs], wrap=True),
        Column("normal", [Cell(text, "bold") for text in layout.aligned([_normal(one, m) for one, m in zip(refs, medians, strict=True)])]),
        Column("run-to-run CV", [Cell(words.DASH if s is None else percent(s)) for s in spreads], right=True),
        Column("runs", [Cell(str(len(one.runs)), "" if len(one.runs) >= 4 else "warn") for one in refs], right=True),
        Column("usable as gate", [Cell(gates[one.case.id], GATE_STYLES.get(gates[one.case.id], "")) for one in refs]),
    ]


def _folded(refs: Sequence[Reference], gates: Mapping[str, str]) -> list[Column]:
    """Of many devices: the least and the most that is normal for one of them."""
    groups: dict[tuple[str, str], list[Reference]] = {}
    for one in refs:
        groups.setdefault((one.case.id, f"{one.target} {one.model}"), []).append(one)
    normal = [[statistics.median(map(statistics.median, one.runs.values())) for one in own] for own in groups.values()]
    runs = [sorted(len(one.runs) for one in own) for own in groups.values()]
    counts = [str(own[0]) if own[0] == own[-1] else f"{own[0]} to {own[-1]}" for own in runs]
    first = [own[0] for own in groups.values()]
    least, most = (
        layout.aligned([words.quantity(end(values), one.unit) for values, one in zip(normal, first, strict=True)]) for end in (min, max)
    )
    return [
        Column("case", [Cell(words.clean(label(one.case))) for one in first], wrap=True),
        Column("model", [Cell(words.clean(model), "dim") for _, model in groups], wrap=True),
        Column("devices", [Cell(str(len(values))) for values in normal], right=True),
        Column("normal, min", [Cell(text, "bold") for text in least]), Column("max", [Cell(text, "bold") for text in most]),
        Column("runs", [Cell(count, "" if own[0] >= 4 else "warn") for count, own in zip(counts, runs, strict=True)], right=True),
        Column("usable as gate", [Cell(gates[case], GATE_STYLES.get(gates[case], "")) for case, _ in groups]),
    ]


TOLERANCE = 0.10  # full width, of the value: what a part of a fleet may differ by and still be one of them
GATE_STYLES = {"too noisy": "bad", "usable": "warn", "cannot tell": "dim"}


def _gates(refs: Sequence[Reference]) -> dict[str, str]:
    """By case: whether its repeatability, over all devices, earns it the right to gate (gauge R&R)."""
    cases: dict[str, list[list[float]]] = {}
    for one in refs:
        medians = [statistics.median(values) for values in one.runs.values()]
        cases.setdefault(one.case.id, []).append([v for v in medians if v > 0])
    return {case: repeatability.gauge(values).may_gate(TOLERANCE) for case, values in cases.items()}


def _normal(of: Reference, medians: Sequence[float]) -> str:
    return words.quantity(statistics.median(medians), of.unit)


# ---------------------------------------------------------------- the machine table


def machines(specs: Sequence[Spec], width: int = 100, color: bool = False) -> str:
    """The machine table: a line per GPU, peaks at the highest clock; what is unknown is a dash."""
    columns = [Column("machine", [Cell(spec.slug, "bold") for spec in specs])]
    for head, fact in MACHINE_COLUMNS.items():
        texts = [fact(spec) for spec in specs]
        columns.append(Column(head, [Cell(text) for text in layout.aligned(texts)]))
    while layout.total(columns) > width and len(columns) > 4:
        columns.pop()
    reading = layout.painted("peaks at the highest clock; – is unknown; hotlap model machines NAME has its sources", "dim", color)
    return "\n".join([*layout.Grid(columns, width).lines(color), "", reading])


def _units(spec: Spec) -> str:
    return words.DASH if spec.compute_units is None else str(spec.compute_units)


MACHINE_COLUMNS: Mapping[str, Callable[[Spec], str]] = {  # in the order in which they are shown as far as there is room
    "memory": lambda s: words.DASH if s.memory_bytes is None else size(s.memory_bytes),
    "bandwidth": lambda s: words.quantity(s.memory_bandwidth_b_s, "B/s"),
    "fp32": lambda s: words.quantity(s.rate("fma.fp32"), "FLOP/s"),
    "bf16 matrix": lambda s: words.quantity(s.rate("matrix.bf16"), "FLOP/s"),
    "fp64": lambda s: words.quantity(s.rate("fma.fp64"), "FLOP/s"),
    "units": _units,
    "clock": lambda s: words.quantity(s.clock_max_hz, "Hz"),
    "cache": lambda s: words.DASH if s.cache_bytes is None else size(s.cache_bytes),
    "power": lambda s: words.quantity(s.power_w, "W"),
    "fp8 matrix": lambda s: words.quantity(s.rate("matrix.fp8"), "FLOP/s"),
}


def machine(spec: Spec, width: int = 100) -> str:
    """One machine: every figure that is known, its peaks, and where they come from."""
    facts = [_plain(f.name, getattr(spec, f.name)) for f in dataclasses.fields(spec) if f.name not in _ELSEWHERE]
    facts += [(f"peak {unit}", words.quantity(spec.rate(unit), "FLOP/s" if "int" not in unit else "OP/s")) for unit in spec.flop_per_clock]
    facts += [("edited" if not n else "", f"{name}: {was}") for n, (name, was) in enumerate(spec.edits.items())]
    if spec.published_peak:
        facts.append(("published peak", f"{words.quantity(spec.published_peak.flop_s, 'FLOP/s', 4)} ({spec.published_peak.unit})"))
    facts += [("sources" if not n else "", source) for n, source in enumerate(spec.sources)] + [("notes", spec.notes)]
    shown = [(name, text) for name, text in facts if text]
    room = max(len(name) for name, _ in shown)
    lines = [spec.slug]
    for name, text in shown:
        lines += layout.paragraph(f"  {name:<{room}}  ", words.clean(text), width, most=8)
    return "\n".join(lines)


_EDITED = ("original", "edits", "l2_factor", "launch_factor", "link_latency_factor")
_ELSEWHERE = ("slug", "sources", "notes", "flop_per_clock", "published_peak", "kind", "clock_proven", *_EDITED)
_ENDINGS = {"_bytes": "B", "_b_s": "B/s", "_hz": "Hz", "_w": "W"}


def _plain(key: str, value: object) -> tuple[str, str]:
    """A field of Spec in words: its name without the unit, its figure with it; "" where unknown."""
    end = next((end for end in _ENDINGS if key.endswith(end)), "")
    name = key.removesuffix(end).replace("_", " ")
    if value is None:
        return name, ""
    if end and isinstance(value, (int, float)):
        return name, size(value) if end == "_bytes" else words.quantity(value, _ENDINGS[end], 4)
    if isinstance(value, (tuple, list)):
        return name, ", ".join(map(str, value))
    return name, f"{value:g}" if isinstance(value, float) else str(value)


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
    lines += _expectation(limit, width)
    lines += layout.paragraph("  defaults  ", by_default, width) if (by_default := unsaid(case)) else []
    for number, one in enumerate(limit.provenance):
        lines += layout.paragraph(f"  {'from' if number == 0 else '':<9} ", f"{words.term(one)}: {one.source}", width)
    return "\n".join(lines)


SURE = ("outside_measured", "nearest_kernel")  # notes that say how sure an expectation is


def _expectation(limit: Limit, width: int) -> list[str]:
    """The kernel that is thought to run, what its time is made of, power, and how sure all of it is."""
    facts = [("expected", f"no value: {note.seen}") for note in _notes(limit, "no_expectation")]
    if limit.choice:
        facts.append(("runs", ", ".join(f"{name.replace('_', ' ')} {_chosen(value)}" for name, value in limit.choice.items())))
    if limit.parts and limit.expected_s:
        whole, (parts, own) = float(limit.expected_s), from_bound(limit.parts, limit)
        large = [one for one in sorted(parts.items(), key=lambda one: -abs(one[1])) if abs(one[1]) >= 0.01 * whole]
        rest = sum(parts.values()) - sum(value for _, value in large)
        large += [("the rest", rest)] if abs(rest) >= 0.005 * whole else []
        made = ", ".join(f"{name} {words.quantity(value, 's')} ({percent(value / whole)})" for name, value in large)
        beside = f"; what runs at the same time as {own} counts by what it adds" if parts != limit.parts else ""
        facts.append(("made of", made + beside))
    if limit.power_w is not None:
        values = ((limit.power_w, "W"), (limit.energy_j, "J"), (limit.clock_hz, "Hz"))
        power, energy, clock = (words.quantity(float(value), unit) for value, unit in values)
        facts.append(("power", f"{power}, {energy} a call, holding {clock}"))
    facts += [("memory", note.text) for note in _notes(limit, "does_not_fit")]
    if limit.parts.get("DRAM"):  # then bound and expectation do not count the same
        facts += [("memory", f"{note.text}; the expected time reads from DRAM") for note in _notes(limit, "memory_left_out")]
    if limit.calibration_level:
        facts.append(("how sure", "; ".join([limit.calibration_level, *(note.text for code in SURE for note in _notes(limit, code))])))
    return [line for name, text in facts for line in layout.paragraph(f"  {name:<9} ", words.clean(text), width)]


def _notes(limit: Limit, code: str) -> list[Notice]:
    return [note for note in limit.notes if note.code == code]


def _chosen(value: Any) -> str:
    """A name, a whole number in full while it is short, or three digits."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e7 else f"{value:.3g}"


def _between(limit: Limit) -> str:
    if limit.low_s is None or limit.high_s is None:
        return ""
    return f"  between {words.quantity(float(limit.low_s), 's')} and {words.quantity(float(limit.high_s), 's')}"
