"""Fitting attention's coefficients: measured rows, one pooled fit for all kernels, then each kernel drawn from the pool.

Loss: the logarithm of predicted ÷ measured, smooth between squared and absolute (5 %), rows of 20 µs and less at 0.4; each
coefficient is held near its prior (spread as given), so that what the rows do not show keeps the value that physics suggests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels import attention_library
from hotlap.core.model.kernels.attention import Cases, read
from hotlap.core.model.kernels.attention_library import LibraryFamily
from hotlap.core.model.kernels.base import Chip, Coefficients, Floats
from research.fit import data as measured_data
from research.fit import scores
from research.fit.data import FOLDERS, Rows

FILES = {"prefill": "context_attention_perf.parquet", "decode": "generation_attention_perf.parquet"}
COLUMNS = {"batch": "batch_size", "query": "isl", "heads": "num_heads", "kv_heads": "num_key_value_heads", "head_dim": "head_dim"}
CACHE_APART = (0, 16)  # the version of vLLM since which attention does not write the cache
SHORT_S, SHORT_WEIGHT = 20e-6, 0.4  # the target counts what is longer
SOFT = 0.05  # of the logarithm, where the loss turns from squared to absolute
HOLD, HOLD_POOLED = 0.01, 0.03  # of a row's residual, for each spread that a coefficient is away from its prior
SAMPLE = 6000  # rows of one fit


class Prior(NamedTuple):
    """Where a coefficient starts and how far it may go: as a factor (`log`) or as a difference."""

    value: float
    spread: float
    log: bool = True
    low: float = -np.inf
    high: float = np.inf


Priors = Mapping[str, Prior]


class Part(NamedTuple):
    """Rows of one kernel on one machine, ready to be predicted."""

    kernel: str
    chip: Chip
    cases: Cases
    seconds: Floats
    weight: Floats


# ---------------------------------------------------------------- rows and machines


def chip(slug: str) -> Chip:
    """The machine table's figures at its highest clock; burst measurements, power not considered."""
    return scores.fastest(slug)


def rows(gpu: str, root: Path, phase: str) -> Rows:
    """All measured calls of one machine. `kv`: keys of one sequence, the new tokens included."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted((root / FOLDERS[gpu] / "attention").glob(f"**/{FILES[phase]}"))
    tables = [pq.read_table(file) for file in files]
    one = {n for table in tables for n in table.column_names}
    data = {name: _column(name, tables, pa) for name in one}
    params: dict[str, NDArray[Any]] = {ours: data[theirs] for ours, theirs in COLUMNS.items()}
    params["kv"] = data["step"] + 1 if phase == "decode" else params["query"]
    params["window"] = np.nan_to_num(data.get("window_size", np.zeros(len(params["kv"]))))
    params["dtype"], params["kv_dtype"] = data["attn_dtype"].astype(str), data["kv_cache_dtype"].astype(str)
    names = np.char.add(np.char.add(np.char.lower(data["framework"].astype(str)), " "), data["kernel_source"].astype(str))
    params["cache_write"] = writes(data["framework"].astype(str), data["kernel_source"].astype(str), data["version"].astype(str))
    power = data.get("power", np.full(len(names), np.nan)).astype(float)
    version, kernel = (data[name].astype(str) for name in ("version", "kernel_source"))
    published = [f"{a.lower()} {b}/{c}" for a, b, c in zip(data["framework"].tolist(), version.tolist(), kernel.tolist(), strict=True)]
    groups = measured_data.keys(params, ("heads", "kv_heads", "head_dim"))
    return Rows(gpu, params, data["latency"] * 1e-3, power, names, *measured_data.split(groups), np.array(published))


def writes(framework: NDArray[np.str_], source: NDArray[np.str_], version: NDArray[np.str_]) -> Floats:
    """Whether the timed call writes the new keys and values. vLLM took that out of FlashAttention's `forward` (vllm-project/vllm#25954, in
    0.16). aiconfigurator's `collector/vllm/collect_attn.py` went on timing `forward` alone while it called the kernel
    "vllm_flash_attn" (commit 15cb360f); the later one, which says "vllm_flash_attn_fa3", times `do_kv_cache_update` before it."""
    apart = np.array([tuple(map(int, v.split(".")[:2])) >= CACHE_APART if f.lower() == "vllm" else False
                      for f, v in zip(framework.tolist(), version.tolist(), strict=True)], dtype=bool)  # fmt: skip
    return np.where(apart & (source == "vllm_flash_attn"), 0.0, 1.0)


def _column(name: str, tables: Sequence[Any], pa: Any) -> NDArray[Any]:
    return np.concatenate(
        [t.column(name).to_numpy(zero_copy_only=False) if name in t.column_names else np.full(t.num_rows, np.nan) for t in tables]
    )


def modelled(r: Rows, family: LibraryFamily) -> NDArray[np.bool_]:
    """Not the calls that are excluded by name."""
    c = read(r.params, family.phase)
    return ~attention_library.excluded(attention_library.choose(r.implementation, c, chip(r.gpu), family.phase), c)


# ---------------------------------------------------------------- the fit


def fit(family: LibraryFamily, priors: Priors, data: Sequence[Rows]) -> dict[str, dict[str, float]]:
    """Coefficients by kernel from the rows that are not held out, "default" pooled over all of them. Deterministic."""
    parts = list(_parts(family, data))
    kernels = sorted({part.kernel for part in parts})
    each = SAMPLE * 2 // len(kernels)
    pooled = _solve(family, priors, [_sampled(p, each, parts) for p in parts], HOLD_POOLED)
    found = {"default": pooled}
    for kernel in kernels:
        own = [p for p in parts if p.kernel == kernel]
        found[kernel] = _solve(family, priors, [_sampled(p, SAMPLE, own) for p in own], HOLD)
    return {kernel: {name: float(f"{value:.4g}") for name, value in values.items()} for kernel, values in found.items()}


def _parts(family: LibraryFamily, data: Sequence[Rows]) -> Iterator[Part]:
    for r in data:
        train = r.where(~r.held & modelled(r, family))
        cases, machine = read(train.params, family.phase), chip(r.gpu)
        kernels = attention_library.choose(train.implementation, cases, machine, family.phase)
        weight = np.where(train.seconds > SHORT_S, 1.0, SHORT_WEIGHT)
        for kernel in np.unique(kernels):
            mask = kernels == kernel
            yield Part(str(kernel), machine, cases.where(mask), train.seconds[mask], weight[mask])


def _sampled(part: Part, most: int, among: Sequence[Part]) -> Part:
    """Every so many rows, in an order that has nothing to do with their sizes, so that the kernel has `most` over all machines."""
    total = sum(len(p.seconds) for p in among if p.kernel == part.kernel)
    keep = min(len(part.seconds), most * len(part.seconds) // total)
    pick = np.sort(np.random.default_rng(0).permutation(len(part.seconds))[:keep])
    mask = np.zeros(len(part.seconds), dtype=bool)
    mask[pick] = True
    return part._replace(cases=part.cases.where(mask), seconds=part.seconds[mask], weight=part.weight[mask])


def _solve(family: LibraryFamily, priors: Priors, parts: Sequence[Part], held_by: float) -> dict[str, float]:
    from scipy.optimize import least_squares

    names = list(priors)
    centre = np.array([_coded(priors[n], priors[n].value) for n in names])
    spread = np.array([priors[n].spread for n in names])
    hold = held_by * np.sqrt(sum(len(p.seconds) for p in parts))

    def residuals(x: Floats) -> Floats:
        k = _decoded(priors, names, x)
        off = [p.weight * (np.log(_seconds(family, p, k)) - np.log(p.seconds)) for p in parts]
        return np.concatenate([*(_softened(r) for r in off), hold * (x - centre) / spread])

    return _decoded(priors, names, least_squares(residuals, centre, max_nfev=60).x)


def _softened(off: Floats) -> Floats:
    """Whose square is the loss: squared up to SOFT, absolute beyond."""
    return np.asarray(np.sign(off) * SOFT * np.sqrt(2 * (np.sqrt(1 + (off / SOFT) ** 2) - 1)))


def _seconds(family: LibraryFamily, part: Part, k: Mapping[str, float]) -> Floats:
    traits = family.kernels.get(part.kernel, family.kernels["default"])
    return np.asarray(sum(family.plan(part.cases, part.chip, traits, k).parts.values()))


def _coded(prior: Prior, value: float) -> float:
    return float(np.log(value)) if prior.log else value


def _decoded(priors: Priors, names: Sequence[str], x: Floats) -> dict[str, float]:
    values = {n: float(np.exp(min(v, 60.0))) if priors[n].log else float(v) for n, v in zip(names, x, strict=True)}
    return {n: float(np.clip(v, priors[n].low, priors[n].high)) for n, v in values.items()}


def predicted(family: LibraryFamily, r: Rows, coefficients: Coefficients) -> Floats:
    """Expected seconds of measured rows."""
    return attention_library.estimate(family, r.params, chip(r.gpu), r.implementation, coefficients).seconds
