"""Recorded traffic: when requests arrived, how long they were, which prefixes they share. The content says which format it is.

- Azure LLM inference (Azure/AzurePublicDataset): CSV `TIMESTAMP,ContextTokens,GeneratedTokens`, times to 100 ns.
- Mooncake (kvcache-ai/Mooncake): a JSON object a line: `timestamp` in ms, `input_length`, `output_length`, `hash_ids` of blocks of 512.
- BurstGPT (HPMLL/BurstGPT): CSV `Timestamp` in s, `Request tokens`, `Response tokens`, and others.
- ShareGPT: JSON conversations. It holds no times and no tokens: those of the first exchange are taken as a quarter of its characters.

Requests without an answer (BurstGPT's failures) are left out and counted.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Source
from hotlap.serving.record import Planned, Prompt, Schedule

BLOCK = 512  # tokens of a block that a hash id stands for
MOST = 10**9  # tokens of one request
CHARACTERS = 4  # of a token, about, in English: only where no tokens were kept
AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
BURSTGPT = ("Timestamp", "Request tokens", "Response tokens")
MOONCAKE = ("timestamp", "input_length", "output_length")
VALID = f"Azure ({', '.join(AZURE)}), BurstGPT ({', '.join(BURSTGPT)}), Mooncake (JSON lines: {', '.join(MOONCAKE)}) and ShareGPT are read"
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class TrafficTrace:
    """Requests in the order of arrival. Arrays have shape (requests,)."""

    name: str
    format: str
    times_s: Floats | None  # from the first request's; None: no times were kept
    input_tokens: Counts
    output_tokens: Counts
    prefix: tuple[tuple[int, ...], ...] = ()  # ids of blocks of 512 tokens from the beginning; (): none were kept
    left_out: int = 0  # requests without an answer
    estimated: bool = False  # tokens, from characters


class _Row(NamedTuple):
    time_s: float
    input: int
    output: int
    prefix: tuple[int, ...]


def read(path: Path) -> TrafficTrace:
    """A trace of any of the formats, gzipped or not. Raises InputError that names the row: of times that are not numbers, negative or fall,
    of lengths below one, and of more hash ids than the input has blocks."""
    source = Source.open(path)
    if isinstance(source.json, list):
        return _sharegpt(source)
    if source.data.lstrip(b"\xef\xbb\xbf \r\n")[:1] == b"{":
        return _assembled(source, "Mooncake", _mooncake(source))
    header = next(csv.reader(io.StringIO(source.decoded[:4096])), [])
    if set(header) & set(BURSTGPT):
        return _assembled(source, "BurstGPT", _burstgpt(source))
    if set(header) & set(AZURE):
        return _assembled(source, "Azure", _azure(source))
    shown = ", ".join(header)[:60]
    raise InputError(f"{path}: no trace that is known; its columns are {shown}. {VALID}" if shown else f"{path}: it is empty. {VALID}")


def schedule(trace: TrafficTrace, seed: int = 0) -> Schedule:
    """As recorded, from 0 s on. Raises InputError for a trace without times, which needs --arrivals."""
    if trace.times_s is None:
        raise InputError(f"{trace.name}: {trace.format} holds no times; give the arrivals, as in --arrivals poisson:8")
    pairs = enumerate(zip(trace.times_s.tolist(), prompts(trace), strict=True))
    planned = tuple(Planned(index=at, due_s=due, prompt=prompt) for at, (due, prompt) in pairs)
    return Schedule(arrivals="trace", seed=seed, planned=planned)


def prompts(trace: TrafficTrace) -> Iterator[Prompt]:
    """Of each request, in order. The last block of a prefix may reach past its input: it is shared as far as that goes."""
    shared: Sequence[tuple[int, ...]] = trace.prefix or [()] * len(trace.input_tokens)
    for asked, wanted, prefix in zip(trace.input_tokens.tolist(), trace.output_tokens.tolist(), shared, strict=True):
        yield Prompt(input_tokens=asked, output_tokens=wanted, prefix=prefix)


def _assembled(source: Source, kind: str, rows: Iterator[_Row | None]) -> TrafficTrace:
    kept: list[_Row] = []
    left_out = 0
    for row in rows:
        if row is None:
            left_out += 1
        else:
            kept.append(row)
    if not kept:
        raise InputError(f"{source.path}: it holds no request" + (f" with an answer ({left_out} without)" if left_out else ""))
    times = np.array([row.time_s for row in kept])
    prefix = tuple(row.prefix for row in kept)
    return TrafficTrace(
        source.path.name, kind, times - times[0], np.array([row.input for row in kept]), np.array([row.output for row in kept]),
        prefix if any(prefix) else (), left_out,
    )  # fmt: skip


# ---------------------------------------------------------------- formats


def _mooncake(source: Source) -> Iterator[_Row | None]:
    before = -math.inf
    for line, text in enumerate(source.decoded.splitlines(), 1):
        if not text.strip():
            continue
        place = f"{source.path}, row {line}"
        try:
            row = json.loads(text)
        except ValueError as error:
            raise InputError(f"{place}: no JSON object ({error})") from None
        if missing := [name for name in MOONCAKE if not isinstance(row, dict) or name not in row]:
            raise InputError(f"{place}: it has no {', '.join(missing)}; a row is {{{', '.join(MOONCAKE)}, hash_ids}}")
        time_s = _time(row["timestamp"], f"{place}, timestamp") / 1e3
        before = _sorted(time_s, before, place)
        yield _lengths(time_s, row["input_length"], row["output_length"], place, _ids(row.get("hash_ids"), place))


def _ids(given: Any, place: str) -> tuple[int, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(type(value) is int and 0 <= value < 2**62 for value in given):
        raise InputError(f"{place}: hash_ids is a list of whole numbers from 0 on, not {str(given)[:40]}")
    return tuple(given)


def _azure(source: Source) -> Iterator[_Row | None]:
    before = -math.inf
    start: datetime | None = None
    for place, row in _table(source, AZURE):
        moment, share = _moment(row["TIMESTAMP"], f"{place}, TIMESTAMP")
        start = start or moment
        before = _sorted((moment - start).total_seconds() + share, before, place)
        yield _lengths(before, row["ContextTokens"], row["GeneratedTokens"], place)


def _moment(text: str, place: str) -> tuple[datetime, float]:
    """A whole second, and what is beyond it: datetime holds microseconds, the trace tenths of them."""
    whole, _, rest = text.strip().partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    try:
        moment = datetime.fromisoformat(whole + rest[digits:])
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC), float(f"0.{rest[:digits] or 0}")
    except ValueError:
        raise InputError(f"{place}: {text[:40]!r} is no time as in 2023-11-16 18:17:03.9799600") from None


def _burstgpt(source: Source) -> Iterator[_Row | None]:
    before = -math.inf
    for place, row in _table(source, BURSTGPT):
        before = _sorted(_time(row["Timestamp"], f"{place}, Timestamp"), before, place)
        yield _lengths(before, row["Request tokens"], row["Response tokens"], place)


def _table(source: Source, needed: Sequence[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    rows = csv.reader(io.StringIO(source.decoded))
    header = next(rows)
    if missing := [name for name in needed if name not in header]:
        raise InputError(f"{source.path}: its columns are {', '.join(header)}; {', '.join(missing)} is missing")
    try:
        for row in rows:
            if row:
                place = f"{source.path}, row {rows.line_num}"
                if len(row) != len(header):
                    raise InputError(f"{place}: {len(row)} fields, but {len(header)} columns")
                yield place, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise InputError(f"{source.path}, row {rows.line_num}: no CSV ({error})") from None


def _sharegpt(source: Source) -> TrafficTrace:
    """The first exchange of each conversation, as vLLM's and SGLang's benchmarks take it."""
    asked: list[int] = []
    wanted: list[int] = []
    for at, row in enumerate(source.json, 1):
        turns = row.get("conversations") if isinstance(row, dict) else None
        if not isinstance(turns, list) or not all(isinstance(turn, dict) and isinstance(turn.get("value"), str) for turn in turns):
            raise InputError(f"{source.path}, conversation {at}: 'conversations' is a list of turns, each with a text 'value'. {VALID}")
        if len(turns) > 1 and turns[0]["value"] and turns[1]["value"]:
            asked.append(math.ceil(len(turns[0]["value"]) / CHARACTERS))
            wanted.append(math.ceil(len(turns[1]["value"]) / CHARACTERS))
    if not asked:
        raise InputError(f"{source.path}: it holds no conversation of two turns")
    without = len(source.json) - len(asked)
    return TrafficTrace(source.path.name, "ShareGPT", None, np.array(asked), np.array(wanted), left_out=without, estimated=True)


# ---------------------------------------------------------------- values


def _number(given: Any, place: str) -> float:
    try:
        value = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        raise InputError(f"{place}: {str(given)[:40]!r} is not a number") from None
    if not math.isfinite(value):
        raise InputError(f"{place}: {given} is not a finite number")
    return value


def _time(given: Any, place: str) -> float:
    value = _number(given, place)
    if value < 0:
        raise InputError(f"{place}: {value:g} is negative; times count from the trace's beginning")
    return value


def _sorted(time_s: float, before: float, place: str) -> float:
    if time_s < before:
        raise InputError(f"{place}: it arrives {before - time_s:g} s before the row above it; sort the trace by time")
    return time_s


def _lengths(time_s: float, asked: Any, wanted: Any, place: str, prefix: tuple[int, ...] = ()) -> _Row | None:
    """None for a request without an answer. Raises InputError for lengths and hash ids that cannot be."""
    tokens, answer = _number(asked, f"{place}, input"), _number(wanted, f"{place}, output")
    for what, value in (("input", tokens), ("output", answer)):
        if not 0 <= value <= MOST or value != int(value):
            raise InputError(f"{place}, {what}: {value:g} tokens; a whole number from 0 to {MOST:,} is needed")
    if answer == 0:
        return None
    if tokens == 0:
        raise InputError(f"{place}, input: 0 tokens, but an answer of {answer:g}")
    most = math.ceil(tokens / BLOCK)
    if len(prefix) > most:
        why = f"{len(prefix)} hash ids, but {tokens:g} tokens have {most} block{'s' if most > 1 else ''} of {BLOCK}"
        raise InputError(f"{place}: {why}; are its blocks of another size?")
    return _Row(time_s, int(tokens), int(answer), prefix)
