"""hotlap gate RUN … --against fleet, of more devices than a line each: one verdict for all of them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hotlap.cli import terminal
from hotlap.core.analysis import fleets
from hotlap.core.analysis import rows as tables
from hotlap.core.record import Judgement, Row, Verdict
from hotlap.core.show import fleet, fleet_page, kinds
from hotlap.core.store.bundle import Bundle


def many(args: argparse.Namespace) -> list[Bundle]:
    """The runs to judge, where they are of more devices than are judged one by one; [] else."""
    if args.against != "fleet" or args.measure:
        return []
    bundles = list(terminal.each(args.run or ["latest"]))
    devices = {(bundle.run.machine.host, key) for bundle in bundles for key in bundle.run.devices}
    if len(devices) <= fleets.MANY:
        return []
    for bundle in bundles:
        kinds.refuse_gate(bundle)
    return bundles


def judge(bundles: Sequence[Bundle], args: argparse.Namespace, where: Mapping[str, str]) -> fleets.FleetVerdict:
    """Prints the verdict, and writes the page where one is asked for."""
    judged = fleets.judge(bundles, dict(where), terminal.min_effect(args.min_effect))
    if args.inconclusive_as and judged.state == "inconclusive":
        judged = fleets.FleetVerdict(**{**vars(judged), "state": args.inconclusive_as})
    if args.out:
        terminal.page(args.out, fleet_page.page_of(judged), args.json)
    if args.json:
        terminal.print_json(document(judged))
    else:
        print(fleet.verdict(judged, terminal.width(), terminal.color()))
    return judged


def document(judged: fleets.FleetVerdict) -> dict[str, Any]:
    """For scripts: verdict and exit code at the top, devices with the worst first, cases with their values by device."""
    facts = msgspec.to_builtins(judged)
    return {"verdict": judged.state, "exit_code": judged.exit_code, **{name: value for name, value in facts.items() if name != "state"}}


def judgements(whole: fleets.FleetVerdict, bundles: Sequence[Bundle]) -> list[Judgement]:
    """The same by run, for reports that list cases."""
    devices = {(device.run, device.device): device for device in whole.devices}
    judged = []
    for bundle in bundles:
        rows = [_row(row, devices.get((bundle.run.id, row.device))) for row in tables.rows(bundle)]
        states = [device.state for (run, _), device in devices.items() if run == bundle.run.id] or ["not_run"]
        state = min(states, key=fleets.ORDER.index)
        judged.append(Judgement(run=bundle.run.id, state=state, reason=f"{len(rows)} cases", against="fleet", rows=rows))
    return judged


def _row(row: Row, device: fleets.FleetDevice | None) -> Row:
    """A case is off where it alone is, or where its device is off in all of them."""
    if device is None or row.verdict.state in ("not_run", "invalid", "error"):
        return row
    off = next((case for case in device.off if case.case == row.case.id), None)
    whole = device.code == "slow"
    state = device.state if off or whole or device.code in ("", "fast", "slight") else "pass"
    size = off.size if off else device.level if whole else None
    reason = fleet.WHY[device.code] if off or whole else "like the others"
    verdict = Verdict(state=state, reason=reason, against="fleet", ratio=None if size is None else 1 + size)
    return msgspec.structs.replace(row, verdict=verdict)
