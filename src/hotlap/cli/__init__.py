"""The command line: a verb per file, wiring only. A verb's module has `add(parser)` and `run(args) -> exit code`."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import hotlap
from hotlap.errors import HotlapError, InputError, nearest
from hotlap.store import paths

VERBS = {  # in the order a newcomer needs them; the module is imported when its verb is used
    "devices": "what is here to measure, and what would make the rest usable",
    "inspect": "the facts of a node: processor, GPUs, links, cards, settings, firmware",
    "audit": "those facts against rules: what is set wrong, what it costs, what fixes it",
    "run": "measure a plan and keep every number",
    "watch": "telemetry alone, on the terminal, as an exporter or into a file",
    "ls": "the runs that were kept",
    "show": "a run's table of results",
    "capture": "run a program under a profiler for a few of its steps, and say where the time went",
    "trace": "where the time of a recorded program went, and what would gain most",
    "explain": "each number against its limit: the headroom and its cause",
    "opportunities": "where work on kernels pays: time to win in the steps of networks, why, and what would have to change",
    "compare": "runs or groups of runs, case by case: faster, slower, same, or not to be told",
    "ab": "two commands or plans, measured in turns until the answer is sure",
    "history": "cases over time: where a level changed, by how much, and what changed there",
    "track": "the life of each kernel over revisions, libraries and devices: what changed it, what that costs a network",
    "judge": "one verdict per case and run: against a limit, a baseline, the fleet or rules",
    "baseline": "what is normal, learnt from runs: save, show, promote",
    "stress": "hours at the limit: load that is checked, and a verdict",
    "selftest": "A/A on this machine: does it cry wolf, and how small a difference can it see",
    "bisect": "which commit of a repository changed a case",
    "import": "numbers measured elsewhere, as runs",
    "report": "one HTML page of one or more runs",
    "predict": "what a machine allows for a workload or a network, and what to expect of it",
    "sensitivity": "what a plan gains from more of each figure of a machine",
    "compiled": "what compilers made of a kernel: registers, spills, occupancy, instructions; compiled against eager",
    "energy": "energy per call and per operation, and the frontier of time against energy",
    "calibrate": "what this machine is against its published figures, for better predictions",
    "correlate": "a simulation against silicon, case by case",
    "machines": "the machine table",
    "plan": "show or check a plan",
    "coverage": "what plans cover of real use, of combinations of features, of the roofline; what is missing",
    "kernel": "your own kernels: keep, check and measure them beside the library's",
    "schema": "JSON Schema of what a bundle holds",
}
# Read years of runs: to look for cycles in them takes half the time.
MANY = ("ls", "compare", "history", "track", "judge", "baseline", "import")
MODULES = {"import": "importing"}  # a verb that is a keyword of Python
PARTS = {  # verbs of two words
    "plan from": "the kernels that networks really run, as a plan with their weight in each step",
    "trace lint": "markers that will mislead: unbalanced, misspelt, with numbers in their names, too short",
    "track report": "a release against another, kernel by kernel: new, fixed, slower, faster, and what networks pay",
    "energy frontier": "time against energy over clocks or power caps: a dry run unless told to set them",
    "trace diff": "two traces of one program: what changed, summed to the whole",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code: 0 fine, 1 a regression, 2 asked wrongly, 3 the machine, 130 interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except HotlapError as error:
        print(f"hotlap: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("hotlap: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f" '{error.filename}'" if error.filename else ""
        print(f"hotlap: the system refuses{where}: {error.strerror or error}", file=sys.stderr)
        return 3


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"hotlap {hotlap.__version__}")
        return 0
    verb = words[0]
    if verb not in VERBS:
        raise InputError(f"there is no verb '{verb}'; {nearest(verb, VERBS)}")
    about, rest = VERBS[verb], words[1:]
    if f"{verb} {' '.join(rest[:1])}" in PARTS:
        verb, rest = f"{verb} {rest[0]}", rest[1:]
        about = PARTS[verb]
    module = importlib.import_module(f"hotlap.cli.{MODULES.get(verb, verb.replace(' ', '_'))}")
    parser = _Parser(prog=f"hotlap {verb}", description=about[0].upper() + about[1:] + ".", allow_abbrev=False)
    module.add(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    if (paths.place(os.environ, sys.platform) / "kernels").is_dir():
        importlib.import_module("hotlap.store.kernels").announce(paths.home())
    with _collecting(verb not in MANY):
        code: int = module.run(parser.parse_args(rest))
    return code


@contextmanager
def _collecting(wanted: bool) -> Iterator[None]:
    before = gc.isenabled()
    if not wanted:
        gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


class _Parser(argparse.ArgumentParser):
    """argparse with one line for an error, as everywhere in Hotlap."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise InputError(f"{message}; {self.prog} --help says what is valid")


def usage() -> str:
    """The help of `hotlap` itself."""
    verbs = "\n".join(f"  {name:<10} {about}" for name, about in VERBS.items())
    return (
        "hotlap: measure what an accelerator really delivers, and how far that is from what the hardware allows\n\n"
        f"usage: hotlap VERB [arguments]\n\n{verbs}\n\n"
        "hotlap VERB --help says more. A RUN is an id or its beginning, 'latest', label=value, a time or a path.\n"
        f"Runs are kept under HOTLAP_HOME. Version {hotlap.__version__}."
    )
