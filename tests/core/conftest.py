"""Core is tested with an empty table of features: it needs none of them. What goes through the command line has them all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hotlap.core import extend
from hotlap.core.errors import Unavailable
from hotlap.core.measure import targets
from hotlap.features import TABLE


@pytest.fixture(autouse=True)
def no_features() -> Iterator[None]:
    extend.use({})
    yield
    extend.use(TABLE)


@pytest.fixture(scope="module")
def webgpu_target() -> Any:
    """The first adapter of wgpu; skips with the reason where there is none."""
    spec = targets.TargetSpec("webgpu")
    try:
        return targets.open_device(spec, targets.find(spec)[0])
    except Unavailable as reason:
        pytest.skip(str(reason))
