"""hotlap tuning power PLAN"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from hotlap.cli import looking, terminal
from hotlap.cli.progress import Progress
from hotlap.core import objectives, units
from hotlap.core import plan as plans
from hotlap.core.analysis.frontier import Frontier, FrontierPoint, frontier
from hotlap.core.errors import HotlapError, InputError
from hotlap.core.measure import session, targets
from hotlap.core.model import frontier as model
from hotlap.core.model import machines
from hotlap.core.record import Device, Plan
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths
from hotlap.tuning import power_points, power_show, power_sweep
from hotlap.tuning.power_choice import Tops, halfway
from hotlap.tuning.power_guard import Wish, left
from hotlap.tuning.power_settings import Bounds, calls, check

STEPS = (0.45, 0.55, 0.65, 0.75, 0.85, 0.95)  # of the highest clock, where no setting is asked for
LIMITS = {"p99": "the time of a call that 99 % of the calls of every case keep"}
MOST_REFINED = 100


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", nargs="?", help="a built-in plan or a TOML file (default: quick)")
    parser.add_argument("--clocks", default="", metavar="LIST", help="of arithmetic: 1.2GHz,1.5GHz")
    parser.add_argument("--power", default="", metavar="LIST", help="caps in watts: 400,500,700")
    parser.add_argument("--refine", default="0", metavar="N", help="up to N more settings, halfway between the best and its neighbours")
    parser.add_argument("--target", default="", help="cuda, torch:cuda, simulated:h200-sxm … (default: the best here)")
    parser.add_argument("--device", default="", metavar="INDEX|UUID", help="which device (default: the first)")
    parser.add_argument("--machine", default="", metavar="NAME", help="of the machine table: by the model alone, no device is asked")
    parser.add_argument("--runs", nargs="+", default=[], metavar="RUN", help="runs kept at different clocks or caps: what they observed")
    parser.add_argument("--slower", metavar="SHARE", help="most time that may be lost for energy, as in '5 %%'")
    parser.add_argument("--under", default="", metavar="LIMIT", help="most time of 99 %% of the calls of every case, as in 'p99<=2ms'")
    looking.wait(parser, "of --apply: for a device that another run holds (default: refuse at once)")
    parser.add_argument("--apply", action="store_true", help="set clocks and caps, measure, and put back what stood before")


def run(args: argparse.Namespace) -> int:
    """Settings by time and energy, those on the frontier, and the best by energy, EDP and ED²P."""
    slower = None if args.slower is None else terminal.share(args.slower, "--slower")
    limit_s = objectives.parse(args.under, LIMITS)[0].limit_s if args.under else None
    refine = terminal.whole(args.refine, "--refine", 0, MOST_REFINED)
    if args.runs:
        return _print(args, _frontier([power_points.of_run(bundle, limit_s) for bundle in terminal.runs(args.runs)], slower, limit_s), [])
    plan = plans.load(args.plan or "quick")
    if args.machine:
        named = machines.load(args.machine)
        points, unknown, _ = _modelled(plan, named, _wishes(args, named), limit_s, refine)
        return _print(args, _frontier(points, slower, limit_s, unknown), [])
    target = targets.parse(args.target) if args.target else targets.default()
    device = session.choose(targets.find(target), args.device)[0]
    spec_name = device.machine or machines.recognise(device)
    spec = machines.load(spec_name) if spec_name else None
    if device.kind == "cpu":
        raise InputError(
            "no device here has a power cap or clocks that could be set; --machine h200-sxm asks the model, "
            "--target simulated:h200-sxm --apply measures a simulated card"
        )
    wishes = _wishes(args, spec)
    if args.apply:
        if target.name == "simulated" and spec is not None:
            for wish in wishes:
                model.check(model.FrontierSetting(wish.clock_hz, wish.power_w), spec)
        return _print(args, _applied(args, plan, wishes, (slower, limit_s, refine), _tops(target, device, spec)), [])
    notes = _dry(args, target, device, wishes)
    if spec is None:
        raise InputError(
            f"{device.name} is not in the machine table, so nothing is expected of other clocks; measure with --apply, or give --runs"
        )
    points, unknown, _ = _modelled(plan, spec, wishes, limit_s, refine)
    return _print(args, _frontier(points, slower, limit_s, unknown), notes)


def _wishes(args: argparse.Namespace, spec: machines.Spec | None) -> list[Wish]:
    """What is asked for, and the free card."""
    clocks = [Wish(clock_hz=_clock(one)) for one in _list(args.clocks)]
    caps = [Wish(power_w=units.parse(one, "W")) for one in _list(args.power)]
    if not clocks and not caps:
        if spec is None or not spec.clock_max_hz:
            raise InputError("which settings? give --clocks 1.2GHz,1.5GHz or --power 400,500")
        clocks = [Wish(clock_hz=round(share * spec.clock_max_hz / 15e6) * 15e6) for share in STEPS]
    return [Wish(), *clocks, *caps]


def _clock(text: str) -> float:
    if text[-1].isdigit():
        raise InputError(f"--clocks {text}: a clock has a unit, as in 1.2GHz")
    return units.parse(text, "Hz")


def _list(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _frontier(
    points: Sequence[FrontierPoint], slower: float | None, limit_s: float | None, unknown: dict[str, str] | None = None
) -> Frontier:
    return frontier(points, slower, unknown, "" if limit_s is None else f"99 % of calls within {units.show(limit_s, 's')}")


def _print(args: argparse.Namespace, result: Frontier, notes: Sequence[str]) -> int:
    if args.json:
        terminal.answer(args.json, {"frontier": result, "dry_run": list(notes)})
        return 0
    for line in notes:
        print(line)
    print(power_show.frontier(result, terminal.width(), color=terminal.color()))
    return 0


# ---------------------------------------------------------------- the sweep

Sweep = Callable[[Sequence[Wish]], list[FrontierPoint]]


def _refined(wishes: Sequence[Wish], sweep: Sweep, refine: int, tops: Tops) -> tuple[list[FrontierPoint], list[Wish]]:
    """The settings asked for, then those between, as long as there are any to try."""
    tried, points = list(wishes), sweep(wishes)
    while refine > 0:
        names = [power_sweep.name(wish) for wish in tried]
        more = halfway(tried, {point.name: point for point in points}, names, tops)
        more = [wish for wish in more if power_sweep.name(wish) not in names][:refine]
        if not more:
            break
        points, tried, refine = [*points, *sweep(more)], [*tried, *more], refine - len(more)
    return points, tried


def _modelled(
    plan: Plan, spec: machines.Spec, wishes: Sequence[Wish], limit_s: float | None, refine: int
) -> tuple[list[FrontierPoint], dict[str, str], list[Wish]]:
    unknown: dict[str, str] = {}

    def sweep(some: Sequence[Wish]) -> list[FrontierPoint]:
        return power_points.modelled(plan, spec, [(power_sweep.name(one), one.clock_hz, one.power_w) for one in some], limit_s, unknown)

    points, tried = _refined(wishes, sweep, refine, Tops(spec.clock_max_hz, spec.power_w))
    return points, unknown, tried


def _applied(
    args: argparse.Namespace, plan: Plan, wishes: Sequence[Wish], asked: tuple[float | None, float | None, int], tops: Tops
) -> Frontier:
    """`asked`: time that may be lost, limit of a call, settings between."""
    slower, limit_s, refine = asked
    if limit_s is not None:  # each call is timed by itself
        plan = replace(plan, measure=replace(plan.measure, deadline_s=limit_s))
    progress = Progress(sys.stderr)
    options = session.SessionOptions(
        target=args.target, device=args.device, home=paths.home(), part_of=_command(args), wait_s=looking.wait_s(args),
    )  # fmt: skip
    progress.begin(plan)

    def sweep(some: Sequence[Wish]) -> list[FrontierPoint]:
        measured = power_sweep.measure(plan, options, some, progress, lambda text: print(f"hotlap: {text}", file=sys.stderr))
        return [power_points.of_run(bundles.load(run.path), limit_s, run.name) for run in measured]

    try:
        points, _ = _refined(wishes, sweep, refine, tops)
    finally:
        progress.end()
    return _frontier(points, slower, limit_s)


def _tops(target: targets.TargetSpec, device: Device, spec: machines.Spec | None) -> Tops:
    """By the driver where it is one, else by the machine table."""
    if target.name != "simulated":
        allowed = power_sweep.bounds(device)
        return Tops(allowed.clock_most_hz, allowed.power_w)
    return Tops(spec.clock_max_hz, spec.power_w) if spec else Tops(None, None)


# ---------------------------------------------------------------- the dry run


def _dry(args: argparse.Namespace, target: targets.TargetSpec, device: Device, wishes: Sequence[Wish]) -> list[str]:
    """What --apply would set, within which bounds, by which calls, and the command."""
    lines = [f"dry run on {device.name}: nothing is set. Times and energies below are the model's."]
    shown = ", ".join(power_sweep.name(wish) for wish in wishes if wish != Wish())
    would = [f"would set, one after another: {shown}"]
    if target.name != "simulated":
        allowed, possible = _allowed(target, device, wishes)
        lines += allowed
        would += [f"by NVML: {'; '.join(call for wish in wishes for call in calls(wish.clock_hz, wish.power_w))}"] if possible else []
    else:
        lines.append("a simulated card takes any setting as options of its target: clock and power_cap")
    return [*lines, *would, f"command: {_command(args)}", ""]


def _command(args: argparse.Namespace) -> str:
    """What sets and measures."""
    asked = ("target", "device", "clocks", "power", "slower", "under", "wait")
    given = [word for name in asked if (value := getattr(args, name)) for word in (f"--{name}", value)]
    given += ["--refine", args.refine] if args.refine != "0" else []
    return shlex.join(["hotlap", "tuning", "power", args.plan or "quick", *given, "--apply"])


def _allowed(target: targets.TargetSpec, device: Device, wishes: Sequence[Wish]) -> tuple[list[str], bool]:
    """What is to be known of it, and whether anything could be set."""
    home: Path = paths.home()
    try:
        bounds = power_sweep.bounds(device)
        power_sweep.sensed(target, device)
    except HotlapError as error:
        return [f"nothing could be set here: {error}"], False
    for wish in wishes:
        check(bounds, wish.clock_hz, wish.power_w)
    lines = [_bounds(bounds)]
    if left(power_sweep.note(device, home)):
        lines.append("an earlier run ended before it could restore the settings: --apply restores them first")
    if bounds.locked:
        lines.append("somebody holds its clocks now; --apply refuses until that is lifted (nvidia-smi -rgc)")
    return lines, True


def _bounds(bounds: Bounds) -> str:
    def span(low: float | None, high: float | None, unit: str) -> str:
        return "unknown" if low is None or high is None else f"{units.show(low, unit)} to {units.show(high, unit)}"

    now = "unknown" if bounds.power_w is None else units.show(bounds.power_w, "W")
    power = span(bounds.power_least_w, bounds.power_most_w, "W")
    return f"the driver allows clocks of {span(bounds.clock_least_hz, bounds.clock_most_hz, 'Hz')}, caps of {power}; the cap is {now}"
