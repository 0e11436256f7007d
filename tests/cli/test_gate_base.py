"""A change against its base commit, measured in turns, and what CI reads of the verdict."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hotlap.cli import main
from hotlap.core.trials import commits

# A number whose noise is counted, not drawn: 1 % up and down, the same on every machine.
BENCH = """
read n < "$COUNT"
echo $((n + 1)) > "$COUNT"
echo "value: $((level + level * (n * 7 % 5 - 2) / 200))"
"""
NASTY = "::error::x | <b>@ann</b> ##[y] %0A"
PLAN = """schema = 1
[[case]]
workload = "command"
argv = ["sh", "bench.sh", "{name}"]
environment = ["COUNT={count}"]
read = "pattern"
expression = 'value: (\\d+)'
unit = "ticks"
"""


class Project:
    """A repository with a benchmark; each commit has a level."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder.parent / "count").write_text("0\n")
        self.git("init", "-q")
        self.plan("bench")

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", "-C", str(self.folder), *who, *words], check=True, capture_output=True, text=True).stdout.strip()

    def plan(self, name: str) -> None:
        (self.folder / "bench.toml").write_text(PLAN.format(name=name, count=self.folder.parent / "count"))

    def commit(self, level: int, build: int = 0) -> None:
        (self.folder / "bench.sh").write_text(f"level={level}\n{BENCH}")
        (self.folder / "build.sh").write_text(f"exit {build}\n")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", f"level {level}")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    made = Project(tmp_path / "repo")
    monkeypatch.chdir(made.folder)
    return made


def gate(*words: str) -> int:
    return main(["gate", "--measure", "bench.toml", "--base", "HEAD~1", *words])


def test_a_slower_change_fails_and_the_same_passes(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.commit(100_000)
    project.commit(115_000)
    assert gate("--json") == 1
    document = json.loads(capsys.readouterr().out)
    (case,) = document["cases"]
    assert (document["verdict"], case["state"]) == ("fail", "fail")
    assert case["more"]["ratio"] == pytest.approx(1 / 1.15, rel=0.01)
    assert case["more"]["ratio_high"] < 1 / 1.02
    assert len(case["rounds"]) <= 60
    assert gate("--inconclusive-as", "fail") == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert re.search(r": value 100000 ticks → 115000 ticks, \+15 % \[\+1\d %, \+1\d %\], worse; the whole interval is beyond", printed), printed
    project.commit(115_000)
    before = kept(capsys)
    assert gate() == 0
    assert "PASS" in capsys.readouterr().out
    assert project.git("worktree", "list").count("\n") == 0
    assert main(["compare", *sorted(kept(capsys) - before)]) == 0
    assert "1 case: 1 " in capsys.readouterr().out


def kept(capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Ids of the runs in the home."""
    assert main(["list", "--json"]) == 0
    return set(re.findall(r'"id": "(\d{8}T\d{6}-\w{6})"', capsys.readouterr().out))


def test_what_is_not_committed_is_the_change(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.commit(100_000)
    project.commit(100_000)
    (project.folder / "bench.sh").write_text(f"level=120000\n{BENCH}")
    assert gate() == 1
    assert "level=120000" in (project.folder / "bench.sh").read_text()
    assert project.git("status", "--short") == "M bench.sh"
    assert project.git("stash", "list") == ""


def test_a_file_that_was_touched_and_not_changed_is_no_change(project: Project) -> None:
    """`git stash create` ended with status 1, and the gate with it."""
    project.commit(100_000)
    os.utime(project.folder / "bench.sh", (1, 1))
    assert commits.present(str(project.folder)) == project.git("rev-parse", "HEAD")


def test_a_build_that_fails_is_said_and_leaves_its_log(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.commit(100_000)
    project.commit(100_000, build=7)
    assert gate("--build", "sh build.sh") == 3
    error = capsys.readouterr().err
    assert re.search(r"change \w{10}: it does not build: status 7; log .*\.log", error)
    assert Path(error.rstrip().rpartition("log ")[2]).is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--base", "nosuch"], "no revision 'nosuch'"), (["--base", "HEAD"], "no change to judge"), (["--against", "limit"], "leave out --against"),
        (["--target", "opencl"], "leave out --target"), (["--report", "markdwon=x"], "did you mean 'markdown'"), (["--report", "metrics"], "needs a file"),
        (["--report", "junit=none/x.xml"], "no folder none"), (["--json", "--report", "annotations=-"], "--json takes standard output"),
        (["--min-effect", "x"], "--min-effect"), (["--budget", "soon"], "soon"), (["--label", "x"], "name=value"),
    ],
)  # fmt: skip
def test_wrong_words_are_refused_before_a_commit_is_built(
    words: list[str], message: str, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.commit(100_000)
    project.commit(100_000)
    assert gate("--build", "touch ../built", *words) == 2
    error = capsys.readouterr().err
    assert (message in error, error.count("\n"), (project.folder.parent / "built").exists()) == (True, 1, False), error


def test_a_case_that_no_commit_changes_is_refused(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.commit(100_000)
    project.commit(100_000)
    assert main(["gate", "--measure", "quick", "--base", "HEAD~1"]) == 2
    assert "is not a program of the repository" in capsys.readouterr().err
    assert main(["gate", "--base", "HEAD~1"]) == 2
    assert "--base is for --measure" in capsys.readouterr().err


def test_reports_for_ci_hold_the_verdict_and_no_name_gets_out_of_its_place(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.plan(NASTY)
    project.commit(100_000)
    project.commit(115_000)
    Path("summary.md").write_text("before\n")
    files = {"markdown": "summary.md", "codequality": "q.json", "metrics": "m.txt", "junit": "j.xml", "annotations": "-"}
    assert gate(*[word for kind, file in files.items() for word in ("--report", f"{kind}={file}")]) == 1
    out = capsys.readouterr().out.splitlines()
    token = out[0].removeprefix("::stop-commands::")
    assert len(token) == 32
    end = out.index(f"::{token}::")
    commands = out[end + 1 :]
    assert [line.partition(" ")[0] for line in commands] == ["::error", "::notice"]
    assert commands[0].startswith("::error title=fail%3A command sh bench.sh %3A%3Aerror%3A%3Ax | <b>@ann</b> ##[y] %250A,file=bench.toml,line=2::")
    summary = Path("summary.md").read_text()
    assert summary.startswith("before\n### hotlap gate: FAIL\n")
    assert "`command sh bench.sh ::error::x / <b>@ann</b> ##[y] %0A`" in summary  # a code span: nothing in it is read
    (issue,) = json.loads(Path("q.json").read_text())
    assert (issue["severity"], issue["location"]) == ("major", {"path": "bench.toml", "lines": {"begin": 2}})
    assert re.search(r'^hotlap_ratio\{case="command sh bench\.sh [^\n]*"\} 0\.8\d+$', Path("m.txt").read_text(), re.MULTILINE)
    assert ElementTree.parse("j.xml").getroot().find(".//failure") is not None
