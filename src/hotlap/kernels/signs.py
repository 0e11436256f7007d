"""What a kernel's sizes, neighbours and causes say about what would have to change: signs, and the first rule that fits them."""

from __future__ import annotations

import functools
import importlib.resources
import math
import tomllib
from collections.abc import Sequence

from hotlap.core import work
from hotlap.core.record import Case, Record, Row
from hotlap.core.units import percent
from hotlap.core.work.base import DTYPES

WIDE_LOAD_BYTES = 16  # that a tensor-core kernel's loads want their rows aligned to
PADDED, PARTIAL = 0.10, 0.15  # share of the tiles, or of a wave, that computes nothing, worth mentioning
TILE = 128.0  # rows and columns of a tile where the model names none
LONG_K = 2048  # that is worth splitting
WAVES = 4.0  # beyond so many the last one hardly counts


class SignRule(Record, frozen=True, kw_only=True):
    """One rule of opportunities.toml: all that it names must fit, and of each list one entry does; causes and parts are alternatives."""

    name: str
    change: str
    signs: list[str] = []
    causes: list[str] = []
    parts: list[str] = []
    workloads: list[str] = []
    source: str = ""

    def fits(self, case: Case, signs: Sequence[str], cause: str, part: str) -> bool:
        if self.workloads and case.workload not in self.workloads:
            return False
        if not (self.signs or self.causes or self.parts):
            return True
        return cause in self.causes or part in self.parts or any(one in self.signs for one in signs)


@functools.cache
def rules() -> tuple[SignRule, ...]:
    """All rules, in the order in which they are tried; the last fits everything."""
    text = (importlib.resources.files("hotlap.kernels") / "opportunities.toml").read_text(encoding="utf-8")
    return tuple(SignRule(name=name, **fields) for name, fields in tomllib.loads(text).items())


def rule(case: Case, signs: Sequence[str], cause: str, part: str) -> SignRule:
    """The first that fits."""
    return next(one for one in rules() if one.fits(case, signs, cause, part))


def of_sizes(row: Row, units: float | None) -> dict[str, str]:
    """Signs that a matrix product's sizes show, each with its numbers. `units`: of the device, None where not known. Tiles are those that
    the model of a good library takes, which says so: the kernel that was measured may have others."""
    params, limit = row.case.params, row.gap.limit
    if work.traits(row.case.workload).model != "product":
        return {}
    m, n, k = (float(params[name]) for name in ("m", "n", "k"))  # type: ignore[arg-type]
    choice = limit.choice if limit else {}
    misaligned = _misaligned(row.case)
    tile_m, tile_n = float(choice.get("tile_m", TILE)), float(choice.get("tile_n", TILE))
    across, down = math.ceil(m / tile_m), math.ceil(n / tile_n)
    tiles = across * down * float(params.get("batch", 1))  # type: ignore[arg-type]
    split = float(choice.get("split", 1.0))
    whose = f"{tile_m:.0f} × {tile_n:.0f}, {'the tile that the model takes' if 'tile_m' in choice else 'an assumed tile'}"
    if units and 1 - tiles * split / units >= PARTIAL and k >= LONG_K:
        misaligned["few tiles, long k"] = f"{tiles * split:.0f} tiles for {units:.0f} units (at {whose}), k = {k:.0f}"
    if limit is None or limit.limiter != "arithmetic unit":  # what is padded costs arithmetic, not traffic
        return misaligned
    idle = 1 - m * n / (across * tile_m * down * tile_n)
    if idle >= PADDED:
        misaligned["padded tiles"] = f"{percent(idle)} of the tiles lie beyond {m:.0f} × {n:.0f} (at {whose})"
    waves = tiles * split / units if units else 0.0
    if 1.0 < waves < WAVES and 1 - waves / math.ceil(waves) >= PARTIAL:
        misaligned["partial wave"] = f"{waves:.2f} waves: {percent(1 - waves / math.ceil(waves))} of the units' time is idle (at {whose})"
    return misaligned


def _misaligned(case: Case) -> dict[str, str]:
    """Stored rows of A and B, as the layout has them, and of C, which is not padded."""
    size, given = DTYPES.get(str(case.params.get("dtype")), 0), work.find(case.workload).full(case.params)
    a, b = (names[order == "t"] for names, order in zip((("k", "m"), ("n", "k")), given["layout"], strict=True))
    lengths = {("n", 0), (a, given["pad"]), (b, given["pad"])}
    names = sorted({name for name, pad in lengths if size and (given[name] + pad) * size % WIDE_LOAD_BYTES}, reverse=True)
    off = [f"{name} = {given[name]:.0f}" for name in names]
    return {"misaligned": f"rows of {' and '.join(off)} elements are no multiple of {WIDE_LOAD_BYTES} bytes"} if off else {}


def part(row: Row) -> str:
    """Where most of the time between bound and measured goes, by the model; "" where no model knows the kernel."""
    known = {name.removesuffix(", beyond the bound"): value for name, value in row.gap.split.items() if value > 0}
    return max(known, key=lambda one: known[one], default="")
