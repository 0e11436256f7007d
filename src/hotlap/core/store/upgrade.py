"""Bundles of older schemas, brought to today's keys when they are read. The only place that knows what older versions wrote.

Schema 1 (Hotlap 0.1 and its development) kept no kind of run; it follows from what each verb wrote into `plan` and `target`.
"""

from __future__ import annotations

from typing import Any

from hotlap.core.record import SCHEMA


def run(raw: dict[str, Any], schema: int) -> dict[str, Any]:
    """The content of run.json in today's keys; `schema` is what it was written in."""
    if schema < 2:
        raw = {**raw, "kind": _kind(raw)}
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
