"""Which cases the next round has, how long it may be, and when there is none: from what was measured so far on one device.

A case is done when the precision is reached by the one rule of `stats.stopping`, of its metric over its good rounds. A round
that was disturbed or failed is measured again while there is time. The budget is for measuring; waiting for others to end, and
samples in place of disturbed ones, have a share of it on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hotlap.core.measure.protocol import SHORTEST_SLOT_S, CaseChoice
from hotlap.core.record import Case, MeasureOptions, Samples, Stop
from hotlap.core.stats import stopping
from hotlap.core.store.fold import FEWEST_GOOD, bad, fold

PATIENCE = 0.8  # of the budget, on top of it, for what others cost
PATIENCE_ROUND = 2.0  # of a round's time, the most that one round waits
REPLACED = 1.0  # bad rounds of a case that are measured again, as a share of the most rounds it may have
MOST_REPLACED = 4.0  # the same while less than CHEAP of the budget is used
CHEAP = 0.5  # of the budget
HOPELESS = 0.9  # of the rounds' time: where waiting took so long and most cases are disturbed all the same, it is no use
KEPT = f"and a case with fewer than {FEWEST_GOOD} undisturbed rounds uses its disturbed ones too"
LEFT_SHARE = 0.95  # of the budget, that rounds are shortened to


class Next(NamedTuple):
    """The next round; without cases there is none, and `stop` says why. Times in seconds."""

    cases: list[Case] = []
    round_s: float = 0.0
    patience_s: float = 0.0
    stop: Stop | None = None
    news: str = ""  # what changed, in words


@dataclass
class Rounds:
    """Of one device."""

    cases: Sequence[Case]
    options: MeasureOptions
    kept: dict[str, list[Samples]] = field(default_factory=dict)
    number: int = 0  # rounds begun
    elapsed_s: float = 0.0
    waited_s: float = 0.0
    hopeless: bool = False

    def add(self, samples: Samples) -> None:
        """What one case gave in one round."""
        self.kept.setdefault(samples.case, []).append(samples)
        self.waited_s += samples.waited_s

    def choices(self, cases: Sequence[Case]) -> dict[str, CaseChoice]:
        """By case, what the first round that gave it values chose."""
        first = {case.id: next((s for s in self.kept.get(case.id, []) if s.values), None) for case in cases}
        return {key: CaseChoice(samples.variant, samples.method) for key, samples in first.items() if samples}

    def ended(self, seconds: float) -> None:
        """A round took so long in all."""
        self.elapsed_s += seconds
        self.number += 1

    def next(self) -> Next:
        """What to measure now."""
        if not self.number:
            return Next(list(self.cases), self.options.round_s, self._patience_s())
        if not any(s.values for samples in self.kept.values() for s in samples):
            return Next(stop=Stop("no_number"))
        if self.options.sustain_s:
            return self._lasting()
        wanting = [case for case in self.cases if self._wants(case)]
        if not wanting:
            return Next(stop=Stop("rounds_max" if any(self._short_of_it(case) for case in self.cases) else "precision"))
        average_s = self.elapsed_s / self.number
        over = self.elapsed_s - self.waited_s + self._length(wanting, average_s) > self.options.budget_s
        if over and (self._fewest_done(wanting) or self.elapsed_s + average_s > (1 + PATIENCE) * self.options.budget_s):
            return Next(stop=Stop("budget"))
        news = self._despair()
        round_s = self._round_s(average_s)
        return Next(wanting, round_s * len(wanting) / len(self.cases), self._patience_s() * len(wanting) / len(self.cases), news=news)

    def good(self, case: Case) -> list[float]:
        """Of the metric, a value per good round."""
        samples = [s for s in self.kept.get(case.id, []) if s.status == "measured" and not bad(s)]
        return fold(case, samples, "").values if samples else []

    def _lasting(self) -> Next:
        """Until the time is over, at a load as steady as it gets: nothing is waited for, and nothing measured again."""
        left = [case for case in self.cases if not self._refused(case)]
        if self.elapsed_s >= self.options.sustain_s or not left:
            return Next(stop=Stop("budget" if left else "no_number"))
        return Next(left, self.options.round_s * len(left) / len(self.cases))

    def _refused(self, case: Case) -> bool:
        """Whether the next round would say the same."""
        return any(s.status == "not_run" or (s.status == "invalid" and s.cause != "timers") for s in self.kept.get(case.id, []))

    def _wants(self, case: Case) -> bool:
        samples = self.kept.get(case.id, [])
        if self._refused(case):
            return False
        if len(samples) < self.options.rounds:
            return True
        if self.hopeless and len(samples) >= self.options.rounds_max and bad(samples[-1]):
            return False  # what would replace it would be disturbed too
        values, failed = self.good(case), sum(s.status != "measured" for s in samples)
        if failed >= max(self.options.rounds, len(values)):
            return False  # it does not get better
        replaced = REPLACED if self.elapsed_s >= CHEAP * self.options.budget_s else MOST_REPLACED
        if sum(bool(bad(s)) for s in samples) > replaced * self.options.rounds_max:
            return False
        return stopping.need(values, self.options.precision, self.options.rounds, self.options.rounds_max).rounds > len(values)

    def _short_of_it(self, case: Case) -> bool:
        """Whether a case that gave numbers ended without the precision asked."""
        timed = any(s.status == "measured" and s.values for s in self.kept.get(case.id, []))
        return timed and not stopping.need(self.good(case), self.options.precision).reached

    def _fewest_done(self, wanting: Sequence[Case]) -> bool:
        return all(len(self.good(case)) >= self.options.rounds for case in wanting)

    def _length(self, wanting: Sequence[Case], average_s: float) -> float:
        """What a round of these cases takes: opening the device takes as long for one case as for all."""
        return average_s * (0.2 + 0.8 * len(wanting) / len(self.cases))

    def _round_s(self, average_s: float) -> float:
        """Rounds are shortened where the fewest would not fit the budget, but no case gets less than the shortest time."""
        left = self.options.rounds - self.number
        if left <= 0 or average_s * self.options.rounds <= self.options.budget_s:
            return self.options.round_s
        beside_s = max(average_s - self.waited_s / self.number - self.options.round_s, 0.0)
        room_s = (LEFT_SHARE * self.options.budget_s - (self.elapsed_s - self.waited_s)) / left - beside_s
        return min(max(room_s, SHORTEST_SLOT_S * len(self.cases)), self.options.round_s)

    def _patience_s(self) -> float:
        """An equal share of what is left of it for each round to come."""
        if self.hopeless:
            return 0.0
        left_s = PATIENCE * self.options.budget_s - self.waited_s
        return max(min(left_s / max(self.options.rounds - self.number, 1), PATIENCE_ROUND * self.options.round_s), 0.0)

    def _despair(self) -> str:
        """After the first round: whether waiting was of any use."""
        last = [samples[-1] for samples in self.kept.values() if samples[-1].disturbed is not None]
        lost = sum(bool(bad(s)) for s in last)
        long = self.waited_s >= HOPELESS * self.number * self.options.round_s
        if self.hopeless or not long or 2 * lost <= len(last):
            return ""
        self.hopeless = True
        now = f"from here on rounds do not wait, a case that stays disturbed ends after {self.options.rounds_max} rounds, {KEPT}"
        return f"the machine stays busy: {lost} of {len(last)} cases were disturbed all the time; {now}"
