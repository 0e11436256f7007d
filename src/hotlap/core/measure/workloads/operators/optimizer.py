"""One update of weights in place: AdamW, momentum, plain descent, by PyTorch's fused kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotlap.core.measure.workloads.operators.base import Exact, Maker, Operator, sizes
from hotlap.core.measure.workloads.operators.values import near
from hotlap.core.record import Case

RATE, DECAY, MOMENTUM, SECOND, EPSILON = 1e-3, 0.01, 0.9, 0.999, 1e-8
STEP = 10  # of the bias correction
Inputs = Mapping[str, Any]


def operator(case: Case, library: Any) -> Operator:
    """Weights, gradients and moments are all of the case's type."""
    (elements,) = sizes(case.params, "elements")
    op, dtype = str(case.params["op"]), str(case.params["dtype"])
    return {"adamw": _adamw, "momentum": _descent, "sgd": _descent}[op](elements, dtype, library, op)


def _adamw(elements: int, dtype: str, torch: Any, op: str) -> Operator:
    """Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019, algorithm 2."""

    def inputs(make: Maker) -> Inputs:
        made = {name: make.normal(elements, dtype=dtype) for name in ("weight", "gradient", "first")}
        second = make.uniform(elements, dtype=dtype, low=0.25)  # as a square is: not below 0
        return made | {"second": second, "step": torch.full((), float(STEP), device=make.place)}

    def launch(i: Inputs) -> tuple[Any, Any, Any]:
        torch._fused_adamw_(
            [i["weight"]], [i["gradient"]], [i["first"]], [i["second"]], [], [i["step"]], lr=RATE, beta1=MOMENTUM, beta2=SECOND,
            weight_decay=DECAY, eps=EPSILON, amsgrad=False, maximize=False,
        )  # fmt: skip
        return i["weight"], i["first"], i["second"]

    def reference(i: Inputs) -> list[Exact]:
        weight, g, step = i["weight"], i["gradient"], float(i["step"])
        first = MOMENTUM * i["first"] + (1 - MOMENTUM) * g
        second = SECOND * i["second"] + (1 - SECOND) * g * g
        under = (second / (1 - SECOND**step)).sqrt() + EPSILON
        rate = RATE / (1 - MOMENTUM**step)
        size = i["first"].abs() + g.abs()
        value = weight * (1 - RATE * DECAY) - rate * first / under
        return [near(value, dtype, 3, scale=weight.abs() + rate * size / under), near(first, dtype, 2, scale=size), near(second, dtype, 3)]

    return Operator(inputs, launch, reference, ("weight", "first", "second"), variant=f"torch _fused_adamw_ {dtype}", dtype=dtype)


def _descent(elements: int, dtype: str, torch: Any, op: str) -> Operator:
    """With a momentum: buffer ← momentum·buffer + gradient, weight ← weight − rate·buffer; without, by the gradient itself.

    PyTorch's fused kernel leaves weights of 16 bits as they were on CPUs (2.13), so only fp32 goes through it."""
    fused = op == "momentum" and dtype == "fp32"

    def inputs(make: Maker) -> Inputs:
        names = ("weight", "gradient", "buffer") if op == "momentum" else ("weight", "gradient")
        return {name: make.normal(elements, dtype=dtype) for name in names}

    def launch(i: Inputs) -> Any:
        if fused:
            torch._fused_sgd_(
                [i["weight"]], [i["gradient"]], [i["buffer"]], weight_decay=0.0, momentum=MOMENTUM, lr=RATE, dampening=0.0,
                nesterov=False, maximize=False, is_first_step=False,
            )  # fmt: skip
        elif op == "momentum":
            i["weight"].add_(i["buffer"].mul_(MOMENTUM).add_(i["gradient"]), alpha=-RATE)
        else:
            return i["weight"].add_(i["gradient"], alpha=-RATE)
        return i["weight"], i["buffer"]

    def reference(i: Inputs) -> list[Exact]:
        if op == "sgd":
            return [near(i["weight"] - RATE * i["gradient"], dtype, 2, scale=i["weight"].abs() + RATE * i["gradient"].abs())]
        buffer, size = MOMENTUM * i["buffer"] + i["gradient"], i["buffer"].abs() + i["gradient"].abs()
        weight = near(i["weight"] - RATE * buffer, dtype, 3, scale=i["weight"].abs() + RATE * size)
        return [weight, near(buffer, dtype, 3, scale=size)]

    writes = ("weight", "buffer") if op == "momentum" else ("weight",)
    how = "_fused_sgd_" if fused else "mul_, add_, add_" if op == "momentum" else "add_"
    return Operator(inputs, launch, reference, writes, variant=f"torch {how} {dtype}", dtype=dtype)
