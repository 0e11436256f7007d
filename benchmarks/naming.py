"""How often `hotlap compare` names a healthy device, and how often the bad one alone.

    python benchmarks/naming.py [--comparisons 1000] [--rounds 6] [--noise 0.4] [--seed 2026] [--json]

Simulated sides of so many devices and cases, a run of each device (hosts) or one run of all (one host, whose rounds have as much noise again
in common), levels of devices 3 % apart, given to the product's own functions. *Named of healthy*: any device in any case though nothing
changed, at a threshold of 0 %, the strictest there is. *Found*: one device that loses so much in one case is named there, and no other
device anywhere: at a threshold of 0 %, and of 2 % in brackets for a loss above that.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from error_rates import wilson

from hotlap.core.analysis.matching import Values
from hotlap.core.analysis.peers import judged, peers

DEVICES = (3, 6, 40)
CASES = (1, 2, 20)
LOSSES = (0.02, 0.03, 0.05)
MIN_EFFECT = 0.02
APART = 0.03  # levels of devices
BAD = "d1"


def side(rng: np.random.Generator, levels: dict[str, float], rounds: int, noise: float, hosts: bool, name: str) -> Values:
    """Rates by run and device."""
    shared = 0.0 if hosts else rng.normal(0, noise, rounds)
    return {
        (f"{name}-{device}" if hosts else name, device): tuple(level * np.exp(shared + rng.normal(0, noise, rounds)))
        for device, level in levels.items()
    }


def named(rng: np.random.Generator, devices: int, cases: int, how: argparse.Namespace, hosts: bool, loss: float, margin: float) -> list[str]:
    """Devices that are named, each as often as it is; the loss is in the first case."""
    weighed = []
    for case in range(cases):
        before = {f"d{n}": float(np.exp(rng.normal(0, APART))) for n in range(devices)}
        after = {**before, BAD: before[BAD] * (1 - loss * (case == 0))}
        a, b = (side(rng, levels, how.rounds, how.noise / 100, hosts, which) for which, levels in (("a", before), ("b", after)))
        weighed.append(peers(a, b, list(before), lower=False))
    found = judged(weighed, [margin] * cases)
    return [f"{case} {one.device} {one.answer}" for case, kept in enumerate(found) for one in kept if one.answer in ("better", "worse", "split")]


def row(rng: np.random.Generator, devices: int, cases: int, how: argparse.Namespace, hosts: bool) -> dict[str, Any]:
    many = range(max(50, how.comparisons * 6 // max(6, devices * cases)))
    false = sum(bool(named(rng, devices, cases, how, hosts, 0.0, 0.0)) for _ in many)
    alone = [f"0 {BAD} worse"]
    found = {
        f"{loss:g}": [
            sum(named(rng, devices, cases, how, hosts, loss, margin) == alone for _ in many) / len(many)
            for margin in (0.0, MIN_EFFECT) if loss > margin
        ]
        for loss in LOSSES
    }
    return {"devices": devices, "cases": cases, "hosts": hosts, "comparisons": len(many), "false": false, "found": found}


def line(one: dict[str, Any]) -> str:
    _, low, high = (100 * end for end in wilson(one["false"], one["comparisons"]))
    found = [f"{rest[0]:6.1%}{f' [{rest[1]:.0%}]' if len(rest) > 1 else '':7}" for rest in one["found"].values()]
    where = "hosts" if one["hosts"] else "one host"
    share = 100 * one["false"] / one["comparisons"]
    return f"{where:9}{one['devices']:4}{one['cases']:7}{one['comparisons']:13}   {share:5.1f} % [{low:4.1f}, {high:4.1f}]   " + "  ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=1000, help="of the smallest rows; of the larger ones fewer, at least 50")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--noise", type=float, default=0.4, help="of a round, in percent")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--json", action="store_true")
    how = parser.parse_args()
    rng = np.random.default_rng(how.seed)
    rows = []
    if not how.json:
        print(f"{how.rounds} rounds a side, noise {how.noise:g} %")
        print("         devices cases  comparisons   named of healthy        found of " + "      ".join(f"{loss:6.0%}" for loss in LOSSES))
    for hosts in (True, False):
        for devices in DEVICES:
            for cases in CASES:
                rows.append(row(rng, devices, cases, how, hosts))
                if not how.json:
                    print(line(rows[-1]), flush=True)
    if how.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
