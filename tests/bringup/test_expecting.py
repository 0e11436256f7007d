"""What links carry at most: by arithmetic from the kernel's facts, unknown where these say nothing, and RDMA that was not used."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.bringup import cli_collective, expecting, member_link, show
from hotlap.bringup.collectives import CollectiveRow
from hotlap.bringup.record import LinkKnown

WIRE = {"interface": "eth0", "mbps": 10_000, "mtu": 1500, "virtual": False, "rdma": 0}


@pytest.mark.parametrize(("mtu", "share"), [(1500, 0.9415), (9000, 0.9900)])
def test_tcp_carries_a_link_less_headers(mtu: int, share: float) -> None:
    """1448 of 1538 bytes, and 8948 of 9038."""
    assert expecting.tcp(10_000, mtu) == pytest.approx(1.25e9 * share, rel=1e-4)


def test_the_slowest_link_counts() -> None:
    known = expecting.of_links([WIRE, WIRE | {"mbps": 1000, "interface": "eth1"}])
    assert (known.code, known.interface) == ("link", "eth1")
    assert known.rate == pytest.approx(117.7e6, rel=1e-3)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ([], "unknown"), ([{}], "unknown"), ([WIRE, WIRE | {"mbps": 0}], "unknown"), ([WIRE, WIRE | {"virtual": True}], "virtual"),
        ([WIRE | {"interface": "lo", "virtual": True}], "loopback"), ([WIRE | {"interface": ""}], "unknown"),
    ],
)  # fmt: skip
def test_a_link_that_says_nothing_has_no_rate(facts: list[dict[str, object]], why: str) -> None:
    known = expecting.of_links(facts)
    assert (known.code, known.rate) == (why, None)
    assert "unknown" in show.at_most(known)


def test_this_machine_knows_its_loopback() -> None:
    assert member_link.facts("127.0.0.1")["interface"] == "lo"
    assert member_link.facts("127.0.0.1")["virtual"]
    assert member_link.facts("203.0.113.9")["interface"] == ""


def test_facts_of_an_interface_are_those_of_the_kernel(tmp_path: Path) -> None:
    folder = tmp_path / "lo"
    (folder / "device").mkdir(parents=True)
    (folder / "speed").write_text("25000\n")
    (folder / "mtu").write_text("9000\n")
    known = member_link.facts("127.0.0.1", str(tmp_path))
    assert (known["mbps"], known["mtu"], known["virtual"]) == (25_000, 9000, False)
    (folder / "speed").write_text("-1\n")  # of a link that is down
    assert member_link.facts("127.0.0.1", str(tmp_path))["mbps"] == 0


def test_a_rate_stands_beside_what_a_link_carries() -> None:
    row = CollectiveRow(
        op="all_reduce", size=1 << 20, ranks=2, rounds=3, time_s=0.002, low_s=None, high_s=None, algbw=0.5e9, busbw=0.5e9, wrong=0, slowest={"n1": 3},
    )  # fmt: skip
    text = "\n".join(cli_collective.lines([row], LinkKnown(code="link", rate=1e9, mbps=1e4, interface="eth0"), "tcp", 120, False))
    assert "50 %" in text
    assert "Expected at most 1.00 GB/s, by TCP over eth0 of 10.0 Gbit/s." in text
    assert "of a link" not in "\n".join(cli_collective.lines([row], LinkKnown(code="virtual"), "tcp", 120, False))
