"""What is known of a node: one fact per name, with where it was read, and why it is not known where it is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from hotlap.core.errors import SchemaError
from hotlap.core.record import Record

SCHEMA = 1
Known = Literal["ok", "absent", "denied", "error"]


class Fact(Record, frozen=True, kw_only=True):
    """One setting, count or version. `value` is None for every status but ok, never a zero that means "missing"."""

    value: bool | int | float | str | list[str] | None = None
    unit: str = ""  # base SI, B, or nothing
    source: str = ""  # the file or command it was read from, as on the node
    status: Known = "ok"
    reason: str = ""  # why it is not known


class Facts(Record, frozen=True, kw_only=True):
    """All facts of one node. Names are paths: ``cpu.governor``, ``gpu[0].pcie.width_now``, ``net[eth0].mtu``."""

    schema: int = SCHEMA
    kind: Literal["facts"] = "facts"
    host: str
    arch: str = ""  # as uname -m says it: x86_64, aarch64
    taken: str = ""  # UTC, ISO 8601
    hotlap: str = ""  # version that read them
    facts: dict[str, Fact] = {}

    def value(self, name: str) -> Any:
        """A fact's value; None where it is not known."""
        fact = self.facts.get(name)
        return fact.value if fact else None


_INDEXED = re.compile(r"([a-z_]+)\[([^\]]*)\]")


def members(facts: Mapping[str, Fact], family: str) -> list[str]:
    """The keys of a family in the order people count: for ``gpu`` those in brackets of ``gpu[…]``."""
    found = {match[2] for name in facts if (match := _INDEXED.match(name)) and match[1] == family}
    return sorted(found, key=natural)


def natural(text: str) -> list[tuple[int, int, str]]:
    """Sorts cpu2 before cpu10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


def families(facts: Iterable[str]) -> list[str]:
    """The first words of names, in their order."""
    return list(dict.fromkeys(re.split(r"[.\[]", name, maxsplit=1)[0] for name in facts))


def decode(content: bytes, where: str) -> Facts:
    """Facts that `hotlap node inspect --json` printed. Raises SchemaError naming the file."""
    try:
        printed = msgspec.json.decode(content)
        nodes = printed.get("nodes", [printed]) if isinstance(printed, dict) else [printed]
        if len(nodes) != 1:
            raise SchemaError(f"'{where}' holds the facts of {len(nodes)} nodes; hotlap node inspect --into writes a file for each")
        found = msgspec.convert(nodes[0], Facts)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SchemaError(f"'{where}' holds no facts of a node ({error}); hotlap node inspect --json prints them") from None
    if found.schema > SCHEMA:
        raise SchemaError(f"'{where}' was written by a newer Hotlap (schema {found.schema}, this one reads {SCHEMA})")
    return found
