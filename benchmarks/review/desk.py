"""The newcomer's desk: an empty folder, an empty home, and commands typed one after another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CLONE = Path(__file__).resolve().parents[2]


class NotRun(Exception):
    """What this machine lacks for a task."""


@dataclass(frozen=True)
class Answer:
    """What a command printed, its exit code, and the seconds that it took."""

    code: int
    out: str
    err: str
    seconds: float

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Desk:
    """Runs commands in `folder`; `typed` keeps them with exit code and seconds."""

    folder: Path
    typed: list[str] = field(default_factory=list)

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return name

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def hotlap(self, *words: str, codes: tuple[int, ...] = (0,), timeout_s: float = 600) -> Answer:
        """Run `hotlap words…`; AssertionError on another exit code, a traceback or silence for `timeout_s`."""
        answer = self.run([sys.executable, "-m", "hotlap", *words], timeout_s)
        self.typed.append(f"hotlap {' '.join(words)}  → {answer.code}, {answer.seconds:.1f} s")
        last = (answer.err.strip() or answer.out.strip()).splitlines()[-1:] or [""]
        need(answer.code in codes, f"`hotlap {' '.join(words)[:90]}` ended with {answer.code}, not {codes}: {last[0][:200]}")
        need("Traceback" not in answer.err + answer.out, f"`hotlap {' '.join(words)[:90]}` shows a traceback")
        return answer

    def run(self, argv: list[str], timeout_s: float = 600) -> Answer:
        """Run any program in a process group of its own, which ends with the time-out."""
        began = time.monotonic()
        home = {"HOTLAP_HOME": str(self.folder / "home"), "HOTLAP_LOCKS": str(self.folder / "locks"), "COLUMNS": "100"}
        path = f"{CLONE / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
        child = subprocess.Popen(argv, cwd=self.folder, env={**os.environ, **home, "PYTHONPATH": path}, text=True, start_new_session=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        try:
            out, err = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"`{' '.join(argv)[:120]}` had not ended after {timeout_s:.0f} s") from None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
        return Answer(child.returncode, out, err, time.monotonic() - began)


def need(holds: object, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def has(text: str, *parts: str) -> None:
    for part in parts:
        need(part.lower() in text.lower(), f"'{part}' is missing in: {_short(text)}")


def lacks(text: str, *parts: str) -> None:
    for part in parts:
        need(part.lower() not in text.lower(), f"'{part}' stands in: {_short(next((x for x in text.splitlines() if part.lower() in x.lower()), text))}")


def _short(text: str) -> str:
    return " ".join(text.split())[:160]
