"""Which library's kernel an attention call runs: by library, version, the library's name of the kernel, and the GPU's architecture.

A name is "vllm 0.24.0/vllm_flash_attn_fa3", "vllm vllm_flash_attn", "sglang", or a kernel of `KERNELS` alone ("fa3"). A library's kernel
that is not in `TABLE` runs as the nearest that is, which is said; a name of no library is refused, and so is a kernel that the GPU's
architecture does not have.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from hotlap.core.errors import InputError, nearest
from hotlap.core.model.kernels.attention import Cases
from hotlap.core.model.kernels.versions import LIBRARIES

AMPERE, HOPPER, BLACKWELL, CONSUMER = "8", "9", "10", "12"  # compute capability, the major number; Ada is 8.9, GB202 12.0
RUNS: Mapping[str, tuple[str, ...]] = {  # kernel: architectures that it was compiled for; the others run everywhere
    "fa3": (HOPPER,), "fa3_sm80": (AMPERE,), "fa4": (HOPPER, BLACKWELL), "fmha": (HOPPER,), "cutlass": (BLACKWELL,), "gen": (BLACKWELL,),
}  # fmt: skip
KERNELS = ("fa2", "fa3", "fa3_sm80", "fa4", "flashinfer", "fmha", "fmha_mma", "cutlass", "gen", "triton", "triton_vllm", "xqa", "mmha")
ALONE = {"flash": "fa2"}  # PyTorch's scaled_dot_product_attention, its backend of this name
TABLE: Mapping[tuple[str, str], Mapping[str, str]] = {  # (library, its name): kernel by architecture; "" for all others
    # vllm `vllm/v1/attention/backends/fa_utils.py`, get_flash_attn_version: 3 on Hopper, 4 for heads that 3 does not take, else 2
    ("vllm", "vllm_flash_attn"): {HOPPER: "fa3", "": "fa2"},
    ("vllm", "vllm_flash_attn_fa2"): {"": "fa2"},
    ("vllm", "vllm_flash_attn_fa3"): {"": "fa3"},
    ("vllm", "vllm_flash_attn_fa4"): {"": "fa4"},
    # vllm `vllm/utils/flashinfer.py`, can_use_trtllm_attention: TensorRT-LLM's generated kernels on 10.x; else FlashInfer's own templates
    ("vllm", "vllm_flashinfer"): {BLACKWELL: "gen", "": "flashinfer"},
    ("vllm", "vllm_flashinfer_fiprefill"): {"": "flashinfer"},
    ("vllm", "vllm_flashinfer_fidecode"): {"": "flashinfer"},
    ("vllm", "vllm_triton_attn"): {"": "triton_vllm"},
    # sglang `flashattention_backend.py`; sgl_kernel.flash_attn.is_fa3_supported: version 3, from its sources for 8.x on Ampere and Ada
    ("sglang", "flash_attention"): {HOPPER: "fa3", "": "fa3_sm80"},
    # sglang `flashinfer_backend.py`: prefill by CUTLASS's kernel on 10.x (flashinfer `prefill.py`, determine_attention_backend)
    ("sglang", "flashinfer"): {BLACKWELL: "cutlass", "": "flashinfer"},
    ("sglang", "triton"): {"": "triton"},
    ("sglang", "trtllm_mha"): {"": "gen"},
    # TensorRT-LLM `cpp/tensorrt_llm/kernels/fmhaDispatcher.cpp` and `xqaDispatcher.cpp`: generated kernels on 10.x, else fmha_v2 and XQA
    ("trtllm", "torch_flow"): {HOPPER: "fmha", BLACKWELL: "gen", "": "fmha_mma"},
    ("trtllm", "torch_flow_flashinfer"): {BLACKWELL: "gen", "": "flashinfer"},
}
PATHS = {("trtllm", "torch_flow_flashinfer"): "sglang"}  # FlashInfer's wrapper: what runs beside the kernel is another library's like
USUAL: Mapping[str, Mapping[str, str]] = {  # where a library is named alone, by architecture
    "vllm": {BLACKWELL: "vllm_flashinfer", "": "vllm_flash_attn"}, "trtllm": {"": "torch_flow"},
    "sglang": {BLACKWELL: "trtllm_mha", CONSUMER: "triton", "": "flash_attention"},
}  # fmt: skip
PREFILL, DECODE = {"xqa": "fmha_mma", "mmha": "fmha_mma"}, {"cutlass": "flashinfer"}  # what stands in where a kernel has no such phase
_NAME = re.compile(r"(?P<library>[a-z]+(?:[-_]llm)?)(?:[ /]+v?(?P<version>\d[\w.+-]*))?(?:[ /]+(?P<kernel>[\w.-]+))?")


class Chosen(NamedTuple):
    """What a name stands for on a machine."""

    library: str  # "" where a kernel was named alone
    kernel: str
    sure: bool  # the library's kernel is in the table
    remarks: tuple[str, ...]


@functools.lru_cache(maxsize=1024)
def chosen(name: str, target: str) -> Chosen:
    """The kernel of a name on an architecture ("sm_90"; others count as Hopper, whose libraries they follow). Raises InputError."""
    plain, major = " ".join(name.strip().lower().split()), capability(target)
    if plain in KERNELS or plain in ALONE:
        _check_runs(plain, target, name)
        return Chosen("", ALONE.get(plain, plain), True, ())
    parsed = _NAME.fullmatch(plain)
    library = LIBRARIES.get(parsed["library"]) if parsed else None
    if parsed is None or library is None:
        raise InputError(f"attention has no implementation '{name}'; {nearest(plain, names())}")
    usual = USUAL[library].get(major, USUAL[library][""])
    kernel, remarks = parsed["kernel"] or usual, list[str]()
    if kernel in KERNELS and (library, kernel) not in TABLE:
        _check_runs(kernel, target, name)
        return Chosen(library, kernel, True, ())
    sure = (library, kernel) in TABLE
    if not sure:
        own = [one for of, one in TABLE if of == library]
        close = difflib.get_close_matches(kernel, own, 1, 0.8)
        same = close and re.sub(r"\d", "", kernel) == re.sub(r"\d", "", close[0])  # another number is another kernel, not a slip
        if close and not same and difflib.SequenceMatcher(None, kernel, close[0]).ratio() > 0.92:
            raise InputError(f"{library} has no attention kernel '{kernel}'; did you mean '{close[0]}'? valid: {', '.join(own)}")
        near = (close or difflib.get_close_matches(kernel, own, 1, 0.6) or [usual])[0]
        remarks.append(f"{library}'s kernel '{kernel}' was never measured: taken for the nearest, '{near}', with a wide interval")
        kernel = near
    runs = TABLE[library, kernel]
    ours = runs.get(major, runs.get("", ""))
    _check_runs(ours, target, name)
    return Chosen(PATHS.get((library, kernel), library), ours, sure, tuple(remarks))


def known(name: str) -> bool:
    """Whether it is a name of a library or a kernel, on any GPU."""
    plain = " ".join(name.strip().lower().split())
    parsed = _NAME.fullmatch(plain)
    return plain in KERNELS or plain in ALONE or (parsed is not None and parsed["library"] in LIBRARIES)


def _check_runs(kernel: str, target: str, name: str) -> None:
    have = RUNS.get(kernel, ())
    if target and have and capability(target) not in have:
        need = " and ".join(f"{major}.x" for major in have)
        raise InputError(f"'{name}' runs on NVIDIA's compute capability {need} only, and this GPU is {target}")


def capability(target: str) -> str:
    """The major number of a compile target: "sm_103" is 10."""
    number = target.removeprefix("sm_").rstrip("af")
    return number[:-1] if target.startswith("sm_") and number.isdigit() else HOPPER


def names() -> list[str]:
    """What is valid, as it is asked."""
    return [*LIBRARIES, *(f"{library} {kernel}" for library, kernel in TABLE), *KERNELS, *ALONE]


# ---------------------------------------------------------------- by shape


def of_cases(kernel: str, library: str, c: Cases, phase: str, target: str) -> Any:
    """The kernel of each case, where a library starts several by shape; one name where it is the same for all."""
    of = c.of
    if kernel == "fa3" and library == "vllm" and of.some(c.head_dim > 256):
        return of.where(c.head_dim > 256, "fa4", "fa3")  # beyond versions 2 and 3
    if phase == "prefill":
        if kernel == "fmha_mma" and of.some(c.q_bytes < 2):
            return of.where(c.q_bytes < 2, "fmha_qmma", "fmha_mma")
        single = kernel == "gen" and library == "vllm" and of.some(c.query == 1)  # vllm `split_decodes_and_prefills`
        return of.where(c.query == 1, "gen_single", "gen") if single else PREFILL.get(kernel, kernel)
    if kernel == "gen" and library == "trtllm" and of.some(c.group > 32):
        return of.where(c.group > 32, "mmha", "gen")  # `xqaDispatcher`: beyond what its generated kernels take in one block
    if kernel == "triton":
        return of.where(c.group > 1, "triton", "triton_mha")
    return _xqa(c, capability(target) == HOPPER) if kernel in ("fmha", "fmha_mma", "xqa") else DECODE.get(kernel, kernel)


def _xqa(c: Cases, hopper: bool) -> Any:
    """TensorRT-LLM `xqaDispatcher`: groups of 2 to 32, 8-bit caches by a kernel of Hopper's; else masked multi-head attention."""
    where, low = c.of.where, c.kv_bytes < 2
    shared = where(low, "xqa_fp8" if hopper else "xqa_mma_fp8", "xqa")
    return where((c.group > 1) & (c.group <= 32), shared, "mmha" if hopper else where(low, "mmha_fp8", "mmha"))
