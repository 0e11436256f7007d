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
from hotlap.training.memory_record import TrainingVariant
from hotlap.training.memory_step import MemoryJob

WAYS = {
    "adamw": TrainingVariant(), "sgd": TrainingVariant(optimizer="sgd"), "checkpointing": TrainingVariant(checkpointing=True),
    "autocast": TrainingVariant(autocast=True),
}  # fmt: skip
MODULES = Path(__file__).with_name("training_modules.py")
FUNCTIONS = ("perceptron", "convolutions", "residual", "recurrent", "embeddings", "mixer")  # without checkpointing of their own


class PeakRow(NamedTuple):
    name: str
    way: str
    formula: int | None
    fake: int
    real: int


def transformers() -> dict[str, tuple[Network, TrainingVariant]]:
    """Twenty: shapes of six families, made small."""
    small = {}
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
            small[f"{family} layers={layers} hidden={hidden} vocabulary={vocabulary}"] = net, TrainingVariant(batch=batch, context=context)
    return small


def measure(name: str, way: str, job: MemoryJob, formula: int | None) -> PeakRow:
    peaks = []
    for mode in ("fake", "real"):
        gc.collect()
        with contextlib.redirect_stdout(io.StringIO()):
            account: Any = (memory_step._fake if mode == "fake" else memory_step._real)(memory_job(job, mode))
        peaks.append(account.peak_bytes)
    return PeakRow(name, way, formula, peaks[0], peaks[1])


def memory_job(job: MemoryJob, mode: Any) -> MemoryJob:
    return MemoryJob(mode=mode, steps=job.steps, network=job.network, function=job.function, variant=job.variant)


def varied(way: str, sizes: TrainingVariant) -> TrainingVariant:
    kind = WAYS[way]
    return TrainingVariant(
        optimizer=kind.optimizer, checkpointing=kind.checkpointing, autocast=kind.autocast, batch=sizes.batch, context=sizes.context
    )


def line(row: PeakRow) -> str:
    off = f"{row.fake / row.real - 1:+8.3%}"
    by_hand = f"{row.formula / 2**20:9.2f} {row.formula / row.real - 1:+8.2%}" if row.formula else f"{'–':>9} {'–':>8}"
    return f"{row.name:<48} {row.way:<14} {row.real / 2**20:9.2f} {row.fake / 2**20:9.2f} {off} {by_hand}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=26)
    parser.add_argument("--only", default="", help="networks whose name holds this")
    args = parser.parse_args()
    began, results = time.perf_counter(), list[PeakRow]()
    print(f"{'network':<48} {'way':<14} {'allocator':>9} {'fake':>9} {'off':>8} {'formula':>9} {'off':>8}   (MiB)")
    jobs: list[tuple[str, Network | None, TrainingVariant]] = [(name, net, sizes) for name, (net, sizes) in transformers().items()]
    jobs += [(name, None, TrainingVariant(batch=16)) for name in FUNCTIONS]
    for name, net, sizes in [job for job in jobs if args.only in job[0]][: args.networks]:
        for way in WAYS:
            variant = varied(way, sizes)
            if net is None:
                if way == "checkpointing":
                    continue
                row = measure(name, way, MemoryJob(mode="fake", function=f"{MODULES}:{name}", variant=variant), None)
            else:
                given = {key: value for key, value in dataclasses.asdict(net).items() if key not in ("aliases", "remarks")}
                formula = memory_formula.account(net, variant).peak_bytes
                row = measure(name, way, MemoryJob(mode="fake", network=given, variant=variant), formula)
            results.append(row)
            print(line(row), flush=True)
    fake = [abs(row.fake / row.real - 1) for row in results]
    hand = [abs(row.formula / row.real - 1) for row in results if row.formula]
    within = sum(off <= 0.01 for off in fake)
    count = len({row.name for row in results})
    shares = f"mean {sum(fake) / len(fake):.3%}, worst {max(fake):.3%}"
    print(f"\nfake tensors: {within} of {len(fake)} peaks within 1 %, of {count} networks; {shares}")
    if hand:
        print(f"by formula:   {len(hand)} peaks: mean {sum(hand) / len(hand):.2%}, worst {max(hand):.2%}")
    print(f"in {time.perf_counter() - began:.0f} s")
    return 1 if max(fake) > 0.01 else 0


if __name__ == "__main__":
    raise SystemExit(main())
