"""Which kernel computes a mixture of experts: by library, version, kernel and architecture, with what its public source says about it.

A name is the kernel's as aiconfigurator publishes it ("vllm_fused_moe"), with its library and version before it if these are known
("vllm 0.22.0/vllm_fused_moe"), or the library's alone. A kernel or version that the table lacks is taken for the nearest known one of its
library, and that is said; a misspelt name, one of no known library, and a kernel that is not built for the machine are refused.
"""

from __future__ import annotations

import difflib
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
USUAL_ARCHITECTURE = "hopper"  # where the machine is none of these


class ExpertKernel(NamedTuple):
    """One kernel of a library, and what sets it apart from others of its family."""

    family: str  # of coefficients
    rule: str = "tuned"  # how its tile is chosen: tuned (the best of many), or a library's fixed rule
    remote: float = 0.0  # share of the rows of a token's other experts that it multiplies too
    all_rows: bool = False  # activation and sum pass over the rows of other ranks too
    map_us: float = 0.0  # launches that find the experts of this rank, where ranks share them
    sort_us: float = 0.0  # launches that choose more than 16 experts a token
    host_us: float = 0.0  # the host's time, below which no call falls
    fused: bool = False  # activation inside the first product
    sums: bool = True  # adds up each token's experts
    least: int = 16  # rows of its smallest tile
    gate: str = ""  # its own gate keeps groups of experts: "always", or of "deepseek" alone
    slower: Mapping[str, float] = MappingProxyType({})  # by type, than the coefficients of its family say
    built_for: tuple[str, ...] = ()  # architectures; empty: any
    defect: str = ""  # of this build: never what another kernel is taken for


class Answering(NamedTuple):
    """The kernel that answers for a name."""

    kernel: ExpertKernel
    known: bool  # measured by this name on this architecture
    note: str  # what is to be said
    other: bool = False  # another version of the library than was measured


HOST = "vLLM 0.22 ran its experts of 4 bits at one token alone, in 61 to 66 us on H200 and on B200: the host's time"
SLOW = "vLLM 0.24's fp8 CUTLASS experts take three to four times what their siblings take on the same GPU: a defect of that build"
VLLM = ExpertKernel("triton", "vllm", all_rows=True, map_us=7.0)  # fused_moe.py: get_default_config; expert_map for rows of other ranks
SGLANG = ExpertKernel("sglang", "sglang", remote=1.0)  # topk_ids.clamp(min=0) sends other ranks' rows to expert 0 (collect_moe.py)
SGLANG_NEWER = SGLANG._replace(remote=0.4)  # these rows share one expert's weights, so they cost less than others
MARLIN = ExpertKernel("marlin", "marlin", all_rows=True, map_us=12.0)  # fused_marlin_moe.py: height of a tile, rows passed
SGLANG_MARLIN = MARLIN._replace(remote=1.0, all_rows=False, map_us=0.0)
WNA16 = ExpertKernel("wna16", "vllm", all_rows=True, host_us=60.0, defect=HOST)  # fused_experts never calls Marlin
OGS = ExpertKernel("matmul_ogs", "ogs", all_rows=True, map_us=28.0, fused=True)  # OpenAI's triton_kernels: opt_flags.py
TRTLLM_OGS = OGS._replace(family="matmul_ogs_trtllm", map_us=0.0)
CUTLASS = ExpertKernel("cutlass", sort_us=16.0)  # of TensorRT-LLM; its RenormalizeMoeRoutingMethod leaves many choices to torch.topk
FLASHINFER = ExpertKernel("flashinfer")  # FlashInfer's CUTLASS products
GEN = ExpertKernel("gen", least=8, fused=True, gate="deepseek", built_for=("blackwell",))  # trtllm-gen: cubins of sm_100, sm_103
TRTLLM_GEN = GEN._replace(gate="", slower={"w4a16_mxfp4": 2.1})
LOW_LATENCY = GEN._replace(gate="always", sums=False)  # routed by DeepseekV3Gate, do_finalize=False (aiconfigurator's collect_moe.py)
DEEPGEMM = ExpertKernel("deepgemm", built_for=("hopper", "blackwell"))
SLOW_CUTLASS = CUTLASS._replace(slower={"fp8": 3.4}, defect=SLOW)

TRAITS = (
    "family", "rule", "remote", "all_rows", "map_us", "sort_us", "host_us", "fused", "sums", "least", "gate",
)  # that cases take over as they are

# (library, kernel, architecture; "" is any): versions measured, kernel
TABLE: dict[tuple[str, str, str], tuple[str, ExpertKernel]] = {
    ("vllm", "vllm_fused_moe", ""): ("0.22.0", VLLM),
    ("vllm", "vllm_unquantizedfusedmoe_triton_tritonexperts", ""): ("0.24.0", VLLM),
    ("vllm", "vllm_fp8moe_triton_tritonexperts", ""): ("0.24.0", VLLM),
    ("vllm", "vllm_modeloptfp8moe_triton_tritonexperts", ""): ("0.24.0", VLLM),
    ("vllm", "vllm_fp8moe_flashinfer_cutlass_flashinferexperts", ""): ("0.24.0", FLASHINFER),
    ("vllm", "vllm_modeloptfp8moe_flashinfer_cutlass_flashinferexperts", "hopper"): ("0.24.0", SLOW_CUTLASS),
    ("vllm", "vllm_gptossmxfp4moe_triton_oaitritonmxfp4expertsmonolithic", ""): ("0.24.0", OGS),
    ("vllm", "vllm_marlin_int4_moe", ""): ("0.22.0", WNA16),
    ("vllm", "vllm_compressedtensorswna16marlinmoe_marlin_marlinexperts", ""): ("0.24.0", MARLIN),
    ("vllm", "vllm_gptossmxfp4moe_marlin_marlinexperts", ""): ("0.24.0", MARLIN),
    ("vllm", "vllm_compressedtensorsw4a4mxfp4moe_marlin_marlinexperts_situ_as_silu", ""): ("0.24.0", MARLIN),
    ("sglang", "sglang_fused_moe_triton", ""): ("0.5.10", SGLANG),
    ("sglang", "sglang_fused_moe_triton", "blackwell"): ("0.5.14", SGLANG_NEWER),
    ("sglang", "sglang_marlin_moe", ""): ("0.5.10", SGLANG_MARLIN),
    ("sglang", "sglang_flashinfer_trtllm_moe", "blackwell"): ("0.5.14", GEN),
    ("sglang", "sglang_mxfp4_flashinfer_trtllm_moe", "blackwell"): ("0.5.14", GEN),
    ("trtllm", "moe_torch_flow_cutlass", ""): ("1.3.0rc20", CUTLASS),
    ("trtllm", "moe_torch_flow_nongated", ""): ("1.3.0rc20", CUTLASS),
    ("trtllm", "moe_torch_flow", "hopper"): ("1.3.0rc20", TRTLLM_OGS),  # backend "triton": OpenAI's kernels
    ("trtllm", "moe_torch_flow", "blackwell"): ("1.3.0rc20", TRTLLM_GEN),  # backend "trtllm"
    ("trtllm", "moe_torch_flow_min_latency", "blackwell"): ("1.3.0rc20", LOW_LATENCY),  # routed by DeepseekV3Gate
    ("trtllm", "deepgemm", "blackwell"): ("1.3.0rc20", DEEPGEMM),
}
USUAL = {  # kernel where none is named, by type; VLLM for the others
    "int4_wo": "vllm_compressedtensorswna16marlinmoe_marlin_marlinexperts", "w4a16_mxfp4": "vllm_gptossmxfp4moe_marlin_marlinexperts",
    "nvfp4": "moe_torch_flow_cutlass", "w4a8_mxfp4_mxfp8": "sglang_mxfp4_flashinfer_trtllm_moe",
}  # fmt: skip
NAME = re.compile(r"(?:(?P<library>[a-z_-]+)(?: (?P<version>[^/]+))?/)?(?P<kernel>[^/]+)")
LIBRARIES = tuple(dict.fromkeys(row[0] for row in TABLE))
PREFIXES = {"vllm_": "vllm", "sglang_": "sglang", "moe_torch_flow_": "trtllm", "trtllm_": "trtllm"}  # of kernels, by library


@functools.lru_cache(maxsize=4096)
def find(implementation: str, target: str) -> Answering:
    """The kernel of a name on an architecture (`sm_90`). Raises InputError for a name that cannot be meant."""
    architecture = ARCHITECTURES.get(target, USUAL_ARCHITECTURE)
    if not implementation:
        return Answering(VLLM, True, "")
    parsed = NAME.fullmatch(implementation.strip().lower())
    name, library, version = (parsed["kernel"], parsed["library"], parsed["version"]) if parsed else (implementation, None, None)
    if name in LIBRARIES:
        name = next(row[1] for place in (architecture, "") for row in TABLE if (row[0], row[2]) == (name, place))
    rows = {row: known for row, known in TABLE.items() if row[1] == name and library in (None, row[0])}
    for row, (versions, kernel) in rows.items():
        if kernel.built_for and architecture not in kernel.built_for:
            built = ", ".join(one for one, name_of in ARCHITECTURES.items() if name_of in kernel.built_for)
            raise InputError(f"{row[1]} is built for {built}, not for {target or architecture}", _valid(architecture), "moe: ")
        if row[2] == architecture or (not row[2] and (*row[:2], architecture) not in rows):
            new = bool(version) and version not in versions.split(", ")
            note = f"{row[0]} {version} was not measured: taken for {versions}" if new else kernel.defect
            return Answering(kernel, True, note, new)
    return _nearest(implementation, name, library, architecture)


def check(implementation: str, target: str = "") -> None:
    """Raises InputError for a name that cannot be meant on an architecture; none given: on any of them."""
    targets = [target] if target else list(ARCHITECTURES)
    for n, one in enumerate(targets):
        try:
            find(implementation, one)
        except InputError:
            if n + 1 == len(targets):
                raise
        else:
            return


def _nearest(implementation: str, name: str, library: str | None, architecture: str) -> Answering:
    """The known kernel of the same library that shares most words, best one measured on this architecture."""
    owner = library or next((owner for prefix, owner in PREFIXES.items() if name.startswith(prefix)), "")
    names = sorted({row[1] for row in TABLE})
    if owner not in LIBRARIES or any(_misspelt(name, one) for one in names):
        raise InputError(f"moe has no implementation '{implementation}'; {nearest(name, names)}")
    words = set(name.split("_"))

    def alike(row: tuple[str, str, str]) -> tuple[float, bool, float]:
        own = set(row[1].split("_"))
        return len(words & own) / len(words | own), row[2] == architecture, difflib.SequenceMatcher(None, name, row[1]).ratio()

    here = [row for row, (_, kernel) in TABLE.items() if row[0] == owner and not kernel.defect and _runs(kernel, architecture)]
    row = max((one for one in here if one[2] in ("", architecture)), key=alike)
    note = f"'{name}' was not measured on {architecture}: taken for the nearest known kernel of {owner}, {row[1]}"
    return Answering(TABLE[row][1], False, note)


def _runs(kernel: ExpertKernel, architecture: str) -> bool:
    return not kernel.built_for or architecture in kernel.built_for


def _valid(architecture: str) -> str:
    have = sorted({row[1] for row, (_, kernel) in TABLE.items() if row[2] in ("", architecture) and _runs(kernel, architecture)})
    return f"valid: {', '.join(have)}"


def _misspelt(name: str, known: str) -> bool:
    """Whether one letter too many, too few, wrong, or swapped with the next makes one of the other; digits tell types apart."""
    if name == known or abs(len(name) - len(known)) > 1:
        return False
    first = next((i for i, (a, b) in enumerate(zip(name, known, strict=False)) if a != b), min(len(name), len(known)))
    ours, theirs = name[first:], known[first:]
    if any(text[:1].isdigit() for text in (ours, theirs)):
        return False
    return ours[1:] == theirs[1:] or ours[1:] == theirs or ours == theirs[1:] or (ours[1:2] + ours[:1] + ours[2:] == theirs)
