"""How far the model's expected times are from published measurements, beside the ways it has to beat.

    python benchmarks/accuracy.py [family …]

Families: gemm, prefill, decode, moe, collective, power (default: all; three to six minutes, most of it fits without the
target's rows). Held-out shapes, another machine of the same architecture, and another architecture by its published figures only. At
the end one table of all that was scored against what was asked for. Needs the measurements in `$HOTLAP_SHARED/data/kernels`, pyarrow
and SciPy.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

FAMILIES = ("gemm", "prefill", "decode", "moe", "collective", "power")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("family", nargs="*", choices=[*FAMILIES, []], help="only these")
    options = parser.parse_args()
    missing = [name for name in ("pyarrow", "scipy") if find_spec(name) is None]
    if missing:
        sys.exit(f"not run, because {' and '.join(missing)} is not installed; pip install {' '.join(missing)}")
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # research is not in the package
    from research.fit import collective, decode, gemm, moe, power, prefill, scores, summary

    place = scores.folder()
    modules = {"gemm": gemm, "prefill": prefill, "decode": decode, "moe": moe, "collective": collective}
    asked = options.family or [*FAMILIES]
    results: dict[str, list[scores.Score]] = {}
    lines: list[str] = []
    for family in (one for one in FAMILIES if one in asked):
        print(f"== {family}", flush=True)
        if family == "power":
            results[family], lines = power.table(place, power.kept())
        else:
            results[family] = modules[family].table(place)
        print("\n".join([scores.show(results[family]), *(lines if family == "power" else [])]), flush=True)
    if results:
        print("== together: rows above 20 µs but for products and NCCL")
        print("\n".join([summary.show(results), summary.numbers(list(results)), *lines]))


if __name__ == "__main__":
    main()
