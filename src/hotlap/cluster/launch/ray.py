"""Members by Ray: the alive nodes of a cluster that runs. A task per node, bound to it, starts the agent there, and the agent comes to this
process by TCP with a token that only the task was given. Needs the extra `ray`. Hotlap starts no Ray, and sends no usage statistics.

A task takes all GPUs of its node, as Ray hides those that a task did not ask for; the nodes' other work then waits, or the task does.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.cluster import agent
from hotlap.cluster.launch import dialled
from hotlap.cluster.launch.base import AgentProcess, Everyone, last_line
from hotlap.cluster.launch.dialled import AgentListener, SocketProcess
from hotlap.cluster.record import Member, State
from hotlap.core.errors import MachineError, Unavailable


@dataclass
class RayLauncher(Everyone):
    """`address` as ray.init takes it. `wait_s`: for all agents to come."""

    address: str
    python: str = "python3"
    wait_s: float = 3600.0
    name: str = "ray"
    _ray: Any = None
    _listener: AgentListener | None = None
    _came: dict[int, SocketProcess] = field(default_factory=dict)
    _tasks: list[Any] = field(default_factory=list)

    @property
    def planned(self) -> str:
        return f"the alive nodes of Ray at {self.address}"

    @property
    def kept(self) -> dict[str, str]:
        return {}

    def members(self) -> list[Member]:
        """A member per alive node. Raises Unavailable without Ray, MachineError where it does not answer."""
        nodes = sorted(self._nodes(), key=lambda node: (node["NodeManagerHostname"], node["NodeID"]))
        several, before = Counter(node["NodeManagerHostname"] for node in nodes), Counter[str]()
        members = list[Member]()
        for index, node in enumerate(nodes):
            host = str(node["NodeManagerHostname"])
            before[host] += 1
            name = f"{host}-{before[host]}" if several[host] > 1 else host
            members.append(Member(name=name, index=index, address=f"{node['NodeManagerAddress']}/{node['NodeID']}"))
        return members

    def prepare(self, members: Sequence[Member]) -> None:
        """Starts the agents of these members, and waits for them to come."""
        nodes = {node["NodeID"]: node for node in self._nodes()}
        by_address = {node["NodeManagerAddress"]: node for node in nodes.values()}
        host, token = self._ray.util.get_node_ip_address(), secrets.token_hex(32)
        try:
            self._listener = AgentListener(host, 0, token.encode())
        except OSError as error:
            raise MachineError(f"this node cannot listen at {host}: {error.strerror}") from None
        for member in members:
            address, _, ident = member.address.rpartition("/")
            node = nodes.get(ident) or by_address.get(address)
            if node:
                self._tasks.append(self._submitted(node, member.index, token))
        self._take(len(self._tasks))

    def _submitted(self, node: dict[str, Any], index: int, token: str) -> Any:
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        assert self._listener is not None
        source = Path(dialled.__file__).read_text(encoding="utf-8")
        task = self._ray.remote(_carried()).options(
            scheduling_strategy=strategy, num_cpus=0, num_gpus=node["Resources"].get("GPU", 0), max_retries=0
        )
        return task.remote(source, *self._listener.address, token, index, [self.python, "-I", "-S", "-c", agent.BOOTSTRAP])

    def _take(self, count: int) -> None:
        """Until all have come, or no task is left that could."""
        assert self._listener is not None
        deadline = time.monotonic() + self.wait_s
        while len(self._came) < count and time.monotonic() < deadline:
            taken = self._listener.take(0.2)
            index = taken[0].get("index") if taken else None
            if taken and isinstance(index, int) and index not in self._came:
                self._came[index] = taken[1]
            elif taken:
                taken[1].kill()
            ended, _ = self._ray.wait(self._tasks, num_returns=len(self._tasks), timeout=0)
            if taken is None and len(self._came) + len(ended) >= count:
                return

    def _nodes(self) -> list[dict[str, Any]]:
        self._connect()
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _connect(self) -> None:
        if self._ray is not None:
            return
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        try:
            import ray
            import ray.util.scheduling_strategies
        except ImportError:
            raise Unavailable("--ray needs the package ray", "pip install 'ray>=2.9', the version of the cluster") from None
        try:
            ray.init(address=self.address, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise MachineError(f"Ray at {self.address} does not answer: {last_line(str(error))}") from None
        self._ray = ray

    def start(self, member: Member) -> AgentProcess:
        if member.index in self._came:
            return self._came.pop(member.index)
        ours, theirs = socket.socketpair()
        theirs.close()
        return SocketProcess(ours)

    def stop(self, member: Member, process: AgentProcess, mark: str) -> None:
        with suppress(OSError):
            process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)

    def failure(self, code: int, errors: str) -> tuple[State, str]:
        return "never started", "its agent did not come: the node is gone, busy, or cannot reach this one"

    def ending(self, errors: str) -> str:
        return last_line(errors)

    def release(self) -> None:
        """Agents that were not needed end, and this process leaves the cluster."""
        for process in self._came.values():
            process.kill()
        self._came.clear()
        if self._listener:
            self._listener.close()
            self._listener = None
        if self._ray is not None:
            with suppress(Exception):
                self._ray.wait(self._tasks, num_returns=len(self._tasks), timeout=5.0)
            self._ray.shutdown()
            self._ray = None
        self._tasks.clear()


def _carried() -> Any:
    """`_agent_on_a_node` as a function of no module: Ray then sends its code, and the node needs no Hotlap."""
    _agent_on_a_node.__module__ = "__main__"
    return _agent_on_a_node


def _agent_on_a_node(source: str, host: str, port: int, token: str, index: int, argv: list[str]) -> int:
    """On the node: comes to the controller and becomes the parent of an agent that speaks over the connection."""
    import subprocess

    names: dict[str, Any] = {"__name__": "hotlap_dialled"}
    exec(compile(source, "hotlap-dialled", "exec"), names)
    connection = names["dial"](host, port, token.encode(), {"index": index}, 60.0)
    process = subprocess.Popen(argv, stdin=connection.fileno(), stdout=connection.fileno(), stderr=subprocess.DEVNULL)
    connection.close()
    return process.wait()
