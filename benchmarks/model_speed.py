"""How long predictions take: one case, arrays of cases, a step of a network.

    python benchmarks/model_speed.py [--json]

Medians of many calls in one process on one core, after a first call that reads the coefficients. One case is given in products of two
NumPy arrays of one float64 too, measured around it (asked for: at most 2,500). Arrays: 100,000 random products of matrices, power,
clock and interval of each included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

import hotlap
from hotlap.core.model.networks import predict as networks

CASES = 100_000


def median_s(call: Callable[[], object], times: int) -> float:
    call()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def in_products(call: Callable[[], object], times: int) -> float:
    """How many products of two arrays of one float64 the call takes as long as: the median over turns of both."""
    one = np.ones(1)

    def products() -> None:
        for _ in range(1000):
            one * one

    ratios = [1000 * median_s(call, times // 10) / median_s(products, 3) for _ in range(10)]
    return statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    random = np.random.default_rng(1)
    m, n, k = (np.round(2 ** random.uniform(4, 14, CASES)) for _ in range(3))
    decode = {"phase": "decode", "batch": 32, "context": 8192, "tp": 8}
    train = {"phase": "train", "batch": 128, "context": 8192, "tp": 8, "pp": 4, "dp": 4}
    single = {
        "product": lambda: hotlap.predict("gemm", "h100-sxm", m=8192, n=8192, k=8192, dtype="bf16"),
        "prefill": lambda: hotlap.predict("attention", "h100-sxm", batch=4, query=4096),
        "decode": lambda: hotlap.predict("attention", "h100-sxm", batch=4, query=1, kv=4096),
    }
    times = {
        **{f"one {name}, ms": 1e3 * median_s(call, 200) for name, call in single.items()},
        **{f"one {name}, products of NumPy": in_products(call, 200) for name, call in single.items()},
        "products in arrays, cases/s": CASES / median_s(lambda: hotlap.predict("gemm", "h100-sxm", m=m, n=n, k=k, dtype="bf16"), 5),
        "decode step of llama-3-70b, ms": 1e3 * median_s(lambda: networks.predict("llama-3-70b", "h200-sxm", **decode), 20),
        "training step of llama-3-70b, ms": 1e3 * median_s(lambda: networks.predict("llama-3-70b", "h100-sxm", **train), 20),
    }
    if options.json:
        print(json.dumps(times))
        return
    for name, value in times.items():
        print(f"{name:<34} {value:>10,.2f}" if value < 1000 else f"{name:<34} {value:>10,.0f}")


if __name__ == "__main__":
    main()
