"""nvbench --json: a state per combination of axes and device; single samples only with --jsonbin, in a file beside it."""

from __future__ import annotations

import math
import struct
from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRound, ReadRun, Source, has, number, objects, written

NAME = "nvbench"
BRINGS = (
    "GPU time (cold): samples of --jsonbin, else the mean with its number of samples and noise; rates and all other numbers as metrics; "
    "axes as parameters, a run per device; skipped states as not run"
)
ORIGIN = "NVIDIA/nvbench at 5e7adc5c3f3906a61ff7795dc64a590fc817a4b7: python/scripts/test_ref.json (a Quadro GV100 and a GP100)"
MEANS = ("nv/cold/time/gpu/mean", "Average GPU Time (Cold)")
SAMPLES = "nv/json/bin:nv/cold/sample_times"
METRICS = {  # tag or early name → ours; others keep their tag
    "nv/cold/sample_size": "samples", "Number of Trials (Cold)": "samples", "nv/cold/time/gpu/stdev/relative": "noise",
    "nv/cold/bw/global/bytes_per_second": "bytes_per_second", "nv/cold/bw/item_rate": "items_per_second",
}


def detect(source: Source) -> bool:
    document = source.json
    benchmarks = document["benchmarks"] if has(document, "devices", "benchmarks") else None
    return isinstance(benchmarks, list) and bool(benchmarks) and all(has(item, "name", "states") for item in benchmarks)


def read(source: Source) -> list[ReadRun]:
    devices = {device.get("id"): str(device.get("name", "")) for device in objects(source.json["devices"], f"{source.path}: devices")}
    cases: dict[Any, list[ReadCase]] = {}
    for benchmark in source.json["benchmarks"]:
        for state in objects(benchmark["states"] or [], f"{source.path}: {benchmark['name']}, states"):
            cases.setdefault(state.get("device"), []).append(_case(str(benchmark["name"]), state, source))
    return [
        ReadRun(kept, source.modified_s, device=devices.get(device, ""), index=device if isinstance(device, int) else 0)
        for device, kept in cases.items()
    ]


def _case(name: str, state: Fields, source: Source) -> ReadCase:
    place = f"{source.path}: {name} {state.get('description') or state.get('name') or ''}".strip()
    axes = _values(state.get("axis_values"))
    given = tuple(f"{axis}={written(value)}" for axis, value in axes.items())
    if state.get("is_skipped"):
        return ReadCase(name, "s", [ReadRound([], str(state.get("skip_reason") or "skipped"))], given, "lower", place)
    return ReadCase(name, "s", [_round(_summaries(state), source, place)], given, "lower", place)


def _summaries(state: Fields) -> dict[str, dict[str, Any]]:
    """By tag: a list with tags, or in early versions an object by name."""
    summaries = state.get("summaries") or []
    if isinstance(summaries, dict):
        return {tag: _values(summary.get("values")) for tag, summary in summaries.items()}
    return {str(summary.get("tag") or summary.get("name")): _values(summary.get("data") or summary.get("values")) for summary in summaries}


def _values(rows: Any) -> dict[str, Any]:
    return {str(row.get("name")): row.get("value") for row in rows or [] if isinstance(row, dict)}


def _round(summaries: dict[str, dict[str, Any]], source: Source, place: str) -> ReadRound:
    """Seconds: every sample where they were kept (float32), else the mean; and every other number of the state."""
    metrics = {METRICS.get(tag, tag): float(values["value"]) for tag, values in summaries.items() if tag not in MEANS and _number(values)}
    if (kept := summaries.get(SAMPLES)) and (file := _beside(source, str(kept.get("filename", "")))):
        count = len(file.data) // 4
        if len(file.data) % 4 or count != int(number(kept.get("size"), f"{place}, size of {file.path.name}")):
            raise InputError(f"{place}: {file.path} holds {len(file.data)} bytes, not 4 for each of {kept.get('size')} samples")
        return ReadRound([number(value, f"{file.path}") for value in struct.unpack(f"<{count}f", file.data)], metrics=metrics)
    for tag in MEANS:
        if tag in summaries:
            return ReadRound([number(summaries[tag].get("value"), f"{place}, {tag}")], metrics=metrics, aggregate=True)
    raise InputError(f"{place}: no mean GPU time ({MEANS[0]}); other measurements of nvbench are not read")


def _number(values: dict[str, Any]) -> bool:
    """Whether a summary is one finite number; others are texts and the names of files."""
    try:
        return math.isfinite(float(values.get("value", "")))
    except (TypeError, ValueError):
        return False


def _beside(source: Source, name: str) -> Source | None:
    parts = name.replace("\\", "/").split("/")
    return None if not name or name.startswith("/") or ".." in parts else source.beside(*parts)
