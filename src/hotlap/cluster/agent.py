"""The agent: what runs on a member. This file alone is sent there, so it needs the standard library only, of Python 3.9 or later (`-I -S`).

It is started once for a member, with the source and the settings on its standard input, and takes steps from there as frames; answers go
back on standard output. Neither a login banner nor what programs print can corrupt them: a frame begins with a magic number and with the
session's own 16 random bytes, and has a length and a SHA-256. The controller imports the same functions, so that there is one grammar.

Children run in sessions of their own, with a mark in their environment by which they are found, never by name. A second process, the
guard, ends them when the agent is killed. When standard input ends, the agent ends its children and itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

VERSION = 1
MAGIC = b"HLF1"
HEAD = struct.Struct(">4s16sI32s")  # magic, session, length of what follows, its SHA-256
MOST_BYTES = 1 << 20  # of a frame
PART_BYTES = 1 << 18  # of a file, in one frame
MOST_OUTPUT_BYTES = 64 << 20  # of one stream of one step; what is beyond is dropped, and counted
MOST_BUNDLE_BYTES = 1 << 30
MARK = "HOTLAP_CLUSTER_MARK"
GRACE_S = 2.0  # between SIGTERM and SIGKILL


class FrameError(Exception):
    """What no honest agent sends."""


def frame(session: bytes, message: dict[str, Any], body: bytes = b"") -> bytes:
    """A message and bytes as they are sent. Raises FrameError for more than a frame holds."""
    head = json.dumps(message, separators=(",", ":")).encode()
    payload = struct.pack(">I", len(head)) + head + body
    if len(payload) > MOST_BYTES:
        raise FrameError(f"a frame of {len(payload)} bytes; {MOST_BYTES} is the most")
    return HEAD.pack(MAGIC, session, len(payload), hashlib.sha256(payload).digest()) + payload


class FrameReader:
    """Finds frames in a stream that may hold anything else. `noise`: bytes that belong to none; `broken`: frames whose digest is wrong."""

    def __init__(self, session: bytes) -> None:
        self.session, self._begin, self._buffer = session, MAGIC + session, bytearray()
        self.noise = self.broken = 0

    def feed(self, data: bytes) -> list[tuple[dict[str, Any], bytes]]:
        """The frames that are whole with this. Raises FrameError for one that is too long or no message; at most a frame is held."""
        self._buffer += data
        frames: list[tuple[dict[str, Any], bytes]] = []
        while True:
            place = self._buffer.find(self._begin)
            if place < 0:
                self._drop(max(len(self._buffer) - len(self._begin) + 1, 0))
                return frames
            self._drop(place)
            if len(self._buffer) < HEAD.size:
                return frames
            _, _, size, digest = HEAD.unpack_from(self._buffer)
            if size > MOST_BYTES:
                raise FrameError(f"a frame of {size} bytes; {MOST_BYTES} is the most")
            if len(self._buffer) < HEAD.size + size:
                return frames
            payload = bytes(self._buffer[HEAD.size : HEAD.size + size])
            if hashlib.sha256(payload).digest() != digest:
                self.broken += 1
                self._drop(len(MAGIC))
                continue
            del self._buffer[: HEAD.size + size]
            frames.append(_message(payload))

    def _drop(self, count: int) -> None:
        self.noise += count
        del self._buffer[:count]


def _message(payload: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        (size,) = struct.unpack_from(">I", payload)
        message = json.loads(payload[4 : 4 + size])
    except (ValueError, struct.error, RecursionError) as error:
        raise FrameError(f"a frame without a message: {error}") from None
    if not isinstance(message, dict):
        raise FrameError("a frame whose message is no object")
    return message, payload[4 + size :]


# ---------------------------------------------------------------- processes by their mark


def marked(mark: str) -> tuple[list[int], int]:
    """Processes whose environment has this mark, or one that begins with it and a slash; and how many could not be looked at."""
    wanted, pids, hidden = (MARK + "=" + mark).encode(), [], 0
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                names = file.read().split(b"\0")
        except PermissionError:
            hidden += 1
            continue
        except OSError:
            continue
        if any(item == wanted or item.startswith(wanted + b"/") for item in names):
            pids.append(int(name))
    return pids, hidden


def sweep(mark: str, grace_s: float = GRACE_S) -> tuple[int, list[int], int]:
    """Ends them: how many were there, which are left, and how many processes could not be looked at."""
    before, _ = marked(mark)
    everyone, deadline = set(before), time.monotonic() + grace_s
    _signal(before, signal.SIGTERM)
    _signal(before, signal.SIGCONT)
    while True:
        pids, hidden = marked(mark)
        everyone.update(pids)
        if not pids or time.monotonic() > deadline + GRACE_S:
            return len(everyone), pids, hidden
        if time.monotonic() > deadline:
            _signal(pids, signal.SIGKILL)
        time.sleep(0.02)


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


# ---------------------------------------------------------------- facts of a member


def facts(root: str = "") -> dict[str, Any]:
    """Which machine this is. `root`: where /etc, /sys and /proc of it are, for containers and tests."""
    gpus = [_line(path, "GPU UUID") for path in _under(root, "/proc/driver/nvidia/gpus", "information")]
    gpus += ["AMD-" + _text(path) for path in _under(root, "/sys/class/drm", "device/unique_id") if _text(path)]
    macs = sorted(
        _text(path) for path in _under(root, "/sys/class/net", "address")
        if os.path.exists(os.path.join(os.path.dirname(path), "device")) or root
    )
    serials = [_text(root + "/sys/class/dmi/id/" + name) for name in ("product_serial", "chassis_serial", "board_serial")]
    return {
        "host": os.uname().nodename, "machine_id": _text(root + "/etc/machine-id"),
        "macs": [mac for mac in macs if mac.strip("0:")], "serial": next((one for one in serials if _serial(one)), ""),
        "gpus": sorted(filter(None, gpus)), "cpu": _line(root + "/proc/cpuinfo", "model name"), "cores": os.cpu_count() or 0,
        "product": _text(root + "/sys/class/dmi/id/product_name"),
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


def _text(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""


def _line(path: str, key: str) -> str:
    for line in _text(path).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def work_folder() -> str:
    """A new folder that really takes data: /tmp may be full, and a home read-only. Raises OSError saying what is wrong with each."""
    import tempfile

    reasons = []
    for place in dict.fromkeys([os.environ.get("TMPDIR", ""), "/tmp", "/var/tmp", "/dev/shm", os.environ.get("HOME", "")]):
        if not place:
            continue
        folder = ""
        try:
            folder = tempfile.mkdtemp(prefix="hotlap-agent-", dir=place)
            with open(os.path.join(folder, "probe"), "wb") as file:
                file.write(bytes(1 << 16))
            os.unlink(os.path.join(folder, "probe"))
            return folder
        except OSError as error:
            reasons.append(f"{place}: {error.strerror}")
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
    raise OSError(f"no folder can be written ({'; '.join(reasons)})")


# ---------------------------------------------------------------- the agent


class Agent:
    """One member's. `settings`: session (hex), campaign, member, beat_s; root, again (a campaign that goes on), clock_off_s."""

    def __init__(self, settings: dict[str, Any], source: int, sink: int) -> None:
        self.session, self.mark = bytes.fromhex(settings["session"]), settings["campaign"] + "/" + settings["member"]
        self.beat_s, self.root, self.offset_s = settings["beat_s"], settings.get("root", ""), settings.get("clock_off_s", 0.0)
        self.again, self.ran = settings.get("again", False), False
        self.source, self.sink, self.reader = source, sink, FrameReader(self.session)
        self.waiting: list[tuple[dict[str, Any], bytes]] = []
        self.folder, self.sent, self.next_beat_s, self.at = "", 0, 0.0, {}  # type: ignore[var-annotated]

    def send(self, message: dict[str, Any], body: bytes = b"") -> None:
        """Numbered, so that a lost one is seen."""
        self.sent += 1
        data = memoryview(frame(self.session, dict(message, n=self.sent), body))
        while data:
            data = data[os.write(self.sink, data) :]

    def serve(self) -> None:
        """Until standard input ends, or `end` is asked."""
        swept = sweep(self.mark, 0.0)[0] if self.again else 0  # of an agent that was here before and was killed with its guard
        try:
            self.folder = work_folder()
        except OSError as error:
            self.send({"is": "refused", "why": str(error)})
            return
        guard = _guard(self.mark, self.folder, self.sink)
        try:
            disk = shutil.disk_usage(self.folder)
            about = dict(facts(self.root), swept=swept, folder=self.folder, free_bytes=disk.free, time_s=time.time() + self.offset_s)
            self.send(dict({"is": "hello", "version": VERSION}, **about))
            while True:
                message, _ = self._next()
                if message["do"] == "end":
                    break
                self._do(message)
            self.send({"is": "bye"})
        except (EOFError, BrokenPipeError):
            pass
        finally:
            if self.ran:
                sweep(self.mark, 0.5)
            shutil.rmtree(self.folder, ignore_errors=True)
            os.write(guard, b"q")

    def _do(self, message: dict[str, Any]) -> None:
        if message["do"] == "step":
            self.ran = True
            _Step(self, message).run()
        elif message["do"] == "probe":
            self.send({"is": "probed", "hotlap": hotlap_version(message["python"]), "nonce": _text(message["path"])[:64]})

    def _next(self) -> tuple[dict[str, Any], bytes]:
        while not self.waiting:
            self.look([], self.beat_s)
        return self.waiting.pop(0)

    def look(self, files: list[int], wait_s: float) -> list[int]:
        """Takes what the controller sent, beats where it is time, and returns which of `files` can be read. Raises EOFError at the end."""
        wait_s = max(min(wait_s, self.next_beat_s - time.monotonic()), 0.0)
        ready = select.select([self.source, *files], [], [], wait_s)[0]
        if self.source in ready:
            data = os.read(self.source, 1 << 16)
            if not data:
                raise EOFError
            self.waiting += self.reader.feed(data)
        if time.monotonic() >= self.next_beat_s:
            self.next_beat_s = time.monotonic() + self.beat_s
            self.send(dict({"is": "beat"}, **self.at))
        return [file for file in files if file in ready]

    def stopped(self) -> bool:
        """Whether the controller wants the step to end."""
        stops = [message for message, _ in self.waiting if message["do"] in ("stop", "end")]
        self.waiting = [item for item in self.waiting if item[0]["do"] != "stop"]
        return bool(stops)


def hotlap_version(python: str) -> str:
    """Of the package that this Python imports, with what it needs; "" where there is none."""
    try:
        code = "import hotlap, hotlap.core.record; print(hotlap.__version__)"
        found = subprocess.run([python, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.decode(errors="replace").strip() if found.returncode == 0 else ""


class _Step:
    """One attempt of one step: a program run once, or so many rounds, and what it leaves."""

    def __init__(self, agent: Agent, task: dict[str, Any]) -> None:
        self.agent, self.task, self.at = agent, task, {"step": task["step"], "attempt": task["attempt"]}
        self.folder = os.path.join(agent.folder, f"{task['step']}-{task['attempt']}")
        self.rounds: list[dict[str, float]] = []
        self.sizes = {"stdout": 0, "stderr": 0}
        self.timed_out = self.stopped = False
        self.failed = ""

    def run(self) -> None:
        self.agent.at = self.at
        began_s, code = time.monotonic(), -1
        try:
            os.mkdir(self.folder)
            for name, content in self.task["files"].items():
                with open(os.path.join(self.folder, os.path.basename(name)), "w") as file:
                    file.write(content)
            there = hotlap_version(self.task["argv"][0]) if self.task["need"] else ""
            if there != self.task["need"]:
                here = f"Hotlap {there} is there" if there else "no Hotlap that works is there"
                self.agent.send(dict(self.at, **{"is": "refused", "why": f"{here}, {self.task['need']} is needed"}))
                return
            self.agent.send(dict(self.at, **{"is": "started", "time_s": time.time() + self.agent.offset_s}))
            deadline_s = began_s + self.task["timeout_s"] if self.task["timeout_s"] else None
            for _ in range(self.task["rounds"]):
                code = self._round(deadline_s)
                if code or self.timed_out or self.stopped:
                    break
            self._hand_over(code, time.monotonic() - began_s)
        except OSError as error:
            self._done(code, time.monotonic() - began_s, 0, "", f"{error.filename or 'the member'}: {error.strerror}")
        finally:
            self.agent.at = {}
            shutil.rmtree(self.folder, ignore_errors=True)

    def _round(self, deadline_s: float | None) -> int:
        environment = dict(os.environ, **self.task["env"])
        environment[MARK] = f"{self.agent.mark}/{self.task['step']}/{self.task['attempt']}"
        environment["HOTLAP_HOME"] = os.path.join(self.folder, "home")
        began_s = time.monotonic()
        try:
            child = subprocess.Popen(
                self.task["wrap"] + self.task["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                cwd=self.folder, env=environment, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self.failed = f"'{(self.task['wrap'] + self.task['argv'])[0]}' cannot be run: {error.strerror}"
            return 127
        try:
            self._follow(child, deadline_s)
        except BaseException:  # the controller is gone: so is the child
            self._kill(child)
            raise
        seconds = time.monotonic() - began_s
        if not self.timed_out and not self.stopped:
            self.rounds.append({"time_s": seconds})
        return child.returncode

    def _follow(self, child: subprocess.Popen[bytes], deadline_s: float | None) -> None:
        names = {child.stdout.fileno(): "stdout", child.stderr.fileno(): "stderr"}  # type: ignore[union-attr]
        ended_s = None
        while names:
            for file in self.agent.look(list(names), 0.05 if child.poll() is not None else 0.5):
                data = os.read(file, PART_BYTES)
                if data:
                    self._output(names[file], data)
                else:
                    del names[file]
            if child.poll() is not None:  # a grandchild may hold the pipe for ever
                ended_s = ended_s or time.monotonic()
                if time.monotonic() - ended_s > 1.0:
                    break
            self._judge(child, deadline_s)
        while child.poll() is None:
            self.agent.look([], 0.02)
            self._judge(child, deadline_s)
        for stream in (child.stdout, child.stderr):
            stream.close()  # type: ignore[union-attr]
        if deadline_s and self.timed_out:
            sweep(self.agent.mark, 0.2)

    def _judge(self, child: subprocess.Popen[bytes], deadline_s: float | None) -> None:
        if child.poll() is not None:
            return
        self.stopped = self.agent.stopped() or self.stopped
        self.timed_out = bool(deadline_s) and time.monotonic() >= (deadline_s or 0.0)
        if self.stopped or self.timed_out:
            self._kill(child)

    def _kill(self, child: subprocess.Popen[bytes]) -> None:
        for number, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, 5.0)):
            try:
                os.killpg(child.pid, number)
                child.wait(wait_s)
                break
            except subprocess.TimeoutExpired:
                continue
            except OSError:
                break
        sweep(self.agent.mark, 0.2)

    def _output(self, name: str, data: bytes) -> None:
        room = MOST_OUTPUT_BYTES - self.sizes[name]
        self.sizes[name] += len(data)
        if room > 0:
            self.agent.send(dict(self.at, **{"is": "output", "stream": name}), data[:room])

    def _hand_over(self, code: int, seconds: float) -> None:
        """What the step leaves, packed, in parts."""
        path = os.path.join(self.folder, "bundle.zip")
        pack(path, {"code": code, "seconds": seconds, "rounds": self.rounds}, os.path.join(self.folder, "home", "runs"))
        whole, at = hashlib.sha256(), 0
        with open(path, "rb") as file:
            while True:
                data = file.read(PART_BYTES)
                if not data:
                    break
                whole.update(data)
                self.agent.send(dict(self.at, **{"is": "part", "from": at}), data)
                at += len(data)
                self.agent.look([], 0.0)
        self._done(code, seconds, at, whole.hexdigest(), self.failed)

    def _done(self, code: int, seconds: float, size: int, digest: str, why: str) -> None:
        dropped = {name: size - MOST_OUTPUT_BYTES for name, size in self.sizes.items() if size > MOST_OUTPUT_BYTES}
        ended = {"is": "done", "timed_out": self.timed_out, "stopped": self.stopped, "dropped": dropped, "why": why}
        self.agent.send(dict(self.at, code=code, seconds=seconds, size=size, digest=digest, **ended))


def pack(path: str, result: dict[str, Any], runs: str) -> None:
    """bundle.zip: result.json, and the run that the step kept under `run/`, where it kept one."""
    import zipfile

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("result.json", json.dumps(result))
        kept = sorted(name for name in (os.listdir(runs) if os.path.isdir(runs) else []) if not name.startswith("."))
        if not kept:
            return
        folder, total = os.path.join(runs, kept[-1]), 0
        for name in sorted(os.listdir(folder)):
            file = os.path.join(folder, name)
            total += os.path.getsize(file)
            if os.path.isfile(file) and not os.path.islink(file) and total <= MOST_BUNDLE_BYTES:
                archive.write(file, "run/" + name)


def _guard(mark: str, folder: str, sink: int) -> int:
    """A process that ends what the agent started when the agent is killed. What is written to its descriptor lets it end in peace."""
    inner, outer = os.pipe()
    if os.fork():
        os.close(inner)
        return outer
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2, sink):
            os.dup2(null, number)
        os.close(outer)
        if not os.read(inner, 1):
            sweep(mark, 0.2)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)


def main(settings: dict[str, Any]) -> None:
    """Serves one controller: frames come on standard input, and go out on what was standard output, which nothing else writes to."""
    sink = os.dup(1)
    os.dup2(2, 1)
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Agent(settings, 0, sink).serve()


BOOTSTRAP = (
    "import sys,json\n"
    "if sys.version_info<(3,9):\n"
    " sys.stderr.write('hotlap-agent: Python %d.%d is there, 3.9 or later is needed\\n'%sys.version_info[:2]);sys.exit(43)\n"
    "f=open(0,'rb',0,closefd=False);s=json.loads(f.readline());b=b''\n"
    "while len(b)<s['size']:\n"
    " p=f.read(s['size']-len(b))\n"
    " if not p:sys.exit(44)\n"
    " b+=p\n"
    "g={'__name__':'hotlap_agent'};exec(compile(b,'hotlap-agent','exec'),g);g['main'](s)\n"
)
"""What `python -I -S -c` runs on the member: reads a line of settings and this file, and begins. No apostrophe may be doubled."""


def greeting(settings: dict[str, Any]) -> bytes:
    """What the controller sends first: the settings and this file."""
    with open(__file__, "rb") as file:
        source = file.read()
    return json.dumps(dict(settings, size=len(source))).encode() + b"\n" + source
