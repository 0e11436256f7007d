"""The commands whose output is read: few, with arguments that never change, and a limit of time each."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass

from hotlap.core.measure.machine import software
from hotlap.core.measure.sensors.tree import FileTree

UNITS = ("nvidia-fabricmanager", "nvidia-persistenced", "irqbalance", "docker", "containerd", "tuned", "nvidia-imex")
TABLE = {
    "nvidia-smi-q.xml": ("nvidia-smi", "-q", "-x"),
    "nvidia-smi-nvlink": ("nvidia-smi", "nvlink", "-s"),
    "systemctl": ("systemctl", "show", "--property=Id,LoadState,ActiveState", *(f"{unit}.service" for unit in UNITS)),
    "nvidia-ctk": ("nvidia-ctk", "--version"),
}
EACH = {  # asked of one device: its name stands last in ours, as in ethtool-g/eth0
    "ethtool": (("ethtool",), ()),
    "ethtool-i": (("ethtool", "-i"), ()),
    "ethtool-g": (("ethtool", "-g"), ()),
    "ethtool-a": (("ethtool", "-a"), ()),
    "mlxconfig": (("mlxconfig", "-d"), ("-e", "query")),
}
DEVICE = re.compile(r"\w[\w.:@-]*")
INSTEAD = {"mlxconfig": "mstconfig"}  # another name of the same tool
LIMIT_S = 20.0


@dataclass(frozen=True)
class Output:
    """What a command printed, the command as it was typed, and why there is nothing."""

    text: str
    source: str
    reason: str = ""


def run(name: str) -> Output:
    """Runs one of the table; never raises."""
    if name == "packages.json":
        return Output(json.dumps(software.versions(FileTree("/"))), shown(name))
    argv, text = _words(name), shown(name)
    if argv[0] in INSTEAD and not shutil.which(argv[0]) and shutil.which(INSTEAD[argv[0]]):
        argv = (INSTEAD[argv[0]], *argv[1:])
    try:
        nothing = subprocess.DEVNULL
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, stdin=nothing, check=False)
    except FileNotFoundError:
        return Output("", text, f"{argv[0]} is not installed")
    except subprocess.TimeoutExpired:
        return Output("", text, f"{argv[0]} did not answer within {LIMIT_S:g} s")
    except OSError as error:
        return Output("", text, f"{argv[0]} cannot be run: {error.strerror}")
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        if said and "not been booted with systemd" in said[0]:
            return Output("", text, "systemd does not run here")
        return Output("", text, f"{argv[0]} exits {done.returncode}: {said[0][:120] if said else 'no message'}")
    return Output(done.stdout, text)


def _words(name: str) -> tuple[str, ...]:
    """The words of a command. Raises ValueError for a device whose name could be read as an option."""
    kind, sign, device = name.partition("/")
    if not sign:
        return TABLE[name]
    if not DEVICE.fullmatch(device):
        raise ValueError(f"'{device}' is no name of a device")
    before, after = EACH[kind]
    return (*before, device, *after)


def shown(name: str) -> str:
    """A command as a reader would type it, without its last arguments."""
    if "/" in name:
        return " ".join(_words(name))
    return (
        " ".join(TABLE[name][:3])
        if name != "systemctl" and name in TABLE
        else {"systemctl": "systemctl show"}.get(name, "package metadata")
    )
