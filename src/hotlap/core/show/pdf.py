"""The page as PDF: by a headless Chromium where one is found, else by WeasyPrint; both keep charts as vectors."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from hotlap.core.errors import MachineError, Unavailable

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
QUIET = (
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars",
)
LIMIT_S = 120.0
REMEDY = "install Chromium (apt install chromium) or WeasyPrint (pip install weasyprint), or print the page from a browser"


def write(page: str, path: Path) -> None:
    """Writes `page` (HTML) as PDF at `path`.

    Raises Unavailable, naming both engines, where neither is here; MachineError where one is here and fails.
    """
    if found := browser():
        _by_browser(found, page, path)
    elif not _by_weasyprint(page, path):
        raise Unavailable("no PDF was written: neither Chromium nor WeasyPrint is here", REMEDY)


def browser() -> str:
    """The Chromium that is here, "" if none."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), "")


def command(binary: str, profile: str) -> list[str]:
    """How to start a browser that talks to nobody and leaves nothing behind. As root it runs only without its sandbox."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [binary, *QUIET, *(["--no-sandbox"] if root else []), f"--user-data-dir={profile}"]


def _by_browser(binary: str, page: str, path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="hotlap-pdf-") as folder:
        source, out = Path(folder, "page.html"), Path(folder, "page.pdf")
        source.write_text(page, encoding="utf-8")
        argv = [*command(binary, f"{folder}/profile"), "--no-pdf-header-footer", f"--print-to-pdf={out}", source.as_uri()]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise MachineError(f"{binary} took more than {LIMIT_S:.0f} s for the PDF; print the page from a browser") from None
        except OSError as error:
            raise MachineError(f"{binary} cannot be started: {error.strerror or error}") from None
        if not out.is_file():
            words = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise MachineError(f"{binary} wrote no PDF: {words[:200]}")
        _keep(out.read_bytes(), path)


def _by_weasyprint(page: str, path: Path) -> bool:
    try:
        from weasyprint import HTML  # type: ignore[import-not-found]
    except (ImportError, OSError):  # OSError: Pango is not there
        return False
    _keep(HTML(string=plain(page)).write_pdf(), path)
    return True


def plain(page: str) -> str:
    """The page for WeasyPrint, which gives drawings no style of the page's sheet, knows no variables in them, and does not
    span columns of a grid: each drawing gets the rules that concern it, with their colours, and charts stand one below the other."""
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    if style is None:
        return page
    screen = style[1].partition("@media (max-width")[0]
    colours = dict(re.findall(r"(--[\w-]+):\s*([^;}]+)", screen.partition("}")[0]))
    rules = "".join(re.findall(r"(?:svg|\.samples) [^{}]*\{[^}]*\}", screen))
    rules = re.sub(r"paint-order: stroke;[^}]*?stroke-width: \d+px;", "", rules)  # it paints a text's stroke over the text
    rules = re.sub(r"var\((--[\w-]+)\)", lambda match: colours.get(match[1], "#000").strip(), rules)
    drawn = re.sub(r"(<svg [^>]*>)", lambda match: f"{match[1]}<style>{rules}</style>", page)
    return drawn.replace("</head>", BLOCKS + "</head>", 1)


BLOCKS = "<style>@media print { .plots { display: block; } .plots figure { margin-bottom: 6mm; } .plots svg { height: 62mm; } }</style>"


def _keep(data: bytes, path: Path) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise MachineError(f"'{path}' cannot be written: {error.strerror}") from None
