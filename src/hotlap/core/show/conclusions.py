"""What a manager reads: the figures that matter, what was found, and what to do, from the rows alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hotlap.core.analysis import commands
from hotlap.core.record import Finding, Row
from hotlap.core.show import commands as showing
from hotlap.core.show import notices as noticing
from hotlap.core.show import words
from hotlap.core.show.listing import FINISHED, stopped
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import percent, show
from hotlap.core.work import traits
from hotlap.core.work.traits import Shows

AT_LIMIT = 0.9  # as `model.gap` names it
WIDE_SHARE = 1 / 3  # of the cases: a notice of more is worth a sentence of its own
MOST_GAPS, MOST_ACTIONS = 3, 6

CAUSE_ACTIONS = {  # a cause of the glossary: what would close the gap
    "power": "raise the power limit where that is allowed; else plan with the rate that was measured",
    "heat": "improve cooling: airflow, fans, thermal contact; else plan with the rate that was measured",
    "clock": "find what holds the clock down: power limit, temperature, or clocks that an administrator set",
    "launch": "do more work per launch, or replay launches as a graph",
    "shared": "stop what else uses the device, then run again",
    "overlap": "load ahead of the arithmetic: more work in flight, or software pipelining",
    "too_small": "give the device more work at once: larger sizes or batches",
    "latency": "keep more independent work in flight",
    "cache": "keep the working set within the cache level that is fast enough",
    "bandwidth": "move fewer bytes: fuse passes over memory, or use smaller types",
    "rop": "write fewer pixels: draw from front to back, blend less, use smaller formats",
    "texture_unit": "take fewer texels of a pixel, or a cheaper filter",
    "geometry_unit": "draw fewer, larger triangles, and leave out those that do not show",
    "arithmetic": "use a narrower type or the matrix engines, where the numbers allow it",
}


AGAINST = {"bound": "bound", "expected": "expected value"}
WORK = ("model kernels", "science", "user")  # families whose cases somebody can change; the others measure the machine itself


@dataclass(frozen=True)
class Figure:
    """One number that stands for a whole field."""

    title: str
    row: Row


@dataclass(frozen=True)
class Conclusions:
    """`verdict` and `banner` are a sentence or two; findings are heaviest first; actions say what to do next, most useful first."""

    verdict: str
    banner: str  # that the machine was busy; "" where it was not
    figures: tuple[Figure, ...]
    findings: tuple[Finding, ...]
    actions: tuple[str, ...]
    usable: bool = True  # no number is inconclusive or invalid


def conclude(bundle: Bundle, rows: Sequence[Row]) -> Conclusions:
    """The conclusions of one run."""
    busy = noticing.busy(rows)
    notable = [notice for notice in noticing.find(rows) if notice.code != "busy" or not busy]
    gaps = largest_gaps(rows)
    findings = [*_run(bundle), *_compared(bundle), *_doubted(rows, notable), *_near(rows), *_far(gaps), *_unknown(rows)]
    weight = {"error": 0, "warning": 1, "info": 2}
    ordered = sorted(findings, key=lambda one: weight[one.severity])
    verdict, banner = _verdict(bundle, rows), noticing.banner(rows)
    return Conclusions(verdict, banner, tuple(figures(rows)), tuple(ordered), tuple(actions(notable, gaps)), _usable(rows))


def _usable(rows: Sequence[Row]) -> bool:
    return not any(row.verdict.state in ("inconclusive", "invalid") for row in rows)


def _verdict(bundle: Bundle, rows: Sequence[Row]) -> str:
    counts = {state: sum(row.verdict.state == state for row in rows) for state in words.STATES}
    if not rows:
        return "Nothing was measured."
    good, run = counts["measured"], len(rows) - counts["not_run"]
    precision = bundle.run.asked.precision if bundle.run.asked and not bundle.run.asked.sustain_s else None
    verb = "reaches" if good < 2 and good != run else "reach"
    asked = f"{verb} the precision asked, ± {show(precision, '%', 2)}" if precision else "can be used"
    wider = words.wider(rows, precision) if precision else ""
    asked += f", by how much {'its' if good == 1 else 'their'} rounds differ" if wider else ""
    rest = ", ".join(f"{n} {words.STATES[state]}" for state, n in counts.items() if n and state != "measured")
    which = f"All {run} cases that ran" if good == run and run else "No case" if not good else f"{good} of {run} cases that ran"
    return "; ".join(filter(None, (f"{which} {asked}", wider, rest))) + "."


# ---------------------------------------------------------------- key figures


def figures(rows: Sequence[Row]) -> list[Figure]:
    """At most one per field, in the order of the table; fields that were not measured are left out. Of an invalid number only
    where the field has no other: it is marked."""
    standing = [row for row in rows if words.stands(row)]
    numbered = [row for row in rows if words.numbered(row)]
    picks: tuple[tuple[str, Callable[[Sequence[Row]], Row | None]], ...] = (
        ("Memory bandwidth", _memory), ("Arithmetic, fp32", _fma), ("Matrix product", _matrix), ("Load latency, memory", _chase),
        ("Kernel launch", _launch), ("Host to device", _link),
    )
    found = [Figure(title, row) for title, pick in picks if (row := pick(standing) or pick(numbered))]
    own = [Figure(words.clean(row.label), row) for row in numbered if words.family(row) == "user"]
    return found + own[: max(0, 6 - len(found))]


def _of(rows: Sequence[Row], shows: Shows, **params: object) -> list[Row]:
    return [r for r in rows if traits(r.case.workload).shows == shows and all(r.case.params.get(k) == v for k, v in params.items())]


def size_of(row: Row) -> float:
    value = row.case.params.get("size", 0)
    return float(value) if isinstance(value, (int, float)) else 0.0


def median_of(row: Row) -> float:
    return row.summary.median or 0.0


def _memory(rows: Sequence[Row]) -> Row | None:
    """The best of the largest working sets: the plateau, not a cache."""
    streams = _of(rows, "memory")
    largest = max(map(size_of, streams), default=0.0)
    return max((r for r in streams if size_of(r) == largest), key=median_of, default=None)


def _fma(rows: Sequence[Row]) -> Row | None:
    return next(iter(_of(rows, "vector", dtype="fp32")), None)


def _matrix(rows: Sequence[Row]) -> Row | None:
    return max((r for r in _of(rows, "matrix") if r.result.unit == "FLOP/s"), key=median_of, default=None)


def _chase(rows: Sequence[Row]) -> Row | None:
    return max(_of(rows, "load"), key=size_of, default=None)


def _launch(rows: Sequence[Row]) -> Row | None:
    return next(iter(_of(rows, "launch", mode="single") or _of(rows, "launch")), None)


def _link(rows: Sequence[Row]) -> Row | None:
    return max(_of(rows, "host link", direction="h2d"), key=size_of, default=None)


# ---------------------------------------------------------------- findings


def _run(bundle: Bundle) -> list[Finding]:
    run = bundle.run
    findings = [Finding(title="The record is not whole", detail=words.clean(notice.text), severity="warning") for notice in bundle.notices]
    if bundle.is_being_measured:
        findings.append(Finding(title="The run is being measured now", detail="what it has so far is shown"))
    elif not run.ended:
        action = f"begin anew: {words.clean(run.part_of)}" if run.part_of else "hotlap run --resume goes on with it"
        findings.append(Finding(title="The run did not finish", detail="what was kept is shown", action=action))
    elif any(stop.kind not in FINISHED for stop in run.stops):
        findings.append(Finding(title="The run was stopped", detail=words.clean(stopped(run.stops)), severity="warning"))
    return findings


def _compared(bundle: Bundle) -> list[Finding]:
    """Of commands that were measured together: which is faster, and how sure that is."""
    measured = commands.of(bundle)
    if measured is None:
        return []
    names = f"{', '.join(f'{row.name}: {words.clean(row.command)}' for row in measured.rows)}"
    return [
        Finding(title=answer, detail=f"{basis}; {names}", severity="info", cases=[row.case for row in measured.rows])
        for answer, basis in showing.compared(measured)
    ]


def _doubted(rows: Sequence[Row], notices: Sequence[noticing.TableNotice]) -> list[Finding]:
    """What is invalid or failed, what is less certain than asked, and what touches much of the run."""
    having = sum(map(words.numbered, rows))
    findings = []
    for notice in notices:
        wide = len(notice.rows) > WIDE_SHARE * having or notice.code in ("throttled", "too_short")
        if notice.severity == "error" or wide or any(row.verdict.state == "inconclusive" for row in notice.rows):
            title = TITLES.get(notice.code, notice.word.capitalize())
            findings.append(Finding(
                title=f"{title}: {noticing.which(notice, rows)}", detail=notice.seen or words.some(notice.labels), severity=notice.severity,
                cases=[row.case.id for row in notice.rows], action=notice.action,
            ))
    return findings


TITLES = {
    "wrong_result": "Wrong result", "tampered": "Timing was tampered with", "timers": "Device timer and wall clock disagree",
    "beats_bound": "Faster than the provable bound", "invalid": "Invalid", "error": "Failed", "too_short": "Too short to time",
    "incomplete": "Rounds failed", "aggregate": "Aggregates whose samples were not kept",
    "few_rounds": "Too few rounds for a 95 % interval", "busy": "Other programs used the machine",
    "throttled": "The clock was throttled", "not_steady": "No steady state was found", "drift": "Samples drifted",
    "bimodal": "Samples gather around two levels", "clock_varied": "The clock varied", "noise": "Rounds differ more than the plan allows",
    "few_samples": "Few samples", "timer_coarse": "The timer is coarse", "timer_refused": "The wall clock was used",
    "one_process": "Rounds shared one process", "new_memory": "Calls get new memory from the system",
    "limit_lowered": "The power limit was lowered",
    "low_clock": "The clock was below its maximum", "power_cap": "The load reached the power limit",
    "whole_card": "Sensors of the whole card, not of its slice", "first_cache": "Small reads come from each unit's first cache",
    "emulated": "Arithmetic made of other instructions", "far_host": "The host's side ran far from the GPU",
    "not_deterministic": "Equal calls gave other bits", "leak": "Memory grew with the calls",
}


def held(rows: Sequence[Row]) -> list[Row]:
    """Rows that are compared with something the run did not set itself."""
    return [row for row in rows if words.stands(row) and row.gap.share is not None and row.gap.reference_kind in ("bound", "expected")]


def _near(rows: Sequence[Row]) -> list[Finding]:
    near = [row for row in held(rows) if (row.gap.share or 0) >= AT_LIMIT]
    if not near:
        return []
    shares = [row.gap.share or 0 for row in near]
    reach = " to ".join(dict.fromkeys((percent(min(shares)), percent(max(shares)))))
    best = sorted(near, key=lambda row: -(row.gap.share or 0))
    reach_it = "reaches" if len(near) == 1 else "reach"
    title = f"{words.counted(len(near), 'case')} {reach_it} {percent(AT_LIMIT)} or more of the limit of the hardware"
    detail = f"{words.some([row.label for row in best], 4)}: {reach} of what it allows"
    return [Finding(title=title, detail=detail, severity="info", cases=[row.case.id for row in near])]


def largest_gaps(rows: Sequence[Row]) -> list[Row]:
    """The furthest from a bound or an expectation, one per cause and workload; not those that are as fast as the model expects."""
    unexpected = (row for row in held(rows) if (row.gap.share or 0) < AT_LIMIT and noticing.slower_than_expected(row) is not False)
    far = sorted(unexpected, key=lambda row: row.gap.share or 0)
    first: dict[tuple[str, str], Row] = {}
    for row in far:
        first.setdefault((row.case.workload, row.gap.cause), row)
    return list(first.values())[:MOST_GAPS]


def _far(gaps: Sequence[Row]) -> list[Finding]:
    findings = []
    for row in gaps:
        why = f", {words.why(row)}" if words.why(row) else ""
        limit = words.quantity(row.gap.limit_value, words.unit_of(row))
        findings.append(Finding(
            title=f"{words.clean(row.label)} reaches {words.share(row.gap)} of its {AGAINST[row.gap.reference_kind]}", severity="info",
            detail=f"{words.value(row)} of {limit}; cause: {row.gap.cause.replace('_', ' ')}{why}", cases=[row.case.id],
            action=advice(row),
        ))
    return findings


def _unknown(rows: Sequence[Row]) -> list[Finding]:
    work = [row for row in rows if words.stands(row) and traits(row.case.workload).source not in ("program", "file")]  # these have none
    without = [row for row in work if row.gap.reference_kind not in ("bound", "expected")]
    if not without:
        return []
    referred = sum(row.gap.reference_kind == "ceiling" for row in without)
    shown = f"; {referred} of them {'is' if referred == 1 else 'are'} compared with the best rate of this run" if referred else ""
    title = f"No limit is known for {len(without)} of {len(work)} cases"
    detail = f"no published figure for them on this machine{shown}"
    return [Finding(title=title, detail=detail, severity="info", cases=[row.case.id for row in without])]


# ---------------------------------------------------------------- what to do


def advice(row: Row) -> str:
    """What would close a gap, of work that somebody can change and that is slower than the model expects."""
    if words.family(row) not in WORK or noticing.slower_than_expected(row) is False:
        return ""
    return CAUSE_ACTIONS.get(row.gap.cause, "")


def actions(table_notices: Sequence[noticing.TableNotice], gaps: Sequence[Row]) -> list[str]:
    """What to do next, each thing once: first what makes the numbers certain, then what makes the work faster."""
    by_action: dict[str, list[noticing.TableNotice]] = {}
    for notice in table_notices:
        if notice.action and notice.severity != "info":
            by_action.setdefault(notice.action, []).append(notice)
    lines = [
        f"{action[0].upper()}{action[1:]}: {words.some(list(dict.fromkeys(d.word or d.code for d in notices)), 3)} "
        f"({words.counted(len({row.case.id for d in notices for row in d.rows}), 'case')})"
        for action, notices in by_action.items()
    ]
    lines += [f"For {words.clean(row.label)}: {advice(row)}" for row in gaps if advice(row)]
    return lines[:MOST_ACTIONS]
