"""`hotlap trace capture`: a bounded window of a program's steps lands in a bundle, whatever the program does."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from hotlap.core.errors import InputError, Unavailable
from hotlap.core.record import Stop
from hotlap.core.show.document import Document
from hotlap.core.store import bundle
from hotlap.traces import capture, captured, tools
from hotlap.traces.captured import Captured, CapturedProcess, CaptureWindow
from hotlap.traces.study import Study
from hotlap.traces.timeline import Timeline

pytestmark = pytest.mark.slow("records programs, each in a process of its own")

torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch")
TRAIN = """
import sys, time, torch
model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.randn(4, 32)).sum().backward()
    time.sleep(float(sys.argv[3]) if len(sys.argv) > 3 else 0)
    optimizer.step()
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
"""
INFER = """
import time, torch
worked, now = 0.0, time.time()
while worked < SECONDS:  # of its own: while the profiler starts it stands still
    torch.ones(64, 64) @ torch.ones(64, 64)
    before, now = now, time.time()
    worked += min(now - before, 0.05)
"""
LEAVES_SLOWLY = """
class Slow:
    def __del__(self):
        before = time.monotonic()
        while time.monotonic() - before < 1.5:
            pass
slow = Slow()
"""


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HOTLAP_HOME": str(home), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    argv = [sys.executable, "-m", "hotlap", "trace", "capture", *arguments]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False)


def only(home: Path) -> tuple[Path, Captured]:
    (path,) = (one for one in (home / "runs").iterdir() if one.is_dir() and not one.name.startswith("."))
    found = captured.read(path)
    assert found is not None
    return path, found


@pytest.fixture
def train(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path / "train.py"


@torch
def test_a_window_of_steps_with_its_cost_and_the_exit_code(tmp_path: Path, train: Path) -> None:
    home = tmp_path / "home"
    done = run(home, "--steps", "8", "--warmup", "6", "--label", "who=test", "--", sys.executable, str(train), "60", "7")
    assert done.returncode == 7, done.stderr
    path, found = only(home)
    kept = bundle.load(path)
    assert kept.run.plan.name == "capture"
    assert kept.run.labels == {"who": "test"}
    assert kept.run.machine.host
    assert kept.run.stops == [Stop("program_ended", "7")]
    assert found.exit_code == 7
    study = Study(Timeline.open(path / found.traces[0]))
    assert len(study.steps) == 8
    (one,) = found.processes
    assert one.steps == 60
    assert one.windows[0].first == 8
    assert one.windows[0].complete
    assert len(one.windows[0].steps_s) == 10
    assert found.overhead is not None
    assert found.overhead.inside is not None
    assert found.overhead.still_s > 0
    assert kept.samples[0].values == [s for some in one.usual_s for s in some]
    assert {"cost", "window", "trace"} <= {line.split()[0] for line in done.stdout.splitlines() if line.split()}
    assert any(r.device == "host" and r.times_s for r in kept.readings)


@torch
def test_json_is_one_document_whatever_the_program_prints(tmp_path: Path, train: Path) -> None:
    train.write_text("print('noise')\n" + TRAIN)
    done = run(tmp_path / "home", "--json", "--", sys.executable, str(train), "50")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert msgspec.convert(answer, Document).exit_code is None
    assert answer["capture"]["traces"]
    assert "noise" in done.stderr


@torch
def test_a_program_that_ends_before_its_window_says_so(tmp_path: Path, train: Path) -> None:
    done = run(tmp_path / "home", "--", sys.executable, str(train), "5")
    assert done.returncode == 2
    assert "ended after 5 steps, before its window began; give --warmup 1 --steps 2 to record whole ones" in done.stderr


@torch
def test_the_options_that_a_short_program_is_told_record_it(tmp_path: Path, train: Path) -> None:
    told = run(tmp_path / "home", "--", sys.executable, str(train), "10")
    assert told.returncode == 2
    options = re.search(r"it made 10 steps: give (--warmup \d+ --steps \d+) to record whole ones", told.stderr)
    assert options, told.stderr
    done = run(tmp_path / "home", *options[1].split(), "--", sys.executable, str(train), "10")
    assert done.returncode == 0, done.stderr
    assert "cut short" not in done.stdout
    cut = run(tmp_path / "home", "--", sys.executable, str(train), "16")
    assert "cut short: give --warmup 3 --steps 11 to record whole ones" in " ".join(cut.stdout.split())


@torch
def test_ctrl_c_keeps_what_was_recorded(tmp_path: Path, train: Path) -> None:
    home = tmp_path / "home"
    environment = os.environ | {"HOTLAP_HOME": str(home), "OMP_NUM_THREADS": "1"}
    ready = tmp_path / "ready"
    train.write_text(TRAIN.replace("for _ in", "for number in").replace("    optimizer.zero_grad()\n", f"    optimizer.zero_grad()\n    number == 30 and open({str(ready)!r}, 'w').close()\n"))
    argv = [sys.executable, "-m", "hotlap", "trace", "capture", "--warmup", "1", "--steps", "100000", "--", sys.executable, str(train), "1000000", "0", "0.01"]
    process = subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until = time.monotonic() + 120
    while time.monotonic() < until and not ready.exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    path, found = only(home)
    assert "cut short" in out
    assert not found.processes[0].windows[0].complete
    assert len(Timeline.open(path / found.traces[0])) > 50
    assert bundle.load(path).run.stops == [Stop("interrupted")]


@torch
def test_a_program_that_ends_within_its_window_ends_as_it_would_have(tmp_path: Path) -> None:
    (tmp_path / "infer.py").write_text(INFER.replace("SECONDS", "0.6") + LEAVES_SLOWLY)
    done = run(tmp_path / "home", "--seconds", "1 s", "--after", "0.3 s", "--", sys.executable, str(tmp_path / "infer.py"))
    assert done.returncode == 0, done.stderr
    _, found = only(tmp_path / "home")
    assert not found.processes[0].windows[0].complete


@torch
def test_a_window_by_the_clock_for_a_program_without_steps(tmp_path: Path) -> None:
    (tmp_path / "infer.py").write_text(INFER.replace("SECONDS", "3"))
    done = run(tmp_path / "home", "--seconds", "0.5 s", "--after", "0.5 s", "--", sys.executable, str(tmp_path / "infer.py"))
    assert done.returncode == 0, done.stderr
    _, found = only(tmp_path / "home")
    (window,) = found.processes[0].windows
    assert window.ended_s - window.began_s >= 0.4
    assert "by the clock" in done.stdout


@torch
def test_the_programs_own_word_counts_before_an_optimisers(tmp_path: Path, train: Path) -> None:
    train.write_text("import hotlap\n" + TRAIN.replace("    optimizer.step()\n", "    optimizer.step()\n    optimizer.step()\n    hotlap.step()\n"))
    done = run(tmp_path / "home", "--steps", "5", "--", sys.executable, str(train), "40")
    assert done.returncode == 0, done.stderr
    _, found = only(tmp_path / "home")
    assert found.processes[0].source == "program"
    assert found.processes[0].steps == 40


def test_a_step_loads_nothing_where_nothing_is_captured() -> None:
    code = "import sys, hotlap; before = set(sys.modules); said = hotlap.step(); print(said, sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "None []\n"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "after --"), (["--", "no-such-program"], "there is no program 'no-such-program'"), (["--with", "gprof", "--", "true"], "valid: "),
        (["--steps", "0", "--", "true"], "too few"), (["--readings", "x", "--", "true"], "no number"), (["--seconds", "-1 s", "--", "true"], "no time"),
    ],
)  # fmt: skip
def test_a_usage_error_is_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = run(tmp_path / "home", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_program_without_pytorch_says_so(tmp_path: Path) -> None:
    done = run(tmp_path / "home", "--", sys.executable, "-c", "print('hello')")
    assert done.returncode == 2
    assert "hello" in done.stdout
    assert "imported PyTorch" in done.stderr


def test_overhead_by_windows_cancels_drift() -> None:
    usual = [[1.0 + 0.1 * i] * 9 for i in range(7)]
    windows = [CaptureWindow(first=0, began_s=0, ended_s=1, steps_s=[1.1 * (1.05 + 0.1 * i)] * 9, start_s=0.5) for i in range(6)]
    one = CapturedProcess(place="1", pid=1, steps=100, windows=windows, usual_s=usual, loop_s=130.0, own_s=1e-3, calls=50)
    found = capture.overhead(one)
    assert found.inside == pytest.approx(1.1, rel=0.02)
    assert found.still_s == 3.0
    assert found.outside_s == pytest.approx(2e-5)
    assert found.whole is not None
    assert found.whole > 3.0 / 130


def test_steps_that_were_shorter_with_the_profiler_on_cost_nothing() -> None:
    window = CaptureWindow(first=0, began_s=0, ended_s=1, steps_s=[0.8] * 9)
    one = CapturedProcess(place="1", pid=1, steps=29, windows=[window], usual_s=[[0.9, 1.1] * 5, [1.0] * 10], loop_s=27.0)
    found = capture.overhead(one)
    assert found.inside == pytest.approx(0.8, rel=0.01)
    assert found.spread == pytest.approx(0.1)
    assert found.whole == 0.0


def test_a_slow_down_that_is_not_told_from_noise_is_no_part_of_what_the_run_took_longer() -> None:
    """Four steps that may or may not be slower: the pauses and the recorder are the whole cost that is known."""
    window = CaptureWindow(first=0, began_s=0, ended_s=1, steps_s=[0.2, 1.5, 4.0, 0.3], within=0, start_s=0.1)
    one = CapturedProcess(place="1", pid=1, steps=20, windows=[window], usual_s=[[0.5, 0.9, 1.6, 0.3], [0.7, 1.1, 0.4]], loop_s=16.0)
    found = capture.overhead(one)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1 < found.high
    assert found.whole == pytest.approx(0.1 / 15.9)
    clear = msgspec.structs.replace(window, steps_s=[2.0, 2.1, 2.2, 2.3])
    slower = capture.overhead(msgspec.structs.replace(one, windows=[clear]))
    assert slower.low is not None
    assert slower.low > 1
    assert slower.whole is not None
    assert slower.whole > 0.3


def test_steps_that_all_took_longer_are_not_called_alike_because_neighbours_are() -> None:
    """A capture whose steps drifted in the window, in ms: the two of its warm-up are none of the trace."""
    before = [5.41, 5.59, 4.95, 5.02, 4.57, 4.63, 4.93, 5.12, 4.64]
    after = [
        4.48, 4.25, 4.3, 4.22, 4.18, 4.23, 4.2, 4.26, 4.38, 4.32, 4.2, 4.25, 4.27, 4.18, 4.28, 4.19, 4.21, 4.2, 4.19, 4.27, 4.47, 4.44,
        4.47, 4.3, 4.26, 4.39,
    ]
    on = [
        4.44, 4.75, 6.43, 6.58, 6.78, 6.67, 7.24, 8.31, 6.92, 7.98, 6.82, 6.82, 7.12, 7.18, 7.71, 7.89, 8.66, 7.81, 8.74, 8.61, 7.33, 7.45,
    ]
    window = CaptureWindow(first=11, began_s=0, ended_s=1, steps_s=[ms / 1e3 for ms in on])
    usual = [[ms / 1e3 for ms in stretch] for stretch in (before, after)]
    one = CapturedProcess(place="1", pid=1, steps=57, windows=[window], usual_s=usual, loop_s=0.5)
    found = capture.overhead(one)
    assert found.inside == pytest.approx(1.69, abs=0.02)
    assert found.low is not None
    assert found.low > 1.4
    stalled = capture.overhead(msgspec.structs.replace(one, usual_s=[usual[0], [*usual[1][:-1], 0.3]]))
    assert stalled.low is not None
    assert stalled.low > 1.4, "one step that stalled is no noise of the others"


def test_a_tool_that_is_not_here_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unavailable, match="rocprofv3 is not installed here; install rocprofiler-sdk"):
        tools.find("rocprofv3")
    with pytest.raises(InputError, match="there is no tool 'perf'"):
        tools.find("perf")


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("nsys", "--capture-range=cudaProfilerApi"), ("nsys", "--cuda-graph-trace=node"), ("ncu", "--profile-from-start=off"),
        ("ncu", "--clock-control=none"), ("rocprofv3", "--kernel-trace"),
    ],
)
def test_a_tool_gets_the_program_and_its_window(tool: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in that writes down how it was called: the tools themselves are not on machines without their GPUs."""
    stand_in = tmp_path / "bin" / tool
    stand_in.parent.mkdir()
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/called\n')
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
    done = run(tmp_path / "home", "--with", tool, "--", "echo", "hello")
    assert done.returncode == 2  # the stand-in records nothing
    called = (tmp_path / "called").read_text().splitlines()
    assert expected in called
    assert called[-2:] == ["echo", "hello"]


RANKS = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 32))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(30):
    time.sleep(0.02 * dist.get_rank())
    optimizer.zero_grad()
    model(torch.randn(4, 32)).sum().backward()
    optimizer.step()
"""


@torch
def test_ranks_are_told_together_then_the_one_that_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(tmp_path / "ranks.py")]
    done = run(tmp_path / "home", "--warmup", "4", "--steps", "10", "--json", "--", *launch)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["ranks"]["worst"]["rank"] == 1
    assert [one["rule"] for one in answer["ranks"]["findings"]][:1] == ["waiting-for-ranks"]


def test_traces_of_ranks_leave_out_what_launched_them() -> None:
    one, two, launcher = (CapturedProcess(place=place, pid=1, steps=3, trace=f"trace-{place}.json") for place in ("rank0", "rank1", "77"))

    def ranks(*processes: CapturedProcess) -> list[str]:
        return Captured(argv=["x"], tool="pytorch", exit_code=0, processes=list(processes), traces=[p.trace for p in processes]).ranks

    assert ranks(one, launcher, two) == ["trace-rank0.json", "trace-rank1.json"]
    assert ranks(one, launcher) == []


@torch
def test_a_window_by_the_clock_of_a_program_with_steps_is_as_long_as_asked_and_numbers_them(tmp_path: Path, train: Path) -> None:
    done = run(tmp_path / "home", "--seconds", "0.7 s", "--after", "0.3 s", "--", sys.executable, str(train), "200", "0", "0.01")
    assert done.returncode == 0, done.stderr
    path, found = only(tmp_path / "home")
    (window,) = found.processes[0].windows
    assert window.ended_s - window.began_s == pytest.approx(0.7, abs=0.3)
    assert window.within == 0
    study = Study(Timeline.open(path / found.traces[0]))
    assert [int(n) for n in study.steps.number] == list(range(window.first, window.first + len(window.steps_s)))
    assert f"steps {window.first} to {window.first + len(window.steps_s) - 1} of 200" in done.stdout


@torch
def test_findings_number_steps_as_the_program_makes_them(tmp_path: Path, train: Path) -> None:
    run(tmp_path / "home", "--steps", "8", "--warmup", "6", "--", sys.executable, str(train), "40")
    path, found = only(tmp_path / "home")
    assert [int(n) for n in Study(Timeline.open(path / found.traces[0])).steps.number] == list(range(8, 16))
    assert found.processes[0].windows[0].first == 8


@torch
def test_a_program_that_never_imports_pytorch_is_told_what_importing_it_cost(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import hotlap, time\nfor _ in range(30):\n    time.sleep(0.002)\n    hotlap.step()\n")
    done = run(tmp_path / "home", "--warmup", "4", "--steps", "5", "--", sys.executable, str(tmp_path / "plain.py"))
    assert done.returncode == 0, done.stderr
    _, found = only(tmp_path / "home")
    (window,) = found.processes[0].windows
    assert 0 < window.import_s <= window.start_s
    assert found.overhead is not None
    assert found.overhead.import_s == window.import_s
    assert "the program does not use PyTorch" in done.stdout


@torch
def test_show_tells_a_capture_without_asking_for_rounds(tmp_path: Path, train: Path) -> None:
    home = tmp_path / "home"
    assert run(home, "--steps", "5", "--", sys.executable, str(train), "40").returncode == 0
    shown = subprocess.run([sys.executable, "-m", "hotlap", "show"], env=os.environ | {"HOTLAP_HOME": str(home)}, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "rounds" not in shown.stdout.split("\n", 1)[1]
    assert "without the profiler" in shown.stdout
