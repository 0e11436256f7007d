"""The search for the commit that changed a case: good and bad measured in turns, then halving by a sequential test, then a check.

    good, bad     do they differ at all, and by how much: pairs A B B A, looked at a few times
    a commit      blocks of good, commit, bad (and back), until the commit is like one of them at a set error rate
    neighbours    those on either side of the change must be like it too: a step stays, what one build has by chance does not
    the answer    the first commit like bad and its parent, measured in turns once more

No process is started here, and all that is decided follows from the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from hotlap.core.errors import InputError, MachineError, SchemaError
from hotlap.core.record import Notice
from hotlap.core.trials.commits import Commit
from hotlap.core.trials.levels import ALPHA, LOOKS, LevelStep, differ, level, threshold, weigh
from hotlap.core.trials.tape import ATTEMPTS, OutOfTime, Tape, TapeSample
from hotlap.core.units import percent

BLOCKS = 40  # of one commit; without a decision by then it is skipped
UNDECIDED = 3  # commits of a search so skipped; then the rest would be too
MOST = 0.6  # share of what bad differs from good by that a commit must change to be the answer

Answer = Literal["found", "in part", "not confirmed", "candidates", "no difference", "cannot tell", "budget"]
Listener = Callable[[str, bool], None]
"""Called with how it goes; True is for what the next line replaces."""


class BisectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched."""

    good: str
    bad: str
    commits: list[str]  # after good up to bad, oldest first
    first_parents: bool = True  # each is the first parent of the next
    margin: float = 0.02  # smallest difference between good and bad worth a search, as a share


class HalvingStep(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of the search."""

    commit: str
    like: Literal["good", "bad", "skipped"]
    blocks: int
    position: float | None = None  # of its level: 0 is good's, 1 is bad's
    third: bool = False  # a level of its own
    reason: str = ""


class BisectOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    answer: Answer
    candidates: list[Commit]  # one when it was found; none when good and bad do not differ
    before: str = ""  # the commit that `change` is compared with
    change: LevelStep | None = None  # of the last candidate against `before`
    ends: LevelStep | None = None  # of bad against good
    steps: list[HalvingStep]
    commits: int
    measurements: int
    alpha: float = ALPHA
    notices: list[Notice] = []


class Search:
    """A search under way. `run` gives its outcome, however it ends."""

    def __init__(self, asked: BisectOptions, tape: Tape, listen: Listener = lambda *_: None) -> None:
        self.asked, self.tape, self.listen = asked, tape, listen
        self.chain = [asked.good, *asked.commits]
        self.low, self.high = 0, len(self.chain) - 1  # the last that is like good, the first that is like bad
        self.steps: list[HalvingStep] = []
        self.skipped: set[int] = set()  # and set aside
        self.like: dict[int, str] = {self.low: "good", self.high: "bad"}
        self.decisions = 0
        self.d: list[float] = []  # logarithm of bad less that of good, of every pair and block
        self.ends: LevelStep | None = None
        self.notices: list[Notice] = []

    def run(self) -> BisectOutcome:
        try:
            answer, self.ends = self._compare(self.asked.good, self.asked.bad, self.asked.margin)
            if answer != "differ":
                return self._outcome("no difference" if answer == "same" else "cannot tell", [])
            steps = math.ceil(math.log2(len(self.asked.commits)))
            self.listen(f"bad against good: {shown(self.ends)}; {len(self.asked.commits)} commits, about {steps} to measure", False)
            while (index := self._next()) is not None:
                self._step(index)
            return self._confirmed()
        except OutOfTime:
            return self._outcome("budget", self.chain[self.low + 1 : self.high + 1] if self.ends else [])

    def _compare(self, a: str, b: str, margin: float) -> tuple[Literal["differ", "same", ""], LevelStep]:
        """Pairs A B, B A, … until they differ or not; "" when neither can be said at the last look."""
        ratios: list[float] = []
        for look in LOOKS:
            while len(ratios) < look:
                order = (a, b) if len(ratios) % 2 == 0 else (b, a)
                value = {one: self.tape.must(one, self._name(one)) for one in order}
                ratios.append(value[b] / value[a])
            answer, found = differ(ratios, margin)
            if answer:
                break
        if (a, b) == (self.asked.good, self.asked.bad):
            self.d += [math.log(one) for one in ratios]
        return answer, found

    def _name(self, commit: str) -> str:
        return {self.asked.good: "good", self.asked.bad: "bad"}.get(commit, "the commit")

    def _next(self) -> int | None:
        """The commit to measure: halving; then the neighbours of the change, which must be like it; None when there is no more to ask."""
        turned = next(((i, j) for i, j in pairwise(sorted(self.like)) if self.like[i] == "bad" and self.like[j] == "good"), None)
        if not turned:
            self.low = max(i for i, like in self.like.items() if like == "good")
            self.high = min(i for i, like in self.like.items() if like == "bad")
            middle = (self.low + self.high) / 2
            between = [i for i in range(self.low + 1, self.high) if i not in self.skipped]
            if sum(step.blocks == BLOCKS and step.like == "skipped" for step in self.steps) >= UNDECIDED:
                return None
            if between:
                return min(between, key=lambda i: abs(i - middle))
        around = self._around(*turned or (self.low, self.high))
        unknown = next((i for i in around if i not in self.like), None)
        if turned and unknown is None:
            self._set_aside(turned, {self.like[i] for i in around})
            return self._next()
        return unknown

    def _around(self, low: int, high: int) -> list[int]:
        """The nearest on either side that were not skipped."""
        before = [i for i in range(low) if i not in self.skipped][-1:]
        return before + [i for i in range(high + 1, len(self.chain)) if i not in self.skipped][:1]

    def _set_aside(self, turned: tuple[int, int], around: set[str]) -> None:
        """One like bad and a later one like good: the one that is unlike both neighbours is off by itself; else it may be either."""
        odd = [i for i in turned if {self.like[i]} != around] if len(around) == 1 else turned
        for index in odd:
            like = self.like.pop(index)
            self.skipped.add(index)
            name = self.chain[index][:10]
            seen = f"{name} is like {like} and unlike its neighbours: its build is off by itself, or it was soon undone"
            self.notices.append(Notice("odd_commit", seen))

    def _step(self, index: int) -> None:
        self.decisions += 1
        step = self._decide(self.chain[index], threshold(self.decisions, len(self.asked.commits)))
        if step.like == "skipped":
            self.skipped.add(index)
            if not step.blocks:  # nothing was decided, so nothing of the level is spent
                self.decisions -= 1
        else:
            self.like[index] = step.like
        self.steps.append(step)
        self._forget()
        self.listen(f"{step.commit[:10]} {worded(step)}; left: {self.high - self.low}", False)

    def _forget(self) -> None:
        """Gives up what is measured no more; the neighbours of the change are needed for the check."""
        needed = {self.asked.good, self.asked.bad, self.chain[self.low], self.chain[self.high]}
        for commit in {step.commit for step in self.steps} - needed:
            self.tape.bench.forget(commit)

    def _decide(self, commit: str, limit: float) -> HalvingStep:
        u: list[float] = []
        for number in range(BLOCKS):
            block = self._block(commit, forwards=number % 2 == 0)
            if isinstance(block, TapeSample):
                return HalvingStep(commit=commit, like="skipped", blocks=len(u), reason=block.reason)
            good, value, bad = (math.log(one) for one in block)
            self.d.append(bad - good)
            u.append(value - (good + bad) / 2)
            seen = weigh(u, self.d, limit)
            if seen.like:
                return HalvingStep(commit=commit, like=seen.like, blocks=len(u), position=seen.position, third=seen.third)
        reason = f"like neither for sure after {BLOCKS} blocks"
        return HalvingStep(commit=commit, like="skipped", blocks=BLOCKS, position=seen.position, reason=reason)

    def _block(self, commit: str, forwards: bool) -> tuple[float, float, float] | TapeSample:
        """Values of good, the commit and bad, measured in this order or backwards; or why the commit gave none."""
        good = self.tape.must(self.asked.good, "good") if forwards else 0.0
        bad = self.tape.must(self.asked.bad, "bad") if not forwards else 0.0
        for _ in range(ATTEMPTS):
            took = self.tape.take(commit)
            if took.value is not None:
                break
            if not took.built:
                return took
        else:
            return took
        if forwards:
            bad = self.tape.must(self.asked.bad, "bad")
        else:
            good = self.tape.must(self.asked.good, "good")
        return good, took.value, bad

    def _confirmed(self) -> BisectOutcome:
        """The culprit, or the last candidate, and what comes before it, measured in turns once more."""
        steps = self.chain[self.low + 1 : self.high + 1]
        culprit, before = steps[-1], self.chain[self.low]
        if len(steps) == 1 and not self.asked.first_parents:
            before = next(iter(self.tape.bench.describe(culprit).parents), before)
        change = self._checked(before, culprit)
        right = change is not None and self._as_the_ends(change)
        self._look_again(change if right else None)
        answer: Answer = "candidates" if len(steps) > 1 else "found"
        if change is None or not right:
            answer = "not confirmed"
        elif answer == "found" and math.log(change.ratio) / level(self.d)[0] < MOST:
            answer = "in part"
        return self._outcome(answer, steps, before, change)

    def _as_the_ends(self, change: LevelStep) -> bool:
        """Surely up, where bad is above good, or surely down."""
        return self.ends is not None and (change.low > 1 if self.ends.ratio > 1 else change.high < 1)

    def _checked(self, before: str, culprit: str) -> LevelStep | None:
        """None, and a notice, when one of them gives no number any more."""
        try:
            return self._compare(before, culprit, 0.0)[1]
        except SchemaError:
            raise
        except (InputError, MachineError) as error:
            seen = f"the check was not possible: {error}"
            self.notices.append(Notice("not_checked", seen))
            return None

    def _look_again(self, change: LevelStep | None) -> None:
        for step in self.steps:
            if step.third:
                seen = f"{step.commit[:10]} {worded(step)}: more than one commit changed the case"
                self.notices.append(Notice("several_changes", seen))
        if change and self.ends and (change.high < self.ends.low or change.low > self.ends.high):
            seen = f"bad against good is {shown(self.ends)}: other commits between them changed the case too"
            self.notices.append(Notice("several_changes", seen))
        if change and len(self.chain) > 2 and (self.low == 0 or self.high == len(self.chain) - 1):
            end, side = ("good", "earlier") if self.low == 0 else ("bad", "later")
            seen = f"the change is at {end} itself; no {side} commit shows that it is more than one build: search wider"
            self.notices.append(Notice("at_the_end", seen))
        if not self.asked.first_parents:
            seen = "good is not among the first parents of bad: all commits between them were searched in one line, in the order of "
            seen += "git rev-list --topo-order, where neighbours need not be parent and child"
            self.notices.append(Notice("one_line", seen))

    def _outcome(self, answer: Answer, candidates: Sequence[str], before: str = "", change: LevelStep | None = None) -> BisectOutcome:
        return BisectOutcome(
            answer=answer, candidates=[self.tape.bench.describe(one) for one in candidates], before=before, change=change, ends=self.ends,
            steps=self.steps, commits=len(self.asked.commits), measurements=len(self.tape.took), notices=self.notices,
        )


def worded(step: HalvingStep) -> str:
    """A step in words."""
    if step.like == "skipped":
        return f"skipped: {step.reason}"
    blocks = f"after {step.blocks} blocks"
    if not step.third or step.position is None:
        return f"like {step.like} {blocks}"
    where = "between them" if 0 < step.position < 1 else "beyond them"
    way = f"{100 * step.position:.0f} % of the way"
    return f"like neither {blocks}, its level lies {where} ({way} from good to bad) and counts as {step.like}"


def shown(step: LevelStep) -> str:
    """A change and its interval: `+5.1 % (+4.6 % to +5.7 %)`."""
    change, low, high = (f"{'+' if one > 1 else ''}{percent(one - 1)}" for one in (step.ratio, step.low, step.high))
    return f"{change} ({low} to {high})"
