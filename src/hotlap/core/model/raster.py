"""Limits of what draws: pixels, texels and triangles by the units of the graphics pipeline, and the memory behind them.

A unit works on so many pixels, texels or triangles a clock, of the whole chip. What a driver may leave out (hidden opaque pixels), what
some units do faster than the table says (points of a texture) and traffic that pictures compress are expected, never a bound.
"""

from __future__ import annotations

from hotlap.core.model.limit_part import COUNTED, LimitPart
from hotlap.core.model.machines import Spec
from hotlap.core.record import Notice, Term
from hotlap.core.units import size
from hotlap.core.work.base import Work
from hotlap.core.work.traits import RasterWork

HIDDEN = "a driver may leave out hidden pixels"
POINTS = "the table has the rate of filtered texels, and points may be faster"
PACKED = "pictures are compressed in memory, by an unknown share"


def parts(drawn: RasterWork, asked: Work, spec: Spec) -> list[LimitPart] | str:
    """What each unit takes, or why no limit is known: a unit that the case needs has no published rate."""
    if drawn.lacks:
        return f"no published figure of {spec.name} for {drawn.lacks}"
    needs = {
        "pixels written a clock (ROPs)": (drawn.pixels, spec.rops), "texels filtered a clock": (drawn.texels, spec.texels_per_clock),
        "triangles rasterised a clock": (drawn.triangles, spec.triangles_per_clock),
    }  # fmt: skip
    if unknown := [what for what, (count, rate) in needs.items() if count and not rate]:
        return f"no published number of {' and '.join(unknown)} of {spec.name}"
    if spec.clock_max_hz is None:
        return f"no published clock of {spec.name}"
    found = [*_pixels(drawn, spec), *_texels(drawn, spec), *_triangles(drawn, spec), *_memory(asked, spec)]
    return [part for part in found if part.seconds > 0]


def _pixels(drawn: RasterWork, spec: Spec) -> list[LimitPart]:
    if not spec.rops:
        return []
    every = _unit("ROP", "pixels", drawn.pixels, "rops", spec, HIDDEN if drawn.least_pixels < drawn.pixels else "")
    if drawn.least_pixels >= drawn.pixels or not spec.clock_proven:
        return [every]
    return [every, _unit("ROP, pixels that show", "pixels that show", drawn.least_pixels, "rops", spec, "")]


def _texels(drawn: RasterWork, spec: Spec) -> list[LimitPart]:
    doubt = POINTS if drawn.sampled else ""
    return [_unit("texture unit", "texels", drawn.texels, "texels_per_clock", spec, doubt)] if drawn.texels else []


def _triangles(drawn: RasterWork, spec: Spec) -> list[LimitPart]:
    if not drawn.triangles or not spec.triangles_per_clock:
        return []
    made = [_unit("geometry unit", "triangles", drawn.triangles, "triangles_per_clock", spec, "")]
    if spec.culled_per_clock and drawn.looked_at > drawn.triangles:
        made.append(_unit("geometry unit, with culled ones", "triangles looked at", drawn.looked_at, "culled_per_clock", spec, ""))
    return made


def _unit(name: str, what: str, count: float, field: str, spec: Spec, doubt: str) -> LimitPart:
    """`field`: of the machine, what the unit does a clock. `doubt`: why it is no bound."""
    per_clock, clock_hz = float(getattr(spec, field)), float(spec.clock_max_hz or 0)
    source = f"{per_clock:g} a clock: {spec.source_of_drawing(field)}"
    terms = (
        Term(name=what, value=count, unit="", source=COUNTED),
        Term(name=f"{what} a second", value=per_clock * clock_hz, unit="1/s", source=source),
        Term(name="clock", value=clock_hz, unit="Hz", source=spec.clock_source),
    )
    doubt = doubt or ("" if spec.clock_proven else spec.clock_source)
    notes = (Notice("not_proven", f"expected, not bound: {doubt}"),) if doubt else ()
    return LimitPart(name, name.partition(",")[0], count / per_clock / clock_hz, not doubt, terms, notes)


def _memory(asked: Work, spec: Spec) -> list[LimitPart]:
    """Traffic of pictures that do not fit the caches. Each layer passes over all of the picture."""
    held = spec.resident_bytes or 0.0
    if not spec.memory_bandwidth_b_s or not asked.memory_bytes or asked.working_set_bytes <= held:
        return []
    moved = asked.memory_bytes - held
    terms = (
        Term(name="memory traffic", value=moved, unit="B", source=f"uncompressed, less {size(held)} that may have stayed in cache"),
        Term(name="memory bandwidth", value=spec.memory_bandwidth_b_s, unit="B/s", source=spec.memory_bandwidth_source or spec.source()),
    )
    note = Notice("not_proven", f"memory is expected, not bound: {PACKED}")
    return [LimitPart("memory", "memory", moved / spec.memory_bandwidth_b_s, False, terms, (note,))]
