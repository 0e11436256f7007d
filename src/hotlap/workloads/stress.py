"""Units of load whose every result is checked: matrix products, memory patterns, link traffic, atomics."""

from __future__ import annotations

import importlib.resources
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from hotlap import plan as plans
from hotlap import work as works
from hotlap.errors import NotSupported
from hotlap.targets.base import Array, Target
from hotlap.work import checksum
from hotlap.work.stress import DTYPES

TRIES = 3  # products that are made again where one was wrong
SIDES = {"torch": (1024, 1024, 4096), "c": (256, 256, 512)}  # m, n, k on a processor: some 10 ms
SLOW = {"torch fp16": (128, 128, 256), "torch int8": (1024, 1024, 8192)}  # on a processor: half precision is emulated, int8 is fast
SIDES_GPU = {"torch": (8192, 8192, 8192), "c": (2048, 2048, 2048)}
PATTERNS = ("walking ones", "walking zeros", "solid", "random with address")
WORDS = {"cpu": 1 << 20, "gpu": 1 << 28}  # of 4 bytes, in one unit
SIMULATED = {"memory": ("stream", {"op": "copy", "size": "4 GiB"}), "link": ("transfer", {"direction": "h2d", "size": "1 GiB"})}


class Wrong(NamedTuple):
    """One wrong element of a result."""

    place: str
    expected: str
    got: str
    bits: list[int]
    by: Literal["checksum", "repeat", "pattern", "count"]
    kind: Literal["transient", "permanent"]


class Unit(Protocol):
    """A piece of work of some milliseconds, and its check."""

    flop: float
    moved_bytes: float

    @property
    def name(self) -> str:
        """What it is, in words."""

    def run(self) -> None:
        """Does the work and waits for it."""

    def check(self) -> list[Wrong]:
        """What is wrong with the last result, recomputed to tell transient from permanent; empty where nothing is."""

    def facts(self) -> dict[str, float]:
        """For products: its sides, and the share of bit positions whose flip the checksum alone is sure to see."""


def units(target: Target, kind: str, dtypes: list[str], seed: int) -> tuple[list[Unit], dict[str, str]]:
    """The units of one kind of load, and those that the device cannot do, with the reason."""
    found: list[Unit] = []
    missing: dict[str, str] = {}
    if kind == "products":
        for dtype in dtypes or [one for one in DTYPES if one in target.features]:
            try:
                found.append(_product(target, dtype, seed))
            except NotSupported as error:
                missing[f"products {dtype}"] = str(error)
        return found, missing
    try:
        found.append(_other(target, kind, seed))
    except NotSupported as error:
        missing[kind] = str(error)
    return found, missing


def _product(target: Target, dtype: str, seed: int) -> Unit:
    if dtype not in target.features:
        raise NotSupported(f"{target.device.name} has no {dtype} matrix product")
    if target.dialect == "model":
        return Simulated(target, f"products {dtype}", "gemm", {"m": 8192, "n": 8192, "k": 8192, "dtype": dtype}, seed)
    return TorchProduct(target, dtype, seed) if target.dialect == "torch" else KernelProduct(target, dtype, seed)


def _other(target: Target, kind: str, seed: int) -> Unit:
    if target.dialect == "model":
        if kind not in SIMULATED:
            raise NotSupported("a simulated GPU has no model of atomics")
        workload, params = SIMULATED[kind]
        return Simulated(target, kind, workload, params, seed)
    if kind == "link":
        return Link(target, seed)
    if kind == "memory":
        return TorchMemory(target, seed) if target.dialect == "torch" else KernelMemory(target, seed)
    return TorchAtomics(target) if target.dialect == "torch" else KernelAtomics(target)


class Product:
    """A product of fixed operands again and again: the first is held against its checksums, every later one bitwise against it."""

    width: int  # bits of an element of C

    def __init__(self, target: Target, dtype: str, seed: int) -> None:
        self.target, self.dtype, self.name, self.moved_bytes = target, dtype, f"products {dtype}", 0.0
        kind = "torch" if target.dialect == "torch" else "c"
        sides = SLOW.get(f"{kind} {dtype}", SIDES[kind]) if target.device.kind == "cpu" else SIDES_GPU[kind]
        self.m, self.n, self.k = sides
        self.flop = 2.0 * self.m * self.n * self.k
        self.rng = np.random.default_rng(seed)
        self.sums: checksum.Sums

    def begin(self, a: Array, b: Array) -> None:
        """Learns what is right, after the operands are on the device. A first product that its checksums refuse is made again."""
        self.sums = checksum.expected(a, b, self.dtype)
        for _ in range(TRIES):
            self.run()
            self.first = self.result()
            rows, columns = checksum.beyond(self.sums, self.first)
            if not len(rows) and not len(columns):
                break
        self.bad_start = (rows, columns)
        self.hold()

    def run(self) -> None:
        raise NotImplementedError

    def result(self) -> Array:
        """C on the host."""
        raise NotImplementedError

    def hold(self) -> None:
        """Keeps the last result as the first one, where the comparison takes place."""

    def same(self) -> bool:
        """Whether the last result has the same bits as the first."""
        return bool(np.array_equal(checksum.bits(self.first), checksum.bits(self.result())))

    def check(self) -> list[Wrong]:
        if len(self.bad_start[0]) or len(self.bad_start[1]):
            rows, columns = self.bad_start
            place = f"tile of rows {_span(rows)}, columns {_span(columns)}"
            return [Wrong(place, "its checksum", "another sum", [], "checksum", "permanent")]
        return [] if self.same() else self.compare(self.result())

    def compare(self, c: Array) -> list[Wrong]:
        """The elements of `c` that differ from the first product."""
        found = checksum.flips(self.first, c, checksum.beyond(self.sums, c))
        if not found:
            return []
        again: set[tuple[int, int]] = set()
        for _ in range(TRIES):
            self.run()
            again |= {(one.row, one.column) for one in checksum.flips(self.first, self.result())}
        off = self.first.dtype.itemsize * 8 - self.width
        digits = self.width // 4
        return [
            Wrong(
                f"row {f.row}, column {f.column} of {self.m} × {self.n}",
                f"0x{f.expected >> off:0{digits}x}",
                f"0x{f.got >> off:0{digits}x}",
                [p - off for p in f.bits],
                "checksum" if f.by == "checksum" else "repeat",
                "permanent" if (f.row, f.column) in again else "transient",
            )
            for f in found
        ]

    def facts(self) -> dict[str, float]:
        few, sums = max(1, 65536 // self.m), self.sums  # columns that are looked at
        part = checksum.Sums(sums.rows, sums.columns[:few], sums.row_bounds, sums.column_bounds[:few])
        sides = {"m": float(self.m), "n": float(self.n), "k": float(self.k)}
        return sides | {"covered": float(np.mean(list(checksum.covered(part, self.first[:, :few], self.width).values())))}


def _span(places: Array) -> str:
    return f"{places[0]} to {places[-1]}" if len(places) else "none"


class TorchProduct(Product):
    """By the vendor's library, through PyTorch."""

    def __init__(self, target: Target, dtype: str, seed: int) -> None:
        super().__init__(target, dtype, seed)
        torch = self.torch = target.library
        self.place = target.device.facts["place"]
        self.width = {"fp64": 64, "fp32": 32, "tf32": 32, "int8": 32}.get(dtype, 16)
        kinds = {"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
        if dtype in ("fp32", "tf32") and "cuda" in self.place:
            torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        if dtype == "int8":
            made = [self.rng.integers(-128, 128, shape, dtype=np.int8) for shape in ((self.m, self.k), (self.k, self.n))]
            self.a, self.b = (torch.from_numpy(one).to(self.place) for one in made)
        else:
            kind = torch.float8_e4m3fn if dtype == "fp8" else kinds[dtype]
            real = [self.rng.standard_normal(shape) * 0.5 for shape in ((self.m, self.k), (self.k, self.n))]
            self.a, self.b = (torch.from_numpy(one).to(self.place).to(kind) for one in real)
        if dtype == "fp8":
            self.b, self.one = self.b.t().contiguous().t(), torch.ones((), device=self.place)
        self.c: Any = None
        try:
            self.begin(self._host(self.a), self._host(self.b))
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise NotSupported(f"PyTorch refuses this {dtype} product ({str(error).splitlines()[0]})") from error

    def _host(self, x: Any) -> Array:
        wide = (
            x.cpu().to(self.torch.int64) if self.dtype == "int8" else x.cpu().float().double() if self.dtype == "fp8" else x.cpu().double()
        )
        return np.asarray(wide.numpy(), np.float64)

    def run(self) -> None:
        torch = self.torch
        if self.dtype == "int8":
            self.c = torch._int_mm(self.a, self.b)
        elif self.dtype == "fp8":
            self.c = torch._scaled_mm(self.a, self.b, scale_a=self.one, scale_b=self.one, out_dtype=torch.bfloat16)
        else:
            self.c = torch.matmul(self.a, self.b)
        self.target.sync()

    def result(self) -> Array:
        c = self.c.cpu()
        return np.array((c.float() if c.dtype == self.torch.bfloat16 else c).numpy())

    def _bits(self, c: Any) -> Any:
        return c.view(self.torch.int16 if self.width == 16 else self.torch.int64 if self.width == 64 else self.torch.int32)

    def hold(self) -> None:
        self.held = self._bits(self.c.clone())

    def same(self) -> bool:
        return bool(self.torch.equal(self._bits(self.c), self.held))


TYPES = {"fp64": ("double", "double", np.float64, np.float64), "fp32": ("float", "float", np.float32, np.float32),
         "int8": ("char", "int", np.int8, np.int32)}  # fmt: skip


class KernelProduct(Product):
    """By a kernel of Hotlap's own."""

    def __init__(self, target: Target, dtype: str, seed: int) -> None:
        super().__init__(target, dtype, seed)
        if dtype not in TYPES:
            raise NotSupported(f"Hotlap's own kernel multiplies {', '.join(TYPES)}, not {dtype}; torch does")
        element, result, kind, out = TYPES[dtype]
        self.width = np.dtype(out).itemsize * 8
        shapes = (self.m, self.k), (self.k, self.n)
        made = [
            self.rng.integers(-128, 128, s).astype(kind) if dtype == "int8" else self.rng.standard_normal(s).astype(kind) for s in shapes
        ]
        self.kernel = target.kernel(_source(), "product", [f"T={element}", f"R={result}"])
        self.a, self.b = (target.buffer(one) for one in made)
        self.c = target.buffer(np.zeros(self.m * self.n, out))
        self.begin(*made)

    def run(self) -> None:
        self.kernel(self.m * self.n, 64, self.a, self.b, self.c, np.uint32(self.n), np.uint32(self.k))
        self.target.sync()

    def result(self) -> Array:
        return self.target.read(self.c).reshape(self.m, self.n)


def _source() -> str:
    return (importlib.resources.files("hotlap.workloads") / "kernels" / "stress.c").read_text()


class Memory:
    """A pattern written, compared and inverted, compared again; another pattern each time."""

    flop = 0.0

    def __init__(self, target: Target, seed: int) -> None:
        self.target, self.seed, self.turn = target, seed & 0xFFFF, 0
        self.words = WORDS["cpu" if target.device.kind == "cpu" else "gpu"]
        self.moved_bytes, self.wrong = 5.0 * 4 * self.words, list[Wrong]()

    @property
    def name(self) -> str:
        return f"memory {PATTERNS[self.turn % len(PATTERNS)]}"

    def facts(self) -> dict[str, float]:
        return {}

    def _pass(self) -> list[tuple[int, int, int]]:
        """Address of the word, expected, got."""
        raise NotImplementedError

    def run(self) -> None:
        self.turn, self.seed = self.turn + 1, (self.seed * 5 + 1) & 0xFFFF
        self.found = self._pass()

    def check(self) -> list[Wrong]:
        if not self.found:
            return []
        again = {at for at, _, _ in self._pass()}
        return [
            Wrong(f"address 0x{4 * at:x}", f"0x{was:08x}", f"0x{now:08x}", [p for p in range(32) if (was ^ now) >> p & 1], "pattern",
                  "permanent" if at in again else "transient")
            for at, was, now in self.found
        ]  # fmt: skip


class KernelMemory(Memory):
    def __init__(self, target: Target, seed: int) -> None:
        super().__init__(target, seed)
        self.buffer, self.errors = target.buffer(4 * self.words), target.buffer(np.zeros(129, np.uint32))
        defines = ["T=float", "R=float"]
        self.writing = target.kernel(_source(), "pattern_write", defines)
        self.checking = target.kernel(_source(), "pattern_check", defines)
        self.items = 1024 * max(1, target.device.compute_units or 1)

    def _pass(self) -> list[tuple[int, int, int]]:
        mode, seed, count = np.uint32(self.turn % 4), np.uint32(self.seed), np.uint32(self.words)
        found: list[tuple[int, int, int]] = []
        self.writing(self.items, 64, self.buffer, mode, seed, count)
        for flip in (0, 1):
            self.errors = self.target.buffer(np.zeros(129, np.uint32))
            self.checking(self.items, 64, self.buffer, self.errors, mode, seed, count, np.uint32(flip))
            wrong = self.target.read(self.errors)
            for place in range(min(int(wrong[0]), 64)):
                at, got = int(wrong[1 + 2 * place]), int(wrong[2 + 2 * place])
                should = pattern(int(mode), self.seed, at)
                found.append((at, ~should & 0xFFFFFFFF if flip else should, got))
        return found


def pattern(mode: int, seed: int, i: int) -> int:
    """What `kernels/stress.c` writes at a word."""
    low = 0xFFFFFFFF
    h = (i ^ seed) * 2654435761 & low
    h = (h ^ (h >> 15)) * 2246822519 & low
    one = 1 << ((i + seed) & 31)
    return (one, ~one & low, low, (h ^ (h >> 13)) ^ i)[mode]


class TorchMemory(Memory):
    def __init__(self, target: Target, seed: int) -> None:
        super().__init__(target, seed)
        torch = self.torch = target.library
        self.index = torch.arange(self.words, dtype=torch.int32, device=target.device.facts["place"])
        self.buffer = torch.empty_like(self.index)

    def _should(self) -> Any:
        torch, mode = self.torch, self.turn % 4
        if mode == 3:
            h = (self.index ^ self.seed) * -1640531535
            return (h ^ (h >> 15)) * -2048144777 ^ self.index
        one = torch.bitwise_left_shift(torch.ones_like(self.index), (self.index + self.seed) & 31)
        return (one, ~one, torch.full_like(self.index, -1))[mode]

    def _pass(self) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        should = self._should()
        for _ in range(2):
            self.buffer.copy_(should)
            self.target.sync()
            if not self.torch.equal(self.buffer, should):
                places = (self.buffer != should).nonzero().flatten()[:64]
                rows = zip(places.tolist(), should[places].tolist(), self.buffer[places].tolist(), strict=True)
                found += [(at, was & 0xFFFFFFFF, now & 0xFFFFFFFF) for at, was, now in rows]
            should = ~should
        return found


class Link:
    """Random bytes to the device, to a second place there and back, compared on the host."""

    name, flop = "link", 0.0

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        size = 4 << 20 if target.device.kind == "cpu" else 256 << 20
        where: Literal["pinned", "pageable"] = "pinned" if "pinned" in target.features else "pageable"
        self.data = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
        self.source, self.back = target.buffer(self.data, where), target.buffer(size, where)
        self.there, self.moved_bytes = target.buffer(size), 2.0 * size

    def run(self) -> None:
        self.target.copy(self.there, self.source)
        self.target.copy(self.back, self.there)
        self.target.sync()

    def _differs(self) -> Array:
        return np.flatnonzero(self.target.read(self.back).view(np.uint8) != self.data)[:64]

    def check(self) -> list[Wrong]:
        places = self._differs()
        if not len(places):
            return []
        got = self.target.read(self.back).view(np.uint8)[places]
        self.run()
        again = set(self._differs().tolist())
        return [
            Wrong(f"byte 0x{at:x} of the copy", f"0x{self.data[at]:02x}", f"0x{now:02x}",
                  [p for p in range(8) if (int(self.data[at]) ^ int(now)) >> p & 1], "repeat", "permanent" if at in again else "transient")
            for at, now in zip(places.tolist(), got, strict=True)
        ]  # fmt: skip

    def facts(self) -> dict[str, float]:
        return {}


class Atomics:
    """Many additions to few cells; their sum is known."""

    name, flop, cells, repeats = "atomics", 0.0, 64, 64
    moved_bytes = 0.0

    def counts(self) -> Array:
        raise NotImplementedError

    def run(self) -> None:
        self.last = self.counts()

    def check(self) -> list[Wrong]:
        wrong = np.flatnonzero(self.last != self.should)
        if not len(wrong):
            return []
        again = np.flatnonzero(self.counts() != self.should)
        return [
            Wrong(f"cell {at}", f"0x{self.should:08x}", f"0x{int(self.last[at]):08x}",
                  [p for p in range(32) if (self.should ^ int(self.last[at])) >> p & 1], "count",
                  "permanent" if at in again else "transient")
            for at in wrong.tolist()
        ]  # fmt: skip

    should = 0

    def facts(self) -> dict[str, float]:
        return {}


class KernelAtomics(Atomics):
    def __init__(self, target: Target) -> None:
        self.target, self.items = target, 4096
        self.kernel = target.kernel(_source(), "count_up", ["T=float", "R=float"])
        self.should = self.items * self.repeats // self.cells

    def counts(self) -> Array:
        cells = self.target.buffer(np.zeros(self.cells, np.uint32))
        self.kernel(self.items, 64, cells, np.uint32(self.repeats), np.uint32(self.cells - 1))
        return self.target.read(cells)


class TorchAtomics(Atomics):
    def __init__(self, target: Target) -> None:
        torch, self.target = target.library, target
        self.place, count = target.device.facts["place"], self.cells * 4096
        self.index = torch.arange(count, device=self.place) % self.cells
        self.ones = torch.ones(count, dtype=torch.int32, device=self.place)
        self.should = 4096

    def counts(self) -> Array:
        cells = self.target.library.zeros(self.cells, dtype=self.target.library.int32, device=self.place)
        cells.index_add_(0, self.index, self.ones)
        self.target.sync()
        return np.asarray(cells.cpu().numpy())


class Simulated:
    """A case of the simulated GPU; wrong results are those that were asked for."""

    def __init__(self, target: Target, name: str, workload: str, params: dict[str, Any], seed: int) -> None:
        self.target, self.name = target, name
        case = plans.case(workload, params)
        self.prepared = target.library.prepare(case)
        self.calls = 32
        self.flop = 2.0 * 8192**3 * self.calls if workload == "gemm" else 0.0
        asked = works.find(workload).work(case.params)
        self.moved_bytes = 0.0 if self.flop else float(asked.link_bytes or asked.working_set_bytes) * self.calls
        self.rng = np.random.default_rng([seed, *name.encode()])

    def run(self) -> None:
        self.target.time(self.prepared.enqueue, self.calls)

    def check(self) -> list[Wrong]:
        if self.prepared.check().passed:
            return []
        bit, word = int(self.rng.integers(32)), int(self.rng.integers(2**32))
        row, column = self.rng.integers(8192, size=2)
        place = f"row {row}, column {column} of 8192 × 8192" if self.flop else f"address 0x{4 * (8192 * row + column):x}"
        kind: Literal["transient", "permanent"] = "transient" if self.prepared.check().passed else "permanent"
        return [Wrong(place, f"0x{word:08x}", f"0x{word ^ 1 << bit:08x}", [bit], "repeat", kind)]

    def facts(self) -> dict[str, float]:
        return {"m": 8192.0, "n": 8192.0, "k": 8192.0} if self.flop else {}
