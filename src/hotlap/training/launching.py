"""One launch of the program: its processes under the recorder, bounded in time, without a terminal to ask."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from hotlap.core.errors import InputError
from hotlap.training.record import COLUMNS, ROWS, STARTED, TrainingAsked, TrainingProcess

OUTPUT_BYTES = 2**18  # kept of a program's output, its end
GRACE_S = 5.0  # between asking a program to end and ending it
RECORDER = Path(__file__).parent / "recorder"


@dataclass(frozen=True)
class Launch:
    """One turn of one arm."""

    number: int
    arm: str
    data: str = "real"
    cache: str = ""
    compile: str = ""  # a mode, "off", or "": as the program does
    program: str = ""  # in place of the one asked for
    count: bool = False  # count the operations of one step, and no times
    steps: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    more: tuple[str, ...] = ()  # arguments after the asked ones
    before: tuple[str, ...] = ()  # words before the command of a script


def command(asked: TrainingAsked, launch: Launch) -> list[str]:
    """What is run. Raises InputError for a script that is not there."""
    program = launch.program or asked.program
    if asked.kind == "function" and not program.endswith(".py"):
        return [sys.executable, "-m", "hotlap.training.calling", program, *asked.arguments, *launch.more]
    if asked.kind == "network":
        parameters = [f"{name}={value}" for name, value in asked.parameters.items()]
        return [sys.executable, "-m", "hotlap.training.network_program", program, launch.compile or "off", *parameters, *launch.more]
    if not Path(program).is_file():
        raise InputError(f"there is no script '{program}'; give a script.py, a module:function or a network such as llama-3-8b")
    return [*launch.before, sys.executable, program, *asked.arguments, *launch.more]


class Place(NamedTuple):
    """Of a process in its launch."""

    rank: int = 0
    port: int = 0  # where ranks meet
    turn: int = -1  # see Program


def environment(asked: TrainingAsked, launch: Launch, folder: Path, place: Place) -> dict[str, str]:
    steps = launch.steps or (asked.steps + 1 if asked.steps else 0)  # the first starts the program, and is never counted
    told = {
        "folder": str(folder), "data": launch.data, "steps": steps, "number": launch.number, "count": launch.count, "parent": os.getpid(),
        "turn": place.turn,
    }  # fmt: skip
    path = os.pathsep.join(filter(None, (str(RECORDER), os.environ.get("PYTHONPATH", ""))))
    extra = {"PYTHONPATH": path, "HOTLAP_TRAINING": msgspec.json.encode(told).decode(), **launch.environment}
    if launch.count or launch.compile == "off":
        extra["TORCH_COMPILE_DISABLE"] = "1"
    if asked.ranks > 1:
        extra |= {name: str(place.rank) for name in ("RANK", "LOCAL_RANK")}
        extra |= {name: str(asked.ranks) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")}
        extra |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(place.port)}
    return {**os.environ, **extra}


class Running:
    """The processes of a launch; `end` may be called from a signal handler."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.interrupted = False

    def interrupt(self, _: int) -> None:
        """Ctrl-C goes to the program, which then keeps what it has; a second time it is firmer."""
        number = 2 if self.interrupted else 1
        self.interrupted = True
        self.end(number)

    def end(self, number: int) -> None:
        """The first time as Ctrl-C does, then firmer; only groups that this launch began."""
        end(self.processes, number)


def end(processes: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    """Their groups: the first time as Ctrl-C does, then firmer."""
    firmer = {1: signal.SIGINT, 2: signal.SIGTERM}.get(number, signal.SIGKILL)
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, firmer)


class Program:
    """The processes of one launch. `turn`: a file by which the program waits for its turn between steps; -1: none."""

    def __init__(self, asked: TrainingAsked, launch: Launch, folder: Path, running: Running, turn: int = -1) -> None:
        self.launch, self.folder, self.running = launch, folder, running
        argv, port = command(asked, launch), _free_port() if asked.ranks > 1 else 0
        self.output = folder / f"output-{launch.number}.txt"
        with self.output.open("wb") as stream:
            self.processes = [
                subprocess.Popen(
                    argv, env=environment(asked, launch, folder, Place(rank, port, turn)), stdin=subprocess.DEVNULL, stdout=stream,
                    stderr=subprocess.STDOUT, start_new_session=True, pass_fds=() if turn < 0 else (turn,),
                )
                for rank in range(asked.ranks)
            ]  # fmt: skip
        running.processes = [*(one for one in running.processes if one.poll() is None), *self.processes]

    @property
    def is_alive(self) -> bool:
        return any(process.poll() is None for process in self.processes)

    @property
    def has_failed(self) -> bool:
        return any(process.poll() not in (None, 0) for process in self.processes)

    def end(self, number: int) -> None:
        """The first time as Ctrl-C does, then firmer."""
        end(self.processes, number)

    def result(self, *, late: bool) -> list[TrainingProcess]:
        """What its processes left, once they have ended; `late`: they were ended after their time."""
        _shorten(self.output)
        codes = [process.returncode if process.returncode >= 0 else 128 - process.returncode for process in self.processes]
        return collected(self.folder, self.launch, codes, "interrupted" if self.running.interrupted else "time" if late else "")


def run(asked: TrainingAsked, launch: Launch, folder: Path, running: Running, wait: Callable[[], None]) -> list[TrainingProcess]:
    """Runs it to its end and returns its processes that stepped, or the one that was begun where none did."""
    reason, tries = "", 0
    program = Program(asked, launch, folder, running)
    deadline = time.monotonic() + asked.limit_s
    while program.is_alive:
        with contextlib.suppress(subprocess.TimeoutExpired):
            next(process for process in program.processes if process.poll() is None).wait(0.5)
        wait()
        if time.monotonic() > deadline or (program.has_failed and not reason):  # ranks that wait for one that failed would wait for ever
            reason = reason or ("failed" if program.has_failed else "time")
            tries += 1
            program.end(tries)
            deadline = time.monotonic() + GRACE_S
    return program.result(late=reason == "time")


def collected(folder: Path, launch: Launch, codes: Sequence[int], ended: str) -> list[TrainingProcess]:
    """What the processes of a launch left behind."""
    names = [path.name for one in (STARTED, ROWS) for path in sorted(folder.glob(one.replace("*", f"{launch.number}-*")))]
    found = stepped(begun(launch), {name: (folder / name).read_bytes() for name in names})
    more = {"ended": ended} if ended else {}
    code = next((one for one in codes if one), 0)
    return [replace(one, exit_code=code, **more) for one in found or [begun(launch)]]


def begun(launch: Launch) -> TrainingProcess:
    """What is known of a launch's processes before they say anything."""
    return msgspec.convert({"number": launch.number, "arm": launch.arm, "data": launch.data, "cache": launch.cache}, TrainingProcess)


def stepped(launch: TrainingProcess, files: Mapping[str, bytes]) -> list[TrainingProcess]:
    """A launch's processes by what they wrote, those that stepped or the one that says most. `files`: of a bundle, by name; their rows
    are counted, for a process that was killed had no time to say how many, and one that was killed at its first step says nothing else."""
    own = ROWS.replace("*", f"{launch.number}-*")
    rows = {name: len(data) // (8 * len(COLUMNS)) for name, data in files.items() if fnmatchcase(name, own)}
    processes = []
    for name, data in files.items():
        if fnmatchcase(name, STARTED.replace("*", f"{launch.number}-*")):
            with contextlib.suppress(msgspec.MsgspecError):
                processes.append(msgspec.json.decode(data, type=TrainingProcess))
    silent = sorted(rows.keys() - {one.file for one in processes})
    processes += [TrainingProcess(number=launch.number, pid=int(name.rpartition("-")[2].removesuffix(".bin"))) for name in silent]
    processes = [replace(one, steps=rows.get(one.file, 0)) for one in processes]
    failed = [process for process in processes if process.error.type or process.armed]
    chosen = [process for process in processes if process.steps] or failed[:1] or processes[:1]
    chosen.sort(key=lambda one: (one.rank, -one.steps, one.pid))
    return [replace(one, number=launch.number, arm=launch.arm, data=launch.data, cache=launch.cache) for one in chosen]


def tidy(folder: Path, number: int) -> None:
    """Removes what the processes of a launch wrote of themselves, once it is kept elsewhere."""
    for file in folder.glob(STARTED.replace("*", f"{number}-*")):
        with contextlib.suppress(OSError):
            file.unlink()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _shorten(path: Path) -> None:
    """The end of a long output."""
    with contextlib.suppress(OSError):
        size = path.stat().st_size
        if size > OUTPUT_BYTES:
            with path.open("rb") as file:
                file.seek(size - OUTPUT_BYTES)
                kept = file.read()
            path.write_bytes(b"...\n" + kept)
        elif not size:
            path.unlink()
