"""What an isolation does at its limits: few nodes, odd numbers, bad partners, faults that hide each other, a topology that is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.bringup.fabrics import Fabric, parse
from hotlap.bringup.isolating import CONFIRM_LINKS, Isolating
from hotlap.bringup.record import Isolation, SlowPart, layout
from hotlap.core.errors import InputError


def isolated(text: str, seed: int = 1) -> Isolation:
    fabric = parse(text)
    return Isolating(fabric.where, fabric.transfer, np.random.default_rng(seed)).run()[0]


def names(answer: Isolation) -> set[str]:
    return {" ".join([each.part.kind, *each.part.members]) for each in answer.culprits}


def test_one_node_has_no_pair() -> None:
    with pytest.raises(InputError, match="a pair needs two nodes"):
        layout(["n1"], None)


@pytest.mark.parametrize("count", [2, 3])
def test_of_two_or_three_nodes_no_healthy_one_is_named_alone(count: int) -> None:
    for seed in range(10):
        assert names(isolated(f"fabric?nodes={count}&fault=node:n1:30%&seed={seed}", seed)) <= {"node n1", "send n1", "receive n1"}


@pytest.mark.parametrize("count", [5, 9, 15, 17, 33])
def test_an_odd_number_rests_a_node_in_each_round_and_names_the_bad_one(count: int) -> None:
    last = f"n{count:0{len(str(count))}}"
    assert names(isolated(f"fabric?nodes={count}&disturbed=0&fault=node:{last}:30%")) == {f"node {last}"}


@pytest.mark.slow("tournaments of several fabrics")
def test_a_bad_first_node_is_no_reference_for_others() -> None:
    """Ways that grow from a reference node name all others."""
    assert names(isolated("fabric?nodes=16&leaf=4&disturbed=0&fault=node:n01:50%")) == {"node n01"}
    assert names(isolated("fabric?nodes=64&leaf=16&fault=node:n01:50%&fault=node:n02:30%")) == {"node n01", "node n02"}


@pytest.mark.parametrize(
    ("faults", "wanted"),
    [
        (["send:n03:40%", "receive:n09:20%"], {"send n03", "receive n09"}),  # between them only the larger shows
        (["send:n03:30%", "receive:n03:30%"], {"node n03"}),
        (["node:n03:20%", "node:n09:20%"], {"node n03", "node n09"}),
        (["uplink:1:60%", "node:n07:30%"], {"uplink 1", "node n07"}),
        (["uplink:1:50%", "uplink:2:50%"], {"uplink 1", "uplink 2"}),
    ],
)  # fmt: skip
def test_two_faults_that_mask_each_other_are_both_named(faults: list[str], wanted: set[str]) -> None:
    text = "fabric?nodes=64&leaf=4&disturbed=0&" + "&".join(f"fault={fault}" for fault in faults)
    assert names(isolated(text)) == wanted


@pytest.mark.slow("tournaments of several fabrics")
def test_a_directed_pair_takes_a_tournament_and_six_rounds_to_confirm_at_most() -> None:
    for seed in range(4):
        answer = isolated(f"fabric?nodes=16&leaf=4&noise=0.5%&disturbed=0&fault=link:n03>n07:40%&seed={seed}", seed)
        assert names(answer) == {"link n03 n07"}
        assert answer.screening <= 15
        assert answer.confirming <= CONFIRM_LINKS


def test_without_time_for_another_round_it_says_so_and_names_by_what_there_is() -> None:
    fabric, left = parse("fabric?nodes=64&leaf=16&disturbed=0&fault=node:n07:30%"), iter([True, True, True])
    answer = Isolating(fabric.where, fabric.transfer, np.random.default_rng(1), more=lambda: next(left, False)).run()[0]
    assert (answer.screening, answer.confirming) == (3, 0)
    assert [each.count for each in answer.open if each.code == "cut"] == [3]


def test_without_a_topology_an_uplink_is_what_its_nodes_share_or_open() -> None:
    true = layout([f"n{number:02}" for number in range(64)], np.arange(64) // 8)
    blind = layout(true.names, None)
    for seed in range(5):
        fabric = Fabric(true, {SlowPart("uplink", 3): 0.8}, disturbed=0, seed=seed)
        answer = Isolating(blind, fabric.transfer, np.random.default_rng(seed)).run()[0]
        assert "topology" in {each.code for each in answer.open}
        groups = [each for each in answer.culprits if each.part.kind == "group"]
        assert groups
        assert set(groups[0].part.members) <= {f"n{number:02}" for number in range(24, 32)}


def test_with_half_a_leaf_missing_its_uplink_is_named_where_it_limits() -> None:
    where = layout([f"n{number:02}" for number in range(28)], [0] * 8 + [1] * 8 + [2] * 8 + [3] * 4)
    fabric = Fabric(where, {SlowPart("uplink", 3): 0.7}, disturbed=0)
    answer = Isolating(where, fabric.transfer, np.random.default_rng(1)).run()[0]
    assert names(answer) == {"uplink 3"}


def test_a_wrong_topology_is_said_where_an_uplink_is_slow_and_never_on_a_clean_fabric() -> None:
    """Leaves of 16 nodes in a random order. Where a part is named all the same, links or ways that lose alike are said."""
    heard = sets = 0
    for seed in range(4):
        random = np.random.default_rng(seed)
        true = layout([f"n{number:02}" for number in range(16)], np.arange(16) // 4)
        wrong = layout(true.names, random.permutation(true.leaf))
        fabric = Fabric(true, {SlowPart("uplink", 2): 0.5}, disturbed=0, seed=seed)
        doubts = [each for each in Isolating(wrong, fabric.transfer, random).run()[0].open if each.code in ("alike", "sharing")]
        heard += bool(doubts)
        sets += any(each.members == ["n08", "n09", "n10", "n11"] and abs(each.loss - 0.5) < 0.02 for each in doubts)
    assert heard == 4
    assert sets >= 3  # the nodes behind the uplink, and what it loses
    for seed in range(5, 8):
        assert not {"alike", "sharing"} & {each.code for each in isolated(f"fabric?nodes=64&leaf=8&seed={seed}", seed).open}


@pytest.mark.slow("tournaments of several fabrics")
@pytest.mark.parametrize(("seed", "says"), [(0, True), (2, True), (5, True), (21, False)])
def test_of_many_nodes_a_round_of_slow_transfers_that_nothing_explains_is_repeated(seed: int, says: bool) -> None:
    """An uplink of 64 nodes that the topology has in another order: no single pair is slow again by itself, the whole round is. In the last
    no transfer is slow under the load that this topology gives it."""
    random = np.random.default_rng([seed, 64])
    true = layout([f"n{number:02}" for number in range(64)], np.arange(64) // 8)
    wrong = layout(true.names, true.leaf[random.permutation(64)])
    loss = {0: 0.56, 2: 0.54, 5: 0.48, 21: 0.21}[seed]
    fabric = Fabric(true, {SlowPart("uplink", int(random.integers(8))): loss}, disturbed=0, unfair=0.15, seed=seed)
    answer = Isolating(wrong, fabric.transfer, random).run()[0]
    assert not answer.culprits
    assert any(each.code == "sharing" and not each.loss for each in answer.open) == says
    assert answer.confirming <= 4


@pytest.mark.nightly("many fabrics")
def test_a_repeated_round_doubts_no_fabric_whose_transfers_are_disturbed() -> None:
    for seed in range(6):
        answer = isolated(f"fabric?nodes=64&leaf=8&disturbed=0.05&seed={seed}", seed)
        assert "sharing" not in {each.code for each in answer.open}


@pytest.mark.slow("tournaments of several fabrics")
@pytest.mark.parametrize("faults", [["uplink:1:40%"], ["uplink:1:40%", "node:n10:30%"], ["node:n03:30%", "node:n10:30%"], ["link:n03>n10:40%"]])
def test_a_topology_that_fits_is_not_doubted_beside_faults_and_unfair_uplinks(faults: list[str]) -> None:
    text = "fabric?nodes=16&leaf=4&unfair=0.15&" + "&".join(f"fault={fault}" for fault in faults)
    for seed in range(2):
        assert not [each for each in isolated(f"{text}&seed={seed}", seed).open if each.code == "sharing" and each.loss]
