"""An isolation as text: the culprits, what it took, what was not excluded."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import msgspec

from hotlap.bringup import schedule
from hotlap.bringup.naming import FEWEST, same
from hotlap.bringup.record import KEPT, Culprit, FabricFinding, Isolation, LinkKnown, NamedPart, Open
from hotlap.cluster.show import BesideCampaign
from hotlap.core.show import layout, words
from hotlap.core.show.sections.base import Report, ReportSection
from hotlap.core.show.table import Cell, Column, Table, html
from hotlap.core.units import show

MOST = 0.949  # a transfer that gives less than 5 % is as one that gives 5 % (factors.DEEPEST)
UNEXPLAINED = 0.12  # of transfers that are slow for no named part: more than other traffic as a rule disturbs
SOME = 6  # names in a sentence
KINDS: Mapping[str, str] = {
    "rail": "rail {0}", "uplink": "uplink of {0}", "uplink-out": "uplink of {0}, outwards", "uplink-in": "uplink of {0}, inwards",
    "leaf pair": "way from leaf {0} to leaf {1}", "group": "what {all} share", "node": "node {0}", "send": "{0} sending",
    "receive": "{0} receiving", "nic": "NIC {1} of {0}", "gpu": "GPU {1} of {0}", "link": "link {0} to {1}",
}  # fmt: skip


def code(answer: Isolation) -> int:
    """0 no part is slow, 1 a part or all of the fabric is, 3 inconclusive: there is no fleet, something is slow that no part explains, or a
    node took no part."""
    if not answer.sure:
        return 3
    if answer.culprits or answer.before or _all_below(answer):
        return 1
    return 3 if _alone(answer) or any(each.code in ("sharing", "alike", "untested") for each in answer.open) else 0


def _all_below(answer: Isolation) -> bool:
    return answer.below is not None and answer.below > 3 * answer.noise


def _alone(answer: Isolation) -> bool:
    """Whether two nodes alone are alike, and no rate is expected: nothing says that neither is slow."""
    return answer.nodes == 2 and answer.below is None


def named(part: NamedPart) -> str:
    return words.clean(KINDS[part.kind].format(*part.members, all=_some(part.members)))


def _some(names: list[str]) -> str:
    return ", ".join(names[:SOME]) + (f" and {len(names) - SOME} more" if len(names) > SOME else "")


def lines(answer: Isolation, width: int, color: bool) -> list[str]:
    """The table of culprits, then sentences."""
    text = [line for each in answer.before for line in layout.paragraph("", f"{before(each)}.", width)]
    text += [""] if text else []
    if by_tcp := next((each for each in answer.open if each.code == "rdma"), None):
        slowest, fastest = answer.rdma_gbps, answer.rdma_most_gbps or answer.rdma_gbps
        speed = f" of {slowest:g}{f' to {fastest:g}' if fastest != slowest else ''} Gb/s" if slowest else ""
        with_rdma = f"{words.counted(by_tcp.count, 'member')} with RDMA adapters{speed} ({_some(by_tcp.members)})"
        text += [*layout.paragraph("", tcp(with_rdma), width), ""]
    if answer.culprits:
        text += [*layout.fitted(_columns(answer.culprits), width).lines(color), ""]
    for note in _notes(answer):
        text += layout.paragraph("", note, width)
    text += layout.paragraph("not excluded  ", "; ".join(map(_open, answer.open)), width, most=None) if answer.open else []
    return text


def tcp(who: str) -> str:
    return f"These are rates of TCP: {who} did not use them."


def before(each: FabricFinding) -> str:
    """Of a fabric's text."""
    members = [words.clean(member) for member in each.members]
    seen, usual = words.clean(each.seen), words.clean(each.usual)
    if each.code == "swapped":
        return f"{members[1]} of {members[0]} hangs on {seen}, that of most nodes beside it on {usual}: two cables may be swapped"
    return f"The link {' to '.join(members)} runs at {seen} instead of {usual}"


def at_most(link: LinkKnown) -> str:
    """What links let through, or why nobody knows."""
    if link.rate is not None:
        whose = "as given" if link.code == "given" else f"by TCP over {words.clean(link.interface)} of {show(link.mbps * 1e6, 'bit/s')}"
        return f"Expected at most {show(link.rate, 'B/s')}, {whose}."
    why = {"loopback": "loopback is no link", "virtual": "interfaces are virtual, and what they say of their speed does not hold"}
    return f"What links carry at most is unknown: {why.get(link.code, 'the kernel of a member says no speed')}."


def _notes(answer: Isolation) -> list[str]:
    link = at_most(answer.link) if answer.link else ""
    return [note for note in (_verdict(answer), _spent(answer), link, *(_told_apart(each) for each in answer.culprits)) if note]


def _columns(culprits: list[Culprit]) -> list[Column]:
    return [
        Column("slow part", [Cell(_either(each), "bold") for each in culprits], wrap=True),
        Column("loss", [Cell(_loss(each), "bad") for each in culprits], right=True, point=True),
        Column("95 % interval", [Cell(f"{100 * each.low:.1f} % to {100 * each.high:.1f} %") for each in culprits], right=True),
        Column("transfers", [Cell(str(each.tests)) for each in culprits], right=True),
        Column("next best explanation", [Cell(named(each.runner_up) if each.runner_up else "") for each in culprits], wrap=True),
    ]


def _loss(each: Culprit) -> str:
    return f"{100 * each.loss:.1f} %" if each.loss < MOST else f"over {100 * MOST:.0f} %"


def _verdict(answer: Isolation) -> str:
    if not answer.sure and answer.nodes < FEWEST:
        return f"Cannot tell: {answer.nodes} nodes are too few to find which one is slow; give {FEWEST} or more."
    known = all(each.code != "topology" for each in answer.open)
    limit = "; if uplinks carry fewer pairs than their leaf has nodes, give --limit" if known else ""
    if answer.faster >= 0.05:
        fast = f"{100 * answer.faster:.0f} % of links are faster than the others: most may be slow"
        return f"Cannot tell: {fast}, and the rate without a fault is unknown{limit}."
    if not answer.sure:
        slow = f"{100 * answer.disturbed:.0f} % of transfers are slow and no part explains them"
        return f"Cannot tell: {slow}; repeat on a quiet fabric, with more rounds{limit}."
    if answer.below is not None and _all_below(answer):
        return f"All of the fabric is {100 * answer.below:.0f} % below the expected rate."
    if _alone(answer):
        both = "Both directions are equally fast, and 2 nodes have no others to compare with"
        return f"Cannot tell whether both are slow: {both}; give --expected RATE, or {FEWEST} nodes or more."
    if answer.disturbed >= UNEXPLAINED and answer.culprits:
        slow = f"{100 * answer.disturbed:.0f} % of transfers were slow, and what is named does not explain them"
        fits = "" if any(each.code == "topology" for each in answer.open) else ", or the topology does not fit"
        return f"{slow}: other traffic ran{fits}. Do not trust the loss before that is known."
    return "" if answer.culprits else "No part is named."


def _spent(answer: Isolation) -> str:
    rounds = f"{words.counted(answer.screening, 'round')} to screen, {answer.confirming} to confirm: {answer.transfers} transfers"
    spent = f"{words.counted(answer.nodes, 'node')}, {rounds}."
    if not answer.sure:
        return spent
    if _alone(answer):
        return f"{spent} Each sends {show(answer.fleet, 'B/s')}."
    now_and_then = f", and {100 * answer.disturbed:.1f} % of transfers were slow without a cause that repeats" if answer.disturbed else ""
    noise = f"; transfers scatter by {100 * answer.noise:.1f} %{now_and_then}" if answer.nodes >= FEWEST else ""
    return f"{spent} Without a fault {show(answer.fleet, 'B/s')}{noise}."


def _either(each: Culprit) -> str:
    """Its name; with another's where no transfer would distinguish them, as of two leaves' uplinks."""
    return f"{named(each.part)} or {named(each.runner_up)}" if same(each) and each.runner_up else named(each.part)


def _told_apart(each: Culprit) -> str:
    if same(each) and each.runner_up:
        return f"{_either(each)}: every transfer that passes one of them passes the other."
    if not each.telling or each.runner_up is None:
        return ""
    return f"{named(each.part)} or {named(each.runner_up)}: a transfer from {each.telling[0]} to {each.telling[1]} would tell."


def _open(each: Open) -> str:
    return {
        "small": f"losses of a node below {100 * each.loss:.1f} %" if each.loss < 1 else "any loss of a node",
        "links": f"links: {each.count} of {each.of} were tested, {each.loss:.0f} more than once{_whole(each)}",
        "untested": f"{_some(each.members)}, untested",
        "vanished": f"{_some(each.members)}, slow while screened and not when confirmed",
        "alike": f"{each.count} links or ways between leaves lose alike: they may share a part that the topology lacks, or it is wrong",
        "sharing": _sharing(each),
        "masked": f"{_some(each.members)}, behind a slow uplink",
        "uplinks": f"uplinks of {_some(each.members)}, which carried nothing",
        "light": f"small losses of uplinks of {_some(each.members)}: too few nodes sent at once to fill them",
        "topology": "uplinks: no topology is known (--topology)",
        "common": "what all nodes lose alike: no rate is expected (--expected)",
        "rdma": "RDMA, which was not measured",
        "cut": f"what further rounds would tell: there was time for {each.count}",
        "gpu": "GPUs behind the NICs: none was tested alone",
    }[each.code]


def _whole(each: Open) -> str:
    return " (--whole tests all)" if each.count < each.of < schedule.EVERY**2 else ""


def _sharing(each: Open) -> str:
    """Nodes that are slow together, but for what the topology says."""
    names = _some(each.members)
    if each.loss:
        loss = f"{100 * each.loss:.0f} %"
        return f"the topology, which does not fit: {names} lose {loss} together, as behind one uplink, and are not on one leaf"
    return f"why transfers of {names} are slow: they may share a part that the topology lacks, or it is wrong"


def _section(report: Report) -> str:
    parts = list[str]()
    for bundle, _ in report.runs:
        try:
            answer = msgspec.json.decode((bundle.path / KEPT).read_bytes(), type=Isolation)
        except (OSError, msgspec.MsgspecError):
            continue
        table = html(Table(_columns(answer.culprits))) if answer.culprits else ""
        parts += [f"<p>{escape(before(each))}.</p>" for each in answer.before]
        lacks = f"Not excluded: {'; '.join(_open(each) for each in answer.open)}." if answer.open else ""
        parts.append(table + "".join(f"<p>{escape(note)}</p>" for note in (*_notes(answer), lacks) if note))
    return "".join(parts)


def _read(data: bytes) -> Isolation:
    return msgspec.json.decode(data, type=Isolation)


BESIDE = BesideCampaign("isolation", _read, lambda data, width, color: lines(_read(data), width, color))
SECTION = ReportSection("Slow parts", "Slow parts of the fabric", _section)
