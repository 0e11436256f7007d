"""Many simulated machines: a run for each, on hosts of their own, under one label."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from hotlap.core.errors import Interrupted, MachineError
from hotlap.core.measure import programs, session, signals, supervisor, targets
from hotlap.core.measure.targets.faults import Faults
from hotlap.core.record import Plan, RunRecord
from hotlap.core.store import bundle as bundles

LABEL = "nodes"  # of all their runs; its value is one that no other runs have, unless the user gave one


class NodeRuns(NamedTuple):
    """The runs of all nodes, in order, and the selector that names them."""

    paths: list[Path]
    selector: str
    failures: list[str]


def each(options: session.SessionOptions) -> list[session.SessionOptions]:
    """The options of each node's run; none where the target is not several machines. Raises InputError."""
    if options.target.partition(":")[0] != "simulated":
        return []
    spec = targets.parse(options.target)
    faults = Faults.parse(spec.options)
    if faults.nodes == 1 or "node" in spec.options:
        return []
    labels = {LABEL: bundles.new_id(datetime.now(UTC)), **options.labels}
    return [
        replace(
            options, target=replace(spec, options={**spec.options, "node": str(node)}).text, labels=labels, host=_host(node, faults.nodes),
        )
        for node in range(faults.nodes)
    ]


def _host(node: int, nodes: int) -> str:
    return f"node{node:0{len(str(nodes - 1))}}"


def run(plan: Plan, nodes: Sequence[session.SessionOptions], ended: Callable[[int], None]) -> NodeRuns:
    """Measures every node, as many at a time as there are processors, each in a worker process that lasts. `ended`: how many are done.

    A node that fails does not keep the others from being measured. Raises InputError before anything is measured, Interrupted after
    keeping everything.
    """
    session.places(plan, nodes[0])
    workers = [programs.Worker() for _ in range(min(os.cpu_count() or 1, len(nodes)))]
    paths: dict[int, Path] = {}
    failures: dict[int, str] = {}

    def serve(which: int) -> None:
        try:
            for number in range(which, len(nodes), len(workers)):
                try:
                    paths[number] = session.run(plan, nodes[number], lambda *_: None, lasting=workers[which])
                except MachineError as error:
                    failures[number] = f"{nodes[number].host}: {error}"
        except Interrupted:
            pass
        finally:
            workers[which].end()

    def stop(_number: int) -> None:
        for worker in workers:
            worker.stop.set()

    with signals.caught(stop):
        supervisor.together(serve, range(len(workers)), lambda: ended(len(paths) + len(failures)))
    selector = f"{LABEL}={nodes[0].labels[LABEL]}"
    if workers[0].stop.is_set():
        raise Interrupted(left(len(paths), len(nodes), selector))
    return NodeRuns([paths[number] for number in sorted(paths)], selector, [failures[number] for number in sorted(failures)])


def without_runs(runs: Iterable[RunRecord]) -> list[str]:
    """A line for each group of simulated nodes of which some have no run: they were interrupted, or failed."""
    groups: dict[str, tuple[int, set[int]]] = {}
    for run in runs:
        options = targets.parse(run.target).options if run.target.startswith("simulated:") else {}
        if LABEL in run.labels and "nodes" in options and "node" in options:
            _, seen = groups.setdefault(run.labels[LABEL], (int(options["nodes"]), set()))
            seen.add(int(options["node"]))
    lines = []
    for label, (count, seen) in groups.items():
        missing = [_host(node, count) for node in range(count) if node not in seen]
        if missing:
            names = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
            lines.append(f"{len(missing)} of the {count} nodes of {LABEL}={label} have no run and are not judged: {names}")
    return lines


def left(done: int, nodes: int, selector: str) -> str:
    """What is kept of nodes that were interrupted, and how the rest is measured."""
    kept = f"interrupted; the {done} of {nodes} nodes that were measured are kept: hotlap list {selector}"
    again = f"the same command with --label {selector} measures all {nodes} again, and of each device the last run counts"
    return f"{kept}; the rest cannot be resumed together: {again}"
