"""Bytes of a call of the host's own workloads, by hand."""

from __future__ import annotations

from hotlap.core.work import label
from hotlap.core.work.base import Work
from hotlap.core.work.host import DISK, LOOPBACK, ROUNDTRIP


def test_a_call_moves_a_block_or_a_message() -> None:
    assert DISK.work(DISK.parse({"block": "4 KiB", "size": "1 GiB"})) == Work(link_bytes=4096.0)
    assert LOOPBACK.work(LOOPBACK.parse({})) == Work(link_bytes=131072.0)
    assert DISK.value(1e-3, DISK.parse({"block": "1 MiB"})) == 2**20 * 1e3
    assert ROUNDTRIP.value(2e-5, ROUNDTRIP.parse({"message": "1 KiB"})) == 2e-5


def test_a_case_says_what_it_is() -> None:
    given = {"op": "write", "pattern": "random", "block": "1 MiB", "direct": False, "sync": True}
    assert label(DISK.case(given)) == "disk write random 1 MiB of 64 MiB cached sync"
    assert label(DISK.case({})) == "disk read sequential 4 KiB of 64 MiB"
    assert (label(LOOPBACK.case({})), label(ROUNDTRIP.case({"message": 64}))) == ("loopback 128 KiB", "roundtrip 64 B")


def test_the_host_runs_them_and_nothing_is_predicted() -> None:
    assert all(one.of_host and not one.counted for one in (DISK, LOOPBACK, ROUNDTRIP))
