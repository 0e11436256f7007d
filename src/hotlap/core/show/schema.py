"""A JSON Schema for people: a list of keys per record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hotlap.core.errors import InputError, nearest
from hotlap.core.show import layout
from hotlap.core.show.table import Cell, Column

PLAIN = {"string": "text", "boolean": "boolean", "integer": "integer", "number": "number", "null": "null"}
VALUE = ("boolean", "integer", "number", "text", "list of text")  # what a parameter can be


def keys(schema: dict[str, Any], names: Sequence[str], width: int = 100, color: bool = False) -> str:
    """Every key of these records, or of all: its type and what it holds. Raises InputError for a record that is not there."""
    records = schema["$defs"]
    for name in names:
        if name not in records:
            raise InputError(f"there is no record '{name}'; {nearest(name, records)}")
    heading = layout.painted(schema["title"], "bold", color)
    return "\n\n".join([heading, *(_record(name, records[name], width, color) for name in names or records)])


def _record(name: str, record: dict[str, Any], width: int, color: bool) -> str:
    rows = record["properties"]
    columns = [
        Column("key", [Cell(key, "bold") for key in rows]),
        Column("type", [Cell(type_of(one)) for one in rows.values()], wrap=True),
        Column("what it holds", [Cell(one["description"]) for one in rows.values()], wrap=True),
    ]
    title = layout.paragraph(layout.painted(name, "bold", color) + ": ", record.get("description", ""), width)
    return "\n".join([*title, *layout.Grid(columns, width).lines(color)])


def type_of(schema: dict[str, Any]) -> str:
    """A type in words: ``list of number or null``, ``pass or fail``."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        parts = [type_of(part) for part in schema["anyOf"]]
        return "value" if tuple(parts) == VALUE else " or ".join(parts)
    if "enum" in schema:
        return " or ".join(str(one) if one else "''" for one in schema["enum"])
    kind = schema.get("type", "")
    inner = {"array": "items", "object": "additionalProperties"}.get(kind, "")
    if inner:
        what = type_of(schema[inner]) if isinstance(schema.get(inner), dict) else ""
        return f"{'list' if kind == 'array' else 'object'}{f' of {what}' if what else ''}"
    return PLAIN.get(kind, "")
