"""Two sample runs with their rows, and golden files: HOTLAP_GOLDEN=write makes them anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import report_sample as sample

from hotlap.core.record import Row
from hotlap.core.store.bundle import Bundle

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def cpu() -> tuple[Bundle, list[Row]]:
    kept = sample.cpu()
    return kept, sample.rows(kept, sample.CPU_CASES)


@pytest.fixture(scope="session")
def gpu() -> tuple[Bundle, list[Row]]:
    kept = sample.gpu()
    return kept, sample.rows(kept, sample.GPU_CASES)


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Holds a text against the file of this name."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("HOTLAP_GOLDEN") == "write":
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"there is no {path.name}; HOTLAP_GOLDEN=write makes it"
        assert text == path.read_text(encoding="utf-8"), f"{path.name} differs; HOTLAP_GOLDEN=write accepts what is printed now"

    return check
