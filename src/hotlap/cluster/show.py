"""What is text of a campaign: where its members are, what they measured, which stand out, and which have no result, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hotlap.cluster.record import STATES, WITHOUT_RESULT, Campaign, Member, MemberState
from hotlap.core import units
from hotlap.core.analysis.fleets import FleetVerdict
from hotlap.core.show import fleet, layout, words
from hotlap.core.show.table import Cell, Column, Table

MOST_ROWS = 200  # of nodes and cases, that a terminal is given
MOST_MISSING = 40
STYLES = {"measured": "good", "running": "", "silent": "warn", "never started": "warn"}


class BesideCampaign(NamedTuple):
    """A file that another feature keeps in a campaign's folder: its key in --json, and what reads it. Raises msgspec.MsgspecError."""

    key: str
    document: Callable[[bytes], Any]
    lines: Callable[[bytes, int, bool], list[str]]


@dataclass(frozen=True)
class CampaignShown:
    """A campaign, judged. `fleet`: None where no member has a number; `beside`: files of other features, by what shows them."""

    campaign: Campaign
    members: Sequence[Member]
    states: Sequence[MemberState]
    fleet: FleetVerdict | None
    beside: Sequence[tuple[BesideCampaign, bytes]] = ()

    @property
    def missing(self) -> list[MemberState]:
        return [state for state in self.states if state.state in WITHOUT_RESULT]

    @property
    def code(self) -> int:
        """3 where some member has no result, 1 where a verdict of a member failed, else 0."""
        if self.missing or not self.states:
            return 3
        return 1 if any(state.code for state in self.states) else 0


def lines(shown: CampaignShown, width: int, color: bool) -> list[str]:
    """The one table, and what is missing."""
    text = [summary(shown, color)]
    if shown.fleet and shown.fleet.cases:
        rows = results(shown.fleet)
        if len(rows) <= MOST_ROWS:
            text += ["", *layout.fitted(rows.columns, width).lines(color)]
        else:
            text += layout.paragraph("", f"{len(rows):,} rows of nodes and cases: hotlap report has all, as --json", width)
        text += fleet.folded(shown.fleet, width, color)
    text += coded(shown)
    text += missing(shown, width, color)
    for one, data in shown.beside:
        text += ["", *one.lines(data, width, color)]
    return text


def summary(shown: CampaignShown, color: bool = False) -> str:
    """One line: how many members are in which state, and by which way they were reached."""
    counts = Counter(state.state for state in shown.states)
    tally = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    steps = len(shown.campaign.steps)
    over = f" over {words.counted(steps, 'step')}" if steps > 1 else ""
    slots = " (slots of one machine)" if any(member.slot for member in shown.members) else ""
    counted = words.counted(len(shown.members), "member")
    return layout.painted(f"{counted}{slots} by {shown.campaign.launcher}: {tally}{over}", "bold", color)


def results(judged: FleetVerdict) -> Table:
    """A row per node and case: its value, and how far it is from the median of all."""
    short = words.short([device.device for device in judged.devices])
    names = {f"{device.host} {device.device}": short[device.device] for device in judged.devices}
    off = {(f"{device.host} {device.device}", case.case): case for device in judged.devices for case in device.off}
    slow = {f"{device.host} {device.device}" for device in judged.devices if device.code == "slow"}
    nodes, cases, values, apart, marks = list[Cell](), list[Cell](), list[Cell](), list[Cell](), list[Cell]()
    for case in judged.cases:
        middle = case.ends[1]
        for key, value in sorted(case.values.items(), key=lambda pair: names.get(pair[0], pair[0])):
            odd = (key, case.case) in off or key in slow
            nodes.append(Cell(words.clean(names.get(key, key)), "warn" if odd else ""))
            cases.append(Cell(words.clean(case.label)))
            values.append(Cell(words.quantity(value, case.unit), value=value))
            apart.append(Cell(words.signed(value / middle - 1) if middle else words.DASH))
            marks.append(Cell("outlier" if odd else "", "warn"))
    return Table([
        Column("node", nodes, title="Node", names=True), Column("case", cases, wrap=True, title="Case", names=True),
        Column("value", values, point=True, title="Value", kind="number"), Column("of median", apart, right=True, title="Of median"),
        Column("", marks, key="outlier"),
    ])  # fmt: skip


def coded(shown: CampaignShown) -> list[str]:
    """Members whose program gave a verdict that failed."""
    failed = [state.member for state in shown.states if state.state == "measured" and state.code]
    return ["", f"a verdict failed on {words.some(failed, 8)}: hotlap cluster logs NODE shows why"] if failed else []


def missing(shown: CampaignShown, width: int, color: bool) -> list[str]:
    """Members without a result, each with its state and reason."""
    lost = shown.missing
    if not lost:
        return []
    several = len(shown.campaign.steps) > 1
    chosen = lost[:MOST_MISSING]
    columns = [Column("without a result", [Cell(words.clean(state.member), "bold") for state in chosen])]
    if several:
        names = {step.number: step.name for step in shown.campaign.steps}
        columns.append(Column("step", [Cell(names[state.step]) for state in chosen]))
    columns += [
        Column("state", [Cell(state.state, STYLES.get(state.state, "bad")) for state in chosen]),
        Column("why", [Cell(words.clean(state.why) or words.DASH) for state in chosen], wrap=True),
    ]
    left = len(lost) - len(chosen)
    return ["", *layout.fitted(columns, width).lines(color), *([f"… and {left} more; --json has all"] if left else [])]


def status(shown: CampaignShown, width: int, color: bool) -> list[str]:
    """Where each member is; of very many only those without a result."""
    head = [summary(shown, color)]
    if len(shown.states) > MOST_ROWS:
        return head + missing(shown, width, color)
    steps = {step.number: step.name for step in shown.campaign.steps}
    states = list(shown.states)
    columns = [
        Column("member", [Cell(words.clean(state.member), "bold") for state in states]),
        Column("step", [Cell(steps[state.step]) for state in states]),
        Column("state", [Cell(state.state, STYLES.get(state.state, "bad")) for state in states]),
        Column("took", [Cell(units.show(state.seconds, "s") if state.seconds is not None else "") for state in states], right=True),
        Column("why", [Cell(words.clean(state.why)) for state in states], wrap=True),
    ]
    return [*head, "", *layout.fitted(columns, width).lines(color)]
