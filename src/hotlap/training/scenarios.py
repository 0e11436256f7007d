"""Our own load generator: the five scenarios on any function that answers samples, timed by a monotonic clock.

A latency counts from when a query was due: of `server` its drawn time, whenever it was sent; else when the one before it had ended.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hotlap.training.loadgen_rules import PER_QUERY, RunRules

MOST_QUERIES = 2_000_000
Answer = Callable[[int, int], None]  # first sample, how many: returns once all are answered


class ScenarioTimes(NamedTuple):
    """What a scenario took. `issued_s`: to when the last query was issued, or due; of offline the whole time."""

    latencies_s: list[float]
    samples: int
    wall_s: float
    issued_s: float


class ScenarioLoad(NamedTuple):
    """What a scenario needs beside its rules."""

    rate: float = 1.0  # of server: queries a second; of offline: samples a second that are expected
    clients: int = 1
    seed: int = 0


def run(answer: Answer, rules: RunRules, load: ScenarioLoad) -> ScenarioTimes:
    """One scenario, to its end."""
    if rules.scenario == "offline":
        return _offline(answer, rules, load)
    if rules.scenario == "server":
        return _server(answer, rules, load)
    if rules.scenario == "closed":
        return _closed(answer, rules, load)
    return _one_by_one(answer, rules, PER_QUERY if rules.scenario == "multi" else 1)


def _one_by_one(answer: Answer, rules: RunRules, size: int) -> ScenarioTimes:
    latencies, began = list[float](), time.perf_counter()
    now = issued = began
    while len(latencies) < MOST_QUERIES and (issued - began < rules.min_s or len(latencies) < rules.min_queries):
        issued = now
        answer(len(latencies) * size, size)
        now = time.perf_counter()
        latencies.append(now - issued)
    return ScenarioTimes(latencies, len(latencies) * size, now - began, issued - began)


def offline_samples(rules: RunRules, rate: float) -> int:
    """As LoadGen: a tenth more than are expected within the least time (kSlack of test_settings_internal.cc)."""
    return min(max(rules.min_queries, int(1.1 * rules.min_s * rate), 1), MOST_QUERIES)


def _offline(answer: Answer, rules: RunRules, load: ScenarioLoad) -> ScenarioTimes:
    samples, began = offline_samples(rules, load.rate), time.perf_counter()
    answer(0, samples)
    wall_s = time.perf_counter() - began
    return ScenarioTimes([wall_s], samples, wall_s, wall_s)


def due_times(rules: RunRules, load: ScenarioLoad) -> list[float]:
    """Poisson arrivals until the least time has passed and there are enough. The same seed gives the same."""
    random, passed, due = np.random.default_rng(load.seed), 0.0, list[float]()
    while len(due) < MOST_QUERIES and (passed < rules.min_s or len(due) < rules.min_queries):
        passed += float(random.exponential(1 / load.rate))
        due.append(passed)
    return due


def _server(answer: Answer, rules: RunRules, load: ScenarioLoad) -> ScenarioTimes:
    """A thread sends each query when it is due, another answers them in turn: what waits, waits in the queue and in its latency."""
    due_s, waiting = due_times(rules, load), queue.SimpleQueue[int]()
    ended, broken = [0.0] * len(due_s), list[BaseException]()

    def work() -> None:
        try:
            for _ in due_s:
                index = waiting.get()
                answer(index, 1)
                ended[index] = time.perf_counter()
        except BaseException as error:
            broken.append(error)

    worker = threading.Thread(target=work, daemon=True)
    began = time.perf_counter()
    worker.start()
    for index, at_s in enumerate(due_s):
        wait_s = began + at_s - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
        if broken:
            break
        waiting.put(index)
    worker.join()
    if broken:
        raise broken[0]
    latencies = [end - began - at_s for end, at_s in zip(ended, due_s, strict=True)]
    return ScenarioTimes(latencies, len(due_s), max(ended) - began, due_s[-1])


def _closed(answer: Answer, rules: RunRules, load: ScenarioLoad) -> ScenarioTimes:
    """The clients share one engine: a query waits until it is free, as callers of one session do."""
    lock, latencies, broken = threading.Lock(), list[float](), list[BaseException]()
    began = time.perf_counter()
    last = [began]

    def client() -> None:
        try:
            while (asked := time.perf_counter()) - began < rules.min_s or len(latencies) < rules.min_queries:
                last[0] = max(last[0], asked)
                with lock:
                    answer(len(latencies), 1)
                latencies.append(time.perf_counter() - asked)
        except BaseException as error:
            broken.append(error)

    threads = [threading.Thread(target=client, daemon=True) for _ in range(load.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise broken[0]
    wall_s = time.perf_counter() - began
    return ScenarioTimes(latencies, len(latencies), wall_s, wall_s)
