"""Cases of a mixture of experts: what is asked, checked, and which rows reach which expert of the rank that is timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.errors import InputError, nearest
from hotlap.core.model.kernels import moe_kernels
from hotlap.core.model.kernels.base import Chip, Floats

WEIGHT_BYTES = {  # with scales
    "bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int4_wo": 0.5 + 1 / 64, "w4a16_mxfp4": 0.5 + 1 / 32, "w4a8_mxfp4_mxfp8": 0.5 + 1 / 32,
    "nvfp4": 0.5 + 1 / 16,
}  # fmt: skip
ROW_BYTES = {
    "bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int4_wo": 2.0, "w4a16_mxfp4": 2.0, "w4a8_mxfp4_mxfp8": 1 + 1 / 32, "nvfp4": 0.5 + 1 / 16,
}  # fmt: skip
UNITS = {"fp8": "matrix.fp8", "fp8_block": "matrix.fp8", "w4a8_mxfp4_mxfp8": "matrix.fp8", "nvfp4": "matrix.fp4"}  # the others: 16 bits
"""Of weights of 4 bits beside 8-bit rows, products are at the rate of 8 bits (PTX ISA: tcgen05.mma kind::mxf8f6f4)."""
DEFAULTS: Mapping[str, Any] = {"tp": 1, "ep": 1, "distribution": "balanced", "dtype": "bf16", "gated": True}
SIZES = ("tokens", "hidden", "inter", "topk", "experts")
FEW_TEXTS = 8
QUANTILES = 16  # of the loads of experts
HEAVY_POWER = 0.62  # how slowly the heaviest rank nears the mean as it holds more experts: from 400 draws of the collectors' sampler


DRAWS = 5  # routings one after another in a measurement of a power law (aiconfigurator's collectors); balanced: one, again and again
GROUPS, KEPT = 8, 4  # of DeepSeek-V3's gate (config.json: n_group, topk_group)
DEEPSEEK = {"hidden": 7168, "inter": 2048, "topk": 8, "experts": 256}  # its sizes


class Routed(NamedTuple):
    """Where the rows go. Arrays of one entry per case, `loads` of quantiles × cases."""

    loads: Floats  # rows of a local expert
    local: Floats  # local experts
    touched: Floats  # of which have a row
    rows: Floats  # of this rank's experts
    remote: Floats  # rows of others that are multiplied all the same
    between: Floats  # experts that are used until the same routing comes again
    here: Floats  # tokens with an expert of this rank
    passed: Floats  # rows that activation and sum go over


# ---------------------------------------------------------------- cases


def read(params: Mapping[str, ArrayLike], implementation: str | ArrayLike, target: str = "") -> dict[str, NDArray[Any]]:
    """Arrays of one entry per case of all that is asked, and what follows from it alone. Raises InputError."""
    valid = (*SIZES, *DEFAULTS)
    for name in params:
        if name not in valid:
            raise InputError(f"moe has no parameter '{name}'; {nearest(name, valid)}")
    for name in SIZES:
        if name not in params:
            raise InputError(f"moe needs '{name}'")
    given = {**DEFAULTS, **params, "implementation": implementation}
    arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(value)) for value in given.values()))
    cases = {name: np.ravel(array) for name, array in zip(given, arrays, strict=True)}
    for name in (*SIZES, "tp", "ep"):
        cases[name] = _counts(name, cases[name])
    for name in ("dtype", "distribution", "implementation"):
        cases[name] = cases[name].astype(str)
    for one in set(cases["dtype"].tolist()) - set(WEIGHT_BYTES):
        raise InputError(f"moe has no dtype '{one}'; {nearest(one, WEIGHT_BYTES)}")
    cases["alpha"] = _alphas(cases["distribution"])
    cases["gates"] = np.where(cases["gated"].astype(bool), 2.0, 1.0)
    _possible(cases)
    cases["width"] = np.ceil(cases["inter"] / cases["tp"])
    cases |= {"weight": _by(cases["dtype"], WEIGHT_BYTES), "item": _by(cases["dtype"], ROW_BYTES)}
    return cases | _traits(cases, target)


def _traits(cases: Mapping[str, NDArray[Any]], target: str) -> dict[str, NDArray[Any]]:
    """What the kernel of each case does its own way."""
    names, which = codes(cases["implementation"])
    if "" in names:
        usual = _by(cases["dtype"], {dtype: moe_kernels.USUAL.get(dtype, "") for dtype in WEIGHT_BYTES})
        names, which = codes(np.where(cases["implementation"] == "", usual, cases["implementation"]))
    each = [moe_kernels.find(name, target) for name in names]
    kernels = [entry.kernel for entry in each]
    traits = {name: np.array([getattr(kernel, name) for kernel in kernels])[which] for name in moe_kernels.TRAITS}
    traits |= {"known": np.array([entry.known for entry in each])[which], "noted": np.array([entry.note for entry in each])[which]}
    deepseek = np.logical_and.reduce([cases[name] == size for name, size in DEEPSEEK.items()])
    gate = traits.pop("gate")
    types, of_type = codes(cases["dtype"])
    slower = np.array([[kernel.slower.get(dtype, 1.0) for dtype in types] for kernel in kernels])
    traits["slower"] = slower[which, of_type] if len(which) else np.zeros(0)
    meet = (cases["topk"] > KEPT) & (cases["alpha"] == 0) | (cases["experts"] < 2 * GROUPS)
    traits["grouped"] = meet & ((gate == "always") | ((gate == "deepseek") & deepseek))
    return traits


def codes(values: NDArray[np.str_]) -> tuple[list[str], NDArray[np.int_]]:
    """Distinct strings, and which of them each is; some ten times quicker than NumPy's `unique`, which sorts."""
    names, which, left = list[str](), np.full(len(values), -1), np.arange(len(values))
    while len(left) and len(names) < FEW_TEXTS:  # comparing whole arrays is quickest where there are few
        same = values[left] == values[left[0]]
        which[left[same]] = len(names)
        names.append(str(values[left[0]]))
        left = left[~same]
    rest = values[left].tolist()
    more = {name: len(names) + i for i, name in enumerate(dict.fromkeys(rest))}
    which[left] = [more[text] for text in rest]
    return [*names, *more], which


def _by(keys: NDArray[np.str_], values: Mapping[str, Any]) -> NDArray[Any]:
    names, which = codes(keys)
    return np.array([values[name] for name in names])[which]


def _counts(name: str, values: NDArray[Any]) -> Floats:
    try:
        found: Floats = values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"'{name}' must be a number", about="moe: ") from None
    if not np.all((found >= 1) & (found < 1e9) & (found == np.floor(found))):
        raise InputError(f"'{name}' must be a whole number from 1 to 1e9", about="moe: ")
    return found


def _alphas(names: NDArray[np.str_]) -> Floats:
    """Exponents of the power laws; 0 where balanced."""
    kinds, which = codes(names)
    try:
        found = [0.0 if kind == "balanced" else float(kind.removeprefix("power_law_")) for kind in kinds]
    except ValueError:
        raise InputError(f"'distribution' is balanced or power_law_ and a number, not {kinds}", about="moe: ") from None
    if not all(one == 0.0 or 0.1 <= one <= 10 for one in found):
        raise InputError("the exponent of 'distribution' must be from 0.1 to 10", about="moe: ")
    return np.array([1.0001 if one == 1.0 else one for one in found])[which]


def _possible(cases: Mapping[str, NDArray[Any]]) -> None:
    if np.any(cases["topk"] > cases["experts"]):
        raise InputError("'topk' cannot exceed 'experts'", about="moe: ")
    if np.any(cases["experts"] % cases["ep"]):
        raise InputError("'experts' must be a multiple of 'ep'", about="moe: ")


def flop_per_clock(dtype: NDArray[np.str_], chip: Chip) -> Floats:
    """Of one unit, in the type that is multiplied: weights of 4 bits are widened first. Raises InputError."""
    rates, wide = chip.flop_per_clock, "matrix.bf16" if "matrix.bf16" in chip.flop_per_clock else "matrix.fp16"
    needed = {one: UNITS.get(one, wide) for one in codes(dtype)[0]}
    for one, unit in needed.items():
        if unit not in rates:
            raise InputError(f"this machine has no {unit} for dtype '{one}'; it has {', '.join(sorted(rates))}", about="moe: ")
    return _by(dtype, {one: rates[unit] for one, unit in needed.items()})


# ---------------------------------------------------------------- routing


def route(cases: Mapping[str, NDArray[Any]]) -> Routed:
    """Rows of the rank that is timed."""
    tokens, topk, ep = cases["tokens"], cases["topk"], cases["ep"]
    local, mean, even = cases["experts"] / ep, tokens * topk / cases["experts"], cases["alpha"] == 0
    loads = np.broadcast_to(mean, (QUANTILES, len(mean)))
    if not even.all():
        loads = np.where(even, loads, _skewed(cases, local, mean))
    if cases["grouped"].any():
        loads = np.where(cases["grouped"], _grouped(cases, local), loads)
    rows = np.maximum(loads.mean(axis=0) * local, np.where(even, 1.0, 0.5))  # the collectors send every rank something
    touched = np.maximum(np.minimum(loads, 1.0).mean(axis=0) * local, 1.0)
    here = tokens * np.minimum(1.0, topk * rows / (tokens * topk))  # tokens with an expert here
    remote = np.where(ep > 1, cases["remote"] * np.maximum(here * topk - rows, 0.0), 0.0)
    passed = np.where(cases["all_rows"], tokens * topk, rows + remote)
    between = np.where(even, touched, local * (1.0 - np.maximum(1.0 - touched / local, 0.0) ** DRAWS))
    return Routed(loads, local, touched, rows, remote, between, here, passed)


def _skewed(cases: Mapping[str, NDArray[Any]], local: Floats, mean: Floats) -> Floats:
    """Loads of the heaviest rank's experts, ascending: the upper part of the power law, as large as the number of experts says."""
    exponent = 1.0 - np.where(cases["alpha"] == 0, 2.0, cases["alpha"])
    few = cases["tokens"] * cases["topk"] <= cases["experts"]
    low, high = np.where(few, 0.01, 1.0) ** exponent, np.where(few, 2.0, np.maximum(0.8 * cases["tokens"], 1.01)) ** exponent
    at = ((np.arange(QUANTILES) + 0.5) / QUANTILES)[:, None]
    part = cases["ep"] ** (-1.0 / local**HEAVY_POWER)
    whole = (((high - low) * at + low) ** (1.0 / exponent)).mean(axis=0)
    loads = ((high - low) * (1.0 - (1.0 - at) * part) + low) ** (1.0 / exponent) / whole * mean
    capped = np.minimum(loads, cases["tokens"])  # an expert takes a token once: the rest goes to those with least
    least = (((loads - capped).sum(axis=0) + np.cumsum(capped, axis=0)) / np.arange(1, QUANTILES + 1)[:, None]).min(axis=0)
    filled = np.minimum(np.maximum(capped, least), cases["tokens"])
    whole_rows = np.floor(filled + 0.5)  # experts that round to none get what rounding took away, a row each
    none = (whole_rows < 1.0).mean(axis=0)
    lost = np.maximum(filled.mean(axis=0) - np.maximum(whole_rows, 0.0).mean(axis=0), 0.0)
    found: Floats = np.where(whole_rows < 1.0, np.minimum(lost / np.maximum(none, 1e-9), 1.0), filled)
    return found


def _grouped(cases: Mapping[str, NDArray[Any]], local: Floats) -> Floats:
    """Loads under a gate that keeps 4 of 8 groups, of balanced choices, which are one expert of each group: ties keep the first groups, and
    the first experts of all stand in for the choices that are lost."""
    tokens, topk, experts = cases["tokens"], cases["topk"], cases["experts"]
    at = np.arange(QUANTILES)[:, None] / QUANTILES
    lost = np.where(experts < 2 * GROUPS, topk, topk * (1.0 - KEPT / GROUPS))
    near = np.minimum(local, np.where(experts < 2 * GROUPS, 0.0, experts * KEPT / GROUPS)) / local  # share of local experts that are kept
    kept = np.where(1.0 - at <= near + 1e-9, tokens * (topk - lost) / (experts * KEPT / GROUPS), 0.0)
    first = np.maximum(np.round(QUANTILES * lost / local), 1.0) / QUANTILES
    found: Floats = kept + np.where(1.0 - at <= first + 1e-9, tokens * lost / local / first, 0.0)
    return found
