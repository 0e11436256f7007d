"""The sensors that the manual's page on telemetry describes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "telemetry.md"


HELP = "its words in HELP of src/hotlap/nodes/sensors/exposition.py"
ROW = "its row in docs/telemetry.md"


def undocumented(names: Iterable[str], title: str = "Sensors of a GPU") -> list[str]:
    """Those without a row in the section's table. There `.part` goes with the name before it, and a part in capitals or … is any."""
    section = PAGE.read_text("utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    patterns, base = [], ""
    for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
        for written in re.findall(r"`([^`]+)`", row):
            base = base if written.startswith(".") else written.partition(".")[0]
            whole = base + written if written.startswith(".") else written
            patterns.append(re.sub(r"\\\.([A-Z]+|…)$", r"\\..+", re.escape(whole)))
    assert patterns
    return sorted(name for name in set(names) if not any(re.fullmatch(pattern, name) for pattern in patterns))
