"""A call whose host part rules, as it is shown: the graph's value with the eager time beside it, or the host's rate with a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.core.analysis import rows as tables
from hotlap.core.measure import host_bound
from hotlap.core.measure.targets.base import Prepared, Timing
from hotlap.core.record import Case, Check, Device, MeasureOptions, Plan, Row, RunRecord, Samples
from hotlap.core.show import notices
from hotlap.core.show.sections import method
from hotlap.core.store.bundle import Bundle
from hotlap.core.where import Machine
from hotlap.core.work import find

GPU = Device(target="torch", index=0, name="GPU", kind="gpu", uuid="GPU-0")
CASE = Case(workload="gemm", params=find("gemm").parse({"m": 64, "n": 64, "k": 64, "dtype": "fp32"}))


class _Waits:
    """A device that waits for its host, and records graphs or not."""

    device = GPU

    def __init__(self, graphs: bool) -> None:
        self.features = frozenset({"graph"} if graphs else ())

    def time(self, enqueue: object, calls: int, graph: bool = False) -> Timing:
        return Timing(8.1e-6 * calls, 8.2e-6 * calls, 8e-6 * calls)


def _row(graphs: bool) -> Row:
    """What the loop keeps of such a call, in a run."""
    prepared = Prepared(lambda _: None, lambda: Check(passed=True, what=""), capture=True)
    found = host_bound.way(_Waits(graphs), prepared, lambda _: (100, _Waits(graphs).time(None, 100)), 0.0)  # type: ignore[arg-type]
    samples = [
        Samples(
            case=CASE.id, device=GPU.key, round=n, values=[2e-6] * 5, method="event-graph" if found.prepared.graph else "event-batch",
            eager_s=found.eager_s, notices=list(found.notices),
        )
        for n in range(6)
    ]
    run = RunRecord(
        id="r", began="2026-11-01T00:00:00+00:00", ended="2026-11-01T00:01:00+00:00", hotlap="0.2.0", plan=Plan(name="p", cases=[CASE], measure=MeasureOptions()), target="torch:cuda",
        devices=[GPU.key], machine=Machine(host="h", devices=[GPU]),
    )
    (row,) = tables.rows(Bundle(run, Path("nowhere"), samples))
    return row


@pytest.mark.parametrize(
    ("graphs", "severity", "seen"),
    [(True, "info", "the value is of a recorded graph of calls"), (False, "warning", "no graph is recorded (this target records no graphs)")],
)
def test_the_notice_has_the_eager_time_and_says_whose_rate_the_value_is(graphs: bool, severity: str, seen: str) -> None:
    row = _row(graphs)
    (notice,) = [one for one in notices.find([row]) if one.code == "host_bound"]
    assert notice.severity == severity
    assert "a call takes 8.10 µs, 8.00 µs of it for the host" in notice.seen
    assert seen in notice.seen
    assert "record such calls as a graph" in notice.action


def test_the_table_of_methods_has_the_eager_time_where_there_is_one() -> None:
    assert "<th" in method.table([_row(True)])
    assert "Eager" in method.table([_row(True)])
    assert "8.10 µs" in method.table([_row(True)])
    assert "Eager" not in method.table([_row(False)])
