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
from hotlap.core.errors import HotlapError, InputError, nearest
from hotlap.core.store import paths

VERBS = {  # in the order of HEADINGS; the module is imported when its verb is used
    "devices": "what is here to measure, and what would make the rest usable",
    "inspect": "the facts of a node: GPUs, links, cards, settings, firmware",
    "audit": "those facts against rules: what is wrong, and what mends it",
    "watch": "telemetry: on the terminal, as an exporter, into a file",
    "stress": "hours at the limit: load that is checked, and a verdict",
    "run": "measure a plan and keep every number",
    "plan": "show or check a plan",
    "ls": "the runs that were kept",
    "show": "a run's table of results",
    "report": "one HTML page of one or more runs",
    "import": "numbers measured elsewhere, as runs",
    "schema": "JSON Schema of what a bundle holds",
    "explain": "each number against its limit: headroom and cause",
    "predict": "what a workload or network can reach on a machine",
    "calibrate": "learn this machine, for better predictions",
    "machines": "the machine table",
    "sensitivity": "what a plan gains from more of each figure of a machine",
    "correlate": "a simulation against silicon, case by case",
    "energy": "energy of a call and of an operation",
    "compare": "case by case: faster, slower, same, or not to be told",
    "ab": "two commands or plans in turns, until the answer is sure",
    "history": "cases over time: where a level changed, and what with it",
    "baseline": "what is normal, learnt from runs: save, show, promote",
    "judge": "one verdict: against a limit, a baseline, the fleet, rules",
    "bisect": "which commit of a repository changed a case",
    "selftest": "A/A on this machine: how small a difference it can see",
    "coverage": "what plans cover of real use, and what they lack",
    "kernel": "your own kernels: keep, check, measure beside the library's",
    "compiled": "what compilers made of a kernel: registers, spills, occupancy",
    "opportunities": "where work on kernels pays, why, and what would change it",
    "track": "the life of each kernel over revisions, versions, devices",
    "capture": "record some steps of a program, and say where the time went",
    "trace": "where the time of a recorded program went, what gains most",
}
HEADINGS = {  # by the verb that they stand above
    "devices": "What is here, and is it sound",
    "run": "Measure, and keep",
    "explain": "Against what is possible",
    "compare": "Better or worse, since when",
    "coverage": "Kernels: what to test, what to mend",
    "capture": "Where a program's time goes",
}
# Read years of runs: to look for cycles in them takes half the time.
MANY = ("ls", "compare", "history", "track", "judge", "baseline", "import")
MODULES = {"import": "importing"}  # a verb that is a keyword of Python
PARTS = {  # verbs of two words
    "plan from": "the kernels that networks really run, with their weight",
    "energy frontier": "time against energy over clocks or power caps",
    "track report": "a release against another, kernel by kernel",
    "trace diff": "two traces of one program: what changed, summed to the whole",
    "trace lint": "markers that will mislead: unbalanced, misspelt, too short",
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
        importlib.import_module("hotlap.kernels.kept").announce(paths.home())
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
    rows = []
    for verb, about in VERBS.items():
        rows += [f"\n{HEADINGS[verb]}"] if verb in HEADINGS else []
        rows += [f"  {name:<15} {said}" for name, said in ((verb, about), *PARTS.items()) if name.split()[0] == verb]
    verbs = "\n".join(rows)
    return (
        "hotlap: what an accelerator really delivers, and how far that is from what the\nhardware allows\n\n"
        f"usage: hotlap VERB [arguments]\n{verbs}\n\n"
        "hotlap VERB --help says more. A RUN is an id or its beginning, 'latest',\nlabel=value, a time or a path. "
        f"Runs are kept under HOTLAP_HOME. Version {hotlap.__version__}."
    )
