"""OpenAI's formats: what a request asks for, and what is answered. Words are tokens: a prompt has as many as it has words.

Sources: the API reference of OpenAI for completions, chat completions and embeddings; `ignore_eos`, `continuous_usage_stats`, `cache_salt`,
and prompts as lists of token ids are vLLM's.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hotlap.serving.record import API
from hotlap.serving.simulated.memory import BLOCK

USUAL_OUTPUT = {"completions": 16, "chat": 128, "embeddings": 0}  # tokens where none are asked for: OpenAI's 16, and a choice for chat
MOST_INPUTS = 2048  # of one request for embeddings: OpenAI's limit
DONE = b"data: [DONE]\n\n"


class Refusal(Exception):
    """An answer that is an error, with its status and its type."""

    def __init__(self, status: int, text: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.kind, self.param = status, text, kind, param

    @property
    def body(self) -> bytes:
        return json.dumps({"error": {"message": self.text, "type": self.kind, "param": self.param, "code": self.status}}).encode()


class Ask(NamedTuple):
    """One request, read. `inputs`: tokens of each prompt, one but for embeddings."""

    api: API
    inputs: list[list[Any]]
    output_tokens: int
    finish: str  # length where as many are asked for, stop where the server chose
    stream: bool
    usage: bool  # a last event with it
    continuous: bool  # in every event
    salt: str
    as_base64: bool = False


def read(api: API, body: bytes, model: str, longest: int) -> Ask:
    """`longest`: tokens of a request, its answer with them. Raises Refusal."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is no JSON") from None
    if not isinstance(given, dict):
        raise Refusal(400, "the body is no object of JSON")
    if given.get("model", model) != model:
        raise Refusal(404, f"The model `{given['model']}` does not exist.", "NotFoundError", "model")
    inputs = _chat(given) if api == "chat" else _prompts(given, "prompt" if api == "completions" else "input")
    if given.get("n", 1) != 1 or (api != "embeddings" and len(inputs) != 1):
        raise Refusal(400, "one prompt and one answer a request", param="n")
    output, finish = _output(given, api)
    for tokens in inputs:
        if not tokens:
            raise Refusal(400, "a prompt has a token at least")
        if len(tokens) + output > longest:
            total = f"{len(tokens) + output} tokens: {len(tokens)} of the prompt and {output} of the answer"
            raise Refusal(400, f"This model's maximum context length is {longest} tokens, and you asked for {total}.")
    options = given.get("stream_options") or {}
    if not isinstance(options, dict):
        raise Refusal(400, "stream_options is an object", param="stream_options")
    stream = bool(given.get("stream", False)) and api != "embeddings"
    if options and not stream:
        raise Refusal(400, "stream_options go with stream", param="stream_options")
    return Ask(
        api, inputs, output, finish, stream, bool(options.get("include_usage")), bool(options.get("continuous_usage_stats")),
        str(given.get("cache_salt") or ""), given.get("encoding_format") == "base64",
    )  # fmt: skip


def _output(given: Mapping[str, Any], api: API) -> tuple[int, str]:
    if api == "embeddings":
        return 0, ""
    name = "max_completion_tokens" if given.get("max_completion_tokens") is not None else "max_tokens"
    asked = given.get(name)
    if asked is None:
        return USUAL_OUTPUT[api], "length" if api == "completions" else "stop"
    if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
        raise Refusal(400, f"{name} is a whole number from 1", param=name)
    return asked, "length"


def _chat(given: Mapping[str, Any]) -> list[list[Any]]:
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise Refusal(400, "messages is a list of messages, one at least", param="messages")
    words: list[Any] = []
    for message in messages:
        content = message.get("content") or ""
        if not isinstance(content, str | list):
            raise Refusal(400, "the content of a message is a text or a list of parts", param="messages")
        parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content if isinstance(part, dict)]
        for part in parts:
            words += str(part).split()
    return [words]


def _prompts(given: Mapping[str, Any], name: str) -> list[list[Any]]:
    """A text, token ids, or lists of either."""
    prompt = given.get(name)
    if isinstance(prompt, str):
        return [prompt.split()]
    if not isinstance(prompt, list) or not prompt or len(prompt) > MOST_INPUTS:
        if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
            return [prompt]
        raise Refusal(400, f"{name} is a text, token ids, or a list of up to {MOST_INPUTS} of either", param=name)
    if all(isinstance(token, int) for token in prompt):
        return [prompt]
    if all(isinstance(text, str) for text in prompt):
        return [text.split() for text in prompt]
    if all(isinstance(ids, list) and all(isinstance(token, int) for token in ids) for ids in prompt):
        return [list(ids) for ids in prompt]
    raise Refusal(400, f"{name} is a text, token ids, or a list of either", param=name)


def blocks(tokens: Sequence[Any], salt: str = "") -> tuple[int, ...]:
    """Of whole blocks of a prompt: each a hash of its tokens and of all before them, so that equal hashes are equal beginnings."""
    before, hashes = salt.encode(), list[int]()
    for first in range(0, len(tokens) - BLOCK + 1, BLOCK):
        text = "\x1f".join(map(str, tokens[first : first + BLOCK])).encode()
        before = hashlib.blake2b(before + b"\x1e" + text, digest_size=8).digest()
        hashes.append(int.from_bytes(before, "big"))
    return tuple(hashes)


def usage(input_tokens: int, output_tokens: int, cached: int, reasoning: int = 0) -> dict[str, Any]:
    counted: dict[str, Any] = {
        "prompt_tokens": input_tokens, "completion_tokens": output_tokens, "total_tokens": input_tokens + output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached},
    }  # fmt: skip
    return {**counted, "completion_tokens_details": {"reasoning_tokens": reasoning}} if reasoning else counted


def word(place: int) -> str:
    """The text of a token of an answer, `place` from 0."""
    return f"w{place} "


class AnswerForm:
    """The events and the answer of one request for text."""

    def __init__(self, ask: Ask, id: str, model: str, created: int) -> None:
        self.chat, self.with_usage, self.continuous = ask.api == "chat", ask.usage, ask.continuous
        kind = "text_completion" if not self.chat else "chat.completion.chunk" if ask.stream else "chat.completion"
        self.head = {"id": id, "object": kind, "created": created, "model": model}

    def event(self, piece: Mapping[str, str] | str, finish: str | None, counted: Mapping[str, Any] | None) -> bytes:
        """One event. `piece`: of chat a delta, else a text."""
        choice = {"index": 0, **({"delta": piece} if self.chat else {"text": piece}), "logprobs": None, "finish_reason": finish}
        return self._event({**self.head, "choices": [choice], **self._counted(counted)})

    def _counted(self, counted: Mapping[str, Any] | None) -> dict[str, Any]:
        """With `include_usage` every event has the key, null but in the last: OpenAI's reference of stream_options."""
        return {"usage": counted if self.continuous else None} if self.with_usage or self.continuous else {}

    def usage_event(self, counted: Mapping[str, Any]) -> bytes:
        return self._event({**self.head, "choices": [], "usage": counted})

    @staticmethod
    def _event(content: Mapping[str, Any]) -> bytes:
        return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"

    def whole(self, text: str, reasoning: str, finish: str, counted: Mapping[str, Any] | None) -> bytes:
        """The answer that is not streamed."""
        message = {"role": "assistant", "content": text, **({"reasoning_content": reasoning} if reasoning else {})}
        choice = {"index": 0, **({"message": message} if self.chat else {"text": text}), "logprobs": None, "finish_reason": finish}
        return json.dumps({**self.head, "choices": [choice], **({"usage": counted} if counted else {})}).encode()


def embeddings(ask: Ask, model: str, width: int, counted: Mapping[str, Any] | None) -> bytes:
    """A vector of length 1 for each input, by its words alone."""
    data, item = [], ask.api.removesuffix("s")
    for index, tokens in enumerate(ask.inputs):
        seed = int.from_bytes(hashlib.blake2b("\x1f".join(map(str, tokens)).encode(), digest_size=8).digest(), "big")
        vector = np.random.default_rng(seed).standard_normal(width).astype("<f4")
        vector /= np.linalg.norm(vector)
        written: Any = base64.b64encode(vector.tobytes()).decode() if ask.as_base64 else vector.tolist()
        data.append({"object": item, "index": index, item: written})
    return json.dumps({"object": "list", "data": data, "model": model, **({"usage": counted} if counted else {})}).encode()
