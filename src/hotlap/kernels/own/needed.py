"""The inputs that a workload's reference uses: a kernel that is not given one of them computes something else."""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from hotlap.core.errors import nearest
from hotlap.core.measure.workloads import operators
from hotlap.core.measure.workloads.operators.base import Operator
from hotlap.core.record import Value


class WatchedInputs(dict[str, Any]):
    """Inputs that remember which of them were looked at."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        super().__init__(inputs)
        self.looked_at: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.looked_at.add(name)
        return super().__getitem__(name)


def family(name: str) -> str:
    """What an error says of a name that is no workload which kernels can implement."""
    first = (name.split() or [""])[0]  # of "rowwise op=rmsnorm", which says what it does too
    return f"kernels cannot implement '{name}'; {nearest(first, operators.FAMILIES, len(operators.FAMILIES))}"


def used(operator: Operator, inputs: Mapping[str, Any]) -> list[str]:
    """Names of the inputs that the reference looks at, in their order."""
    watched = WatchedInputs({name: value.double() if value.is_floating_point() else value for name, value in inputs.items()})
    operator.reference(watched)
    return [name for name in inputs if name in watched.looked_at]


def of_workload(workload: str, op: str) -> dict[str, str]:
    """Name → type of each input that the reference uses, "" for floating ones; by a table, without PyTorch. {}: none known."""
    text = (importlib.resources.files("hotlap.kernels") / "inputs.toml").read_text(encoding="utf-8")
    words = tomllib.loads(text).get(workload, {}).get(op or "all", "").split()
    return {name: kind for name, _, kind in (word.partition(":") for word in words)}


def left_out(names: Sequence[str], workload: str, op: Value | None) -> str:
    """A line on inputs that are not among a kernel's arguments; "" where there are none."""
    if not names:
        return ""
    listed, several = ", ".join(f"'{name}'" for name in names), len(names) > 1
    verb = "inputs {} of {} are" if several else "input {} of {} is"
    return f"the {verb.format(listed, f'{workload} {op}' if op else workload)} not among the kernel's arguments"
