"""Planted faults are named, with what they lose; what is healthy is not; what cannot be known is listed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from draws import draws
from hotlap.bringup import explain, factors, naming, schedule
from hotlap.bringup.fabrics import Fabric, parse
from hotlap.bringup.isolating import Isolating
from hotlap.bringup.record import Culprit, FabricLayout, Floats, Ints, Isolation, SlowPart, Transfers, layout, loads
from hotlap.core.errors import InputError


def isolated(text: str, seed: int = 1, **more: object) -> Isolation:
    fabric = parse(text)
    alone = fabric.by_itself() if more.pop("alone", False) else None
    return Isolating(fabric.where, fabric.transfer, np.random.default_rng(seed), alone=alone, **more).run()[0]  # type: ignore[arg-type]


def names(answer: Isolation) -> dict[str, Culprit]:
    return {" ".join([each.part.kind, *each.part.members]): each for each in answer.culprits}


@pytest.mark.parametrize("count", [2, 3, 4, 7, 16])
def test_a_tournament_has_each_pair_once_in_as_few_rounds_as_can_be(count: int) -> None:
    rounds = schedule.circle(range(count))
    pairs = [tuple(sorted(pair)) for pairs in rounds for pair in pairs.tolist()]
    assert sorted(pairs) == list(itertools.combinations(range(count), 2))
    assert len(rounds) == count - 1 + count % 2
    assert all(len(set(pairs.ravel().tolist())) == pairs.size for pairs in rounds)


@pytest.mark.parametrize(("nodes", "size", "count"), [(16, 4, 15), (16, 2, 15), (12, 4, 12), (6, 2, 6), (6, 3, 5), (8, 1, 7)])
def test_a_tournament_between_leaves_has_each_pair_once(nodes: int, size: int, count: int) -> None:
    where = layout([f"n{number}" for number in range(nodes)], np.arange(nodes) // size)
    rounds = schedule.tournament(where, np.random.default_rng(1))
    assert sorted(tuple(sorted(pair)) for pairs in rounds for pair in pairs.tolist()) == list(itertools.combinations(range(nodes), 2))
    assert len(rounds) == count
    assert all(len(set(pairs.ravel().tolist())) == pairs.size for pairs in rounds)
    if size % 2 == 0:
        for pairs in rounds:  # an uplink has all of its leaf's nodes, or none
            out, into = loads(pairs, where)
            assert {*out.tolist(), *into.tolist()} <= {0, size}


def test_no_more_pairs_cross_an_uplink_than_it_carries() -> None:
    names_ = [f"n{number}" for number in range(96)]
    for limit, most in ((0, 8), (2, 2)):
        where = layout(names_, np.arange(96) // 8, limit=limit)
        for pairs in schedule.matchings(where, 6, np.random.default_rng(2)):
            out, into = loads(pairs, where)
            assert max(out.max(), into.max()) == most
            assert len(set(pairs.ravel().tolist())) == pairs.size == 96


@pytest.mark.slow("six isolations")
@pytest.mark.parametrize(
    ("fault", "name", "loss"),
    [
        ("node:n07:20%", "node n07", 0.20), ("send:n03:30%", "send n03", 0.30), ("receive:n12:15%", "receive n12", 0.15),
        ("uplink:1:50%", "uplink 1", 0.50), ("uplink-out:2:50%", "uplink-out 2", 0.50), ("link:n03>n07:60%", "link n03 n07", 0.60),
    ],
)  # fmt: skip
def test_a_fault_of_sixteen_nodes_is_named_with_its_loss(fault: str, name: str, loss: float) -> None:
    answer = isolated(f"fabric?nodes=16&leaf=4&noise=3%&fault={fault}")
    assert list(names(answer)) == [name]
    assert names(answer)[name].loss == pytest.approx(loss, abs=0.05)
    assert answer.screening + answer.confirming <= (21 if fault.startswith("link") else 8)


def test_parts_of_nodes_are_told_apart() -> None:
    answer = isolated("fabric?nodes=64&leaf=16&rails=8&fault=nic:n03/2:30%&fault=gpu:n09/4:30%&fault=rail:6:10%", alone=True)
    assert set(names(answer)) == {"nic n03 2", "gpu n09 4", "rail 6"}


def test_without_tests_of_gpus_alone_a_gpu_is_not_excluded() -> None:
    answer = isolated("fabric?nodes=64&leaf=16&rails=8&fault=gpu:n09/4:30%")
    assert set(names(answer)) == {"nic n09 4"}
    assert "gpu" in {each.code for each in answer.open}


def test_a_node_below_a_slow_uplink_is_named_by_rounds_within_its_leaf() -> None:
    answer = isolated("fabric?nodes=128&leaf=16&fault=uplink:3:50%&fault=node:n050:15%")
    assert set(names(answer)) == {"uplink 3", "node n050"}
    assert "masked" not in {each.code for each in answer.open}


@pytest.mark.parametrize("loss", [pytest.param(0.1, marks=pytest.mark.nightly("a smaller loss")), 0.3, pytest.param(0.6, marks=pytest.mark.nightly("a larger one"))])
def test_an_uplink_that_is_shared_unfairly_is_named_with_what_it_loses(loss: float) -> None:
    for seed in range(5):
        answer = isolated(f"fabric?nodes=16&leaf=4&noise=1%&disturbed=0&unfair=15%&fault=uplink:1:{loss}&seed={seed}", seed)
        assert list(names(answer)) == ["uplink 1"]
        assert names(answer)["uplink 1"].odds > naming.TELLS
        assert names(answer)["uplink 1"].loss == pytest.approx(loss, abs=0.05)


@pytest.mark.slow("fits of hundreds of nodes")
def test_hundreds_of_nodes_are_told_from_disturbed_transfers() -> None:
    faults = {SlowPart("node", 5): 0.07, SlowPart("send", 100): 0.3, SlowPart("receive", 200): 0.5}
    where = layout([f"n{number}" for number in range(256)], np.arange(256) // 32)
    for seed in range(5):
        fabric = Fabric(where, faults, seed=seed)
        answer = Isolating(where, fabric.transfer, np.random.default_rng(seed)).run()[0]
        assert set(names(answer)) == {"node n5", "send n100", "receive n200"}


@pytest.mark.parametrize(
    "text",
    [
        "fabric?nodes=16&leaf=4&noise=3%", "fabric?nodes=15&leaf=4", "fabric?nodes=256&leaf=32", "fabric?nodes=64",
        "fabric?nodes=33&leaf=8&rails=4",
    ],
)  # fmt: skip
def test_a_clean_fabric_has_no_culprit(text: str) -> None:
    for seed in range(draws(30)):
        assert not isolated(f"{text}&seed={seed}", seed).culprits


def test_when_most_nodes_are_slow_it_says_that_there_is_no_fleet() -> None:
    slow = "".join(f"&fault=node:n{number:02}:40%" for number in range(1, 11))
    assert not isolated(f"fabric?nodes=16{slow}").sure


def test_when_all_are_slow_alike_only_an_expected_rate_says_so() -> None:
    slow = "".join(f"&fault=node:n{number:02}:40%" for number in range(1, 17))
    answer = isolated(f"fabric?nodes=16{slow}")
    assert not answer.culprits
    assert "common" in {each.code for each in answer.open}
    assert isolated(f"fabric?nodes=16{slow}", expected=50e9).below == pytest.approx(0.4, abs=0.02)


def test_links_that_lose_alike_are_said_to_be_perhaps_of_a_wrong_topology() -> None:
    true, wrong = (layout([f"n{number:02}" for number in range(16)], leaf) for leaf in (np.arange(16) // 4, np.arange(16) % 4))
    fabric = Fabric(true, {SlowPart("uplink", 2): 0.5}, disturbed=0)
    answer = Isolating(wrong, fabric.transfer, np.random.default_rng(0)).run()[0]
    assert {"alike", "sharing"} & {each.code for each in answer.open}


def test_a_fault_that_vanishes_is_listed_and_not_named() -> None:
    fabric = parse("fabric?nodes=64&leaf=16&fault=node:n07:30%&disturbed=0")
    healed, calls = parse("fabric?nodes=64&leaf=16&disturbed=0"), 0

    def transfer(pairs: Ints) -> Floats:
        nonlocal calls
        calls += 1
        return (fabric if calls <= 2 * schedule.screening(64) else healed).transfer(pairs)

    answer = Isolating(fabric.where, transfer, np.random.default_rng(1)).run()[0]
    assert not answer.culprits
    assert [each.members for each in answer.open if each.code == "vanished"] == [["n07"]]


def test_two_nodes_never_name_either() -> None:
    answer = isolated("fabric?nodes=2&fault=node:n1:20%")
    assert not answer.culprits
    assert {"topology", "common"} <= {each.code for each in answer.open}


def test_half_a_leaf_that_is_missing_is_an_uplink_under_a_light_load() -> None:
    where = layout([f"n{number}" for number in range(28)], [0] * 8 + [1] * 8 + [2] * 8 + [3] * 4)
    fabric = Fabric(where)
    answer = Isolating(where, fabric.transfer, np.random.default_rng(1)).run()[0]
    assert [each.members for each in answer.open if each.code == "light"] == [["3"]]


def test_nodes_that_are_slow_only_to_others_share_something_slow() -> None:
    """The fabric has leaves; whoever isolates does not know."""
    true = layout([f"n{number}" for number in range(32)], np.arange(32) // 4)
    blind = FabricLayout(true.names, np.full(32, -1))
    fabric = Fabric(true, {SlowPart("uplink", 2): 0.9})
    answer = Isolating(blind, fabric.transfer, np.random.default_rng(1)).run()[0]
    assert [each.part.kind for each in answer.culprits] == ["group"]
    assert set(answer.culprits[0].part.members) <= {"n8", "n9", "n10", "n11"}


def test_the_reverse_direction_is_what_tells_a_sender_from_its_node() -> None:
    """Four tests, all from the same node: its direction and the whole node explain them alike."""
    where = layout(["a", "b", "c", "d", "e"], None)
    tests = Transfers()
    others = np.array([[1, 2], [2, 3], [3, 4], [4, 1]])
    for number in range(8):
        tests.add(np.array([[0, 1 + number % 4]]), np.array([[0.7]]), number, where)
        tests.add(others, np.ones((4, 1)) * np.array([[1.0], [1.01], [0.99], [1.005]]), number, where)
    model = explain.explain(tests, where)
    assert [fit.factor.kind for fit in model.fits] in (["send"], ["node"])
    other, odds = naming.runner_up(model.fits[0], model, tests, where)
    assert other is not None
    assert abs(odds) < naming.TELLS
    assert naming.telling(model.fits[0], other, tests, where)[1] == "a"


def test_the_likelihood_is_of_a_normal_with_a_share_that_may_be_anything() -> None:
    noise = factors.TransferNoise(0.01, 0.05)
    assert noise.likelihood(np.array([0.0]))[0] == pytest.approx(math.log(0.95 / math.sqrt(2 * math.pi) + 0.05 * 0.01 / factors.DEEPEST))
    assert noise.likelihood(np.array([-0.5]))[0] == pytest.approx(math.log(0.05 * 0.01 / factors.DEEPEST), rel=1e-3)
    assert noise.likelihood(np.array([0.5]))[0] < noise.likelihood(np.array([-0.5]))[0] - 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fabric?nodes=1", "a pair needs two nodes"), ("ring?nodes=4", "it begins with fabric?"), ("fabric?knots=4", "there is no 'knots'"),
        ("fabric?nodes=0", "nodes is a whole number"), ("fabric?nodes=4&fault=node:n9:20%", "there is no node 'n9'"),
        ("fabric?nodes=4&fault=node:n1:120%", "a share from 0 to 1"), ("fabric?nodes=4&fault=node", "a fault is node:NODE:LOSS"),
        ("fabric?nodes=4&fault=uplink:1:20%", "no leaf is known"), ("fabric?nodes=4&noise=much", "a share as in"),
    ],
)  # fmt: skip
def test_a_fabric_that_cannot_be_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words.replace("?", r"\?")):
        parse(text)


def test_a_layout_has_each_node_once_and_a_leaf_for_each() -> None:
    with pytest.raises(InputError, match="stands twice"):
        layout(["a", "a"], None)
    with pytest.raises(InputError, match="has 3 nodes"):
        layout(["a", "b"], [0, 0, 1])
