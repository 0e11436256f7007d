"""The machine table: what is published of each GPU, one TOML file per machine, and how a device is recognised in it.

`NAME+KEY=VALUE` is a machine of the table with a figure edited (`edits`). `[link]` figures are of both directions together.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import re
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.resources.abc import Traversable
from typing import Any, Literal

from hotlap.core.errors import InputError, nearest
from hotlap.core.model import edits
from hotlap.core.model.spec import PCIE_TRANSFERS_PER_S, PublishedPeak
from hotlap.core.model.spec import UNITS_OF_ARITHMETIC as UNITS_OF_ARITHMETIC
from hotlap.core.model.spec import Spec as Spec
from hotlap.core.record import Device

USUAL = "h200-sxm"  # where a verb that predicts is given no machine
SMALLEST_SHARE, LARGEST_SHARE = 0.85, 1.03  # of the nominal memory that drivers show; a slice of a card shows half or less


# ---------------------------------------------------------------- the files


def folder() -> Traversable:
    return importlib.resources.files("hotlap.core.model") / "machines"


@functools.cache
def names() -> list[str]:
    """The slugs of all machines, sorted."""
    return sorted(f.name.removesuffix(".toml") for f in folder().iterdir() if f.name.endswith(".toml"))


@functools.cache
def _aliases() -> dict[str, str]:
    return {alias: slug for slug in names() for alias in (slug, *_read(slug).aliases)}


def load(name: str) -> Spec:
    """The machine of this slug or alias; capitals, spaces and underscores do not matter. `NAME+KEY=VALUE…` is that machine with figures
    edited. Raises InputError."""
    name, changes = edits.parted(name)
    if changes:
        return edits.edited(load(name), changes)
    plain = re.sub(r"[\s_]+", "-", name.strip().lower())
    slug = plain if plain in names() else _aliases().get(plain)
    if slug is None:
        raise InputError(f"there is no machine '{name}'; {nearest(plain, names())}; hotlap model machines describes them")
    return _read(slug)


def known(name: str) -> bool:
    """Whether it is a slug of the table, or such a machine with figures edited."""
    return edits.parted(name)[0] in names()


@functools.cache
def _read(slug: str) -> Spec:
    file = folder() / f"{slug}.toml"
    return parse(file.read_text(encoding="utf-8"), slug, f"{slug}.toml")


def facts(spec: Spec) -> dict[str, Any]:
    """All that is known, for JSON; what is not known is null."""
    plain = {"flop_per_clock": dict(spec.flop_per_clock), "edits": dict(spec.edits), "pcie_b_s": spec.pcie_b_s}
    return {**dataclasses.asdict(dataclasses.replace(spec, original=None)), **plain, "original": spec.table_slug}


# ---------------------------------------------------------------- reading one file

_Kind = Literal["text", "texts", "count", "positive", "zero or more", "flag"]
SCHEMA: Mapping[str, Mapping[str, tuple[str, _Kind]]] = {  # table: key: (field of Spec, kind of value)
    "": {
        "name": ("name", "text"), "vendor": ("vendor", "text"), "architecture": ("architecture", "text"),
        "compile_target": ("compile_target", "text"), "aliases": ("aliases", "texts"), "names": ("names", "texts"),
        "pci_ids": ("pci_ids", "texts"), "sources": ("sources", "texts"), "notes": ("notes", "text"),
    },
    "compute": {
        "units": ("compute_units", "count"), "clock_max_hz": ("clock_max_hz", "positive"),
        "clock_for_peak_hz": ("clock_for_peak_hz", "positive"), "shared_bytes_per_unit": ("shared_bytes_per_unit", "positive"),
        "registers_per_unit": ("registers_per_unit", "count"), "warps_max_per_unit": ("warps_max_per_unit", "count"),
        "blocks_max_per_unit": ("blocks_max_per_unit", "count"), "clock_proven": ("clock_proven", "flag"),
        "special_per_clock": ("special_per_clock", "positive"), "matrix_held": ("matrix_held", "positive"),
    },
    "memory": {
        "bytes": ("memory_bytes", "positive"), "type": ("memory_type", "text"), "bandwidth_b_s": ("memory_bandwidth_b_s", "positive"),
    },
    "raster": {
        "rops": ("rops", "count"), "texels": ("texels_per_clock", "count"), "primitives": ("triangles_per_clock", "positive"),
        "culled": ("culled_per_clock", "positive"),
    },
    "cache": {"l2_bytes": ("l2_bytes", "positive"), "llc_bytes": ("llc_bytes", "positive")},
    "link": {
        "scaleup_b_s": ("scaleup_b_s", "zero or more"), "host_b_s": ("host_b_s", "positive"),
        "pcie_generation": ("pcie_generation", "count"), "pcie_lanes": ("pcie_lanes", "count"),
    },
    "power": {"limit_w": ("power_w", "positive"), "static_w": ("static_w", "positive")},
    "flop_per_clock": {unit: (unit, "positive") for unit in UNITS_OF_ARITHMETIC},
    "published_peak": {"unit": ("unit", "text"), "flop_s": ("flop_s", "positive"), "back_solved": ("back_solved", "flag")},
}
REQUIRED = ("name", "vendor", "sources")


def parse(text: str, slug: str, file: str) -> Spec:
    """One machine's file. Raises InputError with the file, the key, and what is valid."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file}: not TOML: {error}") from None
    given: dict[str, Any] = {}
    for table, value in {"": {k: v for k, v in data.items() if not isinstance(v, dict)}, **_tables(data)}.items():
        if table not in SCHEMA:
            raise InputError(f"{file}: there is no table '{table}'; {nearest(table, [t for t in SCHEMA if t])}")
        found = _fields(value, table, file)
        given.update(found if table not in ("flop_per_clock", "published_peak") else {table: found})
    for key in REQUIRED:
        if not given.get(key):
            raise InputError(f"{file}: '{key}' is missing")
    return _spec(given, slug, file)


def _tables(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in data.items() if isinstance(v, dict)}


def _fields(values: Mapping[str, Any], table: str, file: str) -> dict[str, Any]:
    fields = {}
    for key, value in values.items():
        where = f"{table}.{key}" if table else key
        if key not in SCHEMA[table]:
            raise InputError(f"{file}: there is no key '{where}'; {nearest(key, SCHEMA[table])}")
        name, kind = SCHEMA[table][key]
        fields[name] = _value(value, kind, f"{file}: '{where}'")
    return fields


def _value(value: Any, kind: _Kind, where: str) -> Any:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "text" and isinstance(value, str):
        return value
    if kind == "texts" and isinstance(value, list) and all(isinstance(item, str) and item for item in value):
        return tuple(value)
    if kind == "flag" and isinstance(value, bool):
        return value
    if kind == "count" and number and value == int(value) and value > 0:
        return int(value)
    if kind == "positive" and number and 0 < value < float("inf"):
        return float(value)
    if kind == "zero or more" and number and 0 <= value < float("inf"):
        return float(value)
    valid = {
        "text": "a string", "texts": "a list of strings", "flag": "true or false", "count": "a whole number above 0",
        "positive": "a number above 0; leave out what is not known", "zero or more": "a number of at least 0",
    }[kind]
    raise InputError(f"{where} must be {valid}, not {value!r}")


def _spec(given: dict[str, Any], slug: str, file: str) -> Spec:
    peak = given.pop("published_peak", None)
    if peak is not None:
        missing = [key for key in SCHEMA["published_peak"] if key not in peak]
        if missing or peak["unit"] not in UNITS_OF_ARITHMETIC:
            raise InputError(f"{file}: 'published_peak' needs unit ({', '.join(UNITS_OF_ARITHMETIC)}), flop_s and back_solved")
        peak = PublishedPeak(**peak)
    if given.get("pcie_generation", 3) not in PCIE_TRANSFERS_PER_S:
        raise InputError(f"{file}: 'link.pcie_generation' must be one of {', '.join(map(str, PCIE_TRANSFERS_PER_S))}")
    for pci_id in given.get("pci_ids", ()):
        if not re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{4}", pci_id):
            raise InputError(f"{file}: 'pci_ids' holds '{pci_id}', which is not vendor:device in hex, as in 10de:2335")
    clock = f"highest published clock: machine table, {slug}" if given.get("clock_max_hz") else ""
    return Spec(slug=slug, published_peak=peak, clock_source=clock, **given)


# ---------------------------------------------------------------- recognising


def recognise(device: Device) -> str:
    """The slug of the machine that a device is: by PCI id, else by its driver's name, and in either case only if the memory
    fits, so that variants are distinguished and a slice of a card is not taken for the card. "" when it is none or not one. Of a
    stand-in, the machine that it plays."""
    if device.kind == "cpu":
        return ""
    fitting = [spec for spec in map(_read, names()) if _memory_fits(device, spec)]
    by_id = [spec.slug for spec in fitting if device.pci_id.lower() in spec.pci_ids]
    if len(by_id) == 1:
        return by_id[0]
    by_name = _named(device.name, fitting)
    if len(by_name) > 1:  # the same name on several: the nearest memory decides
        known = [_read(slug) for slug in by_name if device.memory_bytes]
        by_name = [min(known, key=lambda s: abs((s.memory_bytes or 0) - (device.memory_bytes or 0))).slug] if known else []
    return by_name[0] if by_name else ""


def card_of_slice(device: Device) -> str:
    """The slug of the card that a MIG slice is part of, by the driver's name before the profile; "" for all that are none."""
    by_name = _named(device.name.partition(" MIG ")[0], [_read(slug) for slug in names()]) if device.facts.get("mig") else []
    return by_name[0] if len(by_name) == 1 else ""


def _named(name: str, specs: Sequence[Spec]) -> list[str]:
    plain = re.sub(r"\s+", " ", name.removesuffix(" (simulated)").removesuffix(" (stand-in)")).strip().lower()
    return [spec.slug for spec in specs if any(fnmatchcase(plain, pattern.lower()) for pattern in (*spec.names, spec.name))]


def _memory_fits(device: Device, spec: Spec) -> bool:
    if not device.memory_bytes or not spec.memory_bytes:
        return True
    return SMALLEST_SHARE <= device.memory_bytes / spec.memory_bytes <= LARGEST_SHARE
