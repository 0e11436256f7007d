"""hotlap kernel coverage PLAN… [--networks NAME,…] [--complete]"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotlap.cli import terminal
from hotlap.core import plan as plans
from hotlap.core.errors import InputError
from hotlap.core.model import kept, machines
from hotlap.core.model.networks.price import prices
from hotlap.core.model.predict import predict
from hotlap.core.plan import write
from hotlap.core.record import Case, MeasureOptions, Notice, Plan, Use
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import parse
from hotlap.core.work.network import POINTWISE
from hotlap.core.work.networks import steps as networks
from hotlap.kernels.cli import network_options
from hotlap.kernels.coverage import boundary, measure, usage
from hotlap.kernels.coverage import complete as completing
from hotlap.kernels.coverage.regions import RegionRoof
from hotlap.kernels.show import coverage as report
from hotlap.traces import captured

CASE_S = 0.1  # of a round, for each case of a completion


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", nargs="+", help="built-in plans or TOML files; what they cover together")
    parser.add_argument("--networks", metavar="NAME,…", help="weigh by these networks, by 'all', or by the uses in a plan file")
    network_options.add(parser)
    parser.add_argument("--strength", type=int, default=2, metavar="N", help="how many features together: 1 to 4 (default: 2)")
    terminal.machine(parser, "whose times weigh and whose roofline counts")
    parser.add_argument("--results", action="append", default=[], metavar="RUN", help="kernels seen in these runs; may be repeated")
    parser.add_argument("--complete", action="store_true", help="write the fewest cases that close what is missing, as a plan")
    parser.add_argument("--share", default="99%", help="of every step's time that a completion reaches (default: 99%%)")
    parser.add_argument("--memory", default="8 GiB", help="the most that a case of a completion may need (default: 8 GiB)")
    parser.add_argument("-o", "--out", metavar="FILE", help="of the completion (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """Shares, tables and what is missing; with --complete the plan that closes it."""
    if not 1 <= args.strength <= 4:
        raise InputError(f"--strength is 1 to 4 features together, not {args.strength}")
    if args.out and not args.complete:
        raise InputError("--out is of a completion: add --complete")
    memory, share = parse(args.memory, "B"), network_options.share(args.share, "--share")
    loaded = [plans.load(name) for name in args.plan]
    cases = list({case.id: case for plan in loaded for case in plan.cases}.values())
    roof, asked = _roof(args.machine), _used(args, loaded)
    names = [plan.name for plan in loaded]

    def covered(some: Sequence[Case]) -> measure.Coverage:
        return measure.coverage(names, some, args.strength, asked, roof, lambda these: boundary.boundary_cases(these, memory))

    paths = _paths(args.results)
    coverage = replace(covered(cases), paths=paths, notices=_notices(args, asked, paths))
    if not args.complete:
        _say(args, coverage, report.coverage(coverage, terminal.width(), terminal.color()), coverage)
        return 0
    completion = completing.complete(cases, args.strength, memory, asked, roof, share)
    after = covered([*cases, *completion.cases])
    if args.out:
        terminal.write(Path(args.out), _text(completion, args))
    before = report.coverage(coverage, terminal.width(), terminal.color(), closing=True)
    text = f"{before}\n\n{report.completion(completion, after, terminal.width())}"
    _say(args, {"coverage": coverage, "completion": completion, "after": after}, text, coverage, completion)
    return 0


def _say(
    args: argparse.Namespace, answer: Any, text: str, coverage: measure.Coverage, completion: completing.Completion | None = None
) -> None:
    """The plan is the answer where no file was named for it."""
    if args.json:
        terminal.answer(args.json, answer, "" if completion else "coverage")
    elif completion is not None and not args.out:
        print(text, file=sys.stderr)
        print(_text(completion, args), end="")
    else:
        print(text)


# ---------------------------------------------------------------- what the model says


def _roof(machine: str) -> RegionRoof:
    """A machine of the table as coverage sees it; what a launch takes is what the model expects of one element."""
    spec = machines.load(machine)
    if spec.memory_bandwidth_b_s is None:
        raise InputError(f"the table has no memory bandwidth of {machine}; 'hotlap model machines' lists others")
    peaks = {unit: rate for unit in spec.flop_per_clock if (rate := spec.rate(unit) or spec.rate(unit, spec.clock_for_peak_hz))}
    launch = predict(POINTWISE.name, machine, elements=1).expected_s
    return RegionRoof(
        spec.slug, spec.memory_bandwidth_b_s, spec.cache_bytes or 0.0, float(launch or 0.0), peaks, (spec.scaleup_b_s or 0.0) / 2,
    )  # fmt: skip


def _used(args: argparse.Namespace, loaded: Sequence[Plan]) -> usage.Used | None:
    """Of the networks asked for, else of the plans themselves; None where nobody knows of any."""
    settings = network_options.settings(args)
    if args.networks:
        kernels_used = _networks(args.networks.split(","), settings)
    elif settings:
        raise InputError("--phase, --batch, --context, --tp and --dtype are of networks: add --networks all, or NAME,…")
    else:
        kernels_used = usage.merged([usage.of_plan(plan) for plan in loaded if plan.uses])
    if not kernels_used.uses:
        return None
    calibration = kept.chosen(args.machine, "", False, kept.place())

    def seconds(cases: Sequence[Case]) -> list[float | None]:
        told = prices(cases, args.machine, calibration).seconds
        return [told.get(case.id) for case in cases]

    return usage.weighed(kernels_used, seconds)


def _networks(names: Sequence[str], settings: usage.Settings) -> usage.Used:
    if configuration := next((name for name in names if name.endswith(".json") or Path(name).is_dir()), ""):
        plan = f"{Path(configuration).resolve().parent.name if configuration.endswith('config.json') else Path(configuration).stem}.toml"
        how = f"hotlap plan from {configuration} -o {plan}, then --networks ./{plan}"
        raise InputError(f"'{configuration}' is a network's configuration; its uses are counted by a plan: {how}")
    files = [name for name in names if name.endswith(".toml") or "/" in name]
    parts = [usage.of_plan(plans.load(name)) for name in files]
    for name, one in zip(files, parts, strict=True):
        if not one.uses:
            raise InputError(f"the plan '{name}' knows of no uses; give a plan that 'hotlap plan from' wrote, or networks by name")
    rest = [name.strip() for name in names if name not in files]
    if "all" in rest and len(rest) > 1:
        raise InputError(f"--networks is 'all', or names: {', '.join(networks.names())}")
    return usage.merged([*parts, *([usage.steps(rest, settings)] if rest else [])])


def _paths(selectors: Sequence[str]) -> list[measure.CoveragePath]:
    paths: list[tuple[str, str, Case]] = []
    names: list[measure.CoveragePath] = []
    for bundle in terminal.each(selectors) if selectors else ():
        by_id = {case.id: case for case in bundle.run.plan.cases}
        for one in bundle.samples:
            if one.status == "measured" and one.variant and one.case in by_id:
                case = by_id[one.case]
                paths.append((measure.path_name(case, one), "variant", case))
        names += _traced(bundle)
    return [*measure.by_path(paths), *names]


def _traced(bundle: Bundle) -> list[measure.CoveragePath]:
    """Kernels of the traces that were captured with a run; a trace does not say of which case."""
    about = captured.read(bundle.path)
    if about is None:
        return []
    from hotlap.traces.events import KERNEL
    from hotlap.traces.timeline import Timeline

    names: dict[str, None] = {}
    for file in dict.fromkeys([*about.traces, *(one.trace for one in about.processes if one.trace)]):
        line = Timeline.open(bundle.path / file)
        kernels = line.columns["name"][line.columns["kind"] == KERNEL]
        names.update(dict.fromkeys(line.names[place] for place in sorted(set(kernels.tolist()))))
    return [measure.CoveragePath(name, "trace", []) for name in names]


def _notices(args: argparse.Namespace, asked: usage.Used | None, paths: Sequence[measure.CoveragePath]) -> list[Notice]:
    notices = [] if asked else [NOT_WEIGHED]
    if args.results and not paths:
        seen = f"{', '.join(args.results)}: no sample names a variant, and no trace a kernel of a device"
        notices.append(Notice("no_paths", seen))
    return notices


NOT_WEIGHED = Notice("not_weighed", "not weighed by use: the plans know of no uses", "--networks all weighs by the networks of the table")


# ---------------------------------------------------------------- the plan


def _text(completion: completing.Completion, args: argparse.Namespace) -> str:
    if not completion.cases:
        return "# nothing is missing: there is no case to add\n"
    about = f"what {', '.join(args.plan)} did not cover"
    round_s = max(8.0, CASE_S * len(completion.cases))
    options = MeasureOptions(round_s=round_s, budget_s=max(600.0, 12 * round_s))
    uses: list[Use] = list(completion.uses)
    plan = Plan(
        name="completion", about=about, cases=list(completion.cases), measure=options, uses=uses, weighed_on=args.machine if uses else "",
    )  # fmt: skip
    counts = ", ".join(f"{count} for {purpose}" for purpose, count in completion.counts.items())
    head = [f"hotlap kernel coverage {' '.join(args.plan)} --complete: {len(completion.cases)} cases, {counts}"]
    return write.text(plan, [*head, *(f"not closed: {text}" for text in completion.failed)], completion.why)
