"""More open descriptors than select(2) can wait for."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SELECTABLE = 1024


@contextmanager
def many() -> Iterator[None]:
    """Whatever is opened meanwhile has a number that select(2) refuses; skips where the system allows no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * SELECTABLE
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"at most {hard} open descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    null = os.open(os.devnull, os.O_RDONLY)
    opened = [null]
    try:
        while opened[-1] < SELECTABLE:
            opened.append(os.dup(null))
        yield
    finally:
        for number in opened:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
