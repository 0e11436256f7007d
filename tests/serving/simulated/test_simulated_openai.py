"""How requests are read: what they ask for, or why they are refused, whatever they hold."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.serving.record import API
from hotlap.serving.simulated import openai
from hotlap.serving.simulated.memory import BLOCK
from hotlap.serving.simulated.openai import Refusal

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "text", "x"]), inner, max_size=3), max_leaves=6,
)  # fmt: skip
KEYS = (
    "model", "messages", "prompt", "input", "max_tokens", "max_completion_tokens", "n", "stream", "stream_options", "cache_salt", "encoding_format"
)  # fmt: skip


@given(st.sampled_from(get_args(API)), st.dictionaries(st.sampled_from(KEYS), ANY) | ANY)
def test_whatever_comes_is_read_or_refused(api: API, body: Any) -> None:
    refused: Refusal | None = None
    try:
        ask = openai.read(api, json.dumps(body).encode(), "m", 100)
        assert all(1 <= len(tokens) <= 100 - ask.output_tokens for tokens in ask.inputs)
    except Refusal as error:
        refused = error
    assert refused is None or (refused.status in (400, 404) and json.loads(refused.body)["error"]["message"])


@given(st.binary(max_size=50))
def test_bytes_that_are_no_json_are_refused(body: bytes) -> None:
    with pytest.raises(Refusal, match=r"JSON|list of messages"):
        openai.read("chat", body, "m", 100)


def test_what_is_asked_for() -> None:
    body = {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "a b c"}]}]}
    ask = openai.read("chat", json.dumps({**body, "max_completion_tokens": 7, "max_tokens": 9}).encode(), "m", 100)
    assert (ask.inputs, ask.output_tokens, ask.finish, ask.stream) == ([["be", "brief", "a", "b", "c"]], 7, "length", False)
    assert openai.read("completions", b'{"prompt": "a"}', "m", 100).output_tokens == 16


def test_equal_beginnings_have_equal_blocks() -> None:
    words = [f"w{place}" for place in range(3 * BLOCK + 5)]
    other = [*words[: 2 * BLOCK], "another", *words[2 * BLOCK + 1 :]]
    assert len(openai.blocks(words)) == 3
    assert openai.blocks(words)[:2] == openai.blocks(other)[:2]
    assert openai.blocks(words)[2] != openai.blocks(other)[2]
    assert not set(openai.blocks(words)) & set(openai.blocks(words, "salt"))
    assert not set(openai.blocks(words)) & set(openai.blocks(["x", *words[1:]]))  # all later ones are of another beginning
    assert openai.blocks(words[: BLOCK - 1]) == ()
