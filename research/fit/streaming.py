"""Streaming kernels: the rows that tell how a GPU streams, the fit, and its scores. `python -m research.fit streaming`.

Two kinds of rows. Published times of norms, softmax and rotary embeddings (streaming_figures.toml), timed alone. And, because no
collection times copies or norms in graphs, matrix products of up to 8 rows, which read B once and do little else: of each octave of bytes
the quickest quarter of (n, k) stands for a kernel that only reads n × k elements. That picks by the outcome: it says what streams best, not
what products take. One shape in three of the figures, one in five of the products, is held out by hash.
"""

from __future__ import annotations

import sys
import tomllib
import zlib
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.model import kernels
from hotlap.core.model.kernels import streaming
from hotlap.core.model.kernels.base import Floats
from research.fit import scores
from research.fit.data import FOLDERS

FIGURES = Path(__file__).with_name("streaming_figures.toml")
HELD_OF = 3
FEW = 8  # rows of A
SOURCES = {
    "a100-sxm-80gb": "gemm/sglang/*/gemm_perf.parquet",
    "h100-sxm": "gemm/vllm/*/gemm_perf.parquet",
    "h200-sxm": "gemm/vllm/*/gemm_perf.parquet",
}
QUICKEST = 4  # one in so many
LEAST_BYTES = 4e6  # below, products take as long as their launch and say nothing of memory
FITTED = {
    "launch_cycles": (500.0, 3600.0, 8000.0),
    "alone_cycles": (0.0, 4000.0, 15000.0),
    "read_share": (0.6, 0.9, 0.98),
    "copy_share": (0.6, 0.85, 0.98),
}


class Figure(NamedTuple):
    """A published time."""

    machine: str
    workload: str
    params: dict[str, Any]
    implementation: str
    seconds: float
    source: str
    held: bool


class Group(NamedTuple):
    """Cases of one machine, workload and implementation, as arrays."""

    machine: str
    workload: str
    params: dict[str, Any]
    implementation: str
    seconds: Floats
    held: NDArray[np.bool_]


def figures() -> list[Figure]:
    """All published times, with whether they are held out."""
    table = tomllib.loads(FIGURES.read_text(encoding="utf-8"))
    rows = []
    for row in table["figure"]:
        kind = work.find(row["workload"])
        key = f"{row['workload']} {sorted(row['params'].items())}"
        away = zlib.crc32(key.encode()) % HELD_OF == 0
        source = table["sources"][row["source"]]
        params = dict(kind.parse(row["params"]))
        rows.append(Figure(row["machine"], row["workload"], params, row["implementation"], 1e-6 * row["us"], source, away))
    return rows


def products(gpu: str, root: Path) -> Group:
    """The quickest product of up to 8 rows for each n × k, as a sum over n × k elements."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(min((root / FOLDERS[gpu]).glob(SOURCES[gpu])))
    columns = (table[name].to_pylist() for name in ("m", "n", "k", "gemm_dtype", "latency"))
    best = dict[tuple[int, int], float]()
    for rows_of, wide, deep, kind, time_ms in zip(*columns, strict=True):
        if kind == "bfloat16" and rows_of <= FEW:
            best[wide, deep] = min(time_ms * 1e-3, best.get((wide, deep), np.inf))
    shapes = _quickest({one: time_s for one, time_s in sorted(best.items()) if 2 * one[0] * one[1] >= LEAST_BYTES})
    sizes = np.array(shapes, dtype=float)
    params = {"op": "sum", "rows": sizes[:, 0], "columns": sizes[:, 1], "dtype": "bf16"}
    away = np.array([zlib.crc32(f"{n}x{k}".encode()) % 5 == 0 for n, k in shapes], dtype=bool)
    return Group(gpu, "rowwise", params, "", np.array([best[one] for one in shapes]), away)


def _quickest(times: dict[tuple[int, int], float]) -> list[tuple[int, int]]:
    """Of each octave of bytes, the quarter of the shapes that reads the most per second."""
    octaves = dict[int, list[tuple[float, tuple[int, int]]]]()
    for shape, time_s in times.items():
        read = 2 * shape[0] * shape[1]
        octaves.setdefault(int(np.log2(read)), []).append((time_s / read, shape))
    return [shape for one in octaves.values() for _, shape in sorted(one)[: -(-len(one) // QUICKEST)]]


def grouped(given: Iterable[Figure]) -> list[Group]:
    """A group for each figure: few enough."""
    return [Group(f.machine, f.workload, f.params, f.implementation, np.array([f.seconds]), np.array([f.held])) for f in given]


def expected_s(group: Group, coefficients: dict[str, float] | None = None) -> Floats:
    table = {**streaming.stored(), **(coefficients or {})}
    return streaming.estimate(group.workload, group.params, scores.chip(group.machine), group.implementation, table).seconds


def fit(given: list[Group]) -> dict[str, float]:
    """Four numbers for all GPUs. Each kind of rows counts alike, however many it has. Deterministic, a minute."""
    from scipy.optimize import least_squares

    alone = sum((~g.held).sum() for g in given if g.implementation)
    others = sum((~g.held).sum() for g in given if not g.implementation)
    weight = {True: 1.0, False: float(np.sqrt(alone / max(others, 1)))}
    least, start, most = ([b[i] for b in FITTED.values()] for i in range(3))
    scale = [b[2] for b in FITTED.values()]

    def residuals(x: Floats) -> Floats:
        table = dict(zip(FITTED, x.tolist(), strict=True))
        off = [weight[bool(g.implementation)] * np.log(expected_s(g, table) / g.seconds)[~g.held] for g in given]
        return np.concatenate(off)

    found = least_squares(residuals, start, bounds=(least, most), loss="soft_l1", f_scale=0.1, x_scale=scale, diff_step=1e-3).x
    return dict(zip(FITTED, found.tolist(), strict=True))


# ---------------------------------------------------------------- scores


def simple(group: Group) -> dict[str, Floats]:
    """The ways it has to beat."""
    asked = work.find(group.workload).work(group.params)
    bound = np.broadcast_to(np.asarray(asked.memory_bytes, dtype=float), len(group.seconds)) / scores.chip(group.machine).memory_b_s
    return {"roofline": bound, "SOL/0.8 + 3 µs": bound / 0.8 + 3e-6, "SOL/0.876 + 3 µs": bound / 0.876 + 3e-6}


def table(given: list[Group], coefficients: dict[str, float], which: str) -> list[str]:
    """Lines of errors in %: mean, median, p90, bias; of held-out rows, or of all where none was fitted."""
    off = dict[str, list[float]]()
    for one in given:
        take = one.held if which == "held out" else np.ones(len(one.seconds), dtype=np.bool_)
        for name, values in {"model": expected_s(one, coefficients), **simple(one)}.items():
            off.setdefault(name, []).extend((values / one.seconds - 1)[take].tolist())
    lines = []
    for name, errors in off.items():
        wrong, size = np.array(errors), np.abs(errors)
        figures_of = (size.mean(), np.median(size), np.quantile(size, 0.9), wrong.mean())
        lines.append(f"{name:<18} {len(wrong):>5} " + " ".join(f"{100 * v:>6.1f}" for v in figures_of))
    return lines


def interval(given: list[tuple[Group, dict[str, float]]]) -> tuple[dict[str, float], float]:
    """5 and 95 % of measured ÷ expected of the figures that are not held out, and the share of the held-out ones within."""
    ratio = np.concatenate([g.seconds / expected_s(g, coefficients) for g, coefficients in given])
    away = np.concatenate([g.held for g, _ in given])
    low, high = np.quantile(ratio[~away], [0.05, 0.95])
    within = float(np.mean((ratio[away] >= low) & (ratio[away] <= high)))
    return {"low": float(low), "high": float(high), "rows": float((~away).sum())}, within


def main() -> None:
    """Fits, prints the scores, and with --store writes the fitted numbers to coefficients/streaming.toml."""
    where = scores.folder()
    given, reads = grouped(figures()), {gpu: products(gpu, where) for gpu in SOURCES}
    coefficients = fit([*given, reads["a100-sxm-80gb"], reads["h100-sxm"]])
    print(" ".join(f"{name} {value:.4g}" for name, value in coefficients.items()))
    cells = {
        "published kernels, held out": (given, "held out"),
        **{f"best reading, {gpu}": ([reads[gpu]], "held out" if gpu != "h200-sxm" else "all") for gpu in SOURCES},
    }
    for name, (groups, which) in cells.items():
        print(f"{name}: rows, then mean, median, p90, bias in %")
        print("\n".join("  " + line for line in table(groups, coefficients, which)))
    blind = list[tuple[Group, dict[str, float]]]()
    for known in ("a100-pcie-80gb", "h100-nvl"):
        others = [g for g in given if g.machine[:4] != known[:4]]
        of_it = fit([*(g for g in given if g.machine == known), reads["a100-sxm-80gb" if known[:4] == "a100" else "h100-sxm"]])
        blind += [(g, of_it) for g in others]
        print(f"{known[:4]} alone to the other generation, all shapes:")
        print("\n".join("  " + line for line in table(others, of_it, "all")))
    stated = {"generation": interval([(g, coefficients) for g in given]), "spec": interval(blind)}
    for level, (one, within) in stated.items():
        print(f"{level}: {one['low']:.3f} to {one['high']:.3f} of {one['rows']:.0f} figures; {within:.0%} of the held-out ones are within")
    if "--store" in sys.argv[1:]:
        _store(coefficients, {level: one for level, (one, _) in stated.items()})


def _store(coefficients: dict[str, float], stated: dict[str, dict[str, float]]) -> None:
    """Replaces the fitted numbers and the intervals, leaving what is assumed."""
    file = Path(kernels.__file__).parents[1] / "coefficients" / "streaming.toml"
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith(("interval.", "date = "))]
    place = lines.index("[fit]")
    head = [f"interval.{level}.all = {{ {', '.join(f'{k} = {v:.4g}' for k, v in one.items())} }}" for level, one in stated.items()]
    lines = [*lines[: place - 1], *head, *lines[place - 1 : place + 1], f'date = "{date.today().isoformat()}"', *lines[place + 1 :]]
    for at, line in enumerate(lines):
        name = line.split(" = ")[0]
        if name in coefficients:
            lines[at] = f"{name} = {coefficients[name]:.4g}" + (f"  #{line.split('#', 1)[1]}" if "#" in line else "")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
