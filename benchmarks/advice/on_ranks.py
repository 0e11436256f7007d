"""Cases of several ranks, written by hand."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.advice.case import NOTHING, Case
from benchmarks.advice.on_device import GEMM_2, product
from benchmarks.advice.program import GAP_US, LAUNCH_US, Program, collective

KERNELS = {
    "allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "all_to_allv": "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
}
STREAM = 20
NAMES = {"c10d::allreduce_": "allreduce", "c10d::alltoall_base_": "all_to_allv"}  # of operators


def exchange(programs: Sequence[Program], size: int, us: float, operator: str, arguments: bool = True, join: bool = True) -> None:
    """A collective after the compute stream's work: all ranks end `us` after the last of them has begun. `join`: compute waits for it."""
    name = NAMES[operator]
    described = collective(name, size, len(programs)) if arguments else {}
    begins = [max(program.free.get(7, 0.0), program.free.get(STREAM, 0.0), program.now + 12 + LAUNCH_US) + GAP_US for program in programs]
    for program, start in zip(programs, begins, strict=True):
        with program.operator(operator, 5, 2):
            program.kernel(KERNELS[name], max(begins) + us - start, STREAM, 7, grid=24, block=512, start=start, **described)
        if join:
            program.free[7] = max(program.free.get(7, 0.0), program.free[STREAM])


def step_begins(programs: Sequence[Program]) -> list[float]:
    return [program.now for program in programs]


def step_ends(programs: Sequence[Program], step: int, begins: Sequence[float]) -> None:
    for program, start in zip(programs, begins, strict=True):
        program.add("user_annotation", f"ProfilerStep#{step}", 1, start, program.now - start)


def logs_on_one(mended: bool) -> list[Program]:
    """Four ranks; rank 1 writes logs for 6 ms in its main thread before the gradients are reduced. Clocks are up to 3 ms apart."""
    programs = [Program(rank, 4, skew=1_000.0 * rank) for rank in range(4)]
    for step in range(15):
        begins = step_begins(programs)
        for program in programs:
            for _ in range(10):
                product(program, 500)
            program.item()
            if program.rank == 1 and not mended:
                program.host(6_000)
            for _ in range(4):
                product(program, 500, name=GEMM_2)
        exchange(programs, 50_000_000, 300, "c10d::allreduce_")
        step_ends(programs, step, begins)
    return [program.end() for program in programs]


def uneven_experts(mended: bool) -> list[Program]:
    """PyTorch before 2.1: kernels without arguments, known by their operator. Rank 3 holds the favoured experts; mended: shared out evenly."""
    programs = [Program(rank, 4) for rank in range(4)]
    for step in range(12):
        begins = step_begins(programs)
        for _ in range(6):
            exchange(programs, 40_000_000, 150, "c10d::alltoall_base_", arguments=False)
            for program in programs:
                work = 850 if mended else 1_600 if program.rank == 3 else 600
                product(program, work)
            exchange(programs, 40_000_000, 150, "c10d::alltoall_base_", arguments=False)
            for program in programs:
                product(program, 500, name=GEMM_2)
        step_ends(programs, step, begins)
    return [program.end() for program in programs]


def tensor_parallel(mended: bool) -> list[Program]:
    """Two ranks, an all-reduce of 350 µs after each layer of 1,000 µs; mended: two half batches in turns, each hides the other's."""
    programs = [Program(rank, 2) for rank in range(2)]
    for step in range(8):
        begins = step_begins(programs)
        for _ in range(16):
            for half in range(2 if mended else 1):
                for program in programs:
                    product(program, 500 if mended else 1_000)
                exchange(programs, 33_000_000 // (2 if mended else 1), 190 if mended else 350, "c10d::allreduce_", join=not mended)
                del half
        step_ends(programs, step, begins)
    return [program.end() for program in programs]


def hidden_buckets(mended: bool) -> list[Program]:
    """Data parallel as it should be: seven of eight buckets run beneath the backward pass, and the ranks are alike."""
    del mended
    programs = [Program(rank, 2) for rank in range(2)]
    for step in range(10):
        begins = step_begins(programs)
        for _ in range(8):
            for program in programs:
                product(program, 1_500)
        for bucket in range(8):
            for program in programs:
                product(program, 1_500, name=GEMM_2)
            exchange(programs, 50_000_000, 300, "c10d::allreduce_", join=bucket == 7)
        step_ends(programs, step, begins)
    return [program.end() for program in programs]


CASES = (
    Case("logs-on-one", "waiting-for-ranks", "rank 1 of 4 logs for 6 ms before each all-reduce", logs_on_one),
    Case("uneven-experts", "waiting-for-ranks", "rank 3 of 4 has twice the tokens; collectives without arguments", uneven_experts),
    Case("tensor-parallel", "exposed-communication", "an all-reduce after each layer, of two ranks", tensor_parallel),
    Case("hidden-buckets", NOTHING, "buckets beneath the backward pass, of two ranks", hidden_buckets),
)
