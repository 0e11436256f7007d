"""Cases of one run that are like another and do better: the same work by another implementation, the same workload at another size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from hotlap.core import work
from hotlap.core.record import Case, Record, Row, Value
from hotlap.kernels.numbers import seconds, stands

BETTER = 1.1  # times the share, or the speed, that is worth mentioning
NEAR = 16.0  # factor between two sizes that still are neighbours
FEW = 2


class Peer(Record, frozen=True, kw_only=True):
    """A case that does better."""

    case: str  # Case.id
    kind: Literal["implementation", "size"]
    label: str  # in what it differs: m=8192, or the implementation
    share: float | None = None  # of its own limit
    own: float | None = None  # share of the case it is compared with
    of: str = ""  # what the shares are of: expected, bound, ceiling
    ratio: float | None = None  # time of the case ÷ time of the peer, where both do the same work


def similar(row: Row, rows: Sequence[Row]) -> list[Peer]:
    """At most two, other implementations first, then the nearest size."""
    others = [one for one in rows if one.case.id != row.case.id and _comparable(one, row)]
    same = [_same_work(row, one) for one in others if one.case.params == row.case.params]
    sizes = [(distance, _other_size(row, one)) for one in others if (distance := _apart(row.case, one.case)) is not None]
    faster = sorted((one for one in same if one.ratio and one.ratio >= BETTER), key=lambda one: -(one.ratio or 0.0))
    better = [one for _, one in sorted(sizes, key=lambda pair: pair[0]) if one and one.share and one.own and one.share >= BETTER * one.own]
    return [*faster[:1], *better][:FEW]


def _comparable(candidate: Row, row: Row) -> bool:
    return candidate.case.workload == row.case.workload and candidate.device == row.device and stands(candidate)


def _same_work(row: Row, other: Row) -> Peer:
    ours, theirs = seconds(row), seconds(other)
    ratio = ours / theirs if ours and theirs else None
    return Peer(case=other.case.id, kind="implementation", label=other.case.implementation or "the target's own choice", ratio=ratio)


def _apart(a: Case, b: Case) -> float | None:
    """How far two cases lie from each other in their sizes, as a logarithm; None where they differ in more than sizes and type."""
    if a.params == b.params:
        return None
    kind, total = work.find(a.workload), 0.0
    ours, theirs = kind.full(a.params), kind.full(b.params)
    for param in kind.params:
        x, y = ours[param.name], theirs[param.name]
        if x == y:
            continue
        if param.kind in ("int", "float") and x > 0 and y > 0:
            total += abs(math.log(y / x))
        elif param.name == "dtype":
            total += math.log(2)
        else:
            return None
    return total if total <= math.log(NEAR) + 1e-9 else None


def _other_size(row: Row, other: Row) -> Peer | None:
    """Shares of the same kind of limit, the expected time where both have one."""
    for of in ("expected", "bound"):
        own, share = (_share(one, of) for one in (row, other))
        if own and share:
            return Peer(case=other.case.id, kind="size", label=_differs(row.case, other.case), share=share, own=own, of=of)
    return None


def _share(row: Row, of: str) -> float | None:
    limit, taken = row.gap.limit, seconds(row)
    best = (limit.expected_s if of == "expected" else limit.bound_s) if limit else None
    return float(best) / taken if best and taken else None


def _differs(a: Case, b: Case) -> str:
    """Parameters in which the second differs, and its implementation."""
    kind = work.find(a.workload)
    ours, theirs = kind.full(a.params), kind.full(b.params)
    parts = [_shown(name, theirs[name]) for name in theirs if theirs[name] != ours.get(name)]
    return " ".join(parts) + (f" ({b.implementation})" if b.implementation != a.implementation else "")


def _shown(name: str, value: Value) -> str:
    return str(value) if name in ("dtype", "op") else f"{name}={value}"
