"""One rank's trace made small where it lies: what the answer for many ranks needs of it, a few hundred kB whatever the file's size."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import HotlapError
from hotlap.core.record import Notice, Record
from hotlap.traces import breakdown, collectives, intervals
from hotlap.traces.collectives import Calls
from hotlap.traces.events import OPERATOR
from hotlap.traces.intervals import Intervals
from hotlap.traces.study import Study
from hotlap.traces.timeline import Timeline

KERNELS = 64  # of which the totals are kept, by time
SPILLED = 512 << 20  # bytes of a file from which its columns go to disk while it is reduced


class Reduced(Record, frozen=True, kw_only=True):
    """What is kept of one rank."""

    file: str
    own_rank: int | None = None  # rank, as the file says
    ranks: int | None = None  # in all, as the file says
    host: str = ""
    device: str = ""  # its name
    memory_bytes: int | None = None
    events: int
    bytes: int  # of the file
    window_s: float
    window: str  # how it is defined
    compute_share: float | None = None  # of the device's window; on a host: of the window, the main thread in operators
    exposed_communication_share: float | None = None
    idle_share: float | None = None  # None on a host
    idle: dict[str, float] = {}  # share by cause
    steps: dict[int, float]  # seconds by number
    kernels: dict[str, float]  # seconds by name; of a host's trace, operators
    calls: Calls
    exposed: Intervals  # communication behind which nothing computes, ns of the rank's clock
    notices: list[Notice] = []


class Unusable(NamedTuple):
    """A file that is no rank's trace."""

    file: str
    why: str


def reduced(path: str) -> Reduced | Unusable:
    """A file's rank, or why there is none. Never raises for what a file holds."""
    try:
        size = os.path.getsize(path)
        return of(Study(Timeline.open(path, cache=size >= SPILLED)), size)
    except HotlapError as error:
        return Unusable(path, str(error))
    except OSError as error:
        return Unusable(path, error.strerror or str(error))
    except Exception as error:  # whatever is wrong with one file of a thousand must not cost the others their answer
        return Unusable(path, f"it cannot be analysed: {type(error).__name__}: {error}")


def of(study: Study, size: int = 0) -> Reduced:
    """What is kept of a trace that is open."""
    events = study.events
    head = events.head
    origin = head.unix_ns if head.unix_ns is not None else head.origin_ns
    calls = collectives.calls(study, origin)
    exposed, compute = _exposed(study, calls, origin)
    low, high = study.window
    if not study.devices and len(calls.start):  # threads of a library go on where the last operator has ended
        low, high = min(low, int(calls.start.min()) - origin), max(high, int(calls.end.max()) - origin)
    window_s = (high - low) / 1e9
    device: dict[str, Any] = next((one for one in head.devices if one.get("name")), {})
    shares: dict[str, Any] = {}
    if study.devices:
        found = study.breakdown()
        shares = {
            "compute_share": found.compute_share, "exposed_communication_share": found.exposed_communication_share,
            "idle_share": found.idle_share, "idle": study.idle_shares,
        }  # fmt: skip
    elif window_s:
        inside = intervals.clipped(compute, low, high)
        shares = {"compute_share": inside.length / (high - low), "exposed_communication_share": exposed.length / (high - low)}
        if loads := intervals.clipped(study.loading, low, high).length:
            shares["idle"] = {"data_loader": loads / (high - low)}
    memory = device.get("totalGlobalMem")
    return Reduced(
        file=events.path, own_rank=_rank(head.rank), ranks=_rank(head.ranks), host=str(head.facts.get("host_name", "")),
        device=str(device.get("name", "")),
        memory_bytes=memory if isinstance(memory, int) and memory > 0 else None, events=len(events), bytes=size, window_s=window_s,
        window=study.window_words, steps=_steps(study), kernels=_kernels(study), calls=calls, exposed=exposed,
        notices=head.notices, **shares,
    )  # fmt: skip


def _rank(number: int | None) -> int | None:
    """A number that ranks can have."""
    return number if number is not None and 0 <= number <= collectives.MOST_RANKS else None


def _exposed(study: Study, calls: Calls, origin: int) -> tuple[Intervals, Intervals]:
    """Collectives behind which nothing computes, by the rank's clock; and what computes, in ns of the trace."""
    compute, _ = collectives.working(study, calls.on_device)
    talk = intervals.union(calls.start - origin, calls.end - origin)
    left = intervals.difference(talk, compute)
    return Intervals(left.start + origin, left.end + origin), compute


def _steps(study: Study) -> dict[int, float]:
    """Begin to begin; the last to its end."""
    found = study.steps
    if not len(found):
        return {}
    length = np.diff(np.append(found.start, found.end[-1])) / 1e9
    return {int(number): float(seconds) for number, seconds in zip(found.number, length, strict=True)}


def _kernels(study: Study) -> dict[str, float]:
    """Seconds by name, most first: kernels that do not communicate; on a host outermost operators of the main thread."""
    events = study.events
    if study.devices:
        work = events.work
        places = work[~_talks(events.names, work, events.name)]
    else:
        nesting = study.nesting
        mine = nesting.places[events.kind[nesting.places] == OPERATOR]
        mine = mine[events.thread[mine] == study.main_thread]
        above = study.parent[mine]
        places = mine[(above < 0) | (events.kind[np.maximum(above, 0)] != OPERATOR)]
        places = places[~_talks(events.names, places, events.name)]
    if not len(places):
        return {}
    total = np.bincount(events.name[places], weights=events.duration[places], minlength=len(events.names))
    most = np.argsort(-total, kind="stable")[:KERNELS]
    return {events.names[i]: float(total[i]) / 1e9 for i in most if total[i] > 0}


def _talks(names: list[str], places: NDArray[np.int64], name: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of these events communicate, by name."""
    flags = np.array(
        [bool(collectives.TALK.match(one)) or breakdown.COMMUNICATION.search(one) is not None for one in names], bool
    )
    return np.asarray(flags[name[places]], bool) if len(names) else np.zeros(len(places), bool)

