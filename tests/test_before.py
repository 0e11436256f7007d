"""What earlier versions kept and printed: their bundles are read for ever, and the same is printed of them until a line of the changelog says otherwise.

`tests/before/bundles` holds runs made by 0.1 and by 0.2 before its house was rebuilt: a plan on a simulated GPU, the same slower, programs,
an import, a stress run. HOTLAP_GOLDEN=write accepts what is printed now.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotlap import cli
from hotlap.cli import commands

BEFORE = Path(__file__).parent / "before"
VERSIONS = ("0.1", "0.2")
SHOWN = ("plan", "program", "stress")
RUNS = (*SHOWN, "slower")  # to compare with


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the runs of both versions, a folder each."""
    for version in VERSIONS:
        for file in sorted((BEFORE / "bundles" / version).glob("*.zip")):
            with zipfile.ZipFile(file) as bundle:
                bundle.extractall(tmp_path / version / "runs")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


def run_of(home: Path, version: str, name: str) -> str:
    """The id of a run, by its file's name."""
    with zipfile.ZipFile(BEFORE / "bundles" / version / f"{name}.zip") as bundle:
        return bundle.namelist()[0].partition("/")[0]


@pytest.fixture
def printed(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def call(version: str, *words: str) -> str:
        monkeypatch.setenv("HOTLAP_HOME", str(home / version))
        capsys.readouterr()
        cli.main(words)
        return capsys.readouterr().out.replace(str(home), "HOME")

    return call


def check_same(name: str, printed: str) -> None:
    """Fails where the file holds something else, and says how that is accepted."""
    path = BEFORE / "outputs" / name
    if os.environ.get("HOTLAP_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(printed, encoding="utf-8")
    differs = list(difflib.unified_diff(path.read_text(encoding="utf-8").splitlines(), printed.splitlines(), "before", "now", lineterm="", n=1))
    assert not differs, f"tests/before/outputs/{name}; HOTLAP_GOLDEN=write pytest tests/test_before.py accepts what is printed now:\n" + "\n".join(differs[:40])


def plain(found: Any) -> Any:
    """Numbers to nine digits: the last ones differ between versions of NumPy."""
    if isinstance(found, float):
        return float(f"{found:.9g}")
    if isinstance(found, dict):
        return {key: plain(value) for key, value in found.items()}
    return [plain(one) for one in found] if isinstance(found, list) else found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SHOWN)
def test_a_run_is_shown_as_it_was(version: str, name: str, home: Path, printed: Callable[..., str]) -> None:
    run = run_of(home, version, name)
    for verb in ("show", "explain"):
        text = printed(version, verb, run)
        check_same(f"{version}-{name}-{verb}.txt", text)
    document = json.dumps(plain(json.loads(printed(version, "show", run, "--json=2"))), indent=1, ensure_ascii=False) + "\n"
    check_same(f"{version}-{name}-show.json", document)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("words", [
    ("compare", "plan", "slower"), ("energy", "plan"), ("judge", "slower", "--against", "limit", "--share", "80 %"), ("history",), ("ls",), ("show", "plan", "--format", "csv"),
], ids=lambda words: "-".join(words[:1]))
def test_answers_are_what_they_were(version: str, words: tuple[str, ...], home: Path, printed: Callable[..., str]) -> None:
    asked = [run_of(home, version, word) if word in RUNS else word for word in words]
    text = printed(version, *asked)
    check_same(f"{version}-{words[0]}{'-csv' if 'csv' in words else ''}.txt", text)


@pytest.mark.slow("draws whole pages")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SHOWN)
def test_pages_say_what_they_said(version: str, name: str, home: Path, printed: Callable[..., str]) -> None:
    """Their words, in order, without the drawings and the data."""
    page = home / "page.html"
    printed(version, "report", run_of(home, version, name), "--out", str(page))
    text = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    words = re.sub(r"[^\S\n]+", " ", re.sub(r"<[^>]+>", "\n", text)).replace(str(home), "HOME")
    said = "\n".join(line.strip() for line in words.splitlines() if line.strip()) + "\n"
    check_same(f"{version}-{name}-page.txt", said)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse wraps usage in another way in other versions of Python")
def test_every_verb_s_help_is_what_it_was(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    cli.main([])
    for verb in commands.VERBS:
        with pytest.raises(SystemExit) as ended:
            cli.main([*verb.split(), "--help"])
        assert not ended.value.code
    text = capsys.readouterr().out
    check_same("help.txt", text)
