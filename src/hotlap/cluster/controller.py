"""The controller: starts an agent for each member, sends steps, takes what comes, and records what became of each member.

One thread and one selector. Nothing that a member sends decides where something is written, or how much is held of it in memory: a frame
at most for each member.
"""

from __future__ import annotations

import os
import secrets
import selectors
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from hotlap.cluster import agent, states
from hotlap.cluster.fanout import WheelFanOut
from hotlap.cluster.folder import PROBE, SHARED, CampaignFolder, command
from hotlap.cluster.gang import Gang, GangEnd, gangs
from hotlap.cluster.launch.base import AgentLauncher, AgentProcess, available, seam
from hotlap.cluster.parcel import Parcel
from hotlap.cluster.receiving import Attempt
from hotlap.cluster.record import Identity, Member, MemberEvent, State, StepRecord
from hotlap.core.errors import MachineError

CONNECT_S = 90.0  # until an agent says hello
LATE_S = 15.0  # beyond a step's time, until the controller itself ends it
END_S = 5.0  # for agents to end in peace
MOST_NOISE_BYTES = 64 << 20  # of banners and the like, from one member
ERRORS_BYTES = 16 << 10  # of standard error that are remembered
TURN_S = 0.25
LASTING = ("local", "ssh")  # launchers whose agents are not ended with the controller
Tell = Callable[[MemberEvent], None]
Tick = Callable[[Sequence[str]], None]  # with the members whose agents have not answered yet


@dataclass
class AgentLink:
    """The way to one member's agent. `gone`: why there is none any more."""

    member: Member
    process: AgentProcess
    reader: agent.FrameReader
    heard_s: float = field(default_factory=time.monotonic)
    outbox: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    ready: bool = False
    ended: bool = False
    gone: tuple[State, str] | None = None
    silent: bool = False
    number: int = 0  # of its last frame
    attempt: Attempt | None = None
    probed: dict[str, Any] | None = None
    left: set[int] = field(default_factory=set)  # steps that an agent before has ended


class ClusterController:
    """Of the members that are given, with their agents. `tell` hears every event, `tick` is called while it waits; `parcel` is what members
    without Hotlap are sent. `adopt`: what agents of an earlier controller did is taken over; `fetching`: that alone, where it has ended.
    Not for several threads."""

    connect_s = CONNECT_S

    def __init__(
        self, folder: CampaignFolder, launcher: AgentLauncher, tell: Tell = lambda event: None, again: bool = False,
        parcel: Parcel | None = None, tick: Tick = lambda unanswered: None,
    ) -> None:
        self.folder, self.launcher, self.tell, self.again, self.parcel, self.tick = folder, launcher, tell, again, parcel, tick
        self.adopt, self.fetching, self.lasting = True, False, launcher.name in LASTING
        self.links: dict[str, AgentLink] = {}
        self.interrupted = False
        self._selector = selectors.DefaultSelector()
        self._looked_s = 0.0
        self._machines: dict[str, str] = {}  # Identity.key → member
        self._attempts = states.attempts(folder.events())
        self._count = len(folder.members())
        self.wheels = WheelFanOut(parcel, launcher.name, self._count, lambda name, message: self._send(self.links[name], message))
        self._gangs: dict[str, Gang] = {}  # of the step that runs, by member

    def interrupt(self) -> None:
        """Ends what runs, and begins nothing more."""
        self.interrupted = True

    # ------------------------------------------------------------ the parts of a campaign

    def open(self, members: Iterable[Member]) -> None:
        """Starts their agents, and waits until each has answered or will not."""
        for member in members:
            if not self.interrupted:
                self._start(member)
        deadline = time.monotonic() + self.connect_s
        while any(not link.ready and not link.gone for link in self.links.values()) and not self.interrupted:
            self._turn()
            if time.monotonic() > deadline:
                for link in self.links.values():
                    if not link.ready and not link.gone:
                        self._lose(link, "never started", f"its agent did not answer within {self.connect_s:.0f} s")

    def step(self, step: StepRecord, members: Iterable[Member]) -> None:
        """One step on these members, to its end; those without an agent have no result, with the reason."""
        chosen = [] if self.interrupted else list(members)
        if self.fetching:
            chosen = [member for member in chosen if step.number in self.links[member.name].left and not self.links[member.name].gone]
        made = gangs(chosen, step.gang, self.launcher.name == "local") if step.gang and chosen else []
        self._gangs = {name: gang for gang in made for name in gang.names}
        for member in chosen:
            link = self.links[member.name]
            lost = next((name for name in self._gangs[member.name].names if self.links[name].gone), "") if made else ""
            if link.gone:
                state, why = link.gone
                kept: State = state if state == "refused" else "never started"
                self._record(link, step.number, 0, to=kept, why=why)
            elif lost and (missing := self.links[lost].gone):
                self._record(link, step.number, 0, to="never started", why=f"its gang lacks {lost}: {missing[1]}"[:300], because_of=lost)
            elif link.ready:
                self._begin(link, step)
        while any(link.attempt for link in self.links.values()) and not self.interrupted:
            self._turn()

    def probe(self, python: str, wheels: Sequence[Mapping[str, Any]] = ()) -> None:
        """Asks the agents for the version of Hotlap there, and whether it could be made of these wheels."""
        for link in self.links.values():
            if link.ready and not link.gone:
                self._send(link, {"do": "probe", "python": python, "wheels": list(wheels), "need": self.folder.campaign.hotlap})
        deadline = time.monotonic() + CONNECT_S
        while any(link.ready and not link.gone and link.probed is None for link in self.links.values()) and time.monotonic() < deadline:
            self._turn()

    def close(self) -> None:
        """Ends what runs and the agents, and waits for them; what is not done by then is ended by force."""
        self._gangs.clear()  # what ends from here on ends by itself
        for link in self.links.values():
            if link.attempt and not link.gone:
                self._send(link, {"do": "stop"})
        deadline = time.monotonic() + 2 * agent.GRACE_S + 1.0
        while any(link.attempt and not link.gone for link in self.links.values()) and time.monotonic() < deadline:
            self._turn()
        for link in self.links.values():
            if link.attempt:
                self._end_attempt(link, "died", "interrupted" if self.interrupted else "ended by the controller")
            if not link.gone:
                link.ended = True
                self._send(link, {"do": "end"})
        deadline = time.monotonic() + END_S
        while any(not link.gone for link in self.links.values()) and time.monotonic() < deadline:
            self._turn()
        for link in self.links.values():
            self._drop(link)
        self.links.clear()

    # ------------------------------------------------------------ starting

    def _start(self, member: Member) -> None:
        session = secrets.token_bytes(16)
        settings = {
            "session": session.hex(), "campaign": self.folder.campaign.id, "member": member.name, "again": self.again,
            "adopt": self.again and self.adopt, "lasting": self.lasting, "spare": self.fetching,
            "beat_s": self.folder.campaign.beat_s, "probe": str(self.folder.path.absolute() / PROBE), **seam(member),
        }  # fmt: skip
        link = AgentLink(member, self.launcher.start(member), agent.FrameReader(session))
        self.links[member.name] = link
        for stream, take in ((link.process.stdout, self._take), (link.process.stderr, self._errors)):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, partial(take, link))
        assert link.process.stdin is not None
        os.set_blocking(link.process.stdin.fileno(), False)
        link.outbox += agent.greeting(settings)
        self._flush(link)

    def _begin(self, link: AgentLink, step: StepRecord) -> None:
        place = step.number, link.member.name
        number = self._attempts[place] = self.folder.next_attempt(*place, self._attempts.get(place, 0))
        argv = command(step, self.folder.campaign.python, link.member, self._count)
        task = {
            "do": "step", "step": step.number, "attempt": number, "argv": argv, "wrap": step.wrap, "files": step.files,
            "env": {
                "HOTLAP_MEMBER": link.member.name, "HOTLAP_MEMBER_INDEX": str(link.member.index), "HOTLAP_MEMBERS": str(self._count),
            },
            "gang": self.launcher.name if step.gang else "",
            "rounds": step.rounds, "timeout_s": step.timeout_s, "need": self.folder.campaign.hotlap if step.argv[0] == "hotlap" else "",
        }  # fmt: skip
        shared = self.folder.attempt(step.number, link.member.name, number).absolute() / SHARED
        task["shared"] = str(shared) if link.member.facts.get("shared_folder") else ""
        path = self.folder.begin_attempt(step.number, link.member.name, number, task)
        link.attempt, link.silent = Attempt(step.number, number, path), False
        self._record(link, step.number, number, to="running")
        self._send(link, task)

    # ------------------------------------------------------------ one turn

    def _turn(self) -> None:
        for key, _ in self._selector.select(TURN_S):
            key.data()
        now = time.monotonic()
        if now - self._looked_s < TURN_S:
            return
        self._looked_s = now
        self.tick([name for name, link in self.links.items() if not link.ready and not link.gone])
        for link in self.links.values():
            if not link.gone:
                self._look(link, now)
        for gang in {id(gang): gang for gang in self._gangs.values()}.values():
            self._end_gang(gang, now)

    def _look(self, link: AgentLink, now: float) -> None:
        """Who is silent, and who is late."""
        attempt, quiet_s = link.attempt, now - link.heard_s
        gang = self._gangs.get(link.member.name)
        if attempt is None or not link.ready or (gang and link.member.name in gang.ends):
            return
        silent_s = self.folder.campaign.silent_s
        timeout_s = self.folder.step(attempt.step).timeout_s
        if timeout_s and now - attempt.began_s > timeout_s + LATE_S:
            self._end_attempt(link, "timed out", f"after {timeout_s:g} s; its agent did not answer")
            self._lose(link, "never started", "its agent did not answer")
        elif quiet_s > silent_s and not link.silent:
            link.silent = True
            self._record(link, attempt.step, attempt.number, was="running", to="silent", why=f"no beat for {quiet_s:.0f} s")
        elif quiet_s > 2 * silent_s:
            if link.member.name in self._gangs:
                self._end_attempt(link, "silent", f"no beat for {quiet_s:.0f} s")
            link.attempt = None  # its last state stays: silent
            self._lose(link, "never started", "its agent fell silent in an earlier step")

    def _take(self, link: AgentLink) -> None:
        data = available(link.process.stdout)
        if data is None:
            return
        if not data:
            self._ended(link)
            return
        try:
            frames = link.reader.feed(data)
            if not frames and link.reader.noise > MOST_NOISE_BYTES:
                raise agent.FrameError(f"more than {MOST_NOISE_BYTES >> 20} MiB beside its frames")
            for message, body in frames:
                self._message(link, message, body)
        except (agent.FrameError, KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
            self._refuse(link, f"it sent what no agent sends: {str(error)[:200] or type(error).__name__}")

    def _errors(self, link: AgentLink) -> None:
        data = available(link.process.stderr)
        if data == b"":
            with suppress(KeyError, ValueError):
                self._selector.unregister(link.process.stderr)  # type: ignore[arg-type]
        if data:
            link.errors = (link.errors + data)[-ERRORS_BYTES:]

    def _ended(self, link: AgentLink) -> None:
        """The way to the agent is closed."""
        with suppress(subprocess.TimeoutExpired):
            link.process.wait(2.0)
        while link.process.stderr and (data := available(link.process.stderr)):
            link.errors = (link.errors + data)[-ERRORS_BYTES:]
        code, errors = link.process.poll(), link.errors.decode(errors="replace")
        if not link.ready:
            self._lose(link, *self.launcher.failure(-1 if code is None else code, errors))
            return
        why = f"its agent was killed by signal {-code}" if code is not None and code < 0 else "the way to its agent was lost"
        ending = self.launcher.ending(errors)
        if link.attempt:
            state: State = "died" if link.attempt.started else "never started"
            when = "" if link.attempt.started else " before the step"
            self._end_attempt(link, state, f"{why}{when}{f': {ending}' if ending else ''}")
        self._lose(link, "never started", f"{why} before the step")

    # ------------------------------------------------------------ what agents say

    def _message(self, link: AgentLink, message: dict[str, Any], body: bytes) -> None:
        kind, number, attempt = message["is"], int(message["n"]), link.attempt
        lost = number - link.number - 1
        link.number, link.heard_s = number, time.monotonic()
        if lost and attempt:
            attempt.lost += lost
        if link.silent and attempt:
            link.silent = False
            self._record(link, attempt.step, attempt.number, was="silent", to="running", why="its beat came again")
        if kind == "hello":
            self._hello(link, message)
        elif kind == "probed":
            link.probed = {"hotlap": str(message["hotlap"])[:40], "unfit": str(message["unfit"])[:300]}
        elif kind == "refused" and "step" not in message:
            self._refuse(link, str(message["why"])[:300])
        elif attempt and message.get("step", attempt.step) == attempt.step and message.get("attempt", attempt.number) == attempt.number:
            attempt.beat()
            self._of_attempt(link, attempt, kind, message, body)

    def _of_attempt(self, link: AgentLink, attempt: Attempt, kind: str, message: Mapping[str, Any], body: bytes) -> None:
        try:
            if kind == "started":
                attempt.start(float(message["time_s"]))
            elif kind == "output":
                attempt.output(str(message["stream"]), body)
            elif kind == "part":
                attempt.part(int(message["from"]), body)
            elif kind == "ready" and link.member.name in self._gangs:
                self._begin_round(link, message)
            elif kind == "lacks":
                self._offer(link)
            elif kind == "want":
                self.wheels.want(link.member.name, [str(digest) for digest in message["digests"]], message["direct"] is True)
            elif kind == "got":
                self.wheels.got(link.member.name)
            elif kind == "relays":
                self.wheels.relays(link.member.name, str(message["address"]), int(message["port"]))
            elif kind == "refused":
                self._end_attempt(link, "refused", str(message["why"])[:300])
            elif kind == "done":
                self._done(link, attempt, message)
        except OSError as error:
            raise MachineError(
                f"what {link.member.name} sends cannot be kept: {error.strerror}",
                f"what was collected is kept in {self.folder.path}: make room, then hotlap cluster resume {self.folder.path.name}",
            ) from None

    def _done(self, link: AgentLink, attempt: Attempt, message: Mapping[str, Any]) -> None:
        code, seconds, why = int(message["code"]), float(message["seconds"]), str(message["why"])[:300]
        step = self.folder.step(attempt.step)
        if message["by"] == "folder":
            attempt.shared()
        elif message["by"] == "earlier":
            attempt.by = "earlier"
        if message["timed_out"]:
            self._end_attempt(link, "timed out", f"after {step.timeout_s:g} s", code=code, seconds=seconds)
        elif message["stopped"]:
            self._end_attempt(link, "died", "interrupted", code=code, seconds=seconds)
        elif why:
            self._end_attempt(link, "died", why, code=code, seconds=seconds)
        elif not attempt.whole(str(message["digest"]), int(message["size"])):
            came = f"{attempt.size} of {int(message['size'])} bytes of its bundle came, {attempt.lost} frames were lost"
            self._end_attempt(link, "truncated", came, code=code, seconds=seconds)
        elif code and (step.argv[0] != "hotlap" or code != 1):  # 1 is a verdict
            self._end_attempt(link, "died", attempt.ending(code), code=code, seconds=seconds)
        else:
            verdict = attempt.verdict() if code else ""
            self._end_attempt(link, "measured", verdict, code=code, seconds=seconds, evidence=attempt.digest)
        if self.lasting:
            self._send(link, {"do": "kept"})

    def _hello(self, link: AgentLink, message: Mapping[str, Any]) -> None:
        if message["version"] != agent.VERSION:
            self._refuse(link, f"its agent is of version {message['version']}")
            return
        text = {name: str(message[name])[:200] for name in ("host", "cpu", "product", "python", "kernel", "folder")}
        numbers = {name: float(message[name]) for name in ("cores", "free_bytes", "swept")}
        identity = Identity(
            serial=str(message["serial"])[:200], machine_id=str(message["machine_id"])[:200],
            macs=[str(mac)[:40] for mac in message["macs"][:64]], gpus=[str(gpu)[:80] for gpu in message["gpus"][:256]],
        )  # fmt: skip
        shared = bool(self.folder.nonce) and str(message["probe"]) == self.folder.nonce
        text["skipped"] = str(message.get("skipped", ""))[:300]
        known = {**text, **numbers, "shared_folder": shared, "clock_off_s": round(float(message["time_s"]) - time.time(), 3)}
        link.member = msgspec.structs.replace(link.member, identity=identity, facts=known)
        self.folder.put(link.member)
        if why := self._unfit(link.member, identity):
            self._refuse(link, why)
        else:
            link.ready, link.left = True, {int(number) for number in message.get("left", [])[:1000]}

    def _unfit(self, member: Member, identity: Identity) -> str:
        """Why a member is not taken; "": it is."""
        other = self._machines.setdefault(identity.key, member.name) if identity.key and not member.slot else member.name
        if other != member.name:
            return f"it is the same machine as {other}: {identity.key}"
        wanted = self.folder.campaign.gpus
        return f"{len(identity.gpus)} of {wanted} GPUs are there" if wanted and len(identity.gpus) != wanted else ""

    # ------------------------------------------------------------ ends

    def _begin_round(self, link: AgentLink, message: Mapping[str, Any]) -> None:
        """A member of a gang is ready; the last of them begins the round."""
        gang = self._gangs[link.member.name]
        number, port, address = int(message["round"]), int(message["port"]), str(message["address"])[:200]
        for name, environment in zip(gang.names, gang.take(link.member.name, number, port, address), strict=False):
            self._send(self.links[name], {"do": "round", "env": environment})

    def _end_gang(self, gang: Gang, now: float) -> None:
        """Members of a gang in which one has failed are asked to end, then ended."""
        due = gang.due(now)
        for name in gang.names if due else ():
            link = self.links[name]
            if name not in gang.ends and link.attempt and due == "stop":
                self._send(link, {"do": "stop"})
            elif name not in gang.ends and link.attempt:
                self._end_attempt(link, "died", "it did not end with its gang")
                self._lose(link, "never started", "it did not end with its gang in an earlier step")
        gang.stopping = gang.stopping or bool(due)

    def _end_attempt(self, link: AgentLink, state: State, why: str, **more: Any) -> None:
        """`more`: code, seconds and evidence, where the program ended. Of a gang only the last end is recorded, with all others."""
        self.wheels.leave(link.member.name)
        gang = self._gangs.get(link.member.name)
        if gang is None:
            self._record_end(link, state, why, more)
            return
        assert link.attempt is not None
        at_s = more.get("seconds", time.monotonic() - link.attempt.began_s)
        gang.end(link.member.name, GangEnd(state, why, at_s, more))
        if gang.whole:
            for name, ended in gang.outcome().items():
                self._gangs.pop(name)
                if self.links[name].attempt:
                    self._record_end(self.links[name], ended.state, ended.why, ended.more)

    def _record_end(self, link: AgentLink, state: State, why: str, more: Mapping[str, Any]) -> None:
        """A result exists from here on; every other end is recorded alone."""
        attempt, link.attempt = link.attempt, None
        assert attempt is not None
        if state == "measured":
            attempt.done(more["code"], more["seconds"])
        was: State = "silent" if link.silent else "running"
        self._record(link, attempt.step, attempt.number, was=was, to=state, why=why, **more)

    def _record(self, link: AgentLink, step: int, attempt: int, **more: Any) -> None:
        """`more`: the other fields of the event."""
        event = MemberEvent(time_s=time.time(), member=link.member.name, step=step, attempt=attempt, **more)
        self.folder.append(event)
        self.tell(event)

    def _refuse(self, link: AgentLink, why: str) -> None:
        if link.attempt:
            self._end_attempt(link, "refused", why)
        self._lose(link, "refused", why)

    def _lose(self, link: AgentLink, state: State, why: str) -> None:
        link.gone = link.gone or (state, why)
        self._drop(link)

    def _drop(self, link: AgentLink) -> None:
        """Closes the way to an agent, and ends what is left of it."""
        for stream in (link.process.stdin, link.process.stdout, link.process.stderr):
            with suppress(KeyError, ValueError, OSError):
                self._selector.unregister(stream)  # type: ignore[arg-type]
        self.wheels.lose(link.member.name)
        if link.process.stdin and not link.process.stdin.closed:
            link.process.stdin.close()
        if not link.ended or link.process.poll() is None:
            self.launcher.stop(link.member, link.process, f"{self.folder.campaign.id}/{link.member.name}")
        for stream in (link.process.stdout, link.process.stderr):
            if stream:
                stream.close()

    # ------------------------------------------------------------ sending

    def _send(self, link: AgentLink, message: Mapping[str, Any]) -> None:
        link.outbox += agent.frame(link.reader.session, dict(message))
        self._flush(link)

    def _offer(self, link: AgentLink) -> None:
        """Raises FrameError where it was offered before: what waits is held here."""
        assert link.attempt
        if link.attempt.offered:
            raise agent.FrameError("it lacks Hotlap twice in a step")
        link.attempt.offered = True
        self._send(link, self.wheels.offer())

    def _more(self, link: AgentLink) -> bool:
        """Whether there is something to send: the next part of a wheel where all else has gone."""
        if not link.outbox and (data := self.wheels.part(link.member.name)):
            link.outbox += agent.frame(link.reader.session, {"do": "part"}, data)
        return bool(link.outbox)

    def _flush(self, link: AgentLink) -> None:
        """What the pipe takes now; the rest when it takes more."""
        stream = link.process.stdin
        assert stream is not None
        try:
            while self._more(link):
                del link.outbox[: os.write(stream.fileno(), link.outbox[: 1 << 16])]
        except BlockingIOError:
            with suppress(KeyError):
                self._selector.register(stream, selectors.EVENT_WRITE, partial(self._flush, link))
            return
        except (OSError, ValueError):  # that it is gone is noticed where its answers end
            link.outbox.clear()
        with suppress(KeyError, ValueError):
            self._selector.unregister(stream)
