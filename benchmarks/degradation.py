"""Which devices of a fleet degrade: one pass over a year of days, beside a plain fit of lines.

    python benchmarks/degradation.py [--devices 10000] [--metrics 50] [--days 365] [--seed 2029] [--json]

Samples of 1 % noise a day (AR(0.5)), summer and a driver shared by all devices; 1 % of devices fall by 0.2 % a month in one metric.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hotlap.core.analysis.selftest import binomial_interval
from hotlap.core.stats.degradation import trends
from hotlap.core.stats.slope import MONTH_S

NOISE, PHI, SLOPE, MISSING = 0.01, 0.5, -0.002, 0.02
BLOCK = 100  # devices at once
Values = NDArray[np.float32]
Counts = dict[str, tuple[int, int]]


class Fleet:
    """Values by blocks of devices, made when asked for; the time that making takes is kept apart."""

    def __init__(self, shape: tuple[int, int, int], seed: int) -> None:
        self.shape, self.rng, self.making_s = shape, np.random.default_rng(seed), 0.0
        self.days = np.arange(shape[2])
        chosen = self.rng.choice(shape[0], shape[0] // 100, replace=False)
        self.bad = {int(one): int(self.rng.integers(shape[1])) for one in chosen}
        self.shared = (0.01 * np.sin(2 * np.pi * self.days / 365) - 0.015 * (self.days > 0.6 * shape[2])).astype(np.float32)
        self.least_squares = np.zeros(shape[:2], dtype=bool)

    def blocks(self) -> Iterator[Values]:
        for start in range(0, self.shape[0], BLOCK):
            before = time.perf_counter()
            block = self._block(start, min(BLOCK, self.shape[0] - start))
            self.making_s += time.perf_counter() - before
            yield block

    def _block(self, start: int, count: int) -> Values:
        x = self.rng.standard_normal((count, *self.shape[1:]), dtype=np.float32)
        for day in range(1, self.shape[2]):
            x[:, :, day] = PHI * x[:, :, day - 1] + np.float32((1 - PHI**2) ** 0.5) * x[:, :, day]
        x = x * np.float32(NOISE) + self.shared
        for device, metric in self.bad.items():
            if start <= device < start + count:
                x[device - start, metric] += (SLOPE * self.days * 86_400 / MONTH_S).astype(np.float32)
        self.least_squares[start : start + count] = _falls(x)
        np.exp(x, out=x)
        x[self.rng.random(x.shape, dtype=np.float32) < MISSING] = np.nan
        return x


def _falls(x: Values) -> NDArray[np.bool_]:
    """What a plain least-squares line with its textbook interval calls falling at 5 %, before days are lost."""
    t = np.arange(x.shape[2]) - (x.shape[2] - 1) / 2
    centred = x - x.mean(axis=2, keepdims=True)
    slope = centred @ t.astype(np.float32) / np.float32(t @ t)
    rest = (centred**2).sum(axis=2) - slope**2 * np.float32(t @ t)
    return np.asarray(slope / np.sqrt(rest / (len(t) - 2) / (t @ t)) < -1.96)


def counted(named: NDArray[np.bool_], bad: dict[int, int]) -> Counts:
    truth = np.zeros(named.shape, dtype=bool)
    truth[list(bad), list(bad.values())] = True
    return {
        "found": (int((named & truth).sum()), int(truth.sum())),
        "healthy series named": (int((named & ~truth).sum()), int((~truth).sum())),
        "healthy devices named": (int((named & ~truth).any(axis=1)[~truth.any(axis=1)].sum()), int((~truth.any(axis=1)).sum())),
    }


def line(name: str, counts: Counts) -> str:
    parts = []
    for what, (hit, of) in counts.items():
        low, high = binomial_interval(hit, of)
        parts.append(f"{what} {hit} of {of} [{low:.3%}, {high:.3%}]")
    return f"{name:<34} " + "   ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, value in (("devices", 10_000), ("metrics", 50), ("days", 365), ("seed", 2029)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    fleet = Fleet((options.devices, options.metrics, options.days), options.seed)
    before = time.perf_counter()
    fitted = trends(fleet.days * 86_400.0, fleet.blocks())
    seconds = time.perf_counter() - before - fleet.making_s
    before = time.perf_counter()
    verdicts = fitted.verdicts()
    seconds += time.perf_counter() - before
    truth = np.zeros(verdicts.shape, dtype=bool)
    truth[list(fleet.bad), list(fleet.bad.values())] = True
    held = (fitted.peers.low <= np.where(truth, np.expm1(SLOPE), 0.0)) & (fitted.peers.high >= np.where(truth, np.expm1(SLOPE), 0.0))
    rows = {
        "against peers, this": counted(verdicts == 0, fleet.bad),
        "plain line alone, p ≤ 5 %": counted(fleet.least_squares, fleet.bad),
    }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    extra = {
        "seconds": seconds, "making_seconds": fleet.making_s, "peak_mib": peak, "covered": float(held.mean()),
        "mde": float(np.median(fitted.mde())), "steady": float((verdicts == 1).mean()),
    }  # fmt: skip
    if options.json:
        print(json.dumps({"rows": rows, **extra}, indent=1))
        return
    print(f"{options.devices} devices × {options.metrics} metrics × {options.days} days, seed {options.seed}")
    print("\n".join(line(name, counts) for name, counts in rows.items()))
    print(f"intervals that hold the true trend: {held.mean():.2%}   smallest trend resolved, median: {extra['mde']:.3%} a month")
    print(f"called steady (within ± 0.1 % a month): {extra['steady']:.1%}")
    print(f"{seconds:.1f} s without making the values ({fleet.making_s:.1f} s); peak memory of the whole program {peak:.0f} MiB")


if __name__ == "__main__":
    main()
