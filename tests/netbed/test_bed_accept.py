"""Nodes of a bed from expected to accepted: planted faults are quarantined with their causes; what is repaired is tried again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.netbed import bed as beds

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import accept_bed

from hotlap.bringup import accept_folder, accept_plan, accept_states
from hotlap.bringup.accept_folder import AcceptFolder

WHY = beds.missing()
TRIES = 3  # of what showed neither good nor bad: a busy machine disturbs transfers
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY or "a bed can be made")


@contextmanager
def accepting(home: Path, faults: dict[str, str], **more: str) -> Iterator[tuple[AcceptFolder, accept_bed.PlantedBed]]:
    """Seven nodes, driven until nothing is left to ask."""
    with accept_bed.standing(7, faults) as planted:
        data = accept_bed.plan_of(planted, 1.0, **more)
        folder = accept_folder.create(home, accept_plan.parse(data, "bed.toml"), data)
        accept_bed.drive(folder, planted)
        yield folder, planted


def _judged(folder: AcceptFolder, faulty: set[str]) -> None:
    """Skips where steps stay inconclusive, with their causes; no healthy node is blamed, and no faulty node accepted, for all that."""
    standings = folder.standings()
    states = {name: now.state for name, now in standings.items()}
    assert {name for name, state in states.items() if state == "quarantined"} <= faulty
    assert not [name for name in faulty if states[name] == "accepted"]
    if left := sorted(name for name, state in states.items() if state not in ("accepted", "quarantined")):
        causes = {fault.code for name in left for fault in standings[name].faults}
        pytest.skip(f"inconclusive in {TRIES + 1} tries: {', '.join(left)} ({', '.join(sorted(causes)) or 'no cause'})")


@pytest.mark.nightly("seven real nodes, reached and inspected; two of Slurm stand in CI")
def test_what_an_inspection_finds_is_quarantined_and_comes_back_once_it_is_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rate decides here: the budget ends with the inspection."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    with accepting(tmp_path, {"n02": "firmware", "n05": "rail"}, budget="80 s") as (folder, planted):
        standings = folder.standings()
        assert {name: now.state for name, now in standings.items() if now.state != "inspected"} == {"n02": "quarantined", "n05": "quarantined"}
        assert [standings[name].faults[0].code for name in ("n02", "n05")] == ["firmware", "rail"]
        assert all(accept_bed.verifies(folder, node, tmp_path) for node in ("n02", "n05"))
        assert accept_bed.retested(folder, planted, "n02") == "inspected"
        assert folder.standings()["n05"].state == "quarantined"


@pytest.mark.nightly("an acceptance of seven real nodes; on a busy machine steps are repeated")
def test_a_planted_fault_goes_from_expected_to_quarantined_to_retest_to_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    with accepting(tmp_path, {"n02": "firmware", "n05": "slow-link"}) as (folder, planted):
        for _ in range(TRIES):
            if {now.state for now in folder.standings().values()} <= {"accepted", "quarantined"}:
                break
            accept_bed.again(folder, planted)
        standings = folder.standings()
        _judged(folder, {"n02", "n05"})
        assert {name: now.state for name, now in standings.items() if now.state != "accepted"} == {"n02": "quarantined", "n05": "quarantined"}
        assert [standings[name].faults[0].code for name in ("n02", "n05")] == ["firmware", "slow-link"]
        assert all(accept_bed.verifies(folder, node, tmp_path) for node in ("n02", "n05"))
        state = accept_bed.retested(folder, planted, "n02")
        for _ in range(TRIES):
            if state != "accepted":
                accept_bed.again(folder, planted)
                state = folder.standings()["n02"].state
        _judged(folder, {"n05"})
        assert {name for name, now in folder.standings().items() if not accept_states.on_evidence(now)} == {"n05"}
