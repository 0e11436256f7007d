"""Facts of the host: processor, NUMA, memory, kernel, limits, control group, services, firmware and libraries."""

from __future__ import annotations

import re

from hotlap.core.measure.machine import settings, virtual
from hotlap.core.measure.machine.cpu import describe
from hotlap.nodes.inspect import containers, groups, libraries
from hotlap.nodes.inspect.commands import UNITS
from hotlap.nodes.inspect.noting import FactNotes, chosen, listed, scaled, switch

CPU = "sys/devices/system/cpu"
SYSCTLS = (
    "vm.swappiness", "vm.zone_reclaim_mode", "vm.overcommit_memory", "vm.nr_hugepages", "vm.max_map_count", "vm.min_free_kbytes",
    "vm.dirty_ratio", "kernel.numa_balancing", "kernel.nmi_watchdog", "kernel.perf_event_paranoid", "kernel.pid_max",
    "kernel.sched_autogroup_enabled", "kernel.yama.ptrace_scope", "fs.file-max", "net.core.rmem_max", "net.core.wmem_max",
    "net.core.netdev_max_backlog", "net.core.somaxconn",
)
MODULES = (
    "nvidia", "nvidia_uvm", "nvidia_peermem", "gdrdrv", "nvidia_fs", "nouveau", "amdgpu", "i915", "xe", "mlx5_core", "mlx5_ib", "ib_core",
    "ib_umad", "rdma_ucm", "knem", "xpmem",
)
LIMITS = {"Max open files": "open_files", "Max locked memory": "locked_memory", "Max processes": "processes", "Max stack size": "stack"}
DMI = {
    "vendor": "sys_vendor", "product": "product_name", "board": "board_name", "bios_vendor": "bios_vendor", "bios_version": "bios_version",
    "bios_date": "bios_date",
}


def collect(notes: FactNotes) -> None:
    """All of them, in the order of a print."""
    for part in (
        _kernel, _cpu, _idle, _numa, _memory, _sysctl, _limits, groups.collect, _services, _modules, _firmware,
        libraries.collect, containers.collect,
    ):
        part(notes)


def _kernel(notes: FactNotes) -> None:
    place = notes.place
    notes.note("host.virtual", virtual.describe(place) or "no sign of one", "proc/cpuinfo, clock sources, dmi")
    notes.note("host.guest", bool(virtual._machine(place)), "proc/cpuinfo, clock sources, dmi")  # a container on bare metal is none
    notes.file("kernel.release", "proc/sys/kernel/osrelease")
    notes.file("kernel.boot_id", "proc/sys/kernel/random/boot_id")  # tells counters since boot from those of another boot
    match = re.search(r'^PRETTY_NAME=["\']?([^"\'\n]+)', place.text("etc/os-release"), re.MULTILINE)
    notes.note("os.name", match[1] if match else None, "etc/os-release")
    words = notes.file("kernel.cmdline", "proc/cmdline", str.split)
    for word in words or ():
        name, sign, value = word.partition("=")
        if name in settings.OPTIONS or name in ("pci", "numa_balancing", "pcie_aspm", "default_hugepagesz", "nmi_watchdog"):
            notes.note(f"cmdline[{name}]", value if sign else "set", "proc/cmdline")
    clock = "sys/devices/system/clocksource/clocksource0"
    notes.file("clock.source", f"{clock}/current_clocksource")
    notes.file("clock.available", f"{clock}/available_clocksource", str.split)


def _cpu(notes: FactNotes) -> None:
    place = notes.place
    if re.search(r"^processor\s*:", place.text("proc/cpuinfo"), re.MULTILINE):  # else it would be told of this machine
        cpu = describe(place)
        for name, value in (("model", cpu.name), ("vendor", cpu.vendor), ("cores", cpu.cores), ("threads", cpu.threads)):
            notes.note(f"cpu.{name}", value, "proc/cpuinfo")
        notes.note("cpu.flags", cpu.flags or None, "proc/cpuinfo")
        microcode = dict.fromkeys(re.findall(r"^microcode\s*:\s*(\S+)", place.text("proc/cpuinfo"), re.MULTILINE))
        notes.note("cpu.microcode", list(microcode) or None, "proc/cpuinfo", reason="the kernel shows none")
    else:
        notes.file("cpu.model", "proc/cpuinfo", _nameless)
    packages = {place.text(path) for path in place.glob(f"{CPU}/cpu[0-9]*/topology/physical_package_id")}
    notes.note("cpu.sockets", len(packages) or None, f"{CPU}/cpu*/topology/physical_package_id")
    notes.file("cpu.online", f"{CPU}/online", listed)
    notes.file("cpu.present", f"{CPU}/present", listed)
    notes.file("cpu.isolated", f"{CPU}/isolated")
    notes.file("cpu.smt_active", f"{CPU}/smt/active", switch)
    notes.file("cpu.smt_control", f"{CPU}/smt/control")
    for name, leaf in (("governor", "scaling_governor"), ("driver", "scaling_driver"), ("epp", "energy_performance_preference")):
        _several(notes, f"cpu.{name}", f"{CPU}/cpu[0-9]*/cpufreq/{leaf}")
    for name, leaf in (("clock_limit_hz", "scaling_max_freq"), ("clock_max_hz", "cpuinfo_max_freq")):
        found = [value for path in place.glob(f"{CPU}/cpu[0-9]*/cpufreq/{leaf}") if (value := place.number(path))]
        notes.note(f"cpu.{name}", min(found) * 1000 if found else None, f"{CPU}/cpu*/cpufreq/{leaf}", "Hz", "no cpufreq driver")
    if place.exists(f"{CPU}/intel_pstate/no_turbo"):
        notes.file("cpu.boost", f"{CPU}/intel_pstate/no_turbo", lambda text: not switch(text))
    else:
        notes.file("cpu.boost", f"{CPU}/cpufreq/boost", switch)
    for path in place.glob(f"{CPU}/vulnerabilities/*"):
        notes.file(f"vulnerability[{path.rpartition('/')[2]}]", path)


def _nameless(text: str) -> str:
    raise ValueError(text)


def _several(notes: FactNotes, name: str, pattern: str) -> None:
    """A file per core: its value, or those that occur, with commas."""
    values = list(dict.fromkeys(text for path in notes.place.glob(pattern) if (text := notes.place.text(path))))
    notes.note(name, ", ".join(values) or None, pattern, reason="no cpufreq driver")


def _idle(notes: FactNotes) -> None:
    """Idle states of the first core that are not disabled, and how long the slowest takes to wake."""
    notes.file("cpu.idle_driver", f"{CPU}/cpuidle/current_driver")
    states, slowest = list[str](), None
    for folder in notes.place.glob(f"{CPU}/cpu0/cpuidle/state*"):
        latency = notes.place.number(f"{folder}/latency")
        if notes.place.text(f"{folder}/disable") == "0" and latency is not None:
            states.append(notes.place.text(f"{folder}/name"))
            slowest = max(slowest or 0.0, latency * 1e-6)
    source = f"{CPU}/cpu0/cpuidle/state*"
    notes.note("cpu.idle_states", states or None, source, reason="no idle states shown")
    notes.note("cpu.idle_latency_s", slowest, source, "s", "no idle states shown")


def _numa(notes: FactNotes) -> None:
    folders = notes.place.glob("sys/devices/system/node/node[0-9]*")
    notes.note("numa.nodes", len(folders) or None, "sys/devices/system/node")
    for folder in folders:
        key = re.sub(r"\D", "", folder.rpartition("/")[2])
        notes.file(f"node[{key}].cpus", f"{folder}/cpulist")
        match = re.search(r"MemTotal:\s+(\d+) kB", notes.place.text(f"{folder}/meminfo"))
        notes.note(f"node[{key}].memory_bytes", int(match[1]) * 1024 if match else None, f"{folder}/meminfo", "B")


def _memory(notes: FactNotes) -> None:
    text = notes.place.text("proc/meminfo")
    for name, key, unit in (
        ("total_bytes", "MemTotal", "B"), ("swap_bytes", "SwapTotal", "B"), ("hugepage_bytes", "Hugepagesize", "B"),
        ("hugepages", "HugePages_Total", ""),
    ):
        match = re.search(rf"^{key}:\s+(\d+)", text, re.MULTILINE)
        notes.note(f"memory.{name}", int(match[1]) * (1024 if unit else 1) if match else None, "proc/meminfo", unit)
    notes.file("memory.thp", "sys/kernel/mm/transparent_hugepage/enabled", chosen)
    notes.file("memory.thp_defrag", "sys/kernel/mm/transparent_hugepage/defrag", chosen)
    for kind in ("ce", "ue"):
        found = [notes.place.number(path) for path in notes.place.glob(f"sys/devices/system/edac/mc/mc[0-9]*/{kind}_count")]
        known = [value for value in found if value is not None]
        name = {"ce": "memory.ecc_corrected", "ue": "memory.ecc_uncorrected"}[kind]
        notes.note(name, sum(known) if known else None, f"sys/devices/system/edac/mc/mc*/{kind}_count", reason="no EDAC driver")


def _sysctl(notes: FactNotes) -> None:
    for name in SYSCTLS:
        notes.file(f"sysctl[{name}]", f"proc/sys/{name.replace('.', '/')}", int)


def _limits(notes: FactNotes) -> None:
    text = notes.place.text("proc/self/limits")
    for label, name in LIMITS.items():
        match = re.search(rf"^{label}\s+(\S+)", text, re.MULTILINE)
        value = None if not match else match[1] if match[1] == "unlimited" else int(match[1])
        notes.note(f"limits.{name}", value, "proc/self/limits", "B" if name in ("locked_memory", "stack") else "")


def _services(notes: FactNotes) -> None:
    out, states = notes.place.command("systemctl"), dict[str, str]()
    for block in re.split(r"\n\s*\n", out.text):
        table = dict(line.partition("=")[::2] for line in block.splitlines())
        if "Id" in table:
            state = table.get("ActiveState", "") if table.get("LoadState") == "loaded" else table.get("LoadState", "")
            states[table["Id"].removesuffix(".service")] = state
    for unit in UNITS:
        notes.note(f"service[{unit}]", states.get(unit), out.source, reason=out.reason or "systemctl does not name it")


def _modules(notes: FactNotes) -> None:
    loaded = set(notes.place.names("sys/module"))
    for name in MODULES:
        notes.note(f"module[{name}].loaded", name in loaded if loaded else None, "sys/module")
        if name in loaded and notes.place.exists(f"sys/module/{name}/version"):
            notes.file(f"module[{name}].version", f"sys/module/{name}/version")


def _firmware(notes: FactNotes) -> None:
    for name, leaf in DMI.items():
        notes.file(f"dmi.{name}", f"sys/class/dmi/id/{leaf}")
    iommus = bool(notes.place.names("sys/class/iommu")) if notes.place.exists("sys/class/iommu") else None
    notes.note("iommu.active", iommus, "sys/class/iommu")
    notes.file("tuned.profile", "etc/tuned/active_profile")


def disks(notes: FactNotes) -> None:
    """Block devices with a driver behind them."""
    for folder in notes.place.glob("sys/block/*"):
        key = folder.rpartition("/")[2]
        if key.startswith(("loop", "ram", "zram", "dm-", "md", "sr")):
            continue
        notes.file(f"disk[{key}].size_bytes", f"{folder}/size", scaled(512), "B")
        notes.file(f"disk[{key}].scheduler", f"{folder}/queue/scheduler", chosen)
        notes.file(f"disk[{key}].read_ahead_bytes", f"{folder}/queue/read_ahead_kb", scaled(1024), "B")
        notes.file(f"disk[{key}].rotational", f"{folder}/queue/rotational", switch)
        if key.startswith("nvme"):
            notes.file(f"disk[{key}].firmware", f"{folder}/device/firmware_rev")
            notes.file(f"disk[{key}].model", f"{folder}/device/model")
