"""What is said before a run begins: a busy machine, waiting, how long it will take."""

from __future__ import annotations

import io
import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from hotlap.cli import looking, main, progress
from hotlap.core.measure.machine import busy
from hotlap.core.measure.protocol import CaseDone, RoundDone
from hotlap.core.record import Case, Device, Look, MeasureOptions, Plan, RunningProcess, Samples

IDLE = Look(seconds=0.01, cores=2, others_share=0.0, steal_share=0.0, runnable=0.0)
BUSY = Look(seconds=0.01, cores=2, others_share=0.5, steal_share=0.0, runnable=1.0, busiest=[RunningProcess(name="make", pid=9, cores=1.0)])
CPU = Device(target="host", index=0, name="cpu", kind="cpu")
WORDS = "the machine is busy: make (pid 9) uses 1.0 of 2 cores"
AGAIN = "disturbed samples are taken again, which takes longer, and what stays disturbed is marked"
PLAN = '[measure]\nrounds = 6\nrounds_max = 6\nround_time = "1 ms"\n[[case]]\nworkload = "command"\nargv = ["true"]\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(looking, "LOOKED_TWICE", 0.01)
    (tmp_path / "p.toml").write_text(PLAN)
    return tmp_path / "home"


def run(tmp_path: Path, *words: str) -> int:
    return main(["run", str(tmp_path / "p.toml"), "--no-report", *words])


def kept(home: Path) -> object:
    return json.loads(next(home.glob("runs/*/run.json")).read_text())["look"]


def test_a_busy_machine_is_said_before_the_run_and_the_look_is_kept(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(busy, "look", lambda devices, seconds: BUSY)
    assert run(tmp_path) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"hotlap: {WORDS}; {AGAIN}; --wait-quiet '5 min' waits until it is idle"
    found = kept(home)
    assert isinstance(found, dict)
    assert (found["others_share"], found["busiest"]) == (0.5, [{"name": "make", "pid": 9, "cores": 1.0}])


def test_a_quiet_machine_gets_no_word(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(busy, "look", lambda devices, seconds: IDLE)
    assert run(tmp_path) == 0
    assert "busy" not in capsys.readouterr().err


def test_a_simulated_device_is_not_looked_at(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(busy, "look", lambda devices, seconds: pytest.fail("it was looked at"))
    assert main(["run", "quick", "--target", "simulated:h200-sxm", "--round-time", "1 s", "--no-report", "--rounds", "1"]) == 0
    assert kept(home) is None
    assert "about" not in capsys.readouterr().err


def looks(*found: Look) -> Iterator[Look]:
    yield from found


def test_waiting_ends_when_the_machine_is_idle(capsys: pytest.CaptureFixture[str]) -> None:
    seen = looks(BUSY, BUSY, IDLE)
    assert looking.quiet([CPU], 60.0, looker=lambda _: next(seen)) == IDLE
    first, last = capsys.readouterr().err.splitlines()
    assert first == f"hotlap: {WORDS}; waiting until it is idle, 60 s at most"
    assert last == "hotlap: the machine is idle after 0 s"


def test_an_idle_machine_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    seen = looks(IDLE)
    assert looking.quiet([CPU], 60.0, looker=lambda _: next(seen)) == IDLE
    assert capsys.readouterr().err == ""


def test_after_the_time_it_goes_on_and_says_so(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(busy, "look", lambda devices, seconds: BUSY)
    began = time.monotonic()
    assert run(tmp_path, "--wait-quiet", "300 ms") == 0
    assert time.monotonic() - began >= 0.25
    said = capsys.readouterr().err
    assert "waiting until it is idle, 300 ms at most" in said
    assert f"{WORDS}; going on after 0 s all the same: {AGAIN}" in said
    assert isinstance(kept(home), dict)


@pytest.mark.parametrize(("words", "message"), [
    (["--wait-quiet", "quick"], "takes a time, as in '5 min', not 'quick'; a plan stands before it: hotlap run quick --wait-quiet"),
    (["--wait-quiet", "-3 s"], "expected one argument|a time from 0 on|takes a time"),
    (["--resume", "latest", "--wait-quiet"], "takes no --wait-quiet|no run"),
])
def test_bad_input_gets_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert re.search(message, said)


def plan(rounds: int, most: int, round_s: float = 8.0, budget_s: float = 600.0) -> Plan:
    cases = [Case(workload="stream", params={"size": n}) for n in range(3)]
    return Plan(name="p", cases=cases, measure=MeasureOptions(rounds=rounds, rounds_max=most, round_s=round_s, budget_s=budget_s))


def programs(rounds: int, most: int, budget_s: float = 600.0) -> Plan:
    """The same of programs, whose rounds are executions."""
    asked = plan(rounds, most, budget_s=budget_s)
    return msgspec.structs.replace(asked, cases=[Case(workload="command", params={"argv": ["true"], "copy": n}) for n in range(3)])


@pytest.mark.parametrize(("asked", "target", "limit_s", "says"), [
    (plan(6, 6), "opencl", math.inf, "about 60 s, up to 6 min if other programs run: 6 rounds of 3 cases"),
    (plan(6, 30), "opencl", math.inf, "about 60 s to 5 min, up to 18 min if other programs run: 6 to 30 rounds of 3 cases, until each is as exact as asked"),
    (plan(6, 30), "opencl", 90.0, "about 60 s to 2 min: 6 to 30 rounds of 3 cases, until each is as exact as asked"), (plan(6, 30), "opencl", 20.0, "about 20 s: 6 to 30 rounds of 3 cases, until each is as exact as asked"),
    (plan(6, 30, budget_s=90.0), "cuda", math.inf, "about 60 s to 2 min, up to 3 min if other programs run: 6 to 30 rounds of 3 cases, until each is as exact as asked"), (programs(6, 100, budget_s=60.0), "host", 18.8, "at most 19 s: 6 to 100 rounds of 3 cases, until each is as exact as asked"),
    (plan(1, 1, round_s=5400.0), "cuda", math.inf, "about 1.5 h, up to 1.8 h if other programs run: 1 round of 3 cases"), (plan(6, 6), "simulated:h200-sxm", math.inf, ""), (plan(6, 6), "", math.inf, ""),
])
def test_how_long_it_will_take_is_said_at_the_begin(asked: Plan, target: str, limit_s: float, says: str) -> None:
    stream = io.StringIO()
    progress.Progress(stream).begin(asked, target, limit_s)
    assert stream.getvalue() == (f"{says}\n" if says else "")


def test_a_budget_that_is_too_short_is_said_before_measuring() -> None:
    stream = io.StringIO()
    progress.Progress(stream).begin(plan(6, 30, round_s=1.0, budget_s=8.0), "opencl", 7.0)
    (short,) = stream.getvalue().splitlines()  # and no line beside it that says 6 to 30 rounds
    assert short.startswith("a budget of 8 s, of which finding devices took 1 s, is too short for 6 rounds of about 2 s")
    assert "expect 3, and an interval from few rounds or none" in short
    assert "too short for a single round of about 2 s, 2 s of it to start: expect numbers of some cases at most" in progress.too_short(
        plan(6, 30, round_s=1.0, budget_s=8.0), "opencl", 2.0
    )
    (enough,) = re.findall(r"--budget '(\d+) s'", short)
    assert int(enough) > 8
    assert not progress.too_short(plan(6, 30, round_s=1.0, budget_s=float(enough)), "opencl", float(enough) - 1.0)
    assert not progress.too_short(programs(6, 30), "host", 1.0)


@pytest.mark.parametrize(("asked", "target", "limit_s", "says"), [
    (plan(6, 6), "opencl", math.inf, "at least 60 s, and up to about 6 min on a machine as busy as this"), (plan(6, 30, budget_s=80.0), "opencl", math.inf, "at least 60 s, and up to about 3 min on a machine as busy as this"),
    (plan(6, 30), "opencl", 90.0, "at least 60 s, and up to about 2 min on a machine as busy as this"), (programs(6, 30, budget_s=60.0), "host", math.inf, "at most 2 min"),
])
def test_a_busy_machine_takes_longer(asked: Plan, target: str, limit_s: float, says: str) -> None:
    """Each round that may be replaced, with its waiting; or 80 % of the budget on top of it and a last round, where that is less."""
    stream = io.StringIO()
    progress.Progress(stream).begin(asked, target, limit_s, busy=True)
    how_long, _, what = stream.getvalue().partition(": ")
    assert how_long == says
    most = asked.measure.rounds_max + 1
    assert (f"; disturbed ones are waited for and replaced, at most {most} of a case" in what, "good rounds" in what) == (target != "host", target != "host")


@pytest.mark.parametrize(("cases", "busy", "says"), [
    ((1, 1), False, "about 50 s to 4 min, up to 16 min if other programs run: 6 to 30 rounds of 1 case each on 2 targets, in turns, until"),
    ((1, 3), True, "at least 50 s, and up to about 16 min on a machine as busy as this: 6 to 30 good rounds of 1 and 3 cases on 2 targets, in turns, until"),
])  # fmt: skip
def test_of_sides_that_are_measured_in_turns_the_time_of_all_is_said_once(cases: tuple[int, int], busy: bool, says: str) -> None:
    """Each turn is two rounds of 2 s, each with 2 s to start; and 8 s of waiting where rounds are replaced."""
    whole, stream = plan(6, 30, round_s=2.0), io.StringIO()
    sides = [replace(whole, cases=whole.cases[-count:]) for count in cases]
    listeners = [progress.Progress(stream) for _ in sides]
    for side, listener in zip(sides, listeners, strict=True):
        listener.begin(side, "opencl", math.inf, busy, [sides[0], *sides[1:]])
    (line,) = stream.getvalue().splitlines()
    assert line.startswith(says)
    assert listeners[0].expected == listeners[1].expected


def test_a_case_that_fails_in_the_first_round_is_said() -> None:
    stream, asked = io.StringIO(), plan(6, 6)
    shown = progress.Progress(stream)
    shown.begin(asked)
    for number, cause in ((0, "timers"), (0, "wrong_result"), (1, "timers")):
        samples = Samples(case=asked.cases[0].id, device="d", round=number, status="invalid", cause=cause, reason="why")
        shown(CPU, number, CaseDone(samples=samples))
    label = shown.labels[asked.cases[0].id]
    assert stream.getvalue().splitlines() == [f"round 1, {label}: invalid: why; another round takes its place", f"round 1, {label}: invalid: why"]


class Clock:
    """Time that the test tells."""

    seconds = 0.0

    def now(self) -> float:
        return self.seconds


def test_the_time_left_follows_from_the_rounds_that_are_done() -> None:
    stream, clock = io.StringIO(), Clock()
    shown = progress.Progress(stream)
    shown.clock = clock  # type: ignore[assignment]
    shown.begin(plan(6, 30, budget_s=90.0), "opencl")
    for number, seconds in enumerate((16.0, 26.0, 36.0, 46.0, 56.0, 66.0, 76.0)):
        clock.seconds = seconds
        shown(CPU, number, RoundDone(seconds=10.0))
    left = [line.partition("s, ")[2] for line in stream.getvalue().splitlines()[1:]]
    assert left == ["about 80 s left", "about 50 s left", "about 40 s left", "about 20 s left", "about 11 s left", *(f"at most {left} if no other program runs" for left in ("20 s left", "14 s left"))]


def test_of_several_devices_a_line_says_which_and_how_long_the_others_take() -> None:
    """After a round of the second of four devices three eighths are over: by the wall clock, not by the clock of simulated devices, the
    first of which begins the process."""
    stream, clock = io.StringIO(), Clock()
    shown = progress.Progress(stream)
    shown.clock = clock  # type: ignore[assignment]
    shown.several(4, together=False)
    shown.begin(plan(2, 2))
    for place, number, seconds in ((0, 0, 10.0), (0, 1, 20.0), (1, 0, 30.0), (3, 1, 80.0)):
        clock.seconds = seconds
        shown(replace(CPU, target="simulated", index=place), number, RoundDone(seconds=2.0))
    first, *lines = stream.getvalue().splitlines()
    assert first.startswith("4 devices, one after another: 2 rounds of ")
    assert lines[0] == "device 1 of 4, simulated:0 round 1 of 2: 2.0 s of simulated time"
    assert lines[2].startswith("device 2 of 4, simulated:1 round 1 of 2: ")
    assert lines[2].endswith(", about 50 s left at this rate")


def test_a_device_that_had_no_line_counts_all_the_same() -> None:
    """Lines come once in 5 s: of 60 fast devices, a line of the 57th says so, and that the last three take as long as those until now."""
    stream, clock = io.StringIO(), Clock()
    shown = progress.Progress(stream)
    shown.clock = clock  # type: ignore[assignment]
    shown.several(60, together=False)
    shown.begin(plan(2, 2))
    for place in range(57):
        clock.seconds += 0.8
        for number in range(2):
            shown(replace(CPU, target="simulated", index=place), number, RoundDone(seconds=2.0))
    last = stream.getvalue().splitlines()[-1]
    assert last.startswith("device 57 of 60, simulated:56 round 1 of 2: ")
    assert last.endswith(", about 3 s left at this rate")


def test_a_time_left_beyond_what_was_said_at_the_start_is_called_slower() -> None:
    """Said: at least 60 s, and up to about 3 min. A round that takes 40 s makes it more; one of 10 s does not."""
    for seconds, says in ((40.0, "slower than expected: about 2 min left at this rate"), (10.0, "about 50 s left at this rate")):
        stream, clock = io.StringIO(), Clock()
        shown = progress.Progress(stream)
        shown.clock = clock  # type: ignore[assignment]
        shown.begin(plan(6, 30, budget_s=80.0), "opencl", busy=True)
        clock.seconds = seconds
        shown(CPU, 0, RoundDone(seconds=seconds))
        first, line = stream.getvalue().splitlines()
        assert first.startswith("at least 60 s, and up to about 3 min")
        assert line.partition("s, ")[2] == says


@pytest.mark.parametrize(("kind", "lines"), [("cpu", 0), ("gpu", 1)])
def test_that_the_machine_is_busy_is_said_once_of_each_kind(
    kind: str, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    busy_look = Look(seconds=1.0, cores=2, load=2.0, kind="cpu")
    monkeypatch.setattr(busy, "look", lambda devices, seconds: busy_look)
    assert looking._looked([CPU], [replace(busy_look, kind=kind)]) == busy_look
    assert capsys.readouterr().err.count("the machine is busy") == lines


def test_rounds_that_are_measured_again_are_told_from_good_ones_and_the_time_left_allows_for_them() -> None:
    stream, clock = io.StringIO(), Clock()
    shown = progress.Progress(stream)
    shown.clock = clock  # type: ignore[assignment]
    asked = plan(2, 3, round_s=8.0)
    shown.begin(asked, "opencl")
    for number, disturbed in enumerate((0.0, 1.0, 1.0, 1.0, 0.0, 0.0)):
        clock.seconds += 10.0
        for one in asked.cases:
            shown(CPU, number, CaseDone(samples=Samples(case=one.id, device=CPU.key, round=number, values=[1.0], disturbed=disturbed)))
        shown(CPU, number, RoundDone(seconds=10.0))
    lines = [line.removeprefix(f"{CPU.selector} ") for line in stream.getvalue().splitlines()[1:]]
    rounds = ["round 1 of 2 to 3", *(f"round {n}, 1 of {n} good (2 to 3 wanted; if fewer than 3 are good at the end, disturbed rounds count, too)" for n in (2, 3, 4))]
    assert [line.partition(":")[0] for line in lines] == [*rounds, "round 5, 2 of 5 good (2 to 3 wanted; if fewer than 3 are good at the end, disturbed rounds count, too)", "round 6, 3 of 6 good (2 to 3 wanted)"]
    assert "about 10 s left" in lines[0]
    # a good round took 20 s, 30 s, 40 s and 25 s until then; of at most 3 good and 4 bad ones no more than 3 and 2 are to come at the end
    assert [line.rpartition("s, ")[2] for line in lines[1:5]] == [*(f"about {left} left at this rate" for left in ("20 s", "30 s", "30 s")), "at most 20 s left at this rate"]


def test_while_no_round_is_good_nothing_is_said_of_the_time_left() -> None:
    stream, clock, asked = io.StringIO(), Clock(), plan(2, 3, round_s=8.0)
    shown = progress.Progress(stream)
    shown.clock = clock  # type: ignore[assignment]
    shown.begin(asked, "opencl")
    for number in range(4):
        clock.seconds += 10.0
        for one in asked.cases:
            shown(CPU, number, CaseDone(samples=Samples(case=one.id, device=CPU.key, round=number, values=[1.0], disturbed=1.0)))
        shown(CPU, number, RoundDone(seconds=10.0))
    *before, last = stream.getvalue().splitlines()[1:]
    assert len(before) == 3
    assert not any("left" in line for line in before)
    assert last.endswith("round 4, 0 of 4 good (2 to 3 wanted; if fewer than 3 are good at the end, disturbed rounds count, too): 10.0 s")


def test_rounds_that_failed_are_not_called_disturbed() -> None:
    stream, asked = io.StringIO(), plan(2, 3)
    shown = progress.Progress(stream)
    shown.begin(asked, "opencl")
    for one in asked.cases:
        shown(CPU, 0, CaseDone(samples=Samples(case=one.id, device=CPU.key, round=0, status="error", reason="why")))
    shown(CPU, 0, RoundDone(seconds=10.0))
    assert "round 1, 0 of 1 good (2 to 3 wanted" in stream.getvalue()


def test_a_log_has_a_line_in_five_seconds_at_most() -> None:
    stream, clock = io.StringIO(), Clock()
    shown = progress.Progress(stream)
    shown.clock = clock  # type: ignore[assignment]
    shown.begin(plan(6, 100), "host")
    for number in range(40):
        clock.seconds += 0.5
        shown(CPU, number, RoundDone(seconds=0.5))
    assert len(stream.getvalue().splitlines()) == 1 + 4


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_time_left_from_the_start() -> None:
    from hotlap.core.measure.protocol import CaseStarted

    stream = Terminal()
    shown = progress.Progress(stream)
    asked = plan(6, 6)
    shown.begin(asked, "opencl")
    shown(CPU, 0, CaseStarted(case=asked.cases[0].id))
    assert "round 1 of 6, about 60 s left  stream" in stream.getvalue()


@pytest.mark.parametrize(("count", "following"), [(2, "hotlap explain "), (9, "hotlap gate ")])
def test_the_next_step_of_a_fleet_is_who_stands_out(count: int, following: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    plan = tmp_path / "p.toml"
    plan.write_text('[[case]]\nworkload = "stream"\nsize = "1 GiB"\n')
    assert main(["run", str(plan), "--target", f"simulated:h200-sxm?count={count}", "--device", "all", "--rounds", "1", "--no-report"]) == 0
    out = capsys.readouterr().out
    assert f"\nnext    {following}" in out
    alone = count == 2  # of many devices the table is folded: it has no column of intervals or limits, and explains none
    assert ("±: 95 % interval" in out, "– of outliers: no device stands out" in out) == (alone, not alone)


def test_many_simulated_nodes_say_how_long_the_others_take() -> None:
    stream, clock = io.StringIO(), Clock()
    shown = progress.Progress(stream)
    shown.clock = clock  # type: ignore[assignment]
    shown.began_s = shown.logged_s = 0.0
    for done, seconds in ((2, 8.0), (4, 16.0), (100, 400.0), (200, 800.0)):
        clock.seconds = seconds
        shown.nodes(done, 200)
    assert stream.getvalue().splitlines() == ["2 of 200 nodes", "4 of 200 nodes, about 13 min left", "100 of 200 nodes, about 7 min left", "200 of 200 nodes"]
