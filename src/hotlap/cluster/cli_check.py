"""hotlap cluster check"""

from __future__ import annotations

import argparse
import secrets
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import hotlap
from hotlap.cli import terminal
from hotlap.cluster import asked, controller, folder, session
from hotlap.cluster.record import Campaign
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.units import show

CLOCK_S = 2.0  # by which a clock may be off before it is said
FREE_BYTES = 1 << 30


def add(parser: argparse.ArgumentParser) -> None:
    asked.add_members(parser)


def run(args: argparse.Namespace) -> int:
    """Whether members can be reached, and what differs: Python, Hotlap, clock, disk, GPUs, return path. Exit code 3 where one cannot."""
    name, options, python = asked.launcher(args)
    named, began = folder.new_id()
    campaign = Campaign(
        id=named, hotlap=hotlap.__version__, began=began, launcher=name, options=options, python=python, gpus=args.gpus, steps=[],
    )
    rows = _looked(campaign)
    code = 3 if any(row["refused"] for row in rows) else 0
    if args.json:
        terminal.answer(args.json, {"members": rows}, code=code)
        return code
    print("\n".join(lines(rows, terminal.width(), terminal.color())))
    return code


def _looked(campaign: Campaign) -> list[dict[str, Any]]:
    launcher = session.launcher_of(campaign)
    members, rows = launcher.members(), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory(prefix="hotlap-check-") as place:
        kept = folder.create(Path(place), campaign, members, {}, campaign.launcher)
        nonce = secrets.token_hex(16)
        (Path(place) / "nonce").write_text(nonce)
        with kept.held():
            for begin in range(0, len(members), asked.FANOUT):
                conductor = controller.ClusterController(kept, launcher)
                conductor.open(members[begin : begin + asked.FANOUT])
                conductor.probe(str(Path(place) / "nonce"), campaign.python)
                rows += [_row(link, nonce) for link in conductor.links.values()]
                conductor.close()
    return rows


def _row(link: controller.AgentLink, nonce: str) -> dict[str, Any]:
    facts, identity, probed = link.member.facts, link.member.identity, link.probed or {}
    doubts = []
    if abs(facts.get("clock_off_s", 0.0)) > CLOCK_S:
        doubts.append(f"its clock is {show(abs(facts['clock_off_s']), 's')} {'ahead' if facts['clock_off_s'] > 0 else 'behind'}")
    if facts and facts["free_bytes"] < FREE_BYTES:
        doubts.append(f"{facts['free_bytes'] / 1e6:.0f} MB are free in {facts['folder']}")
    if link.ready and probed.get("hotlap", "") != hotlap.__version__:
        there = f"Hotlap {probed['hotlap']} is there" if probed.get("hotlap") else "no Hotlap is there"
        doubts.append(f"{there}: commands run, plans need {hotlap.__version__}")
    return {
        "member": link.member.name, "refused": "" if link.ready and not link.gone else (link.gone or ("", "no answer"))[1],
        "state": link.gone[0] if link.gone else "ready", "host": facts.get("host", ""), "identity": identity.key if identity else "",
        "python": facts.get("python", ""), "hotlap": probed.get("hotlap", ""), "gpus": len(identity.gpus) if identity else None,
        "clock_off_s": facts.get("clock_off_s"), "free_bytes": facts.get("free_bytes"),
        "return_path": "pipe", "shared_folder": probed.get("nonce") == nonce,
        "doubts": doubts, "product": facts.get("product", ""), "cpu": facts.get("cpu", ""),
    }  # fmt: skip


def lines(rows: list[dict[str, Any]], width: int, color: bool) -> list[str]:
    """A row per member, and what is unlike the majority."""
    usual = {name: Counter(row[name] for row in rows if not row["refused"]).most_common(1) for name in ("python", "gpus", "cpu")}
    notes = []
    for row in rows:
        odd = [
            f"{name} {row[name] or 'unknown'}, most have {usual[name][0][0]}" for name in ("python", "gpus", "cpu")
            if not row["refused"] and usual[name] and row[name] != usual[name][0][0]
        ]  # fmt: skip
        notes.append(row["refused"] or "; ".join([*row["doubts"], *odd]))
    columns = [
        Column("member", [Cell(words.clean(row["member"]), "bold") for row in rows]),
        Column("", [Cell(row["state"], "good" if row["state"] == "ready" else "bad") for row in rows]),
        Column("python", [Cell(words.clean(row["python"])) for row in rows]),
        Column("hotlap", [Cell(words.clean(row["hotlap"])) for row in rows]),
        Column("GPUs", [Cell("" if row["gpus"] is None else str(row["gpus"])) for row in rows], right=True),
        Column("clock", [Cell("" if row["clock_off_s"] is None else f"{row['clock_off_s']:+.1f} s") for row in rows], right=True),
        Column("free", [Cell("" if row["free_bytes"] is None else f"{row['free_bytes'] / 1e9:.0f} GB") for row in rows], right=True),
        Column("doubts", [Cell(words.clean(note)) for note in notes], wrap=True),
    ]
    shared = sum(row["shared_folder"] for row in rows)
    also = f"; {words.counted(shared, 'member')} can read this machine's temporary folder, which is not used" if shared else ""
    back = f"results come back through the pipe of the launcher{also}"
    return [*layout.fitted(columns, width).lines(color), "", *layout.paragraph("", back, width)]
