"""One case on one device: size the batch, take samples for the time given, replace what was disturbed, drop the warm-up, check.

Every sample is a batch of calls long enough that the timer's resolution is under 0.1 % of it. The cost of timing an
empty batch is measured first and subtracted. Device events are compared with the wall clock over the same batches. A sample
during which something foreign ran is taken again while there is time; its own time is never looked at for that (`foreign`).
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from hotlap.core.errors import HotlapError, MachineError, NotSupported
from hotlap.core.measure import host_bound, validity, workloads
from hotlap.core.measure.foreign import ForeignWatch, Nothing
from hotlap.core.measure.protocol import CaseChoice
from hotlap.core.measure.targets.base import Seen, Target, Timing
from hotlap.core.measure.targets.sticky import ended, sticky
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.record import Case, Check, Notice, Samples
from hotlap.core.stats import series, summary
from hotlap.core.units import percent

RESOLUTION_SHARE = 1e-3  # of a sample, at most
SHORTEST_S = 2e-3  # a sample is at least this long: below it scheduling noise and the start of a batch rule
OVERHEAD_TIMINGS = 21
SECOND_LOOKS_S = 1.0  # that looking again at two timers may take, but for the fewest samples
MOST_CALLS, MOST_SAMPLES, FEWEST_SAMPLES = 50_000, 5_000, 3
MOST_REPLACED = 0.5  # of a case's samples; where more were disturbed the least disturbed stay, and the case says so
IN_A_ROW = 2  # disturbed samples, after which waiting costs less than sampling
DISTURBED = 0.25  # share of disturbed samples among those kept, from which others are named as sharing the device
STOLEN, TICK_S = 0.02, 0.01  # share of the processors' time taken by the hypervisor that is worth a notice; what it is counted in


@dataclass(frozen=True)
class CaseBudget:
    """What one case gets in one round."""

    seconds: float
    sample_s: float = 0.0
    seed: int = 0
    round: int = 0
    patience_s: float = 0.0  # beyond `seconds`, for samples in place of disturbed ones and for waiting until others are done
    clock: Callable[[], float | None] = lambda: None  # of the device or the cores that carry the load, Hz, where it can be measured
    sampling: Callable[[float, float], None] | None = None  # called when sampling begins (zeros) and ends: seconds timed, seconds between
    watch: ForeignWatch = field(default_factory=Nothing)  # what else runs
    alone: bool = False  # each call is a sample
    whole: bool = False  # no sample is taken as warm-up
    choice: CaseChoice = field(default_factory=CaseChoice)  # what the run's first round chose for the case


class Overhead(NamedTuple):
    """The cost of timing an empty batch: median by either timer, and the least by the wall clock."""

    device_s: float
    wall_s: float
    least_s: float = 0.0


@dataclass
class RawTimings:
    """Raw timings in order, and what happened during and between them."""

    device_s: list[float | None] = field(default_factory=list)
    whole_s: list[float | None] = field(default_factory=list)  # by the device's timer, over what the wall clock covers
    wall_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    clocks_hz: list[float] = field(default_factory=list)
    between_s: list[float] = field(default_factory=list)  # all that was not timed, by the target's clock
    foreign: list[Seen] = field(default_factory=list)

    def kept(self) -> list[int]:
        """Places of the samples that stay: all that nothing disturbed, and the least disturbed up to half of all."""
        disturbed = sorted((n for n, seen in enumerate(self.foreign) if seen.cause), key=lambda n: -self.foreign[n].share)
        gone = set(disturbed[: int(len(self.foreign) * MOST_REPLACED)])
        return [n for n in range(len(self.wall_s)) if n not in gone]

    @property
    def disturbed(self) -> bool:
        return any(seen.cause for seen in self.foreign)

    def disturbed_share(self, places: Sequence[int]) -> float:
        return sum(bool(self.foreign[n].cause) for n in places) / len(places) if places else 0.0


def measure(target: Target, case: Case, budget: CaseBudget, overhead: Overhead | None = None) -> Samples:
    """The samples of one case in one round. Never raises for what the case itself cannot do: its status says so."""
    blank = Samples(case=case.id, device=target.device.key, round=budget.round, seed=budget.seed)
    try:
        prepared = workloads.prepare(target, case, budget.seed, budget.choice.variant)
        try:
            return time_prepared(target, prepared, budget, blank, overhead or timing_overhead(target))
        finally:
            if prepared.close:
                prepared.close()
    except NotSupported as error:
        return _with(blank, status="not_run", reason=str(error))
    except MachineError:
        raise
    except HotlapError as error:
        return _with(blank, status="error", reason=str(error))
    except Exception as error:  # drivers raise kinds of their own: one broken case must not take the round with it
        if sticky(error):  # the device is lost, and with it every later case
            raise ended(error) from error
        return _with(blank, status="error", reason=f"{type(error).__name__}: {_line(error)}")


def timing_overhead(target: Target) -> Overhead:
    """Median cost of timing nothing. Source of the method: subtract an empty loop, after Georges et al., OOPSLA 2007."""
    timings = [target.time(lambda _: None, 0) for _ in range(OVERHEAD_TIMINGS)]
    device, wall = [t.device_s for t in timings if t.device_s is not None], [t.wall_s for t in timings]
    return Overhead(float(np.median(device)) if device else 0.0, float(np.median(wall)), max(min(wall), 0.0))


def time_prepared(target: Target, prepared: Prepared, budget: CaseBudget, blank: Samples, overhead: Overhead) -> Samples:
    """Samples of something ready to run."""
    began = target.clock.now()
    budget.watch.join(prepared.helpers)
    way = host_bound.way(target, prepared, lambda one: _batch(target, one, budget), overhead.device_s, budget.choice.method)
    prepared, calls = way.prepared, way.calls
    budget.watch.steal()
    budget.watch.others()
    sampling_s = target.clock.now()
    raw = _take(target, prepared, budget, calls)
    ended = target.clock.now()
    steal, others = budget.watch.steal(), budget.watch.others()
    values, method, cost = per_call_seconds(prepared, raw, calls, overhead)
    places = raw.kept()
    used = [values[n] for n in places]
    first = _steady_from(used)
    kept = used if budget.whole else used[first or 0 :]
    check = _checked(prepared)
    verdict = validity.validity(
        check, _timers(prepared, raw, overhead), lambda: _timers_again(target, prepared, calls * validity.LONGER, budget, overhead),
    )
    resolution = target.timer_resolution_s
    watched = not budget.watch.why_not and not isinstance(budget.watch, Nothing)
    disturbed = raw.disturbed_share(places)
    own = [*way.notices, *_of_target(target, prepared), *(prepared.notices() if prepared.notices else [])]
    notices = _notices(kept, first, resolution, calls) + _shared(raw, places, others, steal, ended - sampling_s) + own
    return _with(
        blank, status=verdict.status, cause=verdict.cause, reason=verdict.reason, values=kept, calls=calls, method=method, overhead_s=cost,
        resolution_s=resolution, wall_ratio=_wall_ratio(prepared, raw, overhead), warmup_samples=len(used) - len(kept),
        steady_state_found=first is not None,
        replaced=[values[n] for n in _gone(raw, places)], foreign=dict(Counter(raw.foreign[n].cause for n in _gone(raw, places))),
        disturbed=disturbed if watched else None, waited_s=max(ended - sampling_s - budget.seconds, 0.0) if raw.disturbed else 0.0,
        steal=steal, began_s=began, ended_s=ended, clocks_hz=raw.clocks_hz,
        autocorrelation=summary.autocorrelation(kept), variant=prepared.variant, passes=prepared.passes, check=check,
        code_path=prepared.code_path, no_counters=prepared.no_counters,
        counters=prepared.counters() if prepared.counters else {},
        eager_s=way.eager_s, metrics=_metrics(prepared), notices=notices,
        bookkeeping_s=float(np.median(raw.gaps_s)) if raw.gaps_s else None, duty=_duty(raw),
    )


def _duty(raw: RawTimings) -> float | None:
    """The share of the time that was timed. Short bursts with pauses do not heat a device as constant load does."""
    timed_s = sum(raw.wall_s)
    return timed_s / (timed_s + sum(raw.between_s)) if timed_s > 0 else None


def _batch(target: Target, prepared: Prepared, budget: CaseBudget) -> tuple[int, Timing | None]:
    """Calls per sample, a single one if it is long enough, else as many as it takes, in whole multiples; and the last timing of so many."""
    step = prepared.multiple
    if prepared.flush is not None:
        return 1, None  # cold caches are cold once
    if prepared.batch is not None:
        return prepared.batch, None
    if budget.alone:
        target.time(prepared.enqueue, step, prepared.graph)
        return step, None
    wanted = max(target.timer_resolution_s / RESOLUTION_SHARE, budget.sample_s, SHORTEST_S)
    most = max(MOST_CALLS // step, 1) * step
    calls, deadline = step, target.clock.now() + budget.seconds / 2
    target.time(prepared.enqueue, calls, prepared.graph)  # the first one compiles, pages in, wakes up
    while True:
        timing = target.time(prepared.enqueue, calls, prepared.graph)
        seconds = _seconds(prepared, timing)
        if seconds >= wanted or calls >= most or target.clock.now() > deadline:
            return calls, timing
        grow = min(max(wanted / max(seconds, 1e-9) * 1.1, 2.0), 16.0)
        calls = min(int(np.ceil(calls * grow / step)) * step, most)


def _seconds(prepared: Prepared, timing: Timing) -> float:
    return timing.device_s if prepared.timer == "device" and timing.device_s is not None else timing.wall_s


def _take(target: Target, prepared: Prepared, budget: CaseBudget, calls: int) -> RawTimings:
    """Samples until the time is used up. Nothing but the batch itself is inside the timed region."""
    raw, clock = RawTimings(), target.clock
    append_known(raw.clocks_hz, budget.clock())
    collecting = gc.isenabled()
    gc.disable()
    since = clock.now()  # before the session hears of it: what this process waits meanwhile is in its account
    if budget.sampling:
        budget.sampling(0.0, 0.0)
    try:
        since = _sample_until(target, prepared, budget, calls, raw, since)
        if budget.sampling:  # no collection of garbage between the account and its message
            budget.sampling(sum(raw.wall_s), sum(raw.between_s) + clock.now() - since)
    finally:
        if collecting:
            gc.enable()
    append_known(raw.clocks_hz, budget.clock())
    return raw


def _sample_until(target: Target, prepared: Prepared, budget: CaseBudget, calls: int, raw: RawTimings, since: float) -> float:
    """Fills `raw`; when the last sample ended. `since`: from when time counts as between samples."""
    clock, watch = target.clock, budget.watch
    left = began = clock.now()
    middle, patience_s, in_a_row = began + budget.seconds / 2, budget.patience_s, 0
    waited_s, ahead = 0.0, host_bound.in_one_go(target, prepared)
    while True:
        if prepared.before is not None:
            prepared.before()
            left = clock.now()
        if prepared.flush is not None and ahead is None:
            prepared.flush()
            target.sync()
            left = clock.now()
        watch.begin()
        entered = clock.now()
        (timing,) = host_bound.timed(target, prepared, calls)
        seen = watch.end(timing.wall_s)
        raw.device_s.append(timing.device_s)
        raw.whole_s.append(timing.device_s if timing.whole_s is None else timing.whole_s)
        raw.wall_s.append(timing.wall_s)
        raw.foreign.append(seen)
        raw.gaps_s.append(entered - left)
        raw.between_s.append(entered - since)
        left = since = clock.now()
        if prepared.after is not None:
            prepared.after()
            left = clock.now()
        if left >= middle:
            middle = float("inf")
            append_known(raw.clocks_hz, budget.clock())
            left = clock.now()
        in_a_row = in_a_row + 1 if seen.cause else 0
        if in_a_row >= IN_A_ROW and waited_s < patience_s:
            waited_s += watch.wait(patience_s - waited_s)
            in_a_row, left = 0, clock.now()
        if _done(raw, left - began - waited_s, budget, patience_s - waited_s):
            return since


def _done(raw: RawTimings, spent_s: float, budget: CaseBudget, patience_s: float) -> bool:
    """Whether there are enough samples for the time that went into them; `patience_s` is left for those in place of disturbed ones."""
    count = len(raw.foreign)
    if count >= MOST_SAMPLES or spent_s >= 3 * budget.seconds + 1.0 + patience_s:
        return True  # a single call may be longer than the time given: one sample is what there is
    if spent_s < budget.seconds or count < FEWEST_SAMPLES:
        return False
    clean = sum(not seen.cause for seen in raw.foreign)
    return spent_s >= budget.seconds + patience_s or (clean >= FEWEST_SAMPLES and clean >= count * MOST_REPLACED)


def append_known(clocks_hz: list[float], value: float | None) -> None:
    if value is not None:
        clocks_hz.append(value)


def per_call_seconds(prepared: Prepared, raw: RawTimings, calls: int, overhead: Overhead) -> tuple[list[float], str, float]:
    """Seconds per call by the case's timer, its method id, and the overhead that was subtracted from every sample."""
    by_device = prepared.timer == "device" and all(v is not None for v in raw.device_s)
    found = [v for v in raw.device_s if v is not None] if by_device else raw.wall_s
    cost = overhead.device_s if by_device else overhead.wall_s
    queued = "queued-" if raw.whole_s != raw.device_s else ""
    kind = queued + ("graph" if prepared.graph else "batch" if calls > 1 else "single")
    return [max(v - cost, 0.0) / calls for v in found], f"{'event' if by_device else 'wall'}-{kind}", cost


def _steady_from(values: list[float]) -> int | None:
    """Index of the first steady sample; short series count as steady, since their warm-up was the sizing of the batch."""
    return series.steady_from(values) if len(values) >= 10 else 0


def _timers(prepared: Prepared, raw: RawTimings, overhead: Overhead) -> validity.Timers | None:
    """Both timers over the samples that nothing disturbed; None where only one was read."""
    if any(v is None for v in raw.whole_s):
        return None
    clean = [n for n, seen in enumerate(raw.foreign) if not seen.cause]
    return validity.Timers([raw.whole_s[n] or 0.0 for n in clean], [raw.wall_s[n] for n in clean], overhead.least_s)


def _timers_again(target: Target, prepared: Prepared, calls: int, budget: CaseBudget, overhead: Overhead) -> validity.Timers:
    """Longer batches, until those that nothing disturbed settle the doubt, or have taken long enough."""
    timers = validity.Timers([], [], overhead.least_s)
    device_s, wall_s = [], []
    began = target.clock.now()
    for number in range(validity.SECOND_LOOKS):
        if number >= FEWEST_SAMPLES and target.clock.now() - began > SECOND_LOOKS_S:
            break
        budget.watch.begin()
        timing = target.time(prepared.enqueue, calls, prepared.graph)
        if budget.watch.end(timing.wall_s).cause or timing.device_s is None:
            continue
        device_s.append(timing.device_s)
        wall_s.append(timing.wall_s)
        timers = timers._replace(device_s=device_s, wall_s=wall_s)
        if len(wall_s) >= validity.SECOND_LOOKS // 2 and not validity.disagreement(timers):
            break
    return timers


def _wall_ratio(prepared: Prepared, raw: RawTimings, overhead: Overhead) -> float | None:
    found = _timers(prepared, raw, overhead)
    return validity.ratio(found.device_s, found.wall_s, overhead.wall_s) if found and found.wall_s else None


def _checked(prepared: Prepared) -> Check:
    try:
        return prepared.check()
    except NotSupported as error:
        return Check(passed=False, what=str(error))


def _gone(raw: RawTimings, places: Sequence[int]) -> list[int]:
    """Places of the samples that were replaced."""
    return sorted(set(range(len(raw.wall_s))).difference(places))


def _shared(raw: RawTimings, places: Sequence[int], others: float | None, steal: float | None, seconds: float) -> list[Notice]:
    """What others took, beside what could be replaced. A brake is no program: it is a reason of throttling."""
    notices = []
    disturbed = sum(raw.foreign[n].cause not in ("", "brake") for n in places) / max(len(places), 1)
    if disturbed >= DISTURBED:
        used = f"; other programs used {others:.1f} processors" if others is not None else ""
        notices.append(Notice(code="shared_device", seen=f"others ran during {percent(disturbed)} of the samples that are left{used}"))
    if steal is not None and steal >= STOLEN and steal * seconds >= TICK_S:
        notices.append(Notice(code="steal", seen=f"the hypervisor gave {percent(steal)} of the processors' time to other guests"))
    return notices


def _of_target(target: Target, prepared: Prepared) -> list[Notice]:
    """What stands beside every number of a device: that it is none, and that its timer was refused when it was opened."""
    notices = []
    if target.device.facts.get("software"):
        notices.append(Notice(code="software_device", seen=f"{target.device.name}: this computer's processor draws and computes"))
    refused = getattr(target, "timer_refused", "")
    if refused and prepared.timer == "device":
        notices.append(Notice(code="timer_refused", seen=f"{refused}; timed by the wall clock"))
    return notices


def _metrics(prepared: Prepared) -> dict[str, float]:
    own = prepared.metrics() if prepared.metrics else {}
    return {**own, "operations": prepared.operations} if prepared.operations else own


def _notices(kept: list[float], first: int | None, resolution_s: float, calls: int) -> list[Notice]:
    notices = []
    if first is None:
        notices.append(Notice(code="not_steady", seen="no steady state was found in the time given"))
    if len(kept) < 5:
        notices.append(Notice(code="few_samples", seen=f"{len(kept)} sample{'' if len(kept) == 1 else 's'} in the round"))
    if len(kept) >= 20 and series.bimodal(kept):
        notices.append(Notice(code="bimodal", seen="samples gather around two values"))
    if len(kept) >= 10 and series.drifting(kept):
        notices.append(Notice(code="drift", seen=f"{100 * series.first_to_last(kept):+.1f} % from first to last sample"))
    shortest = min(kept, default=0.0) * calls
    if shortest > 0 and resolution_s > RESOLUTION_SHARE * shortest:
        notices.append(Notice(code="timer_coarse", seen=f"the timer's step is {percent(resolution_s / shortest)} of a sample"))
    return notices


def _with(samples: Samples, **changes: Any) -> Samples:
    return msgspec.structs.replace(samples, **changes)


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]
