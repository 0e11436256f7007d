"""Attention: its roofline, and the command that fits a phase, stores its coefficients and prints how far off the held-out rows are."""

from __future__ import annotations

import datetime
import importlib.resources
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.model.kernels.attention import Cases, matrix_rate, read, seen
from hotlap.core.model.kernels.attention_library import LibraryFamily
from hotlap.core.model.kernels.base import Coefficients, Floats
from research.fit import attention
from research.fit.attention import SHORT_S, Priors
from research.fit.data import FOLDERS, Rows, root

# Two collections of the same GEMM shapes differ by this much (models.md, section 2: mean |difference|); attention has no such pair,
# and on H200 vLLM 0.22 and 0.24 differ by about 25 % (section 3, "Using AIC correctly").
DATA = (
    "ai-dynamo/aiconfigurator (Apache-2.0): A100 SXM, sglang 0.5.10, vllm 0.14.0; H100 SXM, trtllm 1.3.0rc20, vllm 0.24.0; H200 SXM, vllm "
    "0.22.0; B200, sglang 0.5.14, trtllm 1.3.0rc20, vllm 0.22.0; L40S, trtllm 1.3.0rc20, vllm 0.24.0"
)
LONG = "> 20 µs"  # what the targets count
EXCLUDED = "vLLM FA4 (head dimension 512) with one new token is left out: a kernel pathology, 0.1 to 5 % of the memory bandwidth"


# ---------------------------------------------------------------- what it is compared with


def roofline(c: Cases, gpu: str) -> Floats:
    """The published peaks with compulsory work and bytes, nothing cached."""
    chip = attention.chip(gpu)
    flop = 2 * c.batch * c.heads * c.query * seen(c) * c.width
    keys = c.batch * c.kv_heads * np.minimum(c.kv, c.window + c.query - 1)
    moved = c.batch * c.query * c.heads * c.width * 2 + keys * c.row_elements * c.kv_bytes
    return np.maximum(flop / (matrix_rate(chip, c.low) * chip.units * chip.clock_max_hz), moved / chip.memory_b_s)


class Fit(NamedTuple):
    """A phase as the other families' modules are: what `research.accuracy` asks of each."""

    family: LibraryFamily
    priors: Priors

    def rows(self, gpu: str, place: Path) -> Rows:
        """Measured on a machine."""
        return attention.rows(gpu, place, self.family.phase)

    def fit(self, data: Sequence[Rows]) -> dict[str, dict[str, float]]:
        """Coefficients of rows that are not held out."""
        return attention.fit(self.family, self.priors, data)

    def predicted(self, data: Rows, coefficients: Coefficients) -> Floats:
        """Expected seconds of measured rows."""
        return attention.predicted(self.family, data, coefficients)

    def tags(self, data: Rows) -> NDArray[np.str_]:
        """Why a row is in no cell."""
        return attention.tags(data, self.family)

    def roofline(self, data: Rows) -> Floats:
        """Seconds at the published peaks, nothing cached."""
        return roofline(read(data.params, self.family.phase), data.gpu)


# ---------------------------------------------------------------- the command


def main(own: Fit) -> None:
    """Fits the rows that are not held out, keeps the coefficients and prints how far off the held-out ones are: `… [folder]`."""
    family = own.family
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else root()
    if place is None or not place.is_dir():
        raise InputError("there are no measurements: name their folder, or set HOTLAP_SHARED")
    data = [own.rows(gpu, place) for gpu in FOLDERS]
    fitted = own.fit(data)
    target = Path(str(importlib.resources.files("hotlap.core.model"))) / "coefficients" / f"{family.phase}.toml"
    target.write_text(toml(family.phase, fitted), encoding="utf-8")
    print(f"{sum(len(k) for k in fitted.values())} coefficients for {', '.join(fitted)}")
    for rows in data:
        off = np.abs(own.predicted(rows, fitted) / rows.seconds - 1)
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
