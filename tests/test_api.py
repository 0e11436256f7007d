"""The public functions take what a user sensibly gives them, and answer everything else in one line."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import hotlap
from hotlap import api
from hotlap.core import plan as plans
from hotlap.core.errors import InputError
from hotlap.core.measure import inline
from hotlap.core.record import Case, MeasureOptions, Plan

TARGET = "simulated:h200-sxm?times=bound&noise=0.01&seed=1"
ONE = Plan(name="one", cases=[plans.case("stream", {"size": "1 GiB"})], measure=MeasureOptions(rounds=1, rounds_max=1, round_s=0.3))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(home))


@pytest.fixture(scope="module")
def pair(home: Path) -> tuple[hotlap.Run, hotlap.Run]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTLAP_HOME", str(home))
        return hotlap.run(ONE, TARGET), hotlap.run(ONE, f"{TARGET}&efficiency=0.8")


def refused(call: Any) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------- run


def test_labels_are_kept_as_text_and_read_back() -> None:
    run = hotlap.run(ONE, TARGET, labels={"a": 1, "b": 2.5})
    assert hotlap.load(run.path).bundle.run.labels == {"a": "1", "b": "2.5"}
    assert hotlap.run(ONE, TARGET, labels=None).bundle.run.labels == {}


@pytest.mark.parametrize(("labels", "words"), [
    ("a=b", "labels are names and values"), (5, "labels are names and values"), ({"a": None}, "'a' must be text or a number"),
    ({1: "a"}, "1 is no name for a label"), ({"workload": "x"}, "cannot be called 'workload'"), ({"time": "x"}, "cannot be called 'time'"),
])
def test_labels_that_nobody_could_select_are_refused_before_anything_is_kept(home: Path, labels: object, words: str) -> None:
    before = len(list(home.glob("runs/*")))
    assert words in refused(lambda: hotlap.run(ONE, TARGET, labels=labels))
    assert len(list(home.glob("runs/*"))) == before


@pytest.mark.parametrize(("device", "index"), [(0, 0), (1, 1), ("1", 1), ([1], 1), (None, 0), ("", 0)])
def test_a_device_by_its_index(device: object, index: int) -> None:
    run = hotlap.run(ONE, f"{TARGET}&count=2", device=device)
    assert run.bundle.run.devices == [f"simulated-h200-sxm-{index}"]


@pytest.mark.parametrize(("device", "indices"), [([0, 2], [0, 2]), ("2, 1", [2, 1]), ([1, "1"], [1]), (("simulated-h200-sxm-1", 0), [1, 0])])
def test_several_devices(device: object, indices: list[int]) -> None:
    run = hotlap.run(ONE, f"{TARGET}&count=3", device=device)
    assert run.bundle.run.devices == [f"simulated-h200-sxm-{i}" for i in indices]
    assert {row.device for row in run.rows} == set(run.bundle.run.devices)


def test_several_devices_together() -> None:
    run = hotlap.run(ONE, f"{TARGET}&count=3", device=[0, 2], together=True)
    assert (run.bundle.run.order, len(run.rows)) == ("together", 2)
    assert "several devices at once" in refused(lambda: hotlap.run(ONE, f"{TARGET}&count=3", device=[1], together=True))
    assert "there is no device '7'" in refused(lambda: hotlap.run(ONE, f"{TARGET}&count=3", device=[0, 7]))


@pytest.mark.parametrize("device", [1.5, True, [], [None, 1.5], {"a": 1}])
def test_what_is_no_device(device: object) -> None:
    assert "'device' is an index, a UUID, 'all', or a list" in refused(lambda: hotlap.run(ONE, TARGET, device=device))


def test_a_device_that_is_not_there() -> None:
    assert "there is no device '5'; valid: all, 0" in refused(lambda: hotlap.run(ONE, TARGET, device=5))


@pytest.mark.parametrize(("options", "words"), [
    ({"plan": 5}, "a plan is a name, a path or a hotlap.core.record.Plan, not 5"), ({"plan": None}, "a plan is a name"),
    ({"plan": Plan(name="p")}, "has no cases"), ({"plan": Path("no/such.toml")}, "no such file"), ({"plan": Path("quick")}, "no such file"),
    ({"target": 5}, "'target' is a specification"), ({"wait_s": "x"}, "'wait_s' is a time"), ({"wait_s": -1}, "'wait_s' is a time"),
    ({"together": 3}, "'together' is True or False"), ({"rounds": 1.5}, "'rounds' is a whole number"), ({"devise": 0}, "did you mean 'device'"),
])
def test_what_run_refuses(options: dict[str, Any], words: str) -> None:
    assert words in refused(lambda: hotlap.run(**{"plan": ONE, "target": TARGET, **options}))


@pytest.mark.slow("whole runs")
def test_a_plan_by_path_and_one_made_in_python(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('[measure]\nrounds = 1\nrounds_max = 1\n[[case]]\nworkload = "stream"\nsize = "1 GiB"\n', encoding="utf-8")
    by_path = hotlap.run(path, TARGET, wait_s="5 s")
    by_hand = hotlap.run(Plan(name="p", cases=[Case(workload="stream", params={"size": "1 GiB"})], measure=ONE.measure), TARGET)
    assert [row.case.id for row in by_path.rows] == [row.case.id for row in by_hand.rows]
    assert by_hand.rows[0].result.status == "measured"


# ---------------------------------------------------------------- load, compare


def test_a_run_is_loaded_by_whatever_names_it(pair: tuple[hotlap.Run, hotlap.Run]) -> None:
    run = pair[0]
    assert repr(run) == str(run)
    assert run._repr_html_().startswith("<pre>")
    assert {hotlap.load(which).id for which in (run, run.id, run.path, str(run.path), run.bundle)} == {run.id}  # type: ignore[arg-type]


@pytest.mark.parametrize("which", [5, None, b"x", ["latest"], 1.5])
def test_what_is_no_run(which: Any, pair: tuple[hotlap.Run, hotlap.Run]) -> None:
    assert "is no run; valid: a hotlap.Run, or as text an id" in refused(lambda: hotlap.load(which))
    if not isinstance(which, list):
        assert "is no run" in refused(lambda: hotlap.compare(pair[0], which))
    assert "is no run" in refused(lambda: hotlap.compare([pair[0], which], pair[1]))


def test_a_selector_of_several_runs_is_not_loaded(pair: tuple[hotlap.Run, hotlap.Run]) -> None:
    assert "runs; load takes one: " in refused(lambda: hotlap.load("plan=one"))
    assert "which run?" in refused(lambda: hotlap.load(""))


def test_groups_are_lists_of_runs_or_of_what_names_them(pair: tuple[hotlap.Run, hotlap.Run]) -> None:
    a, b = pair
    alone = hotlap.compare(a, b)
    assert alone[0].ratio == pytest.approx(0.8, rel=0.05)
    for left, right in (([a], [b]), (a.path, str(b.path)), ([a.id, a], (b,)), ([str(a.path), a.path], [b.bundle])):
        assert hotlap.compare(left, right) == alone  # type: ignore[arg-type]
    assert hotlap.compare([a, b], b)[0].a.rounds == 2
    assert "a group of runs is empty" in refused(lambda: hotlap.compare([], a))


# ---------------------------------------------------------------- measure, predict


@pytest.mark.parametrize(("options", "words"), [
    ({"fn": 5}, "measure needs a callable, not 5"), ({"work": 3}, "'work' says what one call does"), ({"work": {"byts": 3}}, "did you mean 'bytes'"),
    ({"target": 5}, "'target' is a specification"), ({"target": "simulated:h200-sxm"}, "cannot run a callable"), ({"rouds": 3}, "did you mean 'rounds'"),
    ({"key": len}, "goes into a lambda: hotlap.measure(lambda: fn(…))"),
])
def test_what_measure_refuses(options: dict[str, Any], words: str) -> None:
    assert words in refused(lambda: hotlap.measure(**{"fn": int, "rounds": 1, **options}))


def test_the_work_that_was_given_becomes_rates_beside_the_time() -> None:
    work: dict[str, float | str] = {"bytes": 4 << 20, "bytes_written": 4 << 20, "operations": 1 << 20, "unit_of_arithmetic": "fma.fp32"}
    result = hotlap.measure(sorted, [3, 1, 2], work=work, rounds=2, round_s=0.01)
    median_s = statistics.median(result.values)
    assert result.rates == {"bytes_per_second": pytest.approx((8 << 20) / median_s), "flop_per_second": pytest.approx((1 << 20) / median_s)}
    assert (result.metric, result.unit) == ("time", "s")
    heading, line, *_ = repr(result).splitlines()
    assert "rate" in heading.split()
    assert "callable builtins.sorted " in line
    assert "B/s, " in line
    assert "MiB" not in str(result)
    assert "<th>Rate</th>" in result._repr_html_()
    assert "FLOP/s</td>" in result._repr_html_()
    few = hotlap.measure(sorted, [3, 1, 2], rounds=2, round_s=0.01)
    assert (few.rates, few.summary.median) == ({}, pytest.approx(statistics.median(few.values)))
    assert few.summary.low <= few.summary.median <= few.summary.high


def test_a_callable_whose_rounds_vary_is_inconclusive_and_its_best_round_has_a_unit_beside_a_rate() -> None:
    """Rounds of a busy machine: 109 µs in the median, the best 97 µs, the longest 2.6 ms."""
    case = inline.case_of(bytes, {"bytes": 1 << 20, "bytes_written": 1 << 20})
    values = [97e-6, 101e-6, 108e-6, 110e-6, 400e-6, 2.6e-3]
    found = api.Measurement(case=case, device="host", target="host", status="measured", metric="time", unit="s", better="lower", values=values,
                               seconds=values, precision=0.05)  # fmt: skip
    heading, line, why = str(found).splitlines()
    assert line.startswith("? callable builtins.bytes")
    assert re.search(r"by how much its rounds differ, ± [\d.]+ % is usual", why), why
    assert re.search(r"B/s\s+97\.0 µs ", line), line
    assert "inconclusive" in found._repr_html_()
    assert "best" in heading
    assert not str(replace(found, precision=None)).startswith("?")
    assert hotlap.measure(sorted, [3, 1, 2], rounds=2, round_s=0.01, precision=0.5).precision == 0.5


def test_what_measure_returns_shows_itself_and_the_call_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    result = hotlap.measure(sorted, [3, 1, 2], rounds=2, round_s=0.01)
    assert capsys.readouterr() == ("", "")
    heading, line, *_ = str(result).splitlines()
    assert heading.split()[:2] == ["case", "value"]
    assert "callable builtins.sorted" in line
    assert repr(result) == str(result)
    page = result._repr_html_()
    assert page.startswith("<table>")
    assert "<th>callable builtins.sorted</th>" in page


@pytest.mark.parametrize(("given", "words"), [
    ({"size": np.array([])}, "'size' is empty"), ({"size": []}, "'size' is empty"), ({"size": [[4096], [4096, 8192]]}, "rows of several lengths"),
    ({"size": "512mib"}, "did you mean '512 MiB'"), ({"size": 2.0**50}, "at most 64 TiB, not 1024 TiB"), ({"workload": 5}, "'workload' is a name"),
    ({"machine": 5}, "'machine' is a name"), ({"size": {1: 2}}, "'size' is a number in B"),
])
def test_what_predict_refuses(given: dict[str, Any], words: str) -> None:
    assert words in refused(lambda: hotlap.predict(**{"workload": "stream", "machine": "h200-sxm", "size": "1 GiB", **given}))


def test_predict_takes_arrays_of_sizes() -> None:
    found = hotlap.predict("stream", "h200-sxm", size=np.array([[2**30], [2**31]]), op=["copy", "triad"])
    assert np.shape(found.bound_s) == (2, 2)


def test_changes_of_a_series() -> None:
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.normal(100, 1, 60), rng.normal(110, 1, 60)])
    (change,) = hotlap.changes(values)
    assert abs(change.index - 60) <= 1
    assert change.low < change.ratio < change.high
    assert change.ratio == pytest.approx(1.1, rel=0.01)
    assert hotlap.changes(values[:60]) == hotlap.changes([]) == hotlap.changes([1.0]) == hotlap.changes([3.0] * 50) == []
    for wrong, options in (([1.0, float("nan")] * 9, {}), ([1.0] * 9, {"times": [3, 2, 1] * 3}), ([1.0], {"alhpa": 1}), ([1.0] * 9, {"times": [1, 2]})):
        with pytest.raises(InputError) as caught:
            hotlap.changes(wrong, **options)
        assert "\n" not in str(caught.value)


def test_former_names_of_options_are_taken_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="'gate' is now 'min_effect'"):
        assert hotlap.changes([1.0] * 20 + [1.05] * 20, gate=0.5) == []
    with pytest.warns(FutureWarning, match="'gate' is now 'min_effect'"), pytest.raises(InputError, match="min_effect: "):
        hotlap.compare([], [], gate=2.0)
