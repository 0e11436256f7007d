"""Numbers of a network's file: written as numbers, or as arithmetic over names, which is evaluated and never executed."""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping

from hotlap.errors import InputError, nearest

_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., float]] = {"ceil": math.ceil, "max": max, "min": min}
VALID = "numbers, names, + - * / // ( ), ceil, max and min"
LONGEST = 200  # characters: what is longer is no width of a layer


def whole(written: object, names: Mapping[str, float], where: str) -> int:
    """The whole number that is written, `names` filled in. Raises InputError: where, and what is valid."""
    found = value(written, names, where)
    if found != int(found):
        raise InputError(f"{where}: '{written}' is {found:g}, and a whole number is needed")
    return int(found)


def value(written: object, names: Mapping[str, float], where: str) -> float:
    """As `whole`, with fractions."""
    found = _value(written, names, where)
    if not math.isfinite(found):
        raise InputError(f"{where}: '{written}' cannot be computed")
    return found


def _value(written: object, names: Mapping[str, float], where: str) -> float:
    if isinstance(written, (int, float)) and not isinstance(written, bool):
        return written
    if not isinstance(written, str) or len(written) > LONGEST:
        raise InputError(f"{where}: {written!r:.60} is no number; valid: {VALID}")
    try:
        return _evaluated(_parsed(written), names)
    except (SyntaxError, ValueError, RecursionError):
        raise InputError(f"{where}: '{written}' is not arithmetic; valid: {VALID}") from None
    except KeyError as error:
        name = error.args[0]
        raise InputError(f"{where}: '{written}' has the name '{name}', which nothing sets; {nearest(name, names)}") from None
    except (ZeroDivisionError, OverflowError, TypeError):
        raise InputError(f"{where}: '{written}' cannot be computed") from None


@functools.cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _evaluated(node: ast.expr, names: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_evaluated(inner, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluated(left, names), _evaluated(right, names))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
            return _FUNCTIONS[name](*(_evaluated(one, names) for one in args))
    raise ValueError
