"""A gate's arithmetic: the chance of a fault since, what is stale, what fits a budget, when a new rule may act."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest
from kept_campaigns import DAY_S, keep
from msgspec.structs import replace

from hotlap.bringup import cli_gate, gate_decide, gate_evidence, gate_rules, gate_tests
from hotlap.bringup.gate_evidence import History
from hotlap.bringup.gate_record import Gate, GateEvidence, GateRule, NodeGate, RuleAnswer
from hotlap.bringup.record import CauseKind, Culprit, Isolation, NamedPart, Open, PairRecord
from hotlap.core.errors import InputError

NOTHING = History([], [], [], None, {})
AUDIT = gate_rules.builtin()["audit"]


def seen(holds: str, day: float, node: str = "n1", rule: str = "audit") -> GateEvidence:
    return GateEvidence(rule=rule, node=node, at_s=day * DAY_S, holds=holds)  # type: ignore[arg-type]


def test_without_history_a_fault_is_expected_once_in_264_node_days() -> None:
    known = gate_decide.known(AUDIT, NOTHING)
    assert 1 / known.per_day == pytest.approx(263.9, abs=0.1)
    assert gate_decide.chance(known.per_day, 2.5 * DAY_S) < 0.01 < gate_decide.chance(known.per_day, 2.8 * DAY_S)


def test_history_counts_faults_of_one_machine_and_the_days_between_evidence() -> None:
    evidence = [seen("good", 0), seen("unknown", 3), seen("good", 10), seen("bad", 12), seen("bad", 13), seen("good", 20), seen("good", 21)]
    faults, days = gate_decide.exposure(evidence)
    assert faults == 1
    assert days == pytest.approx(13.0)  # not the days in which it was bad
    moved = [seen("good", 0), replace(seen("bad", 5), machine="serial other")]
    assert gate_decide.exposure(moved) == (0, 0.0)


def test_good_evidence_that_is_too_old_says_nothing_and_bad_stays_bad() -> None:
    rules = {"pair": gate_decide.known(gate_rules.builtin()["pair"], NOTHING)}
    for days, holds, verdict in ((1, "good", "pass"), (9, "good", "inconclusive"), (1, "bad", "fail"), (9, "bad", "fail")):
        newest = {("pair", "n1"): seen(holds, 0, rule="pair")}
        answers = gate_decide.from_evidence(["n1"], rules, newest, days * DAY_S)
        assert gate_decide.verdict("n1", list(answers.values()), 0.01).verdict == verdict
        assert bool(gate_decide.stale(answers.values(), 0.01)) == (days == 9)


def test_what_was_tested_now_is_never_stale_and_an_unknown_machine_is_no_other() -> None:
    known = {"pair": gate_decide.known(gate_rules.builtin()["pair"], NOTHING)}
    now = gate_decide.answered(seen("good", 0, rule="pair"), known["pair"], 0.0, True)
    assert gate_decide.verdict("n1", [now], 0.0).verdict == "pass"
    before = {("pair", "n1"): replace(now, tested=False)}
    assert cli_gate._newer(before, {}, {"n1": "serial A"}, known) == before
    other = {place: replace(each, seen=replace(each.seen, machine="serial B")) for place, each in before.items()}
    assert cli_gate._newer(other, {}, {"n1": "serial A"}, known)["pair", "n1"].seen.code == "other machine"


def test_two_nodes_pass_where_both_send_and_take_as_the_fleet_did() -> None:
    few = replace(seen("unknown", 0, rule="pair"), code="few")
    transfers = [PairRecord(sender=a, receiver=b, rail=0, round=1, rate=1e9) for a, b in (("n1", "n2"), ("n2", "n1"))]
    holds = {fleet: gate_tests._beside_fleet(few, transfers, fleet, 0.01).holds for fleet in (0.9e9, 1.02e9, 1.1e9)}
    assert holds == {0.9e9: "good", 1.02e9: "good", 1.1e9: "unknown"}
    assert gate_tests._beside_fleet(few, transfers[:1], 1e9, 0.01) == few
    noisy = replace(few, code="noisy")
    assert gate_tests._beside_fleet(noisy, transfers, 0.9e9, 0.01) == noisy


def test_no_evidence_is_never_a_pass() -> None:
    rules = {"pair": gate_decide.known(gate_rules.builtin()["pair"], NOTHING)}
    answers = gate_decide.from_evidence(["n1"], rules, {}, 0.0)
    assert gate_decide.verdict("n1", list(answers.values()), 0.01).verdict == "inconclusive"
    assert gate_decide.verdict("n1", [], 0.01).verdict == "inconclusive"


def test_a_budget_takes_the_stalest_rules_and_names_the_others() -> None:
    rules = {name: GateRule(name=name, takes_s=10) for name in ("a", "b", "c")}
    assert gate_decide.plan({"a": 0.02, "b": 1.0, "c": 0.5}, rules, 25) == (["b", "c"], ["a"])
    assert gate_decide.plan({"a": 0.02}, rules, 1) == ([], ["a"])


def verdicts(count: int, alarms: int, healthy: bool = True) -> History:
    """So many nodes, each gated and then looked at by a campaign."""
    gates, health = list[Gate](), list[tuple[float, str, bool]]()
    for number in range(count):
        answer = RuleAnswer(seen=seen("bad" if number < alarms else "good", 1, f"n{number}"), acts=False, tested=True)
        node = NodeGate(node=f"n{number}", verdict="pass", answers=[answer])
        gates.append(Gate(nodes=[node], rules=[], risk=0.01, budget_s=30, at_s=DAY_S))
        health += [(0.5 * DAY_S, f"n{number}", not healthy), (2 * DAY_S, f"n{number}", healthy)]
    return History([], health, gates, None, {})


@pytest.mark.parametrize(("count", "alarms", "acts"), [(0, 0, False), (298, 0, False), (299, 0, True), (299, 1, False), (473, 1, True)])
def test_a_new_rule_acts_once_its_false_alarms_are_known_to_be_rare(count: int, alarms: int, acts: bool) -> None:
    """One-sided 95 %: 0 of 299 is at most 1 % (0.95 = 1 - 0.99^n), 1 of 473 too."""
    known = gate_decide.known(AUDIT, verdicts(count, alarms))
    assert (known.healthy, known.alarms, known.acts) == (count, alarms, acts)
    if count and not alarms:
        assert known.high == pytest.approx(1 - 0.05 ** (1 / count), rel=1e-6)


def test_an_alarm_on_a_node_that_was_sick_is_none_and_several_before_one_campaign_count_once() -> None:
    assert gate_decide.settled("audit", verdicts(10, 10, healthy=False)) == (0, 0)
    twice = verdicts(5, 5)
    assert gate_decide.settled("audit", twice._replace(gates=[*twice.gates, *twice.gates])) == (5, 5)
    assert gate_decide.settled("audit", twice._replace(health=[])) == (0, 0)


def test_a_rule_in_shadow_does_not_decide() -> None:
    bad = RuleAnswer(seen=seen("bad", 0), acts=False, tested=True)
    good = RuleAnswer(seen=seen("good", 0, rule="pair"), acts=True, tested=True)
    assert gate_decide.verdict("n1", [bad, good], 0.01).verdict == "pass"
    assert gate_decide.verdict("n1", [replace(bad, acts=True), good], 0.01).verdict == "fail"


def test_kept_campaigns_are_evidence(tmp_path: Path) -> None:
    keep(tmp_path, 3, ["n1", "n2", "n3", "n4"], slow={"n2": 0.2})
    keep(tmp_path, 2, ["n1", "n2"], codes={"n1": 0, "n2": 1})
    keep(tmp_path, 1, ["n1"], gpus=7)
    history = gate_evidence.read(tmp_path, gate_rules.builtin(), 0.1)
    newest = gate_evidence.last(history.evidence, ["n1", "n2", "n3"])
    holds = {place: each.holds for place, each in newest.items()}
    assert holds == {
        ("gpus", "n1"): "bad", ("gpus", "n2"): "good", ("gpus", "n3"): "good", ("pair", "n1"): "good", ("pair", "n2"): "bad",
        ("pair", "n3"): "good", ("audit", "n1"): "good", ("audit", "n2"): "bad",
    }  # fmt: skip
    assert (newest["gpus", "n1"].count, newest["gpus", "n1"].of) == (7, 8)
    assert history.fleet == (1e9, 0.01)
    assert time.time() - newest["audit", "n1"].at_s == pytest.approx(2 * DAY_S, abs=60)


def test_a_node_beside_a_slow_link_is_neither_good_nor_bad() -> None:
    link = Culprit(part=NamedPart(kind="link", members=["n1", "n2"]), loss=0.3, low=0.3, high=0.3, tests=4)
    isolation = Isolation(
        culprits=[link], nodes=8, screening=15, confirming=6, transfers=99, fleet=1e9, noise=0.01, disturbed=0.0, faster=0.0, open=[], sure=True,
    )  # fmt: skip
    machines = {f"n{number}": "" for number in range(1, 9)}
    holds = {each.node: each.holds for each in gate_evidence.of_isolation(isolation, machines, 0.0, "", 0.1, {})}
    assert {node for node, each in holds.items() if each == "unknown"} == {"n1", "n2"}
    noisy = gate_evidence.of_isolation(replace(isolation, sure=False), machines, 0.0, "", 0.1, {})
    assert {each.code for each in noisy} == {"noisy"}
    few = gate_evidence.of_isolation(replace(isolation, culprits=[], nodes=3), machines, 0.0, "", 0.1, {})
    assert {each.code for each in few} == {"few"}


@pytest.mark.parametrize(
    ("loss", "odds", "holds"), [(0.3, 20.0, "bad"), (0.3, 1.0, "unknown"), (0.02, 20.0, "good"), (0.09, 20.0, "unknown")]
)  # fmt: skip
def test_a_node_is_bad_by_a_loss_that_matters_and_that_nothing_else_explains(loss: float, odds: float, holds: str) -> None:
    node, other = NamedPart(kind="node", members=["n1"]), NamedPart(kind="link", members=["n1", "n2"])
    culprit = Culprit(part=node, loss=loss, low=loss - 0.02, high=loss + 0.02, tests=6, runner_up=other, odds=odds)
    isolation = Isolation(
        culprits=[culprit], nodes=8, screening=3, confirming=3, transfers=99, fleet=1e9, noise=0.01, disturbed=0.0, faster=0.0, open=[], sure=True,
    )  # fmt: skip
    (seen,) = gate_evidence.of_isolation(isolation, {"n1": ""}, 0.0, "", 0.1, {})
    assert seen.holds == holds


def test_a_node_is_good_only_where_a_loss_that_matters_would_have_shown() -> None:
    isolation = Isolation(
        culprits=[], nodes=8, screening=3, confirming=0, transfers=24, fleet=1e9, noise=0.1, disturbed=0.0, faster=0.0,
        open=[Open(code="small", loss=0.3, count=6)],
    )  # fmt: skip
    assert [each.code for each in gate_evidence.of_isolation(isolation, {"n1": ""}, 0.0, "", 0.1, {})] == ["few"]
    assert [each.holds for each in gate_evidence.of_isolation(isolation, {"n1": ""}, 0.0, "", 0.4, {})] == ["good"]


@pytest.mark.parametrize(
    ("kind", "members", "concerned"),
    [("uplink", ["leaf1"], {"n1", "n2"}), ("leaf pair", ["leaf1", "leaf2"], {"n1", "n2", "n3"}), ("rail", ["0"], {"n1", "n2", "n3", "n4"})],
)  # fmt: skip
def test_nodes_on_a_slow_part_are_neither_good_nor_bad(kind: CauseKind, members: list[str], concerned: set[str]) -> None:
    culprit = Culprit(part=NamedPart(kind=kind, members=members), loss=0.3, low=0.3, high=0.3, tests=4)
    isolation = Isolation(
        culprits=[culprit], nodes=8, screening=3, confirming=3, transfers=99, fleet=1e9, noise=0.01, disturbed=0.0, faster=0.0, open=[], sure=True,
    )  # fmt: skip
    leaves = {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf3"}
    answers = gate_evidence.of_isolation(isolation, dict.fromkeys(leaves, ""), 0.0, "", 0.1, leaves)
    assert {each.node for each in answers if each.code == "shares"} == concerned
    assert {each.node for each in answers if each.holds == "good"} == set(leaves) - concerned


@pytest.mark.parametrize(
    ("code", "holds"), [(0, "good"), (1, "bad"), (7, "bad"), (3, "unknown"), (None, "unknown"), (-9, "unknown")],
)  # fmt: skip
def test_an_exit_code_is_a_verdict_only_where_a_program_came_to_its_end(code: int | None, holds: str) -> None:
    assert gate_evidence.of_command("audit", "n1", code, 0.0, "", "").holds == holds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot be read"), ("[rules.audit]\ncommand='true'", "already"), ("[rules.own]\nabout='x'", "has no command"),
        ("[rules.own]\ncommand='true'\nacts='always'", "no key 'acts'"), ("[rules.own]\ncommand='true'\ntakes='soon'", "rule 'own'"),
        ("[rules.own]\ncommand='true'\nfalse_alarms=2", "between 0 and 1"), ("rules=3", "no tables"),
    ],
)  # fmt: skip
def test_rules_that_are_wrong_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(text)
    with pytest.raises(InputError, match=reason):
        gate_rules.load(str(tmp_path / "rules.toml"))


def test_a_rule_of_a_user_is_a_command_in_shadow(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text('[rules.dcgm]\ncommand = "dcgmi diag -r 1"\ntakes = "10 s"\n')
    rule = gate_rules.load(str(tmp_path / "rules.toml"))["dcgm"]
    assert (rule.command, rule.takes_s, rule.acts) == (["dcgmi", "diag", "-r", "1"], 10.0, "known")
    assert not gate_decide.known(rule, NOTHING).acts
    assert math.isclose(gate_decide.known(rule, NOTHING).node_days, 0.0)


def test_of_answers_that_say_nothing_the_newest_stands() -> None:
    evidence = [replace(seen("unknown", 1), code="noisy"), replace(seen("unknown", 2), code="few")]
    assert gate_evidence.last(evidence, ["n1"])["audit", "n1"].code == "few"
    assert gate_evidence.last([seen("good", 0), *evidence], ["n1"])["audit", "n1"].holds == "good"
