"""Whether this is a container, and how Docker and NVIDIA's toolkit are set up to give containers their GPUs."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from hotlap.core.measure.machine import virtual
from hotlap.nodes.inspect.noting import FactNotes

DOCKER, NVIDIA = "etc/docker/daemon.json", "etc/nvidia-container-runtime/config.toml"
CDI = ("etc/cdi", "var/run/cdi", "run/cdi")
CGROUP_DRIVER = "native.cgroupdriver="


def collect(notes: FactNotes) -> None:
    """``container…``: the kind, Docker's runtimes, the toolkit with its mode, CDI."""
    notes.note("container.kind", virtual._container(notes.place) or "none seen", "proc/1/cgroup, .dockerenv")
    docker, why = _docker(notes)
    runtimes = docker.get("runtimes")
    notes.note("container.docker_runtime", docker.get("default-runtime"), DOCKER, reason=why)
    notes.note("container.docker_runtimes", sorted(runtimes) if isinstance(runtimes, dict) and runtimes else None, DOCKER, reason=why)
    options = docker.get("exec-opts")
    chosen = [str(one).removeprefix(CGROUP_DRIVER) for one in options or () if str(one).startswith(CGROUP_DRIVER)]
    notes.note("container.docker_cgroup_driver", chosen[-1] if chosen else None, DOCKER, reason=why)
    out = notes.place.command("nvidia-ctk")
    match = re.search(r"version (\d[\w.]*)", out.text)
    notes.note("container.toolkit", match[1] if match else None, out.source, reason=out.reason or "not understood")
    _toolkit(notes)
    found = {path.rpartition("/")[2] for folder in CDI for path in notes.place.glob(f"{folder}/*") if "nvidia" in path}
    notes.note("container.cdi", sorted(found) or None, ", ".join(CDI), reason="no CDI of NVIDIA")
    links = notes.place.glob("dev/char/195:*")  # the character devices of NVIDIA's driver
    notes.note("container.device_links", bool(links) if notes.place.exists("dev/char") else None, "dev/char/195:*")


def _docker(notes: FactNotes) -> tuple[dict[str, Any], str]:
    try:
        found = json.loads(notes.place.text(DOCKER) or "{}")
    except ValueError as error:
        return {}, f"{DOCKER} is not JSON: {str(error)[:60]}"
    return (found, "not set") if isinstance(found, dict) else ({}, f"{DOCKER} is no table")


def _toolkit(notes: FactNotes) -> None:
    reason = "not set" if notes.place.exists(NVIDIA) else "not present"
    try:
        found = tomllib.loads(notes.place.text(NVIDIA))
    except tomllib.TOMLDecodeError as error:
        found, reason = {}, f"not TOML: {str(error)[:60]}"
    for fact, table, key in (("mode", "nvidia-container-runtime", "mode"), ("no_cgroups", "nvidia-container-cli", "no-cgroups")):
        part = found.get(table)
        value = part.get(key) if isinstance(part, dict) else None
        notes.note(f"container.nvidia_{fact}", value if isinstance(value, (str, bool)) else None, NVIDIA, reason=reason)
