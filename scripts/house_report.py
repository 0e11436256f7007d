#!/usr/bin/env python3
"""How large the house is: lines, statements and files of each part, public names, names that several classes share, words of the manual.

Lines are counted after `ruff format` at 120 columns, of a copy: two trees compare whatever their style. --root names another tree.
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
COLUMNS, LONG = 120, 40
MARKDOWN = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


def formatted(root: Path, folder: Path) -> Path:
    """A copy of the package with every file formatted. Raises CalledProcessError where ruff fails."""
    copy = folder / "hotlap"
    shutil.copytree(root / "src" / "hotlap", copy, ignore=shutil.ignore_patterns("__pycache__"))
    ruff = Path(sys.executable).with_name("ruff")
    subprocess.run([str(ruff), "format", "--quiet", "--isolated", f"--line-length={COLUMNS}", str(copy)], check=True)
    return copy


def part_of(path: Path) -> str:
    return path.parts[0] if len(path.parts) > 1 else "top"


def words(root: Path) -> int:
    pages = [*(root / "docs").rglob("*.md"), *(root / name for name in MARKDOWN if name != "CHANGELOG.md")]
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def report(root: Path) -> dict[str, Any]:
    parts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    classes, public, long = collections.Counter[str](), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        copy = formatted(root, Path(folder))
        for path in sorted(copy.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
            part = parts[part_of(path.relative_to(copy))]
            part["files"] += 1
            part["lines"] += text.count("\n")
            part["statements"] += sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
            classes.update(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
            for node in tree.body:
                names = [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
                if isinstance(node, (ast.Assign, ast.AnnAssign)):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
                public += sum(not name.startswith("_") for name in names)
            long += sum(
                isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (node.end_lineno or node.lineno) - node.lineno + 1 > LONG
                for node in ast.walk(tree)
            )
    shared = {name: count for name, count in classes.items() if count > 1 and not name.startswith("_")}
    total = collections.Counter[str]()
    for part in parts.values():
        total.update(part)
    return {
        "parts": {name: dict(part) for name, part in sorted(parts.items())}, "package": dict(total), "public_names": public,
        "class_names_shared": dict(sorted(shared.items(), key=lambda pair: (-pair[1], pair[0]))), f"functions_over_{LONG}_lines": long,
        "words_of_the_manual": words(root),
    }  # fmt: skip


def text(figures: dict[str, Any]) -> str:
    lines = [f"{'part':<12} {'files':>6} {'lines':>7} {'statements':>11}   (formatted at {COLUMNS} columns)"]
    for name, part in {**figures["parts"], "package": figures["package"]}.items():
        lines.append(f"{name:<12} {part['files']:>6} {part['lines']:>7} {part['statements']:>11}")
    shared = figures["class_names_shared"]
    named = ", ".join(f"{name} ×{count}" for name, count in list(shared.items())[:12])
    lines += [
        f"public names: {figures['public_names']}",
        f"names that several public classes share: {len(shared)}{f' ({named})' if named else ''}",
        f"functions over {LONG} lines: {figures[f'functions_over_{LONG}_lines']}",
        f"words of the manual: {figures['words_of_the_manual']}",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=HERE, help="the tree (default: this one)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = report(options.root)
    print(json.dumps(found, indent=2) if options.json else text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
