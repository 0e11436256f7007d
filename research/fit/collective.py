"""Collectives: published NCCL measurements, the fit of the protocols' coefficients to them, and its scores.

Split by (operation, number of GPUs), for all sizes and both dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels import base, collective
from hotlap.core.model.kernels.base import Chip, Floats
from research.fit import data as measured_data
from research.fit import scores
from research.fit.data import FOLDERS, Rows
from research.fit.scores import Score

OPS = collective.OPS[:4]  # broadcast and send were not measured
# Where the fit begins, and what it is drawn to where the data are silent. Chosen with both GPUs in view: one GPU alone says nothing of
# clock_power (begun at 1 or 2 instead of 1.5, a transfer has 10 to 13 % of error instead of 9 to 10), nor A100 anything of nvls_*.
START: Mapping[str, float] = {
    "launch_us": 5.0,
    "ll128_us": 2.0,
    "simple_us": 12.0,
    "nvls_us": 25.0,
    "ll_hop_us": 1.0,
    "ll128_hop_us": 1.0,
    "simple_hop_us": 1.5,
    "nvls_hop_us": 1.0,
    "ll_share": 0.02,
    "ll128_share": 0.3,
    "simple_share": 0.78,
    "nvls_share": 0.85,
    "copy_b_per_sm_clock": 3.0,
    "fill_us": 8.0,
    "fill_bytes": 8e6,
    "switch_us": 4.0,
    "switch_power": 0.0,
    "clock_power": 1.5,
    "narrow_factor": 1.05,
}
PLAIN = ("switch_power", "clock_power")  # fitted as they are; all others as logarithms, so they stay above 0
PULL = 0.03  # towards START, per unit of log
SWITCHES = ((2.0, 3.0, 4.0, 6.0, 8.0), (-0.5, 0.0, 0.5, 1.0))  # starting points of switch_us and switch_power: the fit is not convex there
FLOOR = 0.03  # repeatability of long calls as far as half and int8 copies of the same bytes show it
GPUS = ("a100-sxm-80gb", "h100-sxm")


def rows(gpu: str, root: Path) -> Rows:
    """The measurements on one GPU; sizes become bytes."""
    import pyarrow.parquet as parquet

    files = sorted((root / FOLDERS[gpu]).glob("comm/nccl/*/*.parquet"))
    tables = [parquet.read_table(file).to_pydict() for file in files]
    column = {name: np.array([v for t in tables for v in t[name]]) for name in tables[0]} if tables else {}
    if not column:
        return measured_data.none(gpu)
    size = column["message_size"] * np.where(column["nccl_dtype"] == "half", 2, 1)
    params = {"op": column["op_name"], "dtype": column["nccl_dtype"], "gpus": column["num_gpus"], "bytes": size}
    published = np.array([f"nccl {version}/NCCL" for version in column["version"].tolist()])
    nothing, same = np.full(len(size), np.nan), np.full(len(size), "nccl")
    groups = measured_data.keys(params, ("op", "gpus"))
    return Rows(gpu, params, column["latency"] * 1e-3, nothing, same, *measured_data.split(groups), published)


# ---------------------------------------------------------------- fit


def fit(data: list[Rows]) -> dict[str, dict[str, float]]:
    """Coefficients of each operation from the rows that are not held out."""
    return {op: _fit_one(op, data) for op in OPS}


def _pack(values: Mapping[str, float]) -> Floats:
    return np.array([v if k in PLAIN else np.log(v) for k, v in values.items()])


def _unpack(x: Floats) -> dict[str, float]:
    return {k: float(v if k in PLAIN else np.exp(v)) for k, v in zip(START, x, strict=True)}


def _fit_one(op: str, data: list[Rows]) -> dict[str, float]:
    from scipy.optimize import least_squares

    parts = [(_only(d.params, m), scores.chip(d.gpu), d.seconds[m]) for d in data if np.any(m := (d.params["op"] == op) & ~d.held)]
    best = None
    options = [(s, p) for s in SWITCHES[0] for p in SWITCHES[1]] if op != "alltoall" else [(START["switch_us"], START["switch_power"])]
    for switch, power in options:
        begin = _pack({**START, "switch_us": switch, "switch_power": power})
        found = least_squares(_residuals(op, parts, begin), begin, loss="soft_l1", f_scale=0.1, max_nfev=40)
        best = found if best is None or found.cost < best.cost else best
    assert best is not None
    return _unpack(best.x)


def _residuals(op: str, parts: list[tuple[dict[str, NDArray[Any]], Chip, Floats]], begin: Floats) -> Callable[[Floats], Floats]:
    def residuals(x: Floats) -> Floats:
        c = {op: _unpack(x)}
        errors = [np.log(collective.estimate(p, chip, coefficients=c).seconds / seconds) for p, chip, seconds in parts]
        return np.concatenate([*errors, PULL * (x - begin)])

    return residuals


def _only(params: Mapping[str, NDArray[Any]], mask: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    return {name: values[mask] for name, values in params.items()}


def predicted(data: Rows, coefficients: Mapping[str, Any]) -> Floats:
    """Expected seconds of measured rows."""
    return collective.estimate(data.params, scores.chip(data.gpu), coefficients=coefficients).seconds


def roofline(data: Rows) -> Floats:
    """Seconds at the published rate of one GPU's link."""
    return _bound(data.params, scores.chip(data.gpu))


# ---------------------------------------------------------------- scores


def table(root: Path, coefficients: Mapping[str, Any] | None = None) -> list[Score]:
    """Held-out sizes with the stored coefficients, and each GPU with coefficients of the other, beside simpler ways."""
    a100, h100 = (rows(gpu, root) for gpu in GPUS)
    found = []
    for cell, on in (("A100 held-out sizes", a100), ("H100 held-out sizes", h100)):
        found += _cell(cell, on, on.held, coefficients or base.stored("collective"), on)
    for cell, source, target in (("A100 -> H100", a100, h100), ("H100 -> A100", h100, a100)):
        found += _cell(cell, target, np.ones(len(target.seconds), bool), fit([source]), source)
    return found


def _cell(cell: str, on: Rows, mask: NDArray[np.bool_], coefficients: Mapping[str, Any], known: Rows) -> list[Score]:
    params, measured, chip = _only(on.params, mask), on.seconds[mask], scores.chip(on.gpu)
    train = _only(known.params, ~known.held)
    bound = _bound(params, chip)
    ways = {
        "model": collective.estimate(params, chip, coefficients=coefficients).seconds,
        "link bound": bound,
        "bound/0.8 + 3 us": bound / 0.8 + 3e-6,
        "nearest row": scores.nearest(train, known.seconds[~known.held], params, ("op", "dtype")),
    }
    found = [scores.score(cell, "all", way, predicted, measured) for way, predicted in ways.items()]
    regimes = {"<= 20 us": measured <= 20e-6, "> 20 us": measured > 20e-6} | {op: params["op"] == op for op in OPS}
    return found + [scores.score(cell, part, "model", ways["model"][m], measured[m]) for part, m in regimes.items()]


def _bound(params: Mapping[str, NDArray[Any]], chip: Chip) -> Floats:
    """Bytes that must enter or leave one GPU ÷ its link: (n − 1)/n of the buffer, for an all-reduce too where the switch adds."""
    n = params["gpus"].astype(np.float64)
    twice = (params["op"] == "all_reduce") & ((chip.link_b_s or 0.0) < collective.NVLS_LINK_B_S)
    found: Floats = params["bytes"] * (1 - 1 / n) * np.where(twice, 2, 1) / (chip.link_b_s or np.nan)
    return found


def main() -> None:
    """Fits both GPUs, stores the coefficients and prints the scores."""
    place = scores.folder()
    coefficients = fit([rows(gpu, place) for gpu in GPUS])
    head = {
        "data": "aiconfigurator 2026-08: kernels/a100_sxm/comm/nccl/2.27.3, kernels/h100_sxm/comm/nccl/2.29.2",
        "split": "sha1(op,gpus) % 5 == 0 is held out", "command": "python -m research.fit collective",
        "loss": "soft L1 of log error, scale 0.1",
    }  # fmt: skip
    about = "Collectives by NCCL. Times in µs hold at 1.66 GHz; shares are of one GPU's link, one way."
    scores.store("collective", about, head, coefficients)
    print(scores.show(table(place, coefficients)))


if __name__ == "__main__":
    main()
