"""Numbers and units as profilers print them: in any locale, with prefixes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

_SPACES = "\u00a0\u202f '\u2019"  # what separates thousands beside . and ,
_SHAPE = re.compile(rf"[+-]?\d[\d.,{_SPACES}]*(?:[eE][+-]?\d+)?$")
_PLAIN = re.compile(r"[+-]?\d*\.?\d+(?:[eE][+-]?\d+)?$")
_PREFIXES = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BASES = {"second": "s", "s": "s", "sec": "s", "byte": "B", "bytes": "B", "B": "B", "hz": "Hz", "Hz": "Hz"}


class Style(NamedTuple):
    """How numbers of a file are written."""

    decimal: str = "."
    certain: bool = True  # False: numbers that contradict each other


def style(texts: Iterable[str]) -> Style:
    """The decimal sign of a file, told by all its numbers: what stands last of two signs, or before other than three digits, is it;
    what stands twice in one number is not. A point where nothing tells."""
    votes = {".": 0, ",": 0}
    for text in texts:
        if not _SHAPE.match(text := text.strip()):
            continue
        digits = re.split("[eE]", text)[0]
        points, commas = digits.count("."), digits.count(",")
        if points and commas:
            votes["." if digits.rfind(".") > digits.rfind(",") else ","] += 1
        elif points > 1 or commas > 1:
            votes["," if points > 1 else "."] += 1
        elif points or commas:
            sign = "." if points else ","
            before, after = digits.split(sign)
            if len(after) != 3 or len(before.lstrip("+-")) > 3 or before.lstrip("+-") in ("", "0"):
                votes[sign] += 1
    if votes[","] > votes["."]:
        return Style(",", votes["."] == 0)
    return Style(".", votes[","] == 0)


def number(text: str, how: Style) -> float | None:
    """The number that a text is, or None where it is none (names, N/A, lists)."""
    text = text.strip().split(" (")[0]  # values of instances stand in parentheses behind
    if not _SHAPE.match(text):
        return None
    other = "," if how.decimal == "." else "."
    for sign in (other, *_SPACES):
        text = text.replace(sign, "")
    text = text.replace(how.decimal, ".")
    value = float(text) if _PLAIN.match(text) else math.inf
    return value if math.isfinite(value) else None


def unit(text: str) -> tuple[float, str]:
    """What a written unit counts in base units, and which: ``usecond`` is (1e-6, 's'), ``cycle/nsecond`` (1e9, 'Hz'), ``%`` (0.01, '%');
    what is counted (``inst``, ``warp``, ``cycle``) is (1, '')."""
    text = text.strip()
    if text == "%":
        return 0.01, "%"
    above, _, below = text.partition("/")
    scale, base = _one(above)
    under, per = _one(below)
    if per == "s":
        return scale / under, f"{base}/s" if base == "B" else "Hz"
    return scale, base  # byte/block, register/thread, inst/cycle: the denominator is in the metric's name


def _one(text: str) -> tuple[float, str]:
    for written, base in _BASES.items():
        if text.endswith(written) and text[: -len(written)] in _PREFIXES:
            return _PREFIXES[text[: -len(written)]], base
    return 1.0, ""
