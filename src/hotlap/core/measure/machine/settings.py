"""Environment variables and kernel settings that change speed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from hotlap.core.measure.sensors.tree import FileTree

PREFIXES = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "POCL_", "OCL_", "OPENCL_", "CUDA_", "NVIDIA_", "CUBLAS_", "CUDNN_", "NCCL_",
    "HIP_", "HSA_", "ROCR_", "ROCM_", "GPU_", "AMD_", "ZE_", "SYCL_", "ONEAPI_", "TORCH_", "PYTORCH_", "TORCHINDUCTOR_", "TRITON_",
    "MALLOC_",
)
NAMES = frozenset({"GLIBC_TUNABLES", "LD_PRELOAD", "LD_BIND_NOW", "PYTHONMALLOC", "PYTHONOPTIMIZE"})
SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|_KEY)", re.IGNORECASE)  # a bundle is mailed: never keep these
LONGEST = 300  # characters of a value

CPU = "sys/devices/system/cpu"
KERNEL = {  # our name: file with one word or number
    "governor": f"{CPU}/cpu*/cpufreq/scaling_governor",
    "cpufreq driver": f"{CPU}/cpu0/cpufreq/scaling_driver",
    "energy preference": f"{CPU}/cpu*/cpufreq/energy_performance_preference",
    "perf bias": f"{CPU}/cpu*/power/energy_perf_bias",
    "boost": f"{CPU}/cpufreq/boost",
    "no turbo": f"{CPU}/intel_pstate/no_turbo",
    "smt": f"{CPU}/smt/control",
    "isolated cpus": f"{CPU}/isolated",
    "transparent huge pages": "sys/kernel/mm/transparent_hugepage/enabled",
    "huge page defrag": "sys/kernel/mm/transparent_hugepage/defrag",
    "huge pages": "proc/sys/vm/nr_hugepages",
    "swappiness": "proc/sys/vm/swappiness",
    "overcommit": "proc/sys/vm/overcommit_memory",
    "numa balancing": "proc/sys/kernel/numa_balancing",
    "clocksource": "sys/devices/system/clocksource/clocksource0/current_clocksource",
}
OPTIONS = frozenset({
    "mitigations", "isolcpus", "nohz_full", "intel_pstate", "amd_pstate", "iommu", "intel_iommu", "amd_iommu", "idle", "nosmt",
    "processor.max_cstate", "intel_idle.max_cstate", "transparent_hugepage", "clocksource", "tsc",
})
LIMITS = ("cpu.max", "memory.max", "cpuset.cpus")  # of a control group, version 2


def settings(tree: FileTree, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Name → value of all that is set; where cores differ, the values that occur, in order, with commas."""
    found = variables(os.environ if environment is None else environment)
    for name, pattern in KERNEL.items():
        value = ", ".join(_distinct(_chosen(tree.text(path)) for path in _paths(tree, pattern)))
        if value:
            found[name] = value
    return found | _groups(tree) | _command_line(tree) | _allowed(tree)


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Those that libraries of this field read, without any that look like a secret."""
    wanted = (name for name in sorted(environment) if (name.startswith(PREFIXES) or name in NAMES) and not SECRET.search(name))
    return {name: environment[name][:LONGEST] for name in wanted}


def _paths(tree: FileTree, pattern: str) -> list[str]:
    return tree.glob(pattern) if "*" in pattern else [pattern]


def _chosen(text: str) -> str:
    """Of a file that lists all choices, the one in brackets: ``always [madvise] never``."""
    match = re.search(r"\[([^\]]+)\]", text)
    return match[1] if match else text


def _distinct(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]


def _groups(tree: FileTree) -> dict[str, str]:
    """The nearest limit of each kind that this process's control groups set, as in ``cgroup cpu.max: 200000 100000``."""
    match = re.search(r"^0::/?(\S*)$", tree.text("proc/self/cgroup"), re.MULTILINE)
    folder = PurePosixPath("sys/fs/cgroup") / (match[1] if match else "")
    groups = {}
    for name in LIMITS:
        values = (tree.text(f"{group}/{name}") for group in (folder, *folder.parents))
        value = next((value for value in values if value and not value.startswith("max")), "")
        if value:
            groups[f"cgroup {name}"] = value
    return groups


def _command_line(tree: FileTree) -> dict[str, str]:
    """Kernel options that change speed."""
    words = [word for word in tree.text("proc/cmdline").split() if word.partition("=")[0] in OPTIONS]
    return {"kernel options": " ".join(words)} if words else {}


def _allowed(tree: FileTree) -> dict[str, str]:
    """The processors this process may use, where that is not all that are online."""
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)", tree.text("proc/self/status"), re.MULTILINE)
    online = tree.text(f"{CPU}/online")
    return {"cpus allowed": match[1]} if match and online and match[1] != online else {}
