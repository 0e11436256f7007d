"""The peak of training steps: by formula and by fake tensors, against what the allocator counted over the same steps on real ones.

    python benchmarks/training_memory.py [--networks 26] [--only NAME]

Needs PyTorch; on the CPU. Each network takes two steps in four ways: AdamW, SGD, AdamW with checkpointing, AdamW with bf16 autocast. The
allocator's count is PyTorch's profiler's, to which every allocation and free is reported, those inside of operators too.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import io
import time
from pathlib import Path
from typing import Any, NamedTuple

from hotlap.core.work.networks import shape
from hotlap.core.work.networks.shape import Network
from hotlap.training import memory_formula, memory_step
from hotlap.training.memory_record import Variant
from hotlap.training.memory_step import MemoryJob

WAYS = {
    "adamw": Variant(), "sgd": Variant(optimizer="sgd"), "checkpointing": Variant(checkpointing=True), "autocast": Variant(autocast=True),
}  # fmt: skip
MODULES = Path(__file__).with_name("training_modules.py")
FUNCTIONS = ("perceptron", "convolutions", "residual", "recurrent", "embeddings", "mixer")  # without checkpointing of their own


class Measured(NamedTuple):
    name: str
    way: str
    formula: int | None
    fake: int
    real: int


def transformers() -> dict[str, tuple[Network, Variant]]:
    """Twenty: shapes of six families, made small."""
    made = {}
    for family, sizes in {
        "gpt-2": ((2, 128, 4, 1000, 8, 128), (4, 256, 8, 2000, 4, 128), (3, 384, 6, 500, 2, 256), (2, 192, 4, 8000, 4, 64)),
        "llama-3-8b": ((2, 256, 8, 2000, 4, 128), (4, 128, 4, 500, 8, 128), (2, 512, 8, 4000, 2, 64), (6, 192, 6, 1000, 4, 128)),
        "bert-base": ((2, 128, 4, 1000, 8, 64), (4, 256, 8, 3000, 4, 128), (6, 128, 4, 500, 8, 128)),
        "mistral-7b": ((2, 256, 8, 1000, 4, 256), (4, 256, 8, 500, 8, 64), (3, 128, 4, 4000, 8, 128)),
        "qwen3-8b": ((2, 256, 8, 1000, 4, 128), (4, 128, 4, 2000, 8, 64), (3, 320, 8, 500, 4, 128)),
        "minilm-l6": ((2, 192, 6, 1000, 8, 128), (6, 96, 3, 500, 16, 64), (3, 256, 8, 4000, 4, 64)),
    }.items():
        original = shape.load(family)
        for layers, hidden, heads, vocabulary, batch, context in sizes:
            kv_heads = max(heads * original.kv_heads // original.heads, 1)
            while heads % kv_heads:
                kv_heads += 1
            inter = round(hidden * original.inter / original.hidden / 32) * 32
            net = dataclasses.replace(
                original, layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads, head_dim=hidden // heads, inter=inter,
                vocabulary=vocabulary, positions=min(original.positions, 256),
            )  # fmt: skip
            made[f"{family} layers={layers} hidden={hidden} vocabulary={vocabulary}"] = net, Variant(batch=batch, context=context)
    return made


def measure(name: str, way: str, job: MemoryJob, formula: int | None) -> Measured:
    peaks = []
    for mode in ("fake", "real"):
        gc.collect()
        with contextlib.redirect_stdout(io.StringIO()):
            account: Any = (memory_step._fake if mode == "fake" else memory_step._real)(memory_job(job, mode))
        peaks.append(account.peak_bytes)
    return Measured(name, way, formula, peaks[0], peaks[1])


def memory_job(job: MemoryJob, mode: Any) -> MemoryJob:
    return MemoryJob(mode=mode, steps=job.steps, network=job.network, function=job.function, variant=job.variant)


def varied(way: str, sizes: Variant) -> Variant:
    kind = WAYS[way]
    return Variant(
        optimizer=kind.optimizer, checkpointing=kind.checkpointing, autocast=kind.autocast, batch=sizes.batch, context=sizes.context
    )


def line(one: Measured) -> str:
    off = f"{one.fake / one.real - 1:+8.3%}"
    by_hand = f"{one.formula / 2**20:9.2f} {one.formula / one.real - 1:+8.2%}" if one.formula else f"{'–':>9} {'–':>8}"
    return f"{one.name:<48} {one.way:<14} {one.real / 2**20:9.2f} {one.fake / 2**20:9.2f} {off} {by_hand}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=26)
    parser.add_argument("--only", default="", help="networks whose name holds this")
    args = parser.parse_args()
    began, results = time.perf_counter(), list[Measured]()
    print(f"{'network':<48} {'way':<14} {'allocator':>9} {'fake':>9} {'off':>8} {'formula':>9} {'off':>8}   (MiB)")
    jobs = [(name, net, sizes) for name, (net, sizes) in transformers().items()] + [(name, None, Variant(batch=16)) for name in FUNCTIONS]
    for name, net, sizes in [job for job in jobs if args.only in job[0]][: args.networks]:
        for way in WAYS:
            variant = varied(way, sizes)
            if net is None:
                if way == "checkpointing":
                    continue
                one = measure(name, way, MemoryJob(mode="fake", function=f"{MODULES}:{name}", variant=variant), None)
            else:
                given = {key: value for key, value in dataclasses.asdict(net).items() if key not in ("aliases", "remarks")}
                formula = memory_formula.account(net, variant).peak_bytes
                one = measure(name, way, MemoryJob(mode="fake", network=given, variant=variant), formula)
            results.append(one)
            print(line(one), flush=True)
    fake = [abs(one.fake / one.real - 1) for one in results]
    hand = [abs(one.formula / one.real - 1) for one in results if one.formula]
    print(f"\nfake tensors: {len(fake)} peaks of {len({one.name for one in results})} networks: mean {sum(fake) / len(fake):.3%}, worst {max(fake):.3%}")
    if hand:
        print(f"by formula:   {len(hand)} peaks: mean {sum(hand) / len(hand):.2%}, worst {max(hand):.2%}")
    print(f"in {time.perf_counter() - began:.0f} s")
    return 1 if max(fake) > 0.01 else 0


if __name__ == "__main__":
    raise SystemExit(main())
