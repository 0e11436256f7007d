"""Arithmetic on named numbers, as rules write it: + − × ÷, comparisons, and, or, not, min, max, abs, floor, ceil, known, first.

A name that is not known, or a division by zero, makes the whole unknown (None), save inside `known(…)` and `first(…)`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache

from hotlap.core.errors import InputError

Number = float | bool
BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}
COMPARED: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
CALLED: dict[str, Callable[..., float]] = {"min": min, "max": max, "abs": abs, "floor": math.floor, "ceil": math.ceil}


class _Unknown(Exception):
    pass


def value(text: str, names: Mapping[str, float]) -> Number | None:
    """What the formula yields, or None where something that it needs is unknown. Raises InputError for what is no formula."""
    try:
        found = _of(_tree(text), names)
    except InputError:
        raise
    except (_Unknown, ZeroDivisionError, OverflowError, ValueError):  # ValueError: of floor and ceil, of what is no number
        return None
    return found if math.isfinite(found) else None


def uses(text: str) -> set[str]:
    """The names in a formula, functions left out."""
    return {node.id for node in ast.walk(_tree(text)) if isinstance(node, ast.Name)} - {*CALLED, "known", "first"}


@lru_cache(maxsize=1024)
def _tree(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise InputError(f"'{text}' is no formula: {error.msg}") from None


def _of(node: ast.expr, names: Mapping[str, float]) -> Number:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise _Unknown
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        return BINARY[type(node.op)](_of(node.left, names), _of(node.right, names))
    if isinstance(node, ast.UnaryOp):
        inner = _of(node.operand, names)
        return not inner if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.BoolOp):
        test = all if isinstance(node.op, ast.And) else any
        return test(_of(one, names) for one in node.values)
    if isinstance(node, ast.Compare):
        return _compare(node, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _call(node.func.id, node.args, names)
    raise InputError(f"'{ast.unparse(node)}' has no place in a formula")


def _compare(node: ast.Compare, names: Mapping[str, float]) -> bool:
    left = _of(node.left, names)
    for op, other in zip(node.ops, node.comparators, strict=True):
        right = _of(other, names)
        if not COMPARED[type(op)](left, right):
            return False
        left = right
    return True


def _call(name: str, args: list[ast.expr], names: Mapping[str, float]) -> Number:
    if name in ("known", "first"):
        for one in args:
            try:
                found = _of(one, names)
            except (_Unknown, ZeroDivisionError):
                continue
            return True if name == "known" else found
        if name == "known":
            return False
        raise _Unknown
    if name not in CALLED:
        raise InputError(f"'{name}' is no function of a formula; valid: {', '.join((*CALLED, 'known', 'first'))}")
    return CALLED[name](*(_of(one, names) for one in args))
