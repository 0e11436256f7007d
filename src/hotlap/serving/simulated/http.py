"""The simulated server as a process: OpenAI's HTTP on 127.0.0.1, the engine on the machine's monotonic clock, a log of what it did."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from msgspec.structs import replace

from hotlap.core.errors import InputError, MachineError
from hotlap.core.model import kept, machines
from hotlap.core.record import encode
from hotlap.core.work.networks import calls, sources, steps
from hotlap.core.work.networks.calls import Setting
from hotlap.core.work.networks.shape import Network
from hotlap.serving.record import API
from hotlap.serving.simulated import faults, metrics, openai
from hotlap.serving.simulated.delivery import Delivery
from hotlap.serving.simulated.engine import BatchEngine, EngineJob
from hotlap.serving.simulated.facts import Ended, ServerFacts, ServerLine
from hotlap.serving.simulated.memory import KVMemory
from hotlap.serving.simulated.openai import AnswerForm, Refusal
from hotlap.serving.simulated.options import ServerOptions, checked
from hotlap.serving.simulated.steptime import StepTable, capacity
from hotlap.serving.simulated.wire import FineSelector, Received, Wire

LONGEST = 2**17  # tokens of a request where the network says no limit
CATCH_UP_S = 1.0  # a process that was kept from working makes up for so much: the GPU would have worked on
WATCH_S = 0.25  # between looks for the parent
APIS: dict[str, API] = {"/v1/chat/completions": "chat", "/v1/completions": "completions", "/v1/embeddings": "embeddings"}
_ID = re.compile(r"[\w.-]{1,64}\Z", re.ASCII)


class SimulatedServer:
    """Raises InputError for a network, GPU or setting that cannot be."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = checked(options)
        source, spec = sources.read(options.model), machines.load(options.gpu)
        if not isinstance(source, Network):
            raise InputError(f"'{options.model}' is no stack of transformer layers: a simulated server runs those alone, as llama-3-8b")
        base = Setting("decode" if source.causal else "prefill", tp=options.tp, dtype=options.dtype, kv_dtype=options.kv_dtype)
        steps.check_dtype(source, options.dtype)
        calls.check(source, base)
        steps.check_context(source, options.context)
        self.network, self.name = source, source.name if sources.is_file(options.model) else options.model
        chunk = options.chunk if source.causal else max(options.chunk, source.longest)
        tokens = capacity(source, base, spec, chunk)
        if options.context > tokens:
            raise InputError(f"a context of {options.context} does not fit: there is memory for {tokens} tokens; take a larger --tp")
        self.context = options.context or min(source.longest or LONGEST, tokens)
        known = kept.chosen(options.gpu, options.calibration, options.spec_only, kept.place())
        self.table = StepTable(source, base, spec, (options.batch, chunk, self.context), known)
        cost = faults.SlowStart(self.table) if "slow-start" in options.faults else self.table
        phantom = faults.PHANTOM_SHARE if "cached" in options.faults else 0.0
        self.engine = BatchEngine(cost, KVMemory(tokens), options.batch, chunk, not source.causal, phantom)
        self.wake, self.stop = asyncio.Event(), asyncio.Event()
        self.metrics = metrics.ServerMetrics(self.name, faults.DRIFT if "drift" in options.faults else 1.0)
        self.takers: dict[EngineJob, Callable[[bool], None]] = {}
        self.wires: set[Wire] = set()
        self.open: dict[int, Callable[[Ended], None]] = {}  # requests that are not over, by index
        self.log: TextIO | None = None
        self.count, self.behind_s = 0, 0.0
        self.started = int(time.time())

    # ---------------------------------------------------------------- the process

    async def serve(self, ready: Callable[[ServerFacts], None], parent: int) -> None:
        """Until SIGTERM, SIGINT, the end of `parent` or of its time. Raises MachineError where the port is taken."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop.set)
        if self.options.for_s is not None:
            loop.call_later(self.options.for_s, self.stop.set)
        self.log = _opened(self.options.log)
        try:
            server = await loop.create_server(self._wire, self.options.host, self.options.port, backlog=4096)
        except OSError as error:
            raise MachineError(f"port {self.options.port} of {self.options.host} cannot be used: {os.strerror(error.errno or 0)}") from None
        tasks = [loop.create_task(self._drive()), loop.create_task(_orphaned(parent)), loop.create_task(self.stop.wait())]
        try:
            ready(self.facts(server.sockets[0].getsockname()[1]))
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # an error of the engine is the server's
        finally:
            server.close()
            self._close(tasks)

    def _close(self, tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
        for over in list(self.open.values()):
            over("aborted")
        for wire in self.wires:
            if wire.transport is not None:
                wire.transport.abort()
        if self.log is not None:
            self.log.close()

    def _wire(self) -> Wire:
        wire = Wire(self.handle, self.wires.discard)
        self.wires.add(wire)
        return wire

    def facts(self, port: int) -> ServerFacts:
        o, usual = self.options, min(steps.USUAL_CONTEXT, self.context)
        decode = self.table.seconds(1, usual, []) if self.network.causal else None
        return ServerFacts(
            url=f"http://{o.host}:{port}", pid=os.getpid(), model=self.name, gpu=o.gpu, tp=o.tp, batch=o.batch, chunk=self.engine.chunk,
            kv_tokens=self.engine.memory.capacity if self.network.causal else None, context=self.context, usual=usual, decode_s=decode,
            prefill_s=self.table.prompt_s(usual), faults=o.faults, log=o.log,
        )  # fmt: skip

    async def _drive(self) -> None:
        """Steps on the real clock. A step begins when the one before ended on the GPU, however late this process noticed."""
        at = time.monotonic()
        while True:
            step = self.engine.plan(at)
            if step is None:
                if not self.engine.waiting:
                    self.wake.clear()
                    await self.wake.wait()
                at = time.monotonic()
                continue
            end = at + step.seconds
            await asyncio.sleep(max(end - time.monotonic(), 0.0))
            late_s = time.monotonic() - end
            self.behind_s = max(self.behind_s, late_s)
            for job, last, gap_s in self.engine.complete(step, end):
                self.metrics.token(job, gap_s)
                self.takers[job](last)
            at = max(end, end + late_s - CATCH_UP_S)

    # ---------------------------------------------------------------- requests

    def handle(self, received: Received, wire: Wire) -> None:
        path = received.path.partition("?")[0]
        gets: dict[str, Callable[[], tuple[bytes, str]]] = {
            "/health": lambda: (b"", "text/plain"),
            "/v1/models": lambda: (self._models(), "application/json"),
            "/metrics": lambda: (self.metrics.text(self.engine, self.behind_s).encode(), metrics.CONTENT_TYPE),
        }
        posts: dict[str, Callable[[], None]] = {
            **{path: partial(self._answer, api, received, wire) for path, api in APIS.items()},
            "/tokenize": lambda: self._tokenize(received, wire),
        }
        if path not in gets and path not in posts:
            wire.respond(404, Refusal(404, f"there is no {path}", "NotFoundError").body)
        elif (received.method, path in gets) not in (("GET", True), ("POST", False)):
            wire.respond(405, Refusal(405, f"{path} takes {'GET' if path in gets else 'POST'}", "MethodNotAllowed").body)
        elif path in gets:
            wire.respond(200, *gets[path]())
        else:
            posts[path]()

    def _models(self) -> bytes:
        model = {"id": self.name, "object": "model", "created": self.started, "owned_by": "hotlap", "max_model_len": self.context}
        return json.dumps({"object": "list", "data": [model]}).encode()

    def _tokenize(self, received: Received, wire: Wire) -> None:
        """How many tokens a prompt has: vLLM's."""
        try:
            api: API = "chat" if b'"messages"' in received.body else "completions"
            count = len(openai.read(api, received.body, self.name, 2**62).inputs[0])
        except Refusal as error:
            wire.respond(error.status, error.body)
            return
        wire.respond(200, json.dumps({"count": count, "max_model_len": self.context}).encode())

    def _answer(self, api: API, received: Received, wire: Wire) -> None:
        now_s, index = time.monotonic(), self.count
        self.count += 1
        given = received.headers.get("x-request-id", "")
        wrong = faults.of_request(self.options.faults, index)
        line = ServerLine(
            id=given if _ID.match(given) else f"{index}", index=index, api=api, received_s=now_s, written_s=now_s, outcome="invalid",
            faults=tuple(name for name in self.options.faults if name in wrong),
        )  # fmt: skip
        try:
            if "refuse" in wrong:
                raise Refusal(429, "Too many requests: try again", "rate_limit_exceeded")
            if api != "embeddings" and not self.network.causal:
                raise Refusal(400, f"{self.name} is an encoder: it answers /v1/embeddings alone")
            ask = openai.read(api, received.body, self.name, self.context)
            self._begin(line, ask, wire, wrong)
        except Refusal as error:
            self._write(replace(line, outcome="refused" if error.status == 429 else "invalid"))
            wire.respond(error.status, error.body, headers={"retry-after": "1"} if error.status == 429 else {})

    def _begin(self, line: ServerLine, ask: openai.Ask, wire: Wire, wrong: frozenset[str]) -> None:
        early = "early-end" in wrong and ask.output_tokens > 0
        output = max(round(ask.output_tokens * faults.EARLY_SHARE), 1) if early else ask.output_tokens
        jobs = [
            EngineJob(f"{line.id}-{place}", len(tokens), output, openai.blocks(tokens, ask.salt), line.received_s)
            for place, tokens in enumerate(ask.inputs)
        ]
        over = self._over(line, jobs, "stop" if early else ask.finish or "stop")
        self.open[line.index] = over
        if ask.api == "embeddings":
            self._embed(jobs, ask, wire, wrong, over)
        else:
            kind = "chatcmpl" if ask.api == "chat" else "cmpl"
            form = AnswerForm(ask, f"{kind}-{line.id}", self.name, int(time.time()))
            delivery = Delivery(wire, form, ask, jobs[0], wrong, over)
            self.takers[jobs[0]] = delivery.token
            delivery.begin()
        for job in jobs:
            self.engine.add(job)
        self.wake.set()

    def _embed(self, jobs: list[EngineJob], ask: openai.Ask, wire: Wire, wrong: frozenset[str], over: Callable[[Ended], None]) -> None:
        left = set(jobs)

        def taker(job: EngineJob) -> Callable[[bool], None]:
            def take(_last: bool) -> None:
                left.discard(job)
                if left:
                    return
                if "reset" in wrong:
                    wire.reset()
                    over("reset")
                    return
                total, cached = sum(job.input_tokens for job in jobs), sum(job.cached_tokens for job in jobs)
                counted = None if "no-usage" in wrong else openai.usage(total, 0, cached)
                wire.respond(200, openai.embeddings(ask, self.name, self.network.hidden, counted))
                over("ok")

            if "stall" in wrong:
                return lambda last: _later(faults.STALL_S, lambda: take(last))
            return take

        wire.gone = lambda: over("aborted")
        self.takers |= {job: taker(job) for job in jobs}

    def _over(self, line: ServerLine, jobs: list[EngineJob], finish: str) -> Callable[[Ended], None]:
        """What is to be done when a request is over, whatever became of it; the first call counts."""

        def over(outcome: Ended) -> None:
            if self.open.pop(line.index, None) is None:
                return
            for job in jobs:
                self.engine.abort(job)
                self.takers.pop(job, None)
                self.metrics.ended(job, "abort" if job.aborted else finish)
            self._write(_closed(replace(line, outcome=outcome), jobs))

        return over

    def _write(self, line: ServerLine) -> None:
        if self.log is not None:
            self.log.write(encode(replace(line, written_s=time.monotonic())).decode() + "\n")


def _closed(line: ServerLine, jobs: Sequence[EngineJob]) -> ServerLine:
    """With what became of its jobs: the first moment of any, the end of all."""
    ends = [job.ended_s for job in jobs if job.ended_s is not None]
    return replace(
        line, admitted_s=min((job.admitted_s for job in jobs if job.admitted_s is not None), default=None),
        first_s=min((job.first_s for job in jobs if job.first_s is not None), default=None),
        ended_s=max(ends) if len(ends) == len(jobs) else None, input_tokens=sum(job.input_tokens for job in jobs),
        cached_tokens=sum(job.cached_tokens for job in jobs), output_tokens=sum(job.emitted for job in jobs),
    )  # fmt: skip


def _later(seconds: float, call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, call)


def _opened(path: str) -> TextIO | None:
    """For appending, a line at a time. Raises InputError."""
    if not path:
        return None
    try:
        return Path(path).open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise InputError(f"'{path}' cannot be written: {error.strerror}") from None


async def _orphaned(parent: int) -> None:
    """Until `parent` is this process' parent no more."""
    while os.getppid() == parent:
        await asyncio.sleep(WATCH_S)


def run(options: ServerOptions, ready: Callable[[ServerFacts], None], parent: int) -> None:
    """Serves until it is told to end. Raises InputError, MachineError."""
    server = SimulatedServer(options)
    gc.freeze()  # no pause of the collector goes over modules and tables again and again
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(FineSelector())) as runner:
        runner.run(server.serve(ready, parent))
