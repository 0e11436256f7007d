"""What an OpenAI-compatible server answers to one request: its events, its tokens, its errors, and when each of them came."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from hotlap.serving.record import API, Outcome
from hotlap.serving.wire import BODY_BYTES, LINE_BYTES, Response

REFUSALS = (429, 503)


class Details(msgspec.Struct):
    """Of tokens: those that were in the cache, and those of reasoning."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Usage(msgspec.Struct):
    """Tokens as the server counts them."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Details | None = None
    completion_tokens_details: Details | None = None


class Delta(msgspec.Struct):
    """A piece of a chat's answer. Reasoning and calls of tools are tokens as text is; a role alone is none."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Any] | None = None

    @property
    def has_answer(self) -> bool:
        return bool(self.content or self.tool_calls)

    @property
    def has_reasoning(self) -> bool:
        return bool(self.reasoning_content or self.reasoning)


class StreamChoice(msgspec.Struct):
    """Of an event: `delta` of chat, `text` of completions."""

    delta: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None

    @property
    def has_answer(self) -> bool:
        """Text that is no reasoning."""
        return bool(self.text) or (self.delta is not None and self.delta.has_answer)

    @property
    def has_reasoning(self) -> bool:
        return self.delta is not None and self.delta.has_reasoning


class StreamEvent(msgspec.Struct):
    """One event of a stream."""

    choices: list[StreamChoice] = []
    usage: Usage | None = None
    error: Any = None
    data: list[Any] | None = None  # of embeddings


DECODER = msgspec.json.Decoder(StreamEvent)


class ServerAnswer(Response):
    """One request's answer. `done` is called once, when it is over in whatever way."""

    def __init__(self, api: API, done: Callable[[ServerAnswer], None], streamed: bool = True) -> None:
        super().__init__()
        self.api, self._done, self.streamed = api, done, streamed and api != "embeddings"
        self.outcome: Outcome = "ok"
        self.reason, self.finish = "", ""
        self.first_s: float | None = None
        self.last_s: float | None = None
        self.empty_s: float | None = None
        self.answer_s: float | None = None
        self.reasoned = self.cut_off = False  # reasoning came before anything else; the connection closed too early
        self.ended_s: float | None = None
        self.gaps_s: list[float] = []
        self.tokens: list[int] = []  # of each chunk, while the server counts as it goes
        self.usage = Usage()
        self._counted, self._events = 0, 0
        self._text, self._data, self._closing = b"", list[bytes](), False

    @property
    def chunks(self) -> int:
        """Events with text."""
        return 0 if self.first_s is None else 1 + len(self.gaps_s)

    def body(self, data: bytes, now_s: float) -> None:
        if self.ended_s is not None:
            return
        self._text += data
        if self.streamed and self.status == 200 and self._kind == "text/event-stream":
            *lines, self._text = self._text.split(b"\n")
            for line in lines:
                self._line(line.rstrip(b"\r"), now_s)
        if len(self._text) > (LINE_BYTES if self.streamed else BODY_BYTES):
            self.end("error", "the answer has a line, or a body, of more than 4 MiB", now_s)

    @property
    def _kind(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def _line(self, line: bytes, now_s: float) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].lstrip(b" "))
        elif not line and self._data:
            data, self._data = b"\n".join(self._data), []
            self._event(data, now_s)

    def _event(self, data: bytes, now_s: float) -> None:
        self._events += 1
        if data == b"[DONE]":
            self._closing = True
            return
        try:
            event = DECODER.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.end("error", f"event {self._events} of the stream is not what the API sends: {_short(data)}", now_s)
            return
        if event.error:
            self.end("error", f"the server sent an error in the stream: {_message(event.error)}", now_s)
            return
        self._count(event, now_s)

    def _count(self, event: StreamEvent, now_s: float) -> None:
        new = 0
        if event.usage:
            self.usage = event.usage
            new = (event.usage.completion_tokens or 0) - self._counted if event.choices else 0
            self._counted += max(new, 0)
        for choice in event.choices:
            if choice.finish_reason:
                self.finish, self._closing = choice.finish_reason, True
        answers, reasons = any(choice.has_answer for choice in event.choices), any(choice.has_reasoning for choice in event.choices)
        self.reasoned |= reasons and self.answer_s is None
        if answers and self.answer_s is None:
            self.answer_s = now_s
        if new > 0 or answers or reasons:
            if self.last_s is None:
                self.first_s = now_s
            else:
                self.gaps_s.append(now_s - self.last_s)
            self.last_s = now_s
            if event.usage:
                self.tokens.append(max(new, 0))
        elif self.first_s is None and self.empty_s is None and event.choices:
            self.empty_s = now_s

    def over(self, now_s: float) -> None:
        if self.ended_s is not None:
            return
        if self.status != 200:
            self.end("refused" if self.status in REFUSALS else "error", self._refusal(), now_s)
        elif "html" in self._kind or self._text.lstrip()[:9].lower() in (b"<!doctype", b"<html>"):
            self.end("error", f"the server answered with an HTML page{_title(self._text)}, which is not this API", now_s)
        elif self.streamed and self._kind == "text/event-stream":
            self._over_stream(now_s)
        else:
            self._over_whole(now_s)

    def _over_stream(self, now_s: float) -> None:
        if self._text.strip() or self._data:  # the last event lacks its empty line
            self._line(self._text.rstrip(b"\r\n"), now_s)
            self._line(b"", now_s)
        if self.ended_s is not None:
            return
        if not self._closing:
            self.end("error", f"the stream ended early, after {self._given()}: no finish_reason and no [DONE]", now_s)
        elif self.first_s is None:
            self.end("error", "the stream had no event with text", now_s)
        else:
            self.end("ok", "", now_s)

    def _over_whole(self, now_s: float) -> None:
        try:
            event = DECODER.decode(self._text)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.end("error", f"the answer is not what the API sends: {_short(self._text)}", now_s)
            return
        if event.error:
            self.end("error", f"the server answered with an error: {_message(event.error)}", now_s)
        elif self.streamed:
            self.end("error", "the server does not stream: it answered with one whole document to a request with stream=true", now_s)
        elif self.api == "embeddings" and not event.data:
            self.end("error", f"the answer has no embedding: {_short(self._text)}", now_s)
        else:
            self.usage = event.usage or self.usage
            self.first_s = self.last_s = now_s
            self.end("ok", "", now_s)

    def _refusal(self) -> str:
        where = self.headers.get("location", "")
        if 300 <= (self.status or 0) < 400:
            return f"status {self.status}, a redirect to {where[:80] or 'nowhere'}; redirects are not followed"
        message = ""
        try:
            document = msgspec.json.decode(self._text)
            message = _message(document.get("error", document) if isinstance(document, dict) else document)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            message = f"an HTML page{_title(self._text)}" if b"<html" in self._text[:2000].lower() else _short(self._text)
        return f"status {self.status}: {message}"

    def lost(self, reason: str, now_s: float) -> None:
        self.cut_off = self.ended_s is None and self.status == 200
        self.end("error", f"{reason}, after {self._given()}" if self.status == 200 else reason, now_s)

    def _given(self) -> str:
        return f"{self.chunks} event{'s' if self.chunks != 1 else ''} with text"

    def end(self, outcome: Outcome, reason: str, now_s: float) -> None:
        """Its end; the first one counts."""
        if self.ended_s is None:
            self.outcome, self.reason, self.ended_s = outcome, reason, now_s
            self._done(self)


def _short(data: bytes) -> str:
    text = " ".join(data.decode("utf-8", "replace").split())
    return repr(text[:80] + ("…" if len(text) > 80 else "")) if text else "nothing"


def _title(data: bytes) -> str:
    match = re.search(rb"<title>(.*?)</title>", data, re.IGNORECASE | re.DOTALL)
    return f" ({_short(match[1])})" if match else ""


def _message(error: Any) -> str:
    """What an error says of itself, in one line."""
    text = error.get("message") or error.get("detail") or error if isinstance(error, dict) else error
    return " ".join(str(text).split())[:200]
