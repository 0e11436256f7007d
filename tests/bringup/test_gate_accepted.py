"""What a gate takes from the ledgers of acceptances: states, overrides with their reasons, the evidence of pairs and its age."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from kept_campaigns import DAY_S

from hotlap.bringup import accept_driver, accept_folder, accept_plan, accept_simulate, gate_accepted
from hotlap.bringup.accept_folder import AcceptFolder
from hotlap.bringup.accept_record import AcceptEvent
from hotlap.bringup.gate_record import Gate, GateEvidence
from hotlap.cli import main
from hotlap.core.store import paths

FLEET = "fleet?nodes=8&fault=slow-link:n4&fault=rail:n5"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "240")
    return paths.home()


def accepted(home: Path, days_ago: float, fleet: str = FLEET, name: str = "", real: bool = True) -> AcceptFolder:
    """Of a simulated fleet at a chosen time; as its plan says afterwards, of real nodes."""
    data = accept_plan.text(accept_simulate.draft(fleet)).encode()
    folder = accept_folder.create(home, accept_plan.parse(data, "hall.toml"), data, name, sync=False)
    measured = accept_simulate.fleet(folder.plan, folder.standings)
    began_s = time.time() - days_ago * DAY_S
    measured.now_s = lambda taken: began_s + taken  # type: ignore[method-assign]
    with folder.held():
        accept_driver.AcceptDriver(folder, measured, 1.0, frozenset()).run()
    if real:
        plan = msgspec.structs.replace(folder.plan, launch={"hosts": "n[1-8]"})
        (folder.path / accept_folder.PLAN).write_bytes(msgspec.json.encode(plan))
    return folder


def decided(folder: AcceptFolder, node: str, to: str, reason: str) -> None:
    now, events = folder.standings()[node], folder.events()
    event = AcceptEvent(
        number=len(events) + 1, time_s=time.time(), node=node, was=now.state, to=to, by="ada", override=True, reason=reason,  # type: ignore[arg-type]
    )  # fmt: skip
    with folder.held():
        folder.append(event)


def gate(capsys: pytest.CaptureFixture[str], *words: str) -> Gate:
    main(["cluster", "gate", "--hosts", "n[1-8]", "--evidence", "--json", *words])
    return msgspec.convert(json.loads(capsys.readouterr().out)["gate"], Gate)


def rule(seen: Gate, node: str, name: str) -> GateEvidence:
    return next(answer.seen for each in seen.nodes if each.node == node for answer in each.answers if answer.seen.rule == name)


def verdicts(seen: Gate) -> dict[str, str]:
    return {each.node: each.verdict for each in seen.nodes}


def test_a_quarantined_node_fails_and_its_cause_and_age_are_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accepted(home, 1)
    assert {node for node, verdict in verdicts(gate(capsys)).items() if verdict == "fail"} == {"n4", "n5"}
    main(["cluster", "gate", "--hosts", "n[1-8]", "--evidence"])
    out = capsys.readouterr().out
    assert "acceptance: quarantined in simulated: rails are swapped" in out
    assert "acceptance: accepted in simulated, 24 h ago" in out


def test_pairs_of_an_acceptance_are_evidence_until_they_are_too_old(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accepted(home, 1)
    assert (rule(gate(capsys), "n1", "pair").holds, rule(gate(capsys), "n1", "pair").ledger) == ("good", True)
    assert rule(gate(capsys, "--risk", "0.1%"), "n1", "pair").code == "stale"
    assert rule(gate(capsys, "--risk", "0.1%"), "n1", "acceptance").holds == "good"
    assert rule(gate(capsys), "n4", "pair").holds == "bad"
    assert rule(gate(capsys, "--loss", "1%"), "n1", "pair").holds == "unknown"  # such a loss would not have been named


def test_an_override_stands_with_its_reason_beside_the_state(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = accepted(home, 1)
    decided(folder, "n5", "accepted", "rails are cabled like this on purpose")
    decided(folder, "n1", "spare", "kept cold")
    seen = gate(capsys)
    assert rule(seen, "n5", "acceptance").holds == "good"
    assert (rule(seen, "n1", "acceptance").holds, verdicts(seen)["n1"]) == ("unknown", "inconclusive")
    main(["cluster", "gate", "--hosts", "n[1-8]", "--evidence"])
    out = capsys.readouterr().out
    assert "accepted (override: rails are cabled like this on purpose) in simulated" in out
    assert "spare (override: kept cold) in simulated" in out


def test_the_newest_acceptance_that_moved_a_node_counts(home: Path) -> None:
    accepted(home, 9, name="20260101T000000-000001")
    accepted(home, 1, "fleet?nodes=8", name="20260102T000000-000002")
    known = gate_accepted.read(home, 0.1).standings
    assert {seen.accepted.state for seen in known.values() if seen.accepted} == {"accepted"}
    data = accept_plan.text({**accept_simulate.draft("fleet?nodes=8"), "launch": {"hosts": "n[1-8]"}}).encode()
    accept_folder.create(home, accept_plan.parse(data, "next.toml"), data, sync=False)  # nothing ran of it
    assert gate_accepted.read(home, 0.1).standings == known


def test_simulated_acceptances_say_nothing_of_real_nodes(home: Path) -> None:
    accepted(home, 1, real=False)
    assert gate_accepted.read(home, 0.1) == ({}, [], {})


def _changed(folder: AcceptFolder) -> None:
    for path in folder.path.glob("steps/*-alone.jsonl"):
        path.write_bytes(path.read_bytes().replace(b'"node":"n1"', b'"node":"n2"'))


def _torn(folder: AcceptFolder) -> None:
    ledger = folder.path / accept_folder.LEDGER
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[1:]))


@pytest.mark.parametrize(("change", "text"), [(_changed, "evidence of alone is not as it was written"), (_torn, "the ledger of an acceptance cannot be read")])
def test_a_ledger_that_was_changed_accepts_nobody(
    change: Callable[[AcceptFolder], None], text: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(accepted(home, 1))
    seen = gate(capsys)
    assert (rule(seen, "n1", "acceptance").holds, verdicts(seen)["n1"]) == ("unknown", "inconclusive")
    main(["cluster", "gate", "--hosts", "n[1-8]", "--evidence"])
    assert text in capsys.readouterr().out


def test_another_machine_by_that_name_was_not_accepted() -> None:
    seen = GateEvidence(rule="acceptance", node="n1", at_s=5.0, holds="good", code="acceptance", machine="serial A")
    ledgers = gate_accepted.Ledgers({"n1": seen}, [], {})
    holds = {now: gate_accepted.answers(ledgers, ["n1"], {"n1": now}, 10.0)["n1"].seen.holds for now in ("", "serial A", "serial B")}
    assert holds == {"": "good", "serial A": "good", "serial B": "unknown"}
