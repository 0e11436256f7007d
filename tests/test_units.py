"""Quantities read and printed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.core import units, work
from hotlap.core.errors import InputError


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("256 MiB", "B", 2**28), ("1.5 TB/s", "B/s", 1.5e12), ("8 s", "s", 8.0), ("90ms", "s", 0.09), ("5 %", "%", 0.05),
        ("10 min", "s", 600.0), ("1.98 GHz", "Hz", 1.98e9), (4096, "B", 4096.0), ("3 GB", "B", 3e9), ("4 Ki", "", 4096.0), ("165 M/s", "1/s", 165e6), ("20 µs", "s", 20e-6),
        ("2 EFLOP/s", "FLOP/s", 2e18), ("3 ks", "s", 3000.0), ("0.05", "%", 0.05), (0.05, "%", 0.05), ("1", "%", 1.0), (1, "%", 1.0), ("500 %", "%", 5.0), ("90 %", "", 0.9),
    ],
)
def test_parse(text: str, unit: str, value: float) -> None:
    assert units.parse(text, unit) == pytest.approx(value)


@pytest.mark.parametrize(("text", "unit"), [("8 parsecs", "s"), ("fast", "B"), ("8 s", "B"), ("", "s"), ("5 %", "s"), ("1 mB x", "B"), (True, "s")])
def test_parse_says_what_is_valid(text: str, unit: str) -> None:
    with pytest.raises(InputError, match=r"as in|needed"):
        units.parse(text, unit)


@pytest.mark.parametrize("text", [5, "5", 5.0, "5.0", -5])
def test_a_share_above_one_has_its_sign(text: str | float) -> None:
    value = float(text)
    with pytest.raises(InputError, match=rf"^'{text}' without a sign would be {value * 100:g} %; write '{value:g} %' or {value / 100:g}$"):
        units.parse(text, "%")


@pytest.mark.parametrize("text", ["1e400 B", "1e400", "1e300 EB", math.inf, -math.inf, math.nan, 10**400])
def test_what_is_not_finite_is_refused(text: str | float) -> None:
    with pytest.raises(InputError, match="is not finite; write a number and a unit, as in '256 MiB'"):
        units.parse(text, "B")


@pytest.mark.parametrize(("text", "unit"), [("1 Ms", "s"), ("1 Ps", "s"), ("1 Es", "s"), ("5m", ""), ("5 n", ""), ("5E", ""), ("3 mB", "B")])
def test_a_prefix_that_nobody_means_is_refused(text: str, unit: str) -> None:
    with pytest.raises(InputError, match=f"has the unit '{text[1:].strip()}' where"):
        units.parse(text, unit)


@pytest.mark.parametrize(
    ("text", "unit", "hint"),
    [
        ("512mib", "B", "did you mean '512 MiB'?"), ("1gb", "B", "did you mean '1 GB'?"), ("64 KB", "B", "did you mean '64 kB' or '64 KiB'?"),
        ("1 mB", "B", "did you mean '1 MB'?"), ("3 bytes", "B", "did you mean '3 B'?"), ("8 m", "s", "did you mean '8 min'?"),
        ("5 seconds", "s", "did you mean '5 s'?"), ("90 MS", "s", "did you mean '90 ms'?"), ("2 ghz", "Hz", "did you mean '2 GHz'?"),
        ("4 ki", "", "did you mean '4 Ki'?"), ("1.5 tb/s", "B/s", "did you mean '1.5 TB/s'?"), ("8 s", "B", ""), ("fast", "B", ""), ("8 MiB", "B", ""), ("2 eflop/s", "FLOP/s", "did you mean '2 EFLOP/s'?"),
    ],
)
def test_what_was_meant(text: str, unit: str, hint: str) -> None:
    assert units.meant(text, unit) == hint
    if hint:
        with pytest.raises(InputError) as caught:
            units.parse(text, unit)
        assert str(caught.value).endswith(hint)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2**24, "B", "16 MiB"), (2**46, "B", "64 TiB"), (1e9, "B", "1 GB"), (1, "B", "1 B"), (2**24, "", "16777216"), (1e15, "", "10^15"),
        (1000, "", "1000"), (1.5, "", "1.5"), (0.001, "s", "1 ms"), (60.0, "s", "60 s"), (0, "B", "0 B"), (0.05, "%", "5 %"),
    ],
)
def test_exact(value: float, unit: str, text: str) -> None:
    assert units.exact(value, unit) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.94e10, "B/s", "29.4 GB/s"), (None, "B/s", "–"), (0.0, "B/s", "0 B/s"), (4.6e-5, "s", "46.0 µs"), (9.996e2, "B/s", "1.00 kB/s"),
        (0.734, "%", "73.4 %"), (1.65e8, "1/s", "165 M/s"), (63.0, "°C", "63.0 °C"), (1200.0, "s", "1200 s"), (1e-13, "s", "0.100 ps"), (float("nan"), "s", "–"),
        (1e18, "FLOP/s", "1.00 EFLOP/s"), (4.2e20, "FLOP/s", "420 EFLOP/s"), (2e6, "s", "2000 ks"),
    ],
)
def test_show(value: float | None, unit: str, text: str) -> None:
    assert units.show(value, unit) == text


def test_sizes_are_binary_where_exact() -> None:
    assert [units.size(v) for v in (2**28, 3e9 + 1, 1000, 1.5 * 2**30)] == ["256 MiB", "3.00 GB", "1.00 kB", "1.5 GiB"]


@given(st.floats(1e-9, 1e18))
def test_what_is_shown_can_be_read_again(value: float) -> None:
    assert units.parse(units.show(value, "B/s", 6), "B/s") == pytest.approx(value, rel=1e-5, abs=1e-8)


def test_a_share_beyond_all_numbers_is_still_told() -> None:
    assert units.percent(1e307) == "1e+307 × 100 %"
    assert units.percent(float("nan")) == "nan × 100 %"


def test_a_unit_s_metric_is_that_of_the_workloads_measured_in_it() -> None:
    for spec in work.WORKLOADS.values():
        known = units.METRICS.get(spec.unit)
        assert spec.metric == known or (known == "time" and spec.metric == "latency"), spec.name
    assert set(units.RATES) == {unit for unit in units.METRICS if unit.endswith("/s")}
    assert units.METRICS == {**units.RATES, "s": "time"}


@pytest.mark.parametrize(("numbers", "expected"), [([], []), ([7, 2, 1, 3], [(1, 3), (7, 7)]), ([5], [(5, 5)]), ([0, 2, 4], [(0, 0), (2, 2), (4, 4)])])
def test_runs_of_consecutive_numbers(numbers: list[int], expected: list[tuple[int, int]]) -> None:
    assert units.stretches(numbers) == expected


def test_a_time_is_read_as_it_is_printed() -> None:
    assert units.parse("1 h 20 min", "s") == units.parse("1h20min", "s") == 4800.0
    assert units.parse("1e3 s", "s") == 1000.0
    for text in ("1 h x", "1 2 h", "1 h 3 parsec"):
        with pytest.raises(InputError):
            units.parse(text, "s")
