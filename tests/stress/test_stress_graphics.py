"""Load that draws: by every workload of pixels, texels and triangles, alone and beside compute, every picture checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hotlap.core.measure import targets
from hotlap.core.measure.workloads import drawing
from hotlap.core.store import bundle as bundles
from hotlap.core.work import WORKLOADS
from hotlap.stress import record as stress
from hotlap.stress import session, show_page, units
from hotlap.stress import verdict as judging
from hotlap.stress.units import graphics, strike


def ran(name: str, target: str, home: Path, seconds: float) -> judging.StressVerdict:
    asked = replace(stress.load(name), seconds=seconds)
    path = session.run(asked, session.StressOptions(target=target, home=home), lambda _device, _line: None)
    run = judging.of(bundles.load(path))
    assert run is not None
    return run.verdict


def test_every_workload_that_draws_is_a_unit() -> None:
    spec = targets.parse("simulated:rtx-4090")
    found, missing = units.units(targets.open_device(spec, targets.find(spec)[0]), "graphics", [], 1)
    assert {one.name for one in found} == {f"graphics {name}" for name, one in WORKLOADS.items() if one.drawn}
    assert missing == {}


def test_a_card_of_which_nothing_is_known_says_so() -> None:
    spec = targets.parse("simulated:mi300x")
    found, missing = units.units(targets.open_device(spec, targets.find(spec)[0]), "graphics", [], 1)
    assert found == []
    assert all("ROPs" in why for why in missing.values())


def test_rates_stand_beside_their_limits_and_a_card_that_is_well_passes(tmp_path: Path) -> None:
    found = ran("graphics", "simulated:rtx-4090?raster=0.8", tmp_path, 60.0)
    (device,) = found.devices
    rates = {rate.kind: rate for rate in device.rates}
    assert found.state == "pass"
    for kind in ("graphics fillrate", "graphics texture"):
        assert rates[kind].unit == "1/s"
        assert rates[kind].expected is not None
        assert rates[kind].sustained / rates[kind].expected == pytest.approx(0.8, abs=0.01)
    assert rates["graphics geometry"].expected is None


def test_beside_compute_both_are_done_and_checked(tmp_path: Path) -> None:
    (device,) = ran("graphics-mixed", "simulated:rtx-4090", tmp_path, 10.0).devices
    kinds = {rate.kind for rate in device.rates}
    assert {"graphics fillrate", "products fp32", "memory"} <= kinds
    assert device.figures["checked"] == device.figures["units"] > 0


@pytest.mark.parametrize("name", ["graphics", "graphics-mixed"])
def test_the_page_draws_pixels_texels_and_triangles(tmp_path: Path, name: str) -> None:
    path = session.run(
        replace(stress.load(name), seconds=10.0), session.StressOptions(target="simulated:rtx-4090", home=tmp_path), lambda _device, _line: None
    )
    run = judging.of(bundles.load(path))
    assert run is not None
    page = show_page.section(run)
    assert "a lane per kind" in page
    assert all(unit in page for unit in ("Gpixel/s", "Ttexel/s", "Gtri/s"))
    assert {"graphics fillrate", "graphics texture"} <= {kind for rate in run.verdict.devices for kind in (one.kind for one in rate.rates)}
    assert all(f">{one.kind.removeprefix('graphics ')}</text>" in page for one in run.verdict.devices[0].rates if one.kind.startswith("graphics"))


def test_one_wrong_tile_fails_the_device(tmp_path: Path) -> None:
    found = ran("graphics", "simulated:rtx-4090?tiles=1", tmp_path, 5.0)
    assert found.state == "fail"
    wrong = found.devices[0].wrong[0]
    assert (wrong.by, wrong.kind, wrong.bits) == ("picture", "permanent", [])
    assert "1 of 64 tiles differ" in wrong.place


def test_pictures_of_an_adapter_are_right_and_a_spoilt_one_is_found(webgpu_target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphics, "SIDES", {"cpu": 128, "gpu": 128})
    found, missing = graphics.units(webgpu_target, 7)
    assert missing == {}
    for one in found:
        one.run()
        assert one.check() == []
    read = drawing.Picture.read
    left = [1]

    def spoilt(self: Any) -> Any:
        picture = read(self).copy()
        if left:
            left.pop()
            picture[8:16, 8:16] = picture[8:16, 8:16][::-1, ::-1] + 1
        return picture

    monkeypatch.setattr(drawing.Picture, "read", spoilt)
    (wrong,) = found[0].check()
    assert (wrong.by, wrong.kind) == ("picture", "transient")


@pytest.mark.parametrize(("kind", "where", "by"), [("products", "result", "checksum"), ("memory", "memory", "pattern"), ("atomics", "cells", "count")])
def test_units_in_wgsl_find_a_flipped_bit(webgpu_target: Any, kind: str, where: str, by: str) -> None:
    (one,), _ = units.units(webgpu_target, kind, ["fp32"], 3)
    one.run()
    assert one.check() == []
    strike.arm(one, where, 4 * 17 + 3, 6)
    one.run()
    (wrong,) = one.check()
    assert (wrong.by, wrong.bits, wrong.kind) == (by, [30], "transient")
    one.run()
    assert one.check() == []
