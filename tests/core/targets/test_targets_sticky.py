"""Errors that end a device's use, beside those that refuse one call."""

from __future__ import annotations

import pytest

from hotlap.core import work
from hotlap.core.errors import MachineError, NotSupported
from hotlap.core.measure import targets
from hotlap.core.measure.loop import CaseBudget, measure
from hotlap.core.measure.targets.sticky import ended, refused, sticky
from hotlap.core.record import Case

ACCESS = "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported"


class AcceleratorError(RuntimeError):
    """PyTorch's, by its name: what is sticky is decided without PyTorch."""


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(ACCESS), AcceleratorError("uncorrectable ECC error encountered"), RuntimeError("HIP error: unspecified launch failure"),
        RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"), RuntimeError("UR_RESULT_ERROR_DEVICE_LOST (20)"),
    ],
)
def test_the_device_is_lost(error: Exception) -> None:
    assert sticky(error) == str(error).splitlines()[0]
    assert isinstance(refused(error, "a product"), MachineError)
    assert "\n" not in str(ended(error))


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: out of memory"), AcceleratorError("CUDA error: no kernel image is available for execution on the device"),
        RuntimeError("CUDA error: operation not permitted when stream is capturing"), AcceleratorError("CUDA error: invalid argument"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"), RuntimeError(""), ValueError("an illegal memory access was encountered"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), RuntimeError("Triton Error [CUDA]: out of memory"),
    ],
)
def test_one_call_is_refused(error: Exception) -> None:
    assert sticky(error) == ""
    assert isinstance(refused(error, "a product"), NotSupported)


def test_an_illegal_address_in_pytorch_ends_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a case is prepared, and while it is timed: the process is of no use to the cases that follow."""
    torch = pytest.importorskip("torch")
    spec = targets.parse("torch:cpu")
    target = targets.open_device(spec, targets.find(spec)[0])
    case = Case(workload="gemm", params=work.find("gemm").parse({"m": 64, "n": 64, "k": 64, "dtype": "fp32"}))
    real, left = torch.matmul, [0]

    def failing(*args: object, **named: object) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise torch.AcceleratorError(ACCESS)
        return real(*args, **named)

    monkeypatch.setattr(torch, "matmul", failing)
    for calls in (0, 2):
        left[0] = calls
        with pytest.raises(MachineError, match="illegal memory access"):
            measure(target, case, CaseBudget(seconds=0.2))
