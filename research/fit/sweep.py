"""What one sweep on a machine is worth, on published measurements: published figures alone against figures and a sweep.

A collection (one library on one machine) stands for a machine. Its sweep is the rows nearest to the shapes of the plan `calibrate`;
all others are scored. The machine's own rows never touch the family's coefficients: A100 by H100's, H100 by A100's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core import plan
from hotlap.core.model import calibration
from hotlap.core.model.calibration import CalibrationSweep, Learnt
from hotlap.core.model.kernels import gemm as kernels
from hotlap.core.model.kernels.base import Floats
from research.fit import gemm, scores
from research.fit.data import Rows
from research.fit.scores import Score

A100, H100 = "a100-sxm-80gb", "h100-sxm"
FARTHEST = 4.0  # octaves in m, n and k together: a row farther from a shape of the plan stands for none of it
Coefficients = Mapping[str, Mapping[str, float]] | None


class Held(NamedTuple):
    """The rows of one collection that were not in its sweep, in seconds, and what the sweep taught."""

    collection: str
    measured: Floats
    before: Floats
    after: Floats
    learnt: Learnt
    held: NDArray[np.bool_]


def shapes(dtype: str) -> NDArray[np.float64]:
    """m, n and k of the plan's matrix products of a type, one row each."""
    cases = [case.params for case in plan.load("calibrate").cases if case.workload == "gemm" and case.params["dtype"] == dtype]
    return np.array([[float(str(one[name])) for name in ("m", "n", "k")] for one in cases])


def sweep(data: Rows, wanted: NDArray[np.float64]) -> NDArray[np.int64]:
    """The rows nearest to each shape, in octaves."""
    have = np.log2(np.stack([data.params[name].astype(np.float64) for name in ("m", "n", "k")], axis=1))
    distance = np.abs(np.log2(wanted)[:, None, :] - have[None, :, :]).sum(axis=2)
    near = np.argmin(distance, axis=1)
    return np.unique(near[distance[np.arange(len(near)), near] <= FARTHEST])


def swept(data: Rows, wanted: NDArray[np.float64], coefficients: Coefficients = None) -> Iterator[Held]:
    """Each collection of `data`, without the rows of its sweep."""
    place = np.array([name.partition("/")[0] for name in data.implementation])
    for name in sorted(set(place.tolist())):
        part = data.where(place == name)
        estimate = kernels.estimate(part.params, scores.fastest(part.gpu), part.implementation, coefficients)
        dtypes = part.params["dtype"].astype(str)
        seen = sweep(part, wanted)
        learnt = calibration.learn(CalibrationSweep({n: v[seen] for n, v in estimate.parts.items()}, dtypes[seen], part.seconds[seen]))
        after = np.sum(list(calibration.scaled(learnt, estimate.parts, dtypes).values()), axis=0)
        rest = np.setdiff1d(np.arange(len(part.seconds)), seen)
        yield Held(f"{part.gpu}, {name}", part.seconds[rest], estimate.seconds[rest], after[rest], learnt, part.held[rest])


def spec_only(root: Path) -> Iterator[tuple[str, Held]]:
    """bf16 across generations: A100 by H100's coefficients and the other way round."""
    data = {}
    for gpu in (A100, H100):
        rows = gemm.rows(gpu, root)
        data[gpu] = rows.where(rows.params["dtype"] == "bf16")
    for known, asked in ((A100, H100), (H100, A100)):
        coefficients = gemm.fit([data[known]])
        for one in swept(data[asked], shapes("bf16"), coefficients):
            yield f"{known.partition('-')[0].upper()} → {asked.partition('-')[0].upper()}, bf16", one


def table(root: Path) -> list[Score]:
    """Scores of the rows that no sweep has seen."""
    cells: dict[str, list[Held]] = {}
    for cell, one in spec_only(root):
        cells.setdefault(cell, []).append(one)
    lines = []
    for cell, parts in cells.items():
        for one in parts:
            lines += _pair(cell, one.collection, one)
        if len(parts) > 1:
            whole = [np.concatenate([getattr(one, name) for one in parts]) for name in ("measured", "before", "after", "held")]
            lines += _pair(cell, "all", Held("all", whole[0], whole[1], whole[2], parts[0].learnt, whole[3]))
    return lines


def _pair(cell: str, part: str, held: Held) -> list[Score]:
    said = f"{part} ({held.learnt.cases} rows swept)" if part != "all" else part
    return [
        scores.score(cell, said, "spec only", held.before, held.measured),
        scores.score(cell, said, "spec plus sweep", held.after, held.measured),
    ]
