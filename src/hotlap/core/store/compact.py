"""Readings of long runs as Parquet, written: a log that has grown becomes a chunk with every reading and levels of stretches.

The writer of a bundle sets a full log aside as `readings-000001.log`; `compact` makes `levels-000001.parquet` and
`readings-000001.parquet` of it. Each appears in one step, so that a crash leaves the log or all. Times are kept to the microsecond;
values exactly, as whole numbers of a power of ten where they all are such.

    python -m hotlap.core.store.compact FOLDER
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from hotlap.core.record import Readings
from hotlap.core.store import files, lines
from hotlap.core.store.chunks import MICRO, OWN_TIMES, WINDOWS, Floats, arrow

BUCKET = 256  # readings of one level
SCALES = (1.0, 10.0, 100.0, 1000.0, 1e6)


def waiting(folder: Path) -> list[Path]:
    """Logs that were set aside and not compacted yet, oldest first."""
    return sorted(log for log in folder.glob("readings-*.log") if not _levels_of(log).exists())


def _levels_of(log: Path) -> Path:
    """Written last: where it is, the log is done with."""
    return log.with_name(log.name.replace("readings", "levels")).with_suffix(".parquet")


def aside(folder: Path) -> Path:
    """The name under which the next full log is set aside."""
    numbers = [int(file.stem.partition("-")[2]) for file in folder.glob("readings-*.*") if file.stem.partition("-")[2].isdigit()]
    return folder / f"readings-{max(numbers, default=0) + 1:06d}.log"


def compact(folder: Path) -> list[Path]:
    """Turns every log that was set aside into a chunk and its levels; the chunks made. Raises SchemaError for a log that cannot be read."""
    names = []
    for log in waiting(folder):
        read = lines.read(log.read_bytes(), Readings, str(log)).records
        chunk = log.with_suffix(".parquet")
        files.write_whole(chunk, _chunk(read))
        files.write_whole(_levels_of(log), _levels(read))
        names.append(chunk)
    for log in folder.glob("readings-*.log"):
        if _levels_of(log).exists():
            log.unlink()
    return names


class _Group(NamedTuple):
    """Sensors of one device that are read together: one row a reading."""

    device: str
    sensors: tuple[str, ...]


def _chunk(read: Sequence[Readings]) -> bytes:
    """Rows of (device, round, time, a column for each sensor), one row group for each set of sensors read together."""
    pa, parquet = arrow()
    groups = _groups(read)
    names = sorted({sensor for group in groups for sensor in group.sensors})
    scales = {name: _scale([columns[name] for columns in groups.values() if name in columns]) for name in names}
    fields = [("device", pa.string()), ("round", pa.int64()), ("time_us", pa.int64()), ("failed", pa.string())]
    kinds = [
        pa.field(name, pa.int64() if scale else pa.float64(), metadata={"scale": str(scale or "")}) for name, scale in scales.items()
    ]
    schema = pa.schema([*(pa.field(*field) for field in fields), *kinds], metadata=_windows(read))
    encodings = {"round": "DELTA_BINARY_PACKED", "time_us": "DELTA_BINARY_PACKED"}
    encodings |= {name: "BYTE_STREAM_SPLIT" if scales[name] is None else "DELTA_BINARY_PACKED" for name in names}
    out = io.BytesIO()
    settings = {"compression": "zstd", "compression_level": 6, "use_dictionary": ["device", "failed"], "column_encoding": encodings}
    with parquet.ParquetWriter(out, schema, **settings) as writer:
        for group, columns in groups.items():
            writer.write_table(_rows(group, columns, schema, scales))
        kept = [one for one in read if _odd(one)]
        if kept:
            writer.write_table(_kept(kept, schema))
    return out.getvalue()


def _odd(readings: Readings) -> bool:
    """What does not fit a column of numbers: a sensor that failed or is not supported, or a reason."""
    return readings.status != "ok" or bool(readings.reason)


def _groups(read: Iterable[Readings]) -> dict[_Group, dict[str, Any]]:
    """Columns by the sensors that share their times."""
    together: dict[tuple[str, int, tuple[float, ...]], dict[str, list[float | None]]] = {}
    for one in read:
        if not _odd(one) and one.times_s:
            found = together.setdefault((one.device, one.round, tuple(one.times_s)), {})
            found[one.sensor] = one.values
            if one.sensor_times_s:
                found[f"{one.sensor}{OWN_TIMES}"] = [None if own is None else float(round(own * MICRO)) for own in one.sensor_times_s]
    groups: dict[_Group, dict[str, Any]] = {}
    for (device, number, times), sensors in together.items():
        columns = groups.setdefault(_Group(device, tuple(sorted(sensors))), {"time_us": [], "round": []})
        columns["time_us"].append(np.round(np.array(times) * MICRO).astype(np.int64))
        columns["round"].append(np.full(len(times), number))
        for name, values in sensors.items():
            columns.setdefault(name, []).append(np.array(values, dtype=float))
    return {group: {name: np.concatenate(parts) for name, parts in columns.items()} for group, columns in groups.items()}


def _windows(read: Iterable[Readings]) -> dict[bytes, bytes]:
    """The averaging window of each sensor that says one, as metadata of a file; the last stretch's where they differ."""
    found: dict[str, dict[str, float]] = {}
    for one in read:
        if one.window_s is not None:
            found.setdefault(one.device, {})[one.sensor] = one.window_s
    return {WINDOWS: msgspec.json.encode(found)} if found else {}


def _scale(columns: Sequence[Floats]) -> float | None:
    """The power of ten of which all values are whole numbers; None where there is none."""
    values = np.concatenate(columns)
    values = values[~np.isnan(values)]
    for scale in SCALES:
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.round(values * scale)
            if np.all(np.abs(whole) < 2**53) and np.all(whole / scale == values) and not np.any((values == 0) & np.signbit(values)):
                return scale
    return None


def _rows(group: _Group, columns: Mapping[str, Any], schema: Any, scales: Mapping[str, float | None]) -> Any:
    pa, _ = arrow()
    count = len(columns["time_us"])
    arrays = []
    for field in schema:
        if field.name == "device":
            arrays.append(pa.array([group.device] * count, pa.string()))
        elif field.name in ("time_us", "round"):
            arrays.append(pa.array(columns[field.name], pa.int64()))
        elif field.name not in columns:
            arrays.append(pa.nulls(count, field.type))
        else:
            values, scale = columns[field.name], scales[field.name]
            empty = np.isnan(values)
            stored = values if scale is None else np.round(np.where(empty, 0.0, values) * scale).astype(np.int64)
            arrays.append(pa.array(stored, field.type, mask=empty))
    return pa.Table.from_arrays(arrays, schema=schema)


def _kept(odd: Sequence[Readings], schema: Any) -> Any:
    pa, _ = arrow()
    texts = {"device": [one.device for one in odd], "failed": [msgspec.json.encode(one).decode() for one in odd]}
    numbers = {"round": [one.round for one in odd], "time_us": [round((one.times_s or [0.0])[0] * MICRO) for one in odd]}
    given = {**texts, **numbers}
    arrays = [pa.array(given[field.name], field.type) if field.name in given else pa.nulls(len(odd), field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _levels(read: Sequence[Readings]) -> bytes:
    """Least, mean and highest of each stretch."""
    pa, parquet = arrow()
    parts: dict[tuple[str, str, int], list[Readings]] = {}
    for one in read:
        if one.status == "ok" and one.times_s:
            parts.setdefault((one.device, one.sensor, one.round), []).append(one)
    names = ("device", "sensor", "round", "first_us", "last_us", "low", "mean", "high", "count")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for (device, sensor, number), ones in parts.items():
        times = np.concatenate([np.array(one.times_s) for one in ones])
        values = np.concatenate([np.array(one.values, dtype=float) for one in ones])
        good = np.isfinite(values)
        times, values = times[good], values[good]
        if not len(values):
            continue
        starts = np.arange(0, len(values), BUCKET)
        ends = np.minimum(starts + BUCKET, len(values))
        columns["device"] += [device] * len(starts)
        columns["sensor"] += [sensor] * len(starts)
        columns["round"] += [number] * len(starts)
        columns["first_us"] += np.round(times[starts] * MICRO).astype(np.int64).tolist()
        columns["last_us"] += np.round(times[ends - 1] * MICRO).astype(np.int64).tolist()
        columns["low"] += np.minimum.reduceat(values, starts).tolist()
        columns["high"] += np.maximum.reduceat(values, starts).tolist()
        columns["mean"] += (np.add.reduceat(values, starts) / (ends - starts)).tolist()
        columns["count"] += (ends - starts).tolist()
    out = io.BytesIO()
    parquet.write_table(pa.table(columns, metadata=_windows(read)), out, compression="zstd", use_dictionary=["device", "sensor"])
    return out.getvalue()


if __name__ == "__main__":
    compact(Path(sys.argv[1]))
