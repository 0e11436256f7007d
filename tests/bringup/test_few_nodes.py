"""Fabrics of few nodes, where every pair is a large part of what is seen: who is named, over seeds."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.bringup import fabrics
from hotlap.bringup.isolating import Isolating
from hotlap.bringup.record import Floats, Ints

SEEDS = range(8)


def named(text: str) -> list[tuple[str, tuple[str, ...]]]:
    fabric = fabrics.parse(text)
    answer = Isolating(fabric.where, fabric.transfer, np.random.default_rng(0)).run()[0]
    return [(each.part.kind, tuple(each.part.members)) for each in answer.culprits] if answer.sure else [("unsure", ())]


@pytest.mark.slow("24 isolations")
@pytest.mark.parametrize("nodes", [4, 5, 6])
def test_a_node_or_a_link_of_few_is_named_and_no_other(nodes: int) -> None:
    found = {
        fault: [named(f"fabric?nodes={nodes}&seed={seed}{fault}") for seed in SEEDS] for fault in ("&fault=node:n2:30%", "&fault=link:n1>n3:30%", "")
    }
    for fault, part in (("&fault=node:n2:30%", [("node", ("n2",))]), ("&fault=link:n1>n3:30%", [("link", ("n1", "n3"))]), ("", [])):
        assert sum(each == part for each in found[fault]) >= len(SEEDS) - 1, (fault, found[fault])


@pytest.mark.nightly("six isolations of every pair")
def test_transfers_that_are_fast_for_a_while_do_not_hide_a_slow_node() -> None:
    """Loopback: of the first rounds some transfers are 1.7 times as fast. What is named then is sure once the rest is measured."""
    right = 0
    for seed in SEEDS[:6]:
        fabric, random, rounds = fabrics.parse(f"fabric?nodes=16&leaf=4&fault=receive:n03:14%&seed={seed}"), np.random.default_rng(seed), [0]

        def transfer(pairs: Ints, fabric: fabrics.Fabric = fabric, random: np.random.Generator = random, rounds: list[int] = rounds) -> Floats:
            rounds[0] += 1
            fast = random.random((len(pairs), 1)) < (0.08 if rounds[0] <= 10 else 0.0)
            return fabric.transfer(pairs) * np.where(fast, 1.7, 1.0)

        answer = Isolating(fabric.where, transfer, np.random.default_rng(0)).run()[0]
        right += answer.sure and [(each.part.kind, each.part.members) for each in answer.culprits] == [("receive", ["n03"])]
    assert right >= 5
