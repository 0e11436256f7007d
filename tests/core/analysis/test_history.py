"""Runs over time as series: changes, what changed in the environment there, and where no change is sought."""

from __future__ import annotations

import re

import numpy as np
import pytest
from judging import H200, make
from msgspec.structs import replace

from hotlap.core.analysis.history import history
from hotlap.core.show import history as shown
from hotlap.core.show import history_page
from hotlap.core.store import when
from hotlap.core.store.bundle import Bundle

RNG = np.random.default_rng(5)


def runs(levels: list[float], **by_day: object) -> list[Bundle]:
    """A run a day; `device` and `kernel` may be functions of the day."""
    return [
        make({"copy": [1e-3 * level * float(np.exp(RNG.normal(0, 0.004)))] * 3}, day=n, **{k: v(n) for k, v in by_day.items()})  # type: ignore[operator]
        for n, level in enumerate(levels)
    ]


def test_a_step_is_found_with_its_size_and_what_changed_there() -> None:
    (series,) = history(runs([1.0] * 40 + [1.08] * 40, kernel=lambda n: "6.1" if n < 40 else "6.2"))
    (change,) = series.changes
    assert abs(change.index - 40) <= 2
    assert change.ratio == pytest.approx(1 / 1.08, rel=0.01)
    assert change.low < 1 / 1.08 < change.high
    assert [d.name for d in series.differences[change.index]] == ["kernel"]
    text = shown.history([series], 220)
    assert "worse: step of -7" in text
    assert "changed there: kernel 6.1 → 6.2" in text


def test_a_steady_series_has_no_change_and_a_line() -> None:
    (series,) = history(runs([1.0] * 60))
    assert series.changes == []
    assert "1 series: 0 changes" in shown.history([series], 120)


@pytest.mark.slow("hundreds of comparisons")
def test_no_change_is_sought_across_a_swap_of_hardware_or_schema() -> None:
    swapped = runs([1.0] * 30 + [1.2] * 30, device=lambda n: H200 if n < 30 else replace(H200, uuid="GPU-7", serial="7"))
    (series,) = history(swapped)
    assert series.changes == []
    assert list(series.boundaries) == [30]
    assert "another device" in series.boundaries[30]
    (series,) = history(runs([1.0] * 30 + [1.2] * 30, schema=lambda n: 1 if n < 30 else 2))
    assert (series.changes, list(series.boundaries)) == ([], [30])


def test_devices_and_hosts_make_series_of_their_own() -> None:
    both = runs([1.0] * 12) + runs([1.3] * 12, host=lambda _: "node2")
    assert sorted((s.host, len(s.points)) for s in history(both)) == [("node1", 12), ("node2", 12)]


def test_runs_in_any_order_make_one_series_in_time() -> None:
    mixed = runs([1.0] * 20 + [1.1] * 20)
    RNG.shuffle(mixed)  # type: ignore[arg-type]
    (series,) = history(mixed)
    assert [p.time_s for p in series.points] == sorted(p.time_s for p in series.points)
    assert len(series.changes) == 1


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_runs_have_no_changes(count: int) -> None:
    assert [s.changes for s in history(runs([1.0] * count))] == [[]] * (count > 0)


def test_a_sparkline_shows_levels_and_where_they_change() -> None:
    assert shown.sparkline([1.0] * 8 + [2.0] * 8, [8], 16) == "▁" * 8 + "│" + "█" * 8
    assert shown.sparkline([5.0] * 3) == "▄▄▄"
    assert shown.sparkline([]) == ""


def test_a_device_that_gets_worse_is_said_to() -> None:
    (series,) = history(runs([1.0 + 0.0004 * n for n in range(120)]), min_effect=0.5)
    assert series.trend is not None
    assert series.trend.state == "degrading"
    assert series.trend.slope == pytest.approx(-0.0004 * 30.44, rel=0.15)
    assert "degrading: -1." in shown.history([series], 160)
    (steady,) = history(runs([1.0] * 200))
    assert steady.trend is not None
    assert steady.trend.state == "steady"


def test_a_device_is_held_against_its_peers() -> None:
    """All slow down alike in summer, by 1 % a month; one loses 1 % a month more."""
    fleet = [
        one for node in range(8)
        for one in runs([1.0 + 0.0003 * n * (2 if node == 3 else 1) for n in range(90)], host=lambda _, node=node: f"node{node}")
    ]  # fmt: skip
    found = {one.host: one.trend for one in history(fleet, min_effect=0.5)}
    assert [host for host, trend in found.items() if trend and trend.state == "degrading"] == ["node3"]
    worst = found["node3"]
    assert worst is not None
    assert worst.peers == 7
    assert worst.slope == pytest.approx(-0.0003 * 30.44, rel=0.2)
    assert worst.own == pytest.approx(-0.0006 * 30.44, rel=0.2)


def test_a_latency_that_rises_is_shown_to_rise() -> None:
    bundles = [make({"chase": [1e-6 * (1 + 0.0004 * n) * float(np.exp(RNG.normal(0, 0.004)))] * 3}, day=n) for n in range(120)]
    (series,) = history(bundles, min_effect=0.5)
    assert series.better == "lower"
    text = shown.history([series], 160)
    assert "degrading: +1." in text
    assert "over all 120 runs" in text


def test_a_drift_has_no_moment_and_no_causes() -> None:
    (series,) = history(runs([1.0 + 0.0007 * n for n in range(120)], kernel=lambda n: f"6.{n}"))
    (change,) = series.changes
    assert (change.kind, change.index) == ("drift", 0)
    assert series.differences == {0: []}
    assert "changed" not in shown.change_text(series, change)


def test_a_change_names_the_run_after_it_and_what_differed_right_there() -> None:
    (series,) = history(runs([1.0] * 30 + [1.08] * 30, kernel=lambda n: f"6.{n}", os=lambda n: "Linux " + "x" * 90 + str(n // 30) + "y" * 90))
    (change,) = series.changes
    after = series.points[change.index].run
    text = shown.history([series], 400)
    assert f"from run {after} on" in text
    command = next(line for line in text.splitlines() if line.startswith("next")).split()[1:]
    assert command[:2] == ["hotlap", "compare"]
    sides = [when.span(side) for side in command[2:4]]
    assert command[4:] == ["--assume-stable", "--min-effect", "0%"]  # the rule by which the change was found
    assert "Without --assume-stable compare also allows for what unchanged code does" in text
    assert "--min-effect 1.5%" in shown.history([series], 400, asked=shown.HistoryAsked(0.015))
    assert "--where host=m3 --assume-stable" in shown.history([series], 400, asked=shown.HistoryAsked(where={"host": "m3"}))
    held = [[n for n, point in enumerate(series.points) if low <= point.time_s < high] for low, high in sides]
    assert held == [list(range(change.index - 8, change.index)), list(range(change.index, change.index + 8))]  # 4 a side have an interval
    assert f"kernel 6.{change.index - 1} → 6.{change.index}" in text
    assert "os …xxxxxxxx0yyyyyyyy… → …xxxxxxxx1yyyyyyyy…" in text


def test_the_device_is_named_where_a_host_has_several() -> None:
    both = runs([1.0] * 12) + runs([1.3] * 12, device=lambda _: replace(H200, uuid="GPU-1", index=1, pci_address="0000:4b:00.0"))
    assert shown.places(history(both)) == ["node1 simulated:0", "node1 simulated:1"]
    assert shown.places(history(both[:12])) == ["node1 simulated"]


def test_points_that_lie_apart_are_said_to_and_are_no_change() -> None:
    (series,) = history(runs([1.0] * 10 + [1.08] * 5 + [1.0] * 15))
    assert series.changes == []
    assert [(one.index, one.end) for one in series.excursions] == [(10, 15)]
    text = shown.history([series], 300)
    assert "points 11–15 lie apart by -7" in text
    assert "0 changes, 1 group of points apart" in text
    assert "lie apart" in history_page.page([series])


def lines_of(page: str) -> list[list[tuple[float, float]]]:
    """The levels drawn in the first chart, in pixels."""
    found = re.findall(r'class="line main" d="M([^"]*)"', page.partition("</figure>")[0])
    return [[(float(x), float(y)) for x, y in (point.split() for point in one.split("L"))] for one in found]


def test_a_drift_is_drawn_as_a_slope_without_a_mark_at_its_start() -> None:
    (series,) = history(runs([1.0 + 0.0007 * n for n in range(120)]))
    page = history_page.page([series])
    ((first, last),) = lines_of(page)
    assert last[1] - first[1] > 100  # bandwidth falls
    assert ' drift -7.' in page
    assert 'class="line roof"' not in page.partition("</figure>")[0]
    (flat,) = history(runs([1.0] * 60))
    ((first, last),) = lines_of(history_page.page([flat]))
    assert first[1] == last[1]


@pytest.mark.parametrize("step_s", [0.01, 1.0, 20.0, 50.0, 500.0, 7000.0, 50000.0, 3e5, 5e6])
def test_a_time_axis_has_ticks_whatever_it_spans(step_s: float) -> None:
    (series,) = history([make({"copy": [1e-3]}, day=n * step_s / 86400) for n in range(9)])
    ticks = re.findall(r'y="[0-9.]*" text-anchor="middle">([^<]*)<', history_page.page([series]))
    assert 2 <= len(ticks) <= 8


def test_a_series_of_zeros_has_labels_that_fit() -> None:
    (series,) = history(runs([1.0] * 12))
    zeros = replace(series, unit="", points=[replace(point, value=0.0) for point in series.points])
    ticks = re.findall(r'text-anchor="end">([^<]*)</text><text class="tick"', history_page.page([zeros]))
    assert ticks
    assert max(map(len, ticks)) <= 6


def test_simulations_of_two_machines_are_two_series_with_their_names() -> None:
    both = runs([1.0] * 12) + runs([1.3] * 12, device=lambda _: replace(H200, uuid="simulated-b200-0", machine="b200"))
    found = history(both)
    assert shown.places(found) == ["node1 simulated:0 h200-sxm", "node1 simulated:0 b200"]
    assert not any(one.boundaries or one.changes for one in found)

def test_series_that_are_too_short_are_named() -> None:
    long = runs([1.0] * 40)
    few = [bundle for n in range(5) for bundle in runs([1.0] * 3, host=lambda _, n=n: f"short{n}")]
    said = shown.unchanged(len(long) + len(few), history(long + few[:3]), 0.0)
    assert said.endswith("; 1 has fewer than 17 points, too few to find a change: stream copy fp32 1 GiB on short0 simulated")
    many = shown.history(history(long + few), 200)
    assert "; 5 have fewer than 17 points, too few to find a change: " in many
    assert many.rstrip().endswith("and 2 more")
    assert "all have fewer than 17 points, too few to find a change" in shown.unchanged(len(few), history(few), 0.0)


def test_many_series_are_folded_to_those_that_changed_and_the_rest_is_counted() -> None:
    (changed,), (steady,) = history(runs([1.0] * 40 + [1.08] * 40)), history(runs([1.0] * 20))
    many = [steady] * 2000 + [changed] * 12
    text = shown.history(many, 160)
    lines = text.splitlines()
    assert len(lines) < 45
    assert sum("worse: step" in line for line in lines) == 12
    assert "… and 2,000 series without a change: --all lists them" in text
    assert "2012 series: 12 changes in 12 of them" in text
    few = history(runs([1.0] * 5))
    assert "2013 series: 12 changes in 12 of them; 1 has fewer than 17 points" in shown.history([changed] * 12, 160, asked=shown.HistoryAsked(judged=[*many, *few]))
    more = shown.history([changed] * 30 + [steady] * 3, 160)
    assert "… and 6 that changed or have points apart and 3 series without a change: --all" in more
    assert shown.history([steady] * 100, 160).count("copy") == shown.QUIET
    whole = shown.history(many[:100], 160, most=100)
    assert whole.count("copy") == 100
    assert "--all" not in whole
