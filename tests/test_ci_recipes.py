"""The recipes of docs/ci.md, executed as a CI would, its variables pointing at files of the test."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import ci_recipes  # noqa: E402 (a script, no part of the package)

BENCH = """
read n < "$COUNT"
echo $((n + 1)) > "$COUNT"
echo "value: $((level + level * (n * 7 % 5 - 2) / 200))"
"""
PLAN = """[[case]]
workload = "command"
argv = ["sh", "bench.sh"]
environment = ["COUNT={count}"]
read = "pattern"
expression = 'value: (\\d+)'
unit = "B"
"""


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A merge commit of a slower change into its base, with a baseline of the base."""
    place = tmp_path_factory.mktemp("ci")
    folder = place / "repo"
    folder.mkdir()
    (place / "count").write_text("0\n")
    (folder / "bench.toml").write_text(PLAN.format(count=place / "count"))
    git(folder, "init", "-q", "-b", "main")
    commit(folder, 100_000)
    for _ in range(6):  # beside other programs a run may end with 3 good rounds, of which no gate can judge
        hotlap(folder, "run", "bench.toml", "--rounds", "6", "--no-report")
        if len(json.loads(hotlap(folder, "show", "latest", "--json"))["cases"][0]["rounds"]) >= 4:
            break
    hotlap(folder, "baseline", "save", "latest", "--to", "baseline.json")
    git(folder, "checkout", "-q", "-b", "change")
    commit(folder, 140_000)
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-ff", "-m", "merge", "change")
    return folder


@pytest.fixture
def repository(merged: Path, tmp_path: Path) -> Path:
    """A copy of it for each recipe."""
    return Path(shutil.copytree(merged, tmp_path / "repo"))


def commit(folder: Path, level: int) -> None:
    (folder / "bench.sh").write_text(f"level={level}\n{BENCH}")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", f"level {level}")


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True).stdout.strip()


def environment(folder: Path, merged: bool = False) -> dict[str, str]:
    return os.environ | {
        "HOTLAP_HOME": str(folder.parent / "home"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src"),
        "GITHUB_STEP_SUMMARY": str(folder.parent / "summary.md"), "CI_MERGE_REQUEST_DIFF_BASE_SHA": git(folder, "rev-parse", "main^1") if merged else "",
    }  # fmt: skip


def hotlap(folder: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "hotlap", *words], cwd=folder, env=environment(folder), check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.slow("measures three recipes")
@pytest.mark.parametrize(("number", "files"), [(0, ["gate.xml"]), (1, ["gate.json", "metrics.txt", "gate.xml"]), (2, ["comment.md"])])
def test_a_recipe_fails_for_a_slower_change_and_writes_what_it_names(number: int, files: list[str], repository: Path) -> None:
    script = [sys.executable, str(ROOT / "scripts" / "ci_recipes.py"), str(number)]
    for _ in range(6):
        done = subprocess.run(script, cwd=repository, env=environment(repository, merged=True), capture_output=True, text=True, check=False)
        if done.returncode != 3 or "each needs at least 4" not in done.stdout:  # only 3 good rounds here, too
            break
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAIL" in done.stdout
    assert all((repository / file).stat().st_size for file in files)
    if number != 1:
        assert "hotlap gate: FAIL" in (repository.parent / "summary.md").read_text()
        assert re.search(r"^::error title=fail%3A command sh bench\.sh,file=bench\.toml,line=1::", done.stdout, re.MULTILINE)
    else:
        assert json.loads((repository / "gate.json").read_text())[0]["severity"] == "major"


def test_recipes_have_the_rights_of_a_reader_and_install_from_a_path() -> None:
    text = ci_recipes.DOCUMENT.read_text()
    recipes = ci_recipes.recipes(text)
    assert [len(recipe) for recipe in recipes] == [2, 2, 1]
    sources = [source for recipe in recipes for script in recipe if (source := ci_recipes.installed_from(script))]
    assert sources == ["./hotlap", "./hotlap"]
    for block in re.findall(r"^```yaml\n(on: .*?)^```$", text, re.MULTILINE | re.DOTALL):
        assert block.startswith("on: pull_request\npermissions:\n  contents: read\n")
    assert "secrets." not in text
