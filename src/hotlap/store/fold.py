"""Samples into a Result: a case's rounds on one device, folded together. Done whenever a bundle is read, never kept."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hotlap import work
from hotlap.errors import InputError
from hotlap.record import Case, Flag, Result, Samples, Status
from hotlap.stats import series

_BEFORE = ("invalid", "error", "not_run")  # whose reason stands for the result, where several rounds failed in several ways


@dataclass(frozen=True)
class _Meter:
    """How a median of one round becomes the metric. `own`: the samples are a program's own numbers, not seconds."""

    metric: str
    unit: str
    better: Literal["higher", "lower"]
    value: Callable[[Samples, float], float]
    own: bool = False
    doubt: str = ""


def fold(case: Case, samples: Sequence[Samples], target: str, device: str = "") -> Result:
    """A case's rounds on one device as one result; `values` and `seconds` have a number per measured round.

    `device` is for a case without samples, which is `not_run`. For a program's own number `seconds` is empty: its time is unknown.
    """
    rounds = sorted(samples, key=lambda s: s.round)
    meter = _meter(case)
    medians = [(s, statistics.median(s.seconds)) for s in rounds if s.status == "measured" and s.seconds]
    usable = [(s, m) for s, m in medians if meter.own or m > 0]
    status, reason = _status(rounds, len(usable), len(medians) - len(usable))
    values = [meter.value(s, m) for s, m in usable]
    return Result(
        case=case, device=rounds[0].device if rounds else device, target=target, status=status, reason=reason or meter.doubt,
        metric=meter.metric, unit=meter.unit, better=meter.better, values=values,
        seconds=[] if meter.own else [m for _, m in usable], flags=_flags(rounds, values),
        checks=[s.check for s in rounds if s.check], rounds=rounds,
    )


def _status(rounds: Sequence[Samples], measured: int, too_short: int) -> tuple[Status, str]:
    """Invalid if any round is, measured if any is, else error before not_run; with the reason of those that failed."""
    if not rounds:
        return "not_run", "no round of it was measured"
    failed = {name: [s for s in rounds if s.status == name] for name in _BEFORE}
    worst = next((found for found in failed.values() if found), [])
    reason = _reason(worst, len(rounds))
    if failed["invalid"]:
        return "invalid", reason
    if too_short:
        return "invalid", f"{too_short} of {len(rounds)} rounds took no longer than the cost of timing them"
    if measured:
        return "measured", reason
    return ("error", reason or "no sample was kept") if failed["error"] or not worst else ("not_run", reason)


def _reason(failed: Sequence[Samples], rounds: int) -> str:
    if not failed:
        return ""
    reason = next((s.reason for s in failed if s.reason), "no reason was kept")
    return reason if len(failed) == rounds else f"{len(failed)} of {rounds} rounds {_WORDS[failed[0].status]}: {reason}"


_WORDS = {"invalid": "are invalid", "error": "failed", "not_run": "were not run"}


BY_CHANCE = ("drift", "bimodal", "not_steady")
"""Flags that are tests at 1 to 2 % each: one of six rounds is what chance gives. The samples keep them all the same."""


def _flags(rounds: Sequence[Samples], values: Sequence[float]) -> list[Flag]:
    """Each name once: with how many rounds have it and what was seen first, or what only all rounds together show."""
    between = _between(values)
    seen: dict[str, dict[int, str]] = {}
    for one in rounds:
        for flag in one.flags:
            seen.setdefault(flag.name, {}).setdefault(one.round, flag.detail)
    return between + [
        Flag(name=name, detail=_detail(list(found.values()), len(rounds)))
        for name, found in seen.items()
        if not (name in BY_CHANCE and len(found) == 1 and len(rounds) >= 6) and name not in {flag.name for flag in between}
    ]


def _between(values: Sequence[float]) -> list[Flag]:
    """A drift from round to round, which no single round can show."""
    if not all(map(math.isfinite, values)) or not series.drifting(values):
        return []
    return [Flag(name="drift", detail=f"{series.drift(values):+.1%} from the first round to the last")]


def _detail(details: Sequence[str], rounds: int) -> str:
    first = next((d for d in details if d), "")
    if rounds == 1:
        return first
    return f"in {len(details)} of {rounds} rounds" + (f": {first}" if first else "")


# ---------------------------------------------------------------- from seconds to the metric


def _meter(case: Case) -> _Meter:
    try:
        spec = work.find(case.workload)
        of = spec.meter(case.params)
    except (InputError, KeyError):  # of a later version
        doubt = f"this version does not know the workload '{case.workload}' with these parameters: its time per call is shown"
        return _Meter("time", "s", "lower", lambda _, median: median, doubt=doubt)
    if case.workload == "command":
        return _command(case)
    if case.workload == "imported":
        return _imported(case)
    unit = "OP/s" if spec.metric == "compute" and str(case.params.get("dtype", "")).startswith("int") else spec.unit
    return _Meter(spec.metric, unit, spec.better, lambda samples, median: _value(spec.metric, of, samples, median))


def _value(metric: str, of: Callable[[float], float], samples: Samples, median_s: float) -> float:
    operations = samples.metrics.get("operations")
    if metric == "compute" and operations:  # what was really done, after rounding to whole loops
        return operations / median_s
    return of(median_s)


def _imported(case: Case) -> _Meter:
    """Numbers are kept as they are, in the unit they were given or its base."""
    unit = str(case.params.get("unit", ""))
    better: Literal["higher", "lower"] = "higher" if case.params.get("better") == "higher" else "lower"
    return _Meter(METRICS.get(unit, "own"), unit, better, lambda _, median: median, own=True)


METRICS = {"s": "time", "B/s": "bandwidth", "FLOP/s": "compute", "OP/s": "compute", "1/s": "rate"}


def _command(case: Case) -> _Meter:
    """A program's number is kept scaled; its wall time is kept in seconds and scaled here."""
    own = case.params.get("read", "wall") != "wall"
    unit, scale = str(case.params.get("unit", "s")), float(str(case.params.get("scale", 1.0)))
    if not math.isfinite(scale):
        scale = 1.0
    better: Literal["higher", "lower"] = "higher" if case.params.get("better") == "higher" else "lower"
    metric = "time" if unit == "s" else "own"
    return _Meter(metric, unit, better, lambda _, median: median if own else median * scale, own=own)
