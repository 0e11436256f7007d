"""hotlap ab A B"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from hotlap.cli import looking, terminal
from hotlap.cli.progress import LOG_S
from hotlap.core import units
from hotlap.core.analysis import turns
from hotlap.core.errors import InputError
from hotlap.core.record import Comparison
from hotlap.core.show import comparison, document, shape
from hotlap.core.stats.sequential import PILOT
from hotlap.core.stats.turns import aligned
from hotlap.core.store import bundle, paths
from hotlap.core.trials import ab, arms
from hotlap.core.units import percent

DIFFERENCE = 0.02


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", help="a command line in quotes, or a plan")
    parser.add_argument("b", help="a second one, or a second plan, that is compared with A; hotlap bench measures one alone")
    parser.add_argument("--resolve", metavar="SHARE", help="change to be found with 80 %% power (default: 2 %%, or twice --min-effect)")
    parser.add_argument("--min-effect", metavar="SHARE", help="minimum change to report (threshold; default: a quarter of --resolve)")
    parser.add_argument("--metric", metavar="POINTER|PATTERN", help="number in a command's output: a JSON pointer (/a/b) or a pattern")
    parser.add_argument("--unit", metavar="UNIT", help="of --metric, as in FLOP/s")
    parser.add_argument("--better", choices=("lower", "higher"), help="which way --metric is better")
    parser.add_argument("--budget", metavar="TIME", help="end within this, as in '5 min', answered or not")
    parser.add_argument("--pairs", default="1000", metavar="N", help="no more pairs than this (default: 1000)")
    parser.add_argument("--timeout", metavar="TIME", help="longest time for one execution (default: 60 s)")
    parser.add_argument("--target", default="", help="of plans: as in hotlap run")
    parser.add_argument("--device", default="", metavar="INDEX|UUID", help="of plans: as in hotlap run")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with both runs")
    looking.wait(parser, "for a device that another run holds (default: plans are refused, of commands it is said)")


def run(args: argparse.Namespace) -> int:
    """Measures A and B in turns until the answer is sure; exit code 0 when B is not slower, 1 when it is, 3 when inconclusive."""
    asked, how = options(args, dict(terminal.pairs(args.label, "a label"))), _how(args)
    asked = dataclasses.replace(asked, wait_s=looking.wait_s(args), tell=looking.say)
    a, b = (arms.arm(text, how, args.target, args.device) for text in (args.a, args.b))
    return answer(ab.ab(a, b, asked, paths.home(), AbProgress()), asked, args)


def answer(
    done: ab.AbOutcome, options: ab.AbOptions, args: argparse.Namespace, keys: Mapping[str, Any] | None = None, lines: Sequence[str] = (),
    doubt: str = "",
) -> int:
    """Prints what came of it, and returns the exit code. `keys`: more of --json; `lines`: more of the text; `doubt`: why nothing may be
    concluded from the pairs that there are."""
    comparisons = [turns.comparison(pair.a, pair.b, done.turns, done.stop) for pair in done.pairs]
    comparisons = [replace(one, answer="inconclusive", reason=doubt) for one in comparisons] if doubt else comparisons
    code = {"interrupted": 130, "error": 3}.get(done.stop.kind) or _code(comparisons)
    runs = [path.name for path in done.runs]
    if args.json == shape.SHAPE:
        every = {"runs": runs, "stop": done.stop, "designs": [pair.design for pair in done.pairs], **(keys or {})}
        terminal.print_json(document.of_comparisons([(comparisons, bundle.read_run(done.runs[1]))], code, every))
    elif args.json:
        terminal.print_former({"runs": runs, "stop": done.stop, "cases": comparisons, "designs": [pair.design for pair in done.pairs]})
    else:
        print(comparison.in_turns(comparisons, (args.a, args.b), options.difference, terminal.width(), color=terminal.color()))
        print("\n".join(["", *lines, f"saved   hotlap compare {' '.join(runs)}"]))
    if done.stop.kind == "error":
        print(f"hotlap: {done.stop.detail}; what was measured until then is saved: hotlap compare {' '.join(runs)}", file=sys.stderr)
    return code


def _code(comparisons: Sequence[Comparison]) -> int:
    if any(one.answer == "slower" for one in comparisons):
        return 1
    return 3 if any(one.answer == "inconclusive" for one in comparisons) else 0


def options(args: argparse.Namespace, labels: dict[str, object], usual: float = DIFFERENCE, order_seed: int | None = None) -> ab.AbOptions:
    """`usual`: the change to be found where --resolve does not say it. Raises InputError."""
    min_effect = terminal.share(args.min_effect, "--min-effect") if args.min_effect is not None else None
    difference = terminal.share(args.resolve, "--resolve") if args.resolve is not None else max(usual, 2 * (min_effect or 0.0))
    min_effect = difference / 4 if min_effect is None else min_effect
    most = units.parse(args.pairs, "")
    if not 0 < difference < 1:
        raise InputError(f"--resolve is a share above 0 and under 100 %, as in '1 %', not {args.resolve or percent(difference)}")
    if not 0 <= min_effect < difference:
        raise InputError(f"--min-effect is a share from 0 to below --resolve ({percent(difference)}), not {args.min_effect}")
    if most != int(most) or most < PILOT:
        raise InputError(f"--pairs is a whole number of at least {PILOT}, not {args.pairs}")
    budget_s = units.parse(args.budget, "s") if args.budget else math.inf
    return ab.AbOptions(difference, min_effect, budget_s, int(most), labels, order_seed=order_seed)


def _how(args: argparse.Namespace) -> dict[str, object]:
    """Parameters of the workload `command`."""
    how: dict[str, object] = {"timeout": args.timeout} if args.timeout else {}
    if args.metric is None:
        if args.unit or args.better:
            raise InputError("--unit and --better are of --metric; without it the wall time is compared, where lower is better")
        return how
    if not args.better:
        raise InputError("which way is the metric better? give --better lower or --better higher")
    read = "pointer" if args.metric.startswith("/") else "pattern"
    return how | {"read": read, "expression": args.metric, "better": args.better, "unit": args.unit or ""}


class AbProgress:
    """In a log what is planned and a line at most each LOG_S, one line rewritten on a terminal."""

    def __init__(self) -> None:
        self.live, self.announced = sys.stderr.isatty(), ""
        self.began_s = self.said_s = time.monotonic()

    def __call__(self, count: int, pairs: Sequence[ab.AbPair]) -> None:
        whole = min((len(aligned(pair.a, pair.b)[0]) for pair in pairs), default=count)
        lost = f" ({count - whole} more left out)" if whole < count else ""
        designs = [pair.design for pair in pairs if pair.design]
        most = f" of at most {max(one.pairs for one in designs)}" if designs else ""
        reason = next((pair.decision.reason for pair in pairs if pair.decision), "pilot")
        if self.live:
            sys.stderr.write(f"\r\x1b[Kpair {whole}{most}{lost}: {reason}"[:140])
            sys.stderr.flush()
        elif designs and not self.announced:
            most_pairs, pair_s = max(one.pairs for one in designs), (time.monotonic() - self.began_s) / max(count, 1)
            takes = f", which takes {units.show((most_pairs - whole) * pair_s, 's', 2)} more" if most_pairs > whole else ", and no more"
            self.announced = f"pilot of {whole} pairs{lost}: {most_pairs} pairs at most are planned{takes}"
            print(self.announced, file=sys.stderr)
        elif time.monotonic() - self.said_s >= LOG_S:
            self.said_s = time.monotonic()
            print(f"pair {whole}{most}{lost}: {reason}", file=sys.stderr)
