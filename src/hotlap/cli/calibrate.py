"""hotlap model calibrate"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hotlap.cli import looking, terminal
from hotlap.cli.progress import Progress
from hotlap.core import plan as plans
from hotlap.core.errors import HotlapError, InputError, MachineError
from hotlap.core.measure import session, targets
from hotlap.core.measure.machine import fresh_memory
from hotlap.core.model import calibration_text, kept, limits, machines, processor, sweep
from hotlap.core.model.calibration import Calibration
from hotlap.core.model.predict import predict
from hotlap.core.record import Device, Limit, Result
from hotlap.core.show import calibration as report
from hotlap.core.show import shape
from hotlap.core.store import bundle as bundles
from hotlap.core.store import calibrations as store
from hotlap.core.store import paths, select
from hotlap.core.work.compute import GEMM

KNOWN_CASES: tuple[Mapping[str, Any], ...] = (  # what is shown of how predictions change: none is in the plan
    {"m": 8, "n": 6144, "k": 4096, "dtype": "bf16"}, {"m": 2048, "n": 6144, "k": 4096, "dtype": "bf16"},
    {"m": 16384, "n": 8192, "k": 4096, "dtype": "bf16"},
)  # fmt: skip


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="", help="cuda, torch, torch:cpu, simulated:h200-sxm?efficiency=0.8 … (default: the best here)")
    parser.add_argument("--device", default="", metavar="INDEX|UUID", help="which device (default: the first)")
    parser.add_argument("--from", dest="source", default="", metavar="RUN", help="learn from a run that was kept, instead of measuring")
    parser.add_argument("--list", action="store_true", help="the calibrations that are kept")
    parser.add_argument("--forget", default="", metavar="NAME", help="remove one")
    looking.wait(parser, "for a device that another run holds (default: refuse at once)")


def run(args: argparse.Namespace) -> int:
    """Measures the plan `calibrate` (or takes a run), keeps what it teaches, and prints it."""
    home = paths.home()
    asked = [name for name, given in (("--list", args.list), ("--forget", args.forget), ("--from", args.source)) if given]
    if len(asked) > 1:
        raise InputError(f"{' and '.join(asked)} do not go together; give one of them")
    if asked and (args.target or args.device):
        raise InputError(f"{asked[0]} measures nothing and takes no --target or --device; leave them out")
    if args.list:
        return _list(args, home)
    if args.forget:
        gone = store.forget(args.forget, home)
        print(f"removed {gone}") if not args.json else terminal.answer(args.json, {"removed": str(gone)})
        return 0
    return _learn(_kept(args.source) if args.source else _measured(args, home), args, home)


def _list(args: argparse.Namespace, home: Path) -> int:
    calibrations: dict[str, Calibration] = {}
    for name in store.names(home):
        try:
            calibrations[name] = kept.load(name, home)
        except HotlapError as error:
            print(f"hotlap: passed over: {error}", file=sys.stderr)
    if args.json:
        terminal.answer(args.json, calibrations, "calibrations")
    else:
        print(report.listing(calibrations))
    return 0


def _kept(selector: str) -> bundles.Bundle:
    found = terminal.runs([selector])
    if len(found) != 1:
        raise InputError(f"'{selector}' names {len(found)} runs; --from takes one")
    return found[0]


def _measured(args: argparse.Namespace, home: Path) -> bundles.Bundle:
    plan, progress = plans.load(_check(args)), Progress(sys.stderr)
    progress.begin(plan)
    try:
        options = session.SessionOptions(
            target=args.target, device=args.device, home=home, limit_s=plan.measure.budget_s, wait_s=looking.wait_s(args)
        )  # fmt: skip
        return bundles.load(session.run(plan, options, progress))
    finally:
        progress.end()


def _check(args: argparse.Namespace) -> str:
    """The plan that calibrates the device, if it can be calibrated at all, before minutes are spent. Raises InputError."""
    spec = targets.parse(args.target) if args.target else targets.default()
    devices = session.choose(targets.find(spec), args.device)
    if len(devices) != 1:
        raise InputError(f"a calibration is of one device, not of {len(devices)}; give --device INDEX")
    if sweep.is_processor(devices[0]):
        return "calibrate-cpu"
    slug = devices[0].machine or machines.recognise(devices[0])
    sweep.machine_of(machines.load(slug) if slug and machines.known(slug) else None, devices[0])
    return "calibrate"


def _learn(bundle: bundles.Bundle, args: argparse.Namespace, home: Path) -> int:
    device = _device(bundle)
    results = [one for one in select.results(bundle) if one.device == device.key]
    if sweep.is_processor(device):
        _some(results, bundle, device)
        fresh_s = () if args.source else fresh_memory.seconds(processor.FRESH_BYTES)  # of this machine, now
        return _processor(sweep.calibrate_processor(results, device, bundle.run.id, bundle.run.began[:10], fresh_s), args, home)
    clocks = [hz for result in results for one in result.rounds for hz in one.clocks_hz]
    spec = sweep.machine_of(limits.spec_for(device, bundle.run.machine, clocks), device)
    _some(results, bundle, device)
    calibration = sweep.calibrate(results, spec, device, bundle.run.id, bundle.run.began[:10])
    name = store.name_of(spec.slug, device.target)
    path = store.save(name, calibration_text.write(calibration), home)
    cases = _changes(spec.slug, calibration)
    if args.json:
        known = "predictions" if args.json == shape.SHAPE else "cases"
        changes = [{"case": case, "before": before, "after": after} for case, before, after in cases]
        terminal.answer(args.json, {"calibration": calibration, "path": path, known: changes})
    else:
        print(report.learnt(calibration, cases))
        more = f" --calibration {name}" if name != spec.slug else ""
        print(f"\nkept  {path}\nnext  hotlap predict {GEMM.name} m=4096 dtype=bf16 --machine {spec.slug}{more}")
    return 0


def _some(results: Sequence[Result], bundle: bundles.Bundle, device: Device) -> None:
    """Raises MachineError where nothing was measured."""
    if not any(one.status == "measured" for one in results):
        raise MachineError(f"run {bundle.run.id} measured nothing on {device.name}; 'hotlap show {bundle.run.id}' says why")


def _processor(calibration: Calibration, args: argparse.Namespace, home: Path) -> int:
    path = store.save(calibration.machine, calibration_text.write(calibration), home)
    if args.json:
        terminal.answer(args.json, {"calibration": calibration, "path": path, "predictions" if args.json == shape.SHAPE else "cases": []})
    else:
        print(report.learnt(calibration, []))
        print(f"\nkept  {path}\nnext  hotlap training run minilm-l6 batch=4 context=128")
    return 0


def _changes(slug: str, calibration: Calibration) -> list[tuple[Mapping[str, Any], Limit, Limit]]:
    """Known cases by published figures alone and with the sweep; none where the machine lacks a figure that they need."""
    if "gemm" not in calibration.families:
        return []
    pairs = [(case, predict(GEMM.name, slug, **case), predict(GEMM.name, slug, calibration=calibration, **case)) for case in KNOWN_CASES]
    return [one for one in pairs if one[1].expected_s is not None]


def _device(bundle: bundles.Bundle) -> Device:
    """The one that a run measured. Raises InputError."""
    found = [one for one in bundle.run.machine.devices if one.key in bundle.run.devices]
    if len(found) != 1:
        raise InputError(f"run {bundle.run.id} measured {len(found)} devices, and a calibration is of one; measure one with --device INDEX")
    return found[0]
