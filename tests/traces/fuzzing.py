"""Damaged traces: samples with bytes turned, cut out, doubled, values of other types put in; and what must hold for whatever comes out.

As a program, `python tests/traces/fuzzing.py MINUTES [FOLDER]` goes on for so long and keeps each input that breaks a promise.
"""

from __future__ import annotations

import gzip
import io
import random
import re
import resource
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import trace_samples as samples

from hotlap.core.errors import InputError
from hotlap.traces import opening
from hotlap.traces.timeline import Timeline

Change = tuple[int, int, int]  # what is done, where (of 2¹⁶), with what
VALUES = [
    b"null", b"true", b"-1", b"0", b"1e999", b"NaN", b"-9223372036854775808", b"18446744073709551616", b'"N/A"', b'""', b"[]", b"{}", b"[[[]]]",
    b'{"ph":1}', b"1e300", b'"\\ud800"', b"9" * 400, b"[" * 2000, b'"' + b"x" * 300 + b'"', b"-0.0", b'"0x7fffffffffffffff"',
]  # fmt: skip
CELLS = [None, "", "text", -1, 0, 2**63 - 1, -(2**63), 2**40, 1e308, float("inf"), b"\xff\xfe", "x" * 300, 1.5, "9" * 40]
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null')
OPERATIONS = 8
NAMES = [*samples.FORMATS, "kineto gz", "kineto zip", "rocprof gz", "rocpd 4", "nsys cells", "rocpd cells"]


def sample(name: str) -> tuple[str, bytes]:
    """A file's name and what it holds before anything is done to it."""
    if name == "rocpd 4":
        return "results.db", samples.rocpd(4)
    base = "rocprof" if name == "rocprof gz" else name if name in samples.FORMATS else name.partition(" ")[0]
    file, make = samples.FORMATS[base]
    return file, make()


def damaged(name: str, contents: bytes, changes: list[Change]) -> bytes:
    """The sample after the changes; of packed samples what is packed is changed by even ones, the package by odd ones."""
    if name.endswith(" cells"):
        return _cells(contents, changes)
    if not name.endswith((" gz", " zip")):
        return _changed(contents, changes)
    inner = _changed(contents, [one for one in changes if one[1] % 2 == 0])
    if name.endswith(" gz"):
        made = gzip.compress(inner, 1, mtime=0)
    else:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("trace.json", inner)
        made = file.getvalue()
    return _changed(made, [one for one in changes if one[1] % 2])


def _changed(text: bytes, changes: list[Change]) -> bytes:
    for what, where, value in changes:
        if not text:
            break
        at = where * len(text) >> 16
        size = 1 + value % 97
        if what == 0:
            text = text[:at] + bytes([text[at] ^ (1 << value % 8)]) + text[at + 1 :]
        elif what == 1:
            text = text[:at] + bytes([value % 256]) + text[at + 1 :]
        elif what == 2:
            text = text[: max(at, 1)]
        elif what == 3:
            text = text[:at] + text[at + size :]
        elif what == 4:
            text = text[:at] + text[at : at + size] * (1 + value % 5) + text[at + size :]
        elif what == 5:
            text = text[:at] + value.to_bytes(8, "little", signed=False)[: 1 + value % 8] + text[at:]
        elif what == 6 and (found := _TOKEN.search(text, at)):
            text = text[: found.start()] + VALUES[value % len(VALUES)] + text[found.end() :]
        elif what == 7:
            other = value * len(text) // 4096 % len(text)
            text = text[:at] + text[other : other + size] + text[at:]
    return text


def _cells(contents: bytes, changes: list[Change]) -> bytes:
    """A database with other values in its cells, without a column or table, or with a table of another name."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(contents)
    connection.text_factory = bytes
    for what, where, value in changes:
        tables = [
            row[0].decode() for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite%'")
        ]
        if not tables:
            break
        table = tables[where % len(tables)]
        columns = [row[1].decode() for row in connection.execute(f'PRAGMA table_info("{table}")')]
        column = columns[where // len(tables) % len(columns)]
        try:
            if what == 0:
                connection.execute(f'DROP TABLE "{table}"')
            elif what == 1:
                connection.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
            elif what == 2:
                connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "x{value % 9}"')
            elif what == 3:
                connection.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}"')
            else:
                connection.execute(f'UPDATE "{table}" SET "{column}" = ?', (CELLS[value % len(CELLS)],))
        except sqlite3.Error:
            continue
    connection.commit()
    return connection.serialize()


def check(path: Path, columns: str = "all") -> str:
    """Opens a file and checks what was promised; "read", or the message with which it was refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            trace = Timeline.open(path, columns=columns, cache=False)
        except InputError as error:
            said = str(error)
            if "\n" in said or len(said) >= 1000:
                raise AssertionError(f"not one line: {said[:300]}") from None
            return said
        assert len(trace) > 0
        assert len({len(one) for one in trace.columns.values()}) == 1
        assert (trace.duration >= 0).all(), "negative durations"
        assert (trace.kind < 12).all()
        for column, table in (("name", trace.names), ("thread", trace.threads), ("shape", trace.shapes), ("launch", trace.launches),
                              ("collective", trace.collectives), ("stack", trace.stacks)):  # fmt: skip
            if column in trace.columns:
                places = trace.columns[column]
                low = 0 if column == "name" else -1
                assert low <= places.min() <= places.max() < len(table), f"{column} points outside its table"
        assert msgspec.json.decode(msgspec.json.encode(opening._Kept(trace.head, trace.tables)), type=opening._Kept).tables.names == trace.names
        found = trace.breakdown()
        shares = [found.compute_share, found.exposed_communication_share, found.exposed_copy_share, found.idle_share]
        assert shares == [None] * 4 or (abs(sum(shares) - 1) < 1e-6 and min(shares) >= -1e-9), f"shares {shares}"  # type: ignore[type-var, arg-type]
        assert np.all(trace.end >= trace.start), "times past what 64 bits hold"
        return "read"


def peak_mib() -> float:
    """The most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(minutes: float, keep: Path) -> int:
    """Damages samples at random until the time is over; how many promises were broken."""
    random_ = random.Random(time.time_ns())
    whole = {name: sample(name) for name in NAMES}
    counts: Counter[str] = Counter()
    broken: dict[str, Path] = {}
    until, start = time.monotonic() + 60 * minutes, peak_mib()
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < until:
            name = random_.choice(NAMES)
            file, contents = whole[name]
            changes = [
                (random_.randrange(OPERATIONS), random_.randrange(1 << 16), random_.getrandbits(32)) for _ in range(random_.randint(1, 6))
            ]
            path = Path(folder) / file
            path.write_bytes(text := damaged(name, contents, changes))
            before = peak_mib()
            try:
                counts["read" if check(path, random_.choice(["all", "breakdown"])) == "read" else "refused"] += 1
                assert peak_mib() - before < 256, f"{peak_mib() - before:.0f} MiB more for {len(text)} bytes"
            except Exception as error:
                counts["broken"] += 1
                where = traceback.extract_tb(error.__traceback__)[-1]
                sign = f"{name}: {type(error).__name__}: {str(error)[:120]} ({Path(where.filename).name}:{where.lineno})"
                if sign not in broken:
                    keep.mkdir(parents=True, exist_ok=True)
                    broken[sign] = keep / f"{len(broken)}-{file}"
                    broken[sign].write_bytes(text)
                    print(f"{sign}\n  kept as {broken[sign]}", flush=True)
    print(f"{sum(counts.values())} files: {counts['read']} read, {counts['refused']} refused, {counts['broken']} broken; "
          f"peak memory {peak_mib():.0f} MiB, {start:.0f} at the start")  # fmt: skip
    return min(len(broken), 100)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "fuzzed")))
