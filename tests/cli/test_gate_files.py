"""Baselines as files: saved beside the code, matched by the class of machine, refused before anything is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gate_plan import PLAN, TARGET

from hotlap.cli import main


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of two runs, with a baseline file of them beside the plan."""
    home = tmp_path_factory.mktemp("files")
    (home / "plan.toml").write_text(PLAN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTLAP_HOME", str(home))
        for seed in (1, 2):
            assert main(["run", str(home / "plan.toml"), "--target", f"{TARGET}{seed}", "--no-report", "--label", "state=well"]) == 0
        assert main(["baseline", "save", "state=well", "--to", str(home / "base.json")]) == 0
    return home


@pytest.fixture(autouse=True)
def home(kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(kept))
    capsys.readouterr()
    return kept


def changed(home: Path, name: str, **fields: Any) -> Path:
    """The baseline with other fields in every reference; those of the class of machine among them."""
    document = json.loads((home / "base.json").read_text())
    for reference in document["references"]:
        own = {key: value for key, value in fields.items() if key in reference}
        reference.update(own)
        reference["machine_class"].update({key: value for key, value in fields.items() if key not in own})
    path = home / name
    path.write_text(json.dumps(document))
    return path


def runs(home: Path) -> int:
    return len(list((home / "runs").iterdir()))


def test_a_file_is_overwritten_only_when_that_is_asked(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "base.json"
    words = ["baseline", "save", "latest", "--to", str(path)]
    assert main([*words, "--add"]) == 2
    assert main(words) == 0
    assert main(words) == 2
    assert "--replace writes it anew" in capsys.readouterr().err
    assert main(["baseline", "save", "state=well", "--to", str(path), "--add"]) == 0
    assert all(len(one["runs"]) == 2 for one in json.loads(path.read_text())["references"])
    assert main([*words, "--replace"]) == 0
    assert all(len(one["runs"]) == 1 for one in json.loads(path.read_text())["references"])
    assert main(["baseline", "show", str(path)]) == 0
    assert "base, saved" in capsys.readouterr().out


def test_a_file_is_told_by_its_content(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = tmp_path / "baseline.toml"  # the name says nothing
    odd.write_bytes((home / "base.json").read_bytes())
    assert main(["gate", "latest", "--against", str(odd), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["against"] == "baseline base"
    rules = tmp_path / "rules.json"
    rules.write_text('[[rule]]\nwhy = "order 3"\nwhere = { workload = "gemm" }\nat_least = "1 TFLOP/s"\n')
    assert main(["gate", "latest", "--against", str(rules), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["against"] == "rules rules.json"


def test_a_class_of_machine_stands_for_the_host(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = changed(home, "elsewhere.json", host="runner-17", device="another-uuid", serial="7")
    assert main(["gate", "latest", "--against", str(elsewhere), "--match", "class", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)["cases"][0]["more"]
    assert verdict["machine_class"] == json.loads(elsewhere.read_text())["references"][0]["machine_class"]
    assert verdict["machine_class"]["logical_cores"] > 0
    assert "2 runs of machines of its class" in verdict["provenance"]


@pytest.mark.parametrize(
    ("fields", "match", "message"),
    [
        ({"os": "Debian 99"}, "class", "another class of machine: "), ({"cpu": "Z80"}, "class", "Z80"),
        ({"model": "gb200", "device": "other"}, "host", "another device: gb200, here h200-sxm"), ({"target": "opencl"}, "host", "of the target opencl, not simulated"),
    ],
)  # fmt: skip
def test_a_baseline_of_elsewhere_is_refused_before_measuring(
    fields: dict[str, str], match: str, message: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed(home, "other.json", **fields)
    before = runs(home)
    assert main(["gate", "--measure", str(home / "plan.toml"), "--target", f"{TARGET}3", "--against", str(path), "--match", match]) == 2
    error = capsys.readouterr().err
    assert (message in error, error.count("\n"), runs(home)) == (True, 1, before)


def test_a_case_that_is_gone_is_said_before_measuring(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shorter, before = tmp_path / "shorter.toml", runs(home)
    shorter.write_text(PLAN[: PLAN.index('[[case]]\nworkload = "gemm"')])
    words = ["gate", "--measure", str(shorter), "--target", f"{TARGET}3", "--against", str(home / "base.json")]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert ("has what the plan 'shorter' lacks: gemm" in error, error.count("\n"), runs(home)) == (True, 1, before)
    shorter.write_text(shorter.read_text().replace('"copy"', '"triad"'))
    assert main(words) == 2
    assert "knows no case of the plan 'shorter'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": 99, "hotlap": "9.1", "references": [7]}', "written by Hotlap 9.1"), ("{", "not a baseline that can be read"),
        ('{"id": "x"}', "JSON but no baseline"), ("", "a rules file is a list"), ('{"schema": 2, "references": [7]}', "not a baseline that can be read"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_baseline_is_refused_before_measuring(
    content: str, message: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, before = tmp_path / "b.json", runs(home)
    path.write_text(content)
    assert main(["gate", "--measure", str(home / "plan.toml"), "--against", str(path)]) == 2
    error = capsys.readouterr().err
    assert (message in error, error.count("\n"), runs(home)) == (True, 1, before)


@pytest.mark.parametrize(
    "words",
    [["--against", "nothing"], ["--against", "none.json"], ["--against", "limit", "--share", "0 %"], ["--against", "limit", "--junit", "none/x.xml"],
     ["--against", "limit", "--where", "op=none"], ["--against", "limit", "--device", "7"], ["--against", "limit", "--label", "x"], ["--against", "baseline:./base.json"]],
)  # fmt: skip
def test_every_argument_is_checked_before_measuring(words: list[str], home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = runs(home)
    assert main(["gate", "--measure", str(home / "plan.toml"), "--target", f"{TARGET}3", *words]) == 2
    assert (capsys.readouterr().err.count("\n"), runs(home)) == (1, before)


def test_a_baseline_of_too_few_rounds_is_refused_before_anything_is_measured(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads((home / "base.json").read_text())
    for reference in document["references"]:
        reference["runs"] = {run: values[:3] for run, values in list(reference["runs"].items())[:1]}
    path, before = tmp_path / "few.json", runs(home)
    path.write_text(json.dumps(document))
    assert main(["gate", "--measure", str(home / "plan.toml"), "--target", f"{TARGET}1", "--against", str(path)]) == 2
    assert "has 3 rounds of a case at most, and a comparison needs 4; 'hotlap baseline save RUN --add' with the same --name or --to adds runs to it" in capsys.readouterr().err
    assert runs(home) == before
    assert main(["gate", "latest", "--against", str(path)]) == 3
    assert "'hotlap baseline save RUN --add' with the same --name or --to adds runs to it" in " ".join(capsys.readouterr().out.split())
