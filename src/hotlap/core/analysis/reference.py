"""A run compared with what is normal: a baseline learnt from runs, or the fleet's other devices. The spread that decides is learnt too.

With at least 4 reference runs (or devices) a new one is a further draw from the same population: its median lies within
centre ± t·s·√(1 + 1/n) of theirs (a prediction interval; Hahn and Meeker, Statistical Intervals, 1991, 4.2), on logarithms. With
fewer, rounds are compared as `compare` does. Assumption: medians of runs are roughly lognormal; s is robust, so that one bad
reference run neither hides a loss nor makes one.

Runs of fewer than three days do not show what the level does from day to day: the interval then allows for the drift of the machine's
class (`drift.toml`), as that of `compare` does.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_of
from typing import Literal, NamedTuple

import numpy as np
from msgspec.structs import replace

from hotlap.core import work
from hotlap.core.analysis import changes, drift
from hotlap.core.analysis.compare import MIN_EFFECT
from hotlap.core.analysis.doubts import busy_run, replaced
from hotlap.core.analysis.environment import method_changed
from hotlap.core.analysis.matching import FEWEST_RUNS
from hotlap.core.analysis.standards import unmeasured
from hotlap.core.analysis.state import advised
from hotlap.core.errors import InputError
from hotlap.core.record import Baseline, Device, Machine, Plan, Reference, Result, Row, Verdict, identity, machine_class
from hotlap.core.stats import multiple_testing
from hotlap.core.stats.drift import FEWEST_DAYS, NORMAL, allowed
from hotlap.core.stats.ratio import beyond, ratio, wandering
from hotlap.core.stats.series import MAD_TO_SD
from hotlap.core.stats.student import quantile, two_sided
from hotlap.core.store.fold import disturbed
from hotlap.core.units import COUNTS, counted, percent, show, signed_percent

NOISIEST = 0.10  # a case whose loss must be larger than this to be seen has not earned the right to gate
ERROR_RATE = 0.05
STRETCH, LEAST_STRETCH = 0.1, 6  # of the rounds, and of rounds, whose level is looked at
IN_TURNS = "the base in turns (--measure PLAN --base REF)"
ADDS = "'hotlap baseline save RUN --add' with the same --name or --to"
DAY = len("20261123")  # a run's id begins with the day on which it began


@dataclass(frozen=True)
class ReferenceRatio:
    """A case against its reference, before all cases together decide. Logarithms; above 0 is better."""

    row: Row
    reference: float  # in the metric's unit
    log_ratio: float
    reach: float  # half-width of the 95 % interval
    p: float
    label: str  # what the reference is, in words
    limits: tuple[str, ...] = ()  # why only a larger loss shows, in words
    virtual: bool = False  # other machines of its host may slow it, and nothing in it shows that


Match = Literal["host", "class"]


FEWEST_ROUNDS = 4  # of either side, where there are too few runs


class BaselinePlace(NamedTuple):
    """Where a plan is to be measured."""

    target: str  # by its name alone
    machine: Machine
    devices: Sequence[Device]


@dataclass(frozen=True)
class AgainstBaseline:
    """What a baseline knows of this very device, else of its model, else nothing; matched by class: of machines of the same class."""

    baseline: Baseline
    machine: Machine  # of the run
    min_effect: float = MIN_EFFECT
    match: Match = "host"

    @property
    def name(self) -> str:
        return titled(self.baseline.name)

    def judge(self, rows: Sequence[Row]) -> list[Verdict]:
        """A verdict per row; the error rate is held over all of them (Benjamini and Hochberg)."""
        found = [unmeasured(row) or self._held(row) for row in rows]
        verdicts = decided([self._missed(row, one) for row, one in zip(rows, found, strict=True)], self.name, self.min_effect)
        if self.match == "host":
            return verdicts
        seen = [machine_class(self.machine, device_of(self.machine, row)) for row in rows]
        return [replace(one, machine_class=of) if one.ratio is not None else one for one, of in zip(verdicts, seen, strict=True)]

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
        if self.match == "class":
            here = machine_class(self.machine, device)
            return [one for one in same if one.machine_class == here], f"machines of its class ({here.text})"
        wanted = identity(row.device, row.result.target, self.machine.host)
        own = [one for one in same if one.identity == wanted and (not device or not one.serial or one.serial == device.serial)]
        if own:
            return own, "this device"
        model = [one for one in same if device and one.model == device.model]
        return model, f"other devices of its model {device.model}" if device else "its model"

    def _held(self, row: Row) -> ReferenceRatio | Verdict:
        references, whose = self._references(row)
        if references and not any(one.timing == row.result.timing for one in references):
            changed = method_changed(references[0].timing, row.result.timing, "in the baseline", "now")
            return Verdict(state="inconclusive", reason=f"{changed}; save the baseline anew from new runs", against=self.name)
        references = [one for one in references if one.timing == row.result.timing]
        runs = [values for one in references for values in one.runs.values()]
        if not runs:
            return Verdict(state="inconclusive", reason=f"the {self.name} does not know it", against=self.name)
        if len(runs) < FEWEST_RUNS and any(notice.code == "one_process" for notice in row.result.notices):
            reason = (
                f"each run is one process, and {counted(len(runs), 'run')} cannot show how processes differ: {FEWEST_RUNS} are needed; "
                f"{ADDS} adds more"
            )
            return Verdict(state="inconclusive", reason=reason, against=self.name)
        text = f"{counted(len(runs), 'run')} of {whose}"
        held = against(row, [statistics.median(values) for values in runs], runs, text, self.name)
        if isinstance(held, Verdict):
            return held
        device = device_of(self.machine, row)
        kind = drift.class_of(self.machine, [device] if device else [])
        if kind == "virtual":
            held = replace_of(held, virtual=True)
        return held if is_of_days(references) else self._drifting(kind, held)

    def _drifting(self, kind: str, held: ReferenceRatio) -> ReferenceRatio:
        """Widened by what the level may do between the baseline's few days and now."""
        name, share, _ = drift.allowance_of(kind)
        if not share:
            return held
        words = "a dedicated machine (a virtual one drifts by more)" if name == "unknown" else f"a {name} machine"
        reach = float(allowed(share).widen(np.array(held.reach), 0.95))
        score = NORMAL.inv_cdf(1 - ERROR_RATE / 2) * abs(held.log_ratio) / reach
        p = max(held.p, 2 * (1 - NORMAL.cdf(score)))
        return replace_of(held, reach=reach, p=p, limits=(*held.limits, f"{percent(share)} is allowed for drift of {words}"))


def against(row: Row, medians: Sequence[float], runs: Sequence[Sequence[float]], text: str, name: str) -> ReferenceRatio | Verdict:
    """One row against reference medians, with the rounds they are of."""
    value, lower = row.summary.median, row.result.better == "lower"
    if value is not None and value <= 0 < min(medians) and row.result.better == "higher":
        seen = f"{show(value, row.result.unit)}, where the median of {text} is {show(statistics.median(medians), row.result.unit)}"
        return Verdict(state="fail", reason=seen, against=name)
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
        reason = f"{counted(len(row.result.values), 'round')} here, {len(rounds)} in {text}: each needs at least {FEWEST_ROUNDS}"
        more = "; run more rounds" if len(row.result.values) < FEWEST_ROUNDS else f"; {ADDS} adds runs to it"
        return Verdict(state="inconclusive", reason=advised(reason, more, row.result), against=name)
    reach = max(math.log(estimate.high / estimate.ratio), math.log(estimate.ratio / estimate.low))
    return ReferenceRatio(
        row, statistics.median(rounds), math.log(estimate.ratio), reach, estimate.p, f"rounds of {text}",
        (f"{counted(len(runs), 'run')} cannot tell how runs differ ({FEWEST_RUNS} can)",),
    )  # fmt: skip


def _spread(logs: Sequence[float]) -> float:
    """Robust standard deviation: the larger of that by the median deviation and half of the plain one, which heavy tails inflate and
    a lucky majority of equal values cannot make vanish."""
    centre = statistics.median(logs)
    robust = MAD_TO_SD * statistics.median(abs(v - centre) for v in logs) * (1 + 1 / len(logs))
    return max(robust, statistics.stdev(logs) / 2, 1e-4)


def decided(answers: Sequence[ReferenceRatio | Verdict], name: str, min_effect: float) -> list[Verdict]:
    """A loss fails when its whole interval is beyond the threshold and it is not chance over all cases; a case passes when a loss
    would have been seen."""
    adjusted = multiple_testing.benjamini_hochberg([one.p if isinstance(one, ReferenceRatio) else None for one in answers])
    busy = busy_run([one.row.result for one in answers if isinstance(one, ReferenceRatio)])
    return [one if isinstance(one, Verdict) else _decided(one, q, name, min_effect, busy) for one, q in zip(answers, adjusted, strict=True)]


def _others(result: Result, busy: bool) -> str:
    """What other programs did that may make its difference; "" where they did not, or its unit counts what they do not change."""
    if result.unit in COUNTS:
        return ""
    if beside := sum(map(disturbed, result.used)):
        return f"other programs ran during {beside} of its {counted(len(result.used), 'round')}, and may make the difference"
    if busy and replaced([result]):
        return "other programs ran beside most cases of this run, samples of this one had to be replaced, and they may make the difference"
    return ""


def _decided(held: ReferenceRatio, q: float | None, name: str, min_effect: float, busy: bool) -> Verdict:
    result = held.row.result
    unit, lower = result.unit, result.better == "lower"
    seen = _loss(held.reach, lower)  # the smallest that shows
    least = max(min_effect, seen)
    threshold = held.reference * (1 + least if lower else 1 - least)
    size, low, high = (math.exp(v) for v in (held.log_ratio, held.log_ratio - held.reach, held.log_ratio + held.reach))
    shift = signed_percent(threshold / held.reference - 1)
    source = "their spread" if seen > min_effect else "the threshold"
    limits = "".join(f"; {one}" for one in held.limits)
    verdict = Verdict(
        state="pass", against=name, threshold=threshold, ratio=size, low=low, high=high,
        provenance=f"{held.label}: {show(held.reference, unit)}, {shift} ({source}){limits}",
    )
    worse = f"{changes.from_to(result, (held.reference, held.row.summary.median), verdict)}: worse than the {held.label}"
    sure = held.log_ratio < 0 and q is not None and q <= ERROR_RATE
    if sure and beyond(low, high, min_effect) == "smaller":
        if others := _others(result, busy):
            return replace(verdict, state="inconclusive", reason=f"{worse}, but {others}: measure on a quiet machine")
        if unit not in COUNTS and (why := _as_fast(held, min_effect) or _fastest(held, min_effect)):
            return replace(verdict, state="inconclusive", reason=f"{worse}, but {why}; measure again, or {IN_TURNS}")
        far, provenance = _from_where(held, min_effect)
        from_there = f"{changes.quantity(far, unit)}: {changes.quantity(held.reference, unit)} {signed_percent(far / held.reference - 1)}"
        reason = f"{worse}; threshold {from_there}, from where all of its interval is beyond {percent(min_effect)}"
        return replace(verdict, state="fail", threshold=far, provenance=provenance, reason=reason)
    if sure and low < 1 / (1 + min_effect):
        return _open(held, verdict, min_effect, worse)
    if seen > NOISIEST and beyond(low, high, min_effect) == "larger":  # however noisy: it is surely better
        better = changes.from_to(result, (held.reference, held.row.summary.median), verdict)
        return replace(verdict, reason=f"{better}: better than the {held.label}{limits}")
    loss = f"{changes.subject(result)} worse by {percent(abs(threshold / held.reference - 1))} or more"
    if seen > NOISIEST:
        only = f"too noisy to gate: only {loss} would show, against the {held.label}{limits}"
        reason = advised(only, f"; {_sharper(held)}", result)
        return replace(verdict, state="inconclusive", reason=f"{reason}{_beside(held, verdict, min_effect)}")
    shown = f"{loss} would have been seen, against the {held.label}{limits}"
    return replace(verdict, reason=f"{shown}{_beside(held, verdict, min_effect)}")


def _loss(reach: float, lower: bool) -> float:
    """A loss of the metric as printed, as a share, from the logarithm of its ratio; `lower`: less of it is better."""
    return math.expm1(reach) if lower else -math.expm1(-reach)


def _as_fast(held: ReferenceRatio, min_effect: float) -> str:
    """That the level of the rounds moved while they were measured, and that a stretch of them is no loss that is sure: then the machine may
    have changed, and not the code. "" where the level stayed, or where even the fastest stretch is a loss."""
    result = held.row.result
    if not wandering(result.values):
        return ""
    length = max(LEAST_STRETCH, round(STRETCH * len(result.values)))
    stretches = [statistics.median(result.values[at : at + length]) for at in range(len(result.values) - length + 1)]
    fastest = min(stretches) if result.better == "lower" else max(stretches)
    if _is_loss(held, fastest, min_effect):
        return ""
    return (
        f"its rounds are alike in stretches, the fastest of {length} rounds at {changes.quantity(fastest, result.unit)}: the speed of "
        "the machine changed while it ran, or that of the program"
    )


def _fastest(held: ReferenceRatio, min_effect: float) -> str:
    """That the fastest tenth of a virtual machine's rounds is no sure loss: other machines of its host may have slowed the rest, and never
    make a number better. "" where even the fastest are a loss, and on a machine of its own."""
    result = held.row.result
    fastest = float(np.quantile(result.values, STRETCH if result.better == "lower" else 1 - STRETCH))
    if not held.virtual or _is_loss(held, fastest, min_effect):
        return ""
    return (
        f"the fastest tenth of its rounds reaches {changes.quantity(fastest, result.unit)}, which is no sure loss: other virtual machines "
        "on the same host may have slowed the rest, which cannot be seen from this one"
    )


def _is_loss(held: ReferenceRatio, fastest: float, min_effect: float) -> bool:
    """Whether even the fastest rounds lie beyond the threshold of a loss."""
    far, _ = _from_where(held, min_effect)
    return fastest >= far if held.row.result.better == "lower" else fastest <= far


def _from_where(held: ReferenceRatio, min_effect: float) -> tuple[float, str]:
    """From which value on a loss fails, since its whole interval is beyond `min_effect` then, and where that comes from."""
    far = math.exp(held.reach) * (1 + min_effect)
    threshold = held.reference * far if held.row.result.better == "lower" else held.reference / far
    shift = f"{signed_percent(threshold / held.reference - 1)} (from where all of its interval is beyond {percent(min_effect)})"
    source = f"{held.label}: {show(held.reference, held.row.result.unit)}, {shift}"
    return threshold, source + "".join(f"; {one}" for one in held.limits)


def _open(held: ReferenceRatio, verdict: Verdict, min_effect: float, worse: str) -> Verdict:
    """Surely worse, and perhaps by less than what counts: with the value from which it would fail."""
    unit, (threshold, provenance) = held.row.result.unit, _from_where(held, min_effect)
    shift = signed_percent(threshold / held.reference - 1)
    perhaps = f"perhaps by less than {percent(min_effect)}, which is no loss"
    reason = f"{worse}, {perhaps}: from {show(threshold, unit)} ({shift}) on it would fail"
    return replace(
        verdict, state="inconclusive", threshold=threshold, provenance=provenance,
        reason=advised(reason, f"; {_sharper(held)}", held.row.result),
    )  # fmt: skip


def _sharper(held: ReferenceRatio) -> str:
    """What makes a smaller loss show: rounds do not narrow what is allowed for runs and days that are not known."""
    return f"{ADDS} adds runs, of other days too" if held.limits else "more rounds, or a quieter machine"


def _beside(held: ReferenceRatio, verdict: Verdict, min_effect: float) -> str:
    """What the medians in the row say, where that is another change than the estimate by more than what counts; else ""."""
    better = held.row.result.better
    medians = changes.of_medians((held.reference, held.row.summary.median), verdict, better, min_effect)
    return f"; {signed_percent(changes.change(math.exp(held.log_ratio), better))} is estimated from all rounds{medians}" if medians else ""


def finds(reference: Reference) -> float | None:
    """The smallest loss that a gate against what is kept of a case shows, as a share, if the next run is as noisy; None where too few
    rounds are kept to say."""
    runs, lower = list(reference.runs.values()), reference.better == "lower"
    rounds = [value for values in runs for value in values]
    if not rounds or min(rounds) <= 0:
        return None
    if len(runs) >= FEWEST_RUNS:
        logs = [math.log(statistics.median(values)) for values in runs]
        return _loss(quantile(0.975, len(logs) - 1) * _spread(logs) * math.sqrt(1 + 1 / len(logs)), lower)
    estimate = ratio(rounds, runs[-1])
    if estimate.ratio is None or estimate.low is None or estimate.high is None:
        return None
    return _loss(max(math.log(estimate.ratio / estimate.low), math.log(estimate.high / estimate.ratio)), lower)


def is_of_days(references: Sequence[Reference]) -> bool:
    """Whether their runs are of so many days that they show what the level does from day to day."""
    return len({run[:DAY] for one in references for run in one.runs}) >= FEWEST_DAYS


def titled(name: str) -> str:
    """What a baseline is called; one of the name `baseline` by that alone."""
    return name if name == "baseline" else f"baseline {name}"


def device_of(machine: Machine, row: Row) -> Device | None:
    return next((device for device in machine.devices if device.key == row.device), None)


# ---------------------------------------------------------------- before anything is measured


def check(baseline: Baseline, plan: Plan, here: BaselinePlace, match: Match, part: bool = False) -> None:
    """That the baseline can judge the plan on these devices. `part`: only a part of the cases is to be judged.

    Raises InputError: another target, another device or class of machine, no case in common, a case that is gone.
    """
    name = f"the {titled(baseline.name)}"
    fits = [one for one in baseline.references if one.target == here.target]
    if not fits:
        has = ", ".join(sorted({one.target for one in baseline.references})) or "nothing"
        raise InputError(f"{name} is of the target {has}, not {here.target}; give --target, or save one of runs on {here.target}")
    fits = _of_class(fits, here, name) if match == "class" else _of_device(fits, here, name)
    wanted = {case.id for case in plan.cases}
    if not any(one.case.id in wanted for one in fits):
        raise InputError(f"{name} knows no case of the plan '{plan.name}'; it has {_cases(fits)}")
    used = [one for one in fits if one.case.id in wanted]
    if all(too_few(one) for one in used):
        most = max(sum(map(len, one.runs.values())) for one in used)
        add = f"{ADDS} adds runs to it"
        raise InputError(f"{name} has {counted(most, 'round')} of a case at most, and a comparison needs {FEWEST_ROUNDS}; {add}")
    runs = {run for one in used for run in one.runs}
    gone = [one for one in fits if one.case.id not in wanted and runs & one.runs.keys()]
    if gone and not part:
        raise InputError(
            f"{name} has what the plan '{plan.name}' lacks: {_cases(gone)}; put it back into the plan, judge a part with --where, "
            "or save the baseline anew with --replace"
        )


def too_few(reference: Reference) -> bool:
    """Whether nothing can be compared with it: neither enough runs, nor enough rounds."""
    return len(reference.runs) < FEWEST_RUNS and sum(map(len, reference.runs.values())) < FEWEST_ROUNDS


def _of_class(fits: Sequence[Reference], here: BaselinePlace, name: str) -> list[Reference]:
    classes = [machine_class(here.machine, device) for device in here.devices]
    same = [one for one in fits if one.machine_class in classes]
    if same:
        return same
    has = sorted({one.machine_class.text for one in fits if one.machine_class})
    if not has:
        raise InputError(f"{name} does not say of what class of machine it is: it was saved by Hotlap 0.1; save it anew from new runs")
    more = f" and {len(has) - 1} more" if len(has) > 1 else ""
    raise InputError(f"{name} is of another class of machine: {has[0]}{more}, here {classes[0].text}; save one of runs on this machine")


def _of_device(fits: Sequence[Reference], here: BaselinePlace, name: str) -> list[Reference]:
    own = {identity(device.key, here.target, here.machine.host) for device in here.devices}
    models = {device.model for device in here.devices}
    same = [one for one in fits if one.identity in own or one.model in models]
    if same:
        return same
    has = ", ".join(sorted({one.model for one in fits}))
    raise InputError(f"{name} is of another device: {has}, here {', '.join(sorted(models))}; save one of runs on this machine")


def _cases(references: Sequence[Reference]) -> str:
    names = list(dict.fromkeys(work.label(one.case) for one in references))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
