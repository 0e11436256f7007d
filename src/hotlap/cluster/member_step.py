"""A step on a member: one attempt, a program run once, or so many rounds, and what it leaves. Sent with the agent, so it needs the standard
library only, of Python 3.9 or later.

Where the controller goes while the program runs, the program may go on: what it prints and leaves stays in the step's folder, with a record
of how it ended, and the agent of a `resume` hands it over as its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from typing import Any

from hotlap.cluster import member_left, member_relay, member_zips
from hotlap.cluster.member_facts import hotlap_version, own_address
from hotlap.cluster.member_marks import GRACE_S, MARK, sweep
from hotlap.cluster.member_zips import UnfitError, pack

PART_BYTES = 1 << 18  # of a file, in one frame
SHARED_BYTES = 1 << 20  # of a bundle, from which on a folder that member and controller share is the way back
MOST_OUTPUT_BYTES = 64 << 20  # of one stream of one step; what is beyond is dropped, and counted
MOST_BUNDLE_BYTES = 1 << 30


class _EndedError(Exception):
    """The step is over before its program began."""


class MemberStep:
    """One attempt of one step: a program run once, or so many rounds, and what it leaves."""

    def __init__(self, agent: Any, task: dict[str, Any]) -> None:
        self.agent, self.task, self.at = agent, task, {"step": task["step"], "attempt": task["attempt"]}
        self.folder = os.path.join(agent.folder, f"{task['step']}-{task['attempt']}")
        self.rounds: list[dict[str, float]] = []
        self.sizes = {"stdout": 0, "stderr": 0}
        self.timed_out = self.stopped = False
        self.last = False  # of the rounds of a gang, as its controller says
        self.failed = self.path = ""  # why there is nothing, and where Hotlap is, if it was sent
        self.lasts = False  # it goes on when the controller is gone
        self.torn = False  # not all that it printed could be kept

    def run(self) -> None:
        self.agent.at = self.at
        began_s, code = time.monotonic(), -1
        try:
            if self.agent.adopt and self._adopted():
                return
            os.mkdir(self.folder)
            for name, content in self.task["files"].items():
                with open(os.path.join(self.folder, os.path.basename(name)), "w") as file:
                    file.write(content)
            deadline_s = began_s + self.task["timeout_s"] if self.task["timeout_s"] else None
            self._fit(deadline_s)
            began_s = time.monotonic()
            self.lasts = self.agent.lasting and not self.task.get("gang")
            self.agent.send(dict(self.at, **{"is": "started", "time_s": time.time() + self.agent.offset_s}))
            for number in range(self.task["rounds"]):
                if self.task.get("gang"):
                    self._meet(number, deadline_s)
                code = self._round(deadline_s)
                if code or self.timed_out or self.stopped or self.last:
                    break
            self._hand_over(code, time.monotonic() - began_s)
        except UnfitError as error:
            self.agent.send(dict(self.at, **{"is": "refused", "why": str(error)}))
        except _EndedError:
            self._done(code, time.monotonic() - began_s, 0, "", "")
        except OSError as error:
            self._done(code, time.monotonic() - began_s, 0, "", f"{error.filename or 'the member'}: {error.strerror}")
        finally:
            self.agent.at = {}
            if self.agent.unfetched != self.folder:
                shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------ what an agent before did of it

    def _adopted(self) -> bool:
        """Hands over how the step ended under an agent that was here before, if one was; waits for it where it still runs."""
        left = member_left.of_step(self.agent.mark, self.task["step"])
        if left is None:
            return False
        place, agent = left
        self.agent.send(dict(self.at, **{"is": "started", "time_s": time.time() + self.agent.offset_s}))
        while not os.path.exists(os.path.join(place, member_left.ENDED)) and member_left.began_as(agent):
            self.agent.look([], 0.1)
            self.stopped = self.agent.stopped()
            if self.stopped:
                with suppress(ProcessLookupError):
                    os.kill(agent["pid"], signal.SIGKILL)  # its guard ends what it runs
                raise _EndedError
        try:
            with open(os.path.join(place, member_left.ENDED)) as file:
                ended = json.load(file)
            shutil.move(place, self.folder)
        except (OSError, ValueError):
            return False  # it was killed
        self.agent.unfetched = self.folder
        for name in self.sizes:
            self._send_file(member_left.OWN + name, {"is": "output", "stream": name})
        self._send_file("bundle.zip", {"is": "part"})
        self.agent.send(dict(ended, **self.at, by="earlier"))
        return True

    def _send_file(self, name: str, message: dict[str, Any]) -> tuple[int, str]:
        """In parts, where it is there. -> its size and its digest"""
        whole, at = hashlib.sha256(), 0
        with suppress(FileNotFoundError), open(os.path.join(self.folder, name), "rb") as file:
            for data in iter(lambda: file.read(PART_BYTES), b""):
                whole.update(data)
                self.agent.send(dict(self.at, **{"from": at}, **message), data)
                at += len(data)
                self.agent.look([], 0.0)
        return at, whole.hexdigest()

    # ------------------------------------------------------------ Hotlap, where it is needed and not there

    def _fit(self, deadline_s: float | None) -> None:
        """Raises UnfitError where the version that is needed is neither there nor can be sent."""
        need, python = self.task["need"], self.task["argv"][0]
        there, why = hotlap_version(python) if need else ("", "")
        if there == need:
            return
        lack = f"Hotlap {there} is there, {need} is needed" if there else f"no Hotlap that works is there, {need} is needed"
        self.agent.send(dict(self.at, **{"is": "lacks"}))
        offer = self._answer(("offer",), deadline_s)[0]
        if not offer["files"]:
            raise UnfitError(lack + "; pip install it there, or run the controller on the same kind of machine, which then sends its own")
        files = member_zips.chosen(offer["files"])
        self.path = member_zips.place(files, self.agent.folder)
        if not os.path.isdir(self.path):
            paths = self._fetched(files, offer["token"], deadline_s)
            self._relay({file["digest"]: path for file, path in zip(files, paths)}, offer)  # noqa: B905 - Python 3.9
            self.agent.send(dict(self.at, **{"is": "got"}))
            member_zips.unpack(paths, self.path)
        there, why = hotlap_version(python, self.path)
        if there != need:
            raise UnfitError(f"{lack}; it was sent, and does not work: {why or there}")

    def _fetched(self, files: list[dict[str, Any]], token: str, deadline_s: float | None) -> list[str]:
        """Wheels by their digests: from a member that the controller names, else from the controller."""
        paths = [os.path.join(self.folder, os.path.basename(file["name"])) for file in files]
        digests = [file["digest"] for file in files]
        for direct in (False, True):
            self.agent.send(dict(self.at, **{"is": "want", "digests": digests, "direct": direct}))
            message = self._answer(("from", "wheels"), deadline_s)[0]
            if message["do"] == "wheels":
                for file, path in zip(files, paths):  # noqa: B905 - Python 3.9
                    self._receive(file, path, deadline_s)
                break
            place = message["address"], message["port"]
            if all(member_relay.fetch(place, token, file, path, lambda: self.agent.look([], 0.0)) for file, path in zip(files, paths)):  # noqa: B905
                break
        return paths

    def _receive(self, file: dict[str, Any], path: str, deadline_s: float | None) -> None:
        whole = hashlib.sha256()
        with open(path, "wb") as out:
            while out.tell() < file["size"]:
                body = self._answer(("part",), deadline_s)[1]
                whole.update(body)
                out.write(body)
        if whole.hexdigest() != file["digest"]:
            raise UnfitError(f"{file['name']} did not come as it was sent")

    def _relay(self, paths: dict[str, str], offer: dict[str, Any]) -> None:
        """Passes wheels on to other members, where that is of use and a port can be had."""
        kind = offer["relays"]
        if not kind:
            return
        with suppress(OSError):
            port, held = member_relay.relay(paths, offer["token"], "127.0.0.1" if kind == "local" else "")
            self.agent.relays.append(held)
            address = "127.0.0.1" if kind == "local" else own_address(kind == "ssh")
            self.agent.send(dict(self.at, **{"is": "relays", "address": address, "port": port}))

    def _answer(self, kinds: tuple[str, ...], deadline_s: float | None) -> tuple[dict[str, Any], bytes]:
        """The controller's next message of these kinds. Raises _EndedError where the step ends before."""
        while True:
            self.stopped = self.agent.stopped()
            self.timed_out = bool(deadline_s) and time.monotonic() >= (deadline_s or 0.0)
            if self.stopped or self.timed_out:
                raise _EndedError
            items: list[tuple[dict[str, Any], bytes]] = self.agent.waiting
            for place, item in enumerate(items):
                if item[0]["do"] in kinds:
                    del self.agent.waiting[place]
                    return item
            self.agent.look([], 0.5)

    # ------------------------------------------------------------ the program

    def _meet(self, number: int, deadline_s: float | None) -> None:
        """Holds a port, says so, and takes the rendezvous of the round, which comes when all of the gang are ready."""
        with socket.socket() as held:
            kind = self.task["gang"]
            held.bind(("127.0.0.1" if kind == "local" else "", 0))
            place = {"port": held.getsockname()[1], "address": own_address(kind == "ssh")}
            self.agent.send(dict(self.at, **{"is": "ready", "round": number}, **place))
            message = self._answer(("round",), deadline_s)[0]
            self.task["env"].update(message["env"])
            self.last = message.get("last", False)

    def _round(self, deadline_s: float | None) -> int:
        environment = dict(os.environ, **self.task["env"])
        environment[MARK] = f"{self.agent.own}/{self.task['step']}/{self.task['attempt']}"
        environment["HOTLAP_HOME"] = os.path.join(self.folder, "home")
        if self.path:
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [self.path, os.environ.get("PYTHONPATH", "")]))
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
            sweep(self.agent.own, 0.2)

    def _judge(self, child: subprocess.Popen[bytes], deadline_s: float | None) -> None:
        if child.poll() is not None:
            return
        self.stopped = self.agent.stopped() or self.stopped or (self.agent.alone and time.monotonic() > self.agent.alone_until_s)
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
        sweep(self.agent.own, 0.2)

    def _output(self, name: str, data: bytes) -> None:
        room = MOST_OUTPUT_BYTES - self.sizes[name]
        self.sizes[name] += len(data)
        if room > 0:
            self._keep(name, data[:room])
            self.agent.send(dict(self.at, **{"is": "output", "stream": name}), data[:room])

    def _hand_over(self, code: int, seconds: float) -> None:
        """What the step leaves, packed: into the folder that is shared, where it is and will take it, else in parts."""
        path = os.path.join(self.folder, "bundle.zip")
        pack(path, {"code": code, "seconds": seconds, "rounds": self.rounds}, os.path.join(self.folder, "home", "runs"), MOST_BUNDLE_BYTES)
        if self.task["shared"] and not self.agent.alone and os.path.getsize(path) > SHARED_BYTES and self._share(path, code, seconds):
            return
        size, digest = self._send_file("bundle.zip", {"is": "part"})
        self._done(code, seconds, size, digest, self.failed)

    def _keep(self, name: str, data: bytes) -> None:
        """In the step's folder too, where the controller may be gone by the end. What is not whole is not handed over later."""
        if self.lasts and not self.torn:
            try:
                with open(os.path.join(self.folder, member_left.OWN + name), "ab") as file:
                    file.write(data)
            except OSError:
                self.torn, self.lasts = True, self.agent.alone

    def _share(self, path: str, code: int, seconds: float) -> bool:
        whole, place = hashlib.sha256(), self.task["shared"]
        try:
            with open(path, "rb") as file, open(place, "xb") as out:
                for data in iter(lambda: file.read(PART_BYTES), b""):
                    whole.update(data)
                    out.write(data)
                    self.agent.look([], 0.0)
                out.flush()
                os.fsync(out.fileno())
        except OSError:
            with suppress(OSError):
                os.unlink(place)
            return False
        self._done(code, seconds, os.path.getsize(path), whole.hexdigest(), self.failed, by="folder")
        return True

    def _done(self, code: int, seconds: float, size: int, digest: str, why: str, by: str = "pipe") -> None:
        dropped = {name: size - MOST_OUTPUT_BYTES for name, size in self.sizes.items() if size > MOST_OUTPUT_BYTES}
        ended = {"is": "done", "timed_out": self.timed_out, "stopped": self.stopped, "dropped": dropped, "why": why, "by": by}
        message = dict(self.at, code=code, seconds=seconds, size=size, digest=digest, **ended)
        if self.lasts and not self.torn and not self.stopped and digest:
            self._record(message)
        self.agent.send(message)

    def _record(self, message: dict[str, Any]) -> None:
        """Until the controller says that it has the step's end, it is here."""
        path = os.path.join(self.folder, member_left.ENDED)
        with suppress(OSError):
            with open(path + ".tmp", "w") as file:
                json.dump(message, file)
            os.replace(path + ".tmp", path)
            self.agent.unfetched = self.folder
