"""Base SI inside (s, B, B/s, FLOP/s, OP/s, W, J, Hz, °C, V); prefixes only here, when reading and when printing.

Decimal prefixes are powers of 1000, binary ones (Ki, Mi, Gi, Ti) of 1024, after IEC 80000-13. `GB` is 10^9 bytes and
`GiB` is 2^30 bytes: tools that print one and mean the other are a well-known source of 7 % errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from hotlap.core.errors import InputError

DECIMAL = {
    "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12,
}
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
COUNTED = ("pixel/s", "texel/s", "tri/s", "draw/s")  # what 1/s is of, as it is shown
BASE_UNITS = ("B/s", "FLOP/s", "OP/s", "1/s", "FLOP/B", "FLOP", "OP", "B", "Hz", "W", "J", "s", "V", "°C", "%", "")
METRICS = {"s": "time", "B/s": "bandwidth", "FLOP/s": "compute", "OP/s": "compute", "1/s": "rate"}
"""Unit → metric. A number in another unit is of a metric of its own."""
RATES = {unit: metric for unit, metric in METRICS.items() if metric != "time"}
"""Those that fall as time rises."""
COUNTS = ("B", "FLOP", "OP")
"""Of work done or memory held: what runs beside does not change them."""
WORDS = {"min": 60.0, "h": 3600.0, "d": 86400.0}
SPELLINGS = {  # what people write for a unit of ours, in lower case
    "sec": "s", "secs": "s", "second": "s", "seconds": "s", "msec": "ms", "usec": "µs", "nsec": "ns", "m": "min", "mins": "min",
    "minute": "min", "minutes": "min", "hr": "h", "hrs": "h", "hour": "h", "hours": "h", "day": "d", "days": "d",
    "byte": "B", "bytes": "B", "percent": "%",
}

_PARTS = re.compile(r"\d+\.?\d*\s*[a-zµ]+")  # of a time as it is printed, as in 1 h 20 min
_TIME = re.compile(rf"\s*(?:{_PARTS.pattern}\s*)+")
_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)\s*$")


def counted(n: int, thing: str) -> str:
    """A count with its thing: 1 round, 2 rounds."""
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def parse(text: str | float, unit: str) -> float:
    """A quantity in base units of `unit`.

    `text` is a number (already base units) or a string like ``256 MiB``, ``8 s``, ``1.5 TB/s``, ``5 %`` (a share: 0.05). A share of
    more than 1 has its sign: a bare 5 is hardly ever meant as 500 %. Raises InputError naming what is valid.
    """
    if isinstance(text, bool):
        raise InputError(f"a quantity in {unit or 'plain numbers'} is needed, not {text}")
    if isinstance(text, (int, float)):
        return _bare(text, text, unit)
    match = _NUMBER.match(text)
    odd = not match or (match[2] not in ("", "%") and _scale(match[2], unit) is None)
    if odd and unit == "s" and len(parts := _PARTS.findall(text)) > 1 and _TIME.fullmatch(text):
        return sum(parse(part, unit) for part in parts)
    if not match:
        raise InputError(f"'{text[:40]}' is not a quantity; write a number and a unit, as in {_example(unit)}")
    value, suffix = float(match[1]), match[2]
    if suffix == "":
        return _bare(value, text, unit)
    if suffix == "%":
        if unit not in ("%", ""):
            raise InputError(f"'{text}' is a share; a quantity in {unit} is needed, as in {_example(unit)}")
        return _finite(value / 100, text, unit)
    scale = _scale(suffix, unit)
    if scale is None:
        hint = f"; {near}" if (near := meant(text, unit)) else f", as in {_example(unit)}"
        raise InputError(f"'{text}' has the unit '{suffix}' where {unit or 'a plain number'} is needed{hint}")
    return _finite(value * scale, text, unit)


def _bare(value: float, text: object, unit: str) -> float:
    """A number without a unit. Raises InputError."""
    try:
        found = _finite(float(value), text, unit)
    except OverflowError:
        return _finite(math.inf, text, unit)
    if unit == "%" and abs(found) > 1:
        raise InputError(f"'{text}' without a sign would be {found * 100:g} %; write '{found:g} %' or {found / 100:g}")
    return found


def _finite(value: float, text: object, unit: str) -> float:
    if not math.isfinite(value):
        raise InputError(f"'{str(text)[:40]}' is not finite; write a number and a unit, as in {_example(unit)}")
    return value


def base(text: str) -> tuple[str, float] | None:
    """The base unit of a written one and what it counts in it, as ``base('ms') == ('s', 0.001)``; None for a unit of its owner's."""
    for unit in BASE_UNITS:
        scale = _scale(text, unit) if unit and text else None
        if scale is not None:
            return unit, scale / 100 if unit == "%" else scale
    return None


def meant(text: str, unit: str) -> str:
    """A hint for a quantity whose unit is misspelt, as ``meant('512mib', 'B') == "did you mean '512 MiB'?"``; "" without one."""
    match = _NUMBER.match(text)
    if not match or _scale(match[2], unit) is not None:
        return ""
    written = match[2].lower()
    similar = [known for known in _units(unit) if written in (known.lower(), known.lower().removesuffix(unit.lower()))]
    if SPELLINGS.get(written) in _units(unit):
        similar = [SPELLINGS[written]]
    if match[2][:1] == "K" and "kB" in similar:
        similar.append("KiB")  # both are meant by it
    shown = " or ".join(f"'{match[1]} {known}'" for known in similar)
    return f"did you mean {shown}?" if similar else ""


def _units(unit: str) -> list[str]:
    """A base unit with the prefixes that people use with it."""
    if unit == "s":
        return ["s", "ms", "µs", "ns", *WORDS]
    prefixes = ["", "k", "M", "G", "T", "P", "E", *(BINARY if unit in ("B", "B/s", "") else ())]
    return [unit] if unit in ("%", "°C") else [prefix + unit.removeprefix("1") for prefix in prefixes]


def _scale(suffix: str, unit: str) -> float | None:
    """What a number with this suffix is multiplied by; None where the suffix does not go with the unit."""
    if suffix == "" or suffix == unit:
        return 1.0
    if unit == "s" and suffix in WORDS:
        return WORDS[suffix]
    ending = unit.removeprefix("1")  # "165 M/s" is read as 165e6 1/s
    if suffix.endswith(ending):
        prefix = suffix[: len(suffix) - len(ending)] if ending else suffix
        if prefix in BINARY and unit in ("B", "B/s", ""):
            return BINARY[prefix]
        least, most = _MEANT.get(unit, (0.0, math.inf))
        if prefix in DECIMAL and least <= DECIMAL[prefix] <= most:
            return DECIMAL[prefix]
    return None


_MEANT = {  # prefixes, from and to: nobody means a thousandth of a byte, `5m` of nothing, `5E` without its exponent, or a year in Ms
    "B": (1.0, math.inf), "": (1.0, 1e15), "s": (0.0, 1e3),
}


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
    scale, prefix = _prefix(abs(value), unit)
    return f"{round_to(value / scale, digits)} {prefix}{unit.removeprefix('1')}"


def _prefix(value: float, unit: str) -> tuple[float, str]:
    small = unit in ("s", "J", "W", "V")
    for scale, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale * 0.9995 and not (small and prefix == "k" and value < 1e4) and not (unit == "s" and scale > 1e3):
            return scale, prefix
    if value >= 0.9995 or not small:
        return 1.0, ""
    for scale, prefix in ((1e-3, "m"), (1e-6, "µ"), (1e-9, "n")):
        if value >= scale * 0.9995:
            return scale, prefix
    return 1e-12, "p"


def percent(share: float, digits: int = 2) -> str:
    """A share in per cent: ``0.64 %``, ``12 %``, ``103 %``; nothing finer than a hundredth."""
    number = abs(share) * 100
    sign = "-" if share < 0 else ""
    if not math.isfinite(number):  # of figures that are no share of anything
        return f"{share:g} × 100 %"
    if number < 0.005:
        return "0 %"
    if number < 1:
        return f"{sign}{number:.2f} %"
    return f"{sign}{round_to(number, max(digits, len(str(int(number)))))} %"


def signed_percent(share: float) -> str:
    """A change in per cent, with its sign: ``+52 %``."""
    return f"{'+' if share > 0 else ''}{percent(share)}"


def size(value: float) -> str:
    """Bytes for people, binary where exact: ``size(2**28) == '256 MiB'``, else decimal: ``size(3e9) == '3 GB'``."""
    for scale, prefix in ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")):
        if value >= scale and (value * 100 / scale) % 1 == 0 and value / scale < 10_000:
            return f"{value / scale:g} {prefix}"
    return show(value, "B")


def exact(value: float, unit: str) -> str:
    """A setting or a bound for people, to 10 digits and without zeros that say nothing: ``16 MiB``, ``1 ms``, ``16777216``, ``10^15``."""
    if not math.isfinite(value) or value == 0 or unit in ("%", "°C"):
        return f"{value * 100:g} %" if unit == "%" else f"{value:g} {unit}".strip()
    if unit == "":
        power = round(math.log10(abs(value)))
        return f"10^{power}" if value == 10.0**power and power > 5 else _plain(value)
    if unit == "B":
        for prefix, scale in reversed(BINARY.items()):
            if value >= scale and value / scale < 10_000 and (value * 100 / scale) % 1 == 0:
                return f"{value / scale:g} {prefix}B"
    scale, prefix = _prefix(abs(value), unit)
    return f"{_plain(value / scale)} {prefix}{unit.removeprefix('1')}"


def _plain(value: float) -> str:
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.10g}"


def round_to(value: float, digits: int = 3) -> str:
    """`value` to `digits` significant figures in plain notation, trailing zeros kept: ``round_to(29.4) == '29.4'``."""
    if math.isnan(value) or math.isinf(value):
        return str(value)
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:.{max(places, 0)}f}"


def stretches(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each run of consecutive numbers, ascending: of 1, 2, 3, 7 they are (1, 3) and (7, 7)."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
