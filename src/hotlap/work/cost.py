"""What a user's kernel costs: arithmetic over its parameters, as text, so that it can be worked out where the kernel's code is not."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from hotlap.errors import InputError, nearest
from hotlap.record import Value
from hotlap.work.base import DTYPES

_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip


def _size(dtype: object) -> int:
    if dtype not in DTYPES:
        raise InputError(f"size() takes a type, not '{dtype}'; {nearest(str(dtype), DTYPES)}")
    return DTYPES[str(dtype)]


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "size": _size, "ceil": math.ceil, "floor": math.floor, "log2": math.log2, "sqrt": math.sqrt, "min": min, "max": max,
}
LONGEST = 1000  # characters


def evaluate(expression: str | float, params: Mapping[str, Value]) -> float:
    """The number that `expression` means for these parameters: + − × ÷ // %, powers by whole numbers, names, size(dtype), ceil, floor,
    log2, sqrt, min, max. Raises InputError saying what is wrong and what is valid."""
    if not isinstance(expression, str):
        return float(expression)
    if len(expression) > LONGEST:
        raise InputError(f"an expression has at most {LONGEST} characters: {expression[:40]}…")
    try:
        found = _value(ast.parse(expression.strip(), mode="eval").body, params, expression)
        number = float(found)
    except (SyntaxError, RecursionError, ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"'{expression}' is no number for these parameters: {error}") from None
    if not math.isfinite(number):
        raise InputError(f"'{expression}' is {number} for these parameters; it must be finite")
    return number


def _value(node: ast.expr, params: Mapping[str, Value], whole: str) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str)):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in params:
            raise InputError(f"'{whole}' names '{node.id}', which is no parameter; {nearest(node.id, params)}")
        return params[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, params, whole)
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, params, whole), _value(node.right, params, whole)
        if type(node.op) in _BINARY:
            return _BINARY[type(node.op)](left, right)
        if isinstance(node.op, ast.Pow) and isinstance(right, int) and abs(right) <= 8:
            return float(left) ** right
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords:
        return _FUNCTIONS[node.func.id](*(_value(one, params, whole) for one in node.args))
    raise InputError(f"'{ast.unparse(node)}' in '{whole}' is not arithmetic; valid: + - * / // % **, names, {', '.join(_FUNCTIONS)}")
