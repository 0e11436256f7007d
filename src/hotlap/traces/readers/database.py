"""SQLite databases that profilers export: opened to be read only, tables probed before they are asked, rows in blocks of columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import numpy as np

from hotlap.core.errors import InputError
from hotlap.traces.readers.filling import Numbers

MAGIC = b"SQLite format 3\0"
ROWS = 1 << 16  # of a block
FAILURES = (sqlite3.Error, ValueError, OverflowError)  # the second where a damaged name or SQLite's own message is no UTF-8
LONGEST = 1 << 24  # bytes of one value
STEPS = 200  # of SQLite's machine for each byte of the file: a plain scan takes less than ten; a database made to run for ever takes more


class Database:
    """Tables and columns of one file. Every failure of SQLite is an InputError that names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise InputError(f"'{path}' is a packed database; unpack it first")
        try:
            self.connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)
            self.connection.text_factory = lambda given: given.decode("utf-8", "replace")
            self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
            self.connection.execute("PRAGMA trusted_schema=OFF")
            self.connection.execute("PRAGMA mmap_size=0")
            self._guard()
            kept = self.connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
            self.tables = {str(name): self._columns(str(name)) for (name,) in kept}
        except FAILURES as error:
            raise self.damaged(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def _guard(self) -> None:
        """Stops statements that take out of all proportion to the size of the file."""
        left = max(self.path.stat().st_size * STEPS, 1 << 26) >> 20

        def step() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        self.connection.set_progress_handler(step, 1 << 20)

    def _columns(self, table: str) -> list[str]:
        try:
            return [str(row[1]) for row in self.connection.execute(f"PRAGMA table_info({quoted(table)})")]
        except FAILURES:  # a view of what is not there
            return []

    def damaged(self, error: Exception) -> InputError:
        """The error of a database that cannot be read, or no further."""
        why = " ".join(str(error).split())[:200] if isinstance(error, sqlite3.Error) else "it is damaged"
        return InputError(f"'{self.path}' cannot be read as a SQLite database ({why}); export it again")

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table with all these columns."""
        return table in self.tables and all(one in self.tables[table] for one in columns)

    def first(self, table: str, *columns: str) -> str | None:
        """The first of these columns that the table has."""
        return next((one for one in columns if one in self.tables.get(table, ())), None)

    def row(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row of an answer."""
        try:
            found: tuple[Any, ...] | None = self.connection.execute(statement, values).fetchone()
        except FAILURES as error:
            raise self.damaged(error) from None
        return found

    def rows(self, table: str, columns: Sequence[str], most: int = 100_000) -> list[dict[str, Any]]:
        """Rows of a small table as they are; columns that it lacks are left out."""
        there = [one for one in columns if self.has(table, one)]
        if not there:
            return []
        try:
            asked = self.connection.execute(f"SELECT {', '.join(map(quoted, there))} FROM {quoted(table)} LIMIT {most}")
            return [dict(zip(there, row, strict=True)) for row in asked]
        except FAILURES as error:
            raise self.damaged(error) from None

    def blocks(self, table: str, numbers: Sequence[str], texts: Sequence[str] = ()) -> Iterator[tuple[dict[str, Numbers], dict[str, Any]]]:
        """Rows of a large table: whole numbers as int64 columns (−1 where it has no such column or another type), texts as tuples."""
        asked = [_number(self, table, one) for one in numbers] + [_text(self, table, one) for one in texts]
        try:
            cursor = self.connection.execute(f"SELECT {', '.join(asked)} FROM {quoted(table)}")
            cursor.arraysize = ROWS
            while rows := cursor.fetchmany():
                given = list(zip(*rows, strict=True))
                yield (
                    {name: np.array(one, np.int64) for name, one in zip(numbers, given, strict=False)},
                    dict(zip(texts, given[len(numbers) :], strict=True)),
                )
        except FAILURES as error:
            raise self.damaged(error) from None


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def _number(database: Database, table: str, column: str) -> str:
    name = quoted(column)
    return f"CASE typeof({name}) WHEN 'integer' THEN {name} ELSE -1 END" if database.has(table, column) else "-1"


def _text(database: Database, table: str, column: str) -> str:
    name = quoted(column)
    return f"CASE typeof({name}) WHEN 'text' THEN {name} END" if database.has(table, column) else "NULL"
