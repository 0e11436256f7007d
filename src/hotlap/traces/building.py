"""Columns while they are read: blocks in memory or appended to files, tables that give each text its place once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

import numpy as np

from hotlap.traces.events import COLUMNS, Collective, Column, KernelLaunch, LaunchShape, Tables, Thread

MISSING = -1


class EventPlaces(dict[Any, int]):
    """Gives every new key the next place; looking one up costs one step in C."""

    def __missing__(self, key: Any) -> int:
        self[key] = place = len(self)
        return place


class Builder:
    """Takes blocks of events and ends as columns and tables. With a folder, columns are appended to files there and never held whole."""

    def __init__(self, columns: tuple[str, ...] = tuple(COLUMNS), folder: Path | None = None) -> None:
        self.columns, self.folder = columns, folder
        self.names, self.threads, self.shapes = EventPlaces(), EventPlaces(), EventPlaces()
        self.launches, self.collectives, self.stacks = EventPlaces(), EventPlaces(), EventPlaces()
        self.thread_names: dict[tuple[str, str], str] = {}
        self.notices: dict[tuple[str, str], int] = {}
        self.doubts: dict[tuple[str, str], int] = {}  # field and what it affects → events
        self.count = 0
        self.blocks: dict[str, list[Column]] = {name: [] for name in columns}
        self.files: dict[str, IO[bytes]] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self.files = {name: (folder / f"{name}.bin").open("wb") for name in columns}

    def add(self, **columns: Column | int) -> None:
        """A block: equally long arrays; a column that is a number or left out (−1) is the same for all of the block."""
        count = len(columns["start"])  # type: ignore[arg-type]
        for name in self.columns:
            given = columns.get(name, MISSING)
            block = np.full(count, given, COLUMNS[name]) if isinstance(given, int) else np.asarray(given).astype(COLUMNS[name], copy=False)
            if len(block) != count:
                raise ValueError(f"column {name} has {len(block)} values where start has {count}")
            if self.files:
                block.tofile(self.files[name])
            else:
                self.blocks[name].append(block)
        self.count += count

    def notice(self, code: str, seen: str, count: int = 1) -> None:
        """Something that could not be read as it stands."""
        if count:
            self.notices[code, seen] = self.notices.get((code, seen), 0) + count

    def tables(self) -> Tables:
        """The texts in order of their places."""
        threads = [Thread(str(p), str(t), self.thread_names.get((str(p), str(t)), "")) for p, t in self.threads]
        return Tables(
            list(map(str, self.names)), threads, [LaunchShape(*map(_text, one)) for one in self.shapes],
            [_launch(one) for one in self.launches],
            [Collective(*one) for one in self.collectives], [_text(stack) for stack in self.stacks],
        )  # fmt: skip

    def arrays(self) -> dict[str, Column]:
        """All columns, whole or mapped from their files."""
        if self.files:
            for file in self.files.values():
                file.close()
            assert self.folder is not None
            return {name: mapped(self.folder / f"{name}.bin", name) for name in self.columns}
        return {name: np.concatenate(blocks) if blocks else np.empty(0, COLUMNS[name]) for name, blocks in self.blocks.items()}


def mapped(file: Path, column: str) -> Column:
    """A column in a file, read where it is touched."""
    if not file.stat().st_size:  # an empty file cannot be mapped
        return np.empty(0, COLUMNS[column])
    return np.memmap(file, dtype=COLUMNS[column], mode="r")


def readable(text: str) -> str:
    """Text without the halves of characters that JSON can name but UTF-8 cannot write."""
    return text.encode("utf-8", "replace").decode()


def _text(given: str | bytes) -> str:
    """Text as it is; raw JSON as text, a string without its quotes."""
    if isinstance(given, str):
        return readable(given)
    if given[:1] == b'"':
        try:
            return readable(str(json.loads(given)))
        except ValueError:
            pass
    return given.decode("utf-8", "replace")


def _launch(given: tuple[Any, ...]) -> KernelLaunch:
    """A launch whose grid and block may be raw JSON."""
    grid, block, registers, shared, occupancy = given
    return KernelLaunch(_triple(grid), _triple(block), registers, shared, occupancy)


def _triple(given: Any) -> tuple[int, int, int]:
    if isinstance(given, bytes):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = ()
    numbers = [int(one) for one in given if isinstance(one, int | float) and abs(one) < 2**62] if isinstance(given, list | tuple) else []
    return (*numbers, 1, 1, 1)[:3] if numbers else (0, 0, 0)  # type: ignore[return-value]
