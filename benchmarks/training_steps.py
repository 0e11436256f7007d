"""Whether `training run` sees what was put into a program: a slow loader, a recompile, a step 5 % longer; and nothing where nothing is.

    python benchmarks/training_steps.py loader [--delays 2,5,10,20,50] [--processes 6]   # needs PyTorch
    python benchmarks/training_steps.py recompile [--windows 100] [--clean 200] [--backend eager]   # needs PyTorch
    python benchmarks/training_steps.py aa [--pairs 200] [--processes 6] [--planted 40] [--steps 600]
    python benchmarks/training_steps.py flop                                              # needs PyTorch
    python benchmarks/training_steps.py exposed [--delays 5,10,20,40] [--processes 2]     # needs PyTorch

Timings are of this machine as it is; the time for which programs waited for a processor is printed beside.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from hotlap.core.store import bundle as bundles
from hotlap.core.work.networks import shape
from hotlap.training import conventions, session, show_kind, summary
from hotlap.training.record import TrainingAsked, column
from hotlap.training.steady import of_process

LOADER = """
import atexit, os, sys, time, torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
delay, folder, slept = float(sys.argv[1]), sys.argv[2], []

@atexit.register
def keep():  # a sleep takes longer than it was asked to
    with open(f"{folder}/{os.getpid()}.txt", "w") as file:
        file.write("\\n".join(map(repr, slept)))

class Rows(Dataset):
    def __len__(self):
        return 10**6
    def __getitem__(self, place):
        began = time.perf_counter()
        time.sleep(delay)
        slept.append(time.perf_counter() - began)
        return rows

rows = torch.ones(32, 64)

model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64))
optimiser = torch.optim.AdamW(model.parameters())
for batch in DataLoader(Rows(), batch_size=None):
    optimiser.zero_grad()
    (model(batch) - batch).square().mean().backward()
    optimiser.step()
"""
WINDOW, CHANGES = 30, 20  # steps of a window, and after how many its batch changes shape
RECOMPILE = """
import sys, hotlap, torch

torch.set_num_threads(1)
forced, clean, backend = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
for window in range(forced + clean):
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))
    compiled = torch.compile(model, backend=backend)
    optimiser = torch.optim.SGD(model.parameters(), 1e-3)
    for step in range({window}):
        rows = 9 if window < forced and step >= {changes} else 8
        compiled(torch.ones(rows, 16)).sum().backward()
        optimiser.step()
        optimiser.zero_grad()
        hotlap.step()
"""
HIDES = 0.015  # seconds that the backward pass goes on after the first bucket is sent
EXPOSED = """
import sys, threading, time, torch, torch.distributed as dist, hotlap

torch.set_num_threads(1)
delay, hides = float(sys.argv[1]), {hides}
dist.init_process_group("gloo")

class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
    def forward(self, x):
        between = self.first(x)
        between.register_hook(lambda gradient: time.sleep(hides))
        return self.second(between)

def slow_link(state, bucket):
    future, buffer = torch.futures.Future(), bucket.buffer()
    reduced = dist.all_reduce(buffer, async_op=True).get_future()
    def answered(_):
        if bucket.is_last():
            future.set_result(buffer)
        else:
            threading.Timer(delay, lambda: future.set_result(buffer)).start()
    reduced.then(answered)
    return future

model = torch.nn.parallel.DistributedDataParallel(Two(), bucket_cap_mb=0.001)
model.register_comm_hook(None, slow_link)
with hotlap.steps() as t:
    for _ in range(60):
        model(torch.ones(8, 64)).sum().backward()
        t.step(tokens=8)
dist.destroy_process_group()
"""
BUSY = """
import hotlap

def work(turns):
    total = 0
    for place in range(turns):
        total += place * place % 7
    return total

with hotlap.steps() as t:
    for _ in range(1000):
        work({turns})
        t.step(tokens=1)
"""
TURNS = 20_000


def measured(folder: Path, name: str, text: str, **asked: object) -> show_kind.ShownTraining:
    """One run of a script."""
    script = folder / f"{name}.py"
    script.write_text(textwrap.dedent(text))
    wanted = replace(TrainingAsked(program=str(script), kind="script", data=["real"]), **asked)
    path = session.run(wanted, session.TrainingOptions(folder / "home", wait_s=600.0))
    shown = show_kind.read(bundles.load(path, readings=False))
    assert shown is not None
    return shown


def loader(args: argparse.Namespace, folder: Path) -> None:
    """Against the delay that was really there: a sleep is longer than asked, which the loader measures by itself."""
    print("asked   planted   reported                       off       run delay  within max(5 %, 1 ms)")
    good, before = 0, os.getloadavg()
    delays = [float(one) / 1e3 for one in args.delays.split(",")]
    for delay in delays:
        kept = folder / f"slept-{delay}"
        kept.mkdir()
        arguments = [str(delay), str(kept)]
        shown = measured(folder, "loader", LOADER, arguments=arguments, data=["real", "frozen"], steps=60, processes=args.processes)
        stall = shown.summary.stall
        assert stall is not None
        assert stall.stall_s is not None
        true = planted(shown, kept)
        off = stall.stall_s.value - true
        right = abs(off) <= max(0.05 * true, 1e-3)
        good += right
        busy = max(arm.run_delay or 0.0 for arm in shown.summary.arms)
        ends = f"[{(stall.stall_s.low or 0) * 1e3:6.2f}, {(stall.stall_s.high or 0) * 1e3:6.2f}]"
        value = f"{delay * 1e3:4.0f} ms  {true * 1e3:6.2f} ms  {stall.stall_s.value * 1e3:7.2f} ms {ends}"
        print(f"{value}  {off * 1e3:+6.2f} ms  {busy:8.1%}  {'yes' if right else 'no'}", flush=True)
    print(f"{good} of {len(delays)} delays reported within max(5 %, 1 ms), {args.processes} processes a side")
    print(f"load (1 min) {before[0]:.1f} before, {os.getloadavg()[0]:.1f} after")


def planted(shown: show_kind.ShownTraining, kept: Path) -> float:
    """The median over processes of how long the loader slept in the mean steady step, by its own clock."""
    each = []
    for one in (launch[0] for launch in shown.run.launches if launch[0].process.data == "real"):
        slept = [float(line) for line in (kept / f"{one.process.pid}.txt").read_text().split()]
        each.append(float(np.mean(slept[one.steady.first - 1 : one.process.steps])))
    return float(np.median(each))


def recompile(args: argparse.Namespace, folder: Path) -> None:
    """Windows of 30 steps cut out of long processes: in some the batch changes its shape after 20 of them."""
    each = min(10, max(args.windows, args.clean))  # processes
    forced, clean = -(-args.windows // each), -(-args.clean // each)
    text = RECOMPILE.replace("{window}", str(WINDOW)).replace("{changes}", str(CHANGES))
    shown = measured(folder, "recompile", text, arguments=[str(forced), str(clean), args.backend], steps=0, processes=each, limit_s=1800.0)
    seen, false, named, windows = 0, 0, 0, 0
    for launch in shown.run.launches:
        one = launch[0]
        for window in range(len(one.table) // WINDOW):
            first, last = window * WINDOW, (window + 1) * WINDOW
            inside = [replace(event, step=event.step - first) for event in one.process.events if first < event.step <= last]
            events = of_process(replace(one.process, events=inside), one.table[first:last]).inside
            windows += 1
            if window < forced:
                seen += bool(events)
                named += any(event.kind == "recompile" and "size mismatch" in event.detail for event in events)
            else:
                false += bool(events)
    every = forced * len(shown.run.launches)
    print(f"backend {args.backend}: a forced recompile found in {seen} of {every} windows, its guard named in {named}")
    print(f"false alarms in {false} of {windows - every} clean windows")


def aa(args: argparse.Namespace, folder: Path) -> None:
    """One script against itself, and against one whose step takes 5 % more turns: a tape of pairs in turns, and every run of neighbours
    of it that `training run` could have been."""
    sides = (("same", args.pairs, TURNS, args.processes), ("5 % longer", args.planted, round(TURNS * 1.05), 12))
    for name, windows, turns, processes in sides:
        other = folder / "other.py"
        other.write_text(BUSY.replace("{turns}", str(turns)))
        began, text = time.perf_counter(), BUSY.replace("{turns}", str(TURNS))
        shown = measured(folder, "same", text, against=str(other), steps=args.steps, processes=windows + processes - 1)
        pairs = summary.pairs(shown.run, "A", "B")
        answers: dict[str, int] = {}
        for first in range(len(pairs) - processes + 1):
            compared = summary.compared(pairs[first : first + processes], "A", "B", shown.run.trained.asked.min_effect)
            answers[compared.answer] = answers.get(compared.answer, 0) + 1
        apart = np.log([(b.steady.step_s or 1.0) / (a.steady.step_s or 1.0) for a, b in pairs])
        noise = 1.4826 * float(np.median(np.abs(apart - np.median(apart))))
        wrong, busy = answers.get("larger", 0) + answers.get("smaller", 0), max(arm.run_delay or 0.0 for arm in shown.summary.arms)
        print(
            f"{name}: {sum(answers.values())} runs of {processes} neighbouring pairs of a tape of {len(pairs)}, {args.steps} steps each: "
            f"{wrong} called different, {answers}; median {np.median(apart):+.2%}, noise of a pair {noise:.2%} (with outliers "
            f"{apart.std():.1%}), run delay {busy:.1%}, {time.perf_counter() - began:.0f} s", flush=True,
        )  # fmt: skip


def flop(args: argparse.Namespace, folder: Path) -> None:
    """Networks with small widths as modules: torchtitan's formula over the module's own parameters, and PyTorch's counter."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from hotlap.training.network_module import NetworkModule

    torch.backends.cuda.enable_flash_sdp(False)  # the counter does not know the processor's kernel of attention
    small = {"layers": "2", "hidden": "128", "heads": "4", "head_dim": "32", "inter": "256", "vocabulary": "512", "context": "64"}
    right = near = every = 0
    for name in shape.names():
        given = {**small, **({"experts": "4", "topk": "2", "expert_inter": "96"} if shape.load(name).experts else {})}
        if shape.load(name).latent:
            continue
        network, batch, context = conventions.network_of(name, given)
        model = NetworkModule(network)
        routed = sum(one.numel() for key, one in model.named_parameters() if ".each." in key and one.ndim == 2)
        tables = sum(one.numel() for child in model.children() if isinstance(child, torch.nn.Embedding) for one in child.parameters())
        met = routed * network.topk // network.experts if network.experts else 0
        active = sum(one.numel() for one in model.parameters()) - routed + met
        theirs = 6 * (active - tables) + 6 * network.layers * network.heads * 2 * network.head_dim * context
        ours = conventions.FORMULAS["torchtitan"].per_token(network, context)
        with FlopCounterMode(display=False) as counter:
            model(torch.randint(network.vocabulary, (batch, context))).sum().backward()
        off = conventions.counted(network, context, masked=False) / (counter.get_total_flops() / (batch * context)) - 1
        every, right, near = every + 1, right + (theirs == ours), near + (abs(off) <= 0.005)
        equal = "equal" if theirs == ours else f"theirs {theirs:,}"
        print(f"{name:16} torchtitan {ours:>10,.0f} {equal}  counted {off:+.3%} from FlopCounterMode")
    print(f"torchtitan's formula to the digit: {right} of {every}; count within 0.5 %: {near} of {every}")


def exposed(args: argparse.Namespace, folder: Path) -> None:
    """Two ranks on gloo whose first bucket's reduction takes so much longer, while the backward pass goes on for HIDES."""
    print(f"the backward pass goes on for {HIDES * 1e3:.0f} ms after the first of two buckets is sent; medians of steps of both ranks")
    print("delay     expected  exposed             off       share of the reduction  run delay")
    for delay in [float(one) / 1e3 for one in args.delays.split(",")]:
        text = EXPOSED.replace("{hides}", str(HIDES))
        shown = measured(folder, "exposed", text, arguments=[str(delay)], steps=60, processes=args.processes, ranks=2)
        ranks = [one for launch in shown.run.launches for one in launch]
        each = [float(np.median(column(one.table, "exposed_communication")[10:])) for one in ranks]
        shares = [(one.process.reduced_exposed_s or 0.0) / (one.process.reduced_s or 1.0) for one in ranks]
        wanted, value = max(delay - HIDES, 0.0), float(np.median(each))
        busy = max(arm.run_delay or 0.0 for arm in shown.summary.arms)
        ends = f"[{min(each) * 1e3:5.2f}, {max(each) * 1e3:5.2f}]"
        print(
            f"{delay * 1e3:4.0f} ms  {wanted * 1e3:5.1f} ms  {value * 1e3:6.2f} ms {ends:15}  {(value - wanted) * 1e3:+6.2f} ms  "
            f"{np.median(shares):6.1%}                  {busy:6.1%}", flush=True,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("loader", "recompile", "aa", "flop", "exposed"))
    parser.add_argument("--delays", default="")
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--clean", type=int, default=200)
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--planted", type=int, default=40)
    parser.add_argument("--steps", type=int, default=600, help="of each process of aa: of few, its number is that of a moment")
    args = parser.parse_args()
    args.delays = args.delays or ("5,10,20,40" if args.what == "exposed" else "2,5,10,20,50")
    with tempfile.TemporaryDirectory(prefix="hotlap-steps-") as folder:
        {"loader": loader, "recompile": recompile, "aa": aa, "flop": flop, "exposed": exposed}[args.what](args, Path(folder))


if __name__ == "__main__":
    main()
