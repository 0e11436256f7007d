"""The plan of an acceptance, from TOML: products with what each node should be, waves, and a budget that says what it leaves out.

    name = "hall-3"
    launch = { hosts = "n[001-128]" }     # or local = 6, slurm = "-p gpu -N 16", simulate = "fleet?nodes=256"
    waves = [8, "rest"]                   # nodes of each product
    budget = "6 h"
    [[product]]
    name = "hgx-h200"
    nodes = "n[001-128]"
    machine = "h200-sxm"                  # of the model's table: what a healthy device reaches
    gpus = 8
    [product.expect]
    "gpu[*].vbios" = "96.00.99.00.01"
"""

from __future__ import annotations

import hashlib
import math
import shlex
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hotlap.bringup import expecting, schedule, topology
from hotlap.bringup.accept_record import MEASURED, StepName
from hotlap.cluster import hosts
from hotlap.core import units
from hotlap.core.errors import InputError, nearest
from hotlap.core.model import machines
from hotlap.core.record import Record
from hotlap.core.store import toml

LAUNCHES = ("hosts", "local", "slurm", "ray", "simulate")
WAVES: tuple[int | str, ...] = (8, "rest")
MAX_OUT = 0.1
REACH_S, INSPECT_S, ALONE_S, TOGETHER_S = 20.0, 40.0, 60.0, 120.0  # what these steps take of all nodes at once, to plan with
ROUND_S = 0.5  # of a round beside its transfers
CONFIRMING = 4  # rounds
LEAST_SOAK = 0.1  # of the soak that was asked for; below it is left out
RETESTS = 0.25  # of a step's time, for retests of its suspects


NEEDED = {"product": "[[product]] with its name and its nodes", "launch": 'launch, as in launch = { hosts = "n[01-16]" }'}


class AcceptProduct(Record, frozen=True, kw_only=True):
    """A kind of node, and what each of them should be."""

    name: str
    nodes: list[str]
    machine: str = ""  # of the model's table; "": the fleet alone is the reference
    gpus: int = 0
    rails: dict[str, str] = {}  # subnet by adapter, in the order of rails
    expect: dict[str, Any] = {}  # facts as `node inspect` names them, [*] for any
    serials: dict[str, str] = {}  # by node, as they were delivered
    bmc: dict[str, str] = {}  # host:port by node
    link: float | None = None  # B/s of a transfer


class LeftOut(Record, frozen=True, kw_only=True):
    """What the budget leaves out of a step. `kept_s`: 0: all of it."""

    step: StepName
    asked_s: float
    kept_s: float


class AcceptPlan(Record, frozen=True, kw_only=True, dict=True):
    """What is asked, frozen when it begins. Times in seconds."""

    name: str
    launch: dict[str, Any]
    products: list[AcceptProduct]
    waves: list[int | str]
    max_out: float
    budget_s: float  # 0: none
    soak_s: float
    transfer_s: float
    topology: dict[str, str] = {}  # leaf by node
    leaf_limit: int = 0
    python: str = ""
    ssh_config: str = ""
    inspect: list[str] = []
    alone: list[str] = []  # a command of Hotlap in place of the built-in test
    soak: list[str] = []
    digest: str = ""  # of the file

    @property
    def nodes(self) -> list[str]:
        return [name for product in self.products for name in product.nodes]

    def product(self, node: str) -> AcceptProduct:
        return self._product_of[node]

    @cached_property
    def _product_of(self) -> dict[str, AcceptProduct]:
        return {name: product for product in self.products for name in product.nodes}

    def wave_of(self) -> dict[str, int]:
        """The wave of each node, from 0 on."""
        place: dict[str, int] = {}
        for product in self.products:
            left = list(product.nodes)
            for number, size in enumerate(self.waves):
                count = len(left) if size == "rest" else int(size)
                place |= dict.fromkeys(left[:count], number)
                left = left[count:]
        return place


class PlannedStep(NamedTuple):
    """A step and what it takes of all waves, s. `left_out`: what the budget cut from it; None: nothing."""

    step: StepName
    time_s: float
    left_out: LeftOut | None = None


class _Product(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    nodes: str
    machine: str = ""
    gpus: int = 0
    rails: dict[str, str] = {}
    expect: dict[str, Any] = {}
    serials: dict[str, str] = {}
    bmc: dict[str, str] = {}
    link: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    product: list[_Product]
    launch: dict[str, Any]
    name: str = ""
    waves: list[int | str] = msgspec.field(default_factory=lambda: list(WAVES))
    max_out: str | float = MAX_OUT
    budget: str = ""
    soak: str = "1 h"
    transfer: str = "1 s"
    topology: str = ""
    leaf_limit: int = 0
    python: str = ""
    ssh_config: str = ""
    commands: dict[str, list[str]] = {}


def read(path: str) -> AcceptPlan:
    """Raises InputError for a file that cannot be read, or is no plan, with what is valid."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        writes = "hotlap cluster accept plan --hosts NAMES --out FILE writes one"
        raise InputError(f"'{path}' cannot be read: {error.strerror}; {writes}") from None
    return parse(data, path)


def parse(data: bytes, path: str) -> AcceptPlan:
    """Raises InputError."""
    try:
        table = tomllib.loads(data.decode())
        if lacking := next((name for name in ("product", "launch") if name not in table), ""):
            raise InputError(f"{path}: there is no {NEEDED[lacking]}; docs/accept.md has a plan")
        given = msgspec.convert(table, _File)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise InputError(f"{path}: {error}; docs/accept.md has a plan") from None
    products = [_product(each, path) for each in given.product]
    _checked_products(products, path)
    names = [name for product in products for name in product.nodes]
    plan = AcceptPlan(
        name=given.name or Path(path).stem, launch=_launch(given.launch, path), products=products, waves=_waves(given.waves, path),
        max_out=share(given.max_out, f"{path}: max_out"), budget_s=_time(given.budget, f"{path}: budget"),
        soak_s=_time(given.soak, f"{path}: soak"), transfer_s=_time(given.transfer, f"{path}: transfer"), leaf_limit=given.leaf_limit,
        topology=topology.leaf_of(_beside(given.topology, path), names), python=given.python, ssh_config=_beside(given.ssh_config, path),
        **_commands(given.commands, path), digest=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    if not plan.soak_s or not plan.transfer_s:
        raise InputError(f"{path}: soak and transfer are times above 0, as in '1 h' and '1 s'")
    planned(plan)
    return plan


def _product(given: _Product, path: str) -> AcceptProduct:
    try:
        names = hosts.parse(given.nodes)
    except InputError as error:
        raise InputError(f"{path}: product {given.name}: nodes: {error}") from None
    if given.machine:
        machines.load(given.machine)
    if given.gpus < 0:
        raise InputError(f"{path}: product {given.name}: gpus is a number from 0 on, not {given.gpus}")
    known = frozenset(names)
    for what, table in (("serials", given.serials), ("bmc", given.bmc)):
        if wrong := next((name for name in table if name not in known), ""):
            raise InputError(f"{path}: product {given.name}: {what}: there is no node '{wrong}'; {nearest(wrong, names)}")
    if wrong := next((place for place in given.bmc.values() if not place.rpartition(":")[2].isdecimal()), ""):
        raise InputError(f"{path}: product {given.name}: bmc: '{wrong}' is no place; write host:port, as in '10.0.0.1:443'")
    rate = expecting.rate(given.link, f"{path}: product {given.name}: link") if given.link else None
    kept = {name: getattr(given, name) for name in ("name", "machine", "gpus", "rails", "expect", "serials", "bmc")}
    return AcceptProduct(nodes=names, link=rate, **kept)


def _checked_products(products: Sequence[AcceptProduct], path: str) -> None:
    """No node of two products, no product twice."""
    if not products:
        raise InputError(f"{path}: there is no [[product]]; give one with its name and its nodes")
    owner: dict[str, str] = {}
    for product in products:
        if product.name in owner.values():
            raise InputError(f"{path}: the product '{product.name}' stands twice; give each one name")
        for name in product.nodes:
            if owner.setdefault(name, product.name) != product.name:
                raise InputError(f"{path}: {name} is a {owner[name]} and a {product.name}; name each node in one product")
        if not product.nodes:
            raise InputError(f"{path}: product {product.name} has no nodes")
    serials = Counter(serial for product in products for serial in product.serials.values())
    if twice := next((serial for serial, count in serials.items() if count > 1), ""):
        raise InputError(f"{path}: the serial number '{twice}' stands twice; each node has its own")


def _launch(given: Mapping[str, Any], path: str) -> dict[str, Any]:
    chosen = [name for name in given if name in LAUNCHES]
    if len(chosen) != 1 or len(given) != 1:
        raise InputError(f"{path}: launch has one of {', '.join(LAUNCHES)}, as in launch = {{ hosts = \"n[01-16]\" }}")
    slots = given.get("local", 1)
    if not isinstance(slots, int) or slots < 1:
        raise InputError(f"{path}: launch: local is a number of slots from 1 on, not {slots}")
    try:
        shlex.split(str(given.get("slurm", "")))
    except ValueError as error:
        raise InputError(f"{path}: launch: slurm = {given['slurm']!r}: {error}; quote its words as for a shell") from None
    return dict(given)


def _waves(given: Sequence[int | str], path: str) -> list[int | str]:
    sizes = list(given)
    good = all(each == "rest" or (isinstance(each, int) and each > 0) for each in sizes)
    if not sizes or not good or "rest" in sizes[:-1]:
        raise InputError(f'{path}: waves are numbers of nodes of each product, the last may be "rest", as in [8, "rest"]')
    return sizes if sizes[-1] == "rest" else [*sizes, "rest"]


def _commands(given: Mapping[str, list[str]], path: str) -> dict[str, list[str]]:
    valid = ("inspect", "alone", "soak")
    for name, words in given.items():
        if name not in valid:
            raise InputError(f"{path}: commands: there is no step '{name}' with a command; {nearest(name, valid)}")
        if not words or words[0] != "hotlap":
            raise InputError(f'{path}: commands: {name} begins with "hotlap", as in ["hotlap", "stress", "--for", "1 h"]')
    return dict(given)


def _beside(name: str, path: str) -> str:
    """A file that the plan names, from the plan's own folder."""
    return str(Path(path).absolute().parent / name) if name else ""


def most_out(max_out: float, nodes: int) -> int:
    """Nodes that may be out at once, by their share."""
    return math.floor(max_out * nodes + 1e-9)


def share(given: str | float, what: str) -> float:
    """Raises InputError."""
    value = units.parse(given, "%") if isinstance(given, str) else float(given)
    if not 0 <= value <= 1:
        raise InputError(f"{what} is a share from 0 to 100 %, not {given}")
    return value


def _time(text: str, what: str) -> float:
    time_s = units.parse(text, "s") if text else 0.0
    if not 0 <= time_s < math.inf or (text and not time_s):
        raise InputError(f"{what} is a time above 0, as in '10 min', not '{text}'")
    return time_s


# ---------------------------------------------------------------- the budget


def budget(text: str) -> float:
    """As `--budget` gives it, s; 0: none. Raises InputError."""
    return 0.0 if text == "none" else _time(text, "--budget")


def full_s(plan: AcceptPlan) -> dict[StepName, float]:
    """What each step takes, all waves and a quarter more for retests, s."""
    waves = max(plan.wave_of().values()) + 1
    return {step: (1 + RETESTS) * waves * time_s for step, time_s in _step_s(plan).items()}


def _step_s(plan: AcceptPlan) -> dict[StepName, float]:
    rounds = sum(pair_rounds(len(product.nodes)) for product in plan.products)
    pairs = rounds * 2 * (plan.transfer_s + ROUND_S)
    return {"reach": REACH_S, "inspect": INSPECT_S, "alone": ALONE_S, "pairs": pairs, "together": TOGETHER_S, "soak": plan.soak_s}


def pair_rounds(nodes: int) -> int:
    """Of transfers, to screen and to confirm."""
    every = max(nodes - 1 + nodes % 2, 1) if nodes <= schedule.SMALL else schedule.screening(nodes)
    return max(every, screening(nodes, 0)) + CONFIRMING


def screening(nodes: int, tries: int, retest: bool = False) -> int:
    """Rounds in which pairs are screened; 0: as many as it takes. Few nodes have too few pairs to know the noise of a transfer, so they
    repeat them (of 60 simulated pairs of nodes 12 rounds tell in 95 %, 20 in all); so does a step that did not tell before."""
    if nodes > schedule.SMALL:
        return 0
    return 20 if tries else schedule.REPEATS if nodes < schedule.FEW or retest else 0


def planned(plan: AcceptPlan) -> list[PlannedStep]:
    """Steps in their order with their times. The soak is shortened first, then steps are left out from the last on.

    Raises InputError for a budget that has no room for inspecting every node.
    """
    times = full_s(plan)
    least = times["reach"] + times["inspect"]
    if plan.budget_s and plan.budget_s < least:
        raise InputError(
            f"a budget of {units.show(plan.budget_s, 's')} is too small for anything: to reach and inspect "
            f"{len(plan.nodes)} nodes takes {units.show(least, 's')}; give at least that"
        )
    steps, left_s = list[PlannedStep](), plan.budget_s or math.inf
    for step in MEASURED:
        time_s = times[step]
        if time_s <= left_s:
            steps.append(PlannedStep(step, time_s))
            left_s -= time_s
        elif step == "soak" and left_s >= LEAST_SOAK * time_s:
            part = left_s / time_s
            steps.append(PlannedStep(step, left_s, LeftOut(step=step, asked_s=plan.soak_s, kept_s=plan.soak_s * part)))
            left_s = 0.0
        else:
            asked_s = plan.soak_s if step == "soak" else time_s
            steps.append(PlannedStep(step, 0.0, LeftOut(step=step, asked_s=asked_s, kept_s=0.0)))
            left_s = 0.0
    return steps


def measured(plan: AcceptPlan) -> list[StepName]:
    """Steps that the budget has room for."""
    return [each.step for each in planned(plan) if each.time_s]


def soak_s(plan: AcceptPlan) -> float:
    """Of the soak within the budget."""
    left_out = next((each.left_out for each in planned(plan) if each.step == "soak"), None)
    return plan.soak_s if left_out is None else left_out.kept_s


def text(plan: Mapping[str, Any]) -> str:
    """TOML of a plan that is written for the user: values as JSON writes them, products as tables."""
    given = dict(plan)
    products = given.pop("product")
    launch = given.pop("launch")
    head = [*toml.pairs(given), f"launch = {{ {', '.join(toml.pairs(launch))} }}"]
    for product in products:
        tables = {name: value for name, value in product.items() if isinstance(value, dict)}
        head += ["", "[[product]]", *toml.pairs({name: value for name, value in product.items() if name not in tables})]
        for name, table in tables.items():
            head += [f"[product.{name}]", *toml.quoted(table)] if table else []
    return "\n".join([*head, ""])
