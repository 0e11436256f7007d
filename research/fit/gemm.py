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
from hotlap.core.work.base import STORED, unit_of
from research.fit import data as measured_data
from research.fit import scores
from research.fit.data import FOLDERS, Rows

GPUS = ("a100-sxm-80gb", "h100-sxm")
DTYPES = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
START: Mapping[str, float] = {  # where the fit begins, and what it is drawn to where the data are silent
    "fill_cycles": 1800.0, "tile_cycles": 300.0, "matrix_share": 0.93, "feed_bytes_per_flop": 0.016, "step_cycles": 150.0,
    "warp_step_cycles": 380.0, "store_bytes_per_flop": 0.0045, "dram_share": 0.9,
    "reduce_us": 2.4, "reduce_share": 1.0, "choice_power": 15.0, "l2_share": 0.9, "resident_power": 4.0,
    "weights_between": 0.6, "written_share": 0.3, "overlap_power": 3.0, "burst_us": 400.0, "operation_pj": 0.7,
}  # fmt: skip
GENERATION = (  # of these, each architecture's kernels have their own
    "fill_cycles", "matrix_share", "feed_bytes_per_flop", "step_cycles", "warp_step_cycles", "store_bytes_per_flop",
    "dram_share", "reduce_share", "choice_power", "l2_share", "overlap_power", "written_share",
)  # fmt: skip
OWN_PLAIN: Mapping[str, float] = {"launch_us": gemm.LAUNCH_US, "dram_factor": 1.0, "data_factor": 1.0}  # of cuBLAS somewhere
OWN_HOST: Mapping[str, float] = {  # of one timed with the host: its rows beyond the host's time
    "matrix_factor": 0.9, "feed_factor": 0.9, "pass_factor": 0.5, "dram_factor": 1.0,
}  # fmt: skip
OWN: Mapping[str, float] = {"extra_us": 2.0, **OWN_HOST}  # of an implementation of narrow types
OWN_SCALED: Mapping[str, float] = {"empty_rows": 0.5}  # with blocks of scales, of a unit that reads shared memory
OWN_ROWWISE: Mapping[str, float] = {"pass_row_ns": 1.0}  # vLLM's pass has a block of threads for each row, its kernel's epilogue a scale
ROWWISE = "CutlassFP8"
TIED = {"l2_share": 5.0, "choice_power": 5.0, "dram_share": 3.0}  # times the pull: of these a machine alone says too little
PULL, PULL_GENERATION, PULL_PLAIN = 0.01, 0.01, 0.1  # towards the start, per unit of log
ROWS, OWN_ROWS = 1500, 1000  # of each GPU and implementation that a fit looks at
AT_FLOOR = 1.5  # times the floor up to which a time is mostly the host's, whose calls scatter
FAR_BELOW = 4.0  # times a roofline that the host takes at least, so that the GPU has surely waited
NEARLY_ALL = 0.95  # of the rows of a kernel
ALONE = ("sm_90", "sm_100")  # whose matrix units read shared memory by themselves
KNOWN_PJ = {"sm_90": 0.6}  # H200's power readings; at it a published product holds (780 TFLOP/s: gist.github.com/Chillee)
HELD_DOWN = "sm_89"  # its clock is held down by power in every long product, which hides what the matrix unit reaches
TWO_DIES = "sm_100"  # sums of splits of k cross from one to the other


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
        behind = np.char.add(f"{library}/", _dispatched(kernel, column, gpu))
        timed = np.array([gemm_kernels.kernel(f"{name}.{dtype}").host for name, dtype in zip(behind, column["dtype"], strict=True)])
        column["source"] = np.where(timed, np.char.replace(behind, "/", f" {version}/"), behind)  # the host's time is the version's
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
    known = {"base": _base(plain)}
    for where in sorted({_generation(one) for one in plain}):
        known[where] = _refined(known, where, [one for one in plain if _generation(one) == where])
    narrowed = [_plain(one) for one in data]
    for key in _keys(narrowed):
        name, _, where = key.partition("@")
        parts = [sample(one.where(~one.held & _is(one, name)), OWN_ROWS) for one in narrowed if _generation(one) == where]
        known[key] = _own(known, key, [one for one in parts if len(one.seconds)])
    for key in _keys(data):  # of versions of a library, the host's time
        name, _, where = key.partition("@")
        if gemm_kernels.kernel(gemm_kernels.plain(name)).host:
            parts = [one.where(~one.held & _is(one, name)) for one in data if _generation(one) == where]
            known[key] = _host_us([one for one in parts if len(one.seconds)])
    return known


def _keys(data: Sequence[Rows]) -> list[str]:
    """Kernels with type and architecture."""
    kinds = [np.char.add(np.char.add(one.implementation.astype(str), "."), one.params["dtype"].astype(str)) for one in data]
    return sorted({f"{name}@{_generation(one)}" for one, names in zip(data, kinds, strict=True) for name in np.unique(names).tolist()})


def _generation(data: Rows) -> str:
    return gemm_kernels.generation(scores.fastest(data.gpu).target)


def _is(data: Rows, name: str) -> NDArray[np.bool_]:
    source, _, dtype = name.rpartition(".")
    return np.asarray((data.implementation == source) & (data.params["dtype"] == dtype))


def _plain(data: Rows) -> Rows:
    """The same with kernels' names without their library's version."""
    return data._replace(implementation=np.array([gemm_kernels.plain(name) for name in data.implementation.tolist()], dtype=str))


def _base(data: Sequence[Rows]) -> dict[str, float]:
    pull = PULL * np.array([TIED.get(name, 1.0) for name in START])
    return _solved(data, {}, "base", START, pull)


def _refined(known: Mapping[str, Mapping[str, float]], where: str, data: Sequence[Rows]) -> dict[str, float]:
    """What differs from `base` in one architecture's kernels, drawn to `base`."""
    unused = ["warp_step_cycles" if where in ALONE else "step_cycles"] + ["reduce_share"] * (where != TWO_DIES)
    begin = {name: known["base"][name] for name in GENERATION if name not in unused}
    held = {} if where not in KNOWN_PJ else {"own_pj": KNOWN_PJ[where]}
    scale = power.energy_scale(scores.fastest(data[0].gpu), power.stored())
    begin["own_pj"] = known["base"]["operation_pj"] * scale  # at the highest voltage
    pull = dict.fromkeys(begin, PULL_GENERATION)
    if where == HELD_DOWN:
        begin["matrix_share"], pull["matrix_share"] = START["matrix_share"], 1.0
    for name in held:
        begin.pop(name), pull.pop(name)
    return {**held, **_solved(data, {**known, "base": {**known["base"], **held}}, where, begin, np.array(list(pull.values())))}


def _own(known: Mapping[str, Mapping[str, float]], key: str, data: Sequence[Rows]) -> dict[str, float]:
    name, _, where = key.partition("@")
    kernel, common, plain = gemm_kernels.kernel(name, where), {**known["base"], **known.get(where, {})}, name.endswith(".bf16")
    begin = dict(OWN_PLAIN if plain else OWN_HOST if kernel.host else OWN)
    if kernel.host:
        data = [some for one in data if len((some := one.where(tags(one) == "")).seconds)]
        if not data:
            return {}  # nothing but the host was seen
        if kernel.tiles == "choices":
            begin = {**begin, "store_bytes_per_flop": common["store_bytes_per_flop"]}
            begin.pop("feed_factor")
    elif ROWWISE in name:
        begin |= {**OWN_ROWWISE, "store_bytes_per_flop": common["store_bytes_per_flop"]}
    elif kernel.tiles == "blocks" and where in ALONE:
        begin |= OWN_SCALED
    if kernel.tiles == "blocks" and where == "sm_90":
        begin["data_factor"] = 1.0  # its clock falls first
        begin.pop("dram_factor", None)
    if not kernel.splits and not kernel.host:
        begin |= {name: common[name] for name in ("step_cycles" if where in ALONE else "warp_step_cycles",)}
    return _solved(data, known, key, begin, np.full(len(begin), PULL_PLAIN if plain else PULL))


def _host_us(data: Sequence[Rows]) -> dict[str, float]:
    """What the host needs for a call: the median of the rows that show nothing else."""
    return {"host_us": 1e6 * float(np.median(np.concatenate([one.seconds[tags(one) != ""] for one in data])))}


def _floor_s(seconds: Floats) -> float:
    """What a call takes at least where the host sets it."""
    return float(np.quantile(seconds, 0.05))


def tags(data: Rows) -> NDArray[np.str_]:
    """Rows that show what the host needs for a call, which no figure of a GPU says: of kernels that were timed without a graph, those that
    took about as long as the shortest, and those whose roofline is far below it; all rows of a kernel where nearly all are such."""
    words = np.full(len(data.seconds), "", dtype="<U40")
    if not len(words):
        return words
    least = roofline(data)
    names = np.char.add(np.char.add(data.implementation.astype(str), "."), data.params["dtype"].astype(str))
    for name in np.unique(names).tolist():
        if gemm_kernels.kernel(gemm_kernels.plain(name)).host:
            here = names == name
            host = _floor_s(data.seconds[here])
            shown = here & ((data.seconds < AT_FLOOR * host) | (FAR_BELOW * least < host))
            words[here if shown.sum() > NEARLY_ALL * here.sum() else shown] = "the host's time"
    return words


def _solved(
    data: Sequence[Rows], known: Mapping[str, Mapping[str, float]], key: str, begin: Mapping[str, float], pull: Floats,
) -> dict[str, float]:
    """Coefficients `begin` of one group, refitted."""
    start = np.log(list(begin.values()))

    def coefficients(v: Floats) -> dict[str, float]:
        return dict(zip(begin, np.exp(v).tolist(), strict=True))

    strength = pull * np.sqrt(np.mean([len(one.seconds) for one in data]))
    return coefficients(_least(lambda v: _errors(data, {**known, key: coefficients(v)}), start, strength))


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


def roofline(data: Rows) -> Floats:
    """Seconds at the published peaks, each operand and the result moved once."""
    chip, rate, size = scores.chip(data.gpu), np.zeros(len(data.seconds)), np.zeros(len(data.seconds))
    m, n, k = (data.params[name].astype(float) for name in ("m", "n", "k"))
    for dtype in np.unique(data.params["dtype"]).tolist():
        here, kind = data.params["dtype"] == dtype, "fp4" if dtype == "nvfp4" else dtype
        rate[here] = chip.flop_per_clock.get(unit_of(kind), np.nan) * chip.units * chip.clock_hz
        size[here] = STORED[kind]
    return np.asarray(np.maximum(2 * m * n * k / rate, (size * (m * k + n * k) + 2 * m * n) / chip.memory_b_s))


def main() -> None:
    """Fits the rows of all GPUs that are not held out, and stores the coefficients."""
    place = scores.folder()
    data = [rows(gpu, place) for gpu in FOLDERS]
    coefficients = fit(data)
    head = {
        "data": "aiconfigurator 2026-08: kernels/{" + ",".join(FOLDERS.values()) + "}/gemm: " + ", ".join(_collections(data)),
        "split": "held out: sha1(n,k) % 5 == 0",
        "command": "python -m research.fit gemm",
        "loss": f"soft L1 of log error, scale 0.05; {ROWS} rows of each GPU for bf16, {OWN_ROWS} of each other implementation",
    }  # fmt: skip
    about = "Matrix products. Bytes per FLOP of the bf16 unit; cycles at the highest clock; shares of the spec. See kernels/gemm_tiles.py."
    scores.store("gemm", about, head, coefficients)
    base.stored.cache_clear()
    gemm_kernels.forget()
    power.stored.cache_clear()
    print(f"{sum(len(values) for values in coefficients.values())} numbers stored")


def _collections(data: Sequence[Rows]) -> list[str]:
    """Libraries and versions."""
    return sorted({source.partition("/")[0] for one in data for source in np.unique(one.source).tolist()})


if __name__ == "__main__":
    main()
