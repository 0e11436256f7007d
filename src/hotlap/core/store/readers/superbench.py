"""SuperBench's results-summary.jsonl: a line per node, metrics named BENCHMARK/METRIC:RANK."""

from __future__ import annotations

import re

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Better, Fields, ReadCase, ReadRound, ReadRun, Source, number

NAME = "superbench"
BRINGS = "a run per node and rank (a GPU), one number a metric; unit and direction as SuperBench documents them by the metric's name"
ORIGIN = "microsoft/superbenchmark at 5a176fa7db2d6072634f12f1ccf5c074261d17ad: tests/analyzer/test_results.jsonl, docs/user-tutorial"
METRIC = re.compile(r"[^/\s]+(?:/[^/:]+)+(?::\d+)?")
NOTHING = r"return_code|pass|version"  # no measurement
RULES: tuple[tuple[str, str, Better], ...] = (  # by what a metric's name holds, first fit: unit, which way is better
    (r"kernel-launch/|steptime|step_time|_cost|latency_ms|matmul", "ms", "lower"),
    (r"nccl-bw.*_time|rccl-bw.*_time|_lat|latency|mem-latency", "us", "lower"),
    (r"busbw|algbw|mem_bw|_bw\b|_bw_|copy-bw|copy_bw|gpu-stream|cpu-memory-bw|bandwidth", "GB/s", "higher"),
    (r"ib-loopback|ib_write|ib_read|ib_send", "MB/s", "higher"),
    (r"gemm-flops.*int", "GOP/s", "higher"),
    (r"gemm-flops|_flops", "GFLOP/s", "higher"),
    (r"throughput|tput|_fps|iops|_qps", "samples/s", "higher"),
)


def detect(source: Source) -> bool:
    rows = _rows(source)
    return bool(rows) and all("node" in row and any(METRIC.fullmatch(name) for name in row) for row in rows)


def read(source: Source) -> list[ReadRun]:
    return [run for place, row in enumerate(_rows(source), 1) for run in _node(row, f"{source.path}:{place}", source.modified_s)]


def _rows(source: Source) -> list[Fields]:
    return [source.json] if isinstance(source.json, dict) else source.lines


def _node(row: Fields, place: str, time_s: float) -> list[ReadRun]:
    """A run per rank; metrics without one are of the node."""
    ranks: dict[str, list[ReadCase]] = {}
    ignored: list[str] = []
    for name, value in row.items():
        metric, _, rank = name.rpartition(":") if re.search(r":\d+$", name) else (name, "", "")
        rule = _rule(metric)
        if rule is None or value is None:
            ignored += [name] if isinstance(value, (int, float)) and not re.search(NOTHING, name) else []
            continue
        rounds = [ReadRound([number(value, f"{place}, {name}")])]
        ranks.setdefault(rank, []).append(ReadCase(metric, rule[0], rounds, better=rule[1], place=f"{place}, {name}"))
    if not ranks:
        raise InputError(f"{place}: no metric of '{row['node']}' has a unit that is known")
    first = next(iter(ranks))
    return [
        ReadRun(cases, time_s, host=str(row["node"]), index=int(rank or 0), labels={"rank": rank} if rank else {},
                ignored=tuple(ignored) if rank == first else ())
        for rank, cases in ranks.items()
    ]  # fmt: skip


def _rule(metric: str) -> tuple[str, Better] | None:
    lowered = metric.lower()
    if "/" not in lowered or re.search(NOTHING, lowered):
        return None
    for pattern, unit, better in RULES:
        if re.search(pattern, lowered):
            return unit, better
    return None
