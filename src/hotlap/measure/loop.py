"""One case on one device: size the batch, take samples for the time given, drop the warm-up, check the result.

Every sample is a batch of calls long enough that the timer's resolution is under 0.1 % of it. The cost of timing an
empty batch is measured first and subtracted. Device events are held against the wall clock over the same batches.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hotlap import workloads
from hotlap.errors import HotlapError, MachineError, NotSupported
from hotlap.record import Case, Check, Flag, Samples
from hotlap.stats import series, summary
from hotlap.targets.base import Target, Timing
from hotlap.workloads.base import Prepared

RESOLUTION_SHARE = 1e-3  # of a sample, at most
SHORTEST_S = 2e-3  # a sample is at least this long: below it scheduling noise and the start of a batch rule
OVERHEAD_TIMINGS = 21
MOST_CALLS, MOST_SAMPLES, FEWEST_SAMPLES = 50_000, 5_000, 3
SECOND_LOOKS = 12  # batches more before timers count as disagreeing
DISAGREE_SHARE, DISAGREE_S = 0.05, 100e-6  # device timer and wall clock may differ by both together


@dataclass(frozen=True)
class Slot:
    """What one case gets in one round."""

    seconds: float
    sample_s: float = 0.0
    seed: int = 0
    round: int = 0
    clock: Callable[[], float | None] = lambda: None  # the device's clock in Hz, where it can be measured
    sampling: Callable[[float, float], None] | None = None  # told when sampling begins (zeros) and ends: seconds timed, seconds between


Floats = NDArray[np.float64]


class Overhead(NamedTuple):
    """The cost of timing an empty batch, by either timer."""

    device_s: float
    wall_s: float


class Taken(NamedTuple):
    """Raw timings in order, and what happened between them."""

    device_s: list[float | None]
    wall_s: list[float]
    gaps_s: list[float]
    clocks_hz: list[float]
    between_s: list[float]  # all that was not timed, by the target's clock


def measure(target: Target, case: Case, slot: Slot, overhead: Overhead | None = None) -> Samples:
    """The samples of one case in one round. Never raises for what the case itself cannot do: its status says so."""
    blank = Samples(case=case.id, device=target.device.key, round=slot.round, seed=slot.seed)
    try:
        prepared = workloads.prepare(target, case, slot.seed)
        return time_prepared(target, prepared, slot, blank, overhead or timing_overhead(target))
    except NotSupported as error:
        return _with(blank, status="not_run", reason=str(error))
    except MachineError:
        raise
    except HotlapError as error:
        return _with(blank, status="error", reason=str(error))
    except Exception as error:  # drivers raise kinds of their own: one broken case must not take the round with it
        return _with(blank, status="error", reason=f"{type(error).__name__}: {_line(error)}")


def timing_overhead(target: Target) -> Overhead:
    """Median cost of timing nothing. Source of the method: subtract an empty loop, after Georges et al., OOPSLA 2007."""
    timings = [target.time(lambda _: None, 0) for _ in range(OVERHEAD_TIMINGS)]
    device = [t.device_s for t in timings if t.device_s is not None]
    return Overhead(float(np.median(device)) if device else 0.0, float(np.median([t.wall_s for t in timings])))


def time_prepared(target: Target, prepared: Prepared, slot: Slot, blank: Samples, overhead: Overhead) -> Samples:
    """Samples of something ready to run."""
    began = target.clock.now()
    calls = _batch(target, prepared, slot)
    taken = _take(target, prepared, slot, calls)
    ended = target.clock.now()
    values, method, cost = _choose(prepared, taken, calls, overhead)
    first = _steady_from(values)
    kept = values[first or 0 :]
    check = _checked(prepared)
    ratios = _wall_ratios(prepared, taken, overhead)
    agree = not len(ratios) or _agree(ratios, taken.wall_s) or _agree_at_last(target, prepared, calls, overhead)
    status, reason = _judge(check, taken, ratios, agree)
    resolution = 0.0 if prepared.own_value else target.timer_resolution_s
    return _with(
        blank, status=status, reason=reason, seconds=kept, calls=calls, method=method, overhead_s=cost, resolution_s=resolution,
        wall_ratio=float(np.median(ratios)) if len(ratios) else None, dropped=len(values) - len(kept), steady=first is not None,
        began_s=began, ended_s=ended, clocks_hz=taken.clocks_hz,
        autocorrelation=summary.autocorrelation(kept), variant=prepared.variant, check=check,
        counters=prepared.counters() if prepared.counters else {},
        metrics=_metrics(prepared), flags=_flags(kept, first, taken, resolution, calls) + (prepared.flags() if prepared.flags else []),
        bookkeeping_s=float(np.median(taken.gaps_s)) if taken.gaps_s else None,
    )


def _batch(target: Target, prepared: Prepared, slot: Slot) -> int:
    """Calls per sample: a single one if it is long enough, else as many as it takes, in whole multiples."""
    step = prepared.multiple
    if prepared.flush is not None:
        return 1  # cold caches are cold once
    if prepared.batch is not None:
        return prepared.batch
    wanted = max(target.timer_resolution_s / RESOLUTION_SHARE, slot.sample_s, SHORTEST_S)
    most = max(MOST_CALLS // step, 1) * step
    calls, deadline = step, target.clock.now() + slot.seconds / 2
    target.time(prepared.enqueue, calls, prepared.graph)  # the first one compiles, pages in, wakes up
    while True:
        seconds = _seconds(prepared, target.time(prepared.enqueue, calls, prepared.graph))
        if seconds >= wanted or calls >= most or target.clock.now() > deadline:
            return calls
        grow = min(max(wanted / max(seconds, 1e-9) * 1.1, 2.0), 16.0)
        calls = min(int(np.ceil(calls * grow / step)) * step, most)


def _seconds(prepared: Prepared, timing: Timing) -> float:
    return timing.device_s if prepared.timer == "device" and timing.device_s is not None else timing.wall_s


def _take(target: Target, prepared: Prepared, slot: Slot, calls: int) -> Taken:
    """Samples until the slot is used up. Nothing but the batch itself is inside the timed region."""
    taken, clock, deadline = Taken([], [], [], [], []), target.clock, target.clock.now() + slot.seconds
    _note(taken.clocks_hz, slot.clock())
    middle = target.clock.now() + slot.seconds / 2
    collecting = gc.isenabled()
    gc.disable()
    since = clock.now()  # before the session is told: what this process waits meanwhile is in its account
    if slot.sampling:
        slot.sampling(0.0, 0.0)
    try:
        left = clock.now()
        while True:
            if prepared.before is not None:
                prepared.before()
                left = clock.now()
            if prepared.flush is not None:
                prepared.flush()
                left = clock.now()
            entered = clock.now()
            timing = target.time(prepared.enqueue, calls, prepared.graph)
            taken.device_s.append(prepared.own_value() if prepared.own_value else timing.device_s)
            taken.wall_s.append(timing.wall_s)
            taken.gaps_s.append(entered - left)
            taken.between_s.append(entered - since)
            left = since = clock.now()
            if prepared.after is not None:
                prepared.after()
                left = clock.now()
            if left >= middle:
                middle = float("inf")
                _note(taken.clocks_hz, slot.clock())
                left = clock.now()
            if len(taken.wall_s) >= MOST_SAMPLES or (left >= deadline and len(taken.wall_s) >= FEWEST_SAMPLES):
                break
            if left >= deadline + 2 * slot.seconds + 1.0:
                break  # a single call is longer than the slot: one sample is what there is
        if slot.sampling:  # no collection of garbage between the account and its message
            slot.sampling(sum(taken.wall_s), sum(taken.between_s) + clock.now() - since)
    finally:
        if collecting:
            gc.enable()
    _note(taken.clocks_hz, slot.clock())
    return taken


def _note(clocks_hz: list[float], value: float | None) -> None:
    if value is not None:
        clocks_hz.append(value)


def _choose(prepared: Prepared, taken: Taken, calls: int, overhead: Overhead) -> tuple[list[float], str, float]:
    """Seconds per call by the case's timer, its method id, and the overhead that was subtracted from every sample."""
    if prepared.own_value is not None:
        return [v for v in taken.device_s if v is not None], "program", 0.0
    by_device = prepared.timer == "device" and all(v is not None for v in taken.device_s)
    raw = [v for v in taken.device_s if v is not None] if by_device else taken.wall_s
    cost = overhead.device_s if by_device else overhead.wall_s
    kind = "graph" if prepared.graph else "batch" if calls > 1 else "single"
    return [max(v - cost, 0.0) / calls for v in raw], f"{'event' if by_device else 'wall'}-{kind}", cost


def _steady_from(values: list[float]) -> int | None:
    """Where the steady state begins; short series count as steady, since their warm-up was the sizing of the batch."""
    return series.steady_from(values) if len(values) >= 10 else 0


def _wall_ratios(prepared: Prepared, taken: Taken, overhead: Overhead) -> Floats:
    """Device timer ÷ wall clock, sample by sample; empty where only one was read."""
    if prepared.own_value is not None or any(v is None for v in taken.device_s):
        return np.zeros(0)
    wall = np.maximum(np.array(taken.wall_s) - overhead.wall_s, 1e-9)
    return np.array(taken.device_s, np.float64) / wall


def _checked(prepared: Prepared) -> Check:
    try:
        return prepared.check()
    except NotSupported as error:
        return Check(passed=False, what=str(error))


def _agree(ratios: Floats, wall_s: Sequence[float]) -> bool:
    """Whether device timer and wall clock agree in at least one sample: a busy host delays the wall clock of some samples,
    a wrong timer is wrong in all of them."""
    return bool((np.abs(1 - ratios) <= DISAGREE_SHARE + DISAGREE_S / np.array(wall_s)).any())


def _agree_at_last(target: Target, prepared: Prepared, calls: int, overhead: Overhead) -> bool:
    """More batches, until the timers agree in one; on a crowded host few samples may all have been delayed."""
    for _ in range(SECOND_LOOKS):
        timing = target.time(prepared.enqueue, calls, prepared.graph)
        wall_s = max(timing.wall_s - overhead.wall_s, 1e-9)
        if timing.device_s is not None and _agree(np.array([timing.device_s / wall_s]), [wall_s]):
            return True
    return False


def _judge(check: Check, taken: Taken, ratios: Floats, agree: bool) -> tuple[str, str]:
    """Whether the measurement itself can stand: right answer, timers that agree, a clock that did not jump."""
    if not check.passed and check.error is None:
        return "invalid", check.what
    if not check.passed:
        return "invalid", f"wrong result: {check.what}: error {check.error} against {check.tolerance} allowed"
    if not agree:
        return "invalid", f"timers disagree: the device's timer says {np.median(ratios):.3g} times what the wall clock says"
    if series.jumped(taken.clocks_hz):
        low, high = min(taken.clocks_hz), max(taken.clocks_hz)
        return "invalid", f"the clock jumped between {low / 1e9:.2f} and {high / 1e9:.2f} GHz during the case"
    return "measured", ""


def _metrics(prepared: Prepared) -> dict[str, float]:
    own = prepared.metrics() if prepared.metrics else {}
    return {**own, "operations": prepared.operations} if prepared.operations else own


def _flags(kept: list[float], first: int | None, taken: Taken, resolution_s: float, calls: int) -> list[Flag]:
    flags = []
    if first is None:
        flags.append(Flag(name="not_steady", detail="no steady state was found in the time given; give it more with round_time"))
    if len(kept) < 5:
        flags.append(Flag(name="few_samples", detail=f"{len(kept)} samples in the round; give it more time"))
    if len(kept) >= 20 and series.bimodal(kept):
        flags.append(Flag(name="bimodal", detail="samples gather around two values"))
    if len(kept) >= 10 and series.drifting(kept):
        flags.append(Flag(name="drift", detail=f"{series.drift(kept):+.1%} from first to last sample"))
    shortest = min(kept, default=0.0) * calls
    if shortest > 0 and resolution_s > RESOLUTION_SHARE * shortest:
        flags.append(Flag(name="timer_coarse", detail=f"the timer's step is {resolution_s / shortest:.1%} of a sample"))
    return flags


def _with(samples: Samples, **changes: Any) -> Samples:
    return msgspec.structs.replace(samples, **changes)


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]
