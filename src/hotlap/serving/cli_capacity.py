"""hotlap serving capacity URL --slo OBJECTIVES"""

from __future__ import annotations

import argparse
import secrets
import sys

from hotlap.cli import terminal
from hotlap.core import objectives, units
from hotlap.core.errors import InputError
from hotlap.core.store import labels as labelled
from hotlap.core.store import paths
from hotlap.serving import address as addresses
from hotlap.serving import arrivals, capacity, cli_options, show_capacity
from hotlap.serving.address import Address
from hotlap.serving.capacity import Capacity, CapacityOptions
from hotlap.serving.capacity_expected import ServerModel
from hotlap.serving.capacity_record import FILE, KIND, LABEL, ArrivalsAsked, RateVisited
from hotlap.serving.capacity_session import ServerSearch
from hotlap.serving.record import ServingAsked
from hotlap.serving.session import ServingOptions
from hotlap.serving.several import SeveralBenches
from hotlap.serving.simulated import options as simulated
from hotlap.serving.simulated.options import ServerOptions

REQUESTS, RATES, WIDTH = 10_000, 12, "5 %"
START, OF_EXPECTED = 1.0, 0.5  # the first rate, 1/s; where the model expects a capacity, this much of it
LONG_S = 1800.0  # of a search: then it is said how long it takes


def add(parser: argparse.ArgumentParser) -> None:
    cli_options.add_request(parser)
    parser.add_argument("--attain", default="90 %", metavar="SHARE", help="of requests that has to meet the objectives (default: 90 %%)")
    parser.add_argument("--arrivals", default="poisson", metavar="PROCESS", help="poisson (default), constant, or gamma:SHAPE")
    parser.add_argument("--start", metavar="RATE", help="the first rate (default: 1 a second; half of what the model expects)")
    parser.add_argument(
        "--requests", metavar="N", help=f"of all rates together, at most (default: {REQUESTS}; half the interval costs four times as many)"
    )
    parser.add_argument("--rates", default=str(RATES), metavar="N", help=f"at most (default: {RATES})")
    ends = f"of the interval, at which the search ends (default: {WIDTH.replace('%', '%%')})"
    parser.add_argument("--width", default=WIDTH, metavar="SHARE", help=ends)
    parser.add_argument("--for", dest="seconds", metavar="TIME", help="end after this time; what is under way then is cut")
    add_model(parser)


def add_model(parser: argparse.ArgumentParser) -> None:
    """What the server is, for the model beside what is measured; of a simulated one it is known."""
    parser.add_argument("--gpu", default="", metavar="NAME", help="the server's, of the machine table: the model stands beside")
    parser.add_argument("--network", default="", metavar="NAME", help="that it serves: a network, its TOML file, or a config.json")
    parser.add_argument("--tp", default="1", metavar="N", help="its tensor-parallel GPUs (default: 1)")


def run(args: argparse.Namespace) -> int:
    """Searches the rate that a server holds. Exit code 0 where it is known between which rates that lies, 3 where not, 130 interrupted."""
    process, asked = _process(args.arrivals), asked_of(args, f"{args.arrivals} at several rates")
    seconds = cli_options.time_s(args.seconds, "--for") if args.seconds else None
    labels = labelled.check(dict(terminal.pairs(args.label, "a label")))
    model = model_of(args, asked)
    attain = _attain(args.attain)
    known = _options(args, attain, START)  # refuses what cannot be before a server is started
    expected = model[1].capacity(process.form, attain) if model else None
    if expected and not args.start:
        known = _options(args, attain, OF_EXPECTED * min(_middle(expected) or START, known.max_rate or arrivals.MOST_PER_S))
    with cli_options.server(args) as url:
        address = addresses.resolve(url, args.this_server_is_mine)
        bounded(args, address, "a search for capacity")
        if seconds is None:
            _warn(known.requests, (_middle(expected) if expected else None) or known.start)
        view = SearchView(known.rates)
        options = ServingOptions(paths.home(), labels, cli_options.headers(args), cli_options.key(args))
        benches = SeveralBenches(address, with_model(asked, args), options, LABEL, seconds, view.progress)
        search = ServerSearch(benches, process, known, view.rate)
        try:
            answer = search.run()
        finally:
            view.progress.end()
    kept = search.kept(answer, expected, model[0] if model else "")
    return cli_options.answer(benches.keep(KIND, FILE, kept), args, show_capacity, f"its rates: hotlap list {LABEL}={kept.label}")


class SearchView:
    """How the search goes: the rate under way, and a line for each that is measured."""

    def __init__(self, most: int) -> None:
        self.most, self.count, self.progress = most, 0, cli_options.ProgressView(sys.stderr)

    def rate(self, visited: RateVisited, known: Capacity) -> None:
        self.count += 1
        self.progress.end()
        shown = show_capacity.remark(visited) or f"{visited.met} of {visited.decided} met the objectives"
        bounds = " to ".join(units.round_to(bound) if bound is not None else "?" for bound in (known.known_good, known.known_bad))
        rate = f"{units.round_to(visited.rate)}/s ({self.count} of at most {self.most})"
        print(f"hotlap: {rate}: {shown}; capacity {bounds}/s", file=sys.stderr)


def asked_of(args: argparse.Namespace, what: str) -> ServingAsked:
    """What every bench of several is asked. Raises InputError."""
    limits = cli_options.limits(args.slo, args.api)
    return ServingAsked(
        url=args.url, model=args.model, api=args.api, arrivals=what, ignore_eos=args.ignore_eos,
        seed=cli_options.whole(args.seed, "--seed", 0) if args.seed else secrets.randbits(31),
        input_tokens=cli_options.whole(args.input, "--input"), output_tokens=cli_options.whole(args.output, "--output"),
        objectives=objectives.show(limits), timeout_s=cli_options.time_s(args.timeout, "--timeout"),
    )  # fmt: skip


def model_of(args: argparse.Namespace, asked: ServingAsked) -> tuple[str, ServerModel] | None:
    """Of which GPU and network, and its model; None where they are not known. Raises InputError."""
    if simulated.is_address(args.url):
        if args.gpu or args.network:
            raise InputError("--gpu and --network are known of a simulated server: leave them out")
        options = simulated.parse(args.url)
    elif args.gpu and args.network:
        options = simulated.checked(ServerOptions(gpu=args.gpu, model=args.network, tp=cli_options.whole(args.tp, "--tp")))
    elif args.gpu or args.network:
        raise InputError("the model needs both --gpu and --network, as in --gpu h200-sxm --network llama-3-8b")
    else:
        return None
    several = f"{options.tp} × " if options.tp > 1 else ""
    return f"{options.model} on {several}{options.gpu}", ServerModel(options, asked)


def with_model(asked: ServingAsked, args: argparse.Namespace) -> ServingAsked:
    """With the name under which a simulated server, once it is started, has its model."""
    return ServingAsked(**{**{name: getattr(asked, name) for name in asked.__struct_fields__}, "model": args.model})


def bounded(args: argparse.Namespace, address: Address, what: str) -> None:
    """Raises InputError for a load beyond this machine that nobody bounded."""
    if args.max_rate is None and not address.loopback:
        raise InputError(f"{what} on a server beyond this machine needs --max-rate: the most requests a second that it may get")


def _process(text: str) -> ArrivalsAsked:
    kind, _, rest = text.partition(":")
    if kind not in ("poisson", "constant", "gamma") or (kind == "gamma") != bool(rest):
        raise InputError(f"--arrivals '{text}': here poisson, constant or gamma:SHAPE, as in gamma:0.5; the rates are what is searched")
    shape = arrivals.parse(f"gamma:1,{rest}").shape if rest else 1.0
    return ArrivalsAsked(kind, shape)


def _attain(text: str) -> float:
    attain = terminal.share(text, "--attain")
    if not 0 < attain < 1:
        raise InputError(f"--attain is a share above 0 and below 100 %, not {text}")
    return attain


def _options(args: argparse.Namespace, attain: float, start: float) -> CapacityOptions:
    if not args.slo:
        raise InputError("capacity is the rate at which objectives are met: give --slo 'ttft<=450ms,tpot<=40ms'")
    requests = cli_options.whole(args.requests, "--requests") if args.requests else max(REQUESTS, 3 * capacity.least_requests(attain))
    most = min(units.parse(args.max_rate, "") if args.max_rate else arrivals.MOST_PER_S, arrivals.MOST_PER_S)
    first = units.parse(args.start.removesuffix("/s"), "") if args.start else min(start, most)
    options = CapacityOptions(
        attain=attain, start=first, requests=requests, rates=cli_options.whole(args.rates, "--rates"), max_rate=most,
        width=terminal.share(args.width, "--width"),
    )  # fmt: skip
    capacity.check(options)
    return options


def _middle(expected: Capacity) -> float | None:
    return expected.estimate or expected.known_bad or expected.known_good


def _warn(requests: int, rate: float) -> None:
    """How long a search takes that nobody bounded: each request has to come."""
    if requests / rate > LONG_S:
        long, faster = (_long(requests / each) for each in (rate, 10 * rate))
        print(
            f"hotlap: up to {requests} requests have to be sent: {long} at {units.round_to(rate)}/s, "
            f"{faster} at {units.round_to(10 * rate)}/s; --for bounds the time, --requests the load", file=sys.stderr,
        )  # fmt: skip


def _long(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{seconds / 60:.0f} min"
