"""How campaigns are shown (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from html import escape
from typing import Any

import msgspec

from hotlap.cluster import folder, show, states
from hotlap.cluster.record import Member, MemberEvent
from hotlap.cluster.show import BesideCampaign, CampaignShown
from hotlap.core import extend
from hotlap.core.analysis import absent, fleets
from hotlap.core.show.sections.base import ReportSection
from hotlap.core.show.table import Cell, Column, Table, html
from hotlap.core.store import files, lines
from hotlap.core.store.bundle import Bundle

NO_GATE = ""
UNFINISHED = "not finished: members lack a result, hotlap cluster resume goes on"
CASES = True
NO_CASES = ""
METHOD = ""


def read(bundle: Bundle) -> CampaignShown | None:
    """From a folder, or a zip of one."""
    judged = fleets.judge([bundle]) if bundle.samples else None
    shown = _plain(bundle, judged)
    if shown is None:
        return None
    names = tuple(_shown())
    return replace(shown, beside=_beside(files.long(bundle.path, names)))


def without_result(bundle: Bundle) -> dict[str, str]:
    """Members without a result in some step, each with its state and why."""
    shown = _plain(bundle)
    if shown is None:
        return {}
    names = {step.number: step.name for step in shown.campaign.steps}
    several, lost = len(names) > 1, dict[str, list[str]]()
    for state in shown.missing:
        told = f"{names[state.step]} " if several else ""
        lost.setdefault(state.member, []).append(f"{told}{state.state}{f': {state.why}' if state.why else ''}")
    return {name: "; ".join(whys) for name, whys in lost.items()}


def _plain(bundle: Bundle, judged: fleets.FleetVerdict | None = None) -> CampaignShown | None:
    """A campaign without what other features keep in it."""
    if bundle.path.is_dir():
        return of_folder(folder.load(bundle.path), judged)
    contents = files.long(bundle.path, (folder.CAMPAIGN, folder.MEMBERS, folder.EVENTS))
    if folder.CAMPAIGN not in contents:
        return None
    campaign = folder.parsed(contents[folder.CAMPAIGN].decode(errors="replace"), f"{bundle.path}/{folder.CAMPAIGN}")
    known = {one.name: one for one in lines.read(contents.get(folder.MEMBERS, b""), Member, folder.MEMBERS).records}
    members = sorted(known.values(), key=lambda one: one.index)
    events = lines.read(contents.get(folder.EVENTS, b""), MemberEvent, folder.EVENTS).records
    derived = states.derive(members, [step.number for step in campaign.steps], events, {}, time.time(), campaign.silent_s)
    return CampaignShown(campaign, members, derived, judged, paused=states.paused(events))


def _shown() -> dict[str, str]:
    """Files that other features keep here."""
    return extend.table().get("beside", {})


def _beside(contents: Mapping[str, bytes]) -> list[tuple[BesideCampaign, bytes]]:
    """Those that are there and can be read."""
    answer = list[tuple[BesideCampaign, bytes]]()
    for name in _shown():
        one = extend.find("beside", name) if name in contents else None
        if one is None:
            continue
        with suppress(msgspec.MsgspecError):
            one.document(contents[name])
            answer.append((one, contents[name]))
    return answer


def of_folder(kept: folder.CampaignFolder, judged: fleets.FleetVerdict | None = None) -> CampaignShown:
    events = kept.events()
    return CampaignShown(kept.campaign, kept.members(), kept.states(time.time()), judged, paused=states.paused(events))


def text(content: CampaignShown, width: int, color: bool) -> str:
    return "\n".join(show.lines(content, width, color))


def document(content: CampaignShown) -> dict[str, Any]:
    campaign = msgspec.structs.replace(
        content.campaign, steps=[msgspec.structs.replace(step, files={}) for step in content.campaign.steps]
    )
    more = {one.key: one.document(data) for one, data in content.beside}
    if content.paused:
        more["was_silent"] = content.paused
    return {"cluster": {"campaign": campaign, "members": content.members, "states": content.states, **more}}


def measured(content: CampaignShown) -> bool:
    return any(state.state == "measured" for state in content.states)


def lead(content: CampaignShown) -> str:
    return f"<p>{escape(show.summary(content))}</p>"


def _section(content: CampaignShown) -> str:
    lost = content.missing
    parts = [html(show.results(content.fleet), sort="results")] if content.fleet and content.fleet.cases else []
    if lost:
        groups = show.together(lost)
        columns = [
            Column("without a result", [Cell(absent.folded(who)) for who, _ in groups], names=True, wrap=True),
            Column("state", [Cell(first.state) for _, first in groups]), Column("why", [Cell(first.why) for _, first in groups]),
        ]  # fmt: skip
        parts.append(html(Table(columns)))
    return "".join(parts)


SECTION = ReportSection("Members", "Members of the campaign", lambda report: "".join(map(_section, report.of("campaign"))))


def notices(content: CampaignShown) -> str:
    lost = content.missing
    return f"<p>{len(lost)} results are missing; the table of members names them</p>" if lost else ""
