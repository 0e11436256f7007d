"""`hotlap cluster isolate`: on simulated fabrics, on slots of this machine, and what it refuses."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from hotlap.bringup import member_pair, show, topology
from hotlap.bringup.record import Isolation, Open, PairRecord
from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.show.document import Document
from hotlap.core.store import files


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_simulated_fault_is_a_failed_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cluster", "isolate", "--simulate", "fabric?nodes=64&leaf=16&fault=node:n07:20%"]
    assert main([*words, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    assert (answer["verdict"], answer["exit_code"]) == ("fail", 1)
    isolation = msgspec.convert(answer["isolation"], Isolation)
    assert [(each.part.kind, each.part.members) for each in isolation.culprits] == [("node", ["n07"])]
    assert main(words) == 1
    out = capsys.readouterr().out
    assert "node n07" in out.splitlines()[1]
    assert "not excluded" in out


def test_a_link_that_carries_nothing_has_lost_over_95_percent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "isolate", "--simulate", "fabric?nodes=8&leaf=4&disturbed=0&fault=link:n1>n5:100%"]) == 1
    out = capsys.readouterr().out
    assert "link n1 to n5" in out
    assert "over 95 %" in out


def test_a_clean_fabric_passes_and_says_what_is_open(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "isolate", "--simulate", "fabric?nodes=64&leaf=16"]) == 0
    out = capsys.readouterr().out
    assert "No part is named." in out
    assert "links: " in out


def test_of_two_nodes_that_are_alike_nothing_says_that_they_are_fast(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cluster", "isolate", "--simulate", "fabric?nodes=2&disturbed=0&fault=node:n2:40%"]
    assert main(words) == 3
    out = capsys.readouterr().out
    assert "Cannot tell whether both are slow" in out
    assert "Without a fault" not in out
    assert main([*words, "--expected", "50 GB/s"]) == 1
    assert "All of the fabric is 40 % below the expected rate." in capsys.readouterr().out
    assert main(["cluster", "isolate", "--simulate", "fabric?nodes=2&disturbed=0", "--expected", "50 GB/s"]) == 0


def test_slow_transfers_that_what_is_named_does_not_explain_cast_doubt_on_its_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An uplink that lost 40 %, with two nodes of other leaves exchanged in the topology: a part of the loss is named."""
    leaves = {number: (number - 1) // 4 for number in range(1, 17)}
    leaves[4], leaves[5] = leaves[5], leaves[4]
    (tmp_path / "leaves.txt").write_text("".join(f"n{number:02} leaf{leaf}\n" for number, leaf in leaves.items()))
    words = ["cluster", "isolate", "--topology", str(tmp_path / "leaves.txt"), "--simulate"]
    said = []
    for seed in (3, 5, 9):  # which gave 12.5 % at most, without a doubt
        assert main([*words, f"fabric?nodes=16&leaf=4&fault=uplink:1:40%&seed={seed}"]) in (1, 3)
        out = " ".join(capsys.readouterr().out.split())
        said.append("does not fit" in out or "Do not trust the loss" in out or "it is wrong" in out)
    assert all(said), said


def test_a_fabric_of_which_most_is_slow_cannot_be_told(capsys: pytest.CaptureFixture[str]) -> None:
    slow = "".join(f"&fault=node:n{number:02}:40%" for number in range(1, 11))
    assert main(["cluster", "isolate", "--simulate", f"fabric?nodes=16{slow}"]) == 3
    assert "most may be slow" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--simulate", "fabric?nodes=4", "--local", "2"], "leave out one of both"), (["--rounds", "-1"], "--rounds is a number from 0 on"),
        (["--local", "4", "--whole", "--rounds", "3"], "leave out one of both"),
        ([], "which members?"), (["--local", "1"], "a pair needs two nodes"), (["--local", "2", "--topology", "nowhere"], "cannot be read"),
        (["--local", "2", "--time", "0 s"], "--time is a time above 0"), (["--local", "2", "--expected", "fast"], "fast"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_runs(words: list[str], reason: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "isolate", *words]) == 2
    assert reason in capsys.readouterr().err
    assert not (home / "runs").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("n1 a\nn2\n", ":2: 'n2' has 1 words"), ("n1 a\nn1 b\n", ":2: n1 is on a already"), ("n1 a\n", "n2 has no leaf"),
    ],
)  # fmt: skip
def test_a_topology_that_is_wrong_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "leaves.txt").write_text(text)
    with pytest.raises(InputError, match=reason):
        topology.read(str(tmp_path / "leaves.txt"), ["n1", "n2"])


def test_a_topology_names_leaves_of_members_alone(tmp_path: Path) -> None:
    (tmp_path / "leaves.txt").write_text("# rack, leaf\nn2, west\nn9, north\nn1, east\n")
    where = topology.read(str(tmp_path / "leaves.txt"), ["n1", "n2"])
    assert where.leaves == ("east", "west")
    assert where.leaf.tolist() == [0, 1]
    assert not topology.read("", ["n1", "n2"]).known


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_transfer_counts_what_comes_after_the_first_quarter(address: str) -> None:
    try:
        with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as held:
            port = held.getsockname()[1]
    except OSError as error:
        pytest.skip(f"{address}: {error.strerror}")
    taken = list[dict[str, float]]()
    thread = threading.Thread(target=lambda: taken.append(member_pair.receive(address, port, 0.2)))
    thread.start()
    assert member_pair.send(address, port, 0.2) == {"why": ""}
    thread.join()
    assert taken[0]["rate"] == pytest.approx(taken[0]["bytes"] / taken[0]["seconds"])
    assert taken[0]["seconds"] > 0


def test_tcp_where_rdma_could_be_is_said_before_any_number() -> None:
    answer = Isolation(
        culprits=[], nodes=2, screening=1, confirming=0, transfers=2, fleet=1e9, noise=0.01, disturbed=0.0, faster=0.0,
        open=[Open(code="rdma", members=["n1", "n2"], count=2)],
    )  # fmt: skip
    assert show.lines(answer, 200, False)[0] == "These are rates of TCP: 2 members with RDMA adapters (n1, n2) did not use them."
    known = msgspec.structs.replace(answer, rdma_gbps=400.0)
    assert show.lines(known, 200, False)[0] == "These are rates of TCP: 2 members with RDMA adapters of 400 Gb/s (n1, n2) did not use them."
    mixed = msgspec.structs.replace(known, rdma_gbps=200.0, rdma_most_gbps=400.0)
    assert "adapters of 200 to 400 Gb/s" in show.lines(mixed, 200, False)[0]


@pytest.mark.slow("agents of three members, six transfers")
def test_members_transfer_in_rounds_and_their_campaign_keeps_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["cluster", "isolate", "--local", "3", "--time", "0.1 s", "--json"])
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    assert answer["exit_code"] == code
    isolation = msgspec.convert(answer["isolation"], Isolation)
    assert (isolation.nodes, isolation.screening) == (3, 12)  # few pairs are repeated
    kept = next((home / "runs").iterdir())
    assert msgspec.json.decode((kept / "isolation.json").read_bytes(), type=Isolation) == isolation
    transfers = [msgspec.json.decode(line, type=PairRecord) for line in (kept / "transfers.jsonl").read_bytes().splitlines()]
    assert len(transfers) == isolation.transfers
    assert {(each.sender, each.receiver) for each in transfers if each.round <= 3} == {
        (first, second) for first in ("slot00", "slot01", "slot02") for second in ("slot00", "slot01", "slot02") if first != second
    }
    assert all(each.rate for each in transfers)
    assert main(["cluster", "isolate", "--of", kept.name, "--json"]) == code
    assert json.loads(capsys.readouterr().out)["isolation"] == answer["isolation"]
    assert main(["report", kept.name, "--out", str(home / "page.html")]) == 0
    page = (home / "page.html").read_text()
    assert "Slow parts of the fabric" in page
    assert "12 rounds to screen" in page
    capsys.readouterr()
    assert main(["show", kept.name]) == 0
    assert "12 rounds to screen" in capsys.readouterr().out
    assert main(["show", kept.name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["cluster"]["isolation"] == answer["isolation"]
    assert main(["cluster", "status"]) == 0
    assert (kept / files.RUN).is_file()


@pytest.mark.slow("agents of three members, interrupted and resumed")
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.nightly("the same by Ctrl-C")), signal.SIGKILL])
def test_an_interrupted_isolation_goes_on_from_its_transfers(number: int, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [sys.executable, "-m", "hotlap", "cluster", "isolate", "--local", "3", "--time", "0.1 s", "--rounds", "3"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "round 2" in line:
                running.send_signal(number)
                break
        rest = running.stderr.read()
        assert number == signal.SIGKILL or "goes on" in rest.splitlines()[-1]
        assert running.wait() == (130 if number == signal.SIGINT else -signal.SIGKILL)
    kept = next((home / "runs").iterdir())
    before = (kept / "transfers.jsonl").read_bytes()
    assert before
    assert main(["cluster", "isolate", "--of", kept.name]) == 2
    assert f"--resume {kept.name} goes on" in capsys.readouterr().err
    assert main(["cluster", "isolate", "--resume", kept.name, "--json"]) in (0, 1, 3)
    isolation = msgspec.convert(json.loads(capsys.readouterr().out)["isolation"], Isolation)
    after = (kept / "transfers.jsonl").read_bytes()
    assert after.startswith(before)
    assert isolation.transfers == len(after.splitlines())
    assert isolation.screening == 3
    assert main(["cluster", "isolate", "--resume", kept.name]) == 2
    assert "has ended" in capsys.readouterr().err
