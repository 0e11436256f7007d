"""Many simulated machines: a run for each, on hosts of their own, under one label."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hotlap.core.errors import InputError, Interrupted, MachineError
from hotlap.core.measure import programs, session, signals, supervisor, targets
from hotlap.core.measure.targets.faults import Faults
from hotlap.core.record import Plan, RunRecord
from hotlap.core.store import bundle as bundles
from hotlap.core.store import select

if TYPE_CHECKING:
    from hotlap.core.store.catalog import Entry

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
    cut: list[str] = []  # hosts

    def serve(which: int) -> None:
        try:
            for number in range(which, len(nodes), len(workers)):
                try:
                    paths[number] = session.run(plan, nodes[number], lambda *_: None, lasting=workers[which])
                except MachineError as error:
                    failures[number] = f"{nodes[number].host}: {error}"
                except Interrupted:
                    cut.append(nodes[number].host)
                    raise
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
        hosts = {entry.listed.host for entry in _kept(nodes[0], selector) if entry.listed}
        raise Interrupted(left((len(paths), len(hosts & set(cut)), len(failures), len(nodes)), selector))
    return NodeRuns([paths[number] for number in sorted(paths)], selector, [failures[number] for number in sorted(failures)])


def _kept(options: session.SessionOptions, selector: str) -> list[Entry]:
    """Runs that the selector names; none where there is none yet."""
    try:
        return select.entries([selector], options.home)
    except InputError:
        return []


class NodesMissing(NamedTuple):
    """Nodes of a group that have no run: they were interrupted, or failed."""

    label: str
    hosts: list[str]
    nodes: int  # of the whole group
    last: str  # RunRecord.id of the group's last run

    @property
    def text(self) -> str:
        names = ", ".join(self.hosts[:5]) + (f" and {len(self.hosts) - 5} more" if len(self.hosts) > 5 else "")
        return f"{len(self.hosts)} of the {self.nodes} nodes of {LABEL}={self.label} have no run and are not judged: {names}"


def without_runs(runs: Iterable[RunRecord]) -> list[NodesMissing]:
    """Each group of simulated nodes of which some have no run."""
    groups: dict[str, tuple[int, set[int], list[str]]] = {}
    for run in runs:
        options = targets.parse(run.target).options if run.target.startswith("simulated:") else {}
        if LABEL in run.labels and "nodes" in options and "node" in options:
            _, seen, ids = groups.setdefault(run.labels[LABEL], (int(options["nodes"]), set(), []))
            seen.add(int(options["node"]))
            ids.append(run.id)
    return [
        NodesMissing(label, [_host(node, count) for node in range(count) if node not in seen], count, ids[-1])
        for label, (count, seen, ids) in groups.items() if len(seen) < count
    ]  # fmt: skip


def left(nodes: tuple[int, int, int, int], selector: str) -> str:
    """What is kept of nodes that were interrupted, and how the rest is measured. `nodes`: how many whole, in part, failed; of how many."""
    whole, part, failed, count = nodes
    texts = [f"{whole} whole", *([f"{part} in part"] if part else []), *([f"{failed} failed"] if failed else [])]
    if begun := count - whole - part - failed:
        texts.append(f"{begun} not begun")
    kept = f"interrupted; of {count} nodes {', '.join(texts)}; what was measured is kept: hotlap list {selector}"
    again = f"the same command with --label {selector} measures all {count} again, and of each device the last run counts"
    return f"{kept}; the rest cannot be resumed together: {again}"
