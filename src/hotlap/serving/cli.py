"""hotlap serving bench URL"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from msgspec import structs

from hotlap.cli import terminal
from hotlap.core import objectives, units
from hotlap.core.errors import InputError
from hotlap.core.show import listing
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels as labelled
from hotlap.core.store import paths
from hotlap.core.work.networks import calls, steps
from hotlap.serving import address as addresses
from hotlap.serving import arrivals, cli_options, compacting, definitions, expected, session, show, show_kind, traffic, traffic_fit
from hotlap.serving.address import Address
from hotlap.serving.arrivals import ArrivalProcess
from hotlap.serving.record import Schedule, ServedOn, ServingAsked
from hotlap.serving.simulated import options as simulated

DEFAULT_S, ARRIVALS, MOST_SALT = 60.0, "constant:1", 32


def add(parser: argparse.ArgumentParser) -> None:
    cli_options.add_request(parser)
    parser.add_argument(
        "--arrivals", default=ARRIVALS, metavar="PROCESS",
        help=f"when requests are due: {'; '.join(arrivals.FORMS.values())} (default: constant:1)",
    )  # fmt: skip
    parser.add_argument("--trace", metavar="FILE", help="replay recorded traffic: its times, lengths and shared prefixes")
    parser.add_argument("--requests", metavar="N", help="end after so many, each waited for")
    parser.add_argument(
        "--for", dest="seconds", metavar="TIME", help="end after this time; what is under way is cut (default: 60 s; none with --requests)"
    )
    parser.add_argument("--attain", metavar="SHARE", help="of requests that has to meet the objectives, as in '99 %%'")
    parser.add_argument("--gpu", metavar="GPU", help="what serves, of 'hotlap model machines': the model's expectation stands beside")
    parser.add_argument("--network", metavar="NAME", help="with --gpu: what it serves, as in hotlap predict net (default: that of --model)")
    parser.add_argument("--tp", default="1", metavar="N", help="with --gpu: tensor-parallel GPUs (default: 1)")
    parser.add_argument("--dtype", default="bf16", choices=calls.DTYPES, help="with --gpu: of weights and products (default: bf16)")
    parser.add_argument("--warm-up", default="0", metavar="N", help="send so many first, and leave them out of every figure")
    parser.add_argument(
        "--salt", default="", metavar="WORD",
        help="begins every prompt (default: drawn, so that no cache knows it): one salt and seed twice meet one",
    )  # fmt: skip
    parser.add_argument("--definitions", choices=definitions.TOOLS, help="print too what this tool's client would say of these requests")


def run(args: argparse.Namespace) -> int:
    """Loads a server, and says what its requests took: exit code 0 measured or met, 1 not met, 3 that cannot be said."""
    trace = traffic.read(Path(args.trace)) if args.trace else None
    asked, process = _asked(args, trace)
    on = _served_on(args)
    labels = labelled.check(dict(terminal.pairs(args.label, "a label")))
    with cli_options.server(args) as url:
        address = addresses.resolve(url, args.this_server_is_mine)
        if process:
            _bounded(args, address, process)
        schedule = _schedule(trace, asked) if trace else None
        options = session.ServingOptions(
            paths.home(), labels, cli_options.headers(args), cli_options.key(args), schedule=schedule, on=on,
            prefix_share=_prefix_share(schedule) if schedule else None,
        )  # fmt: skip
        view = cli_options.ProgressView(sys.stderr)
        try:
            path = session.run(address, asked, options, view)
        finally:
            view.end()
    return _show(path, args)


def _served_on(args: argparse.Namespace) -> ServedOn | None:
    """What serves, where that is known. Raises InputError for what no GPU of the table can serve."""
    if simulated.is_address(args.url):
        if args.gpu or args.network:
            raise InputError("a simulated server says itself what it is: leave --gpu and --network out")
        o = simulated.parse(args.url)
        return ServedOn(gpu=o.gpu, network=o.model, tp=o.tp, dtype=o.dtype, kv_dtype=o.kv_dtype, batch=o.batch, chunk=o.chunk)
    if not args.gpu:
        if args.network:
            raise InputError("--network needs --gpu: on which GPU is it served, as in --gpu h200-sxm")
        return None
    if not (args.network or args.model):
        raise InputError("--gpu needs what is served: give --network, as in --network llama-3-8b, or --model where that is its name")
    tp = steps.count(args.tp, "--tp", several=False)
    on = ServedOn(gpu=args.gpu, network=args.network or args.model, tp=tp, dtype=args.dtype)
    expected.engine(on, expected.SHORT)
    return on


def _schedule(trace: traffic.TrafficTrace, asked: ServingAsked) -> Schedule:
    """The trace's own requests, as many as were asked for. Raises InputError for one without times."""
    schedule = traffic.schedule(trace, asked.seed)
    planned = [one for one in schedule.planned if asked.seconds is None or (one.due_s or 0.0) < asked.seconds][: asked.requests]
    return structs.replace(schedule, planned=tuple(planned))


def _prefix_share(schedule: Schedule) -> float | None:
    """Of the prompt tokens to be sent, that a prefix cache without a limit could find; None of a trace without hash ids."""
    inputs = [(one.prompt.input_tokens, one.prompt.prefix) for one in schedule.planned]
    if not any(prefix for _, prefix in inputs):
        return None
    return traffic_fit.shared(inputs).share if sum(tokens for tokens, _ in inputs) else 0.0


def _show(path: Path, args: argparse.Namespace) -> int:
    bundle = bundles.load(path)
    judged = show_kind.read(bundle)
    assert judged is not None  # the session wrote it
    for stop in bundle.run.stops:
        if stop.kind == "error":
            print(f"hotlap: {stop.detail}; what was measured until then is kept as {bundle.run.id}", file=sys.stderr)
    if args.json:
        keys = {"run": bundle.run.id, **show_kind.document(judged)}
        terminal.answer(args.json, keys, code=judged.code, judged=judged.code != 0 or judged.state != "measured")
    else:
        print(listing.heading(bundle, []))
        print("\n".join(show.lines(judged, terminal.width(), terminal.color())))
        if args.definitions:
            print("\n".join(["", *show.defined_lines(definitions.vllm(judged.serving), terminal.width(), terminal.color()), ""]))
        print("\n".join([*compacting.remedy(len(judged.serving.requests), judged.serving.packed), f"kept as {bundle.run.id}"]))
    return judged.code


def _asked(args: argparse.Namespace, trace: traffic.TrafficTrace | None) -> tuple[ServingAsked, ArrivalProcess | None]:
    if trace and args.arrivals != ARRIVALS:
        raise InputError("--trace has its own arrivals: leave out --arrivals, or scale the trace by hotlap serving traffic scale")
    process = None if trace else arrivals.parse(args.arrivals)
    limits = cli_options.limits(args.slo, args.api)
    if trace and (args.input, args.output) != cli_options.LENGTHS:
        raise InputError("--input and --output go without --trace: a trace has its own lengths")
    attain = terminal.share(args.attain, "--attain") if args.attain else None
    if attain is not None and not 0 < attain < 1:
        raise InputError(f"--attain is a share above 0 and below 100 %, not {args.attain}")
    if attain is not None and not limits:
        raise InputError("--attain needs objectives to be met: give --slo 'ttft<=450ms,tpot<=40ms'")
    requests = cli_options.whole(args.requests, "--requests") if args.requests else None
    seconds = cli_options.time_s(args.seconds, "--for") if args.seconds else None
    if requests is None and seconds is None and process:
        seconds = process.seconds if process.kind == "ramp" else DEFAULT_S
    if requests is None and seconds is None and trace:
        requests = len(trace.input_tokens)
    asked = ServingAsked(
        url=args.url, model=args.model, api=args.api, arrivals="trace" if trace else args.arrivals, requests=requests, seconds=seconds,
        seed=cli_options.whole(args.seed, "--seed", 0) if args.seed else secrets.randbits(31),
        input_tokens=cli_options.whole(args.input, "--input"), output_tokens=cli_options.whole(args.output, "--output"),
        warm_up=cli_options.whole(args.warm_up, "--warm-up", 0), ignore_eos=args.ignore_eos, objectives=objectives.show(limits),
        attain=attain, salt=_salt(args.salt), timeout_s=cli_options.time_s(args.timeout, "--timeout"),
    )  # fmt: skip
    return asked, process


def _salt(text: str) -> str:
    if text and not (len(text) <= MOST_SALT and text.isascii() and text.isalnum()):
        raise InputError(f"--salt is one word of letters and digits, at most {MOST_SALT}, not '{text}'")
    return text


def _bounded(args: argparse.Namespace, address: Address, process: ArrivalProcess) -> None:
    """Raises InputError for a load that nobody bounded."""
    most = units.parse(args.max_rate, "") if args.max_rate else None
    if most is None and process.kind == "ramp" and not address.loopback:
        raise InputError("a ramp on a server beyond this machine needs --max-rate: the most requests a second that it may get")
    if most is not None and process.peak > most:
        raise InputError(f"--arrivals {args.arrivals} asks for {process.peak:g} requests a second, more than --max-rate {args.max_rate}")
