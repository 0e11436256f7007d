"""What the tests of training write and read: scripts, and the run that was kept last."""

from __future__ import annotations

import textwrap
from pathlib import Path

from hotlap.core.store import bundle as bundles
from hotlap.training import show_kind
from hotlap.training.show_kind import ShownTraining


def script(home: Path, text: str, name: str = "train.py") -> str:
    path = home / name
    path.write_text(textwrap.dedent(text))
    return str(path)


def latest(home: Path) -> ShownTraining:
    shown = show_kind.read(bundles.load(max((home / "home" / "runs").iterdir())))
    assert shown is not None
    return shown
