"""Captures in a bundle: a case for each number that has a direction, a round for each capture, and the columns beside them.

The columns of a capture are Parquet with pyarrow (extra `parquet`), else NumPy's zip; both hold the same ticks.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import hotlap
from hotlap.core import units
from hotlap.core.errors import InputError, MachineError, SchemaError, Unavailable
from hotlap.core.record import IMPORTED, UNNAMED, Case, Device, Machine, Notice, Plan, RunRecord, Samples, Stop, encode
from hotlap.core.store import chunks, files, labels, lines, paths
from hotlap.core.store.bundle import Bundle
from hotlap.core.work import program
from hotlap.frames import deriving, metrics, streams
from hotlap.frames.record import FILE, MISSING, PACKED, ZIPPED, CaptureKept, Captures, FrameCapture, FramesAsked, Ints, StreamFigures

KIND = "frames"
KEPT_LOWS = ("slowest frames", "slowest time")


def bring_in(captures: Sequence[FrameCapture], asked: FramesAsked, home: Path, marks: Mapping[str, object]) -> Path:
    """Keeps captures of one scene as a run, and returns its folder; the same captures, asked alike, are the run that is there.

    Raises InputError where nothing in them fits what was asked, MachineError where it cannot be written.
    """
    judged = judge(captures, asked)
    run, samples = _run(captures, asked, judged, marks)
    folder = paths.create(paths.runs(home)) / run.id
    if folder.exists():
        return folder
    beside = folder.with_name(f".{run.id}")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        kept = [_write(beside, number, capture) for number, capture in enumerate(captures)]
        whole = Captures(asked=asked, captures=kept)
        (beside / FILE).write_bytes(msgspec.json.format(encode(whole), indent=2) + b"\n")
        (beside / files.SAMPLES).write_bytes(b"".join(lines.line(sample) for sample in samples))
        (beside / files.READINGS).write_bytes(b"")
        (beside / files.RUN).write_bytes(msgspec.json.format(encode(msgspec.structs.replace(run, kept=len(samples))), indent=2) + b"\n")
        beside.rename(folder)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise MachineError(f"the run '{folder}' cannot be written: {error.strerror}; nothing of it was kept") from None
    return folder


def refuse_twice(captures: Sequence[FrameCapture]) -> None:
    """A capture that counts twice would make the interval too narrow. Raises InputError."""
    seen: dict[bytes, str] = {}
    for capture in captures:
        content = hashlib.blake2b()
        for part in _content(capture):
            content.update(part)
        known, first = content.digest() in seen, seen.setdefault(content.digest(), capture.kept.file)
        if known:
            same = f"{first} is given twice" if first == capture.kept.file else f"{first} and {capture.kept.file} hold the same frames"
            raise InputError(f"{same}: a capture is one round, and counts once; leave it out, or record the scene again")


def judge(captures: Sequence[FrameCapture], asked: FramesAsked) -> list[StreamFigures]:
    """Raises InputError where no stream has frames to judge."""
    kept = streams.of(captures, asked)
    if not kept:
        raise InputError(_nothing_left(captures, asked))
    return [metrics.judge(stream, asked) for stream in kept]


def _nothing_left(captures: Sequence[FrameCapture], asked: FramesAsked) -> str:
    """Why no stream has frames: what was asked, beside what there is."""
    every = streams.of(captures, FramesAsked(generated=asked.generated))
    names = sorted({stream.name.process for stream in every if stream.name.process})
    named = [stream for stream in every if asked.process.casefold() in stream.name.process.casefold()]
    if not named:
        return f"no program of the captures fits --process '{asked.process}'; they hold {', '.join(names) or 'programs without a name'}"
    longest = max(float(stream.times_s.sum()) for stream in named)
    skip, lasts = units.show(asked.skip_s, "s"), units.show(longest, "s")
    return f"--skip '{skip}' leaves no two frames: the longest capture lasts {lasts}"


# ---------------------------------------------------------------- cases and rounds


def _run(
    captures: Sequence[FrameCapture], asked: FramesAsked, judged: Sequence[StreamFigures], marks: Mapping[str, object]
) -> tuple[RunRecord, list[Samples]]:
    facts = captures[0].kept.facts
    device = Device(target=IMPORTED, index=0, name=facts.get("gpu") or UNNAMED, kind="other")
    cases: dict[str, Case] = {}
    samples = []
    for figures in judged:
        for case, value in of_stream(figures):
            cases[case.id] = case
            unit = str(case.params["unit"])
            samples.append(Samples(case=case.id, device=device.key, round=figures.round, values=[value], unit=unit, method="program"))
    times = [capture.kept.time_s for capture in captures]
    moment, last = (datetime.fromtimestamp(time, UTC) for time in (min(times), max(times)))
    called = judged[0].name.process or captures[0].kept.file
    software = {capture.kept.tool: capture.kept.layout for capture in captures}
    machine = Machine(host=UNNAMED, os=facts.get("os", ""), devices=[device], software={**software, **_drivers(facts)})
    began, ended = (time.isoformat(timespec="milliseconds") for time in (moment, last))
    run = RunRecord(
        id=f"{moment:%Y%m%dT%H%M%S}-{_digest(captures, asked, marks)}", began=began, ended=ended, stops=[Stop("imported")],
        hotlap=hotlap.__version__, kind=KIND, target=IMPORTED, machine=machine, devices=[device.key],
        plan=Plan(name=called, cases=list(cases.values()), source="hotlap frames"), labels=labels.check(dict(marks)),
    )  # fmt: skip
    return run, samples


def _drivers(facts: Mapping[str, str]) -> dict[str, str]:
    return {name: facts[name] for name in ("driver", "kernel") if facts.get(name)}


def of_stream(figures: StreamFigures) -> Iterable[tuple[Case, float]]:
    """The numbers of a stream that runs are compared by: those that are known and above zero."""
    values: list[tuple[str, str, str, float | None]] = [
        ("average frame rate", "fps", "higher", figures.average_fps), ("displayed frame rate", "fps", "higher", figures.displayed_fps),
    ]  # fmt: skip
    values += [(f"frame time {name}", "s", "lower", value) for name, value in figures.percentiles_s.items()]
    values += [
        (f"{low.share * 100:g} % low by {low.definition}", "fps", "higher", low.rate)
        for low in figures.lows if low.definition in KEPT_LOWS
    ]  # fmt: skip
    if figures.animation:
        values.append(("animation error", "s", "lower", figures.animation.mean_s))
    values += [(f"energy of a frame by {used.rail}", "J", "lower", used.joules) for used in figures.energy]
    given = [f"process={figures.key}"] if figures.key else []
    for name, unit, better, value in values:
        if value is not None and value > 0:
            yield program.IMPORTED.case({"name": name, "unit": unit, "better": better, "parameters": given}), value


def _digest(captures: Sequence[FrameCapture], asked: FramesAsked, marks: Mapping[str, object]) -> str:
    content = hashlib.blake2b(encode([asked, sorted((name, str(value)) for name, value in marks.items())]))
    for capture in captures:
        for part in _content(capture):
            content.update(part)
    return content.hexdigest()[:6]


def _content(capture: FrameCapture) -> Iterable[bytes | memoryview]:
    yield encode([capture.kept.tool, capture.kept.streams, capture.kept.columns])
    for ticks in capture.ticks.values():
        yield np.ascontiguousarray(ticks).data


# ---------------------------------------------------------------- columns


def _write(folder: Path, number: int, capture: FrameCapture) -> CaptureKept:
    ticks, derived = deriving.without(capture.ticks, capture.kept.columns)
    if chunks.available():
        (folder / PACKED.format(number)).write_bytes(parquet(ticks))
    else:
        (folder / ZIPPED.format(number)).write_bytes(zipped(ticks))
    return msgspec.structs.replace(capture.kept, derived=derived)


def parquet(ticks: Mapping[str, Ints]) -> bytes:
    """Differences, packed to their bits."""
    pyarrow, packing = chunks.arrow()
    missing = {name: column == MISSING for name, column in ticks.items()}
    columns = {name: pyarrow.array(np.where(missing[name], 0, column), mask=missing[name]) for name, column in ticks.items()}
    sink = io.BytesIO()
    encoding = dict.fromkeys(ticks, "DELTA_BINARY_PACKED")
    packing.write_table(pyarrow.table(columns), sink, compression="zstd", use_dictionary=False, column_encoding=encoding)
    return sink.getvalue()


def zipped(ticks: Mapping[str, Ints]) -> bytes:
    """Differences from row to row (the first from 0, all modulo 2⁶⁴), their bytes plane by plane."""
    planes = {name: np.diff(column, prepend=np.int64(0)).view(np.uint8).reshape(-1, 8).T for name, column in ticks.items()}
    sink = io.BytesIO()
    np.savez_compressed(sink, allow_pickle=False, **planes)
    return sink.getvalue()


def read(bundle: Bundle) -> tuple[Captures, list[FrameCapture]] | None:
    """What a bundle holds; None where it has no captures. Raises SchemaError for files that are broken, Unavailable without pyarrow."""
    contents = files.long(bundle.path, (FILE, "frames-*.parquet", "frames-*.npz"))
    if FILE not in contents:
        return None
    try:
        whole = msgspec.json.decode(contents[FILE], type=Captures)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SchemaError(f"{bundle.path}/{FILE}: {error}") from None
    captures = []
    for number, kept in enumerate(whole.captures):
        packed, simple = PACKED.format(number), ZIPPED.format(number)
        name = packed if packed in contents else simple
        if name not in contents:
            raise SchemaError(f"{bundle.path}: {packed} is missing; restore it from a copy, or read the capture anew")
        captures.append(FrameCapture(kept, _unpacked(contents[name], kept, f"{bundle.path}/{name}")))
    return whole, captures


def _unpacked(data: bytes, kept: CaptureKept, place: str) -> dict[str, Ints]:
    try:
        return deriving.complete(of_parquet(data) if place.endswith("parquet") else of_zipped(data), kept.derived)
    except Unavailable:
        raise Unavailable(f"{place} is Parquet, which needs pyarrow", chunks.REMEDY) from None
    except Exception as error:  # pyarrow and NumPy raise their own kinds for what is not theirs
        raise SchemaError(f"{place}: {error}; restore it from a copy, or read the capture anew") from None


def of_parquet(data: bytes) -> dict[str, Ints]:
    arrow, packing = chunks.arrow()
    file = packing.ParquetFile(arrow.BufferReader(data))
    names = file.schema_arrow.names
    return {name: file.read(columns=[name], use_threads=False).column(0).combine_chunks().fill_null(MISSING).to_numpy() for name in names}


def of_zipped(data: bytes) -> dict[str, Ints]:
    with np.load(io.BytesIO(data), allow_pickle=False) as planes:
        return {name: np.cumsum(_whole(planes[name]), dtype=np.int64) for name in planes.files}


def _whole(planes: Any) -> Ints:
    return np.ascontiguousarray(planes.T).view(np.int64).reshape(-1)


def torn(whole: Captures) -> list[Notice]:
    return [notice for capture in whole.captures for notice in capture.notices]
