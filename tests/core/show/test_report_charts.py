"""Axes, dots and labels of the charts, and which charts rows give."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
import report_sample as sample
from msgspec.structs import replace

from hotlap.core.record import Row
from hotlap.core.show import plots, timeline
from hotlap.core.show.charts import Axis, Chart, cloud, linear_axis, log_axis, size_axis
from hotlap.core.store.bundle import Bundle

Kept = tuple[Bundle, list[Row]]


def test_axes_hold_their_values() -> None:
    for axis in (log_axis([3.0, 7e4], str), size_axis([2**14, 2**30], str), linear_axis(0.2, 7.7, str)):
        assert axis.place(axis.low) == 0
        assert axis.place(axis.high) == pytest.approx(1)
        assert axis.place(axis.high * 10) == 1
        assert all(axis.low <= tick <= axis.high * 1.0001 for tick in axis.ticks)
        assert 2 <= len(axis.ticks) <= 11


@pytest.mark.parametrize("value", [1e-9, 0.37, 5.0, 4.8e12])
def test_an_axis_of_one_value_is_not_empty(value: float) -> None:
    assert log_axis([value], str).ticks
    assert linear_axis(value, value, str).low < value < linear_axis(value, value, str).high


def test_a_log_axis_places_by_ratio() -> None:
    axis = Axis(1.0, 100.0, str, log=True)
    assert axis.place(10.0) == pytest.approx(0.5)


def test_cloud_is_relative_and_returns_to_each_point() -> None:
    points = [(10.12, 20.29), (11.25, 20.7), (300.0, 4.04)]
    x = y = 0.0
    seen = []
    for dx, dy in re.findall(r"m(-?[\d.]+) (-?[\d.]+)h0", cloud(points)):
        x, y = x + float(dx), y + float(dy)
        seen.append((x, y))
    assert seen == [pytest.approx(point, abs=0.06) for point in points]
    assert cloud([]) == ""


def test_labels_that_meet_are_moved_apart() -> None:
    chart = Chart(Axis(0, 1, str), Axis(0, 1, str), "")
    for name in ("one", "two", "three"):
        chart.label((0.5, 0.5), name)
    heights = sorted(float(y) for y in re.findall(r'<text class="label[^>]* y="([\d.]+)"', chart.svg()))
    assert len(heights) == 3
    assert min(b - a for a, b in pairwise(heights)) >= 12


def test_texts_are_escaped() -> None:
    chart = Chart(Axis(0, 1, str), Axis(0, 1, str), "<b>")
    chart.label((0.5, 0.5), "<i>")
    chart.dot((0.5, 0.5), "main", "<u>")
    assert not re.search(r"<[biu]>", chart.svg())


def test_the_roofline_has_its_roofs_and_points(gpu: Kept) -> None:
    plot = plots.roofline(gpu[1])
    assert plot
    assert "memory 4.31 TB/s" in plot.svg
    assert "fma fp32 63.0 TFLOP/s" in plot.svg
    assert plot.svg.count('class="dot main"') == 9  # the ladder
    assert plot.svg.count('class="dot second"') == 2  # matrix products
    assert 'class="line bound"' in plot.svg
    assert "14.6 FLOP/B" in plot.about  # 63.0 ÷ 4.31


def test_the_roofs_are_the_best_of_all_that_reach_them(gpu: Kept) -> None:
    """On a busy machine arithmetic on a stream was faster than every stream, and than multiply-adds alone: its points stood above the roofs."""
    rows = []
    for row in gpu[1]:
        part = 1 / 3 if row.case.workload in ("stream", "fma") else 1.0
        limiter = "memory" if row.case.workload == "intensity" and row.case.params["fmas"] == 1 else row.gap.limiter
        slowed = replace(row.summary, median=(row.summary.median or 0.0) * part)
        rows.append(replace(row, summary=slowed, gap=replace(row.gap, limiter=limiter)))
    plot = plots.roofline(rows)
    assert plot
    ladder = {row.case.params["fmas"]: row.summary.median or 0.0 for row in gpu[1] if row.case.workload == "intensity"}
    memory, fastest = ladder[1] / 0.25, max(ladder.values())
    assert f"memory {memory / 1e12:.2f} TB/s" in plot.svg
    assert f"intensity fp32 {fastest / 1e12:.1f} TFLOP/s" in plot.svg
    assert f"{fastest / memory:.3g} FLOP/B for intensity fp32" in plot.about


def test_working_sets_name_the_levels_that_were_found(gpu: Kept) -> None:
    plot = plots.working_sets(gpu[1], "bandwidth")
    assert plot
    assert plot.svg.count('class="dot main"') == 12  # 13 sizes, one of them invalid
    assert re.search(r"10\.\d TB/s up to about .*; 4\.3\d TB/s beyond", plot.about)
    latency = plots.working_sets(gpu[1], "latency")
    assert latency
    assert "38.5 ns up to about 2 MiB" in latency.about


def test_few_sizes_name_no_levels(cpu: Kept) -> None:
    plot = plots.working_sets(cpu[1], "bandwidth")
    assert plot
    assert "Too few sizes" in plot.about
    assert "line level" not in plot.svg


def test_too_little_gives_no_chart(cpu: Kept) -> None:
    assert plots.all_of([]) == []
    assert plots.all_of([row for row in cpu[1] if row.case.workload in ("launch", "sync")]) == []


def test_intensity_is_operations_by_compulsory_bytes(cpu: Kept) -> None:
    found = {row.label: plots.intensity(row) for row in cpu[1]}
    assert found["intensity fmas=4 fp32 256 MiB"] == pytest.approx(1.0)  # 2·4 FLOP on 8 B
    assert found["stream triad fp32 1 GiB"] == pytest.approx(2 / 12)
    assert found["stream copy fp32 1 GiB"] is None
    assert found["chase 16 KiB"] is None


def test_samples_keep_their_extremes_when_thinned() -> None:
    values = [float(n % 17) for n in range(1000)]
    values[333], values[777] = -5.0, 99.0
    kept = timeline._thinned(values, 20)
    assert {v for _, v in kept} >= {-5.0, 99.0}
    assert len(kept) <= 22
    assert [place for place, _ in kept] == sorted({place for place, _ in kept})


def test_readings_are_drawn_in_the_window_of_their_case_alone(gpu: Kept) -> None:
    kept, rows = gpu
    row = rows[0]
    strips = timeline._strips(row, kept.readings, timeline._windows(row.result.rounds))
    assert [strip.name for strip in strips] == ["clock", "power", "temperature"]
    for strip in strips:
        assert len(strip.curves) == 6
        assert all(1 <= len(curve) <= 4 for curve in strip.curves)  # 10 Hz in 0.35 s


def test_a_sensor_that_is_not_supported_is_not_drawn(cpu: Kept) -> None:
    kept, rows = cpu
    assert any(one.status == "not_supported" for one in kept.readings)
    assert [s.name for s in timeline._strips(rows[0], kept.readings, timeline._windows(rows[0].result.rounds))] == ["clock"]


@pytest.mark.parametrize(("sensor", "drawn"), [("power_w.package0", ["power"]), ("power_w.average", []), ("temperature_c.package1", ["temperature"])])
def test_sensors_of_a_part_are_drawn_where_they_show_the_whole(gpu: Kept, sensor: str, drawn: list[str]) -> None:
    kept, rows = gpu
    renamed = [replace(one, sensor=sensor) for one in kept.readings if one.sensor == "power_w"]
    assert [s.name for s in timeline._strips(rows[0], renamed, timeline._windows(rows[0].result.rounds))] == drawn


@pytest.mark.slow("simulates whole runs, and draws them")
def test_nothing_measured_is_no_drawing() -> None:
    kept = sample.cpu()
    row = next(row for row in sample.rows(kept, sample.CPU_CASES) if row.verdict.state == "not_run")
    assert timeline.chart(row, kept.readings, 20) == ""
    empty = replace(row, result=replace(row.result, rounds=[]))
    assert timeline.chart(empty, [], 20) == ""


def test_labels_at_any_height_come_apart() -> None:
    """A line's height added to a fraction of a pixel may round to a little less: that once moved a label for ever."""
    for seed in range(200):
        chart = Chart(linear_axis(0, 1, str), linear_axis(0, 1, str), "labels")
        for n in range(6):
            chart.label((0.5, (seed * 0.00137 + n * 0.0101) % 1), f"label {n}")
        heights = sorted(float(y) for y in re.findall(r'class="label[^>]* y="([\d.]+)"', chart.svg()))
        assert len(heights) == 6
        assert min(b - a for a, b in pairwise(heights)) > 13.8
