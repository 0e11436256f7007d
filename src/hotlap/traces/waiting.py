"""Calls in which the host waits for a device."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from hotlap.traces.calls import SLACK_NS, CallLinks
from hotlap.traces.events import COPY, RUNTIME, SYNC, Events

SYNCHRONISES = re.compile(  # CUDA, HIP, and runtimes of other accelerators: aclrtSynchronizeStream, cnrtQueueSync, urQueueFinish
    r"Synchroni[sz]e(?![a-z])|(?:cuda|hip)(?:Memcpy|Free)$|cuMemcpy(?:HtoD|DtoH)(?:_v2)?$|^cnrt\w*Sync|^ur(?:QueueFinish|EventWait)$"
)


def blocking(events: Events, joined: CallLinks) -> NDArray[np.bool_]:
    """For each event, whether it is a call that waits for the device.

    By name where the call always waits; a copy's call waits where it returns no sooner than its copy ends, as it does with
    pageable memory whatever its name says.
    """
    by_name = np.array([SYNCHRONISES.search(name) is not None for name in events.names], bool)
    blocks: NDArray[np.bool_] = (by_name[events.name] & (events.kind == RUNTIME)) | ((events.kind == SYNC) & (events.thread >= 0))
    work = events.work
    copies = (events.kind[work] == COPY) & (joined.call >= 0)
    place, call = work[copies], joined.call[copies]
    returns = events.start[call] + events.duration[call]
    ends = events.start[place] + events.duration[place]
    blocks[call[returns + SLACK_NS >= ends]] = True
    return blocks
