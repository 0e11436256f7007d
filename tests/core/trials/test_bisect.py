"""The search for the commit that changed a case: what it does in a real repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.record import Case, Device
from hotlap.core.show.document import Document
from hotlap.core.store import locks
from hotlap.core.trials import bisect, measured
from hotlap.core.work import find

# The state of a small generator, with the count of executions, is in a file, so that every run of a test is the same. Six numbers from
# 0 to 999 are summed: near normal, mean 2997, standard deviation 707, which is 0.7 % of the level in one execution.
BENCH = """
read x n < "$NOISE"
s=0
for i in 1 2 3 4 5 6; do x=$(( (x * 1103515245 + 12345) % 2147483648 )); s=$(( s + x / 65536 % 1000 )); done
echo "$x $((n + 1))" > "$NOISE"
value=$(( level + level * (s - 2997) / 105000 ))
read k < .k 2> /dev/null || k=0
echo $((k + 1)) > .k
[ "$outlier" = yes ] && [ $k -eq 1 ] && value=$((value * 3))
echo "value: $value"
"""
PLAN = """
schema = 1
[measure]
round_time = "1 ms"
[[case]]
workload = "command"
argv = ["sh", "bench.sh"]
environment = ["NOISE={noise}"]
read = "pattern"
expression = 'value: (\\d+)'
unit = "ticks"
"""
BUILD = "sh build.sh"


def git(repo: Path, *words: str) -> str:
    who = ["-c", "user.name=Ann Example", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", "-C", str(repo), *who, *words], check=True, capture_output=True, text=True).stdout.strip()


class Project:
    """A repository whose commits c0, c1 … print numbers of a known level."""

    def __init__(self, folder: Path) -> None:
        self.repo, self.noise, self.plan = folder / "repo", folder / "noise", folder / "p.toml"
        if shutil.which("git") is None:
            pytest.skip("git is not installed")
        self.repo.mkdir(parents=True)
        git(self.repo, "init", "-q")
        self.noise.write_text("20261121 0\n")
        self.plan.write_text(PLAN.format(noise=self.noise))
        self.commits: list[str] = []

    def commit(self, level: int, *, subject: str = "", builds: bool = True, outlier: bool = False) -> str:
        number = len(self.commits)
        (self.repo / "bench.sh").write_text(f"# {number}\nlevel={level} outlier={'yes' if outlier else 'no'}\n{BENCH}")
        (self.repo / "build.sh").write_text(f"echo building\nexit {0 if builds else 7}\n")
        git(self.repo, "add", "--all")
        git(self.repo, "commit", "-q", "-m", subject or f"c{number}")
        self.commits.append(git(self.repo, "rev-parse", "HEAD"))
        return self.commits[-1]

    def words(self, *more: str) -> list[str]:
        return ["history", "bisect", "--good", self.commits[0], "--bad", "HEAD", "--plan", str(self.plan), "--repo", str(self.repo), "--build", BUILD, *more]

    @property
    def executions(self) -> int:
        return int(self.noise.read_text().split()[1])

    @property
    def trees(self) -> int:
        return len(git(self.repo, "worktree", "list").splitlines()) - 1


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "110")
    return tmp_path / "home"


CULPRIT = 9


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """15 commits after c0, +5 % from c9 on; c7 does not build, the first round of c11 is three times as large. Halving meets both."""
    made = Project(tmp_path)
    for number in range(16):
        subject = "Round the other way" if number == CULPRIT else ""
        made.commit(105000 if number >= CULPRIT else 100000, subject=subject, builds=number != 7, outlier=number == 11)
    return made


@pytest.mark.slow("searches a Git repository")
def test_a_step_is_found_in_a_repository(project: Project, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project.repo / "bench.sh").write_text("the user's own copy is dirty, and stays so")
    assert main(project.words()) == 0
    captured = capsys.readouterr()
    assert f"first bad commit  {project.commits[CULPRIT][:10]}  Round the other way  (Ann Example, " in captured.out
    assert re.search(r"change +\+[45]\.\d % \(\+[34].* to \+[567].*\), worse; 8 pairs, against " + project.commits[CULPRIT - 1][:10], captured.out)
    assert f"skipped           {project.commits[7][:10]}: it does not build: status 7; log {home}" in captured.out.replace("\n" + 18 * " ", " ")
    assert "like bad after" in captured.err
    assert project.trees == 0
    assert (project.repo / "bench.sh").read_text().startswith("the user's")
    assert next(home.glob("bisect/*/logs/*.log")).read_text() == "building\n"


@pytest.mark.slow("searches a Git repository")
def test_a_finished_search_is_shown_again_without_measuring(project: Project, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(project.words("--json")) == 0
    first, count = json.loads(capsys.readouterr().out), project.executions
    assert main(["history", "bisect", "--resume", "latest", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert project.executions == count
    outcome = first["outcome"]
    assert msgspec.convert(first, Document).exit_code == 0
    assert (outcome["answer"], outcome["candidates"][0]["parents"]) == ("found", [project.commits[CULPRIT - 1]])
    assert outcome["measurements"] < 100
    assert sum(one["value"] > 250000 for one in kept(home) if one["commit"] == project.commits[11] and one["value"]) == 1
    assert {step["commit"]: (step["like"], step["blocks"]) for step in outcome["steps"]}[project.commits[11]] == ("bad", 3)


@pytest.mark.slow("searches a Git repository")
def test_no_difference_in_a_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Project(tmp_path)
    for _ in range(3):
        made.commit(100000)
    assert main(made.words()) == 3
    assert "good and bad do not differ by more than 2 %: " in capsys.readouterr().out
    assert made.trees == 0


def start(project: Project, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "hotlap", *project.words(*more)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kept(home: Path) -> list[dict[str, object]]:
    """Whole lines only: another process may be writing the last."""
    found = list(home.glob("bisect/*/measurements.jsonl"))
    return [json.loads(line) for line in found[0].read_bytes().splitlines(keepends=True) if line.endswith(b"\n")] if found else []


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 300  # bounds a hang, and nothing else
    while not what():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.slow("searches a Git repository, in processes of their own")
def test_a_killed_search_goes_on_without_losing_a_measurement(project: Project, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = start(project)
    wait_for(lambda: len(kept(home)) >= 20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = kept(home)
    assert project.trees > 0
    assert main(["history", "bisect", "--resume", "latest", "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)["outcome"]
    assert outcome["candidates"][0]["commit"] == project.commits[CULPRIT]
    assert kept(home)[: len(before)] == before
    assert outcome["measurements"] == len(kept(home)) > len(before)
    assert project.trees == 0


@pytest.mark.slow("searches a Git repository, in processes of their own")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_search_leaves_no_worktree(project: Project, home: Path, number: int) -> None:
    process = start(project)
    wait_for(lambda: len(kept(home)) >= 3)
    process.send_signal(number)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert re.search(r"everything measured is kept: hotlap history bisect --resume 2\w+-\w+", err)
    assert project.trees == 0
    assert len(kept(home)) >= 3


@pytest.mark.slow("searches a Git repository, in processes of their own")
def test_a_build_ends_with_the_search(project: Project, home: Path) -> None:
    mark = home.parent / "pid"
    process = start(project, "--build", f"sleep 60 & echo $! > {mark}.new && mv {mark}.new {mark}; wait")
    wait_for(mark.exists)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130
    stat = Path(f"/proc/{mark.read_text().strip()}/stat")
    wait_for(lambda: not stat.exists() or ") Z " in stat.read_text())  # fails where the build goes on
    assert project.trees == 0


@pytest.mark.slow("searches a Git repository, in processes of their own")
def test_every_sample_is_kept_and_a_torn_last_line_is_measured_again(project: Project, home: Path) -> None:
    assert main(project.words()) == 0
    path = next(home.glob("bisect/*/measurements.jsonl"))
    before = kept(home)
    whole = [each for each in before if each["built"] and each["samples"]]  # on a busy machine one may have failed
    assert len(whole) > 20
    for one in whole:
        assert one["value"] == np.median(one["samples"]["values"])  # type: ignore[index, call-overload]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:20]) + lines[20][:-5])
    count = project.executions
    assert main(["history", "bisect", "--resume", "latest"]) in (0, 3)  # as its new numbers say
    assert kept(home)[:20] == before[:20]
    assert len(kept(home)) > 20
    assert project.executions > count


@pytest.mark.slow("searches a Git repository")
def test_the_device_of_a_target_is_held_meanwhile(
    project: Project, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    device = Device(target="opencl", index=0, name="a GPU", uuid="GPU-1", kind="gpu")
    monkeypatch.setattr(bisect.targets, "find", lambda spec: [device])
    home.mkdir()
    with locks.hold([device]):
        assert main(project.words("--target", "opencl")) == 3
    assert "GPU-1" in capsys.readouterr().err
    assert main(project.words("--target", "opencl", "--budget", "1 ms")) == 3
    assert "the budget was used up" in capsys.readouterr().out
    assert locks.owner(locks.path(device)) is not None


def test_one_process_at_one_search(project: Project, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(project.words("--budget", "1 ms")) == 3
    assert "the budget was used up before good and bad could be told apart" in capsys.readouterr().out
    with open(next(home.glob("bisect/*/lock")), "a+b") as file:
        assert locks.take(file)
        assert main(["history", "bisect", "--resume", "latest"]) == 3
    assert "another process is at the search" in capsys.readouterr().err


@pytest.mark.slow("searches a Git repository")
def test_good_that_does_not_build_is_named(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(project.words("--build", "false")) == 2
    assert f"good {project.commits[0][:10]} cannot be measured: it does not build: status 1; log " in capsys.readouterr().err
    assert project.trees == 0


@pytest.mark.slow("searches a Git repository")
def test_a_merge_is_named_with_how_to_search_what_it_brought(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Project(tmp_path)
    made.commit(100000)
    git(made.repo, "checkout", "-q", "-b", "side")
    made.commit(120000)
    git(made.repo, "checkout", "-q", "main")
    git(made.repo, "commit", "-q", "--allow-empty", "-m", "on main")
    git(made.repo, "merge", "-q", "--no-ff", "side", "-m", "bring it in")
    assert main(made.words()) == 0
    out = capsys.readouterr().out
    assert "bring it in" in out
    assert re.search(r"^merge +it brought others in; search those with --good \$\(git merge-base .* --bad ", out, re.MULTILINE | re.DOTALL)


@pytest.mark.slow("searches a Git repository")
def test_good_from_the_side_is_searched_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Project(tmp_path)
    made.commit(100000)
    git(made.repo, "checkout", "-q", "-b", "side")
    git(made.repo, "commit", "-q", "--allow-empty", "-m", "on the side")
    good = git(made.repo, "rev-parse", "HEAD")
    git(made.repo, "checkout", "-q", "main")
    culprit = made.commit(120000)
    git(made.repo, "merge", "-q", "--no-ff", "side", "-m", "bring it in")
    assert main([*made.words()[:3], good, *made.words()[4:]]) == 0
    out = capsys.readouterr().out
    assert f"first bad commit  {culprit[:10]}" in out
    assert "in one line" in " ".join(out.split())


# ---------------------------------------------------------------- a usage error


@pytest.mark.slow("searches a Git repository")
def test_bad_input_gets_one_line(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none.toml").write_text('schema = 1\n[[case]]\nworkload = "gemm"\n')
    (tmp_path / "two.toml").write_text('schema = 1\n[[case]]\nworkload = "command"\nargv = ["true"]\n[[case]]\nworkload = "command"\nargv = ["false"]\n')
    git(project.repo, "checkout", "-q", "-b", "other", project.commits[2])
    other = project.commit(1)
    c, plan, repo = project.commits, str(project.plan), str(project.repo)
    for good, bad, more, message in (
        (c[0], c[5], ["--plan", plan, "--repo", str(tmp_path)], "not in a git repository"), (c[0], c[5], ["--plan", plan, "--repo", "/no"], "no folder '/no'"),
        ("v9", c[5], ["--plan", plan, "--repo", repo], "--good: there is no revision 'v9'"),
        (c[0], "HEAD:x", ["--plan", plan, "--repo", repo], "--bad: there is no revision 'HEAD:x'"),
        (c[0], "", ["--plan", plan, "--repo", repo], "--bad: there is no revision ''"),
        (c[5], c[0], ["--plan", plan, "--repo", repo], "were the two swapped?"),
        (c[5], c[5], ["--plan", plan, "--repo", repo], "the same commit"), (other, c[5], ["--plan", plan, "--repo", repo], f"both come from {c[2][:12]}"),
        (c[0], c[5], ["--plan", str(tmp_path / "none.toml"), "--repo", repo], "has no case of the workload 'command'"),
        (c[0], c[5], ["--plan", str(tmp_path / "two.toml"), "--repo", repo], "has 2 programs; choose one with --case"),
        (c[0], c[5], ["--plan", str(tmp_path / "two.toml"), "--repo", repo, "--case", "nothing"], "--case 'nothing' names 0 programs"),
        (c[0], c[5], ["--plan", "nowhere.toml", "--repo", repo], "there is no plan"), (c[0], c[5], ["--repo", repo], "--plan is missing"),
        (c[0], c[5], ["--plan", plan, "--repo", repo, "--margin", "200 %"], "--margin is a share"),
        (c[0], c[5], ["--plan", plan, "--repo", repo, "--budget", "0 s"], "--budget is a time above zero"),
        (c[0], c[5], ["--plan", plan, "--repo", repo, "--target", "simulated:h200-sxm"], "cannot run programs"),
        (c[0], c[5], ["--plan", plan, "--repo", repo, "--resume", "x"], "takes no --good, --bad"),
    ):
        assert main(["history", "bisect", "--good", good, "--bad", bad, *more]) == 2, message
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1, captured.err
        assert message in captured.err


def test_a_case_by_id_or_part_of_its_label(tmp_path: Path) -> None:
    made = [Case(workload="command", params=find("command").parse({"argv": ["bench", size]})) for size in ("small", "large")]
    plan = measured.Plan(name="p", cases=made)
    assert measured.chosen(plan, "large") == made[1]
    assert measured.chosen(plan, made[0].id[:6]) == made[0]
    with pytest.raises(InputError, match="names 2 programs"):
        measured.chosen(plan, "bench")


@pytest.mark.parametrize(
    ("given", "folder", "message"),
    [
        ({}, ".", ""), ({"folder": "src/../bench"}, "bench", ""), ({"folder": "{repo}/bench"}, "bench", ""), ({"folder": ".."}, "", "lies outside the repository"),
        ({"folder": "/"}, "", "lies outside the repository"), ({"argv": ["{repo}/bench"]}, "", "is your own copy"), ({"argv": ["{repo}-2/bench"]}, ".", ""),
        ({"environment": ["PYTHONPATH=/x:{repo}:/y"]}, "", "is your own copy"), ({"environment": ["OUT=/tmp{repo}/x"]}, ".", ""),
    ],
)  # fmt: skip
def test_the_program_must_be_the_commits_own(given: dict[str, object], folder: str, message: str, tmp_path: Path) -> None:
    def filled(value: object) -> object:
        return [filled(one) for one in value] if isinstance(value, list) else str(value).replace("{repo}", str(tmp_path))

    case = Case(workload="command", params=find("command").parse({"argv": ["./bench"], **{name: filled(value) for name, value in given.items()}}))
    if message:
        with pytest.raises(InputError, match=message):
            measured.placed(case, str(tmp_path))
    else:
        assert measured.placed(case, str(tmp_path)).params["folder"] == folder


def test_a_search_that_cannot_be_read_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "bisect" / "s").mkdir(parents=True)
    for text, name, message in (("{", "s", "no search that can be read"), ('{"schema": 1}', "s", "can be read"), ("", "x", "no search is called 'x'")):
        (home / "bisect" / "s" / "state.json").write_text(text)
        assert main(["history", "bisect", "--resume", name]) == 2
        assert message in capsys.readouterr().err


def test_a_program_that_fails_or_gives_no_number_says_why(tmp_path: Path) -> None:
    made = Project(tmp_path)
    made.commit(100000)
    for argv, reason in ((["sh", "-c", "exit 3"], "ended with status 3"), (["echo", "0"], "numbers above zero"), (["echo", "x"], "no number")):
        case = Case(workload="command", params=find("command").parse({"argv": argv, "read": "pattern", "expression": ".+", "unit": "x"}))
        options = measured.MeasureOptions(round_s=0.001)
        trees = measured.Trees(measured.MeasureSetting(repo=str(made.repo), case=case, options=options), tmp_path / "search")
        took = trees.measure(made.commits[0])
        trees.close()
        assert (took.value, took.built) == (None, True)
        assert reason in took.reason
        assert not os.listdir(tmp_path / "search" / "trees")
