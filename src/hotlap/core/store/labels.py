"""Labels, which users give to runs and select them by."""

from __future__ import annotations

from collections.abc import Mapping

from hotlap.core.errors import InputError
from hotlap.core.store.select import FACTS


def check(given: Mapping[str, object]) -> dict[str, str]:
    """The labels as they are kept: names and values as text. Raises InputError for one that no selector could name."""
    if not isinstance(given, Mapping):
        raise InputError(f"labels are names and values, as in {{'cluster': 'A'}}, not {given!r}")
    return {_name(name): _value(name, value) for name, value in given.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or set(name) & set("=,/\\\n"):
        raise InputError(f"{name!r} is no name for a label: valid is text without = , / \\ or line breaks, as in cluster")
    if name in FACTS:
        raise InputError(f"a label cannot be called '{name}': runs are selected by their {name} already; call it my_{name}, say")
    return name.strip()


def _value(name: object, value: object) -> str:
    if not isinstance(value, (str, int, float)):
        raise InputError(f"the label '{name}' must be text or a number, not {value!r}")
    text = str(value).strip()
    if "," in text or "\n" in text:
        raise InputError(f"the label '{name}' must have no comma or line break, which part one selector from the next: {text!r}")
    return text
