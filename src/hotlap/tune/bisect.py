"""The search for the commit that changed a case: good and bad measured in turns, then halving by a sequential test, then a check.

    good, bad     do they differ at all, and by how much: pairs A B B A, looked at a few times
    a commit      blocks of good, commit, bad (and back), until the commit is like one of them at a set error rate
    the answer    the first commit like bad and its parent, measured in turns once more

Every measurement is kept before the next begins. A search that goes on replays what it kept: all that it decides follows from that.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

import hotlap
from hotlap import targets
from hotlap.errors import Busy, InputError, Interrupted, MachineError, SchemaError, nearest
from hotlap.measure.session import choose
from hotlap.stats.series import MAD_TO_SD
from hotlap.stats.summary import interval
from hotlap.store import bundle as bundles
from hotlap.store import files, locks, paths
from hotlap.targets.base import SystemClock
from hotlap.tune.measured import ATTEMPTS, Commit, OutOfTime, Setting, Tape, Took, Trees
from hotlap.units import percent

ALPHA = 0.05  # chance of a wrong answer: of the comparison of the ends, of all decisions of the search together, of the check
LOOKS = (8, 12, 18, 27, 40, 60)  # pairs after which a comparison may end; the level is shared equally, and 8 are the fewest that reach it
BLOCKS = 40  # of one commit; without a decision by then it is skipped
TAILS = 4.0  # degrees of freedom of the noise assumed: an outlier is one of its tails and says little
QUIETEST = 1e-6  # smallest noise assumed, as a share
ROUNDING = 1e-12  # of a logarithm
THIRD = 0.2  # of the way from good to bad: nearer to one of them is no level of its own
THIRD_SURE, THIRD_MAYBE = 3.5, 2.5  # standard errors from the nearer level: a level of its own; not yet to be told
THIRD_BLOCKS = 4  # fewest blocks that show one
SCHEMA, STATE = 1, "state.json"

Answer = Literal["found", "not confirmed", "candidates", "no difference", "cannot tell", "budget"]
Listener = Callable[[str, bool], None]
"""Told how it goes; True is for what the next line replaces."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched."""

    good: str
    bad: str
    commits: list[str]  # after good up to bad, oldest first
    first_parents: bool = True  # each is the first parent of the next
    margin: float = 0.02  # smallest difference between good and bad worth a search, as a share


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Between two commits: 1.05 means that the later one's number is 5 % larger."""

    ratio: float  # median over pairs
    low: float
    high: float
    pairs: int


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of the search."""

    commit: str
    like: Literal["good", "bad", "skipped"]
    blocks: int
    position: float | None = None  # of its level: 0 is good's, 1 is bad's
    third: bool = False  # a level of its own
    reason: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    answer: Answer
    candidates: list[Commit]  # one when it was found; none when good and bad do not differ
    before: str = ""  # the commit that `change` is held against
    change: Change | None = None  # of the last candidate against `before`
    ends: Change | None = None  # of bad against good
    steps: list[Step]
    commits: int
    measurements: int
    alpha: float = ALPHA
    warnings: list[str] = []


# ---------------------------------------------------------------- good, bad, or neither


class Weighed(NamedTuple):
    """What the blocks of one commit say so far."""

    like: Literal["good", "bad", ""]
    position: float  # of its level: 0 is good's, 1 is bad's
    error: float  # standard, of the position
    third: bool


def weigh(u: Sequence[float], d: Sequence[float], limit: float) -> Weighed:
    """Like good, like bad, or not yet known.

    `u`: per block, the logarithm of the commit's value less the mean of good's and bad's; `d`: of each pair so far, the logarithm of
    bad's value less good's. A sequential probability ratio test (Wald, Annals of Math. Stat. 16, 1945) between −δ/2 and +δ/2 with
    δ and the noise taken robustly from `d`. Noise is assumed to be of Student's t with 4 degrees of freedom, so that a far outlier
    weighs little, and no block adds more than half of `limit` (after Huber, Annals of Math. Stat. 36, 1965), so that none
    decides alone. A level that is surely neither is like the nearer one.
    """
    delta, noise = level(d)
    blocks, scale = np.asarray(u, dtype=np.float64), noise * math.sqrt(0.75)  # d has the noise of 2 rounds, u that of 1½
    weights = np.log1p(((blocks + delta / 2) / scale) ** 2 / TAILS) - np.log1p(((blocks - delta / 2) / scale) ** 2 / TAILS)
    score = float(np.clip((TAILS + 1) / 2 * weights, -limit / 2, limit / 2).sum())
    position = float(np.median(blocks)) / delta + 0.5
    spread = max(scale, MAD_TO_SD * float(np.median(np.abs(blocks - np.median(blocks)))))
    of_median, of_delta = spread * math.sqrt(math.pi / 2 / len(u)), noise / math.sqrt(len(d)) * (position - 0.5)
    error = math.hypot(of_median, of_delta) / abs(delta)
    away = abs(position - (position >= 0.5))
    if away > max(THIRD, THIRD_SURE * error) and len(u) >= THIRD_BLOCKS:
        return Weighed("bad" if position >= 0.5 else "good", position, error, True)
    open_ = away > max(THIRD, THIRD_MAYBE * error) or abs(score) < limit - ROUNDING
    return Weighed("" if open_ else "bad" if score > 0 else "good", position, error, False)


def level(d: Sequence[float]) -> tuple[float, float]:
    """The difference between bad and good and the noise of one such difference, by median and MAD.

    Differences are drawn in at 2 robust standard deviations before their mean is taken (Huber 1964); the MAD of few values is
    corrected as Croux and Rousseeuw (1992) do for many of 10 and more.
    """
    x: NDArray[np.float64] = np.asarray(d, dtype=np.float64)
    middle = float(np.median(x))
    noise = max(MAD_TO_SD * float(np.median(np.abs(x - middle))) * len(x) / (len(x) - 0.8), QUIETEST)
    return float(np.clip(x, middle - 2 * noise, middle + 2 * noise).mean()), noise


def threshold(number: int, commits: int) -> float:
    """What the evidence must reach at the decision of this number, from 1: Wald's limit for both errors equal.

    Nine tenths of the level are shared equally (Bonferroni) among as many decisions as halving takes; the rest is for those that
    skipped commits add, however many.
    """
    usual = max(math.ceil(math.log2(max(commits, 2))), 1)
    more = number - usual
    alpha = 0.9 * ALPHA / usual if more <= 0 else 0.1 * ALPHA / (more * (more + 1))
    return math.log((1 - alpha) / alpha)


def differ(ratios: Sequence[float], margin: float) -> tuple[Literal["differ", "same", ""], Change]:
    """Whether the later of two commits differs, from its number ÷ the other's in each pair; 8 pairs at least.

    The interval is of the median ratio, by order statistics (`stats.summary.interval`), and holds at all looks together. No
    distribution is assumed, and outliers among many pairs move it little. *differ*: the interval leaves out 1 and the median lies beyond
    the margin; *same*: the interval lies within the margin.
    """
    ends = interval(ratios, 1 - ALPHA / len(LOOKS))
    assert ends is not None
    found = Change(ratio=float(np.median(ratios)), low=ends[0], high=ends[1], pairs=len(ratios))
    if (found.low > 1 or found.high < 1) and not 1 / (1 + margin) < found.ratio < 1 + margin:
        return "differ", found
    return "same" if 1 / (1 + margin) < found.low and found.high < 1 + margin else "", found


# ---------------------------------------------------------------- the search


class Search:
    """A search under way. `run` gives its outcome, however it ends."""

    def __init__(self, asked: Asked, tape: Tape, listen: Listener = lambda *_: None) -> None:
        self.asked, self.tape, self.listen = asked, tape, listen
        self.chain = [asked.good, *asked.commits]
        self.low, self.high = 0, len(self.chain) - 1  # the last that is like good, the first that is like bad
        self.steps: list[Step] = []
        self.skipped: set[int] = set()
        self.gone: set[str] = set()
        self.decisions = 0
        self.d: list[float] = []  # logarithm of bad less that of good, of every pair and block
        self.ends: Change | None = None
        self.warnings: list[str] = []

    def run(self) -> Outcome:
        try:
            answer, self.ends = self._compare(self.asked.good, self.asked.bad, self.asked.margin)
            if answer != "differ":
                return self._outcome("no difference" if answer == "same" else "cannot tell", [])
            steps = math.ceil(math.log2(len(self.asked.commits)))
            self.listen(f"bad against good: {shown(self.ends)}; {len(self.asked.commits)} commits, about {steps} to measure", False)
            while (index := self._between()) is not None:
                self._step(index)
            return self._confirmed()
        except OutOfTime:
            return self._outcome("budget", self.chain[self.low + 1 : self.high + 1] if self.ends else [])

    def _compare(self, a: str, b: str, margin: float) -> tuple[Literal["differ", "same", ""], Change]:
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

    def _between(self) -> int | None:
        """The commit between that is nearest to the middle and was not skipped; None when the change has no more room."""
        middle = (self.low + self.high) / 2
        return min((i for i in range(self.low + 1, self.high) if i not in self.skipped), key=lambda i: abs(i - middle), default=None)

    def _step(self, index: int) -> None:
        self.decisions += 1
        step = self._decide(self.chain[index], threshold(self.decisions, len(self.asked.commits)))
        if step.like == "skipped":
            self.skipped.add(index)
            if not step.blocks:  # nothing was decided, so nothing of the level is spent
                self.decisions -= 1
        elif step.like == "good":
            self.low = index
        else:
            self.high = index
        self.steps.append(step)
        self._forget()
        self.listen(f"{step.commit[:10]} {said(step)}; left: {self.high - self.low}", False)

    def _forget(self) -> None:
        """Gives up what is measured no more; the neighbours of the change are needed for the check."""
        needed = {self.asked.good, self.asked.bad, self.chain[self.low], self.chain[self.high]}
        for commit in {step.commit for step in self.steps} - needed - self.gone:
            self.tape.bench.forget(commit)
            self.gone.add(commit)

    def _decide(self, commit: str, limit: float) -> Step:
        u: list[float] = []
        for number in range(BLOCKS):
            block = self._block(commit, forwards=number % 2 == 0)
            if isinstance(block, Took):
                return Step(commit=commit, like="skipped", blocks=len(u), reason=block.reason)
            good, value, bad = (math.log(one) for one in block)
            self.d.append(bad - good)
            u.append(value - (good + bad) / 2)
            seen = weigh(u, self.d, limit)
            if seen.like:
                return Step(commit=commit, like=seen.like, blocks=len(u), position=seen.position, third=seen.third)
        reason = f"like neither for sure after {BLOCKS} blocks"
        return Step(commit=commit, like="skipped", blocks=BLOCKS, position=seen.position, reason=reason)

    def _block(self, commit: str, forwards: bool) -> tuple[float, float, float] | Took:
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

    def _confirmed(self) -> Outcome:
        """The culprit, or the last candidate, and what comes before it, measured in turns once more."""
        found = self.chain[self.low + 1 : self.high + 1]
        culprit, before = found[-1], self.chain[self.low]
        if len(found) == 1 and not self.asked.first_parents:
            before = next(iter(self.tape.bench.describe(culprit).parents), before)
        change = self._checked(before, culprit)
        right = change is not None and self._as_the_ends(change)
        self._doubts(change if right else None)
        answer: Answer = "not confirmed" if not right else "found" if len(found) == 1 else "candidates"
        return self._outcome(answer, found, before, change)

    def _as_the_ends(self, change: Change) -> bool:
        """Surely up, where bad is above good, or surely down."""
        return self.ends is not None and (change.low > 1 if self.ends.ratio > 1 else change.high < 1)

    def _checked(self, before: str, culprit: str) -> Change | None:
        """None, and a warning, when one of them gives no number any more."""
        try:
            return self._compare(before, culprit, 0.0)[1]
        except SchemaError:
            raise
        except (InputError, MachineError) as error:
            self.warnings.append(f"the check was not possible: {error}")
            return None

    def _doubts(self, change: Change | None) -> None:
        for step in self.steps:
            if step.third:
                self.warnings.append(f"{step.commit[:10]} {said(step)}: more than one commit changed the case")
        if change and self.ends and (change.high < self.ends.low or change.low > self.ends.high):
            self.warnings.append(f"bad against good is {shown(self.ends)}: other commits between them changed the case too")
        if not self.asked.first_parents:
            self.warnings.append(
                "good is not among the first parents of bad: all commits between them were searched in one line, in the order of "
                "git rev-list --topo-order, where neighbours need not be parent and child"
            )

    def _outcome(self, answer: Answer, candidates: Sequence[str], before: str = "", change: Change | None = None) -> Outcome:
        return Outcome(
            answer=answer, candidates=[self.tape.bench.describe(one) for one in candidates], before=before, change=change, ends=self.ends,
            steps=self.steps, commits=len(self.asked.commits), measurements=len(self.tape.took), warnings=self.warnings,
        )


def said(step: Step) -> str:
    """A step in words."""
    if step.like == "skipped":
        return f"skipped: {step.reason}"
    blocks = f"after {step.blocks} blocks"
    if not step.third or step.position is None:
        return f"like {step.like} {blocks}"
    where = "between them" if 0 < step.position < 1 else "beyond them"
    return f"like neither {blocks}, its level lies {where} ({step.position:.0%} of the way from good to bad) and counts as {step.like}"


def shown(found: Change) -> str:
    """A change and its interval: `+5.1 % (+4.6 % to +5.7 %)`."""
    change, low, high = (f"{'+' if one > 1 else ''}{percent(one - 1)}" for one in (found.ratio, found.low, found.high))
    return f"{change} ({low} to {high})"


# ---------------------------------------------------------------- kept, and gone on with


class State(msgspec.Struct, frozen=True, kw_only=True):
    """A search as it is kept, whole, after every measurement: `bisect/<name>/state.json`."""

    schema: int = SCHEMA
    name: str
    hotlap: str = hotlap.__version__
    began: str  # UTC, ISO 8601
    setting: Setting
    asked: Asked
    took: list[Took] = []


def begin(setting: Setting, asked: Asked, home: Path) -> State:
    """A new search, kept. Raises InputError for a target that runs no programs."""
    if setting.target and targets.parse(setting.target).name == "simulated":
        raise InputError("a simulated GPU cannot run programs; leave out --target, or name one of a real device")
    now = datetime.now(UTC)
    state = State(name=bundles.new_id(now), began=now.isoformat(timespec="seconds"), setting=setting, asked=asked)
    paths.made(_folder(home) / state.name)
    _keep(state, home)
    return state


def load(name: str, home: Path) -> State:
    """A search by its name or the unique beginning of one; `latest` is the newest. Raises InputError, SchemaError."""
    names = sorted(path.parent.name for path in _folder(home).glob(f"*/{STATE}"))
    found = names[-1:] if name == "latest" else [one for one in names if name and one.startswith(name)]
    if len(found) != 1:
        said = f"'{name}' names {len(found)} searches" if found else f"no search is called '{name}'"
        raise InputError(f"{said}; {nearest(name, [*names, 'latest'])}")
    path = _folder(home) / found[0] / STATE
    try:
        state = msgspec.json.decode(path.read_bytes(), type=State)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SchemaError(f"'{path}' is no search that can be read: {error}") from None
    if state.schema > SCHEMA:
        raise SchemaError(f"'{path}' is of schema {state.schema}, newer than this Hotlap reads ({SCHEMA}); upgrade Hotlap")
    return state


def search(state: State, home: Path, budget_s: float, listen: Listener) -> Outcome:
    """Goes on with a search to its end, the end of the budget, or Ctrl-C; its worktrees are removed in any case.

    Raises Interrupted (everything measured is kept), Busy when another process is at it, InputError and MachineError for good
    and bad that cannot be measured.
    """
    clock = SystemClock()
    until_s = clock.now() + budget_s
    trees = Trees(state.setting, _folder(home) / state.name, lambda text: listen(text, True))

    def keep(took: list[Took]) -> None:
        _keep(msgspec.structs.replace(state, took=took), home)
        listen(f"{len(took)} measurements, at {took[-1].commit[:10]}", True)

    with ExitStack() as held:
        held.enter_context(_alone(state, home))
        held.enter_context(_ended_like_interrupted())
        held.callback(trees.close)
        try:
            return Search(state.asked, Tape(trees, state.took, keep, lambda: clock.now() > until_s), listen).run()
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; everything measured is kept: hotlap bisect --resume {state.name}") from None


def _folder(home: Path) -> Path:
    return home / "bisect"


def _keep(state: State, home: Path) -> None:
    files.write_whole(_folder(home) / state.name / STATE, msgspec.json.encode(state))


@contextmanager
def _alone(state: State, home: Path) -> Iterator[None]:
    """Neither two processes at one search, nor a run at the device meanwhile."""
    with ExitStack() as held:
        file = held.enter_context(open(_folder(home) / state.name / "lock", "a+b"))
        if not locks.take(file):
            raise Busy(f"another process is at the search {state.name}; wait for it to end")
        if state.setting.target:
            device = choose(targets.find(targets.parse(state.setting.target)), "")[0]
            held.enter_context(locks.hold(device.key, home))
        yield


@contextmanager
def _ended_like_interrupted() -> Iterator[None]:
    """SIGTERM ends a search as Ctrl-C does; elsewhere than in the main thread nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
