"""OpenCL C by the driver of a device that is here: its binary, and what the driver says of each kernel."""

from __future__ import annotations

import json
import time
from pathlib import Path

from hotlap.core.errors import DoesNotCompile, Unavailable
from hotlap.core.measure.targets import opencl
from hotlap.core.record import Notice
from hotlap.kernels.compiled.protocol import CompiledFiles, CompileJob, ProductSpec

KINDS = {b"//": "ptx", b"\x7fELF": "elf", b"\x03\x02\x23\x07": "spirv", b"BC\xc0\xde": "llvm"}  # by how a binary begins


def make(job: CompileJob) -> CompiledFiles:
    """Raises Unavailable without OpenCL, DoesNotCompile with the compiler's first error."""
    devices = opencl.raw_devices()
    import pyopencl as cl

    if not devices:
        raise Unavailable("OpenCL finds no device", "pip install 'pyopencl[pocl]' brings one for the processor")
    gpus = [one for one in devices if one.type & cl.device_type.GPU]
    device = (gpus or devices)[0]
    context = cl.Context([device])
    text = f"#line 1 {json.dumps(Path(job.source).name)}\n" + Path(job.source).read_text(encoding="utf-8", errors="replace")
    began = time.perf_counter()
    try:
        program = cl.Program(context, text).build(options=[*job.flags, *(f"-I{one}" for one in job.include)], cache_dir=False)
    except (cl.Error, RuntimeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise DoesNotCompile(f"{job.source} does not compile: {next((one for one in lines if 'error:' in one), lines[0])}") from None
    seconds = time.perf_counter() - began
    facts = {kernel.function_name: _facts(cl, kernel, device) for kernel in program.all_kernels()}
    binary = program.get_info(cl.program_info.BINARIES)[0]
    kind = next((kind for head, kind in KINDS.items() if binary.lstrip().startswith(head)), "binary")
    path = Path(job.folder) / f"{Path(job.source).stem}.{kind}"
    path.write_bytes(binary)
    return CompiledFiles(
        products=[ProductSpec(kind=kind, path=str(path))],
        seconds=seconds,
        facts=facts,
        compiler=device.name.strip(),
        notices=[Notice("compiled_by", f"compiled by {device.platform.name.strip()}, {device.version.strip()[:40]}")],
    )


def _facts(cl: object, kernel: object, device: object) -> dict[str, int]:
    """What the driver tells of a kernel; what it refuses is left out."""
    asked = {
        "shared_bytes": "LOCAL_MEM_SIZE",
        "stack_bytes": "PRIVATE_MEM_SIZE",
        "threads": "WORK_GROUP_SIZE",
    }
    facts = {}
    for name, info in asked.items():
        try:
            facts[name] = int(kernel.get_work_group_info(getattr(cl.kernel_work_group_info, info), device))  # type: ignore[attr-defined]
        except (cl.Error, AttributeError):  # type: ignore[attr-defined]
            continue
    return facts
