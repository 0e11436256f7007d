"""What flows through a layered network while its layers are walked: its size, the kernels met, the numbers of one layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hotlap.core.errors import InputError, nearest
from hotlap.core.work.networks import arithmetic
from hotlap.core.work.networks.calls import Call
from hotlap.core.work.networks.layered import Layer


class Map(NamedTuple):
    """What flows, for one sample: channels at height × width places. Tokens are places; an image of one row is a sequence."""

    channels: int
    height: int = 1
    width: int = 1
    learnt: bool = False  # whether a layer before has parameters: only then is its gradient asked for

    @property
    def places(self) -> int:
        return self.height * self.width

    @property
    def size(self) -> int:
        return self.channels * self.places


@dataclass
class FlowOptions:
    """One layer as it is written: its numbers evaluated when they are asked for; keys that nothing asked for are errors."""

    layer: Layer
    names: Mapping[str, float]
    where: str
    label: str
    seen: set[str] = field(default_factory=lambda: {"name", "repeat"})

    def number(self, key: str, default: int | None = None) -> int:
        self.seen.add(key)
        if key not in self.layer:
            if default is None:
                raise InputError(f"{self.where}: '{next(iter(self.layer))}' needs '{key}'")
            return default
        return arithmetic.whole(self.layer[key], self.names, f"{self.where}, {key}")

    def text(self, key: str, default: str = "") -> str:
        self.seen.add(key)
        return str(self.layer.get(key, default))

    def flag(self, key: str, default: bool) -> bool:
        self.seen.add(key)
        return bool(self.layer.get(key, default))

    def given(self, key: str) -> bool:
        return key in self.layer

    def check(self) -> None:
        if stray := [key for key in self.layer if key not in self.seen]:
            raise InputError(f"{self.where}: '{next(iter(self.layer))}' has no '{stray[0]}'; {nearest(stray[0], self.seen)}")


@dataclass
class Flow:
    """Where a walk is. `parameters` and `looked_up` count what was met; of the latter an optimizer updates only rows that were used."""

    batch: int
    dtype: str
    train: bool
    at: Map = field(default_factory=lambda: Map(0))
    calls: list[Call] = field(default_factory=list)
    kept: dict[str, Map] = field(default_factory=dict)
    parameters: int = 0
    looked_up: int = 0

    def names(self, given: Mapping[str, float]) -> dict[str, float]:
        """Those that expressions can use."""
        at = self.at
        return {**given, "channels": at.channels, "height": at.height, "width": at.width, "tokens": at.places}

    def call(self, asked: FlowOptions, fallback: str, workload: str, group: str, params: dict[str, Any], times: float = 1.0) -> None:
        """One kernel; `fallback` names it where the file does not."""
        name = " ".join(filter(None, (asked.label, "" if asked.given("name") else fallback)))
        self.calls.append(Call(name, group, workload, params, times, leaf=not self.at.learnt))

    def learn(self, parameters: int) -> None:
        self.parameters += parameters
        self.at = self.at._replace(learnt=True)
