"""What is said first: figures, findings, doubts, and what to do."""

from __future__ import annotations

from dataclasses import replace as changed

import pytest
import report_sample as sample
from msgspec.structs import replace

from hotlap.core.record import Notice, Row, Stop
from hotlap.core.show import codes, listing, notices, words
from hotlap.core.show.conclusions import MOST_ACTIONS, conclude
from hotlap.core.store.bundle import Bundle

Kept = tuple[Bundle, list[Row]]


@pytest.mark.slow("simulates whole runs, and draws them")
def test_figures_are_the_plateau_and_the_peaks(gpu: Kept) -> None:
    figures = {figure.title: figure.row.label for figure in conclude(*gpu).figures}
    assert figures["Memory bandwidth"] == "stream triad fp32 1 GiB"  # not a cache, which is faster
    assert figures["Arithmetic, fp32"] == "fma fp32"
    assert figures["Matrix product"].startswith("gemm bf16")
    assert figures["Load latency, memory"] == "chase 16 GiB"


@pytest.mark.slow("simulates whole runs, and draws them")
def test_an_invalid_number_is_a_figure_only_where_there_is_no_other(cpu: Kept) -> None:
    rows = [replace(row, verdict=replace(row.verdict, state="invalid")) if row.label == "fma fp32" else row for row in cpu[1]]
    by_title = {figure.title: figure.row for figure in conclude(cpu[0], rows).figures}
    assert by_title["Arithmetic, fp32"].verdict.state == "invalid"
    assert by_title["Memory bandwidth"].verdict.state == "measured", "though an invalid stream has as large a working set"


def test_findings_begin_with_what_cannot_be_used(cpu: Kept) -> None:
    found = conclude(*cpu)
    assert found.verdict == "19 of 21 cases that ran reach the precision asked, ± 5.0 %; 1 inconclusive, 2 not run, 1 invalid."
    severities = [finding.severity for finding in found.findings]
    assert severities[0] == "error"
    assert severities == sorted(severities, key=("error", "warning", "info").index)
    assert len(found.actions) <= MOST_ACTIONS


def test_throttling_is_a_finding_with_something_to_do(gpu: Kept) -> None:
    found = conclude(*gpu)
    throttled = next(f for f in found.findings if "throttled" in f.title)
    assert "gemm bf16" in throttled.title
    assert "software power cap" in throttled.detail
    assert any("cooling" in action for action in found.actions)


def test_the_largest_gap_is_named_with_its_cause(gpu: Kept) -> None:
    finding = next(f for f in conclude(*gpu).findings if "reaches" in f.title)
    assert finding.title.endswith("reaches 75 % of its bound")
    assert "cause: power" in finding.detail


def test_a_ceiling_of_the_run_is_never_called_the_limit_of_the_hardware(cpu: Kept) -> None:
    near = next(f for f in conclude(*cpu).findings if "limit of the hardware" in f.title)
    ids = {row.case.id for row in cpu[1] if row.gap.reference_kind == "ceiling"}
    assert not ids & set(near.cases)


def test_all_measured_says_so(cpu: Kept) -> None:
    rows = [row for row in cpu[1] if row.verdict.state == "measured" and not row.result.notices]
    assert conclude(cpu[0], rows).verdict == f"All {len(rows)} cases that ran reach the precision asked, ± 5.0 %."
    assert conclude(cpu[0], []).verdict == "Nothing was measured."


def test_an_interval_wider_than_the_precision_is_said_though_it_was_not_expected(cpu: Kept) -> None:
    """The noise between rounds decides, and the interval of these rounds may be wider: page and heading say so."""
    bundle, rows = cpu
    one, *others = [row for row in rows if row.verdict.state == "measured" and not row.result.notices]
    assert listing.heading(bundle, others).splitlines()[1].endswith("precision asked ± 5.0 %")
    wide = [replace(one, summary=replace(one.summary, half_width=0.064, reached=True)), *others]
    assert conclude(bundle, wide).verdict == f"All {len(wide)} cases that ran reach the precision asked, ± 5.0 %, by how much their rounds differ; 1 interval of measured cases is wider (± 6.4 %)."
    reached = changed(bundle, run=replace(bundle.run, stops=[Stop("precision")]))
    assert listing.heading(reached, wide).splitlines()[1].endswith("every case is expected within ± 5.0 %; 1 interval of measured cases is wider (± 6.4 %)")
    cut = listing.heading(changed(bundle, run=replace(bundle.run, stops=[Stop("budget")])), wide)
    assert cut.splitlines()[1].endswith("precision asked ± 5.0 %; 1 interval of measured cases is wider (± 6.4 %)")


def test_rounds_of_a_run_are_not_those_of_every_case(cpu: Kept) -> None:
    bundle, rows = cpu
    rounds = 1 + max(one.round for one in bundle.samples)
    more = changed(bundle, samples=[*bundle.samples, replace(bundle.samples[0], round=rounds + 11)])
    assert f" · {rounds + 12} rounds; cases that reach the precision stop earlier · " in listing.heading(more, rows)
    assert "stop earlier" not in listing.heading(bundle, rows)
    few = replace(bundle.run.plan, measure=replace(bundle.run.plan.measure, rounds=rounds - 1, rounds_max=rounds - 1))
    run, disturbed = replace(bundle.run, plan=few), replace(bundle.samples[0], disturbed=1.0)
    assert f" · {rounds} rounds, bad ones among them · " in listing.heading(changed(bundle, run=run, samples=[disturbed, *bundle.samples[1:]]), ())
    assert "bad ones" not in listing.heading(changed(bundle, run=run), ())


def test_a_record_that_is_not_whole_is_said_first(cpu: Kept) -> None:
    kept = changed(cpu[0], notices=[Notice("torn_line", "readings.log: 1 line is cut")], run=replace(cpu[0].run, ended=""))
    titles = [finding.title for finding in conclude(kept, cpu[1]).findings]
    warnings = [title for title in titles if not title.startswith("Invalid")]
    assert warnings[:2] == ["The record is not whole", "The run did not finish"]


def test_every_doubt_is_found_once(cpu: Kept) -> None:
    found = notices.find(cpu[1])
    assert [notice.code for notice in found] == ["invalid", "bimodal", "busy", "drift"]
    assert all(notice.rows for notice in found)
    assert notices.find([row for row in cpu[1] if row.verdict.state == "measured" and not row.result.notices]) == []


def test_rounds_that_failed_are_told_though_the_number_stands(cpu: Kept) -> None:
    row = replace(cpu[1][0], result=replace(cpu[1][0].result, reason="1 of 7 rounds failed: timeout"))
    (notice,) = notices.find([row])
    assert (notice.code, notice.seen) == ("incomplete", "1 of 7 rounds failed: timeout")


def test_rounds_left_out_while_enough_are_good_are_no_doubt(cpu: Kept) -> None:
    result = replace(cpu[1][0].result, reason="1 of 7 rounds is left out: others ran meanwhile", left_out=[6])
    assert notices.find([replace(cpu[1][0], result=result)]) == []


def test_reasons_that_differ_in_numbers_alone_are_one_doubt(cpu: Kept) -> None:
    first, second = (replace(row, verdict=replace(row.verdict, state="error", reason=f"timeout after {n} s")) for n, row in zip((30, 42), cpu[1], strict=False))
    (notice,) = notices.find([replace(r, result=replace(r.result, notices=[])) for r in (first, second)])
    assert len(notice.rows) == 2
    assert notice.seen == "timeout after 30 to 42 s"


def test_numbers_of_a_kind_become_their_range_and_others_stay_apart() -> None:
    texts = ["error 3.2e-05 of fp16", "error 1e-3 of fp16", "error 2e-4 of bf16"]
    told = words.alike(texts, str)
    assert told == [(texts[:2], "error 3.2e-05 to 1e-3 of fp16"), (texts[2:], texts[2])]
    spans = ["reach 25 to 85 % of 3 TB/s", "reach 62 to 100 % of 4 TB/s"]
    assert words.alike(spans, str) == [(spans, "reach 25 to 100 % of 3 to 4 TB/s")]


def test_notices_of_several_details_show_the_first_as_such(cpu: Kept) -> None:
    details = ("a browser has 2 processes", "a compiler has 3 processes")
    rows = [replace(row, result=replace(row.result, notices=[Notice(code="shared_device", seen=d)])) for row, d in zip(cpu[1], details, strict=False)]
    assert "for example a browser has 2 processes" in [notice.seen for notice in notices.find(rows)]


def test_few_rounds_and_wide_intervals_are_told_apart() -> None:
    kept = sample.bundle(sample.CPU, sample.CPU_CASES, rounds=3)
    found = {notice.code: notice for notice in notices.find(sample.rows(kept, sample.CPU_CASES))}
    assert found["few_rounds"].seen.startswith("3 of the 6 rounds that a 95 % interval needs")
    assert found["few_rounds"].action.startswith("run at least 6 rounds")
    assert "noise" not in found


def test_too_few_rounds_that_nothing_disturbed_want_a_quiet_machine() -> None:
    rows = sample.rows(sample.bundle(sample.CPU, sample.CPU_CASES, rounds=3), sample.CPU_CASES)
    rows = [replace(row, result=replace(row.result, left_out=[3, 4][: n % 3])) for n, row in enumerate(rows)]
    (found,) = (notice for notice in notices.find(rows) if notice.code == "few_rounds")
    assert found.seen.startswith("3 undisturbed rounds, and a 95 % interval needs 6; 1 to 2 more were measured and are not used, because")
    assert "during them other programs ran, or the timers disagreed" in found.seen
    assert found.action == notices.QUIET


def test_a_single_round_that_is_left_out_is_one() -> None:
    rows = sample.rows(sample.bundle(sample.CPU, sample.CPU_CASES, rounds=3), sample.CPU_CASES)
    (found,) = (one for one in notices.find([replace(row, result=replace(row.result, left_out=[3])) for row in rows]) if one.code == "few_rounds")
    assert "; 1 more was measured and is not used, because during it other programs ran, or" in found.seen


def test_of_timers_that_differ_what_to_type_is_said() -> None:
    action = notices.KINDS["timers"].action
    assert "--wait-quiet '5 min'" in action
    assert "longer call" not in action


def test_every_notice_of_a_number_has_something_to_do() -> None:
    named = codes.texts()[codes.OF_NUMBERS]
    assert named
    for name in named:
        kind = notices.KINDS[notices.SAME.get(name, name)]
        assert kind.word or name in ("invalid", "error")  # which the state says
        assert kind.action or name in ("error", "noise")  # which the reason, and the rounds needed, say


@pytest.mark.parametrize(("hits", "chance"), [(2, " (1 of 80 results: it may be chance)"), (4, "")])
def test_a_notice_of_a_fleet_names_the_device_and_says_what_may_be_chance(hits: int, chance: str, cpu: Kept) -> None:
    """A test for drift raises on a perfect machine too, in two of six rounds of one case in 700; in four of six it is no chance."""
    _, (first, *_) = cpu
    seen = Notice(code="drift", seen=f"in {hits} of 6 rounds: -0.8% from first to last sample")
    kept = [replace(one, notices=[]) for one in first.result.rounds[:6]]
    rounds = [replace(one, notices=[seen]) if n < hits else one for n, one in enumerate(kept)]
    plain = replace(first, result=replace(first.result, notices=[], rounds=kept))
    fleet = [replace(plain, device=f"gpu-{n}") for n in range(80)]
    fleet[17] = replace(fleet[17], result=replace(first.result, notices=[seen], rounds=rounds))
    (notice,) = (found for found in notices.find(fleet) if found.code == "drift")
    assert notices.which(notice, fleet) == f"{first.label} on gpu-17{chance}"
    (notice,) = (found for found in notices.find([fleet[17]]) if found.code == "drift")
    assert notices.which(notice, [fleet[17]]) == first.label
