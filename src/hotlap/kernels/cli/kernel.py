"""hotlap kernel add|new|list|show|check|run|plan|remove"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hotlap.cli import looking, terminal
from hotlap.core import plan as plans
from hotlap.core import units
from hotlap.core.errors import InputError
from hotlap.core.record import Case, MeasureOptions, Plan
from hotlap.core.store import paths
from hotlap.core.store.readers import cutlass, imported
from hotlap.core.store.readers.table import ReadTable
from hotlap.core.work import WORKLOADS, find
from hotlap.kernels import checked as measuring
from hotlap.kernels import kept as kernels
from hotlap.kernels.cli import halves
from hotlap.kernels.cli.checks import CheckProgress
from hotlap.kernels.own import heading
from hotlap.kernels.show import own_kernels


def add(parser: argparse.ArgumentParser) -> None:
    about = "add: keep one; new: begin one; check: are its results right; run: measure it; plan: its cases; remove: forget it"
    parser.add_argument("what", choices=("add", "new", "list", "show", "check", "run", "plan", "remove"), help=about)
    item = "add: a .py, .cl, .cu or .so, or a CUTLASS profiler CSV; new: a .cl or .cu; else the kernel's name"
    parser.add_argument("item", nargs="?", default="", help=item)
    parser.add_argument("params", nargs="*", metavar="KEY=VALUE", help="check, run, plan: parameters, several values with commas")
    parser.add_argument("--target", default="", help="check, run: where (default: the first target that runs this kind)")
    parser.add_argument("--timeout", default="2 min", metavar="TIME", help="check: longest silence of a case (default: 2 min)")
    parser.add_argument("--rounds", metavar="N", help="run: good rounds (default: 6 to 12); disturbed ones are replaced")
    parser.add_argument("--budget", metavar="TIME", help="run: all of it, on both targets, ends within about this, as in '2 min'")
    looking.add(parser, "run: ")
    parser.add_argument("-o", "--out", metavar="FILE", help="plan: write it there (default: print it)")
    parser.add_argument("--beside", action="store_true", help="run, plan: the library's implementation too, on its own target")
    parser.add_argument("--like", default="", metavar="WORKLOAD", help="new: the workload that the kernel implements, as rowwise")


def run(args: argparse.Namespace) -> int:
    """A user's own kernels: kept with their revisions, checked, made into plans. Exit code 1 when a check finds a wrong result."""
    home = paths.home()
    if args.what == "list":
        if args.item:
            raise InputError(f"list takes no name; hotlap kernel show {args.item}")
        found = kernels.kept(home)
        if args.json:
            terminal.answer(args.json, found, "kernels")
        else:
            print(own_kernels.listed(found, terminal.width(), color=terminal.color()))
        return 0
    if not args.item:
        wanted = "a file" if args.what in ("add", "new") else "the name of a kernel; hotlap kernel list has them"
        raise InputError(f"{args.what} what? give {wanted}")
    if args.what != "run" and (args.wait or args.wait_quiet):
        raise InputError(f"{args.what} does not wait: --wait and --wait-quiet are of hotlap kernel run")
    if args.what != "run" and args.budget is not None:
        raise InputError(f"{args.what} takes no --budget: it is of hotlap kernel run")
    if args.params and args.what not in ("check", "run", "plan"):
        raise InputError(f"{args.what} takes no parameters, not '{args.params[0]}'")
    if args.what == "add":
        return _add(Path(args.item), args.json, home)
    if args.what == "new":
        return _new(Path(args.item), args.like, args.json)
    if args.what == "remove":
        gone = kernels.remove(args.item, home)
        said = f"{gone.name} is forgotten; runs that measured it are kept"
        terminal.answer(args.json, gone, "kernel") if args.json else print(said)
        return 0
    if args.what in ("plan", "run"):
        several = [kernels.load(name, home) for name in args.item.split(",")]
        _warn_of_changes(several)
        return _plan(several, args) if args.what == "plan" else halves.run(_of(several, args), several, args)
    kernel = kernels.load(args.item, home)
    if args.what == "check":
        _warn_of_changes([kernel])
        return _check(kernel, args)
    if args.json:
        terminal.answer(args.json, kernel, "kernel")
    else:
        print(own_kernels.shown(kernel, terminal.width()))
    return 0


def _add(path: Path, as_json: int, home: Path) -> int:
    if path.suffix == ".csv" and cutlass.is_one(path):
        found = imported.bring_in(ReadTable(cutlass.read(path)), path.stem, home, {"": "lower"})
        if as_json:
            terminal.answer(as_json, found, "imported")
        else:
            said = f"{len(found.added)} run added: {len(found.cases)} kernels of the CUTLASS profiler, {found.unreadable} without a time"
            print("\n".join([said, "next    hotlap show latest"]) if found.added else "all of it is kept already")
        return 0
    described, files = measuring.described(path)
    if described.name in WORKLOADS or (described.workload and described.name in find(described.workload).implementations):
        raise InputError(f"'{described.name}' is a name of Hotlap's own; set name in {path.name}")
    files_kept = {one.name: one.file for one in kernels.kept(home)}
    before = files_kept.pop(described.name, described.file)
    kernel = kernels.keep(described, files, home)
    kernels.announce(home)
    if as_json:
        terminal.answer(as_json, kernel, "kernel")
        return 0
    count = len(kernel.settings)
    its_own = f"a workload of its own with {count} parameter{'' if count == 1 else 's'}"
    what = f"implements {kernel.workload}" if kernel.workload else its_own
    again = "" if len(kernel.revisions) == 1 else f"; {len(kernel.revisions)} revisions are kept"
    print(f"{kernel.name}: {what}, revision {kernel.revision}{again}")
    if before != kernel.file and before not in files_kept.values():
        print(f"it takes the place of {before}; to keep both, set another name in {path.name} and add {before} again")
    if find_spec("torch") is None:
        print("its check needs PyTorch for inputs and reference, which is not installed: pip install torch")
    then = f"hotlap kernel run {kernel.name} --beside" if kernel.workload else f"hotlap kernel plan {kernel.name} > {kernel.name}.toml"
    print(f"next    hotlap kernel check {kernel.name}; {then}")
    return 0


def _new(path: Path, like: str, as_json: int) -> int:
    """Writes the heading into the file; prints it."""
    text = heading.guessed(path, like)
    terminal.write(path, text)
    lines = [line for line in text.splitlines() if line.startswith("//:")]
    if as_json:
        terminal.answer(as_json, {"path": str(path), "heading": lines})
        return 0
    print("\n".join(lines))
    print(f"\nwritten {path}\nnext    look at the heading, then: hotlap kernel add {path}")
    return 0


def _of(several: Sequence[kernels.KeptKernel], args: argparse.Namespace) -> Plan:
    """All of them, each case once."""
    if args.beside and not any(one.workload for one in several):
        raise InputError(f"{args.item} is a workload of its own: there is nothing of ours beside it")
    cases = {case.id: case for one in several for case in _cases(one, args.params, args.beside)}
    about = several[0].about if len(several) == 1 else ""
    name = several[0].name if len(several) == 1 else "kernels"
    return Plan(name=name, about=about, cases=list(cases.values()), measure=MeasureOptions(rounds_max=halves.ROUNDS_MAX))


def _plan(several: Sequence[kernels.KeptKernel], args: argparse.Namespace) -> int:
    plan = _of(several, args)
    places = [half.target for half in halves.of(plan, several)]
    if len(places) > 1 and args.out and not args.json:
        return _apart(several, plan, Path(args.out))
    if len(places) > 1 and args.beside:
        said = f"these cases are of {', '.join(places)}: -o FILE writes a plan for each, hotlap kernel run {args.item} --beside runs them"
        print(f"hotlap: {said}", file=sys.stderr)
    if args.json:
        terminal.answer(args.json, plan, "plan")
    else:
        written = plans.text(plan, [f"hotlap run FILE --target {where}" for where in places])
        if args.out:
            terminal.write(Path(args.out), written)
        else:
            print(written, end="")
    return 0


def _apart(several: Sequence[kernels.KeptKernel], plan: Plan, out: Path) -> int:
    """The library runs on another target than the kernels do: a plan for each, and the commands that measure and compare both."""
    lines = []
    for half in halves.of(plan, several):
        file = out.with_suffix(f".library{out.suffix}") if half.library else out
        command = f"hotlap run {file} --target {half.target} --label beside={plan.name}"
        terminal.write(file, plans.text(half.plan, [command]))
        lines.append(command)
    print("\n".join([*lines, f"hotlap compare beside={plan.name} --by implementation"]))
    return 0


def _warn_of_changes(several: Sequence[kernels.KeptKernel]) -> None:
    for kernel in several:
        if kernels.changed(kernel):
            file = next(one for one in kernel.revisions[-1].files if Path(one).name == kernel.file)
            taken = f"revision {kernel.revision} is taken, which was added before; hotlap kernel add {file} adds the new one"
            print(f"hotlap: {kernel.file} has changed: {taken}", file=sys.stderr)


def _check(kernel: kernels.KeptKernel, args: argparse.Namespace) -> int:
    cases = _cases(kernel, args.params, beside=False)
    by_id, order = {case.id: case for case in cases}, [case.id for case in cases]
    limit = units.parse(args.timeout, "s")
    progress = CheckProgress(len(cases), limit)
    try:
        kernels.refuse_target(kernel, args.target)
        done = list(measuring.checked(cases, args.target or kernels.RUNS_ON[kernel.kind], limit, progress))
    finally:
        progress.end()
    checked = [(by_id[one.case], one) for one in done]
    checked.sort(key=lambda pair: order.index(pair[0].id))
    states = {samples.status for _, samples in checked}
    code = 1 if states & {"invalid", "error"} else 0 if "measured" in states else 3
    if args.json:
        terminal.answer(args.json, [{"case": case, "samples": samples} for case, samples in checked], "checks", code)
    else:
        print(own_kernels.checked(checked, terminal.width(), color=terminal.color()))
    return code


def _cases(kernel: kernels.KeptKernel, given: Sequence[str], beside: bool) -> list[Case]:
    """Those asked for, else those that its file has, else the one at its defaults; with `beside` also ours of the same parameters."""
    axes = {name: text.split(",") for name, text in terminal.pairs(given, "parameter").items()}
    asked: list[dict[str, Any]] = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    made = [kernels.case(kernel, one) for one in (asked if axes else kernel.cases or [{}])]
    ours = [Case(workload=case.workload, params=case.params) for case in made] if beside and kernel.workload else []
    return list({case.id: case for pair in itertools.zip_longest(ours, made) for case in pair if case is not None}.values())
