"""The judge of searches on simulated costs: what it finds, what it never claims, and how it spends its runs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hotlap.core import units
from hotlap.core.errors import InputError
from hotlap.core.measure.targets import host
from hotlap.tuning import proposing, search, session, show, space, spending, tape
from hotlap.tuning.applying import Applied, ChosenSwitches
from hotlap.tuning.benches import Ran
from hotlap.tuning.catalogue import TuningSwitch
from hotlap.tuning.record import Phase, TuningAsked, TuningOutcome
from hotlap.tuning.search import NotRepeating, SearchOptions, Taken, TuningSearch
from hotlap.tuning.space import Configuration, SwitchSetting, TuningSpace

TEN = TuningSpace({f"s{number}": ["on"] for number in range(10)})
ONE = TuningSpace({"config": [str(number) for number in range(1, 33)]})


class CostBench:
    """Costs with lognormal noise, and what was run."""

    def __init__(self, gain: Callable[[Configuration], float], noise: float, runs: int, seed: int = 1) -> None:
        self.gain, self.noise, self.left, self.random = gain, noise, runs, np.random.default_rng(seed)
        self.ran: list[tuple[Phase, Configuration]] = []

    def take(self, configuration: Configuration, phase: Phase) -> Taken:
        self.left -= 1
        self.ran.append((phase, configuration))
        return Taken(math.exp(self.noise * self.random.standard_normal() - self.gain(configuration)))

    def room(self) -> int:
        return self.left


def searched(where: TuningSpace, bench: CostBench, seed: int = 1) -> TuningOutcome:
    return TuningSearch(where, bench, SearchOptions(seed=seed)).run()


def only(name: str, share: float) -> Callable[[Configuration], float]:
    return lambda configuration: math.log1p(share) if any(name in setting for setting in configuration) else 0.0


def test_one_gain_among_31_without_effect_is_found_within_six_sweeps() -> None:
    bench = CostBench(only("7", 0.05), 0.01, 6 * 32)
    outcome = searched(ONE, bench)
    assert (outcome.answer, [one.value for one in outcome.winner]) == ("gain", ["7"])
    assert outcome.low is not None and outcome.high is not None  # noqa: PT018 (both of one interval)
    assert outcome.low < 1 / 1.05 < outcome.high < 1
    assert bench.left >= 0


def test_equal_configurations_give_no_gain() -> None:
    outcome = searched(ONE, CostBench(lambda _: 0.0, 0.01, 6 * 32))
    assert outcome.answer in ("nothing", "cannot_tell")
    assert outcome.tried == 32


def test_what_is_reported_comes_from_the_confirmation_alone() -> None:
    bench = CostBench(only("7", 0.05), 0.01, 6 * 32)
    outcome = searched(ONE, bench)
    pairs = [configuration for phase, configuration in bench.ran if phase == "confirmation"]
    assert len(pairs) == 2 * outcome.pairs
    assert set(pairs) == {(), (SwitchSetting("config", "7"),)}
    phases = [phase for phase, _ in bench.ran]
    assert phases.index("confirmation") > max(place for place, phase in enumerate(phases) if phase != "confirmation")


def interacting(configuration: Configuration) -> float:
    return math.log((1.0, 1.01, 1.08)[len({"s2", "s7"} & {setting.switch for setting in configuration})])


def test_two_switches_that_are_good_only_together_are_found_alone() -> None:
    outcome = searched(TEN, CostBench(interacting, 0.02, 240))
    assert outcome.answer == "gain"
    assert [one.switch for one in outcome.winner] == ["s2", "s7"]
    assert [one.settings[0].switch for one in outcome.contributions if one.kept] == ["s2", "s7"]


def test_a_setting_without_a_contribution_of_its_own_is_dropped() -> None:
    first = (SwitchSetting("s2", "on"), SwitchSetting("s5", "on"), SwitchSetting("s7", "on"))
    bench = CostBench(interacting, 0.002, 400)
    hunt = TuningSearch(TEN, bench, SearchOptions(seed=1))
    hunt.noise = 0.002
    winner = hunt._each_shown(search.Rated(first, math.log(1.08), 0.001, 10))
    assert [one.switch for one in winner.configuration] == ["s2", "s7"]
    assert [(one.code, one.settings[0].switch) for one in hunt.dropped] == [("no_own_contribution", "s5")]


def test_either_of_two_that_do_the_same_stays() -> None:
    def same(configuration: Configuration) -> float:
        return math.log(1.1) if {"s2", "s7"} & {setting.switch for setting in configuration} else 0.0

    hunt = TuningSearch(TEN, CostBench(same, 0.002, 400), SearchOptions(seed=1))
    hunt.noise = 0.002
    winner = hunt._each_shown(search.Rated((SwitchSetting("s2", "on"), SwitchSetting("s7", "on")), math.log(1.1), 0.001, 10))
    assert len(winner.configuration) == 1


def test_a_configuration_that_fails_is_dropped_with_its_reason_and_run_no_more() -> None:
    class Failing(CostBench):
        def take(self, configuration: Configuration, phase: Phase) -> Taken:
            taken = super().take(configuration, phase)
            return Taken(None, "failed", "it crashes") if ("s3", "on") in configuration else taken

    bench = Failing(lambda _: 0.0, 0.01, 200)
    outcome = searched(TEN, bench)
    assert ("failed", "it crashes") in {(one.code, one.reason) for one in outcome.dropped if one.settings[0].switch == "s3"}
    assert sum(configuration == (SwitchSetting("s3", "on"),) for _, configuration in bench.ran) == 1
    assert not any(("s3", "on") in configuration for phase, configuration in bench.ran if phase in ("rung", "confirmation"))


def test_noise_larger_than_any_gain_is_no_answer_but_a_bound() -> None:
    outcome = searched(ONE, CostBench(only("7", 0.03), 0.6, 6 * 32))
    assert outcome.answer == "cannot_tell"
    assert outcome.mde is not None
    assert outcome.mde > 0.03
    answer = show.answer(TuningAsked(subject="sh toy.sh", kind="program", goal="time"), outcome)
    assert answer.startswith(f"cannot tell below {units.percent(outcome.mde)}")
    assert "nothing was changed" in answer


def test_a_program_that_does_not_repeat_is_said_and_its_scatter_is_allowed_for(tmp_path: Path) -> None:
    asked = TuningAsked(subject="sh toy.sh", kind="program", goal="time", result="loss ([0-9.]+)")
    switches = {"KIND": TuningSwitch(variables={"KIND": "{value}"}, values=["a"], changes="results")}
    chosen = ChosenSwitches(switches, {"KIND": ["as found", "a"]}, [])
    results = iter([1.0, 1.4, 1.2, 1.3, 1.5])

    class Drifting:
        device, words = host.describe(), list[str]()

        def run(self, applied: Applied, number: int, limit_s: float) -> Ran:
            return Ran(2.0, next(results))

    bench = tape.TuningTape(Drifting(), asked, chosen, tmp_path)
    taken = [bench.take(one, "alone") for one in ((), (), (), (SwitchSetting("KIND", "a"),), (SwitchSetting("KIND", "a"),))]
    assert [one.code for one in taken if one.cost is None] == ["results_changed"]  # 1.5 alone is beyond what as found itself gave
    doubts = session._with_doubts(TuningOutcome(answer="nothing"), bench.trials, asked).notices
    assert [(one.code, one.text) for one in doubts] == [("not_exact", doubts[0].text)]
    assert "as found the result is 1 to 1.4" in doubts[0].text


def test_one_failure_as_found_does_not_end_the_search() -> None:
    class Once(CostBench):
        def take(self, configuration: Configuration, phase: Phase) -> Taken:
            taken = super().take(configuration, phase)
            return Taken(None, "failed", "by chance") if len(self.ran) == 3 else taken

    assert searched(ONE, Once(only("7", 0.05), 0.01, 6 * 32)).answer == "gain"


def test_as_found_that_fails_ends_the_search() -> None:
    class Dead(CostBench):
        def take(self, configuration: Configuration, phase: Phase) -> Taken:
            return Taken(None, "failed", "it never ran")

    with pytest.raises(NotRepeating, match="never ran"):
        searched(ONE, Dead(lambda _: 0.0, 0.01, 10))


def test_a_budget_of_few_runs_drops_what_it_has_no_room_for() -> None:
    outcome = searched(ONE, CostBench(lambda _: 0.0, 0.01, 40))
    assert any(one.code == "no_time" for one in outcome.dropped)
    assert sum(outcome.runs.values()) <= 60


@pytest.mark.parametrize("where", [TuningSpace({"config": ["1"]}), ONE])
def test_a_budget_in_which_nothing_is_looked_at_says_so_and_not_that_nothing_is_worth_it(where: TuningSpace) -> None:
    outcome = searched(where, CostBench(only("1", 0.5), 0.01, 8))
    assert outcome.answer == "budget"
    assert outcome.tried == 0


@pytest.mark.slow("twenty searches with Optuna")
def test_who_proposes_has_no_part_in_the_judgement() -> None:
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install optuna")
    for seed in range(14):
        asked = SearchOptions(seed=seed, propose="optuna")
        assert TuningSearch(TEN, CostBench(lambda _: 0.0, 0.03, 160, seed), asked).run().answer != "gain"
    asked = SearchOptions(seed=2, propose="optuna")
    bench, again = CostBench(interacting, 0.02, 240), CostBench(interacting, 0.02, 240)
    outcome = TuningSearch(TEN, bench, asked).run()
    assert (outcome.answer, [one.switch for one in outcome.winner]) == ("gain", ["s2", "s7"])
    assert TuningSearch(TEN, again, asked).run() == outcome
    assert again.ran == bench.ran
    pairs = {configuration for phase, configuration in bench.ran if phase == "confirmation"}
    assert pairs == {(), (SwitchSetting("s2", "on"), SwitchSetting("s7", "on"))}


def test_what_fails_is_learnt_by_optuna_as_a_failure() -> None:
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install optuna")
    source = proposing.OptunaProposer(TEN, 5, 1)
    source.learn((SwitchSetting("s1", "on"),), -0.5)
    source.learn((SwitchSetting("gone", "on"),), -9.0)
    while (drawn := source.next()) is not None:
        source.learn(drawn, None)
    assert [trial.state.name for trial in source.study.trials] == ["COMPLETE", *["FAIL"] * 5]
    assert (SwitchSetting("s1", "on"),) in source.best(6)


def test_without_optuna_it_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match="--propose optuna: Optuna is not installed; pip install optuna"):
        proposing.check("optuna")
    proposing.check("model")


def test_the_same_seed_and_costs_give_the_same_search() -> None:
    runs = [CostBench(interacting, 0.02, 160), CostBench(interacting, 0.02, 160)]
    assert searched(TEN, runs[0]) == searched(TEN, runs[1])
    assert runs[0].ran == runs[1].ran


def test_combinations_are_balanced_and_have_every_pair() -> None:
    drawn = space.combinations(TEN, 40, 5)
    assert len(drawn) == len(set(drawn)) == 40
    each = [sum(setting in configuration for configuration in drawn) for setting in TEN.settings]
    assert min(each) >= 15
    assert max(each) <= 25
    pairs = {(a, b) for configuration in drawn for a in configuration for b in configuration if a < b}
    assert len(pairs) == 45


def test_rungs_halve_and_stay_within_the_room() -> None:
    for count, room in ((32, 135), (32, 400), (5, 60), (1, 30)):
        plan = spending.rungs(count, room)
        sizes = [count, *(size for size, _ in plan)]
        runs = [0, *(number for _, number in plan)]
        assert sizes == sorted(sizes, reverse=True)
        assert sum((size + 1) * (now - before) for size, before, now in zip(sizes, runs, runs[1:], strict=False)) <= room
        assert sizes[-1] == 1


def test_a_value_far_out_is_drawn_in() -> None:
    assert search.drawn_in(np.array([0.0, 0.01, -0.01, 5.0]), 0.01) < 0.02


def three(configuration: Configuration) -> float:
    return sum({"A": 0.1, "B": 0.06, "C": 0.05}[one.switch] for one in configuration)


class Needing(CostBench):
    """A combination that fails: without "C", or by chance when it is left out for the nth time."""

    def __init__(self, fails: Callable[[Configuration, int], bool], seed: int) -> None:
        super().__init__(three, 0.01, 400, seed)
        self.fails, self.left_out = fails, 0

    def take(self, configuration: Configuration, phase: Phase) -> Taken:
        taken = super().take(configuration, phase)
        self.left_out += phase == "leave_one_out"
        return Taken(None, "failed", "it crashes") if self.fails(configuration, self.left_out * (phase == "leave_one_out")) else taken


THREE = TuningSpace({name: ["1"] for name in "ABC"})


def test_a_setting_without_which_the_winner_fails_is_needed_and_stays() -> None:
    for seed in range(3):
        outcome = searched(THREE, Needing(lambda one, _: [setting.switch for setting in one] == ["A", "B"], seed), seed)
        assert (outcome.answer, [one.switch for one in outcome.winner]) == ("gain", ["A", "B", "C"])
        assert [(one.settings[0].switch, one.ratio is None, one.kept) for one in outcome.contributions][2] == ("C", True, True)


def test_one_failure_while_leaving_out_does_not_lose_the_gain() -> None:
    winners = set()
    for seed in range(4):
        outcome = searched(THREE, Needing(lambda _, number: number == 2, seed), seed)
        assert outcome.answer == "gain"
        winners.add("".join(one.switch for one in outcome.winner))
        assert outcome.ratio is not None
        assert outcome.ratio < 0.87
        assert not [one for one in outcome.dropped if one.code == "no_own_contribution"]
    assert winners <= {"ABC", "AB"}  # without C, where the failure was that of all three together


def test_the_winner_is_not_among_what_was_dropped() -> None:
    for seed in range(6):
        outcome = searched(THREE, CostBench(lambda one: 0.1 * ("A" in {it.switch for it in one}), 0.01, 400, seed), seed)
        assert outcome.winner
        assert outcome.winner not in [one.settings for one in outcome.dropped]


@pytest.mark.parametrize("propose", ["model", pytest.param("optuna", marks=pytest.mark.slow("imports Optuna"))])
def test_a_setting_that_fails_alone_is_tried_in_no_combination(propose: proposing.ProposerName) -> None:
    if propose == "optuna":
        pytest.importorskip("optuna", reason="Optuna is not installed: pip install optuna")

    class Failing(CostBench):
        def take(self, configuration: Configuration, phase: Phase) -> Taken:
            taken = super().take(configuration, phase)
            return Taken(None, "failed", "it crashes") if ("s3", "on") in configuration else taken

    guess = space.ordered([SwitchSetting("s3", "on"), SwitchSetting("s4", "on")])  # of an earlier search, when it did not fail
    for seed in range(3):
        bench = Failing(lambda _: 0.0, 0.01, 240, seed)
        TuningSearch(TEN._replace(first=[guess]), bench, SearchOptions(seed=seed, propose=propose)).run()
        assert [one for _, one in bench.ran if ("s3", "on") in one] == [(SwitchSetting("s3", "on"),)]
        assert {phase for phase, one in bench.ran if len(one) > 1} >= {"together"}
