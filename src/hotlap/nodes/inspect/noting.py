"""Facts as they are noted: a file or a piece of text becomes a value in base units, or a reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hotlap.nodes.facts import Fact, Known
from hotlap.nodes.inspect.place import FactPlace

Parse = Callable[[str], Any]


class FactNotes:
    """The facts found so far, in the order they are printed in."""

    def __init__(self, place: FactPlace) -> None:
        self.place, self.facts = place, dict[str, Fact]()

    def note(self, name: str, value: Any, source: str, unit: str = "", reason: str = "not present") -> None:
        """A value that was worked out; None is not present, for a reason."""
        if value is None or value == "":
            self.facts[name] = Fact(source=source, unit=unit, status="absent", reason=reason)
        else:
            self.facts[name] = Fact(value=value, source=source, unit=unit)

    def file(self, name: str, path: str, parse: Parse = str, unit: str = "") -> Any:
        """A file's content through `parse`; returns the value. What `parse` cannot read is an error, not a zero."""
        try:
            text = self.place.read(path).strip(" \t\n\0")
            value = parse(text) if text else None
        except FileNotFoundError:
            return self.missing(name, path, unit, "absent", "not present")
        except PermissionError:
            return self.missing(name, path, unit, "denied", "no permission")
        except OSError as error:
            return self.missing(name, path, unit, "error", error.strerror or str(error))
        except ValueError:
            return self.missing(name, path, unit, "error", f"not understood: {text[:40]}")
        self.note(name, value, path, unit, "empty")
        return value

    def missing(self, name: str, path: str, unit: str, status: Known, reason: str) -> None:
        """What could not be read, and why."""
        self.facts[name] = Fact(source=path, unit=unit, status=status, reason=reason)


def scaled(factor: float) -> Parse:
    """A number of some other unit, as in kHz."""
    return lambda text: float(text) * factor if factor < 1 or factor % 1 else int(text) * int(factor)


def chosen(text: str) -> str:
    """Of a list of choices, the one in brackets."""
    match = re.search(r"\[([^\]]+)\]", text)
    return match[1] if match else text


def listed(text: str) -> int:
    """How many processors a list such as 0-3,8 names."""
    ends = [part.partition("-") for part in text.split(",") if part]
    return sum(int(high or low) - int(low) + 1 for low, _, high in ends)


def switch(text: str) -> bool:
    """0 and 1, N and Y, as the kernel writes them."""
    return {"0": False, "1": True, "N": False, "Y": True}[text] if text in "01NY" else bool(int(text))
