"""hotlap training infer MODEL.onnx"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from hotlap.cli import cases, terminal
from hotlap.core import units
from hotlap.core.errors import InputError, nearest
from hotlap.core.measure import near
from hotlap.core.show import listing
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths
from hotlap.training import infer, infer_show
from hotlap.training.engines import ENGINES
from hotlap.training.infer_record import GENERATORS, Budget, Generator, InferAsked, InferRound
from hotlap.training.loadgen_rules import SCENARIOS, Scenario

MOST_S, MOST_ROUNDS, MOST_THREADS, MOST_BATCH = 3600.0, 200, 1024, 4096
PRECISIONS = ("fp32", "bf16")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an ONNX file, or of PyTorch: .pt or .jit (TorchScript), .pt2 (exported)")
    parser.add_argument("--engine", default=",".join(ENGINES), metavar="NAMES", help=f"of {', '.join(ENGINES)} (default: all)")
    parser.add_argument("--scenario", default="single", metavar="NAMES", help="; ".join(f"{n}: {t}" for n, t in SCENARIOS.items()))
    parser.add_argument("--by", default=",".join(GENERATORS), metavar="NAMES", help="whose load: hotlap's, loadgen's (default: both)")
    parser.add_argument("--for", dest="seconds", default="2 s", metavar="TIME", help="each scenario, in each process (default: 2 s)")
    parser.add_argument("--rounds", default="6", metavar="N", help="processes of each engine (default: 6, the fewest with an interval)")
    parser.add_argument("--threads", default="", metavar="N", help="of each engine, or onnxruntime=1,openvino=2 (default: all processors)")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32", help="that openvino may compute in (default: fp32)")
    parser.add_argument("--spin", action="store_true", help="let idle threads of onnxruntime keep their processors busy")
    parser.add_argument("--batch", default="1", metavar="N", help="most samples that an engine gets at once, in multi and offline")
    parser.add_argument("--rate", metavar="RATE", help="of server: queries a second")
    parser.add_argument("--within", metavar="TIME", help="of server: the latency that 99 %% of the queries have to keep")
    parser.add_argument("--clients", default="4", metavar="N", help="of closed (default: 4)")
    parser.add_argument("--queries", default="1", metavar="N", help="fewest of each scenario; of offline samples (default: 1)")
    parser.add_argument("--file", action="append", default=[], metavar="ENGINE=FILE", help="what this engine loads in place of MODEL")
    parser.add_argument("--shape", action="append", default=[], metavar="INPUT=1,576", help="of an input that the model leaves open")
    parser.add_argument("--value", action="append", default=[], metavar="INPUT=X", help="an input that always has this value")
    parser.add_argument("--below", action="append", default=[], metavar="INPUT=N", help="an input of whole numbers from 0 to N-1 (100)")
    parser.add_argument("--seed", default="", metavar="N", help="of samples, arrivals and turns (default: drawn, and kept)")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run")
    parser.add_argument("--wait", metavar="TIME", help="for a run that measures this machine already")


def run(args: argparse.Namespace) -> int:
    """Measures engines on one model: exit code 0 where one was measured, 3 where none could be."""
    asked = asked_of(args)
    wait_s = units.parse(args.wait, "s") if args.wait else 0.0
    options = infer.InferOptions(paths.home(), dict(terminal.pairs(args.label, "a label")), wait_s)
    path = infer.run(asked, options, _listener() if sys.stderr.isatty() else lambda _: None)
    bundle = bundles.load(path)
    judged = infer_show.read(bundle)
    assert judged is not None  # the session wrote it
    for stop in bundle.run.stops:
        if stop.kind == "error":
            print(f"hotlap: {stop.detail}; what was measured until then is kept as {bundle.run.id}", file=sys.stderr)
    if args.json:
        cases.answer(args.json, bundle, infer_show.document(judged), judged.code)
    else:
        print(listing.heading(bundle, []))
        print("\n".join(infer_show.lines(judged, terminal.width(), terminal.color())))
        print(f"kept as {bundle.run.id}")
    return judged.code


def _listener() -> infer.Listener:
    def show(done: InferRound) -> None:
        text = f"round {done.round + 1}: {done.engine}, {done.scenario} by {done.generator}: {done.status}"
        sys.stderr.write(f"\r\x1b[K{text[: terminal.width() - 1]}\r")
        sys.stderr.flush()

    return show


def asked_of(args: argparse.Namespace) -> InferAsked:
    """Raises InputError for names, files and numbers that are none."""
    names = _names(args.engine, ENGINES, "an engine", "--engine")
    scenarios = _names(args.scenario, SCENARIOS, "a scenario", "--scenario")
    generators = _names(args.by, GENERATORS, "a load generator", "--by")
    given = _files(args, names)
    rate = units.parse(args.rate, "") if args.rate else None
    bound_s = units.parse(args.within, "s") if args.within else None
    if "server" in scenarios and (rate is None or bound_s is None):
        raise InputError("the scenario server needs --rate, queries a second, and --within, the latency that 99 % of them have to keep")
    if (rate is not None and not 0 < rate <= 1e6) or (bound_s is not None and bound_s <= 0):
        raise InputError(f"--rate is above 0 and at most 10^6 a second, --within a time above 0, not {args.rate} and {args.within}")
    seconds = units.parse(args.seconds, "s")
    if not 0 < seconds <= MOST_S:
        raise InputError(f"--for is a time above 0 and at most 1 h, not '{args.seconds}'")
    return InferAsked(
        model=args.model, files=given, budgets=_budgets(args, names), scenarios=cast("tuple[Scenario, ...]", scenarios),
        generators=cast("tuple[Generator, ...]", generators), seconds=seconds,
        rounds=terminal.whole(args.rounds, "--rounds", most=MOST_ROUNDS),
        seed=terminal.whole(args.seed, "--seed", 0, 2**31 - 1) if args.seed else secrets.randbits(31),
        min_queries=terminal.whole(args.queries, "--queries", most=10_000_000),
        rate=rate, bound_s=bound_s, clients=terminal.whole(args.clients, "--clients", most=1000),
        batch=terminal.whole(args.batch, "--batch", most=MOST_BATCH),
        shapes={name: _shape(text) for name, text in terminal.pairs(args.shape, "a shape").items()},
        values={name: units.parse(text, "") for name, text in terminal.pairs(args.value, "a value").items()},
        high={name: terminal.whole(text, "--below", most=2**31) for name, text in terminal.pairs(args.below, "a bound").items()},
    )  # fmt: skip


def _names(text: str, valid: Iterable[str], what: str, option: str) -> tuple[str, ...]:
    known = tuple(valid)
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in known:
            raise InputError(f"{option}: '{name}' is not {what}; {nearest(name, known)}")
    if not names:
        raise InputError(f"{option}: name at least one of {', '.join(known)}")
    return names


def _files(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, str]:
    own = terminal.pairs(args.file, "a file")
    for name in own:
        if name not in names:
            raise InputError(f"--file {name}: that engine is not asked for; {nearest(name, names)}")
    given = {name: own.get(name, args.model) for name in names}
    for name, path in {"the model": args.model, **given}.items():
        if not Path(path).is_file():
            raise InputError(f"'{path}' ({name}) is no file; give a model, as in net.onnx")
        if not os.access(path, os.R_OK):
            raise InputError(f"'{path}' ({name}) may not be read")
    return {name: str(Path(path).resolve()) for name, path in given.items()}


def _budgets(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Budget]:
    everywhere, own = near.processors(), dict[str, str]()
    if "=" in args.threads:
        own = terminal.pairs([part.strip() for part in args.threads.split(",")], "a number of threads")
        for name in own:
            if name not in names:
                raise InputError(f"--threads {name}: that engine is not asked for; {nearest(name, names)}")
    elif args.threads:
        everywhere = terminal.whole(args.threads, "--threads", most=MOST_THREADS)
    threads = {name: terminal.whole(own[name], "--threads", most=MOST_THREADS) if name in own else everywhere for name in names}
    return {name: Budget(threads=threads[name], spin=args.spin, precision=args.precision) for name in names}


def _shape(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()] if text != "scalar" else []
    return tuple(terminal.whole(part, "--shape", most=10**9) for part in parts)
