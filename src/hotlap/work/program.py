"""Users' own code: a program, or a Python callable (by `hotlap.measure`). What they do is theirs; the unit is theirs too."""

from __future__ import annotations

from collections.abc import Mapping

from hotlap.record import Value
from hotlap.work.base import Param, Work, Workload


def _own(params: Mapping[str, Value]) -> Work:
    read, written = params.get("bytes", 0), params.get("bytes_written", 0)
    ops = params.get("operations", 0)
    assert isinstance(read, (int, float))
    assert isinstance(written, (int, float))
    assert isinstance(ops, (int, float))
    unit = str(params.get("unit_of_arithmetic") or "own")
    return Work(read_bytes=float(read), written_bytes=float(written), operations={unit: float(ops)} if ops else {})


WORKLOADS = (
    Workload(
        "command", "any program: its wall time, or a number it prints",
        (
            Param("argv", "list", "the program and its arguments"),
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
        ),
        "time", "s", "lower", _own,
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
    ),
)
