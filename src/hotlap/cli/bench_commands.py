"""The commands of `hotlap bench`: options named as hyperfine's, parameters filled in, every fault said before anything runs."""

from __future__ import annotations

import argparse
import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path

from hotlap.cli import looking, terminal
from hotlap.core import units
from hotlap.core.analysis.commands import MOST_SURE
from hotlap.core.errors import InputError
from hotlap.core.measure.spawn import SHELL
from hotlap.core.stats import sequential
from hotlap.core.stats.sequential import PILOT
from hotlap.core.trials.ab import AbOptions
from hotlap.core.trials.bench import BenchCommand, BenchOptions
from hotlap.core.work.program import COMMAND, cannot_start

MOST = 1000  # commands, of parameters multiplied
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_OWN = (  # options of commands alone; what argparse has of each where it is not given is false
    "warmup", "runs", "min_runs", "max_runs", "setup", "prepare", "conclude", "cleanup", "parameter_scan", "parameter_step_size",
    "parameter_list", "ignore_failure", "shell", "show_output", "output", "timeout", "command_name", "until_sure", "resolve", "budget",
)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--command", action="append", default=[], help=argparse.SUPPRESS)  # words behind --
    group = parser.add_argument_group("how often")
    group.add_argument("-w", "--warmup", metavar="N", help="executions of each that are not counted (default: 0; with --until-sure 1)")
    group.add_argument("-r", "--runs", "--rounds", metavar="N", help="exactly so many runs of each")
    group.add_argument("-m", "--min-runs", metavar="N", help="at least so many (default: 10, and as many as take 3 s)")
    group.add_argument("-M", "--max-runs", metavar="N", help="at most so many")
    group.add_argument("--until-sure", action="store_true", help="until the answer is sure, as hotlap ab (60 runs at most, or --budget)")
    group.add_argument("--resolve", metavar="SHARE", help="with --until-sure: change to be found with 80 %% power (default: 2 %%)")
    group.add_argument("--budget", metavar="TIME", help="end within about this, as in '5 min'")
    group = parser.add_argument_group("of commands only, as in hyperfine")
    group.add_argument("-p", "--prepare", action="append", metavar="CMD", help="run before each execution; once, or once for each command")
    group.add_argument("-C", "--conclude", action="append", metavar="CMD", help="run after each execution; as --prepare")
    group.add_argument("-s", "--setup", metavar="CMD", help="run before the first execution of a command")
    group.add_argument("-c", "--cleanup", metavar="CMD", help="run after the last")
    scan, values = ("VAR", "MIN", "MAX"), ("VAR", "VALUES")
    group.add_argument("-P", "--parameter-scan", nargs=3, action="append", metavar=scan, help="a command for each value of {VAR}")
    group.add_argument("-D", "--parameter-step-size", metavar="DELTA", help="of --parameter-scan (default: 1)")
    group.add_argument("-L", "--parameter-list", nargs=2, action="append", metavar=values, help="the same; values with commas between")
    group.add_argument("-i", "--ignore-failure", action="store_true", help="measure although a command ends with another status than 0")
    group.add_argument("-S", "--shell", action="store_true", help=f"run commands by {SHELL}; its start is part of the time")
    group.add_argument("-N", dest="no_shell", action="store_true", help="without a shell, as it is by default")
    group.add_argument("--show-output", action="store_true", help="let the commands print (default: to /dev/null)")
    group.add_argument("--output", choices=("null", "pipe"), help="where their output goes instead (default: null)")
    group.add_argument("--timeout", metavar="TIME", help="longest time for one execution (default: 60 s)")
    group.add_argument("-n", "--command-name", action="append", metavar="NAME", help="name of a command in the table, in their order")


def given(args: argparse.Namespace, beside: Sequence[str]) -> list[str]:
    """Options of commands that are on the command line, but for some."""
    return [name for name in _OWN if getattr(args, name) and name not in beside]


def options(args: argparse.Namespace) -> BenchOptions:
    """How often, checked. Raises InputError."""
    counts = {name: _count(getattr(args, name), name) for name in ("warmup", "runs", "min_runs", "max_runs")}
    runs, low, high = counts["runs"], counts["min_runs"], counts["max_runs"]
    if runs is not None and (low is not None or high is not None):
        raise InputError("--runs says exactly how many; leave out --min-runs and --max-runs")
    if low is not None and high is not None and low > high:
        raise InputError(f"--min-runs ({low}) is above --max-runs ({high})")
    budget_s = units.parse(args.budget, "s") if args.budget else math.inf
    sure = _until_sure(args, high, budget_s) if args.until_sure else None
    if args.until_sure and (runs is not None or low is not None):
        raise InputError("--until-sure decides how many runs there are; limit it with --max-runs")
    if args.resolve and not sure:
        raise InputError("--resolve is of --until-sure; give both")
    warmup = counts["warmup"] if counts["warmup"] is not None else int(bool(sure))
    labels: dict[str, object] = dict(terminal.pairs(args.label, "a label"))
    fewest = {"min_runs": low} if low is not None else {}
    return BenchOptions(
        warmup=warmup, runs=runs or 0, max_runs=high, until_sure=sure, budget_s=budget_s, labels=labels, wait_s=looking.wait_s(args),
        tell=looking.say, **fewest,
    )


def _count(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    least = 0 if name == "warmup" else 1
    if not text.isdecimal() or int(text) < least:
        raise InputError(f"--{name.replace('_', '-')} is a whole number from {least} on, not {text}")
    return int(text)


def _until_sure(args: argparse.Namespace, most: int | None, budget_s: float) -> AbOptions:
    difference = terminal.share(args.resolve, "--resolve") if args.resolve else 0.02
    if not 0 < difference < 1:
        raise InputError(f"--resolve is a share above 0 and under 100 %, as in '1 %', not {args.resolve}")
    if most is not None and most < PILOT:
        raise InputError(f"--until-sure needs --max-runs of at least {PILOT}, not {most}")
    return AbOptions(difference, difference / 4, budget_s, most or (MOST_SURE if math.isinf(budget_s) else sequential.MOST))


# ---------------------------------------------------------------- which commands


def commands(args: argparse.Namespace) -> list[BenchCommand]:
    """A command for each text and each combination of parameters, in order. Raises InputError."""
    texts = [*args.what, *args.command]
    if not texts:
        raise InputError("no command is given (hotlap bench 'python a.py' 'python b.py') and no workload (hotlap bench stream size=1GiB)")
    for name in ("prepare", "conclude"):
        hooks = getattr(args, name) or []
        if len(hooks) not in (0, 1, len(texts)):
            raise InputError(f"--{name} is given {len(hooks)} times for {len(texts)} commands; give it once, or once for each")
    combinations = _combinations(args)
    if len(combinations) * len(texts) > MOST:
        raise InputError(f"these parameters make {len(combinations) * len(texts)} commands, more than {MOST}; shorten them")
    listed = _named(args, [_command(args, place, text, parameters) for parameters in combinations for place, text in enumerate(texts)])
    if args.until_sure and len(listed) < 2:
        raise InputError("--until-sure compares commands; give two or more, or --runs for one")
    if args.until_sure and len({one.setup for one in listed}) > 1:
        raise InputError("--until-sure measures in turns, and --setup differs between the commands; use --prepare, or set up beforehand")
    return listed


def _named(args: argparse.Namespace, listed: Sequence[BenchCommand]) -> list[BenchCommand]:
    """With a letter and a name each: of --command-name, else the command. What is given again is a case of its own, named #2."""
    given_names, texts = args.command_name or [], [*args.what, *args.command]
    if len(given_names) > len(listed):
        raise InputError(f"--command-name is given {len(given_names)} times for {len(listed)} commands")
    if len(given_names) == len(texts):  # with parameters in them, as hyperfine
        given_names = [_filled(name, one.parameters) for one, name in zip(listed, itertools.cycle(given_names), strict=False)]
    named: list[BenchCommand] = []
    for place, command in enumerate(listed):
        letter = LETTERS[place] if len(listed) <= len(LETTERS) else str(place + 1)
        name = given_names[place] if place < len(given_names) else command.text
        before = [other.text for other in listed[:place]].count(command.text)
        copy = 1 + [other.case for other in listed[:place]].count(command.case)
        case = COMMAND.case({**command.case.params, "copy": copy}) if copy > 1 else command.case
        again = f" #{before + 1}" if before and name == command.text else ""
        named.append(replace(command, letter=letter, name=f"{name}{again}", case=case))
    return named


def _command(args: argparse.Namespace, place: int, text: str, parameters: Mapping[str, str]) -> BenchCommand:
    filled = _filled(text, parameters)
    alone = len(args.what) + len(args.command) == 1
    if args.shell and args.no_shell:
        raise InputError("-N is without a shell, --shell with one; give one of both")
    params: dict[str, object] = {"argv": [SHELL, "-c", filled] if args.shell else _words(filled, alone), "output": _output(args)}
    for name in ("prepare", "conclude"):
        hooks = getattr(args, name) or [""]
        params[name] = _filled(hooks[place if len(hooks) > 1 else 0], parameters)
    params |= {"timeout": args.timeout} if args.timeout else {}
    params |= {"ignore_failure": True} if args.ignore_failure else {}
    setup, cleanup = (_filled(getattr(args, name) or "", parameters) for name in ("setup", "cleanup"))
    return BenchCommand("", filled, filled, COMMAND.case(params), setup, cleanup, dict(parameters))


def _output(args: argparse.Namespace) -> str:
    if args.show_output and args.output:
        raise InputError("--show-output lets the commands print; leave out --output")
    return "inherit" if args.show_output else args.output or "null"


def _words(text: str, alone: bool) -> list[str]:
    """A command line parted as a shell does; what only a shell can do is refused."""
    try:
        words = shlex.split(text)
        operators = [word for word in _tokens(text) if set(word) <= set("|&;<>")]
    except ValueError as error:
        raise InputError(f"'{text}' is no command line: {str(error).lower()}") from None
    if not words:
        raise InputError("an empty command measures nothing; give a command line")
    if operators:
        raise InputError(f"'{operators[0]}' in '{text}' is for a shell, and commands run without one; --shell runs them by {SHELL}")
    if why := cannot_start(words[0]):
        raise InputError(_missing(words[0], text, alone) or why)
    return words


def _tokens(text: str) -> list[str]:
    """With their quotes, so that an operator in quotes is none."""
    lexer = shlex.shlex(text, posix=False, punctuation_chars="|&;<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    return list(lexer)


def _missing(program: str, text: str, alone: bool) -> str:
    """What a user of `bench` may have meant by what is no program; "" where nothing is known."""
    if Path(program).is_file():
        return ""
    if "=" in program:
        return f"'{program}' is no program; variables are set by 'env {text}', or by a shell: --shell"
    if program != text or alone:
        return ""
    return f"there is no program '{program}'; a command and its arguments stand in quotes, as in hotlap bench '{program} …'"


# ---------------------------------------------------------------- parameters


def _filled(text: str, parameters: Mapping[str, str]) -> str:
    for name, value in parameters.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _combinations(args: argparse.Namespace) -> list[dict[str, str]]:
    axes: dict[str, list[str]] = {}
    scans = [(name, _scan(name, low, high, args.parameter_step_size)) for name, low, high in args.parameter_scan or []]
    if args.parameter_step_size and not scans:
        raise InputError("--parameter-step-size is of --parameter-scan; give both")
    for name, values in [*scans, *((name, text.split(",")) for name, text in args.parameter_list or [])]:
        if name in axes:
            raise InputError(f"the parameter '{name}' is given twice; give it once")
        axes[name] = values
    texts = [*args.what, *args.command, *(args.prepare or []), args.setup or ""]
    for name in axes:
        if not any(f"{{{name}}}" in text for text in texts):
            raise InputError(f"no command has '{{{name}}}' for the parameter '{name}'")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def _scan(name: str, low: str, high: str, step: str | None) -> list[str]:
    """Values from low to high, decimals as they are written. Raises InputError."""
    try:
        first, last, delta = Decimal(low), Decimal(high), Decimal(step or "1")
        count = int((last - first) / delta) if first.is_finite() and last.is_finite() and delta > 0 else -1
    except (InvalidOperation, OverflowError):
        count = -1
    if count < 0:
        words = f"--parameter-scan {name} {low} {high}{f' -D {step}' if step else ''}"
        raise InputError(f"{words} is no range: two numbers, the first not above the second, and a step above 0")
    if count > MOST:
        raise InputError(f"--parameter-scan {name} {low} {high} has {count + 1} values, more than {MOST}; raise --parameter-step-size")
    return [str(first + delta * place) for place in range(count + 1)]


def remedy(status: int | None, args: argparse.Namespace) -> str:
    """What helps where a command failed. `status`: the one it ended with; None where something else was wrong."""
    if status is not None and not args.show_output:
        return "; --show-output shows what it prints, --ignore-failure measures it all the same"
    return ""
