"""Calls that the host enqueues more slowly than the device works them off: one by one they show the host's rate, not the device's.

Such a case is measured from a recorded graph of its calls, and the time of calls enqueued one by one stands beside it. The first
round decides, and later rounds of the run follow it, so that all values of a case are of one kind.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from typing import NamedTuple

from hotlap.core.errors import MachineError, NotSupported
from hotlap.core.measure.targets.base import Prepared, Target, Timing
from hotlap.core.measure.targets.sticky import sticky
from hotlap.core.record import Notice
from hotlap.core.units import show

CODE = "host_bound"
HOST_SHARE = 0.9  # of a batch's time on the device: from there on the device waited for the host
COLD_SHARE = 0.1  # of a single call's, where the device was idle before the call came
LOOKS = 3  # batches that decide, by their majority: others may hold the host up once

Size = Callable[[Prepared], tuple[int, Timing | None]]
"""Calls in a batch, and the last timing of so many; None where none was needed."""


class Way(NamedTuple):
    """How a case is timed in this round."""

    prepared: Prepared
    calls: int
    eager_s: float | None = None  # of a call enqueued by itself, where `prepared` is timed from a graph because of that
    notices: tuple[Notice, ...] = ()


def rules(target: Target, prepared: Prepared, timing: Timing) -> bool:
    """Whether the host's part decided how long the batch took."""
    if target.device.kind != "gpu" or prepared.timer != "device" or prepared.graph or prepared.host_part:
        return False
    if timing.host_s is None or timing.device_s is None:
        return False
    return timing.host_s > (HOST_SHARE if prepared.flush is None else COLD_SHARE) * timing.device_s


def timed(target: Target, prepared: Prepared, calls: int, count: int = 1) -> list[Timing]:
    """Batches, each after what empties the caches where the case has it and the device takes it in one go."""
    ahead = in_one_go(target, prepared)
    if ahead is None:
        return [target.time(prepared.enqueue, calls, prepared.graph) for _ in range(count)]
    return [target.time(prepared.enqueue, calls, prepared.graph, ahead) for _ in range(count)]


def in_one_go(target: Target, prepared: Prepared) -> Callable[[], None] | None:
    """What goes ahead of each batch without a wait between."""
    return prepared.flush if "ahead" in target.features else None


def way(target: Target, prepared: Prepared, size: Size, cost_s: float, method: str = "") -> Way:
    """`cost_s`: of timing nothing, by the device. `method`: of the run's first round, where there was one: it is kept to."""
    calls, last = size(prepared)
    if last is None and "ahead" in target.features:
        (last,) = timed(target, prepared, calls)
    again = method.endswith("-graph") and not prepared.graph
    if not again and (last is None or not rules(target, prepared, last)):
        return Way(prepared, calls)
    looks = timed(target, prepared, calls, LOOKS)
    if not again and 2 * sum(rules(target, prepared, one) for one in looks) <= LOOKS:
        return Way(prepared, calls)
    eager_s = max(statistics.median(one.device_s or 0.0 for one in looks) - cost_s, 0.0) / calls
    host_s = statistics.median(one.host_s or 0.0 for one in looks) / calls
    seen = f"a call takes {show(eager_s, 's')}, {show(host_s, 's')} of it for the host to enqueue it, and the device waits"
    why = "" if prepared.capture else "this workload is not recorded"
    if method and not again:
        why = "the first round was not recorded"
    if not why:
        recorded = dataclasses.replace(prepared, graph=True)
        why = _refused(target, recorded)
        if not why:
            graph_calls, _ = size(recorded)
            graph_calls = max(graph_calls, prepared.rotation) if prepared.flush is None else graph_calls
            return Way(recorded, graph_calls, eager_s, (Notice(CODE, f"{seen}; the value is of a recorded graph of calls"),))
    if again:
        raise NotSupported(f"the first round was measured from a recorded graph, and now {why}")
    return Way(prepared, calls, None, (Notice(CODE, f"{seen}; no graph is recorded ({why}), and the value is the host's rate"),))


def _refused(target: Target, recorded: Prepared) -> str:
    """Why no graph of it can be recorded; "" where one can. A capture fails in as many ways as there are libraries."""
    if "graph" not in target.features:
        return "this target records no graphs"
    try:
        target.time(recorded.enqueue, recorded.multiple, graph=True)
    except MachineError:
        raise
    except Exception as error:
        if sticky(error):
            raise
        return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    return ""
