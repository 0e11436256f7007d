"""MangoHud's logs: 12 columns up to 0.6.9, 14 of 0.7, 15 of 0.8, 16 today; frame times in µs up to 0.6.8, in ms since."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np
from msgspec.structs import replace

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.frames import building, sheet
from hotlap.frames.building import Wanted
from hotlap.frames.record import Floats, FrameCapture, StreamName
from hotlap.frames.sheet import SheetHead

NAME = "MangoHud"
ORIGIN = "flightlessmango/MangoHud src/logging.cpp @021df9b (0.6.8) and @a5e7dc78; the unit changed in 25b170d4; own runs of 0.6.8"
WANTED: Mapping[str, Wanted] = {
    "frame": Wanted("ms", "frametime"), "fps": Wanted("fps", "fps"), "elapsed": Wanted("ns", "elapsed"),
    "cpu_load": Wanted("%", "cpu_load"), "cpu_power": Wanted("W", "cpu_power"), "gpu_load": Wanted("%", "gpu_load"),
    "cpu_temp": Wanted("°C", "cpu_temp"), "gpu_temp": Wanted("°C", "gpu_temp"), "gpu_clock": Wanted("MHz", "gpu_core_clock"),
    "gpu_mem_clock": Wanted("MHz", "gpu_mem_clock"), "vram": Wanted("GB", "gpu_vram_used"), "gpu_power": Wanted("W", "gpu_power"),
    "ram": Wanted("GB", "ram_used"), "swap": Wanted("GB", "swap_used"), "rss": Wanted("GB", "process_rss"),
    "cpu_clock": Wanted("MHz", "cpu_mhz"),
}  # fmt: skip
NAMED = re.compile(r"(?P<program>.+)_(?P<time>\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)\.csv(?:\.gz)?")
BOOT_MS = 100_000.0  # a first frame longer than this was counted since the machine was started
APART = 0.1  # by which the sum of frame times may differ from the time that the log says has passed
CUT, CLOCK_S = 0.01, 1e-3  # share of rows that may lie apart by more than that: where a log was cut, or a frame was long
FEW = 3


def detect(head: SheetHead) -> SheetHead | None:
    return building.heading(head, lambda names: names[:2] == ["fps", "frametime"])


def read(head: SheetHead) -> list[FrameCapture]:
    """One capture. Raises InputError: also for a log that sampled frames, of which no percentile is true."""
    wanted = building.wanted(head, WANTED)
    table = sheet.read(head, {name: place for name, (place, _) in wanted.items()}, {})
    numbers = dict(table.numbers)
    notices = [building.torn(table)] if table.torn else []
    if not len(numbers["frame"]):
        raise InputError(building.EMPTY.format(path=head.path))
    building.positive(table, numbers["frame"])
    unit = _unit(head, numbers["frame"], numbers.get("fps"))
    scale = 1e-3 if unit == "us" else 1.0
    if numbers["frame"][0] * scale > BOOT_MS:
        first = float(numbers["frame"][0]) * scale / 1000
        seen = f"the first frame has {first:.0f} s: it was counted since the machine was started, and is left out"
        notices.append(Notice("first_frame", seen))
        numbers["skipped"] = np.zeros(len(numbers["frame"]))
        numbers["skipped"][0] = 1.0
    _sampled(head, numbers, scale)
    named = NAMED.fullmatch(head.path.name)
    wanted["frame"] = (wanted["frame"][0], unit)
    kept = building.kept(head, NAME, f"{len(head.names)} columns, {'µs' if unit == 'us' else 'ms'}", wanted, numbers, _facts(head))
    if named:
        moment = datetime.strptime(named["time"], "%Y-%m-%d_%H-%M-%S").replace(tzinfo=UTC)
        kept = replace(kept, time_s=moment.timestamp(), timed_by="name")
    kept = replace(kept, streams=[StreamName(process=named["program"] if named else "")], notices=notices)
    return [building.capture(table, kept, numbers, np.zeros(len(numbers["frame"]), np.int64))]


def _unit(head: SheetHead, frames: Floats, rates: Floats | None) -> str:
    """By rate × time, never by a version: 10⁶ of µs, 1000 of ms. Raises InputError where it is neither."""
    if rates is None:
        raise InputError(f"{head.path}: no column fps, without which the unit of frametime is not known")
    known = np.isfinite(rates) & np.isfinite(frames) & (rates > 0)
    product = float(np.median((rates * frames)[known])) if known.any() else float("nan")
    for unit, wanted in (("us", 1e6), ("ms", 1e3)):
        if abs(product / wanted - 1) < 0.05:
            return unit
    raise InputError(f"{head.path}: fps × frametime is {product:.4g}; valid: 1000 (ms) or 1e6 (µs)")


def _sampled(head: SheetHead, numbers: dict[str, Floats], scale: float) -> None:
    """Raises InputError for a log whose rows are not the frames: with a log_interval some stand there several times, others not at all."""
    frames, elapsed = numbers["frame"] * scale / 1e3, numbers.get("elapsed")
    if elapsed is None or len(frames) < FEW:
        return
    back = np.flatnonzero(np.diff(elapsed) < 0)
    if len(back):
        raise InputError(f"{head.path}:{head.first_line + int(back[0]) + 1}: the time elapsed goes back; two logs in one file?")
    steps, taken = np.diff(elapsed) / 1e9, frames[1:]
    if float(np.mean(np.abs(steps - taken) > APART * taken + CLOCK_S)) <= CUT:
        return  # every row is a frame, and where rows are missing it is said
    passed, total = float(elapsed[-1] - elapsed[0]) / 1e9, float(frames[1:].sum())
    if passed > 0 and abs(total / passed - 1) > APART:
        ratio = f"its frames take {total:.3g} s of the {passed:.3g} s that passed"
        raise InputError(f"{head.path}: a sampled log: {ratio}, so its rows are not the frames; log again with log_interval=0")


def _facts(head: SheetHead) -> dict[str, str]:
    """The line of the system, where its names stand before the heading."""
    for names, values in zip(head.lines[: head.place], head.lines[1 : head.place], strict=False):
        keys = names.split(",")
        if keys[:3] == ["os", "cpu", "gpu"] and len(keys) == len(values.split(",")):
            return {key: value for key, value in zip(keys, values.split(","), strict=True) if value}
    return {}
