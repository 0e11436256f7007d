"""Bundles of older schemas, brought to today's keys when they are read. The only place that knows what older versions wrote.

Schema 1 (Hotlap 0.1 and its development) kept no kind of run; it follows from what each verb wrote into `plan` and `target`. It kept why a
run ended as a text, reasons of several devices with "; " between them, and notices of samples as `flags` with `name` and `detail`. In
`variant` it kept, beside the code that ran, how many calls share a launch, the shape of a simulated product, and why nothing was counted.
Its `seconds`, `dropped` and `steady` of samples are `values`, `warmup_samples` and `steady_state_found`; `gate` of `turns` is `min_effect`.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import asdict

from hotlap.core.record import SCHEMA, Notice, Record, Samples
from hotlap.core.store import lines


def run(raw: dict[str, Any], schema: int) -> dict[str, Any]:
    """The content of run.json in today's keys; `schema` is what it was written in."""
    if schema < 2:
        raw = {**raw, "kind": _kind(raw), "stops": _stops(raw.get("stopped"))}
    turns = raw.get("turns")
    if isinstance(turns, dict) and "gate" in turns:
        raw = {**raw, "turns": {"min_effect": turns["gate"], **turns}}
    return {**raw, "schema": SCHEMA}


def _kind(raw: dict[str, Any]) -> str:
    """Which kind of run schema 1 kept: by its plan's name, where nobody's plan can have written the same."""
    plan = raw.get("plan")
    plan = plan if isinstance(plan, dict) else {}
    name, cases = str(plan.get("name", "")), plan.get("cases") or []
    if raw.get("target") == "imported":
        return "imported"
    if not cases and name == "watch":
        return "watch"
    if not cases and name.startswith("stress-"):
        return "stress"
    if name == "capture" and not plan.get("source") and [one.get("workload") for one in cases if isinstance(one, dict)] == ["callable"]:
        return "capture"
    return "plan"


_STOPS = {  # of schema 1
    "precision reached": {"kind": "precision"}, "rounds_max": {"kind": "rounds_max"}, "budget": {"kind": "budget"},
    "no case gave a number": {"kind": "no_number"}, "no answer within the planned pairs": {"kind": "planned_pairs"},
    "interrupted": {"kind": "interrupted"}, "the time is over": {"kind": "over"}, "the time asked for is over": {"kind": "over"},
    "stopped by hand": {"kind": "by_hand"}, "the program ended": {"kind": "program_ended"}, "imported": {"kind": "imported"},
}
_ERROR, _OVER, _PROGRAM = "error: ", "the time is over: ", "the program ended with "


def _stops(text: Any) -> list[dict[str, str]]:
    """What schema 1 kept as `stopped`."""
    if not isinstance(text, str) or not text:
        return []
    if text.startswith(_ERROR):
        return [{"kind": "error", "detail": text.removeprefix(_ERROR)}]
    if text.startswith(_OVER):
        return [{"kind": "over", "state": text.removeprefix(_OVER)}]
    if text.startswith(_PROGRAM):
        return [{"kind": "program_ended", "detail": text.removeprefix(_PROGRAM)}]
    parts = text.split("; ")
    return [_STOPS[part] for part in parts] if all(part in _STOPS for part in parts) else [{"kind": "unknown", "detail": text}]


class _Flag(Record, frozen=True, kw_only=True):
    name: str
    detail: str = ""
    shares: dict[str, float] = {}


class _Samples(Samples, frozen=True, kw_only=True):
    """A line of schema 1."""

    flags: list[_Flag] = []
    seconds: list[float] | None = None
    dropped: int = 0
    steady: bool = True


_JUMPED = "the clock jumped"  # 0.1 called a round invalid whose clock varied by 10 %; its samples are as good as others


_PASSES = b" passes a launch"  # at the end of schema 1's variants, which had no field for them


_SHAPE = re.compile(r"(\w+ )?\d+(×\d+){2,}( |$)")  # of a case, a part of the variants of simulated products
_PLAIN = "plain time: "  # began schema 1's variants of simulated cases that no kernel was played for


def _code(line: _Samples) -> dict[str, str]:
    """What schema 1 said in words: the code that ran, and why nothing was counted."""
    if line.variant.startswith(_PLAIN):
        return {"code_path": "plain time", "no_counters": line.variant.removeprefix(_PLAIN)}
    parts = [part for part in line.variant.split(", ") if not _SHAPE.match(part) and not part.endswith(_PASSES.decode())]
    path = ", ".join(parts)
    return {} if line.code_path or path == line.variant else {"code_path": path}


def samples(data: bytes, name: str) -> lines.Lines[Samples]:
    """What samples.jsonl holds, in today's keys. Raises as `lines.read` does. A run that was resumed has lines of two schemas."""
    if b'"seconds":' not in data and b'"flags":' not in data:
        return lines.read(data, Samples, name)
    found = lines.read(data, _Samples, name)
    return lines.Lines([_today(one) for one in found.records], found.kept_bytes, found.torn)


def _today(line: _Samples) -> Samples:
    fields = asdict(line)
    seconds, dropped, steady = (fields.pop(name) for name in ("seconds", "dropped", "steady"))
    if seconds is not None:
        own = line.method == "program" and line.variant != "wall"  # a number of the program's, in the unit of its case
        fields |= {"values": seconds, "unit": "" if own else "s", "warmup_samples": dropped, "steady_state_found": steady}
    notices = [Notice(flag.name, flag.detail, shares=flag.shares) for flag in fields.pop("flags")]
    if line.status == "invalid" and not line.cause and line.reason.startswith(_JUMPED):
        fields |= {"status": "measured", "reason": ""}
    variant, _, passes = line.variant.removesuffix(_PASSES.decode()).rpartition(", ")
    if line.passes == 1 and variant and passes.isdigit() and line.variant.endswith(_PASSES.decode()):
        fields |= {"passes": int(passes)}
    fields |= _code(line)
    return Samples(**fields | {"notices": [*line.notices, *notices]})
