"""Runs of other schemas: of older ones everything is read, of later ones what can be relied on is listed."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import msgspec
import pytest

from hotlap import cli
from hotlap.core.record import Notice, Stop, Turns
from hotlap.core.store import bundle, upgrade

BEFORE = Path(__file__).parents[2] / "before" / "bundles"


@pytest.mark.parametrize("version", ["0.1", "0.2"])
@pytest.mark.parametrize(("name", "kind"), [("plan", "plan"), ("slower", "plan"), ("program", "plan"), ("stress", "stress")])
def test_runs_of_schema_1_get_the_kind_that_their_verb_wrote(version: str, name: str, kind: str) -> None:
    path = BEFORE / version / f"{name}.zip"
    with zipfile.ZipFile(path) as kept:
        raw = json.loads(kept.read(next(one for one in kept.namelist() if one.endswith("run.json"))))
    assert raw["schema"] == 1
    assert "kind" not in raw
    assert bundle.load(path).run.kind == kind


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ({"plan": {"name": "watch", "cases": []}, "target": "host"}, "watch"),
        ({"plan": {"name": "watch", "cases": [{"workload": "stream"}]}, "target": "host"}, "plan"),
        ({"plan": {"name": "stress-burn"}, "target": "cuda"}, "stress"),
        ({"plan": {"name": "stress-burn", "cases": [{"workload": "gemm"}]}, "target": "cuda"}, "plan"),
        ({"plan": {"name": "capture", "cases": [{"workload": "callable"}]}, "target": "host"}, "capture"),
        ({"plan": {"name": "capture", "source": "capture.toml", "cases": [{"workload": "callable"}]}, "target": "host"}, "plan"),
        ({"plan": {"name": "x", "cases": [{"workload": "imported"}]}, "target": "imported"}, "imported"),
    ],
)
def test_the_kind_of_schema_1_follows_from_plan_and_target(raw: dict[str, object], kind: str) -> None:
    assert upgrade.run(raw, 1)["kind"] == kind


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A home with one run of schema 9."""
    name = "20301121T101500-abcdef"
    (tmp_path / "runs" / name).mkdir(parents=True)
    head = {"schema": 9, "id": name, "kind": "serving", "began": "2030-11-21T10:15:00+00:00", "hotlap": "4.2.0", "numbers": {"new": 1},
            "machine": {"host": "node7", "devices": [{"name": "H900", "shape": [1]}]}}  # fmt: skip
    (tmp_path / "runs" / name / "run.json").write_text(json.dumps(head))
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    return name


def test_a_run_of_a_later_schema_is_listed_with_what_reads_it(later: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    printed = capsys.readouterr()
    assert later in printed.out
    for part in ("H900", "on node7", "serving", "2030-11-21 10:15", "needs hotlap 4.2.0"):
        assert part in printed.out
    assert printed.err == ""
    assert cli.main(["list", "kind=serving", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == [
        {"id": later, "kind": "serving", "began": "2030-11-21T10:15:00+00:00", "devices": ["H900"], "host": "node7", "needs": "hotlap 4.2.0"}
    ]


def test_its_numbers_are_refused_in_one_line(later: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", later]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "is of schema 9, written by Hotlap 4.2.0" in printed.err


@pytest.mark.parametrize(("text", "stops"), [
    ("", []), ("precision reached", [Stop("precision")]), ("precision reached; budget", [Stop("precision"), Stop("budget")]),
    ("error: off the bus; gone", [Stop("error", "off the bus; gone")]), ("the time is over: fail", [Stop("over", state="fail")]),
    ("the program ended with 7", [Stop("program_ended", "7")]), ("something else", [Stop("unknown", "something else")]),
])
def test_why_a_run_ended_becomes_a_code(text: str, stops: list[Stop]) -> None:
    found = upgrade.run({"stopped": text, "plan": {}}, 1)
    assert msgspec.convert(found["stops"], list[Stop]) == stops


LINE = b'{"case":"c","device":"d","round":0,"seconds":[1.0],"status":"invalid","reason":"%s"%s}\n'


def test_flags_become_notices_and_lines_of_both_schemas_stand_in_one_file() -> None:
    flags = b',"flags":[{"name":"throttled","detail":"heat","shares":{"heat":0.5}}]'
    today = b',"notices":[{"code":"drift","seen":"+2 %"}]'
    found = upgrade.samples(LINE % (b"", flags) + LINE % (b"", today) + b'{"case', "samples.jsonl")
    assert [one.notices for one in found.records] == [[Notice("throttled", "heat", shares={"heat": 0.5})], [Notice("drift", "+2 %")]]
    assert found.torn == b'{"case'


def test_keys_of_samples_of_schema_1_are_read() -> None:
    (line,) = upgrade.samples(LINE % (b"", b',"dropped":3,"steady":false,"metrics":{"seconds":2.0}'), "samples.jsonl").records
    assert (line.values, line.unit, line.warmup_samples, line.steady_state_found) == ([1.0], "s", 3, False)
    assert line.metrics == {"seconds": 2.0}
    (own,) = upgrade.samples(LINE % (b"", b',"method":"program","variant":"pattern"'), "samples.jsonl").records
    assert (own.values, own.unit) == ([1.0], "")
    (today,) = upgrade.samples(b'{"case":"c","device":"d","round":0,"values":[1.0],"unit":"B/s","metrics":{"seconds":2.0}}\n', "x").records
    assert (today.values, today.unit) == ([1.0], "B/s")


@pytest.mark.parametrize(("variant", "path", "no_counters", "passes"), [
    ("gemm 4096×4096×512 bf16, tile 128×256, split 2", "tile 128×256, split 2", "", 1), ("float4, 8 passes a launch", "float4", "", 8),
    ("plain time: no kernel, of this", "plain time", "no kernel, of this", 1), ("torch sort fp32", "", "", 1),
])
def test_the_code_that_ran_is_taken_from_the_words_of_schema_1(variant: str, path: str, no_counters: str, passes: int) -> None:
    (line,) = upgrade.samples(LINE % (b"", f',"dropped":3,"variant":"{variant}"'.encode()), "samples.jsonl").records
    assert (line.variant, line.code_path, line.no_counters, line.passes) == (variant, path, no_counters, passes)


def test_the_smallest_change_to_report_of_turns_is_read() -> None:
    turns = {"id": "r", "side": "A", "difference": 0.02, "gate": 0.005, "most": 9}
    found = upgrade.run({"turns": turns, "plan": {}}, 1)["turns"]
    assert msgspec.convert(found, Turns).min_effect == 0.005


@pytest.mark.parametrize(("reason", "more", "status"), [
    (b"the clock jumped from 1 to 2 GHz", b"", "measured"), (b"the check failed", b"", "invalid"),
    (b"the clock jumped", b',"cause":"tampered"', "invalid"),
])
def test_what_0_1_called_a_clock_that_jumped_is_as_good_as_others(reason: bytes, more: bytes, status: str) -> None:
    (line,) = upgrade.samples(LINE % (reason, more), "samples.jsonl").records
    assert (line.status, line.reason) == (status, "" if status == "measured" else reason.decode())
