#!/usr/bin/env python3
"""Every operator of the torch dialect as it would be made and launched on `cuda:0`, by PyTorch's fake tensors: no GPU, and no numbers.

    python scripts/fake_tensors.py [--json]

PyTorch's own schemas and rules of shapes, strides and types see the arguments of the branches for CUDA: what they refuse, a GPU would.
Some operators stop before: a build of PyTorch for processors lacks a part, or an operator looks at content, which fake tensors have
none of. They are listed. The CUDA build, which needs no GPU for this either, takes more of them. Exits with 1 if an operator is refused
for its arguments.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from hotlap.core import work
from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators import FAMILIES, making
from hotlap.core.record import Case

PLACE = "cuda:0"
STOPS = (  # texts by which a build for processors, or a fake tensor, ends whatever the arguments are
    "not linked with support for cuda", "DeviceGuardImpl for cuda", "not compiled with CUDA", "PyTorch is not linked", "DispatchStub",
    "not available for", "cuDNN", "CUDA is not available", "No CUDA GPUs", "Cannot get CUDA generator", "from the 'CUDA' backend",
    ".numpy() is not supported", "Values and compressed tensor instance",
)  # fmt: skip


class Outcome(NamedTuple):
    """What became of one case: launched, refused by Hotlap, stopped for want of a part, or failed."""

    case: str
    kind: str
    why: str = ""


def indexing(torch: Any) -> Any:
    """Plain slices through the operators that they are made of: PyTorch's own way asks the build for a guard of the device."""
    from torch.overrides import TorchFunctionMode

    class Indexing(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is not torch.Tensor.__getitem__:
                return func(*args, **(kwargs or {}))
            tensor, index = args[0], args[1] if isinstance(args[1], tuple) else (args[1],)
            if not all(part is Ellipsis or isinstance(part, (int, slice)) for part in index):
                return func(*args)
            skipped, side = tensor.dim() - sum(part is not Ellipsis for part in index), 0
            for part in index:
                if part is Ellipsis:
                    side += skipped
                elif isinstance(part, int):
                    tensor = torch.ops.aten.select.int(tensor, side, part)
                else:
                    if part != slice(None):
                        tensor = torch.ops.aten.slice.Tensor(tensor, side, part.start, part.stop, part.step or 1)
                    side += 1
            return tensor

    return Indexing()


def cases() -> Iterator[tuple[str, dict[str, Any], str]]:
    """The defaults of every operator, each of its types and ways, and the implementations of attention by name."""
    for name in FAMILIES:
        kept = work.find(name)
        yield name, {}, ""
        for param in ("dtype", "op", "layout", "epilogue"):
            found = kept.param(param)
            yield from ((name, {param: choice}, "") for choice in (found.choices if found else ()))
    for name in ("flash", "efficient", "cudnn", "math"):
        yield from (("attention", {"op": op, "heads": 4, "kv_heads": 4}, name) for op in ("forward", "backward"))


def outcome(torch: Any, name: str, given: dict[str, Any], implementation: str) -> Outcome:
    """One case, made and launched."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    label = " ".join([name, *(f"{key}={value}" for key, value in given.items()), implementation]).strip()
    try:
        case = Case(workload=name, params=work.find(name).parse(given), implementation=implementation)
        operator = importlib.import_module(f"hotlap.core.measure.workloads.operators.{FAMILIES[name]}").operator(case, torch)
        with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True), indexing(torch):
            maker = making.Tensors.__new__(making.Tensors)
            maker.library, maker.place, maker.generator, maker.blank = torch, PLACE, None, []
            outputs = operator.launch(operator.inputs(maker))
            devices = {one.device.type for one in (outputs if isinstance(outputs, (list, tuple)) else [outputs])}
    except NotSupported as error:
        return Outcome(label, "refused", str(error))
    except Exception as error:  # PyTorch raises kinds of its own
        first = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
        return Outcome(label, "stopped" if any(text in str(error) for text in STOPS) else "failed", first)
    return Outcome(label, "launched") if devices == {"cuda"} else Outcome(label, "failed", f"outputs on {', '.join(sorted(devices))}")


def outcomes() -> list[Outcome]:
    """Of all cases."""
    import torch

    properties = SimpleNamespace(shared_memory_per_block_optin=232448, major=9, minor=0, multi_processor_count=132)
    given = {
        "_lazy_init": lambda: None, "get_device_capability": lambda *_: (9, 0), "get_device_properties": lambda *_: properties,
    }  # fmt: skip
    if hasattr(torch._C, "_ensureCUDADeviceGuardSet"):
        torch._C._ensureCUDADeviceGuardSet()  # for a build with CUDA on a machine without a GPU
    with mock.patch.multiple(torch.cuda, **given):
        return [outcome(torch, *one) for one in cases()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # it prints a stack for each that stops
    rows = outcomes()
    if asked.json:
        print(json.dumps([row._asdict() for row in rows]))
    else:
        for kind in ("failed", "refused", "stopped", "launched"):
            here = [row for row in rows if row.kind == kind]
            print(f"{kind}: {len(here)}")
            print("".join(f"  {row.case}{': ' if row.why else ''}{row.why}\n" for row in here), end="")
    return int(any(row.kind == "failed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
