"""How far the model's expected times are from published measurements, beside the ways it has to beat.

    python benchmarks/accuracy.py [family …]

Families: gemm, prefill, decode, moe, collective (default: all; about 6 minutes, most of it fits without the target's rows). Held-out
shapes, another machine of the same architecture, and another architecture by its published figures only. Needs the measurements in
`$HOTLAP_SHARED/data/kernels`, pyarrow and SciPy.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

FAMILIES = ("gemm", "prefill", "decode", "moe", "collective")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("family", nargs="*", choices=[*FAMILIES, []], help="only these")
    options = parser.parse_args()
    missing = [name for name in ("pyarrow", "scipy") if find_spec(name) is None]
    if missing:
        sys.exit(f"not run, because {' and '.join(missing)} is not installed; pip install {' '.join(missing)}")
    from hotlap.model.fit import attention_table, collective, decode, gemm, moe, prefill, scores

    place = scores.folder()
    for family in options.family or FAMILIES:
        print(f"== {family}", flush=True)
        if family in ("prefill", "decode"):
            module = prefill if family == "prefill" else decode
            attention_table.show(module.table(place), print)
        else:
            print(scores.show({"gemm": gemm, "moe": moe, "collective": collective}[family].table(place)), flush=True)


if __name__ == "__main__":
    main()
