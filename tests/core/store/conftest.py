"""A home with runs in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keeping import CASES, DEVICE, make_run, make_samples

from hotlap.core.record import Readings
from hotlap.core.store.bundle import Bundle, Writer, load


@pytest.fixture
def kept(tmp_path: Path) -> Callable[..., Bundle]:
    """Keeps a run of two cases and one or more rounds in the test's home, and reads it back."""

    def keep(id: str = "20261121T101500-aaaaaa", rounds: int = 1, **changes: Any) -> Bundle:
        run = make_run(id, **changes)
        writer = Writer.create(run, tmp_path)
        for number in range(rounds):
            for case in CASES:
                writer.append(make_samples(number, case))
            writer.readings([Readings(sensor="power_w", device=DEVICE.key, times_s=[1.0], values=[300.0], round=number)])
        writer.finish(run)
        return load(writer.path)

    return keep
