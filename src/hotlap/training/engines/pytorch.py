"""PyTorch: a TorchScript file (`.pt`, `.jit`), an exported program (`.pt2`), or an ONNX graph run operator by operator."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hotlap.training import onnx_graph
from hotlap.training.engines import onnx_in_torch
from hotlap.training.engines.base import Array, CannotLoad
from hotlap.training.infer_record import Budget, ModelInput


def load(path: str, budget: Budget) -> PyTorchModel:
    import torch

    torch.set_num_threads(budget.threads)
    try:
        if Path(path).suffix == ".onnx":
            graph = onnx_graph.read(Path(path).read_bytes())
            return PyTorchModel(torch, onnx_in_torch.GraphModule(graph), list(graph.inputs), budget)
        module: Any = torch.export.load(path).module() if Path(path).suffix == ".pt2" else torch.jit.load(path, map_location="cpu")
    except (RuntimeError, ValueError, KeyError, OSError) as error:
        raise CannotLoad(" ".join(str(error).split())) from None
    except onnx_in_torch.NoOperator as error:
        raise CannotLoad(f"of this graph {error} is not known here", "--file torch=FILE with the network as TorchScript (.pt)") from None
    return PyTorchModel(torch, module, [], budget)


class PyTorchModel:
    """A module in evaluation mode, without gradients. A TorchScript file names no shapes: those of --shape are its inputs, in order."""

    def __init__(self, torch: Any, module: Any, inputs: list[ModelInput], budget: Budget) -> None:
        self.torch, self.module, self.inputs, self.version = torch, module, inputs, str(torch.__version__)
        self.budget = Budget(threads=torch.get_num_threads(), spin=budget.spin, precision=budget.precision)
        self.order = [given.name for given in inputs]
        if hasattr(module, "eval"):
            with suppress(NotImplementedError):  # an exported program is of one mode
                module.eval()

    def run(self, feed: Mapping[str, Array]) -> list[Array]:
        torch = self.torch
        with torch.inference_mode():
            outputs = self.module(*(torch.from_numpy(feed[name]) for name in self.order or feed))
        every = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return [value.numpy() for value in every]
