"""States of an acceptance: a pure machine over events. What may not happen is refused, and nobody is accepted on missing evidence."""

from __future__ import annotations

import random

import msgspec
import pytest

from hotlap.bringup import accept_states, cli_accept_run
from hotlap.bringup.accept_record import MEASURED, PATH, STATES, STEPS, AcceptEvent, FaultSeen, NodeStanding
from hotlap.core.errors import SchemaError

FAULT = [FaultSeen(code="bmc", values={"place": "x"})]


def event(was: str, to: str, **more: object) -> AcceptEvent:
    given = {"number": 1, "time_s": 1.0, "node": "n1", "was": was, "to": to, "evidence": "d" * 64, **more}
    return msgspec.convert(given, AcceptEvent)


def along(until: str = "accepted") -> NodeStanding:
    """A node that has come so far by evidence."""
    now = NodeStanding(node="n1")
    for step, state in STEPS.items():
        if now.state == until:
            break
        now = accept_states.after(now, event(now.state, state, step=step))
    return now


def test_the_path_leads_to_accepted_by_evidence_of_every_step() -> None:
    now = along()
    assert now.state == "accepted"
    assert accept_states.on_evidence(now)
    assert set(now.evidence) == {*MEASURED, "accept"}


@pytest.mark.parametrize("missing", MEASURED)
def test_no_node_is_accepted_without_evidence_of_a_step(missing: str) -> None:
    now = along("soaked")
    now = msgspec.structs.replace(now, evidence={step: digest for step, digest in now.evidence.items() if step != missing})
    assert "no evidence of " + missing in accept_states.refusal(now, event("soaked", "accepted", step="accept"))
    with pytest.raises(SchemaError, match="cannot be"):
        accept_states.after(now, event("soaked", "accepted", step="accept"))


def test_a_step_without_evidence_or_out_of_turn_is_refused() -> None:
    assert "no evidence for reachable" in accept_states.refusal(NodeStanding(node="n1"), event("expected", "reachable", step="reach", evidence=""))
    assert "cannot go from expected to alone" in accept_states.refusal(NodeStanding(node="n1"), event("expected", "alone", step="alone"))
    assert "not alone by the step pairs" in accept_states.refusal(along("inspected"), event("inspected", "alone", step="pairs"))
    assert "n1 is expected, not alone" in accept_states.refusal(NodeStanding(node="n1"), event("alone", "paired", step="pairs"))
    assert "no cause for suspect" in accept_states.refusal(along("alone"), event("alone", "suspect", step="pairs"))


def test_an_override_needs_a_reason_and_stays_marked() -> None:
    now = along("inspected")
    bare = event("inspected", "accepted", override=True, by="me", evidence="")
    assert "needs a reason" in accept_states.refusal(now, bare)
    assert "needs a reason" in accept_states.refusal(now, msgspec.structs.replace(bare, reason="  "))
    now = accept_states.after(now, msgspec.structs.replace(bare, reason="a spare for the lab"))
    assert (now.state, now.overridden, now.overrides) == ("accepted", True, ["a spare for the lab"])
    assert not accept_states.on_evidence(now)
    assert "by an override alone" in accept_states.refusal(along("alone"), event("alone", "accepted", by="me", step="accept"))


def test_a_repair_makes_what_was_measured_before_it_count_no_more() -> None:
    now = along("alone")
    for each in (
        event("alone", "suspect", step="pairs", faults=FAULT), event("suspect", "retest", step="pairs", faults=FAULT),
        event("retest", "quarantined", step="pairs", faults=FAULT),
    ):
        now = accept_states.after(now, each)
    assert (now.step, now.quarantines, bool(now.evidence)) == ("pairs", 1, True)
    now = accept_states.after(now, event("quarantined", "retest", by="me", reason="new cable", evidence="", step="pairs"))
    assert (now.evidence, now.repairs) == ({}, ["new cable"])
    assert "has no evidence of reach" in accept_states.refusal(now, event("retest", "paired", step="pairs"))
    now = accept_states.after(now, event("retest", "expected", step="pairs"))
    assert now.state == "expected"


def test_random_events_never_accept_a_node_without_evidence() -> None:
    """Whatever is tried: what the machine lets through leads to accepted by the whole path, or by a reason."""
    draw = random.Random(1)
    accepted = 0
    for _ in range(300):
        now = NodeStanding(node="n1")
        for _ in range(40):
            index = PATH.index(now.state) if now.state in PATH else 0
            likely = PATH[min(index + 1, len(PATH) - 1)]
            to = likely if draw.random() < 0.7 else draw.choice(STATES)
            step = next((step for step, state in STEPS.items() if state == to), draw.choice(MEASURED))
            some = {"evidence": draw.choice(["", "d" * 64, "d" * 64]), "faults": draw.choice([[], FAULT]), "by": draw.choice(["hotlap", "hotlap", "me"])}
            some |= {"override": draw.random() < 0.05, "reason": draw.choice(["", "why"])}
            tried = event(now.state, to, step=step, **some)
            if accept_states.refusal(now, tried):
                continue
            now = accept_states.after(now, tried)
            if now.state == "accepted":
                accepted += 1
                assert now.overridden or all(now.evidence.get(step) for step in MEASURED)
                assert bool(now.overridden) == bool(not accept_states.on_evidence(now))
    assert accepted > 20


def opened() -> NodeStanding:
    """Alone, and its pairs showed neither."""
    return accept_states.after(along("alone"), event("alone", "alone", step="pairs", faults=FAULT))


@pytest.mark.parametrize("to", ["accepted", "spare", "rejected", "quarantined"])
def test_again_leaves_what_a_person_has_decided(to: str) -> None:
    assert cli_accept_run.again(opened())
    now = accept_states.after(opened(), cli_accept_run.person(opened(), to, "for the lab", override=True))
    assert (now.state, now.overridden, cli_accept_run.again(now)) == (to, True, None)


def test_again_leaves_what_is_quarantined_on_evidence() -> None:
    now = opened()
    for was, to in (("alone", "suspect"), ("suspect", "retest"), ("retest", "quarantined")):
        now = accept_states.after(now, event(was, to, step="pairs", faults=FAULT))
    assert (now.open, cli_accept_run.again(now)) == ({}, None)


def test_a_ledger_out_of_turn_is_refused() -> None:
    good = [event("expected", "reachable", step="reach"), msgspec.structs.replace(event("reachable", "inspected", step="inspect"), number=2)]
    assert accept_states.standings(["n1"], good)["n1"].state == "inspected"
    with pytest.raises(SchemaError, match="event 2"):
        accept_states.standings(["n1"], [good[0], msgspec.structs.replace(good[1], number=3)])
    with pytest.raises(SchemaError, match="of 'n1'"):
        accept_states.standings(["n2"], good)
