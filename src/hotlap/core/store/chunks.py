"""Readings of long runs as Parquet, read: chunks that hold every reading, and levels that hold the least, mean and highest of stretches.

`compact` makes both of logs that grew. Times are kept to the microsecond; values exactly. Needs pyarrow (extra `parquet`). Everything of
Hotlap reads Parquet without Arrow's threads: their pool may abort or hang a process that ends (apache/arrow#34314, #50482).
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import SchemaError, Unavailable
from hotlap.core.record import Readings
from hotlap.core.store import files

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
OWN_TIMES = "@us"  # ends the name of a column of a sensor's own times, UNIX, in µs
WINDOWS = b"windows"  # key of a file's metadata: device → sensor → averaging window in s
OWN_COLUMNS = ("device", "round", "time_us", "failed")
MICRO = 1e6
REMEDY = "pip install pyarrow"


class ChunkSeries(NamedTuple):
    """One sensor of one device over time; readings that failed are left out."""

    times_s: Floats
    values: Floats
    rounds: Ints


class Levels(NamedTuple):
    """Stretches of up to 256 readings, one entry each, in the order of `first_s`."""

    first_s: Floats
    last_s: Floats
    low: Floats
    mean: Floats
    high: Floats
    counts: Ints
    rounds: Ints


Key = tuple[str, str]
"""Device and sensor."""


def available() -> bool:
    """Whether what reads and writes Parquet is installed."""
    try:
        return importlib.util.find_spec("pyarrow") is not None
    except ImportError:
        return False


def stored(path: Path, stem: str = "readings") -> list[Path | io.BytesIO]:
    """The chunks, or the levels, of a run's folder or a zip of it, in the order of time."""
    if path.is_dir():
        return [*sorted(path.glob(f"{stem}-*.parquet"))]
    return [io.BytesIO(data) for _, data in sorted(files.members(path, f"{stem}-*.parquet").items())]


def readings(chunk: Path | io.BytesIO) -> list[Readings]:
    """Everything in a chunk, as the log had it: one stretch for each sensor and round of a row group."""
    _, parquet = arrow()
    file = _opened(chunk, parquet)
    averaged = _windows(file)
    series: list[Readings] = []
    for number in range(file.num_row_groups):
        table = file.read_row_group(number, use_threads=False)
        odd = table.column("failed").to_pylist()
        if odd and odd[0] is not None:
            series += [msgspec.json.decode(text, type=Readings) for text in odd]
            continue
        device = table.column("device")[0].as_py()
        rounds, times = table.column("round").to_numpy(), table.column("time_us").to_numpy() / MICRO
        for field in table.schema:
            column = table.column(field.name)
            if field.name in OWN_COLUMNS or field.name.endswith(OWN_TIMES) or column.null_count == len(column):
                continue
            values, own = _values(column, field), _own_times(table, field.name)
            for one in np.unique(rounds):
                here = rounds == one
                plain = _plain(values[here])
                series.append(Readings(
                    sensor=field.name, device=device, round=int(one), times_s=times[here].tolist(), values=plain,
                    window_s=averaged.get((device, field.name)), sensor_times_s=_plain(own[here]) if own is not None else [],
                ))  # fmt: skip
    return series


def _plain(values: Floats) -> list[float | None]:
    return [None if np.isnan(v) else v for v in values.tolist()]


def _own_times(table: Any, sensor: str) -> Floats | None:
    """A sensor's own times in s, UNIX, NaN where it gave none; None where it gave none at all."""
    name = f"{sensor}{OWN_TIMES}"
    if name not in table.schema.names or table.column(name).null_count == table.num_rows:
        return None
    return _values(table.column(name), table.schema.field(name)) / MICRO


def windows(path: Path) -> dict[Key, float]:
    """Averaging window in s of every sensor that was compacted and says one; the last chunk's where they differ."""
    _, parquet = arrow()
    return {key: window_s for file in stored(path, "levels") for key, window_s in _windows(_opened(file, parquet)).items()}


def _windows(file: Any) -> dict[Key, float]:
    text = (file.schema_arrow.metadata or {}).get(WINDOWS, b"{}")
    return {(device, sensor): window_s for device, some in msgspec.json.decode(text).items() for sensor, window_s in some.items()}


def series(path: Path, device: str, sensor: str) -> ChunkSeries:
    """Every reading of one sensor that was compacted, by time; empty where there is none. What is still in the log is not in it."""
    _, parquet = arrow()
    parts: list[ChunkSeries] = []
    for chunk in stored(path):
        file = _opened(chunk, parquet)
        if sensor not in file.schema_arrow.names:
            continue
        table = file.read(columns=["device", "round", "time_us", sensor], use_threads=False)
        column = table.column(sensor)
        here = np.asarray(table.column("device").to_numpy(zero_copy_only=False) == device) & ~np.asarray(column.is_null())
        values = _values(column, table.schema.field(sensor))
        parts.append(ChunkSeries(table.column("time_us").to_numpy()[here] / MICRO, values[here], table.column("round").to_numpy()[here]))
    if not parts:
        return ChunkSeries(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64))
    times, values, rounds = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")
    return ChunkSeries(times[order], values[order], rounds[order])


def failed(path: Path) -> list[Readings]:
    """Stretches in which a sensor gave no number, as the log had them."""
    _, parquet = arrow()
    series: list[Readings] = []
    for chunk in stored(path):
        file = _opened(chunk, parquet)
        if "failed" in file.schema_arrow.names:
            texts = file.read(columns=["failed"], use_threads=False).column("failed").to_pylist()
            series += [msgspec.json.decode(text, type=Readings) for text in texts if text is not None]
    return series


def levels(path: Path) -> dict[Key, Levels]:
    """Of every sensor that was compacted."""
    pa, parquet = arrow()
    read = (_opened(file, parquet).read() for file in stored(path, "levels"))
    tables = [table for table in read if table.num_rows]  # a log in which every sensor failed has no levels, and no types
    if not tables:
        return {}
    table = pa.concat_tables(tables)
    (devices, device), (sensors, sensor) = (_coded(table.column(name)) for name in ("device", "sensor"))
    first = table.column("first_us").to_numpy()
    order = np.lexsort((first, sensor, device))
    owner = (device * len(sensors) + sensor)[order]
    columns = [table.column(name).to_numpy()[order] for name in ("first_us", "last_us", "low", "mean", "high", "count", "round")]
    edges = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
    found: dict[Key, Levels] = {}
    for begin, end in pairwise(edges):
        at, until, low, mean, high, count, rounds = (column[begin:end] for column in columns)
        key = devices[int(owner[begin]) // len(sensors)], sensors[int(owner[begin]) % len(sensors)]
        found[key] = Levels(at / MICRO, until / MICRO, low, mean, high, count, rounds)
    return found


def _coded(column: Any) -> tuple[list[str], Ints]:
    """The distinct texts of a column, and which of them each entry is."""
    found = column.combine_chunks().dictionary_encode()
    return found.dictionary.to_pylist(), found.indices.to_numpy().astype(np.int64)


def thinned(columns: Mapping[Key, Levels], averaged: Mapping[Key, float] = MappingProxyType({})) -> list[Readings]:
    """The means of the stretches as readings, at their middles: what a page draws of a long run; `averaged`: from `windows`."""
    kept = []
    for (device, sensor), level in columns.items():
        middle = (level.first_s + level.last_s) / 2
        for number in np.unique(level.rounds):
            here = level.rounds == number
            values: list[float | None] = level.mean[here].tolist()
            times, window_s = middle[here].tolist(), averaged.get((device, sensor))
            kept.append(Readings(sensor=sensor, device=device, round=int(number), times_s=times, values=values, window_s=window_s))
    return kept


def _values(column: Any, field: Any) -> Floats:
    scale = float((field.metadata or {}).get(b"scale", b"") or 1.0)
    values = column.to_numpy(zero_copy_only=False).astype(float) if column.null_count else column.to_numpy()
    return np.asarray(values, dtype=float) / scale


def _opened(file: Path | io.BytesIO, parquet: Any) -> Any:
    try:
        return parquet.ParquetFile(file)
    except Exception as error:  # pyarrow raises its own kinds for what is not Parquet
        name = file if isinstance(file, Path) else "a chunk of readings in the zip"
        raise SchemaError(f"{name}: {error}; restore it from a copy, or remove it to read the rest") from None


def arrow() -> tuple[Any, Any]:
    """pyarrow and its part for Parquet. Raises Unavailable."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Unavailable("readings of long runs are kept as Parquet, and pyarrow is not installed", REMEDY) from None
    return pyarrow, pyarrow.parquet
