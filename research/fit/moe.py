"""Mixtures of experts: published measurements, the fit of the coefficients to them, and its scores.

Folds by (hidden, inter, experts, topk). A group of coefficients is a family of kernels, a type and an architecture; the stored ones come
from all rows. Rows of a build with a defect are neither fitted nor counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels import moe, moe_cases, moe_kernels
from hotlap.core.model.kernels.base import Chip, Floats
from research.fit import data as measured_data
from research.fit import scores
from research.fit.data import FOLDERS, Rows
from research.fit.scores import Score

COLUMNS = {
    "tokens": "num_tokens",
    "hidden": "hidden_size",
    "inter": "inter_size",
    "topk": "topk",
    "experts": "num_experts",
    "tp": "moe_tp_size",
    "ep": "moe_ep_size",
    "distribution": "distribution",
}
BOUNDS: Mapping[str, tuple[float, float, float]] = {  # least, where the fit begins, most
    "feed_b_per_sm_clock": (10, 120, 400),
    "tile_cycles": (100, 2000, 12000),
    "flight_b_per_sm_clock": (1, 20, 200),
    "row_passes": (0.1, 1, 5),
    "launch_us": (3, 25, 100),
    "routing_us": (0.5, 5, 60),
}
NAMES = tuple(BOUNDS)
AS = {"gen_int4_wo": "gen_w4a16_mxfp4"}  # both widen weights of 4 bits; measured on one shape
TOGETHER = ("marlin_int4_wo", "marlin_w4a16_mxfp4")  # of one or two shapes each: one kernel on every architecture
PULL = 0.3  # towards the start, per unit of log: against some thousand residuals it counts only where the data are silent
SAMPLE = 700  # rows of one GPU and group that are fitted
SHORT_S, SHORT_WEIGHT = 20e-6, 0.4
FLOOR_NOTE = "floor: rows measured twice in one file differ by 1.3 % on average; two collections were not compared"
SCORED = 4000  # rows for which the nearest-neighbour table is looked up
TRITON = ("sglang_fused_moe_triton", "vllm_unquantizedfusedmoe_triton_tritonexperts", "vllm_fp8moe_triton_tritonexperts", "vllm_fused_moe")


def rows(gpu: str, root: Path) -> Rows:
    """The measurements on one GPU."""
    import pyarrow.parquet as parquet

    tables = [parquet.read_table(file) for file in sorted((root / FOLDERS[gpu]).glob("moe/*/*/*.parquet"))]
    if not tables:
        return measured_data.none(gpu)

    def column(name: str) -> NDArray[Any]:
        found = [np.array(t[name].to_pylist() if name in t.column_names else [np.nan] * len(t)) for t in tables]
        return np.concatenate(found)

    params = {name: column(source) for name, source in COLUMNS.items()}
    dtype, source = column("moe_dtype"), column("kernel_source")
    params["dtype"] = np.where(dtype == "bfloat16", "bf16", dtype)
    params["gated"] = _gated(params, source, column("framework"), column("version"))
    power = column("power").astype(np.float64)
    names = zip(column("framework").tolist(), column("version").tolist(), source.tolist(), strict=True)
    published = np.array([f"{library.lower()} {version}/{kernel}" for library, version, kernel in names])
    groups = measured_data.keys(params, ("hidden", "inter", "experts", "topk"))
    return Rows(gpu, params, column("latency").astype(np.float64) * 1e-3, power, source, *measured_data.split(groups), published)


def _gated(
    params: Mapping[str, NDArray[Any]], source: NDArray[np.str_], framework: NDArray[np.str_], version: NDArray[np.str_]
) -> NDArray[np.bool_]:
    """Nemotron's experts (topk 22, or hidden 2688) have no gate: TensorRT-LLM's file says so, aiconfigurator's collectors (ReLU²), and
    by their times vLLM's since 0.24 and SGLang's through FlashInfer."""
    nemotron = (params["topk"] == 22) | (params["hidden"] == 2688)
    ours = (framework == "VLLM") & (version >= "0.24") | ((framework == "SGLang") & (np.char.find(source, "trtllm_moe") >= 0))
    known = np.char.endswith(source, "nongated") | (ours & nemotron)
    gated: NDArray[np.bool_] = ~known
    return gated


# ---------------------------------------------------------------- fit


def fit(data: list[Rows]) -> dict[str, dict[str, float]]:
    """Coefficients of each group of kernels from the rows that are not held out."""
    parts: dict[str, list[Rows]] = {}
    for rows_ in data:
        groups = _groups(rows_)
        usable = ~rows_.held & (tags(rows_) == "")
        for name in sorted(set(groups[usable].tolist())):
            parts.setdefault(name, []).append(rows_.where(_sample((groups == name) & usable, SAMPLE)))
    return {name: _fit_one(name, own) for name, own in sorted(parts.items())}


def _kernels(data: Rows) -> tuple[list[moe_kernels.ExpertKernel], NDArray[np.int_]]:
    """The kernels of the rows, and which of them each row's is."""
    names, which = moe_cases.codes(data.implementation)
    target = scores.chip(data.gpu).target if len(names) else ""
    return [moe_kernels.find(name, target).kernel for name in names], which


def tags(data: Rows) -> NDArray[np.str_]:
    """The defect of the build that computed each row; empty where none is known."""
    kernels, which = _kernels(data)
    tagged: NDArray[np.str_] = np.array(["defect of the build" if kernel.defect else "" for kernel in kernels], dtype="<U60")
    return tagged[which]


def _groups(data: Rows) -> NDArray[np.str_]:
    """The group of each row: family of kernels, type, and architecture but for families of few shapes."""
    kernels, which = _kernels(data)
    dtypes, of_dtype = moe_cases.codes(data.params["dtype"])
    architecture = moe_kernels.ARCHITECTURES[scores.chip(data.gpu).target]
    names = [f"{kernel.family}_{dtype}" for kernel in kernels for dtype in dtypes]
    names = [AS.get(name, name) for name in names]
    full = np.array([name if name in TOGETHER else f"{name}_{architecture}" for name in names])
    groups: NDArray[np.str_] = full[which * len(dtypes) + of_dtype]
    return groups


def _sample(mask: NDArray[np.bool_], most: int) -> NDArray[np.bool_]:
    places = np.flatnonzero(mask)
    chosen = np.random.default_rng(0).permutation(places)[:most]
    found = np.zeros(len(mask), bool)
    found[chosen] = True
    return found


def _fit_one(name: str, parts: list[Rows]) -> dict[str, float]:
    from scipy.optimize import least_squares

    low, start, high = np.log(np.array(list(BOUNDS.values())).T)
    found = least_squares(
        _residuals(name, parts, start), start, bounds=(low, high), loss="soft_l1", f_scale=0.15, max_nfev=25, x_scale=0.5, diff_step=1e-3
    )
    return _unpack(found.x)


def _unpack(x: Floats) -> dict[str, float]:
    return dict(zip(NAMES, np.exp(x).tolist(), strict=True))


def _residuals(name: str, parts: list[Rows], start: Floats) -> Callable[[Floats], Floats]:
    def residuals(x: Floats) -> Floats:
        errors = []
        for own in parts:
            error = np.log(predicted(own, {name: _unpack(x)}) / own.seconds)
            errors.append(np.where(own.seconds > SHORT_S, 1.0, SHORT_WEIGHT) * error)
        return np.concatenate([*errors, PULL * (x - start)])

    return residuals


def _only(params: Mapping[str, NDArray[Any]], mask: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    return {name: values[mask] for name, values in params.items()}


def predicted(data: Rows, coefficients: Mapping[str, Any]) -> Floats:
    """Expected seconds of measured rows."""
    if not len(data.seconds):
        return np.zeros(0)
    return moe.estimate(data.params, scores.chip(data.gpu), data.implementation, coefficients).seconds


def roofline(data: Rows) -> Floats:
    """Seconds at the published peaks, weights of touched experts beyond L2 read once."""
    return bound(data.params, scores.chip(data.gpu), data.implementation)


# ---------------------------------------------------------------- scores


def table(root: Path, coefficients: Mapping[str, Any] | None = None) -> list[Score]:
    """Held-out shapes and H200 by the fit of A100 and H100, and A100 and H100 by that of the other, all beside simpler ways."""
    a100, h100, h200 = (rows(gpu, root) for gpu in ("a100-sxm-80gb", "h100-sxm", "h200-sxm"))
    known = coefficients or fit([a100, h100])
    h100 = h100.where(tags(h100) == "")
    scored = _cell("H100 held-out shapes", h100, h100.held, known, h100) + _cell("A100 held-out shapes", a100, a100.held, known, a100)
    scored += _cell("H200 by A100 + H100", h200, np.isin(h200.implementation, TRITON), known, _triton(h100, ("bf16", "fp8_block")))
    for cell, source, target in (("A100 -> H100", a100, h100), ("H100 -> A100", h100, a100)):
        mask = np.isin(target.implementation, TRITON) & (target.params["dtype"] == "bf16")
        scored += _cell(cell, target, mask, fit([_triton(source)]), _triton(source))
    return scored


def _triton(data: Rows, dtypes: tuple[str, ...] = ("bf16",)) -> Rows:
    """Only the rows of Triton kernels."""
    mask = np.isin(data.implementation, TRITON) & np.isin(data.params["dtype"], dtypes)
    return data.where(mask)


def _cell(cell: str, on: Rows, mask: NDArray[np.bool_], coefficients: Mapping[str, Any], known: Rows) -> list[Score]:
    """Scores of the rows longer than 20 µs, then of regimes and implementations."""
    params, measured, chip, sources = _only(on.params, mask), on.seconds[mask], scores.chip(on.gpu), on.implementation[mask]
    model, sol = moe.estimate(params, chip, sources, coefficients).seconds, bound(params, chip, sources)
    long = measured > SHORT_S
    scored = [
        scores.score(cell, "> 20 us", way, predicted[long], measured[long])
        for way, predicted in {"model": model, "roofline": sol, "roofline/0.8 + 3 us": sol / 0.8 + 3e-6}.items()
    ]
    some, train = _sample(long, SCORED), _sample(~known.held, 3 * SCORED)
    tables = [_only(p, m) | {"implementation": i[m]} for p, m, i in ((known.params, train, known.implementation), (params, some, sources))]
    near = scores.nearest(tables[0], known.seconds[train], tables[1], ("distribution", "dtype", "gated", "implementation"))
    scored.append(scores.score(cell, "> 20 us", "nearest row", near, measured[some]))
    tokens = params["tokens"]
    regimes = {
        "<= 20 us": ~long,
        "tokens <= 64": long & (tokens <= 64),
        "tokens 65 to 1024": long & (tokens > 64) & (tokens <= 1024),
        "tokens > 1024": long & (tokens > 1024),
        "balanced": long & (params["distribution"] == "balanced"),
    }
    for source, dtype in sorted(set(zip(sources.tolist(), params["dtype"].tolist(), strict=True))):
        regimes[f"{source.removeprefix('vllm_')[-34:]} {dtype}"] = long & (sources == source) & (params["dtype"] == dtype)
    return scored + [scores.score(cell, part, "model", model[m], measured[m]) for part, m in regimes.items()]


def bound(params: Mapping[str, NDArray[Any]], chip: Chip, sources: NDArray[np.str_]) -> Floats:
    """The roofline of one rank: its rows' operations at the highest clock, or its touched weights beyond L2, whichever takes longer."""
    cases = moe_cases.read(params, sources, chip.target)
    routed = moe_cases.route(cases)
    entries = (cases["gates"] + 1.0) * cases["hidden"] * cases["width"]
    rate = chip.units * chip.clock_max_hz * moe_cases.flop_per_clock(cases["dtype"], chip)
    streamed = np.maximum(routed.touched * entries * cases["weight"] - chip.l2_bytes, 0.0)
    found: Floats = np.maximum(2.0 * routed.rows * entries / rate, streamed / chip.memory_b_s)
    return found


def main() -> None:
    """Fits the rows of all machines that are not held out, stores the coefficients and prints their scores."""
    place = scores.folder()
    coefficients = fit([rows(gpu, place) for gpu in FOLDERS])
    head = {
        "data": "aiconfigurator 2026-08, moe on A100, H100, H200, B200, L40S: sglang 0.5.10, 0.5.14, trtllm 1.3.0rc20, vllm 0.22.0, 0.24.0",
        "split": "held out: sha1(hidden,inter,experts,topk) % 5 == 0",
        "command": "python -m research.fit moe",
        "loss": "soft L1 of log error, scale 0.15; 700 rows of each GPU and group",
    }  # fmt: skip
    about = "Mixtures of experts, by family of kernels, type and architecture; cycles at the clock of the chip."
    scores.store("moe", about, head, coefficients)
    print(scores.show(table(place)))
    print(FLOOR_NOTE)


if __name__ == "__main__":
    main()
