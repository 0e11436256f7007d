"""hotlap gate RUN … --against fleet, of more devices than a line each: one verdict for all of them."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hotlap.cli import cases, terminal
from hotlap.cli.read_progress import ReadProgress
from hotlap.core.analysis import absent, fleets, verdicts
from hotlap.core.analysis import rows as tables
from hotlap.core.measure import simulated_nodes
from hotlap.core.record import Judgement, Row, Verdict
from hotlap.core.show import document, fleet, fleet_page, kinds, shape, words
from hotlap.core.store.bundle import Bundle


def many(args: argparse.Namespace) -> bool:
    """Whether the runs are of more devices than are judged one by one; no numbers are read for it."""
    return args.against == "fleet" and not args.measure and cases.many_asked(args.run)


def runs(args: argparse.Namespace) -> list[Bundle]:
    """The runs to judge. Raises InputError for one of a kind that `gate` does not take."""
    with ReadProgress() as progress:
        bundles = list(terminal.each(args.run or ["latest"], read=progress.count))
    for bundle in bundles:
        kinds.refuse_gate(bundle)
    return bundles


def missing_nodes(asked: Sequence[str], bundles: Sequence[Bundle]) -> dict[str, dict[str, str]]:
    """Says which nodes of a group that was asked for by its label have no run: `Judgement.missing`, of the last run of each group. Of one
    node alone, that its group has more."""
    if not any(name.startswith(f"{simulated_nodes.LABEL}=") for name in asked):
        label = bundles[0].run.labels.get(simulated_nodes.LABEL, "") if len(bundles) == 1 else ""
        if label and simulated_nodes.without_runs([bundles[0].run]):
            whole = f"hotlap gate {simulated_nodes.LABEL}={label} judges all"
            print(f"hotlap: this is the run of {bundles[0].run.machine.host} alone, of several nodes; {whole}", file=sys.stderr)
        return {}
    groups = simulated_nodes.without_runs(bundle.run for bundle in bundles)
    for one in groups:
        print(f"hotlap: {one.text}", file=sys.stderr)
    return {one.last: dict.fromkeys(one.hosts, "no run") for one in groups}


def judge(bundles: Sequence[Bundle], args: argparse.Namespace, where: Mapping[str, str]) -> fleets.FleetVerdict:
    """Prints the verdict, and writes the page where one is asked for."""
    judged = fleets.judge(bundles, dict(where), terminal.min_effect(args.min_effect))
    if lost := missing_nodes(args.run, bundles):
        every = {run: {**judged.missing.get(run, {}), **lost.get(run, {})} for run in {**judged.missing, **lost}}
        judged = dataclasses.replace(judged, state=verdicts.with_missing(judged.state), missing=every)
    if args.inconclusive_as and judged.state == "inconclusive":
        judged = dataclasses.replace(judged, state=args.inconclusive_as)
    if args.out:
        terminal.page(args.out, fleet_page.page_of(judged), args.json)
    if args.json == shape.SHAPE:
        terminal.print_json(_document(judged, bundles))
    elif args.json:
        terminal.print_former(_former(judged))
    else:
        print(fleet.verdict(judged, terminal.width(), terminal.color()))
    return judged


def _document(judged: fleets.FleetVerdict, bundles: Sequence[Bundle]) -> dict[str, Any]:
    """An entry for each case of each device, the devices with the worst first, and what is known of each case over all of them."""
    last = {(device.run, device.device) for device in judged.devices}  # of a device with several runs the last counts
    each = [
        msgspec.structs.replace(one, rows=[row for row in one.rows if (one.run, row.device) in last])
        for one in judgements(judged, bundles)
    ]  # fmt: skip
    spreads = [
        {name: getattr(one, name) for name in ("case", "model", "unit", "better", "spread", "noise", "reach", "notices")}
        for one in judged.cases
    ]  # fmt: skip
    keys = {"devices": judged.devices, "spreads": spreads, "min_effect": judged.min_effect, "reach": judged.reach}
    keys |= {"mixed": judged.mixed} if judged.mixed else {}
    return document.of_verdicts(each, {bundle.run.id: bundle.run.machine.host for bundle in bundles}, judged.exit_code, keys)


def _former(judged: fleets.FleetVerdict) -> dict[str, Any]:
    """Shape 2: cases with their values by device."""
    facts = msgspec.to_builtins(judged)
    return {"verdict": judged.state, "exit_code": judged.exit_code, **{name: value for name, value in facts.items() if name != "state"}}


def judgements(whole: fleets.FleetVerdict, bundles: Sequence[Bundle]) -> list[Judgement]:
    """The same by run, for reports that list cases."""
    devices = {(device.run, device.device): device for device in whole.devices}
    judged = []
    for bundle in bundles:
        rows = [_row(row, devices.get((bundle.run.id, row.device))) for row in tables.rows(bundle)]
        states = [device.state for (run, _), device in devices.items() if run == bundle.run.id] or ["not_run"]
        state, lost = min(states, key=fleets.ORDER.index), whole.missing.get(bundle.run.id, {})
        reason = f"{len(rows)} cases"
        if lost:
            state, reason = verdicts.with_missing(state), f"{reason}; {absent.text(lost)}"
        judged.append(Judgement(run=bundle.run.id, state=state, reason=reason, against="fleet", missing=lost, rows=rows))
    return judged


def _row(row: Row, device: fleets.FleetDevice | None) -> Row:
    """A case is off where it alone is, or where its device is off in all of them."""
    if device is None or row.verdict.state in ("not_run", "invalid", "error"):
        return row
    off = next((case for case in device.off if case.case == row.case.id), None)
    whole = device.code == "slow"
    state = device.state if off or whole or device.code in ("", "fast", "slight") else "pass"
    size = off.size if off else device.level if whole else None
    reason = "like the others"
    if off or whole:
        lost = "" if size is None else f", {words.signed(size)}{' over all cases' if whole and not off else ''}"
        reason = f"{fleet.why(device)}: {words.value(row)}{lost}"
    verdict = Verdict(state=state, reason=reason, against="fleet", ratio=None if size is None else 1 + size)
    return msgspec.structs.replace(row, verdict=verdict)
