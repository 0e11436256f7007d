"""Rows compared with limits and rules, and the run's verdict from its cases'."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from judging import CHASE, make
from msgspec.structs import replace

from hotlap.core.analysis import noticed, standards, verdicts
from hotlap.core.analysis import rows as tables
from hotlap.core.analysis.standards import AgainstLimit
from hotlap.core.errors import InputError
from hotlap.core.record import Limit, Notice, Row, State, Term, Verdict
from hotlap.core.show import codes, judgement, junit, notices, words

GIB = 2**30
COPY_BOUND = GIB / 4.8e12 * 0.96  # near enough: the bound allows for what stays in cache


def rows(share: float, spread: float = 0.001) -> list[Row]:
    """A copy at so much of the bandwidth, six rounds."""
    return tables.rows(make({"copy": [COPY_BOUND / share * (1 + spread * n) for n in range(6)]}))


def reaching(row: Row, low: float, middle: float, high: float) -> Row:
    """The same, where a healthy device is expected to reach these shares of the bound."""
    limit = Limit(kind="expected", bound_s=1.0, expected_s=1 / middle, low_s=1 / high, high_s=1 / low, provenance=[])
    return replace(row, gap=replace(row.gap, limit=limit))


def test_a_share_of_the_limit_passes_fails_or_cannot_be_told() -> None:
    for share, state in ((0.9, "pass"), (0.6, "fail")):
        (verdict,) = AgainstLimit(0.75).judge([reaching(rows(share)[0], 0.8, 0.9, 0.95)])
        assert verdict.state == state
        assert verdict.threshold is not None
        assert "75 % of the bound" in verdict.provenance.replace("75%", "75 %")
    (verdict,) = AgainstLimit(0.75).judge(rows(0.78, spread=0.02))
    assert verdict.state == "inconclusive"
    assert "lies within its interval" in verdict.reason


@pytest.mark.parametrize(
    ("expected", "state", "reason"),
    [
        ((0.80, 0.9, 0.95), "fail", "is not at least"),
        ((0.31, 0.7, 1.0), "inconclusive", "expected to reach 31 to 100 % of the bound here, so it too may be below 80 %"),
        ((0.57, 0.6, 0.74), "inconclusive", "not even a healthy device is expected to reach 80 % of the bound here, but 57 to 74 %"),
        (None, "inconclusive", "what a healthy device reaches here is not known: judge this case with"),
    ],
)
def test_a_share_fails_only_what_a_healthy_device_surely_reaches(expected: tuple[float, float, float] | None, state: str, reason: str) -> None:
    """A pallet failed whole, its healthy cards too, by a case of which nothing was expected."""
    (row,) = rows(0.76)
    plain = replace(row, gap=replace(row.gap, limit=Limit(kind="bound", bound_s=1.0, provenance=[]), numbers={}))
    (verdict,) = AgainstLimit(0.8).judge([reaching(plain, *expected) if expected else plain])
    assert verdict.state == state
    assert reason in verdict.reason
    if expected is None:  # what was agreed has a source of its own
        assert AgainstLimit(0.8, agreed=True).judge([plain])[0].state == "fail"


def test_a_share_of_an_expected_value_fails_below_its_slow_end_alone() -> None:
    """Of an expected value a healthy device reaches 1 ÷ 1.6 at least."""
    (row,) = rows(0.5)
    gap = replace(row.gap, reference_kind="expected", limit=Limit(kind="expected", expected_s=1.0, low_s=0.8, high_s=1.6, provenance=[]))
    states = [AgainstLimit(share).judge([replace(row, gap=gap)])[0].state for share in (0.6, 0.7)]
    assert states == ["fail", "inconclusive"]


def test_an_interval_around_a_threshold_is_shown_with_the_digits_that_tell_them_apart() -> None:
    (row,) = rows(0.78, spread=0.0001)
    verdict = standards.held(row, row.summary.median or 0.0, "limit", "x")
    assert verdict.reason.startswith("the threshold, 3.899 TB/s, lies within its interval, 3.898 to 3.900 TB/s")
    (row,) = rows(0.78)
    narrow = replace(row, summary=replace(row.summary, median=1e12, low=0.999e12, high=1.002e12))
    assert standards.held(narrow, 1e12, "limit", "x").reason.startswith("the threshold, 1.000 TB/s, lies within its interval, 999.0 GB/s to 1.002 TB/s")


def test_a_share_is_said_as_it_was_asked() -> None:
    standard = AgainstLimit(0.965)
    assert standard.name == "96.5 % of the limit"
    assert "96.5 % of the bound" in standard.judge(rows(0.9))[0].provenance


def test_a_share_of_a_bound_says_what_is_usual_and_rests_on_no_expectation() -> None:
    """A gemm in bf16 reaches 74 % of its bound on a healthy device: 80 % fails it by a rule alone, and the verdict says that this is usual."""
    (row,) = rows(0.74)
    limit = Limit(
        kind="expected", bound_s=1.0, expected_s=1.35, low_s=1.1, high_s=1.6,
        provenance=[Term(name="memory bandwidth", value=1.0, unit="B/s", source="the table"), Term(name="expected time", value=1.35, unit="s", source="a model")],
    )
    (verdict,) = AgainstLimit(0.8, agreed=True).judge([replace(row, gap=replace(row.gap, limit=limit))])
    assert verdict.state == "fail"
    assert verdict.provenance.endswith("; a healthy device is expected to reach 62 to 91 % of it, most likely 74 %; source of the bound: the table")
    (verdict,) = AgainstLimit(0.7).judge([replace(row, gap=replace(row.gap, limit=limit))])
    assert verdict.provenance.endswith("expected to reach 62 to 91 % of it, most likely 74 %; source of the bound: the table")


@pytest.mark.parametrize(("limiter", "source"), [("memory", "the table"), ("arithmetic unit", "another table"), ("", "the clock")])
def test_the_source_of_a_bound_is_of_what_sets_it(limiter: str, source: str) -> None:
    terms = [("peak matrix.bf16", "another table"), ("memory bandwidth", "the table"), ("clock", "the clock")]
    limit = Limit(kind="bound", bound_s=1.0, limiter=limiter, provenance=[Term(name=name, value=1.0, unit="", source=where) for name, where in terms])
    (row,) = rows(0.74)
    assert AgainstLimit(0.7).judge([replace(row, gap=replace(row.gap, limit=limit))])[0].provenance.endswith(f"source of the bound: {source}")


def test_what_no_healthy_device_reaches_is_no_fail() -> None:
    """Of 1 MiB that is cold a healthy device reaches 4 % of the bound: a share of 80 % says nothing of this one."""
    (row,) = rows(0.04)
    limit = Limit(kind="expected", bound_s=1.0, expected_s=25.0, low_s=10.0, high_s=60.0, provenance=[])
    (verdict,) = AgainstLimit(0.8).judge([replace(row, gap=replace(row.gap, limit=limit))])
    assert verdict.state == "inconclusive"
    assert "not even a healthy device is expected to reach 80 % of the bound here, but 1.7 to 10 %" in verdict.reason
    (row,) = rows(0.005)
    (verdict,) = AgainstLimit(0.01).judge([replace(row, gap=replace(row.gap, limit=limit))])
    assert verdict.state == "fail"


def test_what_may_stay_in_a_cache_fails_no_copy_at_the_rate_of_memory() -> None:
    """64 MiB beside a cache of 50 MiB: the bound is several times the memory's rate, and 88 % of the memory's rate is no fail."""
    numbers = {"limit_memory_b_s": 4.8e12, "limit_spared_bytes": 50.0 * 2**20}
    for share, state in ((0.85, "inconclusive"), (0.7, "fail")):
        (row,) = rows(share)
        gap = replace(row.gap, numbers=numbers, limit_value=20e12)
        (verdict,) = AgainstLimit(0.8).judge([reaching(replace(row, gap=gap), 0.85, 0.9, 0.95)])
        assert verdict.state == state
        assert verdict.ratio is not None  # the lowest of many devices are found by it
        assert ("ask it of sizes well above the cache" in verdict.reason) == (state == "inconclusive")
        measured = f"--target {row.result.target} --device all"
        if row.result.target == "simulated":
            measured = "--save-plan large.toml --dry-run; hotlap run large.toml --target TARGET --device all"
        command = f"hotlap bench stream op=copy size=2GiB {measured}; then: hotlap gate --against limit --share '80 %'"
        assert (command in verdict.reason) == (state == "inconclusive")


@pytest.mark.parametrize(("margin", "said"), [(0.2, "size=2GiB "), (0.01, "size=10GiB "), (0.005, "size=20GiB "), (0.001, "no size up to 32 GiB decides")])
def test_the_size_that_is_advised_is_large_enough_for_the_share(margin: float, said: str) -> None:
    """Twice as large as what a bound needs that the slow end passes, however near the share is."""
    (row,) = rows(0.85)
    gap = replace(row.gap, numbers={"limit_memory_b_s": 4.8e12, "limit_spared_bytes": 50.0 * 2**20}, limit_value=20e12)
    seen = reaching(replace(row, gap=gap), 0.85, 0.9, 0.95)
    (verdict,) = AgainstLimit((seen.summary.low or 0.0) / 4.8e12 * (1 - margin)).judge([seen])
    assert said in verdict.reason


def test_a_bound_that_counts_on_cache_fails_no_case_of_which_nothing_is_expected() -> None:
    numbers = {"limit_spared_bytes": 50.0 * 2**20}
    limit = Limit(kind="bound", bound_s=1.0, provenance=[])
    (row,) = rows(0.04)
    gap = replace(row.gap, limit=limit, numbers=numbers)
    (verdict,) = AgainstLimit(0.8).judge([replace(row, gap=gap)])
    assert verdict.state == "inconclusive"
    assert "what a healthy device reaches here is not known, and the bound counts the 50 MiB" in verdict.reason
    assert AgainstLimit(0.8, agreed=True).judge([replace(row, gap=replace(gap, numbers={}))])[0].state == "fail"


def test_a_bound_that_counts_on_cache_says_what_is_published() -> None:
    (row,) = rows(0.9)
    assert " from 4.80 TB/s published and 50 MiB that may stay in cache; " in AgainstLimit(0.8).judge([row])[0].provenance
    (plain,) = AgainstLimit(0.8).judge([replace(row, gap=replace(row.gap, numbers={"limit_memory_b_s": 4.8e12}))])
    assert "published" not in plain.provenance


def test_a_long_reason_wraps_and_is_not_cut() -> None:
    judged = verdicts.judge("r", rows(0.9), AgainstLimit(0.8))
    printed = judgement.judgement(judged, 80)
    assert "…" not in printed
    assert all(len(line) <= 80 for line in printed.splitlines())


def test_a_bound_without_a_share_passes_nobody() -> None:
    (verdict,) = AgainstLimit().judge(rows(0.99))
    assert verdict.state == "inconclusive"
    assert "not what is normal" in verdict.reason


def test_too_few_rounds_are_inconclusive() -> None:
    (verdict,) = AgainstLimit(0.5).judge(tables.rows(make({"copy": [COPY_BOUND] * 5})))
    assert (verdict.state, "5 of the 6 rounds" in verdict.reason) == ("inconclusive", True)


def test_what_was_not_measured_keeps_its_state() -> None:
    (verdict,) = AgainstLimit(0.5).judge(tables.rows(make({"copy": []})))
    assert verdict.state == "not_run"
    judged = verdicts.judge("r", tables.rows(make({"copy": []})), AgainstLimit(0.5))
    assert judged.state == "inconclusive"  # the run never came to it
    assert verdicts.exit_code([judged]) == 3


class Fixed:
    """A standard with the answer given."""

    name = "fixed"

    def __init__(self, *states: str) -> None:
        self.states = states

    def judge(self, found: Any) -> list[Verdict]:
        return [Verdict(state=state) for state in self.states]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("states", "state", "code"),
    [
        (["pass", "pass"], "pass", 0), (["pass", "not_run"], "pass", 0), (["pass", "fail"], "fail", 1), (["pass", "inconclusive"], "inconclusive", 3),
        (["invalid", "pass"], "invalid", 3), (["fail", "invalid"], "fail", 1), (["not_run", "not_run"], "not_run", 3), (["error", "pass"], "error", 3),
        (["measured", "measured"], "not_run", 3),
    ],
)
def test_the_worst_case_is_the_runs_verdict(states: list[str], state: str, code: int) -> None:
    judged = verdicts.judge("r", rows(0.9) * 2, Fixed(*states))
    assert (judged.state, verdicts.exit_code([judged])) == (state, code)


@pytest.mark.parametrize(("read_as", "code"), [("pass", 0), ("fail", 1)])
def test_inconclusive_is_read_as_asked_and_says_so(read_as: Any, code: int) -> None:
    judged = verdicts.judge("r", rows(0.9) * 2, Fixed("pass", "inconclusive"), read_as)
    assert (judged.state, verdicts.exit_code([judged])) == (read_as, code)
    assert f"read as {read_as}" in judged.reason
    assert f"read as {read_as}" in judgement.judgement(judged)
    none = verdicts.judge("r", rows(0.9) * 2, Fixed("not_run", "not_run"), read_as)
    assert none.state == "not_run"  # nothing measured is never a pass


def test_junit_counts_what_ci_counts() -> None:
    found = verdicts.judge("r", rows(0.9) * 4, Fixed("pass", "fail", "inconclusive", "not_run"))
    suite = ElementTree.fromstring(junit.junit([found])).find("testsuite")
    assert suite is not None
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    lenient = verdicts.judge("r", rows(0.9) * 2, Fixed("pass", "inconclusive"), "pass")
    suite = ElementTree.fromstring(junit.junit([lenient])).find("testsuite")
    assert suite is not None
    assert (suite.get("errors"), suite.get("failures")) == ("0", "0")


# ---------------------------------------------------------------- rules


def _rules(tmp_path: Path, text: str) -> standards.AgainstRules:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    return standards.rules(path)


def test_rules_pass_and_fail_with_their_reason(tmp_path: Path) -> None:
    for asked, state in (("4 TB/s", "pass"), ("4.7 TB/s", "fail")):
        found = _rules(tmp_path, f'[[rule]]\nwhy = "contract, 3.2"\nwhere = {{ workload = "stream" }}\nat_least = "{asked}"\n')
        (verdict,) = found.judge(rows(0.9))
        assert (verdict.state, verdict.provenance) == (state, "contract, 3.2")
        assert verdict.against == "rules rules.toml"


def test_flags_widths_and_shares_can_be_asked_for(tmp_path: Path) -> None:
    found = _rules(tmp_path, '[[rule]]\nwhy = "x"\nno_notices = ["throttled"]\nhalf_width_at_most = "1 %"\nshare_at_least = "50 %"\n')
    assert found.judge(rows(0.9))[0].state == "pass"
    assert found.judge(rows(0.9, spread=0.02))[0].state == "fail"


def test_of_several_rules_those_that_decide_are_shown_with_the_value_they_ask(tmp_path: Path) -> None:
    asked = 'half_width_at_most = "1 %"\n[[rule]]\nwhy = "y"\nat_least = "4 TB/s"\n[[rule]]\nwhy = "z"\nat_least = "{}"\n[[rule]]\nwhy = "f"\nno_notices = ["drift"]'
    (verdict,) = _rules(tmp_path, f'[[rule]]\nwhy = "x"\n{asked.format("4.1 TB/s")}').judge(rows(0.9))
    assert (verdict.state, verdict.threshold) == ("pass", pytest.approx(4.1e12))  # the tightest
    assert all(why in verdict.reason for why in ("(x)", "(y)", "(z)", "(f)"))
    (verdict,) = _rules(tmp_path, f'[[rule]]\nwhy = "x"\n{asked.format("4.9 TB/s")}').judge(rows(0.9))
    assert (verdict.state, verdict.threshold, "(z)" in verdict.reason, "(y)" in verdict.reason) == ("fail", pytest.approx(4.9e12), True, False)
    (verdict,) = _rules(tmp_path, f'[[rule]]\nwhy = "x"\n{asked.format("4.1 TB/s")}').judge(rows(0.9, spread=0.01))
    assert (verdict.state, verdict.threshold, "(x)" in verdict.reason) == ("fail", None, True)  # no ratio to a rule that was kept stands beside a failure
    assert verdict.rules == ["x", "f"]


def of_devices(count: int, slow: int) -> list[Row]:
    """A copy and a product on each; the first `slow` devices copy at 70 % of the bound."""
    (copied,), (product,) = rows(0.9), tables.rows(make({"gemm": [1.5e-3] * 6}))
    (late,) = rows(0.7)
    return [replace(row, device=f"GPU-{n:02}") for n in range(count) for row in (late if n < slow else copied, product)]


BROKEN = standards.AgainstRules("rules.toml", (
    standards.Rule(why="acceptance, 3.2", where={"workload": "stream"}, at_least="4.2 TB/s"),
    standards.Rule(why="sharp numbers", where={"workload": "gemm"}, half_width_at_most=0.01),
))  # fmt: skip


def test_many_devices_that_fail_are_folded() -> None:
    printed = judgement.judgement(verdicts.judge("r", of_devices(40, 40), BROKEN), 120)
    assert len(printed.splitlines()) < 24
    assert "  … and 32 more (32 fail); --json or --out FILE has all" in printed
    cases = printed.split("more (32 fail)")[1].splitlines()
    assert "min" in cases[2]
    assert [line.split()[1:3] for line in cases if line.startswith("✗")] == [["stream", "copy"]]
    assert "… and 29 more that pass" not in printed
    few = judgement.judgement(verdicts.judge("r", of_devices(40, 3), BROKEN), 120)
    assert "  … and 29 more that pass" in few


def test_the_worst_case_of_a_device_is_the_one_that_failed_with_its_rule() -> None:
    """A product at 1.5 times its threshold stood beside the failure of another case."""
    lenient = standards.Rule(why="any product", where={"workload": "gemm"}, at_least="1 TFLOP/s", no_notices=("low_clock",))
    noted = [
        replace(row, result=replace(row.result, notices=[Notice(code="low_clock", seen="1.59 GHz")])) if row.case.workload == "gemm" else row
        for row in of_devices(2, 0)
    ]
    judged = verdicts.judge("r", noted, standards.AgainstRules("x", (BROKEN.rules[0], lenient)))
    device = next(line for line in judgement.judgement(judged, 140).splitlines() if "GPU-00" in line)
    assert "gemm" in device
    assert "any product" in device
    assert device.endswith("–")


def test_every_code_of_a_result_has_its_word_and_can_be_ruled_out(tmp_path: Path) -> None:
    of_numbers = codes.texts()[codes.OF_NUMBERS]
    assert set(standards.NOTICES) == set(of_numbers)
    assert tuple(notices.KINDS) == noticed.CODES  # one order
    for name in of_numbers:
        assert _rules(tmp_path, f'[[rule]]\nwhy = "x"\nno_notices = ["{name}"]\n').rules[0].no_notices == (name,)
        kind = notices.KINDS[notices.SAME.get(name, name)]
        assert kind.word or name in ("invalid", "error")
        assert kind.action or name in ("noise", "error")


@pytest.mark.parametrize(
    ("brake", "ruled_out", "state"),
    [
        ("software power cap", ("throttled", "low_clock"), "pass"),  # what a heavy load does on a healthy device: show says power cap
        ("software power cap", ("power_cap",), "fail"), ("software thermal", ("throttled", "low_clock"), "fail"), ("software thermal", ("low_clock",), "pass"),
    ],
)
def test_rules_see_the_notices_that_show_folds(brake: str, ruled_out: tuple[str, ...], state: str) -> None:
    (row,) = rows(0.9)
    seen = [Notice(code="throttled", seen=brake, shares={brake: 0.85}), Notice(code="low_clock", seen="1.59 GHz")]
    row = replace(row, result=replace(row.result, notices=seen))
    (verdict,) = standards.AgainstRules("heat.toml", (standards.Rule(why="x", no_notices=ruled_out),)).judge([row])
    assert verdict.state == state
    assert (verdict.state == "fail") == bool(set(notices.codes(row)) & set(ruled_out))


def test_a_rule_may_still_name_what_made_the_machine_busy() -> None:
    (row,) = rows(0.9)
    row = replace(row, result=replace(row.result, notices=[Notice(code="steal", seen="12 %")]))
    for code, state in (("steal", "fail"), ("busy", "fail"), ("shared_device", "pass")):
        assert standards.AgainstRules("x", (standards.Rule(why="x", no_notices=(code,)),)).judge([row])[0].state == state


def test_numbers_that_differ_between_cases_are_said_as_their_range() -> None:
    one, two = "4.8 % worse than the median of 8 runs, 33.4 TFLOP/s", "5.1 % worse than the median of 8 runs, 66.7 TFLOP/s"
    assert words.alike([one, two], str) == [([one, two], "4.8 to 5.1 % worse than the median of 8 runs, 33.4 to 66.7 TFLOP/s")]
    assert len(words.alike(["fp64 of h200-3", "fp32 of h200-3"], str)) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[rule]]\nwhy = "x"\nno_notices = ["thottled"]\n', "did you mean 'throttled'"), ('[[rule]]\nwhy = "x"\nno_notices = []\n', "there is no code"),
        ('[[rule]]\nwhy = "x"\nat_least = 5\n', "has no unit"), ('[[rule]]\nwhy = "x"\nat_least = "5"\n', "as in '5 TB/s'"), ('[[rule]]\nwhy = "x"\nat_least = true\n', "with its unit"),
        ('[[rule]]\nwhy = "x"\nhalf_width_at_most = 5\n', "at most 100 %"), ('[[rule]]\nwhy = "x"\nshare_at_least = "5"\n', "at most 100 %"),
        ('[[rule]]\nwhy = "x"\nshare_at_least = [1]\n', "is a share"), ("", "list of"), ("x = 1\n", "list of"), ("[[rule]\n", "TOML"), ('[[rule]]\nat_least = 1\n', "needs 'why'"), ('[[rule]]\nwhy = "x"\n', "asks for something"),
        ('[[rule]]\nwhy = "x"\nat_lest = 1\n', "rules.toml:3: a rule has no key 'at_lest'; did you mean 'at_least'"), ('[[rule]]\nwhy = "x"\nshare_at_least = "soon"\n', "soon"),
        ('\n[[rule]]\nwhy = "x"\nat_most = "1 TB/s"\n', "rules.toml:2: stream copy fp32 1 GiB is better when higher: write at_least"),
        ('[[rule]]\nwhy = "x"\nwhere = { workload = "gemm" }\nat_least = 1\n', "no case that was measured"),
        ('[[rule]]\nwhy = "x"\nat_least = "1 TB"\n', "TB"),
    ],
)
def test_a_broken_rule_is_answered_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=None) as caught:
        _rules(tmp_path, text).judge(rows(0.9))
    assert message in str(caught.value)
    assert "rules.toml" in str(caught.value)


def test_rules_of_a_part_of_a_run_are_those_about_its_cases(tmp_path: Path) -> None:
    """What --where leaves out is no error; a rule that is about no case at all is one still, and so is a part that no rule is about."""
    (row,) = rows(0.9)
    both = '[[rule]]\nwhy = "order 3"\nwhere = { workload = "stream" }\nat_least = "1 GB/s"\n[[rule]]\nwhy = "order 3"\n'
    both += 'where = { workload = "chase" }\nat_most = "1 us"\n'
    asked = _rules(tmp_path, both)
    with pytest.raises(InputError, match="no case that was measured"):
        asked.judge([row])
    part = asked.of_part([row.case], [row.case, CHASE])
    assert [rule.where["workload"] for rule in part.rules] == ["stream"]
    assert part.judge([row])[0].state == "pass"
    with pytest.raises(InputError, match="no case that was measured"):
        asked.of_part([row.case], [row.case]).judge([row])
    with pytest.raises(InputError, match=r"rules\.toml: every rule is about cases that --where leaves out; valid: chase"):
        _rules(tmp_path, "[[rule]]" + both.rpartition("[[rule]]")[2]).of_part([row.case], [row.case, CHASE])


def test_two_thresholds_are_not_shown_as_a_range() -> None:
    """In the order of the cases; of three and more values the range."""
    (row,) = rows(0.9)
    judged = [replace(row, verdict=Verdict(state="pass", reason=f"at least {rate} TFLOP/s")) for rate in (53.5, 26.8, 53.5)]
    assert judgement.reasons(judged)[0][1].endswith("at least 53.5 and 26.8 TFLOP/s")
    judged.append(replace(row, verdict=Verdict(state="pass", reason="at least 30.1 TFLOP/s")))
    assert judgement.reasons(judged)[0][1].endswith("at least 26.8 to 53.5 TFLOP/s")


def test_a_case_that_passes_on_some_devices_alone_is_said_so() -> None:
    (row,) = rows(0.9)
    states: list[tuple[State, str]] = [("pass", "at most 5.8 µs"), ("fail", "5.9 µs is not at most 5.8 µs"), ("pass", "at most 5.8 µs")]
    judged = [
        replace(row, device=f"d{number}", verdict=Verdict(state=state, reason=reason))
        for number, (state, reason) in enumerate(states)
    ]
    assert [text for _, text in judgement.reasons(judged)] == [
        f"{row.label} (2 of 3 devices): at most 5.8 µs", f"{row.label} (1 of 3 devices): 5.9 µs is not at most 5.8 µs",
    ]  # fmt: skip
    assert judgement.reasons(judged[::2])[0][1] == f"{row.label}: at most 5.8 µs"
