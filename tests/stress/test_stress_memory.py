"""The memory test goes over all that is free but a share for others, slice by slice, and gives slices back where others come.

Patterns are written to real memory, by PyTorch on the processor; how much of it is free is a script's word.
"""

from __future__ import annotations

from typing import Any

import pytest

from cuda_stand_in import build
from hotlap.core.errors import NotSupported
from hotlap.core.measure import targets
from hotlap.stress.units import memory, strike

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

WORDS = 1 << 10
OWN = 4 * WORDS  # bytes of a slice
LEFT = 5 * OWN  # of 100: 5 %


class Card(memory.TorchMemory):
    """A card of 100 slices, of which others hold some."""

    others = 0

    def free_bytes(self) -> int | None:
        return OWN * (100 - self.others - len(self.slices))

    def slice(self) -> Any:
        if OWN * (100 - self.others - len(self.slices)) < OWN:
            raise NotSupported("no memory is left")
        return super().slice()

    def _keep(self, count: int) -> None:
        memory.MemoryUnit._keep(self, count)  # PyTorch has no store to empty on a processor


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    monkeypatch.setattr(memory, "WORDS", {"cpu": WORDS, "gpu": WORDS})
    monkeypatch.setattr(memory, "LEFT_BYTES", 0)
    spec = targets.parse("torch:cpu")
    target: Any = targets.open_device(spec, targets.find(spec)[0])
    monkeypatch.setattr(target, "device", target.device.__class__(**{**_fields(target.device), "memory_bytes": 100 * OWN}))
    return Card(target, 1)


def _fields(device: Any) -> dict[str, Any]:
    return {name: getattr(device, name) for name in device.__struct_fields__}


def patterns(card: Card, slices: int) -> None:
    """All patterns, on so many slices in turn."""
    for _ in range(slices * len(memory.PATTERNS)):
        card.run()
        assert card.check() == []


def test_all_that_is_free_but_5_percent_has_all_patterns(card: Card) -> None:
    patterns(card, 1)
    assert card.tested_bytes == OWN
    patterns(card, 99)
    assert len(card.slices) == 95
    assert card.tested_bytes == 95 * OWN
    assert card.at == 4  # round again: 100 slices were had of 95
    assert len({one.data_ptr() for one in card.slices}) == 95


def test_at_least_a_gibibyte_is_left_to_others(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LEFT_BYTES", 40 * OWN)
    patterns(card, 70)
    assert len(card.slices) == 60


def test_slices_are_given_back_where_others_come(card: Card) -> None:
    patterns(card, 50)
    assert len(card.slices) == 50
    card.others = 60  # 10 slices too many are held, and 5 are to be left
    patterns(card, 1)
    assert len(card.slices) == 35
    card.others = 99
    patterns(card, 2)
    assert len(card.slices) == 1


def test_a_pass_that_runs_out_of_memory_is_made_again_with_one_slice(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    patterns(card, 3)
    real, refusals = card.write, [NotSupported("others took the memory")]

    def write() -> None:
        if refusals:
            raise refusals.pop()
        real()

    monkeypatch.setattr(card, "write", write)
    card.run()
    assert (len(card.slices), card.check()) == (1, [])
    refusals += [NotSupported("nothing is left")]
    with pytest.raises(NotSupported, match="nothing is left"):
        card.run()


def test_a_wrong_bit_of_a_later_slice_is_found_at_its_own_address(card: Card) -> None:
    patterns(card, 3)
    card.run()  # the fourth slice is there
    assert card.at == 3
    strike.arm(card, "memory", octet=40, bit=2)
    card.run()
    (wrong, *more) = card.check()
    assert (wrong.place, wrong.bits, wrong.kind, more) == (f"address 0x{3 * OWN + 40:x}", [2], "transient", [])


def test_where_the_driver_does_not_tell_what_is_free_one_slice_is_tested(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "free_bytes", lambda: None)
    patterns(card, 3)
    assert len(card.slices) == 1
    assert card.tested_bytes == OWN


@pytest.mark.skipif(bool(build.missing()), reason=build.missing())
@pytest.mark.slow("compiles kernels for the stand-in of CUDA's driver")
def test_the_cuda_target_s_memory_is_tested_by_what_its_driver_says_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 MiB in slices of 64 KiB, of which 4 MiB are to be left, and as much again where another allocation comes."""
    monkeypatch.setattr(memory, "WORDS", {"cpu": WORDS, "gpu": 1 << 14})
    monkeypatch.setattr(memory, "LEFT_BYTES", 4 << 20)
    with build.on(memory=16 << 20):
        spec = targets.parse("cuda")
        target = targets.open_device(spec, targets.find(spec)[0])
        unit = memory.KernelMemory(target, 1)
        for _ in range(4):  # of a few slices; the rest only takes its turn
            unit.run()
            assert unit.check() == []
        while len(unit.slices) < 150:
            unit._next()
        other = target.buffer(3 << 20)  # out of what was left
        unit._next()
        free = unit.free_bytes()
        assert free is not None
        assert 4 << 20 <= free < (4 << 20) + (1 << 16)
        assert len(unit.slices) == pytest.approx((16 - 3 - 4) * 16, abs=2)
        unit.run()
        assert unit.check() == []
        assert unit.tested_bytes == 1 << 16
        del other
