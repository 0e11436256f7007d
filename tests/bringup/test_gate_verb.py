"""`hotlap cluster gate`: by kept evidence, by tests on slots of this machine, as labels, and applied by stand-ins that keep their words."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kept_campaigns import keep

from hotlap.bringup import cli_gate, gate_labels
from hotlap.bringup.gate_record import Gate
from hotlap.bringup.record import KEPT
from hotlap.cli import main
from hotlap.core.show.document import Document

NODES = ["n1", "n2", "n3", "n4"]
HOSTS = ["cluster", "gate", "--hosts", "n[1-4]", "--evidence"]
STAND_IN = """#!/bin/sh
printf '%s\\n' "$(basename "$0") $*" >> {log}
case "$*" in "show config") echo "AccountingStorageType = none"; echo "ClusterName             = alpha";; esac
{more}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def evidence(home: Path) -> None:
    """n2 is slow, n4 was not seen for a month."""
    keep(home, 30, NODES, slow={})
    keep(home, 0.5, ["n1", "n2", "n3", "n5"], codes={"n1": 1, "n2": 0, "n3": 0}, slow={"n2": 0.2})


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """scontrol and kubectl that write down what they are asked."""
    stand_ins(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "log"


def stand_ins(folder: Path, more: str = "") -> None:
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("scontrol", "kubectl"):
        (folder / "bin" / name).write_text(STAND_IN.format(log=folder / "log", more=more))
        (folder / "bin" / name).chmod(0o755)


def answered(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    msgspec.convert(answer["gate"], Gate)
    return answer


@pytest.mark.usefixtures("evidence")
def test_nodes_are_judged_by_the_age_of_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*HOSTS, "--json"]) == 1
    answer = answered(capsys)
    assert {each["node"]: each["verdict"] for each in answer["labels"]} == {"n1": "pass", "n2": "fail", "n3": "pass", "n4": "inconclusive"}
    assert [each["reason"] for each in answer["labels"]][1] == "hotlap gate: pair: node n2 loses 20 percent"
    assert main(HOSTS) == 1
    out = capsys.readouterr().out
    assert "node n2 loses 20 %, 12 h ago" in out
    assert "audit (shadow): exit code 1" in out
    assert "the evidence is too old" in out
    assert "audit is in shadow" in out


@pytest.mark.usefixtures("evidence")
def test_a_greater_risk_makes_less_stale(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*HOSTS, "--risk", "50%", "--json"]) == 1
    assert {each["node"]: each["verdict"] for each in answered(capsys)["labels"]}["n4"] == "pass"


@pytest.mark.usefixtures("evidence", "log")
def test_labels_are_printed_and_nothing_is_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([*HOSTS, "--labels", "slurm"]) == 1
    assert capsys.readouterr().out == "scontrol update NodeName=n2 State=DRAIN 'Reason=hotlap gate: pair: node n2 loses 20 percent'\n"
    assert main([*HOSTS, "--labels", "kubernetes"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "kubectl taint nodes n2 hotlap-gate=fail:NoSchedule --overwrite",
        "kubectl annotate nodes n2 'hotlap-gate-reason=hotlap gate: pair: node n2 loses 20 percent' --overwrite",
    ]
    assert main([*HOSTS, "--labels", "json"]) == 1
    assert [each["labels"] for each in answered(capsys)["labels"]][1] == {"hotlap-gate": "fail"}
    assert not (tmp_path / "log").exists()


@pytest.mark.usefixtures("evidence")
def test_apply_takes_out_the_named_nodes_of_the_named_cluster(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*HOSTS, "--apply", "slurm", "--cluster", "alpha", "--node", "n2"]) == 1
    assert log.read_text().splitlines() == [
        "scontrol show config", "scontrol update NodeName=n2 State=DRAIN Reason=hotlap gate: pair: node n2 loses 20 percent",
    ]  # fmt: skip
    assert "done    scontrol update NodeName=n2" in capsys.readouterr().out
    log.unlink()
    assert main([*HOSTS, "--apply", "kubernetes", "--cluster", "prod-west", "--node", "n2", "--json"]) == 1
    assert [line.split()[:5] for line in log.read_text().splitlines()] == [
        ["kubectl", "--context", "prod-west", "taint", "nodes"], ["kubectl", "--context", "prod-west", "annotate", "nodes"],
    ]  # fmt: skip
    assert len(answered(capsys)["gate"]["applied"]) == 2


@pytest.mark.usefixtures("evidence", "log")
def test_what_was_applied_is_kept_with_the_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = cli_gate._gated
    (home / "runs" / "tested").mkdir()
    monkeypatch.setattr(cli_gate, "_gated", lambda *words: msgspec.structs.replace(real(*words), run="tested"))
    assert main([*HOSTS, "--apply", "slurm", "--cluster", "alpha", "--node", "n2"]) == 1
    kept = msgspec.json.decode((home / "runs" / "tested" / "gate.json").read_bytes(), type=Gate)
    assert [command[:3] for command in kept.applied] == [["scontrol", "update", "NodeName=n2"]]


@pytest.mark.usefixtures("evidence")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--apply", "slurm", "--node", "n2"], "missing: --cluster NAME"), (["--apply", "kubernetes", "--cluster", "c"], "missing: --node NAME"),
        (["--apply", "slurm", "--cluster", "alpha", "--node", ","], "missing: --node NAME"),
        (["--apply", "slurm", "--cluster", "beta", "--node", "n2"], "belongs to 'alpha'"),
        (["--apply", "slurm", "--cluster", "alpha", "--node", "n2,n1"], "n1: its verdict is pass"),
        (["--apply", "slurm", "--cluster", "alpha", "--node", "n9"], "it is none of n1, n2, n3, n4"),
        (["--cluster", "alpha"], "go with --apply"), (["--again"], "leave out one of both"), (["--risk", "2"], "--risk"),
        (["--budget", "0 s"], "--budget is a time"), (["--rules", "nowhere.toml"], "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_not_named_or_did_not_fail_is_left_alone(words: list[str], reason: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*HOSTS, *words]) == 2
    assert reason in capsys.readouterr().err
    assert "update" not in (log.read_text() if log.exists() else "")


@pytest.mark.usefixtures("evidence", "log")
def test_a_command_that_fails_says_what_was_done_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stand_ins(tmp_path, 'case "$*" in *annotate*) echo "Error: forbidden" >&2; exit 1;; esac')
    assert main([*HOSTS, "--apply", "kubernetes", "--cluster", "west", "--node", "n2"]) == 3
    err = capsys.readouterr().err
    assert "Error: forbidden; done before: kubectl --context west taint nodes n2" in err


def test_a_reason_is_one_short_line_that_every_system_takes() -> None:
    assert gate_labels.cut("n1 → n2\n loses 20%; `rm`") == "n1  n2 loses 20 percent; rm"
    assert len(gate_labels.cut("x" * 500)) == gate_labels.MOST


def test_without_evidence_nobody_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(HOSTS) == 3
    assert "no evidence" in capsys.readouterr().out


def test_labels_without_a_node_that_failed_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*HOSTS, "--labels", "slurm"]) == 3
    answer = capsys.readouterr()
    assert answer.out == ""
    assert "no node failed, so there is nothing to take out: 4 inconclusive" in answer.err


@pytest.mark.usefixtures("evidence")
def test_what_was_to_be_tested_again_and_had_no_time_is_not_answered_by_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "gate", "--hosts", "n[1-4]", "--again", "--budget", "2 s", "--json"]) == 3
    gate = msgspec.convert(answered(capsys)["gate"], Gate)
    assert {"gpus", "pair", "audit"} == set(gate.left_out)
    assert {each.verdict for each in gate.nodes} == {"inconclusive"}


@pytest.mark.nightly("agents of four members, a command and transfers")
def test_what_is_stale_is_tested_and_then_known(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.toml").write_text(
        '[rules.odd]\ncommand = "sh -c \'test {index} != 1\'"\ntakes = "1 s"\n[rules.long]\ncommand = "true"\ntakes = "5 min"\n'
    )
    words = ["cluster", "gate", "--local", "4", "--budget", "60 s", "--time", "0.1 s", "--rules", str(tmp_path / "rules.toml"), "--json"]
    assert main(words) in (0, 1, 3)  # a loaded machine may disturb transfers
    gate = msgspec.convert(answered(capsys)["gate"], Gate)
    answers = {(one.node, each.seen.rule): each for one in gate.nodes for each in one.answers}
    assert {node: answers[node, "odd"].seen.holds for node in ("slot00", "slot01")} == {"slot00": "good", "slot01": "bad"}
    assert not answers["slot01", "odd"].acts
    assert answers["slot00", "gpus"].tested
    assert answers["slot00", "pair"].tested
    assert gate.left_out == ["long"]
    assert (home / "runs" / gate.run / "gate.json").is_file()
    main([*words, "--evidence"])
    again = msgspec.convert(answered(capsys)["gate"], Gate)
    assert {each.seen.run for one in again.nodes for each in one.answers if each.seen.rule == "odd"} == {gate.run}
    assert not again.run


@pytest.mark.nightly("agents of two members, two campaigns")
def test_two_nodes_are_set_beside_the_fleet_that_is_known(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = keep(home, 1, NODES, slow={}) / KEPT
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"fleet": 1.0}))  # any loopback is faster
    main(["cluster", "gate", "--local", "2", "--budget", "40 s", "--time", "0.1 s", "--again", "--json"])
    gate = msgspec.convert(answered(capsys)["gate"], Gate)
    codes = [each.seen.code for one in gate.nodes for each in one.answers if each.seen.rule == "pair"]
    assert len(codes) == 2
    assert "few" not in codes  # a busy machine may make one noisy or slow


@pytest.mark.nightly("two processes of node inspect")
def test_kept_inspections_are_evidence_of_the_audit(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "run", "node", "inspect", "--local", "2"]) == 0
    capsys.readouterr()
    main(["cluster", "gate", "--local", "2", "--evidence", "--json"])
    gate = msgspec.convert(answered(capsys)["gate"], Gate)
    kept = next((home / "runs").iterdir())
    code = main(["node", "audit", "--root", str(kept / "facts" / "slot00.json"), "--json"])
    answers = {(one.node, each.seen.rule): each for one in gate.nodes for each in one.answers}
    assert answers["slot00", "audit"].seen.status == code
    assert answers["slot00", "audit"].seen.run == kept.name
