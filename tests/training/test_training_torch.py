"""hotlap training run on programs of PyTorch: loaders, losses, shapes, recompiles, ranks, networks and optimisers. Times are never asserted on."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from tests.training.programs_of_training import latest, script

from hotlap.cli import main
from hotlap.training.record import column
from hotlap.training.show_kind import ShownTraining

pytestmark = pytest.mark.usefixtures("home")
torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch")


def codes(shown: ShownTraining) -> list[str]:
    """Without that of a busy machine, which is the machine's."""
    return [notice.code for notice in shown.summary.notices if notice.code not in ("starved", "step_level_changed")]


def run(*words: str) -> int:
    return main(["training", "run", *words])


# ---------------------------------------------------------------- PyTorch


TORCH = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimiser = torch.optim.AdamW(model.parameters())
    seen = []
    try:
        for epoch in range(2):
            for (x,) in DataLoader(TensorDataset(torch.arange(120.0).view(30, 4)), batch_size=3):
                seen.append(float(x[0, 0]))
                optimiser.zero_grad()
                (model(x) ** 2).mean().backward()
                optimiser.step()
    finally:
        print("SEEN", len(seen), len(set(seen)))
"""


@torch
@pytest.mark.slow("imports PyTorch in three programs")
def test_a_data_loader_is_seen_by_itself_and_frozen_to_its_first_batch(home: Path) -> None:
    assert run(script(home, TORCH), "--processes", "1") == 0
    shown = latest(home)
    real, frozen, count = shown.run.trained.processes
    assert [(one.arm, one.steps, one.source, one.loaders) for one in (real, frozen)] == [
        ("real", 20, "optimiser", ["DataLoader, 0 workers"]), ("frozen", 20, "optimiser", ["DataLoader, 0 workers"]),
    ]  # fmt: skip
    folder = shown.run.bundle.path
    assert "SEEN 20 10" in (folder / "output-0.txt").read_text()
    assert "SEEN 20 1" in (folder / "output-1.txt").read_text()
    assert real.shapes == ["3×4"]
    assert real.parameters == {"float32": 49}
    # 3 rows: two products forward; backward both weights' gradients and one input's
    assert count.flop == {"float32": 2.0 * 3 * (4 * 8 + 8) * 2 + 2.0 * 3 * 8}
    parts = shown.summary.arms[0].parts_s
    assert set(parts) == {"data_wait", "forward", "backward", "optimiser", "unexplained"}
    assert min(parts.values()) > 0
    table = shown.run.launches[0][0].table
    assert np.isfinite(column(table, "loss")).all()
    assert column(table, "samples").tolist() == [3.0] * 20
    assert shown.summary.stall is not None
    assert shown.summary.stall.known


@torch
@pytest.mark.slow("imports PyTorch")
def test_a_loss_that_is_no_number_and_batches_of_several_shapes(home: Path) -> None:
    text = """
        import torch, hotlap
        model = torch.nn.Linear(4, 1)
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        with hotlap.steps() as t:
            for place, x in enumerate(t.loader([torch.ones(2 + i % 2, 4) for i in range(20)])):
                loss = model(x).sum() * (float("nan") if place >= 9 else 1.0)
                loss.backward()
                optimiser.step()
                t.step(tokens=len(x))
    """
    assert run(script(home, text), "--processes", "1", "--data", "real") == 0
    shown = latest(home)
    assert {"loss_not_finite", "batches_differ"} <= set(codes(shown))
    assert next(e.step for e in shown.run.trained.processes[0].events if e.kind == "loss") == 10
    assert shown.run.trained.processes[0].shapes == ["2×4", "3×4"]
    assert shown.summary.state == "inconclusive"


@torch
@pytest.mark.slow("compiles with Dynamo")
def test_a_recompile_in_the_window_is_found_with_its_guard(home: Path) -> None:
    text = """
        import torch
        torch._dynamo.reset()  # forgets callbacks that are registered
        model = torch.nn.Linear(4, 4)
        compiled = torch.compile(model, backend="eager")
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        for place in range(60):
            compiled(torch.ones(5 if place >= 40 else 4, 4)).sum().backward()
            optimiser.step()
    """
    assert run(script(home, text), "--processes", "1", "--data", "real") == 0
    shown = latest(home)
    events = [(event.kind, event.step) for event in shown.run.trained.processes[0].events]
    assert events == [("compile", 1), ("compile", 41), ("recompile", 41)]
    note = next(notice for notice in shown.summary.notices if notice.code == "recompiled")
    assert "recompiled at step 41" in note.seen
    assert "expected 4, actual 5" in note.seen
    assert shown.summary.state == "inconclusive"
    assert shown.summary.arms[0].compile_s["cold"] > 0


@torch
@pytest.mark.slow("two ranks of PyTorch on gloo")
def test_two_ranks_count_as_one_program(home: Path) -> None:
    text = """
        import torch, torch.distributed as dist, hotlap
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        with hotlap.steps() as t:
            for _ in range(12):
                model(torch.ones(2, 4)).sum().backward()
                total = torch.ones(1)
                dist.all_reduce(total)
                optimiser.step()
                t.step(tokens=10)
        dist.destroy_process_group()
    """
    assert run(script(home, text), "--processes", "1", "--ranks", "2", "--data", "real") == 0
    shown = latest(home)
    assert [(one.rank, one.world, one.steps) for one in shown.run.launches[0][0:2] for one in [one.process]] == [(0, 2, 12), (1, 2, 12)]
    arm = shown.summary.arms[0]
    assert arm.tokens_s is not None
    assert arm.step_s is not None
    assert arm.tokens_s.value * arm.step_s.value == pytest.approx(20)  # of both ranks
    assert arm.parts_s["exposed_communication"] > 0
    assert "several_stepped" not in codes(shown)


@torch
@pytest.mark.slow("trains a small network, compiled and not")
def test_a_network_with_modes_in_turns(home: Path) -> None:
    small = ["layers=1", "hidden=32", "heads=2", "kv_heads=1", "inter=48", "vocabulary=64", "context=16"]
    assert run("llama-3-8b", *small, "--compile", "off,eager", "--processes", "1", "--steps", "12") == 0
    shown = latest(home)
    off, eager = shown.summary.arms
    assert (off.name, eager.name, off.compile_s) == ("off", "eager", {})
    assert eager.compile_s["cold"] > 0
    assert [one.mode for one in shown.summary.break_even] == ["eager"]
    assert off.tokens_s is not None
    conventions = {share.convention for share in shown.summary.shares}
    assert shown.summary.no_share or conventions >= {"palm", "nanogpt", "torchtitan", "megatron", "causal", "counted"}
    counted = next(one for one in shown.run.trained.processes if one.arm == "count").flop
    # 16 tokens, T·T pairs without the mask: products of attention 4·T·width, three times forward
    weights = 32 * (16 * 4 + 32) + 3 * 32 * 48 + 32 * 64
    assert sum(counted.values()) == 6 * 16 * weights + 3 * 4 * 16 * 16 * 32


@torch
@pytest.mark.slow("imports PyTorch")
def test_of_several_optimisers_the_first_ends_a_step_until_it_steps_no_more(home: Path) -> None:
    text = """
        import torch
        model = torch.nn.Linear(4, 1)
        def step(optimiser):
            model(torch.ones(2, 4)).sum().backward()
            optimiser.step()
        a, b = (torch.optim.SGD(model.parameters(), 0.1) for _ in range(2))
        for _ in range(10):
            step(a)
            step(b)
        for _ in range(10):
            step(b)
    """
    assert run(script(home, text), "--processes", "1", "--data", "real") == 0
    # ten of the first; of the second alone the fourth since, and all after it
    assert latest(home).run.trained.processes[0].steps == 10 + 8
