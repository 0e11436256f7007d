"""hotlap kernel run NAME [--beside]: kernels measured on their targets, in turns with the library on its own, then set side by side."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from hotlap.cli import cases, looking, terminal
from hotlap.cli import run as running
from hotlap.cli.progress import Progress
from hotlap.core import plan as plans
from hotlap.core import units
from hotlap.core.analysis import implementations
from hotlap.core.analysis import rows as tables
from hotlap.core.errors import Unavailable
from hotlap.core.measure import interleaved, session, targets
from hotlap.core.record import Case, Plan, Samples
from hotlap.core.show import document, layout, shape
from hotlap.core.show import implementations as side_by_side
from hotlap.core.show.busy import warning
from hotlap.core.stats.stopping import FEWEST
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths
from hotlap.kernels import checked as checking
from hotlap.kernels import kept as kernels
from hotlap.kernels.cli.checks import CheckProgress
from hotlap.kernels.show import own_kernels

ROUND_S = 0.5  # of a case in one round
ROUNDS_MAX = 12  # most rounds, unless others are asked for: the two sides are measured in turns, each round in a new process


class TargetHalf(NamedTuple):
    """The cases that run on one target. `library`: cases of the library alone, on a target that no kernel is for."""

    target: str
    plan: Plan
    library: bool


def of(plan: Plan, several: Sequence[kernels.KeptKernel], target: str = "") -> list[TargetHalf]:
    """A plan by target, the library's first. `target`: of the kernels, else the one that their kind runs on."""
    for one in several:
        kernels.refuse_target(one, target)
    own = {one.name: target or kernels.RUNS_ON[one.kind] for one in several}
    places = {"": _of_library(own), **own}
    by_target: dict[str, list[str]] = {}
    for case in plan.cases:
        by_target.setdefault(places[kernels.kernel_of(case)], []).append(case.id)
    return [
        TargetHalf(where, replace(plan, cases=[case for case in plan.cases if case.id in ids]), where not in own.values())
        for where, ids in by_target.items()
    ]


def _of_library(own: dict[str, str]) -> str:
    """PyTorch, where the kernels run it; else on the same kind of device."""
    torch = [where for where in own.values() if where.partition(":")[0] == "torch"]
    return torch[0] if torch else "torch:cuda" if any(where.startswith("cuda") for where in own.values()) else "torch:cpu"


def run(plan: Plan, several: Sequence[kernels.KeptKernel], args: argparse.Namespace) -> int:
    """Measures each half and prints them side by side, of one half its table. Exit code 1 where a result is wrong, 3 where nothing has
    a number. Raises Unavailable before anything is measured."""
    rounds = {"rounds": args.rounds, "rounds_max": args.rounds} if args.rounds else {}
    given = {"round_time": ROUND_S * len(plan.cases)} | rounds
    parts = of(plans.override(plan, given), several, args.target)
    if args.budget is not None:
        whole_s = plans.within(plan, args.budget).measure.budget_s
        parts = [half._replace(plan=plans.within(half.plan, whole_s * len(half.plan.cases) / len(plan.cases))) for half in parts]
    for half in parts:
        _here(half, several)
    if args.beside and (code := _nothing_runs(parts, args)):
        return code
    measured = _measured(parts, plan.name, args)
    if not args.beside and args.json == shape.SHAPE:
        analysed = [(bundle, tables.rows(bundle)) for bundle in measured]
        terminal.print_json(document.of_runs(analysed))
        return cases.code(analysed)
    if not args.beside:
        return max(running.finished(bundle, args.json, page=False) for bundle in measured)
    pairs = implementations.beside(measured)
    entries = [entry for pair in pairs for entry in pair.entries]
    wrong = any(entry.status in ("invalid", "error") for entry in entries)
    code = 1 if wrong else 3 if not any(entry.median is not None for entry in entries) else 0
    if args.json == shape.SHAPE:
        runs = [document.run_entry(bundle.run) for bundle in measured]
        terminal.print_json(document.of_implementations(pairs, code, {"runs": runs}))
    elif args.json:
        terminal.print_former(side_by_side.document(pairs))
    else:
        print(side_by_side.beside(pairs, terminal.width(), color=terminal.color()))
        if short := _cut_short(measured, args):
            print("\n" + "\n".join(layout.paragraph("", short, terminal.width())))
        print("\n" + "\n".join(f"run     {bundle.path}" for bundle in measured))
        print(f"next    hotlap compare {' '.join(bundle.run.id for bundle in measured)} --by implementation")
    return code


def _cut_short(measured: Sequence[bundles.Bundle], args: argparse.Namespace) -> str:
    """That the budget ended before the rounds of an interval, and which one is enough; "" where it did not."""
    rounds = min((len({one.round for one in bundle.samples}) for bundle in measured), default=0)
    if not any(bundle.run.stopped_by("budget") for bundle in measured) or not 0 < rounds < FEWEST:
        return ""
    enough_s = 10 * math.ceil(units.parse(args.budget, "s") * FEWEST / rounds / 10)
    few = f"{rounds} of the {FEWEST} rounds that the 95 % interval of each number needs"
    return f"the budget of {args.budget} ended after {few}: --budget '{enough_s} s' is enough for all"


def _here(half: TargetHalf, several: Sequence[kernels.KeptKernel]) -> None:
    """Raises Unavailable where the half's target is not here, with what it is needed for."""
    try:
        targets.find(targets.parse(half.target))
    except Unavailable as error:
        what = "the library" if half.library else ", ".join(one.name for one in several)
        on_cuda = any(one.kind == "cuda" for one in several)  # then another target is of no use
        remedy = error.remedy.removesuffix(", or use torch:cpu") if on_cuda else error.remedy
        raise Unavailable(f"{what} needs the target {half.target}: {error.reason}", remedy) from None


def _nothing_runs(parts: Sequence[TargetHalf], args: argparse.Namespace) -> int:
    """Where the first case of no kernel gives a right result there is nothing to set beside the library: says why; 1 or 3, as
    `kernel check` does, else 0."""
    checked: list[tuple[Case, Samples]] = []
    for half in parts:
        first = list({name: case for case in reversed(half.plan.cases) if (name := kernels.kernel_of(case))}.values())
        by_id, progress = {case.id: case for case in first}, CheckProgress(len(first), checking.PATIENCE_S)
        checked += [(by_id[one.case], one) for one in checking.checked(first, half.target, listen=progress)]
        progress.end()
    states = {samples.status for _, samples in checked}
    if "measured" in states or not states:
        return 0
    code = 1 if states & {"invalid", "error"} else 3
    if args.json:
        terminal.answer(args.json, [{"case": case, "samples": samples} for case, samples in checked], "checks", code)
    else:
        print(own_kernels.checked(checked, terminal.width(), color=terminal.color()))
    return code


def _begun(
    parts: Sequence[TargetHalf], looked: Sequence[session.SessionOptions], listeners: Sequence[Progress]
) -> list[interleaved.Part]:
    """The halves with what looks at the machine showed, which took their time of each; says how long all of it will take."""
    sides, busy = [half.plan for half in parts], any(one.look and warning(one.look) for one in looked)
    limit_s = min(one.limit_s for one in looked)
    for half, one, listener in zip(parts, looked, listeners, strict=True):
        listener.begin(half.plan, one.target, limit_s, busy, sides)
    return [
        interleaved.Part(half.plan, dataclasses.replace(one, limit_s=limit_s), listener)
        for half, one, listener in zip(parts, looked, listeners, strict=True)
    ]


def _measured(parts: Sequence[TargetHalf], name: str, args: argparse.Namespace) -> list[bundles.Bundle]:
    """The run of each half, measured in turns, round by round, where there are several."""
    wait_s, home = units.parse(args.wait or 0.0, "s"), paths.home()
    listeners = [Progress(sys.stderr) for _ in parts]
    limit_s = sum(half.plan.measure.budget_s for half in parts) if args.budget is not None else math.inf
    asked = [session.SessionOptions(half.target, labels={"beside": name}, home=home, wait_s=wait_s, limit_s=limit_s) for half in parts]
    try:
        if len(parts) == 1:
            begun = running.begun(parts[0].plan, asked[0], args.wait_quiet, listeners[0])
            return [bundles.load(session.run(*begun, listeners[0]))]
        looked: list[session.SessionOptions] = []
        for half, options in zip(parts, asked, strict=True):
            earlier = [before.look for before in looked if before.look]
            looked.append(looking.before(half.plan, options, args.wait_quiet, earlier))
        found = interleaved.run(_begun(parts, looked, listeners))
    finally:
        for one in listeners:
            one.end()
    return [bundles.load(path) for path in found]
