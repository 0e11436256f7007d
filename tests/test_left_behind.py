"""What tests write in the temporary folder goes with them, that of a killed run with the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import left_behind

KILLED = "import left_behind, os, signal; print(left_behind.folder(), flush=True); os.kill(os.getpid(), signal.SIGKILL)"


def test_the_folder_of_a_killed_run_is_removed_and_one_in_use_stays(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", KILLED], env=environment, capture_output=True, text=True, check=False, timeout=60)
    killed = Path(done.stdout.strip())
    held = subprocess.Popen([sys.executable, "-c", KILLED.split("; os.kill")[0] + "; input()"], env=environment, stdin=-1, stdout=-1, text=True)
    assert held.stdout is not None
    used = Path(held.stdout.readline().strip())
    foreign = tmp_path / f"{left_behind.PREFIX}without-a-lock"
    foreign.mkdir()
    assert killed.is_dir(), "a young one is left alone"
    left_behind.remove_abandoned(tmp_path, young_s=0)
    assert (killed.exists(), used.exists(), foreign.exists()) == (False, True, True)
    held.communicate("\n", timeout=60)
    left_behind.remove_abandoned(tmp_path, young_s=0)
    assert not used.exists()


def test_documents_run_in_the_folder_of_this_process() -> None:
    own = Path(os.environ["HOTLAP_TEST_FOLDER"])
    assert (own / "lock").is_file()
    assert Path(os.environ["HOTLAP_HOME"]).parent == own
