"""Intervals over captures hold; intervals over frames do not."""

from __future__ import annotations


