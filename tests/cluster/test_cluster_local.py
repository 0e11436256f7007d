"""Campaigns of local members, with real agents: what is kept when members, programs and controllers end in every way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hotlap.cli import main
from hotlap.cluster import agent, controller, folder
from hotlap.cluster.folder import CampaignFolder
from hotlap.core.show.document import Document
from hotlap.core.store import bundle as bundles

WAIT_S = 60.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own; no process of its campaigns is left at the end."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    for kept in (tmp_path / "home" / "runs").glob("*"):
        assert agent.marked(kept.name)[0] == []


def shell(script: str, *options: str, members: int = 3) -> int:
    return main(["cluster", "run", "--local", str(members), *options, "--", "sh", "-c", script])


def newest(home: Path) -> CampaignFolder:
    return folder.load(max((home / "runs").iterdir()))


def found(home: Path) -> dict[str, tuple[str, int]]:
    return {state.member: (state.state, state.attempt) for state in newest(home).states(time.time())}


def why(home: Path, member: str) -> str:
    return next(state.why for state in newest(home).states(time.time()) if state.member == member)


def test_a_command_on_three_members_is_one_table(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell("echo out {member}; echo err {index} of {members} >&2", "--rounds", "2") == 0
    out = capsys.readouterr().out
    assert "3 members (slots of one machine) by local: 3 measured" in out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("slot")] == ["slot00", "slot01", "slot02"]
    assert main(["cluster", "logs", "slot02"]) == 0
    assert "-- stdout\nout slot02\nout slot02\n-- stderr\nerr 2 of 3\n" in capsys.readouterr().out
    bundle = bundles.load(newest(home).path)
    assert Counter((one.device, one.round) for one in bundle.samples) == {(f"slot0{m}", r): 1 for m in range(3) for r in range(2)}


def test_json_of_verbs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each against the schema that `hotlap schema json` prints."""
    checked: list[tuple[str, set[str]]] = []
    for words, keys in [
        (["run", "--local", "2", "--json", "--", "true"], {"run", "cluster"}), (["status", "--json"], {"run", "cluster", "controlled_by"}),
        (["collect", "--json"], {"run", "cluster"}), (["resume", "--json"], {"run", "cluster"}),
        (["logs", "--all", "--json"], {"run", "logs"}), (["check", "--local", "1", "--json"], {"members"}),
        (["stop", "--json"], {"run", "ended", "processes", "unseen"}),
        (["run", "--local", "2", "--dry-run", "--json", "--", "true"], {"members", "steps", "python"}),
    ]:  # fmt: skip
        assert main(["cluster", *words]) in (0, 3)
        answer = json.loads(capsys.readouterr().out)
        assert keys <= answer.keys(), words
        checked.append((words[0], set(answer)))
        msgspec.convert(answer, Document)
    assert len(checked) == 8


def test_ends_of_every_kind_are_told_apart(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = (
        "case {index} in 0) echo fine;; 1) echo broken >&2; exit 7;; 2) sleep 60;; 3) kill -9 $PPID; sleep 60;; 4) kill -9 $$;;"
        " 5) kill -STOP $PPID; sleep 60;; esac"
    )
    assert shell(script, "--timeout", "3 s", "--silent", "1.5 s", members=6) == 3
    states = {member: state for member, (state, _) in found(home).items()}
    assert states == {"slot00": "measured", "slot01": "died", "slot02": "timed out", "slot03": "died", "slot04": "died", "slot05": "silent"}
    assert why(home, "slot01") == "exit status 7: broken"
    assert why(home, "slot03") == "its agent was killed by signal 9"
    assert why(home, "slot04") == "signal 9"
    out = capsys.readouterr().out
    assert "without a result" in out
    assert "exit status 7: broken" in out


def test_what_has_no_result_is_run_again_and_nothing_else(home: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert shell(f"echo {{member}} >> {tmp_path}/ran; test {{index}} != 1 || test -e {again}") == 3
    again.touch()
    assert main(["cluster", "resume"]) == 0
    assert found(home) == {"slot00": ("measured", 1), "slot01": ("measured", 2), "slot02": ("measured", 1)}
    assert Counter((tmp_path / "ran").read_text().split()) == {"slot00": 1, "slot01": 2, "slot02": 1}
    attempts = newest(home).path / "steps" / "0001-sh" / "slot01"
    assert sorted(path.name for path in attempts.iterdir()) == ["1", "2"]
    assert not (attempts / "1" / "done.json").exists()


def test_an_attempt_that_was_made_and_not_recorded_is_left_out(home: Path, tmp_path: Path) -> None:
    """A controller that is killed between the two leaves a folder without an event; what is in it is not overwritten."""
    assert shell(f"test {{index}} != 1 || test -e {tmp_path}/again") == 3
    (tmp_path / "again").touch()
    kept = newest(home)
    (kept.attempt(1, "slot01", 2)).mkdir()
    assert main(["cluster", "resume"]) == 0
    assert found(home)["slot01"] == ("measured", 3)
    assert list(kept.attempt(1, "slot01", 2).iterdir()) == []


@pytest.mark.parametrize("harm", ["cut", "changed", "missing", "no done"])
def test_a_bundle_that_is_not_what_its_digest_says_is_truncated(home: Path, harm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell("true") == 0
    attempt = newest(home).attempt(1, "slot01", 1)
    data = (attempt / "bundle.zip").read_bytes()
    if harm == "missing":
        (attempt / "bundle.zip").unlink()
    elif harm == "no done":
        (attempt / "done.json").unlink()
    else:
        (attempt / "bundle.zip").write_bytes(data[:-20] if harm == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    assert main(["cluster", "collect"]) == 3
    assert found(home)["slot01"] == ("truncated", 1)
    assert {one.device for one in bundles.load(newest(home).path).samples} == {"slot00", "slot02"}
    assert main(["cluster", "resume"]) == 0
    assert found(home)["slot01"] == ("measured", 2)


def started(home: Path, script: str, *options: str) -> subprocess.Popen[bytes]:
    """A controller in a process of its own, once each of its two members runs."""
    command = [sys.executable, "-m", "hotlap", "cluster", "run", "--local", "2", *options, "--", "sh", "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        kept = [path for path in (home / "runs").glob("*") if not path.name.startswith(".")] if (home / "runs").is_dir() else []
        if kept and len(list(kept[0].glob("steps/*/*/1/started.json"))) == 2:
            return process
        time.sleep(0.02)
    raise AssertionError("it did not begin")


def gone(home: Path) -> bool:
    deadline = time.monotonic() + WAIT_S
    while agent.marked(newest(home).campaign.id)[0] and time.monotonic() < deadline:
        time.sleep(0.05)
    return not agent.marked(newest(home).campaign.id)[0]


def test_a_second_controller_is_refused_in_one_line_and_stop_ends_the_first(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = started(home, "sleep 60")
    capsys.readouterr()
    assert main(["cluster", "resume"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert f"is controlled by process {process.pid} of " in line
    assert main(["cluster", "status"]) == 3
    assert f"controlled by process {process.pid}" in capsys.readouterr().out
    assert main(["cluster", "stop"]) == 0
    assert process.wait(WAIT_S) == 130
    process.communicate()
    assert gone(home)
    assert {state for state, _ in found(home).values()} == {"died"}


def test_ctrl_c_keeps_what_came(home: Path) -> None:
    process = started(home, "test {index} = 0 || sleep 60")
    deadline = time.monotonic() + WAIT_S
    while found(home)["slot00"][0] != "measured" and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert "hotlap cluster resume" in err.decode()
    assert {name: state for name, (state, _) in found(home).items()} == {"slot00": "measured", "slot01": "died"}
    assert b"slot00" in out


def test_children_that_leave_their_session_end_too(home: Path) -> None:
    assert shell("setsid sleep 300 > /dev/null 2>&1 & true", members=1) == 0
    assert gone(home)


def test_a_campaign_is_a_run(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "small.toml"
    plan.write_text('schema = 1\nname = "small"\n[measure]\nrounds = 6\nrounds_max = 6\nround_time = "0.1 s"\n[[case]]\nworkload = "chase"\nsize = "1 MiB"\n')
    for label in ("a", "b"):
        options = ["--local", "9", "--target", "simulated:h200-sxm?noise=0.01&seed={index}", "--label", f"side={label}"]
        assert main(["cluster", "run", str(plan), *options]) == 0
    capsys.readouterr()
    assert main(["show", "side=a"]) == 0
    assert "9 members (slots of one machine) by local: 9 measured" in capsys.readouterr().out
    assert main(["list", "kind=campaign"]) == 0
    assert capsys.readouterr().out.count("small") == 2
    assert main(["compare", "side=a", "side=b", "--json"]) == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    assert len(case["more"]["devices"]) == 9
    assert main(["gate", "side=a", "--against", "fleet"]) == 0
    assert "9 devices (h200-sxm (simulated))" in capsys.readouterr().out
    assert main(["report", "side=a", "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "9 members (slots of one machine) by local: 9 measured" in page
    assert "What stands out" in page
    assert "Members of the campaign" in page
    assert "What to do" not in page  # which is of a single device


def test_facts_of_members_are_audited_as_a_fleet(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "run", "node", "inspect", "--local", "3"]) == 0
    capsys.readouterr()
    main(["node", "audit", "--fleet", newest(home).campaign.id, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["nodes"] == ["slot00", "slot01", "slot02"]


def test_a_campaign_can_be_zipped_and_rebuilt_from_its_parts(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell("true") == 0
    kept = newest(home).path
    with zipfile.ZipFile(tmp_path / "mailed.zip", "w") as archive:
        for path in sorted(kept.rglob("*")):
            archive.write(path, path.relative_to(kept.parent))
    capsys.readouterr()
    assert main(["show", str(tmp_path / "mailed.zip")]) == 0
    assert "3 measured" in capsys.readouterr().out
    before = (kept / "samples.jsonl").read_bytes()
    (kept / "samples.jsonl").write_bytes(b"")
    assert main(["cluster", "collect"]) == 0
    assert (kept / "samples.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--", "true"], "which members?"), (["run", "--local", "2"], "what is to be run?"),
        (["run", "--local", "2", "--hosts", "n1", "--", "true"], "give one of them"), (["run", "--local", "0", "--", "true"], "from 1 to"),
        (["run", "--hosts", "", "--", "true"], "names no host"), (["run", "--hosts", "a,a", "--", "true"], "stands twice"),
        (["run", "--hosts", "n[1-", "--", "true"], "lacks a ]"), (["run", "sleep", "--local", "2"], "a command stands after --"),
        (["run", "--local", "2", "--timeout", "-1 s", "--", "true"], "--timeout is a time above 0"),
        (["run", "--local", "2", "--rounds", "0", "--", "true"], "--rounds is a number"),
        (["run", "--local", "2", "--fanout", "0", "--", "true"], "--fanout is a number"), (["logs", "n1"], "no campaign"),
        (["status"], "no campaign is kept yet"),
        (["run", "--local", "2", "--wheels", "/nowhere", "--", "true"], "it takes a folder of wheels"),
        (["run", "--local", "2", "--wheels", "/proc/self/fd", "--", "true"], "no wheel is in it"),
        (["run", "--local", "2", "--wrap", "'", "--", "true"], "--wrap ': no closing quotation"),
        (["run", "--local", "2", "--python", "/nowhere", "--", "true"], "--python /nowhere: no such program"),
        (["run", "--hosts", "n1", "--ssh-config", "/nowhere", "--", "true"], "no file"),
        (["run", "--local", "2", "--ssh", "asyncssh", "--", "true"], "--ssh goes with --hosts"), (["resume", "nothing"], "no run"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_a_line(words: list[str], said: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", *words]) == 2
    assert not (home / "runs").exists()
    lines = capsys.readouterr().err.splitlines()
    assert said in lines[-1]
    assert "Traceback" not in "".join(lines)


@pytest.mark.parametrize(("seam", "value", "way"), [("", "", "folder"), ("PROBE", "unseen", "pipe"), ("SHARED", "no/folder", "pipe")])
def test_a_large_bundle_comes_by_the_shared_folder_where_the_member_sees_and_can_write_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, seam: str, value: str, way: str
) -> None:
    if seam:
        monkeypatch.setattr(controller, seam, value)
    assert shell("mkdir -p $HOTLAP_HOME/runs/r; test {index} = 1 || head -c 2000000 /dev/urandom > $HOTLAP_HOME/runs/r/big", members=2) == 0
    done = [json.loads((newest(home).attempt(1, f"slot0{n}", 1) / "done.json").read_bytes()) for n in range(2)]
    assert [(each["by"], each["size"] > 2_000_000) for each in done] == [(way, True), ("pipe", False)]
    assert all(newest(home).result(1, f"slot0{n}", 1) for n in range(2))
    assert not list(home.rglob("shared.zip"))
    assert not list(home.rglob("probe"))


def test_dry_run_runs_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "run", "quick", "--hosts", "n[01-16]", "--wrap", "nice -n 5", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "16 members by ssh" in out
    assert "nice -n 5 python3 -m hotlap run ./quick.toml" in out
    assert not (home / "runs").exists()


def test_members_that_do_not_fit_are_refused_with_the_reason(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        for gpu in range(8 - number):
            path = tmp_path / f"slot0{number}" / "proc/driver/nvidia/gpus" / f"{gpu}" / "information"
            path.parent.mkdir(parents=True)
            path.write_text(f"Model: \t H200\nGPU UUID:   \t GPU-{number}{gpu}\n")
    monkeypatch.setenv("HOTLAP_AGENT_ROOT", f"{tmp_path}/{{member}}")
    assert main(["cluster", "run", "--local", "2", "--gpus", "8", "--", "true"]) == 3
    assert {name: state for name, (state, _) in found(home).items()} == {"slot00": "measured", "slot01": "refused"}
    assert why(home, "slot01") == "7 of 8 GPUs are there"


def test_few_members_are_not_judged_and_nothing_is_promised_of_them(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell("true", members=2) == 0
    out = capsys.readouterr().out
    assert "2 devices, 5 are needed" in out
    assert "--model" not in out
    assert "false alarms" not in out


def test_the_environment_tells_a_program_who_it_is(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell("echo $HOTLAP_MEMBER $HOTLAP_MEMBER_INDEX $HOTLAP_MEMBERS", members=2) == 0
    main(["cluster", "logs", "slot01"])
    assert "slot01 1 2" in capsys.readouterr().out
    assert os.environ.get(agent.MARK) is None


def test_no_member_waits_for_the_disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of attempts are not synced, one by one, while others wait: a step of many members would take as long as a busy disk."""
    synced, real = [], os.fsync

    def sync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    assert shell("true") == 0
    assert synced
    assert [path for path in synced if "/steps/" in path] == []
