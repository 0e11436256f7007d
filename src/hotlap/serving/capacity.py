"""How many requests a second a server holds: a search over rates that ends in [known good, known bad], never in one number.

Known good is the largest rate at which attainment of the objective is shown to be at least what is asked, known bad the smallest at
which it is shown to be below. Evidence of all rates visited is pooled (`attainment_curve`), with requests of a run correlated as those
in a queue are. No input or output here: the caller measures a rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec.structs import replace

from hotlap.core.errors import InputError
from hotlap.core.record import Record
from hotlap.core.stats import student
from hotlap.serving import attainment_curve
from hotlap.serving.attainment_curve import Curve, RateRun

# rate in 1/s, requests → whether each met its objectives, in order of due times; None: what measures was at fault, nothing is known
Measure = Callable[[float, int], Sequence[bool] | None]

LEAST_REQUESTS, LEAST_MISSES = 2000, 50  # of a search; misses that are expected at the wanted attainment
FIRST_PART, NEXT_PART = 1 / 60, 1 / 12  # of the budget: runs that look around, runs that come closer
STEP = 4.0  # between rates while nothing is bracketed
MAYBE = 1.0  # log odds above the wanted share up to which a rate may be good
CLEAR = 2.5  # log odds above the wanted share from which even a short run is surely bad
CLOSE = 1.35  # ratio of a good and a bad rate from which the curve takes over
LOCATED = 0.5  # width of the interval from which long runs pay
BELOW, ABOVE = 1.0, 0.7  # log odds of the rates that long runs visit, from the wanted share
LONG_RUNS = 5
FAR = 1 / 3  # of the wanted share of misses: below it nothing was seen of where attainment falls
RISE = 1.05  # ratio of the highest rate that may still be measured and the highest good one, from which it is worth a run
MOST_REFUSED = 3  # rates in a row; twice as many where others went well
WARM_UP = 300  # requests of a run's beginning that are left out at most, where a server is full by then
FILLS = 4.0  # times what a request takes, in which a server fills
LONGER, BESIDE = 3.0, 1.1  # times the requests, and the rate at most, of a bad run that a good one does not stand against
LEAST_INFLATION = 10.0  # of the variance, where batches have not shown it
LASTS = 10.0  # times the longest objective, that a run lasts at least: a queue may be filling until then
WITHDRAWN = 1.1  # ratio of a rate that was known good and the one that is, from which that is said


class SearchEnded(Exception):
    """A measure says that the search is over; what was visited counts."""


class CapacityOptions(Record, frozen=True, kw_only=True):
    attain: float  # share of requests that must meet the objectives
    start: float  # rate to begin with, 1/s
    requests: int = 60_000  # budget, warm-up included
    rates: int = 12  # runs at most
    max_rate: float | None = None  # never above it
    confidence: float = 0.95
    width: float = 0.0  # stop when (bad − good) ÷ estimate is at most this
    warm_up: float = 0.1  # share of each run, from its beginning, that is left out, up to WARM_UP requests


class RateEvidence(Record, frozen=True, kw_only=True):
    """What one run shows by itself."""

    rate: float
    requests: int  # without warm-up
    met: int
    low: float  # bounds of attainment, sure at the search's confidence for all of its rates together
    high: float


class Capacity(Record, frozen=True, kw_only=True):
    """`estimate`: where attainment passes what is asked. `known_good`, `known_bad`: None where no rate is shown to be so."""

    attain: float
    confidence: float
    known_good: float | None
    known_bad: float | None
    estimate: float | None
    pooled: bool  # the interval is of the curve through all runs; False: of single runs
    requests: int  # asked for; fewer are sent where time ends a run
    evidence: tuple[RateEvidence, ...]  # as visited
    refused: tuple[float, ...] = ()  # rates of which nothing is known, for what measures was at fault
    withdrawn: float | None = None  # was known good earlier in the search; runs that came after it agree too little for that
    answered: tuple[float, float, float] | None = None  # a second, with its interval, where more came than was served; None: not known
    short: bool = False  # runs are too short against the objectives to say what is held
    inflation: float | None = None  # requests that count as one independent one; None: not known

    @property
    def width(self) -> float:
        """(bad − good) ÷ the estimate; infinite without one of them."""
        if self.known_good is None or self.known_bad is None:
            return math.inf
        return (self.known_bad - self.known_good) / (self.estimate or math.sqrt(self.known_good * self.known_bad))


@dataclass
class CapacitySearch:
    """A search under way."""

    measure: Measure
    options: CapacityOptions
    runs: list[RateRun] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    sent: int = 0
    in_a_row: int = 0  # refused
    ceiling: float = math.inf  # the highest rate that may still be measured soundly
    best: float = 0.0  # that was known good
    known: tuple[int, Capacity] | None = None  # by how many runs, and what they show
    raw: list[RateRun] = field(default_factory=list)  # runs as they were measured
    answers: list[tuple[float, bool, tuple[float, float, float]]] = field(default_factory=list)  # rate, outrun, answers a second
    long_s: float = 0.0  # from which a run shows that a rate is held
    least_s: float = 0.0  # that a run lasts, up to NEXT_PART: what measures knows how long an empty server takes to fill
    hurried: bool = False  # time may end it before its requests are spent: no rate is tried again while its bracket stands still

    @property
    def left(self) -> int:
        return self.options.requests - self.sent

    @property
    def miss(self) -> float:
        return 1 - self.options.attain

    @property
    def visited(self) -> int:
        return len(self.runs) + len(self.refused)

    def visit(self, rate: float, requests: int) -> None:
        rate = min(rate, self.options.max_rate or math.inf, self.ceiling)
        least = min(math.ceil(rate * self.least_s), round(self.options.requests * NEXT_PART))
        requests = min(max(requests, least), self.left)
        answer = self.measure(rate, requests)
        self.sent += requests
        if answer is None:
            self._refuse(rate)
            return
        self.in_a_row = 0
        self._rise(rate)
        missed = ~checked(answer, rate, requests)
        most = max(WARM_UP, math.ceil(rate * self.least_s))
        self.raw.append(RateRun(rate, missed[min(int(len(missed) * self.options.warm_up), most) :]))
        self.runs = [RateRun(run.rate, np.ones_like(run.missed)) if self.outruns(run.rate) else run for run in self.raw]
        self.best = max(self.best, self.pooled().known_good or 0.0)

    def pooled(self) -> Capacity:
        """What the runs so far show together: few requests are less sure than their numbers say."""
        if self.known is None or self.known[0] != len(self.runs):
            sent = min(max(self.sent, 1), self.options.requests)
            self.known = len(self.runs), self._lasting(pooled(self.runs, replace(self.options, requests=sent)))
        return self.known[1]

    def answered(self, rate: float, outrun: bool, per_s: tuple[float, float, float] | None) -> None:
        """Answers a second of the run under way, with its interval."""
        if per_s is not None:
            self.answers.append((rate, outrun, per_s))

    @property
    def most(self) -> tuple[float, float, float] | None:
        """Answers a second at most, by any run, where one was outrun."""
        if not any(outrun for _, outrun, _ in self.answers):
            return None
        each = np.array([per_s for _, _, per_s in self.answers])
        return float(each[:, 0].max()), float(each[:, 1].max()), float(each[:, 2].max())

    def outruns(self, rate: float) -> bool:
        """Whether this rate is surely more than the server ever answers, and its run was long enough to know."""
        return self.most is not None and rate > self.most[2] and any(rate == at for at, _, _ in self.answers)

    def _lasting(self, known: Capacity) -> Capacity:
        """What is held is at most what the server answers where more came, and what was seen for long enough."""
        good, most = known.known_good, self.most
        if good is not None and most is not None:
            good = min(good, most[1])
        long = [run.rate for run in self.runs if len(run.missed) >= 0.99 * (1 - self.options.warm_up) * self.long_s * run.rate]
        lasting = None if good is None else min(good, max(long, default=0.0)) or None
        estimate = known.estimate if most is None or known.estimate is None else min(known.estimate, most[0])
        return replace(known, known_good=lasting, estimate=estimate, answered=most, short=lasting != good)

    def _refuse(self, rate: float) -> None:
        """Halfway back to what went well; below that it is no matter of the rate, unless it happens again. Raises SearchEnded where it
        goes on."""
        self.refused.append(rate)
        self.in_a_row += 1
        sound = max((run.rate for run in self.runs if run.rate < rate), default=0.0)
        if self.in_a_row > 1 or all(run.rate < rate for run in self.runs):
            self.ceiling = math.sqrt(rate * sound) if sound else rate / 2
        if self.in_a_row >= (2 * MOST_REFUSED if self.runs else MOST_REFUSED):
            raise SearchEnded

    def _rise(self, rate: float) -> None:
        """At the highest rate that was still allowed it went well: halfway up to what did not; and there once more, where that was once."""
        above = sorted(refused for refused in self.refused if refused > rate)
        if rate < self.ceiling * (1 - 1e-9) or not above:
            return
        once = len(above) == 1 or above[1] > above[0] * RISE
        self.ceiling = above[0] if once and above[0] <= rate * RISE**2 else math.sqrt(rate * above[0])

    def took(self, usual_s: float) -> None:
        """A request usually took so long at some rate, from beginning to end."""
        self.least_s = min(FILLS * usual_s, self.least_s or math.inf)

    def bracket(self) -> tuple[float | None, float | None]:
        """The largest rate that may be good, the smallest that is clearly bad, by shares that rise with the rate."""
        runs = self.standing
        odds = [self._odds(share) for share in attainment_curve.shares(runs)]
        good = [run.rate for run, height in zip(runs, odds, strict=True) if height <= MAYBE]
        bad = [run.rate for run, height in zip(runs, odds, strict=True) if height > CLEAR]
        return max(good, default=None), min(bad, default=None)

    def _odds(self, share: float) -> float:
        """Log odds above the wanted share of misses."""
        return attainment_curve.log_odds(share) - attainment_curve.log_odds(self.miss)

    @property
    def standing(self) -> list[RateRun]:
        """Without short runs that were good where a much longer one was clearly bad: an empty server takes time to fill."""
        bad = [run for run in self.runs if self._odds(run.share) > CLEAR]
        return [
            run for run in self.runs
            if self._odds(run.share) > MAYBE
            or not any(len(other.missed) >= LONGER * len(run.missed) and other.rate <= BESIDE * run.rate for other in bad)
        ]  # fmt: skip

    def around(self) -> float | None:
        """The next rate while the place is not known; None when it is."""
        low, high = self.bracket()
        runs = self.standing
        if not runs:
            return self.ceiling
        if low is None:
            return min(run.rate for run in runs) / STEP
        if high is None and low >= min(self.options.max_rate or math.inf, self.ceiling / CLOSE):
            return None
        pairs = zip(runs, attainment_curve.shares(runs), strict=True)
        near = [run.rate for run, share in pairs if share > self.miss and run.rate < (high or math.inf)]
        if high is None:
            return max(low, *near, low) * (1.5 if near else STEP)
        above = min((rate for rate in near if rate > low), default=high)  # neither clearly bad nor maybe good
        return None if above / low <= CLOSE or (near and above / low <= 2) else math.sqrt(low * above)

    def curve(self) -> Curve | None:
        """Through all runs, its reference where it passes what is asked."""
        (low, high), runs = self.bracket(), self.standing
        if low is None:
            return None
        reference = math.sqrt(low * high) if high else low
        curve = None
        for _ in range(3):
            curve = attainment_curve.fit(runs, self.miss, reference)
            if curve is None:
                return None
            reference = min(max(curve.rate(curve.wanted), min(run.rate for run in runs)), high or math.inf)
        return curve

    def closer(self, turn: int) -> tuple[float, int]:
        """The next rate and its requests, once the place is known."""
        curve, rest = self.curve(), self.options.rates - self.visited
        off = (-BELOW, ABOVE)[turn % 2]
        if curve is None or self._lasting(pooled(self.runs, self.options)).width > LOCATED:
            rate = self._within(curve, off)
            long = min(math.ceil(rate * self.long_s), self.left // 2)
            return rate, max(round(self.options.requests * NEXT_PART), self.left // max(rest, 1), long)
        turns = max(min(rest, LONG_RUNS - turn), 1)
        return self._within(curve, off if turns > 1 or turn % 2 else 0.0), self.left if turns == 1 else self.left // turns

    def _within(self, curve: Curve | None, off: float) -> float:
        """Where the curve has these log odds beside the wanted ones; the middle of the bracket where it leads out of that."""
        low, high = self.bracket()
        if curve is not None:
            middle = curve.rate(curve.wanted)
            rate = min(max(curve.rate(curve.wanted + off), 0.8 * middle), 1.15 * middle)
            if high is None or rate < high:
                return rate
        if low and high is None and RISE * low < self.ceiling < math.inf:
            return self.ceiling
        rate = math.sqrt((low or high or 1) * (high or low or 1))
        return self._anew(rate, low) if self.hurried and low else rate

    def _anew(self, rate: float, low: float) -> float:
        """This rate, where it was not visited; else, where it missed too many and was not clearly bad, the middle of the highest rate that
        may be good and the lowest above it that missed too many."""
        above = [run.rate for run in self.standing if run.rate > low and run.share > self.miss]
        stuck = any(rate / RISE < run.rate < rate * RISE for run in self.standing)
        return math.sqrt(low * min(above)) if stuck and above else rate

    def run(self) -> None:
        """Visits rates until the budget is spent, the interval is narrow enough, or the measure ends it."""
        with suppress(SearchEnded):
            self._run()

    def _run(self) -> None:
        options, turn = self.options, 0
        self.visit(options.start, round(options.requests * FIRST_PART))
        while self.visited < options.rates - 3 and (rate := self.around()) is not None:
            self.visit(rate, round(options.requests * FIRST_PART))
        while self.left > 0 and self.visited < options.rates and self.runs:
            rate, requests = self.closer(turn)
            self.visit(rate, self.left if self.visited == options.rates - 1 else requests)
            turn += 1
            if options.width and self.answer().width <= options.width:
                break

    def answer(self) -> Capacity:
        """By what was visited so far."""
        known = self.pooled()
        answers = known.answered is not None and self.best > known.answered[1]  # that alone is reason enough
        withdrawn = self.best if self.best > WITHDRAWN * (known.known_good or 0.0) and not answers and not known.short else None
        return replace(known, requests=self.sent, refused=tuple(self.refused), withdrawn=withdrawn)


def search(measure: Measure, options: CapacityOptions) -> Capacity:
    """Visits rates until the budget is spent or the interval is narrow enough. Raises InputError for options that cannot be, and for
    answers of `measure` that are not one truth value a request."""
    check(options)
    state = CapacitySearch(measure, options)
    state.run()
    return state.answer()


def pooled(runs: Sequence[RateRun], options: CapacityOptions, sent: int = 0) -> Capacity:
    """What these runs show together; in any order, from any search."""
    state = CapacitySearch(lambda rate, requests: [], options, list(runs), sent=sent)
    seen = max((run.share for run in runs), default=0.0) >= FAR * state.miss
    curve = state.curve() if seen else None  # where hardly any were missed it and its inflation are guesses
    evidence = tuple(_evidence([run], curve, options) for run in runs)
    good, bad = _shown(state.standing, curve, options), _shown(runs, curve, options, bad=True)
    estimate = None
    if curve is not None:
        low, high = curve.interval(options.confidence, options.requests)
        rates, few, many = [run.rate for run in runs], min(run.share for run in runs), max(run.share for run in runs)
        good = min(low, max(rates)) if low and few < state.miss else good  # beyond all runs a curve is a guess
        bad = max(high, min(rates)) if high and many > state.miss else bad
        estimate = curve.rate(curve.wanted) if few < state.miss < many else None
    return Capacity(
        attain=options.attain, confidence=options.confidence, known_good=good, known_bad=bad, estimate=estimate,
        pooled=curve is not None, requests=sent, evidence=evidence, inflation=float(curve.inflation) if curve else None,
    )  # fmt: skip


def _shown(runs: Sequence[RateRun], curve: Curve | None, options: CapacityOptions, bad: bool = False) -> float | None:
    """The largest rate shown to be good, or the smallest shown to be bad, by runs alone. Attainment falls with the rate, so what a run and
    those above it show together holds for its own rate; and what it and those below it show, where they are bad."""
    ordered = sorted(runs, key=lambda run: run.rate, reverse=bad)
    shown = None
    for place, run in enumerate(ordered):
        pools = [_evidence(ordered[place:end], curve, options) for end in range(place + 1, len(ordered) + 1)]
        if any(each.high < options.attain if bad else each.low >= options.attain for each in pools):
            shown = run.rate
    return shown


def _evidence(runs: Sequence[RateRun], curve: Curve | None, options: CapacityOptions) -> RateEvidence:
    """Wilson's interval on as many independent requests as the runs are worth, shared among the search's rates (Bonferroni). `rate`: of the
    first."""
    inflation = float(max(curve.inflation if curve else LEAST_INFLATION, LEAST_INFLATION))
    n, met = sum(len(run.missed) for run in runs), sum(int((~run.missed).sum()) for run in runs)
    z = student.quantile(1 - (1 - options.confidence) / 2 / options.rates, 1e6)
    worth, share = n / inflation, met / n
    middle, half = (share + z * z / 2 / worth), z * math.sqrt(share * (1 - share) / worth + z * z / 4 / worth**2)
    scale = 1 + z * z / worth
    low, high = max(float(middle - half) / scale, 0.0), min(float(middle + half) / scale, 1.0)
    return RateEvidence(rate=runs[0].rate, requests=n, met=met, low=low, high=high)


def checked(answer: Any, rate: float, requests: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Raises InputError."""
    met = np.asarray(answer)
    if met.ndim != 1 or met.dtype != np.bool_ or not 0 < len(met) <= requests:
        raise InputError(f"at {rate:g}/s {requests} requests were asked for; the answer must be true or false for each of 1 to {requests}")
    return met


def least_requests(attain: float) -> int:
    """Of a search for this attainment."""
    return max(LEAST_REQUESTS, math.ceil(LEAST_MISSES / min(attain, 1 - attain) - 1e-6))


def check(options: CapacityOptions) -> None:
    """Raises InputError."""
    if not 0 < options.attain < 1:
        raise InputError(f"attainment is a share between 0 and 1, such as 0.9, not {options.attain:g}")
    if not 0 < options.confidence < 1:
        raise InputError(f"confidence is a share between 0 and 1, such as 0.95, not {options.confidence:g}")
    if not (0 < options.start < math.inf):
        raise InputError(f"the first rate must be above 0 requests/s, not {options.start:g}")
    if options.max_rate is not None and not options.start <= options.max_rate < math.inf:
        raise InputError(f"the search begins at {options.start:g}/s, above its greatest rate, {options.max_rate:g}/s")
    if options.rates < 4:
        raise InputError(f"a search needs at least 4 rates, not {options.rates}")
    if not 0 <= options.warm_up < 0.9:
        raise InputError(f"the warm-up is a share of each run, from 0 to under 0.9, not {options.warm_up:g}")
    if not options.width >= 0:
        raise InputError(f"the width to stop at is a share of the rate, 0 or more, not {options.width:g}")
    least = least_requests(options.attain)
    if options.requests < least:
        raise InputError(f"{options.requests} requests cannot tell {options.attain:.4g} of attainment; give at least {least}")
