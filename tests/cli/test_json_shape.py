"""`--json`: one shape from every command that prints cases; `--json=2` the former."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hotlap.cli import commands, main
from hotlap.core.show import document, shape

BUNDLES = Path(__file__).parents[1] / "before" / "bundles" / "0.2"
KEYS = ["case", "name", "run", "host", "device", "value", "unit", "low", "high", "state", "codes"]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Ids of a run and of a slower one, in a home of their own."""
    ids = {}
    for name in ("plan", "slower"):
        with zipfile.ZipFile(BUNDLES / f"{name}.zip") as bundle:
            bundle.extractall(tmp_path / "runs")
            ids[name] = bundle.namelist()[0].partition("/")[0]
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    return ids


@pytest.fixture
def small(tmp_path: Path, runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Selectors of a run of one case from a table, and of a slower one."""
    lines = [f"2026-11-0{level},{side},copy,{value + level},s" for level, side in enumerate("ab", 1) for value in (0.01, 0.02, 0.03, 0.04)]
    (tmp_path / "table.csv").write_text("\n".join(["time,side,case,value,unit", *lines]) + "\n")
    assert main(["import", str(tmp_path / "table.csv"), "--label-column", "side"]) == 0
    capsys.readouterr()
    return "side=a", "side=b"


@pytest.fixture
def rules(tmp_path: Path) -> str:
    """A rule that the runs break."""
    file = tmp_path / "rules.toml"
    file.write_text('[[rule]]\nwhy = "a test"\nshare_at_least = "99 %"\n')
    return str(file)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main(words)
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("verb", ["show", "explain"])
def test_a_command_without_a_verdict_has_none(verb: str, runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _, answer = printed(capsys, verb, runs["plan"], "--json")
    _, former = printed(capsys, verb, runs["plan"], "--json=2")
    assert (answer["schema"], answer["verdict"], answer["exit_code"]) == (3, None, None)
    assert all(list(case)[: len(KEYS)] == KEYS for case in answer["cases"])
    assert [run["id"] for run in answer["runs"]] == [runs["plan"]]
    assert [(case.get("limit") or {}).get("share") for case in answer["cases"]] == [row["share"] for row in former[0]["results"]]
    assert [case["rounds"] for case in answer["cases"]] == [row["rounds"] for row in former[0]["results"]]
    assert {case["run"] for case in answer["cases"]} == {runs["plan"]}
    expected = [(row["label"], row["value"], row["low"], row["high"], row["unit"], row["codes"]) for row in former[0]["results"]]
    assert [(c["name"], c["value"], c["low"], c["high"], c["unit"], c["codes"]) for c in answer["cases"]] == expected


def test_a_verdict_and_its_exit_code_stand_at_the_top(
    runs: dict[str, str], small: tuple[str, str], rules: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = printed(capsys, "gate", runs["slower"], "--against", rules, "--json")
    assert (code, answer["verdict"], answer["exit_code"]) == (1, "fail", 1)
    assert {"fail"} <= {case["state"] for case in answer["cases"]}
    assert all(case["host"] for case in answer["cases"])
    code, answer = printed(capsys, "compare", *small, "--json")
    assert answer["exit_code"] == code
    assert answer["verdict"] == shape.VERDICTS[code]
    assert {case["unit"] for case in answer["cases"]} == {"ratio"}
    assert {case["run"] for case in answer["cases"]}.isdisjoint(runs.values())
    _, former = printed(capsys, "compare", *small, "--json=2")
    assert [case["value"] for case in answer["cases"]] == [case["ratio"] for case in former["cases"]]
    assert {"gate", "resolvable", "could"} <= set(former["cases"][0])


def test_the_shape_is_documented(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _, schema = printed(capsys, "schema", "json", "--json")
    schema = schema["json_schema"]
    assert schema["$defs"]["CaseEntry"]["required"] == KEYS
    assert [*schema["$defs"]["CaseEntry"]["properties"]] == [*document.CaseEntry.__struct_fields__]
    assert all("description" in key for record in schema["$defs"].values() for key in record["properties"].values())
    _, answer = printed(capsys, "show", runs["plan"], "--json")
    assert msgspec.convert(answer, document.Document).schema == 3


def test_json_alone_is_the_first_shape_and_another_is_refused(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.SHAPES[0] == shape.SHAPE
    assert printed(capsys, "show", runs["plan"], "--json") == printed(capsys, "show", runs["plan"], f"--json={shape.SHAPE}")
    assert main(["show", runs["plan"], "--json=4"]) == 2
    assert capsys.readouterr().err == "hotlap: there is no shape '4' of JSON; valid: --json=3, --json=2\n"


def test_a_former_option_is_taken_with_a_line(small: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *small, "--min-effect", "5 %"]) == main(["compare", *small, "--gate", "5 %"])
    assert capsys.readouterr().err == "hotlap: '--gate' is now '--min-effect'; the former option works in version 0.2 only\n"


def test_a_former_name_prints_the_former_shape(runs: dict[str, str], rules: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = runs["slower"], "--against", rules
    code, former = printed(capsys, "judge", *words, "--json")
    assert (code, former) == printed(capsys, "gate", *words, "--json=2")
    assert [one["state"] for one in former] == ["fail"]
    assert printed(capsys, "judge", *words, "--json=3") == printed(capsys, "gate", *words, "--json")
    _, listed = printed(capsys, "ls", "--json")
    assert isinstance(listed, list)


def test_help_names_both_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "show"]) == 0
    assert " ".join(capsys.readouterr().out.split()).endswith("--json print JSON, shape 3; --json=2: the former shape")
