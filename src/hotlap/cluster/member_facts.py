"""What an agent says of its member: which machine it is, where it can write, which Hotlap is there. Sent with the agent, so it needs the
standard library only, of Python 3.9 or later."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from typing import Any

from hotlap.cluster.member_left import PREFIX, places


def facts(root: str = "") -> dict[str, Any]:
    """Which machine this is. `root`: where /etc, /sys and /proc of it are, for containers and tests."""
    gpus = [_line(path, "GPU UUID") for path in _under(root, "/proc/driver/nvidia/gpus", "information")]
    gpus += ["AMD-" + text(path) for path in _under(root, "/sys/class/drm", "device/unique_id") if text(path)]
    macs = sorted(
        text(path) for path in _under(root, "/sys/class/net", "address")
        if os.path.exists(os.path.join(os.path.dirname(path), "device")) or root
    )
    serials = [text(root + "/sys/class/dmi/id/" + name) for name in ("product_serial", "chassis_serial", "board_serial")]
    return {
        "host": os.uname().nodename, "machine_id": text(root + "/etc/machine-id"),
        "macs": [mac for mac in macs if mac.strip("0:")], "serial": next((one for one in serials if _serial(one)), ""),
        "gpus": sorted(filter(None, gpus)), "cpu": _line(root + "/proc/cpuinfo", "model name"), "cores": os.cpu_count() or 0,
        "product": text(root + "/sys/class/dmi/id/product_name"),
        "python": ".".join(map(str, sys.version_info[:3])), "kernel": os.uname().release, "pid": os.getpid(), "user": os.getuid(),
    }  # fmt: skip


def _serial(text: str) -> bool:
    """Whether it tells machines apart: makers also write these."""
    return text.casefold() not in ("", "none", "0", "default string", "to be filled by o.e.m.", "not specified", "system serial number")


def _under(root: str, folder: str, name: str) -> list[str]:
    try:
        return [os.path.join(root + folder, entry, name) for entry in sorted(os.listdir(root + folder))]
    except OSError:
        return []


def text(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""


def _line(path: str, key: str) -> str:
    for line in text(path).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def own_address(by_ssh: bool) -> str:
    """Of this machine as others reach it: where ssh was answered, else what its name means, else its name."""
    connection = os.environ.get("SSH_CONNECTION", "").split() if by_ssh else []  # of a login elsewhere, where a scheduler passes it on
    if len(connection) == 4:
        return connection[2]
    name = os.uname().nodename
    try:
        address = socket.gethostbyname(name)
    except OSError:
        return name
    return name if address.startswith("127.") else address


def work_folder() -> tuple[str, str]:
    """A new folder that really takes data, as /tmp may be full, and a home read-only; and what is wrong with the places that were tried
    before. Raises OSError saying what is wrong with each."""
    import tempfile

    reasons: list[str] = []
    for place in places():
        folder = ""
        try:
            folder = tempfile.mkdtemp(prefix=PREFIX, dir=place)
            with open(os.path.join(folder, "probe"), "wb") as file:
                file.write(bytes(1 << 16))
            os.unlink(os.path.join(folder, "probe"))
            return folder, "; ".join(reasons)
        except OSError as error:
            reasons.append(f"{place}: {error.strerror}")
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
    raise OSError(f"no folder can be written ({'; '.join(reasons)})")


def hotlap_version(python: str, path: str = "") -> tuple[str, str]:
    """Of the package that this Python imports, with what it needs, from `path` first; or "" and why none works."""
    environment = dict(os.environ, PYTHONPATH=path) if path else None
    code = "import hotlap, hotlap.core.record; print(hotlap.__version__)"
    try:
        ended = subprocess.run([python, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, env=environment)
    except (OSError, subprocess.SubprocessError) as error:
        return "", str(error)
    lines = ended.stderr.decode(errors="replace").split("\n")
    why = next((line.strip() for line in reversed(lines) if line.strip()), f"it ended with {ended.returncode}")
    return (ended.stdout.decode(errors="replace").strip(), "") if ended.returncode == 0 else ("", why)
