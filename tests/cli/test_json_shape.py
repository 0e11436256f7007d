"""`--json=3`: one shape from every command that prints cases; `--json=2` the former."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hotlap.cli import commands, main
from hotlap.core.show import document

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


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main(words)
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("verb", ["show", "explain"])
def test_a_command_without_a_verdict_has_none(verb: str, runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _, answer = printed(capsys, verb, runs["plan"], "--json=3")
    _, former = printed(capsys, verb, runs["plan"], "--json=2")
    assert (answer["schema"], answer["verdict"], answer["exit_code"]) == (3, None, None)
    assert all(list(case) == KEYS for case in answer["cases"])
    assert {case["run"] for case in answer["cases"]} == {runs["plan"]}
    expected = [(row["label"], row["value"], row["low"], row["high"], row["unit"], row["codes"]) for row in former[0]["results"]]
    assert [(c["name"], c["value"], c["low"], c["high"], c["unit"], c["codes"]) for c in answer["cases"]] == expected


def test_a_verdict_and_its_exit_code_stand_at_the_top(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = printed(capsys, "gate", runs["slower"], "--against", "limit", "--share", "99 %", "--json=3")
    assert (code, answer["verdict"], answer["exit_code"]) == (1, "fail", 1)
    assert {"fail"} <= {case["state"] for case in answer["cases"]}
    assert all(case["host"] for case in answer["cases"])
    code, answer = printed(capsys, "compare", runs["plan"], runs["slower"], "--json=3")
    assert answer["exit_code"] == code
    assert answer["verdict"] == document.VERDICTS[code]
    assert {(case["run"], case["unit"]) for case in answer["cases"]} == {(runs["slower"], "ratio")}
    _, former = printed(capsys, "compare", runs["plan"], runs["slower"], "--json=2")
    assert [case["value"] for case in answer["cases"]] == [case["ratio"] for case in former["cases"]]
    assert {"gate", "resolvable", "could"} <= set(former["cases"][0])


def test_the_shape_is_documented(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _, schema = printed(capsys, "schema", "json", "--json")
    assert list(schema["$defs"]["CaseEntry"]["properties"]) == KEYS
    assert all("description" in key for record in schema["$defs"].values() for key in record["properties"].values())
    _, answer = printed(capsys, "show", runs["plan"], "--json=3")
    assert msgspec.convert(answer, document.Document).schema == 3


def test_json_alone_is_the_first_shape_and_another_is_refused(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "show", runs["plan"], "--json") == printed(capsys, "show", runs["plan"], f"--json={commands.SHAPES[0]}")
    assert main(["show", runs["plan"], "--json=4"]) == 2
    assert capsys.readouterr().err == "hotlap: there is no shape '4' of JSON; valid: --json=2, --json=3\n"


def test_a_former_option_is_taken_with_a_line(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", runs["plan"], runs["slower"], "--min-effect", "5 %"]) == main(
        ["compare", runs["plan"], runs["slower"], "--gate", "5 %"]
    )
    assert capsys.readouterr().err == "hotlap: '--gate' is now '--min-effect'; the former option works in version 0.2 only\n"
