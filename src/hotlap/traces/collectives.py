"""Collectives of one rank: when each began and ended, of which group, how large, and what the rank did before it."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.traces import breakdown, intervals
from hotlap.traces.events import KERNEL, MARKER, OPERATOR, Collective, Events
from hotlap.traces.idle import CAUSES
from hotlap.traces.intervals import Intervals, Times
from hotlap.traces.study import Study

WORDS = (  # in spellings of PyTorch, NCCL and RCCL without case and signs; the first that occurs decides
    ("reducescatter", "reduce_scatter"), ("allreduce", "all_reduce"), ("crossdevicereduce", "all_reduce"), ("allgather", "all_gather"),
    ("alltoall", "alltoall"), ("broadcast", "broadcast"), ("barrier", "barrier"), ("sendrecv", "send"), ("send", "send"),
    ("recv", "send"), ("gather", "gather"), ("scatter", "scatter"), ("reduce", "reduce"),
)  # fmt: skip
TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "barrier")  # none ends before the last rank has arrived
DTYPES = {
    "float": 4, "half": 2, "bfloat16": 2, "double": 8, "byte": 1, "char": 1, "int8": 1, "uint8": 1, "short": 2, "int": 4, "long": 8,
    "bool": 1, "complexfloat": 8, "complexdouble": 16, "int32": 4, "int64": 8, "float32": 4, "float16": 2, "float64": 8,
}  # fmt: skip
HOST = re.compile(r"^(?:gloo|mpi|ucc):\w+$")  # what a library of the host does, as PyTorch marks it on the thread that does it
SAYS = re.compile(r"^(?:nccl:|rccl:|c10d::|_?c10d_functional::)")  # operators and markers around the launch of a collective
TALK = re.compile(r"^(?:c10d::|gloo:|mpi:|ucc:|nccl:|record_param_comms|_?c10d_functional::)")
MOST_RANKS = 2**24  # a number of a rank beyond this is none
LARGEST = 2**56  # elements: what is more is no size
PARTS = ("compute", "copies", *CAUSES)  # what lies before a collective


class CollectiveKind(NamedTuple):
    """What ranks agree on before they meet."""

    name: str  # all_reduce …
    dtype: str  # "" unknown
    bytes: int  # as nccl-tests counts: all of an all-gather's result, else one rank's input; −1 unknown


class ProcessGroup(NamedTuple):
    """A process group."""

    name: str
    size: int  # 0 unknown
    about: str = ""
    members: tuple[int, ...] = ()  # ranks; () unknown


class Calls(NamedTuple):
    """Collectives of one rank by start; times in ns of the rank's own clock, tables of kinds and groups beside them."""

    start: Times
    end: Times
    kind: NDArray[np.int32]
    group: NDArray[np.int32]
    before: NDArray[np.int64]  # calls × PARTS: ns since the call before it
    kinds: list[CollectiveKind]
    groups: list[ProcessGroup]
    on_device: bool


def plain(name: str) -> str:
    """One spelling for the names of a collective; "" where it is none."""
    text = re.sub("[^a-z]", "", name.lower())
    return next((ours for word, ours in WORDS if word in text), "")


def item_bytes(dtype: str) -> int:
    """Bytes of an element by PyTorch's name of its type; 0 unknown."""
    text = dtype.lower().removeprefix("c10::")
    return DTYPES.get(text, 1 if text.startswith("float8") else 0)


def kind(given: Collective) -> CollectiveKind:
    """Name, type and size of a collective as the profiler wrote it."""
    name, each = plain(given.name), item_bytes(given.dtype)
    counted = given.elements_out if name == "all_gather" else given.elements_in
    counted = counted if counted >= 0 else max(given.elements_in, given.elements_out)
    return CollectiveKind(name or given.name, given.dtype, counted * each if 0 <= counted < LARGEST and each else -1)


def calls(study: Study, origin_ns: int) -> Calls:
    """The collectives of a trace: kernels of NCCL and RCCL, or on a host what gloo, MPI and UCC mark."""
    events = study.events
    places, talks, says = _on_device(study)
    on_device = bool(len(places))
    if not on_device:
        places, talks = _on_host(events)
        says = events.name[places]
    order = np.argsort(events.start[places], kind="stable")
    places, talks, says = places[order], talks[order], says[order]
    kinds: dict[CollectiveKind, int] = {}
    groups: dict[ProcessGroup, int] = {}
    known = _groups(events)
    seen: dict[tuple[int, int], tuple[int, int]] = {}
    pairs = np.empty((len(places), 2), np.int32)
    for i, key in enumerate(zip(talks.tolist(), says.tolist(), strict=True)):
        if key not in seen:
            one, group = _described(events, *key, known)
            seen[key] = kinds.setdefault(one, len(kinds)), groups.setdefault(group, len(groups))
        pairs[i] = seen[key]
    start = events.start[places].astype(np.int64)
    end = start + events.duration[places]
    before = _before(study, start, end, on_device)
    return Calls(start + origin_ns, end + origin_ns, pairs[:, 0], pairs[:, 1], before, list(kinds), list(groups), on_device)


def _on_device(study: Study) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Kernels that communicate; for each its entry in the table of collectives, by what stands around its launch if need be, −1 unknown;
    and the name that tells what it does: that of such an operator, since an all-to-all may be a kernel of sends, else its own."""
    events, work = study.events, study.events.work
    talking = np.flatnonzero((events.kind[work] == KERNEL) & breakdown.communicating(events)[events.name[work]])
    places = work[talking]
    numbers, says = events.collective[places].astype(np.int64), events.name[places].astype(np.int64)
    known = np.array([SAYS.match(name) is not None and bool(plain(name)) for name in events.names], bool)
    call = study.links.call[talking]
    above = np.where(call >= 0, study.parent[np.maximum(call, 0)], study.links.operator[talking])
    named = np.zeros(len(places), bool)
    while (climbing := (numbers < 0) & (above >= 0)).any():
        here = np.maximum(above, 0)
        numbers = np.where(climbing, events.collective[here], numbers)
        fits = climbing & known[events.name[here]] & ~named
        says, named = np.where(fits, events.name[here], says), named | fits
        above = np.where(climbing, study.parent[here], -1)
    return places, numbers, says


def _on_host(events: Events) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What libraries of the host mark as theirs; else the operators that carry a collective's arguments."""
    marks = np.array([HOST.match(name) is not None and bool(plain(name)) for name in events.names], bool)
    host = np.isin(events.kind, (MARKER, OPERATOR))
    places = np.flatnonzero(host & marks[events.name]) if len(events.names) else np.empty(0, np.int64)
    calls = np.flatnonzero(host & (events.collective >= 0))
    names = [plain(one.name) in TOGETHER for one in events.collectives]
    calls = calls[np.array(names, bool)[events.collective[calls]]] if len(calls) else calls
    if not len(places):
        return calls, events.collective[calls].astype(np.int64)
    if len(calls) == len(places):  # one tells the times, the other the arguments, in the same order
        by_start, of_told = np.argsort(events.start[places], kind="stable"), calls[np.argsort(events.start[calls], kind="stable")]
        found = np.empty(len(places), np.int64)
        found[by_start] = events.collective[of_told]
        return places, found
    return places, np.full(len(places), -1, np.int64)


def _groups(events: Events) -> dict[str, ProcessGroup]:
    """Process groups as the file lists them."""
    given = events.head.facts.get("groups")
    found = {}
    for one in given if isinstance(given, list) else []:
        if isinstance(one, dict) and isinstance(one.get("ranks"), list):
            name, members = str(one.get("pg_name", "")), tuple(r for r in one["ranks"] if isinstance(r, int) and 0 <= r < MOST_RANKS)
            found[name] = ProcessGroup(name, len(members), str(one.get("pg_desc", "")), members)
    return found


def _described(events: Events, entry: int, name: int, known: dict[str, ProcessGroup]) -> tuple[CollectiveKind, ProcessGroup]:
    """What an entry of the table of collectives means; without one, what the event's name tells."""
    if entry >= 0:
        given = events.collectives[entry]
        one = kind(given)
        return one, known.get(given.group) or ProcessGroup(given.group, max(given.ranks, 0))
    only = next(iter(known.values())) if len(known) == 1 else ProcessGroup("", 0)
    return CollectiveKind(plain(events.names[name]) or events.names[name], "", -1), only


def working(study: Study, on_device: bool) -> tuple[Intervals, Intervals]:
    """When a rank computed and when it copied, in ns of its trace: on its devices; on a host, its main thread in operators that do not
    communicate."""
    events = study.events
    if on_device:
        found = [breakdown.busy(events, device) for device in study.devices]
        compute = intervals.union(*(np.concatenate([getattr(one.compute, end) for one in found]) for end in ("start", "end")))
        copies = intervals.union(*(np.concatenate([getattr(one.copies, end) for one in found]) for end in ("start", "end")))
        return compute, copies
    talk = np.array([TALK.match(name) is not None for name in events.names], bool)
    mine = np.flatnonzero((events.kind == OPERATOR) & (events.thread == study.main_thread))
    mine = mine[~talk[events.name[mine]]]
    inside = intervals.union(events.start[mine], events.start[mine] + events.duration[mine])
    talks = np.flatnonzero(np.isin(events.kind, (OPERATOR, MARKER)) & talk[events.name] & (events.thread == study.main_thread))
    spoken = intervals.union(events.start[talks], events.start[talks] + events.duration[talks])
    compute = intervals.difference(intervals.difference(inside, spoken), study.loading)
    return compute, intervals.NONE


def _before(study: Study, start: Times, end: Times, on_device: bool) -> NDArray[np.int64]:
    """What lies between each collective and the one before it: its end, or its start where the two overlap."""
    parts = np.zeros((len(start), len(PARTS)), np.int64)
    if not len(start):
        return parts
    reach = np.concatenate([[np.int64(study.window[0])], np.maximum.accumulate(end)[:-1]])
    begin = np.where(reach <= start, reach, np.concatenate([[np.int64(study.window[0])], start[:-1]]))
    begin = np.minimum(begin, start)
    compute, copies = working(study, on_device)
    parts[:, 0] = intervals.covered(compute, begin, start)
    parts[:, 1] = intervals.covered(intervals.difference(copies, compute), begin, start)
    if not on_device:
        loads = intervals.covered(study.loading, begin, start)
        parts[:, PARTS.index("data_loader")] = loads
        parts[:, PARTS.index("host")] = np.maximum(start - begin - loads - parts[:, 0], 0)
        return parts
    for one in study.idles.values():
        at = np.searchsorted(start, one.gaps.start, "left")  # the collective that the gap lies before
        fits = at < len(start)
        fits[fits] &= one.gaps.start[fits] >= begin[at[fits]]
        np.add.at(parts[:, 2:], at[fits], one.by[fits])
    return parts
