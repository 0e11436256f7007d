"""Collectives: published NCCL measurements, the fit of the protocols' coefficients to them, and its scores.

Split by (operation, number of GPUs), for all sizes and both dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels import collective, nccl
from hotlap.core.model.kernels.base import Chip, Floats
from hotlap.core.model.kernels.collective import CollectiveCalls
from research.fit import data as measured_data
from research.fit import scores
from research.fit.data import FOLDERS, Rows
from research.fit.scores import Score

OPS = collective.OPS[:4]  # broadcast and send were not measured
START: Mapping[str, Mapping[str, float]] = {  # where the fit begins, and what it is drawn to where the data are silent
    "ring": {
        "launch_kclocks": 9.0, "hop_us": 1.1, "ramp": 0.25, "ramp_bytes": 6e3,
        "ll_share": 1.1, "ll_copy": 1.0, "ll_power": 2.0,
        "ll128_kclocks": 12.0, "ll128_hop_us": 1.5, "ll128_share": 1.0,
        "simple_us": 13.0, "simple_hop_us": 10.0, "simple_share": 1.0, "simple_power": 2.5,
        "copy_b_per_unit_clock": 4.0, "fill_bytes_per_ring": 1.3e6, "fill_half_bytes": 3e7, "narrow_factor": 1.05,
        "pcie_share": 0.63, "pcie_power": 1.9,
    },
    "alltoall": {
        "launch_kclocks": 11.5, "peer_us": 1.0, "ll_clocks_per_byte": 0.2, "simple_us": 7.0, "simple_half_bytes": 2e4,
        "simple_share": 0.93, "copy_b_per_unit_clock": 5.0, "fill_bytes_per_ring": 1e6,
    },
}  # fmt: skip
PULL, PULL_FACTOR = 0.3, 0.45  # towards START, and of a link's factors towards 1, per unit of log
SCALE, STEPS = 0.1, 12  # log error from which a row counts less; steps of the fit
FLOOR = 0.03  # repeatability of long calls as far as half and int8 copies of the same bytes show it
GPUS = ("a100-sxm-80gb", "h100-sxm", "b200", "l40s")
SHORT = {"a100-sxm-80gb": "A100", "h100-sxm": "H100", "b200": "B200", "l40s": "L40S"}
ABOUT = "Collectives by NCCL. Shares are of what NCCL takes a link for; a link's numbers are factors of the start-ups of all."
HEAD = {
    "data": "aiconfigurator 2026-08: kernels/{a100_sxm,h100_sxm,b200_sxm,l40s}/comm/nccl (2.27.3 and 2.29.2), all rows",
    "split": "none: scores refit by fold, sha1(op,gpus) % 5",
    "command": "python -m research.fit collective", "loss": "soft L1 of log error, scale 0.1",
}  # fmt: skip


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


class Side(NamedTuple):
    """What is fitted on one GPU: repeats of a call as one row of their geometric mean."""

    calls: CollectiveCalls
    log_s: Floats


def fit(data: list[Rows]) -> dict[str, dict[str, float]]:
    """Coefficients of all operations, and factors of each link that has rows, from the rows that are not held out. Some seconds."""
    from scipy.optimize import least_squares

    sides = [_side(d.where(~d.held)) for d in data if np.any(~d.held)]
    links = sorted({side.calls.link.key for side in sides})
    shared = np.concatenate([np.log(list(part.values())) for part in START.values()])
    begin = np.concatenate([shared, np.zeros(len(collective.FACTORS) * len(links))])
    pull = np.where(np.arange(len(begin)) < len(shared), PULL, PULL_FACTOR)

    def residuals(x: Floats) -> Floats:
        table = _unpack(x, links)
        errors = [np.log(collective.expected(side.calls, table)[1]) - side.log_s for side in sides]
        return np.concatenate([*errors, pull * (x - begin)])

    return _unpack(least_squares(residuals, begin, loss="soft_l1", f_scale=SCALE, max_nfev=STEPS).x, links)


def _side(data: Rows) -> Side:
    columns = zip(*(data.params[name].tolist() for name in ("op", "dtype", "gpus", "bytes")), strict=True)
    _, first, which = np.unique(np.array([",".join(map(str, row)) for row in columns]), return_index=True, return_inverse=True)
    mean = np.bincount(which, np.log(data.seconds)) / np.bincount(which)
    return Side(collective.prepared(data.where(first).params, scores.chip(data.gpu)), mean)


def _unpack(x: Floats, links: list[str]) -> dict[str, dict[str, float]]:
    """The fit's numbers by name: logarithms, so that all stay above 0."""
    values = iter(np.exp(x).tolist())
    named = {part: {name: next(values) for name in names} for part, names in START.items()}
    return named | {link: {name: next(values) for name in collective.FACTORS} for link in links}


def predicted(data: Rows, coefficients: Mapping[str, Any]) -> Floats:
    """Expected seconds of measured rows."""
    return collective.estimate(data.params, scores.chip(data.gpu), coefficients=coefficients).seconds


def roofline(data: Rows) -> Floats:
    """Seconds at the published rate of one GPU's link."""
    return _bound(data.params, scores.chip(data.gpu))


# ---------------------------------------------------------------- scores


def table(root: Path, coefficients: Mapping[str, Any] | None = None) -> list[Score]:
    """Fold 0 by a fit of the others (or by these coefficients), and A100 and H100 by coefficients of each other, beside simpler ways."""
    data = [rows(gpu, root) for gpu in GPUS]
    known = coefficients or fit(data)
    found = [score for on in data for score in _cell(f"{SHORT[on.gpu]} held-out sizes", on, on.held, known, on)]
    for source, target in ((data[0], data[1]), (data[1], data[0])):
        cell = f"{SHORT[source.gpu]} -> {SHORT[target.gpu]}"
        found += _cell(cell, target, np.ones(len(target.seconds), bool), fit([source]), source)
    return found


def _cell(cell: str, on: Rows, mask: NDArray[np.bool_], coefficients: Mapping[str, Any], known: Rows) -> list[Score]:
    params, measured, chip = on.where(mask).params, on.seconds[mask], scores.chip(on.gpu)
    train = known.where(~known.held).params
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
    """Bytes that must enter or leave one GPU ÷ its link: (n − 1)/n of the buffer, for an all-reduce twice but where the switch adds."""
    link, rate = nccl.link_of(chip)
    twice = (params["op"] == "all_reduce") & (link.switch_share == 0.0)
    found: Floats = params["bytes"] * (1 - 1 / params["gpus"].astype(np.float64)) * np.where(twice, 2, 1) / rate
    return found


def main() -> None:
    """Fits all GPUs with all rows, stores the coefficients and prints the scores."""
    place = scores.folder()
    scores.store("collective", ABOUT, HEAD, fit([rows(gpu, place).holding(None) for gpu in GPUS]))
    print(scores.show(table(place)))


if __name__ == "__main__":
    main()
