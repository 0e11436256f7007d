"""What a simulated server says of itself, and of each request in its log."""

from __future__ import annotations

from typing import Literal

from hotlap.core.record import Record
from hotlap.serving.record import API

Ended = Literal["ok", "invalid", "refused", "reset", "aborted"]


class ServerFacts(Record, frozen=True, kw_only=True):
    """What is printed when it listens."""

    url: str
    pid: int
    model: str
    gpu: str
    tp: int
    kv_tokens: int | None  # that the cache of keys and values holds; None: an encoder, which keeps none
    context: int
    batch: int
    chunk: int
    usual: int  # tokens of the prompt that the next two are of
    decode_s: float | None  # a token of one sequence alone; None: it does not decode
    prefill_s: float  # its prompt alone
    faults: tuple[str, ...] = ()
    log: str = ""


class ServerLine(Record, frozen=True, kw_only=True):
    """One request as the server saw it, a line of its log. Seconds of CLOCK_MONOTONIC, as `time.monotonic` of any process here. The
    engine's moments are those of the GPU that is simulated; `received_s` and `written_s` are this process' own."""

    id: str
    index: int
    api: API
    received_s: float  # the request was read whole
    admitted_s: float | None = None  # its first step began
    first_s: float | None = None  # the step that gave its first token ended
    ended_s: float | None = None  # and that of its last
    written_s: float  # the last byte was handed to the socket
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    outcome: Ended
    faults: tuple[str, ...] = ()  # those that it met
