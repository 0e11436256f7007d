"""The documents run: every console and Python block is executed, and the lists in them are compared with the code.

A block that cannot run here has its reason in a comment on the line before it: `<!-- not run: needs a GPU -->`. A command that is
shown failing has `<!-- exit: 2 -->`, a file that the reader is to save `<!-- file: caches.toml -->`, a block for which a package must be
installed `<!-- needs: torch -->`. The blocks of one document run in order, in one folder and one HOTLAP_HOME.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(p for p in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
LIMIT_S = 900  # bounds a hang, and nothing else
FENCE = re.compile(r"^```(\w*)\s*$")
MARK = re.compile(r"^<!-- (not run|exit|file|needs): (.+?) -->$")


@dataclass(frozen=True)
class Block:
    document: Path
    line: int
    language: str
    text: str
    mark: str = ""  # "not run", "exit", "file", "needs" or ""
    value: str = ""  # the reason, the exit code, the name, or the package

    @property
    def missing(self) -> str:
        """Why it cannot run here; empty where it can."""
        if self.mark == "needs" and importlib.util.find_spec(self.value) is None:
            return f"{self.value} is not installed"
        return self.value if self.mark == "not run" else ""

    @property
    def name(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks(document: Path) -> list[Block]:
    """The fenced blocks of a document, each with the mark that stands right before it."""
    found: list[Block] = []
    mark, language, start, body = ("", ""), None, 0, list[str]()
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if language is not None:
            if fence:
                found.append(Block(document, start, language, "\n".join(body) + "\n", *mark))
                mark, language, body = ("", ""), None, []
            else:
                body.append(line)
        elif fence:
            language, start = fence[1], number
        elif match := MARK.match(line.strip()):
            mark = (match[1], match[2])
        elif line.strip():
            mark = ("", "")
    return found


def commands(text: str) -> list[str]:
    """The lines after `$ `, with their continuations; all else is output."""
    found: list[str] = []
    goes_on = False
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        elif goes_on:
            found[-1] += "\n" + line.removeprefix("> ")
        else:
            continue
        goes_on = found[-1].endswith("\\")
    return found


RUNNABLE = [b for d in DOCUMENTS for b in blocks(d) if b.language in ("console", "python") or b.mark == "file"]


@functools.cache
def folder(document: Path) -> Path:
    place = Path(os.environ["HOTLAP_TEST_FOLDER"]) / "documents" / document.stem  # goes with the process
    place.mkdir(parents=True)
    return place


@functools.cache
def execute(block: Block) -> subprocess.CompletedProcess[str]:
    """Runs a block, and before it those of its document that it may build on."""
    for earlier in RUNNABLE:
        if earlier.document == block.document and earlier.line < block.line and not earlier.missing:
            execute(earlier)
    here = folder(block.document)
    environment = os.environ | {
        "HOTLAP_HOME": str(here / "home"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "NO_COLOR": "1", "COLUMNS": "100", "PYTHONPATH": str(ROOT / "src"),
    }
    if block.mark == "file":
        (here / block.value).parent.mkdir(parents=True, exist_ok=True)
        (here / block.value).write_text(block.text, encoding="utf-8")
        argv = ["test", "-s", block.value]
    elif block.language == "python":
        script = here / f"line_{block.line}.py"
        script.write_text(block.text, encoding="utf-8")
        argv = [sys.executable, str(script)]
    else:
        argv = ["bash", "-c", "set -eo pipefail\n" + "\n".join(commands(block.text))]
    return subprocess.run(argv, cwd=here, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.mark.slow("runs the documents as a reader would")
@pytest.mark.parametrize("block", RUNNABLE, ids=lambda b: b.name)
def test_block_runs(block: Block) -> None:
    if block.missing:
        pytest.skip(block.missing)
    done = execute(block)
    wanted = [int(code) for code in block.value.split(" or ")] if block.mark == "exit" else [0]
    assert done.returncode in wanted, f"{block.name}: exit {done.returncode}, not {wanted}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_console_blocks_hold_commands() -> None:
    empty = [b.name for b in RUNNABLE if b.language == "console" and not commands(b.text)]
    assert not empty, f"console blocks without a line that begins with '$ ': {empty}"


def anchors(document: Path) -> set[str]:
    """What a link behind `#` may name: headings as GitHub writes them, and anchors."""
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = (re.sub(r"[`*]|\]\([^)]*\)", "", heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings} | set(re.findall(r'<a id="([^"]+)"', text))


def test_relative_links_lead_somewhere() -> None:
    broken = []
    for document in DOCUMENTS:
        for target, place in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", document.read_text(encoding="utf-8")):
            path = document.parent / target if target else document
            if re.match(r"[a-z]+:", target):
                continue
            if not path.exists() or (place and path.suffix == ".md" and place not in anchors(path)):
                broken.append(f"{document.relative_to(ROOT)}: {target}#{place}")
    assert not broken


def test_paths_of_this_repository_are_there() -> None:
    """In backquotes: from its root, or below src/hotlap. NAME stands for a name of the reader's."""
    named = re.compile(r"`((?:src/hotlap|core|kernels|traces|cli|nodes|training|serving|benchmarks|scripts|examples)/[\w./*-]+)`")
    stray = {
        f"{page.name}: {path}" for page in DOCUMENTS for path in named.findall(page.read_text(encoding="utf-8"))
        if "NAME" not in path and not any(any(base.glob(path)) for base in (ROOT, ROOT / "src" / "hotlap"))
    }  # fmt: skip
    assert not stray


def test_blocks_are_read_with_their_marks(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    console, python = "```console\n$ a \\\n> b\nout\n$ c\n```\n", "```python\nx = 1\n```\n"
    document.write_text(f"text\n<!-- not run: needs a GPU -->\n\n{console}{python}", encoding="utf-8")
    first, second = blocks(document)
    assert (first.mark, first.value, first.line) == ("not run", "needs a GPU", 4)
    assert commands(first.text) == ["a \\\nb", "c"]
    assert (second.language, second.text, second.mark) == ("python", "x = 1\n", "")
