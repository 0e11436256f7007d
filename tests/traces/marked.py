"""Small traces in Chrome's format, made by hand, for tests of lint and of differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hotlap.traces.timeline import Timeline

MAIN = {"pid": 7, "tid": 7}


def marker(name: str, start: float, length: float, tid: int = 7) -> dict[str, Any]:
    return {"ph": "X", "cat": "user_annotation", "name": name, "ts": start, "dur": length, "pid": 7, "tid": tid}


def operator(name: str, start: float, length: float, tid: int = 7) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": start, "dur": length, "pid": 7, "tid": tid}


def step(number: int, start: float, length: float) -> dict[str, Any]:
    return marker(f"ProfilerStep#{number}", start, length)


def launch(kernel: str, correlation: int, call: float, start: float, length: float, stream: int = 1, device: int = 0) -> list[dict[str, Any]]:
    """A call of 2 µs, and the kernel that it launches."""
    return [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": call, "dur": 2, **MAIN, "args": {"correlation": correlation}},
        {
            "ph": "X", "cat": "kernel", "name": kernel, "ts": start, "dur": length, "pid": device, "tid": stream,
            "args": {"correlation": correlation, "device": device, "stream": stream},
        },
    ]  # fmt: skip


def half(what: str, name: str, at: float, tid: int = 7) -> dict[str, Any]:
    named = {"name": name} if name else {}
    return {"ph": what, "cat": "user_annotation", "ts": at, "pid": 7, "tid": tid, **named}


def written(path: Path, events: list[dict[str, Any]], **beside: Any) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, **beside, "traceEvents": events}), encoding="utf-8")
    return path


def opened(path: Path, events: list[dict[str, Any]], **beside: Any) -> Timeline:
    return Timeline.open(written(path, events, **beside), cache=False)


def ranked(path: Path, rank: int, events: list[dict[str, Any]]) -> Timeline:
    return opened(path, events, distributedInfo={"rank": rank, "world_size": 2})
