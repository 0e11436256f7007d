"""How many numbers a family's coefficients have from a fit, and whether that is too many."""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

MOST_FITTED = 200  # numbers of one family


def fitted_numbers(family: str) -> int:
    """Numbers in the family's coefficients that a fit gave."""
    file = importlib.resources.files("hotlap.core.model") / "coefficients" / f"{family}.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return sum(_count(tables.get(name, {})) for name in ("coefficients", "kernel", "fitted", "waits_s"))


def _count(table: Mapping[str, Any]) -> int:
    return sum(_count(v) if isinstance(v, Mapping) else 1 for v in table.values())


def numbers(families: Sequence[str]) -> str:
    """How many each family has, and whether that is too many."""
    counts = {family: fitted_numbers(family) for family in families}
    return (
        "fitted numbers: " + ", ".join(f"{f} {n}{' MISS' if n >= MOST_FITTED else ''}" for f, n in counts.items()) + f" [< {MOST_FITTED}]"
    )
