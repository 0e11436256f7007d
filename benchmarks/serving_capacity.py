"""Searches for the capacity of simulated queues whose true one is known: how often [known good, known bad] holds it, and how wide it is.

    python benchmarks/serving_capacity.py [--searches 400] [--requests 60000] [--seed 1] [--only 0.9]
    python benchmarks/serving_capacity.py --truth 10000000     # prints TRUTH again: each rate by one simulation of that many requests

Service takes 1 s on average, arrivals are Poisson, k servers share a queue, and a request is good when it is done within `within` seconds.
M/M/k has a closed form; of M/G/k the table TRUTH is kept. The searches are shared out evenly among the queues of one attainment, each
begins at 1/16 to 4 times the capacity and has at most 12 rates. Beside each: bisection that believes each run, at the same cost.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from heapq import heapreplace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.stats.order import CONFIDENCE
from hotlap.serving.capacity import CapacityOptions, search

Floats = NDArray[np.float64]
RATES = 12


class Queue(NamedTuple):
    servers: int
    service: str  # M: exponential; otherwise lognormal with this coefficient of variation
    within: float  # seconds
    attain: float

    @property
    def name(self) -> str:
        return f"M/{self.service if self.service == 'M' else f'G({self.service})'}/{self.servers} within {self.within:g} s"


QUEUES = (
    Queue(1, "M", 10, 0.9), Queue(1, "M", 5, 0.9), Queue(4, "M", 4, 0.9), Queue(16, "M", 3, 0.9), Queue(4, "1.5", 5, 0.9),
    Queue(1, "M", 15, 0.99), Queue(4, "M", 7, 0.99), Queue(16, "M", 5.5, 0.99), Queue(4, "0.5", 5, 0.99),
)  # fmt: skip
TRUTH = {Queue(4, "1.5", 5, 0.9): 3.20825, Queue(4, "0.5", 5, 0.99): 3.32349}  # --truth 10000000


def sojourn(arrivals: Floats, service: Floats, servers: int) -> Floats:
    """Seconds from arrival to the end of service, first come first served: Lindley's recursion for one server, a heap for more."""
    if servers == 1:
        ends = np.cumsum(service)
        return np.asarray(ends + np.maximum.accumulate(arrivals - (ends - service)) - arrivals)
    free, spent = [0.0] * servers, []
    for arrival, needs in zip(arrivals.tolist(), service.tolist(), strict=True):
        end = max(arrival, free[0]) + needs
        heapreplace(free, end)
        spent.append(end - arrival)
    return np.array(spent)


def simulate(queue: Queue, rate: float, requests: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    arrivals = np.cumsum(rng.exponential(size=requests)) / rate
    if queue.service == "M":
        service = rng.exponential(size=requests)
    else:
        square = math.log1p(float(queue.service) ** 2)
        service = rng.lognormal(-square / 2, math.sqrt(square), requests)
    return np.asarray(sojourn(arrivals, service, queue.servers) <= queue.within)


def closed_form(servers: int, rate: float, within: float) -> float:
    """Share of an M/M/k queue's requests that take longer than `within` at a mean service of 1 s (Erlang C: Gross and Harris, 2.3)."""
    if rate >= servers:
        return 1.0
    inverse = 1.0  # of Erlang B
    for i in range(1, servers + 1):
        inverse = 1 + inverse * i / rate
    load, blocked = rate / servers, 1 / inverse
    waits, spare = blocked / (1 - load * (1 - blocked)), servers - rate
    served = math.exp(-within)
    both = (1 + within) * served if abs(spare - 1) < 1e-9 else (spare * served - math.exp(-spare * within)) / (spare - 1)
    return (1 - waits) * served + waits * both


def capacity(queue: Queue) -> float:
    return TRUTH[queue] if queue.service != "M" else root(lambda rate: closed_form(queue.servers, rate, queue.within), queue, 60)


def root(missed: Callable[[float], float], queue: Queue, halvings: int) -> float:
    low, high = 1e-6, float(queue.servers)
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if missed(middle) < 1 - queue.attain else (low, middle)
    return low


def simulated_root(queue: Queue, requests: int) -> float:
    """The same random numbers at all rates, so the share rises with the rate."""
    return root(lambda rate: 1 - simulate(queue, rate, requests, np.random.default_rng(7))[requests // 100 :].mean(), queue, 14)


def bisection(measure: Callable[[float, int], NDArray[np.bool_]], queue: Queue, start: float, requests: int) -> tuple[float, float]:
    """Doubles until the answer turns, then halves; one run decides, its first tenth left out."""
    low, high, rate, each = 0.0, math.inf, start, requests // RATES
    for _ in range(RATES):
        good = measure(rate, each)[each // 10 :].mean() >= queue.attain
        low, high = (rate, high) if good else (low, rate)
        rate = 2 * low if high == math.inf else math.sqrt(low * high) if low else high / 2
    return low, high


def row(queue: Queue, searches: int, requests: int, seed: int) -> tuple[list[tuple[bool, float]], list[tuple[bool, float]], int, int]:
    """(holds the truth, width as a share of it) of each search, of bisection; most rates and requests that a search took."""
    truth, ours, theirs, rates, most = capacity(queue), [], [], 0, 0
    for number in range(searches):
        rng = np.random.default_rng((seed, QUEUES.index(queue), number))
        start = truth * 2.0 ** rng.uniform(-4, 2)

        def measure(rate: float, count: int, rng: np.random.Generator = rng) -> NDArray[np.bool_]:
            return simulate(queue, rate, count, rng)

        answer = search(measure, CapacityOptions(attain=queue.attain, start=start, requests=requests, rates=RATES))
        low, high = answer.known_good or 0.0, answer.known_bad or math.inf
        ours.append((low <= truth <= high, (high - low) / truth))
        low, high = bisection(measure, queue, start, requests)
        theirs.append((low <= truth <= high, (high - low) / truth))
        rates, most = max(rates, len(answer.evidence)), max(most, answer.requests)
    return ours, theirs, rates, most


def line(name: str, ours: list[tuple[bool, float]], theirs: list[tuple[bool, float]]) -> str:
    def cells(results: list[tuple[bool, float]]) -> str:
        return f"{np.mean([held for held, _ in results]):7.1%} {np.median([width for _, width in results]):8.1%}"

    return f"{name:32} {len(ours):5} {cells(ours)}   {cells(theirs)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--searches", type=int, default=400, help="of each attainment, shared out among its queues")
    parser.add_argument("--requests", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=float, help="attainment")
    parser.add_argument("--truth", type=int, metavar="REQUESTS")
    options = parser.parse_args()
    if options.truth:
        for queue in TRUTH:
            print(f"{queue!r}: {simulated_root(queue, options.truth):.5f}")
        return
    began = time.perf_counter()
    print(f"{options.requests} requests and {RATES} rates at most, seed {options.seed}, nominal {CONFIDENCE:.0%}")
    print(f"{'':32} count   holds    width   bisection holds, width")
    for attain in sorted({queue.attain for queue in QUEUES} if options.only is None else {options.only}):
        queues, ours, theirs = [queue for queue in QUEUES if queue.attain == attain], [], []
        for queue in queues:
            mine, other, rates, most = row(queue, -(-options.searches // len(queues)), options.requests, options.seed)
            print(line(queue.name, mine, other) + f"   rates ≤ {rates}, requests ≤ {most}", flush=True)
            ours, theirs = ours + mine, theirs + other
        print(line(f"all at {attain:.0%}", ours, theirs))
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
