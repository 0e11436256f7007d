"""A fault of a bed of real nodes is named by transfers between them, with what the shaper takes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.netbed import bed as beds
from tests.netbed.bed import Bed
from tests.netbed.spec import Spec

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import isolate_bed

from hotlap.bringup.isolating import Isolating
from hotlap.bringup.pairs import PairController
from hotlap.bringup.record import Floats, Ints, Isolation

WHY = beds.missing()
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY or "a bed can be made"), pytest.mark.nightly("transfers of half a second")]


@pytest.fixture(scope="module")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, PairController]]:
    with (
        Bed(Spec(nodes=6, leaves=3, node_mbps=100.0, uplink_mbps=200.0)) as bed,
        isolate_bed.transfers(bed, tmp_path_factory.mktemp("home"), 0.5) as conductor,
    ):
        yield bed, conductor


def isolated(bed: Bed, conductor: PairController, seed: int, tries: int) -> Isolation:
    """Other work on this machine only takes from a rate that is one node's: each transfer is the best of `tries`."""

    def best(pairs: Ints) -> Floats:
        return np.maximum.reduce([conductor.transfer(pairs) for _ in range(tries)])

    return Isolating(isolate_bed.where(bed), best, np.random.default_rng(seed)).run()[0]


def names(answer: Isolation) -> list[str]:
    return [" ".join([each.part.kind, *each.part.members]) for each in answer.culprits]


@pytest.mark.parametrize(("fault", "name"), [(("slow-send", "n02", 60.0), "send n02"), (("slow-node", "n05", 60.0), "node n05")])
def test_a_fault_is_named_with_its_loss(stands: tuple[Bed, PairController], fault: tuple[str, str, float], name: str) -> None:
    bed, conductor = stands
    with bed.hurt(*fault):
        answer = next((each for each in (isolated(bed, conductor, seed, tries=3) for seed in (1, 2)) if names(each) == [name]), None)
    assert answer is not None, "neither of two isolations named it"
    assert answer.culprits[0].loss == pytest.approx(0.4, abs=0.05)


def test_a_slow_uplink_is_named_with_its_loss(stands: tuple[Bed, PairController]) -> None:
    bed, conductor = stands
    with bed.hurt("slow-uplink", 2, 120.0):
        answer = isolated(bed, conductor, seed=1, tries=1)
    assert names(answer) == ["uplink 1"]
    assert answer.culprits[0].loss == pytest.approx(0.4, abs=0.05)
