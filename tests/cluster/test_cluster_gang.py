"""Gangs of local members: rendezvous, rounds, and the one cause when a member fails."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.cluster import agent, folder
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.gang import Gang, GangEnd
from hotlap.cluster.record import Member

MEET = """
import os, socket, sys, time
rank, world, place = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(place) as server:
        callers = [server.accept()[0] for _ in range(world - 1)]
        total = sum(caller.recv(1)[0] for caller in callers)
        [caller.send(bytes([total])) for caller in callers]
else:
    for _ in range(200):
        try:
            caller = socket.create_connection(place)
            break
        except OSError:
            time.sleep(0.05)
    caller.send(bytes([rank]))
    total = caller.recv(1)[0]
print("rank", rank, "of", world, "sum", total, "by", place[1])
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def newest(home: Path) -> CampaignFolder:
    return folder.load(max((home / "runs").iterdir()))


def states(home: Path) -> dict[str, tuple[str, str]]:
    return {state.member: (state.state, state.why) for state in newest(home).states(time.time())}


def gangs(script: str, *options: str, members: int = 3, gang: int = 3) -> int:
    return main(["cluster", "run", "--local", str(members), "--gang", str(gang), *options, "--", "sh", "-c", script])


def test_members_meet_in_every_round_by_another_port(home: Path, tmp_path: Path) -> None:
    (tmp_path / "meet.py").write_text(MEET)
    assert gangs(f"exec {sys.executable} -S {tmp_path}/meet.py", "--rounds", "3", members=6) == 0
    kept, ports = newest(home), dict[str, list[str]]()
    for number, member in enumerate(kept.members()):
        lines = (kept.attempt(1, member.name, 1) / "stdout").read_text().splitlines()
        assert [line.rpartition(" by ")[0] for line in lines] == [f"rank {number % 3} of 3 sum 3"] * 3
        ports[member.name] = [line.split()[-1] for line in lines]
    first, second = [ports[f"slot0{n}"] for n in range(3)], [ports[f"slot0{n}"] for n in range(3, 6)]
    assert first == [first[0]] * 3
    assert second == [second[0]] * 3
    assert set(first[0]).isdisjoint(second[0])


@pytest.mark.parametrize(
    ("harm", "why"), [("exit 7", "slot01 died: exit status 7"), ("kill -9 $PPID; sleep 60", "slot01 died: its agent was killed by signal 9")]
)
def test_one_that_fails_ends_its_gang_and_no_other(home: Path, harm: str, why: str) -> None:
    """Rank 0 would wait for ever; rank 2 fails because rank 1 did; the second gang has results."""
    script = f"test {{index}} -gt 2 && exit 0; case $RANK in 0) sleep 600;; 1) {harm};; 2) sleep 0.3; echo peer lost >&2; exit 1;; esac"
    began = time.monotonic()
    assert gangs(script, members=6) == 3
    assert time.monotonic() - began < 300
    known = states(home)
    assert known["slot01"] == ("died", why.partition(": ")[2])
    assert known["slot00"] == known["slot02"] == ("died", f"its gang ended: {why}")
    assert {state for state, _ in list(known.values())[3:]} == {"measured"}
    assert agent.marked(newest(home).campaign.id)[0] == []


def test_a_result_counts_when_all_of_the_gang_have_one(home: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    script = f"echo {{index}} >> {tmp_path}/ran; test $RANK = 0 || test -e {again} || {{ sleep 0.5; exit 5; }}"
    assert gangs(script, members=4, gang=2, ) == 3
    assert {state for state, _ in states(home).values()} == {"died"}
    assert not list(newest(home).path.glob("steps/*/*/*/done.json"))
    again.touch()
    assert main(["cluster", "resume"]) == 0
    assert states(home).keys() == {"slot00", "slot01", "slot02", "slot03"}
    assert sorted((tmp_path / "ran").read_text().split()) == ["0", "0", "1", "1", "2", "2", "3", "3"]
    assert len(list(newest(home).path.glob("steps/*/*/2/done.json"))) == 4


def test_a_gang_that_hangs_times_out(home: Path) -> None:
    assert gangs("test $RANK = 0 && sleep 600; true", "--timeout", "1.5 s") == 3
    known = states(home)
    assert known["slot00"] == ("timed out", "after 1.5 s")
    assert known["slot01"] == ("died", "its gang ended: slot00 timed out: after 1.5 s")


def test_bad_numbers_leave_no_campaign(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gangs("true", members=5, gang=2) == 2
    assert "--gang 2: of 5 members 1 would be left over; give a multiple of 2" in capsys.readouterr().err
    assert gangs("true", gang=1) == 2
    assert not (home / "runs").exists()


def test_the_cause_is_the_member_that_ended_first_whatever_came_first() -> None:
    gang = Gang([Member(name=name, index=index) for index, name in enumerate("abc")])
    gang.end("c", GangEnd("died", "connection reset", 1.4, {"code": 1}))
    gang.end("a", GangEnd("measured", "", 0.9, {"code": 0, "evidence": "digest"}))
    gang.end("b", GangEnd("died", "signal 9", 1.2, {"code": -9}))
    outcome = gang.outcome()
    assert (outcome["b"].state, outcome["b"].why) == ("died", "signal 9")
    assert outcome["c"].why == outcome["a"].why == "its gang ended: b died: signal 9"
    assert "evidence" not in outcome["a"].more
