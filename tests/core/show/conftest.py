"""Two sample runs with their rows."""

from __future__ import annotations

import pytest
import report_sample as sample

from hotlap.core.record import Row
from hotlap.core.store.bundle import Bundle


@pytest.fixture(scope="session")
def cpu() -> tuple[Bundle, list[Row]]:
    kept = sample.cpu()
    return kept, sample.rows(kept, sample.CPU_CASES)


@pytest.fixture(scope="session")
def gpu() -> tuple[Bundle, list[Row]]:
    kept = sample.gpu()
    return kept, sample.rows(kept, sample.GPU_CASES)
