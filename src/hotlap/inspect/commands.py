"""The commands whose output is read: few, with arguments that never change, and a limit of time each."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from hotlap.inspect import software
from hotlap.sensors.tree import Tree

UNITS = ("nvidia-fabricmanager", "nvidia-persistenced", "irqbalance", "docker", "containerd", "tuned", "nvidia-imex")
TABLE = {
    "nvidia-smi-q.xml": ("nvidia-smi", "-q", "-x"),
    "nvidia-smi-nvlink": ("nvidia-smi", "nvlink", "-s"),
    "systemctl": ("systemctl", "show", "--property=Id,LoadState,ActiveState", *(f"{unit}.service" for unit in UNITS)),
    "nvidia-ctk": ("nvidia-ctk", "--version"),
}
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
        return Output(json.dumps(software.versions(Tree("/"))), shown(name))
    argv, text = TABLE[name], shown(name)
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
        return Output("", text, f"{argv[0]} exits {done.returncode}: {said[0][:120] if said else 'no message'}")
    return Output(done.stdout, text)


def shown(name: str) -> str:
    """A command as a reader would type it, without its last arguments."""
    return (
        " ".join(TABLE[name][:3])
        if name != "systemctl" and name in TABLE
        else {"systemctl": "systemctl show"}.get(name, "package metadata")
    )
