"""What follows from evidence: who is blamed, who is not, and what stays open."""

from __future__ import annotations

import socket
from typing import Any

import msgspec
import pytest

from hotlap.bringup import accept_judge, accept_live, accept_plan, member_alone
from hotlap.bringup.accept_judge import StepRaw
from hotlap.bringup.accept_plan import AcceptPlan
from hotlap.bringup.accept_record import NodeEvidence
from hotlap.bringup.record import Culprit, Isolation, NamedPart

NAMES = [f"n{number}" for number in range(1, 7)]


def plan(**more: Any) -> AcceptPlan:
    given = {"name": "x", "launch": {"local": 6}, "waves": ["rest"], "product": [{"name": "a", "nodes": "n[1-6]", **more}]}
    return accept_plan.parse(accept_plan.text(given).encode(), "x.toml")


def evidence(step: str, **parts: Any) -> list[NodeEvidence]:
    """Of six nodes; a part that is a list has a value for each."""
    each = [{name: value[place] if isinstance(value, list) else value for name, value in parts.items()} for place in range(6)]
    return [NodeEvidence(node=name, product="a", step=step, outcome="pass", **own) for name, own in zip(NAMES, each, strict=True)]  # type: ignore[arg-type]


def outcomes(judged: list[NodeEvidence]) -> dict[str, tuple[str, list[str]]]:
    return {each.node: (each.outcome, [fault.code for fault in each.faults]) for each in judged if each.outcome != "pass"}


def isolation(kind: str, *members: str, sure: bool = True) -> Isolation:
    part = NamedPart(kind=kind, members=list(members))  # type: ignore[arg-type]
    culprits = [Culprit(part=part, loss=0.4, low=0.38, high=0.42, tests=9)] if kind else []
    return Isolation(
        culprits=culprits, nodes=6, screening=5, confirming=0, transfers=30, fleet=1e9, noise=0.01, disturbed=0.0, faster=0.0, open=[], sure=sure
    )  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (isolation("send", "n2"), {"n2": ("fail", ["slow-link"])}),
        (isolation("uplink", "west"), dict.fromkeys(("n1", "n2", "n3"), ("open", ["slow-part"]))),
        (isolation("link", "n1", "n5"), dict.fromkeys(("n1", "n5"), ("open", ["slow-part"]))),
        (isolation("rail", "0"), dict.fromkeys(NAMES, ("open", ["slow-part"]))),
        (isolation("", sure=False), dict.fromkeys(NAMES, ("open", ["no-pairs"]))),
        (None, dict.fromkeys(NAMES, ("open", ["too-few"]))), (isolation(""), {}),
    ],
)  # fmt: skip
def test_a_node_is_blamed_for_its_own_parts_alone(answer: Isolation | None, wanted: dict[str, tuple[str, list[str]]]) -> None:
    own = plan()
    own = msgspec.structs.replace(own, topology=dict(zip(NAMES, ["west"] * 3 + ["east"] * 3, strict=True)))
    raw = StepRaw(evidence("pairs"), isolations={"a": answer} if answer else {})
    assert outcomes(accept_judge.judged(own, raw)) == wanted


def test_wrong_results_of_several_ranks_blame_nobody() -> None:
    one = StepRaw(evidence("together", wrong=[0, 2, 0, 0, 0, 0], checked=4))
    assert outcomes(accept_judge.judged(plan(), one)) == {"n2": ("fail", ["corruption"])}
    several = StepRaw(evidence("together", wrong=[1, 2, 1, 1, 1, 1], checked=4))
    assert outcomes(accept_judge.judged(plan(), several)) == dict.fromkeys(NAMES, ("open", ["wrong-together"]))


def test_what_most_of_a_product_do_is_no_throttling_of_one() -> None:
    rates = {"loop": {"": [1.0, 1.01, 0.99]}}
    alone = StepRaw(evidence("soak", rates=rates, throttled_s=[0.0, 3.0, 0.0, 0.0, 0.0, 0.0], seconds=10.0))
    assert outcomes(accept_judge.judged(plan(), alone)) == {"n2": ("fail", ["throttling"])}
    everyone = StepRaw(evidence("soak", rates=rates, throttled_s=[3.0, 2.0, 3.0, 3.0, 0.0, 3.0], seconds=10.0))
    assert outcomes(accept_judge.judged(plan(), everyone)) == {}


def test_two_nodes_with_one_serial_number_stay_open_unless_the_delivery_note_tells() -> None:
    facts = [{"serial": serial} for serial in ("A", "B", "B", "D", "E", "F")]
    raw = StepRaw(evidence("reach", facts=facts))
    assert outcomes(accept_judge.judged(plan(), raw)) == dict.fromkeys(("n2", "n3"), ("open", ["serial-twice"]))
    noted = plan(serials={"n2": "B", "n3": "C"})
    assert outcomes(accept_judge.judged(noted, StepRaw(evidence("reach", facts=facts)))) == {"n3": ("fail", ["serial"])}


def test_a_clock_is_off_beside_the_others_and_beside_the_controller() -> None:
    facts = [{"clock_off_s": off, "silent_s": 20.0} for off in (-0.1, -0.2, 3600.0, -0.1, 0.0, -0.4)]
    assert outcomes(accept_judge.judged(plan(), StepRaw(evidence("reach", facts=facts)))) == {"n3": ("fail", ["clock"])}
    ahead = [{"clock_off_s": 3600.0 - place / 10, "silent_s": 20.0} for place in range(6)]  # it is the controller's that is off
    assert outcomes(accept_judge.judged(plan(), StepRaw(evidence("reach", facts=ahead)))) == {}


def test_facts_that_are_not_known_keep_a_node_open() -> None:
    wanted = plan(gpus=8, expect={"gpu[*].vbios": "96"})
    facts: dict[str, Any] = {"gpus.count": 8, **{f"gpu[{index}].vbios": "96" for index in range(8)}}
    assert outcomes(accept_judge.judged(wanted, StepRaw(evidence("inspect", facts=facts)))) == {}
    unknown = StepRaw(evidence("inspect", facts={"gpus.count": 8}))
    assert outcomes(accept_judge.judged(wanted, unknown)) == dict.fromkeys(NAMES, ("open", ["unknown-fact"]))
    nothing = StepRaw(evidence("inspect"))
    assert outcomes(accept_judge.judged(wanted, nothing)) == dict.fromkeys(NAMES, ("open", ["unknown-fact", "unknown-fact"]))


def test_a_driver_that_lists_no_gpu_is_a_fault() -> None:
    wanted = plan(gpus=2)
    facts = [{"gpus.count": 2, "gpu[0].name": name, "gpu[1].name": name} for name in ("H200", None, "H200", "H200", "H200", "H200")]
    judged = accept_judge.judged(wanted, StepRaw(evidence("inspect", facts=facts)))
    assert outcomes(judged) == {"n2": ("fail", ["gpu-missing"])}
    assert judged[1].faults[0].values == {"gpus": ["gpu[0]", "gpu[1]"], "seen": 0, "expected": 2}


def test_a_rank_that_printed_nothing_has_no_result() -> None:
    silent = StepRaw(evidence("together", checked=[4, 0, 4, 4, 4, 4]))
    assert outcomes(accept_judge.judged(plan(), silent)) == {"n2": ("fail", ["no-result"])}


class Counted(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_a_plan_of_many_nodes_compares_each_name_a_few_times() -> None:
    names = [Counted(f"n{number}") for number in range(400)]
    product = accept_plan.AcceptProduct(name="a", nodes=names, serials={name: Counted(f"S{name}") for name in names})
    accept_plan._checked_products([product], "x.toml")
    many = msgspec.structs.replace(plan(), products=[product])
    assert {many.product(str(name)).name for name in names} == {"a"}
    assert Counted.compared < 5 * len(names)


def test_a_bmc_answers_where_something_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        places = [f"127.0.0.1:{each.getsockname()[1]}" for each in (there, gone)]
        gone.close()
        assert accept_live.answering(places) == {places[0]: True, places[1]: False}


def test_the_built_in_test_counts_wrong_results(monkeypatch: pytest.MonkeyPatch) -> None:
    rates, wrong, checked = member_alone.passed()
    assert (wrong, checked) == (0, member_alone.HASHED + 8)
    assert set(rates) == {"sha256", "copy"}
    assert all(rate > 0 for rate in rates.values())
    monkeypatch.setattr(member_alone, "KNOWN", "0" * 64)
    assert member_alone.passed()[1] == member_alone.HASHED
