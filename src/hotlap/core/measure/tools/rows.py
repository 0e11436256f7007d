"""Rows of fields from a tool's output: regular expressions, tables, CSV, JSON, XML, pairs. Cut ones raise NotSupported with the place."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from hotlap.core.errors import NotSupported
from hotlap.core.measure.tools.toolfile import ToolDevice, ToolResult

Field = str | int | float | bool | None
MOST_ROWS = 100_000
CUT = "…"  # added to a field of a last line without a line break: the line may be cut
GOES_ON = re.compile(r"[.,]?\d[\d.,]*")
COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")


class ToolRow(NamedTuple):
    """Fields by name, and where they stand."""

    fields: Mapping[str, Field]
    place: str


def clean(text: str) -> str:
    """Without colour codes; a progress line that was written over itself is a line each time."""
    return COLOUR.sub("", text.removeprefix("\ufeff")).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def rows(result: ToolResult | ToolDevice, text: str) -> list[ToolRow]:
    """All rows that a result's `read` finds. Raises NotSupported."""
    kept = []
    for row in _READ[result.read](result, text):
        kept.append(row)
        if len(kept) > MOST_ROWS:
            raise NotSupported(f"the output has more than {MOST_ROWS} rows")
    return kept


def _line(text: str, position: int) -> str:
    return f"line {text.count(chr(10), 0, position) + 1}"


# ---------------------------------------------------------------- lines


def _regex(result: Any, text: str) -> Iterator[ToolRow]:
    each = getattr(result, "each", "")
    for match in re.finditer(result.match, text, re.MULTILINE):
        if not each:
            yield ToolRow(_groups(match), _line(text, match.start()))
            continue
        for index, part in enumerate(re.compile(each).finditer(text, match.start(), match.end())):
            yield ToolRow({**match.groupdict(), **_groups(part), "index": index}, _line(text, match.start()))


def _groups(match: re.Match[str]) -> dict[str, Field]:
    """Named groups; the first one is the value where none has a name."""
    named = {name: value + _rest(match, name) for name, value in match.groupdict().items() if value is not None}
    return named or ({"value": match[1]} if match.groups() else {"value": match[0]})


def _rest(match: re.Match[str], name: str) -> str:
    """What follows a value, or a number at the end of a match, and belongs to it: of 41,25 an expression for 41.25 sees 41, which is no
    number then."""
    if "\n" not in match.string[match.end(name) :]:
        return CUT
    if not match[name][-1:].isdigit():
        return ""
    last = name == "value" or match.end(name) == match.end()
    follows = GOES_ON.match(match.string, match.end(name)) if last else None
    return follows[0] if follows else ""


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; one that ends without a line break may be cut, and a number at its end is none."""
    *whole, rest = text.split("\n")
    yield from enumerate((f"{line}\n" for line in whole), 1)
    if rest:
        yield len(whole) + 1, rest


def _sections(result: ToolResult, text: str) -> Iterator[ToolRow]:
    levels: list[dict[str, Field]] = [{} for _ in result.headings]
    for number, line in _lines(text):
        for level, heading in enumerate(result.headings):
            if match := re.search(heading, line):
                levels[level:] = [dict(match.groupdict()), *({} for _ in levels[level + 1 :])]
                break
        else:
            if levels[-1] and (match := re.search(result.match, line)):
                outer: dict[str, Field] = {}
                for fields in levels:
                    outer |= fields
                yield ToolRow({**outer, **_groups(match)}, f"line {number}")


def _between(result: ToolResult, text: str) -> Iterator[tuple[int, str]]:
    """Lines between `after` and `until`, with their numbers."""
    inside = not result.after
    for number, line in _lines(text):
        if not inside:
            inside = bool(re.search(result.after, line))
        elif result.until and re.search(result.until, line):
            return
        else:
            yield number, line


def _table(result: ToolResult, text: str) -> Iterator[ToolRow]:
    for number, line in _between(result, text):
        if not re.search(result.rows, line):
            continue
        words = re.split(result.separator or r"\s+", line.strip())
        words[-1] += _cut(line)
        if len(words) != len(result.columns):
            raise NotSupported(f"line {number} has {len(words)} fields where {len(result.columns)} are expected: '{line.strip()[:80]}'")
        yield ToolRow(dict(zip(result.columns, words, strict=True)), f"line {number}")


def _cut(line: str) -> str:
    return "" if line.endswith("\n") else CUT


def _csv(result: ToolResult, text: str) -> Iterator[ToolRow]:
    names = list(result.columns)
    begun = bool(names)
    for number, line in _between(result, text):
        if not line.strip():
            if begun and names and not result.columns:
                return
            continue
        words = [word.strip() for word in next(csv.reader([line], delimiter=result.delimiter))]
        if not begun:
            if not result.header or re.search(result.header, line):
                names, begun = _distinct(words), True
            continue
        if len(words) != len(names):
            raise NotSupported(f"line {number} has {len(words)} fields where {len(names)} are expected: '{line.strip()[:80]}'")
        words[-1] += _cut(line)
        yield ToolRow(dict(zip(names, words, strict=True)), f"line {number}")


def _distinct(names: Sequence[str]) -> list[str]:
    """Columns of one name get a number from the second on: name#2."""
    count: dict[str, int] = {}
    distinct = []
    for name in names:
        count[name] = count.get(name, 0) + 1
        distinct.append(name if count[name] == 1 else f"{name}#{count[name]}")
    return distinct


def _pairs(result: ToolResult, text: str) -> Iterator[ToolRow]:
    fields: dict[str, Field] = {}
    separator = result.separator or "="
    for number, line in _between(result, text):
        parts = re.split(separator, line, maxsplit=1)
        if len(parts) != 2 or not parts[0].strip():
            continue
        key = parts[0].strip()
        if key in fields:
            raise NotSupported(f"line {number}: '{key}' stands there twice; the file holds more than one result, or was appended to")
        fields[key] = parts[1].strip() + _cut(line)
    if fields:
        yield ToolRow(fields, "its pairs")


# ---------------------------------------------------------------- JSON


def _json(result: ToolResult | ToolDevice, text: str) -> Iterator[ToolRow]:
    start = min((i for i in (text.find("{"), text.find("[")) if i >= 0), default=-1)
    if start < 0:
        raise NotSupported("it holds no JSON")
    try:
        document, end = json.JSONDecoder(parse_constant=str).raw_decode(text[start:])
    except (ValueError, RecursionError) as error:
        raise NotSupported(f"its JSON is cut or not valid: {error}") from None
    if text[start + end :].lstrip()[:1] in ("{", "["):
        raise NotSupported("a second JSON document follows the first: the file was appended to")
    yield from _below(document, [part for part in result.at.split("/") if part], {}, "")


def _jsonl(result: ToolResult, text: str) -> Iterator[ToolRow]:
    for number, line in _between(result, text):
        match = re.match(result.prefix, line) if result.prefix else None
        if result.prefix and not match:
            continue
        rest = (line[match.end() :] if match else line).strip()
        if not rest.startswith("{"):
            continue
        try:
            document = json.JSONDecoder(parse_constant=str).decode(rest)
        except (ValueError, RecursionError) as error:
            raise NotSupported(f"line {number}: its JSON is cut or not valid: {error}") from None
        for row in _below(document, [part for part in result.at.split("/") if part], {}, ""):
            yield ToolRow(row.fields, f"line {number}")


def _below(node: Any, path: Sequence[str], outer: Mapping[str, Field], place: str, keys: tuple[str, ...] = ()) -> Iterator[ToolRow]:
    """The rows at a path: an element each where the path has a star. Scalars of the levels above are fields too."""
    if not path:
        named = {f"key{number}": key for number, key in enumerate(keys, 1)} if len(keys) > 1 else {}
        key: dict[str, Field] = {"key": keys[-1]} if keys else {}
        own = dict(_flat(node, "")) if isinstance(node, (dict, list)) else {"value": node}
        yield ToolRow({**outer, **named, **key, **own}, place or "the document")
        return
    if isinstance(node, dict):
        outer = {**outer, **{name: value for name, value in node.items() if not isinstance(value, (dict, list))}}
    first, rest = path[0], path[1:]
    for name, child in _children(node):
        if first in ("*", name):
            yield from _below(child, rest, outer, f"{place}/{name}", (*keys, name) if first == "*" else keys)


def _children(node: Any) -> list[tuple[str, Any]]:
    if isinstance(node, dict):
        return list(node.items())
    return [(str(place), child) for place, child in enumerate(node)] if isinstance(node, list) else []


def _flat(node: Any, path: str) -> Iterator[tuple[str, Field]]:
    for name, child in _children(node):
        where = f"{path}/{name}" if path else name
        if isinstance(child, (dict, list)):
            yield from _flat(child, where)
        else:
            yield where, child


# ---------------------------------------------------------------- XML


def _xml(result: ToolResult | ToolDevice, text: str) -> Iterator[ToolRow]:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise NotSupported("XML with a document type or entities is not read")
    try:
        root = ElementTree.fromstring(text.strip().encode())
    except ElementTree.ParseError as error:
        raise NotSupported(f"line {error.position[0]}: its XML is cut or not valid: {error}") from None
    yield from _elements(root, [part for part in result.at.split("/") if part], {}, root.tag)


def _elements(node: ElementTree.Element, path: Sequence[str], outer: Mapping[str, Field], place: str) -> Iterator[ToolRow]:
    if not path:
        own: dict[str, Field] = {"tag": node.tag, "text": (node.text or "").strip()}
        yield ToolRow({**outer, **dict(_texts(node, "")), **own, **node.attrib}, place)
        return
    outer = {**outer, **node.attrib}
    for number, child in enumerate(node, 1):
        if path[0] in ("*", child.tag):
            yield from _elements(child, path[1:], outer, f"{place}/{child.tag} {number}")


def _texts(node: ElementTree.Element, path: str) -> Iterator[tuple[str, Field]]:
    for child in node:
        where = f"{path}/{child.tag}" if path else child.tag
        yield where, (child.text or "").strip()
        yield from ((f"{where}/@{name}", value) for name, value in child.attrib.items())
        yield from _texts(child, where)


_READ: Mapping[str, Callable[[Any, str], Iterator[ToolRow]]] = {
    "regex": _regex, "sections": _sections, "table": _table, "csv": _csv, "json": _json, "jsonl": _jsonl, "xml": _xml, "pairs": _pairs,
    "": _regex,
}
