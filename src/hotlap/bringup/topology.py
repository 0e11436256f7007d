"""Which leaf each node hangs on, from a file: a node and its leaf to a line, or the text of ibnetdiscover or iblinkinfo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hotlap.bringup import infiniband
from hotlap.bringup.record import FabricFinding, FabricLayout, layout
from hotlap.core.errors import InputError

EXAMPLE = "a line is a node and its leaf, as in n01 leaf1"


def read(file: str, names: Sequence[str], limit: int = 0) -> FabricLayout:
    """The layout of these nodes; without a file no leaf is known. Nodes of the file that are no members are left out.

    Raises InputError for a file that cannot be read, a line that is none, a node on two leaves, and a member without a leaf.
    """
    return of(leaf_of(file, names), names, limit)


def leaf_of(file: str, names: Sequence[str]) -> dict[str, str]:
    """By node of these; {} without a file. Raises as `read` does."""
    if not file:
        return {}
    text = _text(file)
    leaves = infiniband.leaves(infiniband.links(text), names) if infiniband.is_fabric(text) else _lines(file, text)
    lacking = [name for name in names if name not in leaves]
    if lacking:
        more = f" and {len(lacking) - 1} more have" if len(lacking) > 1 else " has"
        raise InputError(f"{file}: {lacking[0]}{more} no leaf; name every node, or leave the topology out")
    return {name: leaves[name] for name in names}


def findings(file: str, names: Sequence[str]) -> list[FabricFinding]:
    """What the text of ibnetdiscover or iblinkinfo says of these nodes' links; none of other files."""
    text = _text(file) if file else ""
    return infiniband.findings(infiniband.links(text), names) if infiniband.is_fabric(text) else []


def rdma(file: str, names: Sequence[str]) -> dict[str, float]:
    """Gb/s of the links that the fabric's text says of these nodes; {} of other files."""
    text = _text(file) if file else ""
    return infiniband.host_gbps(infiniband.links(text), names) if infiniband.is_fabric(text) else {}


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the topology {file} cannot be read: {getattr(error, 'strerror', '') or 'it is no text'}; {EXAMPLE}") from None


def _lines(file: str, text: str) -> dict[str, str]:
    leaves: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) != 2:
            raise InputError(f"{file}:{number}: '{line.strip()[:60]}' has {len(words)} words; {EXAMPLE}")
        if leaves.setdefault(words[0], words[1]) != words[1]:
            raise InputError(f"{file}:{number}: {words[0]} is on {leaves[words[0]]} already; give each node one leaf")
    return leaves


def of(leaves: Mapping[str, str], names: Sequence[str], limit: int = 0) -> FabricLayout:
    """The layout of nodes of which leaves are known; {}: none is."""
    if not leaves:
        return layout(names, None, limit=limit)
    known = list(dict.fromkeys(leaves[name] for name in names))
    return layout(names, [known.index(leaves[name]) for name in names], limit=limit, leaves=known)


def leaves(where: FabricLayout) -> dict[str, str]:
    """By node; {} where none is known."""
    if int(where.leaf.min()) < 0:
        return {}
    return {name: where.leaf_name(int(leaf)) for name, leaf in zip(where.names, where.leaf, strict=True)}
