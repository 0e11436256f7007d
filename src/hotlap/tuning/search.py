"""The search for better settings, and its judge. No process is started here: all that is decided follows from what runs gave, and a seed.

    as found       a few runs, for the noise
    alone          every setting by itself; what fails is dropped with its reason
    together       combinations of those, by a proposer: what is better only together
    rungs          paired successive halving: blocks of as found and all that are left, in random order; the level is spread over rungs
    leave one out  the winner against itself without each setting; a setting without a contribution of its own is dropped
    confirmation   the winner against as found, by core's sequential test, on runs that nothing before has seen: the gain reported

Successive halving: Jamieson and Talwalkar, AISTATS 2016; boundaries: `hotlap.core.stats.sequential`.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hotlap.core.errors import HotlapError
from hotlap.core.record import Notice
from hotlap.core.stats import sequential
from hotlap.core.stats.sequential import SequentialDesign, SequentialOptions
from hotlap.core.units import percent
from hotlap.tuning import proposing, spending
from hotlap.tuning import space as spaces
from hotlap.tuning.proposing import ProposerName
from hotlap.tuning.record import Answer, Contribution, DropCode, DroppedSetting, Phase, TuningOutcome, TuningSetting
from hotlap.tuning.space import Configuration, TuningSpace

Floats = NDArray[np.float64]
COMBINED = 3  # combinations are drawn for each setting …
FEWEST_COMBINED, MOST_COMBINED = 24, 96  # … but at least and at most so many
ALPHA = 0.05  # two-sided, of each of the tests: 2.5 % for a gain
ATTEMPTS = 3
ANSWERS: Mapping[str, Answer] = {"smaller": "gain", "larger": "nothing", "same": "nothing"}
SHRUNK = 2.0  # standard errors by which the gain that the search saw is lowered before the confirmation is planned for it
ENOUGH = 12  # changes between blocks from which the noise is taken


class Taken(NamedTuple):
    """What one run gave: a cost above 0, lower is better; None, with the reason, where it failed."""

    cost: float | None
    code: DropCode = "failed"
    reason: str = ""


class TuningBench(Protocol):
    """What runs configurations."""

    def take(self, configuration: Configuration, phase: Phase) -> Taken:
        """One run in a fresh process. Raises BudgetSpent instead where there is no time for it."""

    def room(self) -> int:
        """Runs for which there is time left; below 0 where more is spent than there was."""


class SearchOptions(NamedTuple):
    """`resolve`: the smallest gain to be found, `min_effect`: to be reported, as shares of the cost."""

    resolve: float = 0.02
    min_effect: float = 0.005
    seed: int = 0
    level: float = ALPHA
    propose: ProposerName = "model"


class NotRepeating(HotlapError):
    """As found, the subject fails or gives no number."""


class BudgetSpent(HotlapError):
    """There is no time left for another run."""


class ConfirmationReached(BudgetSpent):
    """The time that is left is the confirmation's."""


Listener = Callable[[str], None]


class Rated(NamedTuple):
    """A configuration after a rung. `gain`: logarithm of as found ÷ it."""

    configuration: Configuration
    gain: float
    error: float
    runs: int


class TuningSearch:
    """A search under way. `run` gives its outcome."""

    def __init__(self, space: TuningSpace, bench: TuningBench, asked: SearchOptions, listen: Listener = lambda _: None) -> None:
        self.space, self.bench, self.asked, self.listen = space, bench, asked, listen
        self.random = random.Random(asked.seed)
        self.dropped: list[DroppedSetting] = []
        self.failed: dict[Configuration, Taken] = {}
        self.contributions: list[Contribution] = []
        self.counts: dict[str, int] = {}
        self.tried = Counter[Configuration]()  # runs
        self.logs: dict[Configuration, list[float]] = {}  # of costs
        self.noise = math.nan
        self.ratings: dict[Configuration, Rated] = {}  # the last of each
        self.rest: list[float] = []  # of single runs, between neighbouring blocks
        self.notices: list[Notice] = []
        self.paired: Mapping[Configuration, list[float]] = {}  # logarithms of as found ÷ it, of one block each

    def run(self) -> TuningOutcome:
        """Raises NotRepeating where as found gives no number."""
        try:
            self._pilot()
            winner = self._halved(self._screened())
            if winner is not None:
                winner = self._each_shown(winner)
            elif self._out_of_time():
                raise ConfirmationReached("nothing could be compared")
        except ConfirmationReached:
            winner = self._one_alone()
            if winner is None:
                return self._too_small()
        except BudgetSpent:
            if not self.ratings:
                return self._too_small()
            return self._outcome("cannot_tell", max(self.ratings.values(), key=lambda rating: rating.gain))
        if winner is None:
            return self._outcome("nothing")
        return self._confirmed(winner)

    # ------------------------------------------------------------ runs

    def _take(self, configuration: Configuration, phase: Phase) -> float | None:
        """A logarithm of a cost; None where it failed: it is not run again. As found so many failures in a row end the search, and one
        where the first run does not end. Raises BudgetSpent, and before it takes of what the confirmation needs ConfirmationReached."""
        if configuration in self.failed:
            return None
        if phase not in ("as_found", "confirmation") and self.bench.room() <= 2 * spending.LEAST_PAIRS:
            raise ConfirmationReached("runs take longer than was planned")
        for _ in range(1 if configuration else ATTEMPTS):
            taken = self.bench.take(configuration, phase)
            self.counts[phase] = self.counts.get(phase, 0) + 1
            self.tried[configuration] += 1
            if taken.cost is not None or taken.code == "no_time" or (taken.code == "timed_out" and () not in self.logs):
                break
        if taken.cost is not None and taken.cost > 0:
            self.logs.setdefault(configuration, []).append(math.log(taken.cost))
            return self.logs[configuration][-1]
        if not configuration and (taken.code != "no_time" or () not in self.logs):
            raise NotRepeating(taken.reason)
        self.failed[configuration] = taken
        if configuration:
            self._drop(configuration, taken.code, taken.reason)
        if taken.code == "no_time":
            raise BudgetSpent(taken.reason)
        return None

    def _drop(self, configuration: Configuration, code: DropCode, reason: str = "", rated: Rated | None = None) -> None:
        """With all runs that it had. Of a setting that goes from the winner the contribution is told instead."""
        shown = code != "no_own_contribution"
        gain = (self._seen(configuration) if rated is None else rated.gain) if shown else None
        share = None if gain is None else 1 - math.exp(-gain)
        runs = self.tried[configuration] if shown else 0
        self.dropped.append(DroppedSetting(settings=kept(configuration), code=code, reason=reason, gain=share, runs=runs))

    def _seen(self, configuration: Configuration) -> float | None:
        """The logarithm of as found ÷ it, over all runs."""
        if configuration not in self.logs or () not in self.logs:
            return None
        return float(np.mean(self.logs[()]) - np.mean(self.logs[configuration]))

    def _pilot(self) -> None:
        logs: list[float] = []
        while len(logs) < 2 or (len(logs) < spending.PILOT and self.bench.room() > 0):
            logs.append(self._take((), "as_found") or 0.0)
        self.noise = max(float(np.std(logs, ddof=1)), sequential.QUIETEST)
        left = max(self.bench.room(), 0)
        self.listen(f"as found: {len(logs)} runs, noise of one run {100 * self.noise:.1f} %; time for about {left} more")

    def _block(self, configurations: Sequence[Configuration], phase: Phase) -> dict[Configuration, float]:
        """As found and all of these once, in random order; those that failed are left out."""
        order = [(), *configurations]
        self.random.shuffle(order)
        taken = {one: self._take(one, phase) for one in order}
        return {one: log for one, log in taken.items() if log is not None}

    # ------------------------------------------------------------ which are worth it

    def _screened(self) -> list[Configuration]:
        """Every setting, and what is proposed together."""
        settings: list[Configuration] = [(one,) for one in self.space.settings]
        if len(self.space.values) < 2:
            return [*dict.fromkeys([*self.space.first, *settings])]
        alone = self._afforded(settings, spending.ALONE)
        order = [*alone, *[()] * math.ceil(len(alone) / 8)]
        self.random.shuffle(order)
        first = [(one, log) for one in order if (log := self._take(one, "alone")) is not None]
        space = self.space.without(list(self.failed))
        count = min(max(COMBINED * len(space.settings), FEWEST_COMBINED), MOST_COMBINED, int(self._free() * 0.5))
        source = proposing.fed(proposing.proposer(self.asked.propose, space, count, self.asked.seed), first)
        if alone:
            self.listen(f"{len(alone)} settings alone, up to {max(count, 0)} combinations of them")
        while self._free() > 2 * len(alone) and (drawn := source.next()) is not None:  # a comparison of each is kept where runs get slower
            source.learn(drawn, self._take(drawn, "together"))
        proposed = source.best(spending.PROPOSED)
        singles = [one for one in alone if one not in self.failed]
        return [one for one in dict.fromkeys([*space.first, *proposed, *singles]) if one and one not in self.failed]

    def _free(self) -> float:
        """Runs left that are neither for the confirmation nor for leaving out."""
        return self.bench.room() - self._kept_back()

    def _kept_back(self) -> float:
        spent = sum(self.counts.values())
        whole = self.bench.room() + spent
        checked = spending.CHECKED if len(self.space.values) > 1 else 0.0
        return max((spending.CONFIRMED + checked) * whole, 2 * spending.LEAST_PAIRS)

    def _afforded(self, configurations: Sequence[Configuration], share: float) -> list[Configuration]:
        """As many as there is time for, the first ones and of those that ran the fastest; the others are dropped."""
        room = max(int(self._free() * share), 0)
        if len(configurations) > room:
            gains = {one: gain for one in configurations if (gain := self._seen(one)) is not None}
            configurations = sorted(configurations, key=lambda one: (one not in self.space.first, -gains.get(one, -math.inf)))
        for one in configurations[room:]:
            self._drop(one, "no_time", f"the budget has no room for it{' in the comparison' if one in self.logs else ''}")
        return list(configurations[:room])

    def _out_of_time(self) -> bool:
        """Whether the budget ended before anything was looked at beside as found: then it is not known whether something is worth it."""
        return not self.ratings and any(one.code == "no_time" for one in self.dropped)

    def _too_small(self) -> TuningOutcome:
        """Nothing was compared: with what an answer needs."""
        return replace(self._outcome("budget"), needs_runs=spending.least_runs(len(self.space.settings), len(self.space.values)))

    # ------------------------------------------------------------ halving

    def _halved(self, pool: Sequence[Configuration]) -> Rated | None:
        """The best of the pool; None where none is left, or all are surely not worth it."""
        left = self._afforded(pool, spending.COMPARED)
        plan = spending.rungs(len(left), int(self._free()))
        looks = tuple(dict.fromkeys(runs for _, runs in plan))
        self.paired = data = {one: list[float]() for one in left}
        before: dict[Configuration, float] = {}
        rated: list[Rated] = []
        for place, (most, runs) in enumerate(plan):
            while left and min(len(data[one]) for one in left) < runs:
                if before and self._free() < 0:  # runs take longer than they did: what is kept for the confirmation stays
                    plan = plan[: place + 1]
                    break
                block = self._block(left, "rung")
                self._learn_noise(before, block)
                before = block
                left = [one for one in left if one in block]
                for one in left:
                    data[one].append(block[()] - block[one])
            rated = self._rated({one: data[one] for one in left})
            left = self._survivors(rated, most, spending.boundary_at(looks, runs, self.asked.level))
            best = f", the best costs {100 * math.expm1(-rated[0].gain):+.1f} %" if rated else ""
            self.listen(f"rung {place + 1} of {len(plan)}: {len(left)} left{best}")
            if len(left) < 2 or place + 1 == len(plan):
                break
        return self._simplest([one for one in rated if one.configuration in left], rated)

    @staticmethod
    def _simplest(best: Sequence[Rated], rated: Sequence[Rated]) -> Rated | None:
        """Of the last rung the one with fewest settings that is within one standard error of the best (Breiman and others, 1984)."""
        if not best:
            return None
        near = [one for one in rated if one.runs == best[0].runs and one.gain > best[0].gain - math.sqrt(2) * best[0].error]
        return min(near, key=lambda one: (len(one.configuration), -one.gain))

    def _rated(self, data: Mapping[Configuration, Sequence[float]]) -> list[Rated]:
        """The best first. Values far out of what the others show are drawn in."""
        if not data:
            return []
        scale = math.sqrt(2) * self.noise
        found = [
            Rated(one, drawn_in(np.asarray(every), scale), scale / math.sqrt(len(every)), len(every)) for one, every in data.items()
        ]  # fmt: skip
        self.ratings |= {rating.configuration: rating for rating in found}
        return sorted(found, key=lambda one: (-one.gain, len(one.configuration), one.configuration))

    def _learn_noise(self, before: Mapping[Configuration, float], block: Mapping[Configuration, float]) -> None:
        """From what changed between two blocks, less what changed for all."""
        both = [one for one in block if one in before]
        if len(both) < 2:
            return
        change = np.array([block[one] - before[one] for one in both])
        self.rest += list((change - change.mean()) / math.sqrt(2 * (1 - 1 / len(both))))
        if len(self.rest) >= ENOUGH:
            outer = float(np.quantile(np.abs(self.rest), sequential.OUTER)) * sequential.OUTER_TO_SD
            self.noise = max(outer, sequential.QUIETEST)

    def _survivors(self, rated: Sequence[Rated], most: int, score: float) -> list[Configuration]:
        """The best; none that is surely not worth it, and only the first where it is surely the best of all."""
        worth = [one for one in rated if one.gain + score * one.error > math.log1p(self.asked.min_effect)]
        worth = [one for one in worth if not any(simpler(other, one) for other in worth)]
        sure = len(worth) > 1 and all(worth[0].gain - one.gain > score * 2 * worth[0].error for one in worth[1:])
        chosen = worth[:1] if sure else worth[:most]
        for one in rated:
            if one not in chosen:
                self._drop(one.configuration, "not_better", self._why(one, rated, score), one)
        return [one.configuration for one in chosen]

    def _why(self, rating: Rated, rated: Sequence[Rated], score: float) -> str:
        if rating.gain + score * rating.error <= math.log1p(self.asked.min_effect):
            return "surely slower" if rating.gain + score * rating.error < 0 else f"surely gains less than {percent(self.asked.min_effect)}"
        less = next((spaces.named(other.configuration) for other in rated if simpler(other, rating)), "")
        return f"no better than {less} alone" if less else "others were better"

    # ------------------------------------------------------------ each setting by itself

    def _each_shown(self, winner: Rated) -> Rated:
        """The winner without settings that show nothing of their own. Of several such the one that showed most is looked at again without
        the others: either of two that do the same is worth something once the other is gone. A winner that fails is none: the next is."""
        lacking: list[Contribution] = []
        while len(winner.configuration) > 1:
            pairs = self._pairs_without(winner)
            if pairs < spending.LEAST_PAIRS and lacking:
                return self._less(winner, lacking[-1:])
            if pairs < spending.LEAST_PAIRS:
                return self._alone(winner)
            shown = self._contributions(winner.configuration, pairs)
            if winner.configuration in self.failed:
                self.contributions, best = [], self._best(winner, len(winner.configuration))
                return winner if best is winner else self._each_shown(best)
            lacking = sorted((one for one in shown if not one.kept), key=lambda one: one.ratio or 0.0)
            self.contributions = [*(one for one in self.contributions if not one.kept), *(one for one in shown if one.kept)]
            winner = self._less(winner, lacking if len(lacking) == 1 else lacking[:-1])
            if len(lacking) < 2:
                return winner
        return winner

    def _alone(self, winner: Rated) -> Rated:
        """The best single setting, whose contribution the confirmation shows, where there is no time to leave out each of several."""
        best = self._best(winner._replace(configuration=winner.configuration[:1]), 1)
        seen = f"no time was left to show what each setting of {spaces.named(winner.configuration)} contributes: its settings stand alone"
        self.notices.append(Notice("low_power", seen, "give more by --budget"))
        self._drop(winner.configuration, "no_time", "to leave out each of its settings", winner)
        return best

    def _one_alone(self) -> Rated | None:
        """The best single setting so far, where all time that is left is the confirmation's, as where runs became slower; None where none
        ran. What was compared with as found goes before what only ran alone."""
        self._rated({one: logs for one, logs in self.paired.items() if len(logs) > 1 and one not in self.failed})
        error = math.sqrt(2) * self.noise
        singles = [one for one in self.logs if len(one) == 1 and one not in self.failed]
        seen = [Rated(one, gain, error, 1) for one in singles if (gain := self._seen(one)) is not None]
        rated = [self.ratings[one] for one in singles if one in self.ratings]
        best = max(rated or seen, key=lambda one: one.gain, default=None)
        if best is None:
            return None
        text = f"no time was left to compare more settings: the rest was for the confirmation of {spaces.named(best.configuration)} alone"
        self.notices.append(Notice("low_power", text, "give more by --budget"))
        self.dropped = [one for one in self.dropped if one.settings != kept(best.configuration)]  # it had no room in the comparison
        gone = {tuple(one.settings) for one in self.dropped}
        for setting in self.space.settings:
            if (setting,) != best.configuration and (setting,) not in self.failed and tuple(kept((setting,))) not in gone:
                self._drop((setting,), "no_time", "to compare it", self.ratings.get((setting,)))
        return best

    def _best(self, otherwise: Rated, most: int) -> Rated:
        """Of all that were rated and never failed: the best with at most so many settings."""
        rated = [one for one in self.ratings.values() if len(one.configuration) <= most and one.configuration not in self.failed]
        return max(rated, key=lambda rating: rating.gain, default=otherwise)

    def _less(self, winner: Rated, gone: Sequence[Contribution]) -> Rated:
        """The winner without these."""
        self.contributions = [*self.contributions, *gone]
        for one in gone:
            setting = spaces.SwitchSetting(one.settings[0].switch, one.settings[0].value)
            self._drop((setting,), "no_own_contribution", f"of {spaces.named(winner.configuration)}")
            winner = winner._replace(configuration=tuple(other for other in winner.configuration if other != setting))
        return winner

    def _pairs_without(self, winner: Rated) -> int:
        """Pairs that show a setting's equal share of the gain, as far as there is time beside the confirmation."""
        size = len(winner.configuration) + 1
        room = (self.bench.room() - 2 * self._planned(winner).pairs) / size
        share = max(winner.gain / (size - 1), self.asked.resolve)
        wanted = sequential.needed(spending.rounded(self.noise, up=True), spending.rounded(share, up=False))
        return int(min(max(wanted, spending.LEAST_PAIRS), room))

    def _contributions(self, configuration: Configuration, pairs: int) -> list[Contribution]:
        """Where the configuration fails without a setting, that setting is needed: it stays, with a ratio of None."""
        variants = {one: tuple(other for other in configuration if other != one) for one in configuration}
        whole: list[float] = []
        without: dict[spaces.SwitchSetting, list[float]] = {one: [] for one in configuration}
        for _ in range(pairs):
            order = [configuration, *variants.values()]
            self.random.shuffle(order)
            taken = {one: self._take(one, "leave_one_out") for one in order}
            if configuration in self.failed:
                break
            whole.append(taken[configuration] or 0.0)
            for one, variant in variants.items():
                without[one].append(taken[variant] or 0.0)
        return [self._contribution(one, whole, [] if variants[one] in self.failed else logs) for one, logs in without.items()]

    def _contribution(self, setting: spaces.SwitchSetting, whole: Sequence[float], without: Sequence[float]) -> Contribution:
        asked = SequentialOptions(self.asked.resolve, 0.0, level=self.asked.level)
        _, said = sequential.fixed(np.exp(whole), np.exp(without), asked) if without else (None, None)
        if said is None:
            return Contribution(settings=kept((setting,)), ratio=None, low=None, high=None, pairs=len(without), kept=True)
        shown = said.answer == "larger"
        return Contribution(settings=kept((setting,)), ratio=said.ratio, low=said.low, high=said.high, pairs=said.pairs, kept=shown)

    # ------------------------------------------------------------ the one gain

    def _confirmed(self, winner: Rated) -> TuningOutcome:
        """By core's sequential test, on runs of its own."""
        plan = self._planned(winner)
        x: list[float] = []
        y: list[float] = []
        decision = None
        for number in range(plan.pairs):
            if self.bench.room() < -spending.LEAST_PAIRS:
                break
            order = [(), winner.configuration] if number % 2 == 0 else [winner.configuration, ()]
            try:
                taken = {one: self._take(one, "confirmation") for one in order}
            except BudgetSpent:
                break
            if taken[winner.configuration] is None:
                return self._outcome("nothing", winner)
            x.append(taken[()] or 0.0)
            y.append(taken[winner.configuration] or 0.0)
            if number + 1 in plan.looks:
                decision = sequential.decide(plan, np.exp(x), np.exp(y))
                if decision.answer != "continue":
                    break
        if decision is None:  # no look was reached: one at what there is
            asked = SequentialOptions(plan.difference, self.asked.min_effect, level=self.asked.level)
            decision = sequential.fixed(np.exp(x), np.exp(y), asked)[1]
        if decision is None:
            return self._outcome("cannot_tell", winner)
        return self._outcome(ANSWERS.get(decision.answer, "cannot_tell"), winner, decision)

    def _planned(self, winner: Rated) -> SequentialDesign:
        """For the gain that the search saw, less what chance may have added, as far as there is time."""
        likely = max(winner.gain - SHRUNK * winner.error, self.asked.resolve)
        most = max(self.bench.room() // 2, spending.LEAST_PAIRS)
        difference = max(spending.rounded(math.expm1(likely), up=False), 1.2 * self.asked.min_effect)
        noise = spending.rounded(self.noise, up=True)
        return spending.planned(noise, difference, self.asked.min_effect, spending.coarse(most), self.asked.level)

    def _outcome(self, answer: Answer, winner: Rated | None = None, decision: sequential.Decision | None = None) -> TuningOutcome:
        settings = kept(winner.configuration) if winner else []
        dropped = [one for one in self.dropped if one.settings != settings or one.code != "not_better"]
        outcome = TuningOutcome(
            answer=answer, winner=settings, seen=math.exp(-winner.gain) if winner else None,
            noise=None if math.isnan(self.noise) else self.noise, runs=dict(self.counts), contributions=self.contributions,
            dropped=dropped, tried=len([one for one in self.tried if one]), notices=self.notices,
        )  # fmt: skip
        if decision is None:
            return outcome
        return replace(outcome, ratio=decision.ratio, low=decision.low, high=decision.high, mde=decision.mde, pairs=decision.pairs)


def kept(configuration: Configuration) -> list[TuningSetting]:
    return [TuningSetting(one.switch, one.value) for one in configuration]


def simpler(other: Rated, whole: Rated) -> bool:
    """Whether another has only some of its settings, and gains about as much, in runs enough to say so."""
    return whole.runs > 2 and set(other.configuration) < set(whole.configuration) and other.gain > whole.gain - whole.error / 2


def drawn_in(values: Floats, scale: float) -> float:
    """The centre, values further than 2.5 scales from the median drawn in to there."""
    middle = float(np.median(values))
    return middle + float(np.clip(values - middle, -2.5 * scale, 2.5 * scale).mean())
