"""One word for each notice, the banner of a busy machine, and how an uncertain number is written."""

from __future__ import annotations

from typing import Any

import pytest
import report_sample as sample
from msgspec.structs import replace

from hotlap.core.analysis.state import asking_for, state
from hotlap.core.plan import case
from hotlap.core.record import Gap, Limit, Notice, Result, Row, Samples, Summary, Verdict
from hotlap.core.show import export, notices, results, text, words
from hotlap.core.show.conclusions import advice, conclude
from hotlap.core.stats.summary import summarize
from hotlap.core.store.bundle import Bundle

Kept = tuple[Bundle, list[Row]]


def made(row: Row, values: list[float], precision: float | None = 0.1, gap: Gap | None = None, **more: Any) -> Row:
    """A row of these values of its rounds; `more` of its Result."""
    result: Result = replace(row.result, **{"values": values, "notices": [], **more})
    summary = summarize(values, precision=precision, better=result.better)
    found = gap or Gap()
    return replace(row, result=result, summary=summary, gap=found, verdict=state(result, summary, found))


@pytest.fixture
def triad(cpu: Kept) -> Row:
    return next(row for row in cpu[1] if row.label == "stream triad fp32 1 GiB")


@pytest.fixture
def chase(cpu: Kept) -> Row:
    return next(row for row in cpu[1] if row.label == "chase 16 KiB")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([10e9, 10.1e9, 10.2e9, 10.3e9, 10.4e9, 10.5e9], "± 2.4 %"),
        ([10e9, 11e9, 12e9, 13e9, 14e9], "± 17 % (94 %)"),
        ([10e9, 11e9], "± 4.8 % (50 %)"),
        ([10e9], "1 round"),
        ([1e9, 1e9, 1e9, 1.2e9, 9e9, 37e9], "[1.0 – 37 GB/s]"),
    ],
)
def test_an_interval_says_its_confidence_and_never_passes_100_percent(triad: Row, values: list[float], said: str) -> None:
    assert words.interval(made(triad, values)) == said


def test_an_interval_of_two_prefixes_has_both_units(chase: Row) -> None:
    assert words.interval(made(chase, [64e-6, 80e-6, 90e-6, 95e-6, 100e-6, 1.5e-3])) == "[64 µs – 1.5 ms]"


@pytest.mark.parametrize(("better", "said"), [("lower", "≤ 1.09 ns"), ("higher", "≥ 1.09 ns")])
def test_a_call_too_short_to_time_shows_its_limit(chase: Row, better: Any, said: str) -> None:
    row = made(chase, [1.09e-9] * 6, too_short=True, better=better)
    assert (words.value(row), words.interval(row)) == (said, words.DASH)
    assert (row.verdict.state, notices.code(row), notices.word(row)) == ("inconclusive", "too_short", "too short")
    assert said in text.table([row], 100)
    assert "more work" in text.explain([row], 100)
    assert results.record(row)["too_short"] is True


def test_the_best_round_is_a_column_where_it_is_far_from_the_median(triad: Row) -> None:
    near, far = made(triad, [30e9] * 5 + [31e9]), made(triad, [2.8e9, 2.9e9, 2.9e9, 2.9e9, 3e9, 37e9])
    assert (words.best(near), words.best(far)) == ("", "37.0")
    assert "best" not in text.table([near], 100)
    assert "  best" in text.table([near, far], 100).splitlines()[0]
    assert "best 37.0 GB/s" in text.explain([far], 100)


def test_few_rounds_say_so_before_anything_else(triad: Row) -> None:
    row = made(triad, [10e9, 20e9], notices=[Notice(code="shared_device"), Notice(code="drift")])
    assert notices.codes(row) == ["few_rounds", "busy", "drift"]


@pytest.mark.parametrize(
    ("codes", "code"),
    [([], "noise"), (["shared_device"], "busy"), (["steal"], "busy"), (["drift"], "drift"), (["few_samples"], "noise"), (["clock_varied"], "noise")],
)
def test_a_wide_interval_is_noise_unless_a_notice_explains_it(triad: Row, codes: list[str], code: str) -> None:
    row = made(triad, [10e9, 12e9, 14e9, 16e9, 18e9, 20e9], notices=[Notice(code=name) for name in codes])
    assert (row.verdict.state, notices.code(row)) == ("inconclusive", code)


def test_a_clock_that_varied_stands_beside_the_number_in_cycles(chase: Row) -> None:
    clocks = [1.8e9, 2.0e9, 2.02e9, 2.02e9, 2.1e9, 2.4e9]
    rounds = [Samples(case="c", device="d", round=n, values=[1e-9], clocks_hz=[hz]) for n, hz in enumerate(clocks)]
    seconds = [4.01 * 1000 / hz for hz in clocks]  # a call of a thousand loads
    row = made(
        chase, [4.01 / hz for hz in clocks], rounds=rounds, bound_by_clock=True, cycles=[4010.0] * 6, seconds=seconds,
        notices=[Notice(code="clock_varied", seen="1.80 to 2.40 GHz")],
    )
    assert words.in_cycles(row) == "4.01 cycles per load"
    assert "clock varied: 2.02 GHz median, 1.80 to 2.40 GHz; 4.01 cycles per load" in text.explain([row], 100)
    assert notices.code(row) == "clock_varied"
    assert results.record(row)["cycles"] == [4010.0] * 6


def test_a_round_that_takes_more_cycles_is_noise_however_the_clock_varied(chase: Row) -> None:
    """One disturbed round of seven: at the clock's range it would be by 8 %, and it is by 40 %."""
    cycles, clocks = [4010.0, 4010, 6700, 4010, 4020, 4010, 4000], [3.69e9, 3.6e9, 3.55e9, 3.69e9, 3.4e9, 3.6e9, 3.69e9]
    rounds = [Samples(case="c", device="d", round=n, values=[1e-9], clocks_hz=[hz]) for n, hz in enumerate(clocks)]
    seconds = [count / hz for count, hz in zip(cycles, clocks, strict=True)]
    row = made(
        chase, [1e-3 * one for one in seconds], rounds=rounds, bound_by_clock=True, cycles=cycles, seconds=seconds,
        notices=[Notice(code="clock_varied", seen="3.40 to 3.69 GHz")],
    )
    assert (row.verdict.state, notices.code(row)) == ("inconclusive", "noise")


def test_an_invalid_number_has_a_code_of_its_cause(triad: Row) -> None:
    for cause in ("wrong_result", "tampered", "timers"):
        rounds = [Samples(case="c", device="d", round=0, status="invalid", cause=cause, reason="why", values=[1.0])]
        row = made(triad, [10e9] * 6, status="invalid", reason="why", rounds=rounds)
        found = results.record(row)
        assert (found["state"], found["notice"], found["value"]) == ("invalid", cause, 10e9)
        assert not words.stands(row)
    fast = made(triad, [10e9] * 6, gap=Gap(share=2.0, reference_kind="bound", limit_value=5e9))
    assert (fast.verdict.state, notices.code(fast)) == ("invalid", "beats_bound")


# ---------------------------------------------------------------- power cap


def _capped(gpu: Kept, high_s: float | None, reason: str = "software power cap") -> Row:
    row = next(row for row in gpu[1] if row.label.startswith("gemm bf16"))
    seconds = row.result.case.params
    found = [Notice(code="throttled", seen=f"{reason} in 85 %", shares={reason: 0.85}), Notice(code="low_clock", seen="1.59 GHz")]
    limit = Limit(kind="bound", bound_s=1.4e-4, expected_s=1.8e-4, low_s=1.7e-4, high_s=high_s)
    assert seconds["m"] == 4096
    return replace(row, result=replace(row.result, notices=found), gap=replace(row.gap, limit=limit))


def test_the_power_cap_of_a_healthy_card_is_information_with_its_share(gpu: Kept) -> None:
    row = _capped(gpu, high_s=2e-4)
    assert (notices.codes(row), notices.beside(row)) == (["power_cap"], "power cap 85 %")
    (notice,) = notices.find([row])
    assert notice.severity == "info"
    assert "software power cap in 85 % of the readings" in notice.seen
    assert "power cap 85 %" in text.table([row], 100)


def test_below_what_the_model_expects_it_is_a_warning(gpu: Kept) -> None:
    (notice,) = notices.find([_capped(gpu, high_s=1.75e-4)])
    assert (notice.code, notice.severity) == ("power_cap", "warning")


def test_heat_is_a_warning(gpu: Kept) -> None:
    (notice,) = notices.find([_capped(gpu, high_s=2e-4, reason="hardware thermal")])
    assert (notice.code, notice.severity) == ("throttled", "warning")


# ---------------------------------------------------------------- a busy machine


def test_a_busy_machine_wants_quiet_before_more_rounds(cpu: Kept) -> None:
    """Of one case that varies, and of one with too few rounds, which nothing else says of."""
    quiet = [row for row in cpu[1] if row.verdict.state == "measured"]
    noisy = made(quiet[0], [10e9, 10.5e9, 11e9, 11.5e9, 12e9, 12.5e9], precision=0.05)
    few = made(quiet[1], [10e9, 10e9, 10e9], left_out=[3])
    alone = {notice.code: notice.action for notice in notices.find([noisy, few, *quiet[2:]])}
    beside = {notice.code: notice.action for notice in notices.find([noisy, few, *(_busy(row, 0.8, None) for row in quiet[2:])])}
    assert alone["noise"].startswith("--rounds ")
    assert alone["few_rounds"] == notices.QUIET
    assert beside["noise"] == beside["few_rounds"] == "measure on a quiet machine first"
    asked = made(quiet[1], [10e9, 10e9])
    (notice,) = (one for one in notices.find([asked, *(_busy(row, 0.8, None) for row in quiet[2:])]) if one.code == "few_rounds")
    assert notice.action.startswith("measure on a quiet machine first, then run at least 6 rounds")


def test_few_samples_are_counted_where_they_are_few(triad: Row) -> None:
    flag = Notice(code="few_samples", seen="2 samples in the round")
    several = [replace(one, values=one.values[:count], notices=[flag] if count < 5 else []) for one, count in zip(triad.result.rounds, (2, 4, 9), strict=False)]
    row = replace(triad, result=replace(triad.result, rounds=several, notices=[flag]))
    (found,) = (notice for notice in notices.find([row]) if notice.code == "few_samples")
    assert found.seen == "2 to 4 samples in some rounds"


def test_the_confidence_beside_an_interval_is_explained(triad: Row) -> None:
    few, enough = made(triad, [10e9, 11e9, 12e9, 13e9]), made(triad, [10e9] * 6)
    shown = " ".join(text.table([few, enough], 100).split())
    assert "(88 %): its confidence, with fewer than 6 rounds" in shown
    assert shown.endswith("for the precision asked.")  # the whole legend
    assert "its confidence" not in text.table([enough], 100)
    assert words.unsure(few)
    assert not words.unsure(enough)


def _busy(row: Row, disturbed: float | None, steal: float | None) -> Row:
    rounds = [
        Samples(case="c", device="d", round=n, values=[1.0, 1.0], disturbed=disturbed, steal=steal, replaced=[2.0], foreign={"run_delay": 1}, duty=0.5 + n / 20)
        for n in range(6)
    ]
    return made(row, row.result.values, notices=[Notice(code="shared_device", seen="in 6 of 6 rounds: others ran")], rounds=rounds)


def test_rounds_that_no_number_uses_because_others_ran_are_said_in_the_banner(cpu: Kept) -> None:
    """Where three rounds were left in peace, and nine were not, the table said nothing of a busy machine but in a footnote."""

    def peace(row: Row, good: int, steal: float = 0.0) -> Row:
        rounds = [
            Samples(case="c", device="d", round=n, values=[1.0, 1.0], disturbed=0.0 if n < good or steal else 0.5, steal=steal if n >= good else 0.0)
            for n in range(12)
        ]
        return made(row, row.result.values[:3], rounds=rounds, left_out=[*range(good, 12)])

    few = [row for row in cpu[1] if row.verdict.state == "measured"][:2]
    printed = " ".join(text.table([peace(row, 3) for row in few], 100).split())
    assert printed.startswith("The machine was busy: other programs ran during 18 of 24 rounds, and no number uses these. For more rounds that count stop")
    assert notices.banner([peace(row, 9) for row in few]) == ""
    good = [replace(peace(row, 3), verdict=Verdict(state="measured")) for row in few]
    assert notices.banner(good) == ""  # nothing is amiss with what is left
    assert "the hypervisor took the processors during 18 of 24 rounds" in notices.banner([peace(row, 3, steal=0.4) for row in few])
    assert conclude(cpu[0], [peace(row, 3) for row in few]).banner in printed
    assert "The machine was busy" in export.to_markdown(cpu[0], [peace(row, 3) for row in few])
    assert notices.busy([peace(row, 3) for row in few]) == ""


def test_a_busy_machine_has_one_banner_and_no_footnote(cpu: Kept) -> None:
    rows = [_busy(row, 0.83, 0.12) for row in cpu[1] if row.verdict.state == "measured"]
    printed = text.table(rows, 100)
    first = " ".join(printed.partition("\n\n")[0].split())
    assert first.startswith("The machine was busy: other programs ran during 83 % of the samples, the hypervisor took 12 % of the processor time")
    assert "lower limit of the speed, but for atomics, for which fewer cores contend. For" in first
    assert "lower limit of the speed. For" in notices.busy([row for row in rows if row.case.workload != "atomic"])
    assert "--wait-quiet '5 min'" in first
    assert "\nbusy " not in printed
    assert conclude(cpu[0], rows).banner.startswith("The machine was busy")
    assert "The machine was busy" in export.to_markdown(cpu[0], rows)
    explained = " ".join(text.explain(rows[:1], 100).split())
    assert "6 replaced (waited for a processor: 6)" in explained
    assert "share of the round in timed code 50 to 75 %" in explained


def test_a_few_busy_cases_are_a_footnote(cpu: Kept) -> None:
    rows = [row for row in cpu[1] if row.verdict.state == "measured" and not row.result.notices]
    printed = text.table([_busy(rows[0], 0.5, None), *rows[1:]], 100)
    assert "The machine was busy" not in printed
    assert "\nbusy " in printed


def test_a_machine_of_0_1_that_was_busy_has_its_banner_without_shares(cpu: Kept) -> None:
    rows = [_busy(row, None, None) for row in cpu[1] if row.verdict.state == "measured"]
    assert f"during {len(rows)} of {len(rows)} cases" in notices.busy(rows)


# ---------------------------------------------------------------- the ten-second answer


def test_fast_and_slow_are_named_below_the_table(gpu: Kept) -> None:
    below = text.table(gpu[1], 120).partition("cases: ")[2]
    fast = next(line for line in below.splitlines() if line.startswith("near limit"))
    assert "fma fp64 (95 % of the bound)" in fast


def test_of_several_devices_a_case_is_named_once_with_its_range_and_more_than_a_bound_is_explained(gpu: Kept) -> None:
    fma = next(row for row in gpu[1] if row.label == "fma fp64")
    stream = next(row for row in gpu[1] if row.label == "stream read fp32 1 GiB")
    rows = [
        replace(row, device=f"gpu:{n}", gap=replace(row.gap, share=share + n / 100))
        for n in range(3) for row, share in ((fma, 0.99), (stream, 0.88))
    ]  # fmt: skip
    printed = " ".join(text.table(rows, 200).split())
    assert f"near limit fma fp64 (99 to 101 % of the bound on all 3 devices), {stream.label} (90 % of the bound on 1 of 3 devices) ±:" in printed
    assert "over 100 %: its interval begins at most 1.0 % beyond the bound, else it were invalid" in printed
    assert "over 100 %" not in text.table(rows[:4], 200)


def test_no_advice_for_what_measures_the_machine_itself(gpu: Kept) -> None:
    streams = [row for row in gpu[1] if row.case.workload in ("stream", "gemm", "chase")]
    assert {advice(row) for row in streams} == {""}
    own = replace(streams[0], case=replace(streams[0].case, workload="command"))
    assert advice(replace(own, gap=replace(own.gap, cause="bandwidth")))


def test_nothing_to_doubt_has_no_notice() -> None:
    kept = sample.bundle(sample.CPU, sample.CPU_CASES)
    row = sample.rows(kept, sample.CPU_CASES)[0]
    assert (notices.codes(row), notices.word(row), Summary(rounds=0).best) == ([], "", None)


def test_where_state_and_interval_seem_to_contradict_each_other_the_rule_is_said(triad: Row) -> None:
    noisy = made(triad, [1e9 * value for value in (9.9, 10.8, 10.8, 9.4, 9.8, 9.7, 9.3, 9.4)], precision=0.1)
    assert (noisy.verdict.state, noisy.summary.reached) == ("inconclusive", False)
    assert noisy.summary.half_width is not None
    assert noisy.summary.half_width <= 0.1
    legend = " ".join(text.table([noisy], 100, precision=0.1).split())
    rule = "? goes by how much rounds differ: it may stand beside a ± that is narrow by chance, or not by a wide one"
    assert f"for the precision asked; {rule}" in legend
    assert "noise of all rounds" not in text.table([noisy], 100, precision=0.01)
    steady = replace(noisy, verdict=Verdict(state="measured"), summary=replace(noisy.summary, reached=True, half_width=0.12, expected=0.09))
    assert rule in " ".join(text.table([noisy, steady], 200, precision=0.1).split())
    assert noisy.summary.needed is not None
    assert noisy.summary.needed > noisy.summary.rounds  # what is there already is no advice


def test_rounds_are_advised_with_the_budget_that_they_take() -> None:
    rounds = [Samples(case="c", device="d", round=n, values=[1.0], began_s=100.0 + 10.0 * n) for n in range(4)]
    timed = Result(case=case("stream", {"size": "1 GiB"}), device="d", target="opencl", values=[1.0], rounds=rounds, status="measured")
    assert asking_for(5, [timed]) == "--rounds 5 --budget '65 s'"
    assert asking_for(320, [timed]) == "--rounds 320 --budget '65 min'"
    assert asking_for(5, [replace(timed, rounds=rounds[:1])]) == "--rounds 5"


def test_a_change_that_rounds_to_zero_has_no_sign() -> None:
    assert [words.signed(share, 2) for share in (-0.00001, 0.00001, -0.0002, 0.0)] == ["0.00 %", "0.00 %", "-0.02 %", "0.00 %"]
    assert words.signed(0.12) == "+12.0 %"


def test_an_error_does_not_ask_for_a_quieter_machine(triad: Row) -> None:
    reason = "launch of the kernel raises ValueError: my own bug"
    broken = replace(triad, result=replace(triad.result, status="error", reason=reason, values=[]), verdict=Verdict(state="error", reason=reason))
    [found] = notices.find([broken])
    assert (found.seen, found.action) == (reason, "mend what the reason names, then run again")
