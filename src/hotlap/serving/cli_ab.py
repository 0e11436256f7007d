"""hotlap serving ab A.toml B.toml"""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Sequence
from typing import NoReturn

from hotlap.cli import ab as core_ab
from hotlap.cli import terminal
from hotlap.core.errors import InputError, Interrupted, nearest
from hotlap.core.measure import signals
from hotlap.core.show import layout, words
from hotlap.core.store import labels as labelled
from hotlap.core.store import paths
from hotlap.core.trials import ab
from hotlap.serving import ab_blocks, ab_config, ab_further, ab_live, ab_tails, cli_options

DIFFERENCE = 0.05
SIGNALLED = 128  # exit codes from here on are of signals


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A.toml", help="a configuration: [server] with url, command or simulated, and [load]")
    parser.add_argument("b", metavar="B.toml", help="the same of the server that is compared with it; [load] must be equal")
    metrics = ", ".join(ab_blocks.METRICS)
    parser.add_argument(
        "--metric", default="", metavar="NAMES",
        help=f"compared by its median over a block, as in ttft,tpot; of {metrics} (default: e2e)",
    )  # fmt: skip
    parser.add_argument("--resolve", metavar="SHARE", help="change to be found with 80 %% power (default: 5 %%, or twice --min-effect)")
    parser.add_argument("--min-effect", metavar="SHARE", help="minimum change to report (threshold; default: a quarter of --resolve)")
    parser.add_argument("--budget", metavar="TIME", help="end within this, as in '5 min', answered or not")
    parser.add_argument("--pairs", default="200", metavar="N", help="no more pairs of blocks than this (default: 200)")
    parser.add_argument("--one-at-a-time", action="store_true", help="start and end a server for each block, where both do not fit")
    parser.add_argument("--seed", default="", metavar="N", help="of arrivals, prompts and the order of blocks (default: drawn, and kept)")
    parser.add_argument("--this-server-is-mine", action="store_true", help="load servers that are not on this machine")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with every run")


def run(args: argparse.Namespace) -> int:
    """Loads both servers in blocks until the answer is sure; exit code 0 when B is not slower, 1 when it is or surely fails more
    often, 3 when inconclusive."""
    a, b = ab_config.pair(args.a, args.b, args.one_at_a_time)
    metrics = _metrics(args.metric, a.load)
    seed = cli_options.whole(args.seed, "--seed", 0) if args.seed else secrets.randbits(31)
    labels = labelled.check({"ab": secrets.token_hex(3), **terminal.pairs(args.label, "a label")})  # ties the blocks to their comparison
    asked = core_ab.options(args, dict(labels), DIFFERENCE, seed)
    tally, live = ab_blocks.Tally(), ab_live.LiveOptions(paths.home(), seed, labels, metrics, args.one_at_a_time, args.this_server_is_mine)
    with signals.caught(_interrupt), ab_live.source(a, b, live) as source:
        trial = ab_blocks.BlockTrial(a.load, metrics, source, tally)
        first, second = (ab_blocks.arm(side, one.name, trial, one.server.configuration) for side, one in (("A", a), ("B", b)))
        began_s = time.monotonic()
        try:
            done = ab.ab(first, second, asked, paths.home(), core_ab.AbProgress())
        except KeyboardInterrupt as stop:  # before the first pair
            _warming_up(len(tally.runs) + isinstance(stop, ab_live.BlockInterrupted), str(labels["ab"]))
            raise
    elapsed_s = time.monotonic() - began_s
    further = [] if tally.spoilt else ab_further.of(done, asked, metrics, a.load.requests, elapsed_s, len(tally.lost))
    lines = [*_lines(tally, a.load, seed, metrics), *(line for one in further for line in ab_further.lines(one, terminal.width()))]
    code = core_ab.answer(done, asked, args, {"seed": seed, **tally.document(), "further": further}, lines, tally.spoilt)
    return max(code, 1) if ab_blocks.worse(tally) and code < SIGNALLED else code


def _interrupt(_: int) -> NoReturn:
    """Between blocks; during one its bench is told."""
    raise KeyboardInterrupt


def _warming_up(blocks: int, name: str) -> None:
    """Raises Interrupted with where the blocks are."""
    if blocks:
        were = f"{words.counted(blocks, 'block')} that warmed up {'is' if blocks == 1 else 'are'} kept"
        raise Interrupted(f"interrupted before the first pair; {were}: hotlap list ab={name}") from None


def _metrics(text: str, load: ab_config.SideLoad) -> Sequence[str]:
    names = list(dict.fromkeys(part.strip() for part in (text or "e2e").split(",")))
    for name in names:
        if name not in ab_blocks.METRICS:
            raise InputError(f"--metric: no metric '{name}'; {nearest(name, ab_blocks.METRICS)}")
        if load.api == "embeddings" and name in ("ttft", "tpot"):
            raise InputError(f"--metric {name}: an embedding has no tokens of its own; take e2e or throughput")
    return names


def _lines(tally: ab_blocks.Tally, load: ab_config.SideLoad, seed: int, metrics: Sequence[str]) -> list[str]:
    longer = ", or compare e2e alone: beside TTFT less delay is allowed" if "ttft" in metrics else ""
    remedy = f"use a quieter machine, or longer requests{longer}"
    whose = "; ".join(dict.fromkeys(tally.lost.values()))
    lost = f"; {words.counted(len(tally.lost), 'pair')} left out: the client was at fault ({whose}): {remedy}" if tally.lost else ""
    sent, failed = (" and ".join(f"{side} {count}" for side, count in each.items()) for each in (tally.sent, tally.failed))
    counts = " and ".join(f"{side} {count}" for side, count in tally.counted().items())
    counted = f"requests of the {words.counted(len(tally.pairs), 'pair')} that count: {counts}; of all, with blocks that warm up: {sent}; "
    counted += f"failed: {failed}{lost}"
    blocks = layout.paragraph("blocks  ", f"of {load.requests} requests, seed {seed}; {counted}", terminal.width(), 8)
    return [*_tails(tally, metrics), *blocks, *_worse(tally)]


def _tails(tally: ab_blocks.Tally, metrics: Sequence[str]) -> list[str]:
    """Both sides beside the verdict, which statistic decides, and what differs although the verdict is not of it."""
    tails, width = tally.tails(), terminal.width()
    if not tails.tails:
        return []
    of_block = ", ".join(f"{name}'s median" if name != "throughput" else "throughput" for name in metrics)
    about = f"all answers of pairs that count ({', '.join(f'{side} {count}' for side, count in tails.answered.items())}); of a block "
    shown = [*layout.fitted(ab_tails.table(tails).columns, width).lines(terminal.color()), ""]
    shown += layout.paragraph("tails   ", f"{about}{of_block} decides, not these", width)
    for notice in ab_tails.notices(tails, metrics):
        shown += layout.paragraph("notice  ", notice, width)
    return shown


def _worse(tally: ab_blocks.Tally) -> list[str]:
    if not ab_blocks.worse(tally):
        return []
    counts = {side: f"{tally.failed[side]} of {tally.sent[side]}" for side in "AB"}
    return [f"failed  B fails more often, {counts['B']} requests against {counts['A']}: it is worse, whatever its times (exit code 1)"]
