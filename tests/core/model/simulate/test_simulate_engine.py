"""Properties of the tile-level simulator: what goes in comes out, nothing is faster than its bound, waves and caches are seen."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import examples
from hotlap.core.errors import InputError, NotSupported
from hotlap.core.model import machines
from hotlap.core.model.simulate import attention, card, chip_of, engine, gemm, stream
from hotlap.core.model.simulate import chip as facts
from hotlap.core.model.simulate.tasks import Operand, SimulatedKernel, TaskBlock, TaskStep, slots

H100, A100, H200, B200 = (chip_of(machines.load(name)) for name in ("h100-sxm", "a100-sxm-80gb", "h200-sxm", "b200"))
COLD = 2**40  # copies of B, far more than any cache
SIZES = st.integers(1, 6000)


def product(m: int, n: int, k: int, chip=H100, **more):
    return card.simulate(gemm.candidates(gemm.GemmProblem(m, n, k, **more), chip), chip)


ALONE = TaskBlock(128, 40000.0, 0.0)  # one to a unit


def tiles(count: int, steps: float = 100.0, flop: float = 2.0**21, block: TaskBlock = ALONE) -> SimulatedKernel:
    """Tiles that only compute."""
    own = Operand(np.arange(count), np.zeros(count), count)
    return SimulatedKernel("tiles", "matrix.bf16", np.full(count, steps), TaskStep(flop=flop), (own,), np.zeros(count), block, 4.0, useful_flop=count * steps * flop)


# ---------------------------------------------------------------- conservation


@settings(max_examples=examples(40))
@given(SIZES, SIZES, SIZES, st.sampled_from([1, 2, 3, 8]), st.sampled_from(gemm.TILES))
def test_tiles_cover_the_product(m: int, n: int, k: int, split: int, tile: tuple[int, int]) -> None:
    kernel = gemm.build(gemm.GemmProblem(m, n, k), gemm.GemmPlan(*tile, split), A100)
    a, b = kernel.reads
    for operand, whole in ((a, m * k * 2), (b, n * k * 2)):
        distinct = {int(block): float(size) for block, size in zip(operand.block, operand.bytes, strict=True)}
        assert sum(distinct.values()) == pytest.approx(whole)
        assert len(distinct) == operand.blocks
    assert kernel.flop >= kernel.useful_flop == 2.0 * m * n * k
    if len(kernel.name.split("split")) == 1:
        assert kernel.written_bytes.sum() == pytest.approx(m * n * 2)


@settings(max_examples=examples(40))
@given(SIZES, SIZES, SIZES, st.sampled_from([H100, A100, B200]))
def test_causes_add_up_and_nothing_beats_its_bound(m: int, n: int, k: int, chip) -> None:
    found = product(m, n, k, chip, copies=COLD)
    assert sum(found.stalls.values()) == pytest.approx(found.seconds, rel=1e-6)
    assert all(value >= 0 for value in found.stalls.values())
    peak = chip.units * facts.rate(chip, "matrix.bf16") * chip.clock_max_hz
    assert found.seconds >= found.useful_flop / peak
    assert found.seconds >= found.dram_bytes / chip.memory_b_s
    assert found.dram_read_bytes >= n * k * 2 * 0.999  # weights come from memory at least once
    assert 0 <= found.busy_share <= 1
    assert 0 <= found.l2_hit_share <= 1
    assert found.flop >= found.useful_flop


@settings(max_examples=20)
@given(st.integers(1, 8), st.sampled_from([1, 4]), st.integers(1, 3000), st.integers(0, 3000), st.booleans(), st.sampled_from([0, 100]))
def test_attention_counts_its_scores(batch: int, group: int, queries: int, before: int, causal: bool, window: int) -> None:
    problem = attention.AttentionProblem(batch, 8, 8 // group, 64, queries, queries + before, causal, window if causal else 0)
    kernel = attention.prefill(problem, H100)
    seen = sum(min(before + i + 1, window) if window else before + i + 1 for i in range(queries)) if causal else queries * problem.keys
    assert kernel.useful_flop == pytest.approx(4.0 * batch * 8 * 64 * seen)
    assert kernel.flop >= kernel.useful_flop * (1 - 1e-12)
    found = card.simulate(kernel, H100)
    assert sum(found.stalls.values()) == pytest.approx(found.seconds, rel=1e-6)
    assert found.seconds >= found.useful_flop / (H100.units * 4096 * H100.clock_max_hz)


def test_a_stream_moves_each_byte_once() -> None:
    found = card.simulate(stream.build(3e9, 1e9, H200), H200)
    assert found.dram_read_bytes == pytest.approx(3e9, rel=1e-6)
    assert found.dram_written_bytes == pytest.approx(1e9, rel=1e-6)
    assert found.cause == "DRAM"


# ---------------------------------------------------------------- waves, occupancy, order


def test_one_tile_too_many_costs_a_wave() -> None:
    full, more = (engine.run(tiles(count), H100) for count in (H100.units, H100.units + 1))
    assert more.seconds == pytest.approx(2 * full.seconds, rel=0.05)
    assert more.causes["tail"] > 0.4 * more.seconds
    assert full.causes["tail"] == 0


def test_time_of_tiles_that_only_compute_is_the_pipes() -> None:
    found = engine.run(tiles(H100.units * 8, steps=1000.0), H100)
    cycles = 8 * 1000 * 2.0**21 / 4096 / facts.MATRIX_ISSUE
    assert found.seconds == pytest.approx(cycles / H100.clock_hz, rel=0.01)


@pytest.mark.parametrize(
    ("block", "chip", "blocks"),
    [  # the arithmetic of NVIDIA's CUDA occupancy calculator: 64 Ki registers, 64 warps, 32 blocks, shared memory of a unit
        (TaskBlock(256, 256 * 32, 0), H100, 8),
        (TaskBlock(256, 256 * 64, 0), H100, 4),
        (TaskBlock(1024, 1024 * 32, 0), H100, 2),
        (TaskBlock(32, 0, 0), H100, 32),
        (TaskBlock(128, 0, 48 * 1024), A100, 3),  # of 164 KiB
        (TaskBlock(128, 0, 100 * 1024), A100, 1),
        (TaskBlock(128, 0, 100 * 1024), H100, 2),  # of 228 KiB
        (TaskBlock(33, 0, 0), H100, 32),
    ],
)
def test_occupancy(block: TaskBlock, chip, blocks: int) -> None:
    assert slots(block, chip) == blocks


@pytest.mark.parametrize("block", [TaskBlock(4096, 0, 0), TaskBlock(128, 70000, 0), TaskBlock(128, 0, 300_000), TaskBlock(0, 0, 0)])
def test_a_block_that_fits_no_unit_is_refused(block: TaskBlock) -> None:
    with pytest.raises(InputError, match=r"fit|thread"):
        slots(block, H100)


def test_slots_hide_fill_and_end() -> None:
    one = engine.run(tiles(H100.units * 8, 2.0, block=TaskBlock(128, 40000.0, 0)), H100)
    two = engine.run(tiles(H100.units * 8, 2.0, block=TaskBlock(128, 30000.0, 0)), H100)
    assert (one.slots, two.slots) == (1, 2)
    assert two.seconds < one.seconds


def test_equal_tiles_end_together_and_unequal_ones_do_not() -> None:
    kernel = tiles(H100.units * 4)
    uneven = dataclasses.replace(kernel, steps=np.linspace(1.0, 199.0, kernel.tiles))
    even, other = engine.run(kernel, H100), engine.run(uneven, H100)
    assert even.events < 20 < other.events
    longest_last = other.seconds
    assert engine.run(dataclasses.replace(uneven, steps=uneven.steps[::-1]), H100).seconds < longest_last


def test_it_is_deterministic() -> None:
    assert product(3000, 2000, 1000) == product(3000, 2000, 1000)
    kernel = attention.prefill(attention.AttentionProblem(2, 8, 2, 128, 1000, 1000), H100)
    assert engine.run(kernel, H100) == engine.run(kernel, H100)


@pytest.mark.parametrize("chip", [H100, A100, B200])
@pytest.mark.parametrize("grown", [0, 1, 2])
def test_larger_is_not_faster(chip, grown: int) -> None:
    """Up to 8 %: a library's tiles fit some sizes better than smaller ones."""
    base, last = [512, 2048, 1024], 0.0
    for size in (64, 128, 512, 1024, 2048, 4096, 8192):
        base[grown] = size
        found = product(*base, chip, copies=COLD).seconds
        assert found >= 0.92 * last
        last = max(last, found)


# ---------------------------------------------------------------- cache and memory


def test_what_fits_l2_stays_there() -> None:
    warm, cold = product(64, 2048, 2048), product(64, 2048, 2048, copies=COLD)
    assert warm.dram_read_bytes == 0
    assert cold.dram_read_bytes >= 2048 * 2048 * 2
    assert warm.seconds < cold.seconds


def test_l2_serves_what_tiles_share() -> None:
    found = product(4096, 4096, 4096, copies=COLD)
    compulsory = 2 * 4096 * 4096 * 2
    assert compulsory * 0.99 <= found.dram_read_bytes < 0.3 * found.l2_bytes


def test_a_smaller_l2_lets_more_through() -> None:
    kernel = gemm.build(gemm.GemmProblem(8192, 8192, 8192), gemm.GemmPlan(128, 256), H100)
    read = [engine.run(kernel, dataclasses.replace(H100, l2_bytes=size)).dram_read for size in (5e6, 2e7, 5e7, 2e8, 1e9)]
    assert read == sorted(read, reverse=True)
    assert read[0] > 2 * read[-1]


def test_little() -> None:
    """A unit's stream is its bytes in flight ÷ latency when nothing else limits it."""
    count, steps, ask = 8, 4000.0, 16384.0
    own = Operand(np.arange(count), np.full(count, steps * ask), count)
    kernel = SimulatedKernel("loads", "matrix.bf16", np.full(count, steps), TaskStep(l2_bytes=ask), (own,), np.zeros(count), TaskBlock(128, 0, 200_000), 1.0)
    latency = facts.MEMORY_S + facts.L2_CYCLES / H100.clock_hz
    assert engine.run(kernel, H100).seconds == pytest.approx(steps * latency, rel=0.01)
    assert max(engine.run(kernel, H100).causes.items(), key=lambda c: c[1])[0] in ("memory latency", "tail")


def test_memory_twice_as_fast_halves_a_stream() -> None:
    chip = dataclasses.replace(H100, memory_b_s=2 * H100.memory_b_s)
    slow, fast = (card.simulate(stream.build(4e9, 0, one), one).seconds for one in (H100, chip))
    assert slow / fast == pytest.approx(2, rel=0.02)


# ---------------------------------------------------------------- machines and bad input


def complete(name: str) -> bool:
    spec = machines.load(name)
    facts_needed = (
        spec.compute_units, spec.clock_max_hz or spec.clock_for_peak_hz, spec.memory_bandwidth_b_s, spec.cache_bytes,
        spec.shared_bytes_per_unit, spec.registers_per_unit, spec.warps_max_per_unit, spec.blocks_max_per_unit, spec.flop_per_clock,
    )
    return all(facts_needed)


COMPLETE = [name for name in machines.names() if complete(name)]


@pytest.mark.parametrize("name", COMPLETE)
def test_every_machine_with_its_facts_runs(name: str) -> None:
    chip = chip_of(machines.load(name))
    assert card.simulate(stream.build(1e9, 1e9, chip), chip).seconds >= 2e9 / chip.memory_b_s
    dtype = "bf16" if {"matrix.bf16", "matrix.fp16"} & set(chip.flop_per_clock) else "fp32"
    found = product(2048, 2048, 2048, chip, dtype=dtype)
    assert found.seconds >= found.useful_flop / (chip.units * facts.rate(chip, f"matrix.{dtype}") * chip.clock_max_hz)


@pytest.mark.parametrize("name", sorted(set(machines.names()) - set(COMPLETE)))
def test_the_others_say_what_they_lack(name: str) -> None:
    with pytest.raises(NotSupported, match=r"lacks .*(warps|units|l2|shared)"):
        chip_of(machines.load(name))


def test_most_machines_are_complete() -> None:
    assert len(COMPLETE) >= 20


@pytest.mark.parametrize("sizes", [(0, 1, 1), (-5, 1, 1), (1.5, 2, 2), (math.nan, 1, 1), (math.inf, 1, 1), (2**41, 1, 1), (True, 1, 1)])
def test_sizes_that_are_none(sizes) -> None:
    with pytest.raises(InputError, match="whole number"):
        gemm.candidates(gemm.GemmProblem(*sizes), H100)


def test_other_bad_input() -> None:
    with pytest.raises(InputError, match="too many"):
        gemm.candidates(gemm.GemmProblem(2**20, 2**20, 64), H100)
    with pytest.raises(InputError, match="dtype"):
        gemm.candidates(gemm.GemmProblem(1, 1, 1, "bf17"), H100)
    with pytest.raises(NotSupported, match=r"matrix\.fp8"):
        gemm.candidates(gemm.GemmProblem(64, 64, 64, "fp8"), A100)
    with pytest.raises(InputError, match="multiple"):
        attention.prefill(attention.AttentionProblem(1, 6, 4, 64, 1, 1), H100)
    with pytest.raises(InputError, match="among"):
        attention.prefill(attention.AttentionProblem(1, 4, 4, 64, 5, 4), H100)
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="bytes"):
            stream.build(wrong, 1.0, H100)
