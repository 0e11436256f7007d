"""`cluster gate --apply slurm` on Slurm's real daemons, in namespaces of this test."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest
from kept_campaigns import keep

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))
import slurm_bed

pytestmark = [
    pytest.mark.skipif(bool(slurm_bed.lacking()), reason=slurm_bed.lacking() or "Slurm is here"), pytest.mark.slow("Slurm's daemons"),
]  # fmt: skip


def test_a_node_that_failed_is_drained_with_its_reason_and_the_other_stays(tmp_path: Path) -> None:
    home = tmp_path / "home"
    keep(home, 0.1, ["n1", "n2", "n3", "n4"], slow={"n2": 0.25})
    gate = [sys.executable, "-m", "hotlap", "cluster", "gate", "--hosts", "n[1-2]", "--evidence", "--apply", "slurm"]
    with tempfile.TemporaryDirectory(prefix="sl", dir="/tmp") as place, slurm_bed.slurm(Path(place)) as bed:

        def nodes() -> list[str]:
            return bed.run(["sinfo", "-h", "-N", "-p", "main", "-o", "%N %t %E"]).stdout.splitlines()

        elsewhere = bed.run([*gate, "--cluster", "other", "--node", "n2"], HOTLAP_HOME=str(home))
        assert (elsewhere.returncode, nodes()) == (2, ["n1 idle none", "n2 idle none"])
        assert "belongs to 'bed'" in elsewhere.stderr
        healthy = bed.run([*gate, "--cluster", "bed", "--node", "n1,n2"], HOTLAP_HOME=str(home))
        assert (healthy.returncode, nodes()) == (2, ["n1 idle none", "n2 idle none"])
        done = bed.run([*gate, "--cluster", "bed", "--node", "n2"], HOTLAP_HOME=str(home))
        assert done.returncode == 1, done.stderr
        assert nodes() == ["n1 idle none", "n2 drain hotlap gate: pair: node n2 loses 25 percent"]
