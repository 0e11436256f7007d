"""Prompts of a length asked for, without a tokenizer: common words, whose tokens the server itself counts in two requests."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import msgspec

from hotlap.serving.address import PATHS, Address
from hotlap.serving.record import Planned, ServingAsked

_TEXT = """
time year people way day man thing woman life child world school state family student group country problem hand part place case
week company system program question work government number night point home water room mother area money story fact month lot
right study book eye job word business issue side kind head house service friend father power hour game line end member
"""
WORDS = tuple(_TEXT.split())
BLOCK = 512  # tokens of a shared block of a prefix


class Words(NamedTuple):
    """How many words make so many tokens: tokens = fixed + each · words, by the server's own count of two prompts."""

    fixed: float = 0.0
    each: float = 1.0

    def count(self, tokens: int) -> int:
        return max(round((tokens - self.fixed) / self.each), 1)


def text(planned: Planned, asked: ServingAsked, words: Words) -> str:
    """Unlike any other: it begins with the run's salt and its own number, save where the traffic says that blocks are shared, the last as
    far as the input goes."""
    own = random.Random(f"{asked.salt}/{asked.seed}/{planned.index}")
    block, prefix = words.count(BLOCK), planned.prompt.prefix
    shared = [word for number in prefix for word in random.Random(f"{asked.salt}/block/{number}").choices(WORDS, k=block)]
    whole = words.count(planned.prompt.input_tokens)
    return " ".join([*shared[:whole], *own.choices(WORDS, k=max(whole - len(shared), 0))])


def every_word(asked: ServingAsked, times: int) -> str:
    """All of WORDS, so often, in an order of this run's own: what they have in common with any other prompt is their mean length."""
    words = random.Random(f"{asked.salt}/words").sample(WORDS, k=len(WORDS))
    return " ".join(words * times)


def payload(asked: ServingAsked, prompt: str, output_tokens: int, dialect: int = 0) -> dict[str, Any]:
    """The body of a request. `dialect`: 0 asks for token counts as they come (vLLM), 1 at the end (OpenAI), 2 not at all."""
    if asked.api == "embeddings":
        return {"model": asked.model, "input": prompt}
    body: dict[str, Any] = {"model": asked.model, "max_tokens": output_tokens, "temperature": 0, "stream": True}
    body |= {"messages": [{"role": "user", "content": prompt}]} if asked.api == "chat" else {"prompt": prompt}
    if dialect < 2:
        body["stream_options"] = {"include_usage": True, **({"continuous_usage_stats": True} if dialect == 0 else {})}
    if asked.ignore_eos:
        body["ignore_eos"] = True
    return body


def request(address: Address, asked: ServingAsked, body: dict[str, Any], headers: dict[str, str], name: str) -> bytes:
    """The bytes of a request. `name` goes into X-Request-Id."""
    content = msgspec.json.encode(body)
    lines = {
        "Host": address.authority, "Content-Type": "application/json", "Content-Length": str(len(content)),
        "Accept": "application/json" if asked.api == "embeddings" else "text/event-stream", "X-Request-Id": name, **headers,
    }  # fmt: skip
    head = "".join(f"{key}: {value}\r\n" for key, value in lines.items())
    return f"POST {address.base}{PATHS[asked.api]} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + content
