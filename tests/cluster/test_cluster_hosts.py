"""Names of hosts as they are written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.cluster import hosts
from hotlap.core.errors import InputError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[001-003,200]", ["n001", "n002", "n003", "n200"]),
        ("a,b, c", ["a", "b", "c"]),
        ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("root@10.0.0.1,fe80::1%eth0", ["root@10.0.0.1", "fe80::1%eth0"]),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert hosts.parse(text) == names


def test_names_as_clustershell_has_them() -> None:
    oracle = pytest.importorskip("ClusterShell.NodeSet")
    for text in ("n[001-128,200]", "r[1-4]n[01-16]", "a,b[3-5]"):
        assert sorted(hosts.parse(text)) == sorted(oracle.NodeSet(text))


def test_a_file_of_names(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("n1  # the head\n\nn[2-3]\n")
    assert hosts.parse(str(tmp_path / "hosts")) == ["n1", "n2", "n3"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no host"), (",", "no host"), ("n[1-", "lacks a ]"), ("n1]", "bracket too many"), ("n[a-b]", "no number or range"),
        ("n[3-1]", "backwards"), ("n[]", "no number"), ("a,a", "stands twice"), ("n[1-2],n2", "stands twice"),
        ("-oProxyCommand=x", "no name of a host"), ("a b", "no name"), ("n[1-99999999]", "too long"), ("r[1-999]n[1-999]", "are the most"),
        ("../x", "there is no file"), ("n[010-9]", "backwards"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_hosts(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        hosts.parse(text)
