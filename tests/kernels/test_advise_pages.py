"""Every rule has a section of docs/findings.md that explains it."""

from __future__ import annotations

import re
from pathlib import Path

from hotlap.traces.advice.base import rules
from hotlap.traces.show import trace

ROOT = Path(__file__).parents[2]


def test_every_rule_has_its_section_and_no_section_is_of_none() -> None:
    text = (ROOT / trace.PAGES).read_text(encoding="utf-8")
    assert sorted(re.findall(r"^## ([a-z-]+)$", text, re.MULTILINE)) == sorted(rules())


def test_every_section_names_an_example_that_is_there() -> None:
    text = (ROOT / trace.PAGES).read_text(encoding="utf-8")
    named = set(re.findall(r"examples/(\w+\.py)", text))
    assert named
    assert all((ROOT / "examples" / one).exists() for one in named)
