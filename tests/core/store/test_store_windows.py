"""What a bundle keeps of a reading beside its value: averaging window and the sensor's own time, as text and compacted."""

from __future__ import annotations

from pathlib import Path

import pytest
from keeping import make_run

from hotlap.core.measure.sensors.columns import ReadingColumns
from hotlap.core.record import Reading, Readings, encode
from hotlap.core.store import bundle, chunks, compact, lines


def stretch(n: int) -> list[Readings]:
    times = [n + 0.1 * i for i in range(10)]
    own = [None if i == 3 else 1.7e9 + t for i, t in enumerate(times)]
    return [
        Readings(sensor="power_w", device="gpu", times_s=times, values=[100.0 + i for i in range(10)], window_s=1.0, sensor_times_s=own),
        Readings(sensor="fan", device="gpu", times_s=times, values=[0.5] * 10),
        Readings(sensor="power_w", device="host", times_s=times, values=[7.5] * 10, window_s=0.1),
    ]


def test_columns_of_readings_keep_window_and_own_time() -> None:
    columns = ReadingColumns()
    columns.add([Reading(sensor="power_w", device="gpu", time_s=1.0, value=5.0, window_s=0.9)])
    columns.add([Reading(sensor="power_w", device="gpu", time_s=2.0, value=6.0, window_s=1.1, sensor_s=1.7e9)])
    columns.add([Reading(sensor="fan", device="gpu", time_s=2.0, value=0.4)])
    power, fan = columns.drain()
    assert (power.window_s, power.sensor_times_s) == (1.0, [None, 1.7e9])
    assert (fan.window_s, fan.sensor_times_s) == (None, [])
    assert columns.drain() == []


def test_a_sensor_without_either_costs_nothing() -> None:
    plain = Readings(sensor="fan", device="gpu", times_s=[1.0], values=[0.5])
    assert encode(plain) == b'{"sensor":"fan","device":"gpu","times_s":[1.0],"values":[0.5]}'


def test_a_line_with_a_time_that_is_no_number_keeps_its_columns_aligned() -> None:
    nan = float("nan")
    odd = Readings(sensor="p", device="d", times_s=[1.0, nan, 3.0], values=[1.0, 2.0, 3.0], sensor_times_s=[11.0, 12.0, nan])
    (kept,) = lines.read(lines.line(odd), Readings, "log").records
    assert (kept.times_s, kept.values, kept.sensor_times_s) == ([1.0, 3.0], [1.0, 3.0], [11.0, None])


@pytest.mark.slow("long runs, compacted in processes of their own")
def test_both_live_through_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(bundle, "LOG_BYTES", 2000)
    writer = bundle.Writer.create(make_run(), tmp_path)
    for n in range(8):
        writer.readings(stretch(n))
    writer.finish(make_run())
    assert not compact.waiting(writer.path)
    read = [one for chunk in chunks.stored(writer.path) for one in chunks.readings(chunk)]
    power = sorted((one for one in read if (one.device, one.sensor) == ("gpu", "power_w")), key=lambda one: one.times_s[0])
    assert {one.window_s for one in power} == {1.0}
    assert [t for one in power for t in one.sensor_times_s] == pytest.approx([t for n in range(8) for t in stretch(n)[0].sensor_times_s])
    assert {one.sensor for one in read} == {"power_w", "fan"}
    fan = [one for one in read if one.sensor == "fan"]
    assert all(one.window_s is None and one.sensor_times_s == [] for one in fan)
    assert chunks.windows(writer.path) == {("gpu", "power_w"): 1.0, ("host", "power_w"): 0.1}
    assert {(one.device, one.window_s) for one in bundle.load(writer.path).readings if one.sensor == "power_w"} == {("gpu", 1.0), ("host", 0.1)}


def test_a_log_in_which_everything_failed_is_read(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    writer = bundle.Writer.create(make_run(), tmp_path)
    writer.readings(stretch(0))
    writer._readings.set_aside(compact.aside(writer.path))
    writer.readings([Readings(sensor="power_w", device="gpu", times_s=[9.0], values=[None], status="error", reason="gone")])
    writer._readings.set_aside(compact.aside(writer.path))
    writer.finish(make_run())
    assert [one.values for one in chunks.failed(writer.path)] == [[None]]
    assert {one.sensor for one in bundle.load(writer.path).readings} >= {"power_w", "fan"}
