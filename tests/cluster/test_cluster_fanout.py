"""Wheels reach members as a tree: the controller sends them to a few, these to others; what does not come that way the controller sends."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import descriptors
import hotlap
from hotlap.cluster import agent, controller, fanout, folder, member_relay
from hotlap.cluster.launch.base import AgentProcess, popen
from hotlap.cluster.launch.local import LocalLauncher
from hotlap.cluster.parcel import Parcel, ParcelFile
from hotlap.cluster.record import Campaign, Member, StepRecord

TOKEN = "ab" * (member_relay.TOKEN_DIGITS // 2)


@dataclass
class Members:
    """Members that get what they are sent one after another, and pass it on. Those of `broken` do not."""

    fan: fanout.WheelFanOut
    broken: frozenset[str] = frozenset()
    orders: deque[tuple[str, Mapping[str, Any]]] = field(default_factory=deque)
    have: list[str] = field(default_factory=list)
    most: int = 0  # that were under way at a time

    def take(self, name: str, message: Mapping[str, Any]) -> None:
        self.orders.append((name, message))
        self.most = max(self.most, len(self.orders))

    def run(self, digest: str) -> None:
        while self.orders:
            name, message = self.orders.popleft()
            if message["do"] == "from" and message["address"] in self.broken:
                self.fan.want(name, [digest], direct=True)
                continue
            while self.fan.part(name):
                pass
            self.have.append(name)
            self.fan.relays(name, name, 1)
            self.fan.got(name)


@pytest.fixture
def parcel(tmp_path: Path) -> Parcel:
    path = tmp_path / "x-1-py3-none-any.whl"
    path.write_bytes(b"x" * 700_000)
    made = Parcel(tmp_path / "parcel")
    made._files = [ParcelFile(path.name, path, hashlib.sha256(path.read_bytes()).hexdigest(), 700_000, True, 700_000)]
    return made


@pytest.mark.parametrize("broken", [(), ("n000", "n001")])
def test_the_controller_sends_to_few_and_every_member_has_them(parcel: Parcel, broken: tuple[str, ...]) -> None:
    names = [f"n{number:03}" for number in range(64)]
    fan = fanout.WheelFanOut(parcel, "ssh", len(names), lambda name, message: members.take(name, message))
    members, (file,) = Members(fan, frozenset(broken)), parcel.files()
    for name in names:
        fan.want(name, [file.digest], direct=False)
    assert len(members.orders) == fanout.FAN  # the others wait
    members.run(file.digest)
    assert sorted(members.have) == names
    assert fan.sent + fan.relayed == len(names)
    if not broken:
        assert fan.sent <= 16
        assert members.most > 2 * fanout.FAN  # at a time: more than the controller alone sends to


def test_a_member_that_goes_makes_room_for_the_next(parcel: Parcel) -> None:
    orders: list[str] = []
    fan = fanout.WheelFanOut(parcel, "ssh", 5, lambda name, message: orders.append(f"{name} {message['do']}"))
    (file,) = parcel.files()
    for name in "abcde":
        fan.want(name, [file.digest], direct=False)
    assert orders == ["a wheels", "b wheels"]
    fan.lose("a")
    fan.lose("d")
    assert orders == ["a wheels", "b wheels", "c wheels"]
    fan.relays("b", "10.0.0.2", 7)
    fan.got("b")
    assert orders[3:] == ["e from"]
    assert not fan.part("a")


def test_what_was_not_offered_is_refused(parcel: Parcel) -> None:
    fan = fanout.WheelFanOut(parcel, "ssh", 5, lambda name, message: None)
    (file,) = parcel.files()
    for digests in ([], ["../x"], [file.digest, "0" * 64]):
        with pytest.raises(agent.FrameError, match="not offered"):
            fan.want("a", digests, direct=False)
    fan.want("a", [file.digest], direct=False)
    with pytest.raises(agent.FrameError, match="not offered"):
        fan.want("a", [file.digest], direct=True)  # while it is being sent
    assert fanout.WheelFanOut(parcel, "ssh", fanout.FAN, lambda name, message: None).offer()["relays"] == ""


@pytest.fixture(params=["few", "many"])
def relayed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[int, dict[str, Any], int]]:
    path = tmp_path / "x.whl"
    path.write_bytes(os.urandom(1_000_000))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with descriptors.many() if request.param == "many" else nullcontext():
        port, held = member_relay.relay({digest: str(path)}, TOKEN, "127.0.0.1")
    path.rename(tmp_path / "gone")
    yield port, {"digest": digest, "size": 1_000_000}, held
    os.waitpid(-1, 0)


def test_a_relay_passes_on_what_is_asked_with_the_token_until_its_agent_ends(
    relayed: tuple[int, dict[str, Any], int], tmp_path: Path
) -> None:
    port, file, held = relayed
    paused: list[int] = []

    def got(token: str = TOKEN, **other: Any) -> bool:
        return member_relay.fetch(("127.0.0.1", port), token, {**file, **other}, str(tmp_path / "got"), lambda: paused.append(1))

    assert got()
    assert (tmp_path / "got").read_bytes() == (tmp_path / "gone").read_bytes()
    assert len(paused) > 1
    assert not got(token="cd" * 16)
    assert not got(digest="0" * 64)
    assert not got(size=1_000)  # cut, it is another file
    os.close(held)
    os.waitpid(-1, 0)  # it has ended
    assert not got()
    if not os.fork():  # for the fixture
        os._exit(0)


@dataclass(frozen=True)
class ApartLauncher(LocalLauncher):
    """Members of this machine with a cache of their own."""

    caches: str = ""

    def start(self, member: Member) -> AgentProcess:
        return popen(["env", f"XDG_CACHE_HOME={self.caches}/{member.name}", sys.executable, "-I", "-S", "-c", agent.BOOTSTRAP])


@pytest.mark.nightly("NumPy is packed, and unpacked six times")
def test_members_of_a_campaign_get_wheels_from_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    launcher = ApartLauncher(6, str(tmp_path / "bare" / "bin" / "python"), caches=str(tmp_path / "caches"))
    named, began = folder.new_id()
    step = StepRecord(number=1, name="schema", gather="command", argv=["hotlap", "schema"], label="schema")
    campaign = Campaign(id=named, hotlap=hotlap.__version__, began=began, launcher="local", python=launcher.python, steps=[step])
    kept = folder.create(tmp_path, campaign, launcher.members(), {}, "local")
    with kept.held(), closing(Parcel(tmp_path / "parcel")) as parcel:
        conductor = controller.ClusterController(kept, launcher, parcel=parcel)
        conductor.open(launcher.members())
        conductor.step(step, launcher.members())
        fan = conductor.wheels
        conductor.close()
    assert [state.state for state in kept.states(0.0)] == ["measured"] * 6
    assert fan.sent + fan.relayed == 6
    assert fan.relayed >= 2
    assert fan.summary() == f"6 members got Hotlap and its wheels, {fan.relayed} of them from another member"
