"""The page in a real browser and as PDF, where there is one; a clear word where there is none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hotlap
from hotlap.cli import main, terminal
from hotlap.core.errors import MachineError, Unavailable
from hotlap.core.record import Row
from hotlap.core.show import pdf, report
from hotlap.core.store.bundle import Bundle

Kept = tuple[Bundle, list[Row]]
needs_browser = pytest.mark.skipif(not pdf.browser(), reason="no Chromium is here: apt install chromium")


def dumped(page: str, folder: Path) -> tuple[str, str]:
    """The document as the browser has it after its scripts ran, and what it said."""
    source = folder / "page.html"
    source.write_text(page, encoding="utf-8")
    argv = [*pdf.command(pdf.browser(), str(folder / "profile")), "--enable-logging=stderr", "--virtual-time-budget=4000", "--dump-dom"]
    done = subprocess.run([*argv, source.as_uri()], capture_output=True, text=True, timeout=300, check=False)
    return done.stdout, done.stderr


@needs_browser
@pytest.mark.slow("starts a browser, or makes a PDF")
def test_a_browser_shows_the_page_without_an_error(gpu: Kept, tmp_path: Path) -> None:
    shown, said = dumped(report.render([gpu]), tmp_path)
    assert shown.count('<svg class="chart"') == 3
    assert shown.count('<svg class="samples"') == len(gpu[1])
    assert '<button type="button" id="theme">' in shown, "the script did not run to its end"
    assert "CONSOLE" not in said


@needs_browser
@pytest.mark.slow("starts a browser, or makes a PDF")
def test_the_browser_would_have_told_of_an_error(gpu: Kept, tmp_path: Path) -> None:
    broken = report.render([gpu]).replace('"use strict";', '"use strict"; undefined.wrong();')
    _, said = dumped(broken, tmp_path)
    assert "CONSOLE" in said


@pytest.mark.slow("starts a browser, or makes a PDF")
def test_pdf(cpu: Kept, tmp_path: Path) -> None:
    try:
        pdf.write(report.render([cpu]), tmp_path / "page.pdf")
    except Unavailable as error:
        pytest.skip(str(error))
    data = (tmp_path / "page.pdf").read_bytes()
    assert data.startswith(b"%PDF-")
    assert len(data) > 20_000


@pytest.mark.slow("starts a browser, or makes a PDF")
def test_a_page_that_is_asked_for_as_pdf_is_one_or_is_refused(tmp_path: Path) -> None:
    """Whichever verb has --out: HTML never lies in a file that is named as a PDF."""
    out = tmp_path / "page.pdf"
    try:
        terminal.page(str(out), "<!doctype html><title>a</title><p>b</p>", as_json=False)
    except Unavailable:
        assert not out.exists()
    else:
        assert out.read_bytes().startswith(b"%PDF-")


@pytest.mark.slow("starts a browser, or makes a PDF")
def test_pdf_by_weasyprint(cpu: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("weasyprint", reason="WeasyPrint is not here: pip install weasyprint", exc_type=ImportError)
    monkeypatch.setattr(pdf, "browser", lambda: "")
    pdf.write(report.render([cpu]), tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF-")


def test_a_file_named_pdf_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --pdf, and no page beside it."""
    written: list[Path] = []
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(pdf, "write", lambda page, path: written.append(path))
    hotlap.run("quick", target="simulated:h200-sxm", rounds=1)
    capsys.readouterr()
    assert main(["report", "--out", str(tmp_path / "mine.pdf")]) == 0
    assert (capsys.readouterr().out, written) == (f"{tmp_path}/mine.pdf\n", [tmp_path / "mine.pdf"])
    assert not list(tmp_path.glob("*.pdf"))
    assert not list(tmp_path.glob("*.html"))


def test_the_page_for_weasyprint_has_its_colours_in_each_drawing(cpu: Kept) -> None:
    page = pdf.plain(report.render([cpu]))
    styles = re.findall(r"<svg [^>]*><style>(.*?)</style>", page)
    assert len(styles) == page.count("<svg ")
    assert "var(" not in styles[0]
    assert "svg .line.main { stroke: #1f5fbf;" in styles[0]
    assert ".samples .dots" in styles[0]


def test_no_engine_names_both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "weasyprint", None)  # importing it fails
    with pytest.raises(Unavailable, match=r"Chromium.*WeasyPrint") as raised:
        pdf.write("<p>page</p>", tmp_path / "page.pdf")
    assert "apt install chromium" in raised.value.remedy
    assert not (tmp_path / "page.pdf").exists()


def test_a_browser_that_fails_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "chromium"
    fake.write_text("#!/bin/sh\necho the display is gone >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(MachineError, match="the display is gone"):
        pdf.write("<p>page</p>", tmp_path / "page.pdf")
