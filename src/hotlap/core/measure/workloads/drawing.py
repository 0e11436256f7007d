"""A picture on a target that draws: its textures, its pipelines, a pass that draws it, and what it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Array
from hotlap.core.measure.targets.sticky import ended, sticky
from hotlap.core.measure.workloads import source

NUMPY: Mapping[str, tuple[type[np.generic], int]] = {  # format: type and channels
    "rgba8unorm": (np.uint8, 4), "r8unorm": (np.uint8, 1), "bgra8unorm": (np.uint8, 4),
    "rgba16float": (np.float16, 4), "rgba32float": (np.float32, 4), "r32uint": (np.uint32, 1),
}  # fmt: skip
ADD = {name: {"src_factor": "one", "dst_factor": "one", "operation": "add"} for name in ("color", "alpha")}
OVER = {
    "color": {"src_factor": "src-alpha", "dst_factor": "one-minus-src-alpha", "operation": "add"},
    "alpha": {"src_factor": "one", "dst_factor": "one-minus-src-alpha", "operation": "add"},
}
DEPTH = "depth32float"
COUNTED = ("vertex-shader-invocations", "clipper-invocations", "clipper-primitives-out", "fragment-shader-invocations")


def line(error: BaseException) -> str:
    """The last line of a driver's message, which says most."""
    return ([one.strip() for one in str(error).splitlines() if one.strip()] or ["no message"])[-1][:200]


SOFTWARE_SIDE = 4096  # of the largest picture that a software adapter draws, and the host checks, while a run waits


class Picture:
    """A square of `side` pixels. Raises NotSupported for a size, format or number of samples that the adapter lacks."""

    def __init__(self, target: Any, side: int, form: str, samples: int = 1, depth: bool = False) -> None:
        self.target, self.side, self.form, self.samples, self.depth = target, side, form, samples, depth
        most = target.limits["max-texture-dimension-2d"]
        if side > most:
            raise NotSupported(f"a side of {side} pixels is more than this adapter's largest picture, {most}")
        if side > SOFTWARE_SIDE and target.device.kind == "cpu":
            raise NotSupported(f"a side of {side} pixels takes a software adapter longer than a round; at most {SOFTWARE_SIDE}")
        usage = target.flags.TextureUsage
        self.texture = self._made(form, 1, usage.RENDER_ATTACHMENT | usage.COPY_SRC)
        self.sampled = self._made(form, samples, usage.RENDER_ATTACHMENT) if samples > 1 else None
        self.deep = self._made(DEPTH, samples, usage.RENDER_ATTACHMENT) if depth else None
        self.views = [one.create_view() if one is not None else None for one in (self.texture, self.sampled, self.deep)]

    def _made(self, form: str, samples: int, usage: int) -> Any:
        return self.attempt(
            lambda: self.target.raw.create_texture(size=(self.side, self.side, 1), format=form, sample_count=samples, usage=usage),
            f"{form} with {samples} samples",
        )

    def attempt(self, make: Callable[[], Any], what: str) -> Any:
        """What the adapter refuses becomes NotSupported; MachineError where the adapter is lost."""
        try:
            return make()
        except (self.target.wgpu.GPUError, self.target.wgpu.GPUPipelineError, ValueError) as error:
            raise (ended(error) if sticky(error) else NotSupported(f"this adapter has no {what} ({line(error)})")) from error

    def module(self, constants: Mapping[str, int | float | str]) -> Any:
        """The shaders, with their constants before them."""
        return self.target.shader(shaders(constants), "graphics")

    def pipeline(self, module: Any, vertex: str, fragment: str, topology: str = "triangle-list", **state: Any) -> Any:
        """`state`: blend, cull, depth_write."""
        colour = {"format": self.form} | ({"blend": state["blend"]} if state.get("blend") else {})
        deep = {"format": DEPTH, "depth_write_enabled": bool(state.get("depth_write")), "depth_compare": "less"}
        return self.attempt(
            lambda: self.target.raw.create_render_pipeline(
                layout="auto", vertex={"module": module, "entry_point": vertex},
                fragment={"module": module, "entry_point": fragment, "targets": [colour]},
                primitive={"topology": topology, "cull_mode": "back" if state.get("cull") else "none", "front_face": "ccw"},
                multisample={"count": self.samples}, depth_stencil=deep if self.depth else None,
            ),
            f"{self.form} with {self.samples} samples and this blending",
        )  # fmt: skip

    def bound(self, pipeline: Any, *resources: Any) -> Any:
        """Buffers, views and samplers in order."""
        kind = self.target.wgpu.GPUBuffer
        entries = [
            {"binding": n, "resource": {"buffer": one, "offset": 0, "size": one.size} if isinstance(one, kind) else one}
            for n, one in enumerate(resources)
        ]
        return self.target.raw.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)

    def draw(self, commands: Callable[[Any], None]) -> None:
        """One pass over a cleared picture, enqueued."""
        single, sampled, deep = self.views
        colour = {"view": sampled or single, "load_op": "clear", "store_op": "store", "clear_value": (0, 0, 0, 0)}
        colour |= {"resolve_target": single} if sampled else {}
        given = {"view": deep, "depth_load_op": "clear", "depth_store_op": "store", "depth_clear_value": 1.0}
        render = self.target.encoder().begin_render_pass(color_attachments=[colour], depth_stencil_attachment=given if deep else None)
        commands(render)
        render.end()

    def read(self) -> Array:
        """Values of all pixels, shape (side, side, channels)."""
        self.target.sync()
        kind, channels = NUMPY[self.form]
        row = self.side * channels * np.dtype(kind).itemsize
        raw = self.target.queue.read_texture(
            {"texture": self.texture, "mip_level": 0, "origin": (0, 0, 0)},
            {"offset": 0, "bytes_per_row": row, "rows_per_image": self.side},
            (self.side, self.side, 1),
        )  # fmt: skip
        return np.frombuffer(raw, kind).reshape(self.side, self.side, channels)

    def counted(self, commands: Callable[[Any], None]) -> dict[str, int]:
        """Pipeline statistics of one pass; empty where the adapter has none."""
        if "pipeline-statistics-query" not in self.target.extras:
            return {}
        extras, usage = self.target.wgpu.backends.wgpu_native.extras, self.target.flags.BufferUsage
        queries = extras.create_statistics_query_set(self.target.raw, count=1, statistics=list(COUNTED))

        def watched(render: Any) -> None:
            render._begin_pipeline_statistics_query(queries, 0)  # the public function prints to stdout
            commands(render)
            extras.end_pipeline_statistics_query(render)

        self.draw(watched)
        answer = self.target.raw.create_buffer(size=256, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
        self.target.encoder().resolve_query_set(queries, 0, 1, answer, 0)
        self.target.sync()
        found = np.frombuffer(self.target.queue.read_buffer(answer, 0, 8 * len(COUNTED)), np.uint64)
        return dict(zip(COUNTED, map(int, found), strict=True))


def shaders(constants: Mapping[str, int | float | str]) -> str:
    """The text of all shaders; constants that are not given are 1."""
    kinds = {"TAPS": "u32", "LEVELS": "u32", "TEXELS": "u32", "SIDE": "u32", "CELL": "u32", "OFFSET": "f32", "BETWEEN": "f32"}
    given = "\n".join(f"const {name}: {kind} = {constants.get(name, 1)};" for name, kind in kinds.items())
    return f"{given}\n{source('graphics', 'wgsl')}"
