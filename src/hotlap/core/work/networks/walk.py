"""A layered network's layers as kernels: walked in order, the size of what flows from one to the next kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hotlap.core import work
from hotlap.core.errors import InputError, nearest
from hotlap.core.work.networks import arithmetic
from hotlap.core.work.networks.calls import Call
from hotlap.core.work.networks.flow import Flow, FlowOptions
from hotlap.core.work.networks.kinds import KINDS
from hotlap.core.work.networks.layered import Layer, Layered

DEEPEST = 8  # blocks within blocks
MOST_REPEATS = 10_000
RESERVED = ("batch", "channels", "height", "width", "tokens")  # what flows, in every expression


class Walked(NamedTuple):
    """Kernels of a forward pass on one GPU, and the parameters that were met."""

    calls: list[Call]
    parameters: int
    looked_up: int  # of them rows of tables whose gradients are sparse: an optimizer updates only those that were used


def walk(network: Layered, section: str, batch: int, context: int = 0, dtype: str = "bf16", train: bool = False) -> Walked:
    """`section`: layers or decode. Raises InputError: which layer, and what is wrong with it."""
    flow = Flow(batch, dtype, train)
    names = _names(network, batch, context)
    _Walker(network, flow).run(network.decode if section == "decode" else network.layers, names, network.name, "", 0)
    return Walked(_merged(flow.calls), flow.parameters, flow.looked_up)


def _names(network: Layered, batch: int, context: int = 0) -> dict[str, float]:
    """Inputs and widths as numbers."""
    names = {**network.inputs, **({"context": context} if context and network.has_context else {}), "batch": batch}
    for name, written in (*network.inputs.items(), *network.widths.items()):
        if name in RESERVED:
            raise InputError(f"{network.name}: '{name}' is a name that layers set; call the width something else")
        if name not in names or isinstance(names[name], str):
            names[name] = arithmetic.value(written, names, f"{network.name}: {name}")
    return names


def _merged(calls: Sequence[Call]) -> list[Call]:
    """Equal kernels of one name once, their times added."""
    found: dict[tuple[Any, ...], Call] = {}
    for call in calls:
        key = (call.name, call.workload, call.leaf, *call.params.items())
        found[key] = replace(call, times=found[key].times + call.times) if key in found else call
    return list(found.values())


@dataclass
class _Walker:
    network: Layered
    flow: Flow

    def run(self, layers: Sequence[Layer], names: Mapping[str, float], where: str, label: str, depth: int) -> None:
        if depth > DEEPEST:
            raise InputError(f"{where}: blocks stand in each other more than {DEEPEST} deep")
        for number, layer in enumerate(layers, 1):
            here = f"{where}, layer {number}"
            for _ in range(_repeats(layer, self.flow.names(names), here)):
                self.layer(layer, names, here, label, depth)

    def layer(self, layer: Layer, names: Mapping[str, float], where: str, label: str, depth: int) -> None:
        kind = next(iter(layer), "")
        if kind == "block":
            self.block(layer, names, where, label, depth)
            return
        made = KINDS.get(kind)
        if made is None:
            raise InputError(f"{where}: no kind of layer '{kind}'; {nearest(kind, [*KINDS, 'block'])}")
        asked = FlowOptions(layer, self.flow.names(names), where, " ".join(filter(None, (label, str(layer.get("name", ""))))))
        made(self.flow, asked)
        asked.check()

    def block(self, layer: Layer, names: Mapping[str, float], where: str, label: str, depth: int) -> None:
        name = layer["block"]
        if name not in self.network.block:
            raise InputError(f"{where}: there is no block '{name}'; {nearest(str(name), self.network.block)}")
        now = self.flow.names(names)
        given = {
            key: arithmetic.value(written, now, f"{where}, {key}")
            for key, written in layer.items() if key not in ("block", "repeat", "name", "shared")
        }  # fmt: skip
        inner = " ".join(filter(None, (label, str(layer.get("name", "")))))
        before = self.flow.parameters
        self.run(self.network.block[name], {**names, **given}, f"{where}, block {name}", inner, depth + 1)
        if layer.get("shared", False):  # its weights were counted where they were met first
            self.flow.parameters = before


def _repeats(layer: Layer, names: Mapping[str, float], where: str) -> int:
    times = arithmetic.whole(layer.get("repeat", 1), names, f"{where}, repeat")
    if not 0 <= times <= MOST_REPEATS:
        raise InputError(f"{where}: repeat is 0 to {MOST_REPEATS}, not {times}")
    return times


def multiply_adds(calls: Sequence[Call], without: Sequence[str] = ()) -> float:
    """Of matrix products, convolutions, attention and recurrent layers; what norms and activations compute is left out, as in papers.
    `without`: workloads that are left out, too."""
    total = 0.0
    for call in calls:
        if call.workload not in without:
            kind = work.find(call.workload)
            operations = kind.work(kind.parse(call.params)).operations.items()
            total += call.times * math.fsum(number for unit, number in operations if unit.startswith("matrix.")) / 2
    return total
