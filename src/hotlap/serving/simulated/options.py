"""What a simulated server is asked to be: by options, or by an address as simulated:h200-sxm?model=llama-3-8b&tp=1&fault=stall."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import msgspec

from hotlap.core.errors import InputError, nearest
from hotlap.core.record import Record
from hotlap.core.work.networks import steps
from hotlap.serving.simulated.faults import FAULTS

SCHEME = "simulated:"
HOST = "127.0.0.1"
COUNTS = ("tp", "batch", "chunk", "context")


class ServerOptions(Record, frozen=True, kw_only=True):
    """`gpu`: of the machine table; `model`: a network. What is 0 or "" is chosen: a free port, the longest context that fits."""

    gpu: str
    model: str
    tp: int = 1
    dtype: str = "bf16"
    kv_dtype: str = "bf16"
    batch: int = 256  # sequences of a step at most
    chunk: int = 8192  # tokens of a step at most, of all sequences together
    context: int = 0  # tokens of a request at most, its answer with them
    faults: tuple[str, ...] = ()
    host: str = HOST
    port: int = 0
    log: str = ""  # a file: one line of JSON for each request that ended
    for_s: float | None = None  # it ends by itself after so long
    calibration: str = ""
    spec_only: bool = False


def is_address(text: str) -> bool:
    return text.startswith(SCHEME)


def parse(text: str) -> ServerOptions:
    """The options of an address. Raises InputError for a key or value that is none."""
    gpu, _, query = text.removeprefix(SCHEME).partition("?")
    given: dict[str, Any] = {"gpu": gpu}
    faults: list[str] = []
    valid = ("model", "fault", "dtype", "kv_dtype", *COUNTS)
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in valid:
            raise InputError(f"{text}: no option '{key}'; {nearest(key, valid)}")
        if key == "fault":
            faults += value.split(",")
        else:
            given[key] = steps.count(value, f"{text}: {key}", several=False) if key in COUNTS else value
    if not gpu or not given.get("model"):
        raise InputError(f"'{text}' names no {'model' if gpu else 'GPU'}; as in {SCHEME}h200-sxm?model=llama-3-8b&tp=1")
    return checked(ServerOptions(**given, faults=tuple(faults)))


def checked(options: ServerOptions) -> ServerOptions:
    """The same. Raises InputError for what no server can be."""
    for fault in options.faults:
        if fault not in FAULTS:
            raise InputError(f"there is no fault '{fault}'; {nearest(fault, FAULTS)}")
    if options.host != HOST:
        raise InputError(f"a simulated server listens on {HOST} alone, not on {options.host}: leave the address out")
    if not 0 <= options.port <= 65535:
        raise InputError(f"a port is 1 to 65535, or 0 for a free one, not {options.port}")
    if options.chunk < options.batch:
        raise InputError(f"a step of {options.chunk} tokens cannot hold {options.batch} sequences: take a chunk of {options.batch} or more")
    return options


def encode(options: ServerOptions) -> str:
    return msgspec.json.encode(options).decode()


def decode(text: str) -> ServerOptions:
    """Raises InputError."""
    try:
        return checked(msgspec.json.decode(text, type=ServerOptions))
    except msgspec.MsgspecError as error:
        raise InputError(f"these are no options of a simulated server: {error}") from None
