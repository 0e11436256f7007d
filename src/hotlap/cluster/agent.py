"""The agent: what runs on a member. The files of SOURCES alone are sent there, so they need the standard library only, of Python 3.9 or
later (`-I -S`).

It is started once for a member, with these files and the settings on its standard input, and takes steps from there as frames; answers go
back on standard output. Neither a login banner nor what programs print can corrupt them: a frame begins with a magic number and with the
session's own 16 random bytes, and has a length and a SHA-256. The controller imports the same functions, so that there is one grammar.

Children run in sessions of their own, with a mark in their environment by which they are found, never by name. A second process, the
guard, ends them when the agent is killed. When standard input ends, a program that may outlive the controller goes on, and the agent ends
with it and keeps what it left; otherwise the agent ends its children and itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import signal
import struct
import sys
import time
from typing import Any

from hotlap.cluster import member_left, member_zips
from hotlap.cluster.member_facts import facts, hotlap_version, text, work_folder
from hotlap.cluster.member_marks import GRACE_S as GRACE_S
from hotlap.cluster.member_marks import MARK as MARK
from hotlap.cluster.member_marks import marked as marked
from hotlap.cluster.member_marks import sweep as sweep
from hotlap.cluster.member_relay import TOKEN_DIGITS as TOKEN_DIGITS
from hotlap.cluster.member_step import MOST_BUNDLE_BYTES as MOST_BUNDLE_BYTES
from hotlap.cluster.member_step import MOST_OUTPUT_BYTES as MOST_OUTPUT_BYTES
from hotlap.cluster.member_step import PART_BYTES as PART_BYTES
from hotlap.cluster.member_step import MemberStep

VERSION = 4
SOURCES = ("member_left", "member_facts", "member_marks", "member_zips", "member_relay", "member_step", "agent")  # in their order
CLOCK = "HOTLAP_AGENT_CLOCK_S"  # in its environment: so many seconds is its clock ahead, to try what a wrong one does
MAGIC = b"HLF1"
HEAD = struct.Struct(">4s16sI32s")  # magic, session, length of what follows, its SHA-256
MOST_BYTES = 1 << 20  # of a frame
ATOMIC_BYTES = 4096  # that a pipe takes without blocking where it takes any
ALONE_S = 12 * 3600.0  # that a program without a time of its own goes on when its controller is gone


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


# ---------------------------------------------------------------- the agent


class Agent:
    """One member's. `settings`: session (hex), campaign, member, beat_s; probe (a file of the controller's), root; again (a campaign that
    goes on), adopt (what an agent before did, rather than end it), spare (it, at the end), lasting (programs may outlive the
    controller)."""

    def __init__(self, settings: dict[str, Any], source: int, sink: int) -> None:
        self.session, self.mark = bytes.fromhex(settings["session"]), settings["campaign"] + "/" + settings["member"]
        self.own = self.mark + "/" + settings["session"][:8]  # of what this agent starts: one that was here before ends its own alone
        self.beat_s, self.root, self.offset_s = settings["beat_s"], settings.get("root", ""), float(os.environ.get(CLOCK, "0"))
        self.again, self.ran, self.probe = settings.get("again", False), False, settings.get("probe", "")
        self.adopt, self.lasting, self.spare = (settings.get(name, False) for name in ("adopt", "lasting", "spare"))
        self.source, self.sink, self.reader = source, sink, FrameReader(self.session)
        self.waiting: list[tuple[dict[str, Any], bytes]] = []
        self.folder, self.sent, self.next_beat_s, self.at = "", 0, 0.0, {}  # type: ignore[var-annotated]
        self.step: MemberStep | None = None  # that runs
        self.alone_until_s = 0.0  # 0: the controller is there
        self.unfetched = ""  # folder of a step whose end the controller has not confirmed
        self.relays: list[int] = []  # of processes that pass wheels on, which end when these are closed

    @property
    def alone(self) -> bool:
        return self.alone_until_s > 0

    def send(self, message: dict[str, Any], body: bytes = b"") -> None:
        """Numbered, so that a lost one is seen; in pieces, so that a way that is stuck does not hold the agent. Nothing, when alone."""
        self.sent += 1
        data = memoryview(frame(self.session, dict(message, n=self.sent), body))
        try:
            while data and not self.alone:
                if select.select([], [self.sink], [], 1.0)[1]:
                    data = data[os.write(self.sink, data[:ATOMIC_BYTES]) :]
        except (BrokenPipeError, ConnectionError):
            self.leave()

    def leave(self) -> None:
        """The controller is gone. Raises EOFError unless a program runs that may outlive it."""
        if not (self.step and self.step.lasts):
            raise EOFError
        if not self.alone:
            self.alone_until_s = time.monotonic() + ALONE_S

    def serve(self) -> None:
        """Until standard input ends, or `end` is asked."""
        swept = self._take_over() if self.again else 0
        try:
            self.folder, skipped = work_folder()
            member_left.note(self.folder, self.mark)
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.send({"is": "refused", "why": str(error)})
            return
        guard = _guard(self.own, self.folder, self.sink)
        try:
            disk = shutil.disk_usage(self.folder)
            about = dict(facts(self.root), swept=swept, folder=self.folder, free_bytes=disk.free, time_s=time.time() + self.offset_s)
            about["skipped"] = skipped
            left = member_left.ended_steps(self.mark) if self.adopt else []
            self.send(dict({"is": "hello", "version": VERSION, "probe": text(self.probe)[:64], "left": left}, **about))
            while not self.alone:
                message, _ = self._next()
                if message["do"] in ("kept", "step", "end"):
                    self._confirm()
                if message["do"] == "end":
                    if self.again and not self.spare:
                        member_left.take_over(self.mark, False)
                    break
                self._do(message)
            self.send({"is": "bye"})
        except EOFError:
            pass
        finally:
            if self.ran:
                sweep(self.own, 0.5)
            if not self.unfetched:
                shutil.rmtree(self.folder, ignore_errors=True)
            os.write(guard, b"q")

    def _take_over(self) -> int:
        """Ends agents of this member that were here before, but for work that is to be taken over. -> how many processes were ended"""
        ended, beside = member_left.take_over(self.mark, self.adopt)
        return ended if beside else ended + sweep(self.mark, 0.0)[0]

    def _confirm(self) -> None:
        """What the last step left is with the controller."""
        if self.unfetched:
            shutil.rmtree(self.unfetched, ignore_errors=True)
            self.unfetched = ""

    def _do(self, message: dict[str, Any]) -> None:
        if message["do"] == "step":
            self.ran, self.step = True, MemberStep(self, message)
            self.step.run()
            self.step = None
        elif message["do"] == "probe":
            there = hotlap_version(message["python"])[0]
            self.send({"is": "probed", "hotlap": there, "unfit": "" if there == message.get("need") else self._unfit(message["wheels"])})

    def _unfit(self, wheels: list[dict[str, Any]]) -> str:
        """Why Hotlap cannot be made here of these wheels; "": it can."""
        try:
            chosen = member_zips.chosen(wheels)
            member_zips.place(chosen, self.folder)
        except member_zips.UnfitError as error:
            return str(error)
        return ""

    def _next(self) -> tuple[dict[str, Any], bytes]:
        while not self.waiting:
            self.look([], self.beat_s)
        return self.waiting.pop(0)

    def look(self, files: list[int], wait_s: float) -> list[int]:
        """Takes what the controller sent, beats where it is time, and returns which of `files` can be read. Raises EOFError at the end."""
        if not self.alone:
            wait_s = max(min(wait_s, self.next_beat_s - time.monotonic()), 0.0)
        ready = select.select([*([] if self.alone else [self.source]), *files], [], [], wait_s)[0]
        if self.source in ready:
            data = os.read(self.source, 1 << 16)
            if data:
                self.waiting += self.reader.feed(data)
            else:
                self.leave()
        if not self.alone and time.monotonic() >= self.next_beat_s:
            self.next_beat_s = time.monotonic() + self.beat_s
            self.send(dict({"is": "beat"}, **self.at))
        return [file for file in files if file in ready]

    def stopped(self) -> bool:
        """Whether the controller wants the step to end."""
        stops = [message for message, _ in self.waiting if message["do"] in ("stop", "end")]
        self.waiting = [item for item in self.waiting if item[0]["do"] != "stop"]
        return bool(stops)


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
    agent = Agent(settings, 0, sink)
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    signal.signal(member_left.LEAVE, lambda *_: agent.leave())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    agent.serve()


OLD_PYTHON = 43  # the exit status for one
BOOTSTRAP = (
    "import sys,json,types\n"
    "if sys.version_info<(3,9):\n"
    " sys.stderr.write('Python %d.%d is there, 3.9 or later is needed\\n'%tuple(sys.version_info[:2]));sys.exit(43)\n"
    "f=open(0,'rb',0,closefd=False);s=json.loads(f.readline())\n"
    "for n,z in [['hotlap',0],['hotlap.cluster',0]]+s['sources']:\n"
    " b=b''\n"
    " while len(b)<z:\n"
    "  p=f.read(z-len(b))\n"
    "  if not p:sys.exit(44)\n"
    "  b+=p\n"
    " m=sys.modules[n]=types.ModuleType(n);exec(compile(b,n,'exec'),m.__dict__)\n"
    "m.main(s)\n"
)
"""What `python -I -S -c` runs on the member: reads a line of settings and the files of SOURCES, and begins. No apostrophe is doubled."""


def sources() -> dict[str, bytes]:
    """The files of SOURCES by the names of their modules."""
    contents = {}
    for name in SOURCES:
        with open(os.path.join(os.path.dirname(__file__), name + ".py"), "rb") as file:
            contents["hotlap.cluster." + name] = file.read()
    return contents


def greeting(settings: dict[str, Any]) -> bytes:
    """What the controller sends first: the settings and the agent's files."""
    sent = sources()
    head = dict(settings, sources=[[name, len(source)] for name, source in sent.items()])
    return json.dumps(head).encode() + b"\n" + b"".join(sent.values())
