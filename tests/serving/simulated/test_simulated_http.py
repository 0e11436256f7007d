"""The simulated server as a process, asked by a plain client."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from simulated_client import CHAT, EMBED, MODEL, SMALL, TEXT, Answer, ask, get, lines, metrics, post, served, stream

from hotlap.core.errors import HotlapError, InputError, MachineError
from hotlap.serving.simulated.facts import ServerFacts
from hotlap.serving.simulated.options import encode, parse
from hotlap.serving.simulated.starting import end, started

WORDS = "a b c " * 400  # 1,200 tokens: two whole blocks


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerFacts]:
    with started(replace(SMALL, log=str(tmp_path_factory.mktemp("log") / "log.jsonl"))) as server:
        yield server.facts


def test_chat_is_streamed_as_openai_documents_it(honest: ServerFacts) -> None:
    answer = post(honest, CHAT, stream(CHAT, "how are you", 5))
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert answer.events[-1].raw == "[DONE]"
    first, *middle, last, counted = answer.chunks
    assert first["choices"] == [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}]
    assert [chunk["choices"][0]["delta"] for chunk in middle] == [{"content": f"w{i} "} for i in range(5)]
    assert last["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}]
    assert counted["choices"] == []
    assert counted["usage"] == {
        "prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8, "prompt_tokens_details": {"cached_tokens": 0}
    }  # fmt: skip
    assert [chunk["usage"] for chunk in (first, *middle, last)] == [None] * 7
    assert {(chunk["id"], chunk["object"], chunk["model"]) for chunk in answer.chunks} == {(first["id"], "chat.completion.chunk", MODEL)}


def test_completions_end_with_the_reason_beside_the_last_text(honest: ServerFacts) -> None:
    answer = post(honest, TEXT, ask(TEXT, "how are you", 3, stream=True))
    assert [(chunk["choices"][0]["text"], chunk["choices"][0]["finish_reason"]) for chunk in answer.chunks] == [
        ("w0 ", None), ("w1 ", None), ("w2 ", "length")
    ]  # fmt: skip
    assert all("usage" not in chunk for chunk in answer.chunks)  # nobody asked


def test_usage_in_every_event_counts_up(honest: ServerFacts) -> None:
    answer = post(honest, CHAT, stream(CHAT, "how are you", 4, options={"continuous_usage_stats": True}))
    assert [chunk["usage"]["completion_tokens"] for chunk in answer.chunks] == [0, 1, 2, 3, 4, 4, 4]


def test_answers_that_are_not_streamed(honest: ServerFacts) -> None:
    chat, text = (json.loads(post(honest, path, ask(path, "how are you", 2)).text) for path in (CHAT, TEXT))
    assert chat["choices"][0]["message"] == {"role": "assistant", "content": "w0 w1 "}
    assert text["choices"][0]["text"] == "w0 w1 "
    assert (chat["object"], text["object"]) == ("chat.completion", "text_completion")
    assert chat["usage"]["completion_tokens"] == text["usage"]["completion_tokens"] == 2
    assert json.loads(post(honest, CHAT, ask(CHAT, "x", None)).text)["choices"][0]["finish_reason"] == "stop"  # it chose how long


def test_token_ids_are_tokens(honest: ServerFacts) -> None:
    body = {"model": MODEL, "prompt": [5, 6, 7, 8], "max_tokens": 1}
    assert json.loads(post(honest, TEXT, body).text)["usage"]["prompt_tokens"] == 4
    assert json.loads(post(honest, "/tokenize", ask(CHAT, "one two three", None)).text)["count"] == 3


def test_embeddings_are_of_the_network_s_width_and_of_length_1(honest: ServerFacts) -> None:
    given = json.loads(post(honest, EMBED, {"model": MODEL, "input": ["a b", "c", "a b"]}).text)
    vectors = [np.array(item["embedding"]) for item in given["data"]]
    assert [vector.shape for vector in vectors] == [(4096,)] * 3
    assert all(float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5) for vector in vectors)
    assert (vectors[0] == vectors[2]).all()
    assert given["usage"]["prompt_tokens"] == 5
    packed = json.loads(post(honest, EMBED, {"model": MODEL, "input": "a b", "encoding_format": "base64"}).text)["data"][0]["embedding"]
    assert np.frombuffer(base64.b64decode(packed), "<f4") == pytest.approx(vectors[0])


def test_the_log_holds_every_request_on_the_client_s_clock(honest: ServerFacts) -> None:
    before = time.monotonic()
    answer = post(honest, CHAT, stream(CHAT, "log me please", 6), {"x-request-id": "mine-1"})
    after = time.monotonic()
    assert answer.chunks[0]["id"] == "chatcmpl-mine-1"
    until = after + 60.0  # the line is written after the last byte was handed over
    while not (mine := [line for line in lines(honest.log) if line.id == "mine-1"]) and time.monotonic() < until:
        time.sleep(0.01)
    (line,) = mine
    assert (line.outcome, line.input_tokens, line.output_tokens, line.api) == ("ok", 3, 6, "chat")
    assert line.admitted_s is not None
    assert line.first_s is not None
    assert line.ended_s is not None
    assert before <= line.received_s <= line.admitted_s < line.first_s < line.ended_s <= line.written_s
    assert line.ended_s <= after
    first = next(event for event in answer.events if '"w0 "' in event.raw)
    assert line.first_s <= first.at_s  # no token is there before the GPU could have given it
    assert line.ended_s <= answer.events[-1].at_s
    assert honest.decode_s is not None
    assert line.ended_s - line.first_s == pytest.approx(5 * honest.decode_s, rel=0.05)  # a token alone takes what was said


def test_a_prompt_that_was_there_before_is_found_unless_it_is_salted(honest: ServerFacts) -> None:
    before = metrics(honest)
    cached = [
        json.loads(post(honest, CHAT, ask(CHAT, WORDS, 1, **salt)).text)["usage"]["prompt_tokens_details"]["cached_tokens"]
        for salt in ({}, {}, {"cache_salt": "x"}, {"cache_salt": "x"})
    ]
    after = metrics(honest)
    assert cached == [0, 1024, 0, 1024]
    assert after["vllm:prefix_cache_hits_total"] - before["vllm:prefix_cache_hits_total"] == 2048
    assert after["vllm:prefix_cache_queries_total"] - before["vllm:prefix_cache_queries_total"] == 4800


def test_metrics_are_vllm_s_and_add_up(honest: ServerFacts) -> None:
    text = get(honest, "/metrics")[1]
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) [\w:]+ .+|[\w:]+\{[^}]*\} [-+\d.einf]+", line), line
    before = metrics(honest)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: post(honest, TEXT, stream(TEXT, f"number {i}", 4)), range(24)))
    after = metrics(honest)
    change = {name: after[name] - before[name] for name in after}
    assert [answer.content for answer in answers] == ["w0 w1 w2 w3 "] * 24
    assert (change["vllm:prompt_tokens_total"], change["vllm:generation_tokens_total"]) == (48, 96)
    assert change['vllm:request_success_total{finished_reason="length"}'] == 24
    for name, count in (("time_to_first_token", 24), ("inter_token_latency", 72), ("e2e_request_latency", 24), ("request_queue_time", 24)):
        assert change[f"vllm:{name}_seconds_count"] == change[f'vllm:{name}_seconds_bucket{{le="+Inf"}}'] == count
    whole = sum(change[f"vllm:request_{part}_time_seconds_sum"] for part in ("queue", "prefill", "decode"))
    assert whole == pytest.approx(change["vllm:e2e_request_latency_seconds_sum"], rel=1e-9)
    assert (after["vllm:num_requests_running"], after["vllm:num_requests_waiting"]) == (0, 0)


def test_one_connection_serves_many_requests_also_at_once(honest: ServerFacts) -> None:
    body = json.dumps(ask(TEXT, "a b", 2)).encode()
    head = f"POST {TEXT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    chunked = f"POST {TEXT} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n".encode()
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:10], body[10:])) + b"0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(honest.url.rsplit(":", 1)[1])), timeout=30) as sock:
        sock.sendall(head + body + head + body + chunked + pieces)
        text = b""
        while more := sock.recv(65536):
            text += more
    assert text.count(b"HTTP/1.1 200 OK") == 3
    assert text.count(b'"completion_tokens": 2') == 3


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (CHAT, b"{", 400, "no JSON"),
        (CHAT, [], 400, "no object"),
        (CHAT, {**ask(CHAT, "a", 1), "model": "gpt-9"}, 404, "The model `gpt-9` does not exist."),
        (CHAT, {"model": MODEL, "messages": []}, 400, "list of messages"),
        (CHAT, ask(CHAT, "", 1), 400, "a token at least"),
        (CHAT, ask(CHAT, "a", 0), 400, "whole number from 1"),
        (CHAT, ask(CHAT, "a", 5000), 400, "maximum context length is 4096 tokens, and you asked for 5001 tokens: 1 of the prompt"),
        (CHAT, ask(CHAT, "a", 1, stream_options={"include_usage": True}), 400, "go with stream"),
        (TEXT, ask(TEXT, "a", 1, n=2), 400, "one prompt and one answer"),
        (TEXT, {"model": MODEL, "prompt": {}}, 400, "a text, token ids, or a list"),
        (TEXT, {"model": MODEL, "prompt": ["a", "b"]}, 400, "one prompt"),
        ("/v1/nothing", {}, 404, "there is no /v1/nothing"),
        ("/metrics", {}, 405, "takes GET"),
    ],
)  # fmt: skip
def test_a_wrong_request_gets_an_error_that_says_why(honest: ServerFacts, path: str, body: Any, status: int, words: str) -> None:
    answer = post(honest, path, body)
    assert (answer.status, json.loads(answer.text)["error"]["code"]) == (status, status)
    assert words in json.loads(answer.text)["error"]["message"]


def test_what_is_no_http_is_answered_and_closed(honest: ServerFacts) -> None:
    port = int(honest.url.rsplit(":", 1)[1])
    for sent, status in ((b"hello\r\n\r\n", b"400"), (b"GET / HTTP/1.0\r\n\r\n", b"505"), (b"x" * 70000, b"431"), (b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", b"413")):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
            sock.sendall(sent)
            assert sock.recv(65536).startswith(b"HTTP/1.1 " + status)
    assert get(honest, "/health") == (200, "")


def test_a_client_that_leaves_gives_back_what_it_held(honest: ServerFacts) -> None:
    body = json.dumps(stream(CHAT, "stay", 3000)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nx-request-id: leaver\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", int(honest.url.rsplit(":", 1)[1])), timeout=30) as sock:
        sock.sendall(head + body)
        assert sock.recv(100)
    until = time.monotonic() + 30
    while not (left := [line for line in lines(honest.log) if line.id == "leaver"]) and time.monotonic() < until:
        time.sleep(0.02)
    assert left[0].outcome == "aborted"
    assert left[0].output_tokens < 3000
    after = metrics(honest)
    assert (after["vllm:num_requests_running"], after["vllm:kv_cache_usage_perc"]) == (0, 0)
    assert after['vllm:request_success_total{finished_reason="abort"}'] == 1


def test_what_it_says_of_itself(honest: ServerFacts) -> None:
    (model,) = json.loads(get(honest, "/v1/models")[1])["data"]
    assert (model["id"], model["max_model_len"]) == (MODEL, 4096)
    assert honest.url.startswith("http://127.0.0.1:")


# ---------------------------------------------------------------- its end


def gone(facts: ServerFacts) -> bool:
    """Nobody listens there any more, waited for at most 30 s."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", int(facts.url.rsplit(":", 1)[1]))):
                return True
        time.sleep(0.02)
    return False


@pytest.mark.slow("starts processes")
def test_sigterm_ends_it_and_its_log_says_what_was_open(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with started(replace(SMALL, log=str(log))) as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(post, server.facts, CHAT, stream(CHAT, "long", 4000))
        while not metrics(server.facts)["vllm:num_requests_running"]:
            time.sleep(0.01)
        assert end(server.process) == 0
        assert answer.result().cut
    assert [line.outcome for line in lines(log)] == ["aborted"]
    assert gone(server.facts)


@pytest.mark.slow("starts processes")
def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = "import sys\nfrom hotlap.serving.simulated import options, starting\n"
    program += "with starting.started(options.decode(sys.argv[1])) as s:\n    print(s.facts.url, s.facts.pid, flush=True)\n    input()\n"
    parent = subprocess.Popen([sys.executable, "-c", program, encode(SMALL)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    url, pid = parent.stdout.readline().split()
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert parent.stdin is not None
    parent.stdin.close()
    facts = ServerFacts(url=url, pid=int(pid), model="", gpu="", tp=1, kv_tokens=0, context=0, batch=0, chunk=0, usual=0, decode_s=None, prefill_s=0)
    assert gone(facts)


@pytest.mark.slow("starts a process")
def test_it_ends_after_its_time_and_says_why_it_does_not_start() -> None:
    with started(replace(SMALL, for_s=0.05)) as server:
        assert server.process.wait(30) == 0
    with pytest.raises(InputError, match="there is no network 'llama-9'"), started(replace(SMALL, model="llama-9")):
        pass


def test_it_listens_on_loopback_alone_and_on_a_free_port() -> None:
    for host in ("0.0.0.0", "::", "192.168.0.1", "localhost", ""):
        with pytest.raises(InputError, match=r"listens on 127\.0\.0\.1 alone"):
            served(replace(SMALL, host=host), lambda facts: None)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(MachineError, match="cannot be used: Address already in use"):
        served(replace(SMALL, port=taken.getsockname()[1]), lambda facts: None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "resnet-50"}, "no stack of transformer layers"),
        ({"gpu": "h900"}, "h900"),
        ({"faults": ("stal",)}, "did you mean 'stall'"),
        ({"chunk": 8}, "take a chunk of 16 or more"),
        ({"context": 10**7}, "does not fit: there is memory for 90"),
        ({"model": "llama-3-405b"}, "take a larger --tp"),
        ({"tp": 3}, "cannot be cut into 3"),
        ({"dtype": "mxfp4"}, "is described in bf16"),
        ({"log": "/no/such/folder/x"}, "cannot be written"),
        ({"port": 70000}, "a port is"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(HotlapError, match=words):
        served(replace(SMALL, **change), lambda facts: None)


def test_an_address_says_the_same_as_options() -> None:
    got = parse("simulated:h200-sxm?model=llama-3-8b&tp=2&chunk=1k&fault=stall,drift&fault=refuse")
    assert (got.gpu, got.model, got.tp, got.chunk, got.faults) == ("h200-sxm", "llama-3-8b", 2, 1024, ("stall", "drift", "refuse"))
    for text, words in (("simulated:h200-sxm", "names no model"), ("simulated:?model=x", "names no GPU"), ("simulated:x?modle=y", "did you mean 'model'"), ("simulated:x?model=y&tp=a", "whole number")):
        with pytest.raises(InputError, match=words):
            parse(text)


def test_an_encoder_embeds_and_does_no_more() -> None:
    def client(facts: ServerFacts) -> tuple[Answer, Answer]:
        assert (facts.kv_tokens, facts.decode_s, facts.context) == (None, None, 512)
        given = {"model": "bert-base", "input": ["a b c"] * 3}
        return post(facts, EMBED, given), post(facts, TEXT, {"model": "bert-base", "prompt": "a", "max_tokens": 1})

    vectors, text = served(replace(SMALL, model="bert-base", context=0), client)
    assert len(json.loads(vectors.text)["data"]) == 3
    assert (text.status, "is an encoder" in text.text) == (400, True)
