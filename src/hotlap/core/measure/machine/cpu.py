"""The host's processor as the kernel describes it."""

from __future__ import annotations

import platform
import re

from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.record import Cpu

SYS = "sys/devices/system/cpu"
FLAGS = frozenset({  # what arithmetic kernels choose by, as /proc/cpuinfo spells it: x86, then Arm
    "sse4_2", "avx", "avx2", "fma", "fma4", "f16c", "avx_vnni", "avx_vnni_int8", "avx_ifma", "avx_ne_convert", "avx512f", "avx512dq",
    "avx512bw", "avx512vl", "avx512ifma", "avx512vbmi", "avx512_vbmi2", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx512_bitalg",
    "avx512_vpopcntdq", "avx10", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
    "asimd", "asimdhp", "asimddp", "asimdfhm", "fphp", "bf16", "i8mm", "sve", "sve2", "svebf16", "svei8mm", "sme", "sme2", "neon",
})
IMPLEMENTERS = {
    0x41: "Arm", 0x42: "Broadcom", 0x43: "Cavium", 0x46: "Fujitsu", 0x48: "HiSilicon", 0x4E: "NVIDIA", 0x51: "Qualcomm", 0x61: "Apple",
    0xC0: "Ampere",
}
PARTS = {  # Arm says numbers, not names; source of both tables: arch/arm64/include/asm/cputype.h of Linux
    (0x41, 0xD07): "Cortex-A57", (0x41, 0xD08): "Cortex-A72", (0x41, 0xD0B): "Cortex-A76", (0x41, 0xD0C): "Neoverse N1",
    (0x41, 0xD40): "Neoverse V1", (0x41, 0xD42): "Cortex-A78AE", (0x41, 0xD49): "Neoverse N2", (0x41, 0xD4F): "Neoverse V2",
    (0x41, 0xD83): "Neoverse V3AE", (0x41, 0xD84): "Neoverse V3", (0x41, 0xD8E): "Neoverse N3", (0x46, 0x001): "A64FX",
    (0x4E, 0x004): "Carmel", (0xC0, 0xAC3): "Ampere-1", (0xC0, 0xAC4): "Ampere-1A",
}


def describe(tree: FileTree) -> Cpu:
    """The processor; fields the kernel does not show are None or empty."""
    blocks = _blocks(tree.text("proc/cpuinfo"))
    if not blocks:
        return _elsewhere()
    first = blocks[0]
    arm = "CPU implementer" in first
    return Cpu(
        name=_arm_name(first) if arm else first.get("model name") or first.get("cpu") or first.get("uarch", ""),
        vendor=_arm_vendor(first) if arm else first.get("vendor_id", ""),
        family=_number(first.get("CPU architecture" if arm else "cpu family")), model=_number(first.get("CPU part" if arm else "model")),
        cores=_cores(tree, blocks), threads=len(blocks), flags=_flags(first), clock_max_hz=_clock_max(tree), cache_bytes=_caches(tree),
    )


def _blocks(text: str) -> list[dict[str, str]]:
    """One table per logical processor; what stands before the first or after the last belongs to the machine."""
    blocks = []
    for block in re.split(r"\n\s*\n", text):
        pairs = (line.partition(":") for line in block.splitlines() if ":" in line)
        table = {name.strip(): value.strip() for name, _, value in pairs}
        if table.get("processor", "").isdigit():
            blocks.append(table)
    return blocks


def _cores(tree: FileTree, blocks: list[dict[str, str]]) -> int | None:
    """Physical cores: different pairs of package and core."""
    pairs = {(b["physical id"], b["core id"]) for b in blocks if "physical id" in b and "core id" in b}
    if pairs:
        return len(pairs)
    numbers = [int(block["processor"]) for block in blocks]
    topology = {_topology(tree, number) for number in numbers}
    return len(topology) if "" not in {part for pair in topology for part in pair} else None


def _topology(tree: FileTree, number: int) -> tuple[str, str]:
    folder = f"{SYS}/cpu{number}/topology"
    return tree.text(f"{folder}/physical_package_id"), tree.text(f"{folder}/core_id")


def _flags(block: dict[str, str]) -> list[str]:
    seen = (block.get("flags") or block.get("Features") or "").split()
    return [flag for flag in seen if flag in FLAGS]


def _clock_max(tree: FileTree) -> float | None:
    """The highest of any core, as cpufreq knows it. /proc/cpuinfo's MHz is the present clock, in virtual machines the base."""
    found = [tree.number(path) for path in tree.glob(f"{SYS}/cpu[0-9]*/cpufreq/cpuinfo_max_freq")]
    return max((khz * 1e3 for khz in found if khz), default=None)


def _caches(tree: FileTree) -> dict[str, int]:
    """Data caches by level, one instance's size in B: l1d, l2, l3."""
    sizes: dict[str, int] = {}
    for folder in tree.glob(f"{SYS}/cpu0/cache/index*"):
        level, kind, size = (tree.text(f"{folder}/{name}") for name in ("level", "type", "size"))
        match = re.fullmatch(r"(\d+)([KMG]?)", size)
        if match and level and kind != "Instruction":
            name = f"l{level}d" if level == "1" and kind == "Data" else f"l{level}"
            sizes[name] = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]
    return sizes


def _arm_vendor(block: dict[str, str]) -> str:
    return IMPLEMENTERS.get(_number(block.get("CPU implementer")) or -1, "")


def _arm_name(block: dict[str, str]) -> str:
    """Its name from the table of parts, else what the kernel says, else the numbers."""
    implementer, part = (_number(block.get(f"CPU {key}")) for key in ("implementer", "part"))
    if implementer is None or part is None:
        return block.get("model name", "")
    return PARTS.get((implementer, part)) or block.get("model name") or f"Arm {implementer:#x}/{part:#x}"


def _number(text: str | None) -> int | None:
    try:
        return int(text or "", 0)
    except ValueError:
        return None


def _elsewhere() -> Cpu:
    """What Python, and psutil where it is there, know of the processor on other systems."""
    name, cores, threads, clock_max_hz = platform.processor() or platform.machine(), None, None, None
    try:
        import psutil
    except ImportError:
        return Cpu(name=name)
    cores, threads = psutil.cpu_count(logical=False), psutil.cpu_count()
    frequency = psutil.cpu_freq()
    if frequency is not None and frequency.max:
        clock_max_hz = float(frequency.max) * 1e6
    return Cpu(name=name, cores=cores, threads=threads, clock_max_hz=clock_max_hz)
