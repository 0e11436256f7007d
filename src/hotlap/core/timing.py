"""What of a sample's method changes the meaning of its time: numbers that differ in it are not compared."""

from __future__ import annotations

AGGREGATE = "aggregate-"  # and the format: method of an imported value that stands for many samples, which were not kept
TIMINGS = {
    "": "calls enqueued one by one", "graph": "a recorded graph of calls", "queued": "a call enqueued behind the flush of the caches",
    "queued-graph": "a recorded call enqueued behind the flush of the caches",
}


def timing_of(method: str) -> str:
    """What of a method changes the meaning of a time: graph (calls of a recorded graph), queued (behind other work, so that the host is
    not in it), queued-graph; "" for calls that the host enqueues one by one to an idle device, and for the wall clock."""
    return "-".join(part for part in method.split("-") if part in ("queued", "graph")) if method.startswith("event-") else ""
