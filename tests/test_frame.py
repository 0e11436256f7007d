"""The frame holds: set-up names what is missing, versions are pinned, every floor has its place, sizes stay within limits."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = {c["id"]: c for c in PYPROJECT["tool"]["importlinter"]["contracts"]}
PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
)
SHELL = [ROOT / ".ci" / "run", ROOT / "scripts" / "check", *sorted((ROOT / "scripts").glob("*.sh"))]


def plain(name: str) -> str:
    """A package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", name)[0]).lower()


def run(argv: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=ROOT, env=environment or None, capture_output=True, text=True, timeout=300, check=False)


# ---------------------------------------------------------------- set-up


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with the tools that set-up calls, from which a test leaves some out."""
    for name in ("bash", "sh", "dirname", "grep", "sed", "tr", "sort", "cat", "cksum", "rm", "tail", "printf", "env", "ld"):
        if found := shutil.which(name):
            (tmp_path / name).symlink_to(found)
    return tmp_path


def setup_in(tools: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Set-up in a copy of the tree that has no .venv, so that it gets as far as looking for a Python."""
    tree = tools / "tree"
    shutil.copytree(ROOT / "scripts", tree / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tree)
    return run([str(tools / "bash"), str(tree / "scripts" / "setup.sh"), *arguments], PATH=str(tools), HOME=str(tools), **environment)


def test_setup_names_the_package_that_brings_the_linker(tools: Path) -> None:
    (tools / "ld").unlink()
    done = setup_in(tools)
    assert done.returncode == 3
    assert "ld is missing" in done.stderr
    assert "apt install binutils" in done.stderr


def test_setup_names_the_package_that_brings_python(tools: Path) -> None:
    done = setup_in(tools)
    assert done.returncode == 3
    assert "no Python of at least 3.11" in done.stderr
    assert "apt install python3 python3-venv" in done.stderr


def test_setup_passes_over_a_python_that_is_too_old_or_broken(tools: Path) -> None:
    for name in ("python3", "python3.12"):
        (tools / name).write_text("#!/bin/sh\nexit 127\n")
        (tools / name).chmod(0o755)
    done = setup_in(tools)
    assert done.returncode == 3
    assert "no Python of at least 3.11" in done.stderr


def test_setup_names_the_package_that_brings_venv(tools: Path) -> None:
    # Debian without python3-venv: the interpreter is there, ensurepip is not.
    (tools / "python3").write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\nexit 0\n')
    (tools / "python3").chmod(0o755)
    done = setup_in(tools)
    assert done.returncode == 3
    assert "apt install python3-venv" in done.stderr


def test_setup_names_the_extras_there_are(tools: Path) -> None:
    done = setup_in(tools, "torhc")
    assert done.returncode == 2
    assert "there is no extra 'torhc'" in done.stderr
    assert all(extra in done.stderr for extra in PYPROJECT["project"]["optional-dependencies"])


def test_setup_names_a_python_that_was_asked_for_and_is_none(tools: Path) -> None:
    done = setup_in(tools, PYTHON="/nowhere/python3")
    assert done.returncode == 3
    assert "PYTHON=/nowhere/python3" in done.stderr


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_passes_its_variables_on() -> None:
    shown = run(["make", "--dry-run", "run", "PLAN=memory", "DEVICE=1", "ARGS=--label a=b", "WITH=torch"], PATH=os.environ["PATH"]).stdout
    assert "scripts/setup.sh torch" in shown
    assert ".venv/bin/hotlap run 'memory' --device '1' --label a=b" in shown
    assert "make run" in run(["make"], PATH=os.environ["PATH"]).stdout


@pytest.mark.parametrize("script", SHELL, ids=lambda p: p.name)
def test_shell_scripts_parse_and_are_executable(script: Path) -> None:
    done = run(["bash", "-n", str(script)], PATH=os.environ["PATH"])
    assert done.returncode == 0, done.stderr
    assert os.access(script, os.X_OK)


def test_gpu_check_names_its_parts(tmp_path: Path) -> None:
    done = run(["scripts/gpu_check.sh", "everything"], PATH=os.environ["PATH"], OUT=str(tmp_path))
    assert done.returncode == 2
    assert "valid: all, conform, measure, model, burn" in done.stdout


# ---------------------------------------------------------------- versions


def test_every_extra_is_pinned() -> None:
    project = PYPROJECT["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    pinned = {plain(name) for name in PINS}
    assert not {plain(r) for r in wanted} - pinned
    assert "pocl-binary-distribution" in pinned


def test_pins_are_versions_and_nothing_else() -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", name) and re.fullmatch(r"[0-9][0-9a-z.]*", version) for name, version in PINS.items())


def test_every_data_file_is_packaged() -> None:
    package = ROOT / "src" / "hotlap"
    packaged = {path for pattern in PYPROJECT["tool"]["setuptools"]["package-data"]["hotlap"] for path in package.glob(pattern)}
    data = {p for p in package.rglob("*") if p.is_file() and p.suffix != ".py" and "__pycache__" not in p.parts}
    assert not sorted(str(p.relative_to(package)) for p in data - packaged)


# ---------------------------------------------------------------- floors


def layers(contract: str) -> set[str]:
    return {name.strip(" ()") for layer in CONTRACTS[contract]["layers"] for name in re.split(r"[|:]", layer)}


@pytest.mark.parametrize(("contract", "folder"), [("house", "hotlap"), ("core", "hotlap/core")])
def test_every_module_has_its_floor(contract: str, folder: str) -> None:
    package = ROOT / "src" / folder
    here = {p.stem for p in package.glob("*.py")} | {p.name for p in package.iterdir() if (p / "__init__.py").exists()}
    assert here - {"__init__"} == layers(contract)


def test_every_floor_of_core_above_the_trunk_belongs_to_an_arm() -> None:
    arms = {m.removeprefix("hotlap.core.") for name in ("reading-arm", "measuring-arm") for m in CONTRACTS[name]["source_modules"]}
    assert layers("core") - arms == {"model", "store", "stats", "plan", "work", "stand_in", "record", "notice", "objectives", "timing", "together", "units", "where", "extend", "errors"}


def test_import_contracts_are_kept() -> None:
    pytest.importorskip("importlinter", reason="import-linter comes with the extra lint: make check")
    done = run([str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache"], PATH=os.environ["PATH"])
    assert done.returncode == 0, done.stdout + done.stderr


HEAVY = ("numpy", "pyopencl", "torch", "cuda", "pynvml", "psutil", "sqlite3", "hotlap.measure", "hotlap.core.show", "hotlap.core.model")


@pytest.mark.parametrize("words", ["import hotlap", "import sys; from hotlap.__main__ import main; main(['--help'])"])
def test_help_imports_nothing_heavy(words: str) -> None:
    done = run([sys.executable, "-c", f"{words}\nimport sys; print([n for n in {HEAVY} if n in sys.modules])"], PATH=os.environ["PATH"])
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stdout + done.stderr


# ---------------------------------------------------------------- sizes and words


@pytest.mark.slow("reads all of the source")
def test_sizes_are_within_limits() -> None:
    done = run([sys.executable, "scripts/size_report.py"], PATH=os.environ["PATH"])
    assert done.returncode == 0, done.stdout


def test_size_report_finds_what_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    long = "def long(a, b, c, d, e, f, g):\n" + "    a += 1\n" * 60
    (tmp_path / "src" / "large.py").write_text(long + "x = 1\n" * 440)
    done = run([sys.executable, "scripts/size_report.py", str(tmp_path), "--json"], PATH=os.environ["PATH"])
    assert done.returncode == 1
    assert json.loads(done.stdout)["breaches"] == [
        "src/large.py: 501 lines, at most 500: split it",
        "src/large.py:1 long: 61 lines, at most 60: split it",
        "src/large.py:1 long: 7 parameters, at most 6: group them in a type",
    ]


def texts() -> list[Path]:
    """Files that people read, without what tools and virtual environments left."""
    found = [p for p in ROOT.iterdir() if p.is_file()]
    for folder in ("src", "tests", "scripts", "docs", "benchmarks", ".ci"):
        found += [p for p in (ROOT / folder).rglob("*") if p.is_file() and not {"__pycache__", "hotlap.egg-info"} & set(p.parts)]
    return [p for p in found if p.suffix in (".py", ".md", ".toml", ".sh", ".c", ".txt", ".js", ".css", ".html", "") and p.name != ".git"]


def test_no_marks_of_unfinished_work_and_no_paths_of_one_machine() -> None:
    words = "|".join(a + b for a, b in (("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK")))  # not found in this file itself
    marks = re.compile(rf"\b({words})\b|(?<![\w.])/{'work'}/|{'shared'}/(design|hooks)")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if marks.search(line)
    ]
    assert not found


def test_licence_and_changelog_are_there() -> None:
    import hotlap

    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert PYPROJECT["project"]["license"] == "Apache-2.0"
    assert f"\n## {hotlap.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_help_of_the_checks_is_no_error() -> None:
    done = run(["scripts/check", "--help"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "scripts/check [ruff|mypy|imports|sizes|names|shell" in done.stdout
