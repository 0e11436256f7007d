"""Fill, texture, geometry, overdraw, draw calls and pipelines, on a target that draws. Every picture is checked pixel by pixel, with
colours, textures and numbers of each round's own seed: what leaves out a layer, a tile, a level or a triangle is wrong."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.pictures import compared
from hotlap.core.measure.targets.base import Array, Target
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.measure.workloads.drawing import ADD, NUMPY, OVER, Picture, shaders
from hotlap.core.record import Case, Check
from hotlap.core.work.base import integer
from hotlap.core.work.graphics import CELL, STEP, triangles

HALF = 128  # of 255: alpha of a layer that is drawn over others
SOFTWARE_TEXELS = 2**26  # of a picture, that a software adapter takes and the host checks while a run waits
OVER_LSB = 2.0  # of 255: each layer rounds by 1 at most, and halves what those below were off by
FILTERED_LSB = 1.5  # of 255, that one filtered texel may be off: WebGPU leaves the filter's precision open; 0.9 seen


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Dispatches by workload. Raises NotSupported on a target that does not draw."""
    if target.dialect != "wgsl":
        raise NotSupported(f"the {target.device.target} target does not draw; give --target webgpu")
    makers: dict[str, Callable[[Any, Case, np.random.Generator], Prepared]] = {
        "fillrate": _layers, "overdraw": _layers, "texture": _texture, "geometry": _geometry, "draws": _draws, "pipeline": _pipeline,
    }
    return makers[case.workload](target, case, rng)


# ---------------------------------------------------------------- fill, overdraw


def _layers(target: Any, case: Case, rng: np.random.Generator) -> Prepared:
    params = {"format": "rgba8unorm", "blend": "none", "samples": 1, "depth": "write", "order": "back", **case.params}
    side, layers, form = integer(params, "side"), integer(params, "layers"), str(params["format"])
    if integer(params, "samples") not in (1, 4):
        raise NotSupported(f"WebGPU has 1 or 4 samples, not {params['samples']}")
    picture = Picture(target, side, form, integer(params, "samples"), params["depth"] != "none")
    blend = str(params["blend"])
    commands, colour = stairs(picture, layers, rng, blend, front=params["order"] == "front", depth_write=params["depth"] == "write")
    colour()

    def check() -> Check:
        colours = colour()
        picture.draw(commands)
        shown = np.cumsum(colours, axis=0) if blend == "add" else over(colours, form) if blend == "over" else colours
        should = stairs_shown(shown, side)[:, :, : NUMPY[form][1]]
        tolerance, words = (OVER_LSB, f"within {OVER_LSB:g} of 255") if blend == "over" else (0.0, "exact")
        return compared(picture.read(), should, tolerance, f"all pixels of {layers} layers, {words}")

    return Prepared(lambda calls: _repeat(picture, commands, calls), check, variant=f"{layers} layers in one draw")


def stairs(
    picture: Picture, layers: int, rng: np.random.Generator, blend: str = "none", *, front: bool = False, depth_write: bool = False,
) -> tuple[Callable[[Any], None], Callable[[], Array]]:
    """What draws a staircase of layers, and what gives each a fresh colour: whole numbers, shape (layers, 4), written to the device."""
    target = picture.target
    pipeline = picture.pipeline(
        picture.module({}), "layer", "plain", "triangle-strip", blend={"add": ADD, "over": OVER}.get(blend), depth_write=depth_write,
    )
    places = target.buffer(np.zeros(8 * layers, np.float32))
    bindings = picture.bound(pipeline, places.handle)
    order = np.arange(layers)[:: -1 if front else 1]  # of the strips that layers show, as they are drawn

    def commands(render: Any) -> None:
        render.set_pipeline(pipeline)
        render.set_bind_group(0, bindings)
        render.draw(4, layers)

    def colour() -> Array:
        most = 255 // layers if blend == "add" else 255
        colours = rng.integers(1, most + 1, (layers, 4))
        same = (np.diff(colours, axis=0, prepend=-1) == 0) & (blend != "add")
        colours[same] = colours[same] % 255 + 1 - (colours[same] == 255)
        if blend == "over":
            colours[:, 3] = HALF
        unit = 255.0 if picture.form.endswith("unorm") else 1.0
        rows = np.zeros((layers, 8), np.float32)
        rows[:, :4] = colours[order] / unit
        if blend == "over":
            rows[:, 3] = HALF / 255
        rows[:, 4] = 1 - 2 * order * STEP / picture.side
        rows[:, 5] = 1 - (order + 1) / (layers + 1)
        target.copy(places, target.buffer(rows.reshape(-1), "pageable"))
        return colours

    return commands, colour


def stairs_shown(shown: Array, side: int) -> Array:
    """The picture of what each layer shows, shape (side, side, 4)."""
    rows = np.minimum(np.arange(side) // STEP, len(shown) - 1)
    return np.broadcast_to(shown[rows][:, None, :], (side, side, shown.shape[1]))


def over(colours: Array, form: str) -> Array:
    """What shows of each layer, half of it over what lies below. In floats, alpha is of 1 and colours of 255."""
    share, whole, shown = HALF / 255, form.endswith("unorm"), np.zeros((len(colours), 4))
    below = np.zeros(4)
    for number, colour in enumerate(colours.astype(np.float64)):
        full = 255.0 if whole else 1.0
        below = np.append(colour[:3] * share + below[:3] * (1 - share), share * full + below[3] * (1 - share))
        below = np.round(below) if whole else below
        shown[number] = below
    return shown


def _repeat(picture: Picture, commands: Callable[[Any], None], calls: int) -> None:
    for _ in range(calls):
        picture.draw(commands)


# ---------------------------------------------------------------- texture


def _texture(target: Any, case: Case, rng: np.random.Generator) -> Prepared:
    side, texels, taps = (integer(case.params, name) for name in ("side", "texels", "taps"))
    how = str(case.params["filter"])
    if texels > target.limits["max-texture-dimension-2d"]:
        raise NotSupported(f"a side of {texels} texels is more than this adapter's largest texture")
    if side**2 * taps > SOFTWARE_TEXELS and target.device.kind == "cpu":
        raise NotSupported(f"{taps} taps of {side} × {side} pixels take a software adapter longer than a round; a side of 1024 does not")
    levels = texels.bit_length() if how == "trilinear" else 1
    picture = Picture(target, side, "rgba32float")
    usage = target.flags.TextureUsage
    image = target.raw.create_texture(
        size=(texels, texels, 1), format="rgba8unorm", mip_level_count=levels, usage=usage.TEXTURE_BINDING | usage.COPY_DST,
    )
    smooth = "nearest" if how == "nearest" else "linear"
    sampler = target.raw.create_sampler(
        address_mode_u="repeat", address_mode_v="repeat", min_filter=smooth, mag_filter=smooth,
        mipmap_filter="linear" if how == "trilinear" else "nearest",
    )
    offset, between, used = (0.5, 0.0, 1) if how == "nearest" else (1.0, 0.5, levels - 1) if how == "trilinear" else (1.0, 0.0, 1)
    module = picture.module({"TAPS": taps, "LEVELS": used, "TEXELS": texels, "OFFSET": offset, "BETWEEN": between})
    pipeline = picture.pipeline(module, "whole", "taps")
    bindings = picture.bound(pipeline, image.create_view(), sampler)

    def commands(render: Any) -> None:
        render.set_pipeline(pipeline)
        render.set_bind_group(0, bindings)
        render.draw(3)

    def paint() -> list[Array]:
        """Fresh noise in every level."""
        content = [rng.integers(0, 256, (texels >> n, texels >> n, 4), np.uint8) for n in range(levels)]
        target.submit()
        for n, level in enumerate(content):
            wide = texels >> n
            place = {"texture": image, "mip_level": n, "origin": (0, 0, 0)}
            target.queue.write_texture(place, level, {"offset": 0, "bytes_per_row": 4 * wide, "rows_per_image": wide}, (wide, wide, 1))
        return content

    paint()

    def check() -> Check:
        content = paint()
        picture.draw(commands)
        got = 255.0 * picture.read()
        should = np.zeros((side, side, 4))
        for k in range(taps):
            should += _filtered(content, k % used, side, k, offset, between)
        tolerance = 0.01 if how == "nearest" else FILTERED_LSB * taps
        return compared(got, should, tolerance, f"all pixels of {taps} taps, {levels} of levels, recomputed on the host")

    return Prepared(lambda calls: _repeat(picture, commands, calls), check, variant=f"rgba8unorm, {levels} levels")


def _filtered(content: list[Array], level: int, side: int, tap: int, offset: float, between: float) -> Array:
    """What one tap adds to each pixel, in 255ths. `offset` from a texel's corner: at its centre it is the texel's own value; between two
    levels their mean."""
    x, y = np.arange(side) + 5.0 * tap + offset, np.arange(side) + 3.0 * tap + offset
    parts = []
    for n in (level, level + 1) if between else (level,):
        scale = 2.0 ** (n - level)
        rows, columns = (_weights(places / scale, len(content[n])) for places in (y, x))
        down = _mixed(content[n], rows, 0)
        parts.append(_mixed(down, columns, 1))
    return np.asarray(sum(parts) / len(parts))


def _weights(places: Array, wide: int) -> tuple[Array, Array, Array]:
    """The two texels on either side of each place, and the share of the second."""
    first = np.floor(places - 0.5)
    return (first.astype(int)) % wide, (first.astype(int) + 1) % wide, places - 0.5 - first


def _mixed(values: Array, weights: tuple[Array, Array, Array], axis: int) -> Array:
    first, second, share = weights
    shaped = share[:, None, None] if axis == 0 else share[None, :, None]
    return np.asarray(np.take(values, first, axis) * (1 - shaped) + np.take(values, second, axis) * shaped)


# ---------------------------------------------------------------- geometry, draws


def hashed(numbers: Array, seed: int) -> Array:
    """As `mixed` in graphics.wgsl."""
    u = ((numbers.astype(np.uint64) + 1) * 2654435761 ^ seed) & 0xFFFFFFFF
    u = ((u ^ (u >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return np.asarray((u ^ (u >> 16)).astype(np.uint32))


class _Numbers:
    """A picture in which everything writes a hash of its number, with the seed of the last drawing."""

    def __init__(self, target: Any, side: int, cell: int, rng: np.random.Generator, culled: bool | None = None) -> None:
        """`culled`: of triangles, whether every other one faces away; None: squares."""
        self.target, self.rng, self.culled = target, rng, bool(culled)
        vertex, topology = ("square", "triangle-strip") if culled is None else ("triangle", "triangle-list")
        self.picture = Picture(target, side, "r32uint")
        module = self.picture.module({"SIDE": side, "CELL": cell})
        self.pipeline = self.picture.pipeline(module, vertex, "numbered", topology, cull=self.culled)
        self.seeded = target.uniform(bytes(16))
        self.bindings = self.picture.bound(self.pipeline, self.seeded)
        self.seed()

    def seed(self) -> tuple[int, int]:
        """A fresh seed, and which parity faces away."""
        seed, parity = int(self.rng.integers(2**32)), int(self.rng.integers(2))
        self.target.submit()
        self.target.queue.write_buffer(self.seeded, 0, np.array([seed, parity, self.culled, 0], np.uint32))
        return seed, parity

    def begin(self, render: Any) -> None:
        render.set_pipeline(self.pipeline)
        render.set_bind_group(0, self.bindings)


def _geometry(target: Any, case: Case, rng: np.random.Generator) -> Prepared:
    side, cell, culled = integer(case.params, "side"), integer(case.params, "cell"), case.params["culled"] is True
    count = triangles(case.params)
    scene = _Numbers(target, side, cell, rng, culled)

    def commands(render: Any) -> None:
        scene.begin(render)
        render.draw(3 * count)

    def check() -> Check:
        seed, parity = scene.seed()
        counted = scene.picture.counted(commands)
        if not counted:
            scene.picture.draw(commands)
        numbers = np.arange(count)
        values = hashed(numbers, seed)
        if culled:
            values[numbers % 2 == parity] = 0
        x = np.arange(cell)
        inside = x[:, None] + x[None, :] < cell  # centres under the hypotenuse, which is half a pixel further out
        should = np.kron(values.reshape(side // cell, side // cell), inside)[:, :, None]
        check = compared(scene.picture.read(), should, 0.0, f"all pixels of {count} triangles, exact")
        least = {"vertex-shader-invocations": 3 * count, "clipper-invocations": count}
        short = [name for name, fewest in least.items() if counted.get(name, fewest) < fewest]
        if short:
            return Check(passed=False, what=f"{short[0]} are {counted[short[0]]}, too few for {count} triangles", error=1.0, tolerance=0.0)
        return check

    return Prepared(lambda calls: _repeat(scene.picture, commands, calls), check, variant=f"{count} triangles in one draw")


def _draws(target: Any, case: Case, rng: np.random.Generator) -> Prepared:
    calls, side = integer(case.params, "calls"), 16
    while (side // CELL) ** 2 < calls:
        side *= 2
    scene = _Numbers(target, side, CELL, rng)
    bundle = None
    if case.params["mode"] == "bundle":
        encoder = target.raw.create_render_bundle_encoder(color_formats=["r32uint"])
        scene.begin(encoder)
        for number in range(calls):
            encoder.draw(4, 1, 0, number)
        bundle = encoder.finish()

    def commands(render: Any) -> None:
        if bundle is not None:
            render.execute_bundles([bundle])
            return
        scene.begin(render)
        for number in range(calls):
            render.draw(4, 1, 0, number)

    def check() -> Check:
        seed, _ = scene.seed()
        scene.picture.draw(commands)
        values = np.zeros((side // CELL) ** 2, np.uint32)
        values[:calls] = hashed(np.arange(calls), seed)
        should = np.kron(values.reshape(side // CELL, side // CELL), np.ones((CELL, CELL), np.uint32))[:, :, None]
        return compared(scene.picture.read(), should, 0.0, f"all pixels of {calls} draws, exact")

    return Prepared(lambda n: _repeat(scene.picture, commands, n), check, timer="wall", variant=f"{case.params['mode']} of {calls} draws")


# ---------------------------------------------------------------- pipelines


def _pipeline(target: Any, case: Case, rng: np.random.Generator) -> Prepared:
    """Shaders that differ by a number are different to every cache. The number is no seed's, so that no cache on disk knows it."""
    state, side = str(case.params["state"]), 16
    picture = Picture(target, side, "rgba8unorm")
    last: list[tuple[int, Any]] = []

    def fresh(number: int) -> Any:
        colour = ", ".join(f"{number >> shift & 255}.0 / 255.0" for shift in (24, 16, 8, 0))
        text = f"{shaders({})}\n@fragment fn fresh() -> @location(0) vec4f {{ return vec4f({colour}); }}"
        return picture.pipeline(target.shader(text, "graphics"), "whole", "fresh")

    def show(number: int, pipeline: Any) -> None:
        def commands(render: Any) -> None:
            render.set_pipeline(pipeline)
            render.draw(3)

        picture.draw(commands)
        target.sync()

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            if state == "cold" or not last:
                number = secrets.randbits(32)
                last[:] = [(number, fresh(number))]
            elif state == "warm":
                last[:] = [(last[0][0], fresh(last[0][0]))]
            show(*last[0])

    def check() -> Check:
        enqueue(1)
        number = last[0][0]
        should = np.broadcast_to([number >> shift & 255 for shift in (24, 16, 8, 0)], (side, side, 4))
        return compared(picture.read(), should, 0.0, "all pixels have the colour in the shader's text")

    enqueue(1)
    return Prepared(enqueue, check, timer="wall", variant=f"{state}, first picture waited for")
