"""What is kept of requests to a server. Every time is in seconds from the run's beginning, on the client's monotonic clock.

    Schedule → Request (+ times of its chunks) → Attainment

A latency counts from `due_s`, when the schedule wanted the request sent: a client that sends late, or that waits for a connection of
its own, makes its users wait as well. What other tools print counts from `sent_s`, and is derived from the same record.
"""

from __future__ import annotations

from typing import Literal

from hotlap.core.record import Notice, Record

Outcome = Literal["ok", "error", "refused", "timeout", "censored"]
FILE = "requests.jsonl"  # of a bundle: one Request a line, appended as they end
PACKED = "requests.parquet"  # of a bundle, in place of FILE once the run has ended, where there are many
SESSION = "serving.json"  # of a bundle: one Served
CHUNKS = "chunks.bin"  # of a bundle: times of chunks after the first, in request order: u32 microseconds since the one before
TOKENS = "tokens.bin"  # of a bundle: u8 tokens of each chunk after the first, of requests that are `counted` and not `even`
API = Literal["chat", "completions", "embeddings"]


class Prompt(Record, frozen=True, kw_only=True):
    """What one request asks for. `prefix`: ids of shared blocks of 512 tokens it begins with; requests with the same ids share them."""

    input_tokens: int
    output_tokens: int
    prefix: tuple[int, ...] = ()


class Planned(Record, frozen=True, kw_only=True):
    """One request of a schedule. `due_s` is None where the loop is closed: it is due when a place becomes free."""

    index: int
    due_s: float | None
    prompt: Prompt


class Schedule(Record, frozen=True, kw_only=True):
    """What is to be sent, and when. The same text and seed give the same schedule."""

    arrivals: str  # as on the command line: constant:8, poisson:8, gamma:8,0.5, ramp:1-20,300, closed:16, trace
    seed: int
    planned: tuple[Planned, ...]
    concurrency: int | None = None  # of a closed loop; None: open


class Request(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One request, as it went. None: that moment never came, or the server does not say."""

    index: int
    due_s: float
    sent_s: float | None = None  # the last byte of the request was handed to the socket
    headers_s: float | None = None  # the status line came
    empty_s: float | None = None  # the first event, where it had no text and came before the first with some
    first_s: float | None = None  # the first chunk with text
    answer_s: float | None = None  # the first chunk that is no reasoning, where reasoning came first
    last_s: float | None = None  # the last chunk with text
    ended_s: float | None = None  # the answer was over, or failed
    outcome: Outcome = "ok"
    reason: str = ""  # of any outcome but ok
    cut_off: bool = False  # the connection closed before the answer was whole
    resent: bool = False  # its connection had been idle, and closed as it was sent: it was sent once more; `sent_s` is of the first time
    status: int | None = None  # of HTTP
    asked_input: int = 0
    asked_output: int = 0
    input_tokens: int | None = None  # as the server counts them
    output_tokens: int | None = None
    cached_tokens: int | None = None  # of the input, found in the server's prefix cache
    reasoning_tokens: int | None = None
    chunks: int = 0  # events with text
    first_tokens: int | None = None  # in the first chunk, where the server counts as it goes
    counted: bool = False  # the server counted tokens as it went
    even: bool = False  # and each chunk after the first had as many as the others
    stall_s: float | None = None  # the longest time between two chunks
    finish: str = ""  # the server's reason to end: stop, length …

    @property
    def ttft_s(self) -> float | None:
        """Time to first token, from when it was due."""
        return None if self.first_s is None else self.first_s - self.due_s

    @property
    def e2e_s(self) -> float | None:
        """From when it was due to its end."""
        return None if self.ended_s is None or self.outcome != "ok" else self.ended_s - self.due_s

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first: (last − first) ÷ (tokens − 1), as vLLM's TPOT. None below two tokens, and where
        several came in one chunk."""
        if self.first_s is None or self.last_s is None or not self.output_tokens or self.output_tokens < 2 or self.chunks == 1:
            return None
        return (self.last_s - self.first_s) / (self.output_tokens - 1)

    @property
    def one_chunk(self) -> bool:
        """Whether all of an answer came at once, though it may be of several tokens: the time between them is not known."""
        return self.outcome == "ok" and self.chunks == 1 and self.output_tokens not in (0, 1) and self.asked_output != 1

    @property
    def miscounted(self) -> str:
        """Why its tokens, and so its TPOT, are in doubt; "" where they are not. A chunk has a token at least; tokens beyond max_tokens are
        believed where as many chunks came."""
        tokens, most = self.output_tokens or 0, self.asked_output
        if self.outcome != "ok" or self.chunks < 2 or not tokens:
            return ""
        if self.chunks > tokens:
            return "the server counts fewer tokens than it sends chunks"
        beyond = most > 0 and tokens > max(1.05 * most, most + 1)
        return "the server counts more tokens than max_tokens allows" if beyond and self.chunks < tokens else ""

    @property
    def lag_s(self) -> float | None:
        """By how much it was sent late."""
        return None if self.sent_s is None else self.sent_s - self.due_s


class ServingAsked(Record, frozen=True, kw_only=True):
    """What `serving bench` was asked to send. Keys of the server are never part of it."""

    url: str
    model: str
    api: API = "chat"
    arrivals: str
    seed: int
    input_tokens: int
    output_tokens: int
    requests: int | None = None  # after those of the warm-up; None: `seconds` ends it
    seconds: float | None = None  # what is under way then is cut
    warm_up: int = 0  # the first requests: sent, and left out of every figure
    objectives: str = ""
    attain: float | None = None  # the share that has to meet them
    ignore_eos: bool = False
    timeout_s: float = 600.0
    salt: str = ""  # begins every prompt, so that no earlier run has filled the server's cache; in X-Request-Id too


class ClientState(Record, frozen=True, kw_only=True):
    """What the load generator saw of itself, from its first request to its last."""

    wall_s: float
    cpu_s: float  # of its only thread
    run_delay_s: float | None = None  # it was ready and waited for a processor; None where the system does not say
    tick_lags_s: list[float] = []  # p50, p90, p99 and largest: how late its event loop was for ticks of its own
    ticks: int = 0
    connections: int = 0  # that it opened
    own_errors: int = 0  # requests that failed for want of something of its own, as files that may be open


class ServedOn(Record, frozen=True, kw_only=True):
    """What serves, where that is known: what the model's expectation is of. `batch`, `chunk`: sequences and tokens of a step at most."""

    gpu: str
    network: str
    tp: int = 1
    dtype: str = "bf16"
    kv_dtype: str = "bf16"
    batch: int = 256
    chunk: int = 8192


class Served(Record, frozen=True, kw_only=True):
    """A bundle of serving beside its requests."""

    asked: ServingAsked
    origin_s: float | None = None  # CLOCK_MONOTONIC of the run's beginning
    tokens_per_word: float | None = None  # of the prompts, by the server's own count; None: it does not say
    server: dict[str, float] = {}  # what its /metrics grew by while this ran; {}: it has none
    on: ServedOn | None = None  # None: not known
    prefix_share: float | None = None  # of a trace's prompt tokens, that a prefix cache without a limit could hold; None: no hash ids
    client: ClientState | None = None  # None: killed
    notices: list[Notice] = []


class Attainment(Record, frozen=True, kw_only=True):
    """The share of requests that met every objective, with its interval. `requests`: all that were due, errors and refusals counted as
    missed; those cut by the run's end are left out where they had not missed one already. So are the `unknown`, of which the server does
    not say what an objective needs: the interval holds what they may have been."""

    objectives: str
    requests: int
    met: int
    share: float | None
    low: float | None = None
    high: float | None = None
    censored: int = 0
    unknown: int = 0
    why_unknown: str = ""  # of them, in a sentence

    @property
    def decided(self) -> int:
        """Requests of which it is known whether they met every objective."""
        return self.requests - self.censored - self.unknown
