"""A machine of the table with figures edited: `h200-sxm+l2_B=100e6+memory_bandwidth_B_s=*1.2`.

A value is absolute, in base units or with a prefix (`100MB`), or relative (`*1.2`, `1.2x`). What follows from a figure follows: the clock
at which the peak is published goes with the highest clock, rates go with units and clock, energy of an operation stays that of the
original. Three figures that no table has are relative to what the model takes for every machine: `l2_bandwidth`, `launch` and
`link_latency`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hotlap.core import units
from hotlap.core.errors import HINT, InputError, closest, nearest
from hotlap.core.model.spec import PCIE_TRANSFERS_PER_S, UNITS_OF_ARITHMETIC, Spec

LEAST, MOST = 0.01, 100.0  # times the table's figure: beyond it a slip of the unit is likelier than a machine
_PARTS = re.compile(r"\+(?=[A-Za-z])")  # not the plus of 1e+8
_TIMES = re.compile(r"(?:\*(?P<star>[^*]+)|(?P<plain>[0-9.eE+-]+)[x×])$")


@dataclass(frozen=True)
class EditedFigure:
    """What can be edited: a field of Spec, its unit, how its name may also be written (without regard to capitals)."""

    field: str
    unit: str = ""
    also: Sequence[str] = ()
    whole: bool = False
    relative: bool = False  # there is nothing in the table to be absolute about


FIGURES = {
    one.field: one
    for one in (
        EditedFigure("compute_units", "", ("units", "sms", "sm", "cus", "compute.units"), whole=True),
        EditedFigure("clock_max_hz", "Hz", ("clock_hz", "clock", "compute.clock_max_hz")),
        EditedFigure("clock_for_peak_hz", "Hz", ("compute.clock_for_peak_hz",)),
        EditedFigure("shared_bytes_per_unit", "B", ("shared_bytes", "shared_b", "compute.shared_bytes_per_unit")),
        EditedFigure("registers_per_unit", "", ("registers", "compute.registers_per_unit"), whole=True),
        EditedFigure("warps_max_per_unit", "", ("warps_max", "compute.warps_max_per_unit"), whole=True),
        EditedFigure("blocks_max_per_unit", "", ("blocks_max", "compute.blocks_max_per_unit"), whole=True),
        EditedFigure("memory_bytes", "B", ("memory_b", "memory", "memory.bytes")),
        EditedFigure("memory_bandwidth_b_s", "B/s", ("memory_bandwidth", "bandwidth_b_s", "bandwidth", "memory.bandwidth_b_s")),
        EditedFigure("l2_bytes", "B", ("l2_b", "l2", "cache.l2_bytes")),
        EditedFigure("llc_bytes", "B", ("llc_b", "llc", "cache.llc_bytes")),
        EditedFigure("scaleup_b_s", "B/s", ("link_b_s", "link_bandwidth", "nvlink_b_s", "link.scaleup_b_s")),
        EditedFigure("host_b_s", "B/s", ("host_link_b_s", "host_bandwidth", "link.host_b_s")),
        EditedFigure("pcie_generation", "", ("link.pcie_generation",), whole=True),
        EditedFigure("pcie_lanes", "", ("link.pcie_lanes",), whole=True),
        EditedFigure("power_w", "W", ("limit_w", "power_limit_w", "power_limit", "power", "power.limit_w")),
        EditedFigure("rops", "", ("raster.rops",), whole=True),
        EditedFigure("texels_per_clock", "", ("texels", "tmus", "raster.texels"), whole=True),
        EditedFigure("triangles_per_clock", "", ("primitives", "triangles", "raster.primitives")),
        *(EditedFigure(unit, "", (f"flop_per_clock.{unit}", unit.replace(".", "_"))) for unit in UNITS_OF_ARITHMETIC),
        EditedFigure("matrix_rate", also=("matrix",), relative=True),
        EditedFigure("vector_rate", also=("fma", "vector"), relative=True),
        EditedFigure("l2_factor", also=("l2_bandwidth", "l2_rate"), relative=True),
        EditedFigure("launch_factor", also=("launch", "launch_latency", "launch_s"), relative=True),
        EditedFigure("link_latency_factor", also=("link_latency", "link_latency_s"), relative=True),
    )
}
RATES = {"matrix_rate": "matrix.", "vector_rate": "fma."}  # how the rates begin that they are of
SHOWN = {"l2_factor": "l2_bandwidth", "launch_factor": "launch", "link_latency_factor": "link_latency"}  # as users write them
NAMES = {name.lower(): one for one in FIGURES.values() for name in (one.field, *one.also)}
EXAMPLE = "as in h200-sxm+l2_bytes=100MB+memory_bandwidth_b_s=*1.2"


def parted(name: str) -> tuple[str, list[str]]:
    """The machine's name, and the edits behind it."""
    first, *changes = _PARTS.split(name.strip())
    return first, changes


def edited(spec: Spec, changes: Sequence[str]) -> Spec:
    """`spec` with each `KEY=VALUE` taken in. Raises InputError: what is wrong, what is valid."""
    given: dict[str, tuple[EditedFigure, str]] = {}
    for text in changes:
        figure, value = _read(text, spec)
        if figure.field in given:
            raise InputError(f"{spec.slug}: '{_shown(figure)}' is edited twice; give it once")
        given[figure.field] = figure, value
    changed = replace(spec, original=spec)
    slug: list[str] = []
    for figure, text in given.values():
        changed, value = _taken(changed, figure, text)
        slug.append(f"+{_shown(figure)}={value}")
    if "clock_max_hz" in given and "clock_for_peak_hz" not in given and spec.clock_max_hz and spec.clock_for_peak_hz:
        ratio = (changed.clock_max_hz or spec.clock_max_hz) / spec.clock_max_hz
        changed = replace(changed, clock_for_peak_hz=spec.clock_for_peak_hz * ratio)
    arithmetic = {"compute_units", "clock_max_hz", "clock_for_peak_hz", *RATES, *UNITS_OF_ARITHMETIC}
    if changed.clock_max_hz and changed.clock_for_peak_hz and changed.clock_for_peak_hz > changed.clock_max_hz:
        raise InputError(f"{spec.slug}: the clock of the peak, {units.show(changed.clock_for_peak_hz, 'Hz')}, is above the highest clock")
    return replace(
        changed, slug=spec.slug + "".join(slug), name=f"{spec.name}, edited", aliases=(), names=(), pci_ids=(),
        published_peak=None if arithmetic & given.keys() else spec.published_peak,
    )  # fmt: skip


def _read(text: str, spec: Spec) -> tuple[EditedFigure, str]:
    name, sign, value = (part.strip() for part in text.partition("="))
    if not sign or not value:
        raise InputError(f"'{text}' is not an edit of {spec.slug}: write KEY=VALUE, {EXAMPLE}")
    figure = NAMES.get(name.lower())
    if figure is None:
        valid = [_shown(one) for one in FIGURES.values()]
        close = closest(name.lower(), NAMES)
        hint = f"{HINT} '{_shown(NAMES[close])}'? " if close else ""
        raise InputError(f"{spec.slug} has no figure '{name}'; {hint}{nearest('', valid)}")
    return figure, value


def _shown(figure: EditedFigure) -> str:
    return SHOWN.get(figure.field, figure.field)


def _taken(spec: Spec, figure: EditedFigure, text: str) -> tuple[Spec, str]:
    """The machine with one figure edited, and the value as the slug says it."""
    factor = _factor(figure, text)
    if figure.field in RATES:
        return _rates(spec, figure, factor), f"*{factor:g}"
    if figure.relative:
        return _noted(spec, figure.field, factor, "as the model takes it for every machine"), f"*{factor:g}"
    old = stands(spec, figure.field)
    if math.isnan(factor):
        value = _absolute(figure, text)
    elif old is None:
        raise InputError(f"{_shown(figure)} of {spec.table_slug} is not known: nothing to multiply; give the figure itself, {EXAMPLE}")
    else:
        value = old * factor
    value = float(max(1, round(value))) if figure.whole and not math.isnan(factor) else value
    _sane(spec, figure, value, old)
    was = "not known" if old is None else f"was {units.exact(old, figure.unit)}"
    said = f"{value:.12g}" if math.isnan(factor) else f"*{factor:g}"
    return _noted(spec, figure.field, int(value) if figure.whole else value, was), said


def _factor(figure: EditedFigure, text: str) -> float:
    """Of a relative value; nan of an absolute one."""
    match = _TIMES.match(text)
    if not match:
        if figure.relative:
            raise InputError(f"'{_shown(figure)}' is relative to the machine of the table: write {_shown(figure)}=*1.2, not '{text}'")
        return math.nan
    try:
        factor = float(match["star"] or match["plain"])
    except ValueError:
        factor = math.nan
    if not LEAST <= factor <= MOST:
        raise InputError(f"'{_shown(figure)}' is multiplied by {LEAST:g} to {MOST:g}, not by '{text}'")
    return factor


def _absolute(figure: EditedFigure, text: str) -> float:
    try:
        return units.parse(text, figure.unit)
    except InputError as error:
        raise InputError(f"'{_shown(figure)}': {error}") from None


def stands(spec: Spec, name: str) -> float | None:
    """What a field is before it is edited."""
    if name in UNITS_OF_ARITHMETIC:
        return spec.flop_per_clock.get(name)
    if name == "host_b_s" and spec.host_b_s is None and spec.pcie_b_s:
        return 2 * spec.pcie_b_s  # the link to the host is PCI Express, of which the table has lanes
    value: float | None = getattr(spec, name)
    return value


def _sane(spec: Spec, figure: EditedFigure, value: float, old: float | None) -> None:
    name = _shown(figure)
    if not (0 < value < math.inf):
        raise InputError(f"'{name}' must be above 0, not {value:g}")
    if figure.whole and value != int(value):
        raise InputError(f"'{name}' is a whole number, not {value:g}")
    if figure.field == "pcie_generation" and int(value) not in PCIE_TRANSFERS_PER_S:
        raise InputError(f"'pcie_generation' is one of {', '.join(map(str, PCIE_TRANSFERS_PER_S))}, not {value:g}")
    if old and not LEAST <= value / old <= MOST:
        times = f"{value / old:.3g} times {units.exact(old, figure.unit)} of {spec.table_slug}"
        raise InputError(f"'{name}' of {units.exact(value, figure.unit)} is {times}: at most {MOST:g} times, at least a hundredth")


def _rates(spec: Spec, figure: EditedFigure, factor: float) -> Spec:
    kind = RATES[figure.field]
    if not known(spec, figure.field):
        raise InputError(f"{spec.table_slug} has no {kind.rstrip('.')} rate in the machine table: nothing to multiply")
    rates = {unit: rate * factor if unit.startswith(kind) else rate for unit, rate in spec.flop_per_clock.items()}
    return replace(spec, flop_per_clock=rates, edits={**spec.edits, figure.field: f"all {kind}* were 1/{factor:g} of it"})


def _noted(spec: Spec, name: str, value: Any, was: str) -> Spec:
    """The figure set, and what it was before, in the words of its provenance."""
    notes: Mapping[str, str] = {**spec.edits, SHOWN.get(name, name): was}
    if name in UNITS_OF_ARITHMETIC:
        return replace(spec, flop_per_clock={**spec.flop_per_clock, name: value}, edits=notes)
    changed: dict[str, Any] = {name: value, "edits": notes}
    if name == "host_b_s" and spec.host_b_s is None:
        changed |= {"pcie_generation": None, "pcie_lanes": None}  # the link to the host is now this one
    if name in _SOURCES:
        changed[_SOURCES[name]] = f"edited: {was} in the machine table"
    return replace(spec, **changed)


_SOURCES = {"memory_bandwidth_b_s": "memory_bandwidth_source", "clock_max_hz": "clock_source"}
"""Fields that say where a figure comes from."""


def known(spec: Spec, name: str) -> bool:
    """Whether a field of the machine can be multiplied."""
    if name in RATES:
        return any(unit.startswith(RATES[name]) for unit in spec.flop_per_clock)
    return FIGURES[name].relative or bool(stands(spec, name))


def apply(spec: Spec, factors: Mapping[str, float]) -> Spec:
    """The same with fields multiplied, for those who ask by program; what is not known stays so."""
    changes = [f"{_shown(FIGURES[name])}=*{factor:.12g}" for name, factor in factors.items() if known(spec, name)]
    return edited(spec, changes) if changes else spec
