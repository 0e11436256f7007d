"""Any program as a workload: its wall time, or a number that it prints."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any

import numpy as np

from hotlap.errors import InputError, NotSupported
from hotlap.record import Case, Check
from hotlap.targets.base import Target
from hotlap.workloads.base import Prepared


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """The program is run once per sample. It is checked by its exit status and, where a number is read, by finding it."""
    program = _Program(case, target)
    return Prepared(
        program.enqueue, program.check, timer="wall" if program.read == "wall" else "own", batch=1, variant=program.read,
        own_value=None if program.read == "wall" else program.value,
    )


class _Program:
    def __init__(self, case: Case, target: Target) -> None:
        p = case.params
        self.argv, self.read, self.expression = [str(a) for a in _list(p["argv"])], str(p["read"]), str(p["expression"])
        self.folder, self.timeout_s = str(p["folder"]) or None, float(str(p["timeout"]))
        self.scale, self.target = float(str(p["scale"])), target
        self.environment = {**os.environ, **_pairs(_list(p["environment"]))}
        self.output, self.runs = "", 0
        if not self.argv:
            raise InputError("command needs 'argv', the program and its arguments")
        if self.read != "wall" and not self.expression:
            raise InputError(f"command with read = '{self.read}' needs 'expression'")

    def enqueue(self, calls: int) -> None:
        for _ in range(calls):
            self.once()

    def once(self) -> None:
        try:
            done = subprocess.run(
                self.argv, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=self.timeout_s, check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotSupported(f"the program cannot be run: {error}") from error
        if done.returncode != 0:
            tail = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            raise NotSupported(f"the program ended with status {done.returncode}: {tail[:200]}")
        self.output, self.runs = done.stdout, self.runs + 1

    def value(self) -> float:
        """The number in the last output, scaled. Raises NotSupported when it is not there."""
        found = _pattern(self.expression, self.output) if self.read == "pattern" else _pointer(self.expression, self.output)
        return found * self.scale

    def check(self) -> Check:
        self.once()
        number = f", number {self.value():g}" if self.read != "wall" else ""
        return Check(passed=True, what=f"exit status 0 in {self.runs} executions{number}")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _pairs(items: list[Any]) -> dict[str, str]:
    pairs = dict(str(item).partition("=")[::2] for item in items)
    if any("=" not in str(item) for item in items):
        raise InputError("command's 'environment' is a list of NAME=value")
    return pairs


def _pattern(expression: str, output: str) -> float:
    try:
        match = re.search(expression, output, re.MULTILINE)
    except re.error as error:
        raise InputError(f"'{expression}' is not a regular expression: {error}") from error
    if not match:
        raise NotSupported(f"the pattern '{expression}' is not in the program's output")
    text = match[1] if match.groups() else match[0]
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise NotSupported(f"the pattern '{expression}' found '{text}', which is no number") from None


def _pointer(pointer: str, output: str) -> float:
    """RFC 6901 into the output, which is one JSON document, perhaps after other lines."""
    start = min((i for i in (output.find("{"), output.find("[")) if i >= 0), default=-1)
    if start < 0:
        raise NotSupported("the program's output has no JSON")
    try:
        node: Any = json.JSONDecoder().raw_decode(output[start:])[0]
    except ValueError as error:
        raise NotSupported(f"the program's output is not JSON ({error})") from None
    for part in pointer.strip("/").split("/") if pointer.strip("/") else []:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            node = node[int(key)] if isinstance(node, list) else node[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise NotSupported(f"the JSON has nothing at '{pointer}' (no '{key}')") from None
    if isinstance(node, bool) or not isinstance(node, (int, float, str)):
        raise NotSupported(f"the JSON has no number at '{pointer}'")
    try:
        return float(node)
    except ValueError:
        raise NotSupported(f"the JSON has '{node}' at '{pointer}', which is no number") from None
