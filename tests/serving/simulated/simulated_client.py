"""A plain client of the simulated server, and a server in the test's own process."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from hotlap.serving.simulated.facts import ServerFacts, ServerLine
from hotlap.serving.simulated.http import SimulatedServer
from hotlap.serving.simulated.options import ServerOptions
from hotlap.serving.simulated.wire import FineSelector

T = TypeVar("T")
MODEL = "llama-3-8b"
SMALL = ServerOptions(gpu="h200-sxm", model=MODEL, batch=16, chunk=512, context=4096)
CHAT, TEXT, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"


class Event(NamedTuple):
    at_s: float
    raw: str  # after "data: "

    @property
    def data(self) -> Any:
        return json.loads(self.raw)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    events: list[Event]
    text: str  # of an answer that is no stream
    cut: bool = False  # the connection failed before the end

    @property
    def chunks(self) -> list[Any]:
        """All events but the last word."""
        return [event.data for event in self.events if event.raw != "[DONE]"]

    @property
    def content(self) -> str:
        pieces = [choice["delta"] if "delta" in choice else {"content": choice["text"]} for chunk in self.chunks for choice in chunk["choices"]]
        return "".join(piece.get("content", "") for piece in pieces)


def ask(path: str, words: str, output: int | None, **more: Any) -> dict[str, Any]:
    prompt: dict[str, Any] = {"messages": [{"role": "user", "content": words}]} if path == CHAT else {"prompt": words}
    return {"model": MODEL, **prompt, **({} if output is None else {"max_tokens": output}), **more}


def stream(path: str, words: str, output: int, **more: Any) -> dict[str, Any]:
    return ask(path, words, output, stream=True, stream_options={"include_usage": True, **more.pop("options", {})}, **more)


def post(facts: ServerFacts, path: str, body: Any, headers: dict[str, str] | None = None) -> Answer:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection(facts.url.removeprefix("http://"), timeout=60)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"content-type": "application/json", **(headers or {})})
        return read(connection.getresponse())
    finally:
        connection.close()


def read(answer: http.client.HTTPResponse) -> Answer:
    headers = {name.lower(): value for name, value in answer.getheaders()}
    if not headers["content-type"].startswith("text/event-stream"):
        return Answer(answer.status, headers, [], answer.read().decode())
    events: list[Event] = []
    try:
        while line := answer.readline():
            text = line.decode().rstrip("\n")
            if text:
                assert text.startswith("data: ")
                events.append(Event(time.monotonic(), text.removeprefix("data: ")))
    except (ConnectionResetError, http.client.IncompleteRead):
        return Answer(answer.status, headers, events, "", cut=True)
    return Answer(answer.status, headers, events, "", cut=not events or events[-1].raw != "[DONE]")


def get(facts: ServerFacts, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(facts.url.removeprefix("http://"), timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def metrics(facts: ServerFacts) -> dict[str, float]:
    """Values by name with labels, but the engine and the model."""
    lines = [line for line in get(facts, "/metrics")[1].splitlines() if not line.startswith("#")]
    values = {}
    for line in lines:
        name, value = line.rsplit(" ", 1)
        values[name.replace(f'engine="0",model_name="{facts.model}"', "").replace("{}", "").replace("{,", "{")] = float(value)
    return values


def lines(log: str | Path) -> list[ServerLine]:
    return [msgspec.json.decode(line, type=ServerLine) for line in Path(log).read_text().splitlines()]


def served(options: ServerOptions, client: Callable[[ServerFacts], T]) -> T:
    """What the client, in a thread, has of a server in this process."""
    server = SimulatedServer(options)

    async def both() -> T:
        ready: asyncio.Future[ServerFacts] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(server.serve(ready.set_result, os.getppid()))
        serving.add_done_callback(lambda _: ready.done() or ready.cancel())
        try:
            facts = await ready
        except asyncio.CancelledError:
            serving.result()  # raises what kept it from starting
            raise
        try:
            return await asyncio.to_thread(client, facts)
        finally:
            server.stop.set()
            await serving

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(FineSelector())) as runner:
        return runner.run(both())
