"""CapFrameX's records: JSON with several runs in a file, each a capture; its arrays are columns of PresentMon."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from msgspec.structs import replace

from hotlap.core.errors import InputError
from hotlap.frames import building, sheet
from hotlap.frames.building import Wanted
from hotlap.frames.record import Floats, FrameCapture, StreamName
from hotlap.frames.sheet import Sheet, SheetHead

NAME = "CapFrameX"
ORIGIN = "CXWorld/CapFrameX@3ba66ff5 CapFrameX.Data.Session (Info, Runs, CaptureData); no file of a game was seen"
WANTED: Mapping[str, Wanted] = {
    "frame": Wanted("ms", "MsBetweenPresents"), "start": Wanted("ticks", "TimeInSeconds"),
    "display": Wanted("ms", "MsBetweenDisplayChange"), "in_present": Wanted("ms", "MsInPresentAPI"),
    "until_displayed": Wanted("ms", "MsUntilDisplayed"),
    "render_complete": Wanted("ms", "MsUntilRenderComplete"), "dropped": Wanted("", "Dropped"), "pc_latency": Wanted("ms", "PcLatency"),
    "animation_error": Wanted("ms", "AnimationError"), "gpu_busy": Wanted("ms", "GpuActive"), "cpu_busy": Wanted("ms", "CpuActive"),
}  # fmt: skip
FACTS = {"GPU": "gpu", "Processor": "cpu", "OS": "os", "GPUDriverVersion": "driver", "ResolutionInfo": "resolution"}
LIMIT_CHARS = 2**30


def detect(head: SheetHead) -> SheetHead | None:
    return head if head.lines and head.lines[0].lstrip().startswith("{") else None


def read(head: SheetHead) -> list[FrameCapture]:
    """A capture for each run. Raises InputError for JSON that is no such record."""
    with sheet.opened(head.path) as text:
        try:
            document = json.loads(text.read(LIMIT_CHARS))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{head.path}: JSON that cannot be read: {error}") from None
    runs = document.get("Runs") if isinstance(document, dict) else None
    if not isinstance(runs, list) or not runs:
        raise InputError(f"{head.path}: JSON, but no record of CapFrameX: it has no list 'Runs'")
    return [_run(head, document.get("Info"), run, number) for number, run in enumerate(runs, 1)]


def _run(head: SheetHead, info: Any, run: Any, number: int) -> FrameCapture:
    place = f"{head.path}: run {number}"
    data = run.get("CaptureData") if isinstance(run, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("MsBetweenPresents"), list):
        raise InputError(f"{place}: no CaptureData with MsBetweenPresents")
    numbers: dict[str, Floats] = {}
    for name, want in WANTED.items():
        if data.get(want.names[0]):
            numbers[name] = _array(data[want.names[0]], f"{place}, {want.names[0]}")
    size = len(numbers.get("frame", ()))
    for name, values in numbers.items():
        if len(values) != size:
            raise InputError(f"{place}: {WANTED[name].names[0]} has {len(values)} values where MsBetweenPresents has {size}")
    info = info if isinstance(info, dict) else {}
    facts = {fact: str(info[name]) for name, fact in FACTS.items() if info.get(name)}
    table = Sheet(replace_path(head, number))
    wanted = {name: (0, WANTED[name].unit) for name in numbers}
    kept = building.kept(table.head, NAME, f"run {number}, {len(numbers)} arrays", wanted, numbers, facts)
    kept = replace(
        kept, streams=[StreamName(process=str(info.get("ProcessName") or ""))],
        columns={name: replace(column, theirs=WANTED[name].names[0]) for name, column in kept.columns.items()},
        ignored=sorted(set(data) - {want.names[0] for want in WANTED.values()}),
    )  # fmt: skip
    if info.get("CreationDate"):
        kept = replace(kept, time_s=_moment(info["CreationDate"], kept.time_s), timed_by="contents")
    return building.capture(table, kept, numbers, np.zeros(size, np.int64))


def replace_path(head: SheetHead, number: int) -> SheetHead:
    """So that a message names the run, and its first value as 1."""
    return SheetHead(head.path.with_name(f"{head.path.name} run {number}"), [], -1)


def _array(values: list[Any], place: str) -> Floats:
    try:
        return np.array([np.nan if value is None else float(str(value).replace(",", ".") if isinstance(value, str) else value)
                         for value in values], np.float64)
    except (TypeError, ValueError):
        bad = next(i for i, value in enumerate(values, 1) if not _is_number(value))
        raise InputError(f"{place}: value {bad} is no number") from None


def _is_number(value: Any) -> bool:
    try:
        return value is None or float(str(value).replace(",", ".") if isinstance(value, str) else value) is not None
    except (TypeError, ValueError):
        return False


def _moment(value: Any, otherwise: float) -> float:
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return otherwise
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
