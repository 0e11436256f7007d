"""Options that the verbs of serving share: which server, what is asked of it, what may be sent."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TextIO

from hotlap.cli import terminal
from hotlap.core import objectives, units
from hotlap.core.errors import InputError
from hotlap.core.show import listing
from hotlap.core.store import bundle as bundles
from hotlap.serving import address as addresses
from hotlap.serving import arrivals, summary
from hotlap.serving.generator import LoadProgress
from hotlap.serving.simulated import options as simulated
from hotlap.serving.simulated import starting

SECRET = ("authorization", "api-key", "x-api-key", "cookie", "proxy-authorization")
OURS = ("host", "content-length", "content-type", "transfer-encoding", "connection", "accept", "x-request-id")
LOG_S = 10.0
MOST_INPUT = 10_000_000  # tokens of a prompt: more than any model takes
LENGTHS = ("512", "128")  # tokens of a prompt and of an answer, unless they are said


def limits(text: str, api: str) -> tuple[objectives.Objective, ...]:
    """The objectives of --slo; () for none. Raises InputError, also for a metric that answers of this API do not have."""
    parsed = objectives.parse(text, summary.METRICS) if text else ()
    for one in parsed:
        if api == "embeddings" and one.metric != "e2e":
            raise InputError(f"--slo {one.text}: an embedding comes at once and has no {one.metric}; give e2e<=… for it")
    return parsed


def add_request(parser: argparse.ArgumentParser) -> None:
    """The server, and what each request asks of it."""
    parser.add_argument("url", metavar="URL", help="as in http://127.0.0.1:8000, or simulated:h200-sxm?model=llama-3-8b")
    parser.add_argument("--model", default="", metavar="NAME", help="(default: the only one that the server lists)")
    parser.add_argument("--api", choices=tuple(addresses.PATHS), default="chat", help="of OpenAI's (default: chat)")
    parser.add_argument("--input", default=LENGTHS[0], metavar="TOKENS", help="of each prompt, by the server's own count (default: 512)")
    parser.add_argument("--output", default=LENGTHS[1], metavar="TOKENS", help="asked of each answer (default: 128)")
    parser.add_argument("--slo", default="", metavar="OBJECTIVES", help=f"as in 'ttft<=450ms,tpot<=40ms'; on {', '.join(summary.METRICS)}")
    parser.add_argument("--seed", default="", metavar="N", help="of arrivals and prompts (default: drawn, and kept)")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="of every request; no key, and never kept")
    parser.add_argument("--api-key-env", default="", metavar="VARIABLE", help="the environment variable that holds the key")
    parser.add_argument("--ignore-eos", action="store_true", help="ask for answers of the full length, where the server knows how (vLLM)")
    parser.add_argument("--timeout", default="10 min", metavar="TIME", help="after which a request counts as timed out (default: 10 min)")
    parser.add_argument("--max-rate", metavar="RATE", help="never more requests a second; a ramp beyond this machine needs it")
    parser.add_argument("--this-server-is-mine", action="store_true", help="load a server that is not on this machine")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run")


@contextmanager
def server(args: argparse.Namespace) -> Iterator[str]:
    """The URL to load: as given, or of a simulated server that lives as long as this."""
    if not simulated.is_address(args.url):
        yield args.url
        return
    with starting.started(simulated.parse(args.url)) as simulator:
        args.model = args.model or simulator.facts.model
        yield simulator.facts.url


def whole(text: str, option: str, least: int = 1) -> int:
    if not text.isdecimal() or not least <= int(text) <= arrivals.MOST_REQUESTS * 10_000:
        raise InputError(f"{option} is a whole number from {least} on, not '{text}'")
    if option == "--input" and int(text) > MOST_INPUT:
        raise InputError(f"--input: at most {MOST_INPUT:,} tokens in a prompt, not {text}")
    if option in ("--requests", "--warm-up") and int(text) > arrivals.MOST_REQUESTS:
        raise InputError(f"{option}: at most {arrivals.MOST_REQUESTS:,} requests in a run, not {text}")
    return int(text)


def time_s(text: str, option: str) -> float:
    value = units.parse(text, "s")
    if not 0 < value <= arrivals.MOST_S:
        raise InputError(f"{option} is a time above 0 and at most 24 h, not '{text}'")
    return value


def headers(args: argparse.Namespace) -> dict[str, str]:
    named = terminal.pairs(args.header, "a header")
    for name, value in named.items():
        if name.lower() in SECRET:
            raise InputError(f"--header {name}: a key on the command line is seen by everybody here; name its variable with --api-key-env")
        if name.lower() in OURS:
            raise InputError(f"--header {name}: that one is the client's own; leave it out")
        if not (name.isascii() and name.replace("-", "").replace("_", "").isalnum()) or not (value.isascii() and value.isprintable()):
            raise InputError(f"--header {name}: a name has letters, digits and '-', a value printable ASCII")
    return named


def key(args: argparse.Namespace) -> str:
    name = str(args.api_key_env)
    if name and not os.environ.get(name):
        raise InputError(f"--api-key-env {name}: there is no such variable in the environment, or it is empty")
    if name and not (os.environ[name].isascii() and os.environ[name].isprintable()):
        raise InputError(f"--api-key-env {name}: its value is not printable ASCII, which a header cannot hold")
    return name


def answer(path: Path, args: argparse.Namespace, shown: ModuleType, more: str) -> int:
    """Prints what was kept of several benches, and its exit code. `shown`: the module that reads and shows it; `more`: what stands last."""
    bundle = bundles.load(path)
    kept = shown.read(bundle)
    code: int = shown.code(kept)
    if args.json:
        terminal.answer(args.json, {"run": bundle.run.id, **shown.document(kept)}, code=code)
    else:
        print(listing.heading(bundle, []))
        print(shown.text(kept, terminal.width(), terminal.color()))
        print(f"kept as {bundle.run.id}; {more}")
    return code


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
