"""What a manager reads: the figures that matter, what was found, and what to do, from the rows alone. No number without its doubt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hotlap.record import Finding, Row
from hotlap.report import doubts as doubting
from hotlap.report import words
from hotlap.report.listing import ENDINGS
from hotlap.store.bundle import Bundle
from hotlap.units import percent

AT_LIMIT = 0.9  # as `model.gap` names it
WIDE_SHARE = 1 / 3  # of the cases: a flag on more is worth a sentence of its own
MOST_GAPS, MOST_ACTIONS = 3, 6

CAUSE_ACTIONS = {  # a cause of the glossary: what would close the gap
    "power": "raise the power limit or improve cooling, where that is allowed; otherwise plan with the rate that was measured",
    "clock": "find what holds the clock down: power limit, temperature, or clocks that an administrator set",
    "launch": "do more work per launch, or replay launches as a graph",
    "shared": "measure alone: stop what else uses the device, then run again",
    "too_small": "give the device more work at once: larger sizes or batches",
    "latency": "keep more independent work in flight",
    "cache": "keep the working set within the cache level that is fast enough",
    "bandwidth": "move fewer bytes: fuse passes over memory, or use smaller types",
    "arithmetic": "use a narrower type or the matrix engines, where the numbers allow it",
}


AGAINST = {"bound": "bound", "expected": "expected value"}


@dataclass(frozen=True)
class Figure:
    """One number that stands for a whole field."""

    title: str
    row: Row


@dataclass(frozen=True)
class Conclusions:
    """`verdict` is one sentence; findings are heaviest first; actions say what to do next, most useful first."""

    verdict: str
    figures: tuple[Figure, ...]
    findings: tuple[Finding, ...]
    actions: tuple[str, ...]


def conclude(bundle: Bundle, rows: Sequence[Row]) -> Conclusions:
    """The conclusions of one run."""
    found = doubting.find(rows)
    gaps = largest_gaps(rows)
    findings = [*_run(bundle), *_not_standing(found), *_uncertain(rows, found), *_shared(rows, found)]
    findings += [*_near(rows), *_far(gaps), *_unknown(rows)]
    return Conclusions(_verdict(rows), tuple(figures(rows)), tuple(findings), tuple(actions(found, gaps)))


def _verdict(rows: Sequence[Row]) -> str:
    counts = {state: sum(row.verdict.state == state for row in rows) for state in words.STATES}
    if not rows:
        return "Nothing was measured."
    good = counts["measured"]
    rest = ", ".join(f"{n} {words.STATES[state]}" for state, n in counts.items() if n and state != "measured")
    if good == len(rows):
        return f"All {len(rows)} cases were measured as exactly as the plan asks."
    said = "No case was" if not good else f"{good} of {len(rows)} cases {'was' if good == 1 else 'were'}"
    return f"{said} measured as exactly as the plan asks; {rest}."


# ---------------------------------------------------------------- key figures


def figures(rows: Sequence[Row]) -> list[Figure]:
    """At most one per field, in the order of the table; fields that were not measured are left out."""
    standing = [row for row in rows if words.stands(row)]
    picks: tuple[tuple[str, Callable[[Sequence[Row]], Row | None]], ...] = (
        ("Memory bandwidth", _memory), ("Arithmetic, fp32", _fma), ("Matrix product", _matrix), ("Load latency, memory", _chase),
        ("Kernel launch", _launch), ("Host to device", _link),
    )
    found = [Figure(title, row) for title, pick in picks if (row := pick(standing))]
    own = [Figure(words.clean(row.label), row) for row in standing if words.family(row) == "own"]
    return found + own[: max(0, 6 - len(found))]


def _of(rows: Sequence[Row], workload: str, **params: object) -> list[Row]:
    return [r for r in rows if r.case.workload == workload and all(r.case.params.get(k) == v for k, v in params.items())]


def size_of(row: Row) -> float:
    value = row.case.params.get("size", 0)
    return float(value) if isinstance(value, (int, float)) else 0.0


def median_of(row: Row) -> float:
    return row.summary.median or 0.0


def _memory(rows: Sequence[Row]) -> Row | None:
    """The best of the largest working sets: the plateau, not a cache."""
    streams = _of(rows, "stream")
    largest = max(map(size_of, streams), default=0.0)
    return max((r for r in streams if size_of(r) == largest), key=median_of, default=None)


def _fma(rows: Sequence[Row]) -> Row | None:
    return next(iter(_of(rows, "fma", dtype="fp32")), None)


def _matrix(rows: Sequence[Row]) -> Row | None:
    return max((r for r in _of(rows, "gemm") if r.result.unit == "FLOP/s"), key=median_of, default=None)


def _chase(rows: Sequence[Row]) -> Row | None:
    return max(_of(rows, "chase"), key=size_of, default=None)


def _launch(rows: Sequence[Row]) -> Row | None:
    return next(iter(_of(rows, "launch", mode="single") or _of(rows, "launch")), None)


def _link(rows: Sequence[Row]) -> Row | None:
    return max(_of(rows, "transfer", direction="h2d"), key=size_of, default=None)


# ---------------------------------------------------------------- findings


def _run(bundle: Bundle) -> list[Finding]:
    run = bundle.run
    found = [Finding(title="The record is not whole", detail=words.clean(warning), severity="warning") for warning in bundle.warnings]
    if not run.ended:
        found.append(Finding(title="The run did not finish", detail="what was kept is shown", action="hotlap run --resume goes on with it"))
    elif run.stopped and run.stopped not in ENDINGS:
        found.append(Finding(title="The run was stopped", detail=words.clean(run.stopped), severity="warning"))
    return found


def _not_standing(found: Sequence[doubting.Doubt]) -> list[Finding]:
    titles = {"invalid": "cannot stand", "error": "failed"}
    return [
        Finding(
            title=f"{_cases(doubt)} {titles[doubt.name]}", detail=f"{words.some(doubt.labels, 3)}: {doubt.seen}", severity="error",
            cases=[row.case.id for row in doubt.rows], action=doubt.action,
        )
        for doubt in found if doubt.name in titles
    ]


def _cases(doubt: doubting.Doubt) -> str:
    return words.counted(len(doubt.rows), "number" if doubt.name == "invalid" else "case")


def _uncertain(rows: Sequence[Row], found: Sequence[doubting.Doubt]) -> list[Finding]:
    return [
        Finding(
            title=f"{len(doubt.rows)} of {len(rows)} numbers are less certain than asked",
            detail=f"{words.some(doubt.labels)}: {doubt.seen}",
            cases=[row.case.id for row in doubt.rows], action=doubt.action,
        )
        for doubt in found if doubt.name == "inconclusive"
    ]


def _shared(rows: Sequence[Row], found: Sequence[doubting.Doubt]) -> list[Finding]:
    """Flags that touch much of the run, and throttling wherever it was."""
    return [
        Finding(
            title=f"{FLAG_TITLES.get(doubt.name, doubt.name)}: {len(doubt.rows)} of {len(rows)} cases",
            detail=f"{words.some(doubt.labels)}: {doubt.seen}", cases=[row.case.id for row in doubt.rows], action=doubt.action,
        )
        for doubt in found
        if doubt.name in words.FLAG_ACTIONS and (len(doubt.rows) > WIDE_SHARE * len(rows) or doubt.name == "throttled")
    ]


FLAG_TITLES = {
    "drift": "Samples drifted",
    "bimodal": "Samples took two values",
    "not_steady": "No steady state was found",
    "few_samples": "There were few samples",
    "timer_coarse": "The timer was coarse",
    "throttled": "The device was held back by power or temperature",
    "low_clock": "The clock was low",
    "one_process": "Rounds shared one process",
    "shared_device": "The device was not alone",
    "not_deterministic": "Equal calls gave other bits",
    "leak": "Memory grew with the calls",
}


def held(rows: Sequence[Row]) -> list[Row]:
    """Rows that are held against something the run did not set itself."""
    return [row for row in rows if words.stands(row) and row.gap.share is not None and row.gap.against in ("bound", "expected")]


def _near(rows: Sequence[Row]) -> list[Finding]:
    near = [row for row in held(rows) if (row.gap.share or 0) >= AT_LIMIT]
    if not near:
        return []
    shares = [row.gap.share or 0 for row in near]
    reach = " to ".join(dict.fromkeys((percent(min(shares)), percent(max(shares)))))
    best = sorted(near, key=lambda row: -(row.gap.share or 0))
    title = f"{words.counted(len(near), 'case')} {'is' if len(near) == 1 else 'are'} at the limit of the hardware"
    detail = f"{words.some([row.label for row in best], 4)}: {reach} of what it allows"
    return [Finding(title=title, detail=detail, severity="info", cases=[row.case.id for row in near])]


def largest_gaps(rows: Sequence[Row]) -> list[Row]:
    """The furthest from a bound or an expectation, one per cause and workload."""
    far = sorted((row for row in held(rows) if (row.gap.share or 0) < AT_LIMIT), key=lambda row: row.gap.share or 0)
    first: dict[tuple[str, str], Row] = {}
    for row in far:
        first.setdefault((row.case.workload, row.gap.cause), row)
    return list(first.values())[:MOST_GAPS]


def _far(gaps: Sequence[Row]) -> list[Finding]:
    found = []
    for row in gaps:
        why = f", {words.why(row)}" if words.why(row) else ""
        limit = words.quantity(row.gap.limit_value, row.result.unit)
        found.append(Finding(
            title=f"{words.clean(row.label)} reaches {words.share(row.gap)} of its {AGAINST[row.gap.against]}", severity="info",
            detail=f"{words.value(row)} of {limit}; cause: {row.gap.cause.replace('_', ' ')}{why}", cases=[row.case.id],
            action=CAUSE_ACTIONS.get(row.gap.cause, ""),
        ))
    return found


def _unknown(rows: Sequence[Row]) -> list[Finding]:
    without = [row for row in rows if words.stands(row) and row.gap.against not in ("bound", "expected")]
    if not without:
        return []
    ceilings = sum(row.gap.against == "ceiling" for row in without)
    shown = f"; {ceilings} of them {'is' if ceilings == 1 else 'are'} held against the best rate of the run instead" if ceilings else ""
    title = f"No limit is known for {len(without)} of {len(rows)} cases"
    detail = f"no sourced figure for them on this machine{shown}"
    return [Finding(title=title, detail=detail, severity="info", cases=[row.case.id for row in without])]


# ---------------------------------------------------------------- what to do


def actions(found: Sequence[doubting.Doubt], gaps: Sequence[Row]) -> list[str]:
    """What to do next, each thing once: first what makes the numbers sound, then what makes the machine faster."""
    by_action: dict[str, list[doubting.Doubt]] = {}
    for doubt in found:
        if doubt.action and doubt.name not in ("invalid", "not run"):
            by_action.setdefault(doubt.action, []).append(doubt)
    said = [
        f"{action[0].upper()}{action[1:]}: {words.some(list(dict.fromkeys(d.name for d in doubts)), 3)} "
        f"({words.counted(len({row.case.id for d in doubts for row in d.rows}), 'case')})"
        for action, doubts in by_action.items()
    ]
    said += [f"For {words.clean(row.label)}: {CAUSE_ACTIONS[row.gap.cause]}" for row in gaps if row.gap.cause in CAUSE_ACTIONS]
    return said[:MOST_ACTIONS]
