"""How often `hotlap compare` names a healthy device, and how often the bad one alone.

    python benchmarks/naming.py [--comparisons 600] [--rounds 6] [--noise 0.4] [--seed 2026] [--json]

Simulated sides of so many devices and cases, a run of each device (hosts) or one run of all (one host, whose rounds have as much noise
again in common), levels of devices 3 % apart, given to the product's own functions. *Named of healthy*: any device in any case though
nothing changed, at a threshold of 0 %, the strictest there is. *Found*: one device that loses so much in one case is named there, and no
other device anywhere: at a threshold of 0 %, and of 2 % in brackets for a loss above that.
"""

from __future__ import annotations

import argparse
import itertools
import json
from typing import Any, NamedTuple

import numpy as np
from error_rates import show, wilson

from hotlap.core.analysis.matching import Values
from hotlap.core.analysis.peers import judged, peers

DEVICES = (3, 6, 40)
CASES = (1, 2, 20)
LOSSES = (0.02, 0.03, 0.05)
MIN_EFFECT = 0.02
APART = 0.03  # levels of devices
BAD = "d1"


class Planted(NamedTuple):
    """What is compared: `loss` is a share, of one device in the first case. `hosts`: a run of each device."""

    devices: int
    cases: int
    hosts: bool
    loss: float = 0.0


def side(rng: np.random.Generator, levels: dict[str, float], rounds: int, noise: float, hosts: bool, name: str) -> Values:
    """Rates by run and device."""
    shared = 0.0 if hosts else rng.normal(0, noise, rounds)
    return {
        (f"{name}-{device}" if hosts else name, device): tuple(level * np.exp(shared + rng.normal(0, noise, rounds)))
        for device, level in levels.items()
    }


def named(rng: np.random.Generator, of: Planted, rounds: int, noise: float, margin: float) -> list[str]:
    """Devices that are named or apart, each as often as it is."""
    weighed = []
    for case in range(of.cases):
        before = {f"d{n}": float(np.exp(rng.normal(0, APART))) for n in range(of.devices)}
        after = {**before, BAD: before[BAD] * (1 - of.loss * (case == 0))}
        a, b = (side(rng, levels, rounds, noise, of.hosts, which) for which, levels in (("a", before), ("b", after)))
        weighed.append(peers(a, b, list(before), lower=False))
    off = [(case, device) for case, kept in enumerate(judged(weighed, [margin] * of.cases)) for device in kept]
    return [f"{case} {device.device} {device.answer}" for case, device in off if device.answer in ("better", "worse", "split")]


def row(rng: np.random.Generator, of: Planted, how: argparse.Namespace) -> dict[str, Any]:
    many = max(how.comparisons // 5, how.comparisons * 6 // max(6, of.devices * of.cases))
    few, alone, sizes = many // 4, [f"0 {BAD} worse"], (how.rounds, how.noise / 100)
    false = sum(bool(named(rng, of, *sizes, 0.0)) for _ in range(many))
    power: dict[str, list[float]] = {}
    for loss in LOSSES:
        margins = [margin for margin in (0.0, MIN_EFFECT) if loss > margin]
        hits = [sum(named(rng, of._replace(loss=loss), *sizes, margin) == alone for _ in range(few)) for margin in margins]
        power[f"{loss:g}"] = [count / few for count in hits]
    return {"devices": of.devices, "cases": of.cases, "hosts": of.hosts, "comparisons": many, "false": wilson(false, many), "found": power}


def line(entry: dict[str, Any]) -> str:
    power = [f"{rest[0]:6.1%}{f' [{rest[1]:.0%}]' if len(rest) > 1 else '':7}" for rest in entry["found"].values()]
    sizes = f"{'hosts' if entry['hosts'] else 'one host':9}{entry['devices']:4}{entry['cases']:7}{entry['comparisons']:13}"
    return f"{sizes}     {show(entry['false'])}   {'  '.join(power)}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    many = "without a loss, of the smallest rows; of the largest a fifth, and with each loss a quarter of that"
    parser.add_argument("--comparisons", type=int, default=600, help=many)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--noise", type=float, default=0.4, help="of a round, in percent")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--json", action="store_true")
    how = parser.parse_args()
    rng, rows = np.random.default_rng(how.seed), []
    if not how.json:
        print(f"{how.rounds} rounds a side, noise {how.noise:g} %, seed {how.seed}; % with 95 % intervals")
        heads = "          ".join(f"{loss:.0%}" for loss in LOSSES)
        print(f"         devices cases  comparisons  named of healthy      found of {heads}")
    for hosts, devices, cases in itertools.product((True, False), DEVICES, CASES):
        rows.append(row(rng, Planted(devices, cases, hosts), how))
        if not how.json:
            print(line(rows[-1]), flush=True)
    worst = max(entry["false"][1] for entry in rows)
    if how.json:
        print(json.dumps({"seed": how.seed, "rows": rows}, indent=1))
        return
    print(f"healthy devices named in at most 5 %: no interval lies above, {'kept' if worst <= 0.05 else 'MISSED'}")


if __name__ == "__main__":
    main()
