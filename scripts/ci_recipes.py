"""Executes what the YAML of docs/ci.md runs, in the current folder. Usage: python scripts/ci_recipes.py [NUMBER …]; all of them by default.

`run:` of GitHub's steps and `script:` of GitLab's jobs, each line as a shell of the CI gets it. Variables of the CI are taken from the
environment. An installation is not repeated: that it is of a path, not of a name in an index, is checked. Ends with the last exit code
that is not 0.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "ci.md"


def recipes(text: str) -> list[list[str]]:
    """The scripts of each YAML block."""
    return [_scripts(block) for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def _scripts(block: str) -> list[str]:
    """This is the part of YAML that the document uses: plain and literal scalars, and the list under `script:`."""
    steps, lines = list[str](), block.splitlines()
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if match := re.match(r"\s*(?:- )?run: (.+)", line):
            steps.append(_literal(lines[number + 1 :], indent) if match[1] == "|" else match[1])
        elif line.strip() == "script:":
            steps += [match[1] for item in _within(lines[number + 1 :], indent) if (match := re.match(r"\s*- (.+)", item))]
    return steps


def _within(lines: list[str], indent: int) -> list[str]:
    rest = next((n for n, line in enumerate(lines) if line.strip() and len(line) - len(line.lstrip()) <= indent), len(lines))
    return lines[:rest]


def _literal(lines: list[str], indent: int) -> str:
    body = _within(lines, indent)
    own = min(len(line) - len(line.lstrip()) for line in body)
    return "\n".join(line[own:] for line in body)


def installed_from(script: str) -> str | None:
    """What `pip install` is given; None for another script."""
    words = shlex.split(script)
    return words[-1] if words[:2] == ["pip", "install"] else None


def execute(script: str) -> int:
    """As GitHub's and GitLab's runners do: bash that stops at the first failure."""
    print(f"$ {script}", flush=True)
    if path := installed_from(script):
        if not path.startswith("./"):
            sys.exit(f"'{script}' installs a name from an index; valid: a path, as in ./hotlap")
        return 0
    return subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], check=False).returncode


def main(argv: list[str]) -> int:
    """The last exit code that is not 0."""
    chosen = recipes(DOCUMENT.read_text(encoding="utf-8"))
    codes = [execute(script) for number, recipe in enumerate(chosen) if not argv or str(number) in argv for script in recipe]
    return next((code for code in reversed(codes) if code), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
