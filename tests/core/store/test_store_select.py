"""Selectors: what people call runs and results, and the answer to what is neither."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from keeping import CASES, DEVICE, make_run, make_samples, pack

from hotlap.core import plan, work
from hotlap.core.errors import InputError, SchemaError
from hotlap.core.record import Device, Machine, Plan
from hotlap.core.store import bundle as bundles
from hotlap.core.store import catalog, select
from hotlap.core.store.bundle import Bundle, Writer, load

Keep = Callable[..., Bundle]
A, B, C = "20261119T101500-aaaaaa", "20261120T101500-bbbbbb", "20261120T111500-cccccc"


@pytest.fixture
def three(kept: Keep, tmp_path: Path) -> Path:
    kept(A, began="2026-11-19T10:15:00+00:00", labels={"cluster": "A", "branch": "feature/x"})
    kept(B, began="2026-11-20T10:15:00+00:00", labels={"cluster": "B", "node": "7"})
    kept(C, began="2026-11-20T11:15:00+00:00", labels={"cluster": "B"})
    return tmp_path


def named(selector: str, home: Path) -> list[str]:
    return [bundle.run.id for bundle in select.runs(selector, home)]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (A, [A]), (A[:8], [A]), ("20261120T10", [B]), ("20261120t111500-C", [C]), ("latest", [C]), (" latest ", [C]),
        ("cluster=A", [A]), ("cluster=B", [B, C]), ("cluster=B,node=7", [B]), ("branch=feature/x", [A]), ("workload=stream", [A, B, C]),
        ("machine=h200-sxm,cluster=A", [A]), ("2026-11-19", [A]), ("2026-11", [A, B, C]), ("2026-11-20T11:15Z", [C]),
        ("2026-11-19T00:00Z..2026-11-20T10:15Z", [A, B]), ("2026-11-20T11:00Z..", [C]), ("..2026-11-20T10:14Z", [A]), ("..", [A, B, C]),
    ],
)
def test_selectors(three: Path, selector: str, expected: list[str]) -> None:
    assert named(selector, three) == expected


def test_today_and_yesterday(tmp_path: Path, kept: Keep) -> None:
    noon = datetime.now().astimezone().replace(hour=12)
    kept("29991231T000000-dddddd", began=noon.astimezone(UTC).isoformat())
    kept("29991231T000000-eeeeee", began=(noon - timedelta(days=1)).astimezone(UTC).isoformat())
    assert [name[-6:] for name in named("today", tmp_path)] == ["dddddd"]
    assert [name[-6:] for name in named("yesterday", tmp_path)] == ["eeeeee"]


def test_the_whole_id_is_enough_where_it_begins_another(three: Path, kept: Keep) -> None:
    kept(A + "1")
    assert named(A, three) == [A]


def test_paths_to_folders_and_zips(three: Path, kept: Keep, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    packed = pack(three / "runs" / B, elsewhere)
    empty = elsewhere / "home"
    assert named(str(three / "runs" / A), empty) == [A]
    assert named(str(packed), empty) == [B]
    monkeypatch.chdir(elsewhere)
    assert named(packed.name, empty) == [B]
    assert named(f".{os.sep}{packed.name}", empty) == [B]
    os.rename(three / "runs" / C, elsewhere / "copied")
    assert named("copied", empty) == [C]
    (elsewhere / "latest").mkdir()  # hides nothing: it is no bundle
    assert named("latest", three) == [B]
    assert not empty.exists()


def test_bundles_that_were_copied_into_the_home_are_found(three: Path) -> None:
    os.rename(three / "runs" / C, three / "runs" / "renamed")
    assert named(C, three) == [C]
    assert [b.path.name for b in select.runs("cluster=B", three)] == [B, "renamed"]


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("", "which run? give an id or its beginning, latest, label=value"),
        ("2026", f"'2026' begins the ids of 3 runs; write more of it, as in {A}, {B}, {C}"),
        ("20261119T101500-aaaabb", f"no run is '20261119T101500-aaaabb'; nearest: {A}"),
        ("lastest", "no run is 'lastest'; nearest: latest (of 3: hotlap list); valid: an id"),
        ("nosuch", f"no run is 'nosuch'; the newest: {C}, {B}, {A} (of 3: hotlap list); valid: an id"),
        ("cluster=C", "no run has cluster=C; valid: A, B"),
        ("clustr=A", "no run has a label 'clustr'; did you mean 'cluster'?"),
        ("cluster=A,node=7", "no run is 'cluster=A,node=7'; the newest"),
        ("cluster=A,B", "'B' in 'cluster=A,B' is not label=value; several are separated by commas"),
        ("cluster=A,cluster=B", "wants two values of cluster"),
        ("=A", "'=A' in '=A' is not label=value"),
        ("2026-11-18", "no run is '2026-11-18'; the newest"),
        ("2026-11-40", "'2026-11-40' is no time; valid: today"),
        ("no/where", "there is no bundle at 'no/where'"),
        ("gone.zip", "there is no bundle at 'gone.zip'"),
    ],
)
def test_what_names_no_run(three: Path, selector: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        select.runs(selector, three)


def test_an_empty_home_says_how_to_begin(tmp_path: Path) -> None:
    for selector in ("latest", "20", "today"):
        with pytest.raises(InputError, match=rf"no run is '{selector}', since none is kept under .*; hotlap run measures one"):
            select.runs(selector, tmp_path)
    with pytest.raises(InputError, match="no run has a label 'cluster'; none is kept yet"):
        select.runs("cluster=A", tmp_path)
    assert list(select.every(tmp_path)) == []


def test_a_run_of_a_newer_schema_is_named_when_asked_for(three: Path, caplog: pytest.LogCaptureFixture) -> None:
    (three / "runs" / C / "run.json").write_text('{"schema": 99, "hotlap": "9.0"}')
    with pytest.raises(SchemaError, match=r"written by Hotlap 9\.0"):
        select.runs(C, three)
    assert named("latest", three) == [B]
    (three / "runs" / B / "samples.jsonl").write_text("x\ny\n")
    assert [b.run.id for b in select.every(three)] == [A]
    assert "samples.jsonl:1" in caplog.text
    with pytest.raises(SchemaError, match=r"samples\.jsonl:1"):
        select.runs("latest", three)


def test_where_runs_are_is_known_without_reading_them(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(select.entries([], three)) == 3  # the catalog is made
    for module, name in ((bundles, "load"), (bundles, "read_run"), (catalog, "read_listed")):
        monkeypatch.delattr(module, name)
    assert [entry.id for entry in select.entries([], three)] == [A, B, C]
    assert [entry.id for entry in select.entries(["latest", "cluster=B", A], three)] == [C, B, A]
    assert [entry.listed.labels["cluster"] for entry in select.entries(["cluster=A"], three) if entry.listed] == ["A"]


def test_a_path_has_an_entry_too(three: Path) -> None:
    (one,) = select.entries([str(three / "runs" / B), B], three)
    assert (one.id, one.path, one.listed) == (B, three / "runs" / B, None)


def test_every_run_comes_one_at_a_time_and_without_readings(three: Path) -> None:
    found = select.every(three)
    assert (next(found).run.id, next(found).readings) == (A, [])
    (three / "runs" / C / "samples.jsonl").write_text("")
    assert next(found).samples == []  # read when its turn came
    assert select.runs(A, three)[0].readings


# ---------------------------------------------------------------- results

OTHER = Device(target="simulated", index=1, name="Model GPU, 2nd", kind="gpu", uuid="GPU-2222", machine="h100-pcie")


@pytest.fixture
def pair(tmp_path: Path) -> Bundle:
    """A run on two devices that ended in the middle, samples in an order of their own."""
    cases = [*CASES, plan.case("stream", {"op": "triad", "size": "64 MiB"}), plan.case("launch", {}), plan.case("fma", {"dtype": "fp64"})]
    run = make_run(plan=Plan(name="five", cases=cases), machine=Machine(host="node7", devices=[OTHER, DEVICE]), devices=["GPU-1111", "GPU-2222"])
    writer = Writer.create(run, tmp_path)
    for case in reversed(cases[:4]):
        for device in ("GPU-2222", "GPU-1111"):
            writer.append(make_samples(0, case, device=device))
    writer.append(make_samples(0, cases[4], device="GPU-1111", status="not_run", reason="no fp64"))
    writer.finish(run)
    return load(writer.path)


def places(bundle: Bundle, **where: str) -> list[tuple[int, str]]:
    """Place of the case in the plan, and the end of the device's key."""
    order = [case.id for case in bundle.run.plan.cases]
    return [(order.index(r.case.id), r.device[-1]) for r in select.results(bundle, where)]


def test_results_are_in_the_plans_order_and_miss_nothing(pair: Bundle) -> None:
    assert places(pair) == [(case, device) for case in range(5) for device in "12"]
    last = select.results(pair)[-2:]
    assert [(r.status, r.reason) for r in last] == [("not_run", "no fp64"), ("not_run", "no round of it was measured")]
    assert {r.target for r in select.results(pair)} == {"simulated"}


def test_a_case_that_is_not_there_is_answered_with_what_tables_call_the_others(pair: Bundle) -> None:
    said = str(select.no_match_error([pair], {"case": "decode"}))
    assert work.label(CASES[1]) in said
    assert CASES[1].id not in said


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"workload": "stream"}, "0 2"), ({"workload": "stream,gemm"}, "0 1 2"), ({"size": "64 MiB"}, "2"), ({"size": "1048576"}, "0"),
        ({"size": "1 MiB, 64 MiB"}, "0 2"), ({"size": "2 MiB.."}, "2"), ({"size": "..2 MiB"}, "0"), ({"size": "1 KiB..1 GiB", "op": "copy"}, "0"),
        ({"dtype": "bf16"}, "1"), ({"dtype": "fp32,fp64"}, "0 2 4"), ({"m": "512"}, "1"), ({"mode": "single"}, "3"), ({"mode": "graph"}, ""),
        ({"metric": "latency"}, "3"), ({"status": "not_run"}, "4"), ({"case": CASES[1].id}, "1"), ({"case": work.label(CASES[1])}, "1"), ({"host": "node7", "plan": "five"}, "0 1 2 3 4"),
        ({"label": "cluster=A"}, ""), ({"time": "2026-11"}, "0 1 2 3 4"), ({"time": "2025-11"}, ""), ({"target": "simulated"}, "0 1 2 3 4"),
        ({"implementation": ""}, "0 1 2 3 4"), ({"host": "node8"}, ""),
    ],
)
def test_results_by_what_they_are_of(pair: Bundle, where: dict[str, str], expected: str) -> None:
    assert [case for case, device in places(pair, **where) if device == "1"] == [int(n) for n in expected.split()]


@pytest.mark.parametrize(
    ("where", "devices"),
    [
        ({"device": "GPU-2222"}, "2"), ({"device": "1"}, "2"), ({"device": "0"}, "1"), ({"device": "simulated:0"}, "1"),
        ({"device": "Model GPU, 2nd"}, "2"), ({"device": "GPU-1111,GPU-2222"}, "12"), ({"machine": "h100-pcie"}, "2"), ({"machine": "node7"}, "12"),
    ],
)
def test_results_by_device(pair: Bundle, where: dict[str, str], devices: str) -> None:
    assert places(pair, workload="launch", **where) == [(3, device) for device in devices]


def test_results_by_label(kept: Keep) -> None:
    bundle = kept(labels={"cluster": "A"})
    assert len(select.results(bundle, {"label": "cluster=A"})) == 2
    assert select.results(bundle, {"label": "cluster=B"}) == []


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"sise": "4"}, "results have no 'sise'; did you mean 'size'?"),
        ({"size": "many"}, "'size': 'many' is not a quantity"),
        ({"size": "1 s..2 s"}, "has the unit 's'"),
        ({"op": "quad"}, "'op' cannot be 'quad'"),
        ({"workload": "steam"}, "there is no workload 'steam'; did you mean 'stream'?"),
        ({"status": "fine"}, "there is no status 'fine'; valid: error, invalid, measured, not_run"),
        ({"label": "A"}, "'A' is not label=value"),
        ({"time": "soon"}, "'soon' is no time"),
    ],
)
def test_a_filter_that_is_not_valid(pair: Bundle, where: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        select.results(pair, where)
