"""The inputs that a workload's reference uses: a kernel that is not given one of them computes something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators.base import Operator
from hotlap.core.measure.workloads.operators.making import Tensors
from hotlap.core.record import Case, Value
from hotlap.core.work.base import Workload

SMALL = 32  # of each extent: names and types of the inputs do not depend on it


class WatchedInputs(dict[str, Any]):
    """Inputs that remember which of them were looked at."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        super().__init__(inputs)
        self.looked_at: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.looked_at.add(name)
        return super().__getitem__(name)


def used(operator: Operator, inputs: Mapping[str, Any]) -> list[str]:
    """Names of the inputs that the reference looks at, in their order."""
    watched = WatchedInputs({name: value.double() if value.is_floating_point() else value for name, value in inputs.items()})
    operator.reference(watched)
    return [name for name in inputs if name in watched.looked_at]


def of_workload(spec: Workload, only: Mapping[str, Value], extents: Sequence[str], operator: Any, library: Any) -> dict[str, Any]:
    """Name → a small tensor of each input that the reference uses; {} where PyTorch has no such operator."""
    params = spec.full({**dict.fromkeys(extents, SMALL), **only})
    try:
        ours: Operator = operator(Case(workload=spec.name, params=params), library)
        inputs = ours.inputs(Tensors(library, "cpu", 1))
        return {name: inputs[name] for name in used(ours, inputs) if name not in ours.writes}
    except (NotSupported, RuntimeError):
        return {}


def left_out(names: Sequence[str], workload: str, op: Value | None) -> str:
    """A line on inputs that are not among a kernel's arguments; "" where there are none."""
    if not names:
        return ""
    listed, several = ", ".join(f"'{name}'" for name in names), len(names) > 1
    verb = "inputs {} of {} are" if several else "input {} of {} is"
    return f"the {verb.format(listed, f'{workload} {op}' if op else workload)} not among the kernel's arguments"
