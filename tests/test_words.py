"""The glossary and the descriptions of keys are compared with the code, so that neither can go stale."""

from __future__ import annotations

import ast
import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.core import record
from hotlap.core.show import codes, notices
from hotlap.core.store import schema

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


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
def test_every_code_is_described_and_every_one_there_is_raised() -> None:
    known = {code for group, of_group in codes.texts().items() if group.startswith("notices") for code in of_group}
    assert known == set(codes_raised()) | set(notices.KINDS)


def test_bases_of_causes_and_ends_of_a_run_are_described() -> None:
    assert set(codes.texts()["what the cause of a gap rests on"]) == literals("Gap", "basis") - {""}
    assert set(codes.texts()["ends of a run"]) == literals("Stop", "kind")


def test_every_code_is_printed_with_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "codes"]) == 0
    rows = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()[1:] if not line.startswith(" ")]
    printed = [row[0] for row in rows if len(row) > 1]
    assert printed == [code for of_group in codes.texts().values() for code in of_group]
    assert all(row[-1] for row in rows)


def test_states_and_limits_are_in_the_glossary() -> None:
    assert section("States") == literals("Verdict", "state")
    assert section("Limits") == literals("Gap", "reference_kind")
    assert literals("Samples", "status") <= section("States")


def test_a_word_is_defined_once_in_its_section() -> None:
    for title in re.findall(r"^#+ (.+)$", GLOSSARY, re.MULTILINE):
        body = re.split(rf"^#+ {re.escape(title)}$", GLOSSARY, flags=re.MULTILINE)[1]
        words = re.findall(r"^- \*\*([^*]+)\*\*", re.split(r"^#", body, maxsplit=1, flags=re.MULTILINE)[0], re.MULTILINE)
        assert len(words) == len(set(words)), f"defined twice under '{title}'"


# ---------------------------------------------------------------- keys of a bundle


def kept(kind: type[record.Record]) -> Iterator[type[record.Record]]:
    """A record and those inside it."""
    yield kind
    for hint in typing.get_type_hints(kind).values():
        for inner in (hint, *typing.get_args(hint)):
            if isinstance(inner, type) and issubclass(inner, record.Record):
                yield from kept(inner)


KEPT = sorted({k for root in (record.RunRecord, record.Samples, record.Readings) for k in kept(root)}, key=lambda k: k.__name__)


@pytest.mark.parametrize("kind", KEPT, ids=lambda k: k.__name__)
def test_every_key_of_a_bundle_is_described(kind: type[record.Record], capsys: pytest.CaptureFixture[str]) -> None:
    assert list(schema.about("hotlap.core.store")[kind.__name__]) == list(kind.__struct_fields__)
    assert main(["schema", "bundle", kind.__name__]) == 0
    rows = [line for line in capsys.readouterr().out.partition("\nkey ")[2].splitlines()[1:] if not line.startswith(" ")]
    assert [line.split()[0] for line in rows] == [*schema.json_schema()["$defs"][kind.__name__]["properties"]]
    assert all(len(re.split(r"  +", line)) == 3 for line in rows), "a key, its type, what it holds"


def test_nothing_else_is_described() -> None:
    assert set(schema.about("hotlap.core.store")) == {k.__name__ for k in KEPT}
