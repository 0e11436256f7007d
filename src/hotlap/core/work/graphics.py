"""Pixels, texels, triangles, draws and pipelines of the graphics workloads. A picture is square; its side is in pixels.

What is drawn over each other is a staircase: each layer covers eight rows less than the one before, so that a strip of every layer stays to
be seen and none can be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotlap.core.record import Value
from hotlap.core.work.base import Param, Work, Workload, integer, text
from hotlap.core.work.traits import RasterWork

STEP = 8  # rows that a layer shows beside the next one
FORMATS = {"rgba8unorm": 4, "r8unorm": 1, "rgba16float": 8, "rgba32float": 16}  # bytes of a pixel
TEXEL_BYTES = 4  # rgba8unorm
BLENDS = ("none", "add", "over")
FILTERS = ("nearest", "linear", "trilinear")
CELL = 2  # pixels of the side of what one draw call of `draws` covers


def staircase_pixels(side: int, layers: int) -> int:
    """Pixels that all layers together cover."""
    return side * sum(side - layer * STEP for layer in range(layers))


def _fill(params: Mapping[str, Value]) -> Work:
    side, layers = integer(params, "side"), integer(params, "layers")
    pixels, size = float(staircase_pixels(side, layers)), FORMATS[text(params, "format")]
    samples = integer(params, "samples")
    read = pixels * size * samples if params["blend"] != "none" else 0.0
    return Work(
        steps=pixels, operations={"raster.pixels": pixels}, read_bytes=read, written_bytes=pixels * size * samples,
        working_set_bytes=float(side * side * size * samples),
    )


def _fill_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    side, layers = integer(params, "side"), integer(params, "layers")
    if side & (side - 1):
        return "side", f"'side' is a power of two, as 1024, not {side}: positions are then exact"
    if layers * STEP > side:
        return "layers", f"{layers} layers need a side of {layers * STEP} pixels or more: each shows {STEP} rows"
    return None


def _overdraw(params: Mapping[str, Value]) -> Work:
    """Fragments that are rasterised, whether the depth test rejects them or not."""
    pixels = float(staircase_pixels(integer(params, "side"), integer(params, "layers")))
    return Work(steps=pixels, working_set_bytes=float(integer(params, "side") ** 2 * 8))


def _texture(params: Mapping[str, Value]) -> Work:
    texels = float(integer(params, "side") ** 2 * integer(params, "taps"))
    size, picture = integer(params, "texels") ** 2 * TEXEL_BYTES, float(integer(params, "side") ** 2 * FORMATS["rgba32float"])
    return Work(steps=texels, operations={"raster.texels": texels}, written_bytes=picture, working_set_bytes=float(size) + picture)


def _filled(params: Mapping[str, Any]) -> RasterWork:
    """Of opaque layers only what shows must be written; of blended ones all of them."""
    side, pixels = integer(params, "side"), float(staircase_pixels(integer(params, "side"), integer(params, "layers")))
    return RasterWork(pixels=pixels, least_pixels=float(side * side) if params["blend"] == "none" else pixels)


def _covered(params: Mapping[str, Any]) -> RasterWork:
    """From the back every layer is written over the one before; from the front a depth test rejects what is hidden."""
    side = integer(params, "side")
    if params["order"] == "front":
        return RasterWork(lacks="how many hidden pixels its depth test rejects a clock")
    return RasterWork(pixels=float(staircase_pixels(side, integer(params, "layers"))), least_pixels=float(side * side))


def _sampled(params: Mapping[str, Any]) -> RasterWork:
    pixels = float(integer(params, "side") ** 2)
    return RasterWork(
        pixels=pixels, least_pixels=pixels, texels=pixels * integer(params, "taps"), sampled=params["filter"] == "nearest",
    )


def _rasterised(params: Mapping[str, Any]) -> RasterWork:
    count = float(triangles(params))
    return RasterWork(triangles=count / 2 if params["culled"] is True else count, looked_at=count)


def _powers(params: Mapping[str, Value]) -> tuple[str, str] | None:
    for name in ("side", "texels", "cell"):
        if name in params and integer(params, name) & (integer(params, name) - 1):
            return name, f"'{name}' is a power of two, not {integer(params, name)}: positions are then exact"
    if "cell" in params and integer(params, "cell") > integer(params, "side"):
        return "cell", "'cell' is larger than the picture's side"
    return None


def triangles(params: Mapping[str, Any]) -> int:
    """One in each cell of the picture."""
    return (integer(params, "side") // integer(params, "cell")) ** 2


def _geometry(params: Mapping[str, Value]) -> Work:
    count = float(triangles(params))
    return Work(steps=count, operations={"raster.primitives": count})


def _draws(params: Mapping[str, Value]) -> Work:
    return Work(steps=float(integer(params, "calls")))


def _encoded(params: Mapping[str, Any]) -> tuple[str, str]:
    if params["mode"] == "bundle":
        return "launch", "each call is a command that the driver takes from a recorded bundle"
    return "launch", "each call is encoded by Python through wgpu, some µs, which is the binding's own cost and not the GPU's"


def _compiled(params: Mapping[str, Any]) -> tuple[str, str]:
    kept = {"cold": "a shader never seen is compiled, and the first draw waits", "warm": "a driver that keeps what it compiled finds it"}
    return "compile", kept.get(str(params["state"]), "the pipeline is kept: what is left is a draw and waiting for it")


def _shown(params: Mapping[str, Any]) -> tuple[str, str]:
    if params["mode"] == "fifo":
        return "display", "each frame waits for the display to take the one before"
    return "launch", "each frame is encoded by Python through wgpu and handed to the display's server"


def _side(default: int) -> Param:
    return Param("side", "int", "of the picture, in pixels", default, low=16, high=16384)


LAYERS = Param("layers", "int", "drawn over each other in one pass", 16, low=1, high=255)


def _rate(name: str, about: str, params: tuple[Param, ...], work: Any, **traits: Any) -> Workload:
    return Workload(
        name, about, params, "rate", "1/s", "higher", work, heading="graphics", preparer="graphics",
        needs="a target that draws: webgpu", **traits,
    )  # fmt: skip


WORKLOADS = (
    _rate(
        "fillrate", "pixels of all layers drawn a second, hidden opaque ones among them: rectangles over each other, each pixel exact",
        (
            Param("format", "str", "of the picture", "rgba8unorm", choices=tuple(FORMATS)),
            Param("blend", "str", "opaque, added to what is there, or half of it over what is there", "none", choices=BLENDS),
            Param("samples", "int", "of a pixel (MSAA): 1 or 4", 1, low=1, high=4),
            Param("depth", "str", "no depth buffer, tested, or tested and written", "none", choices=("none", "test", "write")),
            _side(2048), LAYERS,
        ),
        _fill, fault=_fill_fault, drawn=_filled, counts="pixel",
    ),
    _rate(
        "texture", "texels filtered a second; footprint = texels² × 4 B",
        (
            Param("filter", "str", "how a texel is made of those around it", "linear", choices=FILTERS),
            Param("texels", "int", "side of the texture", 1024, low=16, high=16384),
            Param("taps", "int", "texels of one pixel", 16, low=1, high=64),
            _side(1024),
        ),
        _texture, fault=_powers, drawn=_sampled, counts="texel",
    ),
    _rate(
        "geometry", "triangles a second, each with a value of its own in the picture",
        (
            Param("cell", "int", "side of the square that a triangle lies in, in pixels", 4, low=2, high=1024),
            Param("culled", "bool", "every other one faces away", False), _side(2048),
        ),
        _geometry, fault=_powers, drawn=_rasterised, counts="tri",
    ),
    _rate(
        "overdraw", "covered pixels a second under a depth test: from the front most are rejected, from the back none",
        (Param("order", "str", "which layer comes first", "front", choices=("front", "back")), _side(2048), LAYERS),
        _overdraw, fault=_fill_fault, drawn=_covered, counts="pixel",
    ),
    _rate(
        "draws", "draw calls a second, each a square of its own",
        (
            Param("mode", "str", "encoded each time, or recorded once as a bundle", "calls", choices=("calls", "bundle")),
            Param("calls", "int", "draws of one pass", 1000, low=1, high=2**20),
        ),
        _draws, cause=_encoded, counts="draw",
    ),
    Workload(
        "pipeline", "a pipeline made, and its first picture waited for: shaders compile in one or the other",
        (Param("state", "str", "cold: new; warm: made again; cached: the pipeline kept", "cold", choices=("cold", "warm", "cached")),),
        "latency", "s", "lower", lambda _: Work(), heading="graphics", preparer="graphics", needs="a target that draws: webgpu",
        step="pipeline", cause=_compiled,
    ),
    Workload(
        "present", "a frame presented to a window, from one to the next, and how evenly they come",
        (
            Param("mode", "str", "fifo: at the display's refresh; immediate: at once", "fifo", choices=("fifo", "immediate")),
            _side(256), Param("layers", "int", "drawn over each other in each frame", 1, low=1, high=255),
        ),
        "latency", "s", "lower", lambda _: Work(), heading="graphics", preparer="presenting", fault=_fill_fault,
        needs="a target that draws, webgpu, and an X11 display", step="frame", cause=_shown,
    ),
)  # fmt: skip

FILL, TEXTURE, GEOMETRY, OVERDRAW, DRAWS, PIPELINE, PRESENT = WORKLOADS
