"""What a user's kernel costs: arithmetic over its parameters, as text, so that it can be worked out where the kernel's code is not."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from hotlap.core.errors import InputError, nearest
from hotlap.core.record import Value
from hotlap.core.work import arithmetic
from hotlap.core.work.base import DTYPES


def _power(base: Any, exponent: Any) -> float:
    if not isinstance(exponent, int) or abs(exponent) > 8:
        raise arithmetic.NoArithmetic(f"{base} ** {exponent}")
    return float(base) ** exponent


_OPERATORS: arithmetic.Operators = {**arithmetic.PLAIN, ast.Mod: operator.mod, ast.Pow: _power}


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
        number = float(arithmetic.evaluated(arithmetic.parsed(expression), params, _OPERATORS, _FUNCTIONS))
    except KeyError as error:
        name = error.args[0]
        raise InputError(f"'{expression}' names '{name}', which is no parameter; {nearest(name, params)}") from None
    except arithmetic.NoArithmetic as error:
        valid = f"+ - * / // % **, names, {', '.join(_FUNCTIONS)}"
        raise InputError(f"'{error}' in '{expression}' is not arithmetic; valid: {valid}") from None
    except (SyntaxError, RecursionError, ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"'{expression}' is no number for these parameters: {error}") from None
    if not math.isfinite(number):
        raise InputError(f"'{expression}' is {number} for these parameters; it must be finite")
    return number
