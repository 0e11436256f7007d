"""hotlap tuning run PROGRAM|PLAN|SERVER.toml|URL"""

from __future__ import annotations

import argparse
import math
import secrets
import sys
from pathlib import Path

from msgspec.structs import replace

from hotlap.cli import looking, terminal
from hotlap.core import units
from hotlap.core.errors import InputError, nearest
from hotlap.core.show import listing
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels as labelled
from hotlap.core.store import paths, select
from hotlap.tuning import applying, benches, catalogue, proposing, result, session, show, show_kind
from hotlap.tuning.applying import ChosenSwitches
from hotlap.tuning.record import TuningAsked, TuningTrial
from hotlap.tuning.space import SwitchSetting

CODES = {"gain": 0, "nothing": 0, "cannot_tell": 3, "budget": 3}
BUDGET, RESOLVE = "30 min", "2 %"


def add(parser: argparse.ArgumentParser) -> None:
    subject = "a command line in quotes, a plan, a server's TOML file or URL"
    goal = "of a program time, energy, step, J/step, tokens/s, samples/s, J/token; of a plan time, energy; of a server p99"
    parser.add_argument("subject", nargs="?", default="", metavar="SUBJECT", help=subject)
    parser.add_argument("--goal", default="", metavar="METRIC", help=f"{goal}, e2e, ttft, tpot, throughput, J/token")
    parser.add_argument("--under", default="", metavar="LIMITS", help="that must hold, as in 'p99<=50ms'")
    names = "NAME or NAME=VALUE,VALUE with ; between, or a TOML file (default: what applies here)"
    parser.add_argument("--switches", default="", metavar="LIST", help=names)
    parser.add_argument("--budget", default=BUDGET, metavar="TIME", help=f"end within this (default: {BUDGET})")
    parser.add_argument("--metric", default="", metavar="POINTER|PATTERN", help="the goal, in a command's output")
    parser.add_argument("--unit", default="", metavar="UNIT", help="of --metric, as in FLOP/s")
    parser.add_argument("--better", default="", choices=("lower", "higher"), help="which way --metric is better")
    parser.add_argument("--result", default="", metavar="POINTER|PATTERN", help="a number of the output that must stay")
    parser.add_argument("--tolerance", metavar="SHARE", help="by which --result may differ (default: what hotlap tuning switches says)")
    parser.add_argument("--resolve", default=RESOLVE, metavar="SHARE", help="gain to be found with 80 %% power (default: 2 %%)")
    parser.add_argument("--min-effect", metavar="SHARE", help="smallest gain to report (default: a quarter of --resolve)")
    parser.add_argument("--timeout", default="60 s", metavar="TIME", help="longest time of one run (default: 60 s)")
    who = "who proposes what is tried together, never what is reported; optuna must be installed (default: model)"
    parser.add_argument("--propose", default="model", choices=proposing.PROPOSERS, help=who)
    parser.add_argument("--seed", default="", metavar="N", help="of the search (default: drawn, and kept)")
    parser.add_argument("--target", default="", help="of plans: as in hotlap run")
    parser.add_argument("--device", default="", metavar="INDEX|UUID", help="of plans: as in hotlap run")
    parser.add_argument("--resume", default="", metavar="RUN", help="go on with a search that was cut off")
    parser.add_argument("--out", default="", metavar="FILE", help="the result as a file, for hotlap tuning apply")
    looking.wait(parser, "for a device that another run holds (default: refuse at once)")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run")


def run(args: argparse.Namespace) -> int:
    """Searches: exit code 0 a gain was confirmed, or nothing is worth it, 3 cannot tell, 130 interrupted; what was measured is kept."""
    if args.out:
        terminal.writable(Path(args.out))
    view = TuningView()
    watched = session.TuningSessionOptions(paths.home(), say=view.say, listen=view.ran, wait_s=looking.wait_s(args))
    if args.resume:
        path = _cut_off(args)
        begun = session.read(bundles.load(path))
        done = begun is not None and begun.kept.outcome is not None
        if not (done and args.out):  # of one that has its answer the file is written
            args.out = args.out or (begun.kept.asked.how.get("out", "") if begun else "")
            session.resume(path, lambda asked: _chosen(asked, _switches(asked)), watched)
    else:
        asked = _asked(args)
        chosen = _chosen(asked, args.switches)
        values = {name: list(options) for name, options in chosen.values.items()}
        labels = labelled.check(dict(terminal.pairs(args.label, "a label")))
        path = session.run(replace(asked, values=values), chosen, watched._replace(labels=labels))
    view.end()
    return _show(path, args)


def _cut_off(args: argparse.Namespace) -> Path:
    if args.subject or args.switches:
        raise InputError("--resume goes on with a search as it was begun, and takes no subject and no --switches")
    entries = select.entries([args.resume], paths.home())
    if len(entries) != 1:
        raise InputError(f"'{args.resume}' names {len(entries)} runs; --resume takes one")
    return entries[0].path


def _switches(asked: TuningAsked) -> str:
    return asked.how.get("switches", "")


def _chosen(asked: TuningAsked, switches: str) -> ChosenSwitches:
    words = benches.words_of(asked)
    chosen = applying.chosen(switches, asked.kind, words, catalogue.here(), bool(asked.result))
    return benches.of_client(chosen) if benches.client_alone(asked) else chosen


def _show(path: Path, args: argparse.Namespace) -> int:
    bundle = bundles.load(path)
    shown = session.read(bundle)
    assert shown is not None  # it was just written
    done = shown.kept.outcome
    code = 130 if done is None else CODES[done.answer]
    tuned = _tuned(shown)
    if args.out and tuned:
        terminal.write(Path(args.out), result.toml(tuned))
    if args.json:
        terminal.answer(args.json, {"run": bundle.run.id, **show_kind.document(shown)}, code=code, judged=False)
        return code
    print(listing.heading(bundle, []))
    print(show.text(shown, terminal.width(), terminal.color()))
    if args.out:
        print(f"result    {args.out}: hotlap tuning apply {args.out}" if tuned else f"result    none: {args.out} was not written")
    print(f"kept as {bundle.run.id}")
    return code


def _tuned(shown: session.TuningRead) -> result.TunedFile | None:
    done, asked = shown.kept.outcome, shown.kept.asked
    if done is None or done.answer != "gain":
        return None
    chosen = _chosen(asked, _switches(asked))
    standing = {name: values[0] for name, values in chosen.values.items()}
    winner = tuple(SwitchSetting(one.switch, one.value) for one in done.winner)
    means = applying.applied(chosen.switches, standing, winner)
    return result.of(shown.kept, shown.run.id, shown.run.target, means, benches.words_of(asked))


# ---------------------------------------------------------------- what was asked


def _asked(args: argparse.Namespace) -> TuningAsked:
    """Raises InputError."""
    if not args.subject.strip():
        raise InputError("nothing to tune; give a command line, a plan or a server's file, as in hotlap tuning run 'python train.py'")
    kind = benches.kind_of(args.subject)
    resolve = terminal.share(args.resolve, "--resolve")
    if not 0 < resolve < 1:
        raise InputError(f"--resolve is a share above 0 and under 100 %, as in '2 %', not {args.resolve}")
    least = terminal.min_effect(args.min_effect, resolve) if args.min_effect is not None else resolve / 4
    budget_s, timeout_s = (_time(value, option) for value, option in ((args.budget, "--budget"), (args.timeout, "--timeout")))
    goal, unit, better, how = _goal(args, kind)
    tolerance = terminal.share(args.tolerance, "--tolerance") if args.tolerance is not None else None
    if (args.result or tolerance is not None) and kind != "program":
        raise InputError(f"--result and --tolerance are of a program's output, not of a {kind}; hotlap tuning quality compares models")
    if tolerance is not None and not args.result:
        raise InputError("--tolerance is of --result: give the number of the output that must stay")
    where = {"target": args.target, "device": args.device} if kind == "plan" else {}
    if (args.target or args.device) and kind != "plan":
        raise InputError(f"--target and --device are for plans; '{args.subject}' is a {kind}")
    return TuningAsked(
        subject=args.subject, kind=kind, goal=goal, unit=unit, better=better, budget_s=budget_s, resolve=resolve, min_effect=least,
        seed=_seed(args.seed), propose=args.propose, result=args.result, tolerance=tolerance,
        under=[limit.text for limit in benches.limits(args.under, kind)],
        how={**how, **where, "timeout": f"{timeout_s:g}", "switches": args.switches, "out": args.out and str(Path(args.out).absolute())},
    )  # fmt: skip


def _goal(args: argparse.Namespace, kind: benches.SubjectKind) -> tuple[str, str, benches.Better, dict[str, str]]:
    """Name, unit, which way is better, and parameters of the workload `command`."""
    if args.metric:
        if kind != "program":
            raise InputError(f"--metric is of a program's output; a {kind} has --goal: {nearest('', benches.goals(kind))}")
        if not args.better:
            raise InputError("which way is the metric better? give --better lower or --better higher")
        read = "pointer" if args.metric.startswith("/") else "pattern"
        how = {"read": read, "expression": args.metric, "better": args.better, "unit": args.unit}
        return args.goal or args.metric, args.unit, args.better, how
    if args.unit or args.better:
        raise InputError("--unit and --better are of --metric; goals of Hotlap's own have theirs")
    goal = args.goal or ("p99" if kind == "server" else "time")
    benches.check_goal(goal, kind)
    unit, better = benches.goals(kind)[goal]
    return goal, unit, better, {}


def _time(text: str, option: str) -> float:
    value = units.parse(text, "s")
    if not 0 < value < math.inf:
        raise InputError(f"{option} is a time above 0, as in '30 min', not '{text}'")
    return value


def _seed(text: str) -> int:
    if not text:
        return secrets.randbits(31)
    if not text.isdecimal():
        raise InputError(f"--seed is a whole number from 0, not '{text}'")
    return int(text)


class TuningView:
    """Progress on standard error: one line rewritten on a terminal, one a step on a log."""

    def __init__(self) -> None:
        self.live, self.count, self.last = sys.stderr.isatty(), 0, ""

    def say(self, text: str) -> None:
        print(f"\r\x1b[K{text}" if self.live else text, file=sys.stderr)

    def ran(self, trial: TuningTrial) -> None:
        self.count += 1
        if self.live:
            sys.stderr.write(f"\r\x1b[Krun {self.count}, {show.PHASES[trial.phase]}: {show.named(trial.settings)}"[:140])
            sys.stderr.flush()
        elif trial.reason and trial.reason != self.last:  # as found it is tried again
            self.say(f"{show.named(trial.settings)}: {trial.reason}")
        self.last = trial.reason

    def end(self) -> None:
        if self.live:
            sys.stderr.write("\r\x1b[K")
