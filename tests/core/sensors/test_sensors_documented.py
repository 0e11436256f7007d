"""Every sensor that a source offers stands in the manual."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.core.sensors.documented import HELP, ROW, undocumented
from tests.core.sensors.test_drm import AMD, I915, XE, tree

from hotlap.core.measure.sensors import amd_smi, drm
from hotlap.core.measure.sensors.gpm import METRICS
from hotlap.core.measure.sensors.system import System
from hotlap.nodes.sensors import exposition


@pytest.mark.parametrize("card", [AMD, I915, XE])
def test_of_the_kernel_s_files(card: dict[str, str], tmp_path: Path) -> None:
    assert not undocumented(drm.Drm(tree(tmp_path, card0=card), "sys/class/drm/card0", "GPU-0").names()), ROW


def test_of_libraries() -> None:
    """Names alone: nothing is asked of the library. NVML's stand beside the tests with its stand-in."""
    assert not undocumented([*amd_smi.AmdSmi(SimpleNamespace(), None, "GPU-0").names(), *METRICS]), ROW


def test_of_the_host() -> None:
    names = System(0.0).names()
    assert not undocumented(names, "Sensors of the host"), ROW
    assert not {name.partition(".")[0] for name in names} - set(exposition.HELP), HELP


def test_one_that_is_missing_is_found() -> None:
    assert undocumented(["power_w", "fan.left", "pcie_errors.bad_tlp", "nvlink_bytes.sent", "loudness_db"]) == ["fan.left", "loudness_db"]
