"""What the noise of a case is made of: how much machines, runs, rounds and samples each add.

The largest part says what to repeat: only more runs narrow an answer whose noise lies between runs (Kalibera and Jones,
"Rigorous Benchmarking in Reasonable Time", ISMM 2013).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hotlap.core.stats import series
from hotlap.core.stats.series import MAD_TO_SD, finite

Floats = NDArray[np.float64]

REACH = 4.0  # robust standard deviations within its round at which a sample is drawn in
FEWEST_DRIFT = 6  # rounds or runs in order of time that a drift is looked for in


class Components(msgspec.Struct, frozen=True, kw_only=True):
    """Relative standard deviations, each of its own level alone; None where a level cannot be determined from the next."""

    between_machines: float | None = None
    between_runs: float | None = None
    between_rounds: float | None = None
    within_rounds: float | None = None  # between samples
    drift: float | None = None  # change from first to last run, as a share; of rounds where there are too few runs
    machines: int
    runs: int
    rounds: int
    samples: int
    largest: str = ""  # name of the largest component


class _Group(NamedTuple):
    """A group at one level: its mean, the variance of that mean by everything below, and the groups in it."""

    mean: float
    error: float | None  # variance of the mean; None where it cannot be known
    variance: float = 0.0  # of samples, in a round
    freedom: int = 0


def components(runs: Sequence[Any]) -> Components:
    """Of `runs` → rounds → samples, or of machines → runs → rounds → samples, told by the depth; times or rates, above
    zero, in order of time at every level. Numbers of members may differ.

    Nested random effects by the method of moments on logarithms: the variance of group means, less what the level below
    adds to it (Searle, Casella and McCulloch, Variance Components, 1992, ch. 3 and 5; unweighted means, so that a long run
    counts like a short one); a negative estimate is 0. Samples far from their round (beyond 4 robust standard deviations)
    are drawn in to there, so a spike moves nothing; a run or round that is off as a whole is what these levels measure and
    stays. Samples resemble their neighbours: the mean of a round has the variance of its effective number of samples
    (autocorrelation of first order). Raises ValueError for no data, values that are not finite or not above zero, and
    other depths.
    """
    depth = _depth(runs)
    if depth not in (3, 4):
        raise ValueError(f"runs, rounds and samples are nested three deep (with machines four), not {depth}")
    machines = list(runs) if depth == 4 else [runs]
    shape = [[[len(one) for one in run if len(one)] for run in machine] for machine in machines]
    groups = iter(_rounds([one for machine in machines for run in machine for one in run if len(one)]))
    tree = [kept for machine in shape if (kept := [[next(groups) for _ in run] for run in machine if run])]
    if not tree:
        raise ValueError("there are no samples")
    return _assembled(tree)


def _assembled(tree: list[list[list[_Group]]]) -> Components:
    leaves = [one for machine in tree for run in machine for one in run]
    freedom = sum(one.freedom for one in leaves)
    samples = sum(one.variance * one.freedom for one in leaves) / freedom if freedom else None
    rounds = _between([run for machine in tree for run in machine])
    run_groups = [[_over(run, rounds) for run in machine] for machine in tree]
    runs = _between(run_groups)
    machine_groups = [_over(machine, runs) for machine in run_groups]
    machines = _between([machine_groups])
    parts = {"between_machines": machines, "between_runs": runs, "between_rounds": rounds, "within_rounds": samples}
    known = {name: math.sqrt(variance) for name, variance in parts.items() if variance is not None}
    return Components(
        **known,
        drift=_drift(tree),
        machines=len(tree),
        runs=sum(map(len, tree)),
        rounds=len(leaves),
        samples=freedom + len(leaves),
        largest=max(known, key=lambda name: known[name]) if any(known.values()) else "",
    )


def _rounds(rounds: Sequence[Any]) -> list[_Group]:
    """The logarithms of each round, far ones drawn in; rounds of one length in one go."""
    places: dict[int, list[int]] = {}
    for place, one in enumerate(rounds):
        places.setdefault(len(one), []).append(place)
    groups: dict[int, _Group] = {}
    for n, same in places.items():
        x = finite([rounds[place] for place in same]).reshape(-1, n)
        low = np.count_nonzero(x <= 0, axis=1).max()
        if low:
            raise ValueError(f"{low} samples of a round are zero or negative: there is no relative spread")
        groups |= zip(same, _alike(np.log(x)), strict=True)
    return [groups[place] for place in range(len(rounds))]


def _alike(logs: Floats) -> list[_Group]:
    """Of rounds × samples."""
    n = logs.shape[1]
    middle = np.median(logs, axis=1, keepdims=True)
    reach = REACH * MAD_TO_SD * np.median(np.abs(logs - middle), axis=1, keepdims=True)
    reach = np.where(reach > 0, reach, np.inf)
    logs = np.clip(logs, middle - reach, middle + reach)
    means = logs.mean(axis=1).tolist()
    if n == 1:
        return [_Group(mean, None) for mean in means]
    variance = logs.var(axis=1, ddof=1)
    r = np.clip(np.nan_to_num(_lags1(logs)), 0.0, 0.98)
    error = variance / np.maximum(n * (1 - r) / (1 + r), 1.0)
    return [_Group(*one, n - 1) for one in zip(means, error.tolist(), variance.tolist(), strict=True)]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _lags1(x: Floats) -> Floats:
    """`series.lag1` of each row, a hundred thousand in one go; NaN where it cannot be known."""
    if x.shape[1] < 3:
        return np.full(len(x), np.nan)
    middle = np.median(x, axis=1, keepdims=True)
    reach = 3 * MAD_TO_SD * np.median(np.abs(x - middle), axis=1, keepdims=True)
    reach = np.where(reach > 0, reach, np.inf)
    values = np.clip(x, middle - reach, middle + reach) - middle
    top = np.max(np.abs(values), axis=1, keepdims=True)
    values = values / np.where(top > 0, top, 1.0)  # so that squares neither overflow nor vanish
    values = values - values.mean(axis=1, keepdims=True)
    total = np.einsum("ij,ij->i", values, values)
    return np.asarray(np.where(total > 0, np.einsum("ij,ij->i", values[:, :-1], values[:, 1:]), np.nan) / np.where(total > 0, total, 1.0))


def _between(families: Sequence[Sequence[_Group]]) -> float | None:
    """Variance between the members of families beyond the error of their means; None without two members in any family.

    Where the error of a mean is unknown (single samples) it stays in.
    """
    spread = freedom = error = 0.0
    for family in families:
        if len(family) > 1:
            df = len(family) - 1
            middle = _mean([one.mean for one in family])
            spread += sum((one.mean - middle) ** 2 for one in family)
            error += _mean([one.error or 0.0 for one in family]) * df
            freedom += df
    return max((spread - error) / freedom, 0.0) if freedom else None


def _over(children: Sequence[_Group], between: float | None) -> _Group:
    """The group of these members. Its error is their variance over their number: what lies between them, and their own."""
    n = len(children)
    error = ((between or 0.0) + _mean([one.error or 0.0 for one in children])) / n
    return _Group(_mean([one.mean for one in children]), error)


def _drift(tree: Sequence[Sequence[Sequence[_Group]]]) -> float | None:
    """Along the Theil–Sen line over runs, or over the rounds of each run; the median over machines, or over runs."""
    over_runs = [[_mean([one.mean for one in run]) for run in machine] for machine in tree]
    over_rounds = [[one.mean for one in run] for machine in tree for run in machine]
    for families in (over_runs, over_rounds):
        drifts = [series.drift(np.exp(np.array(one) - np.median(one))) for one in families if len(one) >= FEWEST_DRIFT]
        if drifts:
            return float(np.median(drifts))
    return None


def _depth(nested: Any) -> int:
    """How deep lists go, by the first branch that goes deepest; arrays count by their axes."""
    if isinstance(nested, np.ndarray):
        return nested.ndim
    if isinstance(nested, (list, tuple)):
        if nested and isinstance(nested[0], float):  # a round: there may be a hundred thousand of them
            return 1
        return 1 + max((_depth(one) for one in nested), default=0)
    return 0
