"""Whole runs: the closed loop on the simulated GPU, and what happens when a run is stopped, killed or goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace

import hotlap
from draws import draws
from hotlap.core.errors import InputError, MachineError
from hotlap.core.measure import runs, session
from hotlap.core.measure.process import WorkerProcess
from hotlap.core.measure.protocol import Job
from hotlap.core.record import Case, MeasureOptions, Plan, Stop
from hotlap.core.work import find


def _plan(*cases: tuple[str, dict[str, object]], **options: object) -> Plan:
    measuring = MeasureOptions(**{"rounds": 6, "rounds_max": 6, "round_s": 2.0, "precision": 0.01, "seed": 5, **options})  # type: ignore[arg-type]
    return Plan(name="test", cases=[Case(workload=w, params=find(w).parse(g)) for w, g in cases], measure=measuring)


BOUND = _plan(
    ("gemm", {"dtype": "bf16", "m": 8192, "n": 8192, "k": 8192}), ("fma", {"dtype": "fp32", "operations": 10**12}),
    ("stream", {"op": "copy", "size": "8 GiB"}), ("transfer", {"size": "256 MiB"}),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    return tmp_path


def test_injected_efficiency_is_reported() -> None:
    run = hotlap.run(BOUND, target="simulated:h200-sxm?efficiency=0.73&noise=0.01&seed=3")
    assert {row.gap.reference_kind for row in run.rows} == {"bound"}
    for row in run.rows:
        assert row.verdict.state == "measured", row
        assert row.gap.share == pytest.approx(0.73, abs=0.01), row.label


def test_a_perfect_machine_is_at_its_limit_and_not_beyond() -> None:
    run = hotlap.run(BOUND, target="simulated:h100-sxm?times=bound&noise=0.005&seed=3")
    for row in run.rows:
        assert row.verdict.state == "measured", row.verdict
        assert row.gap.share == pytest.approx(1.0, abs=0.01)
        assert row.gap.cause == "at_limit"


def test_faster_than_its_bound_is_invalid() -> None:
    run = hotlap.run(BOUND, target="simulated:h200-sxm?efficiency=1.1&seed=3")
    assert {row.verdict.state for row in run.rows} == {"invalid"}
    assert all("bound" in row.verdict.reason for row in run.rows)


def test_a_throttle_is_named() -> None:
    run = hotlap.run(BOUND, target="simulated:h200-sxm?times=bound&throttle=0.3@0s&seed=3")
    row = next(r for r in run.rows if r.result.case.workload == "gemm")
    assert {"throttled", "low_clock"} <= {f.code for f in row.result.notices}
    assert row.gap.share == pytest.approx(0.7, abs=0.01)
    assert row.gap.cause in ("power", "clock")


@pytest.mark.slow("many rounds")
def test_a_slow_link_shows_in_transfers_alone() -> None:
    run = hotlap.run(BOUND, target="simulated:h200-sxm?times=bound&slow_link=0.5&seed=3")
    shares = {row.result.case.workload: row.gap.share for row in run.rows}
    assert shares["transfer"] == pytest.approx(0.5, abs=0.01)
    assert shares["gemm"] == pytest.approx(1.0, abs=0.01)


def test_a_dead_sensor_is_an_error_and_never_zero() -> None:
    run = hotlap.run(BOUND, target="simulated:h200-sxm?dead=power_w&seed=3", rounds=1, rounds_max=1)
    power = [r for r in run.bundle.readings if r.sensor == "power_w"]
    assert power
    assert all(r.status == "error" and r.reason for r in power)
    assert not any(v is not None for r in power for v in r.values)
    fan = [r for r in run.bundle.readings if r.sensor == "fan"]
    assert {r.status for r in fan} == {"not_supported"}


@pytest.mark.slow("many rounds")
def test_drift_between_rounds_is_seen() -> None:
    """5 % a minute: a seventh of a per cent in a round, which no round can show, but 2 % from the first to the last. A case's place
    in its round is random and worth a round's drift, so that six rounds would not do."""
    run = hotlap.run(BOUND, target="simulated:h200-sxm?drift=0.05&noise=0.001&seed=3", rounds=15)
    for row in run.rows:
        assert "drift" in {f.code for f in row.result.notices}, row.label
        assert any("first round to the last" in f.seen for f in row.result.notices)


@pytest.mark.slow("many rounds")
def test_fewer_than_six_rounds_have_the_confidence_they_have() -> None:
    run = hotlap.run(BOUND, target="simulated:h200-sxm?seed=3", rounds=3, rounds_max=3)
    assert {row.summary.confidence for row in run.rows} == {0.75}
    assert all(row.verdict.state == "inconclusive" for row in run.rows)
    assert all(row.verdict.reason.startswith("3 rounds of the 6 that a 95 % interval needs") for row in run.rows)


def test_rounds_stop_when_exact_enough() -> None:
    run = hotlap.run(BOUND, target="simulated:h200-sxm?noise=0.01&seed=3", rounds_max=30)
    assert run.bundle.run.stops == [Stop("precision")]
    assert {len(r.rounds) for r in run.results} == {6}


@pytest.mark.slow("many rounds")
def test_waiting_for_a_device_takes_nothing_of_the_budget(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that moves only while another run holds the device."""
    now_s, left_s, begin = [0.0], [], runs.begin

    class Clock:
        def now(self) -> float:
            return now_s[0]

    def began(*given: object) -> AbstractContextManager[runs.OpenRun]:
        now_s[0] += 100.0
        return begin(*given)  # type: ignore[arg-type]

    def start(job: Job, limit_s: float, stop: threading.Event) -> WorkerProcess:
        left_s.append(job.left_s)
        return session.process(job, limit_s, stop)

    monkeypatch.setattr(session, "SystemClock", Clock)
    monkeypatch.setattr(runs, "begin", began)
    options = session.SessionOptions(target="simulated:h200-sxm?seed=3", home=home, limit_s=30.0, wait_s=200.0)
    session.run(_plan(("launch", {}), rounds=1, rounds_max=1), options, lambda *_: None, start)
    assert left_s == [30.0]


def test_rounds_stop_at_the_budget() -> None:
    run = hotlap.run(BOUND, target="simulated:h200-sxm?run_noise=0.2&seed=3", rounds_max=300, budget_s=15.0)
    assert run.bundle.run.stops == [Stop("budget")]
    assert all(row.summary.half_width is None or row.summary.half_width > 0.01 for row in run.rows)


@pytest.mark.slow("many rounds")
def test_a_limit_ends_a_run_between_cases_and_says_what_it_left_out(home: Path) -> None:
    def measured(limit_s: float) -> hotlap.Run:
        options = session.SessionOptions(target="simulated:h200-sxm?noise=0.01&seed=3", home=home, limit_s=limit_s)
        return hotlap.load(session.run(replace(BOUND, measure=replace(BOUND.measure, budget_s=limit_s)), options, lambda *_: None))

    short, longer, all_of_it = measured(0.7), measured(4.1), measured(60.0)
    assert 0 < len(short.samples) < 4
    left = [r for r in short.results if not r.values]
    assert {(r.status, r.reason) for r in left} == {("not_run", "the budget of 0.7 s was used up")}
    assert 4 < len(longer.samples) < 24  # a round is 2 s of the device's clock, shortened to what the budget leaves
    assert all(r.values for r in longer.results)
    assert short.bundle.run.stops == longer.bundle.run.stops == [Stop("budget")]
    assert len(all_of_it.samples) == 24
    assert all_of_it.bundle.run.stops == [Stop("precision")]


def test_a_lost_device_keeps_what_was_measured(home: Path) -> None:
    with pytest.raises(MachineError, match="fallen off the bus"):
        hotlap.run(BOUND, target="simulated:h200-sxm?lost=3s&seed=3")
    run = hotlap.load("latest")
    assert run.samples
    assert run.bundle.run.stopped_by("error")


def test_unknown_devices_are_answered() -> None:
    with pytest.raises(InputError, match="valid: all, 0"):
        hotlap.run(BOUND, target="simulated:h200-sxm", device="7")
    with pytest.raises(InputError, match="h200-sxm"):
        hotlap.run(BOUND, target="simulated:h200-smx")


def test_nothing_measured_is_never_a_pass() -> None:
    run = hotlap.run(_plan(("command", {"argv": ["true"]})), target="simulated:h200-sxm")
    assert [row.verdict.state for row in run.rows] == ["not_run"]
    assert run.bundle.run.stops == [Stop("no_number")]


def _start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "HOTLAP_HOME": str(home)}
    return subprocess.Popen(
        [sys.executable, "-m", "hotlap", "run", *arguments, "--no-report"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def _lines(home: Path) -> list[Path]:
    """Of all runs, but for one that was killed in birth: its name begins with a dot."""
    return sorted((home / "runs").glob("[!.]*/samples.jsonl"))


def _wait_for_lines(home: Path, count: int, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        if any(path.read_bytes().count(b"\n") >= count for path in _lines(home)):
            return
        time.sleep(0.02)
    pytest.fail(f"ended early: {process.communicate()[1]}")


TOML = """
schema = 1
name = "small"
[measure]
rounds = 3
rounds_max = 3
round_time = "0.5 s"
[[case]]
workload = "stream"
op = ["read", "copy", "triad"]
size = "1 MiB"
[[case]]
workload = "command"
argv = ["true"]
"""


@pytest.mark.slow("starts and ends whole runs of the command")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_everything_and_goes_on(home: Path, tmp_path: Path, number: signal.Signals) -> None:
    plan = tmp_path / "small.toml"
    plan.write_text(TOML)
    process = _start(home, str(plan), "--target", "opencl:cpu")
    _wait_for_lines(home, 2, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    kept = hotlap.load("latest")
    assert kept.bundle.run.stops == [Stop("interrupted")]
    assert len(kept.samples) >= 2
    done = _start(home, "--resume", kept.id)
    _, errors = done.communicate(timeout=120)
    assert done.returncode == 0, errors
    whole = hotlap.load(kept.path)
    _is_whole(whole)


@pytest.mark.slow("starts and ends whole runs of the command")
def test_a_killed_run_loses_at_most_one_line_and_goes_on(home: Path, tmp_path: Path) -> None:
    """Random moments (nightly a hundred) over runs of the simulated GPU: each is killed, and gone on with, until it is whole."""
    plan = tmp_path / "small.toml"
    plan.write_text(TOML.replace('"1 MiB"', '["1 MiB", "2 MiB", "4 MiB", "8 MiB"]').replace("round_time", "readings = 0\nround_time"))
    rng, kills, missing = random.Random(7), 0, 0
    while kills < draws(100):
        arguments = [str(plan), "--target", "simulated:h200-sxm?noise=0.01"]
        folder = None
        while True:
            process = _start(home, *arguments)
            time.sleep(rng.uniform(0.15, 1.2))
            process.kill()
            _, errors = process.communicate(timeout=300)
            if process.returncode == 0:
                break
            assert process.returncode == -signal.SIGKILL, errors
            kills += 1
            folder = _lines(home)[-1].parent if _lines(home) else None
            if folder is None:
                continue
            run = hotlap.load(folder)
            text = (folder / "samples.jsonl").read_bytes()
            assert len(run.samples) >= text.count(b"\n"), "a whole line was lost"
            missing += text.count(b"\n") < len(text.splitlines())
            arguments = ["--resume", run.id]
            if kills >= draws(100):
                break
        if folder is not None:
            _finish(home, folder)
    assert kills >= draws(100)
    assert missing <= kills


def _finish(home: Path, folder: Path) -> None:
    """Goes on with the run until the end: then nothing is missing and nothing is there twice."""
    done = _start(home, "--resume", folder.name)
    _, errors = done.communicate(timeout=120)
    assert done.returncode == 0, errors
    _is_whole(hotlap.load(folder))


def _is_whole(run: hotlap.Run) -> None:
    """Every case has its three rounds, more where others disturbed one, and none is there twice; what cannot run is asked once."""
    found = [(one.case, one.round) for one in run.samples]
    assert len(found) == len(set(found))
    for case in run.bundle.run.plan.cases:
        mine = [one for one in run.samples if one.case == case.id]
        assert mine
        if any(one.status == "not_run" for one in mine):
            assert [one.round for one in mine] == [0]
        else:
            assert {one.round for one in mine} >= {0, 1, 2}


@pytest.mark.slow("starts and ends whole runs of the command")
def test_a_second_run_on_a_device_is_refused_with_the_owners_pid(home: Path, tmp_path: Path) -> None:
    plan = tmp_path / "small.toml"
    plan.write_text(TOML.replace("rounds = 3", "rounds = 20").replace("rounds_max = 3", "rounds_max = 20"))
    first = _start(home, str(plan), "--target", "opencl:cpu")
    try:
        _wait_for_lines(home, 1, first)
        second = _start(home, str(plan), "--target", "opencl:cpu")
        _, errors = second.communicate(timeout=300)
        assert second.returncode == 3
        assert str(first.pid) in errors
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=300)


@pytest.mark.slow("starts and ends whole runs of the command")
def test_a_measuring_process_that_dies_takes_one_case_with_it(home: Path, tmp_path: Path) -> None:
    """A program that kills its own parent stands for a driver that crashes."""
    plan = tmp_path / "small.toml"
    plan.write_text(TOML.replace('["true"]', '["sh", "-c", "kill -SEGV $PPID"]').replace("rounds = 3", "rounds = 1").replace("rounds_max = 3", "rounds_max = 1"))
    process = _start(home, str(plan), "--target", "opencl:cpu", "--json")
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    run = hotlap.load("latest")
    states = {s.case: (s.status, s.reason) for s in run.samples}
    assert len(states) == 4
    crashed = [reason for status, reason in states.values() if status == "error"]
    assert len(crashed) == 1
    assert "SIGSEGV" in crashed[0]
    assert json.loads(output)


@pytest.mark.slow("many rounds")
@pytest.mark.parametrize(("together", "order"), [(False, "one after another"), (True, "together")])
def test_all_devices_in_the_order_asked(together: bool, order: str) -> None:
    run = hotlap.run(BOUND, target="simulated:h200-sxm?count=2&noise=0.001", device="all", together=together, rounds=6)
    assert run.bundle.run.order == order
    assert {r.device for r in run.results} == {"simulated-h200-sxm-0", "simulated-h200-sxm-1"}
    assert len(run.samples) == 2 * 4 * 6
    assert {row.verdict.state for row in run.rows} == {"measured"}


@pytest.mark.slow("many rounds")
def test_one_device_by_index_or_uuid() -> None:
    for wanted in ("1", "simulated-h200-sxm-1", "simulated:1"):
        run = hotlap.run(BOUND, target="simulated:h200-sxm?count=2", device=wanted, rounds=1, rounds_max=1)
        assert run.bundle.run.devices == ["simulated-h200-sxm-1"]


def test_labels_and_order_are_kept(home: Path) -> None:
    run = hotlap.run(BOUND, target="simulated:h200-sxm", labels={"cluster": "A"}, rounds=1, rounds_max=1)
    assert hotlap.load("cluster=A").id == run.id
    assert run.bundle.run.order == "single"
