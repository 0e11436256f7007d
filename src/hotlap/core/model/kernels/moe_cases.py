"""Cases of a mixture of experts: what is asked, checked, and which rows reach which expert of the rank that is timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.errors import InputError, nearest
from hotlap.core.model.kernels.base import Chip, Floats

WEIGHT_BYTES = {"bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int4_wo": 0.5 + 1 / 64, "w4a16_mxfp4": 0.5 + 1 / 32}  # with scales
ROW_BYTES = {"bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int4_wo": 2.0, "w4a16_mxfp4": 2.0}
DEFAULTS: Mapping[str, Any] = {"tp": 1, "ep": 1, "distribution": "balanced", "dtype": "bf16", "gated": True}
SIZES = ("tokens", "hidden", "inter", "topk", "experts")
QUANTILES = 16  # of the loads of experts
HEAVY_POWER = 0.62  # how slowly the heaviest rank nears the mean as it holds more experts: from 400 draws of the collectors' sampler


class Routed(NamedTuple):
    """Where the rows go. Arrays of one entry per case, `loads` of quantiles × cases."""

    loads: Floats  # rows of a local expert
    local: Floats  # local experts
    touched: Floats  # of which have a row
    rows: Floats  # of this rank's experts
    remote: Floats  # rows of others that are multiplied all the same
    passed: Floats  # rows that activation and sum go over


def kind(implementation: str) -> str:
    """The family of an implementation, by the words in its name."""
    name = implementation.lower()
    words = {"marlin": "marlin", "flashinfer": "flashinfer", "torch_flow": "trtllm", "trtllm": "trtllm"}
    return next((kind for word, kind in words.items() if word in name), "triton")


# ---------------------------------------------------------------- cases


def read(params: Mapping[str, ArrayLike], implementation: str | ArrayLike) -> dict[str, NDArray[Any]]:
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
    names, which = codes(cases["implementation"])
    cases["sglang"] = np.array([name.startswith("sglang") for name in names])[which]
    cases["untuned"] = np.array([name == "sglang_fused_moe_triton" for name in names])[which]
    cases["triton"] = np.array([kind(name) == "triton" for name in names])[which]
    return cases


def codes(values: NDArray[np.str_]) -> tuple[list[str], NDArray[np.int_]]:
    """Distinct strings, and which of them each is; some ten times quicker than NumPy's `unique`, which sorts."""
    texts = values.tolist()
    names = {name: i for i, name in enumerate(dict.fromkeys(texts))}
    return list(names), np.array([names[text] for text in texts])


def _by(keys: NDArray[np.str_], values: Mapping[str, float]) -> Floats:
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
    needed = {one: "matrix.fp8" if one.startswith("fp8") else wide for one in set(dtype.tolist())}
    for one, unit in needed.items():
        if unit not in rates:
            raise InputError(f"this machine has no {unit} for dtype '{one}'; it has {', '.join(sorted(rates))}", about="moe: ")
    return _by(dtype, {one: rates[unit] for one, unit in needed.items()})


# ---------------------------------------------------------------- routing


def route(cases: Mapping[str, NDArray[Any]]) -> Routed:
    """Rows of the rank that is timed."""
    tokens, topk, ep = cases["tokens"], cases["topk"], cases["ep"]
    local, mean = cases["experts"] / ep, tokens * topk / cases["experts"]
    loads = np.where(cases["alpha"] == 0, mean, _skewed(cases, local, mean))
    balanced_least = np.where(cases["alpha"] == 0, 1.0, 0.5)  # the collectors send every rank something
    rows = np.maximum(loads.mean(axis=0) * local, balanced_least)
    touched = np.maximum(np.minimum(loads, 1.0).mean(axis=0) * local, 1.0)
    here = tokens * np.minimum(1.0, topk * rows / (tokens * topk))  # tokens with an expert here
    remote = np.where(cases["sglang"] & (ep > 1), np.maximum(here * topk - rows, 0.0), 0.0)
    passed = np.where(cases["sglang"] | ~cases["triton"], rows + remote, tokens * topk)
    return Routed(loads, local, touched, rows, remote, passed)


def _skewed(cases: Mapping[str, NDArray[Any]], local: Floats, mean: Floats) -> Floats:
    """Loads of the heaviest rank's experts: the upper part of the power law, as large as the number of experts says."""
    exponent = 1.0 - np.where(cases["alpha"] == 0, 2.0, cases["alpha"])
    few = cases["tokens"] * cases["topk"] <= cases["experts"]
    low, high = np.where(few, 0.01, 1.0) ** exponent, np.where(few, 2.0, np.maximum(0.8 * cases["tokens"], 1.01)) ** exponent
    at = ((np.arange(QUANTILES) + 0.5) / QUANTILES)[:, None]
    part = cases["ep"] ** (-1.0 / local**HEAVY_POWER)
    whole = (((high - low) * at + low) ** (1.0 / exponent)).mean(axis=0)
    loads = ((high - low) * (1.0 - (1.0 - at) * part) + low) ** (1.0 / exponent) / whole * mean
    for _ in range(3):  # an expert takes a token once: the rest goes to the others
        capped = np.minimum(loads, cases["tokens"])
        loads = np.minimum(capped * np.maximum(loads.mean(axis=0) / capped.mean(axis=0), 1.0), cases["tokens"])
    found: Floats = loads
    return found
