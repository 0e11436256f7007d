"""The fingerprint of machines that the tests make as trees of files, and of the machine at hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hotlap.core.measure.machine import cpu, settings, software, virtual
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.sensors import nvml
from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.record import Cpu, Device, Machine, encode

CPU = "sys/devices/system/cpu"
CORE = """processor\t: {number}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+
cpu MHz\t\t: 800.000
physical id\t: {package}
core id\t\t: {core}
flags\t\t: fpu vme sse4_2 fma avx avx2 avx512f amx_tile amx_bf16 {extra}

"""
GRACE = """processor\t: {number}
BogoMIPS\t: 2000.00
Features\t: fp asimd evtstrm aes fphp asimdhp asimddp sve i8mm bf16
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd4f
CPU revision\t: 0

"""


class Files:
    """A tree of files under construction."""

    def __init__(self, root: Path) -> None:
        self.root, self.tree = root, FileTree(str(root))

    def put(self, path: str, text: object) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def server(self, extra: str = "") -> None:
        """Two packages of two cores with two threads each."""
        places = [(p, c) for _ in range(2) for p in range(2) for c in range(2)]
        self.put("proc/cpuinfo", "".join(CORE.format(number=i, package=p, core=c, extra=extra) for i, (p, c) in enumerate(places)))
        for index, (level, kind, size) in enumerate(((1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2048K"), (3, "Unified", "105M"))):
            for name, value in (("level", level), ("type", kind), ("size", size)):
                self.put(f"{CPU}/cpu0/cache/index{index}/{name}", value)
        for number, khz in ((0, 3_800_000), (1, 3_900_000)):
            self.put(f"{CPU}/cpu{number}/cpufreq/cpuinfo_max_freq", khz)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


# ---------------------------------------------------------------- the processor


def test_a_server_is_described_in_base_units(files: Files) -> None:
    files.server()
    assert cpu.describe(files.tree) == Cpu(
        name="Intel(R) Xeon(R) Platinum 8480+", vendor="GenuineIntel", family=6, model=143, cores=4, threads=8,
        flags=["sse4_2", "fma", "avx", "avx2", "avx512f", "amx_tile", "amx_bf16"], clock_max_hz=3.9e9,
        cache_bytes={"l1d": 48 * 2**10, "l2": 2 * 2**20, "l3": 105 * 2**20},
    )


def test_an_arm_processor_gets_its_name_from_its_numbers(files: Files) -> None:
    files.put("proc/cpuinfo", "".join(GRACE.format(number=i) for i in range(4)))
    for number in range(4):
        files.put(f"{CPU}/cpu{number}/topology/physical_package_id", 0)
        files.put(f"{CPU}/cpu{number}/topology/core_id", number)
    found = cpu.describe(files.tree)
    assert (found.name, found.vendor, found.family, found.model) == ("Neoverse V2", "Arm", 8, 0xD4F)
    assert (found.cores, found.threads) == (4, 4)
    assert found.flags == ["asimd", "fphp", "asimdhp", "asimddp", "sve", "i8mm", "bf16"]
    assert (found.clock_max_hz, found.cache_bytes) == (None, {})


def test_an_arm_part_without_a_name_keeps_its_numbers(files: Files) -> None:
    files.put("proc/cpuinfo", GRACE.format(number=0).replace("0xd4f", "0xfff").replace("0x41", "0x6d"))
    found = cpu.describe(files.tree)
    assert (found.name, found.vendor) == ("Arm 0x6d/0xfff", "")
    assert found.cores is None  # the tree shows no topology: unknown, not one


# ---------------------------------------------------------------- the machine


def test_host_system_and_memory(files: Files) -> None:
    files.server()
    files.put("etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\nVERSION_ID="24.04"')
    for name, text in (("hostname", "node-17"), ("ostype", "Linux"), ("osrelease", "6.8.0-50-generic")):
        files.put(f"proc/sys/kernel/{name}", text)
    files.put("proc/meminfo", "MemTotal:       527950000 kB\nMemFree: 1 kB")
    files.put("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       263000000 kB")
    machine = fingerprint([], str(files.root), {"OMP_NUM_THREADS": "4"})
    assert (machine.host, machine.os, machine.kernel) == ("node-17", "Ubuntu 24.04.1 LTS", "Linux 6.8.0-50-generic")
    assert machine.memory_bytes == 527_950_000 * 1024  # the whole machine, not its first node
    assert machine.settings["OMP_NUM_THREADS"] == "4"
    assert machine.virtual == ""


def test_versions_are_read_without_importing(files: Files) -> None:
    files.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build")
    files.put("sys/module/amdgpu/version", "6.10.5")
    loaded = set(sys.modules)
    found = software.versions(files.tree)
    assert not {"torch", "pyopencl", "psutil", "pynvml"} & (set(sys.modules) - loaded)
    assert (found["nvidia driver"], found["amdgpu driver"]) == ("570.124.06", "6.10.5")
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"hotlap", "numpy", "msgspec"} <= set(found)
    assert all(found.values())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_this_machine_can_be_kept() -> None:
    import msgspec

    device = Device(target="opencl", index=0, name="this CPU", kind="cpu", vendor="x")
    machine = fingerprint([device])
    assert msgspec.json.decode(encode(machine), type=Machine) == machine
    assert machine.devices == [device]
    assert machine.host
    assert machine.kernel.startswith("Linux ")
    assert machine.cpu.threads
    assert machine.memory_bytes
    assert machine.memory_bytes > 2**28


def test_an_empty_tree_leaves_everything_unknown(files: Files) -> None:
    machine = fingerprint([], str(files.root), {})
    assert machine.host
    assert (machine.settings, machine.virtual, machine.cpu.flags, machine.cpu.cache_bytes) == ({}, "", [], {})


def test_what_nvml_knows_is_added_to_nvidias_devices_alone(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    # The reading itself is tested on the real binding in tests/sensors; here, what becomes of it.
    monkeypatch.setattr(nvml, "facts", lambda device: {"serial": "165", "power_limit_w": 700.0} if device.index == 0 else {})
    about = {"target": "cuda", "name": "H200", "kind": "gpu", "vendor": "NVIDIA", "facts": {"ecc": True}}
    devices = [Device(index=0, **about), Device(index=1, **about), Device(index=0, **{**about, "target": "simulated"})]  # type: ignore[arg-type]
    first, second, simulated = fingerprint(devices, str(files.root), {}).devices
    assert (first.serial, first.facts) == ("165", {"ecc": True, "nvml": {"power_limit_w": 700.0}})
    assert (second, simulated) == (devices[1], devices[2])


# ---------------------------------------------------------------- virtual machines and containers


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, ""),
        ({"sys/class/dmi/id/sys_vendor": "Dell Inc.", "sys/class/dmi/id/product_name": "PowerEdge XE9680"}, ""),
        ({"sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "p5.48xlarge"}, "virtual machine (Amazon EC2 p5.48xlarge)"),
        ({"sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "m5.metal"}, ""),
        ({"sys/hypervisor/type": "xen"}, "virtual machine (xen)"),
        ({"sys/devices/system/clocksource/clocksource0/available_clocksource": "kvm-clock tsc"}, "virtual machine (KVM)"),
        ({"proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2"}, "virtual machine (WSL)"),
        ({".dockerenv": ""}, "container (docker)"),
        ({"run/.containerenv": ""}, "container (podman)"),
        ({"proc/1/cgroup": "0::/kubepods.slice/kubepods-burstable.slice/x"}, "container (kubernetes)"),
        ({"proc/1/environ": "PATH=/bin\0container=lxc\0"}, "container (lxc)"),
        ({"proc/cpuinfo": CORE.format(number=0, package=0, core=0, extra="hypervisor"), ".dockerenv": ""}, "virtual machine, container (docker)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_marks_of_virtual_machines_and_containers(files: Files, given: dict[str, str], says: str) -> None:
    for path, text in given.items():
        files.put(path, text)
    assert virtual.describe(files.tree) == says


# ---------------------------------------------------------------- settings


def test_kernel_settings_that_change_speed(files: Files) -> None:
    for path, text in {
        f"{CPU}/cpu0/cpufreq/scaling_governor": "performance",
        f"{CPU}/cpu1/cpufreq/scaling_governor": "performance",
        f"{CPU}/cpu10/cpufreq/scaling_governor": "powersave",
        f"{CPU}/cpu0/power/energy_perf_bias": "6",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "proc/sys/vm/swappiness": "60",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
        "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda1 mitigations=off quiet isolcpus=2-7",
    }.items():
        files.put(path, text)
    assert settings.settings(files.tree, {}) == {
        "governor": "performance, powersave", "perf bias": "6", "transparent huge pages": "madvise", "swappiness": "60",
        "clocksource": "tsc", "kernel options": "mitigations=off isolcpus=2-7",
    }


def test_the_nearest_limit_of_the_control_groups_counts(files: Files) -> None:
    files.put("proc/self/cgroup", "0::/system.slice/job.scope")
    files.put("sys/fs/cgroup/system.slice/job.scope/cpu.max", "max 100000")
    files.put("sys/fs/cgroup/system.slice/cpu.max", "200000 100000")
    files.put("sys/fs/cgroup/system.slice/job.scope/memory.max", "8589934592")
    files.put("sys/fs/cgroup/memory.max", "max")
    assert settings.settings(files.tree, {}) == {"cgroup cpu.max": "200000 100000", "cgroup memory.max": "8589934592"}


def test_processors_this_process_may_not_use(files: Files) -> None:
    files.put(f"{CPU}/online", "0-7")
    files.put("proc/self/status", "Name:\tpython\nCpus_allowed:\t0f\nCpus_allowed_list:\t0-3\n")
    assert settings.settings(files.tree, {}) == {"cpus allowed": "0-3"}
    files.put("proc/self/status", "Cpus_allowed_list:\t0-7")
    assert settings.settings(files.tree, {}) == {}


def test_environment_keeps_what_libraries_read_and_no_secrets() -> None:
    given = {
        "OMP_NUM_THREADS": "8", "POCL_MAX_PTHREAD_COUNT": "2", "CUDA_VISIBLE_DEVICES": "", "LD_PRELOAD": "x" * 1000, "HOME": "/home/me",
        "NVIDIA_API_KEY": "no", "TORCH_TOKEN": "no", "AMD_SECRET": "no",
    }
    found = settings.variables(given)
    assert list(found) == ["CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "OMP_NUM_THREADS", "POCL_MAX_PTHREAD_COUNT"]
    assert found["CUDA_VISIBLE_DEVICES"] == ""  # set to nothing hides all devices: not the same as not set
    assert len(found["LD_PRELOAD"]) == settings.LONGEST
