"""Stated 90 % intervals of each family, from what the model missed: on rows that are not held out, and scored on those that are.

Levels of knowledge: machines that were fitted (A100, H100), another machine of a fitted architecture (H200), and a machine of
another architecture (A100 by coefficients of H100 alone, and the other way round). Of matrix products a fourth: the last with one sweep on
the machine, whose rows are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model import intervals
from hotlap.core.model.intervals import EDGES_S, REGIMES
from hotlap.core.model.kernels import collective as collective_kernels
from hotlap.core.model.kernels import decode as decode_kernels
from hotlap.core.model.kernels import gemm as gemm_kernels
from hotlap.core.model.kernels import moe as moe_kernels
from hotlap.core.model.kernels import prefill as prefill_kernels
from research.fit import collective, decode, gemm, moe, prefill, scores, sweep
from research.fit.data import Rows

COVERAGE = 0.9  # of the intervals that are learnt

Floats = NDArray[np.float64]
FAMILIES: Mapping[str, tuple[ModuleType, ModuleType]] = {
    "gemm": (gemm, gemm_kernels), "prefill": (prefill, prefill_kernels), "decode": (decode, decode_kernels), "moe": (moe, moe_kernels),
    "collective": (collective, collective_kernels),
}  # fmt: skip
A100, H100, H200 = "a100-sxm-80gb", "h100-sxm", "h200-sxm"
FEWEST = 300  # rows of a regime, below which it takes the whole family's
HOLDS, WIDEST = (0.87, 0.93), 2.5  # what is asked of a 90 % interval, and of its half-width against the mean error
TAKEN = 8000  # rows of each machine


class Missed(NamedTuple):
    """Rows of one family at one level of knowledge: expected and measured."""

    level: str
    expected: Floats
    measured: Floats
    held: NDArray[np.bool_]


def missed(family: str, root: Path) -> Iterator[Missed]:
    """At every level for which there are rows."""
    fitting, kernels = FAMILIES[family]
    data = {gpu: _some(fitting.rows(gpu, root)) for gpu in (A100, H100, H200)}
    for gpu, level in ((A100, "fitted"), (H100, "fitted"), (H200, "generation")):
        if len(data[gpu].seconds):
            seen = _common(family, data[gpu]) if family == "gemm" and gpu == H200 else data[gpu]  # its fp8_block is the host's time
            yield _missed(level, seen, kernels, None)
    for known, asked in ((A100, H100), (H100, A100)):
        yield _missed("spec", _common(family, data[asked]), kernels, fitting.fit([_common(family, data[known])]))
    if family == "gemm":
        for _, one in sweep.spec_only(root):
            yield Missed("sweep", one.after, one.measured, one.held)


def _common(family: str, data: Rows) -> Rows:
    """What both architectures have: other implementations say nothing about the step between them."""
    if family == "gemm":
        return data.where(data.params["dtype"] == "bf16")
    return data.where(np.isin(data.implementation, moe.TRITON) & (data.params["dtype"] == "bf16")) if family == "moe" else data


def _some(data: Rows) -> Rows:
    keep = np.random.default_rng(3).permutation(len(data.seconds))[:TAKEN]
    return data.where(keep)


def _missed(level: str, data: Rows, kernels: ModuleType, coefficients: Any) -> Missed:
    chip = scores.chip(data.gpu) if kernels is moe_kernels else scores.fastest(data.gpu)
    found = kernels.estimate(data.params, chip, data.implementation, coefficients)
    return Missed(level, found.seconds, data.seconds, data.held)


def learnt(misses: list[Missed]) -> dict[str, dict[str, dict[str, float]]]:
    """By level and regime of expected time: quantiles of measured ÷ expected of the rows that are not held out."""
    table: dict[str, dict[str, dict[str, float]]] = {}
    for level in dict.fromkeys(one.level for one in misses):
        expected, ratio, held = _pooled(misses, level)
        regimes = {"all": _quantiles(ratio[~held])}
        for n, name in enumerate(REGIMES):
            here = (np.digitize(expected, EDGES_S) == n) & ~held
            if here.sum() >= FEWEST:
                regimes[name] = _quantiles(ratio[here])
        table[level] = regimes
    return table


def _pooled(misses: list[Missed], level: str) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    parts = [one for one in misses if one.level == level]
    expected, measured, held = (np.concatenate([getattr(one, name) for one in parts]) for name in ("expected", "measured", "held"))
    return expected, measured / expected, held


def _quantiles(ratio: Floats) -> dict[str, float]:
    low, high = np.quantile(ratio, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return {"low": float(low), "high": float(high), "rows": float(len(ratio))}


def shown(family: str, misses: list[Missed], table: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
    """How many of the held-out rows the intervals hold, and how wide they are beside the mean error."""
    lines = []
    for level in table:
        expected, ratio, held = _pooled(misses, level)
        for n, name in enumerate(REGIMES):
            here = (np.digitize(expected, EDGES_S) == n) & held
            if here.sum() >= FEWEST:
                one = table[level].get(name, table[level]["all"])
                inside = np.mean((ratio[here] >= one["low"]) & (ratio[here] <= one["high"]))
                error = float(np.mean(np.abs(1 / ratio[here] - 1)))
                half = (one["high"] - one["low"]) / 2
                lines.append(
                    f"{family:<11} {level:<11} {name:<7} {int(here.sum()):>6}  {inside:6.1%}   [{one['low']:.2f}, {one['high']:.2f}]"
                    f"   {half:6.1%}   {error:6.1%}   {half / error:4.1f}{_verdict(float(inside), half / error)}"
                )
    return lines


def _verdict(inside: float, wide: float) -> str:
    """What was asked for and is not so."""
    missed_by = [*([f"holds {HOLDS[0]:.0%} to {HOLDS[1]:.0%}"] if not HOLDS[0] <= inside <= HOLDS[1] else []),
                 *([f"at most {WIDEST} times the error"] if wide > WIDEST else [])]  # fmt: skip
    return f"  MISS: asked {' and '.join(missed_by)}" if missed_by else ""


HEAD = f"{'family':<11} {'known by':<11} {'regime':<7} {'rows':>6}  {'held':>6}   {'interval':<13}  {'half':>6}  {'MAPE':>6}   ratio"


def kept(root: Path) -> list[str]:
    """The same lines for the intervals of the package."""
    return [HEAD, *(line for family in FAMILIES for line in shown(family, list(missed(family, root)), intervals.stored()[family]))]


def main() -> None:
    """Learns the intervals, stores them and prints how well they hold."""
    place = scores.folder()
    lines = ["# Measured ÷ expected time, 5 % and 95 % quantiles, by family, level of knowledge and expected time (20 and 200 µs)."]
    print(HEAD)
    for family in FAMILIES:
        found = list(missed(family, place))
        table = learnt(found)
        print("\n".join(shown(family, found, table)), flush=True)
        for level, regimes in table.items():
            for name, one in regimes.items():
                values = ", ".join(f"{key} = {value:.4g}" for key, value in one.items())
                lines.append(f"interval.{family}.{level}.{name} = {{ {values} }}")
    file = Path(intervals.__file__).parent / "coefficients" / "intervals.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
