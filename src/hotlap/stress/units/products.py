"""Matrix products of fixed operands, compared with checksums and against themselves, bit by bit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Array, Target
from hotlap.stress import checksum
from hotlap.stress.units.base import RESULT_BITS, TRIES, Wrong, bits_of, source

SIDES = {"torch": (1024, 1024, 4096), "c": (256, 256, 512)}  # m, n, k on a processor: some 10 ms
SLOW = {"torch fp16": (128, 128, 256), "torch int8": (1024, 1024, 8192)}  # on a processor: half precision is emulated, int8 is fast
SIDES_GPU = {"torch": (8192, 8192, 8192), "c": (2048, 2048, 2048)}
LISTED = 64  # wrong elements that a comparison names
Kind = Literal["transient", "permanent"]
Spoilt = tuple[str, int]  # row or column of C, and which: what a wrong element of an operand spoils


class ProductUnit(ABC):
    """A product of fixed operands again and again: the first is compared with its checksums, every later one bitwise against it."""

    width: int  # bits of an element of C

    def __init__(self, target: Target, dtype: str, seed: int) -> None:
        self.target, self.dtype, self.seed, self.name, self.moved_bytes = target, dtype, seed, f"products {dtype}", 0.0
        kind = "torch" if target.dialect == "torch" else "c"
        sides = SLOW.get(f"{kind} {dtype}", SIDES[kind]) if target.device.kind == "cpu" else SIDES_GPU[kind]
        self.m, self.n, self.k = sides
        self.flop = 2.0 * self.m * self.n * self.k
        self.sums: checksum.Sums
        self.first: Array
        self.refused = False  # the first product itself, each time that it was made
        self.early: list[Wrong] = []  # what was wrong before the first unit

    @abstractmethod
    def operands(self) -> tuple[Any, Any]:
        """A and B on the host, the same ones each time."""

    @abstractmethod
    def exact(self, x: Any) -> Array:
        """An operand of `made` in fp64."""

    @abstractmethod
    def put(self, which: str, x: Any) -> None:
        """Writes operand "a" or "b" to where it is on the device."""

    @abstractmethod
    def patterns(self, x: Any) -> Array:
        """The bits of an operand, on the host or on the device."""

    @abstractmethod
    def run(self) -> None:
        """The product, waited for."""

    @abstractmethod
    def result(self) -> Array:
        """C on the host."""

    def hold(self) -> None:
        """Keeps the first result where the comparison takes place: here on the host."""
        self.held: Any = self.first

    def same(self) -> bool:
        """Whether the last result has the same bits as the first."""
        return bool(np.array_equal(checksum.bits(self.held), checksum.bits(self.result())))

    def begin(self) -> None:
        """Puts the operands on the device and learns what is right: two products alike, both cleared by the checksums of what was to be
        multiplied. What is wrong meanwhile is for the first check to tell."""
        a, b = self.operands()
        self.sums = checksum.expected(self.exact(a), self.exact(b), self.dtype)
        self.put("a", a)
        self.put("b", b)
        self.early = [wrong for wrong, _ in self.mend()]
        seen: list[Array] = []
        for _ in range(TRIES):
            self.run()
            self.first = self.result()
            alike = any(np.array_equal(checksum.bits(self.first), checksum.bits(one)) for one in seen)
            seen.append(self.first)
            self.refused = any(len(some) for some in checksum.beyond(self.sums, self.first))
            if alike and not self.refused:
                break
        self.hold()
        if self.refused:
            return
        others = [checksum.flips(self.first, c, checksum.beyond(self.sums, c)) for c in seen]
        counts: dict[tuple[int, int], int] = {}
        for f in (f for flips in others for f in flips):
            counts[f.row, f.column] = counts.get((f.row, f.column), 0) + 1
        self.early += [self._wrong(f, "permanent" if counts[f.row, f.column] > 1 else "transient") for flips in others for f in flips]

    def mend(self) -> list[tuple[Wrong, Spoilt]]:
        """Bits of the operands in device memory that are not what was written there, and what they spoil; they are written anew."""
        mismatches: list[tuple[Wrong, Spoilt]] = []
        for which, x in zip("ab", self.operands(), strict=True):
            should, now = self.patterns(x), self.patterns(getattr(self, which))
            places = np.argwhere(should != now)[:LISTED]
            if not len(places):
                continue
            self.put(which, x)
            after, digits = self.patterns(getattr(self, which)), should.itemsize * 2
            for row, column in places.tolist():
                was, got = int(should[row, column]), int(now[row, column])
                kind: Kind = "permanent" if int(after[row, column]) != was else "transient"
                place = f"operand {which.upper()} in device memory, row {row}, column {column}"
                wrong = Wrong(place, f"0x{was:0{digits}x}", f"0x{got:0{digits}x}", bits_of(was ^ got), "operand", kind)
                mismatches.append((wrong, ("row", row) if which == "a" else ("column", column)))
        return mismatches

    def check(self) -> list[Wrong]:
        early, self.early = self.early, []
        if self.refused:
            return [*early, *self._refused(self.result())]
        return early if self.same() else [*early, *self.compare(self.result())]

    def compare(self, c: Array) -> list[Wrong]:
        """The elements of `c` that differ from the first product, or the element of an operand that makes them differ."""
        flips = checksum.flips(self.first, c, checksum.beyond(self.sums, c), LISTED)
        if not flips:
            return [self._reference()]
        mended = self.mend()
        operands = [wrong for wrong, _ in mended]
        if operands:
            spoilt = {what for _, what in mended}
            own = [f for f in flips if ("row", f.row) not in spoilt and ("column", f.column) not in spoilt]
            count = len(flips) - len(own)
            more = f" ({count}{' or more' * (len(flips) == LISTED)} results wrong by it)"
            operands[0] = operands[0]._replace(place=operands[0].place + more)
            flips = own
        again: set[tuple[int, int]] = set()
        for _ in range(TRIES if flips else 0):
            self.run()
            again |= {(one.row, one.column) for one in checksum.flips(self.first, self.result())}
        return operands + [self._wrong(f, "permanent" if (f.row, f.column) in again else "transient") for f in flips]

    def _wrong(self, f: checksum.Flip, kind: Kind) -> Wrong:
        off = self.first.dtype.itemsize * 8 - self.width
        digits = self.width // 4
        return Wrong(
            f"row {f.row}, column {f.column} of {self.m} × {self.n}", f"0x{f.expected >> off:0{digits}x}", f"0x{f.got >> off:0{digits}x}",
            [p - off for p in f.bits], "checksum" if f.by == "checksum" else "repeat", kind,
        )  # fmt: skip

    def _reference(self) -> Wrong:
        """The result is right, yet was found unlike the first: the copy it is compared with changed, or the comparison erred."""
        self.hold()
        kind: Kind = "transient" if self.same() else "permanent"
        return Wrong(
            "the copy of the first product that results are compared with, in device memory", "equal", "unequal", [], "repeat", kind
        )

    def _refused(self, c: Array) -> list[Wrong]:
        """A product whose checksums never agreed: the single bit that explains it, element by element, else the tile. Adopted as the first
        one as soon as they agree."""
        rows, columns = checksum.beyond(self.sums, c)
        if not len(rows) and not len(columns):
            self.first, self.refused = c, False
            self.hold()
            return []
        found = [one for row in rows for column in columns if (one := self._explained(c, int(row), int(column)))][:LISTED]
        if found and len(rows) * len(columns) <= LISTED:
            return found
        place = f"tile of rows {_span(rows)}, columns {_span(columns)}"
        return [Wrong(place, "its checksum", "another sum", [], "checksum", "permanent")]

    def _explained(self, c: Array, row: int, column: int) -> Wrong | None:
        """The bit of an element whose flip brings its row's and its column's sums back within rounding."""
        words, size = checksum.bits(c), c.dtype.itemsize * 8
        rest = np.array(
            [c[row].sum(dtype=np.float64) - self.sums.rows[row], c[:, column].sum(dtype=np.float64) - self.sums.columns[column]]
        )
        bounds = np.array([self.sums.row_bounds[row], self.sums.column_bounds[column]])
        fitting: list[tuple[float, int]] = []
        with np.errstate(over="ignore", invalid="ignore"):
            for p in range(size - self.width, size):
                mended = (words[row : row + 1, column] ^ words.dtype.type(1 << p)).view(c.dtype).astype(np.float64)[0]
                left = np.abs(rest + mended - float(c[row, column]))
                if np.all(left <= bounds):
                    fitting.append((float(left.max()), p))
        if not fitting:
            return None
        p = min(fitting)[1]
        got = int(words[row, column])
        return self._wrong(checksum.Flip(row, column, got ^ 1 << p, got, [p], "checksum"), "permanent")

    def facts(self) -> dict[str, float]:
        few, sums = max(1, 65536 // self.m), self.sums  # columns that are looked at
        part = checksum.Sums(sums.rows, sums.columns[:few], sums.row_bounds, sums.column_bounds[:few])
        sides = {"m": float(self.m), "n": float(self.n), "k": float(self.k)}
        return sides | {"covered": float(np.mean(list(checksum.covered(part, self.first[:, :few], self.width).values())))}


def _span(places: Array) -> str:
    return f"{places[0]} to {places[-1]}" if len(places) else "none"


class TorchProduct(ProductUnit):
    """By the vendor's library, through PyTorch."""

    def __init__(self, target: Target, dtype: str, seed: int) -> None:
        super().__init__(target, dtype, seed)
        torch = self.torch = target.library
        self.place = target.device.facts["place"]
        self.width = RESULT_BITS.get(dtype, 16)
        if dtype in ("fp32", "tf32") and "cuda" in self.place:
            torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        self.a: Any = None
        self.b: Any = None
        self.c: Any = None
        self.unit_scale = torch.ones((), device=self.place) if dtype == "fp8" else None
        try:
            self.begin()
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise NotSupported(f"PyTorch refuses this {dtype} product ({str(error).splitlines()[0]})") from error

    def facts(self) -> dict[str, float]:
        return super().facts() | ({"library": 1.0} if "cuda" in self.place else {})

    def operands(self) -> tuple[Any, Any]:
        torch, rng, shapes = self.torch, np.random.default_rng(self.seed), ((self.m, self.k), (self.k, self.n))
        if self.dtype == "int8":
            a, b = (torch.from_numpy(rng.integers(-128, 128, shape, dtype=np.int8)) for shape in shapes)
            return a, b
        kinds = {"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
        kind = torch.float8_e4m3fn if self.dtype == "fp8" else kinds[self.dtype]
        a, b = (torch.from_numpy(rng.standard_normal(shape) * 0.5).to(kind) for shape in shapes)
        return a, b

    def exact(self, x: Any) -> Array:
        return np.asarray((x.float() if self.dtype == "fp8" else x).double().numpy(), np.float64)

    def put(self, which: str, x: Any) -> None:
        held = getattr(self, which)
        if held is not None:
            held.copy_(x)
            return
        made = x.to(self.place, copy=True)
        setattr(self, which, made.t().contiguous().t() if self.dtype == "fp8" and which == "b" else made)

    def patterns(self, x: Any) -> Array:
        wide = {1: self.torch.uint8, 2: self.torch.int16, 4: self.torch.int32, 8: self.torch.int64}[x.element_size()]
        held = x.cpu().contiguous().view(wide).numpy()
        return np.array(held.view(f"u{held.itemsize}"))  # a copy: on a processor it would be the operand itself

    def run(self) -> None:
        torch = self.torch
        if self.dtype == "int8":
            self.c = torch._int_mm(self.a, self.b)
        elif self.dtype == "fp8":
            self.c = torch._scaled_mm(self.a, self.b, scale_a=self.unit_scale, scale_b=self.unit_scale, out_dtype=torch.bfloat16)
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


class KernelProduct(ProductUnit):
    """By a kernel of Hotlap's own."""

    def __init__(self, target: Target, dtype: str, seed: int) -> None:
        super().__init__(target, dtype, seed)
        if dtype not in TYPES:
            raise NotSupported(f"Hotlap's own kernel multiplies {', '.join(TYPES)}, not {dtype}; torch does")
        element, result, _, out = TYPES[dtype]
        self.width = np.dtype(out).itemsize * 8
        self.kernel = target.kernel(source(target), "product", [f"T={element}", f"R={result}"])
        self.a: Any = None
        self.b: Any = None
        self.c = target.buffer(np.zeros(self.m * self.n, out))
        self.begin()

    def operands(self) -> tuple[Any, Any]:
        rng, kind, shapes = np.random.default_rng(self.seed), TYPES[self.dtype][2], ((self.m, self.k), (self.k, self.n))
        whole = self.dtype == "int8"
        a, b = (rng.integers(-128, 128, s).astype(kind) if whole else rng.standard_normal(s).astype(kind) for s in shapes)
        return a, b

    def exact(self, x: Any) -> Array:
        return np.asarray(x, np.float64)

    def put(self, which: str, x: Any) -> None:
        held, made = getattr(self, which), self.target.buffer(x)
        if held is None:
            setattr(self, which, made)
        else:
            self.target.copy(held, made)
            self.target.sync()

    def patterns(self, x: Any) -> Array:
        if isinstance(x, np.ndarray):
            return checksum.bits(x)
        return checksum.bits(self.target.read(x).reshape((self.m, self.k) if x is self.a else (self.k, self.n)))

    def run(self) -> None:
        group = 256 if self.target.dialect == "wgsl" else 64  # which starts few groups at once
        self.kernel(self.m * self.n, group, self.a, self.b, self.c, np.uint32(self.n), np.uint32(self.k))
        self.target.sync()

    def result(self) -> Array:
        return self.target.read(self.c).reshape(self.m, self.n)
