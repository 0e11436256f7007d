"""Programs on the host: a round is an execution, one process starts them all, and nothing of a device has a part in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hotlap
from hotlap.core import plan as plans
from hotlap.core.measure import session
from hotlap.core.measure.loop import CaseBudget
from hotlap.core.measure.programs import measure
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.measure.targets.host import HostTarget
from hotlap.core.record import Case, MeasureOptions, Plan, Stop
from hotlap.core.store import bundle as bundles
from hotlap.core.work import find

ONE_EACH = MeasureOptions(rounds=6, rounds_max=6, round_s=0.001, readings_hz=0.0)
HALF_S = "sleep 0.15"  # longer than the least time of a case in a round


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def program(script: str, **more: object) -> Case:
    return Case(workload="command", params=find("command").parse({"argv": ["sh", "-c", script], **more}))


def number(script: str) -> Case:
    """The number that a script prints."""
    return program(script, read="pattern", expression=r"\d+", unit="")


def ended(pid: int) -> bool:
    """Whether a process ends within a few seconds. Where nobody asks how it ended, as in some containers, its entry stays."""
    for _ in range(200):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


class Ticking(SystemClock):
    """A clock that goes on by 10 ms whenever it is looked at."""

    ticks = 0

    def now(self) -> float:  # type: ignore[override]
        self.ticks += 1
        return round(self.ticks * 0.01, 2)


def run(*cases: Case, measure: MeasureOptions = ONE_EACH) -> hotlap.api.Run:
    return hotlap.run(Plan(name="programs", cases=list(cases), measure=measure))


def test_a_round_is_one_execution_and_the_first_of_all_is_not_counted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    found = run(program(f"echo >> {log}; {HALF_S}"))
    assert found.bundle.run.target == "host"
    rounds = len(found.samples)
    assert rounds >= 6  # a round that others disturbed is measured again
    assert [len(one.values) for one in found.samples] == [1] * rounds
    assert [one.warmup_samples for one in found.samples] == [1] + [0] * (rounds - 1)
    assert len(log.read_text().splitlines()) == rounds + 1
    result = found.results[0]
    assert (result.status, result.metric, result.unit, result.target) == ("measured", "time", "s", "host")
    assert all(value >= 0.15 for value in result.values)
    assert {one.method for one in found.samples} == {"program"}
    assert not any(notice.code == "few_samples" for notice in result.notices)


def test_the_first_execution_counts_where_the_fewest_rounds_would_not_fit_without_it() -> None:
    case, slot = program(HALF_S), CaseBudget(seconds=0.0)
    assert [measure(HostTarget(), case, slot, most_s).warmup_samples for most_s in (None, 60.0, 0.1)] == [1, 1, 0]
    assert [len(measure(HostTarget(), case, slot, most_s).values) for most_s in (60.0, 0.1)] == [1, 1]
    assert measure(HostTarget(), case, CaseBudget(seconds=0.0, round=1), 60.0).warmup_samples == 0


def test_short_programs_are_executed_for_the_time_of_the_round() -> None:
    host = HostTarget()
    host.clock = Ticking()  # type: ignore[assignment]
    found = measure(host, number("echo 7"), CaseBudget(seconds=0.1, round=1))
    assert found.values == [7.0] * 10  # a tick each: the look at what is left; an execution has a clock of its own
    assert (found.began_s, found.ended_s, found.variant) == (0.01, 0.12, "pattern")


def test_one_process_starts_the_programs_of_all_rounds_and_loads_no_device() -> None:
    pid, loaded = number(f"{HALF_S}; echo $PPID"), number("grep -ciE 'libOpenCL|libpocl|libtorch|libcuda' /proc/$PPID/maps; true")
    found = {one.case.params["argv"][2][-5:]: one for one in run(pid, loaded).results}  # type: ignore[index]
    result = next(one for one in found.values() if one.case.id == pid.id)
    assert len(result.rounds) >= 6
    parents = [one.values[0] for one in result.rounds]  # of every round, whether others disturbed it or not
    assert len(set(parents)) == 1
    assert parents[0] != os.getpid()
    if Path("/proc/self/maps").exists():
        assert set(next(one for one in found.values() if one.case.id == loaded.id).values) == {0.0}


def test_sensors_are_those_of_the_host_alone() -> None:
    found = run(program(HALF_S), measure=MeasureOptions(rounds=6, rounds_max=6, round_s=0.1))
    assert {one.device for one in found.bundle.readings} == {"host"}


def test_a_program_that_ends_its_starter_takes_one_case_of_one_round_with_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    other, killer = program(HALF_S), program(f"echo >> {log}; [ $(wc -l < {log}) -eq 3 ] && kill -9 $PPID; {HALF_S}")
    found = run(other, killer)
    by = {one.case.id: one for one in found.results}
    assert len(by[other.id].rounds) >= 6  # with those that others disturbed: how many of them are good depends on what else runs
    assert len(by[killer.id].rounds) >= 6
    assert by[other.id].values
    assert by[killer.id].values
    assert [one.status for one in by[killer.id].rounds].count("error") == 1
    assert "SIGKILL" in by[killer.id].reason


def test_a_program_that_fails_says_why_and_the_others_are_measured() -> None:
    bad, good = program("echo no luck >&2; exit 3"), program(HALF_S)
    by = {one.case.id: one for one in run(bad, good).results}
    assert by[bad.id].status == "not_run"
    assert len(by[good.id].rounds) >= 6
    assert by[good.id].values
    assert "status 3: no luck" in by[bad.id].reason


def test_the_budget_holds_and_an_interval_comes_of_it(home: Path) -> None:
    plan = Plan(name="programs", cases=[program("sleep 0.3")], measure=plans.of_programs(1))
    found = hotlap.load(session.run(plan, session.SessionOptions(home=home, limit_s=60.0), lambda *_: None))
    assert 6 <= len(found.samples) <= 201
    assert 1 <= found.rows[0].summary.rounds <= len(found.samples)  # rounds beside others' load are left out while there are better ones
    assert found.rows[0].summary.low is not None
    few = hotlap.load(session.run(plan, session.SessionOptions(home=home, limit_s=0.01), lambda *_: None))
    assert (len(few.samples), few.bundle.run.stops) == (1, [Stop("budget")])
    assert few.samples[0].warmup_samples == 0  # there was no time for a warm-up


@pytest.mark.slow("starts real programs and waits for them")
def test_an_interrupted_run_ends_its_program_and_goes_on(home: Path, tmp_path: Path) -> None:
    file, log = tmp_path / "p.toml", tmp_path / "log"
    file.write_text(f'[measure]\nrounds = 6\nrounds_max = 6\nround_time = "1 ms"\n[[case]]\nworkload = "command"\nargv = ["sh", "-c", "echo $$ >> {log}; sleep 0.5"]\n')
    process = subprocess.Popen([sys.executable, "-m", "hotlap", "run", str(file), "--no-report"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    kept = lambda: sum(len(path.read_text().splitlines()) for path in home.glob("runs/*/samples.jsonl"))  # noqa: E731
    while kept() < 2:
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    last = int(log.read_text().splitlines()[-1])
    assert ended(last)
    found = bundles.load(next(home.glob("runs/*")))
    assert 2 <= len(found.samples) < 6
    done = subprocess.run([sys.executable, "-m", "hotlap", "run", "--resume", found.run.id, "--no-report"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rounds = [one.round for one in bundles.load(found.path).samples]
    assert len(rounds) >= 6  # more where a round was disturbed
    assert rounds == list(range(len(rounds)))


def test_plans_of_programs_have_defaults_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text('[[case]]\nworkload = "command"\nargv = [["true"], ["false"]]\n')
    measure = plans.load(str(file)).measure
    assert (measure.rounds, measure.rounds_max, measure.precision, measure.budget_s) == (6, 100, 0.05, 60.0)
    assert measure.round_s == pytest.approx(0.2)
    file.write_text('[measure]\nprecision = "2 %"\n' + file.read_text())
    assert plans.load(str(file)).measure == MeasureOptions(rounds_max=100, round_s=0.2, budget_s=60.0, precision=0.02)
    file.write_text(file.read_text() + '[[case]]\nworkload = "sync"\n')
    assert plans.load(str(file)).measure == MeasureOptions(precision=0.02)
    assert plans.check(Plan(name="p", cases=[program("true")])).measure == plans.of_programs(1)
