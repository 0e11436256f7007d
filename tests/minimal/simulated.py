"""A simulated run through the public interface, for an installation that has NumPy and msgspec and nothing else.

Run as a program, without pytest: `scripts/minimal_312.sh` does so on Python 3.12, `test_minimal.py` on the Python at hand. Prints
one line and exits 0, or fails with what is wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

ALLOWED = {"hotlap", "numpy", "msgspec"}


def main() -> None:
    import hotlap

    run = hotlap.run("quick", target="simulated:h200-sxm?efficiency=0.73&noise=0.01&seed=7", labels={"check": "minimal"})
    rows = [row for row in run.rows if row.result.status == "measured"]
    assert len(rows) >= 10, f"only {len(rows)} cases were measured: {[(r.label, r.result.reason) for r in run.rows]}"
    assert all(row.summary.rounds >= 6 and row.summary.low is not None for row in rows), "a case has no interval"
    triad = next(row for row in rows if row.label.startswith("stream triad"))
    assert triad.gap.reference_kind == "bound", f"the triad has no bound: {triad.gap}"
    assert triad.gap.share is not None
    assert 0.72 < triad.gap.share < 0.74, f"asked for 73 % of the bound, reported {triad.gap.share:.1%}"
    limit = hotlap.predict("stream", machine="h200-sxm", op="triad", size="1 GiB")
    assert limit.bound_s > 0
    own = hotlap.measure(sum, range(1000), rounds=1, round_s=0.05)
    assert own.status == "measured", own.reason
    assert own.values[0] > 0
    foreign = third_party() - ALLOWED
    assert not foreign, f"third-party packages were imported: {sorted(foreign)}"
    said = f"{len(rows)} cases simulated, triad at {triad.gap.share:.1%} of its bound, {shown()} rows by `hotlap show`"
    print(f"Python {sys.version.split()[0]}: {said}")


def third_party() -> set[str]:
    """Top-level packages that were imported from site-packages."""
    found = set()
    for name, module in list(sys.modules.items()):
        if "site-packages" in (getattr(module, "__file__", None) or ""):
            found.add(name.partition(".")[0])
    return found - {"_distutils_hack", "sitecustomize", "usercustomize"} - {n for n in found if n.startswith("__editable__")}


def shown() -> int:
    """The number of rows that the command gives for the same run, in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "hotlap", "show", "check=minimal", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"hotlap show: exit {done.returncode}: {done.stderr}"
    document = json.loads(done.stdout)
    return len(document["cases"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="hotlap-minimal-") as home:
        os.environ["HOTLAP_HOME"] = home
        main()
