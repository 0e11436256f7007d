"""hotlap energy frontier PLAN"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hotlap.cli import terminal
from hotlap.cli.progress import Progress
from hotlap.core import plan as plans
from hotlap.core import units
from hotlap.core.analysis import energy
from hotlap.core.analysis import rows as tables
from hotlap.core.analysis.frontier import Frontier, FrontierPoint, frontier
from hotlap.core.errors import HotlapError, InputError
from hotlap.core.measure import session, targets
from hotlap.core.model import frontier as model
from hotlap.core.model import machines
from hotlap.core.record import Device, Plan
from hotlap.core.show import frontier as report
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths
from hotlap.core.trials import frontier as tuning
from hotlap.core.trials.nvml_guard import Wish, left
from hotlap.core.trials.nvml_settings import Bounds, check

STEPS = (0.45, 0.55, 0.65, 0.75, 0.85, 0.95)  # of the highest clock, where no setting is asked for


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", nargs="?", help="a built-in plan or a TOML file (default: quick)")
    parser.add_argument("--clocks", default="", metavar="LIST", help="of arithmetic: 1.2GHz,1.5GHz")
    parser.add_argument("--power", default="", metavar="LIST", help="caps in watts: 400,500,700")
    parser.add_argument("--target", default="", help="cuda, torch:cuda, simulated:h200-sxm … (default: the best here)")
    parser.add_argument("--device", default="", metavar="INDEX|UUID", help="which device (default: the first)")
    parser.add_argument("--machine", default="", metavar="NAME", help="of the machine table: by the model alone, no device is asked")
    parser.add_argument("--runs", nargs="+", default=[], metavar="RUN", help="runs kept at different clocks or caps: what they observed")
    parser.add_argument("--slower", metavar="SHARE", help="most time that may be lost for energy, as in '5 %%'")
    parser.add_argument("--apply", action="store_true", help="set clocks and caps, measure, and put back what stood before")


def run(args: argparse.Namespace) -> int:
    """Settings by time and energy, those on the frontier, and the best by energy, EDP and ED²P."""
    slower = None if args.slower is None else terminal.share(args.slower, "--slower")
    if args.runs:
        return _print(args, frontier([_of_run(bundle) for bundle in terminal.runs(args.runs)], slower), [])
    plan = plans.load(args.plan or "quick")
    if args.machine:
        named = machines.load(args.machine)
        return _print(args, _modelled(plan, named, _wishes(args, named), slower), [])
    target = targets.parse(args.target) if args.target else targets.default()
    device = session.choose(targets.find(target), args.device)[0]
    spec_name = device.machine or machines.recognise(device)
    spec = machines.load(spec_name) if spec_name else None
    wishes = _wishes(args, spec)
    if args.apply:
        return _print(args, _applied(args, plan, wishes, slower), [])
    said = _dry(args, target, device, wishes)
    if spec is None:
        raise InputError(
            f"{device.name} is not in the machine table, so nothing is expected of other clocks; measure with --apply, or give --runs"
        )
    return _print(args, _modelled(plan, spec, wishes, slower), said)


def _wishes(args: argparse.Namespace, spec: machines.Spec | None) -> list[Wish]:
    """What is asked for, and the free card."""
    clocks = [Wish(clock_hz=units.parse(one, "Hz")) for one in _list(args.clocks)]
    caps = [Wish(power_w=units.parse(one, "W")) for one in _list(args.power)]
    if not clocks and not caps:
        if spec is None or not spec.clock_max_hz:
            raise InputError("which settings? give --clocks 1.2GHz,1.5GHz or --power 400,500")
        clocks = [Wish(clock_hz=round(share * spec.clock_max_hz / 15e6) * 15e6) for share in STEPS]
    return [Wish(), *clocks, *caps]


def _list(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _print(args: argparse.Namespace, result: Frontier, notes: Sequence[str]) -> int:
    if args.json:
        terminal.answer(args.json, {"frontier": result, "dry_run": list(notes)})
        return 0
    for line in notes:
        print(line)
    print(report.frontier(result, terminal.width(), color=terminal.color()))
    return 0


def _modelled(plan: Plan, spec: machines.Spec, wishes: Sequence[Wish], slower: float | None) -> Frontier:
    swept = model.over(plan.cases, _calls(plan), spec, [model.FrontierSetting(one.clock_hz, one.power_w) for one in wishes])
    points = [
        FrontierPoint(name=tuning.name(wish), seconds=one.seconds, joules=one.joules, clock_hz=one.clock_hz)
        for wish, one in zip(wishes, swept.sums, strict=True)
    ]
    return frontier(points, slower, swept.unknown)


def _calls(plan: Plan) -> Mapping[str, float]:
    """Of each case, in all steps of its networks."""
    calls: dict[str, float] = {}
    for use in plan.uses:
        calls[use.case] = calls.get(use.case, 0.0) + use.calls
    return calls


# ---------------------------------------------------------------- measured


def _applied(args: argparse.Namespace, plan: Plan, wishes: Sequence[Wish], slower: float | None) -> Frontier:
    progress = Progress(sys.stderr)
    options = session.SessionOptions(target=args.target, device=args.device, home=paths.home())
    progress.begin(plan)
    try:
        measured = tuning.measure(plan, options, wishes, progress, lambda text: print(f"hotlap: {text}", file=sys.stderr))
    finally:
        progress.end()
    return frontier([_of_run(bundles.load(one.path), one.name) for one in measured], slower)


def _of_run(bundle: bundles.Bundle, name: str = "") -> FrontierPoint:
    """Time and energy of all cases of a run, each as often as its networks call it."""
    spent = energy.energies(tables.rows(bundle), bundle.readings, bundle.run.machine.devices)
    calls = _calls(bundle.run.plan)
    unknown = next((one for one in spent if one.joules is None), None)
    if unknown is not None:
        raise InputError(
            f"{bundle.run.id}: the energy of {unknown.label} is unknown, because {unknown.reason}; "
            "settings are compared with each other by the same cases, so measure all of them"
        )
    many = [calls.get(one.case, 1.0) for one in spent]
    seconds, joules, low, high = (
        sum(n * (getattr(one, field) or 0.0) for n, one in zip(many, spent, strict=True))
        for field in ("seconds", "joules", "low_j", "high_j")
    )
    clocks = [one.clock_hz for one in spent if one.clock_hz]
    label = name or bundle.run.labels.get("setting", "").replace("_", " ") or bundle.run.id
    return FrontierPoint(
        name=label,
        seconds=seconds,
        joules=joules,
        low_j=low,
        high_j=high,
        clock_hz=statistics.median(clocks) if clocks else None,
        source=bundle.run.id,
    )


# ---------------------------------------------------------------- the dry run


def _dry(args: argparse.Namespace, target: targets.TargetSpec, device: Device, wishes: Sequence[Wish]) -> list[str]:
    """What --apply would set, within which bounds, and the command."""
    lines = [f"dry run on {device.name}: nothing is set. Times and energies below are the model's."]
    if target.name != "simulated":
        lines += _allowed(device, wishes)
    else:
        lines.append("a simulated card takes any setting as options of its target: clock and power_cap")
    shown = ", ".join(tuning.name(wish) for wish in wishes if wish != Wish())
    asked = ("target", "device", "clocks", "power", "slower")
    given = [word for name in asked if (value := getattr(args, name)) for word in (f"--{name}", value)]
    words = ["hotlap", "energy", "frontier", args.plan or "quick", *given, "--apply"]
    return [*lines, f"would set, one after another: {shown}", f"command: {shlex.join(words)}", ""]


def _allowed(device: Device, wishes: Sequence[Wish]) -> list[str]:
    home: Path = paths.home()
    try:
        bounds = tuning.bounds(device)
    except HotlapError as error:
        return [f"nothing could be set here: {error}"]
    for wish in wishes:
        check(bounds, wish.clock_hz, wish.power_w)
    lines = [_bounds(bounds)]
    if left(tuning.note(device, home)):
        lines.append("an earlier run ended before it could restore the settings: --apply restores them first")
    if bounds.locked:
        lines.append("somebody holds its clocks now; --apply refuses until that is lifted (nvidia-smi -rgc)")
    return lines


def _bounds(bounds: Bounds) -> str:
    def span(low: float | None, high: float | None, unit: str) -> str:
        return "unknown" if low is None or high is None else f"{units.show(low, unit)} to {units.show(high, unit)}"

    now = "unknown" if bounds.power_w is None else units.show(bounds.power_w, "W")
    power = span(bounds.power_least_w, bounds.power_most_w, "W")
    return f"the driver allows clocks of {span(bounds.clock_least_hz, bounds.clock_most_hz, 'Hz')}, caps of {power}; the cap is {now}"
