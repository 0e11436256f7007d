"""ONNX Runtime, on its CPU provider.

Its idle threads spin by default, which takes a processor from whatever else runs there (roboflow/rf-detr#1456: 3.4 → 98 ms), and which no
other engine here does: `session.intra_op.allow_spinning` is 0 unless the budget allows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotlap.training.engines.base import Array, CannotLoad
from hotlap.training.infer_record import Budget, ModelInput

DTYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "int64": "int64", "int32": "int32", "int16": "int16", "int8": "int8",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "bool": "bool",
}  # fmt: skip


def load(path: str, budget: Budget) -> OnnxRuntimeModel:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = budget.threads, 1, 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if budget.spin else "0")
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        inputs = [_input(given) for given in session.get_inputs()]
    except CannotLoad:
        raise
    except Exception as error:  # its exceptions have no common base
        raise CannotLoad(" ".join(str(error).split())) from None
    return OnnxRuntimeModel(session, inputs, onnxruntime.__version__, budget)


class OnnxRuntimeModel:
    """A session."""

    def __init__(self, session: Any, inputs: list[ModelInput], version: str, budget: Budget) -> None:
        self.session, self.inputs, self.version = session, inputs, version
        confirmed = session.get_session_options()
        spins = confirmed.get_session_config_entry("session.intra_op.allow_spinning") == "1"
        self.budget = Budget(threads=confirmed.intra_op_num_threads, spin=spins, precision=budget.precision)

    def run(self, feed: Mapping[str, Array]) -> list[Array]:
        outputs: list[Array] = self.session.run(None, dict(feed))
        return outputs


def _input(given: Any) -> ModelInput:
    dtype = DTYPES.get(given.type.removeprefix("tensor(").removesuffix(")"))
    if dtype is None:
        raise CannotLoad(f"its input {given.name} is a {given.type}, of which no samples can be drawn")
    return ModelInput(given.name, dtype, tuple(size if isinstance(size, int) else None for size in given.shape))
