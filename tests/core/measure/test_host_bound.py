"""Who decides how long a call takes, host or device: on a scripted GPU whose host needs a time of its own for each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from scripting import CASE, TICK, opened, steps

from hotlap.core.errors import MachineError, NotSupported
from hotlap.core.measure import host_bound, loop
from hotlap.core.measure.loop import CaseBudget, Overhead
from hotlap.core.measure.protocol import CaseChoice
from hotlap.core.measure.targets.base import Enqueue, Prepared, Timing
from hotlap.core.measure.targets.scripted import ScriptedTarget
from hotlap.core.record import Check, Device, Samples

HOST, CALL, FLUSH = TICK / 16, TICK / 64, TICK  # seconds that the host, the device and the flush take
NOTHING = Overhead(0.0, 0.0)


@dataclass
class Costs:
    """Seconds a call takes host and device, and what a recorded graph of calls costs to launch."""

    host_s: float = HOST
    call_s: float = CALL
    launch_s: float = TICK / 32
    refuses: Exception | None = None  # when a graph is recorded


class HostAndDevice(ScriptedTarget):
    """A host that enqueues and a device that works off what is there, each at its own rate, in the order given."""

    def __init__(self, costs: Costs, kind: Any = "gpu", ahead: bool = True) -> None:
        base = opened(steps(1.0), kind=kind)
        super().__init__(Device(target="scripted", index=0, name="script", kind=kind), base.script)
        self.costs, self.done_s, self.graphs = costs, 0.0, 0
        self.log: list[str] = []
        if ahead:
            self.features = ScriptedTarget.features | {"ahead"}

    def flush(self) -> None:
        self.log.append("flush")
        self.clock.sleep(self.costs.host_s)
        self.done_s = max(self.done_s, self.clock.now()) + FLUSH

    def sync(self, event: bool = False) -> None:
        self.log.append("wait")
        self.clock.sleep(self.done_s - self.clock.now())

    def time(self, enqueue: Enqueue, calls: int, graph: bool = False, ahead: Any = None) -> Timing:
        if graph and self.costs.refuses:
            raise self.costs.refuses
        self.graphs += graph
        began_s = self.clock.now()
        self.done_s = max(self.done_s, began_s)
        first_s = self.done_s
        if ahead is not None:
            ahead()
        launched_s, start_s = self.clock.now(), max(self.done_s, self.clock.now())
        self.done_s = start_s
        for _ in range(1 if graph and calls else calls):
            self.clock.sleep(self.costs.launch_s if graph else self.costs.host_s)
            self.done_s = max(self.done_s, self.clock.now()) + self.costs.call_s * (calls if graph else 1)
        self.log.append("call")
        host_s = 0.0 if ahead is not None and start_s >= self.clock.now() else self.clock.now() - launched_s
        self.clock.sleep(self.done_s - self.clock.now())
        whole_s = self.done_s - first_s if ahead is not None else None
        return Timing(self.done_s - start_s, self.clock.now() - began_s, host_s, whole_s)


def prepared(target: HostAndDevice, cold: bool = False, **change: Any) -> Prepared:
    given = {"capture": True, **change}
    return Prepared(lambda _: None, lambda: Check(passed=True, what=""), flush=target.flush if cold else None, **given)


def measured(target: HostAndDevice, one: Prepared, choice: CaseChoice | None = None) -> Samples:
    budget = CaseBudget(seconds=64 * TICK, choice=choice or CaseChoice())
    return loop.time_prepared(target, one, budget, Samples(case=CASE.id, device="d", round=0), NOTHING)


def codes(samples: Samples) -> list[str]:
    return [notice.code for notice in samples.notices]


# ---------------------------------------------------------------- batches


def test_a_call_that_waits_for_the_host_has_the_graphs_value_and_the_eager_one_beside_it() -> None:
    target = HostAndDevice(Costs())
    samples = measured(target, prepared(target))
    assert samples.method == "event-graph"
    assert samples.values == pytest.approx([CALL + TICK / 32 / samples.calls] * len(samples.values))
    assert samples.eager_s == pytest.approx(HOST, rel=0.2)
    (notice,) = [one for one in samples.notices if one.code == "host_bound"]
    assert "recorded graph" in notice.seen
    assert samples.status == "measured"


def test_a_graphs_batch_is_sized_by_itself() -> None:
    """As many calls as the eager batch had would be a quarter of the shortest sample, and less than a round over all inputs."""
    target = HostAndDevice(Costs())
    assert measured(target, prepared(target)).calls * CALL >= loop.SHORTEST_S
    assert measured(target, prepared(target, rotation=4096)).calls == 4096


@pytest.mark.parametrize(("host_s", "bound"), [(CALL / 2, False), (CALL * 0.85, False), (CALL * 1.05, True)])
def test_the_device_waits_where_the_host_takes_nine_tenths_of_its_time(host_s: float, bound: bool) -> None:
    target = HostAndDevice(Costs(host_s=host_s))
    samples = measured(target, prepared(target))
    assert ("host_bound" in codes(samples)) is bound
    assert samples.method == ("event-graph" if bound else "event-batch")
    assert (samples.eager_s is not None) is bound


@pytest.mark.parametrize(
    ("costs", "change", "why"),
    [
        (Costs(refuses=NotSupported("operation not permitted when stream is capturing")), {}, "not permitted when stream is capturing"),
        (Costs(refuses=ValueError("\n")), {}, "ValueError"),
        (Costs(), {"capture": False}, "this workload is not recorded"),
    ],
)
def test_without_a_graph_the_eager_time_is_shown_and_flagged(costs: Costs, change: Any, why: str) -> None:
    target = HostAndDevice(costs)
    samples = measured(target, prepared(target, **change))
    assert (samples.method, samples.eager_s, target.graphs) == ("event-batch", None, 0)
    assert samples.values == pytest.approx([HOST] * len(samples.values), rel=0.1)
    (notice,) = [one for one in samples.notices if one.code == "host_bound"]
    assert why in notice.seen
    assert "the host's rate" in notice.seen


def test_a_device_lost_while_recording_ends_the_run() -> None:
    for lost in (MachineError("gone"), RuntimeError("CUDA error: an illegal memory access was encountered")):
        target = HostAndDevice(Costs(refuses=lost))
        with pytest.raises(type(lost)):
            measured(target, prepared(target))


@pytest.mark.parametrize("change", [{"timer": "wall"}, {"host_part": True}, {"graph": True}])
def test_cases_whose_host_part_is_meant_are_left_alone(change: Any) -> None:
    target = HostAndDevice(Costs())
    samples = measured(target, prepared(target, **change))
    assert "host_bound" not in codes(samples)
    assert samples.eager_s is None


def test_a_processor_is_its_own_host() -> None:
    target = HostAndDevice(Costs(), kind="cpu")
    assert measured(target, prepared(target)).method == "event-batch"


def test_one_delay_of_the_host_decides_nothing() -> None:
    """A host that was held up while the batch was sized is looked at three times more."""
    target = HostAndDevice(Costs(host_s=CALL / 4))
    late = Timing(1.0, 1.0, 1.0)
    found = host_bound.way(target, prepared(target), lambda _: (64, late), 0.0)
    assert (found.prepared.graph, found.notices) == (False, ())


# ---------------------------------------------------------------- later rounds


def test_later_rounds_keep_to_what_the_first_one_chose() -> None:
    fast = HostAndDevice(Costs(host_s=CALL / 4))
    again = measured(fast, prepared(fast), CaseChoice(method="event-graph"))
    assert (again.method, again.eager_s is None) == ("event-graph", False)
    slow = HostAndDevice(Costs())
    kept = measured(slow, prepared(slow), CaseChoice(method="event-batch"))
    assert (kept.method, slow.graphs, codes(kept)[:1]) == ("event-batch", 0, ["host_bound"])
    assert "first round" in kept.notices[0].seen


def test_a_later_round_that_records_no_graph_has_no_number() -> None:
    target = HostAndDevice(Costs(refuses=NotSupported("no longer")))
    with pytest.raises(NotSupported, match="recorded graph, and now no longer"):
        measured(target, prepared(target), CaseChoice(method="event-graph"))


# ---------------------------------------------------------------- cold


def test_a_cold_call_is_enqueued_behind_its_flush_in_one_go() -> None:
    """The host's part of a call passes while the device still empties the caches: none of it is in the time."""
    target = HostAndDevice(Costs())
    samples = measured(target, prepared(target, cold=True))
    assert (samples.method, samples.calls, samples.status) == ("event-queued-single", 1, "measured")
    assert samples.values == pytest.approx([CALL] * len(samples.values))
    assert samples.wall_ratio == pytest.approx(1.0, abs=0.1)
    assert "wait" not in target.log
    assert target.log[:2] == ["flush", "call"]
    assert codes(samples) == []


def test_a_target_without_that_waits_for_its_flush() -> None:
    target = HostAndDevice(Costs(), ahead=False)
    samples = measured(target, prepared(target, cold=True))
    assert (samples.method, target.log[:3]) == ("event-single", ["flush", "wait", "call"])
    assert samples.values == pytest.approx([HOST + CALL] * len(samples.values))


def test_a_cold_call_whose_host_part_outlasts_the_flush_comes_from_a_graph_or_is_flagged() -> None:
    slow = Costs(host_s=2 * FLUSH)
    target = HostAndDevice(slow)
    samples = measured(target, prepared(target, cold=True))
    assert (samples.method, codes(samples)[:1]) == ("event-queued-graph", ["host_bound"])
    assert samples.values == pytest.approx([CALL] * len(samples.values))
    assert samples.eager_s == pytest.approx(FLUSH + CALL)
    plain = HostAndDevice(slow)
    assert codes(measured(plain, prepared(plain, cold=True, capture=False)))[:1] == ["host_bound"]
