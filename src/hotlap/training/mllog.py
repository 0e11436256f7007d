"""Logs of training as MLPerf writes them, `:::MLLOG {json}`, read: when a run began and ended, and what quality it had after how much.

Keys and events are those of mlperf-logging 4.1 (constants.py; compliance_checker/training_6.1.0/common.yaml). A line may have anything
before the token, as of a launcher that names the rank. Of several ranks that log the same evaluation the first counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from hotlap.core.errors import InputError
from hotlap.training.converge_record import ConvergeRun, QualityPoint

TOKEN = ":::MLLOG "
EVALUATIONS = {"eval_accuracy": "higher", "eval_error": "lower"}  # as the rules name them; --lower says otherwise
PROGRESS = ("samples_count", "epoch_num", "step_num")  # of an evaluation, the first that it has
UNITS = {"samples_count": "samples", "epoch_num": "epochs", "step_num": "steps"}
MOST_BYTES = 1 << 30
Better = Literal["", "higher", "lower"]


class QualityAsked(NamedTuple):
    """When a run has converged. `target` None: what the log says, else that its run_stop says success."""

    target: float | None = None
    better: Better = ""
    metric: str = ""  # of a log with several: metadata.metric; "": the only one, or all
    interpolate: bool = False  # between evaluations, where the target lies within


class _Events(NamedTuple):
    began_s: float | None
    stopped_s: float | None
    status: str
    facts: dict[str, Any]
    points: list[QualityPoint]
    unit: str
    better: str


def files(place: str) -> list[Path]:
    """Logs that a folder, or commas between names, give, in the order of their numbers. Raises InputError."""
    paths: list[Path] = []
    for part in filter(None, (text.strip() for text in place.split(","))):
        path = Path(part)
        if path.is_dir():
            paths += sorted((one for one in path.rglob("*") if one.is_file() and _has_token(one)), key=_numbered)
        elif path.is_file():
            paths.append(path)
        else:
            raise InputError(f"'{part}' is no log and no folder of logs; a log has lines as {TOKEN}{{…}}")
    if not paths:
        raise InputError(f"'{place}' holds no log: no file in it has a line with {TOKEN.strip()}")
    return paths


def _has_token(path: Path) -> bool:
    with path.open("rb") as file:
        return TOKEN.encode() in file.read(1 << 20)


def _numbered(path: Path) -> tuple[str, list[int], str]:
    digits = "".join(letter if letter.isdigit() else " " for letter in path.stem).split()
    return str(path.parent), [int(number) for number in digits], path.name


def read(path: Path) -> str:
    """The text of a log. Raises InputError."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path} is longer than {MOST_BYTES >> 30} GiB; keep its lines with {TOKEN.strip()}: grep :::MLLOG")
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def kept(text: str) -> str:
    """The lines of a log that are read, from the token on."""
    return "".join(f"{line[line.index(TOKEN):]}\n" for line in text.splitlines() if TOKEN in line)


def parsed(text: str, name: str, asked: QualityAsked) -> ConvergeRun:
    """Raises InputError."""
    events = _events(_entries(text, name), name, asked)
    run = ConvergeRun(
        source=name, benchmark=str(events.facts.get("submission_benchmark", "")), batch=_count(events.facts.get("global_batch_size")),
        seed=str(events.facts.get("seed", "")), unit=events.unit, better="lower" if events.better == "lower" else "higher",
        target=asked.target if asked.target is not None else _number(events.facts.get("target")), points=events.points,
        seconds=None if events.began_s is None or events.stopped_s is None else events.stopped_s - events.began_s,
    )  # fmt: skip
    return _judged(run, events, asked)


def _judged(run: ConvergeRun, events: _Events, asked: QualityAsked) -> ConvergeRun:
    """Whether and when it reached its target."""
    if events.began_s is None:
        return _lost(run, "the log has no run_start")
    if not run.points:
        return _lost(run, "the log has no evaluation with a number (eval_accuracy or eval_error)")
    if any(not math.isfinite(point.value) for point in run.points):
        at = next(point for point in run.points if not math.isfinite(point.value))
        return _lost(run, f"its quality is {at.value} after {at.progress:g} {run.unit}")
    if run.target is None:
        if events.status == "success":
            last = run.points[-1]
            return _reached(run, last.progress, run.seconds if run.seconds is not None else last.time_s)
        return _lost(run, _status(events))
    return _by_target(run, events, asked)


def _by_target(run: ConvergeRun, events: _Events, asked: QualityAsked) -> ConvergeRun:
    assert run.target is not None
    sign = -1.0 if run.better == "lower" else 1.0
    before: QualityPoint | None = None
    for point in run.points:
        if sign * point.value >= sign * run.target:
            if before is None or not asked.interpolate:
                return _reached(run, point.progress, point.time_s)
            share = (run.target - before.value) / (point.value - before.value)
            at, time_s = (a + share * (b - a) for a, b in ((before.progress, point.progress), (before.time_s, point.time_s)))
            return _reached(run, at, time_s)
        before = point
    best = max(run.points, key=lambda point: sign * point.value)
    return _lost(run, f"its best is {best.value:g}, the target {run.target:g}{'' if events.stopped_s is not None else '; the log is cut'}")


def _reached(run: ConvergeRun, progress: float, seconds: float) -> ConvergeRun:
    return replace(run, reached=True, progress=progress, seconds=seconds)


def _lost(run: ConvergeRun, why: str) -> ConvergeRun:
    return replace(run, why=why)


def _status(events: _Events) -> str:
    if events.stopped_s is None:
        return "the log is cut: it has no run_stop"
    return f"its run_stop says {events.status or 'nothing of success'}"


# ---------------------------------------------------------------- lines


def _entries(text: str, name: str) -> Iterable[tuple[int, dict[str, Any]]]:
    lines = text.splitlines()
    torn = not text.endswith("\n")
    for number, line in enumerate(lines, 1):
        place = line.rfind(TOKEN)
        if place < 0:
            continue
        try:
            entry = json.loads(line[place + len(TOKEN) :])
            if not isinstance(entry, dict) or "key" not in entry or not isinstance(entry.get("time_ms"), (int, float)):
                raise ValueError("it has no key and time_ms")
        except (ValueError, RecursionError) as error:
            if torn and number == len(lines):
                return  # cut while it was written
            raise InputError(f"{name}:{number}: no line of MLLOG: {error}") from None
        yield number, entry


def _events(entries: Iterable[tuple[int, dict[str, Any]]], name: str, asked: QualityAsked) -> _Events:
    began: float | None = None
    stopped: float | None = None
    status, unit, better, facts = "", "", "", dict[str, Any]()
    points: dict[tuple[str, float], QualityPoint] = {}
    metrics = set[str]()
    for number, entry in entries:
        key, value, time_s = str(entry["key"]), entry.get("value"), entry["time_ms"] / 1e3
        about = dict(given) if isinstance(given := entry.get("metadata"), dict) else {}
        if key == "run_start" and began is None:
            began = time_s
        elif key == "run_stop":
            stopped, status = time_s, str(about.get("status", ""))
        elif key in EVALUATIONS:
            metric = str(about.get("metric", ""))
            metrics.add(metric)
            if asked.metric and metric != asked.metric:
                continue
            quality, counted = _quality(value), next((one for one in PROGRESS if _number(about.get(one)) is not None), "")
            if quality is None or not counted:
                raise InputError(f"{name}:{number}: {key} has no number, or does not say after how much: {', '.join(PROGRESS)}")
            unit, better = unit or UNITS[counted], asked.better or str(about.get("better", "")) or EVALUATIONS[key]
            if UNITS[counted] != unit:
                raise InputError(f"{name}:{number}: {key} counts {UNITS[counted]}, and earlier {unit}")
            facts.setdefault("target", about.get("target"))
            if began is not None and time_s < began:
                raise InputError(f"{name}:{number}: {key} is before run_start")
            progress = float(about[counted])
            points.setdefault((metric, progress), QualityPoint(time_s=time_s - (began or time_s), progress=progress, value=quality))
        elif key not in facts:
            facts[key] = value
    if metrics and (asked.metric not in metrics if asked.metric else len(metrics) > 1 and asked.target is not None):
        raise InputError(f"{name} has the metrics {', '.join(sorted(metrics - {''}))}; say by --metric which of them the target is of")
    return _Events(began, stopped, status, facts, sorted(points.values(), key=lambda point: point.progress), unit, better)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) else None


def _quality(value: Any) -> float | None:
    """NaN, as Python's json writes it, is a number here: that a loss has left is an answer."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _count(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number >= 1 else None
