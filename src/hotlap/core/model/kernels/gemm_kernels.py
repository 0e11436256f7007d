"""Kernels of matrix products that were measured: by library, kernel, type and architecture, with what is published of each.

A name is "library/kernel" or "library version/kernel". Where a kernel is not known on an architecture, the nearest is taken: the same
kernel on another, another kernel of the library for the type, the library that everything is compared with.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from typing import NamedTuple

from hotlap.core.errors import InputError, nearest
from hotlap.core.model.kernels.base import Coefficients, stored


class TileRule(NamedTuple):
    """One line of a library's dispatch: the tile that it takes up to these sizes, where no line before does."""

    m_upto: float
    n_upto: float
    tile_m: int
    tile_n: int
    cluster: int = 1  # tiles, one under the other, that run together


ANY = float("inf")
# vllm-project/vllm, csrc/quantization/w8a8/cutlass: c3x/scaled_mm_sm90_fp8_dispatch.cuh (commit 68f442eb; operands change places up to 64
# rows), scaled_mm_c2x_sm89_fp8_dispatch.cuh (commit 42d3ba86; n as its next power of two)
SM90_FP8 = (
    TileRule(64, 1280, 16, 64), TileRule(16, ANY, 16, 64), TileRule(64, ANY, 64, 64), TileRule(128, ANY, 64, 128, 2),
    TileRule(ANY, ANY, 128, 128, 2),
)  # fmt: skip
SM89_FP8 = (
    TileRule(16, 8192, 16, 64), TileRule(16, 16384, 16, 128), TileRule(32, 8192, 32, 64), TileRule(32, 16384, 32, 128),
    TileRule(32, ANY, 32, 64),
    TileRule(64, 8192, 64, 64), TileRule(64, 16384, 64, 128), TileRule(64, ANY, 64, 64), TileRule(128, 8192, 64, 128),
    TileRule(128, 16384, 128, 128), TileRule(128, ANY, 128, 64), TileRule(256, 4096, 64, 128), TileRule(ANY, 4096, 128, 128),
    TileRule(256, ANY, 128, 128), TileRule(ANY, 8192, 256, 128), TileRule(ANY, ANY, 128, 128),
)  # fmt: skip
FP8_BLOCKS = (TileRule(64, ANY, 64, 64), TileRule(128, ANY, 64, 128, 2), TileRule(ANY, ANY, 128, 128, 2))


class ProductKernel(NamedTuple):
    """What is published of a kernel, and of how its measurement calls it."""

    tiles: str = "all"  # that its library chooses from: all, tall (128 rows and more), blocks (of scales), choices
    choices: tuple[TileRule, ...] = ()
    splits: bool = True  # whether it may split k
    copies: float = 5.0  # sets of weights that calls go through in turn; 0: as many as fill L2, at most 5
    turns_all: bool = False  # activations and results as well
    since: int = 0  # the oldest NVIDIA architecture that it runs on; 0: any
    by_rows: bool = False  # activations are quantised by a block of threads for each row
    host: bool = False  # timed with the host's launches: no graph, so a short call takes the time of the host


GENERATIONS: Mapping[str, str] = {
    "sm_80": "sm_80", "sm_86": "sm_89", "sm_89": "sm_89", "sm_120": "sm_89", "sm_90": "sm_90", "sm_90a": "sm_90", "sm_100": "sm_100",
    "sm_103": "sm_100",
}  # fmt: skip
"""Architecture: that whose kernels it runs, of those that were measured. GA102 and GB202 feed their matrix units from registers and have
GDDR, as Ada; Blackwell Ultra runs Blackwell's kernels (CUDA C++ Programming Guide, family-specific features)."""
BESIDES = ("extra_us", "host_us", "pass_factor", "pass_row_ns")  # coefficients of what stands beside a product
TYPO = 0.95  # how alike two names are of which one is a slip of the other
PLAIN = "vllm/torch.nn.functional.linear"
LIKE: Mapping[str, str] = {"sm_100": "sm_90", "sm_90": "sm_100", "sm_89": "sm_80", "sm_80": "sm_89"}  # the nearest generation
# How often weights return: aiconfigurator, collector/{vllm,sglang,trtllm}/collect_gemm.py (commits 00e9bded, 2ec2c274, 00095909):
# vLLM 6 layers, 1 for blocks of fp8 and for nvfp4; SGLang 6 closures with operands of their own; TensorRT-LLM as many as fill L2, 1 to 5.
VLLM, ONCE, TRTLLM = ProductKernel(copies=6.0), ProductKernel(copies=1.0), ProductKernel(copies=0.0)
SGLANG = ProductKernel(copies=6.0, turns_all=True)
HOST = ONCE._replace(host=True)  # the same collector: use_cuda_graph=gemm_type != "fp8_block"
# DeepGEMM's README: Hopper and Blackwell; NVFP4 has a matrix unit since Blackwell; fp8 since Ada (CUDA C++ Programming Guide)
FP8, HOPPER, BLACKWELL = 89, 90, 100
KERNELS: Mapping[str, ProductKernel] = {
    "sglang/sglang.bf16": SGLANG,
    "sglang/sglang_torch_linear.bf16": SGLANG,
    "trtllm/torch_flow.bf16": TRTLLM,
    PLAIN + ".bf16": VLLM,
    "trtllm/torch_flow.fp8": TRTLLM,
    "vllm/CutlassFP8ScaledMMLinearKernel.fp8": VLLM._replace(tiles="choices", choices=SM90_FP8, splits=False),
    "vllm/CutlassFP8ScaledMMLinearKernel.fp8@sm_89": VLLM._replace(tiles="choices", choices=SM89_FP8, splits=False),
    "sglang/sglang_sgl_kernel_fp8_scaled_mm.fp8": SGLANG._replace(since=FP8, by_rows=True, splits=False),
    "trtllm/torch_flow.fp8_block": TRTLLM._replace(tiles="blocks", splits=False),
    "trtllm/deepgemm.fp8_block": TRTLLM._replace(since=HOPPER, tiles="blocks", splits=False),
    "vllm/CutlassFp8BlockScaledMMKernel.fp8_block": HOST._replace(tiles="choices", choices=FP8_BLOCKS, splits=False),
    "vllm/DeepGemmFp8BlockScaledMMKernel.fp8_block": HOST._replace(since=HOPPER, tiles="blocks", splits=False),
    "vllm/FlashInferFp8BlockScaledMMKernel.fp8_block": HOST._replace(since=HOPPER, tiles="blocks", splits=False),
    "vllm/TritonFp8BlockScaledMMKernel.fp8_block": HOST._replace(splits=False),
    "sglang/sglang_deepgemm_gemm_nt_f8f8bf16.fp8_block": SGLANG._replace(since=HOPPER, tiles="blocks", splits=False),
    "sglang/sglang_flashinfer_cutedsl_nvfp4.nvfp4": SGLANG._replace(since=BLACKWELL, tiles="tall", by_rows=True, splits=False),
    "trtllm/torch_flow.nvfp4": TRTLLM._replace(tiles="tall", by_rows=True, splits=False),
    "vllm/vllm_default.nvfp4": ONCE._replace(tiles="tall", by_rows=True, splits=False),
}
TYPES: Mapping[str, str] = {"fp4": "nvfp4", "fp16": "bf16"}  # element type: as kernels name it; both of 16 bits run at one rate
ALONE = "trtllm/torch_flow.fp8"  # reaches the most of those of 8 bits
USUAL: Mapping[str, tuple[str, ...]] = {
    "bf16": (f"{PLAIN}.bf16", "trtllm/torch_flow.bf16"), "fp8": (ALONE,), "fp8_block": (ALONE,),
    "nvfp4": ("trtllm/torch_flow.nvfp4", ALONE),
}  # fmt: skip
"""Kernels for a type that nobody names: the first that was measured there, without the pass that quantises activations."""


class KernelMatch(NamedTuple):
    """The kernel that stands for a name: its traits, its coefficients, and how near it is."""

    kernel: ProductKernel
    coefficients: Mapping[str, float]
    near: str  # "" the kernel itself; else the key of the one that was taken for it


USUAL_KERNEL = ProductKernel()


def generation(target: str) -> str:
    """The architecture whose kernels a machine runs, of those that were measured; "" for others."""
    return GENERATIONS.get(target, "")


def kernel(key: str, where: str = "") -> ProductKernel:
    """What is published of a kernel, as it is on an architecture."""
    return KERNELS.get(f"{key}@{where}") or KERNELS.get(key) or ProductKernel()


def plain(name: str) -> str:
    """A kernel's name without the version of its library."""
    library, slash, kernel = name.partition("/")
    return f"{library.split(' ')[0]}{slash}{kernel}"


def libraries() -> list[str]:
    return sorted({name.partition("/")[0] for name in KERNELS})


def check(name: str, target: str = "") -> None:
    """Raises InputError for a name of no known library, one that nearly is a measured kernel's, and one that `target` cannot run."""
    library, slash, _ = plain(name).partition("/")
    valid = sorted({key.partition("@")[0].rpartition(".")[0] for key in KERNELS})
    typo = plain(name) not in valid and difflib.get_close_matches(plain(name), valid, 1, TYPO)
    if not slash or library not in libraries() or typo:
        raise InputError(f"gemm has no implementation '{name}'; {nearest(plain(name), valid)}")
    since = min((kernel(key).since for key in KERNELS if key.partition("@")[0].rpartition(".")[0] == plain(name)), default=0)
    have = target.removeprefix("sm_").rstrip("a")
    if since and not (have.isdigit() and int(have) >= since) and target:
        raise InputError(f"'{name}' is a kernel for sm_{since} and later; the machine is {target}", "choose another one, or none")


def find(known: Coefficients, name: str, dtype: str, target: str) -> KernelMatch:
    """By coefficients `known`. Without a name the product alone, of the usual kernel for the type."""
    return _stored(name, dtype, target) if known is stored("gemm") else _found(known, name, dtype, target)


@functools.lru_cache(maxsize=1000)
def _stored(name: str, dtype: str, target: str) -> KernelMatch:
    return _found(stored("gemm"), name, dtype, target)


def forget() -> None:
    """After a fit that stored new coefficients."""
    _stored.cache_clear()


def _found(known: Coefficients, name: str, dtype: str, target: str) -> KernelMatch:
    where, kind, asked = generation(target), TYPES.get(dtype, dtype), plain(name)
    base = {**known["base"], **known.get(where, {})}
    wanted = ([f"{asked}.{kind}"] if asked else []) + _others(asked, kind)
    near = (where, LIKE.get(where, ""), *(one for one in ("sm_80", "sm_89", "sm_90", "sm_100") if one not in (where, LIKE.get(where, ""))))
    places = [(key, at) for key in wanted for at in near] if asked else [(key, at) for at in near for key in wanted]
    for key, at in places:
        own = known.get(f"{key}@{at}")
        if own is not None:
            exact = at == where and (key == f"{asked}.{kind}" if asked else kind in USUAL)
            chosen, own = kernel(key, where), {**own, **_host(known, name, key, at)}
            if not asked:  # the product alone
                chosen = chosen._replace(copies=ProductKernel().copies, turns_all=False, by_rows=False, host=False)
                own = {n: v for n, v in own.items() if n not in BESIDES}
            return KernelMatch(chosen, {**base, **own}, "" if exact else f"{key}@{at}")
    return KernelMatch(kernel(f"{asked}.{kind}", where), base, "base")


def _others(name: str, kind: str) -> list[str]:
    """Keys of kernels that may stand for one, the nearest first: of its library for the type, then the usual ones."""
    library = name.partition("/")[0]
    same = [key for key in KERNELS if name and key.startswith(f"{library}/") and key.endswith(f".{kind}")]
    return list(dict.fromkeys([*same, *USUAL.get(kind, ()), f"{PLAIN}.bf16"]))


def _host(known: Coefficients, name: str, key: str, where: str) -> Mapping[str, float]:
    """What the host of a kernel timed without a graph needed, with that version of the library or the newest."""
    if not kernel(key, where).host:
        return {}
    library, _, rest = key.partition("/")
    asked = f"{name.partition('/')[0]}/{rest}@{where}"
    own = [one for one in known if one.endswith(f"/{rest}@{where}") and one.startswith(f"{library} ")]
    return known[asked if asked in own else max(own)] if own else {}

