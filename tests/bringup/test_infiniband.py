"""Text of ibnetdiscover and iblinkinfo: samples after the formats of infiniband-diags, with names and numbers of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.bringup import infiniband, show, topology
from hotlap.cli import main
from hotlap.core.errors import InputError

DISCOVERED = """#
# Topology file: generated on Sat Nov 28 08:00:00 2026
#
# Initiated from node 00000000000000a1 port 00000000000000a1

vendid=0x2c9
devid=0xd2f2
sysimgguid=0x1001
switchguid=0x1001(1001)
Switch\t64 "S-0000000000001001"\t\t# "MF0;leaf1:MQM9700/U1" enhanced port 0 lid 1 lmc 0
[1]\t"H-00000000000000a1"[1](a1) \t\t# "n1 mlx5_0" lid 11 4xNDR
[2]\t"H-00000000000000a2"[1](a2) \t\t# "n2 mlx5_0" lid 12 4xNDR
[3]\t"H-00000000000000a3"[1](a3) \t\t# "n3.site mlx5_0" lid 13 2xNDR
[33][ext 5]\t"S-0000000000002001"[1]\t\t# "MF0;spine1:MQM9700/U1" lid 3 4xNDR

vendid=0x2c9
switchguid=0x1002(1002)
Switch\t64 "S-0000000000001002"\t\t# "MF0;leaf2:MQM9700/U1" enhanced port 0 lid 2 lmc 0
[1]\t"H-00000000000000a4"[1](a4) \t\t# "n4 mlx5_0" lid 14 4xHDR
[33]\t"S-0000000000002001"[2]\t\t# "MF0;spine1:MQM9700/U1" lid 3 4xNDR

Ca\t1 "H-00000000000000a1"\t\t# "n1 mlx5_0"
[1](a1) \t"S-0000000000001001"[1]\t\t# lid 11 lmc 0 "MF0;leaf1:MQM9700/U1" lid 1 4xNDR
"""
LISTED = """CA: n1 HCA-1:
      0x00000000000000a1      4    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>       2   17[  ] "leaf1" ( )
CA: n2 HCA-1:
      0x00000000000000a2      3    1[  ] ==( 1X      106.25 Gbps Active/  LinkUp)==>       2   18[  ] "leaf1" ( Could be 4X)
Switch: 0x0000000000001001 leaf1:
           2   17[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>       4    1[  ] "n1 HCA-1" ( )
           2   18[  ] ==( 1X      106.25 Gbps Active/  LinkUp)==>       3    1[  ] "n2 HCA-1" ( Could be 4X)
           2   19[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       9    1[  ] "n3 HCA-1" ( Could be 106.25 Gbps)
           2   20[  ] ==(                Down/ Polling)==>             [  ] "" ( )
CA: n3 HCA-1:
      0x00000000000000a3      9    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       2   19[  ] "leaf1" ( Could be 106.25 Gbps)
"""
ON_A_LINE = """0x1001 "leaf1"      4    3[  ] ==( 4X 25.78 Gbps Active/  LinkUp)==>  0x00a2     15    1[  ] "n2 HCA-1" ( )
0x1001 "leaf1"      4   17[  ] ==( 4X 25.78 Gbps Active/  LinkUp)==>  0x00a1      5    1[  ] "n1 HCA-1" ( )
0x1001 "leaf1"      4   18[  ] ==(                Down/ Polling)==>             [  ] "" ( )
0x1001 "leaf1"      4   19[  ] ==( 4X 25.78 Gbps Active/  LinkUp)==>  0x00a3      6    1[  ] "n3 HCA-1" ( )
"""


def test_ibnetdiscover_has_leaves_links_and_their_rates() -> None:
    found = infiniband.links(DISCOVERED)
    assert len(found) == 6
    leaves = infiniband.leaves(found, ["n1", "n2", "n3", "n4", "n9"])
    assert leaves == {"n1": "MF0;leaf1:MQM9700/U1", "n2": "MF0;leaf1:MQM9700/U1", "n3": "MF0;leaf1:MQM9700/U1", "n4": "MF0;leaf2:MQM9700/U1"}
    assert infiniband.host_gbps(found, ["n1", "n3.site", "n4"]) == {"n1": 400.0, "n3.site": 200.0, "n4": 200.0}


def test_links_below_most_of_their_kind_are_findings() -> None:
    before = infiniband.findings(infiniband.links(DISCOVERED), ["n1", "n2", "n3", "n4"])
    assert [(each.code, each.members[1], each.seen, each.usual) for each in before] == [
        ("narrow", "n3.site mlx5_0 port 1", "2xNDR", "4xNDR"), ("slow", "n4 mlx5_0 port 1", "4xHDR", "4xNDR"),
    ]  # fmt: skip
    assert infiniband.findings(infiniband.links(DISCOVERED), ["n1", "n2"]) == []


def test_iblinkinfo_says_what_links_could_be() -> None:
    found = infiniband.links(LISTED)
    assert len(found) == 3
    assert infiniband.leaves(found, ["n1", "n2", "n3"]) == {"n1": "leaf1", "n2": "leaf1", "n3": "leaf1"}
    seen = {each.code: (each.seen, each.usual) for each in infiniband.findings(found, ["n1", "n2", "n3"])}
    assert seen == {"narrow": ("1xNDR", "4xNDR"), "slow": ("4xEDR", "4xNDR")}
    both_slow = infiniband.links("\n".join(line for line in LISTED.splitlines() if "n1" not in line))
    assert len(infiniband.findings(both_slow, ["n2", "n3"])) == 2  # by what they could be, not by most


def test_iblinkinfo_with_all_on_a_line() -> None:
    found = infiniband.links(ON_A_LINE)
    assert infiniband.leaves(found, ["n1", "n2", "n3"]) == {"n1": "leaf1", "n2": "leaf1", "n3": "leaf1"}
    assert {link.speed for link in found} == {"EDR"}


def test_a_swapped_rail_is_told_by_the_nodes_beside_it() -> None:
    rows = [
        f'0x{rail} "rail{rail}" 4 {node}[ ] ==( 4X 106.25 Gbps Active/ LinkUp)==> 0xa{node}{rail} 5 1[ ] "n{node} mlx5_{1 - rail if node == 3 else rail}" ( )'
        for node in range(1, 6) for rail in (0, 1)
    ]  # fmt: skip
    found = infiniband.links("\n".join(rows))
    names = [f"n{node}" for node in range(1, 6)]
    assert set(infiniband.leaves(found, names).values()) == {"rail0 + rail1"}
    before = infiniband.findings(found, names)
    assert [(each.code, each.members, each.seen) for each in before] == [
        ("swapped", ["n3", "mlx5_0"], "rail1"), ("swapped", ["n3", "mlx5_1"], "rail0"),
    ]  # fmt: skip
    assert "two cables may be swapped" in show.before(before[0])


def test_adapters_of_one_name_are_compared_with_each_other() -> None:
    """Four of 400 Gb/s and a storage adapter of 200 in each node; n3's first one is slow."""
    rows = [
        f'0xb{rail} "rail{rail}" {rail} {node}[ ] ==( 4X {"53.125" if rail == 9 or (rail, node) == (1, 3) else "106.25"} Gbps Active/ LinkUp)==> '
        f'0xa{node}{rail} {node}{rail} 1[ ] "n{node} mlx5_{rail}" ( )' for node in range(1, 6) for rail in (1, 2, 3, 4, 9)
    ]  # fmt: skip
    before = infiniband.findings(infiniband.links("\n".join(rows)), [f"n{node}" for node in range(1, 6)])
    assert [(each.code, each.members[1]) for each in before] == [("slow", "n3 mlx5_1 port 1")]


def switches(form: str) -> str:
    """Two of one description, with four nodes each."""
    rows = list[str]()
    for switch in (1, 2):
        rows += [f'Switch\t40 "S-{switch}"\t\t# "Quantum" enhanced port 0 lid {switch} lmc 0'] if form == "ibnetdiscover" else []
        for port in range(1, 5):
            node = 4 * (switch - 1) + port
            rows.append(
                f'[{port}]\t"H-{node}"[1](a) \t\t# "n{node} mlx5_0" lid 1{node} 4xNDR' if form == "ibnetdiscover"
                else f'0x{switch} "Quantum" {switch} {port}[ ] ==( 4X 106.25 Gbps Active/ LinkUp)==> 0xa{node} 1{node} 1[ ] "n{node} mlx5_0" ( )'
            )  # fmt: skip
    return "\n".join(rows)


@pytest.mark.parametrize("form", ["ibnetdiscover", "iblinkinfo"])
def test_switches_of_one_description_are_two(form: str) -> None:
    found = infiniband.links(switches(form))
    leaves = infiniband.leaves(found, [f"n{node}" for node in range(1, 9)])
    key = {"ibnetdiscover": "S-", "iblinkinfo": "LID "}[form]
    assert leaves == {f"n{node}": f"Quantum ({key}{1 if node < 5 else 2})" for node in range(1, 9)}
    assert infiniband.findings(found, [f"n{node}" for node in range(1, 9)]) == []


@pytest.mark.parametrize("text", [DISCOVERED, LISTED])
def test_a_topology_may_be_either_text(text: str, tmp_path: Path) -> None:
    (tmp_path / "fabric.txt").write_text(text)
    where = topology.read(str(tmp_path / "fabric.txt"), ["n1", "n2", "n3"])
    assert where.leaf.tolist() == [0, 0, 0]
    with pytest.raises(InputError, match="n7 has no leaf"):
        topology.read(str(tmp_path / "fabric.txt"), ["n1", "n7"])


def test_a_link_that_is_too_slow_stands_before_every_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fabric.txt").write_text(DISCOVERED.replace('"n4 mlx5_0" lid 14 4xHDR', '"n4 mlx5_0" lid 14 4xNDR'))
    words = ["cluster", "isolate", "--simulate", "fabric?nodes=4&noise=1%&disturbed=0", "--topology", str(tmp_path / "fabric.txt")]
    assert main(words) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("The link MF0;leaf1:MQM9700/U1 port 3 to n3.site mlx5_0 port 1 runs at 2xNDR")
