"""What a rule may say of facts: comparisons, and, or, not, in, arithmetic and a few functions. Nothing else can be reached from it.

    gpu.pcie.width_now == gpu.pcie.width_possible        gpu stands for the one a rule is at
    cpu.governor in ["performance", "schedutil"] and not (exists(cmdline[nosmt]) or cpu.smt_active)
    same(gpu[*].vbios) and version(nvidia.driver) >= version("550.54")
    limits.locked_memory >= 64 GiB                       "unlimited" is more than any number

Python's own parser reads it, after names of facts and quantities were made plain names of the same length; a list of allowed nodes
decides what stays. What is not known stays not known, unless the rest decides: `false and unknown` is false.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hotlap.core import units
from hotlap.core.errors import InputError
from hotlap.nodes.facts import Fact, members
from hotlap.nodes.growth import Earlier

_PART = r"[A-Za-z_]\w*(?:\[[^\]]*\])?"
_QUANTITY = r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?\s?(?:[KMGT]i?B|[kMGT]?Hz|W|ms|us|s|B)\b"
_TOKEN = re.compile(rf"""(["'])[^"']*\1|{_QUANTITY}|{_PART}(?:\.{_PART})*""")
GROWTH = ("growth", "per_hour")  # of a counter since an earlier reading
FUNCTIONS = ("exists", "count", "same", "version", "min", "max", "sum", "contains", "all", "any", *GROWTH)
SIGNS: Mapping[type[ast.AST], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq), ast.NotEq: ("!=", operator.ne), ast.Lt: ("<", operator.lt), ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt), ast.GtE: (">=", operator.ge), ast.In: ("in", lambda a, b: a in b),
    ast.Add: ("+", operator.add), ast.Sub: ("-", operator.sub), ast.Mult: ("*", operator.mul), ast.Div: ("/", operator.truediv),
}  # fmt: skip
DEEPEST = 40


def parse(text: str) -> ast.expr:
    """The tree of an expression: names are those of facts, quantities are numbers. Raises InputError that shows the place."""
    text = text.strip()
    plain = _TOKEN.sub(_plain, re.sub(r"\s", " ", text))
    if not plain.isascii():
        raise _wrong(text, next(place for place, one in enumerate(plain) if not one.isascii()), "this is not understood")
    if max(itertools.accumulate((one in "([") - (one in ")]") for one in plain), default=0) > DEEPEST:
        raise InputError(f"an expression is nested more than {DEEPEST} deep: '{text[:60]}'")
    try:
        return _checked(ast.parse(plain, mode="eval").body, text)
    except SyntaxError as error:
        if not error.offset:  # it ends too early
            raise _wrong(text, len(text), "a value is missing") from None
        what = "this is not understood" if error.msg.startswith("invalid") else error.msg
        raise _wrong(text, error.offset - 1, what) from None
    except (RecursionError, MemoryError):
        raise InputError(f"an expression is too long: '{text[:60]}'") from None


def grows(tree: ast.expr) -> bool:
    """Whether it asks for the growth of a counter."""
    return any(isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in GROWTH for one in ast.walk(tree))


def _plain(token: re.Match[str]) -> str:
    """As Python can read it, in the same place: text without escapes, all else as one name."""
    found = token[0]
    return found[0] + "_" * (len(found) - 2) + found[0] if token[1] else re.sub(r"^\d|\W", "_", found)


def _wrong(text: str, place: int, what: str) -> InputError:
    return InputError(
        f"{what} at '{text[place : place + 24]}' in '{text}'; valid: names of facts, quantities, \"text\", lists, "
        f"== != < <= > >= in, and or not, + - * /, {', '.join(name + '()' for name in FUNCTIONS)}"
    )


def _checked(node: ast.expr, text: str) -> ast.expr:
    """The same with what was written in its place; what is not on the list is refused."""
    written = text[node.col_offset : node.end_col_offset]
    match node:
        case ast.Name() if written in ("true", "false"):
            return ast.Constant(written == "true")
        case ast.Name():
            return ast.Constant(_quantity(written)) if written[0].isdigit() else ast.Name(written)
        case ast.Constant(value=str()) if written[0] in "\"'":
            return ast.Constant(written[1:-1])
        case ast.Constant(value=int() | float() as value) if written[0].isdigit():
            return ast.Constant(float(value))
        case ast.List(elts=parts):
            return ast.List([_checked(part, text) for part in parts])
        case ast.BoolOp(op=op, values=parts):
            return ast.BoolOp(op, [_checked(part, text) for part in parts])
        case ast.UnaryOp(op=ast.Not() as op, operand=part):
            return ast.UnaryOp(op, _checked(part, text))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in SIGNS:
            return ast.BinOp(_checked(left, text), op, _checked(right, text))
        case ast.Compare(left=left, ops=[ast.NotIn()], comparators=[right]):
            return ast.UnaryOp(ast.Not(), ast.Compare(_checked(left, text), [ast.In()], [_checked(right, text)]))
        case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in SIGNS:
            return ast.Compare(_checked(left, text), [sign], [_checked(right, text)])
        case ast.Compare(comparators=[first, *_]):
            raise _wrong(text, first.end_col_offset or 0, "nothing more was expected")
        case ast.Call(func=ast.Name() as function, args=given, keywords=[]):
            return _call(function, [_checked(one, text) for one in given], text)
    raise _wrong(text, node.col_offset, "this is not understood")


def _call(function: ast.Name, given: list[ast.expr], text: str) -> ast.Call:
    place = function.col_offset
    name = text[function.col_offset : function.end_col_offset]
    path = given[0].id if len(given) == 1 and isinstance(given[0], ast.Name) else ""
    if name not in FUNCTIONS:
        raise _wrong(text, place, f"there is no function '{name}'")
    if name in GROWTH and (not path or "[*]" in path):
        raise _wrong(text, place, f"{name}() wants the name of one counter")
    if name == "exists" and not path:
        raise _wrong(text, place, "exists() wants the name of one fact")
    return ast.Call(ast.Name(name), given, [])


def _quantity(text: str) -> float:
    unit = text.lstrip("0123456789.e+-").strip()
    return units.parse(text, next(base for base in ("B", "Hz", "W", "s") if unit.endswith(base)))


@dataclass(frozen=True)
class Unknown:
    """Not to be told, and why."""

    why: str


@dataclass(frozen=True)
class Scope:
    """The facts, and which member of a family a rule is at."""

    facts: Mapping[str, Fact]
    family: str = ""
    key: str = ""
    used: dict[str, Fact | None] = field(default_factory=dict)  # what was looked up, for the report
    earlier: Earlier | None = None

    def names(self, path: str) -> list[str]:
        """A path's facts: the member's own, or with [*] those of all members."""
        if self.family and re.match(rf"{self.family}\.", path):
            return [f"{self.family}[{self.key}]{path[len(self.family) :]}"]
        match = re.match(r"(\w+)\[\*\](.*)", path)
        return [f"{match[1]}[{key}]{match[2]}" for key in members(self.facts, match[1])] if match else [path]

    def value(self, name: str) -> Any:
        fact = self.facts.get(name)
        self.used[name] = fact
        if fact is None or fact.status != "ok":
            return Unknown(f"{name}: {fact.reason or fact.status}" if fact else f"{name} was not read")
        return math.inf if fact.value == "unlimited" else fact.value


def evaluate(node: ast.expr, scope: Scope) -> Any:
    """True, False, a value, or Unknown with its reason; never raises for facts, whatever they hold."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=path):
            values = [scope.value(name) for name in scope.names(path)]
            return values if "[*]" in path else values[0]
        case ast.List(elts=parts):
            return [evaluate(part, scope) for part in parts]
        case ast.BoolOp(op=op, values=parts):
            return _joined(isinstance(op, ast.Or), [evaluate(part, scope) for part in parts])
        case ast.UnaryOp(operand=part):
            value = evaluate(part, scope)
            return value if isinstance(value, Unknown) else not value
        case ast.Call(func=ast.Name(id=name), args=given):
            return _called(name, given, scope)
        case ast.Compare(left=left, ops=[sign], comparators=[right]) | ast.BinOp(left=left, op=sign, right=right):
            a, b = evaluate(left, scope), evaluate(right, scope)
            if isinstance(a, list) and isinstance(left, ast.Name):  # with [*]: it holds for all of them
                return _joined(False, [_pair(sign, one, b) for one in a])
            return _pair(sign, a, b)
    raise AssertionError(ast.dump(node))  # `parse` lets nothing else through


def _joined(decides: bool, parts: list[Any]) -> Any:
    """`or` of the parts where true decides, `and` where false does."""
    if any(not isinstance(part, Unknown) and bool(part) == decides for part in parts):
        return decides
    return next((part for part in parts if isinstance(part, Unknown)), not decides)


def _pair(sign: ast.AST, a: Any, b: Any) -> Any:
    for one in (a, b, *(b if isinstance(b, list) else ())):
        if isinstance(one, Unknown):
            return one
    written, worked_out = SIGNS[type(sign)]
    try:
        if isinstance(sign, ast.operator) and (isinstance(a, str | list) or isinstance(b, str | list)):
            raise TypeError
        return worked_out(a, b)
    except ZeroDivisionError:
        return Unknown("a division by zero")
    except TypeError:
        return Unknown(f"'{a}' {written} '{b}' cannot be worked out: the two are of different kinds")


def _members(part: ast.expr, scope: Scope) -> Any:
    """A comparison over [*] as one answer for each member: none for none."""
    match part:
        case ast.Compare(left=ast.Name(id=path) as left, ops=[sign], comparators=[right]) if "[*]" in path:
            b = evaluate(right, scope)
            return [_pair(sign, one, b) for one in evaluate(left, scope)]
    return evaluate(part, scope)


def _growth(name: str, path: str, scope: Scope) -> Any:
    """How much a counter grew, or the fewest in an hour that would explain it; the report shows both, with the time."""
    (fact,) = scope.names(path)
    if scope.earlier is None:
        return Unknown(f"{fact}: its growth needs an earlier reading (--since)")
    now = scope.value(fact)
    if isinstance(now, Unknown):
        return now
    count, why = scope.earlier.growth(fact, now)
    if count is None:
        return Unknown(why)
    scope.used[f"{fact}, growth"] = Fact(value=scope.earlier.worded(count))
    if name == "growth":
        return count
    rate = scope.earlier.per_hour(count)
    return Unknown(f"{fact}: it is not known when it was read, and so not how fast it grew") if rate is None else rate


def _exists(path: str, scope: Scope) -> Any:
    facts = [scope.facts.get(name) for name in scope.names(path)]
    denied = [one for one in facts if one and one.status in ("denied", "error")]
    there = any(one and one.status == "ok" for one in facts)  # an empty list is there, too
    return Unknown(f"{path}: {denied[0].reason}") if denied and not there else there


def _called(name: str, given: Sequence[ast.expr], scope: Scope) -> Any:
    path = given[0].id if given and isinstance(given[0], ast.Name) else ""
    if name in GROWTH:
        return _growth(name, path, scope)
    if name == "exists":
        return _exists(path, scope)
    values = [_members(part, scope) if name in ("any", "all") else evaluate(part, scope) for part in given]
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    if name == "count":
        return sum(1 for one in flat if not isinstance(one, Unknown))
    if name in ("all", "any"):
        return _joined(name == "any", flat)
    if unknown := next((one for one in flat if isinstance(one, Unknown)), None):
        return unknown
    if name == "same":
        return len({repr(one) for one in flat}) <= 1
    if name == "version":
        return [int(part) for part in re.findall(r"\d+", str(flat[0]))] if flat else Unknown("version() of nothing")
    if name == "contains":
        if not isinstance(values[0], str | list):
            return Unknown("contains() needs text or a list")
        return len(values) == 2 and values[1] in values[0]
    numbers = [one for one in flat if isinstance(one, int | float)]
    fold: Callable[[list[float]], float] = {"min": min, "max": max, "sum": sum}[name]  # type: ignore[assignment]
    return fold(numbers) if numbers else Unknown(f"{name}() of nothing")
