"""`scripts/gpu_check.sh` from end to end, on the stand-ins for the CUDA driver and for `torch.cuda`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cuda_stand_in import build

ROOT = Path(__file__).parent.parent
SITES = ("cuda_stand_in/start/sitecustomize.py", "torch_stand_in/site/sitecustomize.py")


def _environment(folder: Path) -> dict[str, str]:
    """Of a program that sees both stand-ins. Python reads one sitecustomize.py, so that one has to read the two of them."""
    import torch_stand_in

    cuda, torch = build.settings(), torch_stand_in.environment(torch_stand_in.Looks(total_bytes=4 << 30))
    site = folder / "site"
    site.mkdir()
    run = "exec(compile(open(path).read(), path, 'exec'), {'__name__': path, '__file__': path})"
    (site / "sitecustomize.py").write_text(f"for path in {[str(ROOT / 'tests' / name) for name in SITES]}:\n    {run}\n")
    burn = folder / "burn.toml"
    burn.write_text(re.sub("8192", "256", (ROOT / "scripts/burn.toml").read_text()))
    found = {"PYTHONPATH": os.pathsep.join([str(site), str(ROOT / "tests")]), "OUT": str(folder / "out"), "PYTHON": sys.executable}
    return {**os.environ, **cuda, **torch, **found, "SLOWER": "20", "BURN": str(burn)}


@pytest.mark.nightly("minutes: each part measures")
@pytest.mark.skipif(bool(build.missing()), reason=build.missing() or "-")
def test_every_step_runs_and_one_zip_holds_all(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    done = subprocess.run(
        ["scripts/gpu_check.sh", "all"], cwd=ROOT, env=_environment(tmp_path), capture_output=True, text=True, timeout=3000, check=False
    )
    summary = (tmp_path / "out" / "summary.txt").read_text()
    assert done.returncode == 0, done.stdout[-4000:]
    assert "FAILED" not in summary
    for step in ("conformance of the targets", "agreement of timers", "quick on cuda", "quick on torch", "numbers against limits", "burn"):
        assert any(line.startswith(step) and " ok, " in line for line in summary.splitlines()), (step, summary)
    with zipfile.ZipFile(tmp_path / "out" / "gpu-check-all.zip") as packed:
        names = packed.namelist()
        assert packed.testzip() is None
    assert {"all.log", "summary.txt", "report.html"} <= set(names)
    assert sum(name.endswith(".zip") for name in names) >= 3  # a run each of cuda, torch and burn
