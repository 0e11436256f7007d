"""What is text of a campaign: where its members are, what they measured, which stand out, and which have no result, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hotlap.cluster.record import STATES, WITHOUT_RESULT, Campaign, Member, MemberState
from hotlap.core import units
from hotlap.core.analysis import absent, fleets
from hotlap.core.analysis.fleets import FleetVerdict
from hotlap.core.show import fleet, layout, words
from hotlap.core.show.table import Cell, Column, Table

MOST_ROWS = 200  # of members and steps, that a terminal is given
MOST_MISSING = 40
MOST_FAILED = 8
MOST_VALUES = 24  # of devices and cases, that have a row each; more are folded
APART = "to median: negative is worse, so a time that is 25 % longer is -20 %"
FAR = 10.0  # times the median: no longer a change in per cent
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
    paused: Sequence[str] = ()  # members that were silent in the very attempt whose result counts

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
    for one, data in shown.beside:
        text += ["", *one.lines(data, width, color)]
    if shown.fleet and shown.fleet.cases:
        folded = len(shown.fleet.devices) > fleets.MANY or sum(len(case.values) for case in shown.fleet.cases) > MOST_VALUES
        if not folded:
            text += ["", *layout.fitted(results(shown.fleet).columns, width).lines(color)]
            text += layout.paragraph("", APART, width)
        judged_cases = any(case.spread is not None for case in shown.fleet.cases)
        text += fleet.folded(shown.fleet, width, color, fleet.CASES if judged_cases else MOST_VALUES)
        if folded:
            each = f"hotlap show {shown.campaign.id} --format csv has each number of each device, hotlap report a page with all of them"
            text += layout.paragraph("", each, width)
    text += paused(shown, width)
    text += facts(shown)
    text += judged(shown, width, color)
    text += missing(shown, width, color)
    return text


def paused(shown: CampaignShown, width: int) -> list[str]:
    """Whose numbers hold a time in which nothing was heard of it."""
    if not shown.paused:
        return []
    who = words.clean(absent.folded(shown.paused))
    said = f"{who} gave no sign for a while in the attempt that was measured: its numbers may hold that; run them again before you judge it"
    return ["", *layout.paragraph("", said, width)]


def facts(shown: CampaignShown) -> list[str]:
    """Where facts of nodes were collected, what they are for."""
    steps = {step.number for step in shown.campaign.steps if step.gather == "facts"}
    count = sum(state.step in steps and state.state == "measured" for state in shown.states)
    if not count:
        return []
    return ["", f"facts of {words.counted(count, 'member')} are kept: hotlap node audit --fleet {shown.campaign.id} compares them by rules"]


def summary(shown: CampaignShown, color: bool = False) -> str:
    """One line: how many members are in which state, and by which way they were reached."""
    counts = Counter(state.state for state in shown.states)
    tally = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    steps = len(shown.campaign.steps)
    over = f" over {words.counted(steps, 'step')}" if steps > 1 else ""
    slots = " (slots of one machine)" if any(member.slot for member in shown.members) else ""
    counted = words.counted(len(shown.members), "member")
    on = ", on simulated GPUs" if shown.fleet and fleet.simulated(shown.fleet) else ""
    return layout.painted(f"{counted}{slots} by {shown.campaign.launcher}: {tally}{over}{on}", "bold", color)


def results(judged: FleetVerdict) -> Table:
    """A row per node and case: its value, and how far it is from the median of all; a negative share is worse, as in a table of a fleet."""
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
            ratio = (value / middle if case.better == "higher" else middle / value) if middle and value else None
            apart.append(Cell(_apart(ratio)))
            marks.append(Cell("outlier" if odd else "", "warn"))
    return Table([
        Column("node", nodes, title="Node", names=True), Column("case", cases, wrap=True, title="Case", names=True),
        Column("value", values, point=True, title="Value", kind="number"), Column("to median", apart, right=True, title="To median"),
        Column("", marks, key="outlier"),
    ])  # fmt: skip


def _apart(ratio: float | None) -> str:
    """A change; a ratio that is far above 1 as such."""
    if ratio is None:
        return words.DASH
    return f"{ratio:,.0f} ×" if ratio >= FAR else words.signed(ratio - 1)


def judged(shown: CampaignShown, width: int, color: bool) -> list[str]:
    """The verdicts that programs of members gave, failed ones with what they printed last."""
    judging = {step.number for step in shown.campaign.steps if step.judges}
    gave = [state for state in shown.states if state.state == "measured" and (state.code or state.step in judging)]
    failed = [state for state in gave if state.code]
    if not gave or (shown.missing and not failed):  # no pass of all while a member has no result
        return []
    word, count = ("FAIL", len(failed)) if failed else ("PASS", len(gave))
    counted = f"{count} of {words.counted(len(gave), 'verdict')} of members"
    lines = ["", f"{layout.painted(word, 'bad' if failed else 'good', color)}  {counted}"]
    for state in failed[:MOST_FAILED]:
        lines += layout.paragraph("  ", words.clean(f"{state.member}: {state.why or f'exit status {state.code}'}"), width)
    lines += [f"  … and {len(failed) - MOST_FAILED} more; --json has all"] if len(failed) > MOST_FAILED else []
    which = f"--campaign {shown.campaign.id} {failed[0].member}" if failed else ""
    return [*lines, *([f"  hotlap cluster logs {words.clean(which)} shows all that it printed"] if failed else [])]


def missing(shown: CampaignShown, width: int, color: bool) -> list[str]:
    """Members without a result, each with its state and reason."""
    lost = shown.missing
    if not lost:
        return []
    chosen = together(lost)[:MOST_MISSING]
    columns = [Column("without a result", [Cell(words.clean(absent.folded(who)), "bold") for who, _ in chosen], wrap=True)]
    if len(shown.campaign.steps) > 1:
        names = {step.number: step.name for step in shown.campaign.steps}
        columns.append(Column("step", [Cell(names[first.step]) for _, first in chosen]))
    columns += [
        Column("state", [Cell(first.state, STYLES.get(first.state, "bad")) for _, first in chosen]),
        Column("why", [Cell(words.clean(first.why) or words.DASH) for _, first in chosen], wrap=True),
    ]
    left = len(lost) - sum(len(who) for who, _ in chosen)
    return ["", *layout.fitted(columns, width).lines(color), *([f"… and {left} more; --json has all"] if left else [])]


def together(lost: Sequence[MemberState]) -> list[tuple[list[str], MemberState]]:
    """Members with the same state for the same reason in a step, with the first of them; the rarest first."""
    groups: dict[tuple[int, str, str], list[MemberState]] = {}
    for state in lost:
        groups.setdefault((state.step, state.state, state.why), []).append(state)
    ordered = sorted(groups.values(), key=len)
    return [([state.member for state in group], group[0]) for group in ordered]


def _state(state: MemberState) -> Cell:
    failed = state.state == "measured" and state.code
    return Cell("measured, a verdict failed" if failed else state.state, "bad" if failed else STYLES.get(state.state, "bad"))


def _took(state: MemberState) -> str:
    if state.seconds is None:
        return ""
    return f"{units.show(state.seconds, 's')}{' so far' if state.state in ('running', 'silent') else ''}"


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
        Column("state", [_state(state) for state in states]),
        Column("took", [Cell(_took(state)) for state in states], right=True),
        Column("why", [Cell(words.clean(state.why)) for state in states], wrap=True),
    ]
    return [*head, "", *layout.fitted(columns, width).lines(color)]
