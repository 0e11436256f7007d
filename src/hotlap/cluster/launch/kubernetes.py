"""Members as the pods of an Indexed Job. The manifest is written and the campaign begun; no API server is asked for anything. Each pod
leaves a record of its agent's frames, and `cluster collect` lets the controller read the records as if the agents were there.

One failed pod never restarts another (`backoffLimitPerIndex: 0`), a pod that is evicted is replaced once it is gone, and no two pods share
a node. Kubernetes 1.29 or later.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.cluster import agent
from hotlap.cluster.folder import command
from hotlap.cluster.launch.base import AgentProcess, AtOnce
from hotlap.cluster.launch.dialled import SocketProcess
from hotlap.cluster.record import Campaign, Member, State
from hotlap.core.errors import InputError

MOST = 4096  # pods
MOST_MAP_BYTES = 1_000_000  # of a ConfigMap, of which Kubernetes takes 1 MiB
RECORD = re.compile(r"(0|[1-9][0-9]{0,5})-([a-z0-9][a-z0-9.-]{0,252})\.frames")
POD = "member_pod"
LEFT = {"sources": "/hotlap", "results": "/results", "token": "/token"}  # where things stand in a pod


@dataclass(frozen=True)
class PodOptions:
    """What a manifest needs beside the campaign. `results`: a claim of a volume, or the URL that records are PUT to."""

    count: int
    image: str
    results: str
    gpus: int = 0

    @property
    def by_put(self) -> bool:
        return self.results.startswith(("http://", "https://"))

    def check(self) -> None:
        """Raises InputError."""
        if not 1 <= self.count <= MOST:
            raise InputError(f"--pods is a number from 1 to {MOST}, not {self.count}")
        if not self.image or re.search(r"\s", self.image):
            raise InputError("--image NAME says in which image pods run; it needs Python 3.9 or later, and for plans this Hotlap")
        if not self.by_put and not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", self.results):
            raise InputError(f"--results is the name of a PersistentVolumeClaim, or http://HOST:PORT, not '{self.results}'")


def members(count: int) -> list[Member]:
    digits = max(len(str(count - 1)), 2)
    return [Member(name=f"pod{index:0{digits}}", index=index) for index in range(count)]


def files(campaign: Campaign, options: PodOptions) -> dict[str, str]:
    """What stands beside the agent in a pod, by name. Raises InputError for more than a ConfigMap holds."""
    anyone = Member(name="{member}", index=0)
    tasks = [
        {
            "do": "step", "step": step.number, "attempt": 1, "wrap": step.wrap, "files": step.files, "gang": "", "shared": "",
            "argv": command(step, campaign.python, anyone, 0)[:3] + step.argv[1:] if step.argv[0] == "hotlap" else step.argv,
            "rounds": step.rounds, "timeout_s": step.timeout_s, "need": campaign.hotlap if step.argv[0] == "hotlap" else "",
        }
        for step in campaign.steps
    ]  # fmt: skip
    names = [member.name for member in members(options.count)]
    told = {"id": campaign.id, "members": names, "tasks": tasks, "sources": agent.SOURCES}
    sources = {name.rpartition(".")[2] + ".py": source.decode() for name, source in agent.sources().items()}
    pod = Path(agent.__file__).with_name(f"{POD}.py").read_text(encoding="utf-8")
    content = {**sources, f"{POD}.py": pod, "campaign.json": json.dumps(told)}
    if (size := sum(len(text.encode()) for text in content.values())) > MOST_MAP_BYTES:
        raise InputError(f"plans and agent are {size} bytes; a ConfigMap holds {MOST_MAP_BYTES}: take a smaller plan")
    return content


def manifest(campaign: Campaign, options: PodOptions) -> list[dict[str, Any]]:
    """A ConfigMap and an Indexed Job."""
    name = f"hotlap-{campaign.id.lower()}"
    labels = {"app.kubernetes.io/name": "hotlap", "hotlap/campaign": campaign.id.lower()}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": files(campaign, options)}
    timeouts = [step.timeout_s for step in campaign.steps]
    spec = {
        "completionMode": "Indexed", "completions": options.count, "parallelism": options.count, "backoffLimitPerIndex": 0,
        "maxFailedIndexes": options.count, "podReplacementPolicy": "Failed",
        **({"activeDeadlineSeconds": int(sum(timeouts) + 3600)} if all(timeouts) else {}),
        "template": {"metadata": {"labels": labels}, "spec": _pod(campaign, options, name, labels)},
    }  # fmt: skip
    return [config, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}, "spec": spec}]


def _pod(campaign: Campaign, options: PodOptions, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    mounts = [{"name": "sources", "mountPath": LEFT["sources"], "readOnly": True}]
    volumes: list[dict[str, Any]] = [{"name": "sources", "configMap": {"name": name}}]
    environment: list[dict[str, Any]] = [
        {"name": "HOTLAP_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "HOTLAP_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    if options.by_put:
        mounts.append({"name": "token", "mountPath": LEFT["token"], "readOnly": True})
        volumes.append({"name": "token", "secret": {"secretName": name, "defaultMode": 0o400}})
        environment += [{"name": "HOTLAP_PUT", "value": options.results}, {"name": "HOTLAP_TOKEN_FILE", "value": f"{LEFT['token']}/token"}]
    else:
        mounts.append({"name": "results", "mountPath": LEFT["results"]})
        volumes.append({"name": "results", "persistentVolumeClaim": {"claimName": options.results}})
        environment.append({"name": "HOTLAP_RESULTS", "value": LEFT["results"]})
    container: dict[str, Any] = {
        "name": "agent", "image": options.image, "command": [campaign.python, "-I", "-S", f"{LEFT['sources']}/{POD}.py"],
        "env": environment, "volumeMounts": mounts,
    }  # fmt: skip
    if options.gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": options.gpus}}
    apart = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "restartPolicy": "Never", "automountServiceAccountToken": False, "enableServiceLinks": False,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "containers": [container], "volumes": volumes,
    }  # fmt: skip


def outline(campaign: Campaign, options: PodOptions) -> str:
    """The manifest as it would be written, with the size of each file of the ConfigMap in its place."""
    config, job = manifest(campaign, options)
    sizes = {name: f"{len(content.encode()):,} bytes" for name, content in config["data"].items()}
    return yaml([{**config, "data": sizes}, job])


def yaml(documents: Sequence[Mapping[str, Any]]) -> str:
    """As YAML: blocks for tables and lists, strings as in JSON, which YAML 1.2 takes, and texts of several lines as they are."""
    return "".join("---\n" + "\n".join(_lines(document, 0)) + "\n" for document in documents)


def _lines(value: Any, depth: int) -> Iterator[str]:
    pad = "  " * depth
    items = [(f"{pad}{key}:", item) for key, item in value.items()] if isinstance(value, Mapping) else [(f"{pad}-", item) for item in value]
    for head, item in items:
        if isinstance(item, (Mapping, list)) and item:
            inner = list(_lines(item, depth + 1))
            if head.endswith("-"):  # a list's entry begins on the line of its dash
                yield f"{head} {inner[0].strip()}"
                yield from inner[1:]
            else:
                yield head
                yield from inner
        elif isinstance(item, str) and _plain(item):
            yield f"{head} |"
            yield from (f"{pad}  {line}" if line else "" for line in item.removesuffix("\n").split("\n"))
        else:
            yield f"{head} {json.dumps(item)}"


def _plain(text: str) -> bool:
    """Whether it can stand as a literal block: several lines, the first not indented, one newline at the end, all printable."""
    whole = text.endswith("\n") and not text.endswith("\n\n") and text.count("\n") > 1 and text[:1] not in (" ", "\n", "\t")
    return whole and all(letter.isprintable() or letter == "\n" for letter in text)


# ---------------------------------------------------------------- records


@dataclass
class PodLauncher(AtOnce):
    """Reads records. `place`: a folder with them; `used`: names of those that were read before, and those that are read now."""

    count: int
    place: Path | None = None
    used: set[str] = field(default_factory=set)
    name: str = "kubernetes"
    _chosen: dict[int, Path] = field(default_factory=dict)

    @property
    def kept(self) -> dict[str, str]:
        return {"records": " ".join(sorted(self.used))}

    def members(self) -> list[Member]:
        return members(self.count)

    def at_hand(self, members: Sequence[Member]) -> list[Member]:
        """Those of which a record came that was not read before; of several the newest. Raises InputError for no folder."""
        self._chosen |= {index: path for index, path in self._records() if path.name not in self.used}
        return [member for member in members if member.index in self._chosen]

    def absent(self, members: Sequence[Member]) -> list[Member]:
        """Those of which no record is there. Raises InputError for no folder."""
        there = {index for index, _ in self._records()}
        return [member for member in members if member.index not in there]

    def _records(self) -> list[tuple[int, Path]]:
        """Index and file, the newest last."""
        if self.place is None:
            raise InputError("pods run again by kubectl: delete the Job, apply its manifest, then hotlap cluster collect --from FOLDER")
        if not self.place.is_dir():
            raise InputError(f"there is no folder '{self.place}'; collect --from FOLDER is where the pods' volume is mounted")
        paths = sorted(self.place.iterdir(), key=lambda path: (path.stat().st_mtime_ns, path.name))
        found = [(RECORD.fullmatch(path.name), path) for path in paths if path.is_file() and not path.is_symlink()]
        return [(int(match[1]), path) for match, path in found if match and int(match[1]) < self.count]

    def start(self, member: Member) -> AgentProcess:
        ours, theirs = socket.socketpair()
        path = self._chosen.pop(member.index, None)
        if path is None:
            theirs.close()
        else:
            self.used.add(path.name)
            threading.Thread(target=_replay, args=(path, member, theirs), daemon=True).start()
        return SocketProcess(ours)

    def stop(self, member: Member, process: AgentProcess, mark: str) -> None:
        with suppress(OSError):
            process.kill()

    def failure(self, code: int, errors: str) -> tuple[State, str]:
        return "never started", "no record of its pod is there: kubectl get pods shows why"

    def ending(self, errors: str) -> str:
        return "the record of its pod ends here"


def _replay(path: Path, member: Member, connection: socket.socket) -> None:
    """A pod's agent, from its record: says hello, and of each step that is asked for what it said then. What is wrong with a record is
    noticed where it is read."""
    try:
        with connection, connection.makefile("rb") as asked, path.open("rb") as file:
            settings = json.loads(asked.readline(1 << 20))
            asked.read(sum(size for _, size in settings["sources"]))
            session, reader = bytes.fromhex(settings["session"]), agent.FrameReader(bytes.fromhex(settings["session"]))
            head = json.loads(file.readline(1 << 16))
            if head["campaign"] != settings["campaign"] or head["index"] != member.index:
                why = {"is": "refused", "why": f"its record is of index {head['index']} of {head['campaign']}"[:200], "n": 1}
                connection.sendall(agent.frame(session, why))
                return
            frames = _frames(file, bytes.fromhex(head["session"]))
            number = 0
            for message, body in _until(frames, "hello"):
                number += 1
                message.update(n=number, probe="", time_s=time.time())
                connection.sendall(agent.frame(session, message, body))
            for step, attempt in _steps(asked, reader):
                for message, body in _of_step(frames, step):
                    number += 1
                    connection.sendall(agent.frame(session, dict(message, n=number, attempt=attempt), body))
    except (OSError, ValueError, KeyError, TypeError, EOFError, agent.FrameError):
        return  # the way ends: so much was there


def _frames(file: Any, session: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    reader = agent.FrameReader(session)
    while data := file.read(1 << 18):
        yield from reader.feed(data)


def _until(frames: Iterator[tuple[dict[str, Any], bytes]], kind: str) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Messages without a step, up to the first of a kind."""
    for message, body in frames:
        if "step" not in message:
            yield message, body
        if message["is"] in (kind, "refused"):
            return


def _of_step(frames: Iterator[tuple[dict[str, Any], bytes]], step: int) -> Iterator[tuple[dict[str, Any], bytes]]:
    for message, body in frames:
        if message.get("step") != step:
            continue
        if message["is"] in ("started", "output", "part", "done", "refused"):
            yield message, body
        if message["is"] in ("done", "refused"):
            return
    raise EOFError  # the record ends before the step does


def _steps(asked: Any, reader: agent.FrameReader) -> Iterator[tuple[int, int]]:
    """Step and attempt that the controller asks for, one after the other."""
    while data := asked.read1(1 << 16):
        for message, _ in reader.feed(data):
            if message["do"] == "step":
                yield message["step"], message["attempt"]
            elif message["do"] == "end":
                return
