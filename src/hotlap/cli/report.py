"""hotlap report RUN"""

from __future__ import annotations

import argparse
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core.errors import InputError
from hotlap.core.show import pdf, report

PAGES = (".html", ".htm", ".pdf")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="*", default=["latest"], help="which runs go into the page (default: latest)")
    parser.add_argument("--out", metavar="FILE", help="where to write it (default: report.html in the run's folder); FILE.pdf is a PDF")
    parser.add_argument("--pdf", action="store_true", help="also as PDF, by Chromium or WeasyPrint")


def run(args: argparse.Namespace) -> int:
    """Writes one self-contained page and says where."""
    bundles = terminal.runs(args.run)
    if args.out:
        out = Path(args.out)
        if out.suffix and out.suffix.lower() not in PAGES:
            raise InputError(f"a report is not written as '{out.suffix}'; valid: FILE.html, FILE.pdf")
    else:
        folder = bundles[0].path if bundles[0].path.is_dir() else Path.cwd()
        out = folder / ("report.html" if len(bundles) == 1 else f"report-of-{len(bundles)}-runs.html")
    page, written = report.page(bundles), {}
    if out.suffix.lower() != ".pdf":
        terminal.write(out, page)
        written["html"] = str(out)
    if args.pdf or not written:
        pdf.write(page, out.with_suffix(".pdf"))
        written["pdf"] = str(out.with_suffix(".pdf"))
    if args.json:
        terminal.answer(args.json, written)
    else:
        print("\n".join(written.values()))
    return 0
