"""OpenVINO, on its CPU plugin. It computes in bf16 by itself where a processor can: the budget's precision is asked for, and read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hotlap.training.engines.base import Array, CannotLoad
from hotlap.training.infer_record import Budget, ModelInput

PRECISIONS = {"fp32": "f32", "bf16": "bf16"}


def load(path: str, budget: Budget) -> OpenVinoModel:
    import openvino

    core = openvino.Core()
    config = {
        "INFERENCE_NUM_THREADS": budget.threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": PRECISIONS.get(budget.precision, budget.precision), "ENABLE_CPU_PINNING": False,
    }  # fmt: skip
    try:
        model = core.read_model(path)
        compiled = core.compile_model(model, "CPU", config)
    except Exception as error:  # RuntimeError, and others of its parsers
        raise CannotLoad(_words(str(error))) from None
    return OpenVinoModel(compiled, openvino.__version__, budget)


def _words(message: str) -> str:
    """What the user can act on: the last line of its report, and the node that it is about; not where its sources stand."""
    lines = [line.strip() for line in message.partition("Summary:")[0].splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("Exception from", "Check '"))]
    node = next((line.partition("'")[2].partition("'")[0] for line in lines if line.startswith("While validating")), "")
    return (f"{lines[-1]} ({node})" if node else lines[-1]) if lines else " ".join(message.split())


class OpenVinoModel:
    """A compiled model and its one request."""

    def __init__(self, compiled: Any, version: str, budget: Budget) -> None:
        self.request, self.version = compiled.create_infer_request(), version.partition("-")[0]
        threads = int(compiled.get_property("INFERENCE_NUM_THREADS"))
        named = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        precision = next((ours for ours, theirs in PRECISIONS.items() if theirs == named), named)
        self.budget = Budget(threads=threads, spin=budget.spin, precision=precision)
        self.inputs = [_input(given) for given in compiled.inputs]

    def run(self, feed: Mapping[str, Array]) -> list[Array]:
        results = self.request.infer(dict(feed))
        return [np.asarray(value) for value in results.values()]


def _input(given: Any) -> ModelInput:
    shape = tuple(size.get_length() if size.is_static else None for size in given.partial_shape)
    return ModelInput(given.any_name, str(np.dtype(given.element_type.to_dtype())), shape)
