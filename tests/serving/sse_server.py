"""A small honest server of OpenAI's API: known service times, first come first served, and a log of its own completions on the monotonic
clock. Its faults are those that a client has to name."""

from __future__ import annotations

import contextlib
import json
import queue
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny"


class SseServer(ThreadingHTTPServer):
    """`service_s` for each request, `workers` at a time. `fault`: of those in `Handler`, from the request `after` on."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, service_s: float = 0.01, workers: int = 1, fault: str = "", after: int = 0, tokens_each: int = 1,
                 tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.scheme = "https" if tls else "http"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.service_s, self.fault, self.after, self.tokens_each = service_s, fault, after, tokens_each
        self.waiting: queue.Queue[tuple[Handler, threading.Event]] = queue.Queue()
        self.completed_s: dict[str, float] = {}  # X-Request-Id → when its last byte was handed to the socket
        self.bodies: dict[str, dict[str, Any]] = {}
        self.headers_seen: dict[str, dict[str, str]] = {}
        self.queue_s, self.prefill_s, self.streamed = 0.0, 0.0, 0  # of streams, as its /metrics have them
        self.count = 0
        self.lock = threading.Lock()
        self.closing = False
        self.workers = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def _work(self) -> None:
        while not self.closing:
            try:
                handler, over = self.waiting.get(timeout=0.1)
            except queue.Empty:
                continue
            try:
                handler.serve()
            except OSError:
                handler.close_connection = True
            finally:
                over.set()

    def handle_error(self, *_: object) -> None:
        """A client that goes away is no news."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a kept connection waits 40 ms for an acknowledgement
    server: SseServer

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        if self.server.fault == "html":
            self._send(200, b"<html><title>Welcome</title></html>", "text/html")
        elif self.path == "/metrics":
            totals = {"request_queue_time": self.server.queue_s, "request_prefill_time": self.server.prefill_s}
            text = "".join(
                f'vllm:{name}_seconds_sum{{model_name="{MODEL}"}} {total}\nvllm:{name}_seconds_count{{model_name="{MODEL}"}} {self.server.streamed}\n'
                for name, total in totals.items()
            )
            self._send(200, text.encode(), "text/plain; version=0.0.4")
        elif self.path == "/v1/models":
            self._send(200, json.dumps({"data": [{"id": MODEL}]}).encode())
        else:
            self._send(404, b"{}")

    def do_POST(self) -> None:
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.name = self.headers.get("X-Request-Id", "")
        if not self.path.endswith(("/completions", "/embeddings")):
            self._send(404, b'{"error": {"message": "no such path"}}')
            return
        with self.server.lock:
            self.number = self.server.count
            self.server.count += 1
            self.server.bodies[self.name] = self.body
            self.server.headers_seen[self.name] = dict(self.headers)
        self.came_s = time.monotonic()
        over = threading.Event()
        self.server.waiting.put((self, over))
        over.wait()

    @property
    def fault(self) -> str:
        return self.server.fault if self.number >= self.server.after else ""

    def serve(self) -> None:
        """In a worker's thread: its service time, then or during it the answer."""
        if self.fault == "html":
            self._send(200, b"<html><head><title>Welcome</title></head></html>", "text/html")
        elif self.fault == "redirect":
            self._send(302, b"", location="http://example.com/")
        elif self.fault == "busy":
            self._send(429, b'{"error": {"message": "too many requests"}}')
        elif self.fault == "key" and self.headers.get("Authorization") != "Bearer s3cret":
            self._send(401, b'{"error": {"message": "no key"}}')
        elif self.body["model"] != MODEL:
            self._send(404, b'{"error": {"message": "no such model"}}')
        elif self.fault == "strict" and "continuous_usage_stats" in self.body.get("stream_options", {}):
            self._send(400, b'{"error": {"message": "unknown field"}}')
        elif self.path == "/v1/embeddings":
            time.sleep(self.server.service_s)
            document = {"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": self._prompt_tokens()}}
            self._send(200, json.dumps(document).encode())
        elif self.fault == "whole":
            self._send(200, json.dumps({"choices": [{"message": {"content": "word"}, "finish_reason": "stop"}]}).encode())
        else:
            self._stream()
        self.server.completed_s[self.name] = time.monotonic()

    def _prompt_tokens(self) -> int:
        """Two tokens a word and five of a template."""
        text = self.body.get("prompt") or self.body.get("input") or self.body["messages"][0]["content"]
        return 5 + 2 * len(text.split())

    def _stream(self) -> None:
        began_s = time.monotonic()
        tokens, each = self.body["max_tokens"], self.server.tokens_each
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        options = self.body.get("stream_options") or {}
        usage: dict[str, Any] = {"prompt_tokens": self._prompt_tokens(), "completion_tokens": 0}
        if self.fault == "cache":
            usage["prompt_tokens_details"] = {"cached_tokens": usage["prompt_tokens"] // 2}
        counting = bool(options.get("include_usage")) and self.fault != "no_usage"
        running = counting and bool(options.get("continuous_usage_stats"))
        if self.path.endswith("/chat/completions"):
            self._event({"choices": [{"delta": {"role": "assistant"}}], **({"usage": usage} if running else {})})
        steps = -(-tokens // each)
        for step in range(steps):
            time.sleep(self.server.service_s / steps)
            usage = {**usage, "completion_tokens": min((step + 1) * each, tokens)}
            choice: dict[str, Any] = {"delta": {"content": " word" * each}} if "messages" in self.body else {"text": " word" * each}
            if step == steps - 1 and self.fault != "unfinished":
                choice["finish_reason"] = "length"
            if self.fault == "malformed" and step == steps // 2:
                self._chunk(b"data: {not json\n\n")
            if self.fault == "early" and step == steps - 1:
                self.close_connection = True
                self.connection.close()
                raise OSError("closed early")
            if step == 0:
                with self.server.lock:
                    self.server.streamed += 1
                    self.server.queue_s += began_s - self.came_s
                    self.server.prefill_s += time.monotonic() - began_s
            self._event({"choices": [choice], **({"usage": usage} if running else {})})
        if counting:
            self._event({"choices": [], "usage": usage})
        if self.fault != "unfinished":
            self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, document: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(document).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _send(self, status: int, data: bytes, kind: str = "application/json", location: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(data)


@contextlib.contextmanager
def serving(**options: Any) -> Iterator[SseServer]:
    """A server on a port of its own, ended afterwards."""
    server = SseServer(**options)
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True), *server.workers]
    for thread in threads:
        thread.start()
    try:
        yield server
    finally:
        server.closing = True
        server.shutdown()
        server.server_close()
