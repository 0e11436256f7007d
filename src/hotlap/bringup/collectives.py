"""Collective operations of a gang: what its members run, and what came of it, by the definitions of nccl-tests.

    algorithm bandwidth = size / time;  bus bandwidth = that × a factor of the operation and the ranks (nccl-tests, PERFORMANCE.md)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hotlap.bringup import expecting, member_collective, member_link, pairs
from hotlap.bringup.record import LinkKnown
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.record import StepRecord
from hotlap.core.errors import InputError, nearest
from hotlap.core.model import predict
from hotlap.core.record import Record
from hotlap.core.stats.summary import summarize
from hotlap.core.work.network import COLLECTIVE

OPS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast")
WAYS = {"tcp": OPS, "gloo": ("all_reduce", "all_gather", "broadcast"), "nccl": OPS}
BY_TCP = ("tcp", "gloo")
T = TypeVar("T", bound=Record)
SCRIPT = "ranks.py"
TIMEOUT_S = 1800.0


class RankLine(Record, frozen=True, kw_only=True):
    """What a rank prints of one size in one round. `wrong`: parts whose content is not what it should be."""

    op: str
    size: int
    time_s: float
    wrong: int


class RankLink(Record, frozen=True, kw_only=True):
    """What a rank prints of the link that has its address, as `member_link` says it."""

    link: dict[str, Any]


class ModelTime(Record, frozen=True, kw_only=True):
    """What the model expects of GPUs of a machine of the table, and its interval; `bound_s`: no less than that."""

    expected_s: float | None
    low_s: float | None
    high_s: float | None
    bound_s: float | None


class CollectiveRow(Record, frozen=True, kw_only=True):
    """One size: the median over rounds of the slowest rank's time, with its interval; bandwidths in B/s."""

    op: str
    size: int  # B: the whole buffer of a rank, as nccl-tests counts it
    ranks: int
    rounds: int
    time_s: float
    low_s: float | None
    high_s: float | None
    confidence: float | None = None  # of low_s to high_s
    algbw: float
    busbw: float
    wrong: int
    slowest: dict[str, int]  # rounds by the member that took longest
    model: ModelTime | None = None


def factor(op: str, ranks: int) -> float:
    """Of the bus bandwidth over the algorithm's. Raises InputError for an operation that is none."""
    if op not in OPS:
        raise InputError(f"there is no operation '{op}'; {nearest(op, OPS)}")
    if op == "broadcast":
        return 1.0
    return (2.0 if op == "all_reduce" else 1.0) * (ranks - 1) / ranks


@dataclass(frozen=True)
class CollectivePlan:
    """What is asked for. `sizes`: B of a rank's whole buffer; `iterations`: of each size in a round."""

    op: str
    sizes: Sequence[int]
    iterations: int
    way: str
    rounds: int


def step(python: str, plan: CollectivePlan, ranks: int) -> StepRecord:
    """Of a gang of all members. Raises InputError for what a way does not have."""
    op, way = plan.op, plan.way
    factor(op, ranks)
    if op not in WAYS[way]:
        raise InputError(f"by {way} there is no {op}; valid: {', '.join(WAYS[way])}")
    if ranks < 2:
        raise InputError(f"a collective operation needs two members, and there is {ranks}; give more")
    whole = [-(-size // (4 * ranks)) * 4 * ranks for size in plan.sizes]  # parts of four bytes for each rank
    isolated = ["-I", "-S"] if way == "tcp" else []
    return StepRecord(
        number=1, name=op.replace("_", "-"), gather="command", label=f"{op} by {way}", gang=ranks, rounds=plan.rounds, timeout_s=TIMEOUT_S,
        argv=[python, *isolated, SCRIPT, op, ",".join(map(str, whole)), str(plan.iterations), way],
        files={SCRIPT: pairs.source(member_collective), pairs.LINK: pairs.source(member_link)},
    )  # fmt: skip


def rows(kept: CampaignFolder) -> list[CollectiveRow]:
    """Of the members' output, where all of the gang have results."""
    order = kept.campaign.steps[0]
    states = {state.member: state for state in kept.states(0.0)}
    if not states or any(state.state != "measured" for state in states.values()):
        return []
    lines = {name: rank_lines(kept.attempt(order.number, name, state.attempt) / "stdout") for name, state in states.items()}
    by_size: dict[tuple[str, int], dict[str, list[RankLine]]] = defaultdict(dict)
    for name, own in lines.items():
        for line in own:
            by_size[line.op, line.size].setdefault(name, []).append(line)
    return [_row(op, size, by_member, len(lines)) for (op, size), by_member in by_size.items() if len(by_member) == len(lines)]


def modelled(rows: Sequence[CollectiveRow], machine: str, nodes: int) -> list[CollectiveRow]:
    """With what the model expects of GPUs of this machine, spread over so many nodes."""
    return [msgspec.structs.replace(row, model=of_model(row.op, row.size, row.ranks, machine, nodes)) for row in rows]


def of_model(op: str, size: int, ranks: int, machine: str, nodes: int) -> ModelTime:
    """Raises InputError for a machine that is not in the table."""
    limit = predict.predict(COLLECTIVE.name, machine, op=op, size=size, gpus=ranks, nodes=nodes, dtype="fp32")
    return ModelTime(expected_s=limit.expected_s, low_s=limit.low_s, high_s=limit.high_s, bound_s=limit.bound_s)


def known(kept: CampaignFolder) -> tuple[LinkKnown, list[str]]:
    """What links carry at most, and members that have RDMA adapters."""
    order, links = kept.campaign.steps[0], dict[str, dict[str, Any]]()
    for state in kept.states(0.0):
        if state.state == "measured":
            text = (kept.attempt(order.number, state.member, state.attempt) / "stdout").read_bytes()
            links.update((state.member, line.link) for line in _decoded(text, RankLink))
    return expecting.of_links(links.values()), sorted(name for name, link in links.items() if link.get("rdma"))


def _decoded(text: bytes, kind: type[T]) -> Iterator[T]:
    """Lines of one kind; programs may print others."""
    for line in text.splitlines():
        with suppress(msgspec.MsgspecError):
            yield msgspec.json.decode(line, type=kind)


def rank_lines(path: Path) -> list[RankLine]:
    return [line for line in _decoded(path.read_bytes(), RankLine) if line.time_s > 0 and line.size > 0]


def _row(op: str, size: int, by_member: Mapping[str, Sequence[RankLine]], ranks: int) -> CollectiveRow:
    count = min(len(lines) for lines in by_member.values())
    slowest: dict[str, int] = defaultdict(int)
    times = list[float]()
    for number in range(count):
        name = max(by_member, key=lambda each: by_member[each][number].time_s)
        slowest[name] += 1
        times.append(by_member[name][number].time_s)
    summary = summarize(times, better="lower")
    assert summary.median is not None
    return CollectiveRow(
        op=op, size=size, ranks=ranks, rounds=count, time_s=summary.median, low_s=summary.low, high_s=summary.high,
        confidence=summary.confidence, algbw=size / summary.median, busbw=size / summary.median * factor(op, ranks),
        wrong=sum(line.wrong for lines in by_member.values() for line in lines), slowest=dict(slowest),
    )  # fmt: skip
