"""Users' own code: a program, or a Python callable (by `hotlap.measure`). What they do is theirs; the unit is theirs too."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hotlap.core.record import Value
from hotlap.core.work.base import Param, Work, Workload


def _own(params: Mapping[str, Value]) -> Work:
    read, written = params.get("bytes", 0), params.get("bytes_written", 0)
    ops = params.get("operations", 0)
    assert isinstance(read, (int, float))
    assert isinstance(written, (int, float))
    assert isinstance(ops, (int, float))
    unit = str(params.get("unit_of_arithmetic") or "own")
    return Work(read_bytes=float(read), written_bytes=float(written), operations={unit: float(ops)} if ops else {})


def cannot_start(program: str) -> str:
    """Why a program of this name or path cannot be started, with what to do; "" where it can."""
    if shutil.which(program) is not None:
        return ""
    if Path(program).is_file():
        runner = "python" if program.endswith(".py") else "sh"
        return f"'{program}' is a file that cannot be executed; name what runs it, as in '{runner} {program}', or chmod +x"
    return f"there is no program '{program}'; is it installed, and in PATH?"


def command_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    """What keeps a program from being run, or its number from being read, whatever the machine: the parameter and the reason."""
    argv, environment, read, expression = (params.get(name) for name in ("argv", "environment", "read", "expression"))
    if not isinstance(argv, list) or not argv or not argv[0]:
        return "argv", "'argv' is empty; give the program and its arguments, as in argv = [\"./bench\", \"-n\", \"5\"]"
    for item in environment if isinstance(environment, list) else []:
        if "=" not in item or item.startswith("="):
            return "environment", f"'environment' is a list of NAME=value, not '{item}'"
    if not params.get("scale", 1.0):
        return "scale", "'scale' is 0, which makes every number 0; leave it out, or give what leads to the unit, as in 1e9 from GB/s to B/s"
    if read == "wall":
        return _wall_fault(params)
    if params.get("output", "pipe") != "pipe":
        return "output", f"read = '{read}' needs the program's output: leave out output = '{params['output']}'"
    if not expression:
        what = "a regular expression" if read == "pattern" else "a JSON pointer, as in /results/0/rate,"
        return "read", f"read = '{read}' needs 'expression', {what} that finds the number in the program's output"
    return _pattern_fault(str(expression)) if read == "pattern" else None


def kernel_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    """What keeps a user's kernel from being a case."""
    settings = params.get("settings")
    for item in settings if isinstance(settings, list) else []:
        if "=" not in item or item.startswith("="):
            return "settings", f"'settings' is a list of NAME=value, not '{item}'"
    if params.get("operations") and not params.get("unit_of_arithmetic"):
        return "unit_of_arithmetic", "'operations' needs 'unit_of_arithmetic', the unit that does them, as in fma.fp32"
    return None


def _wall_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    if params.get("expression"):
        return "expression", "'expression' is not used with read = 'wall'; add read = 'pattern' or 'pointer', or leave it out"
    if params.get("unit", "s") != "s" and params.get("scale", 1.0) == 1.0:
        return "unit", f"a wall time is in s: unit = '{params['unit']}' needs the scale that leads to it, as in scale = 1000 for ms"
    return None


def _pattern_fault(expression: str) -> tuple[str, str] | None:
    try:
        re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        return "expression", f"'{expression}' is not a regular expression: {error}; see https://docs.python.org/3/library/re.html"
    return None


def _command_line(params: Mapping[str, Any]) -> str:
    argv, copy = params.get("argv", []), params.get("copy", 1)
    again = [f"#{copy}"] if copy != 1 else []
    return " ".join(["command", *(argv if isinstance(argv, list) else [str(argv)]), *again])


def _imported_label(params: Mapping[str, Any]) -> str:
    given = params.get("parameters", [])
    return " ".join([str(params.get("name", "")), *(given if isinstance(given, list) else [])])


def _block_label(params: Mapping[str, Any]) -> str:
    given = params.get("load", [])
    return " ".join([str(params.get("metric", "")), *(given if isinstance(given, list) else [])])


def _tool_label(params: Mapping[str, Any]) -> str:
    given = params.get("settings", [])
    settings = given if isinstance(given, list) else [given]
    return " ".join(filter(None, [str(params.get("tool", "")), str(params.get("name", "")), str(params.get("part", "")), *settings]))


def _like(params: Mapping[str, Any]) -> tuple[str, float]:
    return str(params.get("like", "")), float(params.get("factor", 1.0))


def _callable_label(params: Mapping[str, Any]) -> str:
    """Without its work: the rates beside the time say it."""
    return f"callable {params.get('name', '')}"


def _kernel_label(params: Mapping[str, Any]) -> str:
    settings = params.get("settings", [])
    return " ".join([str(params.get("name", "")), *(settings if isinstance(settings, list) else [])])


WORKLOADS = (
    Workload(
        "command", "any program: its wall time, or a number it prints",
        (
            Param("argv", "list", "program and arguments: a list of strings, or one string, split as a shell does, nothing expanded"),
            Param("folder", "str", "working folder; '' is the current one", ""),
            Param("environment", "list", "NAME=value pairs added to the environment", []),
            Param(
                "read", "str", "where the number is: wall: its time; pattern: first group of a regular expression in its output; "
                "pointer: a JSON pointer into its output", "wall", choices=("wall", "pattern", "pointer"),
            ),
            Param("expression", "str", "the regular expression or JSON pointer", ""),
            Param("unit", "str", "of the number, as in s, B/s, FLOP/s, or any word", "s"),
            Param("scale", "float", "the number is multiplied by this to reach the unit", 1.0),
            Param("better", "str", "which way is better", "lower", choices=("lower", "higher")),
            Param("timeout", "float", "longest time for one execution", 60.0, unit="s", low=0.001),
            Param(
                "output", "str", "where its output goes: pipe: read and dropped; null: /dev/null; inherit: that of hotlap", "pipe",
                choices=("pipe", "null", "inherit"), added_after_release=True,
            ),
            Param("prepare", "str", "run by the shell before each execution, not timed", "", added_after_release=True),
            Param("conclude", "str", "run by the shell after each execution, not timed", "", added_after_release=True),
            Param("ignore_failure", "bool", "an exit status other than 0 is no failure", False, added_after_release=True),
            Param("copy", "int", "tells apart a program that stands in a plan several times: 1, 2 …", 1, low=1, added_after_release=True),
        ),
        "time", "s", "lower", _own, fault=command_fault,
        source="program", label=_command_line,
    ),
    Workload(
        "imported", "numbers that something else measured, brought in by hotlap import",
        (
            Param("name", "str", "what they are of"),
            Param("unit", "str", "of the numbers", ""),
            Param("better", "str", "which way is better", "lower", choices=("lower", "higher")),
            Param("parameters", "list", "NAME=value pairs that tell cases of one name apart", [], added_after_release=True),
        ),
        "time", "s", "lower", _own,
        source="file", label=_imported_label,
        unplanned="a plan cannot hold numbers measured elsewhere; bring them in with 'hotlap import FILE'",
    ),
    Workload(
        "toolrun", "numbers that another program printed",
        (
            Param("tool", "str", "which program: the name of its tool file"),
            Param("name", "str", "what the number is called there"),
            Param("unit", "str", "of the numbers", ""),
            Param("better", "str", "which way is better", "lower", choices=("lower", "higher")),
            Param("settings", "list", "NAME=value pairs of the run that are not the program's defaults here", []),
            Param("defaults", "list", "the other NAME=value pairs of the run", []),
            Param("part", "str", "which of several devices, as the program calls it", ""),
            Param("like", "str", "a case of ours that means the same, as on the command line of bench", ""),
            Param("factor", "float", "the number times this is what that case counts", 1.0),
        ),
        "time", "s", "lower", _own,
        source="file", label=_tool_label, like=_like,
        unplanned="a plan cannot hold another program's numbers; run it by its tool file",
    ),
    Workload(
        "reqblock", "a block of requests to a server of models: one number of it",
        (
            Param("metric", "str", "which number, as in ttft"),
            Param("unit", "str", "of it", "s"),
            Param("better", "str", "which way is better", "lower", choices=("lower", "higher")),
            Param("load", "list", "NAME=value pairs: what is sent, the same to both sides of a comparison", []),
        ),
        "time", "s", "lower", _own,
        source="file", label=_block_label,
        unplanned="a plan cannot hold requests to a server; name the server in a configuration, and compare it with another",
    ),
    Workload(
        "kernel", "a user's own kernel, which another command keeps and makes plans of",
        (
            Param("name", "str", "its name among those kept"),
            Param("settings", "list", "its own parameters, as in n=1024 dtype=fp32", []),
            Param("bytes", "float", "bytes one call reads, if known", 0.0, unit="B", low=0),
            Param("bytes_written", "float", "bytes one call writes, if known", 0.0, unit="B", low=0),
            Param("operations", "float", "operations of one call, if known", 0.0, low=0),
            Param("unit_of_arithmetic", "str", "the unit that does them, as in fma.fp32 or matrix.bf16", ""),
        ),
        "time", "s", "lower", _own, fault=kernel_fault,
        source="user kernel", label=_kernel_label,
    ),
    Workload(
        "callable", "a Python callable given to hotlap.measure",
        (
            Param("name", "str", "the callable's name"),
            Param("bytes", "float", "bytes one call reads, if known", 0.0, unit="B", low=0),
            Param("bytes_written", "float", "bytes one call writes, if known", 0.0, unit="B", low=0),
            Param("operations", "float", "operations of one call, if known", 0.0, low=0),
            Param("unit_of_arithmetic", "str", "the unit that does them, as in fma.fp32 or matrix.bf16", ""),
        ),
        "time", "s", "lower", _own,
        source="python", label=_callable_label,
        unplanned="a plan cannot hold a Python callable; call hotlap.measure, or use the workload 'command'",
    ),
)

COMMAND, IMPORTED, TOOL, REQUESTS, KERNEL, CALLABLE = WORKLOADS
