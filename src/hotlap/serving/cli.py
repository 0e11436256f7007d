"""hotlap serving bench URL"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from msgspec import structs

from hotlap.cli import terminal
from hotlap.core import objectives, units
from hotlap.core.errors import InputError
from hotlap.core.show import listing
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels as labelled
from hotlap.core.store import paths
from hotlap.serving import address as addresses
from hotlap.serving import arrivals, session, show, show_kind, summary, traffic
from hotlap.serving.address import Address
from hotlap.serving.arrivals import ArrivalProcess
from hotlap.serving.generator import LoadProgress
from hotlap.serving.record import Schedule, ServingAsked
from hotlap.serving.simulated import options as simulated
from hotlap.serving.simulated import starting

SECRET = ("authorization", "api-key", "x-api-key", "cookie", "proxy-authorization")
OURS = ("host", "content-length", "content-type", "transfer-encoding", "connection", "accept", "x-request-id")
DEFAULT_S, LOG_S, ARRIVALS = 60.0, 10.0, "constant:1"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="as in http://127.0.0.1:8000, or simulated:h200-sxm?model=llama-3-8b")
    parser.add_argument("--model", default="", metavar="NAME", help="(default: the only one that the server lists)")
    parser.add_argument("--api", choices=tuple(addresses.PATHS), default="chat", help="of OpenAI's (default: chat)")
    parser.add_argument("--input", default="512", metavar="TOKENS", help="of each prompt, by the server's own count (default: 512)")
    parser.add_argument("--output", default="128", metavar="TOKENS", help="asked of each answer (default: 128)")
    parser.add_argument(
        "--arrivals", default=ARRIVALS, metavar="PROCESS",
        help=f"when requests are due: {'; '.join(arrivals.FORMS.values())} (default: constant:1)",
    )  # fmt: skip
    parser.add_argument("--trace", metavar="FILE", help="replay recorded traffic: its times, lengths and shared prefixes")
    parser.add_argument("--requests", metavar="N", help="end after so many, each waited for")
    parser.add_argument("--for", dest="seconds", metavar="TIME", help="end after this time; what is under way then is cut (default: 60 s)")
    parser.add_argument("--slo", default="", metavar="OBJECTIVES", help=f"as in 'ttft<=450ms,tpot<=40ms'; on {', '.join(summary.METRICS)}")
    parser.add_argument("--attain", metavar="SHARE", help="of requests that has to meet the objectives, as in '99 %%'")
    parser.add_argument("--warm-up", default="0", metavar="N", help="send so many first, and leave them out of every figure")
    parser.add_argument("--seed", default="", metavar="N", help="of arrivals and prompts (default: drawn, and kept)")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="of every request; no key, and never kept")
    parser.add_argument("--api-key-env", default="", metavar="VARIABLE", help="the environment variable that holds the key")
    parser.add_argument("--ignore-eos", action="store_true", help="ask for answers of the full length, where the server knows how (vLLM)")
    parser.add_argument("--timeout", default="10 min", metavar="TIME", help="after which a request counts as timed out (default: 10 min)")
    parser.add_argument("--max-rate", metavar="RATE", help="never more requests a second; a ramp beyond this machine needs it")
    parser.add_argument("--this-server-is-mine", action="store_true", help="load a server that is not on this machine")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run")


def run(args: argparse.Namespace) -> int:
    """Loads a server, and says what its requests took: exit code 0 measured or met, 1 not met, 3 that cannot be said."""
    trace = traffic.read(Path(args.trace)) if args.trace else None
    asked, process = _asked(args, trace)
    labels = labelled.check(dict(terminal.pairs(args.label, "a label")))
    with _server(args) as url:
        address = addresses.resolve(url, args.this_server_is_mine)
        if process:
            _bounded(args, address, process)
        schedule = _schedule(trace, asked) if trace else None
        options = session.ServingOptions(paths.home(), labels, _headers(args), _key(args), schedule=schedule)
        view = ProgressView(sys.stderr)
        try:
            path = session.run(address, asked, options, view)
        finally:
            view.end()
    return _show(path, args)


@contextmanager
def _server(args: argparse.Namespace) -> Iterator[str]:
    """The URL to load: as given, or of a simulated server that lives as long as this."""
    if not simulated.is_address(args.url):
        yield args.url
        return
    with starting.started(simulated.parse(args.url)) as server:
        args.model = args.model or server.facts.model
        yield server.facts.url


def _schedule(trace: traffic.TrafficTrace, asked: ServingAsked) -> Schedule:
    """The trace's own requests, as many as were asked for. Raises InputError for one without times."""
    schedule = traffic.schedule(trace, asked.seed)
    planned = [one for one in schedule.planned if asked.seconds is None or (one.due_s or 0.0) < asked.seconds][: asked.requests]
    return structs.replace(schedule, planned=tuple(planned))


def _show(path: Path, args: argparse.Namespace) -> int:
    bundle = bundles.load(path)
    judged = show_kind.read(bundle)
    assert judged is not None  # the session wrote it
    for stop in bundle.run.stops:
        if stop.kind == "error":
            print(f"hotlap: {stop.detail}; what was measured until then is kept as {bundle.run.id}", file=sys.stderr)
    if args.json:
        terminal.answer(args.json, {"run": bundle.run.id, **show_kind.document(judged)}, code=judged.code, judged=judged.state != "")
    else:
        print(listing.heading(bundle, []))
        print("\n".join(show.lines(judged, terminal.width(), terminal.color())))
        print(f"kept as {bundle.run.id}")
    return judged.code


def _asked(args: argparse.Namespace, trace: traffic.TrafficTrace | None) -> tuple[ServingAsked, ArrivalProcess | None]:
    if trace and args.arrivals != ARRIVALS:
        raise InputError("--trace has its own arrivals: leave out --arrivals, or scale the trace by hotlap serving traffic scale")
    process = None if trace else arrivals.parse(args.arrivals)
    limits = objectives.parse(args.slo, summary.METRICS) if args.slo else ()
    attain = terminal.share(args.attain, "--attain") if args.attain else None
    if attain is not None and not 0 < attain < 1:
        raise InputError(f"--attain is a share above 0 and below 100 %, not {args.attain}")
    if attain is not None and not limits:
        raise InputError("--attain needs objectives to be met: give --slo 'ttft<=450ms,tpot<=40ms'")
    requests = _whole(args.requests, "--requests") if args.requests else None
    seconds = _time(args.seconds, "--for") if args.seconds else None
    if requests is None and seconds is None and process:
        seconds = process.seconds if process.kind == "ramp" else DEFAULT_S
    if requests is None and seconds is None and trace:
        requests = len(trace.input_tokens)
    asked = ServingAsked(
        url=args.url, model=args.model, api=args.api, arrivals="trace" if trace else args.arrivals, requests=requests, seconds=seconds,
        seed=_whole(args.seed, "--seed", 0) if args.seed else secrets.randbits(31), input_tokens=_whole(args.input, "--input"),
        output_tokens=_whole(args.output, "--output"), warm_up=_whole(args.warm_up, "--warm-up", 0), ignore_eos=args.ignore_eos,
        objectives=objectives.show(limits), attain=attain, timeout_s=_time(args.timeout, "--timeout"),
    )  # fmt: skip
    return asked, process


def _whole(text: str, option: str, least: int = 1) -> int:
    if not text.isdecimal() or not least <= int(text) <= arrivals.MOST_REQUESTS * 10_000:
        raise InputError(f"{option} is a whole number from {least} on, not '{text}'")
    if option in ("--requests", "--warm-up") and int(text) > arrivals.MOST_REQUESTS:
        raise InputError(f"{option}: at most {arrivals.MOST_REQUESTS:,} requests in a run, not {text}")
    return int(text)


def _time(text: str, option: str) -> float:
    value = units.parse(text, "s")
    if not 0 < value <= arrivals.MOST_S:
        raise InputError(f"{option} is a time above 0 and at most 24 h, not '{text}'")
    return value


def _bounded(args: argparse.Namespace, address: Address, process: ArrivalProcess) -> None:
    """Raises InputError for a load that nobody bounded."""
    most = units.parse(args.max_rate, "") if args.max_rate else None
    if most is None and process.kind == "ramp" and not address.loopback:
        raise InputError("a ramp on a server beyond this machine needs --max-rate: the most requests a second that it may get")
    if most is not None and process.peak > most:
        raise InputError(f"--arrivals {args.arrivals} asks for {process.peak:g} requests a second, more than --max-rate {args.max_rate}")


def _headers(args: argparse.Namespace) -> dict[str, str]:
    headers = terminal.pairs(args.header, "a header")
    for name, value in headers.items():
        if name.lower() in SECRET:
            raise InputError(f"--header {name}: a key on the command line is seen by everybody here; name its variable with --api-key-env")
        if name.lower() in OURS:
            raise InputError(f"--header {name}: that one is the client's own; leave it out")
        if not (name.isascii() and name.replace("-", "").replace("_", "").isalnum()) or not (value.isascii() and value.isprintable()):
            raise InputError(f"--header {name}: a name has letters, digits and '-', a value printable ASCII")
    return headers


def _key(args: argparse.Namespace) -> str:
    name = str(args.api_key_env)
    if name and not os.environ.get(name):
        raise InputError(f"--api-key-env {name}: there is no such variable in the environment, or it is empty")
    if name and not (os.environ[name].isascii() and os.environ[name].isprintable()):
        raise InputError(f"--api-key-env {name}: its value is not printable ASCII, which a header cannot hold")
    return name


class ProgressView:
    """How it is going: a line that is rewritten on a terminal, a line every ten seconds in a log."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.live, self.drawn, self.logged_s = stream, stream.isatty(), False, 0.0

    def __call__(self, progress: LoadProgress) -> None:
        passed = units.show(max(progress.passed_s, 0.0), "s")
        text = f"{passed}: {progress.sent} sent, {progress.under_way} under way, {progress.ok} answered, {progress.bad} failed"
        if self.live:
            self.stream.write(f"\r\x1b[K{text[: terminal.width() - 1]}")
            self.stream.flush()
            self.drawn = True
        elif progress.passed_s >= self.logged_s + LOG_S:
            self.logged_s = progress.passed_s
            self.stream.write(f"hotlap: {text}\n")

    def end(self) -> None:
        if self.drawn:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
