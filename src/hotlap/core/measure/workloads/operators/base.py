"""The contract of an operator: how to make its inputs, how to launch it, and what the answer is.

A family is a module with `operator(case, library) -> Operator`, one file each; `harness` makes something that can be timed and
checked of it. Inputs are PyTorch tensors; a user's kernel keeps the same contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from hotlap.core.errors import NotSupported
from hotlap.core.record import Case, Value
from hotlap.core.work import find

UNIT = {
    "fp64": 2.0**-52, "fp32": 2.0**-23, "tf32": 2.0**-10, "fp16": 2.0**-10, "bf16": 2.0**-7, "fp8": 2.0**-3, "int8": 0.0, "int32": 0.0,
}  # fmt: skip
"""Spacing of a type at 1, after IEEE 754 and the OCP 8-bit formats (E4M3). Whole numbers are exact."""
KINDS = {
    "fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn", "int8": "int8",
    "int32": "int32",
}  # fmt: skip
"""PyTorch's name of a type's tensors."""


class Exact(NamedTuple):
    """One output as it should be. The error allowed for each element is tolerance × scale."""

    value: Any  # tensor in fp64, or of whole numbers
    scale: Any = None  # sums of magnitudes that went into each element, |A|·|B|; None: the value's own magnitude
    slack: Callable[[], Any] | None = None  # works out what each element may be off by beyond that, where parts cancel; asked only if it is
    terms: int = 1  # added up for one element
    roundings: int = 1  # to the output's type on the way, the last one included
    accumulate: str = "fp32"  # type of the sums
    tolerance: float | None = None  # where a bound of its own is known, as for approximations of functions; None: from the above
    part: Callable[[Any], Any] | None = None  # what of the output, widened, is compared with `value`: some rows, a sum; None: all of it
    also: tuple[Exact, ...] = ()  # further views of the same output

    def allowed(self, dtype: str) -> float:
        """roundings × a unit of `dtype`, and 4·√terms units of the accumulator: errors of a sum grow as a random walk (Higham,
        "Accuracy and Stability of Numerical Algorithms", 2002, section 4.2)."""
        if self.tolerance is not None:
            return self.tolerance
        return 2 * self.roundings * UNIT[dtype] + (4 * self.terms**0.5 * UNIT[self.accumulate] if self.terms > 1 else 0.0)


class Maker(Protocol):
    """Fresh random tensors on the device, the same ones for the same seed. `dtype` as in a plan."""

    place: str
    library: Any

    def normal(self, *shape: int, dtype: str) -> Any:
        """Standard normal."""

    def uniform(self, *shape: int, dtype: str, low: float = 0.0, high: float = 1.0) -> Any: ...

    def whole(self, high: int, *shape: int, dtype: str = "int32", low: int = 0) -> Any:
        """Whole numbers from `low`, below `high`."""

    def order(self, count: int) -> Any:
        """A random permutation of `count` numbers, 64-bit."""

    def empty(self, *shape: int, dtype: str) -> Any:
        """For outputs that the operator writes into; poisoned by the harness."""


@dataclass(frozen=True)
class Operator:
    """One case as PyTorch, or a user's kernel, runs it. `inputs` are tensors by name; `launch` takes them and returns outputs (a tensor or
    a sequence of them), without waiting for the device; `reference` takes the same inputs, floating ones widened to fp64, and returns an
    Exact for each output."""

    inputs: Callable[[Maker], Mapping[str, Any]]
    launch: Callable[[Mapping[str, Any]], Any]
    reference: Callable[[Mapping[str, Any]], Sequence[Exact]]
    writes: tuple[str, ...] = ()  # inputs that it changes; all others must stay as they are
    variant: str = ""  # what was chosen for this device
    dtype: str = "fp32"  # of the outputs, for the error allowed
    graph: bool = False  # time a recorded graph of the calls
    widen: bool = True  # hand the reference fp64; False where it takes what it needs of large inputs and widens that
    chosen: Callable[[], str] | None = None  # `variant`, where the library chooses only once it has seen inputs
    twice: bool = False  # run the reference twice and say where it disagrees with itself: for those that users bring
    shared: tuple[str, ...] = ()  # inputs that all sets have in common: tables larger than what a call touches of them
    settle: Callable[[Mapping[str, Any], Sequence[Any]], Sequence[Any]] | None = None
    """Where more than one answer is right (places of equal elements, a random mask): outputs into what `reference` says, from the same
    inputs; after the call, never timed."""


class OperatorFamily(Protocol):
    """A module of operators."""

    def operator(self, case: Case, library: Any) -> Operator:
        """`library`: torch. Raises NotSupported with the reason."""


def kind(library: Any, dtype: str) -> Any:
    """PyTorch's type for a plan's. Raises NotSupported where this PyTorch has none."""
    found = getattr(library, KINDS.get(dtype, ""), None)
    if found is None:
        raise NotSupported(f"PyTorch has no tensors of {dtype}")
    return found


def complete(case: Case) -> dict[str, Any]:
    """Every parameter of a case, those that it leaves out at their defaults too."""
    return find(case.workload).full(case.params)


def sizes(params: Mapping[str, Value], *names: str) -> tuple[int, ...]:
    """Whole-number parameters, in order."""
    return tuple(int(value) for value in (params[name] for name in names) if isinstance(value, (int, float)))
