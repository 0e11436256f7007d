"""Parts of a step that need a device or several ranks: transfers, and communication that is exposed. Delays are planted; what is asserted
holds however slow the machine is."""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
import tempfile
import textwrap
import time
import types
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.netbed import bed as beds
from tests.netbed.spec import Spec

import hotlap
from benchmarks import training_link
from hotlap.cli import main
from hotlap.core.store import bundle as bundles
from hotlap.training import show, show_kind
from hotlap.training.record import column, rows
from hotlap.training.recorder.rows import StepRecorder
from hotlap.training.recorder.transfers import arm_transfers
from hotlap.training.show_kind import ShownTraining

torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(Path(hotlap.__file__).parents[1]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


def measured(home: Path, text: str, *more: str) -> ShownTraining:
    path = home / "train.py"
    path.write_text(textwrap.dedent(text))
    assert main(["training", "run", str(path), "--processes", "1", "--data", "real", *more]) == 0
    return latest(home)


def latest(home: Path) -> ShownTraining:
    shown = show_kind.read(bundles.load(max((home / "home" / "runs").iterdir())))
    assert shown is not None
    return shown


class _Clock:
    """A device whose clock moves as its copies do; has of torch.cuda what the recorder calls."""

    def __init__(self) -> None:
        self.now_ms = 0.0

    def Event(self, enable_timing: bool) -> Any:  # noqa: N802
        event = types.SimpleNamespace(at=None, query=lambda: True)
        event.record = lambda: setattr(event, "at", self.now_ms)
        event.elapsed_time = lambda later: later.at - event.at
        return event

    def is_current_stream_capturing(self) -> bool:
        return False

    def memory_stats(self) -> dict[str, int]:
        return {}

    def max_memory_allocated(self) -> int:
        return 0

    max_memory_reserved = max_memory_allocated


def test_transfers_are_what_the_device_took_between_two_events(home: Path) -> None:
    """The accounting alone: the recorder's own, on a clock of ours. No GPU ran it."""
    clock = _Clock()

    class Tensor:
        def __init__(self, kind: str) -> None:
            self.device, self.is_cpu = types.SimpleNamespace(type=kind), kind == "cpu"

        def to(self, device: Any, non_blocking: bool = False) -> Tensor:
            clock.now_ms += 3.0
            return Tensor(str(device).partition(":")[0])

        def cuda(self) -> Tensor:
            return self.to("cuda")

        def copy_(self, source: Tensor) -> Tensor:
            clock.now_ms += 2.0
            return self

    recorder = StepRecorder({"data": "real", "steps": 0, "count": False, "folder": str(home), "number": 0})
    recorder.step("program")
    recorder.cuda, recorder.opened, recorder.marks = clock, clock.Event(True), []
    recorder.opened.record()
    arm_transfers(recorder, types.SimpleNamespace(Tensor=Tensor))
    for _ in range(3):
        batch = Tensor("cpu").to("cuda:0", non_blocking=True)  # 3 ms
        batch.copy_(Tensor("cpu"))  # 2 ms
        batch.copy_(Tensor("cuda"))  # on the device: no transfer
        batch.to("cpu")  # to the host: none
        Tensor("cpu").to("float64")  # another type: none
        Tensor("cpu").cuda()  # 3 ms, once though it calls .to()
        recorder.step("program")
    recorder.pending.clear()
    rows = [struct.unpack("<14d", piece) for piece in _pieces((home / f"steps-0-{os.getpid()}.bin").read_bytes())]
    assert [round(row[4] * 1e3, 6) for row in rows[1:]] == [8.0, 8.0, 8.0]
    assert [round(row[2] * 1e3, 6) for row in rows[1:]] == [16.0, 16.0, 16.0]  # with what was no transfer


def _pieces(data: bytes) -> list[bytes]:
    return [data[at : at + 112] for at in range(0, len(data), 112)]


@torch
@pytest.mark.nightly("imports PyTorch")
def test_pytorch_s_own_tensors_are_hooked_once_a_device_is_used(home: Path) -> None:
    """On the device `meta`, which a processor has too. Without a device nothing of PyTorch is replaced."""
    shown = measured(home, """
        import torch, hotlap
        plain = torch.Tensor.to
        from hotlap.training.recorder import hooks, transfers
        with hotlap.steps() as t:
            for step in range(20):
                assert (torch.Tensor.to is plain) == (step < 10)
                x = torch.ones(4, 4)
                x.to(torch.float64), x.to("cpu"), x.to(x)
                if step == 9:
                    transfers.arm_transfers(hooks.RECORDER, torch, "meta")
                there = x.to("meta")
                there.copy_(x)
                torch.nn.Linear(2, 2).to(device=torch.device("meta"))
                t.step(tokens=1)
    """)  # fmt: skip
    transfer = column(shown.run.launches[0][0].table, "transfer")
    assert np.isnan(transfer[:9]).all()
    assert (transfer[9:] > 0).all()


@torch
@pytest.mark.nightly("two ranks of PyTorch on gloo")
def test_what_a_backward_pass_waits_for_is_communication(home: Path) -> None:
    """A communication hook that answers 40 ms late; `work.wait()` of the program counts too. Under no_sync() nothing is reduced."""
    shown = measured(home, """
        import threading, time, torch, torch.distributed as dist, hotlap
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        def late(state, bucket):
            future, buffer = torch.futures.Future(), bucket.buffer()
            threading.Timer(0.04, lambda: future.set_result(buffer)).start()
            return future
        model.register_comm_hook(None, late)
        with hotlap.steps() as t:
            for step in range(12):
                if step % 4 == 3:
                    with model.no_sync():
                        model(torch.ones(2, 4)).sum().backward()
                else:
                    model(torch.ones(2, 4)).sum().backward()
                t.step(tokens=10)
        dist.destroy_process_group()
    """, "--ranks", "2")  # fmt: skip
    for process in shown.run.launches[0]:
        exposed = column(process.table, "exposed_communication")
        plain = np.arange(12) % 4 != 3
        backward = column(process.table, "backward")
        assert (exposed[plain] + backward[plain] >= 0.039).all()  # on a busy machine some of it passes before the pass's own work is done
        assert np.median(exposed[plain]) > 0.02
        assert (exposed[~plain] == 0).all()
        assert (backward >= 0).all()
        assert process.process.reduced_s is not None
        assert process.process.reduced_exposed_s is not None
        assert 0.5 < process.process.reduced_exposed_s / process.process.reduced_s <= 1
    assert "DDP reduces for" in "\n".join(show.facts(shown.run, shown.summary))
    assert shown.summary.arms[0].tokens_s is not None


@torch
@pytest.mark.nightly("two ranks of PyTorch on gloo")
def test_waiting_for_work_of_one_s_own_is_communication(home: Path) -> None:
    """One rank begins its reduction 30 ms late: the other waits for it."""
    shown = measured(home, """
        import os, time, torch, torch.distributed as dist, hotlap
        dist.init_process_group("gloo")
        with hotlap.steps() as t:
            for step in range(10):
                if os.environ["RANK"] == "1":
                    time.sleep(0.03)
                work = dist.all_reduce(torch.ones(1), async_op=True)
                work.wait()
                t.step(tokens=10)
        dist.destroy_process_group()
    """, "--ranks", "2")  # fmt: skip
    first = next(process for process in shown.run.launches[0] if process.process.rank == 0)
    assert np.median(column(first.table, "exposed_communication")) > 0.015


@torch
@pytest.mark.skipif(bool(beds.missing()), reason=beds.missing() or "a bed can be made")
@pytest.mark.nightly("two ranks of PyTorch on gloo, each on a node of a bed")
def test_a_shaped_link_leaves_its_time_exposed(tmp_path: Path) -> None:
    """1 MB at 80 Mbit/s, of which the link's bucket passes at once: no rank can have it earlier, however fast the machine is."""
    with beds.Bed(Spec(nodes=2, leaves=1, node_mbps=80.0)) as bed:
        place = Path(tempfile.mkdtemp(prefix="hotlap-link-", dir="/var/tmp"))
        try:
            each = training_link.exposed_s(bed, place, ["1", "0", "10"])
        finally:
            shutil.rmtree(place)
    assert len(each) == 2
    assert min(each) > (1e6 - 2 * bed.spec.burst_kb * 1000) * 8 / 80e6


# ---------------------------------------------------------------- what is asked of them wrongly


@torch
@pytest.mark.slow("imports PyTorch in two programs")
@pytest.mark.parametrize(
    ("inside", "words"),
    [("", "no step was made: no optimiser's step() after a backward()"), ("loss.detach().backward()", "train.py:5: RuntimeError: element 0 of tensors")],
)  # fmt: skip
def test_a_network_without_a_backward_pass(home: Path, capsys: pytest.CaptureFixture[str], inside: str, words: str) -> None:
    text = f"""
        import torch
        model = torch.nn.Linear(4, 4)
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(9):
            loss = model(torch.ones(2, 4)).sum(); {inside}
            optimiser.step()
    """
    path = home / "train.py"
    path.write_text(textwrap.dedent(text).lstrip())
    assert main(["training", "run", str(path), "--processes", "2"]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert sum("train.py" in line and not line.startswith("hotlap: process") for line in error.splitlines()) == 1


@torch
@pytest.mark.nightly("two ranks of PyTorch on gloo")
def test_a_rank_without_tokens_is_named(home: Path) -> None:
    shown = measured(home, """
        import torch, torch.distributed as dist, hotlap
        dist.init_process_group("gloo")
        with hotlap.steps() as t:
            for _ in range(12):
                dist.all_reduce(torch.ones(1))
                t.step(tokens=1 - dist.get_rank())
        dist.destroy_process_group()
    """, "--ranks", "2")  # fmt: skip
    notes = [notice.seen for notice in shown.summary.notices if notice.code == "idle_rank"]
    assert notes == ["rank 1 has no tokens: a step has 1 on 2 ranks"]


@torch
@pytest.mark.nightly("two ranks of PyTorch on gloo")
def test_a_network_s_batch_is_split_over_ranks(home: Path) -> None:
    small = ["layers=1", "hidden=32", "heads=2", "kv_heads=1", "inter=48", "vocabulary=64", "context=16", "batch=3"]
    assert main(["training", "run", "llama-3-8b", *small, "--ranks", "2", "--processes", "1", "--steps", "8"]) == 0
    shown = latest(home)
    assert [(one.process.world, column(one.table, "tokens")[0]) for one in shown.run.launches[0]] == [(2, 32.0), (2, 16.0)]
    assert not [notice for notice in shown.summary.notices if notice.code == "several_stepped"]
    assert shown.run.launches[0][0].process.reduced_s is not None


LATE = """
    import time
    import torch
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), torch.ones(4, 8)
    optimiser = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(10):
        optimiser.zero_grad()
        {call}.mean().backward()
        optimiser.step()
        time.sleep(0.05)
"""


@torch
@pytest.mark.slow("imports PyTorch in four programs")
def test_what_passes_before_the_model_is_called_is_no_forward_pass(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a loader a step begins where the one before it ended, so metrics of that one are in it."""
    shown = measured(home, LATE.format(call="model(x)"))
    parts = shown.summary.arms[0].parts_s
    assert parts["before_forward"] >= 0.045
    assert parts["forward"] > 0
    assert "before forward" in capsys.readouterr().out
    answer = show.answer(msgspec.structs.replace(shown.summary, state="measured"))
    assert answer.endswith("pass outside of loader, forward, backward and optimiser: hotlap trace capture shows in what")
    called = measured(home, LATE.format(call="model[1].forward(model[0].forward(x))")).summary.arms[0].parts_s  # no call of a module is seen
    assert called["until_backward"] >= 0.045
    assert {"forward", "before_forward"}.isdisjoint(called)
    assert "to backward" in capsys.readouterr().out


def test_a_program_that_marks_its_steps_after_an_optimiser_has_no_step_of_nothing(tmp_path: Path) -> None:
    """The optimiser is heard first: its step is the begin of the program's first."""
    recorder = StepRecorder({"data": "synthetic", "steps": 0, "number": 0, "count": False, "folder": str(tmp_path)})
    for _ in range(3):
        for part, before in (("backward", "forward"), ("optimiser", "rest")):
            assert recorder.enter(part, before)
            time.sleep(0.002)
            recorder.leave()
            recorder.seen.add("forward")
        if recorder.count == 0:
            recorder.loss = 1.5
        recorder.step("optimiser 1")
        recorder.step("program", 8.0)
    recorder.close()
    steps = rows((tmp_path / f"steps-0-{os.getpid()}.bin").read_bytes())
    assert column(steps, "number").tolist() == [1, 2, 3]
    for part in ("backward", "optimiser"):
        assert column(steps, part).min() >= 0.002
    assert (column(steps, "time") >= column(steps, "backward") + column(steps, "optimiser")).all()
    assert column(steps, "loss")[0] == 1.5
