"""One PTX instruction as a line of C. What is not known is refused by name; nothing is passed over."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

C_TYPES = {f"{kind}{bits}": f"{'' if kind == 's' else 'u'}int{bits}_t" for kind in "usb" for bits in (8, 16, 32, 64)} | {
    "f32": "float", "f64": "double", "pred": "uint8_t", "f16": "uint16_t", "bf16": "uint16_t", "f16x2": "uint32_t", "bf16x2": "uint32_t",
}
WIDTHS = {kind: int(re.sub(r"\D", "", kind.split("x")[0]) or 1) * (2 if "x2" in kind else 1) for kind in C_TYPES}
BITS = {8: "uint8_t", 16: "uint16_t", 32: "uint32_t", 64: "uint64_t"}
SIXTEEN = {"f16", "bf16", "f16x2", "bf16x2"}  # made of FMAs alone by the prelude
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
SIGNS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
ATOMIC = {"add": "__atomic_fetch_add", "and": "__atomic_fetch_and", "or": "__atomic_fetch_or", "xor": "__atomic_fetch_xor", "exch": "__atomic_exchange_n"}
ROUND = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
MATHS = {"ex2": "exp2({})", "lg2": "log2({})", "rcp": "1 / {}", "sqrt": "sqrt({})", "rsqrt": "1 / sqrt({})", "sin": "sin({})", "cos": "cos({})", "tanh": "tanh({})"}
SPECIAL = {f"%{register}.{axis}": f"{register}_{axis}" for register in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"}


class Untranslatable(Exception):
    """This stand-in does not know the instruction; a GPU may well."""


def split(text: str) -> list[str]:
    """At commas outside of brackets."""
    pieces, depth = [""], 0
    for character in text:
        depth += (character in "{[(") - (character in "}])")
        if character == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return [piece.strip() for piece in pieces if piece.strip()]


def plain(name: str) -> str:
    """A register's or label's name as C takes it."""
    return re.sub(r"\W", "_", name.strip().lstrip("%"))


class Instructions:
    """Translates the instructions of one kernel, whose registers and symbols are known."""

    def __init__(self, registers: Mapping[str, str], parameters: Mapping[str, int], shared: Mapping[str, int], waits: bool) -> None:
        self.registers, self.parameters, self.shared, self.waits = registers, parameters, shared, waits
        self.barriers = 0

    def translate(self, line: str) -> str:
        if guarded := re.match(r"@(!?)(%\w+)\s+(.*)", line):
            return f"if ({guarded[1]}{self.register(guarded[2])}) {{ {self.translate(guarded[3])} }}"
        name, _, rest = line.replace("\t", " ").partition(" ")
        parts = name.split(".")
        handler: Callable[[list[str], list[str]], str] | None = TABLE.get(parts[0])
        if handler is None:
            raise Untranslatable(f"instruction {line}")
        try:
            return handler(self, parts, split(rest))  # type: ignore[call-arg, arg-type]
        except (KeyError, IndexError, StopIteration) as error:
            raise Untranslatable(f"instruction {line}") from error

    # ---------------------------------------------------------------- operands

    def register(self, name: str) -> str:
        if plain(name) not in self.registers:
            raise Untranslatable(f"register {name}")
        return ("t->r_" if self.waits else "r_") + plain(name)

    def bits(self, operand: str) -> str:
        operand = operand.strip()
        if operand in SPECIAL:
            return SPECIAL[operand]
        if operand.startswith("%"):
            return self.register(operand)
        if operand[:2] in ("0f", "0F"):
            return f"0x{operand[2:]}u"
        if operand[:2] in ("0d", "0D"):
            return f"0x{operand[2:]}ull"
        if operand in self.shared:
            return f"{self.shared[operand]}ull"
        if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)U?", operand):
            return f"{int(operand.rstrip('U'), 0) % 2**64}ull"
        raise Untranslatable(f"operand {operand}")

    def get(self, operand: str, kind: str) -> str:
        bits = self.bits(operand)
        return f"to_{kind}({bits})" if kind in ("f32", "f64", "f16", "bf16") else f"(({C_TYPES[kind]})({bits}))"

    def put(self, operand: str, kind: str, value: str) -> str:
        if operand.strip() == "_":
            return f"(void)({value});"
        register = self.register(operand)
        if kind in ("f32", "f64", "f16", "bf16"):
            return f"{register} = to_{kind}_bits({value});"
        wider = self.registers[plain(operand)].replace("uint", "int") if kind[0] == "s" else C_TYPES[kind]  # a signed value widens with its sign
        return f"{register} = ({wider})({C_TYPES[kind]})({value});"

    def address(self, operand: str, space: str) -> str:
        parts = re.fullmatch(r"\[\s*([^+\]]+?)\s*(?:\+\s*(-?\w+))?\s*\]", operand.strip())
        if not parts:
            raise Untranslatable(f"address {operand}")
        offset = int(parts[2] or "0", 0)
        if space == "param":
            return f"(p + {self.parameters[parts[1]] + offset})"
        at = f"{self.bits(parts[1])} + {offset % 2**64}ull"
        if space == "shared":
            return f"(g->shared + (uint64_t)({at}))"
        if space in ("global", ""):
            return f"GLOBAL({at})"
        raise Untranslatable(f"memory of the kind {space}")

    # ---------------------------------------------------------------- control

    def leave(self, parts: list[str], a: list[str]) -> str:
        return "{ t->at = -1; return; }" if self.waits else "return;"

    def branch(self, parts: list[str], a: list[str]) -> str:
        return f"goto {plain(a[0])};"

    def barrier(self, parts: list[str], a: list[str]) -> str:
        if "sync" not in parts or a != ["0"]:
            raise Untranslatable(f"barrier {'.'.join(parts)} {', '.join(a)}")
        self.barriers += 1
        return f"t->at = {self.barriers}; return; case {self.barriers}:;"

    def fence(self, parts: list[str], a: list[str]) -> str:
        return "__atomic_thread_fence(__ATOMIC_SEQ_CST);"

    # ---------------------------------------------------------------- memory

    def load(self, parts: list[str], a: list[str]) -> str:
        kind, address = parts[-1], self.address(a[1], _space(parts))
        octets = WIDTHS[kind] // 8
        through = C_TYPES[kind] if kind[0] == "s" else BITS[WIDTHS[kind]]
        into = a[0].strip("{} ").split(",")
        lines = []
        for i, register in enumerate(into):
            wider = self.registers[plain(register)].replace("uint", "int" if kind[0] == "s" else "uint")
            lines.append(f"{{ {through} v; memcpy(&v, {address} + {i * octets}, {octets}); {self.register(register.strip())} = ({wider})v; }}")
        return " ".join(lines)

    def store(self, parts: list[str], a: list[str]) -> str:
        kind, address = parts[-1], self.address(a[0], _space(parts))
        octets, through = WIDTHS[kind] // 8, BITS[WIDTHS[kind]]
        values = a[1].strip("{} ").split(",")
        return " ".join(f"{{ {through} v = ({through})({self.bits(v)}); memcpy({address} + {i * octets}, &v, {octets}); }}" for i, v in enumerate(values))

    def atomic(self, parts: list[str], a: list[str]) -> str:
        kind, what = parts[-1], next(part for part in parts if part in ATOMIC)
        if kind[0] == "f":
            raise Untranslatable(f"atomic {'.'.join(parts)}")
        into, address, value = ["_", *a] if parts[0] == "red" else a
        pointer = f"({C_TYPES[kind]} *){self.address(address, _space(parts))}"
        return self.put(into, kind, f"{ATOMIC[what]}({pointer}, {self.get(value, kind)}, __ATOMIC_RELAXED)")

    def move(self, parts: list[str], a: list[str]) -> str:
        kind = parts[-1]
        if a[0].startswith("{"):
            into = a[0].strip("{} ").split(",")
            width = WIDTHS[kind] // len(into)
            return " ".join(f"{self.register(r.strip())} = (uint{width}_t)({self.bits(a[1])} >> {width * i});" for i, r in enumerate(into))
        if a[1].startswith("{"):
            pieces = a[1].strip("{} ").split(",")
            width, whole = WIDTHS[kind] // len(pieces), BITS[WIDTHS[kind]]
            value = " | ".join(f"(({whole})(uint{width}_t){self.bits(piece)} << {width * i})" for i, piece in enumerate(pieces))
            return f"{self.register(a[0])} = {value};"
        return f"{self.register(a[0])} = {self.bits(a[1])};"

    # ---------------------------------------------------------------- numbers

    def binary(self, parts: list[str], a: list[str]) -> str:
        name, kind = parts[0], parts[-1]
        if kind in SIXTEEN:
            raise Untranslatable(f"instruction {'.'.join(parts)}")
        if kind == "pred":
            return f"{self.register(a[0])} = {self.register(a[1])} {SIGNS[name]} {self.register(a[2])};"
        x, y = self.get(a[1], kind), self.get(a[2], kind)
        if kind[0] == "f":
            value = f"f{name}({x}, {y})" if name in ("min", "max") else f"{x} {(SIGNS | {'div': '/'})[name]} {y}"
            return self.put(a[0], kind, value)
        if name in ("min", "max"):
            return self.put(a[0], kind, f"{x} {'<' if name == 'min' else '>'} {y} ? {x} : {y}")
        if name in ("div", "rem"):
            return self.put(a[0], kind, f"{'QUOTIENT' if name == 'div' else 'REMAINDER'}({x}, {y})")
        if "wide" in parts:
            double = kind[0] + str(2 * WIDTHS[kind])
            return self.put(a[0], double, f"({C_TYPES[double]}){x} * ({C_TYPES[double]}){y}")
        if "hi" in parts:
            return self.put(a[0], kind, f"({'' if kind[0] == 's' else 'unsigned '}__int128){x} * {y} >> {WIDTHS[kind]}")
        unsigned = BITS[max(WIDTHS[kind], 32)]
        return self.put(a[0], kind, f"({unsigned}){x} {SIGNS[name]} ({unsigned}){y}")

    def multiply_add(self, parts: list[str], a: list[str]) -> str:
        kind = parts[-1]
        if kind in SIXTEEN:
            return f"{self.register(a[0])} = fma_{kind}({', '.join(self.bits(v) for v in a[1:])});"
        x, y = self.get(a[1], kind), self.get(a[2], kind)
        if kind[0] == "f":
            return self.put(a[0], kind, f"{'fmaf' if kind == 'f32' else 'fma'}({x}, {y}, {self.get(a[3], kind)})")
        if "wide" in parts:
            double = kind[0] + str(2 * WIDTHS[kind])
            return self.put(a[0], double, f"({C_TYPES[double]}){x} * {y} + {self.get(a[3], double)}")
        if "hi" in parts:
            raise Untranslatable(f"instruction {'.'.join(parts)}")
        unsigned = BITS[max(WIDTHS[kind], 32)]
        return self.put(a[0], kind, f"({unsigned}){x} * ({unsigned}){y} + ({unsigned}){self.get(a[3], kind)}")

    def unary(self, parts: list[str], a: list[str]) -> str:
        name, kind = parts[0], parts[-1]
        if name == "not":
            return f"{self.register(a[0])} = {'!' if kind == 'pred' else '~'}{self.bits(a[1])};"
        x = self.get(a[1], kind)
        if name == "neg":
            return self.put(a[0], kind, f"-{x}" if kind[0] == "f" else f"0 - (uint64_t){x}")
        if name == "abs":
            return self.put(a[0], kind, f"fabs({x})" if kind[0] == "f" else f"llabs({x})")
        if name == "popc":
            return self.put(a[0], "u32", f"__builtin_popcountll({x})")
        if name == "clz":
            return self.put(a[0], "u32", f"({x} ? __builtin_clzll({x}) - {64 - WIDTHS[kind]} : {WIDTHS[kind]})")
        return self.put(a[0], kind, MATHS[name].format(x))

    def shift(self, parts: list[str], a: list[str]) -> str:
        name = "LEFT" if parts[0] == "shl" else "RIGHT"
        return self.put(a[0], parts[-1], f"{name}({self.get(a[1], parts[-1])}, {self.get(a[2], 'u32')}, {WIDTHS[parts[-1]]})")

    def funnel_shift(self, parts: list[str], a: list[str]) -> str:
        low, high, by = (self.get(v, "u32") for v in a[1:])
        both = f"((uint64_t){high} << 32 | {low})"
        count = f"({by} & 31)" if "wrap" in parts else f"({by} > 32 ? 32 : {by})"
        return self.put(a[0], "u32", f"({both} << {count}) >> 32" if "l" in parts else f"{both} >> {count}")

    def bytes_of(self, parts: list[str], a: list[str]) -> str:
        name = "permute" if parts[0] == "prmt" else f"dot4_{parts[1][0]}{parts[2][0]}"
        if parts[0] == "prmt" and len(parts) > 2:
            raise Untranslatable(f"instruction {'.'.join(parts)}")
        return f"{self.register(a[0])} = {name}({', '.join(self.bits(v) for v in a[1:])});"

    def convert(self, parts: list[str], a: list[str]) -> str:
        to, of = parts[-2], parts[-1]
        if "sat" in parts:
            raise Untranslatable(f"instruction {'.'.join(parts)}")
        x, floating = self.get(a[1], of), of[0] == "f" or of == "bf16"
        if to[0] == "f" or to == "bf16":
            whole = next((ROUND[part] for part in parts if part in ROUND), None) if floating else None
            return self.put(a[0], to, f"{whole}({x})" if whole else x)
        return self.put(a[0], to, f"{next(ROUND[part] for part in parts if part in ROUND)}({x})" if floating else x)

    def select(self, parts: list[str], a: list[str]) -> str:
        return f"{self.register(a[0])} = {self.register(a[3])} ? {self.bits(a[1])} : {self.bits(a[2])};"

    def compare(self, parts: list[str], a: list[str]) -> str:
        how, kind = parts[1], parts[-1]
        x, y = self.get(a[1], kind), self.get(a[2], kind)
        value = _compared(how, x, y, kind[0] == "f")
        if parts[2] in ("and", "or", "xor"):
            value = f"({value}) {SIGNS[parts[2]]} {'!' if a[3].startswith('!') else ''}{self.register(a[3].lstrip('!'))}"
        first, *second = a[0].split("|")
        return f"{self.register(first)} = {value};" + "".join(f" {self.register(other)} = !{self.register(first)};" for other in second)


def _space(parts: list[str]) -> str:
    return next((part for part in parts if part in ("param", "global", "shared", "local", "const")), "")


def _compared(how: str, x: str, y: str, floating: bool) -> str:
    """Comparisons of floats are false where one is no number; those that end in u are true."""
    if not floating:
        return f"({x} {COMPARE[how]} {y})"
    if how in ("nan", "num"):
        return f"{'' if how == 'nan' else '!'}({x} != {x} || {y} != {y})"
    if how not in COMPARE and how.endswith("u"):
        return f"({x} {COMPARE[how[:-1]]} {y} || {x} != {x} || {y} != {y})"
    return f"({x} < {y} || {x} > {y})" if how == "ne" else f"({x} {COMPARE[how]} {y})"


I = Instructions  # noqa: E741
TABLE = {
    "ret": I.leave, "exit": I.leave, "bra": I.branch, "bar": I.barrier, "barrier": I.barrier, "membar": I.fence, "fence": I.fence,
    "ld": I.load, "st": I.store, "atom": I.atomic, "red": I.atomic, "mov": I.move, "cvta": I.move, "cvt": I.convert,
    "setp": I.compare, "selp": I.select, "fma": I.multiply_add, "mad": I.multiply_add,
    **dict.fromkeys(("add", "sub", "mul", "div", "rem", "and", "or", "xor", "min", "max"), I.binary),
    **dict.fromkeys(("not", "neg", "abs", "popc", "clz", *MATHS), I.unary),
    "shl": I.shift, "shr": I.shift, "shf": I.funnel_shift, "prmt": I.bytes_of, "dp4a": I.bytes_of,
}
