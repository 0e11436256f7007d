"""Names: one class name has one meaning, and names that say nothing are seen by the check."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import check_names  # noqa: E402 (a script, not a package)


def seen(code: str) -> list[tuple[int, str, str]]:
    return sorted(check_names.places(ast.parse(code)))


def test_public_classes_have_names_of_their_own() -> None:
    trees = (ast.parse(path.read_text("utf-8")) for path in (ROOT / "src" / "hotlap").rglob("*.py"))
    assert check_names.shared(trees) == []
    assert check_names.shared([ast.parse("class A: pass\nclass _B: pass"), ast.parse("class A: pass\nclass _B: pass")]) == ["A"]


def test_names_that_say_nothing_are_refused() -> None:
    assert seen("def told(one, *, made=1): pass") == [(1, "function", "told"), (1, "parameter", "made"), (1, "parameter", "one")]
    assert seen("class A:\n    found: int\n    def f(self):\n        self.said = 1") == [(2, "field", "found"), (4, "attribute", "said")]


def test_a_variable_may_be_short_lived() -> None:
    assert seen("one = 1\n\n\n\n\nprint(one)") == []
    assert seen("one = 1\n\n\n\n\n\nprint(one)") == [(1, "variable", "one")]
    assert seen("a = [one for one in b]\n\n\n\n\n\n\nc = [one for one in b]") == []
    assert seen("for one in b:\n    x\n    x\n    x\n    x\n    def f(): return one") == []
    assert seen("for one in b:\n    x\n    x\n    x\n    x\n    x\n    def f(): return one") == [(1, "variable", "one")]


def test_what_others_call_something_is_not_ours() -> None:
    assert seen("from x import found\nfound.told(one=1)\nprint(x.made)") == []
