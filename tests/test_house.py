"""The house: core names no feature, the table of features is true, and a result only goes down the road."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType

import pytest

import hotlap
from hotlap.cli import commands
from hotlap.core import extend
from hotlap.core import plan as plans
from hotlap.core.analysis import rows
from hotlap.core.measure import session
from hotlap.core.record import Gap, Limit, Plan, Result, Row, Summary, Verdict
from hotlap.core.show import text
from hotlap.core.show.sections import SECTIONS
from hotlap.core.show.sections.base import ReportSection
from hotlap.core.store import bundle as bundles
from hotlap.core.store.bundle import Bundle
from hotlap.features import FEATURES, TABLE

SOURCE = Path(hotlap.__file__).parent
CORE = SOURCE / "core"
KNOWS_OLD_BUNDLES = {"store/upgrade.py"}  # the kinds that schema 1 wrote without saying so


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and value of each string that is neither a docstring nor the name of an attribute."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.body[0].value) for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body and isinstance(node.body[0], ast.Expr)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            docs.add(id(node.args[1]))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def names_of_features(path: Path) -> list[str]:
    """Where a file names a feature: its modules, its commands, or a kind of run that it brings."""
    commands_of = {name.partition(" ")[0] for feature in FEATURES.values() for name in (*feature.nouns, *feature.verbs)} - {"plan"}
    named = re.compile(rf"\bhotlap\.({'|'.join(FEATURES)})\b|\bhotlap ({'|'.join(commands_of)})\b|^({'|'.join(TABLE['kinds'])})$")
    return [f"{path.name}:{line} {text[:60]!r}" for line, text in strings(path) if named.search(text)]


def test_no_string_in_core_names_a_feature() -> None:
    files = [path for path in sorted(CORE.rglob("*.py")) if str(path.relative_to(CORE)) not in KNOWS_OLD_BUNDLES]
    assert len(files) > 200
    assert [found for path in files for found in names_of_features(path)] == []


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text('"""hotlap.kernels in a docstring is fine."""\nA = "stress"\nB = f"see hotlap.traces.show for {A}"\nC = "a stress test"\n')
    assert [found.partition(" ")[0] for found in names_of_features(planted)] == ["planted.py:2", "planted.py:3"]


@pytest.mark.parametrize("line", [line for lines in TABLE.values() for line in lines.values()])
def test_a_line_of_the_table_resolves(line: str) -> None:
    assert extend.resolve(line) is not None


@pytest.mark.parametrize("name", commands.VERBS)
def test_a_verb_has_its_module_in_its_feature(name: str) -> None:
    verb = commands.VERBS[name]
    owner = next((feature for feature, brought in FEATURES.items() if name in brought.verbs), None)
    assert verb.module.startswith(f"hotlap.{owner}." if owner else "hotlap.cli.")
    module = extend.resolve(verb.module)
    assert callable(module.add)
    assert callable(module.run)


@pytest.mark.parametrize("kind", TABLE["kinds"])
def test_a_kind_shows_its_runs(kind: str) -> None:
    shown = extend.resolve(TABLE["kinds"][kind])
    for name in ("read", "text", "document", "measured", "lead", "notices"):
        assert callable(getattr(shown, name)), name
    assert isinstance(shown.CASES, bool)
    assert shown.CASES or "{run}" in shown.NO_CASES
    assert isinstance(shown.METHOD, str)
    assert shown.UNFINISHED.startswith("not finished")


@pytest.mark.parametrize("name", TABLE["sections"])
def test_a_section_of_a_feature_stands_where_it_says(name: str) -> None:
    section = extend.resolve(TABLE["sections"][name])
    assert isinstance(section, ReportSection)
    assert section.after in ("", *(own.name for own in SECTIONS))


def test_the_python_interface_has_the_features_too() -> None:
    code = "import hotlap; hotlap.run; from hotlap.core import extend; from hotlap.features import TABLE; assert extend.table() == TABLE and TABLE"
    subprocess.run([sys.executable, "-c", code], check=True)


ROAD = {  # what is handed over, and by which module, in the order of a result's life
    Plan: "core.plan.read", Bundle: "core.store.bundle", Result: "core.store.fold", Summary: "core.stats.summary", Limit: "core.model.limits",
    Gap: "core.model.gap",
    Verdict: "core.analysis.state", Row: "core.analysis.rows", str: "core.show.text",
}  # fmt: skip


class Road:
    """Which module first hands over each type of result, in the order of time."""

    def __init__(self, wanted: Mapping[type, str]) -> None:
        self.wanted, self.first = wanted, dict[type, str]()

    def __enter__(self) -> Road:
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, returned: object) -> None:
        kind = type(returned)
        if event != "return" or kind not in self.wanted or kind in self.first:
            return
        module = frame.f_globals.get("__name__", "").removeprefix("hotlap.")
        if kind is not str or module.startswith(self.wanted[str]):
            self.first[kind] = module


@pytest.mark.slow("measures a case under a profiler")
def test_a_result_walks_down_the_road_and_never_back(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.write_text('[measure]\nrounds = 1\nrounds_max = 1\n[[case]]\nworkload = "stream"\nsize = "64 MiB"\n')
    road = Road(ROAD)
    with road:
        plan = plans.load(str(file))
    path = session.run(plan, session.SessionOptions(target="simulated:h200-sxm", home=tmp_path), lambda *_: None)
    with road:
        bundle = bundles.load(path)
        printed = text.table(rows.rows(bundle), 100, False, bundle.run.id)
    assert "stream" in printed
    assert list(road.first.items()) == list(ROAD.items())


def test_every_folder_beside_core_is_a_feature() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").is_file()}
    assert folders == {"core", "cli", *FEATURES}
