"""A fleet of nodes with planted faults, simulated: every step of an acceptance, for sizes and parts that we do not have.

A healthy node is what its product's inventory in the plan says; its devices run at what the model expects, a percent apart, and each sample
has noise. All that a node gives follows from the seed, its name, the step and how often it was asked.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from hotlap.bringup import accept_judge, accept_plan, fabrics, topology
from hotlap.bringup.accept_driver import LONGER, REPEATS
from hotlap.bringup.accept_folder import BegunStep
from hotlap.bringup.accept_judge import SUBNET, ExpectedRate, StepRaw
from hotlap.bringup.accept_plan import AcceptPlan, AcceptProduct
from hotlap.bringup.accept_record import FaultSeen, NodeEvidence, NodeStanding, StepAsk
from hotlap.bringup.isolating import Isolating
from hotlap.bringup.record import SlowPart
from hotlap.cluster import hosts
from hotlap.core.errors import InputError, nearest
from hotlap.core.model.predict import predict
from hotlap.core.work.compute import GEMM
from hotlap.core.work.memory import STREAM

KINDS = {
    "gpu-missing": "a GPU is on the bus, and its driver does not list it", "gpu-count": "7 of 8 GPUs are on the bus",
    "rail": "two adapters are on each other's rail", "firmware": "another version on one GPU", "slow-link": "it sends at a lower rate",
    "throttling": "it slows down in the soak", "corruption": "some results are wrong", "bmc": "its BMC does not answer",
    "serial": "it has another node's serial number", "late": "it does not answer when it is called first",
    "clock": "its clock is an hour ahead", "vanished": "it is gone in the soak", "slow-device": "one GPU is slower",
    "product": "it is another product of the plan",
}  # fmt: skip
OTHER_FIRMWARE = "0.00.00"
CLOCK_S, LATENCY_S, SILENT_S = 3600.0, 0.05, 20.0
SPREAD, NOISE = 0.01, 0.01
LOSS = 0.3  # of slow links, throttled soaks and slow devices
SAMPLES, CHECKED, WRONG = 8, 64, 3
START_S = 1_780_000_000.0
CASES: Mapping[str, dict[str, Any]] = {GEMM.name: {}, STREAM.name: {"size": "1 GiB"}}
RATE = 50e9  # B/s of a link, where the plan names none


@functools.cache
def expectations(machine: str) -> dict[str, ExpectedRate]:
    """Calls per second of each metric, by the model. Raises InputError for a machine that is not in its table."""
    known = {}
    for metric, params in CASES.items():
        limit = predict(metric, machine, **params)
        if limit.expected_s and limit.high_s:
            known[metric] = ExpectedRate(1.0 / limit.expected_s, 1.0 / limit.high_s)
    return known


@dataclass
class SimulatedFleet:
    """`faults`: a kind by node. `standings`: of the moment, from which repairs and earlier calls are known."""

    plan: AcceptPlan
    faults: Mapping[str, str]
    seed: int = 0
    standings: Callable[[], Mapping[str, NodeStanding]] = dict
    noise: float = NOISE
    _now: Mapping[str, NodeStanding] = field(default_factory=dict, repr=False)

    def now_s(self, taken: int) -> float:
        return START_S + 600.0 * taken

    def measure(self, ask: StepAsk, begun: BegunStep, tell: Callable[[BegunStep], None]) -> StepRaw:
        self._now = self.standings()
        nodes = [*ask.nodes, *ask.partners] if ask.step in ("pairs", "together") else ask.nodes
        raw = StepRaw([self._evidence(name, ask) for name in nodes])
        for name in nodes:
            if ask.step == "reach" and self._fault(name) == "late" and not self._standing(name).reaches:
                raw.faults[name] = [FaultSeen(code="unreachable", values={"why": "no answer"})]
            if ask.step == "soak" and self._fault(name) == "vanished":
                raw.faults[name] = [FaultSeen(code="vanished", values={"why": "no beat"})]
        if ask.step == "together" and len(nodes) < 2:
            raw.faults = {name: [FaultSeen(code="too-few", values={"nodes": 1})] for name in nodes}
        if ask.step in ("alone", "soak"):
            raw.models = {product.name: expectations(product.machine) for product in self.plan.products if product.machine}
        if ask.step == "pairs":
            for product in self.plan.products:
                self._isolate(product, nodes, ask, raw)
        return raw

    def _standing(self, name: str) -> NodeStanding:
        return self._now.get(name) or NodeStanding(node=name)

    def _fault(self, name: str) -> str:
        """What is wrong with it now; a repair that is noted mends it."""
        return "" if self._standing(name).repairs else self.faults.get(name, "")

    def _random(self, name: str, ask: StepAsk) -> np.random.Generator:
        """Of a node in a step; the same again when the step is measured again after a kill."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode()), zlib.crc32(ask.step.encode()), self._standing(name).changed])

    def _evidence(self, name: str, ask: StepAsk) -> NodeEvidence:
        product, random = self.plan.product(name), self._random(name, ask)
        evidence = NodeEvidence(node=name, product=product.name, step=ask.step, outcome="pass")
        parts: dict[str, Any] = {}
        if ask.step == "reach":
            parts["facts"] = self._identity(name, product, random)
        elif ask.step == "inspect":
            parts["facts"] = self._facts(name, product)
        elif ask.step in ("alone", "soak"):
            parts = self._ran(name, product, ask, random)
        else:
            parts = {"checked": CHECKED} if ask.step == "together" else {}
        return msgspec.structs.replace(evidence, **parts)

    def _identity(self, name: str, product: AcceptProduct, random: np.random.Generator) -> dict[str, Any]:
        fault = self._fault(name)
        owner = product.nodes[(product.nodes.index(name) + 1) % len(product.nodes)] if fault == "serial" else name
        off_s = CLOCK_S if fault == "clock" else 0.0
        facts: dict[str, Any] = {
            "serial": product.serials.get(owner, f"S{zlib.crc32(owner.encode()):08X}"), "silent_s": SILENT_S,
            "clock_off_s": round(off_s - float(random.exponential(LATENCY_S)), 3),
        }  # fmt: skip
        if name in product.bmc:
            facts |= {"bmc": product.bmc[name], "bmc_answers": fault != "bmc"}
        return facts

    def _facts(self, name: str, product: AcceptProduct) -> dict[str, Any]:
        """Its inventory: its product's, but for its fault."""
        fault = self._fault(name)
        others = [each for each in self.plan.products if each.name != product.name]
        product = others[0] if fault == "product" and others else product
        count = product.gpus - (fault == "gpu-count")
        facts: dict[str, Any] = {"gpus.count": count}
        for index in range(count):
            facts[f"gpu[{index}].name"] = None if fault == "gpu-missing" and index == count - 1 else product.machine
        subnets = list(product.rails.values())
        if fault == "rail" and len(subnets) > 1:
            subnets[:2] = reversed(subnets[:2])
        for nic, subnet in zip(product.rails, subnets, strict=True):
            facts[SUBNET.format(nic)] = subnet
        for pattern, wanted in product.expect.items():
            keys = range(count) if pattern.startswith("gpu[*]") else product.rails if "[*]" in pattern else [""]
            for place, key in enumerate(keys):
                value = OTHER_FIRMWARE if fault == "firmware" and place == 0 and pattern == next(iter(product.expect)) else wanted
                facts[pattern.replace("[*]", f"[{key}:1]" if pattern.startswith("ib[") else f"[{key}]")] = value
        return facts

    def _ran(self, name: str, product: AcceptProduct, ask: StepAsk, random: np.random.Generator) -> dict[str, Any]:
        fault, samples = self._fault(name), SAMPLES * (REPEATS if ask.retest else 1)
        own = np.random.default_rng([self.seed, zlib.crc32(name.encode())])  # of its devices, whatever the step
        throttled = fault == "throttling" and ask.step == "soak"
        rates: dict[str, dict[str, list[float]]] = {}
        for metric, expected in (expectations(product.machine) if product.machine else {"loop": ExpectedRate(1.0, 0.0)}).items():
            devices: dict[str, list[float]] = {}
            for index in range(max(product.gpus, 1)):
                level = expected.rate * float(np.exp(own.normal(0, SPREAD)))
                level *= 1 - LOSS if throttled or (fault == "slow-device" and index == 0) else 1.0
                values = level * np.exp(random.normal(0, self.noise, samples))
                devices[f"gpu{index}" if product.gpus else ""] = [float(f"{value:.6g}") for value in values]
            rates[metric] = devices
        seconds = accept_plan.soak_s(self.plan) if ask.step == "soak" else accept_plan.ALONE_S
        seconds *= LONGER if ask.retest else 1.0
        return {
            "rates": rates, "units": dict.fromkeys(rates, "1/s"), "wrong": WRONG if fault == "corruption" else 0,
            "checked": CHECKED * samples, "throttled_s": LOSS * seconds if throttled else 0.0, "seconds": seconds,
        }  # fmt: skip

    def _isolate(self, product: AcceptProduct, nodes: Sequence[str], ask: StepAsk, raw: StepRaw) -> None:
        names = [name for name in product.nodes if name in set(nodes)]
        if len(names) < 2:
            return
        where = topology.of(self.plan.topology, names, self.plan.leaf_limit)
        slow = {SlowPart("send", place): LOSS for place, name in enumerate(names) if self._fault(name) == "slow-link"}
        seed = [self.seed, zlib.crc32(" ".join(names).encode()), max(self._standing(name).changed for name in names)]
        fabric = fabrics.Fabric(where, slow, rate=product.link or RATE, seed=int(np.random.default_rng(seed).integers(1 << 31)))
        rounds = accept_plan.screening(len(names), ask.tries, ask.retest)
        isolating = Isolating(where, fabric.transfer, np.random.default_rng(seed), screen=rounds, expected=product.link)
        answer = isolating.run()[0]
        raw.isolations[product.name] = answer
        raw.evidence = accept_judge.transfers(raw.evidence, isolating.tests, where, answer.fleet)


def parse(text: str) -> tuple[int, int, int, dict[str, str]]:
    """`fleet?nodes=256&products=3&seed=1&fault=KIND:NODE` → nodes, products, seed, faults by node. Raises InputError."""
    name, _, rest = text.partition("?")
    options = [part.partition("=")[::2] for part in rest.split("&") if part]
    valid = ("nodes", "products", "seed", "fault")
    wrong = next((key for key, _ in options if key not in valid), "")
    if name != "fleet" or wrong:
        why = f"there is no '{wrong}'" if wrong else "it begins with fleet?"
        raise InputError(f"simulate: {text}: {why}; valid: {', '.join(valid)}")
    given, faults = dict(options), dict[str, str]()
    for key, value in options:
        kind, _, node = value.partition(":")
        if key == "fault" and (kind not in KINDS or not node):
            raise InputError(f"fault={value}: a fault is KIND:NODE; {nearest(kind, KINDS)}")
        if key == "fault":
            faults[node] = kind
    numbers = [given.get("nodes", "16"), given.get("products", "1"), given.get("seed", "0")]
    if not all(number.isdecimal() for number in numbers):
        raise InputError(f"simulate: {text}: nodes, products and seed are numbers")
    nodes, products, seed = map(int, numbers)
    if products < 2 and "product" in faults.values():
        raise InputError(f"simulate: {text}: fault=product needs another product of the plan; give products=2 or 3")
    if not 2 <= nodes <= hosts.MOST or not 1 <= products <= min(nodes, len(PRODUCTS)):
        raise InputError(f"simulate: {text}: 2 to {hosts.MOST:,} nodes, and 1 to {len(PRODUCTS)} products")
    return nodes, products, seed, faults


PRODUCTS = (("hgx-h200", "h200-sxm", "96.00.99"), ("hgx-h100", "h100-sxm", "96.00.74"), ("oam-mi300x", "mi300x", "022.040.003"))


def draft(text: str) -> dict[str, Any]:
    """A plan of a simulated fleet, as its TOML has it: products of 8 GPUs and adapters, with serial numbers and BMCs. Raises InputError."""
    nodes, products, _, faults = parse(text)
    digits = len(str(nodes))
    names = [f"n{number:0{digits}}" for number in range(1, nodes + 1)]
    if wrong := next((node for node in faults if node not in names), ""):
        raise InputError(f"simulate: there is no node '{wrong}'; there are {names[0]} to {names[-1]}")
    tables = []
    for place, part in enumerate(np.array_split(np.arange(nodes), products)):
        own, (name, machine, firmware) = [names[number] for number in part], PRODUCTS[place]
        tables.append({
            "name": name, "nodes": f"n[{own[0][1:]}-{own[-1][1:]}]", "machine": machine, "gpus": 8, "link": "50 GB/s",
            "expect": {"gpu[*].vbios": firmware, "ib[*].firmware": "28.43.2026"},
            "rails": {f"mlx5_{rail}": f"fd00:0:0:{rail}" for rail in range(8)},
            "serials": {node: f"{name.upper()}-{number:05}" for node, number in zip(own, part.tolist(), strict=True)},
            "bmc": {node: f"{node}-bmc:443" for node in own},
        })  # fmt: skip
    return {"name": "simulated", "launch": {"simulate": text}, "product": tables}


def fleet(plan: AcceptPlan, standings: Callable[[], Mapping[str, NodeStanding]]) -> SimulatedFleet:
    """Of a plan whose launch simulates. Raises InputError for a fault of a node that is not in it."""
    _, _, seed, faults = parse(str(plan.launch["simulate"]))
    if wrong := next((node for node in faults if node not in plan.nodes), ""):
        raise InputError(f"simulate: there is no node '{wrong}' in the plan; {nearest(wrong, plan.nodes)}")
    return SimulatedFleet(plan, faults, seed, standings)
