"""hotlap training memory NETWORK | script.py | file.py:function | snapshot.pickle"""

from __future__ import annotations

import argparse
import sys

from hotlap.cli import cases, terminal
from hotlap.core import units
from hotlap.core.errors import InputError
from hotlap.core.show import listing
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels as labelled
from hotlap.core.store import paths
from hotlap.training import memory, memory_keep, memory_kind, memory_snapshot
from hotlap.training.memory_record import TrainingVariant


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="WHAT", help="a network, script.py, file.py:function(batch) → module, its inputs, or a snapshot")
    parser.add_argument("arguments", nargs="*", metavar="SIZE=N", help="of a network: layers=2 hidden=256; of a script, after --: its own")
    parser.add_argument("--batch", default="", metavar="N", help="sequences (or batch=N), or samples of a function (default: 1)")
    parser.add_argument("--context", default="", metavar="TOKENS", help="of a network, or context=TOKENS (default: 128)")
    parser.add_argument("--optimizer", choices=("adamw", "sgd"), default="adamw", help="(default: adamw)")
    parser.add_argument("--checkpointing", action="store_true", help="of each layer of a network")
    parser.add_argument("--autocast", action="store_true", help="products in bf16")
    parser.add_argument("--steps", default="2", metavar="N", help="optimizer steps to take (default: 2, since the first makes the state)")
    parser.add_argument("--machine", default="", metavar="NAME", help="does it fit on this GPU of the machine table")
    parser.add_argument("--predict", action="store_true", help="do not take real steps beside")
    parser.add_argument("--limit", default="10 min", metavar="TIME", help="for each method (default: 10 min)")
    parser.add_argument("--threads", default="1", metavar="N", help="of real steps (default: 1)")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run")


def run(args: argparse.Namespace) -> int:
    """Says what a step needs: exit code 0, 1 where it does not fit on --machine, 3 where that is too close to say, or the program failed
    before its steps were over."""
    limit_s = units.parse(args.limit, "s")
    if not 0 < limit_s <= 86400:
        raise InputError(f"--limit is a time above 0 and at most 24 h, not '{args.limit}'")
    arguments, batch, context = _lengths(args)
    variant = TrainingVariant(
        optimizer=args.optimizer, checkpointing=args.checkpointing, autocast=args.autocast,
        batch=terminal.whole(batch, "--batch", most=1_000_000),
        context=terminal.whole(context, "--context", most=10_000_000),
    )  # fmt: skip
    asked = memory.MemoryAsked(
        target=args.target, arguments=arguments, variant=variant,
        steps=terminal.whole(args.steps, "--steps", most=1000), machine=args.machine,
        measure=not args.predict, limit_s=limit_s, threads=terminal.whole(args.threads, "--threads", most=1024),
    )  # fmt: skip
    if args.checkpointing and ".py" in args.target:
        raise InputError("--checkpointing is of a network's layers; in code of your own, call torch.utils.checkpoint there")
    labels = labelled.check(dict(terminal.pairs(args.label, "a label")))
    report = memory.report(asked, _listener() if sys.stderr.isatty() else lambda _: None)
    bundle = bundles.load(memory_keep.keep(report, labels, paths.home()))
    code = 0 if report.fit is None else {"fits": 0, "too close": 3, "does not fit": 1}[report.fit.state]
    code = code or (3 if report.accounts[0].ended else 0)
    if args.json:
        cases.answer(args.json, bundle, memory_kind.document(report), code, judged=report.fit is not None)
    else:
        print(listing.heading(bundle))
        print(memory_kind.text(report, terminal.width(), terminal.color()))
        print(f"kept as {bundle.run.id}")
    return code


def _lengths(args: argparse.Namespace) -> tuple[tuple[str, ...], str, str]:
    """Arguments, batch and context: of a network these two may stand among its sizes, as in `training run`."""
    given, left = {"batch": args.batch, "context": args.context}, list[str]()
    network = ".py" not in args.target and not memory_snapshot.is_snapshot(args.target)
    for text in args.arguments:
        name, _, value = text.partition("=")
        if not network or name not in given:
            left.append(text)
        elif given[name]:
            raise InputError(f"'{text}': --{name} {given[name]} says it too; give one of them")
        else:
            given[name] = value
    return tuple(left), given["batch"] or "1", given["context"] or "128"


def _listener() -> memory.Listener:
    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text[: terminal.width() - 1]}\r")
        sys.stderr.flush()

    return show
