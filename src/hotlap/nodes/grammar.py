"""The grammar of what a rule may say of facts: text becomes a tree, or an error that shows the place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hotlap.core import units
from hotlap.core.errors import InputError

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"[^"]*"|'[^']*')|(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:\s?(?:[KMGT]i?B|[kMGT]?Hz|W|ms|us|s|B)\b)?)|
    (?P<name>[A-Za-z_][\w]*(?:\[[^\]]*\])?(?:\.[A-Za-z_]\w*(?:\[[^\]]*\])?)*)|(?P<sign>==|!=|<=|>=|[<>()\[\],*/+-]))""",
    re.VERBOSE,
)
FUNCTIONS = ("exists", "count", "same", "version", "min", "max", "sum", "contains", "all", "any", "growth", "per_hour")
GROWTH = ("growth", "per_hour")  # of a counter since an earlier reading
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
DEEPEST = 40

Node = tuple[Any, ...]


def parse(text: str) -> Node:
    """The tree of an expression. Raises InputError that shows the place."""
    return _Parser(text).whole()


def grows(node: Any) -> bool:
    """Whether it asks for the growth of a counter."""
    return isinstance(node, (tuple, list)) and (
        (len(node) > 1 and node[0] == "call" and node[1] in GROWTH) or any(grows(part) for part in node)
    )


class _Parser:
    """Recursive descent: or, and, not, comparison, sum, product, value."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at, self.depth = text, list[tuple[str, str, int]](), 0, 0
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if not match or match.lastgroup is None:
                raise self.wrong(place, "this is not understood")
            self.tokens.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            place = match.end()

    def wrong(self, place: int, what: str) -> InputError:
        return InputError(
            f"{what} at '{self.text[place : place + 24]}' in '{self.text}'; valid: names of facts, quantities, \"text\", lists, "
            f"== != < <= > >= in, and or not, + - * /, {', '.join(name + '()' for name in FUNCTIONS)}"
        )

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def place(self) -> int:
        return self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)

    def take(self, wanted: str) -> None:
        if self.peek() != wanted:
            raise self.wrong(self.place(), f"'{wanted}' is missing")
        self.at += 1

    def whole(self) -> Node:
        found = self.either()
        if self.at < len(self.tokens):
            raise self.wrong(self.place(), "nothing more was expected")
        return found

    def either(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise InputError(f"an expression is nested more than {DEEPEST} deep: '{self.text[:60]}'")
        found = self.both()
        while self.peek() == "or":
            self.at += 1
            found = ("or", found, self.both())
        self.depth -= 1
        return found

    def both(self) -> Node:
        found = self.negated()
        while self.peek() == "and":
            self.at += 1
            found = ("and", found, self.negated())
        return found

    def negated(self) -> Node:
        count = 0
        while self.peek() == "not":
            self.at += 1
            count += 1
        found = self.compared()
        return ("not", found) if count % 2 else found

    def compared(self) -> Node:
        left = self.sum()
        word = self.peek()
        if word in SIGNS:
            self.at += 1
            return ("compare", word, left, self.sum())
        if word == "in":
            self.at += 1
            return ("in", left, self.sum())
        if word == "not" and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1][1] == "in":
            self.at += 2
            return ("not", ("in", left, self.sum()))
        return left

    def sum(self) -> Node:
        found = self.product()
        while self.peek() in ("+", "-"):
            sign = self.peek()
            self.at += 1
            found = ("arithmetic", sign, found, self.product())
        return found

    def product(self) -> Node:
        found = self.one()
        while self.peek() in ("*", "/"):
            sign = self.peek()
            self.at += 1
            found = ("arithmetic", sign, found, self.one())
        return found

    def one(self) -> Node:
        if self.at >= len(self.tokens):
            raise self.wrong(len(self.text), "a value is missing")
        kind, word, place = self.tokens[self.at]
        self.at += 1
        if kind == "text":
            return ("value", word[1:-1])
        if kind == "number":
            return ("value", _quantity(word))
        if word == "(":
            found = self.either()
            self.take(")")
            return found
        if word == "[":
            return ("list", *self.items("]"))
        if kind == "name" and word in ("true", "false"):
            return ("value", word == "true")
        if kind == "name" and self.peek() == "(":
            if word not in FUNCTIONS:
                raise self.wrong(place, f"there is no function '{word}'")
            self.at += 1
            given = self.items(")")
            if word in GROWTH and (len(given) != 1 or given[0][0] != "path" or "[*]" in given[0][1]):
                raise self.wrong(place, f"{word}() wants the name of one counter")
            if word == "exists" and (len(given) != 1 or given[0][0] != "path"):
                raise self.wrong(place, "exists() wants the name of one fact")
            return ("call", word, *given)
        if kind == "name" and word not in ("and", "or", "not", "in"):
            return ("path", word)
        raise self.wrong(place, "a value is missing")

    def items(self, end: str) -> list[Node]:
        found = list[Node]()
        while self.peek() != end:
            found.append(self.either())
            if self.peek() != end:
                self.take(",")
        self.take(end)
        return found


def _quantity(text: str) -> float:
    unit = text.lstrip("0123456789.e+-").strip()
    for base in ("B", "Hz", "W", "s"):
        if unit.endswith(base):
            return units.parse(text, base)
    return float(text)
