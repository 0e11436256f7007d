"""The glossary and the description of the bundle are held against the code, so that neither can go stale."""

from __future__ import annotations

import ast
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotlap.core import record
from hotlap.core.show import notices

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
BUNDLE = (ROOT / "docs" / "bundle.md").read_text(encoding="utf-8")


def section(title: str) -> set[str]:
    """The words defined under a heading of the glossary."""
    body = re.split(rf"^#+ {re.escape(title)}.*$", GLOSSARY, flags=re.MULTILINE)[1]
    table = re.split(r"^#", body, maxsplit=1, flags=re.MULTILINE)[0]
    return set(re.findall(r"^- \*\*([^*]+)\*\*", table, re.MULTILINE))


def literals(name: str, field: str) -> set[str]:
    return set(typing.get_args(typing.get_type_hints(getattr(record, name))[field]))


def codes_raised() -> Iterator[str]:
    """Every code that the source gives to a Notice."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and {getattr(node.func, "id", ""), getattr(node.func, "attr", "")} & {"Notice", "notice"}:
                given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "code")]
                yield from (str(one.value) for one in given if isinstance(one, ast.Constant))


@pytest.mark.slow("reads all of the source")
def test_every_code_is_in_the_glossary_and_every_one_there_is_raised() -> None:
    known = section("Notices of a number") | section("Notices of statistics") | section("Notices of a record") | section("Notices of a trace") | section("Notices of a limit")
    assert known == set(codes_raised()) | set(notices.KINDS)


def test_bases_of_causes_are_in_the_glossary() -> None:
    body = GLOSSARY.partition("### Bases of causes")[2].partition("\n### ")[0]
    assert set(re.findall(r"\*\*(\w+)\*\*", body)) == literals("Gap", "basis") - {""}


def test_ends_of_a_run_are_in_the_glossary() -> None:
    assert section("Ends of a run") == literals("Stop", "kind")


def test_states_and_limits_are_in_the_glossary() -> None:
    assert section("States") == literals("Verdict", "state")
    assert section("Limits") == literals("Gap", "against")
    assert literals("Samples", "status") <= section("States")


def test_a_word_is_defined_once_in_its_section() -> None:
    for title in re.findall(r"^#+ (.+)$", GLOSSARY, re.MULTILINE):
        body = re.split(rf"^#+ {re.escape(title)}$", GLOSSARY, flags=re.MULTILINE)[1]
        words = re.findall(r"^- \*\*([^*]+)\*\*", re.split(r"^#", body, maxsplit=1, flags=re.MULTILINE)[0], re.MULTILINE)
        assert len(words) == len(set(words)), f"defined twice under '{title}'"


# ---------------------------------------------------------------- docs/bundle.md

PLAIN = {str: "text", bool: "boolean", int: "integer", float: "number", types.NoneType: "null", typing.Any: "any"}


def words(hint: typing.Any) -> str:
    """A type as docs/bundle.md writes it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if origin is typing.Literal:
        return "one of " + ", ".join(f"`{a}`" for a in arguments)
    if origin is list:
        return f"list of {words(arguments[0])}"
    if origin is dict:
        return f"object of {words(arguments[1])}"
    if hint == record.Value:
        return "value"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(words(a) for a in arguments)
    return str(hint.__name__)


def kept(kind: type[record.Record]) -> Iterator[type[record.Record]]:
    """A record and those inside it."""
    yield kind
    for hint in typing.get_type_hints(kind).values():
        for inner in (hint, *typing.get_args(hint)):
            if isinstance(inner, type) and issubclass(inner, record.Record):
                yield from kept(inner)


KEPT = sorted({k for root in (record.Run, record.Samples, record.Readings) for k in kept(root)}, key=lambda k: k.__name__)


@pytest.mark.parametrize("kind", KEPT, ids=lambda k: k.__name__)
def test_bundle_document_has_every_key(kind: type[record.Record]) -> None:
    parts = re.split(rf"^### {kind.__name__}$", BUNDLE, flags=re.MULTILINE)
    assert len(parts) == 2, f"docs/bundle.md needs a section '### {kind.__name__}'"
    table = re.split(r"^#", parts[1], maxsplit=1, flags=re.MULTILINE)[0]
    rows = {name: (kind_, about) for name, kind_, about in re.findall(r"^- `(\w+)` \((.+?)\): (.+)$", table, re.MULTILINE)}
    hints = typing.get_type_hints(kind)
    assert {name: kind_ for name, (kind_, _) in rows.items()} == {f: words(hints[f]) for f in kind.__struct_fields__}


def test_bundle_document_has_nothing_more() -> None:
    assert set(re.findall(r"^### (\w+)$", BUNDLE, re.MULTILINE)) == {k.__name__ for k in KEPT}
    assert set(re.findall(r"^## (\S+)$", BUNDLE, re.MULTILINE)) == {"run.json", "samples.jsonl", "readings.log"}
