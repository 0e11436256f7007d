"""What follows from a step's evidence: causes by code. References are the plan's inventory, the model, and the fleet of the same product;
no threshold is typed.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from hotlap.bringup import naming
from hotlap.bringup.accept_plan import AcceptPlan, AcceptProduct
from hotlap.bringup.accept_record import FaultCode, FaultSeen, NodeEvidence, Outcome
from hotlap.bringup.record import Culprit, FabricLayout, Isolation, Transfers
from hotlap.core.stats import fleet, series
from hotlap.nodes import odd

GPU = re.compile(r"gpu\[(\d+)\]\.name")
DOUBT = 0.01  # of small fleets in which a healthy node is doubted by a metric, and measured again; fleet.RATE of them name one
SMALL = 2.0  # times the smallest loss that is doubted, as logarithms, from which the smallest that is named leaves too much between
COARSE = 0.9  # a step in which a node at a tenth of its rate is not even doubted shows nothing
SUBNET = "ib[{0}:1].subnet"
OPEN: frozenset[FaultCode] = frozenset({
    "serial-twice", "unknown-fact", "no-fleet", "coarse", "slow-part", "no-pairs", "too-few", "no-turn", "wrong-together", "doubtful",
})  # fmt: skip
GONE: frozenset[FaultCode] = frozenset({"unreachable", "vanished"})
INFORMS: frozenset[FaultCode] = frozenset({"late"})


@dataclass(frozen=True)
class ExpectedRate:
    """What the model expects of a metric, per second: its middle, and the lower end of its interval."""

    rate: float
    low: float


Models = Mapping[str, Mapping[str, ExpectedRate]]  # by product and metric


@dataclass
class StepRaw:
    """What a step measured. `gone` and `faults` are what the measuring itself knows; `notes`: of no single node."""

    evidence: list[NodeEvidence]
    faults: dict[str, list[FaultSeen]] = field(default_factory=dict)
    models: Models = field(default_factory=dict)
    notes: list[FaultSeen] = field(default_factory=list)
    campaigns: list[str] = field(default_factory=list)
    isolations: dict[str, Isolation] = field(default_factory=dict)  # by product


def judged(plan: AcceptPlan, raw: StepRaw, pool: Sequence[NodeEvidence] = ()) -> list[NodeEvidence]:
    """Each node's evidence with its causes and outcome. `pool`: passing evidence of the same step of other nodes."""
    faults: dict[str, list[FaultSeen]] = defaultdict(list)
    for name, known in raw.faults.items():
        faults[name] += known
    there = [each for each in raw.evidence if not any(one.code in GONE for one in faults[each.node])]
    reference: dict[str, dict[str, Any]] = defaultdict(dict)
    step = raw.evidence[0].step if raw.evidence else "reach"
    if step == "reach":
        _merge(faults, _reached(plan, there, pool))
    elif step == "inspect":
        _merge(faults, {each.node: inventory(plan, each) for each in there})
    elif step in ("alone", "soak"):
        _merge(faults, _ran(there))
        for product in plan.products:
            own = [each for each in there if each.product == product.name and each.rates]
            others = [each for each in pool if each.product == product.name and each.node not in {one.node for one in own}]
            slow, known_of = _slow(own, others, raw.models.get(product.name, {}))
            _merge(faults, slow)
            for each in own:
                reference[each.node] = known_of
            raw.notes += [_coarse(product.name, metric, known) for metric, known in known_of.items() if own and known.get("reach")]
        for each in there:
            if not each.rates and not faults[each.node]:
                faults[each.node].append(FaultSeen(code="no-result", values={"why": "it printed no numbers"}))
    elif step == "pairs":
        _merge(faults, _paired(plan, there, raw))
        for each in there:
            reference[each.node] = _of_isolation(raw.isolations.get(each.product))
    elif step == "together":
        _merge(faults, _combined(there))
        silent = [each.node for each in there if not each.checked and not faults[each.node]]
        _merge(faults, {name: [FaultSeen(code="no-result", values={"why": "it printed no results"})] for name in silent})
    return [_with(each, faults[each.node], reference[each.node]) for each in raw.evidence]


def _coarse(product: str, metric: str, known: Mapping[str, Any]) -> FaultSeen:
    """The smallest loss that the comparison would have shown."""
    return FaultSeen(code="coarse", values={"product": product, "metric": metric, "loss": known["reach"], "nodes": known["nodes"]})


def _merge(into: dict[str, list[FaultSeen]], more: Mapping[str, Iterable[FaultSeen]]) -> None:
    for name, faults in more.items():
        into[name] += faults


def _with(evidence: NodeEvidence, faults: list[FaultSeen], reference: dict[str, Any]) -> NodeEvidence:
    codes = {each.code for each in faults} - INFORMS
    outcome: Outcome = "pass"
    if codes & GONE:
        outcome = "gone"
    elif codes - OPEN:
        outcome = "fail"
    elif codes:
        outcome = "open"
    return msgspec.structs.replace(evidence, faults=faults, outcome=outcome, reference={**evidence.reference, **reference})


def _reached(plan: AcceptPlan, there: Sequence[NodeEvidence], pool: Sequence[NodeEvidence]) -> dict[str, list[FaultSeen]]:
    """Clocks, serial numbers and BMCs. `pool`: nodes that were reached before, which may have a serial number too."""
    faults: dict[str, list[FaultSeen]] = defaultdict(list)
    clocks = {each.node: float(each.facts["clock_off_s"]) for each in there if each.facts.get("clock_off_s") is not None}
    middle = spread = 0.0  # of few nodes the controller's own clock is the reference
    if len(clocks) >= fleet.FEWEST_NODES:
        middle = statistics.median(clocks.values())
        spread = series.MAD_TO_SD * statistics.median([abs(off - middle) for off in clocks.values()])
    owners = _owners(plan, [*there, *pool])
    for each in there:
        off, silent_s = clocks.get(each.node), float(each.facts.get("silent_s", 0.0))
        if off is not None and min(abs(off), abs(off - middle)) > max(silent_s, odd.FAR * spread):
            faults[each.node].append(FaultSeen(code="clock", values={"off_s": off}))
        if each.facts.get("bmc_answers") is False:
            faults[each.node].append(FaultSeen(code="bmc", values={"place": str(each.facts.get("bmc"))}))
        seen, wanted = str(each.facts.get("serial") or ""), plan.product(each.node).serials.get(each.node, "")
        others = [name for name in owners.get(seen, ()) if name != each.node]
        if wanted and seen and seen != wanted:
            values: dict[str, str | int | float | list[str]] = {"serial": seen, "expected": wanted, "same_as": others}
            faults[each.node].append(FaultSeen(code="serial", values=values))
        elif others and not wanted:
            faults[each.node].append(FaultSeen(code="serial-twice", values={"serial": seen, "same_as": others}))
    return faults


def _owners(plan: AcceptPlan, there: Sequence[NodeEvidence]) -> dict[str, list[str]]:
    """Nodes by the serial number that they have, or that the plan says they have."""
    owners: dict[str, dict[str, None]] = defaultdict(dict)
    for each in there:
        owners[str(each.facts.get("serial") or "")].setdefault(each.node)
    for product in plan.products:
        for name, serial in product.serials.items():
            owners[serial].setdefault(name)
    return {serial: list(names) for serial, names in owners.items() if serial}


def inventory(plan: AcceptPlan, evidence: NodeEvidence) -> list[FaultSeen]:
    """What differs from the product's expected inventory; another product's whole inventory is that cause alone."""
    product = plan.product(evidence.node)
    faults = _differs(product, evidence.facts)
    if faults and any(each.code != "unknown-fact" for each in faults):
        for other in plan.products:
            if other.name != product.name and (other.expect or other.gpus) and not _differs(other, evidence.facts):
                return [FaultSeen(code="product", values={"seen": other.name, "expected": product.name})]
    return faults


def _differs(product: AcceptProduct, facts: Mapping[str, Any]) -> list[FaultSeen]:
    faults = list[FaultSeen]()
    listed = {int(match[1]): value is not None for name, value in facts.items() if (match := GPU.fullmatch(name))}
    lost = [f"gpu[{index}]" for index in range(product.gpus) if listed and not listed.get(index)]
    count = facts.get("gpus.count")
    if product.gpus and count is None:
        faults.append(FaultSeen(code="unknown-fact", values={"fact": "gpus.count"}))
    elif product.gpus and count != product.gpus:
        faults.append(FaultSeen(code="gpu-count", values={"seen": int(count), "expected": product.gpus}))  # type: ignore[arg-type]
    elif lost:
        seen = product.gpus - len(lost)
        faults.append(FaultSeen(code="gpu-missing", values={"gpus": lost, "seen": seen, "expected": product.gpus}))
    faults += _rails(product, facts)
    for pattern, wanted in product.expect.items():
        faults += _fact(pattern, wanted, facts)
    return faults


def _rails(product: AcceptProduct, facts: Mapping[str, Any]) -> list[FaultSeen]:
    seen = {nic: facts.get(SUBNET.format(nic)) for nic in product.rails}
    absent = [nic for nic, subnet in seen.items() if subnet is None]
    if absent:
        return [FaultSeen(code="nic-missing", values={"adapters": absent, "expected": len(product.rails)})]
    wrong = [nic for nic, subnet in seen.items() if subnet != product.rails[nic]]
    if not wrong:
        return []
    names = list(product.rails)
    rails: dict[Any, int] = {subnet: number for number, subnet in enumerate(product.rails.values())}
    places = [f"{nic} is on rail {rails.get(seen[nic], '?')}, not {names.index(nic)}" for nic in wrong]
    return [FaultSeen(code="rail", values={"adapters": wrong, "places": places})]


def _fact(pattern: str, wanted: Any, facts: Mapping[str, Any]) -> list[FaultSeen]:
    """A fact, or all that [*] stands for."""
    known = {pattern: facts[pattern]} if pattern in facts else {}
    if "[*]" in pattern:
        form = re.compile(re.escape(pattern).replace(re.escape("[*]"), r"\[[^\]]*\]"))
        known = {name: value for name, value in facts.items() if form.fullmatch(name)}
    known = {name: value for name, value in known.items() if value is not None}
    if not known:
        return [FaultSeen(code="unknown-fact", values={"fact": pattern})]
    code: FaultCode = "firmware" if any(word in pattern for word in odd.VERSIONS) else "setting"
    return [
        FaultSeen(code=code, values={"fact": name, "seen": str(value), "expected": str(wanted)})
        for name, value in known.items() if value != wanted
    ][:1]  # fmt: skip


# ---------------------------------------------------------------- what ran


def _ran(there: Sequence[NodeEvidence]) -> dict[str, list[FaultSeen]]:
    """Wrong results, and nodes that were throttled where most of their product were not."""
    faults: dict[str, list[FaultSeen]] = defaultdict(list)
    for each in there:
        if each.wrong:
            faults[each.node].append(FaultSeen(code="corruption", values={"wrong": each.wrong, "checked": each.checked}))
    for name in {each.product for each in there}:
        own = [each for each in there if each.product == name and each.throttled_s is not None]
        throttled = [each for each in own if each.throttled_s]
        for each in throttled if 2 * len(throttled) <= len(own) or len(own) == 1 else []:
            values = {"throttled_s": float(each.throttled_s or 0.0), "seconds": float(each.seconds or 0.0)}
            faults[each.node].append(FaultSeen(code="throttling", values={**values}))
    return faults


def _combined(there: Sequence[NodeEvidence]) -> dict[str, list[FaultSeen]]:
    """Wrong results of a collective operation: a single node's are its own; of several nobody knows who began."""
    wrong = [each for each in there if each.wrong]
    if len(wrong) == 1:
        return _ran(wrong)
    names = [each.node for each in wrong]
    return {each.node: [FaultSeen(code="wrong-together", values={"nodes": names})] for each in (there if wrong else ())}


def _slow(
    own: Sequence[NodeEvidence], others: Sequence[NodeEvidence], models: Mapping[str, ExpectedRate]
) -> tuple[dict[str, list[FaultSeen]], dict[str, Any]]:
    """Devices that are slower than the fleet's, or than the model's lower end where there is no fleet; and the reference by metric."""
    faults: dict[str, list[FaultSeen]] = defaultdict(list)
    reference = dict[str, Any]()
    for metric in sorted({name for each in own for name in each.rates}):
        rows = [(each, device, values) for each in (*own, *others) for device, values in each.rates.get(metric, {}).items() if values]
        nodes = {each.node for each, _, _ in rows}
        model = models.get(metric)
        known: dict[str, Any] = {"nodes": len(nodes), "devices": len(rows)}
        known |= {"model": model.rate, "model_low": model.low} if model else {}
        reference[metric] = known
        if len(nodes) >= fleet.FEWEST_NODES:
            named, doubted = _compared([values for _, _, values in rows], model.rate if model else None)
            known |= {"fleet": statistics.median(statistics.median(values) for _, _, values in rows), "reach": doubted.reach[0]}
            if named.spread[0] is not None:
                _name_odd(faults, "slow-device", named, rows, (metric, len(own)))
                _name_below(faults, own, metric, model)
                _name_odd(faults, "doubtful", doubted, rows, (metric, len(own)))
                if model is None and (doubted.reach[0] or 0.0) > COARSE:
                    note = _coarse(own[0].product, metric, known)
                    _merge(faults, {each.node: [note] for each in own})
                continue
        if model is None:
            for each in own:
                faults[each.node].append(FaultSeen(code="no-fleet", values={"metric": metric, "nodes": len(nodes)}))
            continue
        _name_below(faults, own, metric, model)
    return faults, reference


def _compared(rows: Sequence[Sequence[float]], limit: float | None) -> tuple[fleet.Fleet, fleet.Fleet]:
    """The comparison that names devices; and the one that doubts them, which of a large fleet is the same."""
    samples = _array(rows)
    named, doubted = (fleet.odd(samples, "higher", [limit], rate / len(rows)) for rate in (fleet.RATE, DOUBT))
    return named, doubted if _log_loss(named) > SMALL * _log_loss(doubted) else named


def _log_loss(answer: fleet.Fleet) -> float:
    """The smallest loss that shows, as a logarithm."""
    return -math.log1p(-min(answer.reach[0] or 0.0, 1 - 1e-12))


def _name_odd(
    faults: dict[str, list[FaultSeen]], code: FaultCode, answer: fleet.Fleet, rows: Sequence[tuple[NodeEvidence, str, list[float]]],
    of: tuple[str, int],
) -> None:
    """The slowest device of each node that is not named yet, and how many there are. `of`: the metric, and how many nodes are judged."""
    metric, own = of
    judged_nodes = {each.node for each, _, _ in rows[: _rows_of(rows, own)]}
    slow: dict[str, list[fleet.Odd]] = defaultdict(list)
    for each in answer.odd:
        if rows[each.node][0].node in judged_nodes and each.size < 0:
            slow[rows[each.node][0].node].append(each)
    for name, of_node in slow.items():
        if any(seen.values.get("metric") == metric for seen in faults[name]):
            continue
        worst = min(of_node, key=lambda each: each.size)
        values: dict[str, str | int | float | list[str]] = {"metric": metric, "device": rows[worst.node][1], "devices": len(of_node)}
        faults[name].append(FaultSeen(code=code, values={**values, "loss": -worst.size, "low": -worst.high, "high": -worst.low}))


def _rows_of(rows: Sequence[tuple[NodeEvidence, str, list[float]]], own: int) -> int:
    """Rows of the nodes that are judged, which stand first."""
    seen = dict[str, None]()
    for place, (each, _, _) in enumerate(rows):
        seen.setdefault(each.node)
        if len(seen) > own:
            return place
    return len(rows)


def _name_below(faults: dict[str, list[FaultSeen]], own: Sequence[NodeEvidence], metric: str, model: ExpectedRate | None) -> None:
    """Also where all of a fleet are slow alike: not even the best sample of a device reaches the lower end of what is expected."""
    for each in own if model else ():
        known = any(seen.code == "slow-device" and seen.values["metric"] == metric for seen in faults[each.node])
        slow = {name: values for name, values in each.rates.get(metric, {}).items() if model and values and max(values) < model.low}
        if slow and model and not known:
            worst = min(slow, key=lambda name: statistics.median(slow[name]))
            loss = 1 - statistics.median(slow[worst]) / model.rate
            values: dict[str, str | int | float | list[str]] = {"metric": metric, "device": worst, "devices": len(slow), "loss": loss}
            faults[each.node].append(FaultSeen(code="below-model", values=values))


def _array(samples: Sequence[Sequence[float]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Rows × 1 × samples; NaN where a row has fewer."""
    array = np.full((len(samples), 1, max(map(len, samples))), np.nan)
    for place, values in enumerate(samples):
        array[place, 0, : len(values)] = values
    return array


# ---------------------------------------------------------------- pairs


def _paired(plan: AcceptPlan, there: Sequence[NodeEvidence], raw: StepRaw) -> dict[str, list[FaultSeen]]:
    """Culprits of isolations: a node's own is its fault; a shared part keeps the nodes behind it open, and blames none of them."""
    faults: dict[str, list[FaultSeen]] = defaultdict(list)
    for product in plan.products:
        own = [each.node for each in there if each.product == product.name]
        answer = raw.isolations.get(product.name)
        if not own:
            continue
        if answer is None or not answer.sure:
            code: FaultCode = "too-few" if answer is None else "no-pairs"
            _merge(faults, {name: [FaultSeen(code=code, values={"nodes": len(own)})] for name in own})
            continue
        if answer.below is not None and answer.below > 3 * answer.noise:
            raw.notes.append(FaultSeen(code="slow-part", values={"part": "fabric", "members": [product.name], "loss": answer.below}))
        untested = {name for each in answer.open if each.code == "untested" for name in each.members}
        _merge(faults, {name: [FaultSeen(code="no-result", values={"why": "no transfer"})] for name in own if name in untested})
        for each in answer.culprits:
            members = [*each.part.members, *_either(each)]
            values: dict[str, str | int | float | list[str]] = {
                "part": each.part.kind, "members": members, "loss": each.loss, "low": each.low, "high": each.high,
            }  # fmt: skip
            if each.part.kind in ("node", "send", "receive", "nic", "gpu"):
                faults[each.part.members[0]].append(FaultSeen(code="slow-link", values=values))
                continue
            seen = FaultSeen(code="slow-part", values=values)
            raw.notes.append(seen)
            _merge(faults, {name: [seen] for name in _behind(plan, seen, own)})
    names = {each.node for each in there}
    return {name: each for name, each in faults.items() if name in names}


def _either(each: Culprit) -> list[str]:
    """The other leaf of two whose uplinks no transfer distinguishes."""
    other = each.runner_up
    return list(other.members) if other and naming.same(each) and other.kind == each.part.kind and other.kind in naming.UPLINKS else []


def _of_isolation(answer: Isolation | None) -> dict[str, Any]:
    """What stands beside a node's pairs."""
    if answer is None:
        return {}
    return {
        "fleet": answer.fleet, "nodes": answer.nodes, "rounds": answer.screening + answer.confirming, "noise": answer.noise,
        "disturbed": answer.disturbed, "open": [each.code for each in answer.open],
        "least_loss": next((each.loss for each in answer.open if each.code == "small"), 0.0),
    }  # fmt: skip


def transfers(evidence: Sequence[NodeEvidence], tests: Transfers, where: FabricLayout, fleet_rate: float) -> list[NodeEvidence]:
    """With what each node sent and received, by partner, B/s; and the rate of parts without a fault."""
    rates: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: {"sending to": {}, "receiving from": {}})
    for sender, receiver, rate in zip(tests.sender.tolist(), tests.receiver.tolist(), tests.rate.tolist(), strict=True):
        first, second, value = where.names[sender], where.names[receiver], float(f"{rate:.6g}")
        rates[first]["sending to"].setdefault(second, []).append(value)
        rates[second]["receiving from"].setdefault(first, []).append(value)
    known = {"fleet": fleet_rate, "nodes": where.nodes}
    return [
        msgspec.structs.replace(
            each, rates=rates[each.node], units=dict.fromkeys(rates[each.node], "B/s"),
            reference={**each.reference, **dict.fromkeys(rates[each.node], known)},
        ) if each.node in rates else each for each in evidence
    ]  # fmt: skip


def _behind(plan: AcceptPlan, seen: FaultSeen, own: Sequence[str]) -> list[str]:
    """Nodes that a shared part may slow: of a link or a group its members, of an uplink its leaf's, of a rail all."""
    members = seen.values["members"]
    assert isinstance(members, list)
    if seen.values["part"] in ("link", "group"):
        return [name for name in own if name in members]
    behind = [name for name in own if plan.topology.get(name) in members]
    return behind or list(own)
