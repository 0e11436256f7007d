#!/usr/bin/env python3
"""How large files and functions are. Exit 1 past a hard limit: 500 lines a file, 60 a function, 6 parameters.

Tests are held to the length of files only: a test that reads as one story may be long.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

FILE_LINES, FILE_HABIT, FUNCTION_LINES, FUNCTION_HABIT, PARAMETERS = 500, 300, 60, 10, 6
CODE = ("src", "scripts", "benchmarks", "research")
SUFFIXES = (".py", ".c", ".js", ".css", ".html", ".sh")


@dataclass(frozen=True)
class Function:
    where: str  # file:line name
    lines: int
    parameters: int


@dataclass(frozen=True)
class File:
    path: str
    lines: int


def files(root: Path, folders: tuple[str, ...]) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file() and not any(part.endswith(".egg-info") for part in path.parts):
                yield path


def functions(root: Path, path: Path) -> Iterator[Function]:
    """Every function of a Python file; nested ones are counted by themselves and within the outer one. The parameters of a kernel for a
    device are pointers and strides: they are not counted."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            named = [a for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if a.arg not in ("self", "cls")]
            compiled = any(isinstance(one, ast.Attribute) and one.attr == "jit" for one in node.decorator_list)
            yield Function(f"{path.relative_to(root)}:{node.lineno} {node.name}", lines, 0 if compiled else len(named))


def measure(root: Path) -> tuple[list[File], list[Function]]:
    sizes = [File(str(p.relative_to(root)), p.read_text(encoding="utf-8").count("\n")) for p in files(root, (*CODE, "tests"))]
    return sizes, [f for p in files(root, CODE) if p.suffix == ".py" for f in functions(root, p)]


def breaches(sizes: list[File], functions: list[Function]) -> list[str]:
    return [
        *(f"{f.path}: {f.lines} lines, at most {FILE_LINES}: split it" for f in sizes if f.lines > FILE_LINES),
        *(f"{f.where}: {f.lines} lines, at most {FUNCTION_LINES}: split it" for f in functions if f.lines > FUNCTION_LINES),
        *(
            f"{f.where}: {f.parameters} parameters, at most {PARAMETERS}: group them in a type"
            for f in functions
            if f.parameters > PARAMETERS
        ),
    ]


def report(sizes: list[File], functions: list[Function]) -> str:
    code = [f for f in sizes if not f.path.startswith("tests")]
    tests = [f for f in sizes if f.path.startswith("tests")]
    median = statistics.median(f.lines for f in functions) if functions else 0
    longest = max((f.lines for f in functions), default=0)
    lines = [
        f"code: {len(code)} files, {sum(f.lines for f in code)} lines; tests: {len(tests)} files, {sum(f.lines for f in tests)} lines",
        f"{len(functions)} functions, median {median:g} lines (habit: {FUNCTION_HABIT}), longest {longest}",
    ]
    long = sorted((f for f in sizes if FILE_HABIT < f.lines <= FILE_LINES), key=lambda f: -f.lines)
    if long:
        lines.append(f"{len(long)} files are longer than the habit of {FILE_HABIT} lines; the longest: {long[0].path}, {long[0].lines}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--json", action="store_true", help="every file and function as JSON")
    options = parser.parse_args()
    sizes, found = measure(options.root)
    wrong = breaches(sizes, found)
    if options.json:
        print(json.dumps({"files": [asdict(f) for f in sizes], "functions": [asdict(f) for f in found], "breaches": wrong}))
    else:
        print(report(sizes, found))
        print("\n".join(wrong) if wrong else "no hard limit is broken")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
