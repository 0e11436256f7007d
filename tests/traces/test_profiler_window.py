"""What the recorder asks of CUDA where a window of steps begins and ends, by a torch.cuda that writes down its calls."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.core.errors import InputError
from hotlap.traces import tools
from hotlap.traces.recorder import sitecustomize

SYNCHRONISING_S = 0.02


class Cuda:
    """Each call by name, in order; `synchronize` takes a while."""

    def __init__(self, clock: list[float], capturing: bool = False) -> None:
        self.calls: list[str] = []
        self.clock, self.capturing = clock, capturing
        self.nvtx = SimpleNamespace(range_push=lambda _: self.calls.append("push"), range_pop=lambda: self.calls.append("pop"))

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def synchronize(self) -> None:
        self.calls.append("synchronize")
        self.clock[0] += SYNCHRONISING_S

    def cudart(self) -> Any:
        return SimpleNamespace(cudaProfilerStart=lambda: self.calls.append("start"), cudaProfilerStop=lambda: self.calls.append("stop"))


def recorded(monkeypatch: pytest.MonkeyPatch, folder: Path, capturing: bool = False, ranks: int = 1, no_ranks: str = "") -> tuple[Cuda, sitecustomize.Recorder]:
    """A program of 20 steps under a profiler that keeps to a range, by a clock that only steps and `synchronize` move."""
    clock = [0.0]
    cuda = Cuda(clock, capturing)
    distributed = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_world_size=lambda: ranks, get_rank=lambda: 0)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, distributed=distributed))
    monkeypatch.setattr(sitecustomize, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    asked = {"folder": str(folder), "warmup": 3, "steps": 4, "seconds": 0.0, "limit_s": 60.0, "windows": 1, "apart": 5, "how": "range", "no_ranks": no_ranks}
    recorder = sitecustomize.Recorder(asked)
    for _ in range(20):
        clock[0] += 1.0
        recorder.step("program")
    return cuda, recorder


def test_the_device_is_waited_for_before_the_profiler_starts_and_before_it_stops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cuda, recorder = recorded(monkeypatch, tmp_path)
    calls = [one for one in cuda.calls if one not in ("push", "pop")]
    assert calls == ["synchronize", "start", "synchronize", "stop"]
    assert cuda.calls[-2:] == ["pop", "stop"]
    (window,) = recorder.windows
    assert (window["start_s"], window["stop_s"]) == pytest.approx((SYNCHRONISING_S, SYNCHRONISING_S))  # the profiler's, in no step
    assert window["steps_s"] == pytest.approx([1.0] * (sitecustomize.WITHIN + 4))


def test_a_graph_that_is_being_recorded_is_not_broken_by_waiting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cuda, _ = recorded(monkeypatch, tmp_path, capturing=True)
    assert [one for one in cuda.calls if one not in ("push", "pop")] == ["start", "stop"]


def test_a_profiler_that_replays_kernels_never_starts_in_a_rank_of_several(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cuda, recorder = recorded(monkeypatch, tmp_path, ranks=2, no_ranks=f"{tools.RANKS}; {tools.FOR_RANKS}")
    assert "start" not in cuda.calls
    assert recorder.trouble == f"the profiler did not start: {tools.RANKS}; {tools.FOR_RANKS}"
    alone, _ = recorded(monkeypatch, tmp_path, ranks=1, no_ranks=tools.RANKS)
    assert "start" in alone.calls
    nsys, _ = recorded(monkeypatch, tmp_path, ranks=2)
    assert "start" in nsys.calls


@pytest.mark.parametrize(
    ("argv", "environment", "seen"),
    [
        (["torchrun", "--nproc-per-node", "8", "train.py"], {}, "--nproc-per-node 8"),
        (["torchrun", "--nproc_per_node=gpu", "train.py"], {}, "--nproc_per_node=gpu"),
        (["python", "train.py"], {"WORLD_SIZE": "4"}, "WORLD_SIZE=4"),
    ],
)
def test_ncu_refuses_ranks_that_are_seen_beforehand(argv: list[str], environment: dict[str, str], seen: str) -> None:
    with pytest.raises(InputError) as caught:
        tools.refuse_ranks("ncu", argv, environment)
    assert str(caught.value) == f"--with ncu and {seen}: {tools.RANKS}; {tools.FOR_RANKS}"
    tools.refuse_ranks("nsys", argv, environment)


@pytest.mark.parametrize("argv", [["torchrun", "--nproc-per-node", "1", "train.py"], ["python", "train.py"]])
def test_ncu_takes_one_rank_and_refuses_the_same_program_as_one_of_two(argv: list[str]) -> None:
    tools.refuse_ranks("ncu", argv, {"WORLD_SIZE": "1"})
    with pytest.raises(InputError, match="WORLD_SIZE=2"):
        tools.refuse_ranks("ncu", argv, {"WORLD_SIZE": "2"})
