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
from hotlap.bringup.record import Isolation

WHY = beds.missing()
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY or "a bed can be made"), pytest.mark.slow("transfers of half a second")]


@pytest.fixture(scope="module")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, PairController]]:
    with (
        Bed(Spec(nodes=6, leaves=3, node_mbps=100.0, uplink_mbps=200.0)) as bed,
        isolate_bed.transfers(bed, tmp_path_factory.mktemp("home"), 0.5) as conductor,
    ):
        yield bed, conductor


def isolated(bed: Bed, conductor: PairController) -> Isolation:
    return Isolating(isolate_bed.where(bed), conductor.transfer, np.random.default_rng(1)).run()[0]


@pytest.mark.parametrize(
    ("fault", "name"),
    [(("slow-send", "n02", 60.0), "send n02"), (("slow-node", "n05", 60.0), "node n05"), (("slow-uplink", 2, 120.0), "uplink 1")],
)
def test_a_fault_is_named_with_its_loss(stands: tuple[Bed, PairController], fault: tuple[str, str | int, float], name: str) -> None:
    bed, conductor = stands
    with bed.hurt(*fault):
        answer = isolated(bed, conductor)
    assert [" ".join([each.part.kind, *each.part.members]) for each in answer.culprits] == [name]
    assert answer.culprits[0].loss == pytest.approx(0.4, abs=0.05)
