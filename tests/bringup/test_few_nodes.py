"""Fabrics of few nodes, where every pair is a large part of what is seen: who is named, over seeds."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.bringup import fabrics
from hotlap.bringup.isolating import Isolating

SEEDS = range(12)


def named(text: str) -> list[tuple[str, tuple[str, ...]]]:
    fabric = fabrics.parse(text)
    answer = Isolating(fabric.where, fabric.transfer, np.random.default_rng(0)).run()[0]
    return [(each.part.kind, tuple(each.part.members)) for each in answer.culprits] if answer.sure else [("unsure", ())]


@pytest.mark.parametrize("nodes", [4, 5, 6])
def test_a_node_or_a_link_of_few_is_named_and_no_other(nodes: int) -> None:
    found = {
        fault: [named(f"fabric?nodes={nodes}&seed={seed}{fault}") for seed in SEEDS] for fault in ("&fault=node:n2:30%", "&fault=link:n1>n3:30%", "")
    }
    for fault, part in (("&fault=node:n2:30%", [("node", ("n2",))]), ("&fault=link:n1>n3:30%", [("link", ("n1", "n3"))]), ("", [])):
        assert sum(each == part for each in found[fault]) >= len(SEEDS) - 1, (fault, found[fault])
