"""Rows of a benchmark, one to a line of JSON as each ends: what is there is not run again, and parts that ran apart are one summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class Rows:
    """Of a file; without one they are kept nowhere. `key`: the fields that tell rows apart."""

    def __init__(self, file: str, key: Iterable[str]) -> None:
        self.path, self.key = Path(file) if file else None, tuple(key)
        self.rows: list[Row] = []
        if self.path and self.path.exists():
            whole = [line for line in self.path.read_text().splitlines(keepends=True) if line.endswith("\n")]
            self.path.write_text("".join(whole))  # a line that a kill cut short goes
            self.rows = [json.loads(line) for line in whole]

    def add(self, row: Row) -> None:
        self.rows.append(row)
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")

    def has(self, **values: Any) -> bool:
        return any(all(row.get(name) == values[name] for name in self.key) for row in self.rows)

    def of(self, **values: Any) -> list[Row]:
        return [row for row in self.rows if all(row.get(name) == value for name, value in values.items())]


def mapped(ask: Callable[[Mapping[str, Any]], Row], wanted: list[Mapping[str, Any]], jobs: int) -> Iterator[Row]:
    """Each as it ends, in so many processes."""
    if jobs < 2:
        yield from map(ask, wanted)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(ask, wanted)
