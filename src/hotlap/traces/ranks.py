"""Traces of many ranks: each reduced where it lies, the reductions merged into who waited for whom and what for."""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hotlap.core.errors import InputError, MachineError, Unavailable
from hotlap.core.model import machines
from hotlap.core.record import Notice, Record
from hotlap.core.units import stretches
from hotlap.traces import arrivals, bandwidth, clocks, meeting
from hotlap.traces.arrivals import Arrivals
from hotlap.traces.bandwidth import Moved
from hotlap.traces.clocks import Clocks
from hotlap.traces.meeting import GroupMismatch
from hotlap.traces.reducing import Reduced, Unusable, reduced

BUNDLE, OWN = "run.json", re.compile(r"trace-.*\.json(?:\.gz)?")  # of a run that Hotlap keeps: its record, and traces beside it
IN_NAME = re.compile(r"rank[-_. ]?(\d+)", re.IGNORECASE)
STAGE = re.compile(r"pipe|(?:^|[^a-z])pp(?:$|[^a-z])", re.IGNORECASE)
EXPERT = re.compile(r"expert(?!.*(?:data|tensor))|(?:^|[^a-z])ep(?:$|[^a-z])", re.IGNORECASE)
PLACES = ("processes", "ray")
FEW = 4  # files up to which another process costs more than it saves


class Role(Record, frozen=True, kw_only=True):
    """Ranks at one place of a pipeline, or with the same experts."""

    role: str  # stage, expert
    place: int
    ranks: list[int]
    compute_s: float | None  # mean over ranks
    lost_share: float  # waiting, of the window, mean over ranks


class RankSteps(Record, frozen=True, kw_only=True):
    """Steps over ranks."""

    count: int
    median_s: float  # of the ranks' medians
    slowest_rank: int
    slowest_s: float  # its median
    within: float  # median over ranks of the deviation of a rank's steps from its median, as a share of it


class RanksApart(NamedTuple):
    """Traces that are answered one by one."""

    files: list[str]  # in the order given
    sizes: list[int]  # of the runs that they are from, in ranks, as far as they say


class AllRanks(NamedTuple):
    """What all ranks together tell."""

    ranks: dict[int, Reduced]
    unusable: list[Unusable]
    notices: list[Notice]  # how ranks were numbered, which are missing
    clocks: Clocks
    arrivals: Arrivals | None  # None where the order of arrivals cannot be determined
    moved: list[Moved]
    mismatches: list[GroupMismatch]
    roles: list[Role]
    steps: RankSteps | None
    apart: RanksApart | None = None  # where nothing tells that they are ranks of one program

    @property
    def window_s(self) -> float:
        """Median over ranks."""
        return float(np.median([one.window_s for one in self.ranks.values()])) if self.ranks else 0.0

    @property
    def worst(self) -> int:
        """The rank that the others wait for most; else the one with the longest window."""
        if self.arrivals and self.arrivals.late and self.arrivals.late[0].caused_s > 0:
            return self.arrivals.late[0].rank
        return max(self.ranks, key=lambda rank: (self.ranks[rank].window_s, -rank))


def files(given: Sequence[str | Path]) -> list[str]:
    """Every file named, and those in folders that are named, in the order of their names with numbers by value.

    Raises InputError where a path is not there.
    """
    paths: list[str] = []
    for place in map(Path, given):
        if place.is_dir():
            inside = [str(path) for path in place.iterdir() if path.is_file() and not path.name.startswith(".")]
            if (place / BUNDLE).is_file():  # a run of Hotlap: what it keeps beside its traces is none
                inside = [path for path in inside if OWN.fullmatch(os.path.basename(path))] or inside
            if not inside:
                raise InputError(f"'{place}' holds no files; name a folder with one trace for each rank")
            paths += sorted(inside, key=_by_number)
        elif place.exists():
            paths.append(str(place))
        else:
            raise InputError(f"'{place}' cannot be read: there is no such file or folder")
    return list(dict.fromkeys(paths))


def _by_number(path: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", os.path.basename(path))]


def analysed(paths: Sequence[str], on: str = "processes", processes: int | None = None, machine: str = "") -> AllRanks:
    """All files, each reduced by a worker near it, then merged. `machine`: of the machine table, where the traces do not tell. Raises
    InputError where none is usable, Unavailable where Ray is asked for and is not here."""
    slug = machines.load(machine).slug if machine else ""
    return merged(_spread(reduced, paths, on, processes), slug)


def _spread(work: Callable[[str], Any], paths: Sequence[str], on: str, processes: int | None) -> Iterator[Any]:
    """The same work on every path, answers in the order of paths."""
    if on == "ray":
        return _by_ray(work, paths)
    if on != "processes":
        raise InputError(f"ranks cannot be read on '{on}'; valid: {', '.join(PLACES)}")
    count = min(processes or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, len(paths))
    if count < 2 or len(paths) < FEW:
        return map(work, paths)
    return _by_processes(work, paths, count)


def _by_processes(work: Callable[[str], Any], paths: Sequence[str], count: int) -> Iterator[Any]:
    pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=_with_parent)
    try:
        yield from pool.map(work, paths, chunksize=max(1, min(16, len(paths) // (4 * count))))
    except BrokenProcessPool:
        raise MachineError(
            "a process that read traces was ended by the system, most likely for want of memory; name fewer files, or use --on ray"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _with_parent() -> None:
    """In a worker: an interrupt is the parent's business, and where the parent is gone there is nobody to work for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def leave() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _by_ray(work: Callable[[str], Any], paths: Sequence[str]) -> Iterator[Any]:
    """Each file by a task of a Ray cluster, that of RAY_ADDRESS or one of this machine. Every node must see the files by these paths."""
    try:
        import ray  # only where it is asked for: it is large
    except ImportError:
        raise Unavailable("--on ray needs Ray, which is not installed here; pip install ray, or leave --on ray out") from None
    mine = not ray.is_initialized()
    if mine:
        ray.init(log_to_driver=False, include_dashboard=False, logging_level=logging.ERROR)
    try:
        task = ray.remote(work)
        waiting = [task.remote(os.path.abspath(path)) for path in paths]
        for one in waiting:
            yield ray.get(one)
    finally:
        if mine:
            ray.shutdown()


def merged(all_ranks: Iterable[Reduced | Unusable], machine: str = "") -> AllRanks:
    """What reductions of all ranks say together."""
    usable: list[Reduced] = []
    unusable: list[Unusable] = []
    for one in all_ranks:
        if isinstance(one, Reduced):
            usable.append(one)
        else:
            unusable.append(one)
    ranks, doubles, notices = numbered(usable)
    if not ranks:
        why = f"; the first: {unusable[0].why}" if unusable else ""
        raise InputError(f"none of {len(unusable)} files is a trace that Hotlap can read{why}")
    met, mismatches = meeting.met({rank: one.calls for rank, one in ranks.items()})
    set_to = clocks.clocks(list(ranks), met)
    unsure = bool(doubles) or any(_told(one) is None for one in usable)
    apart = len(_sizes(usable)) > 1 or (len(usable) > 1 and not set_to.used and unsure)
    unusable += [] if apart else doubles
    known = arrivals.arrivals(ranks, met, set_to) if set_to.agree else None
    return AllRanks(
        ranks, unusable, notices, set_to, known, bandwidth.moved(ranks, met, set_to, machine), mismatches, roles(ranks, known),
        steps(ranks),
        RanksApart([one.file for one in usable], _sizes(usable)) if apart else None,
    )  # fmt: skip


def numbered(all_ranks: Sequence[Reduced]) -> tuple[dict[int, Reduced], list[Unusable], list[Notice]]:
    """Ranks by number: as the file says, else as its name says, else by order; and files whose rank another has already."""
    ranks: dict[int, Reduced] = {}
    doubles: list[Unusable] = []
    later: list[Reduced] = []
    notices = []
    for rank_file in all_ranks:
        rank = _told(rank_file)
        if rank is None:
            later.append(rank_file)
        elif rank in ranks:
            doubles.append(Unusable(rank_file.file, f"it is of rank {rank}, as is {os.path.basename(ranks[rank].file)}, which was taken"))
        else:
            ranks[rank] = rank_file
    free = (number for number in range(len(all_ranks) + len(ranks)) if number not in ranks)
    for rank_file, number in zip(later, free, strict=False):
        ranks[number] = rank_file
    if later and len(ranks) > 1:
        many = "1 file does not say its" if len(later) == 1 else f"{len(later)} files do not say their"
        notices.append(Notice("rank_by_order", f"{many} rank: numbered in the order given", count=len(later)))
    whole = max((one.ranks or 0 for one in ranks.values()), default=0)
    missing = sorted(set(range(whole)) - set(ranks))
    if missing and len(ranks) > 1:
        seen = f"{len(missing)} of {whole} ranks are missing: {spans(missing)}; what waits for them is not seen"
        notices.append(Notice("ranks_missing", seen, count=len(missing)))
    return dict(sorted(ranks.items())), doubles, notices


def _sizes(ranks: Sequence[Reduced]) -> list[int]:
    """Numbers of ranks that files give for their runs; those of one run agree."""
    return sorted({one.ranks for one in ranks if one.ranks is not None})


def _told(rank: Reduced) -> int | None:
    """A rank, as the file says, else as its name says."""
    if rank.own_rank is not None:
        return rank.own_rank
    named = IN_NAME.search(os.path.basename(rank.file))
    return int(named[1]) if named and len(named[1]) < 8 else None


def spans(numbers: Sequence[int], most: int = 6) -> str:
    """Numbers in words: 0–3, 7, 9–12."""
    parts = stretches(numbers)
    texts = [str(low) if low == high else f"{low}–{high}" if high > low + 1 else f"{low}, {high}" for low, high in parts]
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more spans" if len(texts) > most else "")


def roles(ranks: Mapping[int, Reduced], known: Arrivals | None) -> list[Role]:
    """Ranks by stage of the pipeline and by experts, where descriptions of process groups tell."""
    lost = dict(zip(known.ranks, known.lost.tolist(), strict=True)) if known else {}
    rows = []
    for role, pattern in (("stage", STAGE), ("expert", EXPERT)):
        places: dict[int, list[int]] = {}
        for rank, one in ranks.items():
            groups = [g for g in one.calls.groups if pattern.search(g.about) and rank in g.members]
            if groups:
                places.setdefault(groups[0].members.index(rank), []).append(rank)
        if len(places) > 1:
            for place, members in sorted(places.items()):
                seconds = [one.compute_share * one.window_s for one in map(ranks.__getitem__, members) if one.compute_share is not None]
                rows.append(
                    Role(
                        role=role, place=place, ranks=members, compute_s=float(np.mean(seconds)) if seconds else None,
                        lost_share=float(np.mean([lost.get(rank, 0.0) for rank in members])),
                    )
                )  # fmt: skip
    return rows


def steps(ranks: Mapping[int, Reduced]) -> RankSteps | None:
    """How long steps took, over ranks and within one."""
    medians, within = {}, []
    for rank, one in ranks.items():
        if len(one.steps) > 1:
            length = np.array(list(one.steps.values())[:-1])  # the last begins no other
            medians[rank] = float(np.median(length))
            within.append(float(np.median(np.abs(length - medians[rank]))) / medians[rank] if medians[rank] else 0.0)
    if not medians:
        return None
    slowest = max(medians, key=lambda rank: medians[rank])
    return RankSteps(
        count=max(len(one.steps) for one in ranks.values()), median_s=float(np.median(list(medians.values()))), slowest_rank=slowest,
        slowest_s=medians[slowest], within=float(np.median(within)),
    )  # fmt: skip
