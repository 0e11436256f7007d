"""hotlap serving frontier URL --concurrency 1,2,4,8,16"""

from __future__ import annotations

import argparse
import sys

from hotlap.cli import terminal
from hotlap.core import units
from hotlap.core.errors import InputError
from hotlap.core.store import labels as labelled
from hotlap.core.store import paths
from hotlap.serving import address as addresses
from hotlap.serving import arrivals, cli_capacity, cli_options, frontier_session, show, show_frontier
from hotlap.serving.arrivals import ArrivalProcess
from hotlap.serving.frontier_points import FILE, KIND, LABEL, FrontierVisit
from hotlap.serving.session import ServingOptions
from hotlap.serving.several import SeveralBenches
from hotlap.serving.simulated import options as simulated

CONCURRENCY, ROUNDS = "1,2,4,8,16", 3


def add(parser: argparse.ArgumentParser) -> None:
    cli_options.add_request(parser)
    parser.add_argument("--concurrency", default="", metavar="LIST", help=f"requests at a time (default: {CONCURRENCY})")
    parser.add_argument("--rates", default="", metavar="LIST", help="in place of that: Poisson arrivals at these rates, as in 1,2,4")
    parser.add_argument("--rounds", default=str(ROUNDS), metavar="N", help=f"in each every load is measured once (default: {ROUNDS})")
    parser.add_argument(
        "--requests", metavar="N", help="of each run, after one a place to warm up (default: 4 a place, at least 32)"
    )
    parser.add_argument("--gpus", default="", metavar="N", help="that serve: throughput is of one (default: those of a simulated server)")
    parser.add_argument("--for", dest="seconds", metavar="TIME", help="end after this time; what is under way then is cut")
    cli_capacity.add_model(parser)


def run(args: argparse.Namespace) -> int:
    """Measures several loads in rounds. Exit code 0 where each has a point, 3 where one has none, 130 interrupted."""
    settings, asked = _settings(args), cli_capacity.asked_of(args, "several loads")
    if asked.api == "embeddings" or asked.output_tokens < 2:
        raise InputError("interactivity is 1 ÷ TPOT: it needs answers of 2 tokens and more, by --api chat or completions")
    rounds = cli_options.whole(args.rounds, "--rounds")
    requests = cli_options.whole(args.requests, "--requests", 8) if args.requests else None
    seconds = cli_options.time_s(args.seconds, "--for") if args.seconds else None
    labels = labelled.check(dict(terminal.pairs(args.label, "a label")))
    model = cli_capacity.model_of(args, asked)
    gpus = cli_options.whole(args.gpus, "--gpus") if args.gpus else _simulated_gpus(args.url)
    expected = frontier_session.expected(model[1], settings, requests, gpus) if model else []
    with cli_options.server(args) as url:
        address = addresses.resolve(url, args.this_server_is_mine)
        if args.rates:
            cli_capacity.bounded(args, address, "a frontier over rates")
        view = FrontierView(len(settings) * rounds)
        options = ServingOptions(paths.home(), labels, cli_options.headers(args), cli_options.key(args))
        benches = SeveralBenches(address, cli_capacity.with_model(asked, args), options, LABEL, seconds, view.progress)
        try:
            visits = frontier_session.visit(benches, settings, rounds, requests, gpus, view.visit)
        finally:
            view.progress.end()
    kept = frontier_session.kept(benches, settings, gpus, visits, expected, model[0] if model else "")
    return cli_options.answer(benches.keep(KIND, FILE, kept), args, show_frontier, f"its runs: hotlap list {LABEL}={kept.label}")


class FrontierView:
    """How it goes: the run under way, and a line for each that is measured."""

    def __init__(self, most: int) -> None:
        self.most, self.progress = most, cli_options.ProgressView(sys.stderr)

    def visit(self, visit: FrontierVisit, count: int) -> None:
        self.progress.end()
        rates = [block.throughput for block in visit.blocks]
        shown = f"{units.round_to(sum(rates) / len(rates))} tokens/s" if rates else "no tokens were counted"
        shown = f"inconclusive: the client: {show.FLAWS[visit.flaws[0]]}" if visit.flaws else shown
        print(f"hotlap: {show_frontier.name(visit.setting)} ({count} of {self.most} runs): {shown}", file=sys.stderr)


def _settings(args: argparse.Namespace) -> list[str]:
    """As arrivals. Raises InputError."""
    if args.concurrency and args.rates:
        raise InputError("--concurrency and --rates are two kinds of load: give one of them")
    kind, given = ("poisson", args.rates) if args.rates else ("closed", args.concurrency or CONCURRENCY)
    parts = [part.strip() for part in given.split(",") if part.strip()]
    settings, parsed = [f"{kind}:{part}" for part in parts], [_load(kind, part) for part in parts]
    if len(settings) < 2 or len(set(parsed)) < len(parsed):
        raise InputError(f"a frontier needs two loads at least, each once, as in {CONCURRENCY}; not '{given}'")
    most = units.parse(args.max_rate, "") if args.max_rate else None
    if most is not None and args.rates and max(process.rate for process in parsed) > most:
        raise InputError(f"--rates {args.rates} asks for more than --max-rate {args.max_rate}")
    return settings


def _load(kind: str, text: str) -> ArrivalProcess:
    """Raises InputError in the words of the option that holds it."""
    try:
        return arrivals.parse(f"{kind}:{text}")
    except InputError:
        most = f"{arrivals.MOST_AT_ONCE:,} requests at a time" if kind == "closed" else f"{arrivals.MOST_PER_S:g} requests a second"
        option, what = ("--rates", "rates above 0") if kind == "poisson" else ("--concurrency", "whole numbers from 1")
        raise InputError(f"{option}: {what} to {most}, with commas, as in {CONCURRENCY}; not '{text}'") from None


def _simulated_gpus(url: str) -> int | None:
    return simulated.parse(url).tp if simulated.is_address(url) else None
