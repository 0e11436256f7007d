"""Fits a family's coefficients anew and prints how far off they are: `python -m research.fit FAMILY [options of the family]`."""

from __future__ import annotations

import runpy
import sys

from hotlap.core.errors import HotlapError

FAMILIES = ("gemm", "prefill", "decode", "moe", "collective", "streaming", "power", "beyond")


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in FAMILIES:
        sys.exit(f"python -m research.fit FAMILY; families: {', '.join(FAMILIES)}")
    family = sys.argv.pop(1)
    try:
        runpy.run_module(f"research.fit.{family}", run_name="__main__", alter_sys=True)
    except HotlapError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
