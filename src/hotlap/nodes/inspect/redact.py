"""What never leaves a node: credentials always, and serial numbers unless they were asked for."""

from __future__ import annotations

import json
import re

from hotlap.core.measure.machine.settings import SECRET

LEFT_OUT = "left-out"
IDENTIFIERS = re.compile(r"<(serial|uuid|gpu_uuid|board_id|board_part_number|chassis_serial_number|module_id|host_id|pdi|cluster_uuid|"
                         r"slot_number|peer_type|guid|gpu_part_number)>[^<]*</\1>")
DOCKER = ("default-runtime", "runtimes", "default-ulimits", "default-shm-size", "exec-opts")
KEPT = {  # of files with other people's business, or with secrets: only this
    "proc/1/environ": re.compile(rb"(?:^|(?<=\0))container=[\w-]+"),
    "proc/self/status": re.compile(rb"^Cpus_allowed_list:.*$", re.MULTILINE),
    "etc/nvidia-container-runtime/config.toml": re.compile(rb"^\s*(?:\[[\w.-]+\]|mode\s*=.*|no-cgroups\s*=.*)$", re.MULTILINE),
}
SERIAL_CAPABILITY = 0x0003  # PCI Express: device serial number, made of the MAC on network cards


def file(path: str, content: bytes, identifiers: bool) -> bytes:
    """A file's content without what must not be kept."""
    if path == "proc/cmdline":
        return b" ".join(_word(word) for word in content.split()) + b"\n"
    if path == "etc/docker/daemon.json":
        return _docker(content)
    if path in KEPT:
        return b"\n".join(KEPT[path].findall(content)) + b"\n"
    if "/gids/" in path and not identifiers:
        return b":".join(content.strip().split(b":")[:4] + [b"0000"] * 4) + b"\n"
    if path.endswith("/config") and not identifiers:
        return _config(content)
    return content


def _word(word: bytes) -> bytes:
    name, sign, _ = word.partition(b"=")
    return name + b"=" + LEFT_OUT.encode() if sign and SECRET.search(word.decode(errors="replace")) else word


def _docker(content: bytes) -> bytes:
    try:
        found = json.loads(content)
        runtimes = found.get("runtimes", {})
        kept = {key: value for key, value in found.items() if key in DOCKER}
        kept |= {"runtimes": {key: {} for key in runtimes}} if runtimes else {}
    except (ValueError, AttributeError, TypeError):
        return b"{}"
    return json.dumps(kept).encode()


def _config(content: bytes) -> bytes:
    place, blank = 0x100, bytearray(content)
    for _ in range(64):
        if place < 0x100 or place + 12 > len(content):
            break
        head = int.from_bytes(content[place : place + 4], "little")
        if head & 0xFFFF == SERIAL_CAPABILITY:
            blank[place + 4 : place + 12] = bytes(8)
        place = head >> 20
    return bytes(blank)


def output(name: str, text: str, identifiers: bool) -> str:
    """A command's output without what must not be kept; the processes on a GPU are other people's business, too."""
    if name != "nvidia-smi-q.xml" or identifiers:
        return text
    text = re.sub(r"<process_info>.*?</process_info>", "", text, flags=re.DOTALL)
    return IDENTIFIERS.sub(lambda match: f"<{match[1]}>{LEFT_OUT}</{match[1]}>", text)
