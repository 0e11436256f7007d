"""A controller that is killed: its members' programs go on to their end, whose results `resume` takes; nothing runs twice, and `stop` ends all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from hotlap.cli import main
from hotlap.cluster import agent, folder, member_left
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.record import AttemptDone

WAIT_S = 60.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "own").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "own"))
    return tmp_path / "home"


def newest(home: Path) -> CampaignFolder:
    return folder.load(max((home / "runs").iterdir()))


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def states(home: Path) -> dict[str, tuple[str, int]]:
    return {state.member: (state.state, state.attempt) for state in newest(home).states(time.time())}


def killed(home: Path, script: str, *options: str) -> None:
    """A controller of two members is killed while slot01's program runs; slot00's has ended, and its agent knows that its result was taken."""
    command = [sys.executable, "-m", "hotlap", "cluster", "run", "--local", "2", *options, "--", "sh", "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ran = home.parent / "ran"
    until(lambda: ran.exists() and len(ran.read_text().split()) == 2 and states(home)["slot00"][0] == "measured")
    until(lambda: not any([*place.glob(f"*/{member_left.ENDED}")] for place in folders(home)))
    process.kill()
    process.wait()


def held(home: Path, then: str = "echo after") -> str:
    return f"echo {{member}} >> {home.parent}/ran; echo before; test {{index}} = 0 || while ! test -e {home.parent}/go; do sleep 0.02; done; {then}"


def folders(home: Path) -> list[Path]:
    return list((home.parent / "own").glob("hotlap-agent-*"))


def handed_over(home: Path) -> None:
    """slot01's program ran once, and all that it left is here."""
    assert states(home) == {"slot00": ("measured", 1), "slot01": ("measured", 2)}
    assert sorted((home.parent / "ran").read_text().split()) == ["slot00", "slot01"]
    kept = newest(home)
    assert (kept.attempt(1, "slot01", 2) / "stdout").read_text() == "before\nafter\n"
    assert msgspec.json.decode((kept.attempt(1, "slot01", 2) / "done.json").read_bytes(), type=AttemptDone).by == "earlier"
    until(lambda: not folders(home) and not agent.marked(kept.campaign.id)[0])


def ends(home: Path) -> None:
    """The programs go on to their end, and so do their agents."""
    (home.parent / "go").touch()
    until(lambda: not any(map(alive, folders(home))))


def waiting(home: Path) -> subprocess.Popen[bytes]:
    """A resume that waits for the program of the second member."""
    resuming = subprocess.Popen([sys.executable, "-m", "hotlap", "cluster", "resume"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    until(lambda: states(home)["slot01"] == ("running", 2))
    return resuming


@pytest.mark.slow("two agents, and a campaign that goes on")
def test_a_program_that_ends_without_its_controller_is_handed_over(home: Path) -> None:
    killed(home, held(home))
    (home.parent / "go").touch()
    until(lambda: not agent.marked(newest(home).campaign.id)[0] and not any(map(alive, folders(home))))
    assert [path.name for place in folders(home) for path in place.rglob(member_left.ENDED)] == [member_left.ENDED]
    assert main(["cluster", "resume"]) == 0
    handed_over(home)


@pytest.mark.slow("two agents, and a campaign that goes on")
def test_a_program_that_still_runs_is_waited_for(home: Path) -> None:
    killed(home, held(home))
    resuming = waiting(home)
    (home.parent / "go").touch()
    _, errors = resuming.communicate(timeout=WAIT_S)
    assert resuming.returncode == 0, errors
    handed_over(home)


@pytest.mark.slow("two agents, and those that fetch")
def test_collect_fetches_what_has_ended_and_leaves_alone_what_runs(home: Path) -> None:
    killed(home, held(home))
    assert main(["cluster", "collect"]) == 3
    assert states(home)["slot01"] == ("died", 1)
    assert len(agent.marked(newest(home).campaign.id)[0]) > 0
    ends(home)
    assert main(["cluster", "resume"]) == 0
    handed_over(home)


@pytest.mark.slow("two agents, and those that fetch")
def test_collect_takes_what_has_ended_by_then(home: Path) -> None:
    killed(home, held(home))
    ends(home)
    assert main(["cluster", "collect"]) == 0
    assert states(home) == {"slot00": ("measured", 1), "slot01": ("measured", 2)}
    assert main(["cluster", "stop"]) == 0
    handed_over(home)


@pytest.mark.slow("two agents, and a campaign that goes on")
def test_ctrl_c_while_it_is_waited_for_ends_it(home: Path) -> None:
    killed(home, held(home))
    resuming = waiting(home)
    resuming.send_signal(signal.SIGINT)
    assert resuming.wait(WAIT_S) == 130
    until(lambda: not folders(home) and not agent.marked(newest(home).campaign.id)[0])
    assert states(home)["slot01"] == ("died", 2)


@pytest.mark.slow("two agents")
def test_stop_ends_what_goes_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed(home, held(home))
    assert main(["cluster", "status"]) == 3
    assert "what still runs on members is taken by cluster resume" in capsys.readouterr().out
    assert main(["cluster", "stop"]) == 0
    assert "nobody controlled the campaign" in capsys.readouterr().out
    until(lambda: not folders(home) and not agent.marked(newest(home).campaign.id)[0])


@pytest.mark.slow("two agents, and a campaign that goes on")
def test_its_own_time_still_ends_it(home: Path) -> None:
    killed(home, held(home), "--timeout", "1 s")
    until(lambda: not agent.marked(newest(home).campaign.id)[0])
    assert main(["cluster", "resume"]) == 3
    assert states(home)["slot01"] == ("timed out", 2)
    assert len((home.parent / "ran").read_text().split()) == 2


@pytest.mark.slow("two agents, and a campaign that goes on")
def test_an_agent_that_is_stopped_is_ended_and_the_step_runs_again(home: Path) -> None:
    killed(home, f"echo {{member}} >> {home.parent}/ran; test {{index}} = 0 || test -e {home.parent}/go || {{ kill -STOP $PPID; sleep 600; }}")
    (home.parent / "go").touch()
    assert main(["cluster", "resume"]) == 0
    assert states(home) == {"slot00": ("measured", 1), "slot01": ("measured", 2)}
    until(lambda: not folders(home) and not agent.marked(newest(home).campaign.id)[0])


def alive(place: Path) -> bool:
    return member_left.began_as(msgspec.json.decode((place / member_left.NOTE).read_bytes()))


def test_a_strangers_folder_is_left_alone(home: Path, tmp_path: Path) -> None:
    """Neither a link, nor one of another campaign, nor one whose process number now belongs to another process."""
    for name, note in {
        "other": {"mark": "another/slot00", "pid": os.getppid(), "began": member_left.began(os.getppid())},
        "own": {"mark": "this/slot00", "pid": os.getppid(), "began": "1"},
        "odd": {"mark": 1, "pid": "x"},
    }.items():
        place = tmp_path / "own" / f"hotlap-agent-{name}"
        place.mkdir()
        (place / member_left.NOTE).write_bytes(msgspec.json.encode(note))
    (tmp_path / "own" / "hotlap-agent-link").symlink_to(tmp_path / "own" / "hotlap-agent-own")
    assert member_left.take_over("this", False) == (0, False)
    assert sorted(place.name for place in folders(home)) == ["hotlap-agent-link", "hotlap-agent-odd", "hotlap-agent-other"]


@pytest.mark.slow("two agents, and a campaign that goes on")
def test_files_of_the_program_are_not_taken_for_the_agents(home: Path) -> None:
    killed(home, "echo {} > ended.json; echo wrong > stdout; " + held(home))
    (home.parent / "go").touch()
    assert main(["cluster", "resume"]) == 0
    handed_over(home)
