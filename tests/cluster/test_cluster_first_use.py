"""What one who tries campaigns for the first time meets: words that begin with a dash, options that no step takes, verdicts of members,
what goes on next, and one screen for many members."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.cluster import cli_run, fanin, folder, live, receiving, show
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch.kubernetes import PodLauncher
from hotlap.cluster.record import Campaign, Member, MemberEvent, MemberState, StepRecord
from hotlap.core.errors import InputError

Answer = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def newest(home: Path) -> CampaignFolder:
    return folder.load(max(path for path in (home / "runs").iterdir() if not path.name.startswith(".")))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--slurm", "--jobid=77"], "the nodes of job 77"), (["--slurm=--jobid=77"], "the nodes of job 77"),
        (["--slurm", "-N2"], "--no-kill -N2"), (["--local", "1", "--wrap", "--foo"], "sh on slot00: --foo sh -c -N2"),
    ],
)  # fmt: skip
def test_words_of_another_program_may_begin_with_a_dash(words: list[str], text: str, cluster: Answer) -> None:
    code, out, _ = cluster("run", *words, "--dry-run", "--", "sh", "-c", "-N2")
    assert code == 0
    assert text in out


def test_the_target_reaches_stress_and_no_option_is_dropped(cluster: Answer) -> None:
    target = ["--target", "simulated:h200-sxm"]
    assert "hotlap stress --target simulated:h200-sxm" in cluster("run", "stress", "--local", "1", *target, "--dry-run")[1]
    for words, text in [
        (["node inspect", *target], "--target goes with plans and stress, not with inspect"),
        (["stress", "--rounds", "3"], "--rounds goes with plans, not with stress"),
        (["stress", "--budget", "1 h"], "--budget goes with plans, not with stress"),
    ]:
        code, _, err = cluster("run", *words, "--local", "1", "--dry-run")
        assert code == 2
        assert text in err


def test_two_ways_to_members_are_refused_as_such(cluster: Answer) -> None:
    code, _, err = cluster("run", "--hosts", "n01", "--local", "3", "--", "true")
    assert (code, "--hosts and --local are given: give one of them" in err) == (2, True)


def test_dry_runs_print_the_job_the_manifest_and_gangs(cluster: Answer, tmp_path: Path) -> None:
    job = cluster("run", "--slurm", "-N 2", "--dry-run", "--", "true")[1]
    assert "while [ $idle -lt 10 ]; do" in job
    assert "agent   srun --jobid=JOB --nodelist=NODE --overlap" in job
    pods = ["--kubernetes", str(tmp_path / "job.yaml"), "--pods", "2", "--image", "i", "--results", "claim"]
    manifest = cluster("run", *pods, "--dry-run", "--", "true")[1]
    assert "agent   python3 -I -S /hotlap/member_pod.py" in manifest
    assert 'completionMode: "Indexed"' in manifest
    sizes = [int(size.replace(",", "")) for size in re.findall(r'^  [a-z_]+\.(?:py|json): "([0-9,]+) bytes"$', manifest, re.MULTILINE)]
    assert f"files   {len(sizes)} files of {sum(sizes):,} bytes in the manifest's ConfigMap" in manifest
    assert not (tmp_path / "job.yaml").exists()
    assert "gang 1  slot02, slot03" in cluster("run", "--local", "4", "--gang", "2", "--dry-run", "--", "true")[1]


def test_earlier_attempts_have_the_end_they_had(cluster: Answer) -> None:
    assert cluster("run", "--local", "1", "--", "sh", "-c", "exit 7")[0] == 3
    assert cluster("resume")[0] == 3
    out = cluster("logs", "--all")[1]
    assert "attempt 1 · died: exit status 7" in out
    assert "earlier" not in out


def test_ctrl_c_while_results_are_shown_says_how_to_go_on(home: Path, cluster: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_run, "answered", interrupted)
    code, _, err = cluster("run", "--local", "1", "--", "true")
    assert code == 130
    assert f"hotlap cluster resume {newest(home).campaign.id} goes on" in err


def test_resume_of_what_is_finished_says_so_and_takes_another_python(home: Path, cluster: Answer) -> None:
    assert cluster("run", "--local", "1", "--", "true")[0] == 0
    code, out, err = cluster("resume")
    assert (code, out, "nothing is left to run" in err) == (0, "", True)
    assert cluster("resume", "--json")[0] == 0
    assert cluster("run", "--local", "1", "--", "false")[0] == 3
    assert cluster("resume", "--python", "/no/python")[0] == 2
    assert cluster("resume", "--python", sys.executable)[0] == 3


def test_a_copy_goes_on_by_its_own_place_and_without_its_run(home: Path, tmp_path: Path, cluster: Answer) -> None:
    assert cluster("run", "--local", "1", "--", "false")[0] == 3
    copy = tmp_path / "copy"
    shutil.copytree(newest(home).path, copy)
    (copy / "run.json").unlink()
    code, out, err = cluster("collect", str(copy))
    assert (code, "made anew" in err) == (3, True)
    assert f"hotlap cluster resume {copy} " in out
    assert json.loads((copy / "run.json").read_bytes())["kind"] == "campaign"


def state(member: str, why: str = "", **more: Any) -> MemberState:
    return MemberState(member=member, step=1, state="measured", why=why, **more)


def shown(states: list[MemberState], *argv: str) -> show.CampaignShown:
    step = StepRecord(number=1, name="stress", gather="run", argv=list(argv), label="")
    campaign = Campaign(id="C", hotlap="0", began="", launcher="local", python="python3", steps=[step])
    members = [Member(name=one.member, index=number) for number, one in enumerate(states)]
    return show.CampaignShown(campaign, members, states, None)


def test_verdicts_of_members_are_named_with_their_reason() -> None:
    failed = shown([state("a", code=0), state("b", "FAIL  2 errors in products", code=1)], "hotlap", "stress")
    lines = show.lines(failed, 100, False)
    assert "FAIL  1 of 2 verdicts of members" in lines
    assert "  b: FAIL  2 errors in products" in lines
    assert "  hotlap cluster logs --campaign C b shows all that it printed" in lines
    assert any("measured, a verdict failed" in line for line in show.status(failed, 100, False))
    assert show.lines(shown([state("a", code=0)], "hotlap", "stress"), 100, False)[-1] == "PASS  1 of 1 verdict of members"
    assert len(show.lines(shown([state("a", code=0)], "true"), 100, False)) == 1
    lost = MemberState(member="b", step=1, state="died", why="exit status 3")
    assert "PASS" not in " ".join(show.lines(shown([state("a", code=0), lost], "hotlap", "stress"), 100, False))


def test_the_reason_of_a_verdict_is_what_was_printed_last(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text("GEMM 1\n\nFAIL  2 errors in\n      products\nkept as 2026\n")
    attempt = receiving.Attempt(1, 1, tmp_path)
    assert attempt.verdict() == "FAIL 2 errors in products"
    (tmp_path / "stdout").unlink()
    assert attempt.verdict() == ""


def test_what_stop_ends_is_recorded(home: Path, cluster: Answer) -> None:
    assert cluster("run", "--local", "2", "--", "true")[0] == 0
    kept = newest(home)
    with kept.held():
        for name in ("slot00", "slot01"):
            kept.append(MemberEvent(time_s=1.0, member=name, step=1, attempt=2, was="measured", to="truncated"))
            kept.append(MemberEvent(time_s=2.0, member=name, step=1, attempt=2, to="running"))
        fanin.reconcile(kept, "stop", "ended by hotlap cluster stop", {"slot01"})
    assert [(one.state, one.why) for one in kept.states(2.0)] == [("died", "ended by hotlap cluster stop"), ("running", "")]
    assert cluster("stop")[0] in (0, 3)
    assert [one.state for one in kept.states(3.0)] == ["died", "died"]


class Terminal:
    """Standard error that is a file."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        """Nothing waits."""


def test_who_does_not_answer_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: now[0]))
    out = Terminal()
    view = live.ClusterView(3, 3, {1: "sh"}, out)  # type: ignore[arg-type]
    for passed_s in (0.0, 2.0, 2.0, 2.0):
        now[0] += passed_s
        view.draw(["n03"])
    assert out.text == "hotlap: waits for the agents of 1 member: n03\n"


def test_records_that_are_not_there_are_named(tmp_path: Path) -> None:
    launcher = PodLauncher(2)
    with pytest.raises(InputError, match="FOLDER"):
        launcher.absent(launcher.members())
    launcher.place = tmp_path
    (tmp_path / "1-pod.frames").write_bytes(b"")
    assert [member.name for member in launcher.absent(launcher.members())] == ["pod00"]


def test_many_members_are_one_screen(cluster: Answer) -> None:
    code, out, _ = cluster("run", "--local", "9", "--rounds", "2", "--", "true")
    assert code == 0
    assert not [line for line in out.splitlines() if line.startswith("slot0") and "outlier" not in line and "ms" in line.split()]
    assert "--format csv" in out
    assert len(out.splitlines()) <= 24


def test_the_next_command_fits_the_launcher(home: Path, cluster: Answer) -> None:
    assert cluster("run", "--local", "1", "--", "false")[0] == 3
    kept = newest(home)
    died = [MemberState(member=name, step=1, state="died", why="exit status 1") for name in "ab"]
    assert cli_run.next_command(kept, shown(died, "false")).startswith("correct what is wrong; hotlap cluster resume")
    one = shown([MemberState(member="a", step=1, state="refused", why="no wheel")], "hotlap", "run")
    assert cli_run.next_command(kept, one) == f"hotlap cluster resume {kept.campaign.id} (takes another --python PATH, --wheels FOLDER)"
    pods = CampaignFolder(kept.path, Campaign(id="C", hotlap="0", began="", launcher="kubernetes", python="python3", steps=[]))
    assert cli_run.next_command(pods, one).endswith("hotlap cluster collect C --from FOLDER")
