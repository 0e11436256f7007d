"""A bundle of serving as it is read: its requests in the order in which they were due, with the times of their chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import SchemaError
from hotlap.core.record import RunRecord
from hotlap.core.store import files, lines
from hotlap.core.store.bundle import Bundle
from hotlap.serving import compacting
from hotlap.serving.record import CHUNKS, FILE, PACKED, SESSION, TOKENS, Request, Served

Floats = NDArray[np.float64]
Content = TypeVar("Content")


class ServingRun(NamedTuple):
    """`gaps_s`, `tokens`: of each request's chunks after the first, by its index; a request without any is not in them."""

    run: RunRecord
    served: Served
    requests: list[Request]
    gaps_s: dict[int, Floats]
    tokens: dict[int, NDArray[Any]]
    torn: list[str]
    packed: bool = False  # its requests are Parquet


def read(bundle: Bundle) -> ServingRun | None:
    """None where the run was killed before it said what it is. Raises SchemaError for files that are none of serving."""
    contents = files.long(bundle.path, (SESSION, FILE, PACKED, CHUNKS, TOKENS))
    if SESSION not in contents:
        return None
    try:
        served = msgspec.json.decode(contents[SESSION], type=Served)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SchemaError(f"{bundle.path}/{SESSION}: {error}") from None
    kept = lines.read(contents.get(FILE, b""), Request, f"{bundle.path}/{FILE}")
    every = compacting.read(contents[PACKED], f"{bundle.path}/{PACKED}") if PACKED in contents else kept.records
    gaps_s, tokens = _chunks(every, contents.get(CHUNKS, b""), contents.get(TOKENS, b""))
    requests = sorted(every, key=lambda request: (request.due_s, request.index))
    return ServingRun(bundle.run, served, requests, gaps_s, tokens, [notice.text for notice in kept.notices(FILE)], PACKED in contents)


def _chunks(requests: list[Request], gaps: bytes, tokens: bytes) -> tuple[dict[int, Floats], dict[int, NDArray[Any]]]:
    """In the order of the file's lines; a run that was killed may have chunks after those of its last line."""
    every = np.frombuffer(gaps[: len(gaps) // 4 * 4], "<u4") / 1e6
    counts, place, counted = np.frombuffer(tokens, "u1"), 0, 0
    by_gaps, by_tokens = dict[int, Floats](), dict[int, NDArray[Any]]()
    for request in requests:
        size = max(request.chunks - 1, 0)
        if size and place + size <= len(every):
            by_gaps[request.index] = every[place : place + size]
            if request.counted and not request.even:
                by_tokens[request.index] = counts[counted : counted + size]
                counted += size
        place += size
    return by_gaps, by_tokens


def content(path: Path, file: str, shape: type[Content]) -> Content | None:
    """What a bundle of several benches holds in its one file; None where it is not there. Raises SchemaError."""
    data = files.long(path, (file,)).get(file)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SchemaError(f"{path}/{file}: {error}") from None
