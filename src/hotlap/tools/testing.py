"""A tool file against its own samples: every number, to the digit, or the reason that there is none."""

from __future__ import annotations

import math
from typing import NamedTuple

from hotlap.core.measure.tools import reading, toolfile
from hotlap.core.measure.tools.reading import ToolOutput, ToolReading
from hotlap.core.measure.tools.toolfile import ToolFile, ToolSample

CLOSE = 1e-9  # of two numbers that are the same to the last digit that was printed


class Tested(NamedTuple):
    """One sample. `fault`: what differs, "" where nothing does; `numbers`: how many it gave."""

    origin: str
    numbers: int
    fault: str


def test(tool: ToolFile) -> list[Tested]:
    """Every sample of a file. Raises InputError where one cannot be read."""
    return [_sample(tool, sample) for sample in tool.sample]


def output(tool: ToolFile, sample: ToolSample) -> ToolOutput:
    """What a sample stands for. Raises InputError."""
    files = {name: toolfile.text_of(tool, text) for name, text in sample.files.items()}
    return ToolOutput(sample.status, toolfile.text_of(tool, sample.stdout), toolfile.text_of(tool, sample.stderr), files)


def _sample(tool: ToolFile, sample: ToolSample) -> Tested:
    answer = reading.read(tool, output(tool, sample), tool.settings(sample.parameters))
    numbers = sum(len(value.values) for value in answer.values)
    return Tested(sample.origin, numbers, _refusal(answer, sample.refuse) if sample.refuse else _numbers(answer, sample))


def _refusal(answer: ToolReading, wanted: str) -> str:
    reasons = [answer.refused, *(value.refused for value in answer.values)]
    given = [value.name for value in answer.values if value.values]
    if given:
        return f"it must give no number and gives {', '.join(given[:4])}"
    if not any(wanted in reason for reason in reasons):
        return f"the reason must have '{wanted}' and is '{next(filter(None, reasons), '')}'"
    return ""


def _numbers(answer: ToolReading, sample: ToolSample) -> str:
    """Names are given with the device in front where there are several."""
    if answer.refused:
        return f"no number: {answer.refused}"
    wanted: list[tuple[str, str, float]] = []
    for name, number, unit in sample.expect:
        base, scale = reading.base_unit(unit) or (unit, 1.0)
        wanted.append((name, base, number * scale))
    given = [
        (" ".join(filter(None, (value.device, value.name))), value.unit, number) for value in answer.values for number in value.values
    ]
    for name, unit, number in wanted:
        if not any(_same((name, unit, number), other) for other in given):
            near = [f"{other[2]:.10g} {other[1]}" for other in given if other[0] == name]
            return f"'{name}' must be {number:.10g} {unit} and is {', '.join(near) or _reason(answer, name)}"
    more = [name for name, unit, number in given if not any(_same((name, unit, number), other) for other in wanted)]
    return f"'{more[0]}' is read and not among the numbers of 'expect'" if more else ""


def _same(a: tuple[str, str, float], b: tuple[str, str, float]) -> bool:
    return a[:2] == b[:2] and math.isclose(a[2], b[2], rel_tol=CLOSE)


def _reason(answer: ToolReading, name: str) -> str:
    refused = next((value.refused for value in answer.values if value.name == name and value.refused), "")
    known = ", ".join(value.name for value in answer.values[:6])
    return f"not there: {refused or f'the numbers are called {known}'}"
