"""A kernel in OpenCL C or CUDA C++ on a target of the C dialect: compiled there, its inputs and reference made by PyTorch on the host."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hotlap.core.errors import DoesNotCompile, InputError, NotSupported
from hotlap.core.measure.targets import cuda_compile
from hotlap.core.measure.targets.base import Array, Buffer, Prepared, Target
from hotlap.core.measure.workloads.flush import flusher
from hotlap.core.measure.workloads.operators import memory
from hotlap.core.measure.workloads.operators.base import Operator
from hotlap.core.measure.workloads.operators.compare import alike, farthest
from hotlap.core.measure.workloads.operators.harness import DRAWINGS, NEAR, sets
from hotlap.core.measure.workloads.operators.making import Tensors
from hotlap.core.record import Case, Check, Notice, Value
from hotlap.core.store import paths
from hotlap.kernels import kept as kernels
from hotlap.kernels.compiled.protocol import ARCHITECTURE
from hotlap.kernels.cost import evaluate
from hotlap.kernels.guard import zones
from hotlap.kernels.own import needed, table

Set = dict[str, Buffer]
GROUP = 64  # work-items of a group, where the heading does not say


class Loaded(NamedTuple):
    """A kernel with the parameters it is given, PyTorch, and the workload that it implements."""

    kernel: kernels.KeptKernel
    params: Mapping[str, Value]
    library: Any
    ours: Operator | None


def beyond(kernel: kernels.KeptKernel, params: Mapping[str, Value]) -> str:
    """That more work-items run than `items` says, where these are no whole groups; "" where they are, or the heading does not say."""
    group, items = (int(evaluate(kernel.table.get(key, default), params)) for key, default in (("group", GROUP), ("items", 0)))  # type: ignore[arg-type]
    if group < 1 or items % group == 0:
        return ""
    more = -(-items // group) * group
    return f"{more} work-items run for {items}, since groups of {group} are whole: a kernel must leave out those beyond its size"


def prepare(target: Target, case: Case, loaded: Loaded, rng: np.random.Generator) -> Prepared:
    """Raises InputError with the compiler's first error."""
    run = _Run(target, case, loaded, rng)
    return Prepared(
        run.enqueue, run.check, variant=run.operator.variant, flush=flusher(target, case), before=run.before, capture=True,
        rotation=len(run.sets),
        metrics=lambda: run.metrics, notices=lambda: run.notices,
    )


def compiled(kernel: kernels.KeptKernel, params: Mapping[str, Value]) -> str:
    """CUDA C++ by NVRTC alone, without a GPU: for what, and how large. Raises DoesNotCompile with the compiler's first error."""
    arch, macros, chosen = ARCHITECTURE, tuple(defines(kernel, params)), tuple(options(kernel))
    code = cuda_compile.compile_source(_source(kernel), table.function(kernel), arch, macros, chosen)
    return f"compiles for {arch}, {len(code)} B by NVRTC {cuda_compile.version()}"


def _source(kernel: kernels.KeptKernel) -> str:
    """Compilers' errors name the user's file and its lines, whatever stands before it."""
    return f"#line 1 {json.dumps(kernel.file)}\n{kernels.path(kernel, paths.home()).read_text('utf-8')}"


def defines(kernel: kernels.KeptKernel, params: Mapping[str, Value]) -> list[str]:
    """NAME=value for the compiler: a parameter's word as it is, else a whole number that is worked out."""
    given = kernel.table.get("defines", {})
    if not isinstance(given, dict):
        raise InputError(f"{kernel.file}: 'defines' is a table, as in defines = {{ COLUMNS = 'columns' }}")
    words = {name: value for name, value in params.items() if isinstance(value, str)}
    return [f"{name}={words[value] if value in words else int(evaluate(value, params))}" for name, value in given.items()]


def options(kernel: kernels.KeptKernel) -> list[str]:
    """Of the compiler, as the heading gives them: without any the compiler's defaults, as the kernel would be built elsewhere."""
    given = kernel.table.get("options", [])
    if not isinstance(given, list) or not all(isinstance(one, str) and one.startswith("-") for one in given):
        raise InputError(f"{kernel.file}: 'options' is a list of options of the compiler, as in options = ['-cl-fast-relaxed-math']")
    return given


class _Run:
    """Sets of buffers with a zone after each, and the kernel that goes round them."""

    def __init__(self, target: Target, case: Case, loaded: Loaded, rng: np.random.Generator) -> None:
        kernel, self.params, self.torch = loaded.kernel, loaded.params, loaded.library
        self.target, self.own, self.rng, self.chance = target, kernel, rng, random.SystemRandom()
        self.operator = table.operator(kernel, self.params, loaded.ours, self.torch)
        try:
            self.kernel = target.kernel(_source(kernel), table.function(kernel), defines(kernel, self.params), options(kernel))
        except DoesNotCompile as error:
            raise InputError(str(error)) from error
        self.group = self._whole("group", GROUP)
        self.items = -(-self._whole("items", 0) // self.group) * self.group
        self.outputs = table.results(kernel)
        self.blank = True  # nothing that it writes holds input
        self.types: dict[str, Any] = {}
        self.content: list[dict[str, Array]] = []  # what each set was filled with
        self.sets = [self._made()]
        nbytes = sum(buffer.nbytes for buffer in self.sets[0].values())
        self.sets += [self._made() for _ in range(sets(target, case, nbytes) - 1)]
        first = self._tensors(0)
        self.calls = [self._arguments(one, first) for one in self.sets]
        self.next, self.last = 0, -1
        self.metrics: dict[str, float] = {}
        self.notices: list[Notice] = []
        self.enqueue(1)
        target.sync()

    def _whole(self, key: str, default: int) -> int:
        found = int(evaluate(self.own.table.get(key, default), self.params))  # type: ignore[arg-type]
        if key not in self.own.table and not default:
            raise InputError(f"{self.own.file} needs '{key}': how many work-items, as in items = 'rows * 64'")
        if found < 1:
            raise NotSupported(f"'{key}' of {self.own.file} is {found} for these parameters: there is nothing to launch")
        return found

    # ------------------------------------------------------------ memory

    def _fresh(self, seed: int) -> dict[str, Array]:
        maker = Tensors(self.torch, "cpu", seed)
        made = self.operator.inputs(maker)
        self.blank = all(any(made[name] is one for one in maker.blank) for name in self.outputs)
        self.types = {name: (value.dtype, tuple(value.shape)) for name, value in made.items()}
        return {name: value.contiguous().view(-1).view(self.torch.uint8).numpy() for name, value in made.items()}

    def _made(self) -> Set:
        content = self._fresh(int(self.rng.integers(2**31)))
        self.content.append(content)
        return {name: self.target.buffer(self._zoned(value)) for name, value in content.items()}

    def _zoned(self, value: Array) -> Array:
        return np.concatenate([value, np.full(zones.ZONE_BYTES, zones.PATTERN, np.uint8)])

    def _write(self, of: int, content: dict[str, Array]) -> None:
        """Other content where the set lies; outputs poisoned, zones anew."""
        self.content[of] = content
        for name, value in content.items():
            self.target.copy(self.sets[of][name], self.target.buffer(self._zoned(value)))
        self.target.sync()

    def _read(self, of: int) -> tuple[dict[str, Any], str]:
        """The set's tensors, and the first buffer behind whose end something was written."""
        buffers, outside = {}, ""
        for name, buffer in self.sets[of].items():
            octets = self.target.read(buffer).view(np.uint8)
            room = octets.size - zones.ZONE_BYTES
            outside = outside or (name if bool((octets[room:] != zones.PATTERN).any()) else "")
            buffers[name] = self._tensor(name, octets[:room])
        return buffers, outside

    def _tensor(self, name: str, octets: Array) -> Any:
        dtype, shape = self.types[name]
        return self.torch.from_numpy(np.array(octets)).view(dtype).view(shape)

    def _tensors(self, of: int) -> dict[str, Any]:
        return {name: self._tensor(name, value) for name, value in self.content[of].items()}

    def _arguments(self, buffers: Set, tensors: Mapping[str, Any]) -> list[Buffer | np.generic]:
        listed = table.arguments(self.own, self.params, tensors)
        return [buffers[one] if isinstance(one, str) else one for one in listed]

    # ------------------------------------------------------------ running and checking

    def enqueue(self, calls: int) -> None:
        kernel, items, group, sets, count = self.kernel, self.items, self.group, self.calls, len(self.calls)
        for _ in range(calls):
            kernel(items, group, *sets[self.next])
            self.last = self.next
            self.next = (self.next + 1) % count

    def before(self) -> None:
        """One set is given other content, so that no result of an earlier sample is right for the next."""
        if len(self.content) > 1:
            a, b = self.last, self.chance.randrange(len(self.content))
            if a != b:
                self._write(a, self.content[b])

    def check(self) -> Check:
        """The set that the loop used last, then fresh input in its memory, twice, each compared with the reference."""
        of = max(self.last, 0)
        worst, fault = self._held(of, "a call of the timed loop", self.blank)
        outputs: list[list[Any]] = []
        for call in range(2 if self.blank else 2 * DRAWINGS):
            if fault:
                break
            if call % 2 == 0:
                fresh = self._fresh(self.chance.getrandbits(31))
            self._write(of, fresh)
            self.kernel(self.items, self.group, *self.calls[of])
            worst, fault = self._held(of, "a call on fresh input", True)
            outputs.append([self._read(of)[0][name] for name in self.outputs])
        if fault:
            return Check(passed=False, what=fault)
        same = all(memory.equal(self.torch, one, two) for one, two in zip(outputs[::2], outputs[1::2], strict=True))
        self.metrics["deterministic"] = float(same)
        self.notices += [] if same else [Notice(code="not_deterministic", seen="the same call on the same input gives other bits")]
        what = f"{len(self.outputs)} outputs against fp64" + (", one of them from the timed loop" if self.blank else "")
        return Check(passed=True, what=what, error=worst[0], tolerance=worst[1])

    def _held(self, of: int, what: str, right: bool) -> tuple[tuple[float, float], str]:
        """Error and what it may be, and what is wrong: in memory, and where `right`, in the result. What the loop changed in place is no
        longer what it was made from."""
        now, outside = self._read(of)
        if outside:
            return (0.0, 1.0), "; ".join(filter(None, (f"wrote outside the memory of '{outside}'", beyond(self.own, self.params))))
        before = self._tensors(of)
        for name, value in before.items():
            if name not in self.operator.writes and not memory.equal(self.torch, [value], [now[name]]):
                return (0.0, 1.0), f"changed its input '{name}', which it may only read"
        if not right:
            return (0.0, 1.0), ""
        wide = {name: value.double() if value.is_floating_point() else value for name, value in before.items()}
        exact = self.operator.reference(wide)
        again = self.operator.reference(wide) if self.operator.twice else exact
        if not all(bool(alike(a.value, b.value).all()) for a, b in zip(exact, again, strict=True)):
            return (0.0, 1.0), "the reference disagrees with itself: two runs on the same input differ"
        outputs = [now[name] for name in self.outputs]
        outputs = list(self.operator.settle(wide, outputs)) if self.operator.settle else outputs
        error, allowed, said = farthest(outputs, exact, self.operator.dtype)
        if said or error > allowed:
            fault = said or f"{what} was wrong: error {error:.3g} against {allowed:.3g} allowed"
            sums = error < NEAR * allowed and not (self.own.workload or "terms" in self.own.table)
            terms = "where an element sums many numbers, the file says how many by terms" if sums else ""
            return (error, allowed), "; ".join(filter(None, (fault, self._left_out(before), terms)))
        return (error, allowed), ""

    def _left_out(self, inputs: Mapping[str, Any]) -> str:
        """Which inputs of the workload the kernel is not given, though its reference uses them."""
        if not self.own.workload:
            return ""
        names = {str(one) for one in self.own.table["arguments"]}  # type: ignore[attr-defined]
        absent = [name for name in needed.used(self.operator, inputs) if name not in names]
        return needed.left_out(absent, self.own.workload, self.params.get("op"))
