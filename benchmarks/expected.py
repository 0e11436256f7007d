"""How often `gate --against expected` fails a healthy device, and how often one that is slower.

    python benchmarks/expected.py [--plans 1000] [--cases 20] [--json]

Plans are drawn from published rows on H100, H200, B200 and L40S that no fit, no interval and no figure of the rule has seen: bf16
products and prefill attention, half of each, on one machine. "mixed" draws any shapes; "one shape" draws all cases of a family from one
shape group, as a plan that sweeps a single size. Each row stands for an exact measurement; a device that is slower takes time ÷ (1 −
share) in every case. Needs the measurements in `$HOTLAP_SHARED/data/kernels` and pyarrow. Exit 1 where over 2 % of healthy plans fail.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from hotlap.core.model import intervals
from hotlap.core.stats.beyond import Beyond, most

SLOWER = (0.0, 0.05, 0.15, 0.30, 0.50)
ALLOWED = 0.02


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=1000)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if find_spec("pyarrow") is None:
        sys.exit("not run, because pyarrow is not installed; pip install pyarrow")
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # research is not in the package
    from research.fit import beyond, scores

    rows = list(beyond.healthy(scores.folder(), ("gemm", "prefill")))
    machines = [[one for one in rows if one.machine == name] for name in dict.fromkeys(one.machine for one in rows)]
    table: dict[str, list[float]] = {}
    for how in ("mixed", "one shape"):
        rng = np.random.default_rng(2026)
        failed = np.zeros(len(SLOWER), int)
        for number in range(args.plans):
            families = machines[number % len(machines)]
            ratios, kinds = [], []
            for place, drawn in enumerate(families):
                cases = args.cases // 2 if place else args.cases - args.cases // 2
                left = np.flatnonzero(~drawn.learnt)
                if how == "one shape":
                    left = left[drawn.group[left] == rng.choice(np.unique(drawn.group[left]))]
                ratios.append(drawn.ratio[rng.choice(left, cases, replace=len(left) < cases)])
                healthy = intervals.healthy(drawn.family, drawn.machine)
                assert healthy is not None
                kinds.append(Beyond(cases, healthy.share, healthy.alike))
            slowest, allowed = np.concatenate(ratios), most(kinds)
            failed += [int(np.sum(slowest / (1 - share) > 1) > allowed) for share in SLOWER]
        table[how] = [int(count) / args.plans for count in failed]
    if args.json:
        print(json.dumps({"plans": args.plans, "cases": args.cases, "slower": SLOWER, "failed": table}, indent=2))
    else:
        print(f"share of {args.plans} plans of {args.cases} cases that fail; at most {ALLOWED:.0%} of healthy ones may")
        print(f"{'slower by':<12}" + "".join(f"{share:>9.0%}" for share in SLOWER))
        for how, shares in table.items():
            print(f"{how:<12}" + "".join(f"{share:>9.1%}" for share in shares))
    return int(any(shares[0] > ALLOWED for shares in table.values()))


if __name__ == "__main__":
    sys.exit(main())
