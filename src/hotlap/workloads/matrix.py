"""Matrix products through the vendor's library, by way of PyTorch. Checked in fp64 on random rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from hotlap.errors import NotSupported
from hotlap.record import Case, Check
from hotlap.targets.base import Target
from hotlap.work.base import integer
from hotlap.workloads.base import Prepared
from hotlap.workloads.flush import flusher

UNIT = {"fp64": 2.0**-52, "fp32": 2.0**-23, "tf32": 2.0**-10, "fp16": 2.0**-10, "bf16": 2.0**-7, "fp8": 2.0**-3, "int8": 0.0}
"""Spacing of the input type at 1, after IEEE 754 and the OCP 8-bit formats (E4M3). Products of int8 are exact."""
PROBES = 64  # rows of C that are recomputed in full


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Only targets with a matrix library run it."""
    if target.dialect != "torch":
        raise NotSupported(f"the {target.device.target} target has no matrix library; measured through torch")
    dtype = str(case.params["dtype"])
    if dtype not in target.features:
        raise NotSupported(f"PyTorch has no {dtype} matrix product on this device")
    return _Product(target, case, rng).prepared(case)


class _Product:
    """The operands and the operation for one dtype."""

    def __init__(self, target: Target, case: Case, rng: np.random.Generator) -> None:
        self.torch, self.target, self.dtype = target.library, target, str(case.params["dtype"])
        self.m, self.n, self.k, self.batch = (integer(case.params, name) for name in ("m", "n", "k", "batch"))
        self.place, self.rng = target.device.facts["place"], rng
        if self.dtype in ("int8", "fp8") and self.batch != 1:
            raise NotSupported(f"PyTorch has no batched {self.dtype} product")
        torch = self.torch
        self.one = torch.ones((), device=self.place)
        self.exact = self.place if "fp64" in target.features else "cpu"  # where the reference is computed
        if self.dtype in ("fp32", "tf32") and "cuda" in self.place:
            torch.backends.cuda.matmul.allow_tf32 = self.dtype == "tf32"
        try:
            self.a, self.b = self._operands()
            out = {"int8": torch.int32, "fp8": torch.bfloat16}.get(self.dtype, self.a.dtype)
            self.c = torch.zeros(self._shape(self.m, self.n), dtype=out, device=self.place)
            self.step()
            self.target.sync()
        except (RuntimeError, MemoryError, TypeError, NotImplementedError) as error:
            raise NotSupported(f"PyTorch refuses this {self.dtype} product ({str(error).splitlines()[0]})") from error

    def _shape(self, *sides: int) -> tuple[int, ...]:
        return sides if self.batch == 1 else (self.batch, *sides)

    def _operands(self) -> tuple[Any, Any]:
        torch = self.torch
        generator = torch.Generator(device=self.place).manual_seed(int(self.rng.integers(2**31)))
        shapes = self._shape(self.m, self.k), self._shape(self.k, self.n)
        if self.dtype == "int8":
            a, b = (torch.randint(-128, 128, s, dtype=torch.int8, device=self.place, generator=generator) for s in shapes)
            return a, b
        kind = {"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
        a, b = (torch.randn(s, dtype=kind.get(self.dtype, torch.float32), device=self.place, generator=generator) for s in shapes)
        if self.dtype == "fp8":  # the scaled product wants B in columns
            return a.to(torch.float8_e4m3fn), b.t().contiguous().to(torch.float8_e4m3fn).t()
        return a, b

    def step(self) -> None:
        torch = self.torch
        if self.dtype == "int8":
            self.c = torch._int_mm(self.a, self.b)
        elif self.dtype == "fp8":
            self.c = torch._scaled_mm(self.a, self.b, scale_a=self.one, scale_b=self.one, out_dtype=torch.bfloat16)
        else:
            torch.matmul(self.a, self.b, out=self.c)

    def enqueue(self, calls: int) -> None:
        for _ in range(calls):
            self.step()

    def check(self) -> Check:
        """Fresh operands; whole rows of C recomputed in fp64; the error against |A|·|B| with a bound of a few roundings."""
        self.a, self.b = self._operands()
        if self.dtype not in ("int8", "fp8"):
            self.c.fill_(float("nan"))
        self.step()
        rows = self.torch.from_numpy(self.rng.choice(self.m, min(PROBES, self.m), replace=False)).to(self.place)
        a, b, c = (x if self.batch == 1 else x[-1] for x in (self.a, self.b, self.c))
        left, right = self._exact(a)[rows.to(self.exact)], self._exact(b)
        exact, scale = left @ right, left.abs() @ right.abs()
        error = float(((c[rows].to(self.exact).double() - exact).abs() / scale.clamp_min(1e-300)).max())
        tolerance = self._tolerance()
        return Check(passed=error <= tolerance, what=f"{len(rows)} rows recomputed in fp64, ÷ |A|·|B|", error=error, tolerance=tolerance)

    def _exact(self, x: Any) -> Any:
        """In fp64; the 8-bit types go through fp32, which holds them all."""
        return x.to(self.exact).double() if self.dtype == "fp64" else x.to(self.exact).to(self.torch.float32).double()

    def _tolerance(self) -> float:
        """Inputs are exact; products accumulate in fp32 or better (fp64 in fp64), the result is rounded to its type."""
        out = {"fp8": UNIT["bf16"], "tf32": UNIT["tf32"]}.get(self.dtype, UNIT[self.dtype])
        accumulate = UNIT["fp64"] if self.dtype == "fp64" else 0.0 if self.dtype == "int8" else UNIT["fp32"]
        return 2 * out + 4 * float(np.sqrt(self.k)) * accumulate

    def prepared(self, case: Case) -> Prepared:
        return Prepared(self.enqueue, self.check, variant=f"torch matmul {self.dtype}", flush=flusher(self.target, case))
