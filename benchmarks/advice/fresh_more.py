"""The second half of the cases by a fresh reader: see fresh.py."""

from __future__ import annotations

from benchmarks.advice.case import NOTHING, Case
from benchmarks.advice.fresh import NARROW, WIDE
from benchmarks.advice.program import Program, collective


def tokenise_in_the_loop(mended: bool) -> list[Program]:
    p = Program()
    for s in range(20):
        with p.step(s):
            p.leaf("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 40)
            if not mended:
                p.add("cpu_op", "aten::copy_", 9, p.now + 200, 6000)
                p.host(7000)
            for _i in range(10):
                with p.operator("aten::mm", 7):
                    p.kernel(NARROW, 300, grid=132, block=384)
    return [p.end()]


def hidden_tokenising(mended: bool) -> list[Program]:
    p = Program()
    p.inflight(NARROW, 500, 7)
    for s in range(20):
        with p.step(s):
            p.host(3000)
            for _i in range(10):
                with p.operator("aten::mm", 7):
                    p.kernel(NARROW, 500, grid=132, block=384)
    return [p.end()]


def hidden_fsdp(mended: bool) -> list[Program]:
    p = Program(ranks=8)
    p.inflight(WIDE, 500, 1)
    for s in range(10):
        with p.step(s):
            for layer in range(16):
                coll, name = (
                    ("_allgather_base", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
                    if layer < 8
                    else ("_reduce_scatter_base", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
                )
                with (
                    p.operator("FSDP::all_gather" if layer < 8 else "FSDP::post_backward_reduce", 10, cat="user_annotation"),
                    p.operator(
                        "record_param_comms",
                        5,
                        **(collective(coll, 200_000_000, 8) | {"In msg nelems": 25_000_000, "Out msg nelems": 200_000_000}),
                    ),
                ):
                    begin = max(p.free[7] - 990, p.free.get(24, 0) + 1, p.now + 10) if s + layer else p.began + 60
                    p.kernel(
                        name,
                        850 if s + layer else 300,
                        stream=24,
                        call=8,
                        grid=16,
                        block=544,
                        start=begin,
                        **(collective(coll, 200_000_000, 8) | {"In msg nelems": 25_000_000, "Out msg nelems": 200_000_000}),
                    )
                for _i in range(2):
                    with p.operator("aten::mm", 7):
                        p.kernel(WIDE, 499, grid=132, block=384)
    return [p.end()]


def exposed_pinned_upload(mended: bool) -> list[Program]:
    p = Program()
    up = 14 if mended else 7
    for s in range(20):
        with p.step(s):
            with p.operator("aten::to", 2), p.operator("aten::_to_copy", 4), p.operator("aten::copy_", 3):
                p.copy("HtoD (Pinned -> Device)", 200_000_000, 4000, stream=up)
            p.free[7] = max(p.free.get(7, 0), p.free[up])  # kernels wait for their own batch only
            for i in range(12):
                with p.operator("aten::mm", 7):
                    p.kernel(NARROW, 500, grid=132, block=384)
                if i == 0:
                    p.free[13] = max(p.free.get(13, 0), p.free[7])
                    with p.operator("aten::copy_", 3):
                        p.copy("DtoH (Device -> Pinned)", 250_000_000, 5000, stream=13)
    return [p.end()]


def neighbour_every_tenth_step(mended: bool) -> list[Program]:
    p = Program()
    for s in range(40):
        slow = s % 10 == 9 and not mended
        with p.step(s):
            for _i in range(50):
                with p.operator("aten::mm", 280 if slow else 13, 15 if slow else 2):
                    p.kernel("nvjet_tst_64x128_64x7_h_bz_TNN", 30)
            p.item()
    return [p.end()]


def one_request_at_a_time(mended: bool) -> list[Program]:
    p = Program()
    n = 8 if mended else 1  # queries per batch
    for s in range(20):
        with p.step(s):
            for _q in range(8 // n):
                for _i in range(6):
                    with p.operator("aten::mm", 7):
                        p.kernel("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", 200, grid=16 * n, block=384)
    return [p.end()]


def row_loop_on_cpu(mended: bool) -> list[Program]:
    p = Program()
    for s in range(5):
        with p.step(s):
            if mended:
                p.leaf("aten::mv", 150)
            else:
                for _r in range(2000):
                    p.leaf("aten::mul", 4)
                    p.host(2)
                    with p.operator("aten::sum", 4):
                        p.leaf("aten::fill_", 1)
            p.leaf("aten::mm", 3000)
    return [p]


def unfused_activation(mended: bool) -> list[Program]:
    p = Program()
    for s in range(20):
        with p.step(s):
            for _layer in range(30):
                with p.operator("aten::mm", 3):
                    p.kernel("nvjet_tst_128x128_64x6_h_bz_TNT", 150)
                if mended:
                    with p.operator("triton_poi_fused_gelu_mul_0", 3):
                        p.kernel("triton_poi_fused_gelu_mul_0", 8, grid=2048, block=128)
                else:
                    for i in range(12):
                        n = ["mul", "pow", "mul", "add", "mul", "tanh", "add", "mul", "mul", "add", "sigmoid", "mul"][i]
                        with p.operator("aten::" + n, 3):
                            p.kernel(
                                f"vectorized_elementwise_kernel<4, {n}_functor<c10::BFloat16>, std::array<char*, 3>>",
                                5,
                                grid=1024,
                                block=128,
                            )
    return [p.end()]


def strided_weight(mended: bool) -> list[Program]:
    p = Program()
    shapes = {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    for s in range(30):
        with p.step(s):
            with p.operator("aten::to", 2), p.operator("aten::_to_copy", 4), p.operator("aten::copy_", 3):
                p.copy("HtoD (Pageable -> Device)", 1_000_000, 100, block=True)
            for i in range(8):
                bad = i in (2, 5) and not mended
                with p.operator("aten::mm", 7, **shapes, **{"Input Strides": [[4096, 1], [4097, 1] if bad else [4096, 1]]}):
                    p.kernel(
                        "cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_nn_align1>" if bad else WIDE,
                        600 if bad else 190,
                        grid=16384 if bad else 132,
                        block=128 if bad else 384,
                    )
    return [p.end()]


def benchmark_in_first_step(mended: bool) -> list[Program]:
    p = Program()
    for s in range(20):
        with p.step(s):
            for i in range(10):
                with p.operator("aten::conv2d"), p.operator("aten::convolution"), p.operator("aten::cudnn_convolution", 7):
                    if s == i == 0 and not mended:
                        p.host(19993 - 15)
                        for a in range(40):
                            p.call("cudaMalloc", 300)
                            p.kernel(f"sm90_xmma_fprop_implicit_gemm_candidate_{a}", 1000)
                            p.host(10000 - 305)
                    p.kernel(
                        "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64",
                        600,
                        call=15 if s == i == 0 and not mended else 5,
                    )
            with p.operator("aten::mm", 59995 if s == 0 and not mended else 7):
                p.kernel(NARROW, 500, grid=132, block=384)
            p.item()
    return [p.end()]


def loader_in_process(mended: bool) -> list[Program]:
    p = Program()
    for s in range(15):
        with p.step(s):
            if mended:
                p.leaf("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 50)
            else:
                with p.operator("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                    for _sample in range(64):
                        p.host(45)
                        for _i in range(20):
                            p.leaf("aten::mul", 4)
                    p.leaf("aten::stack", 400)
            for _i in range(10):
                with p.operator("aten::mm", 7):
                    p.kernel(NARROW, 400, grid=132, block=384)
            p.item()
    return [p.end()]


CASES = (
    Case("tokenise-in-the-loop", "host-code", "7 ms of Python between steps, half of it hidden", tokenise_in_the_loop, fresh=True),
    Case("hidden-tokenising", NOTHING, "3 ms of Python a step beneath 5 ms of kernels", hidden_tokenising, fresh=True),
    Case("hidden-fsdp", NOTHING, "collectives of 85 % of the time, all beneath compute", hidden_fsdp, fresh=True),
    Case("exposed-pinned-upload", "copies", "uploads in line with the kernels", exposed_pinned_upload, fresh=True),
    Case(
        "neighbour-every-tenth-step",
        "slow-steps",
        "in every tenth step operators take ten times as long",
        neighbour_every_tenth_step,
        fresh=True,
    ),
    Case("one-request-at-a-time", "small-grid", "kernels of 16 blocks", one_request_at_a_time, fresh=True),
    Case("row-loop-on-cpu", "tiny-operators", "a loop over rows, and one long product", row_loop_on_cpu, fresh=True),
    Case(
        "unfused-activation",
        "tiny-kernels",
        "twelve pointwise kernels a layer; launches block on a full queue",
        unfused_activation,
        fresh=True,
    ),
    Case("strided-weight", "below-limit", "two of eight products in a slow kernel for unaligned strides", strided_weight, fresh=True),
    Case("benchmark-in-first-step", "first-use", "algorithms are tried in the first step", benchmark_in_first_step, fresh=True),
    Case("loader-in-process", "data-loader", "transforms of 64 samples within __next__", loader_in_process, fresh=True),
)
