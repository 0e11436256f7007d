"""Steps of a program: the windows that its profiler marks, and what of the device's work belongs to each."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.traces.calls import CallLinks
from hotlap.traces.events import MARKER, OPERATOR, Events

NAMED = re.compile(r"^(?:ProfilerStep|train_step|step|iteration|iter)\s*[#:_ ]?\s*(\d{1,18})$", re.IGNORECASE)
PROFILER = re.compile(r"^ProfilerStep\s*#\s*(\d{1,18})$")


class Steps(NamedTuple):
    """Windows on the host, by start; `number` as the marker says."""

    number: NDArray[np.int64]
    start: NDArray[np.int64]  # ns since the origin
    end: NDArray[np.int64]
    thread: int  # place in events.threads; −1 unknown
    marker: str  # what marks them, "" where nothing does

    def __len__(self) -> int:
        return len(self.start)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """ns of each, begin to begin; of the last, to its end."""
        return np.append(self.start[1:], self.end[-1:]) - self.start

    @property
    def slow(self) -> NDArray[np.int64]:
        """Places of the steps far above the median: twice, and by five times the usual spread; none among fewer than five steps."""
        length = self.lengths.astype(float)
        if len(length) < 5:
            return np.empty(0, np.int64)
        median = float(np.median(length))
        spread = 1.4826 * float(np.median(np.abs(length - median)))  # of a normal distribution with that median of distances
        return np.flatnonzero(length > max(2 * median, median + 5 * spread))


NO_STEPS = Steps(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), -1, "")


def steps(events: Events) -> Steps:
    """Steps as markers of the host name them: PyTorch's ProfilerStep#, else step, iter or iteration with a number."""
    for pattern in (PROFILER, NAMED):
        numbers = {i: int(found.group(1)) for i, name in enumerate(events.names) if (found := pattern.match(name))}
        if not numbers:
            continue
        places = events.of_kind(MARKER, OPERATOR)
        places = places[np.isin(events.at("name", places), list(numbers))]
        if not len(places):
            continue
        # Iterations may hold steps of another name: of one name and thread, that which marks most of them.
        words = {i: re.sub(r"\s*\d+$", "", events.names[i]) for i in numbers}
        numbered = {word: i for i, word in enumerate(dict.fromkeys(words.values()))}
        word = np.array([numbered[words[int(i)]] for i in events.name[places]], np.int64)
        pairs = np.stack([events.thread[places].astype(np.int64), word])
        sorts, which, counts = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
        most = int(np.argmax(counts))
        thread = int(sorts[0, most])
        places = places[which.ravel() == most]
        places = places[np.argsort(events.start[places], kind="stable")]
        number = np.array([numbers[int(i)] for i in events.name[places]], np.int64)
        start = events.start[places]
        marker = words[int(events.name[places[0]])]
        return Steps(number, start, start + events.duration[places], thread, marker)
    return NO_STEPS


def of_times(steps: Steps, time: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each time the place of the step that it lies in; −1 outside of all."""
    if not len(steps):
        return np.full(len(time), -1, np.int64)
    at = np.searchsorted(steps.start, time, "right") - 1
    return np.where((at >= 0) & (time < steps.end[np.maximum(at, 0)]), at, -1)


def of_work(events: Events, steps: Steps, joined: CallLinks) -> NDArray[np.int64]:
    """For each piece of device work the step that launched it; where its call is unknown, the step it starts in; −1 none."""
    work = events.work
    launched = np.where(joined.call >= 0, events.start[np.maximum(joined.call, 0)], events.start[work])
    return of_times(steps, launched)
