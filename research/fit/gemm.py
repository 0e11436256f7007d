"""Matrix products: published measurements, the fit of the coefficients to them, and its scores.

Split by (n, k): a pair is held out for all m, types and implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels import base, gemm, gemm_kernels, power
from hotlap.core.model.kernels.base import Floats
from research.fit import data as measured_data
from research.fit import scores
from research.fit.data import FOLDERS, Rows
from research.fit.scores import Score

GPUS = ("a100-sxm-80gb", "h100-sxm")
LONG = ("h200-sxm",)  # measured over seconds, to read power: the clock had fallen
DTYPES = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
START: Mapping[str, float] = {  # where the fit begins, and what it is drawn to where the data are silent
    "launch_us": 1.0, "fill_cycles": 2000.0, "tile_cycles": 300.0, "matrix_share": 0.93, "feed_bytes_per_flop": 0.016,
    "step_cycles": 150.0, "warp_step_cycles": 380.0, "store_bytes_per_flop": 0.0045, "even_waves": 0.15, "dram_share": 0.9,
    "units_for_dram": 27.0, "dram_first_us": 1.0, "reduce_us": 2.4, "reduce_share": 1.0, "choice_power": 15.0, "large_tile": 0.04,
    "l2_share": 0.9, "resident_power": 4.0, "weights_between": 0.6, "written_share": 0.3, "overlap_power": 3.0, "feed_power": 6.0,
    "burst_us": 400.0, "operation_pj": 0.7,
}  # fmt: skip
GENERATION = (  # of these, each architecture's kernels have their own
    "launch_us", "tile_cycles", "matrix_share", "feed_bytes_per_flop", "step_cycles", "warp_step_cycles", "store_bytes_per_flop",
    "even_waves", "dram_share", "dram_first_us", "reduce_us", "reduce_share", "choice_power", "l2_share", "operation_pj",
)  # fmt: skip
OWN: Mapping[str, float] = {  # of an implementation of narrow types
    "extra_us": 2.0, "host_us": 5.0, "matrix_factor": 0.9, "feed_factor": 0.9, "pass_factor": 0.5, "pass_row_ns": 0.1, "dram_factor": 1.0,
}  # fmt: skip
OWN_PLAIN: Mapping[str, float] = {"launch_us": 1.0, "feed_factor": 1.0, "dram_factor": 1.0, "data_factor": 1.0}  # of cuBLAS somewhere
OWN_BLOCKS: Mapping[str, float] = {"empty_rows": 0.5, "tile_cycles": 450.0}  # of one with blocks of scales
TIED = {  # times the pull: of these a machine alone says too little
    "l2_share": 5.0, "choice_power": 5.0, "even_waves": 3.0, "dram_share": 3.0, "launch_us": 3.0,
}  # fmt: skip
PULL, PULL_GENERATION, PULL_PLAIN = 0.01, 0.03, 0.1  # towards the start, per unit of log
ROWS, OWN_ROWS = 1500, 1000  # of each GPU and implementation that a fit looks at
TINY = 1e8  # products m × n × k of a call that takes a GPU no longer than the host
FLOORS = {"a100-sxm-80gb": 0.056, "h100-sxm": 0.044, "h200-sxm": 0.050}  # two collections of the same shapes: research notes, bf16


def rows(gpu: str, root: Path) -> Rows:
    """The measurements on one GPU, all types whose operands are stored as they are multiplied."""
    import pyarrow.parquet as parquet

    parts: list[dict[str, NDArray[Any]]] = []
    for file in sorted((root / FOLDERS[gpu]).glob("gemm/*/*/*.parquet")):
        table, library, version = parquet.read_table(file), file.parts[-3], file.parts[-2]
        column = {name: table.column(name).to_numpy() for name in ("m", "n", "k", "latency")}
        kind, kernel = (np.array(table.column(name).to_pylist()) for name in ("gemm_dtype", "kernel_source"))
        keep = np.isin(kind, list(DTYPES))
        long = "power" in table.column_names
        column["power"] = table.column("power").to_numpy().astype(float) if long else np.full(len(kind), np.nan)
        column["sustained"] = np.full(len(kind), long)  # a collection that reads power repeats a case for a second
        column["dtype"] = np.array([DTYPES.get(one, "") for one in kind])
        column["published"] = np.char.add(f"{library} {version}/", kernel)
        column["source"] = np.char.add(f"{library}/", _dispatched(kernel, column, gpu))
        parts.append({name: values[keep] for name, values in column.items()})
    if not parts:
        return measured_data.none(gpu)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    params = {name: joined[name] for name in ("m", "n", "k", "dtype", "sustained")}
    groups = measured_data.keys(joined, ("n", "k"))
    return Rows(gpu, params, joined["latency"] * 1e-3, joined["power"], joined["source"], *measured_data.split(groups), joined["published"])


def _dispatched(kernel: NDArray[np.str_], column: Mapping[str, NDArray[Any]], gpu: str) -> NDArray[Any]:
    """The kernel behind vLLM's default, by the shapes at which each is named in the measurements that name it."""
    m, n, k, dtype = (column[name] for name in ("m", "n", "k", "dtype"))
    whole = (n % 64 == 0) & (k % 128 == 0)
    few = whole & (m <= 17) & (gpu in ("h100-sxm", "h200-sxm"))
    blocks = np.where(whole, "DeepGemmFp8BlockScaledMMKernel", "CutlassFp8BlockScaledMMKernel")
    blocks = np.where(few, "FlashInferFp8BlockScaledMMKernel", blocks)
    behind = np.select(
        [dtype == "bf16", dtype == "fp8", dtype == "fp8_block"],
        ["torch.nn.functional.linear", "CutlassFP8ScaledMMLinearKernel", blocks], kernel,
    )  # fmt: skip
    return np.where(kernel == "vllm_default", behind, kernel)


def sample(data: Rows, count: int, seed: int = 0) -> Rows:
    return data.where(np.sort(np.random.default_rng(seed).permutation(len(data.seconds))[:count]))


# ---------------------------------------------------------------- fit


def fit(data: Sequence[Rows]) -> dict[str, dict[str, float]]:
    """Coefficients from the rows that are not held out: `base` from bf16 on all GPUs, what each architecture has of its own, then a few
    for each implementation on each architecture."""
    plain = [sample(one.where(~one.held & (one.params["dtype"] == "bf16")), ROWS) for one in data]
    plain = [one for one in plain if len(one.seconds)]
    found = {"base": _base(plain)}
    for where in sorted({_generation(one) for one in plain}):
        found[where] = _refined(found, where, [one for one in plain if _generation(one) == where])
    for key in sorted({f"{i}.{d}@{_generation(one)}" for one in data for i, d in set(zip(one.implementation.tolist(), one.params["dtype"].tolist(), strict=True))}):
        name, _, where = key.partition("@")
        parts = [sample(one.where(~one.held & _is(one, name)), OWN_ROWS) for one in data if _generation(one) == where]
        found[key] = _own(found, key, [one for one in parts if len(one.seconds)])
    return found


def _generation(data: Rows) -> str:
    return gemm_kernels.generation(scores.fastest(data.gpu).target)


def _is(data: Rows, name: str) -> NDArray[np.bool_]:
    source, _, dtype = name.rpartition(".")
    return np.asarray((data.implementation == source) & (data.params["dtype"] == dtype))


def _base(data: Sequence[Rows]) -> dict[str, float]:
    pull = PULL * np.array([TIED.get(name, 1.0) for name in START])
    return _solved(data, {}, "base", START, {}, pull)


def _refined(found: Mapping[str, Mapping[str, float]], where: str, data: Sequence[Rows]) -> dict[str, float]:
    """What differs from `base` in one architecture's kernels, drawn to `base`."""
    unused = "warp_step_cycles" if where in ("sm_90", "sm_100") else "step_cycles"
    begin = {name: found["base"][name] for name in GENERATION if name != unused}
    return _solved(data, found, where, begin, {}, np.full(len(begin), PULL_GENERATION))


def _own(found: Mapping[str, Mapping[str, float]], key: str, data: Sequence[Rows]) -> dict[str, float]:
    least = 1e6 * float(np.quantile(np.concatenate([one.seconds for one in data]), 0.02))  # where the host may be all there is
    name, _, where = key.partition("@")
    common = {**found["base"], **found.get(where, {})}
    plain = name.endswith(".bf16")
    begin = {**OWN_PLAIN, "launch_us": common["launch_us"]} if plain else {**OWN, "host_us": least}
    kernel = gemm_kernels.kernel(name, where)
    begin |= OWN_BLOCKS if kernel.tiles == "blocks" else {}
    step = "step_cycles" if where in ("sm_90", "sm_100") else "warp_step_cycles"
    begin |= {} if kernel.splits else {step: common[step]}
    return _solved(data, found, key, begin, {}, np.full(len(begin), PULL_PLAIN if plain else PULL))


def _solved(
    data: Sequence[Rows], found: Mapping[str, Mapping[str, float]], key: str, begin: Mapping[str, float], fixed: Mapping[str, float],
    pull: Floats,
) -> dict[str, float]:
    """Coefficients `begin` of one group, refitted."""
    start = np.log(list(begin.values()))

    def coefficients(v: Floats) -> dict[str, float]:
        return {**fixed, **dict(zip(begin, np.exp(v).tolist(), strict=True))}

    strength = pull * np.sqrt(np.mean([len(one.seconds) for one in data]))
    return coefficients(_least(lambda v: _errors(data, {**found, key: coefficients(v)}), start, strength))


def _errors(data: Sequence[Rows], coefficients: Mapping[str, Mapping[str, float]]) -> Floats:
    return np.concatenate([np.log(predicted(one, coefficients) / one.seconds) for one in data])


def predicted(data: Rows, coefficients: Mapping[str, Mapping[str, float]] | None = None, host_share: float = 1.0) -> Floats:
    """`host_share`: of the time that the host needs for a call, against the machines that were fitted."""
    chip = replace(scores.fastest(data.gpu), facts={"host_share": host_share})
    return gemm.estimate(data.params, chip, data.implementation, coefficients).seconds


def _least(errors: Callable[[Floats], Floats], start: Floats, pull: Floats) -> Floats:
    from scipy.optimize import least_squares

    found = least_squares(
        lambda v: np.concatenate([errors(start + v - 1), pull * (v - 1)]), np.ones(len(start)), loss="soft_l1", f_scale=0.05,
        diff_step=0.01, max_nfev=15,  # steps are relative, so that they count from 1
    )  # fmt: skip
    return np.asarray(start + found.x - 1)


# ---------------------------------------------------------------- scores


def table(root: Path, coefficients: Mapping[str, Mapping[str, float]] | None = None) -> list[Score]:
    """Held-out shapes of A100 and H100 and all of H200 with the stored coefficients; A100 and H100 with those of the other alone."""
    a100, h100, h200 = (rows(gpu, root) for gpu in (*GPUS, *LONG))
    known = coefficients or base.stored("gemm")
    cells = []
    for name, data in (("A100", a100), ("H100", h100)):
        cells += _cells(f"{name}, held-out shapes", data.where(data.held), known, data.where(~data.held))
    cells += _cells("H200 by A100 + H100", h200, known, h100.where(~h100.held))
    cells.append(_host_measured(h200.where(h200.params["dtype"] == "fp8_block"), known))
    for cell, source, target in (("A100 → H100, spec only", a100, h100), ("H100 → A100, spec only", h100, a100)):
        plain = [one.where(one.params["dtype"] == "bf16") for one in (source, target)]
        cells += _cells(cell, plain[1], fit([plain[0]]), plain[0])
    return cells


def _host_measured(data: Rows, coefficients: Mapping[str, Mapping[str, float]]) -> Score:
    """vLLM's blocks of fp8 were not in a graph: most rows are the host's time, no property of the GPU. Here the smallest products, which
    are not scored, say how this host stands to the one that was fitted, as one sweep on the machine would."""
    small = data.params["m"].astype(float) * data.params["n"] * data.params["k"] < TINY
    share = float(np.median(data.seconds[small] / predicted(data.where(small), coefficients)))
    rest = data.where(~small)
    return scores.score("H200 and its host measured", "fp8_block", "model", predicted(rest, coefficients, share), rest.seconds)


def _cells(cell: str, data: Rows, coefficients: Mapping[str, Mapping[str, float]], train: Rows) -> list[Score]:
    """By type: the model beside simpler ways; then by implementation and regime, the model alone."""
    cells = []
    for dtype in sorted(set(data.params["dtype"].tolist())):
        part = data.where(data.params["dtype"] == dtype)
        ways = {"model": predicted(part, coefficients), **_simple(part)}
        cells += [scores.score(cell, dtype, name, values, part.seconds) for name, values in ways.items()]
        some, near = sample(part, 2000, 1), sample(train.where(train.params["dtype"] == dtype), 12000, 1)
        if len(near.seconds):
            table = scores.nearest(_sizes(near), near.seconds, _sizes(some), ())
            cells.append(scores.score(cell, dtype, "nearest row", table, some.seconds))
        for name, keep in _regimes(part).items():
            cells.append(scores.score(cell, f"{dtype} {name}", "model", ways["model"][keep], part.seconds[keep]))
    return cells


def _sizes(data: Rows) -> dict[str, NDArray[Any]]:
    return {name: data.params[name] for name in ("m", "n", "k")}


def _simple(data: Rows) -> dict[str, Floats]:
    """The roofline at the published peak, and aiconfigurator's two constants on it."""
    chip = scores.chip(data.gpu)
    m, n, k = (data.params[name].astype(float) for name in ("m", "n", "k"))
    narrow = data.params["dtype"] != "bf16"
    rate = np.where(narrow, chip.flop_per_clock.get("matrix.fp8", np.nan), chip.flop_per_clock["matrix.bf16"]) * chip.units * chip.clock_hz
    size = np.where(narrow, 1.0, 2.0)
    sol = np.maximum(2 * m * n * k / rate, (size * (m * k + n * k) + 2 * m * n) / chip.memory_b_s)
    return {"roofline": sol, "SOL/0.8 + 3 µs": sol / 0.8 + 3e-6}


def roofline(data: Rows) -> Floats:
    """Seconds at the published peaks, each operand and the result moved once."""
    return _simple(data)["roofline"]


def _regimes(data: Rows) -> dict[str, NDArray[np.bool_]]:
    m, seconds = data.params["m"], data.seconds
    found = {"≤ 20 µs": seconds <= 20e-6, "> 20 µs": seconds > 20e-6}
    found |= {"m ≤ 64": m <= 64, "m 65 to 1024": (m > 64) & (m <= 1024), "m > 1024": m > 1024}
    for name in sorted(set(data.implementation.tolist())):
        found[name] = data.implementation == name
    return found


def main() -> None:
    """Fits A100 and H100, stores the coefficients and prints the scores."""
    place = scores.folder()
    coefficients = fit([rows(gpu, place) for gpu in GPUS])
    head = {
        "data": "aiconfigurator 2026-08: kernels/{a100_sxm,h100_sxm}/gemm: sglang 0.5.10, trtllm 1.0.0 and 1.3.0rc20, vllm 0.24.0",
        "split": "crc32(n x k) % 5 == 0 is held out; H200 is never fitted", "command": "python -m research.fit gemm",
        "loss": f"soft L1 of log error, scale 0.05; {ROWS} rows of each GPU for bf16, {OWN_ROWS} of each other implementation",
    }  # fmt: skip
    about = "Matrix products. Bytes per FLOP of the bf16 unit; cycles at the highest clock; shares of the spec. See kernels/gemm_tiles.py."
    scores.store("gemm", about, head, coefficients)
    base.stored.cache_clear()
    power.stored.cache_clear()
    print(scores.show(table(place, coefficients)))
    print(f"floor, two collections of the same bf16 shapes: {', '.join(f'{gpu} {100 * value:.1f} %' for gpu, value in FLOORS.items())}")


if __name__ == "__main__":
    main()
