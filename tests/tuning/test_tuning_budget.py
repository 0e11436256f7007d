"""What a budget of a search is: no run goes beyond it, each run counts, and one that is too small says what is needed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets import host
from hotlap.tuning import search, session, show, spending, tape
from hotlap.tuning.applying import Applied, ChosenSwitches
from hotlap.tuning.benches import Ran
from hotlap.tuning.catalogue import TuningSwitch
from hotlap.tuning.record import TuningAsked, TuningOutcome
from hotlap.tuning.search import NotRepeating, SearchOptions, TuningSearch
from hotlap.tuning.space import TuningSpace


class Clocked:
    """A subject whose runs take the seconds that they cost, on a clock of its own. `costs`: of the value of `pause`, and of the time."""

    device, words = host.describe(), list[str]()

    def __init__(self, costs: Callable[[str, float], float], hidden: float = 0.0) -> None:
        self.costs, self.now, self.hidden = costs, 0.0, hidden

    def monotonic(self) -> float:
        return self.now

    def run(self, applied: Applied, number: int, limit_s: float) -> Ran:
        cost = self.costs(applied.environment.get("PAUSE", ""), self.now)
        self.now += min(cost, limit_s) + self.hidden
        if cost > limit_s:
            raise NotSupported("it was ended")
        return Ran(cost * (1 + 0.002 * (number % 3)))


def clocked(
    monkeypatch: pytest.MonkeyPatch, folder: Path, subject: Clocked, budget_s: float, values: tuple[str, ...] = ("20", "150")
) -> tuple[Callable[[], TuningOutcome], tape.TuningTape, list[str], TuningAsked]:
    monkeypatch.setattr(tape, "time", SimpleNamespace(monotonic=subject.monotonic))
    asked = TuningAsked(subject="sh toy.sh", kind="program", goal="time", budget_s=budget_s, how={"timeout": "60"})
    switch = TuningSwitch(variables={"PAUSE": "{value}"}, values=list(values))
    bench = tape.TuningTape(subject, asked, ChosenSwitches({"PAUSE": switch}, {"PAUSE": ["as found", *values]}, []), folder)
    heard: list[str] = []
    hunt = TuningSearch(TuningSpace({"PAUSE": list(values)}), bench, SearchOptions(0.15, 0.03, 1), heard.append)
    return hunt.run, bench, heard, asked


def steady(value: str, _: float) -> float:
    return {"": 8.0, "20": 4.0, "150": 12.0}[value]


def test_a_program_that_hangs_is_run_once_and_no_longer_than_the_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subject = Clocked(lambda *_: math.inf)
    run, bench, _, _ = clocked(monkeypatch, tmp_path, subject, 20.0)
    with pytest.raises(NotRepeating, match="longer than the 20 s that the budget had left"):
        run()
    assert (len(bench.trials), subject.now) == (1, 20.0)


def test_a_program_that_passes_its_limit_as_found_is_not_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run, bench, _, _ = clocked(monkeypatch, tmp_path, Clocked(lambda *_: math.inf), 1800.0)
    with pytest.raises(NotRepeating, match=r"longer than its limit of 60 s \(--timeout\)"):
        run()
    assert len(bench.trials) == 1


@pytest.mark.parametrize("budget_s", [20.0, 60.0, 120.0, 200.0, 400.0])
@pytest.mark.parametrize("slows", [False, True])
def test_no_search_takes_longer_than_its_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, budget_s: float, slows: bool) -> None:
    subject = Clocked(lambda value, now: steady(value, now) * (2 if slows and now > budget_s / 2 else 1))
    run, bench, _, _ = clocked(monkeypatch, tmp_path, subject, budget_s)
    outcome = run()
    assert subject.now <= budget_s
    assert len(bench.trials) == sum(outcome.runs.values())


@pytest.mark.parametrize(("slows_s", "budget_s"), [(10.0, 100.0), (15.0, 100.0), (15.0, 150.0)])
def test_runs_that_take_longer_and_longer_leave_time_for_the_confirmation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, slows_s: float, budget_s: float
) -> None:
    subject = Clocked(lambda value, now: (0.4 if value == "3" else 0.5) * (1 + now / slows_s))
    run, _, _, _ = clocked(monkeypatch, tmp_path, subject, budget_s, ("0", "1", "2", "3"))
    outcome = run()
    assert (outcome.answer, [one.value for one in outcome.winner]) == ("gain", ["3"])
    assert subject.now <= budget_s


@pytest.mark.parametrize(("switches", "slower", "after_s", "budget_s"), [
    (1, 6, 6.0, 60.0), (1, 10, 20.0, 100.0), (4, 3, 10.0, 100.0), (4, 3, 50.0, 100.0), (4, 6, 10.0, 100.0), (4, 6, 50.0, 100.0),
    (1, 6, 10.0, 60.0),
])  # fmt: skip
def test_runs_that_become_several_times_slower_leave_time_to_confirm_one_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, switches: int, slower: int, after_s: float, budget_s: float
) -> None:
    class Slowing(Clocked):
        def run(self, applied: Applied, number: int, limit_s: float) -> Ran:
            cost = (0.45 if "S0" in applied.environment else 0.5) * (slower if self.now >= after_s else 1) * (1 + 0.03 * (number * 7 % 5))
            self.now += min(cost, limit_s)
            return Ran(cost)

    subject, names = Slowing(lambda *_: 0.0), [f"S{place}" for place in range(switches)]
    monkeypatch.setattr(tape, "time", SimpleNamespace(monotonic=subject.monotonic))
    asked = TuningAsked(subject="sh toy.sh", kind="program", goal="time", budget_s=budget_s, how={"timeout": "60"})
    known = {name: TuningSwitch(variables={name: "{value}"}, values=["on"]) for name in names}
    bench = tape.TuningTape(subject, asked, ChosenSwitches(known, {name: ["as found", "on"] for name in names}, []), tmp_path)
    outcome = TuningSearch(TuningSpace({name: ["on"] for name in names}), bench, SearchOptions(0.02, 0.005, 1)).run()
    assert outcome.pairs >= spending.LEAST_PAIRS  # the confirmation was looked at
    assert outcome.ratio is not None
    assert subject.now <= budget_s


def test_where_nothing_more_can_be_compared_one_setting_is_confirmed_and_that_is_said() -> None:
    """Runs cost one; from the eighteenth on they cost eight."""

    class Slow:
        left, taken = 120.0, 0

        def take(self, configuration: search.Configuration, phase: str) -> search.Taken:
            self.taken += 1
            self.left -= 8 if self.taken > 17 else 1
            return search.Taken((0.8 if ("s3", "on") in configuration else 1.0) * (1 + 0.001 * (self.taken % 3)))

        def room(self) -> int:
            return int(self.left / (8 if self.taken > 17 else 1))

    space = TuningSpace({f"s{number}": ["on"] for number in range(10)})
    outcome = TuningSearch(space, Slow(), SearchOptions(seed=1)).run()  # type: ignore[arg-type]
    assert (outcome.answer, [one.switch for one in outcome.winner]) == ("gain", ["s3"])
    assert [(one.code, one.text) for one in outcome.notices] == [
        ("low_power", "no time was left to compare more settings: the rest was for the confirmation of s3=on alone; give more by --budget")
    ]
    lost = {one.settings[0].switch: one for one in outcome.dropped}
    assert lost.keys() == {f"s{number}" for number in range(10)} - {"s3"}
    assert {one.code for one in lost.values()} == {"no_time"}


def test_a_budget_that_is_too_small_says_which_is_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run, bench, heard, asked = clocked(monkeypatch, tmp_path, Clocked(steady), 120.0)
    outcome = session._needing(run(), bench)
    assert (outcome.answer, len(bench.trials)) == ("budget", spending.PILOT)
    assert outcome.needs_s is not None
    assert f"--budget '{outcome.needs_s:.0f} s'" in show.answer(asked, outcome)
    run, _, heard, asked = clocked(monkeypatch, tmp_path / "..", Clocked(steady), outcome.needs_s)
    assert run().answer == "gain"
    assert any(re.search(r"the best costs -(49|50)\.\d %$", line) for line in heard)


def test_runs_of_what_is_dropped_count_and_the_faster_are_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run, bench, _, _ = clocked(monkeypatch, tmp_path, Clocked(steady), 400.0)
    outcome = run()
    gone = {one.settings[0].value: one for one in outcome.dropped}
    ran = [trial for trial in bench.trials if trial.settings and trial.settings[0].value == "150"]
    assert gone["150"].runs == len(ran) > 0
    assert gone["150"].gain is not None
    assert gone["150"].reason == "surely slower"


def test_of_settings_that_ran_alone_the_fastest_are_compared_where_not_all_have_room() -> None:
    class Narrow:
        left = 50

        def take(self, configuration: search.Configuration, phase: str) -> search.Taken:
            self.left -= 1
            fast = any(setting.switch == "s9" for setting in configuration)
            return search.Taken((0.5 if fast else 1.0) * (1 + 0.001 * (self.left % 3)))

        def room(self) -> int:
            return self.left

    space = TuningSpace({f"s{number}": ["on"] for number in range(10)})
    outcome = TuningSearch(space, Narrow(), SearchOptions(seed=1)).run()  # type: ignore[arg-type]
    cut = [one for one in outcome.dropped if one.code == "no_time" and len(one.settings) == 1]
    assert cut
    assert all(one.runs > 0 and one.gain is not None for one in cut)
    assert "s9" not in {one.settings[0].switch for one in cut}
