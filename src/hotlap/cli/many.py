"""hotlap run on many simulated machines: what was kept, in a few lines; a report is made when it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hotlap.cli import terminal
from hotlap.cli.progress import Progress
from hotlap.core.measure import session, simulated_nodes
from hotlap.core.record import Plan
from hotlap.core.show import words
from hotlap.core.store import bundle as bundles


def run(plan: Plan, nodes: Sequence[session.SessionOptions], progress: Progress, as_json: int) -> int:
    """Measures all nodes and says which selector names their runs; exit code 3 when a node failed or gave no number."""
    measured = simulated_nodes.run(plan, nodes, lambda done: progress.nodes(done, len(nodes)))
    progress.end()
    for failure in measured.failures[:3]:
        print(f"hotlap: {failure}", file=sys.stderr)
    if len(measured.failures) > 3:
        print(f"hotlap: {len(measured.failures) - 3} more nodes failed", file=sys.stderr)
    records = [bundles.read_run(path) for path in measured.paths]
    empty = sum(any(stop.kind == "no_number" for stop in one.stops) for one in records)
    if as_json:
        terminal.answer(as_json, {"selector": measured.selector, "runs": [one.id for one in records], "failures": measured.failures})
    else:
        devices = len(records[0].devices) if records else 0
        each = f"{words.counted(devices, 'device')} each, {words.counted(len(plan.cases), 'case')}"
        print(f"{len(records)} of {len(nodes)} nodes measured: {each}")
        print(f"list    hotlap list {measured.selector}")
        print(f"next    hotlap gate {measured.selector} --against fleet")
    return 3 if measured.failures or empty or not records else 0
