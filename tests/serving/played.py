"""Benches that are played by the model's engine on a clock of its own, in place of a process and HTTP: what a busy machine cannot disturb."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hotlap.core.record import Machine, Plan, RunRecord
from hotlap.serving import summary, verdict
from hotlap.serving.address import Address
from hotlap.serving.capacity_expected import ServerModel
from hotlap.serving.reading import ServingRun
from hotlap.serving.record import ClientState, Request, Served, ServingAsked
from hotlap.serving.session import ServingOptions
from hotlap.serving.several import SeveralBenches, SeveralEnded
from hotlap.serving.simulated import options
from hotlap.serving.verdict import ServingVerdict

SOUND = ClientState(wall_s=10.0, cpu_s=1.0)
STARVED = ClientState(wall_s=10.0, cpu_s=9.9)
URL = "simulated:h200-sxm?model=llama-3-8b"


def asked(objectives: str = "ttft<=200ms", input_tokens: int = 512, output_tokens: int = 4) -> ServingAsked:
    return ServingAsked(
        url=URL, model="llama-3-8b", arrivals="", seed=4, input_tokens=input_tokens, output_tokens=output_tokens, objectives=objectives
    )


def model(what: ServingAsked, url: str = URL) -> ServerModel:
    return ServerModel(options.parse(url), what)


class PlayedBenches(SeveralBenches):
    """`starved`: rates from which the client is; `end_after`: benches, then Ctrl-C comes."""

    def __init__(self, server: ServerModel, starved: float = 1e9, end_after: int = 10**6, failed: int = 0) -> None:
        super().__init__(Address("http", "127.0.0.1", 1, "127.0.0.1", ""), server.asked, ServingOptions(Path()), "search")
        self.server, self.starved, self.end_after, self.failed = server, starved, end_after, failed
        self.seen: list[tuple[str, int]] = []

    def bench(self, arrivals: str, requests: int, warm_up: int = 0) -> ServingVerdict:
        if self.count >= self.end_after:
            self.interrupt()
            raise SeveralEnded
        self.count += 1
        self.seen.append((arrivals, requests))
        played = self.server.play(arrivals, requests + warm_up, self.asked.seed + self.count)
        every = [
            Request(index=place, due_s=one.due_s, sent_s=one.due_s, first_s=one.first_s, last_s=one.ended_s, ended_s=one.ended_s, output_tokens=one.tokens)
            for place, one in enumerate(played)
        ]
        every = [replace(r, outcome="refused", reason="HTTP 429", first_s=None, last_s=None) if r.index < self.failed else r for r in every]
        rate = float(arrivals.partition(":")[2].partition(",")[0])
        return judged(replace(self.asked, arrivals=arrivals, warm_up=warm_up), every, STARVED if rate >= self.starved else SOUND, f"run-{self.count}")


def judged(what: ServingAsked, every: list[Request], client: ClientState, name: str = "run") -> ServingVerdict:
    record = RunRecord(id=name, kind="serving", began="", hotlap="", plan=Plan(name="p"), machine=Machine(host="h"), target="host", devices=[])
    serving = ServingRun(record, Served(asked=what, client=client), every, dict[int, Any](), dict[int, Any](), [])
    return verdict.of(serving, summary.of(serving))
