"""Columns that follow from others, tick by tick, are not kept twice: PresentMon writes a frame's wait beside its whole and its busy time.

A rule is used only where it gives back every tick, missing ones too; it is then named beside the columns, with the numbers that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hotlap.frames.record import MISSING, RAW, STREAM, ColumnKind, DerivedColumn, Ints

Ticks = Mapping[str, Ints]


class _Rule(NamedTuple):
    column: str
    rule: str
    of: tuple[str, ...]
    like: str = ""


RULES = (
    _Rule("gpu_wait", "difference", ("gpu_time", "gpu_busy")),
    _Rule("in_present", "difference", ("app_start", "cpu_busy")), _Rule("in_present", "difference", ("frame", "cpu_busy")),
    _Rule("cpu_wait", "difference", ("app_start", "cpu_busy")), _Rule("cpu_wait", "difference", ("frame", "cpu_busy")),
    _Rule("animation_time", "shifted", ("start",), "until_displayed"), _Rule("animation_time", "shifted", ("start",), "displayed"),
    _Rule("animation_time", "shifted", ("start",)),
    _Rule("start", "summed", ("app_start",)), _Rule("start", "summed", ("frame",)),
)  # fmt: skip


def without(ticks: Ticks, kinds: Mapping[str, ColumnKind]) -> tuple[dict[str, Ints], dict[str, DerivedColumn]]:
    """The columns to keep, and how to get the others, in the order in which they were taken away."""
    kept, derived = dict(ticks), dict[str, DerivedColumn]()
    for rule in RULES:
        if rule.column not in kept or any(name not in kept for name in (*rule.of, *([rule.like] if rule.like else []))):
            continue
        if rule.rule != "summed" and len({kinds[name].digits for name in (rule.column, *rule.of) if rule.rule == "difference"}) > 1:
            continue
        if any(kinds[name].digits == RAW for name in (rule.column, *rule.of)):
            continue
        column = DerivedColumn(rule=rule.rule, of=list(rule.of), numbers=_numbers(rule, kept), like=rule.like)
        if np.array_equal(derive(column, kept), kept[rule.column]):
            derived[rule.column] = column
            del kept[rule.column]
    return kept, derived


def complete(ticks: Ticks, derived: Mapping[str, DerivedColumn]) -> dict[str, Ints]:
    """All columns again. Raises KeyError where one that is needed is missing."""
    whole = dict(ticks)
    for name in reversed(list(derived)):
        whole[name] = derive(derived[name], whole)
    return whole


def derive(column: DerivedColumn, ticks: Ticks) -> Ints:
    first = ticks[column.of[0]]
    if column.rule == "difference":
        second = ticks[column.of[1]]
        return _missing(first - second, [first, second])
    if column.rule == "shifted":
        return _missing(first + column.numbers[0], [first, *([ticks[column.like]] if column.like else [])])
    return _summed(ticks[STREAM], first, column.numbers)


def _missing(values: Ints, others: Sequence[Ints]) -> Ints:
    return np.where(np.any([other == MISSING for other in others], axis=0), MISSING, values)


def _numbers(rule: _Rule, ticks: Ticks) -> list[int]:
    target, first = ticks[rule.column], ticks[rule.of[0]]
    if rule.rule == "shifted":
        known = np.flatnonzero((target != MISSING) & (first != MISSING))[:1]
        return [int(target[known[0]] - first[known[0]])] if len(known) else [0]
    if rule.rule == "summed":
        _, places = np.unique(ticks[STREAM], return_index=True)
        return [int(value) for value in target[places]]
    return []


def _summed(streams: Ints, steps: Ints, firsts: Sequence[int]) -> Ints:
    """Within each stream, numbered from 0: its first number, then that plus the steps so far."""
    order = np.argsort(streams, kind="stable")
    sorted_streams, sorted_steps = streams[order], steps[order]
    before = np.concatenate([[0], np.cumsum(sorted_steps)[:-1]])
    _, begins, counts = np.unique(sorted_streams, return_index=True, return_counts=True)
    offsets = np.repeat(np.asarray(firsts, np.int64) - before[begins], counts)
    whole = np.empty_like(steps)
    whole[order] = before + offsets
    return whole
