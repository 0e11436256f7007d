"""All made cases."""

from __future__ import annotations

from benchmarks.advice import on_device, on_ranks

MADE = (*on_device.CASES, *on_ranks.CASES)
