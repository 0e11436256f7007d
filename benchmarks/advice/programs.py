"""Small real programs with a planted defect, for the profilers that run on a processor.

    python benchmarks/advice/programs.py NAME [--mended] [--trace OUT]

Prints the seconds that its steps took together. With --trace they are recorded: PyTorch's profiler writes the file OUT (of several ranks the
folder OUT), JAX's the folder OUT. Each function prepares, and returns the step.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Step = Callable[[int], None]


class Plan(NamedTuple):
    prepare: Callable[[bool], Step]  # True: the defect is mended
    steps: int
    warm: int = 3  # steps before the recorded ones
    ranks: int = 1
    memory: bool = False
    jax: bool = False


def model(width: int = 512, layers: int = 6) -> Any:
    """A network whose step takes some milliseconds on one core."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(*[part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())])
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    def train(batch: Any) -> None:
        optimizer.zero_grad()
        net(batch).square().mean().backward()
        optimizer.step()

    return net, train


def stored_samples(mended: bool) -> Step:
    """Each of eight samples takes 3 ms to come from storage; mended: three workers."""
    import torch

    class Stored(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 10_000

        def __getitem__(self, index: int) -> Any:
            time.sleep(3e-3)
            return torch.full((512,), index / 10_000)

    batches = iter(torch.utils.data.DataLoader(Stored(), 8, num_workers=3 if mended else 0))
    _, train = model(layers=2)
    return lambda _: train(next(batches))


def summed_rows(mended: bool) -> Step:
    """A loop over rows, each multiplied and summed, and a product beside it; mended: one product in place of the loop."""
    import torch

    rows, weight, left = torch.randn(2_000, 256), torch.randn(256), torch.randn(512, 512)

    def step(_: int) -> None:
        torch.mm(left, left)
        if mended:
            rows @ weight
        else:
            [(row * weight).sum() for row in rows]

    return step


def parsed_again(mended: bool) -> Step:
    """The same configuration is parsed in every step; mended: once."""
    import torch

    text = json.dumps([{"index": index, "values": [index * 0.1] * 8} for index in range(12_000)])
    kept = json.loads(text)
    _, train = model()
    batch = torch.randn(128, 512)

    def step(_: int) -> None:
        parsed = kept if mended else json.loads(text)
        train(batch + parsed[0]["index"])

    return step


def frequent_checkpoints(mended: bool) -> Step:
    """Every eighth step writes a checkpoint and waits for the disk, 120 ms; mended: none."""
    import torch

    net, train = model()
    batch, folder = torch.randn(128, 512), Path(tempfile.mkdtemp())

    def step(number: int) -> None:
        train(batch)
        if number % 8 == 5 and not mended:
            torch.save(net.state_dict(), folder / "checkpoint.pt")
            time.sleep(0.12)  # a slow disk, whatever this one is

    return step


def changing_lengths(mended: bool) -> Step:
    """A compiled function meets a new length in every other step, beside products; mended: one length."""
    import torch

    net, _ = model(256, 4)
    left = torch.randn(512, 512)
    compiled = torch.compile(net, backend="aot_eager", dynamic=False)
    torch._dynamo.config.recompile_limit = 64

    def step(number: int) -> None:
        with torch.no_grad():
            for _ in range(10):
                torch.mm(left, left)
            for _ in range(4):
                compiled(torch.ones(64 if mended else 64 + number // 2, 256))

    return step


def plain_products(mended: bool) -> Step:
    """Products of 1024³, and nothing wrong."""
    import torch

    del mended
    left, right, out = torch.randn(1024, 1024), torch.randn(1024, 1024), torch.empty(1024, 1024)

    def step(_: int) -> None:
        for _ in range(3):
            torch.mm(left, right, out=out)

    return step


def kept_losses(mended: bool) -> Step:
    """The graph of every step is kept in a list."""
    import torch

    weight, kept = torch.randn(512, 512, requires_grad=True), []
    batch = torch.randn(1024, 512)

    def step(_: int) -> None:
        hidden = torch.relu(batch @ weight)
        kept.append(hidden.square().mean().detach() if mended else hidden.square().mean())

    return step


def uneven_ranks(mended: bool) -> Step:
    """Two ranks; rank 1 reads its part from a slower place, 40 ms longer; mended: it does not. (Two ranks that compute unevenly share the
    cores of a small machine, so that sharing work out evenly gains nothing there.)"""
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    left, gradient = torch.randn(512, 512), torch.ones(100_000)

    def step(_: int) -> None:
        if rank and not mended:
            time.sleep(0.04)
        for _ in range(3):
            torch.mm(left, left)
        dist.all_reduce(gradient)

    return step


def jax_lengths(mended: bool) -> Step:
    """A jitted function meets a new length in every step; mended: padded to one."""
    import jax
    import jax.numpy as jnp

    weight = jnp.ones((256, 256))

    @jax.jit
    def forward(batch: Any) -> Any:
        for _ in range(6):
            batch = jnp.tanh(batch @ weight)
        return batch.sum()

    def step(number: int) -> None:
        forward(jnp.ones((64 if mended else 64 + number, 256))).block_until_ready()

    return step


def jax_parsed_again(mended: bool) -> Step:
    """A jitted step, and the same configuration parsed before each; mended: once."""
    import jax
    import jax.numpy as jnp

    text = json.dumps([{"index": index, "values": [index * 0.1] * 8} for index in range(12_000)])
    kept = json.loads(text)
    weight = jnp.ones((512, 512))
    forward = jax.jit(lambda batch: jnp.tanh(batch @ weight).sum())

    def step(_: int) -> None:
        parsed = kept if mended else json.loads(text)
        forward(jnp.full((256, 512), float(parsed[0]["index"]))).block_until_ready()

    return step


def jax_products(mended: bool) -> Step:
    """Jitted products of 1024³, and nothing wrong."""
    import jax
    import jax.numpy as jnp

    del mended
    weight = jnp.ones((1024, 1024))
    forward = jax.jit(lambda batch: batch @ weight)
    return lambda _: forward(forward(forward(weight))).block_until_ready()


PLANS = {
    "stored-samples": Plan(stored_samples, 20),
    "summed-rows": Plan(summed_rows, 10),
    "parsed-again": Plan(parsed_again, 15),
    "frequent-checkpoints": Plan(frequent_checkpoints, 32),
    "changing-lengths": Plan(changing_lengths, 16),
    "plain-products": Plan(plain_products, 15),
    "kept-losses": Plan(kept_losses, 20, memory=True),
    "uneven-ranks": Plan(uneven_ranks, 20, ranks=2),
    "jax-lengths": Plan(jax_lengths, 12, jax=True),
    "jax-parsed-again": Plan(jax_parsed_again, 15, jax=True),
    "jax-products": Plan(jax_products, 15, jax=True),
}  # fmt: skip


def timed(plan: Plan, step: Step, mark: Callable[[], None] | None = None) -> float:
    """Seconds of the steps after the warm ones; `mark` is called after each of them."""
    began = time.perf_counter()
    for number in range(plan.warm, plan.warm + plan.steps):
        step(number)
        if mark:
            mark()
    return time.perf_counter() - began


def run(plan: Plan, mended: bool, trace: Path | None) -> float:
    step = plan.prepare(mended)
    for number in range(plan.warm):
        step(number)
    if trace is None:
        return timed(plan, step)
    return _run_jax(plan, step, trace) if plan.jax else _run_torch(plan, step, trace)


def _run_torch(plan: Plan, step: Step, trace: Path) -> float:
    from torch.profiler import ProfilerActivity, profile, schedule

    plan_of_it = schedule(wait=0, warmup=1, active=plan.steps, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan_of_it, profile_memory=plan.memory) as profiler:
        step(plan.warm - 1)
        profiler.step()
        seconds = timed(plan, step, profiler.step)
    profiler.export_chrome_trace(str(trace))
    return seconds


def _run_jax(plan: Plan, step: Step, trace: Path) -> float:
    import jax

    with jax.profiler.trace(str(trace)):
        began = time.perf_counter()
        for number in range(plan.warm, plan.warm + plan.steps):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                step(number)
        return time.perf_counter() - began


def run_ranks(plan: Plan, mended: bool, trace: Path | None) -> float:
    """A process per rank; the seconds of the slowest."""
    import torch.multiprocessing as processes

    with tempfile.TemporaryDirectory() as folder:
        if trace:
            trace.mkdir(parents=True, exist_ok=True)
        processes.spawn(_rank, (plan, mended, trace, folder), nprocs=plan.ranks)
        return max(float((Path(folder) / str(rank)).read_text()) for rank in range(plan.ranks))


def _rank(rank: int, plan: Plan, mended: bool, trace: Path | None, folder: str) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=plan.ranks)
    seconds = run(plan, mended, trace / f"rank{rank}.json" if trace else None)
    (Path(folder) / str(rank)).write_text(str(seconds))
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=PLANS)
    parser.add_argument("--mended", action="store_true")
    parser.add_argument("--trace", type=Path)
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    plan = PLANS[asked.name]
    print((run_ranks if plan.ranks > 1 else run)(plan, asked.mended, asked.trace))


if __name__ == "__main__":
    main()
