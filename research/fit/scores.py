"""Scores of a model on measured rows, beside the simple ways it has to beat."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model import chips, kernels, machines
from hotlap.core.model.kernels.base import Chip, Floats
from research.fit.data import root

CHUNK = 256  # rows compared with all training rows at once


def folder() -> Path:
    """Of the measurements. Ends the program with a line where there is none."""
    found = root()
    if found is None:
        raise SystemExit("no measurements: set HOTLAP_SHARED to the folder that holds data/kernels")
    return found


def store(family: str, about: str, head: Mapping[str, str], coefficients: Mapping[str, Mapping[str, float]]) -> None:
    """Writes the family's coefficients with where they come from."""
    lines = [f"# {about}", "", "[fit]", *(f'{key} = "{value}"' for key, value in head.items()), f'date = "{date.today().isoformat()}"']
    for name, values in coefficients.items():
        key = name if name.replace("_", "").isalnum() else f'"{name}"'
        lines += ["", f"[coefficients.{key}]", *(f"{one} = {value:.4g}" for one, value in values.items())]
    file = Path(kernels.__file__).parents[1] / "coefficients" / f"{family}.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


class Score(NamedTuple):
    """One line of the accuracy table; errors are predicted ÷ measured − 1."""

    cell: str  # as "H100, held out"
    part: str  # implementation or regime
    method: str
    rows: int
    mape: float
    median: float
    p90: float
    bias: float


def chip(slug: str) -> Chip:
    """A machine of the table, at the clock for which its peak is published."""
    return chips.chip(machines.load(slug))


def fastest(slug: str) -> Chip:
    """The same at its highest clock."""
    return chips.chip(machines.load(slug), "max")


def score(cell: str, part: str, method: str, predicted: Floats, measured: Floats) -> Score:
    """NaN where there is nothing to score."""
    if not len(measured):
        return Score(cell, part, method, 0, *[float("nan")] * 4)
    error = predicted / measured - 1
    size = np.abs(error)
    return Score(
        cell, part, method, len(error), float(size.mean()), float(np.median(size)), float(np.quantile(size, 0.9)), float(error.mean())
    )


def nearest(train: Mapping[str, NDArray[Any]], times: Floats, asked: Mapping[str, NDArray[Any]], same: tuple[str, ...]) -> Floats:
    """A nearest-neighbour table: the time of the training row nearest in log space. `same`: parameters that must agree, as far as any
    row does; the others are numbers."""
    numbers = [name for name in asked if name not in same]
    have = np.stack([np.log2(train[n].astype(np.float64)) for n in numbers], axis=1)
    want = np.stack([np.log2(asked[n].astype(np.float64)) for n in numbers], axis=1)
    indices = np.empty(len(want))
    for start in range(0, len(want), CHUNK):
        rows = slice(start, start + CHUNK)
        distance = np.abs(want[rows, None, :] - have[None, :, :]).sum(axis=2)
        for name in same:
            distance += 1e3 * (asked[name][rows, None] != train[name][None, :])
        indices[rows] = times[np.argmin(distance, axis=1)]
    return indices


def show(scores: list[Score]) -> str:
    """The table as text."""
    head = f"{'cell':<26} {'part':<44} {'method':<18} {'rows':>6} {'MAPE':>6} {'median':>6} {'p90':>6} {'bias':>6}"
    lines = [f"{s.cell:<26} {s.part[:44]:<44} {s.method:<18} {s.rows:>6} " + " ".join(f"{100 * v:>6.1f}" for v in s[4:]) for s in scores]
    return "\n".join([head, *lines])
