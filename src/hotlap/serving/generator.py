"""The load generator: a process of its own that sends requests at absolute times and appends what became of them.

    python -m hotlap.serving.generator FOLDER

Its job is one line of JSON on standard input, which then stays open: where it closes, or on SIGINT or SIGTERM, what is under way is cut
and kept as censored. It prints a line of JSON about its progress every half second, and what it saw of itself at the end. A key comes in
an environment variable, never in the job.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import resource
import signal
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np

from hotlap.core.record import Record, encode
from hotlap.serving import arrivals, prompts
from hotlap.serving.address import Address
from hotlap.serving.answers import ServerAnswer
from hotlap.serving.deadlines import Deadlines
from hotlap.serving.prompts import Words
from hotlap.serving.record import CHUNKS, FILE, TOKENS, ClientState, Planned, Prompt, Request, Schedule, ServingAsked
from hotlap.serving.wire import Connection

LEAD_S = 0.05  # before a request is due its bytes and its connection are made ready
STALE_S = 1.0  # idle for so long, a connection may be closed by its server at any moment: what is sent on it then is sent once more
TICK_S, SHOWN_S, BEGIN_S, CONNECT_S = 0.02, 0.5, 0.2, 10.0
OWN = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM)


class LoadJob(Record, frozen=True, kw_only=True):
    """What to do. `headers`: of every request beside the usual ones."""

    asked: ServingAsked
    address: Address
    words: Words
    dialect: int
    schedule: Schedule | None = None  # of a trace; None: `asked` says all of it
    headers: dict[str, str] = {}
    key_env: str = ""


class LoadProgress(Record, frozen=True, kw_only=True):
    """How it is going. `client` comes with the last line."""

    origin_s: float
    passed_s: float
    sent: int
    under_way: int
    ok: int
    bad: int
    client: ClientState | None = None


class Pool:
    """Connections to one address; each carries a request at a time."""

    def __init__(self, address: Address) -> None:
        self.address, self.idle, self.opened = address, list[Connection](), 0
        self.context = ssl.create_default_context() if address.scheme == "https" else None

    async def take(self) -> Connection:
        """An idle one, else a new one. Raises OSError."""
        while self.idle:
            connection = self.idle.pop()
            if not connection.closed:
                return connection
        self.opened += 1
        loop, name = asyncio.get_running_loop(), self.address.host if self.context else None
        async with asyncio.timeout(CONNECT_S):
            _, connection = await loop.create_connection(
                lambda: Connection(time.monotonic), self.address.ip, self.address.port, ssl=self.context, server_hostname=name
            )
        return connection

    def give(self, connection: Connection) -> None:
        if not connection.closed:
            connection.free_s = time.monotonic()
            self.idle.append(connection)


class Generator:
    """A run under way."""

    def __init__(self, job: LoadJob, folder: Path) -> None:
        self.job, self.asked, self.process = job, job.asked, arrivals.kept(job.asked.arrivals)
        self.pool, self.deadlines = Pool(job.address), Deadlines()
        self.files = {name: open(folder / name, "ab", buffering=0) for name in (FILE, CHUNKS, TOKENS)}  # noqa: SIM115 - until the end
        self.waiting: dict[str, list[bytes]] = {name: [] for name in self.files}
        self.under_way: dict[int, ServerAnswer] = {}
        self.sent = self.ok = self.bad = self.own_errors = 0
        self.stopping, self.cutting = asyncio.Event(), False
        self.origin_s = time.monotonic() + BEGIN_S
        self.lags_s: list[float] = []
        self.end_s = self.origin_s + self.asked.seconds if self.asked.seconds is not None else None
        key = os.environ.get(job.key_env, "") if job.key_env else ""
        self.headers = {**job.headers, **({"Authorization": f"Bearer {key}"} if key else {})}

    async def run(self) -> ClientState:
        """All of the job."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stopping.set)
        loop.add_reader(0, self._stdin)
        began_s, cpu_s, delay_s = time.monotonic(), time.thread_time(), _run_delay_s()
        ticking = asyncio.create_task(self._tick())
        work = asyncio.create_task(self._open() if self.process.open else self._closed())
        stop = asyncio.create_task(self._stop())
        await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        for task in (work, stop, ticking):
            task.cancel()
        if not work.cancelled() and work.done():
            work.result()
        await self._cut()
        self._flush()
        after_s = _run_delay_s()
        lags = np.quantile(self.lags_s, (0.5, 0.9, 0.99, 1.0)).tolist() if self.lags_s else []
        return ClientState(
            wall_s=time.monotonic() - began_s, cpu_s=time.thread_time() - cpu_s, ticks=len(self.lags_s), tick_lags_s=lags,
            run_delay_s=None if delay_s is None or after_s is None else after_s - delay_s, connections=self.pool.opened,
            own_errors=self.own_errors,
        )  # fmt: skip

    def _stdin(self) -> None:
        if not os.read(0, 4096):
            self.stopping.set()

    async def _stop(self) -> None:
        if self.end_s is None:
            await self.stopping.wait()
            return
        ended = asyncio.create_task(self.deadlines.wait(self.end_s))
        stopped = asyncio.create_task(self.stopping.wait())
        await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()

    def _planned(self) -> Iterator[Planned]:
        asked = self.asked
        if self.job.schedule is not None:
            return iter(self.job.schedule.planned)
        total = None if asked.requests is None else asked.requests + asked.warm_up
        prompt = Prompt(input_tokens=asked.input_tokens, output_tokens=asked.output_tokens)
        return islice(arrivals.planned(self.process, asked.seed, prompt, total, asked.seconds), arrivals.MOST_REQUESTS)

    async def _open(self) -> None:
        """Each request at its time, whatever became of those before."""
        tasks = set[asyncio.Task[None]]()
        for planned in self._planned():
            due_s = self.origin_s + (planned.due_s or 0.0)
            await self.deadlines.wait(due_s - LEAD_S)
            task = asyncio.create_task(self._one(planned, due_s, self._bytes(planned)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if tasks:
            await asyncio.wait(tasks)

    async def _closed(self) -> None:
        """So many at a time: the next is due when a place becomes free."""
        await self.deadlines.wait(self.origin_s)
        every = self._planned()
        await asyncio.wait([asyncio.create_task(self._place(every)) for _ in range(self.process.concurrency)])

    async def _place(self, every: Iterator[Planned]) -> None:
        ahead = self._ready(every)
        while ahead and not self.cutting:
            planned, data = ahead
            sending = asyncio.create_task(self._one(planned, time.monotonic(), data))
            await asyncio.sleep(0)  # it is sent, and the next one made ready meanwhile
            ahead = self._ready(every)
            await sending

    def _ready(self, every: Iterator[Planned]) -> tuple[Planned, bytes] | None:
        """The next request and its bytes; None where there is none."""
        planned = next(every, None)
        return None if planned is None else (planned, self._bytes(planned))

    def _bytes(self, planned: Planned) -> bytes:
        text = prompts.text(planned, self.asked, self.job.words)
        body = prompts.payload(self.asked, text, planned.prompt.output_tokens, self.job.dialect)
        return prompts.request(self.job.address, self.asked, body, self.headers, f"hotlap-{self.asked.salt}-{planned.index}")

    async def _one(self, planned: Planned, due_s: float, data: bytes) -> None:
        """One request, from its connection to its line in the file."""
        over, answer = self._awaited(planned)
        sent_s, resent = None, False
        try:
            connection = await self.pool.take()
            await self.deadlines.wait(due_s)
            stale = connection.free_s is not None and time.monotonic() - connection.free_s >= STALE_S
            sent_s = await self._exchange(connection, data, answer, over)
            if stale and sent_s is not None and answer.began_s is None and answer.outcome == "error":
                over, answer = self._awaited(planned)
                resent = True
                await self._exchange(await self.pool.take(), data, answer, over)
        except OSError as error:
            self.own_errors += error.errno in OWN
            answer.end("error", f"no connection: {why(error)}", max(time.monotonic(), due_s))
        del self.under_way[planned.index]
        self._keep(planned, due_s, sent_s, answer, resent)

    def _awaited(self, planned: Planned) -> tuple[asyncio.Future[None], ServerAnswer]:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer = ServerAnswer(self.asked.api, lambda _: None if over.done() else over.set_result(None))
        self.under_way[planned.index] = answer
        return over, answer

    async def _exchange(self, connection: Connection, data: bytes, answer: ServerAnswer, over: asyncio.Future[None]) -> float | None:
        """Sends it and waits for its end; when it was handed to the socket, None where the run had ended before."""
        if connection.closed:  # while it waited for its time
            connection = await self.pool.take()
        if answer.ended_s is not None:
            self.pool.give(connection)
            return None
        timeout_s = self.asked.timeout_s
        timer = asyncio.get_running_loop().call_later(
            timeout_s, lambda: answer.end("timeout", f"no end within {timeout_s:g} s", time.monotonic())
        )
        sent_s = connection.send(data, answer)
        self.sent += 1
        try:
            await over
            return sent_s
        finally:
            timer.cancel()
            if answer.complete:
                self.pool.give(connection)
            else:
                connection.response = None
                connection.close()

    async def _cut(self) -> None:
        """What is under way is censored: it is known to take longer than this."""
        self.cutting = True
        now_s = time.monotonic() if self.end_s is None else min(time.monotonic(), self.end_s)
        for answer in list(self.under_way.values()):
            answer.end("censored", "under way when the run ended", now_s)
        for _ in range(100):  # their tasks write their lines
            if not self.under_way:
                break
            await asyncio.sleep(0.01)

    def _keep(self, planned: Planned, due_s: float, sent_s: float | None, answer: ServerAnswer, resent: bool) -> None:
        if answer.outcome == "censored" and due_s > (answer.ended_s or due_s):
            return  # it was being made ready, and not due yet
        if answer.outcome == "ok":
            self.ok += 1
        elif answer.outcome != "censored":
            self.bad += 1
        record = of_answer(planned, answer, due_s, sent_s, self.origin_s, resent)
        self.waiting[FILE].append(encode(record) + b"\n")
        if answer.gaps_s and record.chunks:
            self.waiting[CHUNKS].append(np.minimum(np.rint(np.array(answer.gaps_s) * 1e6), 2**32 - 1).astype("<u4").tobytes())
            if record.counted and not record.even:
                self.waiting[TOKENS].append(np.minimum(answer.tokens[1:], 255).astype("u1").tobytes())

    def _flush(self) -> None:
        for name in (CHUNKS, TOKENS, FILE):  # a line is there only after its chunks
            if self.waiting[name]:
                data, self.waiting[name] = b"".join(self.waiting[name]), []
                self.files[name].write(data)

    async def _tick(self) -> None:
        """How late the event loop itself is; keeps what ended and says how it goes. Ticks that a pause of the process swallows count, each
        as late as it was: else a long pause would be one late tick among many."""
        due_s = shown_s = self.origin_s
        while True:
            await self.deadlines.wait(due_s)
            now_s = time.monotonic()
            self.lags_s.append(now_s - due_s)
            if now_s >= shown_s:
                self._flush()
                show(self.progress())
                shown_s = now_s + SHOWN_S
            due_s += TICK_S

    def progress(self, client: ClientState | None = None) -> LoadProgress:
        return LoadProgress(
            origin_s=self.origin_s, passed_s=time.monotonic() - self.origin_s, sent=self.sent, under_way=len(self.under_way), ok=self.ok,
            bad=self.bad, client=client,
        )  # fmt: skip


def of_answer(
    planned: Planned, answer: ServerAnswer, due_s: float, sent_s: float | None, origin_s: float, resent: bool = False
) -> Request:
    """What is kept of it, in whole microseconds from the run's beginning."""

    def at(time_s: float | None) -> float | None:
        return None if time_s is None else round(time_s - origin_s, 6)

    usage, streamed = answer.usage, answer.api != "embeddings"
    counted = bool(answer.tokens) and len(answer.tokens) == answer.chunks and streamed
    early = answer.empty_s if answer.empty_s != answer.first_s else None  # else both came at once
    later = answer.answer_s if answer.reasoned else None
    incoming, outgoing = usage.prompt_tokens_details, usage.completion_tokens_details
    return Request(
        index=planned.index, due_s=round(due_s - origin_s, 6), sent_s=at(sent_s), headers_s=at(answer.began_s), empty_s=at(early),
        first_s=at(answer.first_s), answer_s=at(later), last_s=at(answer.last_s), ended_s=at(answer.ended_s), outcome=answer.outcome,
        reason=answer.reason, cut_off=answer.cut_off, resent=resent, status=answer.status,
        asked_input=planned.prompt.input_tokens, asked_output=planned.prompt.output_tokens if streamed else 0,
        input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens,
        cached_tokens=incoming.cached_tokens if incoming else None, reasoning_tokens=outgoing.reasoning_tokens if outgoing else None,
        chunks=answer.chunks if streamed else 0, first_tokens=answer.tokens[0] if counted else None, counted=counted,
        even=counted and len(set(answer.tokens[1:])) < 2,
        stall_s=round(max(answer.gaps_s), 6) if answer.gaps_s else None, finish=answer.finish,
    )  # fmt: skip


def why(error: OSError) -> str:
    """Why there is no connection, in the system's words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or error})"
    if isinstance(error, TimeoutError):
        return f"it did not answer within {CONNECT_S:g} s"
    if error.errno is not None and error.errno in errno.errorcode:  # asyncio's own text has the address again
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def show(progress: LoadProgress) -> None:
    with suppress(BrokenPipeError):  # nobody looks any more
        sys.stdout.buffer.write(encode(progress) + b"\n")
        sys.stdout.buffer.flush()


def _run_delay_s() -> float | None:
    """How long this process was ready and waited for a processor (schedstat of Linux)."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None


async def _main(folder: Path, job: LoadJob) -> None:
    generator = Generator(job, folder)
    client = await generator.run()
    show(generator.progress(client))


def main() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard) if hard != resource.RLIM_INFINITY else soft, hard))
    line = bytearray()
    while not line.endswith(b"\n"):  # unbuffered: what follows belongs to the event loop
        piece = os.read(0, 65536)
        if not piece:
            return 2
        line += piece
    job = msgspec.json.decode(bytes(line), type=LoadJob)
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    asyncio.run(_main(Path(sys.argv[1]), job))
    return 0


if __name__ == "__main__":
    sys.exit(main())
