"""Traces of several ranks as PyTorch's profiler writes them, made from the moments at which each rank came to each collective."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

MEGA = 1_000_000


class Ranks:
    """Builds the files. Times are true microseconds; each rank writes them by its own clock."""

    def __init__(self, count: int, device: str = "", clock: Callable[[int, float], float] = lambda rank, time: time) -> None:
        self.count, self.device, self.clock = count, device, clock
        self.events: list[list[dict[str, Any]]] = [[] for _ in range(count)]
        self.groups = {"0": ("default_pg", list(range(count)))}
        self.correlation = 0

    def group(self, name: str, about: str, ranks: Sequence[int]) -> None:
        self.groups[name] = (about, list(ranks))

    def _kernel(self, rank: int, name: str, start: float, end: float, stream: int, args: dict[str, Any]) -> None:
        self.correlation += 1
        begin = self.clock(rank, start)
        length = self.clock(rank, end) - begin
        common = {"device": 0, "stream": stream, "correlation": self.correlation, "External id": self.correlation}
        self.events[rank].append(
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": begin, "dur": length, "args": common | args}
        )
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": begin - 5, "dur": 3}
        self.events[rank].append(call | {"args": {"correlation": self.correlation}})

    def compute(self, rank: int, start: float, end: float, name: str = "gemm", stream: int = 7) -> None:
        self._kernel(rank, name, start, end, stream, {})

    def meet(self, came: dict[int, float], end: float, name: str = "allreduce", elements: int = MEGA, group: str = "0") -> None:
        """A collective: when each rank's kernel began, and when all of them ended."""
        for rank, start in came.items():
            args = {
                "Collective name": name, "In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float",
                "Group size": len(self.groups[group][1]), "Process Group Name": group,
            }  # fmt: skip
            self._kernel(rank, f"ncclDevKernel_{name}", start, end, 20, args)

    def host(self, rank: int, name: str, start: float, end: float, thread: int = 1, category: str = "cpu_op") -> None:
        begin = self.clock(rank, start)
        self.events[rank].append(
            {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": self.clock(rank, end) - begin, "args": {}}
        )

    def text(self, rank: int, told: bool = True) -> str:
        spread = {
            "rank": rank, "world_size": self.count, "backend": "nccl",
            "pg_config": [{"pg_name": n, "pg_desc": about, "ranks": ranks} for n, (about, ranks) in self.groups.items() if rank in ranks],
        }  # fmt: skip
        document: dict[str, Any] = {"schemaVersion": 1, "traceEvents": self.events[rank]}
        if told:
            document = {"distributedInfo": spread, **document}
        if self.device:
            document["deviceProperties"] = [{"id": 0, "name": self.device}]
        return json.dumps(document)

    def write(self, folder: Path, told: bool = True, ranks: Sequence[int] | None = None) -> list[str]:
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for rank in range(self.count) if ranks is None else ranks:
            path = folder / f"rank{rank}.json"
            path.write_text(self.text(rank, told))
            paths.append(str(path))
        return paths


def slow(count: int, late: int, times: int = 20, step: float = 1000.0, work: float = 400.0, more: float = 200.0, **given: Any) -> Ranks:
    """Steps of compute and one all-reduce that takes 100 µs after the last has come; `late` computes `more` longer."""
    made = Ranks(count, **given)
    for number in range(times):
        begin = 1000 + number * step
        came = {rank: begin + work + (more if rank == late else 0.0) + 3.0 * ((rank * 7 + number * 3) % 5) for rank in range(count)}
        for rank, moment in came.items():
            made.compute(rank, begin, moment)
        made.meet(came, max(came.values()) + 100.0, elements=MEGA + number)
    return made
