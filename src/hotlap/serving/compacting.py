"""Requests of a run that ended, as Parquet: a tenth of their lines. Times are whole microseconds, as in the lines. Needs pyarrow (extra
`parquet`); without it the lines stay."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec

from hotlap.core.errors import SchemaError, Unavailable
from hotlap.core.store import chunks, files, lines
from hotlap.serving.record import FILE, PACKED, Request

FEWEST = 1000  # requests: a shorter run stays lines, which every tool reads
TIMES = tuple(name for name in Request.__struct_fields__ if name.endswith("_s"))


def compact(folder: Path, fewest: int = FEWEST) -> bool:
    """Puts PACKED in place of FILE where that holds so many requests; whether it did. Raises OSError, SchemaError."""
    kept = lines.read((folder / FILE).read_bytes(), Request, f"{folder}/{FILE}")
    if len(kept.records) < fewest or kept.torn or not chunks.available():
        return False
    import pyarrow
    from pyarrow import parquet

    columns: dict[str, list[Any]] = {name: [getattr(request, name) for request in kept.records] for name in Request.__struct_fields__}
    for name in TIMES:
        columns[name] = [None if time_s is None else round(time_s * 1e6) for time_s in columns[name]]
    sink = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), sink, compression="zstd")
    files.write_whole(folder / PACKED, sink.getvalue())
    (folder / FILE).unlink()
    return True


def remedy(requests: int, packed: bool) -> list[str]:
    """A line for a run of so many requests that stays lines because a package is missing, with the remedy."""
    if requests < FEWEST or packed or chunks.available():
        return []
    return [f"files     {FILE} stays lines, ten times as large as Parquet: {chunks.REMEDY}, and the next run is packed"]


def read(data: bytes, name: str) -> list[Request]:
    """The requests of a PACKED file, in the order of its lines. Raises Unavailable without pyarrow, SchemaError for another file."""
    if not chunks.available():
        raise Unavailable(f"{name} is Parquet, which needs pyarrow", chunks.REMEDY)
    from pyarrow import ArrowException, BufferReader, parquet

    try:
        rows: list[dict[str, Any]] = parquet.read_table(BufferReader(data), use_threads=False).to_pylist()
        for row in rows:
            row.update({time: row[time] / 1e6 for time in TIMES if row.get(time) is not None})
        return [msgspec.convert(row, Request) for row in rows]
    except (ArrowException, msgspec.ValidationError, TypeError) as error:
        raise SchemaError(f"{name}: {error}; restore the file from a copy") from None
