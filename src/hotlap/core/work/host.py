"""Bytes of the host's own disk and network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hotlap.core.record import Value
from hotlap.core.units import exact
from hotlap.core.work.base import Param, Work, Workload, bandwidth, integer

SECTOR = 512  # bytes that blocks past the page cache are whole multiples of; open(2), O_DIRECT
MOST_BYTES = 2**34  # of a file that is written anew in each round


def _disk(params: Mapping[str, Value]) -> Work:
    """The block crosses the link to the disk."""
    return Work(link_bytes=float(integer(params, "block")))


def _disk_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    block, whole = integer(params, "block"), integer(params, "size")
    if whole < block:
        return "size", f"'size' ({exact(whole, 'B')}) is smaller than 'block' ({exact(block, 'B')}); make it at least one block"
    if params["direct"] and block % SECTOR:
        whole_sectors = SECTOR * -(-block // SECTOR)
        return "block", f"past the page cache 'block' is a multiple of {SECTOR} B, as in {whole_sectors}, not {block}; or give direct=false"
    if params["sync"] and params["op"] == "read":
        return "sync", "'sync' waits for writes: give op=write with it, or leave it out"
    return None


def _disk_label(params: Mapping[str, Any]) -> str:
    words = f"disk {params['op']} {params['pattern']} {exact(params['block'], 'B')} of {exact(params['size'], 'B')}"
    return words + ("" if params["direct"] else " cached") + (" sync" if params["sync"] else "")


def _loopback(params: Mapping[str, Value]) -> Work:
    return Work(link_bytes=float(integer(params, "message")))


def _message(default: int) -> Param:
    return Param("message", "int", "bytes of one message", default, unit="B", low=1, high=2**28)


def _message_label(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda params: f"{name} {exact(params['message'], 'B')}"


WORKLOADS = (
    bandwidth(
        "disk", "blocks of a file of its own in the folder for temporary files (TMPDIR)",
        (
            Param("op", "str", "what is done with a block", "read", choices=("read", "write")),
            Param("pattern", "str", "in which order", "sequential", choices=("sequential", "random")),
            Param("block", "int", "bytes of one call", 2**12, unit="B", low=16, high=2**30),
            Param("size", "int", "bytes of the file, of which whole blocks are used", 2**26, unit="B", low=16, high=MOST_BYTES),
            Param("direct", "bool", "past the page cache (O_DIRECT)", True),
            Param("sync", "bool", "wait for the disk after each write (fdatasync)", False),
        ),
        _disk, fault=_disk_fault, needs="room for the file and 256 MiB more",
        heading="transfers", preparer="disk", on_host=True, label=_disk_label,
    ),
    bandwidth(
        "loopback", "bytes from one process to another over one TCP connection on 127.0.0.1", (_message(2**17),),
        _loopback, heading="transfers", preparer="loopback", on_host=True, label=_message_label("loopback"),
    ),
    Workload(
        "roundtrip", "a message to another process and back over one TCP connection on 127.0.0.1", (_message(1),),
        "latency", "s", "lower", lambda _: Work(), heading="latency", preparer="loopback", on_host=True,
        label=_message_label("roundtrip"),
    ),
)  # fmt: skip

DISK, LOOPBACK, ROUNDTRIP = WORKLOADS
