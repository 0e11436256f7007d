"""What features bring to core, as lines of one table that are resolved on first use. Core names no feature.

A line is "package.module:name", or "package.module" for the module itself. The table is handed over by whoever knows the features: the
command line, the Python interface, and the session to its worker processes, in their job.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from hotlap.core.errors import MachineError

Table = Mapping[str, Mapping[str, str]]  # what is brought (kinds, implementers, …) → name → line
_table: dict[str, dict[str, str]] = {}


def use(table: Table) -> None:
    """Takes this table in place of what was there."""
    _table.clear()
    _table.update({what: dict(lines) for what, lines in table.items()})


def table() -> dict[str, dict[str, str]]:
    """What is in use, for a process that is to have the same."""
    return {what: dict(lines) for what, lines in _table.items()}


def find(what: str, name: str) -> Any | None:
    """What a name of the table stands for; None where no feature brings it. Raises MachineError for a feature that does not load."""
    line = _table.get(what, {}).get(name)
    return None if line is None else resolve(line)


def each(what: str) -> Iterator[Any]:
    """All that features bring of one kind, in the order of the table."""
    for line in _table.get(what, {}).values():
        yield resolve(line)


def resolve(line: str) -> Any:
    """Imports what a line names. Raises MachineError that names the feature."""
    module, _, name = line.partition(":")
    try:
        found = importlib.import_module(module)
        return getattr(found, name) if name else found
    except (ImportError, AttributeError, SyntaxError) as error:
        feature = ".".join(module.split(".")[:2])
        raise MachineError(f"{feature} does not load ({error}); install Hotlap anew; commands of other features still work") from error
