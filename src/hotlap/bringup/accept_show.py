"""An acceptance as text: how many nodes are in which state, what is wrong with which, what was overridden, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hotlap.bringup import accept_plan, accept_states
from hotlap.bringup.accept_plan import AcceptPlan
from hotlap.bringup.accept_record import PATH, STATES, FaultSeen, NodeStanding, StepHead
from hotlap.core.record import Record
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column, Table
from hotlap.core.units import show

SOME = 6  # names in a sentence
MOST = 40  # rows of a table on one screen
STYLES = {"accepted": "good", "suspect": "warn", "retest": "warn", "quarantined": "bad", "rejected": "bad", "lost": "bad"}
PARTS = {
    "send": "sending", "receive": "receiving", "node": "sending and receiving", "nic": "one adapter", "gpu": "one GPU",
    "uplink": "the uplink of {0}", "uplink-out": "the uplink of {0}, outwards", "uplink-in": "the uplink of {0}, inwards",
    "rail": "rail {0}", "link": "the link of {0}", "leaf pair": "the way between leaves {0}", "group": "what {0} share",
    "fabric": "the whole fabric of {0}",
}  # fmt: skip
FORMS = {
    "unreachable": "it does not answer: {why}",
    "late": "it came late: it answered call {calls}",
    "vanished": "it vanished while it was measured: {why}",
    "no-result": "it gave no result: {why}",
    "clock": "its clock is {off_s} off",
    "bmc": "its BMC at {place} does not answer",
    "serial": "its serial number is {serial}, not {expected}; {serial} is that of {same_as}",
    "serial-twice": "serial number {serial} is that of {same_as}, too",
    "product": "it is a {seen}, not a {expected}",
    "gpu-count": "{seen} of {expected} GPUs are on the bus",
    "gpu-missing": "the driver lacks {gpus}: {seen} of {expected} GPUs",
    "nic-missing": "adapters {adapters} are not there",
    "rail": "rails are swapped: {places}",
    "firmware": "{fact} is {seen}, not {expected}",
    "setting": "{fact} is {seen}, not {expected}",
    "unknown-fact": "{fact} is not known",
    "slow-device": "{metric} on {device} is {loss} slower than the fleet ({low} to {high})",
    "below-model": "{metric} on {device} is {loss} below the model's expectation",
    "no-fleet": "{metric}: {nodes} nodes are no fleet, and no model knows it",
    "throttling": "it was throttled for {throttled_s} of {seconds}",
    "corruption": "{wrong} of {checked} results are wrong",
    "slow-link": "{part} loses {loss} ({low} to {high})",
    "slow-part": "{part} loses {loss}",
    "no-pairs": "pairs of {nodes} nodes do not tell",
    "too-few": "{nodes} nodes of its product are too few",
    "coarse": "{product}: a node shows as slow in {metric} from a loss of {loss} on, by how much its {nodes} nodes differ",
    "doubtful": "{metric} on {device} is {loss} slower than the fleet ({low} to {high}); its nodes differ too much to be sure",
    "wrong-together": "results of {nodes} are wrong, and nobody knows whose part it was",
    "no-turn": "its gang ended because of another node",
    "verdict": "its test failed: {verdict}",
}  # fmt: skip


class OverrideNoted(Record, frozen=True, kw_only=True):
    """A person's decision about a node."""

    node: str
    state: str
    reasons: list[str]


class AcceptanceShown(Record, frozen=True, kw_only=True):
    """An acceptance as JSON has it."""

    id: str
    name: str
    nodes: int
    states: dict[str, dict[str, int]]  # counts by product and state
    on_evidence: int  # accepted by evidence of every step
    standings: list[NodeStanding]
    overrides: list[OverrideNoted]
    left_out: list[accept_plan.LeftOut]
    notes: list[FaultSeen]
    finished: bool
    max_out: float
    out: int


@dataclass(frozen=True)
class AcceptanceSeen:
    """What is shown: the plan, standings, and the heads of steps."""

    id: str
    plan: AcceptPlan
    standings: Mapping[str, NodeStanding]
    heads: Sequence[StepHead]
    finished: bool
    max_out: float

    @property
    def troubled(self) -> list[NodeStanding]:
        return [each for each in self.standings.values() if each.state not in (*PATH, "spare") or each.open]

    @property
    def code(self) -> int:
        """0 all are accepted, or spare by a person; 1 something is wrong with a node; 3 evidence is missing."""
        states = {each.state for each in self.standings.values()}
        if states & {"suspect", "retest", "quarantined", "rejected", "lost"}:
            return 1
        return 0 if states <= {"accepted", "spare"} else 3

    def document(self) -> AcceptanceShown:
        overridden = [each for each in self.standings.values() if each.overrides]
        counts = {product.name: Counter[str](self.standings[name].state for name in product.nodes) for product in self.plan.products}
        return AcceptanceShown(
            id=self.id, name=self.plan.name, nodes=len(self.standings), states={name: dict(each) for name, each in counts.items()},
            on_evidence=sum(map(accept_states.on_evidence, self.standings.values())), standings=list(self.standings.values()),
            overrides=[OverrideNoted(node=each.node, state=each.state, reasons=each.overrides) for each in overridden],
            left_out=[each.left_out for each in accept_plan.planned(self.plan) if each.left_out], notes=self.notes, finished=self.finished,
            max_out=self.max_out, out=accept_states.counted(self.standings, ("quarantined", "rejected")),
        )  # fmt: skip

    @property
    def notes(self) -> list[FaultSeen]:
        return [note for head in self.heads for note in head.notes if not self._passed(note)]

    def _passed(self, note: FaultSeen) -> bool:
        """Whether every node behind a slow link or way has passed its pairs since: then it passed, too."""
        members = note.values.get("members", [])
        if note.code != "slow-part" or note.values["part"] not in ("link", "group") or not isinstance(members, list):
            return False
        return all(name in self.standings and self.standings[name].evidence.get("pairs") for name in members)


def cause(seen: FaultSeen) -> str:
    """A sentence of a cause, with its values."""
    texts = {name: _value(name, value) for name, value in seen.values.items()}
    if "part" in texts:
        members = seen.values.get("members", [])
        texts["part"] = PARTS[str(seen.values["part"])].format(_some(members if isinstance(members, list) else [str(members)]))
    if texts.get("device") == "":
        texts["device"] = "the node"
    if int(seen.values.get("devices", 1)) > 1:  # type: ignore[arg-type]
        texts["device"] = f"{texts['device']} and {int(seen.values['devices']) - 1} more"  # type: ignore[arg-type]
    return words.clean(FORMS[seen.code].format(**texts))


def _value(name: str, value: str | int | float | list[str]) -> str:
    if isinstance(value, list):
        return _some(value) or "nobody"
    if isinstance(value, float):
        return clock(value) if name.endswith("_s") or name == "seconds" else f"{100 * value:.1f} %"
    return str(value)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SOME]) + (f" and {len(names) - SOME} more" if len(names) > SOME else "")


def causes(faults: Sequence[FaultSeen]) -> str:
    return "; ".join(cause(each) for each in faults)


def lines(seen: AcceptanceSeen, width: int, color: bool) -> list[str]:
    """One screen: counts by product and state, nodes with a cause, overrides, what was left out."""
    text = [f"acceptance {words.clean(seen.plan.name)} ({seen.id}), {words.counted(len(seen.standings), 'node')}", ""]
    text += layout.fitted(_counts(seen), width).lines(color)
    if seen.troubled:
        text += ["", *layout.fitted(_troubles(seen.troubled[:MOST]), width).lines(color)]
        more = len(seen.troubled) - MOST
        text += [f"… and {more} more; --json has all"] if more > 0 else []
    overridden = [each for each in seen.standings.values() if each.overrides]
    if overridden:
        text += ["", *layout.fitted(_overrides(overridden), width).lines(color)]
    notes = remarks(seen)
    return [*text, *([""] if notes else []), *(row for note in notes for row in layout.paragraph("", note, width))]


def _counts(seen: AcceptanceSeen) -> list[Column]:
    products = seen.plan.products
    counts = [Counter(seen.standings[name].state for name in product.nodes) for product in products]
    states = [state for state in STATES if any(each[state] for each in counts)]
    return [
        Column("product", [Cell(words.clean(product.name), "bold") for product in products]),
        *(Column(state, [Cell(str(each[state] or ""), STYLES.get(state, "")) for each in counts], right=True) for state in states),
    ]


def _troubles(standings: Sequence[NodeStanding]) -> list[Column]:
    faults = [each.faults or [one for some in each.open.values() for one in some] for each in standings]
    steps = [each.step or next(iter(each.open), "") for each in standings]
    proofs = [each.proof for each in standings]
    return [
        Column("node", [Cell(words.clean(each.node), "bold") for each in standings]),
        Column("state", [Cell(_state(each), STYLES.get(each.state, "warn")) for each in standings]),
        Column("step", [Cell(step) for step in steps]),
        Column("cause", [Cell(causes(some)) for some in faults], wrap=True),
        *([Column("evidence", [Cell(proof[:12]) for proof in proofs])] if any(proofs) else []),
    ]


def _state(each: NodeStanding) -> str:
    """With the mark of an override: it stands beside the state in every table."""
    waits = {"": "", "room": ", --max-out is reached", "answer": ", the retest does not tell"}[each.waits]
    return f"{each.state}{' (override)' if each.overridden else ''}{waits}"


def _overrides(standings: Sequence[NodeStanding]) -> list[Column]:
    before = [causes(each.before) for each in standings]
    return [
        Column("override", [Cell(words.clean(each.node), "bold") for each in standings]),
        Column("state", [Cell(_state(each), "warn") for each in standings]),
        Column("reason", [Cell(words.clean("; ".join(each.overrides))) for each in standings], wrap=True),
        *([Column("fault before", [Cell(text) for text in before], wrap=True)] if any(before) else []),
    ]


def table(standings: Sequence[NodeStanding]) -> Table:
    """Nodes with their causes, for a page."""
    return Table(_troubles(standings))


def remarks(seen: AcceptanceSeen) -> list[str]:
    """Sentences below the tables."""
    notes = [f"{cause(note)}: no node is blamed for it." for note in seen.notes if note.code != "coarse"]
    notes += [f"{text}." for text in _coarse(seen.notes)]
    late = [each.node for each in seen.standings.values() if each.late]
    notes += [f"Came late: {_some(late)}."] if late else []
    repaired = [f"{each.node} ({words.clean('; '.join(each.repairs))})" for each in seen.standings.values() if each.repairs]
    notes += [f"Repaired, and tried again: {_some(repaired)}."] if repaired else []
    cut = [left_out(each.left_out) for each in accept_plan.planned(seen.plan) if each.left_out]
    notes += [*cut, f"More time, without losing what was measured: hotlap cluster accept run {seen.id} --budget '12 h'."] if cut else []
    held = [each.node for each in seen.standings.values() if each.waits == "room"]
    if held:
        most = accept_plan.most_out(seen.max_out, len(seen.standings))
        notes.append(
            f"{words.counted(len(held), 'suspect')} may not be taken out: {most} of {len(seen.standings)} is the most (max_out "
            f"{100 * seen.max_out:.0f} %). Look first for what they share; then run again with a larger --max-out."
        )
    waiting = accept_states.counted(seen.standings, PATH[:-1])
    if seen.finished and waiting:
        notes.append(f"{words.counted(waiting, 'node')} lack evidence, and are not accepted.")
    return notes


def _coarse(notes: Sequence[FaultSeen]) -> list[str]:
    """The smallest loss that each product's last comparison would have shown."""
    last = {note.values["product"]: note for note in notes if note.code == "coarse"}
    largest = dict[object, FaultSeen]()
    for note in notes:
        if note.code == "coarse" and note.values["nodes"] == last[note.values["product"]].values["nodes"]:
            before = largest.setdefault(note.values["product"], note)
            largest[note.values["product"]] = max(before, note, key=lambda each: float(each.values["loss"]))  # type: ignore[arg-type]
    return [cause(note) for note in largest.values()]


def left_out(each: accept_plan.LeftOut) -> str:
    """What a budget cuts."""
    if each.kept_s:
        return f"The budget shortens the {each.step} of a node to {clock(each.kept_s)}; {clock(each.asked_s)} was asked."
    return f"The budget leaves out {each.step}: no node is accepted without it."


def clock(time_s: float) -> str:
    """Hours and minutes of a long time."""
    if time_s < 120:
        return show(time_s, "s")
    minutes = round(time_s / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def plan_lines(plan: AcceptPlan, width: int, color: bool) -> list[str]:
    """What a plan takes."""
    steps = accept_plan.planned(plan)
    waves = Counter(plan.wave_of().values())
    head = f"{words.counted(len(plan.nodes), 'node')} in {words.counted(len(plan.products), 'product')}, waves of "
    most = accept_plan.most_out(plan.max_out, len(plan.nodes))
    head += f"{', '.join(str(waves[number]) for number in sorted(waves))}; at most {most} may be out"
    products = [
        Column("product", [Cell(words.clean(each.name), "bold") for each in plan.products]),
        Column("nodes", [Cell(str(len(each.nodes))) for each in plan.products], right=True),
        Column("GPUs", [Cell(str(each.gpus or "")) for each in plan.products], right=True),
        Column("adapters", [Cell(str(len(each.rails) or "")) for each in plan.products], right=True),
        Column("reference", [Cell(_reference(each)) for each in plan.products], wrap=True),
    ]
    times = [
        Column("step", [Cell(each.step, "bold") for each in steps]),
        Column("takes about", [Cell(clock(each.time_s)) if each.time_s else Cell("left out", "warn") for each in steps]),
    ]
    count = len(set(plan.wave_of().values()))
    total = f"{clock(sum(each.time_s for each in steps))} in all" + (f" of {clock(plan.budget_s)}" if plan.budget_s else "")
    total += f": of {words.counted(count, 'wave')} one after the other, and a quarter more for retests"
    notes = [left_out(each.left_out) for each in steps if each.left_out]
    return [
        head, "", *layout.fitted(products, width).lines(color), "", *layout.fitted(times, width).lines(color), total,
        *(row for note in notes for row in layout.paragraph("", note, width)),
    ]  # fmt: skip


def _reference(product: accept_plan.AcceptProduct) -> str:
    parts = [f"the model of {product.machine}"] if product.machine else []
    return " and ".join([*parts, "the fleet" if len(product.nodes) > 4 else "no fleet: it has fewer than 5 nodes"])
