"""Nodes made up from tables: the files of /proc and /sys that a real one shows."""

from __future__ import annotations

from hotlap.nodes.inspect.place import Packed, packed

SMI = """<?xml version="1.0" ?><!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd"><nvidia_smi_log><cuda_version>12.8</cuda_version>{gpus}</nvidia_smi_log>"""
GPU = """<gpu id="0000{address}"><product_name>NVIDIA H100 80GB HBM3</product_name><persistence_mode>{persistence}</persistence_mode>
<mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode><serial>165</serial><uuid>GPU-1</uuid>
<compute_mode>Default</compute_mode><performance_state>P0</performance_state><vbios_version>96.00.A5.00.01</vbios_version>
<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode><fb_memory_usage><total>81559 MiB</total></fb_memory_usage>
<pci><replay_counter>0</replay_counter></pci><display_active>Disabled</display_active>
<fabric><state>Completed</state><status>Success</status></fabric><clocks_event_reasons><clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown></clocks_event_reasons>
<gpu_power_readings><current_power_limit>{limit} W</current_power_limit><default_power_limit>700.00 W</default_power_limit></gpu_power_readings></gpu>"""
CPU = "sys/devices/system/cpu"


def config(acs: int = 0) -> bytes:
    """4 KiB of configuration space: a PCI Express capability, ACS, and a serial number."""
    content = bytearray(4096)
    content[0x34] = 0x40
    content[0x40] = 0x10
    content[0x48:0x4A] = (0x2 << 5 | 0x5 << 12).to_bytes(2, "little")
    content[0x100:0x104] = (0x000D | 1 << 16 | 0x140 << 20).to_bytes(4, "little")
    content[0x106:0x108] = acs.to_bytes(2, "little")
    content[0x140:0x144] = (0x0003 | 1 << 16).to_bytes(4, "little")
    content[0x144:0x14C] = b"\x11" * 8
    return bytes(content)


def hgx(**changes: str) -> Packed:
    """Two sockets and eight H100; what is wrong is asked for: governor, persistence, limit, narrow (a GPU's index), acs."""
    files: dict[str, str | bytes] = {
        "proc/sys/kernel/hostname": changes.get("host", "hgx01"), "proc/sys/kernel/osrelease": "6.8.0", "proc/cmdline": "quiet api_token=hunter2\n",
        "proc/cpuinfo": "".join(f"processor\t: {n}\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\nphysical id\t: {n}\ncore id\t: 0\n\n" for n in range(2)),
        "proc/meminfo": "MemTotal: 2113458176 kB\nSwapTotal: 0 kB\nHugepagesize: 2048 kB\nHugePages_Total: 0\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue\n",
        f"{CPU}/cpu0/cpufreq/scaling_governor": changes.get("governor", "performance"), f"{CPU}/cpu1/cpufreq/scaling_governor": "performance",
        f"{CPU}/online": "0-1", f"{CPU}/present": "0-1", "sys/module/nvidia/version": "580.95.05", "sys/module/nvidia_peermem/refcnt": "0",
        "sys/devices/system/node/node0/cpulist": "0", "sys/devices/system/node/node1/cpulist": "1",
    }
    links, reals, gpus = {}, {}, ""
    for index in range(8):
        address, bridge = f"0000:{0x17 + 0x10 * index:02x}:00.0", f"0000:{0x15 + 0x10 * index:02x}:01.0"
        narrow = changes.get("narrow") == str(index)
        for where, kind in ((address, "0x030200"), (bridge, "0x060400")):
            folder = f"sys/bus/pci/devices/{where}"
            files |= {
                f"{folder}/class": kind, f"{folder}/vendor": "0x10de", f"{folder}/device": "0x2330", f"{folder}/max_link_width": "16",
                f"{folder}/current_link_width": "8" if narrow else "16", f"{folder}/max_link_speed": "32.0 GT/s PCIe",
                f"{folder}/current_link_speed": "16.0 GT/s PCIe" if narrow else "32.0 GT/s PCIe", f"{folder}/numa_node": str(index // 4),
                f"{folder}/config": config(0x1D if changes.get("acs") and where == bridge else 0),
            }
        links[f"sys/bus/pci/devices/{address}/driver"] = "../../../../bus/pci/drivers/nvidia"
        reals[f"sys/bus/pci/devices/{address}"] = f"sys/devices/pci0000:15/{bridge}/{address}"
        gpus += GPU.format(address=address, persistence=changes.get("persistence", "Enabled"), limit=changes.get("limit", "700.00"))
    files["commands/nvidia-smi-q.xml"] = SMI.format(gpus=gpus)
    content = {name: text if isinstance(text, bytes) else text.encode() for name, text in files.items()}
    return Packed("made up", files=content, links=links, reals=reals)


def grace() -> Packed:
    """An aarch64 node."""
    return packed({
        "proc/sys/kernel/hostname": b"gb300", "sys/devices/system/clocksource/clocksource0/current_clocksource": b"arch_sys_counter",
        "proc/cpuinfo": b"processor\t: 0\nFeatures\t: fp asimd sve2\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f\n",
    })
