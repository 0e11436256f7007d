"""Which steps are steady, what befalls them, and what a process's time of a step is: on tables whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from hotlap.training import reading, steady
from hotlap.training.reading import MeasuredProcess
from hotlap.training.record import COLUMNS, PARTS, Floats, TrainingEvent, TrainingProcess, column, rows, samples, unexplained
from hotlap.training.steady import of_process


def table(times: list[float], waits: list[float] | None = None, delays: list[float] | None = None) -> Floats:
    """Steps of these times; `waits` of them for data, the rest forward and backward by halves, and 1 % unexplained."""
    made = np.full((len(times), len(COLUMNS)), np.nan)
    time = np.array(times)
    wait = np.zeros(len(times)) if waits is None else np.array(waits)
    made[:, 0] = np.arange(1, len(times) + 1)
    made[:, 1] = np.cumsum(time)
    made[:, COLUMNS.index("time")] = time
    made[:, COLUMNS.index("data_wait")] = wait
    made[:, COLUMNS.index("forward")] = made[:, COLUMNS.index("backward")] = (time - wait) * 0.495
    made[:, COLUMNS.index("tokens")] = 64.0
    made[:, COLUMNS.index("run_delay")] = 0.0 if delays is None else delays
    return made


def process(*events: TrainingEvent) -> TrainingProcess:
    return TrainingProcess(number=0, events=list(events))


def event(step: int, kind: str = "compile") -> TrainingEvent:
    return TrainingEvent(kind=kind, step=step, seconds=0.5, detail="why")  # type: ignore[arg-type]


def test_parts_with_the_unexplained_sum_to_the_time() -> None:
    steps = samples(table([0.01, 0.02, 0.03], [0.001, 0.002, 0.003]))
    for step in steps:
        parts = [step.data_wait_s, step.transfer_s, step.forward_s, step.backward_s, step.optimiser_s, step.exposed_communication_s]
        assert sum(one for one in parts if one is not None) + step.unexplained_s == pytest.approx(step.time_s)
        assert step.transfer_s is None  # what was not seen is unknown, never zero
    found = of_process(process(), table([0.01] * 30))
    assert sum(found.parts_s.values()) == pytest.approx(found.step_s)


def test_a_torn_row_is_left_out() -> None:
    whole = table([0.01, 0.02])
    assert len(rows(whole.tobytes())) == 2
    assert len(rows(whole.tobytes()[:-3])) == 1
    assert unexplained(rows(whole.tobytes())).tolist() == pytest.approx([0.0001, 0.0002])
    assert column(whole, "time").tolist() == [0.01, 0.02]
    assert len(PARTS) == 6


def test_steps_up_to_the_last_early_compilation_are_warm() -> None:
    times = [3.0, 0.5, 0.01, 0.01, 0.4, *([0.01] * 40)]
    found = of_process(process(event(1), event(2), event(5)), table(times))
    assert (found.first, found.steps, found.inside) == (6, 40, [])
    assert found.step_s == pytest.approx(0.01)
    assert found.compile_s == pytest.approx(1.5)
    assert found.tokens == 64.0


def test_the_first_step_is_warm_even_where_nothing_happened() -> None:
    assert of_process(process(), table([0.5, *([0.01] * 10)])).first == 2


@pytest.mark.parametrize("kind", ["recompile", "compile", "capture", "allocator"])
def test_what_happens_after_the_steady_state_began_is_in_the_window(kind: str) -> None:
    found = of_process(process(event(1), event(30, kind)), table([1.0, *([0.01] * 49)]))
    assert found.first == 2
    assert [(one.kind, one.step) for one in found.inside] == [(kind, 30)]


def test_a_level_that_falls_early_is_warm_up_and_one_that_rises_late_is_told() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(1, 0.01, 200)
    falls = of_process(process(), table((np.where(np.arange(200) < 40, 0.02, 0.01) * noise).tolist()))
    assert 38 <= falls.first - 1 <= 43
    assert falls.levels == []
    rises = of_process(process(), table((np.where(np.arange(200) < 150, 0.01, 0.02) * noise).tolist()))
    assert rises.first == 2
    assert [148 <= level.step <= 153 for level in rises.levels] == [True]
    assert rises.levels[0].after_s / rises.levels[0].before_s == pytest.approx(2, rel=0.05)


def test_late_batches_count_and_interruptions_of_single_steps_do_not() -> None:
    waits = [0.05 if step % 10 == 0 else 0.0 for step in range(101)]
    times = [0.01 + wait for wait in waits]
    assert of_process(process(), table(times, waits)).step_s == pytest.approx(0.015)  # a wait of 50 ms each tenth step
    times = [0.01 + 0.05 * (step % 10 == 0) for step in range(101)]  # not in the loader
    found = of_process(process(), table(times))
    assert found.step_s == pytest.approx(0.01)
    assert found.mean_s == pytest.approx(0.015, rel=0.02)


def test_a_wait_that_was_for_a_processor_is_not_the_loader_s() -> None:
    waits = [0.002] * 50
    waits[20] = 0.102
    delays = [0.0] * 50
    delays[20] = 0.1
    times = [0.01 + wait for wait in waits]
    workers = replace(process(), workers=2)
    assert of_process(workers, table(times, waits, delays)).step_s == pytest.approx(0.012)
    assert of_process(workers, table(times, waits)).step_s == pytest.approx(0.012 + 0.1 / 49)


def test_without_workers_a_wait_that_was_disturbed_in_every_step_is_put_right() -> None:
    waits, delays = [0.007] * 50, [0.005] * 50  # a loader of 2 ms that wakes 5 ms late
    busy = table([0.01 + wait for wait in waits], waits, delays)
    busy[:, COLUMNS.index("wait_delay")] = 0.005
    assert of_process(process(), busy).step_s == pytest.approx(0.012)
    assert of_process(process(), busy).mean_s == pytest.approx(0.017)


def test_parts_are_of_the_steps_that_the_step_is_of_and_never_below_zero() -> None:
    waits = [0.05 if step % 10 == 0 else 0.002 for step in range(101)]
    delays = [0.03 if step % 7 == 0 else 0.0 for step in range(101)]
    found = of_process(process(), table([0.01 + wait + delay for wait, delay in zip(waits, delays, strict=True)], waits, delays))
    assert sum(found.parts_s.values()) == pytest.approx(found.step_s)
    assert min(found.parts_s.values()) >= 0
    assert found.mean_s is not None
    assert found.step_s is not None
    assert found.mean_s > found.step_s
    assert (found.used, found.steps) == (found.quiet, 100)
    assert found.quiet < 100


def test_processes_keep_one_rule_whichever_of_them_was_disturbed() -> None:
    """One of 12 undisturbed steps of 2.6 ms beside one of 8: then both are over all steps."""
    def launch(undisturbed: int) -> list[MeasuredProcess]:
        delays = [0.0] * (undisturbed + 1) + [0.005] * (40 - undisturbed)
        steps = table([0.0026 + delay for delay in delays], None, delays)
        return [MeasuredProcess(process(), steps, of_process(process(), steps))]

    quiet, raw = launch(12), launch(8)
    assert quiet[0].steady.step_s == pytest.approx(0.0026)
    both = [one.steady.step_s for (one,) in reading.alike([quiet, raw])]
    assert both == [pytest.approx(0.0076), pytest.approx(0.0076)]
    assert [one.steady.used for (one,) in reading.alike([quiet, quiet])] == [12, 12]


def test_a_wait_behind_threads_of_the_program_itself_is_its_own_cost() -> None:
    """A program whose threads take each other's processor in most steps, with nothing beside it, and beside two programs that are busy."""
    delays = [0.0 if step % 4 == 0 else 0.010 for step in range(101)]
    steps = table([0.07 + delay for delay in delays], None, delays)
    alone = replace(process(), run_delay_s=0.75, foreign_s=-0.05, helpers_s=2.0)
    beside = replace(process(), run_delay_s=0.75, foreign_s=7.0, helpers_s=2.0)
    assert steady.behind_own([alone])
    assert of_process(alone, steps).step_s == pytest.approx(0.08)
    assert of_process(alone, steps).used == 100
    assert of_process(beside, steps).step_s == pytest.approx(0.07)
    assert of_process(process(), steps).step_s == pytest.approx(0.07)  # what others used is not known
    for other in (replace(alone, run_delay_s=0.0), replace(alone, helpers_s=0.01)):  # it never waited; it has no other threads
        assert not steady.behind_own([other])
    assert not steady.behind_own([])
    assert not steady.behind_own([alone, process()])
    both = reading.alike([[MeasuredProcess(one, steps, of_process(one, steps))] for one in (alone, beside)])
    assert [launch[0].steady.used for launch in both] == [25, 25]  # all by one rule


def test_few_steps_are_kept_one_by_one_and_many_as_blocks() -> None:
    assert len(of_process(process(), table([0.01] * 9)).blocks_s) == 8
    assert len(of_process(process(), table([0.01] * 500)).blocks_s) == steady.BLOCKS
    assert of_process(process(), table([])).step_s is None
    assert of_process(process(), table([0.01])).step_s is None
