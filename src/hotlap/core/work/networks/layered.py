"""Networks that are no plain stack of transformer layers: a TOML file each, its layers written one by one."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hotlap.core.errors import InputError, nearest
from hotlap.core.record import Notice

_FOLDER = Path(__file__).parent / "files"
Layer = Mapping[str, Any]


@dataclass(frozen=True)
class Layered:
    """A network by its layers. `inputs` and `widths` name numbers; an input `context` is what a step's context replaces."""

    name: str
    about: str
    source: str
    domain: str
    parameters: float  # as published
    layers: tuple[Layer, ...]  # of a forward pass
    decode: tuple[Layer, ...] = ()  # of one token, where it has a decoder
    macs: float = 0.0  # multiply-adds of one sample's forward pass, as published; 0: not published
    macs_source: str = ""
    uncounted: tuple[str, ...] = ()  # workloads that the published figure leaves out
    aliases: tuple[str, ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    widths: Mapping[str, Any] = field(default_factory=dict)
    block: Mapping[str, Sequence[Layer]] = field(default_factory=dict)
    optimizer: str = "adamw"
    longest: int = 0  # context that it can take; 0: any
    no_workload: Mapping[str, Any] = field(default_factory=dict)  # part that no kernel stands for → its parameters, as a width is written
    remarks: tuple[Notice, ...] = ()  # how its configuration was read, and what of it is left out

    @property
    def phases(self) -> tuple[str, ...]:
        return ("forward", "decode", "train") if self.decode else ("forward", "train")

    @property
    def has_context(self) -> bool:
        """Whether a step's context changes anything."""
        return "context" in self.inputs

    def resized(self, name: str, about: str, longest: int, **widths: float) -> Layered:
        """The same layers with other widths. Raises InputError for a width that it does not have."""
        for width in widths:
            if width not in self.widths and width not in self.inputs:
                raise InputError(f"{self.name} has no width '{width}'; {nearest(width, [*self.widths, *self.inputs])}")
        inputs = {**self.inputs, **{key: value for key, value in widths.items() if key in self.inputs}}
        own = {**self.widths, **{key: value for key, value in widths.items() if key in self.widths}}
        return replace(self, name=name, about=about, aliases=(), longest=longest, inputs=inputs, widths=own, parameters=0.0, macs=0.0)


def names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


@functools.cache
def load(name: str) -> Layered | None:
    """A network by name or alias; None where none is called so."""
    if name in names():
        return read((_FOLDER / f"{name}.toml").read_text("utf-8"), name)
    return next((one for slug in names() if (one := load(slug)) and name in one.aliases), None)


def parsed(text: str, name: str) -> dict[str, Any]:
    """The keys of a network's file, of either kind. Raises InputError where it is no TOML."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}.toml is not valid TOML: {str(error)[:200]}") from None


def read(text: str, name: str) -> Layered:
    """A network from its file's text. Raises InputError: the key that is wrong or missing, and those that are valid."""
    return from_document(parsed(text, name), name)


def from_document(given: Mapping[str, Any], name: str) -> Layered:
    """As `read`, from the file's keys."""
    known = {one.name for one in fields(Layered)} - {"name", "remarks"}
    for key in given:
        if key not in known:
            raise InputError(f"{name}.toml: no key '{key}'; {nearest(key, known)}")
    for key in ("about", "source", "domain", "parameters", "layers"):
        if key not in given:
            raise InputError(f"{name}.toml: the key '{key}' is missing; needed: about, source, domain, parameters, layers")
    for key, kind in _KINDS.items():
        if key in given and not isinstance(given[key], kind):
            raise InputError(f"{name}.toml: '{key}' is not {given[key]!r:.40}; the manual's page on networks has examples")
    for section in (given["layers"], given.get("decode", []), *given.get("block", {}).values()):
        if not isinstance(section, list) or not all(isinstance(layer, dict) and layer for layer in section):
            raise InputError(f"{name}.toml: layers and blocks are lists of tables, as in layers = [{{ set = 3 }}, {{ linear = 8 }}]")
    lists: dict[str, Any] = {key: tuple(given[key]) for key in ("layers", "decode", "aliases", "uncounted") if key in given}
    whole: dict[str, Any] = {**given, **lists, "name": name}
    return Layered(**whole)


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("about", "source", "domain", "macs_source", "optimizer"), str), **dict.fromkeys(("parameters", "macs"), (int, float)),
    **dict.fromkeys(("layers", "decode", "aliases", "uncounted"), list), "longest": int,
    **dict.fromkeys(("inputs", "widths", "block", "no_workload"), dict),
}  # fmt: skip
