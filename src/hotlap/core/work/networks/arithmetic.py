"""Numbers of a network's file: written as numbers, or as arithmetic over names, which is evaluated and never executed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from hotlap.core.errors import InputError, nearest
from hotlap.core.work import arithmetic

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
        return float(arithmetic.evaluated(arithmetic.parsed(written), names, arithmetic.PLAIN, _FUNCTIONS))
    except (arithmetic.NoArithmetic, SyntaxError, ValueError, RecursionError):
        raise InputError(f"{where}: '{written}' is not arithmetic; valid: {VALID}") from None
    except KeyError as error:
        name = error.args[0]
        raise InputError(f"{where}: '{written}' has the name '{name}', which nothing sets; {nearest(name, names)}") from None
    except (ZeroDivisionError, OverflowError, TypeError):
        raise InputError(f"{where}: '{written}' cannot be computed") from None
