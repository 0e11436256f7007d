"""Base SI inside (s, B, B/s, FLOP/s, OP/s, W, J, Hz, °C, V); prefixes only here, when reading and when printing.

Decimal prefixes are powers of 1000, binary ones (Ki, Mi, Gi, Ti) of 1024, after IEC 80000-13. `GB` is 10^9 bytes and
`GiB` is 2^30 bytes: tools that print one and mean the other are a well-known source of 7 % errors.
"""

from __future__ import annotations

import math
import re

from hotlap.errors import InputError

DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12}
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
BASE_UNITS = ("B/s", "FLOP/s", "OP/s", "1/s", "FLOP/B", "FLOP", "OP", "B", "Hz", "W", "J", "s", "V", "°C", "%", "")
WORDS = {"min": 60.0, "h": 3600.0, "d": 86400.0}

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)\s*$")


def parse(text: str | float, unit: str) -> float:
    """A quantity in base units of `unit`.

    `text` is a number (already base units) or a string like ``256 MiB``, ``8 s``, ``1.5 TB/s``, ``5 %`` (a share: 0.05).
    Raises InputError naming what is valid.
    """
    if isinstance(text, bool):
        raise InputError(f"a quantity in {unit or 'plain numbers'} is needed, not {text}")
    if isinstance(text, (int, float)):
        return float(text)
    match = _NUMBER.match(text)
    if not match:
        raise InputError(f"'{text}' is not a quantity; write a number and a unit, as in {_example(unit)}")
    value, suffix = float(match[1]), match[2]
    if suffix == "%":
        if unit not in ("%", ""):
            raise InputError(f"'{text}' is a share; a quantity in {unit} is needed, as in {_example(unit)}")
        return value / 100
    return value * _scale(text, suffix, unit)


def _scale(text: str, suffix: str, unit: str) -> float:
    if suffix == "" or suffix == unit:
        return 1.0
    if unit == "s" and suffix in WORDS:
        return WORDS[suffix]
    ending = unit.removeprefix("1")  # "165 M/s" is read as 165e6 1/s
    if suffix.endswith(ending):
        prefix = suffix[: len(suffix) - len(ending)] if ending else suffix
        if prefix in BINARY and unit in ("B", "B/s", ""):
            return BINARY[prefix]
        if prefix in DECIMAL:
            return DECIMAL[prefix]
    raise InputError(f"'{text}' has the unit '{suffix}' where {unit or 'a plain number'} is needed, as in {_example(unit)}")


def _example(unit: str) -> str:
    return {
        "B": "'256 MiB'", "s": "'8 s' or '90 ms'", "B/s": "'1.5 TB/s'", "FLOP/s": "'19.5 TFLOP/s'",
        "Hz": "'1.98 GHz'", "%": "'5 %'", "": "'4' or '1 Ki'",
    }.get(unit, f"'1 {unit}'")


def show(value: float | None, unit: str, digits: int = 3) -> str:
    """`value` (base units) with a prefix and `digits` significant figures, e.g. ``show(2.94e10, 'B/s') == '29.4 GB/s'``."""
    if value is None or math.isnan(value):
        return "–"
    if unit == "%":
        return f"{round_to(value * 100, digits)} %"
    if math.isinf(value) or value == 0 or unit == "°C":
        return f"{round_to(value, digits)} {unit}".strip()
    if unit == "":
        return round_to(value, digits)
    scale, prefix = _prefix(abs(value), small=unit in ("s", "J", "W", "V"))
    return f"{round_to(value / scale, digits)} {prefix}{unit.removeprefix('1')}"


def _prefix(value: float, small: bool) -> tuple[float, str]:
    for scale, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale * 0.9995 and not (small and prefix == "k" and value < 1e4):
            return scale, prefix
    if value >= 0.9995 or not small:
        return 1.0, ""
    for scale, prefix in ((1e-3, "m"), (1e-6, "µ"), (1e-9, "n")):
        if value >= scale * 0.9995:
            return scale, prefix
    return 1e-12, "p"


def size(value: float) -> str:
    """Bytes for people, binary where exact: ``size(2**28) == '256 MiB'``, else decimal: ``size(3e9) == '3 GB'``."""
    for scale, prefix in ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")):
        if value >= scale and (value * 100 / scale) % 1 == 0 and value / scale < 10_000:
            return f"{value / scale:g} {prefix}"
    return show(value, "B")


def round_to(value: float, digits: int = 3) -> str:
    """`value` to `digits` significant figures in plain notation, trailing zeros kept: ``round_to(29.4) == '29.4'``."""
    if math.isnan(value) or math.isinf(value):
        return str(value)
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:.{max(places, 0)}f}"
