"""Cases of one accelerator, written by hand. Each truth was written from what the program does, before the rules were tried on it."""

from __future__ import annotations

from benchmarks.advice.case import NOTHING, Case
from benchmarks.advice.program import A100, MI300X, Program, collective

GEMM, GEMM_2 = "nvjet_tst_128x256_64x4_2x1_v_bz_coopB_TNT", "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
AMPERE = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"
SGEMM = "ampere_sgemm_128x128_tn"
ATTENTION = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>>"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>"
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::{}<float>, std::array<char*, 3ul>>"
CATEGORY = "user_annotation"


def product(program: Program, us: float, before: float = 7.0, name: str = GEMM, grid: int = 264, **args: object) -> None:
    with program.operator("aten::mm", before, 1.0, **args):
        program.kernel(name, us, grid=grid)


def images_from_disk(mended: bool) -> Program:
    program = Program()
    for step in range(20):
        with program.step(step):
            program.leaf(LOADER, 60 if mended else 9_000, CATEGORY)
            with program.operator("aten::to", 4), program.operator("aten::copy_", 4):
                program.copy("HtoD (Pinned -> Device)", 19_000_000, 400)
            for _ in range(12):
                product(program, 500)
            program.item()
    return program.end()


def boolean_masks(mended: bool) -> Program:
    program = Program()
    for step in range(20):
        with program.step(step):
            for _ in range(12):
                for _ in range(3):
                    product(program, 40, 10)
                if mended:
                    with program.operator("aten::where", 10):
                        program.kernel("void at::native::elementwise_kernel<128, 4, where_kernel_impl>", 12)
                else:
                    with program.operator("aten::index", 6), program.operator("aten::nonzero", 6):
                        program.kernel("void at_cuda_detail::cub::DeviceReduceSingleTileKernel<int>", 4)
                        program.copy("DtoH (Device -> Pageable)", 4, 1)
                        program.wait()
                        program.kernel("void at::native::write_indices<long>", 8)
            program.item()
    return program.end()


def synchronised_to_time(mended: bool) -> Program:
    """The user synchronises after every layer to time it; on AMD."""
    program = Program(gpu=MI300X)
    for step in range(15):
        with program.step(step):
            for _ in range(30):
                with program.operator("aten::addmm", 12, 2):
                    program.kernel("Cijk_Alik_Bljk_BBS_BH_MT128x128x64_MI16x16x1_SN_K1", 45, grid=608)
                with program.operator("aten::gelu", 8, 1):
                    program.kernel("void at::native::vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>", 20, grid=1216)
                if not mended:
                    program.wait("DeviceSynchronize")
            program.item()
    return program.end()


def joined_late(mended: bool) -> Program:
    """The profiler was started while 4 ms of work were queued; then each layer reads a flag."""
    program = Program()
    program.inflight(GEMM, 400, 10)
    for step in range(12):
        with program.step(step):
            for _ in range(25):
                product(program, 60, 25)
                product(program, 60, 25, GEMM_2)
                if not mended:
                    program.item()
            program.item()
    return program.end()


SMALL = (("aten::addmm", GEMM, 6.0), ("aten::native_layer_norm", NORM, 4.0), ("aten::_flash_attention_forward", ATTENTION, 7.0),
         ("aten::index_select", "void at::native::indexSelectLargeIndex<c10::BFloat16, long>", 4.0), ("aten::_softmax", "void softmax_warp_forward<float>", 5.0))  # fmt: skip


def small_model(mended: bool, gpu: dict[str, object] | None = None) -> Program:
    program = Program(gpu=gpu) if gpu else Program()
    for step in range(25):
        with program.step(step):
            if mended:
                program.graph([(SMALL[i % 5][1], SMALL[i % 5][2]) for i in range(150)])
            else:
                for i in range(150):
                    operator, kernel, us = SMALL[i % 5]
                    with program.operator(operator, 14, 3):
                        program.kernel(kernel, us)
            program.item()
    return program.end()


def wrapped_calls(mended: bool) -> Program:
    """Hooks of a framework run 90 µs of Python around each operator, without events."""
    program = Program()
    for step in range(20):
        with program.step(step):
            for i in range(60):
                program.host(4 if mended else 90)
                product(program, 30, 8, GEMM if i % 2 else GEMM_2)
    return program.end()


def hip_launches(mended: bool) -> Program:
    program = Program(gpu=MI300X)
    for step in range(15):
        with program.step(step):
            for i in range(80):
                with program.operator("aten::linear", 4 if mended else 18, 1), program.operator("aten::addmm", 3 if mended else 16, 1):
                    program.kernel("Cijk_Alik_Bljk_BBS_BH_MT64x64x64_MI16x16x1_SN_K1", 14, grid=304 * (1 + i % 2))
    return program.end()


def plain_adam(mended: bool) -> Program:
    """An optimiser of six pointwise kernels for each of 150 parameters; the host is ahead. Fused, memory is read and written once: a third."""
    program = Program()
    names = ("MulFunctor", "CUDAFunctor_add", "AddcmulFunctor", "sqrt_kernel_cuda", "CUDAFunctor_add", "AddcdivFunctor")
    for step in range(8):
        with program.step(step):
            for _ in range(40):
                product(program, 250, 6)
            with program.operator("Optimizer.step#AdamW.step", 20, 10, CATEGORY):
                if mended:
                    with program.operator("aten::_fused_adamw_", 20):
                        program.kernel("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>", 150 * 6 * 9 / 3)
                else:
                    for i in range(150 * 6):
                        with program.operator("aten::add_", 2):
                            program.kernel(POINTWISE.format(names[i % 6]), 9, call=4)
    return program.end()


def pointwise_alone(mended: bool) -> Program:
    """What a tool records that sees only the device: chains of eight pointwise kernels between products."""
    program = Program()
    for _ in range(200):
        program.kernel(GEMM, 60)
        for i in range(1 if mended else 8):
            program.kernel(POINTWISE.format(f"Functor{i}"), 6, call=4)
    return program.end()


def gathered_late(mended: bool) -> Program:
    """FSDP without prefetch: each layer's all-gather begins when the layer before it has ended."""
    program = Program(ranks=8)
    for step in range(8):
        with program.step(step):
            for _ in range(12):
                gather(program, mended)
                for _ in range(2):
                    product(program, 450)
    return program.end()


def gather(program: Program, early: bool) -> None:
    described = collective("_allgather_base", 100_000_000, 8)
    ready = max(program.free.get(20, 0.0), program.free.get(7, 0.0) - 900 if early else program.free.get(7, 0.0)) + 1
    with program.operator("FSDP::all_gather", 8, 2, CATEGORY), program.operator("record_param_comms", 4, 1, **described):
        program.kernel(
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            400,
            20,
            grid=16,
            start=max(ready, program.now + 10),
            **described,
        )
    program.free[7] = max(program.free.get(7, 0.0), program.free[20])


def pageable_batches(mended: bool) -> Program:
    """64 MB a step from pageable memory at 5 GB/s; mended: pinned, 25 GB/s, on a stream of its own, one step ahead."""
    program = Program()
    for step in range(15):
        with program.step(step):
            with program.operator("aten::to", 3), program.operator("aten::_to_copy", 3), program.operator("aten::copy_", 3):
                if mended:
                    program.copy("HtoD (Pinned -> Device)", 64_000_000, 2_560, stream=14)
                else:
                    program.copy("HtoD (Pageable -> Device)", 64_000_000, 12_800, block=True)
            if step == 0 or not mended:
                program.free[7] = max(program.free.values())
            for _ in range(20):
                product(program, 700)
    return program.end()


def grown_by_cat(mended: bool) -> Program:
    """Decoding that makes its cache anew with torch.cat in every layer: copies within the device."""
    program = Program()
    for step in range(30):
        with program.step(step):
            for _ in range(24):
                product(program, 60, 5)
                if not mended:
                    with program.operator("aten::cat", 5):
                        program.copy("DtoD (Device -> Device)", 100_000_000, 70)
                with program.operator("aten::_flash_attention_forward", 5):
                    program.kernel(ATTENTION, 50)
    return program.end()


def plain_floats(mended: bool) -> Program:
    """fp32 products on an A100 at 17 TFLOP/s; TF32 would reach 120: 8192 × 4096 × 4096."""
    program = Program(gpu=A100)
    for step in range(6):
        with program.step(step):
            for _ in range(10):
                product(
                    program,
                    2_300 if mended else 16_000,
                    name="ampere_tf32_s1688gemm_128x256_ldg4_stages_32x3_tn" if mended else SGEMM,
                    grid=1024,
                )
                with program.operator("aten::gelu", 4):
                    program.kernel(POINTWISE.format("GeluCUDAKernelImpl"), 180, grid=32768)
    return program.end()


def single_requests(mended: bool) -> Program:
    """Only the device was recorded: requests one at a time, twelve blocks on 108 multiprocessors; mended: nine in a batch."""
    program = Program(gpu=A100)
    for _ in range(20 if mended else 180):
        for i in range(5):
            program.kernel(AMPERE if i % 2 else ATTENTION, 90, grid=12 * (9 if mended else 1))
    return program.end()


def odd_sides(mended: bool) -> Program:
    """bf16 products of 4095 columns, for which the library has only a slow kernel: 4.2 ms; 4096 aligned ones take 0.53 ms (260 TFLOP/s)."""
    program = Program(gpu=A100)
    side = 4096 if mended else 4095
    shapes = {
        "Input Dims": [[4096, side], [side, 4096]],
        "Input type": ["c10::BFloat16", "c10::BFloat16"],
        "Input Strides": [[side, 1], [4096, 1]],
    }
    whole = {
        "Input Dims": [[4096, 4096], [4096, 4096]],
        "Input type": ["c10::BFloat16", "c10::BFloat16"],
        "Input Strides": [[4096, 1], [4096, 1]],
    }
    for step in range(10):
        with program.step(step):
            for _ in range(3):
                product(program, 530, name=AMPERE, grid=512, **whole)
            product(
                program,
                530 if mended else 4_200,
                name=AMPERE if mended else "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_32x1_nn_align1",
                grid=4096,
                **shapes,
            )
    return program.end()


def strided_sum(mended: bool) -> Program:
    """A sum of two fp32 tensors of 64 Mi elements, one transposed: 2.4 ms; at 85 % of 2.04 TB/s it is 0.46 ms. No calls of the driver are recorded."""
    program = Program(gpu=A100)
    side = 8192
    strides = [[side, 1], [side, 1] if mended else [1, side], []]
    sums = {
        "Input Dims": [[side, side], [side, side], []],
        "Input type": ["float", "float", "Scalar"],
        "Input Strides": strides,
        "Concrete Inputs": ["", "", "1"],
    }
    dims = {
        "Input Dims": [[4096, 4096], [4096, 4096]],
        "Input type": ["c10::BFloat16", "c10::BFloat16"],
        "Input Strides": [[4096, 1], [4096, 1]],
    }
    for step in range(10):
        with program.step(step):
            product(program, 530, name=AMPERE, grid=512, **dims)
            with program.operator("aten::add", 6, 1, **sums):
                program.kernel(
                    "void at::native::elementwise_kernel<128, 2, gpu_kernel_impl_nocast<CUDAFunctor_add<float>>>",
                    465 if mended else 2_400,
                    grid=65536,
                )
    return program.end()


def too_fast(mended: bool) -> Program:
    """8192³ in bf16 within 2.0 ms is 550 TFLOP/s; an A100 does 312: the trace names the wrong GPU."""
    program = Program(gpu=A100)
    dims = {
        "Input Dims": [[8192, 8192], [8192, 8192]],
        "Input type": ["c10::BFloat16", "c10::BFloat16"],
        "Input Strides": [[8192, 1], [8192, 1]],
    }
    for step in range(8):
        with program.step(step):
            for _ in range(6):
                product(program, 2_000, name=AMPERE, grid=2048, **dims)
    return program.end()


def kept_graphs(mended: bool) -> Program:
    """total_loss += loss: 12 MiB more are held at the end of every step."""
    program, held, mib = Program(), 2_000 << 20, 1 << 20
    for step in range(30):
        with program.step(step):
            for size in (80 * mib, 60 * mib, -60 * mib, -80 * mib if mended else -68 * mib):
                held += size
                product(program, 600)
                moment = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 4000, "tid": 1, "ts": program.now}
                described = {
                    "Bytes": size,
                    "Total Allocated": held,
                    "Total Reserved": 8_000 << 20,
                    "Device Type": 1,
                    "Device Id": 0,
                    "Addr": 139_000_000_000 + step,
                }
                program.events.append(moment | {"args": described})
    return program.end()


def collected_garbage(mended: bool) -> Program:
    """Every tenth step Python's collector stops the main thread for 40 ms."""
    program = Program()
    for step in range(40):
        with program.step(step):
            for i in range(20):
                product(program, 300)
                if i == 12 and step % 10 == 7 and not mended:
                    program.host(40_000)
            program.item()
    return program.end()


def built_in_the_first_step(mended: bool) -> Program:
    """A kernel is compiled from source by NVRTC in the first step: 400 ms, once."""
    program = Program()
    for step in range(25):
        with program.step(step):
            for i in range(20):
                if step == 0 and i == 4 and not mended:
                    with program.operator("aten::special_bessel_j0", 200):
                        program.call("nvrtcCompileProgram", 400_000)
                        program.call("cuModuleLoadData", 900)
                        program.kernel("special_bessel_j0_kernel", 20)
                product(program, 300)
            program.item()
    return program.end()


def growing_batches(mended: bool) -> Program:
    """Sequences grow, so in every step the caching allocator asks the driver for six larger blocks, 900 µs each."""
    program = Program()
    for step in range(20):
        with program.step(step):
            for _ in range(6):
                with program.operator("aten::empty", 4, 1):
                    if not mended:
                        program.call("cudaMalloc", 900)
                for _ in range(3):
                    product(program, 150)
            program.item()
    return program.end()


def full_buffers(mended: bool) -> Program:
    """The profiler takes 5 ms, eight times in ten steps, to fetch and flush its buffers, within launches."""
    program = Program()
    for step in range(10):
        with program.step(step):
            for i in range(40):
                with program.operator("aten::mm", 9, 1):
                    if step < 8 and i == 20 and not mended:
                        program.add("overhead", "Activity Buffer Request", program.thread, program.now + 0.5, 5_000)
                        program.kernel(GEMM, 60, call=5_002)
                    else:
                        program.kernel(GEMM, 60)
            program.item()
    return program.end()


def rewards_in_python(mended: bool) -> Program:
    """Between two phases of each step the main thread computes rewards in Python, marked by the program; mended: in other processes."""
    program = Program()
    for step in range(15):
        with program.step(step):
            for _ in range(10):
                product(program, 600)
            program.item()
            with program.operator("compute_rewards", 300 if mended else 8_000, 0, CATEGORY):
                pass
            for _ in range(10):
                product(program, 600, name=GEMM_2)
            program.item()
    return program.end()


def one_long_gap(mended: bool) -> Program:
    """No steps: a script parses a file, without events, between two phases of device work."""
    program = Program()
    for phase in range(2):
        for _ in range(150):
            with program.operator("aten::mm", 7):
                program.kernel(GEMM if phase else GEMM_2, 200)
        program.item()
        if not phase and not mended:
            program.host(25_000)
    return program.end()


def loaded_lazily(mended: bool) -> Program:
    """The first launch of one kernel loads its module: 70 ms in the first of twelve steps."""
    program = Program()
    for step in range(12):
        with program.step(step):
            for i in range(20):
                with program.operator("aten::mm", 7, 1):
                    program.kernel(GEMM_2 if i == 3 else GEMM, 400, call=70_000 if step == 0 and i == 3 and not mended else 5)
            program.item()
    return program.end()


def large_products(mended: bool) -> Program:
    del mended
    program = Program()
    for step in range(10):
        with program.step(step):
            for i in range(24):
                product(program, 900, name=GEMM if i % 2 else GEMM_2)
                with program.operator("aten::_flash_attention_forward", 5):
                    program.kernel(ATTENTION, 700, grid=1024)
            program.item()
    return program.end()


def replayed_graph(mended: bool) -> Program:
    """Decoding by a CUDA graph: short kernels without gaps, and one token read per step, which the next step needs."""
    del mended
    program = Program()
    for step in range(30):
        with program.step(step):
            program.graph([(SMALL[i % 5][1], 9.0 + 2 * (i % 3)) for i in range(400)])
            program.item()
    return program.end()


def device_alone_busy(mended: bool) -> Program:
    """Only the device was recorded, and it is busy with what it does well."""
    del mended
    program = Program()
    for i in range(300):
        program.kernel((GEMM, ATTENTION, GEMM_2)[i % 3], 350, grid=528)
    return program.end()


CASES = (
    Case("images-from-disk", "data-loader", "each batch takes the loader 9 ms, the device works 6 ms", images_from_disk),
    Case("boolean-masks", "synchronise", "a boolean mask in every layer makes nonzero wait", boolean_masks),
    Case("synchronised-to-time", "synchronise", "AMD; a synchronise after every layer", synchronised_to_time),
    Case("joined-late", "synchronise", "work in flight at the start, then a flag read in every layer", joined_late),
    Case("small-model", "host-bound", "150 different small kernels a step, an operator each", small_model),
    Case("wrapped-calls", "host-bound", "90 µs of hooks around every operator of 30 µs", wrapped_calls),
    Case("hip-launches", "host-bound", "AMD; nested operators of 40 µs for kernels of 14 µs", hip_launches),
    Case("plain-adam", "tiny-kernels", "an optimiser of 900 pointwise kernels a step", plain_adam),
    Case("pointwise-alone", "tiny-kernels", "device only; chains of eight pointwise kernels", pointwise_alone, leave_out="host"),
    Case("gathered-late", "exposed-communication", "FSDP without prefetch, one rank of eight", gathered_late),
    Case("pageable-batches", "copies", "64 MB a step from pageable memory", pageable_batches),
    Case("grown-by-cat", "copies", "the cache is copied within the device in every layer", grown_by_cat),
    Case("plain-floats", "tensor-cores", "fp32 products on an A100", plain_floats),
    Case("plain-floats-alone", "tensor-cores", "the same, device only", plain_floats, leave_out="host"),
    Case("single-requests", "small-grid", "device only; kernels of 12 blocks", single_requests, leave_out="host"),
    Case("odd-sides", "below-limit", "products with 4095 columns", odd_sides),
    Case("strided-sum", "below-limit", "no driver calls; a sum of a transposed tensor at a fifth of the bandwidth", strided_sum, leave_out="calls"),
    Case("too-fast", "impossible", "products at 1.8 times the peak of the GPU that the trace names", too_fast, no_gain=True),
    Case("kept-graphs", "memory-growth", "12 MiB more in every step", kept_graphs, no_gain=True),
    Case("collected-garbage", "slow-steps", "40 ms without events in every tenth step", collected_garbage),
    Case("built-in-the-first-step", "compile", "NVRTC compiles once, 400 ms", built_in_the_first_step),
    Case("growing-batches", "allocation", "six cudaMalloc of 900 µs a step", growing_batches),
    Case("full-buffers", "profiler-overhead", "the profiler's buffers take 40 of 57 ms", full_buffers),
    Case("rewards-in-python", "host-code", "8 ms of the program's Python in every step", rewards_in_python),
    Case("one-long-gap", "host-code", "no steps; one gap of 25 ms without events", one_long_gap),
    Case("loaded-lazily", "first-use", "one launch of 70 ms in the first of twelve steps", loaded_lazily),
    Case("large-products", NOTHING, "bf16 products and attention, the host ahead", large_products),
    Case("replayed-graph", NOTHING, "decoding by a CUDA graph, a token read per step", replayed_graph),
    Case("device-alone-busy", NOTHING, "device only; busy all the time", device_alone_busy, leave_out="host"),
)  # fmt: skip
