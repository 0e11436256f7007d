"""Nodes of a bed from expected to accepted: two planted faults are quarantined with their causes; one is repaired, tried again and accepted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.netbed import bed as beds

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import accept_bed

from hotlap.bringup import accept_folder, accept_plan, accept_states

WHY = beds.missing()
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY or "a bed can be made"), pytest.mark.slow("an acceptance of seven real nodes")]


def test_a_planted_fault_goes_from_expected_to_quarantined_to_retest_to_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    with accept_bed.standing(7, {"n02": "firmware", "n05": "slow-link"}) as planted:
        data = accept_bed.plan_of(planted, 1.0)
        folder = accept_folder.create(tmp_path, accept_plan.parse(data, "bed.toml"), data)
        accept_bed.drive(folder, planted)
        standings = folder.standings()
        assert {name: now.state for name, now in standings.items() if now.state != "accepted"} == {"n02": "quarantined", "n05": "quarantined"}
        assert {standings[name].faults[0].code for name in ("n02", "n05")} == {"firmware", "slow-link"}
        assert all(accept_bed.verifies(folder, node, tmp_path) for node in ("n02", "n05"))
        assert accept_bed.retested(folder, planted, "n02") == "accepted"
        assert {name for name, now in folder.standings().items() if not accept_states.on_evidence(now)} == {"n05"}
