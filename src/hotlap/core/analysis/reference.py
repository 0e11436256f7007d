"""A run held against what is normal: a baseline learnt from runs, or the fleet's other devices. The spread that decides is learnt too.

With at least 4 reference runs (or devices) a new one is a further draw from the same population: its median lies within
centre ± t·s·√(1 + 1/n) of theirs (a prediction interval; Hahn and Meeker, Statistical Intervals, 1991, 4.2), on logarithms. With
fewer, rounds are compared as `compare` does. Assumption: medians of runs are roughly lognormal; s is robust, so that one bad
reference run neither hides a loss nor makes one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from hotlap.core.analysis.compare import GATE
from hotlap.core.analysis.matching import FEWEST_RUNS
from hotlap.core.analysis.standards import unmeasured
from hotlap.core.record import Baseline, Device, Machine, Reference, Row, Verdict, identity
from hotlap.core.stats import several
from hotlap.core.stats.ratio import beyond, ratio
from hotlap.core.stats.series import MAD_TO_SD
from hotlap.core.stats.student import quantile, two_sided
from hotlap.core.units import percent, show

NOISIEST = 0.10  # a case whose loss must be larger than this to be seen has not earned the right to gate
ERROR_RATE = 0.05


@dataclass(frozen=True)
class ReferenceRatio:
    """A case against its reference, before all cases together decide. Logarithms; above 0 is better."""

    row: Row
    reference: float  # in the metric's unit
    log_ratio: float
    reach: float  # half-width of the 95 % interval
    p: float
    label: str  # what the reference is, in words


@dataclass(frozen=True)
class AgainstBaseline:
    """What a baseline knows of this very device, else of its model, else nothing."""

    baseline: Baseline
    machine: Machine  # of the run
    gate: float = GATE

    @property
    def name(self) -> str:
        return f"baseline {self.baseline.name}"

    def judge(self, rows: Sequence[Row]) -> list[Verdict]:
        """A verdict per row; the error rate is held over all of them (Benjamini and Hochberg)."""
        found = [unmeasured(row) or self._held(row) for row in rows]
        return decided([self._missed(row, one) for row, one in zip(rows, found, strict=True)], self.name, self.gate)

    def _missed(self, row: Row, answer: ReferenceRatio | Verdict) -> ReferenceRatio | Verdict:
        """A case that the baseline has and this run lacks was lost, not left out."""
        if isinstance(answer, Verdict) and answer.state == "not_run" and self._references(row)[0]:
            return Verdict(state="inconclusive", reason=f"measured in the baseline, not now: {answer.reason}", against=self.name)
        return answer

    def _references(self, row: Row) -> tuple[list[Reference], str]:
        """Those of this device, by its key and serial number; else of the model."""
        device = device_of(self.machine, row)
        same = [
            one for one in self.baseline.references
            if one.case.id == row.case.id and one.target == row.result.target and (not row.result.unit or one.unit == row.result.unit)
        ]
        wanted = identity(row.device, row.result.target, self.machine.host)
        own = [one for one in same if one.identity == wanted and (not device or not one.serial or one.serial == device.serial)]
        if own:
            return own, "this device"
        model = [one for one in same if device and one.model == device.model]
        return model, f"other devices of its model {device.model}" if device else "its model"

    def _held(self, row: Row) -> ReferenceRatio | Verdict:
        references, whose = self._references(row)
        runs = [values for one in references for values in one.runs.values()]
        if not runs:
            return Verdict(state="inconclusive", reason=f"the baseline {self.baseline.name} does not know it", against=self.name)
        said = f"{len(runs)} run{'s' * (len(runs) > 1)} of {whose}"
        return against(row, [statistics.median(values) for values in runs], runs, said, self.name)


def against(row: Row, medians: Sequence[float], runs: Sequence[Sequence[float]], text: str, name: str) -> ReferenceRatio | Verdict:
    """One row against reference medians, with the rounds they are of."""
    value, lower = row.summary.median, row.result.better == "lower"
    if value is None or min(value, *medians) <= 0:
        return Verdict(state="inconclusive", reason="a value is zero or negative, and a ratio says nothing then", against=name)
    if len(medians) >= FEWEST_RUNS:
        logs = [math.log(v) for v in medians]
        centre, n = statistics.median(logs), len(logs)
        reach_of_one = _spread(logs) * math.sqrt(1 + 1 / n)
        log_ratio = (centre - math.log(value)) if lower else math.log(value) - centre
        p = two_sided(log_ratio / reach_of_one, n - 1) if reach_of_one > 0 else float(log_ratio == 0)
        return ReferenceRatio(row, math.exp(centre), log_ratio, quantile(0.975, n - 1) * reach_of_one, p, f"median of {text}")
    rounds = [v for values in runs for v in values]
    estimate = ratio(row.result.values, rounds) if lower else ratio(rounds, row.result.values)
    if estimate.ratio is None or estimate.low is None or estimate.high is None or estimate.p is None:
        reason = f"{len(row.result.values)} rounds against {len(rounds)} of {text}: 4 a side needed; run more rounds"
        return Verdict(state="inconclusive", reason=reason, against=name)
    reach = max(math.log(estimate.high / estimate.ratio), math.log(estimate.ratio / estimate.low))
    return ReferenceRatio(
        row, statistics.median(rounds), math.log(estimate.ratio), reach, estimate.p, f"rounds of {text}, too few to know how runs differ"
    )


def _spread(logs: Sequence[float]) -> float:
    """Robust standard deviation: the larger of that by the median deviation and half of the plain one, which heavy tails inflate and
    a lucky majority of equal values cannot make vanish."""
    centre = statistics.median(logs)
    robust = MAD_TO_SD * statistics.median(abs(v - centre) for v in logs) * (1 + 1 / len(logs))
    return max(robust, statistics.stdev(logs) / 2, 1e-4)


def decided(answers: Sequence[ReferenceRatio | Verdict], name: str, gate: float) -> list[Verdict]:
    """A loss fails when its whole interval is beyond the gate and it is not chance over all cases; a case passes when a loss would have
    been seen."""
    adjusted = several.benjamini_hochberg([one.p if isinstance(one, ReferenceRatio) else None for one in answers])
    return [one if isinstance(one, Verdict) else _decided(one, q, name, gate) for one, q in zip(answers, adjusted, strict=True)]


def _decided(held: ReferenceRatio, q: float | None, name: str, gate: float) -> Verdict:
    unit, lower = held.row.result.unit, held.row.result.better == "lower"
    seen = 1 - math.exp(-held.reach)  # the smallest loss that shows
    least = max(gate, seen)
    threshold = held.reference / (1 - least) if lower else held.reference * (1 - least)
    size, low, high = (math.exp(v) for v in (held.log_ratio, held.log_ratio - held.reach, held.log_ratio + held.reach))
    fields = {
        "against": name,
        "threshold": threshold,
        "ratio": size,
        "low": low,
        "high": high,
        "provenance": f"{held.label}: {show(held.reference, unit)}, less {percent(least)} "
            f"({'their spread' if seen > gate else 'the gate'})",
    }
    worse, sure = 1 - size, held.log_ratio < 0 and q is not None and q <= ERROR_RATE
    if sure and beyond(low, high, gate) == "smaller":
        return Verdict(state="fail", reason=f"{percent(worse)} worse than the {held.label}, {show(held.reference, unit)}", **fields)  # type: ignore[arg-type]
    if sure and low < 1 / (1 + gate):
        sizes = f"at least {percent(max(1 - high, 0.0))} and at most {percent(1 - low)}"
        reason = f"worse than the {held.label} by {sizes}; the threshold is {percent(gate)}"
        return Verdict(state="inconclusive", reason=reason, **fields)  # type: ignore[arg-type]
    if seen > NOISIEST:
        reason = f"too noisy to gate: only a loss above {percent(seen)} would be seen; more rounds, or a quieter machine"
        return Verdict(state="inconclusive", reason=reason, **fields)  # type: ignore[arg-type]
    return Verdict(state="pass", reason=f"a loss above {percent(least)} against the {held.label} would have been seen", **fields)  # type: ignore[arg-type]


def device_of(machine: Machine, row: Row) -> Device | None:
    return next((device for device in machine.devices if device.key == row.device), None)
