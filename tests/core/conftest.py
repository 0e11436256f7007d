"""Core is tested with an empty table of features: it needs none of them. What goes through the command line has them all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hotlap.core import extend
from hotlap.features import TABLE


@pytest.fixture(autouse=True)
def no_features() -> Iterator[None]:
    extend.use({})
    yield
    extend.use(TABLE)
