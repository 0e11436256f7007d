"""The pairs of two results that were measured in turns."""

from __future__ import annotations

from hotlap.core.record import Result


def aligned(a: Result, b: Result) -> tuple[list[float], list[float]]:
    """Values of the rounds that both sides measured, in order of time."""
    ours, theirs = _by_round(a), _by_round(b)
    both = sorted(ours.keys() & theirs.keys())
    return [ours[n] for n in both], [theirs[n] for n in both]


def _by_round(side: Result) -> dict[int, float]:
    rounds = side.used
    return {one.round: value for one, value in zip(rounds, side.values, strict=False)}
