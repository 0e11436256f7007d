"""The difference of two traces of one program, attributed to kernels, operators and causes of idleness so that it adds up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.record import Record
from hotlap.traces.events import Events
from hotlap.traces.matching import GroupPair, How, pairs
from hotlap.traces.spending import CLASSES, HOST_CAUSES, Numbers, SpendingGroup, TimeSpent, spent
from hotlap.traces.study import Study

Program = Literal["same", "changed", "another"]
SAME, CHANGED = 0.8, 0.5  # share of the work of both with a counterpart, from which they are, or may be, of one program
KNOWN = ("same", "replaced", "moved")  # counterparts that likeness of names alone did not find
FEWEST_STEPS = 3  # from which the spread between steps says something

Floats = NDArray[np.float64]


class TraceSide(Record, frozen=True, kw_only=True):
    """One of the traces."""

    file: str
    window: str
    whole_s: float  # per step, or the window; mean over devices
    steps: int  # 0: unknown
    devices: int  # 0: the main thread of the host
    events: int
    matched_time: float  # share of its busy time with a counterpart by place or name; renamed by likeness alone does not count
    matched_calls: float


class DiffPart(Record, frozen=True, kw_only=True):
    """One thing that takes time. Seconds are per step and device where there are steps, else of the window.

    Times are its own: where several run at once one of them counts, so that parts add up.
    """

    what: str  # compute, communication, copy, operator, idle, class
    how: How
    a: str  # its name there; "" absent
    b: str
    operator: str = ""  # the operators around it, outermost first, as far as they tell
    a_s: float
    b_s: float
    delta_s: float
    a_calls: float = 0.0
    b_calls: float = 0.0
    a_each_s: float | None = None  # mean length of a call, not only its own time
    b_each_s: float | None = None
    noise_s: float | None = None  # two standard errors of delta_s from the spread between steps; None with fewer than 3 on a side


class TraceDiff(Record, frozen=True, kw_only=True):
    """Δ = b − a of a step or window, and what it is made of: `parts` and `idle` add up to `delta_s`."""

    a: TraceSide
    b: TraceSide
    per: str  # step or window
    program: Program  # changed: one of which much changed, or two that are alike
    delta_s: float
    noise_s: float | None
    parts: list[DiffPart]  # largest change first
    idle: list[DiffPart]  # by cause
    classes: list[DiffPart]  # `parts` summed by class
    operators: list[DiffPart]  # `parts` summed by outermost operator
    gaps: list[DiffPart]  # `idle` of devices by the work that ends the gap


class _Sums(NamedTuple):
    """Per key, per step."""

    seconds: Floats
    calls: Floats
    length: Floats
    variance: Floats | None  # of the mean over steps


def diff(a: Events, b: Events) -> TraceDiff:
    """What changed from a to b. Any two traces can be compared; `program` says whether that makes sense.

    Raises InputError where one ran on a device and the other did not, or where a trace has neither device work nor operators.
    """
    first, second = spent(Study(a)), spent(Study(b))
    _comparable((a, first), (b, second))
    per_step = bool(first.steps and second.steps)
    order_a, order_b = _ordered(first), _ordered(second)
    matched = [
        GroupPair(int(order_a[one.a]) if one.a >= 0 else -1, int(order_b[one.b]) if one.b >= 0 else -1, one.how)
        for one in pairs([first.groups[i] for i in order_a], [second.groups[i] for i in order_b])
    ]
    sums = [_sums(one, one.group, len(one.groups), per_step) for one in (first, second)]
    parts = [_part(pair, first, second, sums) for pair in matched]
    idle = _idle(first, second, per_step)
    whole = [one.whole_ns / 1e9 / _divisor(one, per_step) for one in (first, second)]
    known = [one for one in matched if one.how in KNOWN]
    sides = [
        _side(a, first, whole[0], _matched(first, [one.a for one in known])),
        _side(b, second, whole[1], _matched(second, [one.b for one in known])),
    ]
    alike = max(min(s.matched_time for s in sides), min(s.matched_calls for s in sides))
    program: Program = "same" if alike >= SAME else "changed" if alike >= CHANGED else "another"
    return TraceDiff(
        a=sides[0], b=sides[1], per="step" if per_step else "window", program=program, delta_s=whole[1] - whole[0],
        noise_s=_whole_noise(first, second, per_step), parts=_largest(parts), idle=_largest(idle),
        classes=_summed(parts, [part.what for part in parts], list(CLASSES)),
        operators=_largest(_summed(parts, [part.operator.split(" › ")[0] for part in parts])),
        gaps=_largest(_gaps(first, second, matched, per_step)),
    )  # fmt: skip


def _comparable(*sides: tuple[Events, TimeSpent]) -> None:
    for trace, one in sides:
        if not one.whole_ns or not one.groups:
            raise InputError(f"'{trace.path}' has no work on a device and no operators: there is nothing to compare")
    (a, first), (b, second) = sides
    if (first.causes == HOST_CAUSES) != (second.causes == HOST_CAUSES):
        host, device = (a, b) if first.causes == HOST_CAUSES else (b, a)
        raise InputError(f"'{device.path}' ran on a device and '{host.path}' did not: compare traces of the same kind of machine")


def _divisor(group: TimeSpent, per_step: bool) -> float:
    return float(group.lanes * (group.steps if per_step else 1))


def _ordered(group: TimeSpent) -> Numbers:
    """Groups in the order in which they first ran."""
    _, first = np.unique(group.group, return_index=True)
    return np.argsort(first, kind="stable") if len(group.groups) == len(first) else np.arange(len(group.groups))


def _sums(group: TimeSpent, key: Numbers, count: int, per_step: bool) -> _Sums:
    divisor = _divisor(group, per_step)
    own, length = (np.bincount(key, weights=column, minlength=count) / 1e9 for column in (group.own, group.length))
    calls = np.bincount(key, minlength=count).astype(np.float64)
    each = np.divide(length, calls, out=np.zeros(count), where=calls > 0)
    return _Sums(own / divisor, calls / divisor, each, _variance(group, key, group.own, group.step, count))


def _variance(group: TimeSpent, key: Numbers, own: Numbers, step: Numbers, count: int) -> Floats | None:
    """Variance of the mean over steps of each key's seconds per device."""
    if group.steps < FEWEST_STEPS:
        return None
    inside = (step >= 0) & (key >= 0)
    place = np.unique(step[inside], return_inverse=True)[1]
    table = key[inside] * group.steps + np.minimum(place, group.steps - 1)
    cells, where = np.unique(table, return_inverse=True)
    value = np.bincount(where, weights=own[inside]) / 1e9 / group.lanes
    total = np.bincount(cells // group.steps, weights=value, minlength=count)
    square = np.bincount(cells // group.steps, weights=value**2, minlength=count)
    found: Floats = np.maximum(square - total**2 / group.steps, 0.0) / (group.steps - 1) / group.steps
    return found


def _noise(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else 2 * float(np.sqrt(a + b))


def _at(sums: _Sums, place: int) -> tuple[float, float, float | None, float | None]:
    if place < 0:
        return 0.0, 0.0, None, None if sums.variance is None else 0.0
    variance = None if sums.variance is None else float(sums.variance[place])
    return float(sums.seconds[place]), float(sums.calls[place]), float(sums.length[place]), variance


def _part(pair: GroupPair, first: TimeSpent, second: TimeSpent, sums: Sequence[_Sums]) -> DiffPart:
    x, y = (one.groups[i] if i >= 0 else None for one, i in ((first, pair.a), (second, pair.b)))
    (a_s, a_calls, a_each, a_var), (b_s, b_calls, b_each, b_var) = _at(sums[0], pair.a), _at(sums[1], pair.b)
    shown = y or x
    assert shown is not None
    return DiffPart(
        what=CLASSES[shown.kind], how=pair.how, a=x.name if x else "", b=y.name if y else "", operator=_path(shown), a_s=a_s, b_s=b_s,
        delta_s=b_s - a_s, a_calls=a_calls, b_calls=b_calls, a_each_s=a_each, b_each_s=b_each, noise_s=_noise(a_var, b_var),
    )  # fmt: skip


def _path(group: SpendingGroup) -> str:
    return " › ".join(group.path)


def _idle(first: TimeSpent, second: TimeSpent, per_step: bool) -> list[DiffPart]:
    """By cause."""
    by_cause: dict[str, list[tuple[float, float | None]]] = {cause: [] for cause in (*first.causes, *second.causes)}
    for side in (first, second):
        total = side.idle_ns.sum(axis=0) / 1e9 / _divisor(side, per_step)
        for cause in by_cause:
            if cause not in side.causes:
                by_cause[cause].append((0.0, 0.0))
                continue
            column = side.idle_ns[:, side.causes.index(cause)]
            variance = _variance(side, np.zeros(len(column), np.int64), column, side.idle_step, 1)
            by_cause[cause].append((float(total[side.causes.index(cause)]), None if variance is None else float(variance[0])))
    return [
        DiffPart(what="idle", how="same", a=cause, b=cause, a_s=x, b_s=y, delta_s=y - x, noise_s=_noise(u, v))
        for cause, ((x, u), (y, v)) in by_cause.items()
        if x or y
    ]


def _gaps(first: TimeSpent, second: TimeSpent, matched: Sequence[GroupPair], per_step: bool) -> list[DiffPart]:
    """By the work that ends the gap and the cause that takes most of it."""
    pair_of = [{pair.a: i for i, pair in enumerate(matched)}, {pair.b: i for i, pair in enumerate(matched)}]
    total: dict[tuple[int, str], list[float]] = {}
    for n, one in enumerate((first, second)):
        divisor = _divisor(one, per_step) * 1e9
        for c, cause in enumerate(one.causes):
            column = one.idle_ns[:, c]
            here = np.flatnonzero((column > 0) & (one.before >= 0))
            sums = np.bincount(one.before[here], weights=column[here], minlength=len(one.groups))
            for group in np.flatnonzero(sums).tolist():
                total.setdefault((pair_of[n][group], cause), [0.0, 0.0])[n] += float(sums[group]) / divisor
    gaps = []
    for (i, cause), (x, y) in total.items():
        pair = matched[i]
        names = [one.groups[p].name if p >= 0 else "" for one, p in ((first, pair.a), (second, pair.b))]
        path = _path(second.groups[pair.b] if pair.b >= 0 else first.groups[pair.a])
        how: How = "same" if x and y else "appeared" if y else "vanished"
        gaps.append(DiffPart(what=cause, how=how, a=names[0], b=names[1], operator=path, a_s=x, b_s=y, delta_s=y - x))
    return gaps


def _summed(parts: Sequence[DiffPart], keys: Sequence[str], order: Sequence[str] = ()) -> list[DiffPart]:
    """Parts that share a key as one."""
    total: dict[str, list[float]] = {key: [0.0] * 4 for key in order}
    for part, key in zip(parts, keys, strict=True):
        for i, value in enumerate((part.a_s, part.b_s, part.a_calls, part.b_calls)):
            total.setdefault(key, [0.0] * 4)[i] += value
    made = []
    for key, (x, y, n, m) in total.items():
        how: How = "same" if n and m else "appeared" if m else "vanished"
        if n or m:
            made.append(DiffPart(what="class", how=how, a=key, b=key, a_s=x, b_s=y, delta_s=y - x, a_calls=n, b_calls=m))
    return made


def _largest(parts: Sequence[DiffPart]) -> list[DiffPart]:
    return sorted(parts, key=lambda one: (-abs(one.delta_s), -one.a_s, one.a, one.b))


def _matched(group: TimeSpent, groups: Sequence[int]) -> tuple[float, float]:
    """Shares of the work, by its own time and by calls, that lies in these groups."""
    inside = np.isin(group.group, groups)
    time, count = int(group.own.sum()), len(group.group)
    return float(group.own[inside].sum()) / time if time else 0.0, float(inside.sum()) / count if count else 0.0


def _side(trace: Events, group: TimeSpent, whole_s: float, matched: tuple[float, float]) -> TraceSide:
    return TraceSide(
        file=Path(trace.path).name, window=group.window, whole_s=whole_s, steps=group.steps,
        devices=0 if group.causes == HOST_CAUSES else group.lanes, events=len(trace), matched_time=matched[0],
        matched_calls=matched[1],
    )  # fmt: skip


def _whole_noise(first: TimeSpent, second: TimeSpent, per_step: bool) -> float | None:
    """Of the whole: all work and idleness of each step together."""
    changes = []
    for one in (first, second):
        if not per_step:
            return None
        own = np.concatenate([one.own, one.idle_ns.sum(axis=1)])
        step = np.concatenate([one.step, one.idle_step])
        variance = _variance(one, np.zeros(len(own), np.int64), own, step, 1)
        changes.append(None if variance is None else float(variance[0]))
    return _noise(*changes)
