"""Where the time of a device went: by hand on small timelines, and against the known numbers of recorded ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from hotlap.traces import breakdown
from hotlap.traces.building import Builder
from hotlap.traces.events import COPY, DEVICE_MARKER, KERNEL, OPERATOR, SET, Events, Head
from hotlap.traces.timeline import Timeline

SHARED = [Path(p) for p in (os.environ.get("HOTLAP_SHARED", ""), str(Path(__file__).parents[2] / ".." / "shared")) if p]
DATA = next((p / "data" / "traces" for p in SHARED if (p / "data" / "traces").is_dir()), None)
EXPECTED = json.loads((DATA / "expected.json").read_text()) if DATA else {}


def made(*rows: tuple[int, str, int, int, int]) -> Events:
    """Events of kind, name, device, start, end."""
    into = Builder()
    if rows:
        kind, name, device, start, end = zip(*rows, strict=True)
        into.add(start=np.array(start), duration=np.array(end) - np.array(start), kind=np.array(kind), device=np.array(device), stream=0,
                 name=np.array([into.names[one] for one in name]))  # fmt: skip
    return Events("made", Head(reader="made"), into.arrays(), into.tables())


def test_classes_by_hand() -> None:
    """Window 0 to 100: compute 10-30 and 50-60; communication 20-45, of which 10 ns lie under compute; a copy 40-50, of which 5 are open;
    a set 90-100; idle 0-10 is outside the window, which begins with the first work."""
    found = breakdown.of(made(
        (KERNEL, "gemm", 0, 10, 30), (KERNEL, "gemm", 0, 50, 60), (KERNEL, "ncclDevKernel_AllReduce", 0, 20, 45), (COPY, "Memcpy", 0, 40, 50),
        (SET, "Memset", 0, 90, 100), (OPERATOR, "aten::mm", -1, 0, 200), (DEVICE_MARKER, "step", 0, 0, 150),
    ))  # fmt: skip
    assert found.window_s == pytest.approx(90e-9)
    assert found.devices == 1
    assert found.compute_share == pytest.approx(30 / 90)
    assert found.communication_share == pytest.approx(25 / 90)
    assert found.exposed_communication_share == pytest.approx(15 / 90)
    assert found.overlap == pytest.approx(10 / 25)
    assert found.copy_share == pytest.approx(20 / 90)
    assert found.exposed_copy_share == pytest.approx(15 / 90)
    assert found.idle_share == pytest.approx(30 / 90)


def test_devices_are_weighted_by_their_windows() -> None:
    events = made((KERNEL, "a", 0, 0, 10), (KERNEL, "a", 0, 90, 100), (KERNEL, "a", 3, 50, 150), (KERNEL, "a", 3, 60, 70))
    assert breakdown.devices(events) == [0, 3]
    first, both = breakdown.of(events, 0), breakdown.of(events)
    assert first.compute_share == pytest.approx(0.2)
    assert first.device == 0
    assert both.compute_share == pytest.approx(120 / 200)
    assert both.window_s == pytest.approx(100e-9)
    assert both.devices == 2


def test_nothing_on_a_device() -> None:
    for events in (made((OPERATOR, "a", -1, 0, 10)), made()):
        found = breakdown.of(events)
        assert found.compute_share is None
        assert found.window == "nothing ran on a device"


@pytest.mark.skipif(DATA is None, reason="no recorded traces: set HOTLAP_SHARED or put them at ../shared")
@pytest.mark.parametrize("name", EXPECTED)
def test_recorded_traces(name: str) -> None:
    assert DATA is not None
    expected, trace = EXPECTED[name], Timeline.open(DATA / name, columns="breakdown", cache=False)
    found = trace.breakdown()
    shares = {
        "computation_pct": found.compute_share, "total_comm_pct": found.communication_share, "idle_pct": found.idle_share,
        "exposed_comm_pct": found.exposed_communication_share, "exposed_memcpy_pct": found.exposed_copy_share,
    }  # fmt: skip
    assert {key: 100 * (value or 0) for key, value in shares.items()} == pytest.approx({key: expected[key] for key in shares}, abs=0.1)
    assert int((trace.kind == KERNEL).sum()) == expected["n_kernels"]
    assert found.window_s * 1e6 == pytest.approx(expected["gpu_span_us"], abs=1)
    if "comm_overlap_ratio" in expected:
        assert found.overlap == pytest.approx(expected["comm_overlap_ratio"], abs=1e-3)
