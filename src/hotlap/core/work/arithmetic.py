"""Arithmetic as text, read and worked out, never executed: numbers, names, operators and functions that the caller allows."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

Operators = Mapping[type[ast.operator], Callable[[Any, Any], Any]]
Functions = Mapping[str, Callable[..., Any]]

PLAIN: Operators = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


class NoArithmetic(Exception):
    """Part of the text is none; the exception's text is that part."""


@functools.lru_cache(4096)
def parsed(text: str) -> ast.expr:
    """Raises SyntaxError, ValueError or RecursionError for what is no expression."""
    return ast.parse(text.strip(), mode="eval").body


def evaluated(node: ast.expr, names: Mapping[str, Any], operators: Operators, functions: Functions) -> Any:
    """Raises KeyError with a name that is not among `names`, NoArithmetic for all but what is allowed, and what operators and functions
    raise. Words in quotes are only for functions."""
    match node:
        case ast.Constant(value=int() | float() | str() as found) if not isinstance(found, bool):
            return found
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -evaluated(inner, names, operators, functions)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in operators:
            sides = (evaluated(one, names, operators, functions) for one in (left, right))
            return operators[type(op)](*sides)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in functions and args:
            return functions[name](*(evaluated(one, names, operators, functions) for one in args))
    raise NoArithmetic(ast.unparse(node))
