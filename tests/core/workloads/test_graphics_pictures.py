"""Pictures of the graphics workloads: right as drawn, and wrong where a layer, a tile, a level or a triangle is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hotlap.core.errors import NotSupported, Unavailable
from hotlap.core.measure import targets, workloads
from hotlap.core.measure.workloads import drawing, graphics
from hotlap.core.work import case_of, find
from hotlap.core.work import graphics as counted

SMALL = {"side": 64}
CASES = [
    (counted.FILL, {**SMALL, "layers": 8}), (counted.FILL, {**SMALL, "layers": 8, "blend": "add", "format": "rgba16float"}),
    *((counted.FILL, {**SMALL, "layers": 8, "blend": "over", "format": form}) for form in ("rgba8unorm", "r8unorm", "rgba16float")),
    (counted.FILL, {**SMALL, "layers": 8, "samples": 4}), (counted.FILL, {**SMALL, "layers": 4, "depth": "write", "format": "r8unorm"}),
    (counted.OVERDRAW, {**SMALL, "layers": 8}), (counted.OVERDRAW, {**SMALL, "layers": 8, "order": "back"}),
    *((counted.TEXTURE, {**SMALL, "texels": 32, "taps": 7, "filter": how}) for how in counted.FILTERS),
    (counted.GEOMETRY, SMALL), (counted.GEOMETRY, {**SMALL, "cell": 8, "culled": True}),
    (counted.DRAWS, {"calls": 100}), (counted.DRAWS, {"calls": 100, "mode": "bundle"}),
    *((counted.PIPELINE, {"state": state}) for state in ("cold", "warm", "cached")),
]  # fmt: skip


@pytest.fixture(name="target", scope="module")
def opened(webgpu_target: Any) -> Any:
    return webgpu_target



def _prepared(target: Any, spec: Any, params: dict[str, Any]) -> Any:
    prepared = workloads.prepare(target, spec.case(params), 5)
    target.time(prepared.enqueue, 2)
    return prepared


@pytest.mark.parametrize(("spec", "params"), CASES)
def test_a_picture_is_right_with_fresh_seeds(target: Any, spec: Any, params: dict[str, Any]) -> None:
    prepared = _prepared(target, spec, params)
    for _ in range(2):
        check = prepared.check()
        assert check.passed, check


@pytest.mark.parametrize(("spec", "params"), [case for case in CASES if case[0] is not counted.PIPELINE])
def test_one_wrong_tile_is_always_seen(target: Any, spec: Any, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    read = drawing.Picture.read

    def spoilt(self: Any) -> Any:
        picture = read(self).copy()
        picture[:8, :8] = picture[:8, :8][::-1, ::-1] + np.ones((), picture.dtype)
        return picture

    prepared = _prepared(target, spec, params)
    monkeypatch.setattr(drawing.Picture, "read", spoilt)
    if (spec is counted.TEXTURE and params["filter"] != "nearest") or params.get("blend") == "over":
        pytest.skip("one step of 255 is within what a filter or a blended layer may be off")
    check = prepared.check()
    assert not check.passed
    assert "tiles differ" in check.what


SKIPS = [
    (counted.FILL, {**SMALL, "layers": 8}, "l: u32) -> Layer {", "l0: u32) -> Layer { let l = select(l0, 2u, l0 == 3u);"),
    (counted.FILL, {**SMALL, "layers": 8, "blend": "add"}, "l: u32) -> Layer {", "l0: u32) -> Layer { let l = select(l0, 2u, l0 == 3u);"),
    (counted.FILL, {**SMALL, "layers": 8, "blend": "over"}, "l: u32) -> Layer {", "l0: u32) -> Layer { let l = select(l0, 2u, l0 == 3u);"),
    (counted.FILL, {**SMALL, "layers": 8}, "{ return in.colour; }", "{ if (all(floor(in.at.xy / 8.0) == vec2f(2.0, 3.0))) { discard; } return in.colour; }"),
    (counted.TEXTURE, {**SMALL, "texels": 32, "taps": 4, "filter": "linear"}, "k < TAPS", "k < TAPS - 1u"),
    (counted.TEXTURE, {**SMALL, "texels": 32, "taps": 8, "filter": "trilinear"}, "f32(level) + BETWEEN", "min(f32(level), 1.0) + BETWEEN"),
    (counted.GEOMETRY, SMALL, "let number = v / 3u;", "let number = min(v / 3u, SIDE / CELL * (SIDE / CELL) - 2u);"),
]


@pytest.mark.parametrize(("spec", "params", "old", "new"), SKIPS, ids=["layer", "blended layer", "layer over others", "tile", "tap", "level", "triangle"])
def test_what_leaves_work_out_is_wrong_in_5_of_5(
    target: Any, spec: Any, params: dict[str, Any], old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = drawing.source("graphics", "wgsl")
    assert old in text
    monkeypatch.setattr(drawing, "source", lambda *_: text.replace(old, new))
    prepared = _prepared(target, spec, params)
    assert not any(prepared.check().passed for _ in range(5))  # with colours, textures and numbers of a seed of its own each


def test_what_an_adapter_lacks_is_refused_with_its_reason(target: Any) -> None:
    with pytest.raises(NotSupported, match="does not support multisampling"):
        workloads.prepare(target, counted.FILL.case({**SMALL, "layers": 2, "format": "rgba32float", "samples": 4}), 1)
    with pytest.raises(NotSupported, match="1 or 4"):
        workloads.prepare(target, counted.FILL.case({**SMALL, "layers": 2, "samples": 2}), 1)
    target.limits["max-texture-dimension-2d"], most = 32, target.limits["max-texture-dimension-2d"]
    try:
        with pytest.raises(NotSupported, match="largest picture"):
            workloads.prepare(target, counted.GEOMETRY.case(SMALL), 1)
    finally:
        target.limits["max-texture-dimension-2d"] = most


def test_vertices_and_primitives_are_counted_exactly(target: Any) -> None:
    """In 50 random shapes."""
    if "pipeline-statistics-query" not in target.extras:
        pytest.skip("this adapter counts nothing")
    rng = np.random.default_rng(11)
    scene = graphics._Numbers(target, 64, 4, rng, False)
    for count in rng.integers(1, 257, 50):

        def some(render: Any, count: int = int(count)) -> None:
            scene.begin(render)
            render.draw(3 * count)

        found = scene.picture.counted(some)
        assert (found["vertex-shader-invocations"], found["clipper-invocations"]) == (3 * count, count)


def test_the_host_draws_nothing() -> None:
    spec = targets.TargetSpec("opencl")
    try:
        other = targets.open_device(spec, targets.find(spec)[0])
    except Unavailable as reason:
        pytest.skip(str(reason))
    with pytest.raises(NotSupported, match="--target webgpu"):
        workloads.prepare(other, case_of(f"{counted.FILL.name} side=64 layers=2"), 1)


def test_pixels_are_counted_as_they_are_covered() -> None:
    assert find(counted.FILL.name).work(counted.FILL.parse({"side": 64, "layers": 3})).steps == 64 * (64 + 56 + 48)
