"""No code outside of a workload's own files knows it by name: what others ask of it is a trait (`hotlap.core.work.traits`).

What networks and operators of PyTorch are made of is said by name; even there nothing is compared with one.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import hotlap
from hotlap.core import work
from hotlap.core.work.base import Workload

SOURCE = Path(hotlap.__file__).parent
NAMES = frozenset(work.WORKLOADS)
OWN_FILES = (
    "core/work/",  # what workloads are, and of which the steps of networks and the operators of PyTorch are made
    "core/measure/workloads/",  # what prepares them
)
WORDS = frozenset({
    "atomic", "barrier", "callable", "chase", "command", "fma", "gather", "histogram", "imported", "kernel", "launch", "peer", "permute",
    "pool", "reduce", "routing", "sampling", "scan", "scatter", "sort", "stream", "sync", "topk", "transpose",
    "attention", "collective", "gemm", "moe", "transfer",  # also families of the model's coefficients
    "present",  # of a frame, and *there*
    "disk", "loopback",  # what other programs measure or need, and a code of stress, in the code before the workloads were
})  # fmt: skip
"""Names with other meanings in the code: only where they are used as a workload's name are they refused. No name is added here for a new
workload, but where the code had the word before."""
TAKES_A_NAME = frozenset({"find", "traits", "predict", "expect", "expected", "Asked", "case", "check_implementation"})


def constants() -> frozenset[str]:
    """What workloads are called in the modules that define them, as in GEMM."""
    modules = [importlib.import_module(f"hotlap.core.work.{one.name}") for one in pkgutil.iter_modules(work.__path__)]
    return frozenset(key for module in modules for key, value in vars(module).items() if isinstance(value, Workload) and key.isupper())


CONSTANTS = constants()


def terminal(node: ast.expr) -> str:
    """`workload` of ``row.case.workload``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def texts(node: ast.expr) -> Iterator[ast.Constant]:
    """A literal text, or those of a tuple, list or set."""
    for one in node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]:
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one


def used_as_names(node: ast.AST) -> Iterator[ast.Constant]:
    """Literals that this node uses as the name of a workload, whatever else the word may mean."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        if any(terminal(side) == "workload" for side in sides):
            yield from (text for side in sides for text in texts(side))
    if isinstance(node, ast.Match) and terminal(node.subject) == "workload":
        patterns = [one for case in node.cases for one in ast.walk(case.pattern) if isinstance(one, ast.MatchValue)]
        yield from (text for one in patterns for text in texts(one.value))
    if isinstance(node, ast.Call):
        named = [keyword.value for keyword in node.keywords if keyword.arg == "workload"]
        yield from (text for value in [*named, *(node.args[:1] if terminal(node.func) in TAKES_A_NAME else [])] for text in texts(value))
    table = node.keys if isinstance(node, ast.Dict) else node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else []
    members = [one for one in table if isinstance(one, ast.Constant)]
    if len(members) == len(table) and len({one.value for one in members}) > 1 and all(one.value in NAMES for one in members):
        yield from members


def compared(source: str) -> list[tuple[int, str]]:
    """Line and name of each comparison with the name of a workload."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Compare, ast.Match))]
    return sorted({(text.lineno, str(text.value)) for node in nodes for text in used_as_names(node) if text.value in NAMES})


def known_by_name(source: str) -> list[tuple[int, str]]:
    """Line and name of each place of a module that knows a workload by its name."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        found |= {(text.lineno, str(text.value)) for text in used_as_names(node) if text.value in NAMES}
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES - WORDS:
            found.add((node.lineno, node.value))
        if isinstance(node, ast.Compare):
            attributes = [side for side in [node.left, *node.comparators] if isinstance(side, ast.Attribute) and side.attr == "name"]
            found |= {(side.lineno, f"{terminal(side.value)}.name") for side in attributes if terminal(side.value) in CONSTANTS}
    return sorted(found)


@pytest.mark.slow("reads all of the source")
def test_no_workload_is_known_by_its_name_outside_of_its_own_files() -> None:
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if not path.relative_to(SOURCE).as_posix().startswith(OWN_FILES)]
    assert len(paths) > 100
    found = [f"{path.relative_to(SOURCE)}:{line}: {name}" for path in paths for line, name in known_by_name(path.read_text("utf-8"))]
    paths = sorted((SOURCE / "core" / "work").rglob("*.py"))
    found += [f"{path.relative_to(SOURCE)}:{line}: {name}" for path in paths for line, name in compared(path.read_text("utf-8"))]
    assert not found, f"ask a trait of the workload instead of its name: {'; '.join(found)}"


@pytest.mark.parametrize(
    "source",
    [
        'if case.workload == "launch": ...', 'if row.case.workload in ("stream", "gather"): ...', 'if workload not in {"gemm"}: ...',
        'match case.workload:\n    case "moe" | "sync": ...', 'find("gemm")', 'Case(workload="command")', 'predict("transfer", machine)',
        'TABLE = {"reduce": 1, "scan": 2}', 'TABLE = ("topk", "sampling")', 'SIZE = {"spmv": 4}', 'if name == "rowwise": ...',
        "if case.workload == GEMM.name: ...",
    ],
)  # fmt: skip
def test_each_way_to_know_a_name_is_found(source: str) -> None:
    assert known_by_name(source)


@pytest.mark.parametrize("source", ['Column("kernel", cells)', 'if family == "gemm": ...', "Asked(GEMM.name, sizes)", 'KINDS = ("kernel", "copy")'])
def test_other_meanings_of_a_word_are_left_alone(source: str) -> None:
    assert not known_by_name(source)


def test_words_with_other_meanings_are_workloads_all_the_same() -> None:
    assert WORDS <= NAMES
    assert {"GEMM", "STREAM", "CONV", "COMMAND"} <= CONSTANTS
