"""Verdicts on runs of many devices: one screen and one page; and what is said of disturbed rounds and of a lowered power limit."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import msgspec
import pytest
from judging import H200, make
from msgspec.structs import replace

from hotlap.core.analysis import power_limit, standards, verdicts
from hotlap.core.analysis import rows as tables
from hotlap.core.analysis.noticed import codes
from hotlap.core.analysis.reference import AgainstBaseline
from hotlap.core.record import Judgement, Notice, Readings, Verdict
from hotlap.core.show import ci, judgements, junit, listing, notices, text
from hotlap.core.store import baselines
from hotlap.core.store.bundle import Bundle

RULES = standards.AgainstRules("rules.toml", (standards.Rule(why="section 3.2", where={"workload": "stream"}, at_least="1 TB/s"),))


def judged(count: int, slow: int) -> tuple[list[Judgement], dict[str, str]]:
    """Runs of a host each; copies of the first `slow` are 20 % slower."""
    found, hosts = [], {}
    for node in range(count):
        bundle = make({"copy": [1.25e-3 if node < slow else 1e-3] * 6}, day=node, host=f"node{node:03}")
        found.append(verdicts.judge(bundle.run.id, tables.rows(bundle), RULES))
        hosts[bundle.run.id] = bundle.run.machine.host
    return found, hosts


def test_many_runs_are_one_screen_with_the_worst_by_name() -> None:
    found, hosts = judged(200, 2)
    assert judgements.are_many(found)
    printed = judgements.judgements(found, hosts, 100)
    assert len(printed.splitlines()) < 40
    assert printed.startswith("200 runs of 200 hosts, 200 devices, 1 case\n")
    assert printed.index("✗ node000") < printed.index("✓ node")
    assert "✗ node001" in printed
    assert "✗ node002" not in printed
    assert "section 3.2" in printed
    assert printed.splitlines()[-1] == "FAIL  against rules rules.toml: 2 of 200 devices fail, 198 pass"


def test_more_bad_devices_than_a_screen_holds_are_counted_and_the_page_names_them() -> None:
    found, hosts = judged(40, 30)
    assert "… and 32 more (22 fail, 10 pass); --json or --out FILE has all" in judgements.judgements(found, hosts, 100)
    page = judgements.page_of(found, hosts)
    assert "node029" in page
    assert "Devices, the worst first" in page
    assert "section 3.2" in page
    assert page.count('"run":') == 40


def test_the_page_of_what_passes_has_thresholds_values_and_the_runs() -> None:
    found, hosts = judged(12, 0)
    page = judgements.page_of(found, hosts)
    assert "Cases, all of which passed" in page
    assert "1.00 TB/s" in page  # the threshold
    assert "What it rests on" in page
    assert found[0].run in page.partition("What it rests on")[2]
    assert "section 3.2" in page
    failing = judgements.page_of(*judged(12, 1))
    assert "Cases that did not pass everywhere" in failing
    assert "all of which passed" not in failing


def test_of_devices_that_none_can_judge_those_with_most_open_cases_come_first() -> None:
    """As a share of the limit of cases in cache: no ratio is known, and the first by number is not the worst."""
    found, hosts = judged(12, 0)
    open_row = Verdict(state="inconclusive", reason="no limit is known", against="limit")
    made = []
    for place, one in enumerate(found):
        (row,) = one.rows
        passing = [replace(row, label=f"case {n}") for n in range(3)]
        opened = 3 if place == 7 else 1
        rows = [replace(each, verdict=open_row if n < opened else each.verdict) for n, each in enumerate(passing)]
        made.append(replace(one, rows=rows, state="inconclusive"))
    printed = judgements.judgements(made, hosts, 100)
    first = next(line for line in printed.splitlines() if line.lstrip().startswith("?"))
    assert "node007" in first


def test_runs_of_one_device_are_told_apart_by_their_ids_and_few_keep_a_block_each() -> None:
    runs = [make({"copy": [1e-3] * 6}, day=day) for day in range(12)]
    found = [verdicts.judge(one.run.id, tables.rows(one), RULES) for one in runs]
    printed = judgements.judgements(found, {one.run.id: "node1" for one in runs}, 120)
    assert f"✓ node1 {runs[0].run.id} " in printed
    assert printed.startswith("12 runs of 1 host, 1 device, 1 case\n")
    assert not judgements.are_many(found[:8])


def of_devices(count: int, slow: int) -> Bundle:
    """One run on several devices with a little noise; copies of the last `slow` are 20 % slower."""
    devices = [replace(H200, index=n, uuid=f"GPU-{n}") for n in range(count)]
    parts = [
        make({name: [base * (1 + 0.001 * ((n * 7 + k * 3) % 5)) * (1.25 if n >= count - slow and name == "copy" else 1) for k in range(6)]
              for name, base in (("copy", 6e-4), ("gemm", 2e-3))}, device=device)
        for n, device in enumerate(devices)
    ]  # fmt: skip
    run = replace(parts[0].run, devices=[one.key for one in devices], machine=replace(parts[0].run.machine, devices=devices))
    return dataclasses.replace(parts[0], run=run, samples=[one for part in parts for one in part.samples])


def test_the_verdict_on_one_run_of_a_pallet_counts_devices() -> None:
    """A page said `FAIL 1 runs: 1 fail`, where 3 of 40 devices failed."""
    bundle = of_devices(40, 3)
    rules = standards.AgainstRules("r.toml", (standards.Rule(why="3.2", where={"workload": "stream"}, at_least="1.6 TB/s"),))
    one = verdicts.judge(bundle.run.id, tables.rows(bundle), rules)
    assert one.reason == "3 of 40 devices fail, 37 pass; cases: 37 pass, 3 fail, 40 not judged"
    assert "| fail | `GPU-39` | `stream copy fp32 1 GiB` |" in ci.markdown([one])
    assert ci.workflow_commands([one], ci.PlanFile()).count("::GPU-3") == 3
    assert ci.codequality([one], ci.PlanFile()).count(": GPU-3") == 3
    page = judgements.page_of([one], {})
    assert "against rules r.toml: 3 of 40 devices fail, 37 pass." in page
    assert "1 run of 1 host, 40 devices, 2 cases" in page


def test_devices_that_agree_are_one_block_per_case() -> None:
    bundle = of_devices(8, 0)
    printed = text.explained_devices(bundle, tables.rows(bundle), 100)
    assert "no device differs from the others by more than chance" in printed
    assert printed.count("  stream copy fp32 1 GiB  ") == 1
    assert " on 8 devices" in printed
    assert f"hotlap explain {bundle.run.id} --all" in printed
    assert f"hotlap explain {bundle.run.id} --device GPU-0" in printed


def test_a_device_that_differs_has_a_block_of_its_own_under_its_name() -> None:
    bundle = of_devices(8, 1)
    printed = text.explained_devices(bundle, tables.rows(bundle), 100)
    assert "✗ GPU-7" in printed
    assert "\n  GPU-7\n  stream copy fp32 1 GiB" in printed
    assert "✗ GPU-6" not in printed
    assert "no device differs" not in printed


def test_devices_too_few_to_be_compared_are_explained_under_their_names() -> None:
    bundle = of_devices(2, 0)
    lines = text.explained_devices(bundle, tables.rows(bundle), 100).splitlines()
    assert [line for line in lines if line.startswith("GPU-")] == ["GPU-0", "GPU-1"]
    assert text.explain(tables.rows(bundle), 100).splitlines() == lines


@pytest.mark.parametrize(("limit_w", "code"), [(400.0, "limit_lowered"), (700.0, "power_cap"), (None, "power_cap")])
def test_a_cap_below_the_cards_own_limit_is_a_finding_and_at_it_is_normal(limit_w: float | None, code: str) -> None:
    capped = [Notice("throttled", "software power cap", shares={"software power cap": 1.0})]
    bundle = make({"gemm": [2e-3] * 6})
    samples = [replace(one, notices=capped) for one in bundle.samples]
    readings = [Readings(sensor="power_limit_w", device=H200.key, times_s=[1.0], values=[limit_w])] if limit_w else []
    (row,) = tables.rows(dataclasses.replace(bundle, samples=samples, readings=readings))
    assert [one for one in codes(row) if one in ("limit_lowered", "power_cap", "throttled")] == [code]
    (found,) = (one for one in notices.find([row]) if one.code == code)
    if code == "limit_lowered":
        assert found.seen.startswith("400 W in force, 700 W in the machine table; it held the clock in 100 % of the readings")
        assert (found.action, found.severity) == (power_limit.RAISE, "warning")
        assert ("power limit lowered", f"{found.seen} → {power_limit.RAISE}") in notices.notes(row)
    else:
        assert "raise the limit" not in found.action


def test_a_limit_that_holds_nothing_is_no_notice() -> None:
    (row,) = tables.rows(make({"gemm": [2e-3] * 6}))
    assert power_limit.noticed(row.result, 400.0, 700.0) is row.result


def test_a_baseline_of_disturbed_rounds_is_named_and_so_are_a_programs_own_numbers() -> None:
    quiet, busy = make({"copy": [1e-3] * 6}), make({"copy": [1e-3] * 6}, day=1)
    busy = dataclasses.replace(busy, samples=[replace(one, disturbed=0.6) for one in busy.samples])
    (row,) = tables.rows(busy)
    assert "busy" in codes(row)
    assert "shared_device" in [one.code for one in row.result.notices]
    assert "busy" not in codes(tables.rows(quiet)[0])
    for bundle, count in ((quiet, 0), (busy, 1)):
        beside = []
        baseline = baselines.learn("b", [bundle], beside=beside)
        assert len(beside) == count
    said = listing.disturbed(beside, baseline)
    assert said.startswith("other programs ran while 1 of 1 case (stream copy fp32 1 GiB) was measured")
    assert "measure again on a quiet machine, and save it anew with --replace" in said


def test_counts_of_one_are_singular() -> None:
    known = baselines.learn("b", [make({"copy": [1e-3]})])
    row = tables.rows(make({"copy": [1e-3]}, day=1))
    (verdict,) = AgainstBaseline(known, make({"copy": [1e-3]}).run.machine).judge(row)
    assert verdict.reason.startswith("1 round here, 1 in 1 run of this device: each needs at least 4")


@pytest.mark.parametrize("reason", ["software power cap", "hardware thermal"])
def test_a_brake_that_holds_some_rounds_comes_before_what_it_causes_and_more_rounds_are_not_advised(reason: str) -> None:
    bundle = make({"gemm": [1e-3] * 3 + [1.25e-3] * 3})
    held = Notice("throttled", reason, shares={reason: 1.0})
    samples = [replace(one, notices=[held], clocks_hz=[1.5e9]) if one.round > 2 else replace(one, clocks_hz=[1.9e9]) for one in bundle.samples]
    plan = replace(bundle.run.plan, measure=replace(bundle.run.plan.measure, precision=0.05))
    (row,) = tables.rows(dataclasses.replace(bundle, samples=samples, run=replace(bundle.run, plan=plan)))
    assert row.verdict.state == "inconclusive"
    assert row.verdict.action == power_limit.LASTING
    assert codes(row)[0] == ("power_cap" if "power" in reason else "throttled")
    assert not {"noise", "clock_varied"} & set(codes(row))
    first = notices.find([row])[0]
    assert (first.code, first.severity) == (codes(row)[0], "warning")
    assert "nothing" not in first.action
    assert "governor" not in text.table([row], 200)


def test_reports_for_ci_of_many_hosts_that_call_their_device_alike_name_the_hosts() -> None:
    found, hosts = judged(40, 2)
    placed = judgements.placed(found, hosts)
    markdown = ci.markdown(placed)
    assert markdown.count("### hotlap gate") == 1
    assert markdown.startswith("### hotlap gate: FAIL")
    assert "2 of 40 devices fail, 38 pass over 40 runs" in markdown
    assert "node000" in markdown
    assert "node002" not in markdown  # it passed
    lines = ci.workflow_commands(placed, ci.PlanFile()).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["::error", "::error", "::notice"]
    assert all(name in line for name, line in zip(("node000", "node001", "2 of 40 devices fail"), lines, strict=True))
    names = [line.partition("device=")[2].partition(",")[0] for line in ci.metrics(placed).splitlines() if line.startswith("hotlap_value")]
    assert len(names) == len(set(names)) == 40
    cases = ElementTree.fromstring(junit.junit(placed)).findall(".//testcase")
    assert len({case.get("classname") for case in cases}) == 40
    assert [case.get("classname") for case in cases if case.find("failure") is not None] == ["stream.node000", "stream.node001"]
    issues = msgspec.json.decode(ci.codequality(placed, ci.PlanFile()))
    assert len({one["fingerprint"] for one in issues}) == 2


def test_reports_of_devices_with_names_of_their_own_keep_them() -> None:
    found, hosts = judged(1, 0)
    assert judgements.placed(found, hosts) == found
