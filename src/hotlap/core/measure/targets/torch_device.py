"""The facts of PyTorch's devices, and what its library can compute on each."""

from __future__ import annotations

import os
from typing import Any

from hotlap.core import stand_in
from hotlap.core.measure.targets.base import cpu_cache_bytes, mig_profile
from hotlap.core.measure.targets.host import cpu_name, host_memory
from hotlap.core.record import Device


def describe(torch: Any, part: str, index: int) -> Device:
    place = f"{part}:{index}" if part in ("cuda", "xpu") else part
    facts = {"place": place, "threads": torch.get_num_threads()}
    if part in ("cuda", "xpu"):
        return _describe_gpu(torch, part, index, facts)
    if part == "mps":
        memory = int(torch.mps.recommended_max_memory())
        return Device(
            target="torch", index=0, name=cpu_name(), kind="gpu", vendor="Apple", driver=_driver(torch, part),
            memory_bytes=memory, facts=facts,
        )
    return Device(
        target="torch", index=0, name=cpu_name(), kind="cpu", driver=_driver(torch, part), memory_bytes=host_memory(),
        compute_units=os.cpu_count(), cache_bytes=cpu_cache_bytes(), facts={**facts, "capability": torch.backends.cpu.get_cpu_capability()},
    )


def _describe_gpu(torch: Any, part: str, index: int, facts: dict[str, Any]) -> Device:
    p = getattr(torch, part).get_device_properties(index)
    rocm = bool(torch.version.hip)
    if part == "cuda":
        facts = {**facts, **({"architecture": p.gcnArchName} if rocm else {"compute_capability": f"{p.major}.{p.minor}"})}
    if profile := mig_profile(p.name):
        facts = {**facts, "mig": profile}
    vendor = str(getattr(p, "vendor", "Intel")) if part == "xpu" else "AMD" if rocm else "NVIDIA"
    clock_khz = getattr(p, "clock_rate", None)
    units = getattr(p, "multi_processor_count", None) or getattr(p, "max_compute_units", None)
    cache = getattr(p, "L2_cache_size", None) or getattr(p, "last_level_cache_size", None)
    device = Device(
        target="torch", index=index, name=p.name, kind="gpu", vendor=vendor, uuid=_uuid(p, part), pci_address=_pci_address(p),
        driver=_driver(torch, part), memory_bytes=int(p.total_memory), compute_units=units, cache_bytes=cache or None,
        clock_max_hz=clock_khz * 1e3 if clock_khz else None, facts=facts,
    )
    stands_in = getattr(getattr(torch, part), "hotlap_stand_in", False)  # the tests' own torch.cuda says so
    return stand_in.mark(device) if stands_in else device


def _uuid(properties: Any, part: str) -> str:
    """In NVML's spelling on cuda, so that a device is the same one to targets and sensors."""
    text = str(getattr(properties, "uuid", "") or "")
    if not text.strip("0-"):
        return ""
    if part != "cuda" or text.startswith(("GPU-", "MIG-")):
        return text
    return f"{'MIG' if mig_profile(properties.name) else 'GPU'}-{text}"


def _pci_address(properties: Any) -> str:
    numbers = [getattr(properties, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    known = [int(number) for number in numbers if number is not None]
    return f"{known[0]:04x}:{known[1]:02x}:{known[2]:02x}.0" if len(known) == 3 else ""


def _driver(torch: Any, part: str) -> str:
    toolkit = {"cuda": f", ROCm {torch.version.hip}" if torch.version.hip else f", CUDA {torch.version.cuda}"}.get(part, "")
    return f"PyTorch {torch.__version__}{toolkit}"


def features(torch: Any, part: str, device: Device) -> frozenset[str]:
    """What library operations of this part can compute; the conformance suite multiplies matrices of each dtype."""
    if part == "cpu":
        return frozenset({"fp64", "fp32", "fp16", "bf16", "int32", "int8"})
    if part == "mps":
        modern = bool(torch.backends.mps.is_macos_or_newer(14, 0))
        return frozenset({"fp32", "fp16", "int32", "events"} | ({"bf16"} if modern else set()))
    common = {"fp32", "fp16", "int32", "events", "ahead", "pinned", "two_queues"}
    if part == "xpu":
        p = torch.xpu.get_device_properties(device.index)
        names = common | ({"fp64"} if p.has_fp64 else set())
        return frozenset(names | ({"bf16"} if getattr(p, "has_bfloat16_conversions", False) else set()))
    names = common | {"fp64", "graph"} | ({"peer"} if torch.cuda.device_count() > 1 else set())
    if torch.version.hip:
        return frozenset(names | {"bf16"})
    capability = tuple(int(n) for n in device.facts["compute_capability"].split("."))
    names |= {"int8"} if capability >= (7, 5) else set()
    names |= {"bf16", "tf32"} if capability >= (8, 0) else set()
    return frozenset(names | ({"fp8"} if capability >= (8, 9) else set()))
