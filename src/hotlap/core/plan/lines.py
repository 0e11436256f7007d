"""Where each key of a TOML text stands. `tomllib` gives values without positions; this gives positions without values.

Only texts that `tomllib` has accepted are scanned, so the scanner knows the grammar (https://toml.io/en/v1.0.0) but
checks nothing.
"""

from __future__ import annotations

import re
import tomllib

Path = tuple[str | int, ...]
"""Keys and places in arrays from the root: ``("case", 0, "size", "from")``."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*'")
_STRING = re.compile(r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:\'{0,2})|"(?:[^"\\]|\\.)*"|\'[^\']*\'', re.DOTALL)
_BARE = re.compile(r"[^,\]}#\n]*")


def scan(text: str) -> dict[Path, int]:
    """The line, counted from 1, of every table, key and array item of a valid TOML text."""
    return _Scanner(text).run()


def line_of(lines: dict[Path, int], path: Path) -> int | None:
    """The line of `path`, or of the nearest thing around it; None where nothing around it has a line."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.counted, self.line = 0, 1  # the line at offset `counted`: newlines are counted once
        self.lines: dict[Path, int] = {}
        self.last: dict[Path, int] = {}  # array of tables → index of its last element

    def run(self) -> dict[Path, int]:
        table: Path = ()
        self.skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)
            self.skip(_BLANK)
        return self.lines

    def header(self) -> Path:
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        names = self.key()
        self.at += 2 if many else 1
        path: Path = ()
        for name in names[:-1]:
            self.mark((*path, name))
            path = self.inside((*path, name))
        path = (*path, names[-1])
        if many:
            self.mark(path)
            self.last[path] = self.last.get(path, -1) + 1
            path = (*path, self.last[path])
        self.mark(path)
        return path

    def inside(self, path: Path) -> Path:
        return (*path, self.last[path]) if path in self.last else path

    def pair(self, table: Path) -> None:
        path = table
        start = self.at
        for name in self.key():
            path = (*path, name)
            self.mark(path, start)
        self.at += 1  # the equals sign
        self.skip(_SPACE)
        self.value(path)

    def key(self) -> list[str]:
        """A dotted key and the space around it."""
        names: list[str] = []
        while True:
            self.skip(_SPACE)
            raw = self.skip(_KEY)
            names.append(next(iter(tomllib.loads(f"{raw} = 0"))) if raw[:1] in ("'", '"') else raw)
            self.skip(_SPACE)
            if self.text[self.at : self.at + 1] != ".":
                return names
            self.at += 1

    def value(self, path: Path) -> None:
        first = self.text[self.at : self.at + 1]
        if first == "[":
            self.items(path)
        elif first == "{":
            self.pairs(path)
        else:
            self.skip(_STRING if first in ("'", '"') else _BARE)

    def items(self, path: Path) -> None:
        self.at += 1
        index = 0
        while self.skip(_BLANK) is not None and self.text[self.at] != "]":
            self.mark((*path, index))
            self.value((*path, index))
            index += 1
            self.separator()
        self.at += 1

    def pairs(self, path: Path) -> None:
        self.at += 1
        while self.skip(_BLANK) is not None and self.text[self.at] != "}":
            self.pair(path)
            self.separator()
        self.at += 1

    def separator(self) -> None:
        self.skip(_BLANK)
        if self.text[self.at] == ",":
            self.at += 1

    def skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        assert match, f"no {pattern.pattern} at offset {self.at}"
        self.at = match.end()
        return match[0]

    def mark(self, path: Path, at: int | None = None) -> None:
        """Notes the line of `path`, the first time it is seen."""
        at = self.at if at is None else at
        self.line += self.text.count("\n", self.counted, at) if at >= self.counted else -self.text.count("\n", at, self.counted)
        self.counted = at
        self.lines.setdefault(path, self.line)
