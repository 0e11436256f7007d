"""The page of a plan that has every workload: whatever a limit is made of, it can be written down."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hotlap.core import plan as plans
from hotlap.core import work
from hotlap.core.analysis import rows as tables
from hotlap.core.measure import session
from hotlap.core.record import MeasureOptions, Plan
from hotlap.core.show import report
from hotlap.core.store import bundle as bundles

NAMES = [name for name, kind in work.WORKLOADS.items() if kind.counted]


@pytest.mark.slow("a round of every workload, simulated")
def test_a_report_of_every_workload_is_written(tmp_path: Path) -> None:
    cases = [plans.case(name, {"size": "64 MiB"} if any(p.name == "size" for p in work.find(name).params) else {}) for name in NAMES]
    options = MeasureOptions(rounds=1, rounds_max=1, round_s=0.1 * len(cases), seed=3)
    path = session.run(
        Plan(name="every", cases=cases, measure=options), session.SessionOptions("simulated:h200-sxm", home=tmp_path), lambda *_: None
    )
    bundle = bundles.load(path)
    rows = tables.rows(bundle)
    assert {row.result.case.workload for row in rows} == set(NAMES)
    for row in rows:
        msgspec.json.encode(row)  # names the workload where it fails
    shown = report.render([(bundle, rows)])
    assert '"workload":"moe"' in shown
    assert "</html>" in shown
