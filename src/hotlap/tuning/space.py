"""What is searched: settings of switches, alone and together. Nothing is measured here.

    TuningSpace       each switch with its values beside the one that stands
    Configuration     settings that differ from what stands; () is as found
    combinations      balanced draws, so that every two settings meet
    proposals         what a model of single settings and of pairs expects to be best
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
TERMS = 8  # of the model at most
SURE = 3.0  # standard errors from which a term counts; of some fifty pairs the largest by chance is about 2.5


class SwitchSetting(NamedTuple):
    """One value of one switch."""

    switch: str
    value: str

    @property
    def text(self) -> str:
        return f"{self.switch}={self.value}"


Configuration = tuple[SwitchSetting, ...]  # in the order of switches; () is as found


class TuningSpace(NamedTuple):
    """`values`: of each switch, without the one that stands, what is expected most first. `first`: what was found before."""

    values: Mapping[str, Sequence[str]]
    first: Sequence[Configuration] = ()

    @property
    def settings(self) -> list[SwitchSetting]:
        return [SwitchSetting(name, value) for name, values in self.values.items() for value in values]

    def without(self, lost: Sequence[Configuration]) -> TuningSpace:
        """Less the settings that failed alone, and what contains them."""
        gone = {one[0] for one in lost if len(one) == 1}
        values = {name: [value for value in every if SwitchSetting(name, value) not in gone] for name, every in self.values.items()}
        return TuningSpace({name: every for name, every in values.items() if every}, [one for one in self.first if not gone & set(one)])


def named(configuration: Configuration) -> str:
    """In one line."""
    return " ".join(setting.text for setting in configuration) or "as found"


def ordered(settings: Sequence[SwitchSetting]) -> Configuration:
    return tuple(sorted(set(settings)))


def combinations(space: TuningSpace, count: int, seed: int) -> list[Configuration]:
    """Different configurations of at least two switches. Of each switch half have it as listed, the others its values in equal numbers."""
    if len(space.values) < 2 or count < 2:
        return []
    drawn, listed = random.Random(seed), dict[Configuration, None]()
    for _ in range(20):  # small spaces have fewer than asked
        columns = []
        for name, values in sorted(space.values.items()):
            column: list[SwitchSetting | None] = [None] * (count - count // 2)
            column += [SwitchSetting(name, value) for value in itertools.islice(itertools.cycle(values), count // 2)]
            drawn.shuffle(column)
            columns.append(column)
        for row in zip(*columns, strict=True):
            chosen = ordered([one for one in row if one])
            if len(chosen) > 1:
                listed.setdefault(chosen)
            if len(listed) == count:
                return list(listed)
    return list(listed)


class ScreeningTerm(NamedTuple):
    """A setting, or two together, and what it adds to the logarithm of the cost."""

    settings: Configuration
    effect: float
    score: float  # standard errors


def terms(tried: Sequence[Configuration], logs: Floats) -> list[ScreeningTerm]:
    """Forward selection among single settings and pairs of them: the term that explains most joins while it is `SURE` standard errors
    from nothing. `logs`: of costs, in the order in which they were measured, whose linear drift is taken out."""
    settings = sorted({setting for one in tried for setting in one})
    pairs = [pair for pair in itertools.combinations(settings, 2) if pair[0].switch != pair[1].switch]
    features = [*((one,) for one in settings), *pairs]
    columns = np.array([[set(feature) <= set(one) for one in tried] for feature in features], dtype=np.float64)
    keep = [place for place in range(len(features)) if 1 < columns[place].sum() < len(tried)]
    base = np.column_stack([np.ones(len(tried)), np.linspace(-1, 1, len(tried))])
    chosen: list[int] = []
    while keep and len(chosen) < min(TERMS, len(tried) // 3):
        scores = [_score(np.column_stack([base, columns[[*chosen, place]].T]), logs) for place in keep]
        best = int(np.argmax(np.abs(scores)))
        if not abs(scores[best]) >= SURE:
            break
        chosen.append(keep.pop(best))
    design = np.column_stack([base, columns[chosen].T])
    fitted = np.linalg.lstsq(design, logs, rcond=None)[0]
    return [
        ScreeningTerm(features[place], float(fitted[2 + at]), _score(design, logs, 2 + at)) for at, place in enumerate(chosen)
    ]  # fmt: skip


def _score(design: Floats, logs: Floats, column: int = -1) -> float:
    """Of a column: its coefficient over its standard error; 0 where it cannot be had."""
    rows, width = design.shape
    gram = design.T @ design
    if rows <= width or np.linalg.matrix_rank(gram) < width:
        return 0.0
    inverse = np.linalg.inv(gram)
    fitted = inverse @ design.T @ logs
    spread = float(((logs - design @ fitted) ** 2).sum()) / (rows - width)
    error = float(np.sqrt(max(spread * inverse[column, column], 1e-30)))
    return float(fitted[column]) / error


def proposals(tried: Sequence[Configuration], logs: Floats, most: int) -> list[Configuration]:
    """Configurations that may be best, the best by the model first: its settings joined while each lowers the expected cost, its terms
    alone, and what was fastest when it was tried."""
    model = terms(tried, logs)
    good = sorted((term for term in model if term.effect < 0), key=lambda term: term.effect)
    joined: Configuration = ()
    listed = dict[Configuration, None]()
    for term in good:
        together = {setting.switch: setting for setting in (*term.settings, *joined)}
        candidate = ordered(list(together.values()))
        if expected(model, candidate) < expected(model, joined):
            joined = candidate
            listed.setdefault(joined)
    ranked = sorted(listed, key=lambda one: (expected(model, one), len(one)))
    ranked += [ordered(term.settings) for term in good]
    ranked += [tried[place] for place in np.argsort(logs, kind="stable")[:2] if tried[place]]
    return list(dict.fromkeys(ranked))[:most]


def expected(model: Sequence[ScreeningTerm], configuration: Configuration) -> float:
    """Logarithm of the cost against as listed."""
    return sum(term.effect for term in model if set(term.settings) <= set(configuration))
