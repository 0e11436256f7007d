"""What is no evidence: a serial number that another node has, two nodes, one node together, a fleet that differs too much."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from test_accept_fleet import begun, driven
from test_accept_judge import evidence, outcomes, plan

from hotlap.bringup import accept_judge, accept_show
from hotlap.bringup.accept_judge import StepRaw
from hotlap.bringup.accept_record import FaultSeen, NodeStanding
from hotlap.bringup.accept_show import AcceptanceSeen
from hotlap.core.stats import fleet


def cause(standing: NodeStanding) -> str:
    return accept_show.causes(standing.faults)


@pytest.mark.parametrize(("node", "owner"), [("n09", "n10"), ("n08", "n09")])
def test_whose_serial_number_it_is_stays_in_the_cause_after_a_retest_and_in_a_later_wave(node: str, owner: str, tmp_path: Path) -> None:
    """n09 begins the second wave."""
    standing = driven(begun(tmp_path, f"fleet?nodes=24&fault=serial:{node}")).standings()[node]
    assert standing.state == "quarantined"
    assert cause(standing).endswith(f"is that of {owner}")


def test_of_two_nodes_with_a_slow_link_none_is_blamed_and_none_accepted(tmp_path: Path) -> None:
    folder = driven(begun(tmp_path, "fleet?nodes=2&fault=slow-link:n1"))
    assert {name: each.state for name, each in folder.standings().items()} == {"n1": "alone", "n2": "alone"}


def test_two_nodes_without_a_fault_are_accepted_by_the_rate_of_their_link(tmp_path: Path) -> None:
    folder = driven(begun(tmp_path, "fleet?nodes=2"))
    assert {name: each.state for name, each in folder.standings().items()} == {"n1": "accepted", "n2": "accepted"}


def test_a_collective_of_one_node_is_no_evidence(tmp_path: Path) -> None:
    folder = driven(begun(tmp_path, "fleet?nodes=2&fault=firmware:n1"))
    assert folder.standings()["n2"].state not in ("together", "soaked", "accepted")


@pytest.mark.parametrize(("seed", "faults"), [(3, "&fault=slow-link:n11"), (19, ""), (20, "")])
def test_no_link_is_suspected_where_none_is_slow_nor_kept_once_its_nodes_have_passed(seed: int, faults: str, tmp_path: Path) -> None:
    folder = driven(begun(tmp_path, f"fleet?nodes=24&seed={seed}{faults}"))
    standings, heads = folder.standings(), [step.head for step in folder.steps()]
    assert [note for head in heads for note in head.notes if note.values.get("part") == "link"] == []
    link = FaultSeen(code="slow-part", values={"part": "link", "members": ["n01", "n03"], "loss": 0.25})
    heads[3] = msgspec.structs.replace(heads[3], notes=[link])
    assert link not in AcceptanceSeen(folder.id, folder.plan, standings, heads, True, 1.0).notes
    standings["n03"] = NodeStanding(node="n03", state="alone")
    assert link in AcceptanceSeen(folder.id, folder.plan, standings, heads, True, 1.0).notes


def test_a_fleet_in_which_a_tenth_of_the_rate_would_pass_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = [{"copy": {"": [level, level * 1.01, level * 0.99]}} for level in (1.0, 1.01, 0.99, 1.02, 0.98, 1.0)]
    assert outcomes(accept_judge.judged(plan(), StepRaw(evidence("alone", rates=rates)))) == {}
    whole = fleet.odd

    def coarse(*given: object, **more: object) -> fleet.Fleet:
        answer = whole(*given, **more)  # type: ignore[arg-type]
        answer.reach[:] = [0.998]
        return answer

    monkeypatch.setattr(fleet, "odd", coarse)
    judged = accept_judge.judged(plan(), StepRaw(evidence("alone", rates=rates)))
    assert {each.outcome for each in judged} == {"open"}
    assert "a node shows as slow in copy from a loss of 99.8 % on, by how much its 6 nodes differ" in accept_show.causes(judged[0].faults)


def test_a_node_that_is_far_off_a_small_fleet_is_doubted_and_measured_again() -> None:
    """Six nodes that differ by 1 % name one that lost nearly all; one that lost far more than they differ is not accepted either."""
    rates = [{"copy": {"": [level, level * 1.01, level * 0.99]}} for level in (1.0, 1.01, 0.99, 1.02, 0.6, 1.0)]
    judged = accept_judge.judged(plan(), StepRaw(evidence("alone", rates=rates)))
    assert outcomes(judged) == {"n5": ("open", ["doubtful"])}
    assert "copy on the node is 40.0 % slower than the fleet" in accept_show.causes(judged[4].faults)
