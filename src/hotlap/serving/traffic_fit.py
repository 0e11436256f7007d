"""What a trace is like, in numbers: arrivals (rate over time, burstiness), lengths, prefixes that requests share.

Burstiness is the CV (standard deviation ÷ mean) of the intervals between arrivals, within stretches of one rate, and the shape 1 / CV² of
the Gamma distribution with that CV: 1 is Poisson, below 1 comes in bursts, above 1 is regular. That is what `gamma:RATE,SHAPE` means and
what vLLM calls burstiness. Where a trace's clock ticks (Mooncake's conversation: 3 s, BurstGPT: 1 s) the intervals say nothing; then it is
the CV of a renewal process with the dispersion of the counts (variance ÷ mean → CV², Cox, Renewal Theory, 1962).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from msgspec.structs import replace

from hotlap.core.record import Record
from hotlap.core.stats.changes import changes
from hotlap.serving.traffic import BLOCK, Counts, Floats, TrafficTrace

BINS, FEWEST, IN_BIN = 360, 17, 10.0  # bins of a trace, at least so many (fewer show no change), requests in one
TIED, TICK = 0.05, 0.2  # share of intervals of 0 s, and tick over mean interval, from which a clock is too coarse for intervals
PIECES, DRAWS = 20, 1000  # pieces of a trace drawn again, how often
POINTS = 4000  # of a distribution that are looked at
LEAST = 30  # values of a fit
NEAR = 0.05  # distance up to which a Gamma distribution stands for the intervals, whatever many of them may refute
REGULAR = 1e-3  # CV up to which intervals are all the same
QUANTILES = {"min": 0.0, "p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


class TrafficBurstiness(Record, frozen=True, kw_only=True):
    """`low`, `high`: 95 % interval of the CV, from pieces of the trace drawn again; None: too few requests. `shape`: 1 / CV², of a Gamma
    distribution; None of intervals that are all the same."""

    cv: float
    low: float | None
    high: float | None
    shape: float | None
    basis: Literal["intervals", "counts"]
    gamma_distance: float | None = None  # Kolmogorov's, to the Gamma distribution of this CV; None: of counts
    gamma_fits: bool | None = None  # up to 5 %, or up to what few intervals are off by chance
    poisson: bool | None = None  # exponential intervals are not refuted at 5 %


class RateStretch(Record, frozen=True, kw_only=True):
    """From one change of the rate to the next. `ratio` to the stretch before, with its 95 % interval; None of the first."""

    start_s: float
    end_s: float
    requests: int
    rate_hz: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


class TrafficArrivals(Record, frozen=True, kw_only=True):
    """`rates_hz`: in each bin of `bin_s`, in order. `tick_s`: of a clock that is too coarse for intervals."""

    seconds: float
    rate_hz: float
    bin_s: float
    rates_hz: tuple[float, ...]
    stretches: tuple[RateStretch, ...]
    burstiness: TrafficBurstiness | None
    tick_s: float | None = None


class TrafficLengths(Record, frozen=True, kw_only=True):
    """Tokens of input or output. `distance`: Kolmogorov's, to the lognormal distribution of that mean and spread of logarithms; it is
    refuted at 5 % above `limit`."""

    mean: float
    quantiles: dict[str, float]
    log_mean: float
    log_sd: float
    distance: float | None = None
    limit: float | None = None
    lognormal: bool | None = None  # not refuted


class PrefixSharing(Record, frozen=True, kw_only=True):
    """What a prefix cache without a limit could have found, in the order of arrival: blocks that an earlier request began with."""

    share: float  # of input tokens
    input_tokens: int
    cached_tokens: int
    distinct_tokens: int  # that such a cache would hold
    requests: int  # that find something
    commonest: float  # share of requests that begin with the commonest first block


class TrafficFit(Record, frozen=True, kw_only=True):
    """`timed`: the trace has times. `arrivals` None: it has none, or all requests came at one."""

    trace: str
    format: str
    requests: int
    left_out: int
    estimated: bool
    timed: bool
    input: TrafficLengths
    output: TrafficLengths
    arrivals: TrafficArrivals | None
    sharing: PrefixSharing | None


def fit(trace: TrafficTrace, seed: int = 0) -> TrafficFit:
    """`seed` is of the pieces that are drawn for the interval."""
    times = trace.times_s
    return TrafficFit(
        trace=trace.name, format=trace.format, requests=len(trace.input_tokens), left_out=trace.left_out, estimated=trace.estimated,
        timed=times is not None,
        input=lengths(trace.input_tokens), output=lengths(trace.output_tokens),
        arrivals=arrivals(times, np.random.default_rng(seed)) if times is not None and times[-1] > 0 else None,
        sharing=sharing(trace) if trace.prefix else None,
    )  # fmt: skip


# ---------------------------------------------------------------- arrivals


class _Bins(NamedTuple):
    """`ends`: index of the bin after each stretch's last; `edges_s`: between stretches, with the beginning and the end; `moves`: ratio and
    interval of the change to each stretch after the first."""

    width_s: float
    counts: Counts
    ends: list[int]
    edges_s: list[float]
    moves: list[tuple[float, float, float]]


def arrivals(times: Floats, rng: np.random.Generator) -> TrafficArrivals:
    """Of sorted times from 0 s on, not all of them 0."""
    seconds, gaps = float(times[-1]), np.diff(times)
    tick = _tick(gaps)
    bins = _binned(times, tick)
    ranges = _ranges(times, bins)
    stretches = []
    for number, ((first, last), start, end) in enumerate(zip(ranges, bins.edges_s, bins.edges_s[1:], strict=False)):
        move = bins.moves[number - 1] if number else (None, None, None)
        count = last - first - (number == len(ranges) - 1)  # the last arrival ends the trace
        stretches.append(RateStretch(
            start_s=start, end_s=end, requests=last - first, rate_hz=count / (end - start), ratio=move[0], low=move[1], high=move[2],
        ))  # fmt: skip
    return TrafficArrivals(
        seconds=seconds, rate_hz=(len(times) - 1) / seconds, bin_s=bins.width_s, rates_hz=tuple((bins.counts / bins.width_s).tolist()),
        stretches=tuple(stretches), burstiness=_of_intervals(gaps, ranges, rng) if tick is None else _of_counts(bins, rng), tick_s=tick,
    )  # fmt: skip


def steady(times: Floats) -> list[tuple[int, int]]:
    """Requests of each stretch of one rate: its first, and that after its last."""
    return _ranges(times, _binned(times, _tick(np.diff(times)))) if times[-1] > 0 else [(0, len(times))]


def _ranges(times: Floats, bins: _Bins) -> list[tuple[int, int]]:
    cuts = [int(np.searchsorted(times, edge)) for edge in bins.edges_s[1:-1]]
    return list(zip([0, *cuts], [*cuts, len(times)], strict=True))


def _tick(gaps: Floats) -> float | None:
    """Of a clock that puts many requests at one time; None where the intervals can be used."""
    apart = gaps[gaps > 0]
    if len(apart) == 0 or np.mean(gaps == 0) < TIED:
        return None
    tick = float(np.median(apart)) if np.median(apart) < 1.5 * np.min(apart) else float(np.min(apart))
    return tick if tick > TICK * float(np.mean(gaps)) else None


def _binned(times: Floats, tick: float | None) -> _Bins:
    """Equal bins, the last that is not whole left out; where there are few requests no change can be found. Of a clock that ticks they
    begin and end between two ticks."""
    seconds = float(times[-1])
    width = max(seconds / BINS, IN_BIN * seconds / max(len(times) - 1, 1))
    width = math.ceil(width / tick) * tick if tick else width
    number = max(int(seconds / width * (1 + 1e-12)), 1)
    width = width if number > 1 else seconds
    lead = tick / 2 if tick else 0.0
    counts = np.bincount(np.minimum(((times + lead) / width).astype(np.int64), number), minlength=number + 1)[:number]
    steps = [change for change in changes(counts) if change.kind == "step"] if number >= FEWEST else []
    moves = [(change.ratio, change.low, change.high) for change in steps]
    edges = [0.0, *(change.index * width - lead for change in steps), seconds]
    return _Bins(width, counts, [*(change.index for change in steps), number], edges, moves)


def _of_intervals(gaps: Floats, ranges: list[tuple[int, int]], rng: np.random.Generator) -> TrafficBurstiness | None:
    """Intervals over the mean of their stretch, so that a rate that changes does not pass for bursts."""
    parts = [gaps[first : min(last, len(gaps))] for first, last in ranges]
    parts = [part / part.mean() for part in parts if len(part) and part.mean() > 0]
    own = np.concatenate(parts)
    if len(own) < LEAST:
        return None
    low, high = _again(np.stack([np.ones_like(own), own, own**2]), _cv_of_sums, rng)
    cv = float(own.std())
    ordered = np.sort(own)[np.unique(np.linspace(0, len(own) - 1, POINTS).astype(np.int64))]
    ranks = np.searchsorted(np.sort(own), ordered, side="right") / len(own)
    exponential = _distance(ordered, ranks, -np.expm1(-ordered), len(own))
    gamma = _distance(ordered, ranks, gamma_cdf(1 / cv**2, ordered / cv**2), len(own)) if cv > REGULAR else None
    return TrafficBurstiness(
        cv=cv, low=low, high=high, shape=_shape(cv), basis="intervals", gamma_distance=gamma,
        gamma_fits=None if gamma is None else gamma <= NEAR or _exponential(gamma, len(own)), poisson=_exponential(exponential, len(own)),
    )  # fmt: skip


def _of_counts(bins: _Bins, rng: np.random.Generator) -> TrafficBurstiness | None:
    """By the dispersion of the counts in bins, each about the mean of its stretch."""
    if len(bins.counts) < LEAST:
        return None
    parts = np.split(bins.counts.astype(float), bins.ends[:-1])
    squares = np.concatenate([(part - part.mean()) ** 2 * len(part) / max(len(part) - 1, 1) for part in parts])
    means = np.concatenate([np.full(len(part), part.mean()) for part in parts])
    low, high = _again(np.stack([means, squares]), lambda sums: np.sqrt(sums[1] / sums[0]), rng)
    cv = float(np.sqrt(squares.sum() / means.sum()))
    return TrafficBurstiness(cv=cv, low=low, high=high, shape=_shape(cv), basis="counts")


def _shape(cv: float) -> float | None:
    return 1 / cv**2 if cv > REGULAR else None


def _cv_of_sums(sums: Floats) -> Floats:
    """Of the number, the sum and the sum of squares; shape (3, …)."""
    mean = sums[1] / sums[0]
    varies: Floats = np.sqrt(np.maximum(sums[2] / sums[0] - mean**2, 0.0)) / mean
    return varies


def _again(columns: Floats, of_sums, rng: np.random.Generator) -> tuple[float | None, float | None]:  # type: ignore[no-untyped-def]
    """95 % interval: pieces of neighbours drawn again (Künsch, Ann. Stat. 17, 1989), since bursts make neighbours alike. Of 2,000 Gamma
    intervals it held the CV of shape 4, 1, 0.25 and 0.1 in 94, 96, 91 and 86 % of 300 traces: few large intervals decide a large CV."""
    size = max(columns.shape[1] // 400, 1)
    pieces = columns.shape[1] // size
    if pieces < PIECES:
        return None, None
    sums = columns[:, : pieces * size].reshape(len(columns), pieces, size).sum(axis=2)
    drawn = sums[:, rng.integers(pieces, size=(DRAWS, pieces))].sum(axis=2)
    low, high = np.quantile(of_sums(drawn), (0.025, 0.975))
    return float(low), float(high)


# ---------------------------------------------------------------- distributions


def _distance(ordered: Floats, ranks: Floats, cdf: Floats, n: int) -> float:
    """Kolmogorov's, at the points that are looked at."""
    return float(np.max(np.maximum(np.abs(ranks - cdf), np.abs(cdf - ranks + 1 / n))))


def _exponential(distance: float, n: int) -> bool:
    """Not refuted at 5 % where the mean is the sample's (Stephens, JASA 69, 1974, table 1A). Of a Gamma distribution whose shape is the
    sample's as well, chance is a little less."""
    return (distance - 0.2 / n) * (math.sqrt(n) + 0.26 + 0.5 / math.sqrt(n)) <= 1.094


def gamma_cdf(shape: float, x: Floats) -> Floats:
    """The regularized lower incomplete gamma function P(shape, x), x ≥ 0: its series below shape + 1 (DLMF 8.7.1), the continued fraction
    of Q = 1 − P above (DLMF 8.9.2), to 1e-12."""
    result = np.zeros_like(x, dtype=float)
    with np.errstate(divide="ignore", over="ignore"):
        front = np.exp(shape * np.log(x) - x - math.lgamma(shape))
    below, above = (x > 0) & (x < shape + 1), x >= shape + 1
    if below.any():
        term = np.full(int(below.sum()), 1 / shape)
        total, k = term.copy(), shape
        while (term > 1e-13 * total).any():
            k += 1
            term = term * x[below] / k
            total += term
        result[below] = front[below] * total
    if above.any():  # Lentz's method
        b = x[above] + 1 - shape
        d = 1 / b
        c = np.full_like(b, 1e300)
        fraction = d.copy()
        for k in range(1, 10_000):
            a = -k * (k - shape)
            b = b + 2
            d = 1 / (a * d + b)
            c = b + a / c
            fraction *= c * d
            if (np.abs(c * d - 1) < 1e-13).all():
                break
        result[above] = 1 - front[above] * fraction
    capped: Floats = np.minimum(result, 1.0)
    return capped


def lengths(tokens: Counts) -> TrafficLengths:
    """Of values above zero. The limit is Stephens's for a normal distribution whose mean and spread are the sample's (JASA 69, 1974)."""
    logs = np.log(tokens)
    mean, sd, n = float(logs.mean()), float(logs.std()), len(tokens)
    quantiles = {name: float(np.quantile(tokens, share)) for name, share in QUANTILES.items()}
    plain = TrafficLengths(mean=float(tokens.mean()), quantiles=quantiles, log_mean=mean, log_sd=sd)
    if n < LEAST or quantiles["min"] == quantiles["max"]:
        return plain
    values, counts = np.unique(logs, return_counts=True)
    ranks = np.cumsum(counts) / n
    cdf = np.array([0.5 * math.erfc((mean - value) / (sd * math.sqrt(2))) for value in values.tolist()])
    distance = float(np.max(np.maximum(np.abs(ranks - cdf), np.abs(cdf - ranks + counts / n))))
    limit = 0.895 / (math.sqrt(n) - 0.01 + 0.85 / math.sqrt(n))
    return replace(plain, distance=distance, limit=limit, lognormal=distance <= limit)


# ---------------------------------------------------------------- prefixes


def sharing(trace: TrafficTrace) -> PrefixSharing:
    """Of all of its requests. Raises ZeroDivisionError for none."""
    return shared(list(zip(trace.input_tokens.tolist(), trace.prefix, strict=True)))


def shared(inputs: Sequence[tuple[int, Sequence[int]]]) -> PrefixSharing:
    """Of requests in the order of arrival, tokens and hash ids of each. A block counts where every block before it was known as well: a
    cache of prefixes finds no middle. The last block of an input may be part of a block."""
    known: set[int] = set()
    firsts: dict[int, int] = {}
    cached = distinct = finding = 0
    for tokens, ids in inputs:
        run = next((at for at, number in enumerate(ids) if number not in known), len(ids))
        cached += min(run * BLOCK, tokens)
        finding += run > 0
        distinct += sum(min(BLOCK, tokens - at * BLOCK) for at, number in enumerate(ids) if number not in known)
        known.update(ids)
        if ids:
            firsts[ids[0]] = firsts.get(ids[0], 0) + 1
    total = sum(tokens for tokens, _ in inputs)
    return PrefixSharing(
        share=cached / total, input_tokens=total, cached_tokens=cached, distinct_tokens=distinct, requests=finding,
        commonest=max(firsts.values(), default=0) / len(inputs),
    )  # fmt: skip
