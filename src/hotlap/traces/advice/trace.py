"""All rules for a trace: what they find, with gains end to end, most first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hotlap.core.record import Finding
from hotlap.traces import intervals
from hotlap.traces.advice import code, device, host, marks
from hotlap.traces.advice.base import Tip, rules
from hotlap.traces.advice.marks import AdviceMarks
from hotlap.traces.replay import ReplayChange
from hotlap.traces.study import Study

WITHOUT_GAIN = ("impossible", "memory-growth")  # shown whatever they gain: the data cannot be trusted, or the program will not live
LEAST_GAIN = 0.02  # of the window: less is not shown unless asked
BINDS = 1.02  # times the cap: what is above is more than a rounding
LESS_SURE: Mapping[str, Any] = {"high": "medium", "medium": "low", "low": "low"}
RULES: tuple[Callable[[Study], list[Tip]], ...] = (
    host.data_loader,
    host.synchronise,
    host.host_bound,
    code.tiny_operators,
    code.host_code,
    code.first_use,
    host.slow_steps,
    host.compiling,
    host.allocation,
    host.profiler_overhead,
    device.tiny_kernels,
    device.exposed_communication,
    device.copies,
    device.tensor_cores,
    device.small_grid,
    device.below_limit,
    device.memory_growth,
)


class Advice(NamedTuple):
    """Findings by gain, and what all of them together would gain: less than their sum where fixes overlap."""

    findings: list[Finding]
    hidden: int  # with a gain below the least
    together: float | None  # share of the window; None where no fix could be replayed
    marks: Sequence[AdviceMarks] = ()  # where each finding is in the trace


def advise(study: Study, least: float = LEAST_GAIN, program: str = "PROGRAM", crowded: bool = False) -> Advice:
    """What is worth doing about a trace; `program` is the command that was recorded, for the experiments. `crowded`: beside other programs,
    which lowers each finding's confidence by a level."""
    tips = [one for rule in RULES for one in rule(study)]
    findings: list[Finding] = []
    for tip in tips:
        low, high = _gains(study, tip)
        rule = rules()[tip.rule]
        findings.append(
            Finding(
                title=rule.title,
                detail=tip.detail,
                severity="warning",
                action=(study.jax and rule.jax) or tip.remedy or rule.remedy,
                rule=tip.rule,
                where=tip.where,
                evidence=tip.evidence,
                gain=None if low is None else (low + high) / 2,
                gain_low=low,
                gain_high=high,
                confidence=LESS_SURE[tip.confidence] if crowded else tip.confidence,
                experiment=rule.experiment(program) if tip.switch and not (study.jax and rule.jax) else "",
            )
        )
    order = sorted(range(len(findings)), key=lambda i: _place(findings[i]))
    order = [i for i in order if (findings[i].gain_high or 0.0) >= least or findings[i].rule in WITHOUT_GAIN]
    shown, where = [findings[i] for i in order], [_marks(study, tips[i]) for i in order]
    return Advice(shown, len(findings) - len(shown), _together(study, tips, findings), where)


def _place(finding: Finding) -> tuple[bool, float, float]:
    """Where it stands: by gain; what is likelier of the machine while it recorded than of the program stands behind the rest."""
    return bool(finding.evidence.get("same_operators")), -(finding.gain or 0.0), -(finding.gain_high or 0.0)


def _together(study: Study, tips: list[Tip], findings: list[Finding]) -> float | None:
    """The most that all fixes worth showing gain at once, whatever else is shown. Those that no replay can tell are added to what
    the replay says, by the time that they cover together."""
    worth = [i for i in range(len(tips)) if findings[i].gain is not None and (findings[i].gain_high or 0.0) >= LEAST_GAIN]
    if not worth:
        return None
    high = [findings[i].gain_high or 0.0 for i in worth]
    changes = [one for i in worth if isinstance(one := tips[i].high, ReplayChange)]
    given = [i for i in worth if not isinstance(tips[i].high, ReplayChange)]
    low, end = study.window
    places = marks.together([_marks(study, tips[i]) for i in given])
    cover = intervals.clipped(intervals.union(places.start, places.end), low, end).length / max(end - low, 1)
    plain = sum(findings[i].gain_high or 0.0 for i in given)
    plain = max(min(plain, cover), max((findings[i].gain_high or 0.0 for i in given), default=0.0))
    replayed = study.gain(_all(changes)) if changes else 0.0
    return min(max(replayed + plain, *high, 0.0), sum(high), 1.0)


def _gains(study: Study, tip: Tip) -> tuple[float | None, float]:
    """What a fix gains at its least and at its best; where no replay can tell None, and the most that it could be."""
    if isinstance(tip.high, ReplayChange) and not study.replayable(tip.high):
        return None, tip.cap
    best = _gain(study, tip.high)
    high = min(best, tip.cap)
    # A cap that binds the fix at its best says nothing of its least: half of it, as everywhere.
    return min(_gain(study, tip.low), high / 2 if best > BINDS * tip.cap else high), high


def _gain(study: Study, given: ReplayChange | float) -> float:
    return study.gain(given) if isinstance(given, ReplayChange) else float(given)


def _marks(study: Study, tip: Tip) -> AdviceMarks:
    if tip.marks is not None:
        return tip.marks
    return marks.of_change(study, tip.high) if isinstance(tip.high, ReplayChange) else marks.together([])


def _all(changes: list[ReplayChange]) -> ReplayChange:
    """Every change at once."""
    factors = [one.factor for one in changes if one.factor is not None]
    hosts = [one.host for one in changes if one.host is not None]
    turns = [one.turn for one in changes if one.turn is not None]
    free = [one.unblocked for one in changes if one.unblocked is not None]
    return ReplayChange(
        factor=np.prod(factors, axis=0) if factors else None,
        host=np.prod(hosts, axis=0) if hosts else None,
        unblocked=np.any(free, axis=0) if free else None,
        turn=np.prod(turns, axis=0) if turns else None,
    )
