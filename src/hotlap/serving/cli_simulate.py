"""hotlap serving simulate GPU --model NAME"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from typing import Any

from hotlap.cli import terminal
from hotlap.core import units
from hotlap.core.errors import InputError
from hotlap.core.work.networks import calls, steps
from hotlap.serving.simulated import http
from hotlap.serving.simulated.facts import ServerFacts
from hotlap.serving.simulated.faults import FAULTS
from hotlap.serving.simulated.options import HOST, ServerOptions, checked


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("gpu", metavar="GPU", help="of the machine table: 'hotlap model machines' lists them")
    parser.add_argument("--model", required=True, metavar="NAME", help="a network, its TOML file, or a config.json of Hugging Face")
    for name, default, about in _COUNTS:
        parser.add_argument(f"--{name}", default=str(default or ""), metavar="N", help=f"{about} (default: {default or 'what fits'})")
    parser.add_argument("--dtype", default="bf16", choices=calls.DTYPES, help="of weights and products (default: bf16)")
    parser.add_argument("--kv-dtype", default="bf16", choices=("bf16", "fp8"), help="of the cache of keys and values (default: bf16)")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME", help="what it does wrong, as below; several with commas")
    parser.add_argument("--port", default="0", metavar="N", help=f"of {HOST} (default: a free one)")
    parser.add_argument("--log", default="", metavar="FILE", help="one line of JSON for each request that ended, on the machine's clock")
    parser.add_argument("--for", dest="for_s", metavar="TIME", help="ends by itself after so long (default: with its parent, or by Ctrl-C)")
    parser.add_argument("--calibration", default="", metavar="NAME", help="as in hotlap predict (default: the machine's own)")
    parser.add_argument("--spec-only", action="store_true", help="by published figures alone, whatever was calibrated")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "faults:\n" + "\n".join(
        textwrap.fill(f"{name:<13}{about}", 100, initial_indent="  ", subsequent_indent=" " * 15) for name, about in FAULTS.items()
    )  # fmt: skip


_COUNTS = (
    ("tp", 1, "tensor-parallel GPUs"), ("batch", 256, "sequences of a step at most"), ("chunk", 8192, "tokens of a step at most"),
    ("context", 0, "tokens of a request at most, its answer with them"),
)  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Serves until it is ended; exit code 0 then."""
    given = {name: getattr(args, name) for name, _, _ in _COUNTS}
    counts: dict[str, Any] = {name: steps.count(text, f"--{name}", several=False) for name, text in given.items() if text}
    if not args.port.isdecimal():
        raise InputError(f"--port is a whole number, 0 for a free one, not '{args.port}'")
    for_s = units.parse(args.for_s, "s") if args.for_s else None
    if for_s is not None and for_s <= 0:
        raise InputError(f"--for is longer than 0, not {args.for_s}")
    faults = tuple(name for names in args.fault for name in names.split(","))
    options = ServerOptions(
        gpu=args.gpu, model=args.model, dtype=args.dtype, kv_dtype=args.kv_dtype, faults=faults, port=int(args.port),
        log=args.log, for_s=for_s, calibration=args.calibration, spec_only=args.spec_only, **counts,
    )  # fmt: skip

    def ready(facts: ServerFacts) -> None:
        if args.json:
            terminal.answer(args.json, facts, "server")
        else:
            print(listing(facts, for_s))
        sys.stdout.flush()

    http.run(checked(options), ready, os.getppid())
    return 0


def listing(facts: ServerFacts, for_s: float | None = None) -> str:
    """What is printed when it listens."""
    after = "" if for_s is None else f"after {units.exact(for_s, 's')}, "
    several = f"{facts.tp} GPUs {facts.gpu}" if facts.tp > 1 else facts.gpu
    alone = [f"prompt {units.show(facts.prefill_s, 's')}"]
    alone += [f"token {units.show(facts.decode_s, 's')}"] if facts.decode_s is not None else []
    rows = [
        ("serves", f"{facts.model} on {facts.url}/v1, as {several} would by the model"),
        ("alone", f"{', then each '.join(alone)}, at {facts.usual} tokens"),
        *([("holds", f"{facts.kv_tokens} tokens in its cache of keys and values")] if facts.kv_tokens is not None else []),
        ("takes", f"{facts.context} tokens a request; a step up to {facts.batch} sequences and {facts.chunk} tokens"),
        ("faults", "; ".join(f"{fault}: {FAULTS[fault]}" for fault in facts.faults) or "none"),
        *([("log", facts.log)] if facts.log else []),
        ("ends", f"{after}by Ctrl-C, by SIGTERM to {facts.pid}, or with the program that started it"),
    ]  # fmt: skip
    return "\n".join(f"{name:<8}{what}" for name, what in rows)
