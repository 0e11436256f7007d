"""An index over the runs of a home, in sqlite3. It holds nothing that is not in a bundle, so it may be lost at any time.

All SQL is here. What others see is `Catalog` and `Entry`, so that a server's database can stand behind them. Several
processes may use one catalog at once. Where it cannot be used (no database, of a newer version, a read-only or full disk,
locked for too long) the runs are indexed in memory instead, which is slower and says why in the log.
"""

from __future__ import annotations

import logging
import math
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypedDict, TypeVar

from typing_extensions import Unpack

from hotlap.errors import HotlapError
from hotlap.record import Run
from hotlap.store import locks, paths, when
from hotlap.store.bundle import Bundle, read_run
from hotlap.store.files import RUN

VERSION = 1
VERSION_HISTORY = {1: "2026-11: runs and their marks"}
BUSY_S = 10.0

_SCHEMA = (
    "CREATE TABLE runs (folder TEXT PRIMARY KEY, id TEXT NOT NULL, began_s REAL, stamp TEXT NOT NULL)",
    "CREATE INDEX runs_began ON runs (began_s, id)",
    "CREATE TABLE marks (folder TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, name TEXT NOT NULL, value TEXT NOT NULL)",
    "CREATE INDEX marks_value ON marks (name, value, folder)",
    "CREATE INDEX marks_folder ON marks (folder)",
    f"PRAGMA user_version = {VERSION}",
)
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_log = logging.getLogger(__name__)
T = TypeVar("T")
