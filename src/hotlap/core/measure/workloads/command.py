"""Any program as a workload: its wall time, or a number that it prints."""

from __future__ import annotations

import json
import math
import os
import re
import signal
from typing import Any

from hotlap.core.errors import InputError, NotSupported, nearest
from hotlap.core.measure.spawn import Execution, Launcher, TimedOut, shell
from hotlap.core.record import Case
from hotlap.core.units import exact
from hotlap.core.work.program import COMMAND, command_fault


class CommandProgram:
    """A program as a case describes it. Raises InputError for a description that is not valid."""

    def __init__(self, case: Case) -> None:
        p = COMMAND.full(case.params)
        if fault := command_fault(p):  # a run made elsewhere may hold what a plan no longer may
            raise InputError(fault[1])
        self.argv, self.read, self.expression = [str(a) for a in _list(p["argv"])], str(p["read"]), str(p["expression"])
        self.folder, self.timeout_s = str(p["folder"]) or None, float(str(p["timeout"]))
        self.scale, self.ignores_failure = float(str(p["scale"])), bool(p["ignore_failure"])
        self.prepare, self.conclude = str(p["prepare"]), str(p["conclude"])
        self.unit = "s" if self.read == "wall" else str(p["unit"])  # of what is kept
        self.environment = {**os.environ, **_pairs(_list(p["environment"]))}
        self.launcher = Launcher(self.argv, self.environment, self.folder, p["output"], self.timeout_s)
        self.output, self.runs = "", 0

    def once(self) -> Execution:
        """One execution, between what prepares and what concludes it. Raises NotSupported with the reason of a failure."""
        self.hook("prepare", self.prepare)
        try:
            done = self.launcher.once()
        except TimedOut:
            limit = exact(self.timeout_s, "s")
            more = "give it more: timeout in a plan, --timeout"
            raise NotSupported(f"the program ran longer than its limit of {limit} and was ended; {more}") from None
        except (OSError, ValueError) as error:
            raise NotSupported(f"the program cannot be run: {_why(error, self.argv[0], self.folder)}") from error
        self.hook("conclude", self.conclude)
        if done.status != 0 and not self.ignores_failure:
            raise ProgramFailed(f"the program {ending(done)}", done.status)
        self.output, self.runs = done.output, self.runs + 1
        return done

    def hook(self, name: str, text: str) -> None:
        """A line of shell beside the program, where there is one. Raises NotSupported where it fails."""
        if text and (done := shell(text, self.environment, self.folder)).status != 0:
            raise NotSupported(f"{name} '{text}' {ending(done)}")

    def value(self) -> float:
        """The number in the last output, scaled. Raises NotSupported when it is not there."""
        found = _pattern(self.expression, self.output) if self.read == "pattern" else _pointer(self.expression, self.output)
        if not math.isfinite(found * self.scale):
            scaled = f" × scale {self.scale:g}" if math.isfinite(found) else ""
            raise NotSupported(f"the number in the program's output is {found:g}{scaled}, which is not finite and cannot be compared")
        return found * self.scale


class ProgramFailed(NotSupported):
    """The program ended with another status than 0; below 0 it is the signal that ended it."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def ending(done: Execution) -> str:
    """How a program ended, and its last words where they were kept."""
    last = (done.errors.strip() or done.output.strip()).splitlines()
    words = f": {last[-1][:200]}" if last else ""
    if done.status < 0:
        return f"was ended by {signal.Signals(-done.status).name}{words}"
    return f"ended with status {done.status}{words}"


class NoNumber(NotSupported):
    """The output has no number where it was asked for: the pointer or pattern is wrong, or the program prints something else."""


def _why(error: Exception, program: str, folder: str | None) -> str:
    """What the system said, and which of the two it was about: it names the folder and the program alike."""
    if folder and not os.path.isdir(folder):
        return f"there is no folder '{folder}'"
    return f"there is no program '{program}'" if isinstance(error, FileNotFoundError) else str(error)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _pairs(items: list[Any]) -> dict[str, str]:
    return dict(str(item).partition("=")[::2] for item in items)


def number_in(expression: str, output: str) -> float:
    """The number where a JSON pointer (/a/b) or a pattern finds it. Raises NoNumber, NotSupported."""
    return _pointer(expression, output) if expression.startswith("/") else _pattern(expression, output)


def _pattern(expression: str, output: str) -> float:
    match = re.search(expression, output, re.MULTILINE)
    if not match:
        raise NoNumber(f"the pattern '{expression}' is not in the program's output{_said(output)}")
    text = (match[1] if match.groups() else match[0]) or ""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise NoNumber(f"the pattern '{expression}' found '{text}', which is no number") from None


def _said(output: str) -> str:
    """The end of an output, for a message."""
    lines = output.strip().splitlines()
    return f", which ends: {lines[-1][:120]}" if lines else ", which is empty"


def _keys(node: Any, key: str) -> str:
    """What there is instead, for a message."""
    if isinstance(node, list):
        return f"; valid: 0 to {len(node) - 1}" if node else ", where a list is empty"
    return f"; {nearest(key, [str(name) for name in node][:20])}" if isinstance(node, dict) and node else ""


def _pointer(pointer: str, output: str) -> float:
    """RFC 6901 into the output, which is one JSON document, perhaps after other lines."""
    start = min((i for i in (output.find("{"), output.find("[")) if i >= 0), default=-1)
    if start < 0:
        raise NoNumber("the program's output has no JSON" + _said(output))
    try:
        node: Any = json.JSONDecoder().raw_decode(output[start:])[0]
    except ValueError as error:
        raise NotSupported(f"the program's output is not JSON ({error})") from None
    for part in pointer.strip("/").split("/") if pointer.strip("/") else []:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            node = node[int(key)] if isinstance(node, list) else node[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise NoNumber(f"the JSON has nothing at '{pointer}' (no '{key}'){_keys(node, key)}") from None
    if isinstance(node, bool) or not isinstance(node, (int, float, str)):
        raise NoNumber(f"the JSON has no number at '{pointer}'{_keys(node, '')}")
    try:
        return float(node)
    except ValueError:
        raise NoNumber(f"the JSON has '{node}' at '{pointer}', which is no number") from None
