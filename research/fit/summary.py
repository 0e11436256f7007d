"""The table of targets: what the scores of all families say, cell by cell, beside the ways to beat and what was asked for."""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from research.fit.scores import Score

COLUMNS = ("H100, held out", "H200, by A100 + H100", "A100 → H100", "H100 → A100")
MODEL = {"power": "reading"}  # the method that is the model, where it is not called so
SIMPLE = {  # comparison: the names it has in the families' scores
    "roofline": ("roofline", "link bound"), "SOL/0.8 + 3 µs": ("SOL/0.8 + 3 µs", "roofline/0.8 + 3 us", "bound/0.8 + 3 us"),
    "nearest row": ("nearest row", "neighbours"), "a constant": ("constant",),
}  # fmt: skip
MOST_FITTED = 200  # numbers of one family
GEMM_CELLS = ("H100, held-out shapes", "H200 by A100 + H100", "A100 → H100, spec only", "H100 → A100, spec only")
ATTENTION_CELLS = ("H100 held-out", "H200 from A100+H100", "A100 → H100", "H100 → A100")
MOE_CELLS = ("H100 held-out shapes", "H200 by A100 + H100", "A100 -> H100", "H100 -> A100")
NCCL_CELLS = ("H100 held-out sizes", "", "A100 -> H100", "H100 -> A100")


class Row(NamedTuple):
    """One line of the table: where its scores are, and what was asked for in each column (%)."""

    name: str
    family: str
    part: str
    cells: tuple[str, str, str, str]
    targets: tuple[float, float, float, float]
    floors: tuple[float, float, float, float]  # measurement floor (%); NaN where nobody measured it


NAN = float("nan")
TWICE = (4.4, 5.0, 4.4, 5.6)  # two collections of the same bf16 products on H100, H200, A100 (research notes)
ONCE = (1.3, 1.3, 1.3, 1.3)  # rows of experts measured twice in one file; two collections were not compared
VERSIONS = (4.4, 25.0, 4.4, 5.6)  # attention has no such pair: that of products, and on H200 versions 0.22 and 0.24 of vLLM


def rows(scores: Mapping[str, Sequence[Score]]) -> list[Row]:
    """Lines for the families that were scored; attention has one for each implementation."""
    lines = [
        Row("GEMM bf16", "gemm", "bf16", GEMM_CELLS, (6, 8, 12, 12), TWICE),
        Row("GEMM fp8", "gemm", "fp8", GEMM_CELLS, (6, 8, 12, 12), (NAN,) * 4),
        Row("GEMM fp8_block", "gemm", "fp8_block", GEMM_CELLS, (6, 8, 12, 12), (NAN,) * 4),
    ]
    for family, targets in {"prefill": (9.0, 25.0, 25.0, 25.0), "decode": (12.0, 14.0, 18.0, 18.0)}.items():
        parts = sorted({s.part for s in scores.get(family, ()) if s.part.endswith(" > 20 µs")})
        lines += [Row(f"{family} {p.removesuffix(' > 20 µs')}", family, p, ATTENTION_CELLS, targets, VERSIONS) for p in parts]
    lines += [
        Row("experts", "moe", "> 20 us", MOE_CELLS, (14, 16, 30, 30), ONCE),
        Row("NCCL, four operations", "collective", "all", NCCL_CELLS, (8, NAN, 18, 18), (3.0, NAN, 3.0, 3.0)),
        Row("power < 690 W (fitted on H200)", "power", "all", ("", "together", "", ""), (NAN, 8, NAN, NAN), (NAN,) * 4),
    ]
    return [row for row in lines if row.family in scores]


def show(scores: Mapping[str, Sequence[Score]]) -> str:
    """The table as text: mean absolute error in %, and what was asked for."""
    lines = [f"{'mean absolute error, % [asked for]':<36}" + "".join(f"{name:>23}" for name in COLUMNS)]
    for row in rows(scores):
        lines.append(f"{row.name[:36]:<36}" + "".join(f"{_model(scores, row, n):>23}" for n in range(len(COLUMNS))))
        more = {"measurement floor": [_number(value if _has(scores, row, n) else NAN) for n, value in enumerate(row.floors)]}
        for name, methods in SIMPLE.items():
            more[name] = [_number(_mape(scores, row, n, methods)) for n in range(len(COLUMNS))]
        more["bias, median, 90 % within"] = [_spread(scores, row, n) for n in range(len(COLUMNS))]
        lines += [f"  · {name:<32}" + "".join(f"{v:>23}" for v in values) for name, values in more.items() if any(values)]
    return "\n".join(lines)


def _one(scores: Mapping[str, Sequence[Score]], row: Row, column: int, methods: Sequence[str]) -> Score | None:
    cell = row.cells[column]
    fits = (s for s in scores[row.family] if s.cell == cell and s.part == row.part and s.method in methods and s.rows)
    return next(fits, None)


def _model(scores: Mapping[str, Sequence[Score]], row: Row, column: int) -> str:
    one, target = _one(scores, row, column, (MODEL.get(row.family, "model"),)), row.targets[column]
    if one is None:
        return "no data"
    return f"{'MISS ' if 100 * one.mape > target else ''}{100 * one.mape:.1f} [{target:g}]"


def _has(scores: Mapping[str, Sequence[Score]], row: Row, column: int) -> bool:
    return _one(scores, row, column, (MODEL.get(row.family, "model"),)) is not None


def _mape(scores: Mapping[str, Sequence[Score]], row: Row, column: int, methods: Sequence[str]) -> float:
    one = _one(scores, row, column, methods)
    return 100 * one.mape if one else NAN


def _spread(scores: Mapping[str, Sequence[Score]], row: Row, column: int) -> str:
    one = _one(scores, row, column, (MODEL.get(row.family, "model"),))
    return f"{100 * one.bias:+.1f}, {100 * one.median:.1f}, {100 * one.p90:.1f}" if one else ""


def _number(value: float) -> str:
    return f"{value:.1f}" if value == value else ""


# ---------------------------------------------------------------- how many numbers were fitted


def fitted_numbers(family: str) -> int:
    """Numbers in the family's coefficients that a fit gave."""
    file = importlib.resources.files("hotlap.core.model") / "coefficients" / f"{family}.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return sum(_count(tables.get(name, {})) for name in ("coefficients", "kernel", "fitted", "waits_s"))


def _count(table: Mapping[str, Any]) -> int:
    return sum(_count(v) if isinstance(v, Mapping) else 1 for v in table.values())


def numbers(families: Sequence[str]) -> str:
    """How many each family has, and whether that is too many."""
    counts = {family: fitted_numbers(family) for family in families}
    return (
        "fitted numbers: " + ", ".join(f"{f} {n}{' MISS' if n >= MOST_FITTED else ''}" for f, n in counts.items()) + f" [< {MOST_FITTED}]"
    )
