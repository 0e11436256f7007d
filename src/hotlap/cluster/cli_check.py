"""hotlap cluster check"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hotlap
from hotlap.cli import terminal
from hotlap.cluster import asked, controller, folder, parcel, session
from hotlap.cluster.asked import dashed as rewritten  # noqa: F401 - the dispatcher asks for it
from hotlap.cluster.launch.base import AgentLauncher
from hotlap.cluster.member_zips import LEAST
from hotlap.cluster.record import Campaign
from hotlap.core.analysis import absent
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.store import paths
from hotlap.core.units import show

CLOCK_S = 2.0  # by which a clock may be off before it is said
FREE_BYTES = 1 << 30
COMPARED = ("python", "gpus", "cpu", "works_in")


def add(parser: argparse.ArgumentParser) -> None:
    asked.add_members(parser)
    asked.add_wheels(parser)


def run(args: argparse.Namespace) -> int:
    """Whether members can be reached, and what differs: Python, Hotlap, clock, disk, GPUs, return path. Exit code 3 where one cannot."""
    asked.joined(args)
    name, options, python = asked.launcher(args)
    named, began = folder.new_id()
    campaign = Campaign(
        id=named, hotlap=hotlap.__version__, began=began, launcher=name, options=options, python=python, gpus=args.gpus, steps=[],
        wheels=asked.wheels(args.wheels),
    )  # fmt: skip
    launcher = session.launcher_of(campaign)
    try:
        rows = _looked(campaign, launcher)
    finally:
        launcher.release()
    code = 3 if any(row["refused"] for row in rows) else 0
    if args.json:
        terminal.answer(args.json, {"members": rows}, code=code)
        return code
    print("\n".join(lines(rows, terminal.width(), terminal.color())))
    return code


def _looked(campaign: Campaign, launcher: AgentLauncher) -> list[dict[str, Any]]:
    members, rows, wheels = launcher.members(), list[dict[str, Any]](), parcel.about(campaign.wheels)
    launcher.prepare(members)
    home = paths.home()
    with tempfile.TemporaryDirectory(prefix=".hotlap-check-", dir=home if os.access(home, os.W_OK) else None) as place:
        kept = folder.create(Path(place), campaign, members, {}, campaign.launcher)
        with kept.held():
            for begin in range(0, len(members), asked.FANOUT):
                conductor = controller.ClusterController(kept, launcher)
                conductor.open(members[begin : begin + asked.FANOUT])
                conductor.probe(campaign.python, wheels)
                rows += [_row(link) for link in conductor.links.values()]
                conductor.close()
    return rows


def _row(link: controller.AgentLink) -> dict[str, Any]:
    facts, identity, probed = link.member.facts, link.member.identity, link.probed or {}
    return {
        "member": link.member.name, "refused": "" if link.ready and not link.gone else (link.gone or ("", "no answer"))[1],
        "state": link.gone[0] if link.gone else "ready", "host": facts.get("host", ""), "identity": identity.key if identity else "",
        "python": facts.get("python", ""), "hotlap": probed.get("hotlap", ""), "gpus": len(identity.gpus) if identity else None,
        "clock_off_s": facts.get("clock_off_s"), "free_bytes": facts.get("free_bytes"),
        "return_path": "folder" if facts.get("shared_folder") else "pipe",
        "doubts": doubts(facts, probed.get("hotlap", ""), probed.get("unfit", "")) if link.ready else [],
        "product": facts.get("product", ""), "cpu": facts.get("cpu", ""), "works_in": str(Path(facts.get("folder", "")).parent),
    }  # fmt: skip


def doubts(facts: Mapping[str, Any], version: str, unfit: str = "") -> list[str]:
    """What may go wrong on a member. `version`: of the Hotlap there, or ""; `unfit`: why this one cannot be made there, or ""."""
    off_s, free, texts = facts["clock_off_s"], facts["free_bytes"], list[str]()
    if abs(off_s) > CLOCK_S:
        texts.append(f"its clock is {show(abs(off_s), 's')} {'ahead' if off_s > 0 else 'behind'}")
    if facts.get("skipped"):
        texts.append(f"{facts['skipped']}: {Path(facts['folder']).parent} is used instead")
    if free < FREE_BYTES:
        texts.append(f"{free / 1e6:.0f} MB are free in {Path(facts['folder']).parent}")
    if version != hotlap.__version__:
        there = f"Hotlap {version} is there" if version else "no Hotlap is there"
        old = tuple(map(int, facts["python"].split(".")[:2])) < LEAST
        plans = f"plans would be refused: {unfit}" if unfit else f"{hotlap.__version__} is sent for plans"
        need = f"commands run, plans need Python {LEAST[0]}.{LEAST[1]}" if old else plans
        texts.append(f"{there}: {need}")
    return texts


def lines(rows: list[dict[str, Any]], width: int, color: bool) -> list[str]:
    """A row per member, and what is unlike the majority."""
    usual = {name: Counter(row[name] for row in rows if not row["refused"]).most_common(1) for name in COMPARED}
    ready = [row for row in rows if not row["refused"]]
    doubted = absent.groups((row["member"], doubt) for row in ready for doubt in row["doubts"])
    shared = {doubt: who for who, doubt in doubted if len(who) > max(1, len(ready) // 2)}  # said once, below
    notes = []
    for row in rows:
        odd = [
            f"{name.replace('_', ' ')} {row[name] or 'unknown'}, most have {usual[name][0][0]}" for name in COMPARED
            if not row["refused"] and usual[name] and row[name] != usual[name][0][0]
        ]  # fmt: skip
        notes.append(row["refused"] or "; ".join([*(doubt for doubt in row["doubts"] if doubt not in shared), *odd]))
    clocks = ["" if row["clock_off_s"] is None else f"{round(row['clock_off_s'], 1) + 0.0:+.1f} s" for row in rows]
    columns = [
        Column("member", [Cell(words.clean(row["member"]), "bold") for row in rows]),
        Column("", [Cell(row["state"], "good" if row["state"] == "ready" else "bad") for row in rows]),
        Column("python", [Cell(words.clean(row["python"])) for row in rows]),
        Column("hotlap", [Cell(words.clean(row["hotlap"])) for row in rows]),
        Column("GPUs", [Cell("" if row["gpus"] is None else str(row["gpus"])) for row in rows], right=True),
        Column("clock", [Cell(clock) for clock in clocks], right=True),
        Column("free", [Cell("" if row["free_bytes"] is None else _free(row["free_bytes"])) for row in rows], right=True),
        Column("doubts", [Cell(words.clean(note)) for note in notes], wrap=True),
    ]
    head = [layout.painted(f"{len(ready)} of {len(rows)} ready", "good" if len(ready) == len(rows) else "bad", color), ""]
    if not ready:
        return [*head, *layout.fitted(columns, width).lines(color)]
    direct = sum(row["return_path"] == "folder" for row in rows)
    whose = f"; {words.counted(direct, 'member')} share its folder of runs, and write what is above 1 MiB there themselves"
    back = f"results come back to this machine by the launcher{whose if direct else ''}: nothing needs to be set up for that"
    below = [f"{words.clean(absent.folded(who))}: {words.clean(doubt)}" for doubt, who in shared.items()]
    bad = "what is not ready has no result in a run, and cluster resume measures it later; "
    after = f"next    {bad if len(ready) < len(rows) else ''}hotlap cluster run, with the same members, and a plan or -- COMMAND"
    texts = [line for said in (*below, back, after) for line in layout.paragraph("", said, width)]
    return [*head, *layout.fitted(columns, width).lines(color), "", *texts]


def _free(free: float) -> str:
    return f"{free / 1e9:.0f} GB" if free >= FREE_BYTES else f"{free / 1e6:.0f} MB"
