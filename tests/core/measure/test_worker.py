"""One round as the worker says it, and whole runs by the session; the worker is a thread, the device a script: nothing takes time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from scripting import CASE, OTHER, TICK, Thread, plan, steps, written

import hotlap
from hotlap.core.errors import InputError, MachineError
from hotlap.core.measure import session, worker
from hotlap.core.measure.protocol import CaseChoice, CaseDone, CaseStarted, Job, RoundDone
from hotlap.core.measure.targets.scripted import Page, ScriptedStep
from hotlap.core.plan import measuring
from hotlap.core.record import Case, MeasureOptions, Plan, Samples, Stop
from hotlap.core.store.fold import FEWEST_GOOD
from hotlap.core.work import find

SECOND = Page(steps=steps(4 * TICK))
THIRD = Case(workload="launch", params={"mode": "stream"})


def job(spec: str, *cases: Case, **given: Any) -> Job:
    options = MeasureOptions(round_s=1.0, readings_hz=0.0)
    return Job(**{"spec": spec, "device": 0, "device_key": "key", "round": 0, "cases": list(cases or (CASE,)), "options": options, "seed": 3, **given})


def said(one: Job, answer: str = "go_on", **thread: Any) -> list[Any]:
    """All messages of a round."""
    messages = []
    with Thread(one, 9.0, threading.Event(), **thread) as running:
        for message in running.messages():
            messages.append(message)
            if isinstance(message, CaseDone):
                getattr(running, answer)()
    return messages


# ---------------------------------------------------------------- one round


def test_a_round_says_each_case_as_it_begins_and_once_it_was_measured(tmp_path: Path) -> None:
    began, took, ended = said(job(written(tmp_path, {CASE.workload: [SECOND]})))
    assert began == CaseStarted(case=CASE.id)
    assert isinstance(took, CaseDone)
    assert (took.samples.case, took.samples.device, took.samples.round, took.readings, took.spent) == (CASE.id, "key", 0, [], False)
    assert set(took.samples.values) == {4 * TICK}
    assert isinstance(ended, RoundDone)
    assert (ended.seconds, ended.sampler_share, ended.missing, ended.notices) == (took.samples.ended_s, None, {}, [])


def test_a_process_far_from_the_gpu_is_noticed_where_copies_are_measured_and_only_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.near, "bind", lambda device: "far from it" if device.kind == "gpu" else "")
    copy = find("transfer").case({"direction": "h2d", "size": 2**20})
    noticed = {one.samples.case: [notice.code for notice in one.samples.notices] for one in said(job("simulated:h200-sxm", CASE, copy)) if isinstance(one, CaseDone)}
    assert "far_host" in noticed[copy.id]
    assert "far_host" not in noticed[CASE.id]


def test_half_of_the_first_case_s_time_is_for_preparing_it(tmp_path: Path) -> None:
    """1 s for one case: samples for half a second, 128 of 4 ticks; two batches before them."""
    _, took, _ = said(job(written(tmp_path, {CASE.workload: [SECOND]})))
    assert len(took.samples.values) == 128
    assert took.samples.ended_s - took.samples.began_s == 130 * 4 * TICK


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ((10.0, 0.0, 0.0, 0, 10), 0.5), ((10.0, 1.0, 0.6, 1, 10), 0.6), ((10.0, 8.0, 4.0, 8, 10), 0.5), ((10.0, 9.9, 5.0, 9, 10), 0.1),
        ((0.5, 0.0, 0.0, 0, 10), 0.1), ((10.0, 4.0, 4.0, 2, 4), 3.0),
    ],
)
def test_what_a_case_gets_of_a_round(given: tuple[float, float, float, int, int], seconds: float) -> None:
    """Round, spent, sampled, cases done, cases: an equal share of what is left, less what preparing takes."""
    assert worker._share(*given) == pytest.approx(seconds)


def test_the_order_is_by_the_seed_and_so_is_the_input_of_each_case(tmp_path: Path) -> None:
    spec = written(tmp_path, {"launch": [SECOND], "sync": [SECOND]})
    cases = (CASE, OTHER, THIRD)

    def order(seed: int) -> list[str]:
        return [m.case for m in said(job(spec, *cases, seed=seed)) if isinstance(m, CaseStarted)]

    def inputs(seed: int) -> dict[str, int]:
        return {m.samples.case: m.samples.seed for m in said(job(spec, *cases, seed=seed)) if isinstance(m, CaseDone)}

    assert order(3) == order(3)
    assert len({tuple(order(seed)) for seed in range(8)}) > 2
    assert inputs(3) == inputs(3)
    assert len({*inputs(3).values(), *inputs(4).values()}) == 6
    assert max(inputs(3).values()) < 2**31


def test_each_round_has_its_page_and_the_clock_goes_on(tmp_path: Path) -> None:
    spec = written(tmp_path, {CASE.workload: [SECOND, Page(steps=steps(8 * TICK))]})
    _, took, ended = said(job(spec, round=1, start_s=50.0))
    assert set(took.samples.values) == {8 * TICK}
    assert (took.samples.round, took.samples.began_s) == (1, 50.0)
    assert ended.seconds == took.samples.ended_s - 50.0  # by the target's clock, from where the round began


def test_no_case_more_where_the_session_has_enough_or_is_gone(tmp_path: Path) -> None:
    spec = written(tmp_path, {"launch": [SECOND], "sync": [SECOND]})
    assert [type(m) for m in said(job(spec, CASE, OTHER), "enough")] == [CaseStarted, CaseDone, RoundDone]
    assert [type(m) for m in said(job(spec, CASE, OTHER))] == [CaseStarted, CaseDone, CaseStarted, CaseDone, RoundDone]


def test_what_waiting_took_is_not_the_next_case_s(tmp_path: Path) -> None:
    """Others run all the time of the first case: the patience of 2 s is used up, and the second has its time all the same, but no patience."""
    busy = Page(steps=steps(4 * TICK, foreign="processor"))
    found = [m.samples for m in said(job(written(tmp_path, {"launch": [busy], "sync": [busy]}), CASE, OTHER, patience_s=2.0)) if isinstance(m, CaseDone)]
    assert [s.waited_s for s in found] == [pytest.approx(2.0, abs=0.01), 0.0]
    assert [s.disturbed for s in found] == [1.0, 1.0]
    counts = [len(s.values) + len(s.replaced) for s in found]
    assert counts[0] == 64  # a quarter of a second
    assert counts[1] >= 100  # the rest of the second, less what preparing took


@pytest.mark.parametrize(("waited_s", "cases", "patience_s"), [(0.0, 1, 8.0), (3.0, 1, 5.0), (0.0, 6, 4.0), (0.0, 3, 8.0), (5.0, 6, 3.0), (9.0, 6, 0.0)])
def test_one_case_may_wait_three_times_its_share(waited_s: float, cases: int, patience_s: float) -> None:
    assert worker._patience_s(job("host", *[CASE] * cases, patience_s=8.0), waited_s) == patience_s


@pytest.mark.parametrize(("left_s", "rounds", "most_s"), [(None, 6, None), (70.0, 6, 5.0), (72.0, 7, 4.5)])
def test_programs_are_executed_and_know_what_a_first_one_may_take(
    monkeypatch: pytest.MonkeyPatch, left_s: float | None, rounds: int, most_s: float | None,
) -> None:
    """70 s left for two cases of six rounds and one more each. Nothing but programs goes this way."""
    asked: list[tuple[str, float | None]] = []

    def measure(target: Any, case: Case, budget: Any, most_s: float | None) -> Samples:
        asked.append((case.workload, most_s))
        return Samples(case=case.id, device="", round=0, values=[1.0])

    monkeypatch.setattr(worker.programs, "measure", measure)
    monkeypatch.setattr(worker, "measure", lambda target, case, *_: Samples(case=case.id, device="", round=0))
    program = Case(workload="command", params=hotlap.core.work.find("command").parse({"argv": ["true"]}))
    options = MeasureOptions(round_s=1.0, readings_hz=0.0, rounds=rounds)
    took = [m.samples for m in said(job("host", program, CASE, left_s=left_s, options=options)) if isinstance(m, CaseDone)]
    assert asked == [("command", most_s)]
    assert {one.device for one in took} == {"key"}
    assert sorted(len(one.values) for one in took) == [0, 1]


def test_sensors_are_read_as_often_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    class Sensors(worker.Sampler):
        def __init__(self, clock: Any, readers: Any, interval_s: float) -> None:
            asked.append(interval_s)
            super().__init__(clock, readers, interval_s)

    monkeypatch.setattr(worker, "Sampler", Sensors)
    options = MeasureOptions(round_s=1.0, readings_hz=4.0)
    *_, ended = said(job(written(tmp_path, {CASE.workload: [SECOND]}), options=options))
    assert asked == [0.25]
    assert ended.sampler_share is not None


def test_the_session_hears_of_the_time_of_a_real_device_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a target does whose time is its own says nothing of the session's time."""
    given: list[bool] = []

    def budget(target: Any, case: Case, one: Job, watch: Any, channel: Any) -> Any:
        given.append(channel is not None)
        return _budget(target, case, one, watch, channel)

    _budget = worker._budget
    monkeypatch.setattr(worker, "_budget", budget)
    monkeypatch.setattr(worker, "measure", lambda target, case, *_: Samples(case=case.id, device="", round=0))
    said(job("host"))
    said(job("simulated:h200-sxm"))
    assert given == [True, False]


# ---------------------------------------------------------------- whole runs


def run(folder: Path, pages: dict[str, list[Page]], start: Any = Thread, asked: Plan | None = None, listen: Any = lambda *_: None, **script: Any) -> hotlap.Run:
    options = session.SessionOptions(target=written(folder, pages, **script), home=folder)
    asked = asked or plan(*[Case(workload=w, params=hotlap.core.work.find(w).parse({})) for w in pages])
    return hotlap.load(session.run(asked, options, listen, start))


def test_six_quiet_rounds_are_measured(tmp_path: Path) -> None:
    pages = [Page(steps=steps((4 + n / 256) * TICK)) for n in (0, 3, 1, 2, 5, 4)]
    heard: list[Any] = []
    found = run(tmp_path, {"launch": pages}, listen=lambda *event: heard.append(event))
    (row,) = found.rows
    assert row.result.values == [(4 + n / 256) * TICK for n in (0, 3, 1, 2, 5, 4)]
    assert row.summary.median == (4 + 2.5 / 256) * TICK
    assert (row.summary.rounds, row.summary.confidence, row.summary.best) == (6, 0.96875, 4 * TICK)
    assert (row.verdict.state, found.bundle.run.stops) == ("measured", [Stop("precision")])
    assert [(number, type(event)) for _, number, event in heard] == [(n, kind) for n in range(6) for kind in (CaseStarted, CaseDone, RoundDone)]


def test_each_round_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    samples = run(tmp_path, {"launch": [SECOND]}).samples
    assert [s.began_s for s in samples] == [0.0, *[s.ended_s for s in samples[:-1]]]
    assert len({s.seed for s in samples}) == 6


def test_a_wrong_answer_in_one_round_disproves_the_case(tmp_path: Path) -> None:
    found = run(tmp_path, {"launch": [SECOND, SECOND, Page(steps=SECOND.steps, right=False)], "sync": [SECOND]})
    states = {row.result.case.workload: row.verdict.state for row in found.rows}
    assert states == {"launch": "invalid", "sync": "measured"}
    assert len([s for s in found.samples if s.case == CASE.id]) == 3  # a fourth would say the same
    bad = next(row for row in found.rows if row.verdict.state == "invalid")
    assert "wrong result" in bad.verdict.reason
    assert bad.result.values == [4 * TICK] * 3


def test_a_bad_round_is_measured_again_and_left_out(tmp_path: Path) -> None:
    busy = Page(steps=steps(8 * TICK, foreign="processor"))
    found = run(tmp_path, {"launch": [SECOND, busy, SECOND]})
    (row,) = found.rows
    assert len(found.samples) == 7
    assert (row.result.left_out, row.result.values) == ([1], [4 * TICK] * 6)
    assert row.verdict.state == "measured"


def test_a_call_too_short_to_time_is_at_most_so_long(tmp_path: Path) -> None:
    page = Page(steps=[ScriptedStep(device_s=0.0, wall_s=0.0, late_s=TICK / 64)])
    found = run(tmp_path, {"launch": [page]}, device_overhead_s=TICK / 64, wall_overhead_s=TICK / 64, resolution_s=TICK / 128)
    (row,) = found.rows
    assert (row.result.too_short, row.verdict.state) == (True, "inconclusive")
    assert "less time than timing it" in row.verdict.reason


def test_five_good_rounds_have_the_confidence_of_five(tmp_path: Path) -> None:
    (row,) = run(tmp_path, {"launch": [SECOND]}, asked=plan(rounds=5, rounds_max=5)).rows
    assert (row.summary.confidence, row.verdict.state) == (0.9375, "inconclusive")
    assert row.verdict.reason.startswith("5 rounds of the 6 that a 95 % interval needs")
    assert "93.8 %" in row.verdict.reason


def test_noise_between_rounds_takes_more_of_them(tmp_path: Path) -> None:
    """± 3 % from round to round and 2 % asked: six are not enough."""
    pages = [Page(steps=steps((4 + 0.12 * (n % 3 - 1)) * TICK)) for n in range(40)]
    found = run(tmp_path, {"launch": pages}, asked=plan(rounds_max=12, precision=0.02))
    (row,) = found.rows
    assert (len(found.samples), found.bundle.run.stops) == (12, [Stop("rounds_max")])
    assert row.verdict.state == "inconclusive"
    assert row.verdict.action == "about 20 rounds should reach the precision asked: --rounds 20 --budget '20 s'"


def test_a_process_that_dies_takes_one_case_with_it(tmp_path: Path) -> None:
    jobs: list[Job] = []

    def start(one: Job, limit_s: float, stop: threading.Event) -> Thread:
        jobs.append(one)
        return Thread(one, limit_s, stop, dies=lambda job, case: case == OTHER.id and job.round == 1)

    found = run(tmp_path, {"launch": [SECOND], "sync": [SECOND]}, start)
    failed = [s for s in found.samples if s.status == "error"]
    assert [(s.case, s.round, s.reason) for s in failed] == [(OTHER.id, 1, "the measuring process was ended by SIGSEGV: last words")]
    assert sorted(s.round for s in found.samples if s.case == CASE.id) == list(range(6))
    assert sorted(s.round for s in found.samples if s.case == OTHER.id) == list(range(7))
    assert {row.verdict.state for row in found.rows} == {"measured"}
    assert {one.seed for one in jobs} == {5000 + n for n in range(7)}
    again = [one for one in jobs if one.round == 1]
    assert sum(len(one.cases) for one in again) in (2, 3)


def test_a_case_that_does_not_answer_is_not_tried_again(tmp_path: Path) -> None:
    class Silent(Thread):
        def __init__(self, one: Job, limit_s: float, stop: threading.Event) -> None:
            super().__init__(one, limit_s, stop, dies=self._hangs)
            self.limit_s = limit_s

        def _hangs(self, _: Job, case: str) -> bool:
            self.hung = case == OTHER.id
            return self.hung

    found = run(tmp_path, {"launch": [SECOND], "sync": [SECOND]}, Silent)
    reasons = [s.reason for s in found.samples if s.case == OTHER.id]
    assert "did not answer" in reasons[0]
    assert set(reasons[1:]) == {"not tried again: it did not answer in round 1"}
    assert {row.result.case.workload: row.verdict.state for row in found.rows} == {"launch": "measured", "sync": "error"}


def test_a_process_that_ends_before_its_first_case_ends_the_run(tmp_path: Path) -> None:
    class Stillborn(Thread):
        def messages(self) -> Any:
            return iter(())

    with pytest.raises(MachineError, match="before its first case; its last words: last words"):
        run(tmp_path, {"launch": [SECOND]}, Stillborn)


@pytest.mark.parametrize("at", [0, 1])
def test_a_device_that_is_lost_keeps_what_was_measured(tmp_path: Path, at: int) -> None:
    lost = Page(steps=[ScriptedStep(device_s=4 * TICK), ScriptedStep(error="off the bus")])
    with pytest.raises(MachineError, match="off the bus" + ("; everything measured is kept" if at else "")):
        run(tmp_path, {"launch": [SECOND] * at + [lost]})
    if at:
        kept = hotlap.load(next((tmp_path / "runs").iterdir()))
        assert len(kept.samples) == 1
        assert kept.bundle.run.stops[0].detail.startswith("off the bus")


def test_a_run_that_was_cut_short_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    pages = {"launch": [SECOND], "sync": [SECOND]}
    with pytest.raises(MachineError):
        run(tmp_path, {**pages, "sync": [SECOND, SECOND, Page(steps=[ScriptedStep(error="off the bus")])]})
    path = next((tmp_path / "runs").iterdir())
    before = hotlap.load(path).samples
    written(tmp_path, pages)
    whole = hotlap.load(session.resume(path, lambda *_: None, Thread))  # type: ignore[arg-type]
    assert whole.samples[: len(before)] == before
    assert sorted((s.case, s.round) for s in whole.samples) == sorted((c.id, n) for c in (CASE, OTHER) for n in range(6))
    assert whole.bundle.run.stops == [Stop("precision")]


def test_every_round_but_the_first_is_told_what_the_first_one_chose(tmp_path: Path) -> None:
    """Variant and method, from what is kept: a run that goes on tells it too."""
    jobs: list[Job] = []

    def start(one: Job, limit_s: float, stop: threading.Event) -> Thread:
        jobs.append(one)
        return Thread(one, limit_s, stop)

    with pytest.raises(MachineError):
        run(tmp_path, {"launch": [SECOND, SECOND, Page(steps=[ScriptedStep(error="off the bus")])]}, start)
    first = CaseChoice("scripted", "event-single")
    assert [one.choices for one in jobs] == [{}, {CASE.id: first}, {CASE.id: first}]
    path = next((tmp_path / "runs").iterdir())
    written(tmp_path, {"launch": [SECOND]})
    jobs.clear()
    session.resume(path, lambda *_: None, start)  # type: ignore[arg-type]
    assert [one.choices for one in jobs] == [{CASE.id: first}] * 4


def test_the_time_of_all_of_a_run_is_kept(tmp_path: Path) -> None:
    def counted(limit_s: float) -> hotlap.Run:
        options = session.SessionOptions(target=written(tmp_path, {"launch": [SECOND]}), home=tmp_path, limit_s=limit_s)
        return hotlap.load(session.run(plan(), options, lambda *_: None, Thread))  # type: ignore[arg-type]

    each_s = 130 * 4 * TICK
    assert [len(counted(n * each_s).samples) for n in (0.5, 1.0, 1.99, 2.0, 3.5)] == [1, 1, 1, 2, 3]
    short = counted(3.5 * each_s)
    assert short.bundle.run.stops == [Stop("budget")]
    assert len(counted(100.0).samples) == 6


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    class Interrupted(Thread):
        def __init__(self, one: Job, limit_s: float, stop: threading.Event) -> None:
            super().__init__(one, limit_s, stop)
            if one.round == 2:
                stop.set()

    with pytest.raises(hotlap.core.errors.Interrupted, match="everything measured is kept: hotlap run --resume"):
        run(tmp_path, {"launch": [SECOND]}, Interrupted)
    kept = hotlap.load(next((tmp_path / "runs").iterdir()))
    assert (kept.bundle.run.stops, len(kept.samples)) == ([Stop("interrupted")], 2)


def test_more_cases_than_a_round_has_time_for_are_said(tmp_path: Path) -> None:
    news: list[Any] = []
    run(tmp_path, {"launch": [SECOND], "sync": [SECOND]}, asked=plan(CASE, OTHER, round_s=0.15), listen=lambda _, n, e: news.append(e))
    assert news[0] == "2 cases need 200 ms a round at least, more than the 150 ms asked"
    many = [Case(workload="stream", params={"size": n}) for n in range(21)]
    cut = measuring.within(Plan(name="p", cases=many, measure=MeasureOptions()), 5)
    assert session._longer(cut) == "21 cases need 2.10 s a round at least, more than the 714 ms that the budget leaves each of 6"


def test_a_busy_machine_is_said_once(tmp_path: Path) -> None:
    news: list[Any] = []
    busy = Page(steps=steps(4 * TICK, foreign="processor"))
    found = run(tmp_path, {"launch": [busy]}, listen=lambda _, n, e: news.append((n, e)))
    words = [(n, e) for n, e in news if isinstance(e, str)]
    assert len(words) == 1
    assert words[0][1].startswith("the machine stays busy: 1 of 1 cases were disturbed all the time")
    assert f"a case with fewer than {FEWEST_GOOD} undisturbed rounds uses its disturbed ones too" in words[0][1]
    (row,) = found.rows
    assert row.result.values
    assert row.result.notices[0].code == "shared_device"


def test_an_unknown_workload_of_a_script_is_not_run(tmp_path: Path) -> None:
    found = run(tmp_path, {"launch": [SECOND]}, asked=plan(CASE, OTHER))
    assert [(row.result.case.workload, row.verdict.state) for row in found.rows] == [("launch", "measured"), ("sync", "not_run")]
    (tmp_path / "broken.json").write_text("{}")
    options = session.SessionOptions(target=f"scripted:{tmp_path / 'broken.json'}", home=tmp_path)
    with pytest.raises(InputError, match="is no script"):
        session.run(plan(), options, lambda *_: None)


def test_samples_of_the_same_script_are_the_same(tmp_path: Path) -> None:
    def kept() -> list[Samples]:
        return run(tmp_path, {"launch": [SECOND], "sync": [SECOND]}).samples

    assert kept() == kept()


def test_silence_is_allowed_for_two_minutes_beside_what_a_case_may_take(tmp_path: Path) -> None:
    """Four rounds' time, the patience (80 % of 5 s in six rounds: 0.67 s), and six executions of a program of 7 s."""
    allowed: list[float] = []

    def start(one: Job, limit_s: float, stop: threading.Event) -> Thread:
        allowed.append(limit_s)
        return Thread(one, limit_s, stop)

    run(tmp_path, {"launch": [SECOND]}, start, plan(budget_s=5.0, round_s=0.5))
    assert allowed[0] == pytest.approx(120 + 4 * 0.5 + 4 / 6)
    slow = Case(workload="command", params=hotlap.core.work.find("command").parse({"argv": ["x"], "timeout": 7.0}))
    assert session._longest_s(slow) == 7.0
    assert session._longest_s(CASE) == session._longest_s(Case(workload="x", params={"timeout": "7"})) == 0.0


def test_a_process_that_cannot_measure_more_ends_and_a_fresh_one_goes_on(tmp_path: Path) -> None:
    class Tainting(Thread):
        def messages(self) -> Any:
            for message in super().messages():
                if isinstance(message, CaseDone):
                    self.spent = True
                    yield message
                    return
                yield message

    found = run(tmp_path, {"launch": [SECOND], "sync": [SECOND]}, Tainting)
    assert sorted((s.case, s.round) for s in found.samples) == sorted((c.id, n) for c in (CASE, OTHER) for n in range(6))
    assert {s.status for s in found.samples} == {"measured"}


def test_a_fault_that_was_set_for_later_than_the_run_lasted_is_said(tmp_path: Path) -> None:
    news: list[Any] = []
    options = session.SessionOptions(target="simulated:h200-sxm?throttle=0.3@9999s", home=tmp_path)
    gemm = Case(workload="gemm", params=hotlap.core.work.find("gemm").parse({"dtype": "bf16"}))
    session.run(plan(gemm, rounds=1, rounds_max=1), options, lambda _, n, e: news.append(e), Thread)  # type: ignore[arg-type]
    assert any(isinstance(one, str) and "throttle" in one for one in news)
