"""From bundle to rows, through the real statistics, model and judge."""

from __future__ import annotations

from dataclasses import replace as changed

import pytest
import report_sample as sample
from msgspec.structs import replace

from hotlap.core.analysis import rows as tables
from hotlap.core.errors import InputError
from hotlap.core.record import Case, Row, Samples
from hotlap.core.store.bundle import Bundle

Kept = tuple[Bundle, list[Row]]


def test_a_row_per_case_in_the_plans_order(cpu: Kept) -> None:
    rows = tables.rows(cpu[0])
    assert [row.case for row in rows] == cpu[0].run.plan.cases
    assert {row.device for row in rows} == {sample.CPU.key}


@pytest.mark.slow("simulates whole runs, and draws them")
def test_rows_of_a_gpu_are_held_against_the_machine_table(gpu: Kept) -> None:
    rows = {row.label: row for row in tables.rows(gpu[0])}
    triad = rows["stream triad fp32 1 GiB"]
    assert triad.gap.reference_kind == "bound"
    assert triad.gap.share == pytest.approx(0.9, abs=0.06)  # 4.31 of 4.8 TB/s, less what the cache may hold
    assert rows["launch single"].gap.share is None


def test_a_number_beyond_its_bound_is_invalid() -> None:
    faster = [changed(seen, value=seen.value * 1.5) for seen in sample.GPU_CASES if seen.workload == "fma"]
    rows = tables.rows(sample.bundle(sample.GPU, faster))
    assert {row.verdict.state for row in rows} == {"invalid"}


def test_where_keeps_some_rows_and_every_ceiling(cpu: Kept) -> None:
    everything = {row.case.id: row for row in tables.rows(cpu[0])}
    some = tables.rows(cpu[0], {"workload": "stream"})
    assert {row.case.workload for row in some} == {"stream"}
    assert all(row.gap == everything[row.case.id].gap for row in some)
    with pytest.raises(InputError):
        tables.rows(cpu[0], {"wrokload": "stream"})


def test_sample_values_are_in_the_metrics_unit(cpu: Kept) -> None:
    for row in cpu[1]:
        for value, samples in zip(row.result.values, tables.sample_values(row.result), strict=True):
            assert min(samples) <= value <= max(samples)


def test_a_workload_of_a_later_version_is_shown_by_its_time(cpu: Kept) -> None:
    later = Case(workload="teleport", params={"size": 3})
    plan = replace(cpu[0].run.plan, cases=[later])
    samples = [
        Samples(case=later.id, device=sample.CPU.key, round=n, values=[1e-3, 1.1e-3, 1.2e-3], method="wall-batch") for n in range(6)
    ]
    (row,) = tables.rows(changed(cpu[0], run=replace(cpu[0].run, plan=plan), samples=samples))
    assert row.summary.median == pytest.approx(1.1e-3)
    assert row.gap.share is None


def test_a_run_without_samples_has_rows_that_say_so(cpu: Kept) -> None:
    rows = tables.rows(changed(cpu[0], samples=[], readings=[]))
    assert {row.verdict.state for row in rows} <= {"not_run"}


def test_a_programs_own_number_is_kept_as_it_is(cpu: Kept) -> None:
    from hotlap.core import work

    given = {"argv": ["./bench"], "read": "pattern", "expression": "([0-9.]+)", "unit": "frames/s", "better": "higher"}
    own = Case(workload="command", params=work.find("command").parse(given))
    samples = [Samples(case=own.id, device=sample.CPU.key, round=n, values=[100.0 + n, 101.0 + n], method="program") for n in range(6)]
    (row,) = tables.rows(changed(cpu[0], run=replace(cpu[0].run, plan=replace(cpu[0].run.plan, cases=[own])), samples=samples))
    assert row.result.unit == "frames/s"
    assert row.summary.median == pytest.approx(103.0)
    assert row.summary.samples == 12
