"""Twenty-one cases by a fresh reader, who saw the list of rules and neither their code nor this folder.

Each was written with its true first finding and gain before the rules were tried on it; stories are shortened, schedules are as they were.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.advice.case import NOTHING, Case
from benchmarks.advice.program import Program, collective

NARROW, WIDE = "nvjet_tst_128x256_64x4_2x1_v_bz_coopB_TNT", "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT"


def throttled_run_ahead(mended: bool) -> list[Program]:
    p = Program()
    p.inflight(WIDE, 1450, 10)
    prev = p.free[7]
    for s in range(20):
        with p.step(s):
            for _i in range(10):
                with p.operator("aten::mm", 7):
                    p.kernel(WIDE, 1450, grid=132, block=384)
            with p.operator("aten::copy_", 3):
                p.copy("DtoH (Device -> Pinned)", 4, 1)
            with p.operator("Event.wait previous step", cat="user_annotation"):
                p.wait("EventSynchronize", prev)
            prev = p.free[7]
    return [p.end()]


def bursty_loader(mended: bool) -> list[Program]:
    p = Program()
    t0 = p.now
    for s in range(24):
        with p.step(s):
            ready = t0 + 40000 * (s // 4)  # bursts of four; first = enough workers, always ready
            with p.operator("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 50):
                if not mended:
                    p.now = max(p.now, ready)
            with p.operator("aten::to"), p.operator("aten::_to_copy", 4), p.operator("aten::copy_", 3):
                p.copy("HtoD (Pageable -> Device)", 1_500_000, 120, block=True)
            for _i in range(12):
                with p.operator("aten::mm", 7):
                    p.kernel(NARROW, 480, grid=132, block=384)
    return [p.end()]


def slow_device_in_rank_2(mended: bool) -> list[Program]:
    described = collective("allreduce", 50_000_000, 4)
    ps = [Program(rank=r, ranks=4, skew=-7000 if r == 3 else 0) for r in range(4)]
    for s in range(12):
        for p in ps:
            with p.step(s):
                for _i in range(20):
                    with p.operator("aten::mm", 5):
                        p.kernel(NARROW, 700 if p.rank == 2 and not mended else 500, grid=132, block=384)
        starts = [p.free[7] + 1 for p in ps]  # the collective's stream waits for the compute stream
        for p, start in zip(ps, starts, strict=True):  # ends everywhere 300 µs after the last arrival
            with p.operator("c10d::allreduce_", 10), p.operator("record_param_comms", 5, Seq=s, **described):
                p.kernel(
                    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                    max(starts) + 300 - start,
                    stream=20,
                    call=8,
                    grid=16,
                    block=544,
                    start=start,
                    Seq=s,
                    **described,
                )
            p.free[7] = p.free[20]  # next step waits for it
    return [p.end() for p in ps]


def reduced(ps: Sequence[Program], elements: int, transfer: float, starts: Sequence[float], seq: int) -> None:
    """An all-reduce of fp32 that ends on both ranks at the same moment."""
    described = collective("allreduce", 4 * elements, 2, "Float", 4)
    for p, start in zip(ps, starts, strict=True):
        with p.operator("c10d::allreduce_", 10), p.operator("record_param_comms", 5, Seq=seq, **described):
            p.kernel(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                max(starts) + transfer - start,
                stream=20,
                call=8,
                grid=24,
                block=544,
                start=start,
                Seq=seq,
                **described,
            )


def unbucketed_allreduce(mended: bool) -> list[Program]:
    ps = [Program(rank=r, ranks=2) for r in range(2)]
    seq = 0
    for s in range(10):
        begins = [p.now for p in ps]
        for i in range(8):  # forward
            for p in ps:
                with p.operator("aten::mm", 7):
                    p.kernel(NARROW, 400, grid=132, block=384)
            if i == 3:
                reduced(ps, 2, 20, [max(p.free[7] - 300, p.now + 30, p.free.get(20, 0) + 1) for p in ps], seq)
                seq += 1
        for i in range(8):  # backward, the mended one with a bucket after each
            for p in ps:
                late = 150 if p.rank == 1 and i == 7 else 0
                with p.operator("aten::mm", 7):
                    p.kernel("nvjet_tst_128x256_64x4_2x1_v_bz_coopB_NTN", 800 + late, grid=132, block=384)
            if mended:
                reduced(ps, 25_000_000, 500, [max(p.free[7], p.free[20]) + 1 for p in ps], seq)
                seq += 1
        if not mended:
            reduced(ps, 200_000_000, 4000, [p.free[7] + 1 for p in ps], seq)
            seq += 1
        for p, began in zip(ps, begins, strict=True):
            p.free[7] = max(p.free[7], p.free[20])
            with p.operator("aten::_fused_adamw_", 20):
                p.kernel("multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>", 600, grid=320, block=512)
            p.add("user_annotation", f"ProfilerStep#{s}", 1, began, p.now - began)
    return [p.end() for p in ps]


DECODE = [
    ("gemvNSP_kernel<__nv_bfloat16, 1, 32, 4, 1024>", "aten::mm", 96),
    ("vectorized_layer_norm_kernel<c10::BFloat16, float, true>", "aten::rms_norm", 64),
    ("pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>", "aten::_flash_attention_forward", 64),
    ("vectorized_elementwise_kernel<4, silu_kernel, std::array<char*, 2>>", "aten::silu", 64),
    ("gemvx::kernel<int, int, __nv_bfloat16, float>", "aten::mm", 88),
]


def decode_batch_1(mended: bool) -> list[Program]:
    p = Program()
    for s in range(40):
        with p.step(s):
            if mended:  # second: hypothetically no item
                p.call("cudaGraphLaunch", 12)
                for i in range(100):
                    p.work("kernel", DECODE[i % 5][0], 5, 7, grid=[DECODE[i % 5][2], 1, 1], block=[128, 1, 1])
            else:
                for i in range(100):
                    with p.operator(DECODE[i % 5][1], 9, 1):
                        p.kernel(DECODE[i % 5][0], 5, call=5, grid=DECODE[i % 5][2], block=128)
            p.item()
    return [p.end()]


def backward_thread(mended: bool) -> list[Program]:
    p = Program()
    quick = mended
    fw, bw = (3, 3) if quick else (25, 20)  # own host time of an operator before its launch of 5 us
    for s in range(30):
        with p.step(s):
            for i in range(20):
                with p.operator("aten::convolution" if i % 2 else "aten::native_group_norm", fw):
                    p.kernel("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32" if i % 2 else "RowwiseMomentsCUDAKernel<c10::BFloat16>", 40)
            p.thread = 2
            for i in range(60):
                name = ["ConvolutionBackward0", "NativeGroupNormBackward0", "MaxPool2DWithIndicesBackward0"][i % 3]
                with p.operator("autograd::engine::evaluate_function: " + name, 2), p.operator(name, bw - 2):
                    p.kernel(
                        [
                            "sm90_xmma_dgrad_implicit_gemm_bf16",
                            "GammaBetaBackwardCUDAKernel1<c10::BFloat16>",
                            "max_pool_backward_nhwc<c10::BFloat16, float>",
                        ][i % 3],
                        8,
                    )
            p.thread = 1
            with p.operator("Optimizer.step#AdamW.step", 40, cat="user_annotation"), p.operator("aten::_fused_adamw_", 10):
                p.kernel("multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>", 30, grid=320, block=512)
    return [p.end()]


def item_per_layer(mended: bool) -> list[Program]:
    p = Program()
    for s in range(25):
        with p.step(s):
            p.leaf("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 100)
            for _layer in range(24):
                for i in range(4):
                    with p.operator(["aten::mm", "aten::topk", "aten::index", "aten::mm"][i], 9, 1):
                        p.kernel(
                            [
                                "nvjet_tst_64x64_64x9_h_bz_TNT",
                                "sbtopk::gatherTopK<c10::BFloat16, unsigned int, 2, false>",
                                "index_elementwise_kernel<128, 4>",
                                "nvjet_tst_64x128_64x7_h_bz_TNN",
                            ][i],
                            20,
                        )
                if not mended:
                    p.item()
            p.item()
    return [p.end()]


def recompile_on_shape(mended: bool) -> list[Program]:
    p = Program()
    lens = [512, 512, 512, 640, 512, 640, 512, 768, 640, 512, 768, 512, 896, 512, 640, 896]
    seen = {512} if not mended else set(lens)
    for s, n in enumerate(lens):
        with p.step(s), p.operator(f"Torch-Compiled Region: 0/{len(seen)}", 20):
            if n not in seen:
                seen.add(n)
                with (
                    p.operator("_compile.compile_inner (dynamo_timed)", 15000),
                    p.operator("OutputGraph.call_user_compiler (dynamo_timed)", 5000),
                    p.operator("compile_fx.<locals>.fw_compiler_base (dynamo_timed)", 20000),
                    p.operator("compile_fx_inner (dynamo_timed)", 80000),
                ):
                    pass
            for i in range(18):
                with p.operator(f"triton_red_fused_{i}", 5):
                    p.kernel(f"triton_red_fused_{i}", 500, call=3000 if s == 0 and i == 0 else 5, grid=528)
    return [p.end()]


def empty_cache_in_step(mended: bool) -> list[Program]:
    p = Program()
    for s in range(20):
        with p.step(s):
            for _phase in range(3):
                if not mended:
                    if p.free:
                        p.call("cudaFree", max(max(p.free.values()) - p.now, 0) + 300)
                    with p.operator("aten::empty", 5):
                        p.call("cudaMalloc", 250)
                else:
                    p.leaf("aten::empty", 5)
                for _i in range(6):
                    with p.operator("aten::mm", 5):
                        p.kernel("nvjet_tst_128x128_64x6_h_bz_TNT", 300)
    return [p.end()]


def half_converted_gemms(mended: bool) -> list[Program]:
    p = Program()
    shapes = {"Input Dims": [[4096, 4096], [4096, 4096]], "Concrete Inputs": ["", ""]}
    for s in range(10):
        with p.step(s):
            with p.operator("aten::to", 2), p.operator("aten::_to_copy", 4), p.operator("aten::copy_", 3):
                p.copy("HtoD (Pageable -> Device)", 16_000_000, 1600, block=True)
            for i in range(8):
                if i % 2:
                    with p.operator("aten::mm", 7, **shapes, **{"Input type": ["c10::BFloat16", "c10::BFloat16"]}):
                        p.kernel(WIDE, 190, grid=132, block=384)
                elif mended:
                    with p.operator("aten::mm", 7, **shapes, **{"Input type": ["float", "float"]}):
                        p.kernel(
                            "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
                            370,
                            grid=1024,
                            block=384,
                        )
                else:
                    with p.operator("aten::mm", 7, **shapes, **{"Input type": ["float", "float"]}):
                        p.kernel(
                            "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_warpsize2x4x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
                            2600,
                            grid=1024,
                        )
    return [p.end()]


CASES = (
    Case(
        "throttled-run-ahead",
        NOTHING,
        "the host waits for the step before the last: back-pressure, the device never idles",
        throttled_run_ahead,
        fresh=True,
    ),
    Case("bursty-loader", "data-loader", "four equal workers: three batches at once, then a wait", bursty_loader, fresh=True),
    Case(
        "slow-device-in-rank-2",
        "waiting-for-ranks",
        "rank 2 of 4 has a throttled GPU; clocks 7 ms apart",
        slow_device_in_rank_2,
        fresh=True,
    ),
    Case(
        "unbucketed-allreduce",
        "exposed-communication",
        "gradients as one tensor after the backward pass, of two ranks",
        unbucketed_allreduce,
        fresh=True,
    ),
    Case("decode-batch-1", "host-bound", "100 small kernels a token, 15 µs of host each", decode_batch_1, fresh=True),
    Case(
        "backward-thread", "host-bound", "the autograd thread launches slowly, the main thread shows nothing", backward_thread, fresh=True
    ),
    Case("item-per-layer", "synchronise", "a token count read in every layer", item_per_layer, fresh=True),
    Case("recompile-on-shape", "compile", "three new lengths compile for 120 ms each", recompile_on_shape, fresh=True),
    Case("empty-cache-in-step", "allocation", "empty_cache() three times a step", empty_cache_in_step, fresh=True),
    Case("half-converted-gemms", "tensor-cores", "half of the products in fp32", half_converted_gemms, fresh=True),
)
