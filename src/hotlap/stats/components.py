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

from hotlap.stats import series
from hotlap.stats.series import MAD_TO_SD, finite

Floats = NDArray[np.float64]

REACH = 4.0  # robust standard deviations within its round at which a sample is drawn in
FEWEST_DRIFT = 6  # rounds or runs in order of time that a drift is looked for in


class Components(msgspec.Struct, frozen=True, kw_only=True):
    """Relative standard deviations, each of its own level alone; None where a level cannot be told from the next."""

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
    notes: tuple[str, ...] = ()  # what could not be told, and why


class _Group(NamedTuple):
    """A group at one level: its mean, the variance of that mean by everything below, and the groups in it."""

    mean: float
    error: float | None  # variance of the mean; None where it cannot be known
    children: tuple[_Group, ...] = ()


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
    within: list[tuple[float, int]] = []  # variance and degrees of freedom of each round
    tree = [[[_round(one, within) for one in run if len(one)] for run in machine] for machine in machines]
    tree = [kept for kept in ([run for run in machine if run] for machine in tree) if kept]
    if not tree:
        raise ValueError("there are no samples")
    return _assembled(tree, within)


def _assembled(tree: list[list[list[_Group]]], within: list[tuple[float, int]]) -> Components:
    freedom = sum(df for _, df in within)
    samples = sum(variance * df for variance, df in within) / freedom if freedom else None
    rounds = _between([run for machine in tree for run in machine])
    run_groups = [[_over(run, rounds) for run in machine] for machine in tree]
    runs = _between(run_groups)
    machine_groups = [_over(machine, runs) for machine in run_groups]
    machines = _between([machine_groups])
    found = {"between_machines": machines, "between_runs": runs, "between_rounds": rounds, "within_rounds": samples}
    known = {name: math.sqrt(variance) for name, variance in found.items() if variance is not None}
    return Components(
        **known,
        drift=_drift(tree),
        machines=len(tree),
        runs=sum(map(len, tree)),
        rounds=len(within),
        samples=freedom + len(within),
        largest=max(known, key=lambda name: known[name]) if any(known.values()) else "",
        notes=_notes(tree, found),
    )


def _round(samples: Any, within: list[tuple[float, int]]) -> _Group:
    """The logarithms of one round, far ones drawn in; what they vary by is added to `within`."""
    x = finite(samples)
    if np.any(x <= 0):
        raise ValueError(f"{np.count_nonzero(x <= 0)} samples of a round are zero or negative: there is no relative spread")
    logs = np.log(x)
    middle = float(np.median(logs))
    reach = REACH * MAD_TO_SD * float(np.median(np.abs(logs - middle)))
    if reach:
        logs = np.clip(logs, middle - reach, middle + reach)
    n = len(logs)
    variance = float(logs.var(ddof=1)) if n > 1 else None
    within.append((variance or 0.0, n - 1))
    r = min(max(series.lag1(logs) or 0.0, 0.0), 0.98)
    worth = max(n * (1 - r) / (1 + r), 1.0)
    return _Group(float(logs.mean()), None if variance is None else variance / worth)


def _between(families: Sequence[Sequence[_Group]]) -> float | None:
    """Variance between the members of families beyond the error of their means; None without two members in any family.

    Where the error of a mean is unknown (single samples) it stays in, and `_notes` says so.
    """
    spread = freedom = error = 0.0
    for family in families:
        if len(family) > 1:
            df = len(family) - 1
            spread += float(np.var([one.mean for one in family], ddof=1)) * df
            error += float(np.mean([one.error or 0.0 for one in family])) * df
            freedom += df
    return max((spread - error) / freedom, 0.0) if freedom else None


def _over(children: Sequence[_Group], between: float | None) -> _Group:
    """The group of these members. Its error is their variance over their number: what lies between them, and their own."""
    n = len(children)
    error = ((between or 0.0) + float(np.mean([one.error or 0.0 for one in children]))) / n
    return _Group(float(np.mean([one.mean for one in children])), error, tuple(children))


def _drift(tree: Sequence[Sequence[Sequence[_Group]]]) -> float | None:
    """Along the Theil–Sen line over runs, or over the rounds of each run; the median over machines, or over runs."""
    over_runs = [[float(np.mean([one.mean for one in run])) for run in machine] for machine in tree]
    over_rounds = [[one.mean for one in run] for machine in tree for run in machine]
    for families in (over_runs, over_rounds):
        drifts = [series.drift(np.exp(np.array(one) - np.median(one))) for one in families if len(one) >= FEWEST_DRIFT]
        if drifts:
            return float(np.median(drifts))
    return None


def _notes(tree: Sequence[Sequence[Sequence[_Group]]], found: dict[str, float | None]) -> tuple[str, ...]:
    all_runs = [run for machine in tree for run in machine]
    single = found["within_rounds"] is None
    notes = [
        (single, "each round has one sample: what is said to lie between rounds holds the noise of samples too"),
        (found["between_rounds"] is None, "each run has one round: what is said to lie between runs holds the noise of rounds too"),
        (found["between_runs"] is None and len(all_runs) == 1, "there is one run: what differs between runs is not known"),
        (
            found["between_runs"] is None and len(all_runs) > 1,
            "each machine has one run: what lies between machines holds the noise of runs",
        ),
        (found["between_runs"] is not None and len(all_runs) < 5, f"{len(all_runs)} runs say little of what lies between runs"),
        (1 < len(tree) < 5, f"{len(tree)} machines say little of what lies between machines"),
    ]
    return tuple(text for seen, text in notes if seen)


def _depth(nested: Any) -> int:
    """How deep lists go, by the first branch that goes deepest; arrays count by their axes."""
    if isinstance(nested, np.ndarray):
        return nested.ndim
    if isinstance(nested, (list, tuple)):
        return 1 + max((_depth(one) for one in nested), default=0)
    return 0
