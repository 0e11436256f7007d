"""Answers of HTTP and their events, however the bytes are cut; what is no answer."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from hotlap.core.errors import HotlapError
from hotlap.serving import address, scraped
from hotlap.serving.answers import ServerAnswer
from hotlap.serving.record import API
from hotlap.serving.wire import Malformed

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(document: Any) -> bytes:
    data = b"data: " + (document if isinstance(document, bytes) else json.dumps(document).encode()) + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def text(content: str, **more: Any) -> bytes:
    return event({"choices": [{"delta": {"content": content}, **more}]})


def usage(tokens: int, **more: Any) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": 9, "completion_tokens": tokens, **more}}


def answer_of(data: bytes, cuts: list[int] | None = None, api: API = "chat") -> ServerAnswer:
    """Fed in pieces, a second apart."""
    over: list[ServerAnswer] = []
    answer = ServerAnswer(api, over.append)
    for second, (begin, end) in enumerate(pairwise([0, *(cuts or []), len(data)])):
        answer.feed(data[begin:end], float(second))
    if not answer.complete:
        answer.lost("the connection was closed early", 99.0)
    assert over == [answer]  # its end is told once
    return answer


STREAM = HEAD + event({"choices": [{"delta": {"role": "assistant"}}]}) + text("one") + text(" two") + text(" thrée", finish_reason="length") + event(
    {"choices": [], **usage(3, completion_tokens_details={"reasoning_tokens": 1})}) + event(b"[DONE]") + b"0\r\n\r\n"  # fmt: skip


def test_bytes_may_be_cut_anywhere() -> None:
    random = np.random.default_rng(3)
    cuttings: list[list[int]] = [[], list(range(1, len(STREAM)))]
    cuttings += [sorted(random.choice(np.arange(1, len(STREAM)), 6, replace=False).tolist()) for _ in range(200)]
    for cuts in cuttings:
        answer = answer_of(STREAM, cuts)
        assert (answer.outcome, answer.chunks, answer.finish, answer.usage.completion_tokens) == ("ok", 3, "length", 3)
        assert answer.stays_open


def test_times_are_those_of_the_bytes_and_a_role_is_no_token() -> None:
    marks = [STREAM.index(word) for word in (b'{"choices": [{"delta": {"content": "one', b'{"choices": [{"delta": {"content": " two', b'{"choices": [{"delta": {"content": " thr')]
    answer = answer_of(STREAM, marks)
    assert (answer.began_s, answer.first_s, answer.gaps_s, answer.last_s, answer.ended_s) == (0.0, 1.0, [1.0, 1.0], 3.0, 3.0)


@pytest.mark.parametrize("delta", [{"reasoning_content": "hm"}, {"reasoning": "hm"}, {"tool_calls": [{"function": {"arguments": "{"}}]}])
def test_reasoning_and_calls_of_tools_are_tokens(delta: dict[str, Any]) -> None:
    answer = answer_of(HEAD + event({"choices": [{"delta": delta, "finish_reason": "stop"}]}) + event(b"[DONE]") + b"0\r\n\r\n")
    assert (answer.outcome, answer.chunks) == ("ok", 1)


def test_tokens_of_each_chunk_are_counted_where_the_server_does() -> None:
    """A token without text, as half of a character, is a token: the count grew."""
    parts = [event({"choices": [{"delta": {"content": content}}], **usage(count)}) for content, count in (("a", 1), ("bcd", 4), ("", 5))]
    answer = answer_of(HEAD + b"".join(parts) + event(b"[DONE]") + b"0\r\n\r\n")
    assert (answer.tokens, answer.chunks) == ([1, 3, 1], 3)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (HEAD + text("a") + event(b"{broken") + b"0\r\n\r\n", "event 2 of the stream is not what the API sends"),
        (HEAD + text("a") + event({"error": {"message": "out of\nmemory"}}) + b"0\r\n\r\n", "an error in the stream: out of memory"),
        (HEAD + text("a"), "closed early, after 1 event with text"), (HEAD + text("a") + b"0\r\n\r\n", "no finish_reason and no [DONE]"),
        (HEAD + event(b"[DONE]") + b"0\r\n\r\n", "no event with text"), (HEAD + event(b'"text"') + b"0\r\n\r\n", "not what the API sends"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "status 500: nothing"),
        (b"HTTP/1.1 502 Bad\r\nContent-Length: 44\r\n\r\n<html><title>Bad gateway</title></html>     ", "an HTML page ('Bad gateway')"),
        (b"HTTP/1.1 400 Bad\r\nContent-Length: 22\r\n\r\n{\"detail\": \"too long\"}", "status 400: too long"),
    ],
)  # fmt: skip
def test_what_is_no_good_answer_says_why(data: bytes, says: str) -> None:
    answer = answer_of(data)
    assert answer.outcome != "ok"
    assert says in answer.reason
    assert "\n" not in answer.reason


@pytest.mark.parametrize("data", [b"SSH-2.0-OpenSSH_9.2\r\n", HEAD + b"zz\r\n", HEAD + b"1\r\nab\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"])
def test_what_is_no_http_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        ServerAnswer("chat", lambda _: None).feed(data, 0.0)


def test_addresses() -> None:
    found = address.resolve("http://127.0.0.1:8000/v1/chat/completions/", False)
    assert (found.shown, found.ip, found.loopback) == ("http://127.0.0.1:8000/v1", "127.0.0.1", True)
    assert address.resolve("http://localhost:8000", False).loopback
    assert address.resolve("http://[::1]:8000/api", False).authority == "[::1]:8000"
    for url in ("http://192.0.2.7", "https://[2001:db8::1]:8000", "http://no.such.host.invalid", "127.0.0.1:8000", "http://127.0.0.1/?key=1"):
        with pytest.raises(HotlapError):
            address.resolve(url, False)


def test_counters_of_the_server_are_added_over_their_labels() -> None:
    text = "# HELP x y\nvllm:prompt_tokens_total{model=\"a b\"} 5\nvllm:prompt_tokens_total{model=\"}\"} 7.0\nvllm:prefix_cache_hits_total 3 1700\nother 9\nvllm:prompt_tokens_total{} no"
    before = scraped.read(text.encode())
    assert before == {"prompt_tokens": 12.0, "cache_hits": 3.0}
    assert scraped.grown(before, {"prompt_tokens": 20.0, "cache_hits": 1.0}) == {"prompt_tokens": 8.0}  # it was started anew
    assert scraped.read(None) == {}
