"""Device time by who asked for it: modules and operators from the outside in, kernels at the ends; and the idle time before them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.show import layout
from hotlap.traces import breakdown, naming
from hotlap.traces.events import COPY, KERNEL, MARKER, OPERATOR, PYTHON, Events
from hotlap.traces.steps import NAMED
from hotlap.traces.study import Study

LEAST = 0.0005  # of the whole: what is smaller is not drawn
ROOT = 0


class Tree:
    """Nodes with a name and a parent; a child's number is above its parent's."""

    def __init__(self) -> None:
        self.parent, self.name, self.kind = [-1], [""], [0]
        self._known: dict[tuple[int, str], int] = {}

    def node(self, parent: int, name: str, kind: int) -> int:
        key = parent, name
        if key not in self._known:
            self._known[key] = len(self.parent)
            self.parent.append(parent)
            self.name.append(name)
            self.kind.append(kind)
        return self._known[key]


def flame(study: Study) -> dict[str, Any]:
    """Nodes as columns: name, parent, kind, seconds on the device, calls, idle seconds before. Of a trace of the host alone the
    seconds are the operators' own."""
    tree = Tree()
    path = _paths(study, tree)
    time, idle, calls = _device(study, tree, path) if study.devices else _host(study, path, len(tree.parent))
    for node in range(len(time) - 1, ROOT, -1):
        up = tree.parent[node]
        time[up] += time[node]
        idle[up] += idle[node]
        calls[up] += calls[node]
    kept = (time >= LEAST * max(time[ROOT], 1)) & (time > 0) | (idle >= LEAST * max(idle[ROOT], 1)) & (idle > 0)
    kept[ROOT] = True
    order = np.flatnonzero(kept)
    new = np.full(len(kept), -1, np.int64)
    new[order] = np.arange(len(order))
    return {
        "of": "device" if study.devices else "host",
        "name": [layout.shortened(tree.name[i], 200) for i in order],
        "parent": [int(new[tree.parent[i]]) if i else -1 for i in order],
        "kind": [tree.kind[i] for i in order],
        "time_us": [round(float(time[i]) / 1e3, 2) for i in order],
        "idle_us": [round(float(idle[i]) / 1e3, 2) for i in order],
        "calls": [int(calls[i]) for i in order],
    }


def _paths(study: Study, tree: Tree) -> NDArray[np.int64]:
    """For each event of the trace the node of the innermost operator, marker or module at or around it."""
    events, nesting = study.events, study.nesting
    shown = _shown(events)
    path = np.zeros(len(events), np.int64)
    order = np.argsort(nesting.depth, kind="stable")
    levels = np.searchsorted(nesting.depth[order], np.arange(int(nesting.depth.max(initial=-1)) + 2))
    width = len(events.names) + 1
    for first, last in pairwise(levels.tolist()):
        at = order[first:last]
        places, parent = nesting.places[at], nesting.parent[at]
        base = np.where(parent >= 0, path[np.maximum(parent, 0)], ROOT)
        path[places] = base
        mine = shown[places]
        keys, inverse = np.unique(base[mine] * width + events.name[places[mine]], return_inverse=True)
        nodes = [tree.node(int(key) // width, events.names[int(key) % width], OPERATOR) for key in keys]
        path[places[mine]] = np.array(nodes, np.int64)[inverse]
    return path


def _shown(events: Events) -> NDArray[np.bool_]:
    """Operators, markers other than steps, and modules; the other Python functions would make the picture as deep as the stack."""
    module = np.array([name.startswith("nn.Module") for name in events.names], bool)
    step = np.array([NAMED.match(name) is not None for name in events.names], bool)
    kind = events.kind
    found: NDArray[np.bool_] = (np.isin(kind, (OPERATOR, MARKER)) & ~step[events.name]) | ((kind == PYTHON) & module[events.name])
    return found


def _device(study: Study, tree: Tree, path: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Of each node: ns on the device, idle ns before, pieces of work."""
    events, work, links = study.events, study.events.work, study.links
    talks = breakdown.communicating(events)
    by_call = np.where(links.call >= 0, path[np.maximum(links.call, 0)], ROOT)
    base = np.where(by_call > ROOT, by_call, np.where(links.operator >= 0, path[np.maximum(links.operator, 0)], ROOT))
    width = len(events.names) + 1
    keys, inverse = np.unique(base * width + events.name[work], return_inverse=True)
    first = np.full(len(keys), len(work), np.int64)
    np.minimum.at(first, inverse, np.arange(len(work)))
    nodes = []
    for key, example in zip(keys.tolist(), first.tolist(), strict=True):
        name = key % width
        kind = int(events.kind[work[example]])
        colour = (1 if talks[name] else 0) if kind == KERNEL else COPY + 1
        nodes.append(tree.node(key // width, naming.short(events.names[name]), colour if colour else KERNEL))
    node = np.array(nodes, np.int64)[inverse] if nodes else np.empty(0, np.int64)
    count = len(tree.parent)
    time, calls = np.zeros(count, np.int64), np.bincount(node, minlength=count)
    np.add.at(time, node, events.duration[work])
    idle = np.zeros(count, np.int64)
    node_of = np.full(len(events), -1, np.int64)
    node_of[work] = node
    for found in study.idles.values():
        np.add.at(idle, node_of[found.after], found.gaps.end - found.gaps.start)
    return time, idle, calls


def _host(study: Study, path: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], ...]:
    """Of each node of a trace without a device: ns of its own, nothing, calls."""
    events, nesting = study.events, study.nesting
    inner = np.zeros(len(events), np.int64)
    inside = nesting.parent >= 0
    np.add.at(inner, nesting.parent[inside], events.duration[nesting.places[inside]])
    own = np.maximum(events.duration[nesting.places] - inner[nesting.places], 0)
    node = path[nesting.places]
    time, calls = np.zeros(count, np.int64), np.zeros(count, np.int64)
    known = node > ROOT  # what lies in no operator or module has no name here
    np.add.at(time, node[known], own[known])
    np.add.at(calls, node[known & _shown(events)[nesting.places]], 1)
    return time, np.zeros(count, np.int64), calls
