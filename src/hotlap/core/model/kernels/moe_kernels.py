"""Which kernel computes a mixture of experts: by library, kernel and architecture, with what its public source says about it.

A name is the kernel's as aiconfigurator publishes it ("vllm_fused_moe"), or with its library and version before it
("vllm 0.22.0/vllm_fused_moe"). A kernel that the table lacks is taken for the known one of its library that shares most words, and that
is said; a name of no known library is refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from hotlap.core.errors import InputError, nearest

ARCHITECTURES = {  # by what compilers call them: code is built anew for each
    "sm_80": "ampere", "sm_86": "ampere", "sm_89": "ada", "sm_90": "hopper", "sm_100": "blackwell", "sm_103": "blackwell", "sm_120": "ada",
}  # fmt: skip
"""sm_120 multiplies by mma.sync as Ada does (PTX ISA: tcgen05 is of sm_100 and sm_103 alone), so libraries run what they run there."""


class Kernel(NamedTuple):
    """One kernel of a library, and what sets it apart from others of its family."""

    family: str  # of coefficients
    rule: str = "tuned"  # how its tile is chosen: tuned (the best of many), or a library's fixed rule
    remote: float = 0.0  # share of the rows of a token's other experts that it multiplies too
    all_rows: bool = False  # activation and sum pass over the rows of other ranks too
    map_us: float = 0.0  # launches that find the experts of this rank, where ranks share them
    sort_us: float = 0.0  # launches that choose more than 16 experts a token
    fused: bool = False  # activation inside the first product
    sums: bool = True  # adds up each token's experts
    least: int = 16  # rows of its smallest tile
    gate: str = ""  # its own gate keeps groups of experts: "always", or of "deepseek" alone
    slower: Mapping[str, float] = MappingProxyType({})  # by type, than the coefficients of its family say
    defect: str = ""  # of this build: never what another kernel is taken for


class Found(NamedTuple):
    """The kernel that answers for a name."""

    kernel: Kernel
    known: bool  # measured by this name on this architecture
    note: str  # what is to be said


HOST = "vLLM 0.22 ran its 4-bit experts at one token alone, in 61 to 66 us on H200 and B200 alike: the host's time"
SLOW = "vLLM 0.24's fp8 CUTLASS experts take three to four times what their siblings take: a defect of that build"
VLLM = Kernel("triton", "vllm", all_rows=True, map_us=7.0)  # fused_moe.py: get_default_config; expert_map leaves rows of others in the passes
SGLANG = Kernel("sglang", "sglang", remote=1.0)  # topk_ids.clamp(min=0) sends them to expert 0 (aiconfigurator, sglang/collect_moe.py)
MARLIN = Kernel("marlin", "marlin", all_rows=True, map_us=12.0)  # fused_marlin_moe: activation and sum over the rows of all tokens
WNA16 = Kernel("wna16", "vllm", all_rows=True, defect=HOST)  # fused_experts takes Triton's or moe_wna16's kernel, whatever the collector calls it
OGS = Kernel("matmul_ogs", "ogs", all_rows=True, map_us=28.0, fused=True)  # OpenAI's triton_kernels: SwiGLU in the epilogue
CUTLASS = Kernel("cutlass", sort_us=16.0)  # TensorRT-LLM's grouped products, profiled by its autotuner; RenormalizeMoeRoutingMethod leaves
# many choices to torch.topk
GEN = Kernel("gen", gate="deepseek", least=8, fused=True)  # trtllm-gen: cubins of sm_100 and sm_103, a tile of 8 to 128 tokens beside 128 weights
# (library, kernel, architecture; "" is any): versions measured, kernel
TABLE: dict[tuple[str, str, str], tuple[str, Kernel]] = {
    ("vllm", "vllm_fused_moe", ""): ("0.22.0", VLLM),
    ("vllm", "vllm_unquantizedfusedmoe_triton_tritonexperts", ""): ("0.24.0", VLLM),
    ("vllm", "vllm_fp8moe_triton_tritonexperts", ""): ("0.24.0", VLLM),
    ("vllm", "vllm_modeloptfp8moe_triton_tritonexperts", ""): ("0.24.0", VLLM),
    ("vllm", "vllm_fp8moe_flashinfer_cutlass_flashinferexperts", ""): ("0.24.0", Kernel("flashinfer")),
    ("vllm", "vllm_modeloptfp8moe_flashinfer_cutlass_flashinferexperts", "hopper"): ("0.24.0", Kernel("flashinfer", slower={"fp8": 3.4}, defect=SLOW)),
    ("vllm", "vllm_gptossmxfp4moe_triton_oaitritonmxfp4expertsmonolithic", ""): ("0.24.0", OGS),
    ("vllm", "vllm_marlin_int4_moe", ""): ("0.22.0", WNA16),
    ("vllm", "vllm_compressedtensorswna16marlinmoe_marlin_marlinexperts", ""): ("0.24.0", MARLIN),
    ("vllm", "vllm_gptossmxfp4moe_marlin_marlinexperts", ""): ("0.24.0", MARLIN),
    ("vllm", "vllm_compressedtensorsw4a4mxfp4moe_marlin_marlinexperts_situ_as_silu", ""): ("0.24.0", MARLIN),
    ("sglang", "sglang_fused_moe_triton", ""): ("0.5.10", SGLANG),
    ("sglang", "sglang_fused_moe_triton", "blackwell"): ("0.5.14", SGLANG._replace(remote=0.4)),  # one expert's weights, from L2
    ("sglang", "sglang_marlin_moe", ""): ("0.5.10", MARLIN._replace(remote=1.0, all_rows=False, map_us=0.0)),
    ("sglang", "sglang_flashinfer_trtllm_moe", "blackwell"): ("0.5.14", GEN),
    ("sglang", "sglang_mxfp4_flashinfer_trtllm_moe", "blackwell"): ("0.5.14", GEN),
    ("trtllm", "moe_torch_flow_cutlass", ""): ("1.3.0rc20", CUTLASS),
    ("trtllm", "moe_torch_flow_nongated", ""): ("1.3.0rc20", CUTLASS),
    ("trtllm", "moe_torch_flow", "hopper"): ("1.3.0rc20", OGS._replace(family="matmul_ogs_trtllm", map_us=0.0)),  # backend "triton": OpenAI's kernels
    ("trtllm", "moe_torch_flow", "blackwell"): ("1.3.0rc20", GEN._replace(gate="", slower={"w4a16_mxfp4": 2.1})),  # backend "trtllm"
    ("trtllm", "moe_torch_flow_min_latency", "blackwell"): ("1.3.0rc20", Kernel("lowlatency", gate="always", least=8, fused=True, sums=False)),  # routed by DeepseekV3Gate
    ("trtllm", "deepgemm", "blackwell"): ("1.3.0rc20", Kernel("deepgemm")),
}
NAME = re.compile(r"(?:(?P<library>[a-z_-]+)(?: (?P<version>[^/]+))?/)?(?P<kernel>[^/]+)")


@functools.lru_cache(maxsize=4096)
def find(implementation: str, target: str) -> Found:
    """The kernel of a name on an architecture (`sm_90`). Raises InputError for a name of no known library."""
    architecture = ARCHITECTURES.get(target, "hopper")
    if not implementation:
        return Found(VLLM, True, "")
    parsed = NAME.fullmatch(implementation.strip().lower())
    name, library, version = (parsed["kernel"], parsed["library"], parsed["version"]) if parsed else (implementation, None, None)
    for place in (architecture, ""):
        for row, (versions, kernel) in TABLE.items():
            if row[1:] == (name, place) and library in (None, row[0]):
                other = version and version not in versions.split(", ")
                note = f"{row[0]} {version} was not measured; its kernel is taken as that of {versions}" if other else ""
                return Found(kernel, not other, note)
    return _nearest(implementation, name, library, architecture)


def _nearest(implementation: str, name: str, library: str | None, architecture: str) -> Found:
    """The known kernel of the same library that shares most words, best on this architecture."""
    libraries = sorted({row[0] for row in TABLE})
    owner = library or next((one for one in libraries if name.startswith(f"{one}_")), "trtllm" if name.startswith("moe_torch_flow_") else "")
    rows = [(row, kernel) for row, (_, kernel) in TABLE.items() if row[0] == owner and not kernel.defect]
    if not rows:
        names = sorted({row[1] for row in TABLE})
        raise InputError(f"no kernel of experts is called '{implementation}'; {nearest(implementation, names)}", about="moe: ")
    words = set(name.split("_"))

    def alike(row: tuple[str, str, str]) -> tuple[float, bool]:
        own = set(row[1].split("_"))
        return len(words & own) / len(words | own), row[2] in ("", architecture)

    row, kernel = max(rows, key=lambda one: alike(one[0]))
    return Found(kernel, False, f"'{name}' was not measured on this architecture; taken for {row[0]}'s {row[1]}, the known kernel nearest to it")
