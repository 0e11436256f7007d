"""Verdicts of a gate as other systems take them: JSON, a drain of Slurm, a taint of Kubernetes. Printed, and done only where that is
asked for, of nodes and a cluster that are named.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from hotlap.bringup.gate_record import Gate, NodeGate
from hotlap.core.errors import InputError, MachineError

KEY = "hotlap-gate"
MOST = 128  # characters of a reason, as Slurm's tools show it
TIMEOUT_S = 30.0
WAYS = ("slurm", "kubernetes")
Reason = Callable[[NodeGate], str]


def labels(gate: Gate, reason: Reason) -> list[dict[str, Any]]:
    """Of every node."""
    return [
        {"node": each.node, "verdict": each.verdict, "reason": cut(reason(each)), "labels": {KEY: each.verdict}} for each in gate.nodes
    ]


def cut(text: str) -> str:
    """One line of ASCII, as all three take it."""
    plain = text.replace(" %", " percent").replace("%", " percent").encode("ascii", "replace").decode()
    return re.sub(r"[^\w .,:;()/+-]", "", plain)[:MOST].strip()


def drain(each: NodeGate, reason: Reason) -> list[str]:
    """Of Slurm: no new job; those that run go on."""
    return ["scontrol", "update", f"NodeName={each.node}", "State=DRAIN", f"Reason={cut(reason(each))}"]


def taint(each: NodeGate, reason: Reason, context: str = "") -> list[list[str]]:
    """Of Kubernetes: no new pod; the reason as an annotation. `context`: of kubectl's configuration, "" where it is only printed."""
    where = ["--context", context] if context else []
    return [
        ["kubectl", *where, "taint", "nodes", each.node, f"{KEY}=fail:NoSchedule", "--overwrite"],
        ["kubectl", *where, "annotate", "nodes", each.node, f"{KEY}-reason={cut(reason(each))}", "--overwrite"],
    ]  # fmt: skip


def commands(gate: Gate, way: str, reason: Reason, nodes: Sequence[str] = (), context: str = "") -> list[list[str]]:
    """For the nodes that failed, or these of them."""
    failed = [each for each in gate.nodes if each.verdict == "fail" and (not nodes or each.node in nodes)]
    if way == "slurm":
        return [drain(each, reason) for each in failed]
    return [command for each in failed for command in taint(each, reason, context)]


def named(way: str, cluster: str, nodes: str) -> list[str]:
    """The nodes of --node. Raises InputError where no cluster or no node is named: before anything is measured."""
    chosen = [name.strip() for name in nodes.split(",") if name.strip()]
    if not cluster or not chosen:
        lacks = "--cluster NAME" if not cluster else "--node NAME"
        cluster_is = "which is ClusterName in scontrol show config" if way == "slurm" else "which is a context of kubectl"
        what = cluster_is if not cluster else "with commas between several"
        raise InputError(f"--apply {way} changes a cluster: name it, and each node, by --cluster and --node; missing: {lacks}, {what}")
    return chosen


def apply(gate: Gate, way: str, cluster: str, nodes: Sequence[str], reason: Reason) -> list[list[str]]:
    """The commands that were run. Raises InputError for a node that did not fail and for another cluster, MachineError where one fails."""
    verdicts = {each.node: each.verdict for each in gate.nodes}
    for node in nodes:
        if verdicts.get(node) != "fail":
            why = f"its verdict is {verdicts[node]}" if node in verdicts else f"it is none of {', '.join(list(verdicts)[:8])}"
            raise InputError(f"--node {node}: {why}; only a node that failed is taken out; nothing was changed")
    program = "scontrol" if way == "slurm" else "kubectl"
    if not shutil.which(program):
        raise MachineError(f"there is no {program} on this machine; nothing was changed", f"run what --labels {way} prints where it is")
    if way == "slurm":
        own = slurm_cluster()
        if own != cluster:
            raise InputError(f"--cluster {cluster}: scontrol here belongs to '{own}'; nothing was changed; name that, or go to the other")
    wanted = commands(gate, way, reason, nodes, cluster)
    for place, command in enumerate(wanted):
        run(command, wanted[:place])
    return wanted


def slurm_cluster() -> str:
    """As scontrol's configuration names it."""
    for line in run(["scontrol", "show", "config"], []).splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "ClusterName":
            return value.strip()
    raise MachineError("scontrol show config names no ClusterName; nothing was changed")


def run(command: Sequence[str], before: Sequence[Sequence[str]]) -> str:
    """What it printed. Raises MachineError that says what was done before it."""
    done = f"; done before: {'; '.join(map(shlex.join, before))}" if before else "; nothing was changed"
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{shlex.join(command)}: {getattr(error, 'strerror', '') or f'no answer in {TIMEOUT_S:g} s'}{done}") from None
    if ended.returncode:
        last = next((line for line in reversed(ended.stderr.splitlines()) if line.strip()), f"it ended with {ended.returncode}")
        raise MachineError(f"{shlex.join(command)}: {last.strip()[:200]}{done}")
    return ended.stdout
