"""What users are told to install: packages by names that are theirs, or this one from a path. `hotlap` in an index need not be this program."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSTALL = re.compile(r"pip install ((?:'?[\w./\[\],><=-]+'?[ ,]*)+)")


def advised() -> list[tuple[str, str]]:
    """Where, and what stands after `pip install`."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return [(file.name, words) for file in files for words in INSTALL.findall(file.read_text(encoding="utf-8"))]


def test_nobody_is_told_to_install_hotlap_by_its_bare_name() -> None:
    advice = advised()
    assert len(advice) > 20
    assert [one for one in advice if re.match(r"'?hotlap\b", one[1])] == []


def test_the_packages_of_each_extra_are_those_that_its_remedy_names() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    words = {word.strip("',") for _, text in advised() for word in text.split()}
    for extra in ("opencl", "cuda", "nvidia", "sass", "torch", "triton", "system", "bmc", "prometheus", "trace", "pdf", "parquet"):
        packages = {re.split(r"[><=]", package)[0] for package in extras[extra]}
        assert packages <= words, extra
