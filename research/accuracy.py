"""How far the model's expected times are from published measurements, on shapes and on GPUs that no coefficient has seen.

    python -m research.accuracy [family …] [--gpu slug …] [--no-left-out] [--keep FOLDER] [--store-intervals] [--json FILE]

Families: gemm, prefill, decode, moe, collective, power (default: all).

- *held out*: each row by a fit that had no row of its shape group. Five folds by SHA-1 of the group (gemm: n, k; attention: query heads,
  KV heads, head size; experts: hidden, inner, experts, top k; NCCL: operation, number of GPUs).
- *GPU left out*: by a fit that had no row of that GPU; *library left out*: by one that had none of this library on it.
- the roofline and SOL/0.8 + 3 µs of the same rows; of power, which is scored in watts, the best constant share of the limit.

A cell of the summary is the mean over (library, kernel) of the mean absolute error, of rows longer than 20 µs (bf16 products and NCCL:
all). Rows of a tagged build are in lines of their own, never in a cell. Needs the measurements in `$HOTLAP_SHARED/data/kernels`,
pyarrow and SciPy. `--keep` writes what each fit expected of the rows that it had not seen and, where it is there already, fits nothing:
for work on intervals. Delete the folder after a change of the model.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model import machines
from research.fit import collective, decode, gemm, intervals, moe, power, prefill, scores, summary
from research.fit.data import FOLDERS, FOLDS, GROUPS, Floats, Rows, keys

FAMILIES: Mapping[str, ModuleType] = {
    "gemm": gemm, "prefill": prefill, "decode": decode, "moe": moe, "collective": collective, "power": power,
}  # fmt: skip
SHORT_S = 20e-6
CONSTANT = "constant"
WAYS = ("held out", "GPU left out", "library left out", "roofline", "SOL/0.8+3µs", CONSTANT)
ASKED: Mapping[tuple[str, str], Mapping[str, float]] = {  # of the mean over kernels, %
    ("gemm", "bf16"): {"b200": 8, "l40s": 15}, ("gemm", "fp8"): {"b200": 12, "l40s": 16},
    ("gemm", "fp8_block"): {"b200": 12, "l40s": 16}, ("gemm", "nvfp4"): {"b200": 12}, ("prefill", ""): {"b200": 12, "l40s": 15},
    ("decode", ""): {"b200": 14, "l40s": 16}, ("moe", ""): {"b200": 16, "l40s": 20}, ("collective", ""): {"b200": 8, "l40s": 12},
    ("power", ""): {"b200": 10},
}  # fmt: skip


class Scored(NamedTuple):
    """One family on one machine: what was expected of each row in each way, beside what was measured."""

    family: str
    rows: Rows
    ways: Mapping[str, Floats]  # expected seconds, NaN where the way has none

    @property
    def part(self) -> NDArray[np.str_]:
        """The type of each product, as cells have it; empty in other families."""
        return self.rows.params["dtype"].astype(str) if self.family == "gemm" else np.full(len(self.rows.seconds), "")

    @property
    def tag(self) -> NDArray[np.str_]:
        """Why a row is in no cell, empty where it is."""
        tags = getattr(FAMILIES[self.family], "tags", None)
        return np.full(len(self.rows.seconds), "", dtype="<U60") if tags is None else np.asarray(tags(self.rows), dtype="<U60")

    @property
    def measured(self) -> Floats:
        """What is scored: seconds, or what the family says."""
        of = getattr(FAMILIES[self.family], "measured", None)
        return self.rows.seconds if of is None else np.asarray(of(self.rows))

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Rows long enough for a cell."""
        everything = np.isin(self.family, ("collective", "power")) | (self.part == "bf16")
        return np.asarray(everything | (self.rows.seconds > SHORT_S))


def measured(family: str, root: Path) -> list[Rows]:
    """The rows of each GPU that has any."""
    return [rows for gpu in FOLDERS if len((rows := FAMILIES[family].rows(gpu, root)).seconds)]


def held_out(family: str, data: Sequence[Rows]) -> list[Floats]:
    """Each row by the fit of the other folds."""
    expected = [np.full(len(rows.seconds), np.nan) for rows in data]
    for fold in range(FOLDS):
        coefficients = FAMILIES[family].fit([rows.holding(fold) for rows in data])
        for rows, out in zip(data, expected, strict=True):
            mask = rows.fold == fold
            out[mask] = FAMILIES[family].predicted(rows.where(mask), coefficients)
    return expected


def left_out(family: str, data: Sequence[Rows]) -> list[Floats]:
    """Each GPU by the fit of the others."""
    expected = []
    for rows in data:
        coefficients = FAMILIES[family].fit([other.holding(None) for other in data if other.gpu != rows.gpu])
        expected.append(FAMILIES[family].predicted(rows, coefficients))
    return expected


def library_left_out(family: str, data: Sequence[Rows]) -> list[Floats]:
    """Each library of each GPU by a fit that had none of its rows there; NaN where a GPU has one library only."""
    expected = [np.full(len(rows.seconds), np.nan) for rows in data]
    for n, rows in enumerate(data):
        library = np.array([name.partition(" ")[0] for name in rows.source.tolist()])
        for name in (names := np.unique(library).tolist()):
            if len(names) > 1:
                own = library == name
                others = [other.holding(None) for other in data if other is not rows]
                coefficients = FAMILIES[family].fit([*others, rows.where(~own).holding(None)])
                expected[n][own] = FAMILIES[family].predicted(rows.where(own), coefficients)
    return expected


def misses(family: str, scored: Sequence[Scored]) -> list[intervals.Missed]:
    """What intervals are learnt from."""
    learnt_from, architectures = [], [machines.load(each.rows.gpu).architecture for each in scored]
    for own, architecture in zip(scored, architectures, strict=True):
        known = "generation" if architectures.count(architecture) > 1 else "spec"
        group = np.unique(np.array(keys(own.rows.params, GROUPS[family])), return_inverse=True)[1]
        for level, way in (("fitted", "held out"), (known, "GPU left out"), ("library", "library left out")):
            keep = (own.tag == "") & np.isfinite(own.ways[way])
            if keep.any():
                row = intervals.Missed(level, own.rows.gpu, own.part, own.ways[way], own.rows.seconds, own.rows.fold, group)
                learnt_from.append(intervals.some(row.where(keep)))
    return learnt_from + (intervals.swept(scores.folder()) if family == "gemm" else [])


def kept(make: Callable[[str, Sequence[Rows]], list[Floats]], family: str, data: Sequence[Rows], folder: Path | None) -> list[Floats]:
    """What `make` expects of the rows, read from the folder where it is there for these rows."""
    file = folder / f"{family}.{make.__name__}.npz" if folder else None
    if file is not None and file.exists():
        with np.load(file) as table:
            expected = [table[rows.gpu] for rows in data if rows.gpu in table]
        if [len(one) for one in expected] == [len(rows.seconds) for rows in data]:
            return expected
    expected = make(family, data)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, **{rows.gpu: one for rows, one in zip(data, expected, strict=True)})  # type: ignore[arg-type]
    return expected


def all_scored(family: str, root: Path, gpus: Sequence[str] = (), others: bool = True, folder: Path | None = None) -> Iterator[Scored]:
    """All GPUs, or these."""
    data = measured(family, root)
    folds = kept(held_out, family, data, folder)
    nothing = [np.full(len(rows.seconds), np.nan) for rows in data]
    apart, libraries = nothing, nothing
    if others and len(data) > 1:
        apart, libraries = kept(left_out, family, data, folder), kept(library_left_out, family, data, folder)
    for rows, fold, away, library in zip(data, folds, apart, libraries, strict=True):
        if not gpus or rows.gpu in gpus:
            ways = {"held out": fold, "GPU left out": away, "library left out": library}
            yield Scored(family, rows, ways | _simple(family, rows))


def _simple(family: str, rows: Rows) -> dict[str, Floats]:
    """The ways to beat."""
    if family == "power":
        return {CONSTANT: power.constant(rows)}
    sol = FAMILIES[family].roofline(rows)
    return {"roofline": sol, "SOL/0.8+3µs": sol / 0.8 + 3e-6}


# ---------------------------------------------------------------- the tables


class Line(NamedTuple):
    """Mean absolute error of one kernel on one GPU, %, by way; NaN where nothing was scored."""

    gpu: str
    family: str
    part: str
    source: str
    tag: str
    rows: int
    errors: Mapping[str, float]
    median: float  # of the held-out rows
    bias: float


def lines(scored: Scored) -> Iterator[Line]:
    """One for each kernel, type and tag."""
    columns = zip(scored.rows.source.tolist(), scored.part.tolist(), scored.tag.tolist(), strict=True)
    names, which = np.unique(np.array(["\t".join(row) for row in columns]), return_inverse=True)
    for n, name in enumerate(names.tolist()):
        source, part, tag = name.split("\t")
        here = scored.counted & (which == n)
        if here.any():
            off = {way: 100 * (values[here] / scored.measured[here] - 1) for way, values in scored.ways.items()}
            errors = {way: float(np.mean(np.abs(off[way]))) if way in off else float("nan") for way in WAYS}
            seen = off["held out"]
            yield Line(
                scored.rows.gpu,
                scored.family,
                part,
                source,
                tag,
                int(here.sum()),
                errors,
                float(np.median(np.abs(seen))),
                float(seen.mean()),
            )


def show(table: Sequence[Line]) -> str:
    """One line for each kernel."""
    head = f"{'GPU':<14}{'family':<11}{'type':<10}{'library and kernel':<66}{'rows':>7}" + "".join(f"{way:>18}" for way in WAYS)
    text = [head + f"{'median':>8}{'bias':>8}"]
    for one in table:
        tag = f" [{one.tag}]" if one.tag else ""
        name = one.source[: 65 - len(tag)] + tag
        numbers = "".join(f"{one.errors[way]:>18.1f}" if one.errors[way] == one.errors[way] else f"{'–':>18}" for way in WAYS)
        text.append(f"{one.gpu:<14}{one.family:<11}{one.part:<10}{name[:65]:<66}{one.rows:>7}{numbers}{one.median:>8.1f}{one.bias:>+8.1f}")
    return "\n".join(text)


def cells(table: Sequence[Line]) -> str:
    """Means over the kernels, beside what was asked for."""
    text = [f"{'mean over kernels, %':<34}{'kernels':>8}" + "".join(f"{way:>18}" for way in WAYS) + f"{'asked for':>14}"]
    groups: dict[tuple[str, str, str], list[Line]] = {}
    for one in table:
        if not one.tag:
            groups.setdefault((one.family, one.part, one.gpu), []).append(one)
    for (family, part, gpu), own in groups.items():
        means = {way: float(np.mean([one.errors[way] for one in own])) for way in WAYS}
        asked = ASKED.get((family, part), {}).get(gpu)
        verdict = "" if asked is None else f"{'MISS ' if means['held out'] > asked else ''}≤ {asked:g}"
        numbers = "".join(f"{means[way]:>18.1f}" if means[way] == means[way] else f"{'–':>18}" for way in WAYS)
        text.append(f"{f'{family} {part} {gpu}':<34}{len(own):>8}{numbers}{verdict:>14}")
    return "\n".join(text)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m research.accuracy", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("family", nargs="*", choices=[*FAMILIES, []], help="only these")
    parser.add_argument("--gpu", action="append", default=[], choices=list(FOLDERS), help="print only this GPU (all are fitted)")
    parser.add_argument("--no-left-out", action="store_true", help="do not fit without each GPU in turn")
    parser.add_argument("--store-intervals", action="store_true", help="write the intervals that the package states (of all families)")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="write what fits expected of unseen rows there, or read it")
    parser.add_argument("--json", metavar="FILE", help="write the table there")
    options = parser.parse_args(argv)
    missing = [name for name in ("pyarrow", "scipy") if find_spec(name) is None]
    if missing:
        sys.exit(f"not run, because {' and '.join(missing)} is not installed; pip install {' '.join(missing)}")
    place, table, missed = scores.folder(), list[Line](), dict[str, list[intervals.Missed]]()
    for family in options.family or FAMILIES:
        began = time.monotonic()
        own = list(all_scored(family, place, options.gpu, not options.no_left_out, options.keep))
        table += [line for one in own for line in lines(one)]
        missed |= {family: misses(family, own)} if family in GROUPS else {}
        print(f"{family}: {'read or ' if options.keep else ''}fitted, and scored, in {time.monotonic() - began:.0f} s", flush=True)
        print(show([one for one in table if one.family == family]), flush=True)
    print(cells(table))
    print("stated 90 % intervals on rows that neither the fit nor the interval had seen")
    print("\n".join([intervals.HEAD, *(one.show() for family, own in missed.items() for one in intervals.held(family, own))]))
    print(summary.numbers(list(dict.fromkeys(one.family for one in table))))
    if options.store_intervals:
        intervals.store({family: intervals.by_level(family, own) for family, own in missed.items()})
    if options.json:
        Path(options.json).write_text(json.dumps([one._asdict() for one in table], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
