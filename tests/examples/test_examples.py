"""The programs in examples/: the planted fault is what is named first, with --fix it is not; and the journey of the kernel lab."""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from draws import FULL
from hotlap.traces import ranks
from hotlap.traces.advice import ranks as together
from hotlap.traces.advice.trace import Advice, advise
from hotlap.traces.study import Study
from hotlap.traces.timeline import Timeline

pytestmark = pytest.mark.slow("runs the examples as a reader would")

ROOT = Path(__file__).parents[2]
torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch")


def ran(name: str, *arguments: str) -> float:
    """The milliseconds of a step that the example prints."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    argv = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    last = done.stdout.strip().splitlines()[-1]
    return float(last.split()[-2])


def advice(path: Path) -> Advice:
    return advise(Study(Timeline.open(path)), 0.0)


def window_s(path: Path) -> float:
    return Study(Timeline.open(path)).window_s


def names_of(path: Path) -> list[str]:
    timeline = Timeline.open(path)
    return [timeline.names[int(one)] for one in timeline.name]


def truth(name: str, *arguments: str, pairs: int = 3) -> float:
    """Share of a step that --fix really saves, by runs in turns without a profiler."""
    ratios = [ran(name, *arguments, "--fix") / ran(name, *arguments) for _ in range(pairs)]
    return 1 - statistics.median(ratios)


@torch
@pytest.mark.parametrize(("name", "rule"), [("slow_loader", "data-loader"), ("tiny_operators", "tiny-operators")])
def test_the_planted_fault_is_the_top_finding_and_the_fix_takes_it_away(name: str, rule: str, tmp_path: Path) -> None:
    ran(name, "--device", "cpu", "--trace", str(tmp_path / "slow.json"))
    ran(name, "--device", "cpu", "--fix", "--trace", str(tmp_path / "fixed.json"))
    first = advice(tmp_path / "slow.json").findings[0]
    assert first.rule == rule
    claimed_s = (first.gain_high or 0.0) * window_s(tmp_path / "slow.json")
    slow, fixed = (Counter(names_of(tmp_path / f"{kind}.json")) for kind in ("slow", "fixed"))
    if rule == "data-loader":
        assert claimed_s > 20 * 8e-3  # of 26 steps, each of which sleeps 8 ms for its batch, however busy the machine is
        assert any("SingleProcessDataLoader" in one for one in slow)
        assert not any("SingleProcessDataLoader" in one for one in fixed)
    else:
        assert slow["aten::sum"] >= 500 * 20  # one for each element and step
        assert fixed["aten::sum"] < slow["aten::sum"] / 100


@torch
@pytest.mark.skipif(not FULL, reason="compares times, which depend on who else uses the machine: make nightly")
@pytest.mark.parametrize("name", ["slow_loader", "tiny_operators"])
def test_what_is_promised_is_saved(name: str, tmp_path: Path) -> None:
    ran(name, "--device", "cpu", "--trace", str(tmp_path / "slow.json"))
    first = advice(tmp_path / "slow.json").findings[0]
    saved = truth(name, "--device", "cpu")
    print(f"{name}: estimated {first.gain_low:.0%} to {first.gain_high:.0%} of a step, measured {saved:.0%}")  # shown with -s
    assert saved > (first.gain_low or 0.0) / 2


@torch
def test_the_trace_of_a_processor_alone_has_no_shares_of_a_device(tmp_path: Path) -> None:
    ran("tiny_operators", "--device", "cpu", "--steps", "8", "--trace", str(tmp_path / "slow.json"))
    study = Study(Timeline.open(tmp_path / "slow.json"))
    assert not study.devices
    assert study.window_words == "4 steps (ProfilerStep#)"


@torch
def test_each_rank_writes_its_trace_with_every_collective(tmp_path: Path) -> None:
    ran("slow_rank", "--steps", "12", "--trace", str(tmp_path))
    assert len(ranks.analysed(ranks.files([tmp_path])).ranks) == 2
    for rank in (0, 1):
        timeline = Timeline.open(tmp_path / f"rank{rank}.json")
        assert timeline.head.rank == rank
        assert names_of(tmp_path / f"rank{rank}.json").count("gloo:all_reduce") == 8
        products = names_of(tmp_path / f"rank{rank}.json").count("aten::mm")
        assert products == 8 * (8, 24)[rank]  # three times the work on rank 1: the planted fault


@torch
@pytest.mark.skipif(not FULL, reason="compares times, which depend on who else uses the machine: make nightly")
def test_the_quick_rank_waits_in_the_collective(tmp_path: Path) -> None:
    ran("slow_rank", "--steps", "12", "--trace", str(tmp_path))
    whole = ranks.analysed(ranks.files([tmp_path]))
    assert [one.rule for one in together.advise(whole, 0.0)][:1] == ["waiting-for-ranks"]
    assert whole.worst == 1


def test_waits_for_the_device_need_a_device(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import torch as library

    if library.cuda.is_available():
        ran("syncs", "--trace", str(tmp_path / "syncs.json"))
        assert advice(tmp_path / "syncs.json").findings[0].rule == "synchronise"
    else:
        done = subprocess.run([sys.executable, str(ROOT / "examples" / "syncs.py")], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 2
        assert "no CUDA device" in done.stderr


@pytest.mark.parametrize(("fault", "rule"), [("syncs", "synchronise"), ("tiny-kernels", "tiny-kernels")])
def test_the_simulated_gpu_writes_a_trace_with_its_fault(fault: str, rule: str, tmp_path: Path) -> None:
    slow, fixed = str(tmp_path / "slow.json"), str(tmp_path / "fixed.json")
    before, after = ran("simulated_timeline", fault, "--trace", slow), ran("simulated_timeline", fault, "--fix", "--trace", fixed)
    first = advice(Path(slow)).findings[0]
    assert first.rule == rule
    assert rule not in [one.rule for one in advice(Path(fixed)).findings[:1]]
    saved = 1 - after / before
    assert first.gain_low is not None
    assert first.gain_high is not None
    assert first.gain_low - 0.05 < saved < first.gain_high + 0.05


# ---------------------------------------------------------------- the kernel lab

PLANTED = "rowwise layernorm rows=32768"  # step 6 of kernel_lab.sh makes row kernels slow


def missing() -> str:
    """Why the whole journey cannot be gone here; empty where it can."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed: pip install torch"
    from hotlap.core.errors import HotlapError
    from hotlap.core.measure import targets

    try:
        return "" if targets.find(targets.parse("opencl:cpu")) else "no OpenCL device on the CPU: pip install 'pyopencl[pocl]'"
    except HotlapError as error:
        return str(error)


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The whole of kernel_lab.sh, of the fewest rounds; where PyTorch or OpenCL is missing its last step alone. Its folder, and each step's output."""
    folder = tmp_path_factory.mktemp("lab")
    tools = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    few = {"ROUNDS": "1", "COMMITS": "5", "EVERY": "2"}
    argv = [str(ROOT / "examples" / "kernel_lab.sh"), str(folder)]
    if missing():
        (folder / "life").mkdir()
        argv = [sys.executable, str(ROOT / "examples" / "kernel_life.py"), "--commits", "5", "--every", "2", "--folder", str(folder / "life")]
    environment = os.environ | tools | few
    done = subprocess.run(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    said = {}
    for part in done.stdout.split("\n$ ")[1:]:
        command, _, answer = part.partition("\n")
        said[command] = answer
    return folder, said | {"end": "\n".join(done.stdout.splitlines()[-3:])}


def answer(said: dict[str, str], *beginning: str) -> str:
    """What the one command said that has these words."""
    (found,) = (text for command, text in said.items() if all(word in command for word in beginning))
    return " ".join(found.split())


@pytest.mark.skipif(bool(missing()), reason=missing() or "all is here")
def test_the_whole_journey_of_the_kernel_lab(journey: tuple[Path, dict[str, str]]) -> None:
    folder, said = journey
    assert "6 cases of 1 step of 1 network" in answer(said, "plan from minilm-l6", "--batch 1 ")
    covered = answer(said, "coverage sentences.toml")
    assert "real use: 40.7 % of the time of 2 steps" in covered
    assert "real use 100.0 %, directed cases 27 of 27" in covered
    assert "6 cases: 6 inconclusive" in answer(said, "run sentences.toml", "simulated:")  # one round has no interval
    for plan in ("sentences", "more"):
        measured = answer(said, f"run {plan}.toml", "torch:cpu")
        assert "all rounds done" in measured
        assert " error " not in measured
    assert "rank all" in answer(said, "correlate")
    assert (folder / "scatter.html").stat().st_size > 10_000
    pays = answer(said, "opportunities").partition("where work pays")[2]
    assert pays.partition(" 1 ")[2].startswith(PLANTED)
    assert "Where work pays" in (folder / "opportunities.html").read_text(encoding="utf-8")
    assert "✓" in answer(said, "kernel check softmax-rows")
    beside = answer(said, "compare stage=mine")
    assert beside.count("1 of 1 right") == 3
    assert "✗" not in beside.partition("right in every round")[0]


def test_the_life_of_a_kernel_ends_at_the_planted_commit(journey: tuple[Path, dict[str, str]]) -> None:
    """Of a kernel that becomes many times slower: which revisions brought it is seen by track, and the commit found by bisect."""
    folder, said = journey
    told = {line.partition(":")[0]: line.partition(":")[2].strip() for line in said["end"].splitlines()}
    repository = folder / "life" / "repository"
    commits = subprocess.run(["git", "-C", str(repository), "log", "--reverse", "--format=%h"], capture_output=True, text=True, check=True)
    revisions = commits.stdout.split()
    assert told["planted"] == revisions[3]
    assert told["track"] == f"after {revisions[2]}, by {revisions[4]}"
    assert told["bisect"][: len(revisions[3])] == revisions[3]
