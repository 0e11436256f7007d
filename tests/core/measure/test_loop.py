"""The loop for numbers, to the digit, on the scripted target; and that the real CPU gives samples at all."""

from __future__ import annotations

import gc
import statistics
from typing import Any

import pytest
from scripting import CASE, MS, TICK, Diary, measured, opened, steps

from hotlap.core import work
from hotlap.core.errors import HotlapError, InputError, MachineError, NotSupported
from hotlap.core.measure import loop, targets
from hotlap.core.measure.loop import CaseBudget, Overhead, measure
from hotlap.core.measure.targets.base import Prepared, Target, Timing
from hotlap.core.measure.targets.scripted import Page, ScriptedStep, ScriptedTarget
from hotlap.core.record import Case, Check, Notice, Samples
from loaded import ran


def names(samples: Samples) -> list[str]:
    return [notice.code for notice in samples.notices]


# ---------------------------------------------------------------- the size of a batch


@pytest.mark.parametrize(
    ("call_s", "script", "budget", "calls"),
    [
        (4 * TICK, {}, {}, 1),  # one call is long enough
        (2e-3, {}, {}, 1),  # just as long as the shortest sample
        (1.9e-3, {}, {}, 2),  # at least twice as many
        (1e-6, {}, {}, 2201),  # 16 times as many at most: 1, 16, 256; then 256 × 2 ms ÷ 0.256 ms × 1.1
        (1e-3, {}, {"sample_s": 0.01}, 11),  # the shortest sample that was asked for, and a tenth more
        (4 * TICK, {"resolution_s": 12e-3 * TICK}, {}, 4),  # a timer's step is 0.1 % of 12 ticks: 3.3 calls
        (4 * TICK, {"resolution_s": 3e-3 * TICK}, {}, 1),
        (1e-9, {}, {}, 50_000),  # no batch has more calls
    ],
)
def test_a_batch_is_as_long_as_the_timer_asks(call_s: float, script: Any, budget: Any, calls: int) -> None:
    samples = measured(opened(steps(call_s), **script), 0.05, **budget)
    assert samples.calls == calls
    assert samples.values == pytest.approx([call_s] * len(samples.values), rel=1e-9)
    assert samples.method == ("event-single" if calls == 1 else "event-batch")


def test_sizing_a_batch_takes_half_of_the_time_at_most() -> None:
    """1, 2, 4 calls of 4 ticks each take 16 of 12 ticks and more: it stays at that, though 100 ticks were asked."""
    samples = measured(opened(steps(4 * TICK)), 16 * TICK, sample_s=100 * TICK)
    assert samples.calls == 16
    assert measured(opened(steps(4 * TICK)), 4 * TICK, sample_s=100 * TICK).calls == 1
    assert measured(opened(steps(4 * TICK)), 32 * TICK, sample_s=8 * TICK).calls == 3


def test_the_call_that_compiles_is_not_a_sample() -> None:
    """One call warms up, one sizes the batch: 8 ticks go by before the first sample."""
    target = opened(steps(4 * TICK))
    samples = measured(target)
    assert (samples.began_s, samples.ended_s) == (0.0, 8 * TICK + 64 * TICK)
    assert len(samples.values) == 16


@pytest.mark.parametrize(
    ("change", "calls", "method"),
    [
        ({"batch": 7}, 7, "event-batch"), ({"flush": lambda: None}, 1, "event-single"), ({"multiple": 3}, 3, "event-batch"),
        ({"multiple": 1024, "timer": "wall"}, 49152 // 1024 * 1024, "wall-batch"), ({"graph": True}, 1, "event-graph"), ({"timer": "wall"}, 1, "wall-single"),
    ],
)
def test_a_case_may_have_a_batch_of_its_own(change: Any, calls: int, method: str) -> None:
    call_s = 1e-9 if change.get("multiple", 0) > 3 else TICK if "multiple" in change else 4 * TICK
    samples = measured(opened(steps(call_s)), 0.1, change)
    assert (samples.calls, samples.method) == (calls, method)


def test_a_batch_of_no_time_grows_sixteenfold() -> None:
    """The second look at a target whose first batches take nothing has 16 calls of a sixteenth of what is asked."""
    target = opened([ScriptedStep(device_s=0.0)])
    tried: list[int] = []
    time = target.time

    def counting(enqueue: Any, calls: int, graph: bool = False) -> Any:
        tried.append(calls)
        target.page = Page(steps=steps(0.0 if len(tried) < 3 else 4 * TICK))
        return time(enqueue, calls, graph)

    target.time = counting  # type: ignore[method-assign]
    budget = loop.CaseBudget(seconds=1.0, watch=target.watch, clock=target.clock_hz)
    assert loop._batch(target, target.prepare(CASE), budget)[0] == 16
    assert tried == [1, 1, 16]


def test_calls_grow_in_whole_multiples() -> None:
    assert measured(opened(steps(TICK)), 0.1, {"multiple": 3}, sample_s=9.5 * TICK).calls == 12
    assert measured(opened(steps(TICK)), 0.1, {"multiple": 3}, sample_s=2.5 * TICK).calls == 3


def test_the_batch_is_sized_by_the_timer_of_the_case() -> None:
    """By the wall clock a call takes 4 ticks, by the device's timer 1."""
    target = opened([ScriptedStep(device_s=TICK, wall_s=4 * TICK)])
    assert measured(target, change={"timer": "wall"}).calls == 1
    assert measured(opened([ScriptedStep(device_s=TICK, wall_s=4 * TICK)]), change={"timer": "device"}).calls == 3
    assert measured(opened([ScriptedStep(wall_s=4 * TICK)])).calls == 1


# ---------------------------------------------------------------- seconds of one call


@pytest.mark.parametrize("calls", [1, 8])
def test_the_cost_of_timing_is_subtracted_once_a_sample(calls: int) -> None:
    target = opened(steps(4 * TICK), device_overhead_s=TICK, wall_overhead_s=2 * TICK)
    samples = measured(target, 256 * TICK, {"batch": calls})
    assert set(samples.values) == {4 * TICK}
    assert samples.overhead_s == TICK
    by_wall = measured(opened(steps(4 * TICK), device_overhead_s=TICK, wall_overhead_s=2 * TICK), 256 * TICK, {"batch": calls, "timer": "wall"})
    assert set(by_wall.values) == {4 * TICK}
    assert (by_wall.overhead_s, by_wall.resolution_s) == (2 * TICK, 1e-9)


def test_no_call_takes_less_than_nothing() -> None:
    samples = measured(opened(steps(4 * TICK)), overhead=Overhead(6 * TICK, 6 * TICK))
    assert set(samples.values) == {0.0}


def test_overhead_is_the_median_of_21_empty_batches() -> None:
    class Uneven(ScriptedTarget):
        count = 0

        def time(self, enqueue: Any, calls: int, graph: bool = False) -> Timing:
            assert (calls, graph) == (0, False)
            self.count += 1
            return Timing(None if self.count == 5 else float(self.count), 100.0 + self.count**2)

    base = opened(steps(1.0))
    target = Uneven(base.device, base.script)
    assert loop.timing_overhead(target) == Overhead(statistics.median([n for n in range(1, 22) if n != 5]), 100.0 + 11**2, 101.0)
    assert target.count == 21
    assert loop.timing_overhead(opened(steps(1.0), wall_overhead_s=-1.0)).least_s == 0.0


def test_without_a_timer_of_the_device_there_is_the_wall_clock() -> None:
    samples = measured(opened([ScriptedStep(wall_s=4 * TICK)], wall_overhead_s=TICK))
    assert (samples.method, samples.wall_ratio, set(samples.values)) == ("wall-single", None, {4 * TICK})


def test_one_sample_without_a_device_timer_makes_all_of_them_wall_clock() -> None:
    mixed = [ScriptedStep(device_s=4 * TICK, wall_s=5 * TICK), ScriptedStep(wall_s=5 * TICK), ScriptedStep(device_s=4 * TICK, wall_s=5 * TICK)]
    samples = measured(opened(mixed))
    assert (samples.method, set(samples.values)) == ("wall-single", {5 * TICK})


def test_the_ratio_of_the_timers_is_kept() -> None:
    samples = measured(opened([ScriptedStep(device_s=4 * TICK, wall_s=4 * TICK)], wall_overhead_s=TICK / 256))
    assert samples.wall_ratio == 1.0
    assert samples.status == "measured"


# ---------------------------------------------------------------- which samples stay


def test_the_warm_up_is_dropped() -> None:
    samples = measured(opened(steps(12 * TICK, 8 * TICK, *[4 * TICK] * 30)))
    assert (samples.values, samples.warmup_samples, samples.steady_state_found) == ([4 * TICK] * 11, 2, True)


def test_fewer_than_ten_samples_have_no_warm_up() -> None:
    samples = measured(opened(steps(20 * TICK, *[4 * TICK] * 30)), 40 * TICK)
    assert (samples.values, samples.warmup_samples, samples.steady_state_found) == ([20 * TICK, *[4 * TICK] * 5], 0, True)


def test_a_series_that_never_settles_is_kept_whole_and_said() -> None:
    samples = measured(opened(steps(*[(4 + n / 8) * TICK for n in range(40)])), 96 * TICK)
    assert (samples.warmup_samples, samples.steady_state_found) == (0, False)
    assert "not_steady" in names(samples)
    assert "drift" in names(samples)


def test_samples_fill_the_time_and_three_are_the_fewest() -> None:
    assert len(measured(opened(steps(4 * TICK)), 64 * TICK).values) == 16
    assert len(measured(opened(steps(4 * TICK)), 62 * TICK).values) == 16
    assert len(measured(opened(steps(64 * TICK)), 64 * TICK).values) == 3
    assert len(measured(opened(steps(1.5)), 0.125).values) == 1  # three times the time given and a second: no further one
    assert len(measured(opened(steps(0.6)), 0.125).values) == 3


def test_no_case_has_more_than_5000_samples() -> None:
    samples = measured(opened(steps(0.0, wall_s=2.0**-20)), 1.0, {"batch": 1, "timer": "wall"})
    assert len(samples.values) + samples.warmup_samples == 5000


# ---------------------------------------------------------------- what happens beside the samples


def test_the_clock_is_read_at_the_beginning_in_the_middle_and_at_the_end() -> None:
    target = opened([ScriptedStep(device_s=4 * TICK, clock_hz=1e9 + n) for n in range(40)])
    assert measured(target).clocks_hz == [1e9, 1e9 + 8, 1e9 + 16]


def test_a_clock_that_cannot_be_read_is_left_out() -> None:
    target = opened([ScriptedStep(device_s=4 * TICK, clock_hz=None if n < 4 else 1e9) for n in range(40)])
    assert measured(target).clocks_hz == [1e9, 1e9]
    assert measured(opened(steps(4 * TICK))).clocks_hz == []


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_not_collected_while_samples_are_taken(enabled: bool) -> None:
    seen: list[bool] = []
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        measured(opened(steps(4 * TICK)), change={"before": lambda: seen.append(gc.isenabled())})
        after = gc.isenabled()
        with pytest.raises(ZeroDivisionError):
            measured(opened(steps(4 * TICK)), change={"after": lambda: 1 / 0})
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [False] * 16
    assert after == enabled


def test_the_session_hears_where_the_time_of_sampling_went() -> None:
    """16 samples of 4 ticks; before each a quarter of a tick, after each half a tick."""
    target, heard = opened(steps(4 * TICK)), []
    change = {"before": lambda: target.clock.sleep(TICK / 4), "after": lambda: target.clock.sleep(TICK / 2)}
    samples = measured(target, 72 * TICK, change, sampling=lambda timed, between: heard.append((timed, between)))
    count = len(samples.values)
    assert count == 16  # 16 × 4.75 ticks are 76
    assert heard == [(0.0, 0.0), (64 * TICK, 16 * 0.75 * TICK)]
    assert samples.duty == pytest.approx(64 / (64 + 15 * 0.75 + 0.25))  # from the first sample's beginning to the last one's end


def test_bookkeeping_is_what_passes_between_two_samples_but_for_what_the_case_does_itself() -> None:
    """The watch takes 1/8 tick before each sample; what `before`, `flush` and `after` take is the case's own."""
    target = opened(steps(4 * TICK))
    diary = Diary(target=target, takes_s=TICK / 8)
    change = {name: lambda: target.clock.sleep(TICK) for name in ("before", "flush", "after")}
    samples = measured(target, 64 * TICK, change, watch=diary)
    assert samples.bookkeeping_s == TICK / 8
    assert diary.asked[:4] == ["steal", "others", "begin", "end"]
    assert diary.asked[-4:] == ["begin", "end", "steal", "others"]
    assert diary.asked.count("begin") == diary.asked.count("end") == len(samples.values) == 9  # of 7 1/8 ticks each


def test_reading_the_clock_is_no_bookkeeping() -> None:
    target = opened(steps(16 * TICK))

    def clock() -> float:
        target.clock.sleep(TICK)
        return 1e9

    def reading() -> None:
        target.clock.sleep(0.0)

    samples = measured(target, 32 * TICK, {"before": reading}, clock=clock)
    assert samples.bookkeeping_s == 0.0
    assert samples.clocks_hz == [1e9] * 3


def test_before_comes_before_flush_and_after_comes_last() -> None:
    done: list[str] = []
    change = {name: lambda name=name: done.append(name) for name in ("flush", "after", "before")}
    measured(opened(steps(16 * TICK)), 48 * TICK, change)
    assert done == ["before", "flush", "after"] * 3


def test_what_a_case_says_of_itself_is_kept() -> None:
    change = {
        "operations": 12.0, "metrics": lambda: {"tokens": 3.0}, "counters": lambda: {"waves": 2.0}, "notices": lambda: [Notice(code="own")], "variant": "v",
        "code_path": "p", "no_counters": "none",
    }
    samples = measured(opened(steps(4 * TICK)), change=change)
    assert samples.metrics == {"tokens": 3.0, "operations": 12.0}
    assert (samples.counters, samples.variant, samples.notices) == ({"waves": 2.0}, "v", [Notice(code="own")])
    assert (samples.code_path, samples.no_counters) == ("p", "none")
    assert measured(opened(steps(4 * TICK)), change={"metrics": lambda: {"tokens": 3.0}}).metrics == {"tokens": 3.0}
    assert (measured(opened(steps(4 * TICK))).metrics, measured(opened(steps(4 * TICK))).counters) == ({}, {})


# ---------------------------------------------------------------- doubts about the samples


def test_few_samples_are_flagged() -> None:
    assert names(measured(opened(steps(16 * TICK)), 64 * TICK)) == ["few_samples"]
    assert "4 samples" in measured(opened(steps(16 * TICK)), 64 * TICK).notices[0].seen
    assert names(measured(opened(steps(16 * TICK)), 80 * TICK)) == []


def test_two_groups_of_samples_are_flagged_from_20_on() -> None:
    two = [(4 if n % 2 else 8) * TICK for n in range(200)]
    assert names(measured(opened(steps(*two)), 19 * 6 * TICK - 4 * TICK)) == []
    assert names(measured(opened(steps(*two)), 120 * TICK)) == ["bimodal"]


def test_a_drift_of_the_samples_is_flagged_from_10_on() -> None:
    rising = [(4 + n / 2) * TICK for n in range(40)]
    assert names(measured(opened(steps(*rising)), 54 * TICK)) == []  # 9 samples
    found = measured(opened(steps(*rising)), 60 * TICK)  # 10 samples: 4 to 8.5; the line of their logarithms
    assert next(notice for notice in found.notices if notice.code == "drift").seen == "+107.5 % from first to last sample"


@pytest.mark.parametrize(("resolution_s", "coarse"), [(4e-3 * TICK, False), (5e-3 * TICK, True)])
def test_a_timer_whose_step_is_more_than_a_thousandth_of_a_sample_is_coarse(resolution_s: float, coarse: bool) -> None:
    samples = measured(opened(steps(4 * TICK), resolution_s=resolution_s), change={"batch": 1})
    assert names(samples) == ["timer_coarse"] * coarse
    if coarse:
        assert samples.notices[0].seen == "the timer's step is 0.12 % of a sample"
    assert names(measured(opened(steps(4 * TICK), resolution_s=resolution_s), change={"batch": 2})) == []


def test_a_call_of_no_time_has_no_coarse_timer() -> None:
    assert names(measured(opened(steps(4 * TICK)), overhead=Overhead(6 * TICK, 6 * TICK))) == []


# ---------------------------------------------------------------- what cannot be measured


class Broken(ScriptedTarget):
    error: Exception = NotSupported("no such thing")

    def prepare(self, case: Case) -> Prepared:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (NotSupported("no such thing"), "not_run", "no such thing"), (InputError("wrong"), "error", "wrong"),
        (RuntimeError(" first\nsecond"), "error", "RuntimeError: first"), (ValueError("x" * 400), "error", "ValueError: " + "x" * 300),
        (KeyError(), "error", "KeyError: "),
    ],
)
def test_what_a_case_cannot_do_is_its_status(error: Exception, status: str, reason: str) -> None:
    base = opened(steps(1.0))
    target = Broken(base.device, base.script)
    target.error = error
    samples = measure(target, CASE, CaseBudget(seconds=1.0, seed=9, round=4))
    assert (samples.status, samples.reason, samples.values) == (status, reason, [])
    assert (samples.case, samples.device, samples.round, samples.seed) == (CASE.id, "scripted:0:script", 4, 9)


def test_nothing_is_given_to_a_case_but_its_time() -> None:
    given = CaseBudget(seconds=1.0)
    assert (given.sample_s, given.seed, given.round, given.patience_s, given.clock(), given.sampling) == (0.0, 0, 0, 0.0, None, None)
    assert Overhead(1.0, 2.0).least_s == 0.0


def test_a_device_that_is_lost_ends_the_round() -> None:
    with pytest.raises(MachineError, match="off the bus"):
        measured(opened([ScriptedStep(device_s=4 * TICK), ScriptedStep(error="off the bus")]))


def test_a_check_that_cannot_be_made_fails() -> None:
    def check() -> Check:
        raise NotSupported("no reference")

    samples = measured(opened(steps(4 * TICK)), change={"check": check})
    assert (samples.status, samples.cause, samples.reason) == ("invalid", "wrong_result", "no reference")


def test_a_wrong_answer_is_invalid_and_keeps_its_number() -> None:
    samples = measured(opened(Page(steps=steps(4 * TICK), right=False, error=2.0)))
    assert (samples.status, samples.cause) == ("invalid", "wrong_result")
    assert samples.reason == "wrong result: scripted answer: error 2.0 against 0.5 allowed"
    assert samples.values == [4 * TICK] * 16
    assert samples.check == Check(passed=False, what="scripted answer", error=2.0, tolerance=0.5)


def test_the_same_script_gives_the_same_samples() -> None:
    one, two = (measured(opened(steps(*[(4 + n % 3) * TICK for n in range(40)]))) for _ in range(2))
    assert one == two
    assert one.autocorrelation == pytest.approx(-0.5, abs=0.1)
    assert MS == 4 * TICK


# ---------------------------------------------------------------- the real CPU and the simulated GPU: facts, no speeds


def _case(name: str, **given: object) -> Case:
    return Case(workload=name, params=work.find(name).parse(given))


def _open(text: str) -> Target:
    spec = targets.parse(text)
    try:
        return targets.open_device(spec, targets.find(spec)[0])
    except HotlapError as error:
        pytest.skip(f"{text}: {error}")


def test_the_real_cpu_gives_samples_of_a_right_answer() -> None:
    samples = measure(_open("opencl:cpu"), _case("stream", op="read", size="64 KiB"), CaseBudget(seconds=0.02))
    assert ran(samples), samples.reason
    assert samples.check is not None
    assert samples.check.passed
    assert all(s >= 0 for s in samples.values)
    assert samples.values


def test_what_the_real_cpu_cannot_run_says_why() -> None:
    cpu = _open("opencl:cpu")
    samples = measure(cpu, _case("gemm"), CaseBudget(seconds=0.02))
    assert samples.status == "not_run"
    assert "torch" in samples.reason
    assert measure(cpu, _case("stream", size="8 TiB"), CaseBudget(seconds=0.02)).status in ("not_run", "error")


def test_the_same_seed_gives_the_same_numbers() -> None:
    one, two, other = (
        measure(_open(f"simulated:h200-sxm?noise=0.05&seed={seed}"), _case("gemm"), CaseBudget(seconds=0.1)).values for seed in (4, 4, 5)
    )
    assert one == two
    assert one != other
