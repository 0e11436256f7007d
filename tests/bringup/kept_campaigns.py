"""Campaigns as they would be kept, at chosen times."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hotlap.bringup.record import KEPT, Culprit, Isolation, NamedPart
from hotlap.cluster import folder
from hotlap.cluster.record import Campaign, Identity, Member, MemberEvent, StepRecord
from hotlap.core.record import encode

DAY_S = 86_400.0
AUDIT = ["hotlap", "node", "audit"]


def keep(
    home: Path, days_ago: float, nodes: Sequence[str], codes: Mapping[str, int] | None = None, slow: Mapping[str, float] | None = None,
    gpus: int = 8, argv: Sequence[str] = AUDIT,
) -> Path:
    """One with a command that ended with these codes, by node, and an isolation that named these nodes; None: without it."""
    at_s = time.time() - days_ago * DAY_S
    when = datetime.fromtimestamp(at_s, UTC)
    steps = [StepRecord(number=1, name="audit", gather="command", argv=list(argv), label="audit")] if codes is not None else []
    campaign = Campaign(
        id=f"{when:%Y%m%dT%H%M%S}-{abs(hash((days_ago, *nodes))) % 0xFFFFFF:06x}", hotlap="0.2.0", began=when.isoformat(timespec="milliseconds"),
        launcher="ssh", python="python3", steps=steps,
    )  # fmt: skip
    members = [
        Member(name=node, index=place, identity=Identity(serial=f"S{node}", gpus=[f"GPU-{node}-{number}" for number in range(gpus)]))
        for place, node in enumerate(nodes)
    ]
    kept = folder.create(home, campaign, members, {}, "ssh").path
    events = [MemberEvent(time_s=at_s, member=node, step=1, attempt=1, to="measured", code=code) for node, code in (codes or {}).items()]
    if slow is not None:
        events.append(MemberEvent(time_s=at_s, member=nodes[0], step=9, attempt=1, to="measured", code=0))
        culprits = [
            Culprit(part=NamedPart(kind="node", members=[node]), loss=loss, low=loss, high=loss, tests=6) for node, loss in slow.items()
        ]
        isolation = Isolation(
            culprits=culprits, nodes=len(nodes), screening=5, confirming=3, transfers=80, fleet=1e9, noise=0.01, disturbed=0.0, faster=0.0,
            open=[], sure=True,
        )  # fmt: skip
        (kept / KEPT).write_bytes(msgspec.json.encode(isolation))
    (kept / folder.EVENTS).write_bytes(b"".join(encode(event) + b"\n" for event in events))
    return kept
