"""The scanner finds every path that tomllib finds, on the line where it stands."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import examples
from hotlap.core.plan.lines import line_of, scan

TRICKY = '''# [not.a.table] = "in a comment"
a = "with # no comment, [no] {table} \\" = and an escape"
'b c' = 'literal \\'   # a quoted key
"d\\u0065" . "f.g" = 1979-05-27T07:32:00Z
long = """
[[case]]
looks = "like a table" \\"""
"""
short = \'\'\'
key = 1
''two quotes'' \'\'\'

[ h . i ]
list = [  # of many lines
  1,
  [ "x]", { y = [ 2, 3 ], z.w = { } } ],

  { k = "v}" },
]

[[case]]
x = 1
[[case.sub]]
y = 2
[[case.sub]]
y = 3
[case.table]
z = inf
[[case]]
x = 0x1F
[[case.sub]]
y = """""quoted"""""
'''


def paths(value: object, at: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    inner: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return {at, *(path for key, item in inner for path in paths(item, (*at, key)))}


def test_every_path_has_a_line() -> None:
    assert set(scan(TRICKY)) == paths(tomllib.loads(TRICKY)) - {()}


def test_lines_are_those_of_the_text() -> None:
    lines, text = scan(TRICKY), TRICKY.splitlines()
    for path, start in {
        ("a",): "a =", ("b c",): "'b c'", ("de", "f.g"): '"d', ("short",): "short", ("h", "i"): "[ h", ("h", "i", "list", 0): "  1,",
        ("h", "i", "list", 1, 1, "y", 1): '  [ "x]"', ("h", "i", "list", 2, "k"): '  { k', ("case", 0): "[[case]]",
        ("case", 0, "sub", 1, "y"): "y = 3", ("case", 0, "table", "z"): "z =", ("case", 1, "x"): "x = 0x1F",
        ("case", 1, "sub", 0, "y"): 'y = """',
    }.items():
        assert text[lines[path] - 1].startswith(start), path


def test_the_nearest_line_around_a_path() -> None:
    lines = scan("\n[measure]\nrounds = 6\n")
    assert line_of(lines, ("measure", "rounds", 3)) == 3
    assert line_of(lines, ("measure", "other")) == 2
    assert line_of(lines, ("other",)) is None


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[3]).glob("**/plan/builtin/*.toml")), ids=lambda path: path.stem)
def test_builtin_plans_scan_completely(path: Path) -> None:
    text = path.read_text("utf-8")
    assert set(scan(text)) == paths(tomllib.loads(text)) - {()}


KEYS = st.text("ab_-1", min_size=1, max_size=3)
SCALARS = st.one_of(
    st.integers(-99, 99).map(str), st.booleans().map(lambda b: str(b).lower()),
    st.sampled_from(['"x, y"', "'#]'", '"\\""', "1.5e3", '"""\n}"""'])
)


def inline(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    tables = st.dictionaries(KEYS, inner, max_size=2).map(lambda d: "{ " + ", ".join(f"{k} = {v}" for k, v in d.items()) + " }")
    arrays = st.lists(inner, max_size=3).map(lambda items: "[\n" + ",# c\n".join(items) + "\n]")
    return st.one_of(tables, arrays)


@pytest.mark.slow("fuzzing")
@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.booleans(), st.dictionaries(KEYS, st.recursive(SCALARS, inline, max_leaves=6), max_size=3)), max_size=4))
def test_any_document(tables: list[tuple[bool, dict[str, str]]]) -> None:
    text = ""
    for index, (many, pairs) in enumerate(tables):
        text += "[[case]]\n" if many else f"[table{index}]\n"
        text += "".join(f"{key} = {value} # end\n" for key, value in pairs.items())
    try:
        expected = paths(tomllib.loads(text)) - {()}
    except tomllib.TOMLDecodeError:  # a newline inside an inline table
        return
    assert set(scan(text)) == expected
