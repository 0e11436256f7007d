"""All made cases."""

from __future__ import annotations

from benchmarks.advice import fresh, on_device, on_ranks

MADE = (*on_device.CASES, *on_ranks.CASES, *fresh.CASES)
