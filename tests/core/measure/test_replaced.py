"""Samples during which something foreign ran: which are replaced, which stay, how long is waited, and what is said."""

from __future__ import annotations

from typing import Any

import pytest
from scripting import TICK, measured, opened, steps

from hotlap.core.measure import loop
from hotlap.core.measure.foreign import Nothing
from hotlap.core.measure.loop import RawTimings
from hotlap.core.measure.targets.base import Seen
from hotlap.core.measure.targets.scripted import Page, ScriptedStep
from hotlap.core.record import Notice, Samples

CLEAN = 4 * TICK


def page(*letters: str, **more: Any) -> Page:
    """A step per letter: c clean, d a program beside it, w waited for a processor, b an external brake; disturbed ones take 1/64 tick
    more each, to be told apart."""
    kinds = {"c": "", "d": "processor", "w": "run_delay", "b": "brake", "p": "process"}
    steps = [
        ScriptedStep(device_s=CLEAN + (0 if letter == "c" else (n + 1) * TICK / 64), foreign=kinds[letter], waited=(n + 1) / 100 if letter == "w" else 0.0)  # type: ignore[arg-type]
        for n, letter in enumerate("".join(letters))
    ]
    return Page(steps=steps, **more)


def ticks(samples: Samples) -> list[float]:
    """Of the samples that were replaced: which they were, from 1."""
    return [(s - CLEAN) * 64 / TICK for s in samples.replaced]


def test_a_disturbed_sample_is_replaced_and_kept_raw() -> None:
    samples = measured(opened(page("cdccwccccc" + "c" * 50)))
    assert ticks(samples) == [2, 5]
    assert samples.foreign == {"processor": 1, "run_delay": 1}
    assert samples.values == [CLEAN] * 14
    assert (samples.disturbed, samples.notices, samples.waited_s) == (0.0, [], pytest.approx(7 * TICK / 64))
    assert samples.warmup_samples == 0


def test_nothing_disturbed_is_nothing_replaced() -> None:
    samples = measured(opened(page("c" * 60)))
    assert (samples.replaced, samples.foreign, samples.disturbed, samples.waited_s) == ([], {}, 0.0, 0.0)


def test_a_long_sample_that_nothing_disturbed_waited_for_nobody() -> None:
    """Three samples are the fewest: three of 40 ticks in a time of 64."""
    assert measured(opened(steps(40 * TICK))).waited_s == 0.0


def test_where_nothing_is_watched_nothing_is_known() -> None:
    samples = measured(opened(page("d" * 60)), watch=Nothing())
    assert (samples.disturbed, samples.replaced, samples.steal) == (None, [], None)
    target = opened(page("c" * 60))
    target.watch.why_not = "no /proc"
    assert measured(target).disturbed is None


def test_at_most_half_is_replaced_and_the_least_disturbed_stay() -> None:
    """All 8 waited, longer each: the 4 that waited longest go."""
    samples = measured(opened(page("w" * 60)), 8 * CLEAN)
    assert ticks(samples) == [5, 6, 7, 8]
    assert len(samples.values) == 4
    assert (samples.disturbed, samples.foreign) == (1.0, {"run_delay": 4})
    assert samples.notices[-1] == Notice(code="shared_device", seen="others ran during 100 % of the samples that are left")


def test_half_of_an_odd_number_is_less_than_half() -> None:
    samples = measured(opened(page("w" * 60)), 7 * CLEAN)
    assert (ticks(samples), len(samples.values)) == ([5, 6, 7], 4)


def test_the_choice_never_looks_at_the_sample_s_own_time() -> None:
    """The slowest sample is clean, the fastest was disturbed: the fast one goes."""
    steps = [ScriptedStep(device_s=CLEAN)] * 5 + [ScriptedStep(device_s=64 * TICK)] + [ScriptedStep(device_s=TICK, wall_s=CLEAN, foreign="run_delay", waited=0.5)]
    samples = measured(opened(Page(steps=[*steps, ScriptedStep(device_s=CLEAN)])), 30 * CLEAN, {"batch": 1})
    assert samples.replaced == [TICK]
    assert max(samples.values) == 64 * TICK


def test_more_is_sampled_until_half_is_clean() -> None:
    """Of 11 samples in the time given 5 are clean; with patience there is a twelfth."""
    turns = page("dc" * 30)
    without = measured(opened(turns), 11 * CLEAN, {"batch": 1})
    assert (len(without.replaced), without.values) == (5, [*[CLEAN] * 5, CLEAN + 11 * TICK / 64])  # those of equal share go in order of time
    assert without.disturbed == 1 / 6
    patient = measured(opened(turns), 11 * CLEAN, {"batch": 1}, patience_s=64 * TICK)
    assert (len(patient.replaced), patient.values, patient.disturbed) == (6, [CLEAN] * 6, 0.0)


def test_two_in_a_row_are_waited_for_and_what_ends_is_over() -> None:
    """Others end after 5 ticks of waiting; all samples after that are clean, and the time that went by is not the case's."""
    samples = measured(opened(page("ccdd" + "d" * 50, quiet_after_s=5 * TICK)), 16 * CLEAN, patience_s=64 * TICK)
    assert ticks(samples) == [3, 4]
    assert len(samples.values) == 14
    assert samples.waited_s == pytest.approx(5 * TICK + 7 * TICK / 64 + sum(range(5, 17)) * TICK / 64)
    assert samples.disturbed == 0.0
    assert samples.ended_s - samples.began_s == pytest.approx(2 * CLEAN + 16 * CLEAN + 5 * TICK + sum([3, 4, *range(5, 17)]) * TICK / 64)


def test_one_alone_is_not_waited_for() -> None:
    samples = measured(opened(page("cdcdc" + "c" * 50, quiet_after_s=5 * TICK)), 16 * CLEAN, patience_s=64 * TICK)
    assert samples.waited_s == pytest.approx(6 * TICK / 64)


def test_without_patience_nothing_is_waited_for() -> None:
    samples = measured(opened(page("d" * 60, quiet_after_s=5 * TICK)), 8 * CLEAN)
    assert samples.ended_s - samples.began_s < 11 * CLEAN
    assert samples.disturbed == 1.0


def test_patience_that_is_used_up_ends_the_case() -> None:
    """Others never end: once the patience of 20 ticks is gone, 8 samples' time is what there is."""
    samples = measured(opened(page("d" * 60)), 8 * CLEAN, patience_s=20 * TICK)
    assert len(samples.values) + len(samples.replaced) == 8
    assert samples.waited_s == pytest.approx(20 * TICK + sum(range(1, 9)) * TICK / 64)
    assert samples.disturbed == 1.0


def test_others_that_end_late_use_up_the_patience_bit_by_bit() -> None:
    """Each pair waits 5 ticks of 12: two whole waits, and 2 ticks of the third."""
    target = opened(page("d" * 60, quiet_after_s=0.0))
    waits: list[float] = []

    class Watch(type(target.watch)):  # type: ignore[misc]
        def wait(self, seconds: float) -> float:
            waits.append(seconds / TICK)
            self.target.clock.sleep(min(seconds, 5 * TICK))
            return min(seconds, 5 * TICK)

    target.watch = Watch(target)
    samples = measured(target, 8 * CLEAN, patience_s=12 * TICK, watch=target.watch)
    assert waits == [12, 7, 2]
    assert len(samples.values) + len(samples.replaced) == 8


@pytest.mark.parametrize(
    ("clean", "all_of_them", "spent", "patience", "done"),
    [
        (16, 16, 64, 0, True), (16, 16, 63, 0, False), (2, 2, 64, 0, False), (3, 3, 64, 0, True),
        (3, 7, 64, 10, False), (3, 6, 64, 10, True), (2, 4, 64, 10, False), (2, 4, 74, 10, True), (2, 4, 73, 10, False),
        (0, 4999, 64, 1e6, False), (0, 5000, 0, 1e6, True), (5000, 5000, 0, 0, True),
        (1, 1, 3 * 64 + 1024, 0, True), (1, 1, 3 * 64 + 1023, 0, False), (1, 1, 3 * 64 + 1024, 1, False), (2, 2, 3 * 64 + 1025, 1, True),
    ],
)
def test_when_there_are_enough(clean: int, all_of_them: int, spent: float, patience: float, done: bool) -> None:
    """Time in ticks, of 64 given."""
    raw = RawTimings(foreign=[Seen()] * clean + [Seen("process", 1.0)] * (all_of_them - clean))
    assert loop._done(raw, spent * TICK, loop.CaseBudget(seconds=64 * TICK), patience * TICK) is done


@pytest.mark.parametrize(("disturbed", "flagged"), [(3, False), (4, True)])
def test_a_quarter_of_what_is_left_is_worth_a_flag(disturbed: int, flagged: bool) -> None:
    """16 stay of 16 + as many as are replaced: half of all samples were disturbed, and then `disturbed` more."""
    raw = RawTimings(foreign=[Seen("process", 1.0)] * disturbed + [Seen()] * (16 - disturbed))
    notices = loop._shared(raw, range(16), None, None, 1.0)
    assert [notice.code for notice in notices] == ["shared_device"] * flagged
    assert raw.disturbed_share(range(16)) == disturbed / 16
    assert raw.disturbed_share([]) == 0.0


def test_what_others_used_is_said_and_a_brake_is_no_program() -> None:
    samples = measured(opened(page("d" * 60, others=1.26)), 8 * CLEAN)
    assert samples.notices[-1].seen == "others ran during 100 % of the samples that are left; other programs used 1.3 processors"
    braked = measured(opened(page("b" * 60)), 8 * CLEAN)
    assert (braked.foreign, braked.disturbed, [f.code for f in braked.notices]) == ({"brake": 4}, 1.0, ["few_samples"])


@pytest.mark.parametrize(
    ("steal", "seconds", "flagged"), [(None, 1.0, False), (0.0199, 1.0, False), (0.02, 1.0, True), (0.02, 0.499, False), (0.02, 0.5, True), (0.3, 0.1, True)]
)
def test_stolen_time_is_flagged_from_2_percent_and_one_tick(steal: float | None, seconds: float, flagged: bool) -> None:
    """It is counted in ticks of 10 ms: less than one of them says nothing."""
    notices = loop._shared(RawTimings(foreign=[Seen()]), [0], None, steal, seconds)
    assert [notice.code for notice in notices] == ["steal"] * flagged


def test_stolen_time_is_kept() -> None:
    samples = measured(opened(page("c" * 60, steal=0.3)))
    assert samples.steal == 0.3
    assert samples.notices[0].seen == "the hypervisor gave 30 % of the processors' time to other guests"
