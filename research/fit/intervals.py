"""Stated 90 % intervals of each family, learnt from what the model missed on rows that its fit had not seen.

Levels of knowledge: *fitted*, a machine of the fit and a shape that is not (each machine has its own); *generation*, a machine of an
architecture of the fit; *spec*, one of no fitted architecture; *library*, a machine of the fit on which nothing of this library was
measured; *sweep*, products on a machine of no fitted architecture after one sweep on it. `python -m research.accuracy
--store-intervals` learns and stores them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model import intervals
from hotlap.core.model.intervals import EDGES_S, REGIMES
from research.fit import sweep
from research.fit.data import FOLDS, Floats

COVERAGE = 0.9  # of the intervals that are learnt
FEWEST = 500  # rows of a regime, below which it takes the whole family's, and is not scored
HOLDS = (0.87, 0.93)  # what is asked of a 90 % interval
WIDEST = {"fitted": 0.35, "generation": 0.6, "spec": 0.6}  # asked of the median half-width
DRAWS = 200  # of the bootstrap over shape groups
TAKEN = 20_000  # rows of each machine and level
FEW = 100  # rows of a machine, below which it says nothing of a regime where others do
WIDER: Mapping[str, float] = {"spec": 1.4, "generation": 1.1, "library": 1.2}
"""A power: how much wider than these few machines show. Chosen, of 1 to 1.5, by what holds of machines that the interval has not
seen; Hoppers are alike, and machines of other architectures are not."""
SAME_KERNELS: Mapping[str, float] = {"moe": 1.2, "collective": 1.2}  # on *spec*: one source for most architectures (Triton, NCCL)
STANDS_IN: Mapping[str, str] = {"generation": "spec", "spec": "generation"}  # where a level has too few rows of a regime


class Missed(NamedTuple):
    """Rows of one machine at one level of knowledge, by a fit that had not seen them."""

    level: str
    machine: str
    part: NDArray[np.str_]  # type of product; empty in other families
    expected: Floats
    measured: Floats
    fold: NDArray[np.int64]  # of the row's shape group
    group: NDArray[np.int64]

    def where(self, mask: NDArray[np.bool_]) -> Missed:
        kept = self._replace(part=self.part[mask], expected=self.expected[mask], measured=self.measured[mask])
        return kept._replace(fold=self.fold[mask], group=self.group[mask])

    @property
    def ratio(self) -> Floats:
        return np.asarray(self.measured / self.expected)

    @property
    def regime(self) -> NDArray[np.int64]:
        return np.digitize(self.expected, EDGES_S)


Table = Mapping[str, Mapping[str, float]]  # by "part.regime" or "all"


def swept(root: Path) -> list[Missed]:
    """Products after a sweep, by coefficients of another architecture."""
    misses = []
    for n, (cell, rest) in enumerate(sweep.spec_only(root)):
        count = len(rest.measured)
        groups = np.arange(count) % (10 * FOLDS)
        misses.append(Missed("sweep", f"{cell} {n}", np.full(count, "bf16"), rest.after, rest.measured, groups % FOLDS, groups))
    return misses


def learnt(family: str, misses: Sequence[Missed], others: Sequence[Missed] = ()) -> Table:
    """Of measured ÷ expected by part and regime of expected time; each machine weighs the same. `others`: of another level, which stand in
    where there are too few rows; a machine of no fitted architecture learns from all."""
    level, every = misses[0].level, [*misses, *others]
    wider = SAME_KERNELS.get(family, WIDER["spec"]) if level == "spec" else WIDER.get(level)
    table = {"all": _limits(every, wider)}
    for part in sorted({name for one in every for name in np.unique(one.part).tolist()}):
        for n, regime in enumerate(REGIMES):
            for known in (every if level == "spec" else misses, every):
                here = [one.where((one.regime == n) & (one.part == part)) for one in known]
                if sum(len(one.measured) for one in here) >= FEWEST:
                    table[f"{part}.{regime}".removeprefix(".")] = _limits(here, wider)
                    break
        here = [one.where(one.part == part) for one in every]
        if part and sum(len(one.measured) for one in here) >= FEWEST:
            table[part] = _limits(here, wider)
    return table


def by_level(family: str, misses: Sequence[Missed]) -> dict[str, Table]:
    """The table of each level, and of each machine that was fitted."""
    levels = list(dict.fromkeys(one.level for one in misses))
    tables = {level: learnt(family, [one for one in misses if one.level == level], _others(misses, level)) for level in levels}
    fitted = [one for one in misses if one.level == "fitted"]
    return {**tables, **{f"fitted {one.machine}": learnt(family, [one]) for one in fitted}}


def _others(misses: Sequence[Missed], level: str) -> list[Missed]:
    """Of which levels the rows stand in: other machines that were left out."""
    return [one for one in misses if one.level == STANDS_IN.get(level)]


def _limits(misses: Sequence[Missed], wider: float | None) -> dict[str, float]:
    some = [one for one in misses if len(one.measured)]
    rows = float(sum(len(one.measured) for one in some))
    if wider is None:
        low, high = _quantiles(some)
    else:
        high = _spread(some) ** wider
        low = 1 / high
    return {"low": low, "high": high, "rows": rows}


def _quantiles(misses: Sequence[Missed]) -> tuple[float, float]:
    ratio = np.concatenate([one.ratio for one in misses])
    weight = np.concatenate([np.full(len(one.measured), 1 / max(len(one.measured), FEWEST)) for one in misses])
    order = np.argsort(ratio)
    share = np.cumsum(weight[order]) / weight.sum()
    low, high = (float(ratio[order][np.searchsorted(share, q)]) for q in ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2))
    return low, high


def _spread(misses: Sequence[Missed]) -> float:
    """The factor within which 90 % of rows lie, either way: the mean of those of the machines. One machine's bias says nothing of the
    next one's, so it counts as scatter."""
    enough = [one for one in misses if len(one.measured) >= FEW] or misses
    each = [np.quantile(np.abs(np.log(one.ratio)), COVERAGE) for one in enough]
    return float(np.exp(np.mean(each)))


def _bounds(table: Table, missed: Missed) -> tuple[Floats, Floats]:
    """Of each row, as the package looks them up."""
    low, high = np.empty(len(missed.measured)), np.empty(len(missed.measured))
    for part in np.unique(missed.part).tolist():
        for n, regime in enumerate(REGIMES):
            here = (missed.part == part) & (missed.regime == n)
            entry = intervals.entry(table, part, regime)
            low[here], high[here] = entry["low"], entry["high"]
    return low, high


class Held(NamedTuple):
    """How often the stated interval held, in one regime of one family at one level."""

    family: str
    level: str
    place: str  # part and regime
    rows: int
    share: float
    low: float  # 95 % interval of the share, by a bootstrap over shape groups
    high: float
    half: float  # the median half-width

    def show(self) -> str:
        missed = []
        if self.high < HOLDS[0] or self.low > HOLDS[1]:
            missed.append(f"holds {HOLDS[0]:.0%} to {HOLDS[1]:.0%}")
        if self.half > WIDEST.get(self.level, 9):
            missed.append(f"half-width at most {WIDEST[self.level]:.0%}")
        end = f"  MISS: asked {' and '.join(missed)}" if missed else ""
        return (
            f"{self.family:<11}{self.level:<12}{self.place:<20}{self.rows:>8}{self.share:>9.1%}  [{self.low:.1%}, {self.high:.1%}]"
            f"{self.half:>9.1%}{end}"
        )


HEAD = f"{'family':<11}{'known by':<12}{'regime':<20}{'rows':>8}{'held':>9}  {'95 % of it':<16}{'half':>8}"


def held(family: str, misses: Sequence[Missed]) -> Iterator[Held]:
    """Coverage of intervals that had not seen the rows: of a fitted machine those of the other folds, else those of the other machines."""
    for level in dict.fromkeys(one.level for one in misses):
        own = [one for one in misses if one.level == level]
        judged = list(_judged(family, own, _others(misses, level)))
        for place in sorted({name for _, names, _, _, _ in judged for name in np.unique(names).tolist()}):
            rows = [(inside[m], group[m], half[m]) for inside, names, group, half, _ in judged if (m := names == place).any()]
            inside, group, half = (np.concatenate([row[n] for row in rows]) for n in range(3))
            if len(inside) >= FEWEST:
                share, low, high = _bootstrap(inside, group)
                yield Held(family, level, place, len(inside), share, low, high, float(np.median(half)))


Judged = tuple[NDArray[np.bool_], NDArray[np.str_], NDArray[np.int64], Floats, str]


def _judged(family: str, own: Sequence[Missed], others: Sequence[Missed]) -> Iterator[Judged]:
    """Each machine by the intervals of the others, or each fold by those of its own machine's other folds."""
    machines = {one.machine for one in own}
    by_fold = own[0].level in ("fitted", "sweep") or len(machines) == 1
    for fold in range(FOLDS if by_fold else 1):
        for missed in own:
            if by_fold:
                known = [missed] if missed.level == "fitted" else own
                table, asked = learnt(family, [other.where(other.fold != fold) for other in known]), missed.where(missed.fold == fold)
            else:
                table, asked = learnt(family, [other for other in own if other.machine != missed.machine], others), missed
            low, high = _bounds(table, asked)
            names = np.array([f"{part} {REGIMES[n]}".strip() for part, n in zip(asked.part.tolist(), asked.regime.tolist(), strict=True)])
            yield (asked.ratio >= low) & (asked.ratio <= high), names, asked.group, (high - low) / 2, missed.machine


def _bootstrap(inside: NDArray[np.bool_], group: NDArray[np.int64]) -> tuple[float, float, float]:
    """The share, and its 95 % interval over draws of shape groups."""
    _, which = np.unique(group, return_inverse=True)
    total, good = np.bincount(which), np.bincount(which, weights=inside)
    drawn = np.random.default_rng(0).integers(0, len(total), (DRAWS, len(total)))
    shares = good[drawn].sum(axis=1) / total[drawn].sum(axis=1)
    return float(inside.mean()), float(np.quantile(shares, 0.025)), float(np.quantile(shares, 0.975))


def some(missed: Missed, seed: int = 3) -> Missed:
    """At most TAKEN rows."""
    keep = np.zeros(len(missed.measured), bool)
    keep[np.random.default_rng(seed).permutation(len(keep))[:TAKEN]] = True
    return missed.where(keep)


def store(tables: Mapping[str, Mapping[str, Table]]) -> None:
    """Writes those of the package, by family and level; families and levels that are not given stay as they are."""
    lines = [
        "# Measured ÷ expected time, 5 % and 95 % quantiles of rows that the fit had not seen, by family, level of knowledge, part and",
        "# expected time (20 and 200 µs): python -m research.accuracy --store-intervals",
    ]
    known = intervals.learnt()
    for family, levels in {**known, **{name: {**known.get(name, {}), **new} for name, new in tables.items()}}.items():
        for level, table in levels.items():
            for name, one in table.items():
                values = ", ".join(f"{key} = {value:.4g}" for key, value in one.items())
                lines.append(f'interval.{family}."{level}"."{name}" = {{ {values} }}')
    file = Path(intervals.__file__).parent / "coefficients" / "intervals.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    intervals.learnt.cache_clear()
