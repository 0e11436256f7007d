"""Two nodes of Slurm's own daemons from expected to accepted; one has a planted fault, is repaired, and tried again."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))
import slurm_bed

WHY = slurm_bed.lacking()
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY or "Slurm is here"), pytest.mark.slow("Slurm's daemons, a job for each step")]
OPEN = ("no-pairs", "too-few")  # transfers differ too much, or there is no other node to transfer with meanwhile
GOOD, BAD = "28.43.2026", "28.39.1002"


def inventory(place: Path, firmware: str) -> None:
    """Which machine a node is, and its one adapter."""
    for name, text in {
        "etc/machine-id": place.name, "sys/class/infiniband/mlx5_0/fw_ver": firmware,
        "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)", "proc/sys/kernel/hostname": place.name,
    }.items():  # fmt: skip
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"{text}\n")


@pytest.mark.slow("an acceptance of two nodes")
def test_two_nodes_of_slurm_are_accepted_after_a_repair(tmp_path: Path) -> None:
    roots = tmp_path / "roots"
    inventory(roots / "n1", GOOD)
    inventory(roots / "n2", BAD)
    bench = ["hotlap", "bench", "stream", "size=64MiB", "--rounds", "2", "--target", "simulated:h200-sxm"]
    plan = [
        'launch = { slurm = "-p main" }', f"python = {json.dumps(sys.executable)}", 'max_out = "50%"', 'transfer = "0.2 s"', 'waves = ["rest"]',
        '[[product]]\nname = "node"\nnodes = "n[1-2]"\nmachine = "h200-sxm"', f'[product.expect]\n"ib[*].firmware" = "{GOOD}"',
        f"[commands]\nalone = {json.dumps(bench)}\nsoak = {json.dumps(bench)}",
        f"inspect = {json.dumps(['hotlap', 'node', 'inspect', '--root', f'{roots}/{{member}}', '--json'])}",
    ]  # fmt: skip
    (tmp_path / "two.toml").write_text("\n".join(plan) + "\n")
    with tempfile.TemporaryDirectory(prefix="sl", dir="/tmp") as place, slurm_bed.slurm(Path(place)) as bed:

        def verb(*words: str) -> subprocess.CompletedProcess[str]:
            surroundings = {"HOTLAP_HOME": str(tmp_path / "home"), "HOTLAP_AGENT_ROOT": f"{roots}/{{member}}"}
            return bed.run([sys.executable, "-m", "hotlap", "cluster", "accept", *words], 400.0, **surroundings)

        done = verb("run", str(tmp_path / "two.toml"), "--json")
        assert done.returncode == 1, done.stderr
        states = json.loads(done.stdout)["acceptance"]["states"]["node"]
        assert states["quarantined"] == 1, done.stderr
        assert "ib[mlx5_0:1].firmware is 28.39.1002, not 28.43.2026" in verb("status").stdout
        inventory(roots / "n2", GOOD)
        done = verb("retest", "n2", "--repair", "firmware written anew")
        assert done.returncode in (0, 3), done.stdout + done.stderr  # 3: transfers between the two do not tell yet
        for _ in range(4):
            done = verb("run", "two", "--json")
            standings = json.loads(done.stdout)["acceptance"]["standings"]
            untold = [each for each in standings if each["state"] == "alone" and [*each["open"]] == ["pairs"]]
            if done.returncode != 3 or not untold or any(seen["code"] not in OPEN for each in untold for seen in each["open"]["pairs"]):
                break
        else:  # the last try may have been of one node alone, the other accepted by what was measured before
            assert not any(each["faults"] for each in standings), done.stdout  # nobody is blamed
            assert all({"pairs", "together"} <= {*each["evidence"]} for each in standings if each["state"] == "accepted"), done.stdout
            pytest.skip("others use this machine so much that transfers between its two nodes differ too much to tell")
        assert done.returncode == 0, done.stdout + done.stderr
        answer = json.loads(done.stdout)["acceptance"]
        assert (answer["states"], answer["on_evidence"]) == ({"node": {"accepted": 2}}, 2)
