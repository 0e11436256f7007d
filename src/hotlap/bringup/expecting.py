"""What a transfer or an operation between members can reach at most, from their links; unknown where a link says nothing that holds.

Of TCP over Ethernet: the link's rate × (MTU - 52) / (MTU + 38): 20 bytes of IP, 32 of TCP with time stamps; 18 of a frame's head and check,
20 of its preamble and the gap after it (IEEE 802.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from hotlap.bringup.record import LinkKnown
from hotlap.core import units
from hotlap.core.errors import InputError

LOOPBACK = "lo"


def of_links(facts: Iterable[Mapping[str, Any]]) -> LinkKnown:
    """The rate of the slowest link in B/s. `facts`: as of `member_link`, of every member."""
    several = list(facts)
    if not several or any(not each.get("interface") for each in several):
        return LinkKnown(code="unknown")
    if any(each["interface"] == LOOPBACK for each in several):
        return LinkKnown(code="loopback")
    if any(each.get("virtual") for each in several):
        return LinkKnown(code="virtual")
    if any(each.get("mbps", 0) <= 0 or each.get("mtu", 0) <= 52 for each in several):
        return LinkKnown(code="unknown")
    slowest = min(several, key=lambda each: tcp(each["mbps"], each["mtu"]))
    return LinkKnown(rate=tcp(slowest["mbps"], slowest["mtu"]), code="link", mbps=slowest["mbps"], interface=str(slowest["interface"])[:40])


def rate(text: str, what: str) -> float:
    """B/s. Raises InputError."""
    value = units.parse(text, "B/s")
    if not 0 < value < math.inf:
        raise InputError(f"{what} is a rate above 0, as in '10 GB/s', not '{text}'")
    return value


def tcp(mbps: float, mtu: float) -> float:
    """B/s of TCP at most."""
    return mbps * 125e3 * (mtu - 52) / (mtu + 38)
