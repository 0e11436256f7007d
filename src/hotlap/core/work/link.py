"""Bytes of transfers between memories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotlap.core.record import Value
from hotlap.core.work.base import Param, Work, Workload, integer, text
from hotlap.core.work.traits import Link
from hotlap.core.work.variety import Variety

SIZE = Param("size", "int", "bytes of one transfer (each way, when both)", unit="B", low=1, high=2**40)


def _transfer(params: Mapping[str, Value]) -> Work:
    ways = 2 if text(params, "direction") == "both" else 1
    return Work(link_bytes=float(ways * integer(params, "size")))


def _peer(params: Mapping[str, Value]) -> Work:
    return Work(link_bytes=float(integer(params, "size")))


def _one_way(params: Mapping[str, Any], counted: Work) -> float:
    return counted.link_bytes / (2.0 if params.get("direction") == "both" else 1.0)


WORKLOADS = (
    Workload(
        "transfer", "copies between host memory and device memory",
        (
            Param("direction", "str", "h2d: host to device; d2h: back; both: at the same time", "h2d", choices=("h2d", "d2h", "both")),
            Param("memory", "str", "host memory: pinned (page-locked) or pageable", "pinned", choices=("pinned", "pageable")),
            SIZE,
        ),
        "bandwidth", "B/s", "higher", _transfer,
        heading="transfers", shows="host link", preparer="link", model="copy", link=Link("host", _one_way), variety=Variety(),
    ),
    Workload(
        "peer", "copies from one device's memory to another's",
        (Param("to", "int", "index of the receiving device", 1, low=0, high=1023), SIZE),
        "bandwidth", "B/s", "higher", _peer, needs="two devices of one target",
        heading="transfers", preparer="link", link=Link("peers", _one_way), variety=Variety(),
    ),
)

TRANSFER, PEER = WORKLOADS
