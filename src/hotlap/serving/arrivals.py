"""When requests are due: constant, Poisson, gamma, a ramp, or a closed loop. The same text and seed give the same times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from hotlap.core import units
from hotlap.core.errors import InputError, nearest
from hotlap.serving.record import Planned, Prompt, Schedule

MOST_PER_S, MOST_REQUESTS, MOST_AT_ONCE, MOST_S = 10_000.0, 1_000_000, 10_000, 86_400.0
TRACE = "trace"
FORMS = {
    "constant": "constant:8 (a second)", "poisson": "poisson:8", "gamma": "gamma:8,0.5 (rate and shape: below 1 burstier than Poisson)",
    "ramp": "ramp:1-20,5min (from and to, in that time)", "closed": "closed:16 (so many at a time)",
}


class ArrivalProcess(NamedTuple):
    """A process of arrivals. `rate`: requests a second, of a ramp at its end."""

    kind: str
    rate: float = 0.0
    shape: float = 1.0  # of gamma gaps; 1 is Poisson
    first: float = 0.0  # of a ramp: the rate it begins with
    seconds: float = 0.0  # of a ramp
    concurrency: int = 0  # of a closed loop

    @property
    def open(self) -> bool:
        return self.kind != "closed"

    @property
    def peak(self) -> float:
        """The highest rate that is asked for; 0 of a closed loop."""
        return max(self.rate, self.first)


def parse(text: str) -> ArrivalProcess:
    """Raises InputError for an unknown process (with the nearest name) and for numbers that are none of a rate."""
    kind, _, rest = text.partition(":")
    if kind not in FORMS:
        raise InputError(f"arrivals '{text}' are not known: {nearest(kind, FORMS)}; write as in {', '.join(FORMS.values())}")
    parts = [part.strip() for part in rest.split(",")]
    if len(parts) != (2 if kind in ("gamma", "ramp") else 1) or not all(parts):
        raise InputError(f"'{text}': write as in {FORMS[kind]}")
    if kind == "closed":
        return ArrivalProcess(kind, concurrency=_whole(parts[0], text))
    if kind == "ramp":
        first, _, last = parts[0].partition("-")
        seconds = units.parse(parts[1], "s")
        if not 0 < seconds <= MOST_S:
            raise InputError(f"'{text}': a ramp takes from 0 to 24 h; write as in {FORMS[kind]}")
        return ArrivalProcess(kind, _rate(last, text), first=_rate(first, text), seconds=seconds)
    shape = float(units.parse(parts[1], "")) if kind == "gamma" else 1.0
    if not 0.01 <= shape <= 1000:
        raise InputError(f"'{text}': the shape of gamma is from 0.01 to 1000, not {parts[1]}")
    return ArrivalProcess(kind, _rate(parts[0], text), shape)


def kept(text: str) -> ArrivalProcess:
    """Of a run that is there: as `parse`, and a trace, whose times are in its schedule."""
    return ArrivalProcess(TRACE) if text == TRACE else parse(text)


def _rate(part: str, text: str) -> float:
    rate = units.parse(part.removesuffix("/s"), "")
    if not 0 < rate <= MOST_PER_S:
        raise InputError(f"'{text}': a rate is above 0 and at most {MOST_PER_S:g} requests a second")
    return rate


def _whole(part: str, text: str) -> int:
    if not part.isdecimal() or not 1 <= int(part) <= MOST_AT_ONCE:
        raise InputError(f"'{text}': so many at a time is a whole number from 1 to {MOST_AT_ONCE}")
    return int(part)


def due_s(arrivals: ArrivalProcess, seed: int) -> Iterator[float]:
    """Times at which requests are due, from the beginning, without an end; only a ramp ends."""
    if arrivals.kind == "constant":
        yield from (index / arrivals.rate for index in count())
    elif arrivals.kind == "ramp":
        yield from _ramp(arrivals)
    else:
        random, passed = np.random.default_rng(seed), 0.0
        while True:  # in blocks: the same times however many are taken
            for gap in random.gamma(arrivals.shape, 1 / (arrivals.shape * arrivals.rate), 1024).tolist():
                passed += gap
                yield passed


def _ramp(arrivals: ArrivalProcess) -> Iterator[float]:
    """The k-th is due when the area under the rate is k: first·t + (last − first)·t² ÷ 2T = k."""
    half = (arrivals.rate - arrivals.first) / (2 * arrivals.seconds)
    for index in count():
        inside = arrivals.first**2 + 4 * half * index
        if inside < 0:
            return
        time_s = 2 * index / (arrivals.first + math.sqrt(inside))
        if time_s >= arrivals.seconds:
            return
        yield time_s


def planned(arrivals: ArrivalProcess, seed: int, prompt: Prompt, requests: int | None, seconds: float | None) -> Iterator[Planned]:
    """So many requests, or those that are due within so many seconds; a closed loop by seconds goes on for ever."""
    times: Iterator[float | None] = due_s(arrivals, seed) if arrivals.open else (None for _ in count())
    for index, time_s in enumerate(islice(times, requests)):
        if seconds is not None and time_s is not None and time_s >= seconds:
            return
        yield Planned(index=index, due_s=time_s, prompt=prompt)


def schedule(text: str, seed: int, prompt: Prompt, requests: int | None, seconds: float | None) -> Schedule:
    """All of it. Raises InputError for an endless one, and for more than a million requests."""
    arrivals = parse(text)
    if requests is None and (seconds is None or not arrivals.open) and arrivals.kind != "ramp":
        raise InputError(f"'{text}' has no end: say how many requests")
    every = tuple(islice(planned(arrivals, seed, prompt, requests, seconds), MOST_REQUESTS + 1))
    if len(every) > MOST_REQUESTS:
        raise InputError(f"'{text}' makes more than {MOST_REQUESTS:,} requests; ask for fewer")
    return Schedule(arrivals=text, seed=seed, planned=every, concurrency=arrivals.concurrency or None)
