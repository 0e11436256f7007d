"""What one sweep on a machine is worth: errors of matrix products by published figures alone, and by figures and a sweep.

    python benchmarks/calibration.py

Published measurements stand for the machine: the rows nearest to the shapes of the plan `calibrate` are its sweep, the others are scored.
Needs the measurements in `$HOTLAP_SHARED/data/kernels`, pyarrow and SciPy; about two minutes, most of it fits without the target's rows.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    missing = [name for name in ("pyarrow", "scipy") if find_spec(name) is None]
    if missing:
        sys.exit(f"not run, because {' and '.join(missing)} is not installed; pip install {' '.join(missing)}")
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # research is not in the package
    from research.fit import scores, sweep

    print(scores.show(sweep.table(scores.folder())))


if __name__ == "__main__":
    main()
