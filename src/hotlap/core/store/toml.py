"""TOML that is written: strings, numbers and lists are those of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def value(given: Any) -> str:
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")


def pairs(table: Mapping[str, Any]) -> list[str]:
    """A line for each, with its key as it is."""
    return [f"{name} = {value(given)}" for name, given in table.items()]


def quoted(table: Mapping[str, Any]) -> list[str]:
    """A line for each, of keys that may hold anything."""
    return pairs({value(name): given for name, given in table.items()})
