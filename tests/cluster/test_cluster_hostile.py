"""Members that are not honest: they cannot write outside of their folder, nor fill memory, nor keep others from being measured."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from hotlap.cluster import controller, fanin, folder, session
from hotlap.cluster.launch.base import popen
from hotlap.cluster.launch.local import LocalLauncher
from hotlap.cluster.record import Campaign, Member, MemberState, StepRecord

PREFACE = """
import sys, json, os, time, hashlib
from hotlap.cluster import agent
f = open(0, 'rb', 0, closefd=False); s = json.loads(f.readline()); n = sum(size for _, size in s['sources'])
while n: n -= len(f.read(n))
session = bytes.fromhex(s['session']); count = 0
def send(message, body=b''):
    global count
    count += 1
    os.write(1, agent.frame(session, dict(message, n=count), body))
HELLO = dict(agent.facts(), **{'is': 'hello', 'version': agent.VERSION, 'swept': 0, 'folder': '/tmp', 'free_bytes': 1, 'probe': '', 'time_s': time.time()})
AT = {'step': 1, 'attempt': 1}
"""
WAIT = "f.read(65536)\n"  # the step


@dataclass(frozen=True)
class HostileLauncher(LocalLauncher):
    """The second of its members is not the agent but `script`."""

    script: str = ""

    def start(self, member: Member) -> subprocess.Popen[bytes]:
        return popen([sys.executable, "-c", PREFACE + self.script]) if member.index else super().start(member)


def states_of(tmp_path: Path, script: str) -> tuple[folder.CampaignFolder, dict[str, MemberState]]:
    launcher = HostileLauncher(2, sys.executable, script=script)
    named, began = folder.new_id()
    step = StepRecord(number=1, name="true", gather="command", argv=["true"], label="true")
    campaign = Campaign(id=named, hotlap="0", began=began, launcher="local", python=sys.executable, silent_s=3.0, beat_s=0.5, steps=[step])
    kept = folder.create(tmp_path, campaign, launcher.members(), {}, "local")
    with kept.held():
        conductor = controller.ClusterController(kept, launcher)
        session.run(conductor, launcher.members(), [step], {1: {"slot00", "slot01"}}, 8)
        fanin.collect(kept)
    return kept, {state.member: state for state in kept.states(time.time())}


DONE = "send(dict(AT, **{'is': 'done', 'code': 0, 'seconds': 1, 'why': '', 'timed_out': False, 'stopped': False, 'by': 'pipe', 'size': %s, 'digest': %s}))\n"


FOLDER = DONE.replace("'pipe'", "'folder'") % ("7", "'00'")
PLACE = "place = os.path.dirname(s['probe']) + '/steps/0001-true/slot01/1/shared.zip'\n"


@pytest.mark.parametrize(
    ("script", "state", "why"),
    [
        ("os.write(1, agent.HEAD.pack(agent.MAGIC, session, 1 << 31, bytes(32))); time.sleep(9)", "refused", "is the most"),
        ("send({'is': 'hello'}); time.sleep(9)", "refused", "no agent sends"),
        ("send(dict(HELLO, macs=7)); time.sleep(9)", "refused", "no agent sends"),
        ("os.write(2, b'banner' * 200000); os.write(1, b'x' * (1 << 20)); sys.exit(5)", "never started", "bannerbanner"),
        (f"send(HELLO); {WAIT}send(dict(AT, **{{'is': 'output', 'stream': '../../x'}}), b'evil'); time.sleep(9)", "refused", "no agent sends"),
        (f"send(HELLO); {WAIT}send(dict(AT, **{{'is': 'part', 'from': 'x'}}), b'evil'); time.sleep(9)", "refused", "no agent sends"),
        (f"send(HELLO); {WAIT}send({{'is': 'beat', 'step': 1}}); count += 5\n" + DONE % ("0", "hashlib.sha256().hexdigest()") + "time.sleep(9)",
         "truncated", "5 frames were lost"),
        (f"send(HELLO); {WAIT}" + DONE % ("7", "'00'") + "time.sleep(9)", "truncated", "0 of 7 bytes"),
        (f"send(HELLO); {WAIT}send(dict(AT, **{{'is': 'part', 'from': 0}}), b'no zip')\n"
         + DONE % ("6", "hashlib.sha256(b'no zip').hexdigest()") + "time.sleep(9)", "truncated", "no zip that can be read"),
        (f"send(HELLO); {WAIT}{PLACE}os.symlink('/etc/hostname', place)\n" + FOLDER + "time.sleep(9)", "refused", "is no file"),
        (f"send(HELLO); {WAIT}{PLACE}os.mkfifo(place)\n" + FOLDER + "time.sleep(9)", "refused", "no file of a size that an agent writes"),
        (f"send(HELLO); {WAIT}send(dict(AT, **{{'is': 'lacks'}})); send(dict(AT, **{{'is': 'lacks'}})); time.sleep(9)", "refused", "twice"),
        (f"send(HELLO); {WAIT}send(dict(AT, **{{'is': 'want', 'digests': ['../x'], 'direct': False}})); time.sleep(9)", "refused", "not offered"),
        (f"send(HELLO); {WAIT}" + FOLDER + "time.sleep(9)", "truncated", "0 of 7 bytes"),
    ],
)  # fmt: skip
def test_a_hostile_member_harms_itself_alone(tmp_path: Path, script: str, state: str, why: str) -> None:
    kept, states = states_of(tmp_path, script)
    assert states["slot00"].state == "measured"
    assert states["slot01"].state == state
    assert why in states["slot01"].why
    allowed = {"shared.zip"} if "no file" in why else set()
    allowed |= {"task.json", "started.json", "beat", "stdout", "stderr", "bundle.zip", "done.json"}
    assert {path.name for path in kept.path.glob("steps/*/slot01/*/*")} <= allowed
    assert not list(tmp_path.rglob("x"))


def zipped(**names: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in names.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_a_zip_bomb_is_not_unpacked() -> None:
    content = zipped(**{"result.json": bytes(fanin.LIMITS["result.json"] + 1)})
    assert len(content) < 5000
    with pytest.raises(fanin.Unreadable, match="larger than 1 MiB"):
        fanin.contained(content)


def test_names_of_a_zip_lead_nowhere() -> None:
    content = zipped(**{"../../evil": b"x", "/etc/evil": b"x", "result.json": b"{}"})
    assert fanin.contained(content) == {"result.json": b"{}"}


def test_two_members_that_are_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two names with one serial number: the second is refused. (Slots of one machine say that they are.)"""
    place = tmp_path / "root" / "sys/class/dmi/id"
    place.mkdir(parents=True)
    (place / "product_serial").write_text("SN42\n")
    monkeypatch.setenv("HOTLAP_AGENT_ROOT", str(tmp_path / "root"))
    launcher = LocalLauncher(2, sys.executable)
    members = [Member(name=name, index=index) for index, name in enumerate(("n1", "n2"))]
    named, began = folder.new_id()
    campaign = Campaign(id=named, hotlap="0", began=began, launcher="local", python=sys.executable, steps=[])
    kept = folder.create(tmp_path, campaign, members, {}, "local")
    with kept.held():
        conductor = controller.ClusterController(kept, launcher)
        conductor.open(members)
        refused = [link.gone for link in conductor.links.values() if link.gone]
        conductor.close()
    ((state, reason),) = refused
    assert state == "refused"
    assert "is the same machine as n" in reason
    assert "serial SN42" in reason


def test_a_campaign_reads_back_as_it_was_written() -> None:
    step = StepRecord(number=1, name="x", gather="run", argv=['a "b"', "c\n\x7f"], label="ü", files={"p.toml": 'x = "y"\n'}, wrap=["srun"])
    options = {"hosts": "n1,n2", "config": ""}
    campaign = Campaign(id="i", hotlap="0", began="b", launcher="ssh", options=options, python="python3", steps=[step])
    assert folder.parsed(folder.toml(campaign), "campaign.toml") == campaign
    assert json.loads(json.dumps(options)) == options
    assert hashlib.sha256(folder.toml(campaign).encode()).hexdigest() == hashlib.sha256(folder.toml(campaign).encode()).hexdigest()
