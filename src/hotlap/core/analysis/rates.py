"""Rates beside a time: bytes, operations and items per second of one call."""

from __future__ import annotations

import re
import statistics

from hotlap.core import work
from hotlap.core.record import Result
from hotlap.core.timing import AGGREGATE

UNITS = {"bytes_per_second": "B/s", "flop_per_second": "FLOP/s", "operations_per_second": "OP/s", "items_per_second": "1/s"}
FLOATING = re.compile(r"(fp|bf|tf)\d")


def rates(result: Result) -> dict[str, float]:
    """By name of UNITS. Of a Python callable: the work that was given over the median time; of an import: what its file says. Else {}."""
    if result.metric != "time" or not result.values or result.too_short:
        return {}
    if result.imported:
        known = metrics(result)
        return {name: known[name] for name in UNITS if name in known}
    if work.traits(result.case.workload).source != "python":
        return {}
    asked, time_s = work.find(result.case.workload).work(result.case.params), statistics.median(result.values)
    does = {"bytes_per_second": asked.read_bytes + asked.written_bytes}
    for unit, operations in asked.operations.items():
        does["flop_per_second" if FLOATING.search(unit) else "operations_per_second"] = operations
    return {name: amount / time_s for name, amount in does.items() if amount}


def is_aggregate(result: Result) -> bool:
    """Whether its number is one aggregate of samples that were not kept."""
    return len(result.used) == 1 and result.used[0].method.startswith(AGGREGATE)


def metrics(result: Result) -> dict[str, float]:
    """Other numbers that were kept with the samples: the median over rounds that have each."""
    names = dict.fromkeys(name for one in result.used for name in one.metrics)
    return {name: statistics.median(one.metrics[name] for one in result.used if name in one.metrics) for name in names}
