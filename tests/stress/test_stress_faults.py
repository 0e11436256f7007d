"""Units of load with a flipped bit where they keep their data: found, located, named, and transient told from permanent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cuda_stand_in import build
from hotlap.core.errors import InputError, Unavailable
from hotlap.core.measure import targets
from hotlap.core.measure.targets.base import Target
from hotlap.stress import units as stress
from hotlap.stress.units import memory, products, strike, traffic
from hotlap.stress.units.base import Wrong

TARGETS = ("opencl:cpu", "torch:cpu", "torch:cuda", "cuda")  # the last two on stand-ins, or on a GPU
SMALL = (64, 48, 128)


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    if request.param != "cuda":
        pytest.importorskip("pyopencl" if request.param == "opencl:cpu" else "torch", reason="the extra is not installed")
    with contextlib.ExitStack() as stand_in:
        if request.param == "cuda":
            stand_in.enter_context(build.if_possible())
        if request.param == "torch:cuda":
            import torch_stand_in

            stand_in.enter_context(torch_stand_in.standing_in())
        spec = targets.parse(request.param)
        try:
            found = targets.find(spec)
        except Unavailable as error:
            pytest.skip(f"{request.param}: {error}")
        if not found:
            pytest.skip(f"no {request.param}")
        yield targets.open_device(spec, found[0])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (products.SIDES, products.SIDES_GPU, products.SLOW):
        for name in table:
            monkeypatch.setitem(table, name, SMALL)
    for table in (memory.WORDS, traffic.BYTES):
        monkeypatch.setitem(table, "gpu", table["cpu"])


def unit(target: Target, kind: str, dtype: str = "fp32") -> Any:
    made, missing = stress.units(target, kind, [dtype] if kind == "products" else [], 7)
    assert not missing
    return made[0]


def struck(one: Any, where: str, octet: int, bit: int, permanent: bool) -> list[Wrong]:
    one.run()
    assert one.check() == []
    strike.arm(one, where, octet, bit, permanent)
    one.run()
    return one.check()  # type: ignore[no-any-return]


@pytest.mark.slow("compiles and checks on OpenCL")
@pytest.mark.parametrize("permanent", [False, True], ids=["transient", "permanent"])
@pytest.mark.parametrize(
    ("kind", "where", "octet", "bit", "place", "position", "by"),
    [
        ("memory", "memory", 4 * 12345 + 2, 3, "address 0xc0e4", 19, "pattern"),
        ("memory", "memory", 0, 0, "address 0x0", 0, "pattern"),
        ("link", "there", 70001, 6, "byte 0x11171 of the copy", 6, "repeat"),
        ("link", "source", 70001, 6, "byte 0x11171 of the buffer that is sent from", 6, "repeat"),
        ("atomics", "cells", 4 * 17 + 1, 2, "cell 17", 10, "count"),
        ("products", "result", 4 * (5 * 48 + 7) + 3, 6, "row 5, column 7 of 64 × 48", 30, "checksum"),
        ("products", "result", 4 * (5 * 48 + 7), 0, "row 5, column 7 of 64 × 48", 0, "repeat"),
        ("products", "operand", 4 * (5 * 128 + 7) + 3, 5, "operand A in device memory, row 5, column 7", 29, "operand"),
    ],
)
def test_a_flipped_bit_is_found_and_located(
    target: Target, kind: str, where: str, octet: int, bit: int, place: str, position: int, by: str, permanent: bool
) -> None:
    one = unit(target, kind)
    if (kind, where) == ("link", "source") and permanent:
        found = stuck_source(one, octet, bit)
    else:
        found = struck(one, where, octet, bit, permanent)
    assert len(found) == 1
    wrong = found[0]
    assert wrong.place.startswith(place)
    assert (wrong.bits, wrong.by, wrong.kind) == ([position], by, "permanent" if permanent else "transient")
    assert int(wrong.expected, 16) ^ int(wrong.got, 16) == 1 << position


def stuck_source(one: Any, octet: int, bit: int) -> list[Wrong]:
    """A bit of the host's memory that no writing mends."""
    one.run()
    assert one.check() == []
    strike.flip(one.target, one.source, octet, bit)
    real = one.target.copy
    one.target.copy = lambda to, source, queue=0: None if to is one.source else real(to, source, queue)
    try:
        one.run()
        return one.check()  # type: ignore[no-any-return]
    finally:
        del one.target.copy


@pytest.mark.slow("compiles and checks on OpenCL")
def test_after_a_transient_fault_the_unit_is_well_again(target: Target) -> None:
    for kind, where in (("memory", "memory"), ("link", "there"), ("link", "source"), ("atomics", "cells"), ("products", "operand")):
        one = unit(target, kind)
        assert len(struck(one, where, 41, 3, permanent=False)) == 1, kind
        one.run()
        assert one.check() == [], (kind, where)


def test_an_operand_that_flipped_says_how_many_results_it_spoilt(target: Target) -> None:
    found = struck(unit(target, "products"), "operand", 4 * (5 * 128 + 7) + 3, 5, permanent=False)
    assert "results wrong by it" in found[0].place


def test_a_fault_that_is_there_from_the_start(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bit of C that sticks, before the first product: what the repeat is compared with would be wrong too."""
    kind = products.TorchProduct if target.dialect == "torch" else products.KernelProduct
    octet, bit = 4 * (9 * 48 + 11) + 3, 5
    real = kind.run

    def run(one: Any) -> None:
        real(one)
        if not strike.holds(target, one.c, octet, bit):
            strike.flip(target, one.c, octet, bit)

    probe = unit(target, "products")
    if strike.holds(target, probe.c, octet, bit):
        pytest.fail("the bit is set anyway; choose another element")
    monkeypatch.setattr(kind, "run", run)
    one = unit(target, "products")
    for _ in range(2):  # as long as it is there
        one.run()
        (wrong,) = one.check()
        assert (wrong.place, wrong.bits, wrong.by, wrong.kind) == ("row 9, column 11 of 64 × 48", [29], "checksum", "permanent")
        assert int(wrong.expected, 16) ^ int(wrong.got, 16) == 1 << 29
    monkeypatch.setattr(kind, "run", real)
    one.run()
    assert one.check() == []
    one.run()
    assert one.check() == []


def test_a_first_product_that_was_wrong_once_is_told(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below what a checksum sees: it must not become what later products are compared with."""
    kind = products.TorchProduct if target.dialect == "torch" else products.KernelProduct
    real, left = kind.run, [1]

    def run(one: Any) -> None:
        real(one)
        if left.pop() if left else 0:
            strike.flip(target, one.c, 4 * (9 * 48 + 11), 0)

    monkeypatch.setattr(kind, "run", run)
    one = unit(target, "products")
    one.run()
    (wrong,) = one.check()
    assert (wrong.place, wrong.bits, wrong.kind) == ("row 9, column 11 of 64 × 48", [0], "transient")
    one.run()
    assert one.check() == []


def test_an_operand_that_arrived_wrong_is_told(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = products.TorchProduct if target.dialect == "torch" else products.KernelProduct
    real, left = kind.put, [1]

    def put(one: Any, which: str, x: Any) -> None:
        real(one, which, x)
        if which == "b" and left:
            left.pop()
            strike.flip(target, one.b, 4 * (3 * 48 + 2) + 3, 5)

    monkeypatch.setattr(kind, "put", put)
    one = unit(target, "products")
    one.run()
    (wrong,) = one.check()
    assert (wrong.place, wrong.bits, wrong.kind) == ("operand B in device memory, row 3, column 2", [29], "transient")
    one.run()
    assert one.check() == []


def test_the_copy_that_results_are_held_against_may_flip_too(target: Target) -> None:
    if target.dialect != "torch":
        pytest.skip("held on the host by this target")
    one = unit(target, "products")
    one.run()
    one.held[3, 4] ^= 1
    (wrong,) = one.check()
    assert ("compared with" in wrong.place, wrong.kind) == (True, "transient")
    one.run()
    assert one.check() == []


@pytest.mark.parametrize("dtype", ["fp64", "int8", "bf16", "fp16"])
def test_operands_of_every_width(target: Target, dtype: str) -> None:
    made, missing = stress.units(target, "products", [dtype], 7)
    if missing:
        pytest.skip(next(iter(missing.values())))
    width = np.dtype(np.float64).itemsize if dtype == "fp64" else 1 if dtype == "int8" else 2
    (wrong,) = struck(made[0], "operand", width * (5 * 128 + 7), 6, permanent=False)
    assert wrong.place.startswith("operand A in device memory, row 5, column 7")
    assert (wrong.bits, wrong.kind) == ([6], "transient")


def test_a_place_that_a_unit_lacks_is_named(target: Target) -> None:
    with pytest.raises(InputError, match="atomics has no data called 'memory'; valid: cells"):
        strike.arm(unit(target, "atomics"), "memory", 0, 0)
