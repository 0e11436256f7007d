"""Makes the files of a new workload, target, sensor source, trace reader or feature: see scripts/new.

A template is a file beside this one, named KIND.txt. It holds several files, each after a line `=== PATH`; «name» and
«Name» stand for the name. What is added to files that exist stands here, in `INSERTS`: a pattern, and what its match becomes.
"""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from typing import NamedTuple

TEMPLATES = Path(__file__).parent
ROOT = TEMPLATES.parents[1]
SOURCE = "src/hotlap"


class Insert(NamedTuple):
    """A line for a file that exists. `pattern` must match once; `text` may use its groups."""

    path: str
    pattern: str
    text: str


WORK, MEASURE, READERS = f"{SOURCE}/core/work/__init__.py", f"{SOURCE}/core/measure", f"{SOURCE}/traces/readers/__init__.py"
MODULES = r"([a-z_, ]+)"
LINE = '    "«name»": "say in a few words what it is",\n'
FEATURE = 'Feature(verbs={"«name»": Verb("say in a few words what it does", "hotlap.«name».cli", "hotlap «name»")})'
INSERTS = {
    "workload": (
        Insert(WORK, rf"^(from hotlap\.core\.work import ){MODULES}$", r"\1\2, «name»"),
        Insert(WORK, rf"for family in \({MODULES}\)", r"for family in (\1, «name»)"),
        Insert("docs/workloads.md", r"^(\| the machine itself \|.*) \|$", r"\1, [«name»](#«name») |"),
        Insert("docs/workloads.md", r"^## imported$", "TEXT## imported"),
    ),
    "target": (Insert(f"{MEASURE}/targets/__init__.py", r'^    "host": ', LINE + '    "host": '),),
    "sensor": (Insert(f"{MEASURE}/sensors/__init__.py", r'^    "simulated": ', LINE + '    "simulated": '),),
    "reader": (
        Insert(READERS, rf"^(from hotlap\.traces\.readers import ){MODULES}$", r"\1\2, «name»"),
        Insert(READERS, rf"\[(nsysjax{MODULES})\]", r"[\1, «name»]"),
    ),
    "feature": (
        Insert(f"{SOURCE}/features.py", r"^\}\n\nTABLE", f'    "«name»": {FEATURE},\n}}\n\nTABLE'),
        Insert(f"{SOURCE}/cli/commands.py", r'("look into": \([^)]*)\)', r'\1, "«name»")'),
        Insert("pyproject.toml", r'"(traces \| nodes \| stress[a-z_ |]*)"', r'"\1 | «name»"'),
        Insert("docs/command-line.md", r"^## hotlap completion$", "TEXT## hotlap completion"),
    ),
}
IMPORT = re.compile(r"^(from [a-z.]+ import )([a-z_, ]+)$", re.MULTILINE)


def main(words: list[str]) -> int:
    if words in (["--help"], ["-h"]):
        print(f"usage: scripts/new {'|'.join(INSERTS)} NAME")
        print("\nsensor: a source of sensors. A section of the report is two files: docs/adding-a-report-section.md.")
        return 0
    if len(words) != 2 or words[0] not in INSERTS:
        return refuse(f"usage: scripts/new {'|'.join(INSERTS)} NAME")
    kind, name = words
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        return refuse(f"'{name}' is no name of a module: lower-case letters, digits and underscores, as in my_{kind}")
    files = templates(kind, name)
    text = files.pop("TEXT", "")
    there = [path for path in files if (ROOT / path).exists() or (ROOT / path).parent.with_suffix(".py").exists()]
    if there or taken(kind, name):
        return refuse(f"a {kind} '{name}' exists: {there[0] if there else INSERTS[kind][0].path}; take another name")
    changed = insert(kind, name, text)
    for path, body in files.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(body, encoding="utf-8")
    for path, body in changed.items():
        (ROOT / path).write_text(body, encoding="utf-8")
    report(kind, [*files], [*changed])
    return 0


def refuse(reason: str) -> int:
    print(f"scripts/new: {reason}", file=sys.stderr)
    return 2


def fill(text: str, name: str) -> str:
    return text.replace("«name»", name).replace("«Name»", "".join(word.capitalize() for word in name.split("_")))


def templates(kind: str, name: str) -> dict[str, str]:
    """Path → text of each new file; TEXT is what goes into a page that exists."""
    text = fill((TEMPLATES / f"{kind}.txt").read_text(encoding="utf-8").replace("=== TEXT\n", "=== \n"), name)
    parts = re.split(r"^=== (.*)\n", text, flags=re.MULTILINE)
    return {path or "TEXT": body for path, body in zip(parts[1::2], parts[2::2], strict=True)}


def taken(kind: str, name: str) -> bool:
    """Whether a table has the name already: several workloads share a file."""
    page = re.compile(rf"^## {name}$|^## hotlap {name}\b|^    \"{name}\": ", re.MULTILINE)
    return any(page.search((ROOT / one.path).read_text(encoding="utf-8")) for one in INSERTS[kind])


def insert(kind: str, name: str, text: str) -> dict[str, str]:
    """Path → text of each file that gets a line. Raises SystemExit where the place for it is gone."""
    changed: dict[str, str] = {}
    for path, pattern, replacement in INSERTS[kind]:
        before = changed.get(path) or (ROOT / path).read_text(encoding="utf-8")
        after, count = re.subn(pattern, fill(replacement, name).replace("TEXT", text), before, flags=re.MULTILINE)
        if count != 1:
            raise SystemExit(f"scripts/new: {path} has {count} places for the line, not one: mend INSERTS in scripts/scaffold/scaffold.py")
        changed[path] = IMPORT.sub(in_order, after)
    return changed


def in_order(line: re.Match[str]) -> str:
    """An import of modules with its names in the order of ruff."""
    return line[1] + ", ".join(sorted(line[2].split(", ")))


def report(kind: str, new: list[str], changed: list[str]) -> None:
    tests = [path for path in new if path.startswith("tests/")]
    source = [path for path in new if path not in tests]
    for path in source:
        print(f"new      {path}")
    for path in changed:
        print(f"changed  {path}")
    print(f"test     {tests[0]}")
    print(f"{len(source) + len(changed)} files touched, and their test, which says what to write: make test TESTS={tests[0]} JOBS=0")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
