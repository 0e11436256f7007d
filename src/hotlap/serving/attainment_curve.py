"""The share of requests that miss an objective, as a curve over the request rate, from all runs together.

Near the wanted share the log odds of a miss are taken as a + b·(e^(γx) − 1)/γ with x = log(rate ÷ reference): rising for b > 0, a straight
line for γ → 0, a floor with a knee for large γ. M/M/1 is close to γ = 1, many servers with long service times to γ = 10 to 30. γ is not
chosen: curves of several γ are weighed by how well they fit, and the interval holds their disagreement.

Requests of a run wait in the same queue, so they are correlated: the variance is of means of batches of successive requests (Law and
Carson, Operations Research 27, 1979), with what is left between neighbours added, and pooled over runs. Correlated noise
acts as a rate that wanders, so it moves log odds in proportion to the curve's slope.

MARGIN, KNEE, RARE and FEWER are set by simulation (benchmarks/serving_capacity.py), not derived.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GAMMAS = np.array([0.5, 1.5, 3.0, 6.0, 12.0, 24.0])
STEEP = np.array([1.0, 8.0])  # times the usual slope: an engine whose places are all taken falls off a cliff
CURVES = np.array([(gamma, steep) for steep in STEEP for gamma in GAMMAS])
CHANCES = 1 / (1 + CURVES[:, 0] / 6) / CURVES[:, 1] ** 3  # of each, before anything is seen: knees are rarer than slopes, cliffs far rarer
RARE = 0.12  # more of it per log odds that the wanted misses are rarer than one in ten: fewer bursts, whose variance is itself unsure
MARGIN, KNEE = 0.82, 16.0  # standard errors are × (margin + γ ÷ knee): past a knee a run from an empty queue is not steady for long
MANY, FEWER = 60_000, 0.18  # requests of a search; of the margin more per e-th of them: few tell little of bursts and of the curve
FAR = 0.2  # of log odds below the wanted ones, off the logarithm of the error: that many misses would have been more, and surer
BATCHES = 10  # of the longest run
LEAST_BATCH = 100  # requests
LEAST_EXCESS = 10.0  # × binomial variance, where no run is long enough for batches
REACH_ABOVE, REACH_BELOW = 2.0, 5.0  # log odds from the wanted share where a run counts half
# before anything is seen: slope of log odds over log rate ÷ log(1 ÷ miss), ρ ÷ (1 − ρ) in M/M/1; and its spread, a share
SLOPE, SPREAD = 4.0, 0.4
APART = 1.5  # times the variance within runs from which runs differ: theirs is used, with their degrees of freedom
SATURATED = 0.97  # share missed from which a run has no steady state to tell of
TURNS, STEPS, HIGHEST = 4, 9, 14.0  # of the fit; log odds that are as good as certain
GRID = np.arange(-0.8, 0.6001, 0.001)  # log(rate ÷ reference)


@dataclass(frozen=True)
class RateRun:
    """One run at one rate, in order of due times, without its warm-up."""

    rate: float
    missed: NDArray[np.bool_]

    @property
    def share(self) -> float:
        """Half a miss and half a hit are added: a run without any has odds as well."""
        return (float(self.missed.sum()) + 0.5) / (len(self.missed) + 1)


@dataclass(frozen=True)
class GammaLine:
    """Of one γ: log odds of a miss at x = intercept + slope·basis(x)."""

    gamma: float
    beta: Floats  # (2,)
    covariance: Floats  # (2, 2)
    weight: float


@dataclass(frozen=True)
class Curve:
    """`freedom`: degrees of freedom of the variance. `inflation`: variance of a mean ÷ that of independent requests."""

    reference: float  # rate at x = 0
    wanted: float  # log odds
    lines: tuple[GammaLine, ...]
    freedom: float
    inflation: float

    def rate(self, log_odds: float) -> float:
        """Where the curve passes these log odds, or the nearest that it comes."""
        height = sum(line.weight * (line.beta[0] + line.beta[1] * basis(GRID, line.gamma)) for line in self.lines)
        return self.reference * math.exp(float(GRID[int(np.argmin(np.abs(height - log_odds)))]))

    def chances(self, requests: int = MANY) -> Floats:
        """That more than the wanted share is missed, at each rate of the grid. `requests`: of the search."""
        few = 1 + FEWER * max(math.log(MANY / requests), 0.0)
        total = np.zeros_like(GRID)
        for line in self.lines:
            if line.weight < 1e-4:
                continue
            h, v = basis(GRID, line.gamma), line.covariance
            error = np.sqrt(np.maximum(v[0, 0] + 2 * h * v[0, 1] + h * h * v[1, 1], 1e-18))
            margin = MARGIN + RARE * max(log_odds(0.1) - self.wanted, 0.0) + line.gamma / KNEE
            off = line.beta[0] + line.beta[1] * h - self.wanted
            total += line.weight * _below(_standard(off, few * margin * error), self.freedom)
        return total

    def interval(self, confidence: float, requests: int = MANY) -> tuple[float | None, float | None]:
        """The largest rate that is shown to be good, the smallest shown to be bad; None where the grid has none."""
        chances, middle = self.chances(requests), int(np.argmin(np.abs(GRID - math.log(self.rate(self.wanted) / self.reference))))
        tail = (1 - confidence) / 2
        good = np.flatnonzero(chances[: middle + 1] <= tail)
        bad = np.flatnonzero(chances[middle:] >= 1 - tail)
        low = self.reference * math.exp(float(GRID[good[-1]])) if len(good) else None
        return low, self.reference * math.exp(float(GRID[middle + bad[0]])) if len(bad) else None


def basis(x: Floats, gamma: float) -> Floats:
    return np.asarray(x if gamma == 0 else np.expm1(np.clip(gamma * x, -50, 12)) / gamma)


def log_odds(share: float) -> float:
    return math.log(share / (1 - share))


def monotone(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nearest sequence that never falls, in weighted least squares: pool adjacent violators (Barlow et al., 1972)."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, m, i), (b, n, j) = pools[-2:]
            pools[-2:] = [((a * m + b * n) / (m + n), m + n, i + j)]
    return [value for value, _, count in pools for _ in range(count)]


def shares(runs: Sequence[RateRun]) -> list[float]:
    """The share missed at each run's rate, made to rise with the rate."""
    order = sorted(range(len(runs)), key=lambda i: runs[i].rate)
    pooled = monotone([runs[i].share for i in order], [len(runs[i].missed) for i in order])
    back = dict(zip(order, pooled, strict=True))
    return [back[i] for i in range(len(runs))]


def fit(runs: Sequence[RateRun], miss: float, reference: float) -> Curve | None:
    """`miss`: the wanted share. None where fewer than two rates say anything about it, or none of the curves rises."""
    wanted, share = log_odds(miss), np.array([float(run.missed.mean()) for run in runs])
    requests = np.array([len(run.missed) for run in runs], dtype=float)
    x = np.log([run.rate for run in runs]) - math.log(reference)
    height = np.log((smooth := np.array(shares(runs))) / (1 - smooth))
    designs = np.stack([np.stack([np.ones_like(x), basis(x, gamma)], axis=1) for gamma in CURVES[:, 0]])
    usual = CURVES[:, 1] * SLOPE * math.log(1 / miss)
    excess, freedom, slope, steep = LEAST_EXCESS / (miss * (1 - miss)), 1.0, np.ones_like(x), 1.0
    for _ in range(TURNS):
        near = _near(height - wanted, share)
        if len({run.rate for run, part in zip(runs, near, strict=True) if part > 0}) < 2:
            return None
        betas, inverse = _solve(designs, share, requests * near, height, excess * slope**2, usual)
        if not (rising := betas[:, 1] > 0).any():
            return None
        p = _share(_heights(designs, betas))
        variance = _variance(p, excess * slope**2)
        squares = near * requests * (share - p) ** 2 / variance
        unusual = ((betas[:, 1] / usual - 1) / SPREAD) ** 2 + 2 * np.log(usual) - np.log(np.linalg.det(inverse))
        misfit = squares.sum(axis=1) + (near * np.log(variance)).sum(axis=1) + unusual
        best = int(np.argmin(np.where(rising, misfit, np.inf)))
        spread = max(1.0, float(squares[best].sum()) / max(float(near.sum()) - 2, 1.0))  # more than chance
        weights = np.exp(-np.minimum((misfit - misfit[best]) / 2 / spread, 700)) * rising * CHANCES
        weights /= weights.sum()
        height = np.clip((weights[:, None] * _heights(designs, betas)).sum(axis=0), -HIGHEST, HIGHEST)
        slopes = weights * betas[:, 1] @ np.exp(np.clip(np.outer(CURVES[:, 0], x), -50, 12))
        steep = float(weights @ betas[:, 1])
        slope = np.clip(slopes, steep / 30, steep * 30)
        excess, freedom = batch_variance(runs, _information(height), slope, near)
    if spread > APART:
        freedom = max(float(near.sum()) - 2, 2.0)
    lines = zip(CURVES[:, 0], betas, inverse * spread, weights, strict=True)
    inflation = 1 + excess * steep**2 * miss * (1 - miss)
    return Curve(reference, wanted, tuple(GammaLine(g, b, v, float(w)) for g, b, v, w in lines if w > 0), freedom, inflation)


def _variance(p: Floats, excess: Floats) -> Floats:
    """Of a share × requests: binomial, and what correlation adds."""
    known = p * (1 - p)
    return np.asarray(known + excess * known**2)


def _near(distance: Floats, share: Floats) -> Floats:
    """How much each run counts, 0 to 1, by the curve's distance from the wanted log odds. A run's own share would select the lucky ones."""
    near = 1 / (1 + np.abs(distance / np.where(distance > 0, REACH_ABOVE, REACH_BELOW)) ** 4)
    return np.asarray(np.where((near < 0.05) | (share > SATURATED), 0.0, near))


def _solve(designs: Floats, share: Floats, requests: Floats, height: Floats, excess: Floats, usual: Floats) -> tuple[Floats, Floats]:
    """Quasi-likelihood (Wedderburn, Biometrika 61, 1974) by scoring; of each γ its two coefficients and their covariance. Linear in the
    shares, so noisy ones do not pull the curve down as their logarithms would."""
    heights = np.broadcast_to(height, designs.shape[:2])
    prior = np.zeros((len(usual), 2, 2))
    prior[:, 1, 1] = (usual * SPREAD) ** -2
    pull = np.stack([np.zeros_like(usual), prior[:, 1, 1] * usual], axis=1)
    for step in range(STEPS):
        p = _share(heights)
        weight = requests * (p * (1 - p)) ** 2 / _variance(p, excess)
        inverse = np.linalg.inv(np.einsum("gri,gr,grj->gij", designs, weight, designs) + prior)
        off = np.clip((share - p) / (p * (1 - p)), -1.5, 3)
        sums = np.einsum("grj,gr->gj", designs, weight * (heights + off * (1.0 if step % 3 else 0.6)))
        betas = np.einsum("gij,gj->gi", inverse, sums + pull)
        heights = np.clip(_heights(designs, betas), -HIGHEST, HIGHEST)
    return betas, inverse


def _heights(designs: Floats, betas: Floats) -> Floats:
    return np.asarray(np.einsum("gri,gi->gr", designs, betas))


def _share(height: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(height, -HIGHEST, HIGHEST))))


def _information(height: Floats) -> Floats:
    return np.asarray(_share(height) * (1 - _share(height)))


def batch_variance(runs: Sequence[RateRun], information: Floats, slope: Floats, near: Floats) -> tuple[float, float]:
    """Variance of log odds × requests beyond the binomial one, from batches of all runs, and its degrees of freedom. `information`:
    share·(1 − share) of each run by the curve."""
    length = max(max(len(run.missed) for run in runs) / BATCHES, LEAST_BATCH)
    squares = products = freedom = binomial = 0.0
    for run, known, steep, part in zip(runs, information, slope, near, strict=True):
        count = round(len(run.missed) / length)
        if count < 2 or part == 0:
            continue
        size = len(run.missed) // count
        means = run.missed[: size * count].reshape(count, size).mean(axis=1)
        off = (means - means.mean()) * math.sqrt(size) / (known * steep)
        squares += part * float(off @ off)
        freedom += part * (count - 1)
        binomial += part * (count - 1) / (known * steep**2)
        # a run's own mean pulls neighbours apart: −(n − 1)/n² of the variance each
        products += part * (float(off[1:] @ off[:-1]) + float(off @ off) / count)
    if not freedom:
        return LEAST_EXCESS * float(np.max(1 / (information * slope**2)[near > 0])), 3.0
    return max((squares + 2 * max(products, 0.0) - binomial) / freedom, 0.0), max(freedom, 2.0)


def _standard(off: Floats, error: Floats) -> Floats:
    """Log odds beside the wanted ones in standard errors. Misses come in bursts, so their number is skewed like a gamma variable's: most
    runs read low, some far too high. Cube roots make that normal (Wilson and Hilferty, PNAS 17, 1931)."""
    error = error * np.exp(np.clip(off, -40, 0) * FAR)
    return np.asarray((np.exp(np.clip(off, -40, 40) / 3) - 1 + error**2 / 9) * 3 / error)


def _below(t: Floats, freedom: float) -> Floats:
    """P(T ≤ t) by Wallace's normal approximation (Annals of Mathematical Statistics 30, 1959): within 0.002 from 3 degrees on."""
    z = np.sign(t) * np.sqrt(freedom * np.log1p(t * t / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    return np.array([0.5 * math.erfc(-float(v) / math.sqrt(2)) for v in z])
