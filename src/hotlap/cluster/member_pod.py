"""What a pod runs: the agent beside it, step by step, and a record of all that it says, handed over by a folder or by HTTP PUT.

It stands in a ConfigMap with the agent's files and campaign.json, and needs the standard library only, of Python 3.9 or later. The record
is a line of JSON and then the agent's frames as they came, so that `cluster collect` reads them as it reads a pipe.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
import types
import urllib.parse
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
TRIES, PAUSE_S = 6, 5.0  # of a PUT
CHUNK_BYTES = 1 << 18


def main() -> int:
    """Of the index that the Job gave; exit status 0 once the record was handed over, whatever the program said."""
    with open(os.path.join(HERE, "campaign.json")) as file:
        campaign = json.load(file)
    index = int(os.environ["JOB_COMPLETION_INDEX"])
    pod, node = os.environ.get("HOTLAP_POD") or os.uname().nodename, os.environ.get("HOTLAP_NODE", "")
    with tempfile.NamedTemporaryFile(prefix="hotlap-record-") as out:
        record(campaign, index, pod, node, out)
        out.flush()
        name = f"{index}-{pod}.frames"
        if os.environ.get("HOTLAP_RESULTS"):
            keep(out.name, os.environ["HOTLAP_RESULTS"], name)
        else:
            put(out.name, os.environ["HOTLAP_PUT"], name)
    return 0


def modules(names: list[str]) -> Any:
    """The agent, from the files beside this one."""
    for name in ("hotlap", "hotlap.cluster"):
        sys.modules.setdefault(name, types.ModuleType(name))
    for name in names:
        path = os.path.join(HERE, name + ".py")
        module = types.ModuleType("hotlap.cluster." + name)
        module.__file__ = path
        sys.modules[module.__name__] = module
        setattr(sys.modules["hotlap.cluster"], name, module)
        with open(path) as file:
            exec(compile(file.read(), path, "exec"), module.__dict__)
    return sys.modules["hotlap.cluster.agent"]


def record(campaign: dict[str, Any], index: int, pod: str, node: str, out: Any) -> None:
    """Runs every step and writes what the agent says."""
    agent = modules(campaign["sources"])
    session, member = os.urandom(16), campaign["members"][index]
    head = {"campaign": campaign["id"], "index": index, "pod": pod, "node": node, "session": session.hex()}
    out.write(json.dumps(head).encode() + b"\n")
    settings = {"session": session.hex(), "campaign": campaign["id"], "member": member, "beat_s": 2.0, "probe": ""}
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", agent.BOOTSTRAP], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(agent.greeting(settings))
    process.stdin.flush()
    tasks, reader = list(campaign["tasks"]), agent.FrameReader(session)
    while True:
        data = os.read(process.stdout.fileno(), CHUNK_BYTES)
        if not data:
            break
        for message, body in reader.feed(data):
            if message["is"] == "hello" and node:  # a pod's own name and machine-id say nothing of the machine
                message.update(host=node, machine_id="node " + node, macs=[])
            if message["is"] != "beat":
                out.write(agent.frame(session, message, body))
            answer = _answer(message, tasks, index, member, len(campaign["members"]))
            if answer:
                process.stdin.write(agent.frame(session, answer))
                process.stdin.flush()
    process.wait()


def _answer(message: dict[str, Any], tasks: list[dict[str, Any]], index: int, member: str, count: int) -> dict[str, Any] | None:
    """What the agent is told next, if anything."""
    kind = message["is"]
    if kind == "lacks":
        return {"do": "offer", "files": []}
    if kind in ("hello", "done") or (kind == "refused" and "step" in message):
        return _filled(tasks.pop(0), index, member, count) if tasks else {"do": "end"}
    return None


def _filled(task: dict[str, Any], index: int, member: str, count: int) -> dict[str, Any]:
    own = {"{index}": str(index), "{member}": member, "{members}": str(count)}
    words = []
    for word in task["argv"]:
        for name, value in own.items():
            word = word.replace(name, value)
        words.append(word)
    environment = {"HOTLAP_MEMBER": member, "HOTLAP_MEMBER_INDEX": str(index), "HOTLAP_MEMBERS": str(count)}
    return dict(task, argv=words, env=environment)


def keep(path: str, folder: str, name: str) -> None:
    """On a volume, by rename: never over one that is there."""
    beside = os.path.join(folder, f".{name}.{os.getpid()}")
    with open(path, "rb") as source, open(beside, "wb") as file:
        while True:
            data = source.read(CHUNK_BYTES)
            if not data:
                break
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.link(beside, os.path.join(folder, name))
    os.unlink(beside)


def put(path: str, url: str, name: str) -> None:
    """By HTTP PUT, with the token of the file that HOTLAP_TOKEN_FILE names. Raises OSError where nobody takes it."""
    with open(os.environ["HOTLAP_TOKEN_FILE"]) as file:
        token = file.read().strip()
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    last = ""
    for number in range(TRIES):
        if number:
            time.sleep(PAUSE_S)
        try:
            connection = kind(parts.netloc, timeout=120)
            with open(path, "rb") as body:
                headers = {"Authorization": "Bearer " + token, "Content-Length": str(os.path.getsize(path))}
                connection.request("PUT", parts.path.rstrip("/") + "/" + name, body=body, headers=headers)
                answer = connection.getresponse()
                answer.read()
        except OSError as error:
            last = str(error)
            continue
        if answer.status in (200, 201, 409):  # 409: it is there already
            return
        last = f"{answer.status} {answer.reason}"
        if answer.status < 500:
            break
    raise OSError(f"the record was not taken by {parts.netloc}: {last}")


if __name__ == "__main__":
    sys.exit(main())
