"""What passing disturbances, few transfers and few nodes name: nothing."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.bringup import explain, show
from hotlap.bringup.fabrics import Fabric, parse
from hotlap.bringup.isolating import Isolating
from hotlap.bringup.record import Floats, Ints, Isolation, SlowPart, Transfers, layout


def isolated(text: str, seed: int, **more: object) -> Isolation:
    fabric = parse(f"{text}&seed={seed}")
    return Isolating(fabric.where, fabric.transfer, np.random.default_rng(seed), **more).run()[0]  # type: ignore[arg-type]


@pytest.mark.slow("many rounds of eight nodes")
@pytest.mark.parametrize(("rounds", "seed"), [(12, 3), (24, 2), (24, 4), (40, 3), (63, 2)])
def test_a_healthy_fabric_with_disturbances_names_no_link_and_doubts_no_topology(rounds: int, seed: int) -> None:
    """Among so many links some are disturbed in both of two transfers."""
    answer = isolated("fabric?nodes=64&leaf=8", seed, screen=rounds)
    assert answer.culprits == []
    assert not {"sharing", "alike"} & {each.code for each in answer.open}


@pytest.mark.slow("tournaments of several fabrics")
def test_every_pair_of_many_nodes_names_a_link_after_it_was_slow_again() -> None:
    answer = isolated("fabric?nodes=32&leaf=8&fault=link:n03>n20:30%", 1, whole=True)
    assert [(each.part.kind, each.part.members) for each in answer.culprits] == [("link", ["n03", "n20"])]
    assert answer.culprits[0].tests >= 3
    assert answer.confirming > 0
    assert answer.screening == 31


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_round_has_more_pairs_over_an_uplink_than_it_carries(most: int) -> None:
    where = layout([f"n{number}" for number in range(1, 9)], [0] * 4 + [1] * 4, limit=most)
    fabric = Fabric(where, {SlowPart("link", 2, 5): 0.8}, disturbed=0)
    run = Isolating(where, fabric.transfer, np.random.default_rng(1))
    answer, _ = run.run()
    assert max(run.tests.out.max(), run.tests.into.max()) == most
    assert [(each.part.kind, each.part.members) for each in answer.culprits] == [("link", ["n3", "n6"])]
    every = set(zip(run.tests.sender.tolist(), run.tests.receiver.tolist(), strict=True))
    assert len(every) == 8 * 7


@pytest.mark.slow("many fits")
def test_what_is_named_stays_above_three_standard_deviations_when_all_is_fitted() -> None:
    """The spread that all transfers have in the end counts, not that of the fastest at the beginning."""
    where, random = layout([f"n{number}" for number in range(1, 9)], None), np.random.default_rng(3)
    for _ in range(20):

        def noisy(pairs: Ints) -> Floats:
            slow = np.where((pairs == [5, 0]).all(axis=1), 0.982, 1.0)
            return np.asarray(50e9 * slow * np.exp(-np.abs(random.standard_t(3, len(pairs))) * 0.008))[:, None]

        answer, model = Isolating(where, noisy, np.random.default_rng(random.integers(1 << 31))).run()
        assert all(each.loss > 1 - np.exp(-explain.SINGLE * model.noise.sigma) for each in answer.culprits)


def test_a_part_is_not_named_by_one_round() -> None:
    where, tests = layout([f"n{number}" for number in range(8)], [0] * 4 + [1] * 4), Transfers()
    random = np.random.default_rng(0)
    for number, pairs in enumerate([[(0, 1), (2, 3), (4, 5), (6, 7)]] * 6 + [[(0, 4), (1, 5), (2, 6), (3, 7)]]):
        rates = np.exp(random.normal(0, 0.005, (4, 1))) * (0.7 if number == 6 else 1.0)
        tests.add(np.array(pairs), rates, number, where)
    assert explain.explain(tests, where).fits == []


@pytest.mark.parametrize("text", ["fabric?nodes=2&fault=node:n2:20%", "fabric?nodes=3&fault=node:n3:20%", "fabric?nodes=2", "fabric?nodes=3"])
def test_of_two_or_three_nodes_no_loss_is_excluded(text: str) -> None:
    answer = isolated(text, 0)
    assert [each.loss for each in answer.open if each.code == "small"] == [1.0]
    shown = " ".join(show.lines(answer, 200, False))
    assert "any loss of a node" in shown
    assert "noise" not in shown
    if not answer.sure:
        assert f"{answer.nodes} nodes are too few to find which one is slow; give 4 or more" in shown


@pytest.mark.slow("tournaments of several fabrics")
def test_where_it_cannot_be_told_no_part_and_no_rate_is_shown() -> None:
    slow = "".join(f"&fault=node:n{number:02}:40%" for number in range(1, 11))
    answer = isolated(f"fabric?nodes=16&leaf=4{slow}", 0)
    shown = " ".join(show.lines(answer, 200, False))
    assert (answer.sure, answer.culprits) == (False, [])
    assert "Without a fault" not in shown
    assert "give --limit" in shown


@pytest.mark.parametrize("seed", range(4))
def test_a_disturbance_of_all_rails_of_a_transfer_is_one(seed: int) -> None:
    assert not {"sharing", "alike"} & {each.code for each in isolated("fabric?nodes=64&leaf=8&rails=8", seed).open}


@pytest.mark.slow("tournaments of several fabrics")
def test_slow_transfers_that_no_part_explains_are_inconclusive() -> None:
    true = layout([f"n{number:02}" for number in range(1, 17)], np.arange(16) // 4)
    wrong = layout(true.names, np.arange(16) % 4)
    fabric = Fabric(true, {SlowPart("uplink", 1): 0.5}, disturbed=0)
    answer = Isolating(wrong, fabric.transfer, np.random.default_rng(0)).run()[0]
    assert (answer.culprits, show.code(answer)) == ([], 3)
    assert show.code(isolated("fabric?nodes=64&leaf=8", 0)) == 0


@pytest.mark.parametrize("loss", [0.4, 0.75])
def test_of_two_leaves_either_uplink_is_named_where_it_is_shared_unfairly_too(loss: float) -> None:
    """All transfers between them are slow; each passes both."""
    where = layout([f"n{number}" for number in range(1, 9)], [0] * 4 + [1] * 4, limit=2)
    for seed in range(3):
        fabric = Fabric(where, {SlowPart("uplink", 1): loss}, noise=0.004, disturbed=0, seed=seed, unfair=0.15)
        answer = Isolating(where, fabric.transfer, np.random.default_rng(seed)).run()[0]
        assert [each.part.kind for each in answer.culprits] == ["uplink"]
        assert answer.culprits[0].loss == pytest.approx(loss, abs=0.02)
        shown = " ".join(show.lines(answer, 200, False))
        assert "or uplink of" in shown
        assert "every transfer that passes one of them passes the other" in shown


def test_a_link_that_is_fast_now_and_then_does_not_make_the_rest_slow() -> None:
    """As loopback is, where two threads share a cache by chance."""
    where, random, sure = layout(["n1", "n2"], None), np.random.default_rng(5), 0
    for _ in range(40):

        def transfer(pairs: Ints) -> Floats:
            fast = np.where(random.random(len(pairs)) < 0.1, 1.7, 1.0)
            return np.asarray(1.8e9 * fast * np.exp(random.normal(0, 0.04, len(pairs))))[:, None]

        answer, _ = Isolating(where, transfer, np.random.default_rng(random.integers(1 << 31)), screen=20).run()
        sure += answer.sure and not answer.culprits
    assert sure >= 36


def test_links_that_are_always_fast_make_the_rest_slow() -> None:
    where, random = layout([f"n{number}" for number in range(1, 9)], None), np.random.default_rng(5)

    def transfer(pairs: Ints) -> Floats:
        fast = np.where((pairs < 3).all(axis=1), 1.7, 1.0)  # 6 of 56
        return np.asarray(1.8e9 * fast * np.exp(random.normal(0, 0.01, len(pairs))))[:, None]

    answer, _ = Isolating(where, transfer, np.random.default_rng(7), screen=60).run()
    assert not answer.sure
    assert answer.faster == pytest.approx(6 / 56)
