"""How right attention's model is: the cells of the accuracy table, beside the floor, two formulas and a nearest-neighbour table."""

from __future__ import annotations

import datetime
import importlib.resources
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.model.kernels.attention import Cases, matrix_rate, read, seen
from hotlap.core.model.kernels.attention_library import LibraryFamily
from hotlap.core.model.kernels.base import Coefficients, Floats
from research.fit import attention, scores
from research.fit.attention import SHORT_S, Priors
from research.fit.data import FOLDERS, Rows, root
from research.fit.scores import Score

A100, H100, H200 = "a100-sxm-80gb", "h100-sxm", "h200-sxm"
# Two collections of the same GEMM shapes differ by this much (models.md, section 2: mean |difference|); attention has no such pair,
# and on H200 vLLM 0.22 and 0.24 differ by about 25 % (section 3, "Using AIC correctly").
FLOOR = {A100: 0.056, H100: 0.044, H200: 0.25}
DATA = (
    "ai-dynamo/aiconfigurator (Apache-2.0): A100 SXM, sglang 0.5.10, vllm 0.14.0; H100 SXM, trtllm 1.3.0rc20, vllm 0.24.0; H200 SXM, vllm "
    "0.22.0; B200, sglang 0.5.14, trtllm 1.3.0rc20, vllm 0.22.0; L40S, trtllm 1.3.0rc20, vllm 0.24.0"
)
LONG = "> 20 µs"  # what the targets count
EXCLUDED = "vLLM FA4 (head dimension 512) with one new token is left out: a kernel pathology, 0.1 to 5 % of the memory bandwidth"


def table(family: LibraryFamily, priors: Priors, place: Path, coefficients: Coefficients | None = None) -> list[Score]:
    """All cells. Each is predicted with coefficients that saw no row of it; `coefficients`: those of A100 + H100, if at hand."""
    a100, h100, h200 = (_read(family, gpu, place) for gpu in (A100, H100, H200))
    both = coefficients or attention.fit(family, priors, [a100, h100])
    fresh = h100.where(h100.held)
    train = [r.where(~r.held) for r in (a100, h100)]
    cells: list[tuple[str, Rows, Coefficients, Sequence[Rows]]] = [
        ("H100 held-out", fresh, both, train),
        ("A100 held-out", a100.where(a100.held), both, train),
        ("H200 from A100+H100", h200, both, train),
        ("H200, cache written", _written(h200), both, train),
        ("A100 → H100", h100, attention.fit(family, priors, [a100]), train[:1]),
        ("H100 → A100", a100, attention.fit(family, priors, [h100]), train[1:]),
    ]
    return [one for cell, rows, k, known in cells for one in _scores(family, cell, rows, k, known)]


def _read(family: LibraryFamily, gpu: str, place: Path) -> Rows:
    rows = attention.rows(gpu, place, family.phase)
    return rows.where(attention.modelled(rows, family))


def _written(r: Rows) -> Rows:
    """The same calls, taken to write the cache as the fitted ones do. That H200's do not was seen on its rows, and only then in the
    source of the collector and of vLLM (`attention.rows`): this is the figure without that knowledge."""
    return r._replace(params={**r.params, "cache_write": np.ones(len(r.seconds))})


def _scores(family: LibraryFamily, cell: str, r: Rows, k: Coefficients, train: Sequence[Rows]) -> Iterator[Score]:
    sol = roofline(read(r.params, family.phase), r.gpu)
    ours = attention.predicted(family, r, k)
    simple = {"roofline": sol, "SOL/0.8 + 3 µs": sol / 0.8 + 3e-6, "nearest row": nearest(family, r, train)}
    for implementation in np.unique(r.implementation):
        own = r.implementation == implementation
        for regime, mask in regimes(family.phase, r):
            here = own & mask
            if here.any():
                part = f"{implementation} {regime}"
                yield scores.score(cell, part, "model", ours[here], r.seconds[here])
                if regime == LONG:
                    yield from (scores.score(cell, part, way, guess[here], r.seconds[here]) for way, guess in simple.items())


def regimes(phase: str, r: Rows) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """By time, and what is longer by rows of the products: new tokens in prefill, sequences in decode."""
    long, m = r.seconds > SHORT_S, r.params["query" if phase == "prefill" else "batch"]
    yield "≤ 20 µs", ~long
    yield LONG, long
    yield "> 20 µs, M ≤ 64", long & (m <= 64)
    yield "> 20 µs, M to 1k", long & (m > 64) & (m <= 1024)
    yield "> 20 µs, M > 1k", long & (m > 1024)
    yield "1 to 10 ms", (r.seconds > 1e-3) & (r.seconds <= 10e-3)
    yield "> 10 ms", r.seconds > 10e-3


# ---------------------------------------------------------------- what it is compared with


def roofline(c: Cases, gpu: str) -> Floats:
    """The published peaks with compulsory work and bytes, nothing cached."""
    chip = attention.chip(gpu)
    flop = 2 * c.batch * c.heads * c.query * seen(c) * c.width
    keys = c.batch * c.kv_heads * np.minimum(c.kv, c.window + c.query - 1)
    moved = c.batch * c.query * c.heads * c.width * 2 + keys * c.row_elements * c.kv_bytes
    return np.maximum(flop / (matrix_rate(chip, c.low) * chip.units * chip.clock_max_hz), moved / chip.memory_b_s)


def nearest(family: LibraryFamily, r: Rows, train: Sequence[Rows]) -> Floats:
    """The nearest training row's time × the two rooflines' ratio; of the same implementation where it was measured."""
    from scipy.spatial import cKDTree

    out = np.empty(len(r.seconds))
    points, shares = [_place(t) for t in train], [t.seconds / roofline(read(t.params, family.phase), t.gpu) for t in train]
    own, sol = _place(r), roofline(read(r.params, family.phase), r.gpu)
    for implementation in np.unique(r.implementation):
        same = [t.implementation == implementation for t in train]
        if not any(mask.any() for mask in same):
            same = [np.ones(len(t.seconds), dtype=bool) for t in train]
        tree = cKDTree(np.concatenate([p[m] for p, m in zip(points, same, strict=True)]))
        share = np.concatenate([s[m] for s, m in zip(shares, same, strict=True)])
        mask = r.implementation == implementation
        out[mask] = share[tree.query(own[mask])[1]] * sol[mask]
    return out


def _place(r: Rows) -> Floats:
    sizes = [np.log2(1.0 + r.params[n].astype(float)) for n in ("batch", "query", "kv", "heads", "kv_heads", "head_dim", "window")]
    kinds = [4.0 * (r.params[n] == "fp8") for n in ("dtype", "kv_dtype")]
    return np.column_stack([*sizes, *kinds])


# ---------------------------------------------------------------- the command


def main(family: LibraryFamily, priors: Priors) -> None:
    """Fits the rows that are not held out, keeps the coefficients and prints how far off the held-out ones are: `… [folder]`."""
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else root()
    if place is None or not place.is_dir():
        raise InputError("there are no measurements: name their folder, or set HOTLAP_SHARED")
    data = [attention.rows(gpu, place, family.phase) for gpu in FOLDERS]
    fitted = attention.fit(family, priors, data)
    target = Path(str(importlib.resources.files("hotlap.core.model"))) / "coefficients" / f"{family.phase}.toml"
    target.write_text(toml(family.phase, fitted), encoding="utf-8")
    print(f"{sum(len(k) for k in fitted.values())} coefficients for {', '.join(fitted)}")
    for rows in data:
        off = np.abs(attention.predicted(family, rows, fitted) / rows.seconds - 1)
        counted = rows.held & (rows.seconds > SHORT_S) & attention.modelled(rows, family)
        lines = [f"{source} {100 * off[counted & (rows.source == source)].mean():.1f}" for source in np.unique(rows.source[counted])]
        print(f"{rows.gpu}, held-out rows {LONG}, mean absolute error, %: {'; '.join(lines)}")
    print(f"{EXCLUDED}. Rows that no coefficient has seen: python -m research.accuracy {family.phase}")


def toml(phase: str, fitted: Coefficients) -> str:
    lines = [
        "# Fitted; the same for every GPU. Names end in their unit; without one they are ratios or exponents. A call has the family's",
        f'# ("default"), then its library\'s, then its kernel\'s: hotlap.core.model.kernels.{phase} and attention_choice name them.',
        "",
        "[fit]",
        f'data = "{DATA}"',
        'split = "held out: sha1(heads,kv_heads,head_dim) % 5 == 0"',
        f'date = "{datetime.date.today().isoformat()}"',
        f'command = "python -m research.fit.{phase}"',
    ]
    for kernel, values in fitted.items():
        lines += ["", f"[kernel.{kernel}]", *(f"{name} = {value!r}" for name, value in values.items())]
    return "\n".join(lines) + "\n"
