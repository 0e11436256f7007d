"""Bandwidth of collectives: what each moved, divided by the time from the last arrival to the end, beside what the model expects."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hotlap.core.errors import HotlapError
from hotlap.core.model import kept, machines
from hotlap.core.model.predict import predict
from hotlap.core.record import Device, Record
from hotlap.core.work.network import COLLECTIVE
from hotlap.traces import collectives
from hotlap.traces.clocks import Clocks
from hotlap.traces.collectives import CollectiveKind
from hotlap.traces.meeting import Met
from hotlap.traces.reducing import Reduced

MODEL_DTYPES = {1: "int8", 2: "bf16", 4: "fp32"}


class Moved(Record, frozen=True, kw_only=True):
    """All collectives of one kind, size, type and number of ranks."""

    collective: str
    dtype: str
    bytes: int  # −1 unknown
    ranks: int  # in the group
    here: int  # of which traces are at hand
    calls: int
    total_s: float  # without waiting
    seconds: float  # median, last arrival to end
    algorithm_b_s: float | None = None  # bytes / seconds
    bus_b_s: float | None = None  # after nccl-tests: what a link carries, whatever the number of ranks
    expected_s: float | None = None
    expected_bus_b_s: float | None = None
    above_peak: bool = False  # faster than the bound allows: sizes or times of this trace are wrong


def bus_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth for each algorithm bandwidth. Source: NVIDIA nccl-tests, doc/PERFORMANCE.md."""
    if ranks < 2:
        return 0.0
    share = (ranks - 1) / ranks
    return {"all_reduce": 2 * share, "all_gather": share, "reduce_scatter": share, "alltoall": share}.get(collective, 1.0)


def machine(ranks: Mapping[int, Reduced]) -> str:
    """The slug of the machine table, where all ranks ran on one kind of device that it holds; "" else."""
    kinds = {(one.device, one.memory_bytes) for one in ranks.values()}
    if len(kinds) != 1:
        return ""
    name, memory = kinds.pop()
    return machines.recognise(Device(target="trace", index=0, name=name, kind="gpu", memory_bytes=memory)) if name else ""


def moved(ranks: Mapping[int, Reduced], groups: Sequence[Met], set_to: Clocks, slug: str = "") -> list[Moved]:
    """Bandwidth by collective, most time first. Where the order of arrivals cannot be determined, there is none."""
    if not set_to.agree:
        return []
    times: dict[tuple[CollectiveKind, int], list[NDArray[np.float64]]] = defaultdict(list)
    here: dict[tuple[CollectiveKind, int], int] = {}
    hosts: dict[tuple[CollectiveKind, int], int] = {}
    for group in groups:
        came, ended = set_to.true(group.ranks, group.start), set_to.true(group.ranks, group.end)
        lasted = np.median(ended, axis=0) - came.max(axis=0)
        size = group.bytes.max(axis=0)  # parts of an all-to-all may differ: the largest sets its time
        names: dict[CollectiveKind, list[int]] = defaultdict(list)
        for column, kind in enumerate(group.kinds):
            names[kind._replace(bytes=int(size[column]))].append(column)
        nodes = len({ranks[int(rank)].host for rank in group.ranks if ranks[int(rank)].host})
        for kind, columns in names.items():
            key = kind, group.members
            times[key].append(lasted[columns])
            here[key] = max(here.get(key, 0), len(group.ranks))
            hosts[key] = max(hosts.get(key, 1), nodes)
    slug = slug or machine(ranks)
    rows = [_row(*key, np.concatenate(parts), here[key], slug, hosts[key]) for key, parts in times.items()]
    return sorted(rows, key=lambda row: -row.total_s)


def _row(kind: CollectiveKind, count: int, lasted: NDArray[np.float64], here: int, slug: str, nodes: int) -> Moved:
    positive = lasted[lasted > 0] / 1e9
    seconds = float(np.median(positive)) if len(positive) else 0.0
    row = Moved(
        collective=kind.name, dtype=kind.dtype, bytes=kind.bytes, ranks=count, here=here, calls=len(lasted), total_s=float(positive.sum()),
        seconds=seconds,
    )  # fmt: skip
    if kind.bytes <= 0 or not seconds or kind.name == "barrier":
        return row
    algorithm = kind.bytes / seconds
    factor = bus_factor(kind.name, count)
    expected, bound = _expected(kind, count, slug, nodes)
    return replace(
        row, algorithm_b_s=algorithm, bus_b_s=algorithm * factor, expected_s=expected,
        expected_bus_b_s=kind.bytes / expected * factor if expected else None, above_peak=bool(bound and seconds < bound),
    )  # fmt: skip


def _expected(kind: CollectiveKind, count: int, slug: str, nodes: int) -> tuple[float | None, float | None]:
    """Seconds that the model expects, and its bound; None where it does not know."""
    if not slug or count < 2 or count % max(nodes, 1):
        return None, None
    dtype = MODEL_DTYPES.get(collectives.item_bytes(kind.dtype), "bf16")
    try:
        known = kept.chosen(slug, "", False, kept.place())
        limit = predict(COLLECTIVE.name, slug, "", known, op=kind.name, gpus=count, size=kind.bytes, nodes=max(nodes, 1), dtype=dtype)
    except HotlapError:
        return None, None
    bound = limit.bound_s if limit.bound_s and math.isfinite(limit.bound_s) else None
    return (limit.expected_s if limit.expected_s and math.isfinite(limit.expected_s) else None), bound
