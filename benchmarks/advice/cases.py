"""All made cases."""

from __future__ import annotations

from benchmarks.advice import fresh, fresh_more, on_device, on_ranks

MADE = (*on_device.CASES, *on_ranks.CASES, *fresh.CASES, *fresh_more.CASES)
