"""A server that closes kept connections: what was lost is a failure, and what was sent again is counted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serving.test_serving_bench import latest

from hotlap.cli import main
from hotlap.serving import doubts, generator
from hotlap.serving.address import Address
from hotlap.serving.generator import Generator, LoadJob
from hotlap.serving.prompts import Words
from hotlap.serving.record import Planned, Prompt, Request, ServingAsked

EVENT = b'data: {"choices": [{"delta": {"content": " w"}, "finish_reason": "length"}], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}\n\n'
BODY = EVENT + b"data: [DONE]\n\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY


class ClosingServer:
    """Answers POSTs at once, but for one in `every`: its connection is closed before a byte of the answer."""

    def __init__(self, every: int) -> None:
        self.every, self.posts, self.port = every, 0, 0
        self.up, self.loop = threading.Event(), asyncio.new_event_loop()

    async def _serve(self) -> None:
        self.over = asyncio.Event()
        server = await asyncio.start_server(self._one, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.up.set()
        async with server:
            await self.over.wait()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
                await reader.readexactly(int(lines.get(b"content-length", b"0")))
                self.posts += head.startswith(b"POST")
                if head.startswith(b"GET"):
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                elif self.posts > 2 and self.posts % self.every == 0:
                    break
                else:
                    writer.write(ANSWER)
        writer.close()

    def run(self) -> None:
        self.loop.run_until_complete(self._serve())


@contextlib.contextmanager
def closing(every: int) -> Iterator[ClosingServer]:
    server = ClosingServer(every)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert server.up.wait(10)
    try:
        yield server
    finally:
        server.loop.call_soon_threadsafe(server.over.set)
        thread.join(10)


def test_a_connection_that_is_closed_before_a_byte_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    with closing(3) as server:
        url = f"http://127.0.0.1:{server.port}"
        main(["serving", "bench", url, "--model", "m", "--arrivals", "closed:1", "--requests", "24", "--input", "16", "--output", "1"])
        assert server.posts == 26  # two of them look what it is
    judged = latest(tmp_path)
    assert judged.summary.outcomes["ok"] == 16
    assert judged.summary.outcomes["error"] == 8
    assert "the connection was closed before a byte of the answer" in capsys.readouterr().out
    assert not any(request.resent for request in judged.serving.requests)


def test_on_an_idle_connection_it_is_sent_once_more_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "STALE_S", 0.0)
    asked = ServingAsked(url="", model="m", arrivals="closed:1", seed=1, input_tokens=16, output_tokens=1, requests=12, salt="x")
    with closing(3) as server:
        job = LoadJob(asked=asked, address=Address("http", "127.0.0.1", server.port, "127.0.0.1", "/v1"), words=Words(), dialect=0)

        async def three() -> list[Request]:
            kept = list[Request]()
            load = Generator(job, tmp_path)
            monkeypatch.setattr(load, "_keep", lambda plan, due_s, sent_s, answer, again: kept.append(
                generator.of_answer(plan, answer, due_s, sent_s, load.origin_s, again)))
            for index in range(4):
                planned = Planned(index=index, due_s=0.0, prompt=Prompt(input_tokens=16, output_tokens=1))
                await load._one(planned, load.origin_s, load._bytes(planned))
            for connection in load.pool.idle:
                connection.close()
            for file in load.files.values():
                file.close()
            return kept

        every = asyncio.run(three())
        assert server.posts == 5
    assert [request.outcome for request in every] == ["ok"] * 4
    assert [request.resent for request in every] == [False, False, True, False]
    again = every[2]
    assert again.sent_s is not None
    assert again.first_s is not None
    assert again.sent_s <= again.first_s
    assert [notice.code for notice in doubts._failures(every)] == ["resent"]
    assert os.listdir(tmp_path)
