"""No code takes a sentence apart: what decides is a field with a type. Sentences are made in `show` and read by people.

Readers of what others wrote (files of profilers, outputs of tools, results of simulators) and the upgrade of old bundles may.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from hotlap.core import errors

SRC = Path(__file__).resolve().parent.parent / "src" / "hotlap"
PROSE = {"reason", "note", "notes", "notices", "text", "detail", "seen", "about", "action", "why", "stops", "warning", "warnings", "title", "variant"}
"""Fields that hold sentences for people, or notices with them."""
TAKEN_APART = {
    "startswith", "endswith", "split", "rsplit", "splitlines", "partition", "rpartition", "removeprefix", "removesuffix", "find", "rfind",
    "index", "replace", "strip", "lstrip", "rstrip", "lower", "upper", "count",
}
RECAST = {"replace", "strip", "lstrip", "rstrip", "lower", "upper", "count"}  # what a module that writes for people may do to a sentence
LISTS = {"notes", "notices", "warnings", "doubts"}  # of Notices, never of text
OURS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.HotlapError)}
PATTERNS = {"match", "search", "fullmatch", "findall", "finditer", "sub", "subn"}
READERS = {  # what they read was written by others, or by an earlier version
    "core/store/upgrade.py": "bundles of earlier versions", "nodes/inspect": "outputs of tools",
    "traces/ranks.py": "process groups as PyTorch describes them",
}


def shows(path: Path) -> bool:
    """Whether a module writes for people."""
    return "show" in path.parts or path.name.startswith("show_") or path.name in ("show.py", "told.py")


def allowed(path: Path, what: str) -> bool:
    """A module that writes for people may recast a sentence, and say nothing twice; it takes none apart."""
    place = path.relative_to(SRC)
    recast = what.startswith("in ") or any(what.endswith(f".{name}(…)") for name in RECAST)
    return (shows(place) and recast) or any(place.is_relative_to(reader) for reader in READERS)


def prose(node: ast.expr, caught: Collection[str] = ()) -> str:
    """The name of a field of prose, where the expression is one, or one of several; or the words of an error of ours that was `caught`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
        return f"str({node.args[0].id})" if isinstance(node.args[0], ast.Name) and node.args[0].id in caught else ""
    if isinstance(node, ast.Attribute) and node.attr in PROSE and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
        return node.attr
    return prose(node.value, caught) if isinstance(node, ast.Subscript) else ""


def of_ours(handler: ast.ExceptHandler) -> bool:
    """Whether it catches errors of Hotlap alone."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return all(isinstance(kind, ast.Name) and kind.id in OURS for kind in kinds)


def violations(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and what is done there to a field of prose."""
    for handler in ast.walk(tree):
        if isinstance(handler, ast.ExceptHandler) and handler.name and of_ours(handler):
            for node in ast.walk(handler):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKEN_APART - RECAST:
                    yield from ((node.lineno, f"{name}.{node.func.attr}(…)") for name in [prose(node.func.value, {handler.name})] if name)
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in LISTS:  # noqa: SIM102 (two questions)
            if ast.unparse(node.annotation) in ("list[str]", "Sequence[str]", "tuple[str, ...]"):
                yield node.lineno, f"{node.target.id}: {ast.unparse(node.annotation)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in TAKEN_APART and (name := prose(node.func.value)):
                yield node.lineno, f".{name}.{node.func.attr}(…)"
            if node.func.attr in PATTERNS | {"split"}:
                yield from ((node.lineno, f"{node.func.attr}(….{prose(one)})") for one in node.args if prose(one))
        if isinstance(node, ast.Compare):
            if isinstance(node.ops[0], ast.In | ast.NotIn) and (name := prose(node.left)):
                yield node.lineno, f"….{name} in"
            for operator, other in zip(node.ops, node.comparators, strict=True):
                if isinstance(operator, ast.In | ast.NotIn) and (name := prose(other)):
                    yield node.lineno, f"in ….{name}"
                constant = isinstance(other, ast.Constant) and isinstance(other.value, str) and other.value
                if isinstance(operator, ast.Eq | ast.NotEq) and constant and (name := prose(node.left)):
                    yield node.lineno, f"….{name} == {other.value!r}"  # type: ignore[attr-defined]


def test_no_code_takes_a_sentence_apart() -> None:
    found = [
        f"{path.relative_to(SRC)}:{line}: {what}"
        for path in sorted(SRC.rglob("*.py"))
        for line, what in violations(ast.parse(path.read_text(encoding="utf-8"))) if not allowed(path, what)
    ]
    assert not found, "make it a field with a type:\n" + "\n".join(found)


def test_every_exemption_is_needed() -> None:
    for place in READERS:
        files = [SRC / place] if place.endswith(".py") else sorted((SRC / place).rglob("*.py"))
        assert any(list(violations(ast.parse(path.read_text(encoding="utf-8")))) for path in files), f"{place} takes nothing apart: remove it"


@pytest.mark.parametrize(("code", "what"), [
    ('run.reason.startswith("the clock")', ".reason.startswith(…)"), ('"rounds" in verdict.detail', "in ….detail"),
    ('re.search("x", gap.why)', "search(….why)"), ('PATTERN.sub("#", row.note)', "sub(….note)"), ('re.split("; ", run.text)', "split(….text)"),
    ('notice.seen.partition(": ")', ".seen.partition(…)"), ('notice.action.endswith("x")', ".action.endswith(…)"),
    ('first = x.title.partition(" in ")', ".title.partition(…)"), ("notes: list[str]", "notes: list[str]"), ('row.variant.split(", ")', ".variant.split(…)"),
    ('found.reason == "too few"', "….reason == 'too few'"), ("verdict.reason in unsure.values()", "….reason in"), ('"budget" not in run.notices', "in ….notices"),
])
def test_a_planted_violation_is_found(code: str, what: str) -> None:
    assert list(violations(ast.parse(f"first = 1\n{code}"))) == [(2, what)]


def test_the_words_of_an_error_of_ours_are_a_sentence() -> None:
    caught = "try: x()\nexcept {} as error: y = str(error).removeprefix('a')"
    assert list(violations(ast.parse(caught.format("InputError")))) == [(2, "str(error).removeprefix(…)")]
    assert list(violations(ast.parse(caught.format("OSError")))) == []


@pytest.mark.parametrize("code", ['reason == ""', 'found.reason == ""', 'f"{one.reason}; {one.detail}"', 'notice.code == "drift"', "one.reason or other.reason"])
def test_what_only_carries_a_sentence_is_fine(code: str) -> None:
    assert list(violations(ast.parse(code))) == []
