"""Samples into a Result: a case's rounds on one device, folded together. Done whenever a bundle is read, never kept."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from hotlap.core import units, work
from hotlap.core.errors import InputError
from hotlap.core.record import Case, Notice, Result, Samples, Status
from hotlap.core.stats import series
from hotlap.core.timing import timing_of

DISTURBED = 0.25  # share of a round's samples during which others ran, or twice the share of stolen time, from which it is a bad round
FEWEST_GOOD = 3  # good rounds with which the disturbed ones are left out; with fewer they are better than nothing
CLOCK_VARIED = 0.05  # range of the clock over the rounds, as a share of its median, that is worth a notice


@dataclass(frozen=True)
class _Meter:
    """How a median of one round becomes the metric. `own`: the samples are a program's own numbers, not seconds."""

    metric: str
    unit: str
    better: Literal["higher", "lower"]
    value: Callable[[Samples, float], float]
    own: bool = False
    unknown: str = ""
    bound_by_clock: bool = False


def fold(case: Case, samples: Sequence[Samples], target: str, device: str = "") -> Result:
    """A case's rounds on one device as one result; `values` and `seconds` have a number per measured round.

    `device` is for a case without samples, which is `not_run`. For a program's own number `seconds` is empty: its time is unknown.
    """
    rounds = sorted(samples, key=lambda s: s.round)
    meter = _meter(case)
    used, left_out = _used(rounds)
    status, reason = _status(rounds, used, left_out)
    short = [not meter.own and statistics.median(s.values) <= 0 for s in used]
    usual = [_at_most(s) if brief else statistics.median(s.values) for s, brief in zip(used, short, strict=True)]
    values = [meter.value(s, m) for s, m in zip(used, usual, strict=True)]
    clocks = [statistics.fmean(s.clocks_hz) for s in used if s.clocks_hz]
    cycles = [m * hz for m, hz in zip(usual, clocks, strict=False)] if len(clocks) == len(used) and not meter.own else []
    return Result(
        case=case, device=rounds[0].device if rounds else device, target=target, status=status, reason=reason or meter.unknown,
        metric=meter.metric, unit=meter.unit, better=meter.better, values=values, seconds=[] if meter.own else usual,
        notices=[*_notices(rounds, used, values), *_stutter(case, used), *_hidden(case, used)],
        checks=[s.check for s in rounds if s.check], rounds=rounds, left_out=left_out,
        too_short=any(short), bound_by_clock=meter.bound_by_clock, cycles=cycles,
        timing="+".join(dict.fromkeys(timing_of(s.method) for s in used)),
    )


def bad(samples: Samples) -> str:
    """Why a round is measured again while there is time, in a few words; "" where it is good, or no better the second time."""
    if samples.cause == "timers":
        return "the timers disagreed"
    if samples.status == "error":
        return "it failed"
    if samples.status != "measured":
        return ""
    if not disturbed(samples):
        return ""
    return "others ran meanwhile" if (samples.disturbed or 0.0) > DISTURBED else "the hypervisor took the processors"


def disturbed(samples: Samples) -> bool:
    """Whether other programs, or other guests of a hypervisor, ran for a good part of a round."""
    return max(samples.disturbed or 0.0, 2 * (samples.steal or 0.0)) > DISTURBED


def _used(rounds: Sequence[Samples]) -> tuple[list[Samples], list[int]]:
    """The rounds that make the number, and those left out although they have one. An invalid case has a number all the same."""
    timed = [s for s in rounds if s.values and s.status in ("measured", "invalid")]
    if _disproved(rounds):
        return timed, []
    valid = [s for s in timed if not s.cause]
    good = [s for s in valid if not bad(s)]
    used = good if len(good) >= min(FEWEST_GOOD, len(valid)) else valid
    return used, [s.round for s in timed if s not in used]


def _disproved(rounds: Sequence[Samples]) -> list[Samples]:
    """The rounds that show that the case's number cannot be right: a wrong answer or interference in any, timers in most."""
    wrong = [s for s in rounds if s.status == "invalid" and s.cause != "timers"]
    timers = [s for s in rounds if s.cause == "timers"]
    return wrong or (timers if 2 * len(timers) > sum(bool(s.values) for s in rounds) else [])


def _status(rounds: Sequence[Samples], used: Sequence[Samples], left_out: Sequence[int]) -> tuple[Status, str]:
    """Invalid where it is disproved, measured if any round is, else error before not_run; with the reason of those that failed."""
    if not rounds:
        return "not_run", "no round of it was measured"
    if disproved := _disproved(rounds):
        return "invalid", _reason(disproved, len(rounds))
    failed = [s for s in rounds if s.status == "error"] or [s for s in rounds if s.status == "not_run"]
    if used:
        return "measured", "; ".join(part for part in (_reason(failed, len(rounds)), _left(rounds, left_out)) if part)
    return ("not_run" if failed and failed[0].status == "not_run" else "error"), _reason(failed, len(rounds)) or "no sample was kept"


def _left(rounds: Sequence[Samples], left_out: Sequence[int]) -> str:
    """Which rounds were left out, and why."""
    why = dict.fromkeys(bad(s) for s in rounds if s.round in set(left_out))
    return f"{len(left_out)} of {len(rounds)} rounds {'is' if len(left_out) == 1 else 'are'} left out: {', '.join(why)}" if left_out else ""


def _reason(failed: Sequence[Samples], rounds: int) -> str:
    if not failed:
        return ""
    reason = next((s.reason for s in failed if s.reason), "no reason was kept")
    return reason if len(failed) == rounds else f"{len(failed)} of {rounds} rounds {_words(failed)}: {reason}"


_WORDS = {"invalid": ("is invalid", "are invalid"), "error": ("failed", "failed"), "not_run": ("was not run", "were not run")}


def _words(failed: Sequence[Samples]) -> str:
    return _WORDS[failed[0].status][len(failed) > 1]


def _at_most(samples: Samples) -> float:
    """Seconds that a call took at most, where it takes less than timing it costs."""
    return (max(samples.values) * samples.calls + samples.overhead_s + samples.resolution_s) / samples.calls


FALSE_RATE = {"drift": 0.01, "bimodal": 0.02, "not_steady": 0.02}
"""Notices that are tests of one round, and how often each raises on a perfect machine. The samples keep them all the same."""
FAR = 6.0  # standard deviations, from which a sample's time is no scatter: 1 in 10⁹ of normal data
HITCH_S = 8e-3  # as of a capture's hitches: half a refresh at 60 Hz
FALSE_SHOWN = 0.01  # of cases on a perfect machine may show one


def least_by_chance(rate: float, rounds: int) -> int:
    """The fewest rounds with a notice that chance alone gives in less than 1 % of cases; a single round shows what it has."""
    if rounds < 2:
        return 1
    below = 0.0
    for hits in range(rounds + 1):
        if 1 - below <= FALSE_SHOWN:
            return hits
        below += math.comb(rounds, hits) * rate**hits * (1 - rate) ** (rounds - hits)
    return rounds


def _notices(rounds: Sequence[Samples], used: Sequence[Samples], values: Sequence[float]) -> list[Notice]:
    """Each name once: with how many rounds have it and what was seen first, or what only all rounds together show."""
    between = _between(values) + _clock(used)
    seen: dict[str, dict[int, Notice]] = {}
    for one in used or rounds:
        for notice in one.notices:
            seen.setdefault(notice.code, {}).setdefault(one.round, notice)
    count = len(used or rounds)
    return between + _unwatched(used, seen) + [
        Notice(code=name, seen=_detail(list(found.values()), count), shares=_shares(list(found.values()), count))
        for name, found in seen.items()
        if len(found) >= least_by_chance(FALSE_RATE.get(name, 0.0), count) and name not in {notice.code for notice in between}
    ]


def _unwatched(used: Sequence[Samples], known: Collection[str]) -> list[Notice]:
    """That others ran beside rounds whose samples nobody watched: a program's own numbers carry no notice of it."""
    beside = [one for one in used if disturbed(one)]
    if not beside or {"shared_device", "steal", "busy"} & set(known):
        return []
    code = "shared_device" if any((one.disturbed or 0.0) > DISTURBED for one in beside) else "steal"
    return [Notice(code=code, seen=f"others ran during {len(beside)} of {units.counted(len(used), 'round')}")]


def _between(values: Sequence[float]) -> list[Notice]:
    """A drift from round to round, which no single round can show."""
    if not all(map(math.isfinite, values)) or not series.drifting(values):
        return []
    return [Notice(code="drift", seen=f"{100 * series.first_to_last(values):+.1f} % from the first round to the last")]


def _stutter(case: Case, used: Sequence[Samples]) -> list[Notice]:
    """Samples of what draws that took a hitch's time longer than the median of their round, which does not show them."""
    if work.traits(case.workload).heading != "graphics" or not any(map(longer_s, used)):
        return []
    return [Notice(code="stutter", seen=stuttered(used))]


def _hidden(case: Case, used: Sequence[Samples]) -> list[Notice]:
    """Opaque layers that a device need not write, since later ones cover them: they count all the same."""
    drawn = work.traits(case.workload).drawn
    covered = drawn(case.params) if drawn and used else None
    if covered is None or covered.least_pixels >= covered.pixels:
        return []
    share = units.percent(covered.least_pixels / covered.pixels)
    return [Notice(code="hidden_pixels", seen=f"{share} of the pixels must be written; opaque ones that are covered later may be left out")]


def stuttered(rounds: Sequence[Samples]) -> str:
    """How many samples took longer, and by how much."""
    longer = [seconds for one in rounds for seconds in longer_s(one)]
    (least, unit), (most, other) = (units.show(end(longer), "s").split(" ") for end in (min, max))
    by = f"{most} {other}" if (least, unit) == (most, other) else f"{least}{'' if unit == other else f' {unit}'} to {most} {other}"
    return f"{len(longer)} of {sum(len(one.values) for one in rounds)} samples took {by} longer"


def longer_s(samples: Samples) -> list[float]:
    """How much longer than the median whole samples took, of those that were longer than a hitch and than scatter explains."""
    if samples.unit != "s" or not samples.values:
        return []
    median = statistics.median(samples.values)
    scatter = series.MAD_TO_SD * statistics.median(abs(value - median) for value in samples.values)
    return [
        (value - median) * samples.calls for value in samples.values
        if value - median > FAR * scatter and (value - median) * samples.calls >= HITCH_S
    ]  # fmt: skip


def _clock(used: Sequence[Samples]) -> list[Notice]:
    clocks = [hz for one in used for hz in one.clocks_hz]
    if not clocks or max(clocks) - min(clocks) <= CLOCK_VARIED * statistics.median(clocks):
        return []
    return [Notice(code="clock_varied", seen=f"{min(clocks) / 1e9:.2f} to {max(clocks) / 1e9:.2f} GHz")]


def _shares(notices: Sequence[Notice], rounds: int) -> dict[str, float]:
    """Each reason's share of the readings, on average over all rounds."""
    names = dict.fromkeys(name for notice in notices for name in notice.shares)
    return {name: sum(notice.shares.get(name, 0.0) for notice in notices) / rounds for name in names}


def _detail(notices: Sequence[Notice], rounds: int) -> str:
    """In how many rounds it was, and what they say: all of them, each reason by its own rounds, most of them, or the first of them."""
    texts = Counter(filter(None, (notice.seen for notice in notices))).most_common()
    if rounds == 1:
        return texts[0][0] if texts else ""
    seen = f"in {len(notices)} of {rounds} rounds"
    if not texts:
        return seen
    text, count = texts[0]
    if len(texts) == 1:
        return f"{seen}: {text}"
    return _reasons(notices, rounds) or f"{seen} ({'most often' if count > 1 else 'the first'}: {text})"


def _reasons(notices: Sequence[Notice], rounds: int) -> str:
    """Each reason with the rounds that have it: what lowers the clock in some rounds may be another thing in the others."""
    on_average = _shares(notices, rounds)
    parts = []
    for name in sorted(on_average, key=lambda name: -on_average[name]):
        shares = [one for notice in notices if (one := notice.shares.get(name))]
        low, high = (units.percent(end(shares)) for end in (min, max))
        share = high if low == high else f"{low.removesuffix(' %')} to {high}"
        parts.append(f"{name} in {len(shares)} of {rounds} rounds ({share} of the readings)")
    return ", ".join(parts)


# ---------------------------------------------------------------- from seconds to the metric


def _meter(case: Case) -> _Meter:
    try:
        spec = work.find(case.workload)
        of = spec.meter(case.params)
    except (InputError, KeyError):  # of a later version
        unknown = f"this version does not know the workload '{case.workload}' with these parameters: its time per call is shown"
        return _Meter("time", "s", "lower", lambda _, median: median, unknown=unknown)
    if spec.source == "program":
        return _command(case)
    if spec.source == "file":
        return _imported(case)
    unit = "OP/s" if spec.metric == "compute" and str(case.params.get("dtype", "")).startswith("int") else spec.unit
    return _Meter(
        spec.metric, unit, spec.better, lambda samples, median: _value(spec.metric, of, samples, median),
        bound_by_clock=spec.bound_by_clock(case.params),
    )


def _value(metric: str, of: Callable[[float], float], samples: Samples, median_s: float) -> float:
    operations = samples.metrics.get("operations")
    if metric == "compute" and operations:  # what was really done, after rounding to whole loops
        return operations / median_s
    return of(median_s)


def _imported(case: Case) -> _Meter:
    """Numbers are kept as they are, in the unit they were given or its base."""
    unit = str(case.params.get("unit", ""))
    better: Literal["higher", "lower"] = "higher" if case.params.get("better") == "higher" else "lower"
    return _Meter(units.METRICS.get(unit, "own"), unit, better, lambda _, median: median, own=True)


def _command(case: Case) -> _Meter:
    """A program's number is kept scaled; its wall time is kept in seconds and scaled here."""
    own = case.params.get("read", "wall") != "wall"
    unit, scale = str(case.params.get("unit", "s")), float(str(case.params.get("scale", 1.0)))
    if not math.isfinite(scale):
        scale = 1.0
    better: Literal["higher", "lower"] = "higher" if case.params.get("better") == "higher" else "lower"
    metric = "time" if unit == "s" else "own"
    return _Meter(metric, unit, better, lambda _, median: median if own else median * scale, own=own)
