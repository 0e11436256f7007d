"""Which nodes of a fleet are off: recall, false names, time and memory, beside what others do.

    python benchmarks/fleet.py [--nodes 10000] [--metrics 200] [--samples 10] [--seed 2028] [--json]

Samples of 1 % noise, healthy nodes 0.2 % apart, bad nodes 3 % slow in one metric each.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np
from numpy.typing import NDArray

from hotlap.core.analysis.selftest import binomial_interval
from hotlap.core.stats.fleet import odd

NOISE, SPREAD, SLOW = 0.01, 0.002, 0.03
Values = NDArray[np.float32]


def noise(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Values:
    if kind == "t3":
        return (rng.standard_t(3, shape) / np.sqrt(3)).astype(np.float32)
    if kind == "bimodal":
        modes = np.where(rng.random(shape, dtype=np.float32) < 0.3, np.float32(1.4), np.float32(-0.6))
        return modes + np.float32(0.4) * rng.standard_normal(shape, dtype=np.float32)
    return rng.standard_normal(shape, dtype=np.float32)


def fleet(rng: np.random.Generator, shape: tuple[int, int, int], bad: float, kind: str, fault: str) -> tuple[Values, set[tuple[int, int]]]:
    """Values above zero, higher is better, and which node is bad in which metric."""
    x = noise(rng, shape, kind) * np.float32(NOISE)
    x += rng.standard_normal(shape[:2], dtype=np.float32)[:, :, None] * np.float32(SPREAD)
    nodes = rng.choice(shape[0], int(bad * shape[0]), replace=False)
    pairs = {(int(n), int(rng.integers(shape[1]))) for n in nodes} if fault != "rack" else {(int(n), 0) for n in nodes}
    for node, metric in pairs:
        slow = rng.random(shape[2]) < 0.6 if fault == "tail" else np.ones(shape[2], bool)
        x[node, metric] -= np.where(slow, 4 * NOISE if fault == "tail" else SLOW, 0).astype(np.float32)
    return np.exp(x, out=x), pairs


def row(name: str, named: set[int], pairs: set[tuple[int, int]], nodes: int, seconds: float) -> dict[str, object]:
    bad = {node for node, _ in pairs}
    hit, false = len(named & bad), len(named - bad)
    return {
        "what": name, "bad": len(bad), "found": hit, "recall": binomial_interval(hit, len(bad)) if bad else None, "false": false,
        "false_share": binomial_interval(false, nodes - len(bad)), "seconds": seconds,
    }


def line(entry: dict[str, object]) -> str:
    hits = f"{'–':>5}{'':31}"
    if entry["recall"]:
        low, high = entry["recall"]  # type: ignore[misc]
        hits = f"{entry['found']:>5} of {entry['bad']:>5} found [{low:6.1%}, {high:6.1%}]"
    worst, most = entry["false_share"]  # type: ignore[misc]
    return (
        f"{entry['what']:<44} {hits}   {entry['false']:>5} healthy named "
        f"[{worst:.3%}, {most:.3%}]  {entry['seconds']:6.2f} s"
    )


def peers(x: Values) -> dict[str, set[int]]:
    """What others do, in a few lines: a fixed share of the median, three sigma on means, similarity of distributions."""
    means = x.mean(axis=2)
    centre = np.median(means, axis=0)
    fixed = {int(n) for n in np.flatnonzero((means < 0.95 * centre).any(axis=1))}
    sigma = {int(n) for n in np.flatnonzero((means < means.mean(axis=0) - 3 * means.std(axis=0)).any(axis=1))}
    return {"peer: 5 % under the median": fixed, "peer: three sigma on means": sigma, "peer: CDF similarity under 0.95": unlike(x)}


def unlike(x: Values) -> set[int]:
    """SuperBench's criterion in our own lines (Xiong and others, USENIX ATC 2024): 1 − area between a node's distribution function and
    the fleet's, over that under the larger; under 0.95 in any metric a node is out. The reference is all samples pooled."""
    unlike_devices: set[int] = set()
    for metric in range(x.shape[1]):
        reference = np.quantile(x[:, metric], (np.arange(x.shape[2]) + 0.5) / x.shape[2])
        own = np.sort(x[:, metric], axis=1)
        apart = np.abs(own - reference).sum(axis=1) / np.maximum(own.sum(axis=1), reference.sum())
        unlike_devices |= {int(n) for n in np.flatnonzero(1 - apart < 0.95)}
    return unlike_devices


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, value in (("nodes", 10_000), ("metrics", 200), ("samples", 10), ("seed", 2028)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    shape = (options.nodes, options.metrics, options.samples)
    small = (options.nodes, 8, options.samples)
    rng, rows, notes = np.random.default_rng(options.seed), [], list[str]()
    for name, size, bad, kind, fault in (
        ("1 % of nodes 3 % slow in one metric", shape, 0.01, "normal", "shift"), ("20 % of nodes 3 % slow", small, 0.2, "normal", "shift"),
        ("nobody slow", shape, 0.0, "normal", "shift"), ("1 % slow, heavy tails (t3)", small, 0.01, "t3", "shift"),
        ("1 % slow, bimodal noise", small, 0.01, "bimodal", "shift"),
        ("1 % with a tail: 6 of 10 samples 4 % slow", small, 0.01, "normal", "tail"),
        ("half of the nodes slow in one metric, limit", small, 0.5, "normal", "rack"),
    ):
        x, pairs = fleet(rng, size, bad, kind, fault)
        before = time.perf_counter()
        found = odd(x, limit=[1.0] * size[1] if fault == "rack" else None)
        rows.append(row(name, {one.node for one in found.odd}, pairs, size[0], time.perf_counter() - before))
        if size == shape and bad:
            for peer, named in peers(x).items():
                rows.append(row(peer, named, pairs, size[0], 0.0))
        if fault == "rack":
            notes = [f"metric {one.index}: {one.text}" for one in odd(x).notices]
        del x
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if options.json:
        print(json.dumps({"rows": rows, "without_limit": notes, "peak_mib": peak}, indent=1))
        return
    print(f"{' × '.join(map(str, shape))} nodes, metrics, samples (8 metrics where bad nodes are others), seed {options.seed}")
    print("\n".join(line(one) for one in rows))
    print(f"half slow, no limit: {'; '.join(notes)}")
    print(f"peak memory of the whole program, data included: {peak:.0f} MiB")


if __name__ == "__main__":
    main()
