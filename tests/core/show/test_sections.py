"""The page and its sections: in order, escaped, and brought by features."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hotlap.core import extend
from hotlap.core.record import Row
from hotlap.core.show import page, report, sections
from hotlap.core.show.page import Section
from hotlap.core.store.bundle import Bundle

Kept = tuple[Bundle, list[Row]]

BROUGHT = '''
from hotlap.core.show.sections.base import Report, ReportSection


def _html(report: Report) -> str:
    return f"<p>{len(report.rows)} rows of {len(report.sides)} devices</p>"


SECTION = ReportSection("Counted", "What a feature counted", _html, after="Results")
'''


def names(shown: str) -> list[str]:
    return re.findall(r'<section id="([\w-]+)"', shown)


def test_a_page_has_its_sections_in_order_and_in_the_bar() -> None:
    shown = page.page("A <b>", [Section("One", "First", "<p>1</p>"), Section("None", "Nothing", ""), Section("Two", "Second", "2")], {"a": "</script>"})
    assert names(shown) == ["top", "one", "two"]
    assert re.findall(r'<a href="#(\w+)">', shown) == ["one", "two"]
    assert "<title>A &lt;b&gt;</title>" in shown
    assert "</script>" not in shown.partition('id="data">')[2].partition("<script>")[0].removesuffix("</script>\n")


def test_what_came_from_outside_fills_no_place() -> None:
    shown = page.page("{{body}}", [Section("One", "First", "{{data}}")], {})
    assert "<h1>{{body}}</h1>" in shown
    assert "<h2>First</h2>{{data}}" in shown


def test_parts_beyond_those_shown_unfold() -> None:
    assert page.folded(["a", "b", "c"], 2, "1 more", "x") == '<div class="x">ab</div><details><summary>1 more</summary><div class="x">c</div></details>'
    assert page.folded(["a"], 2, "more") == "a"


def test_a_report_has_the_sections_of_the_table(cpu: Kept) -> None:
    shown = names(report.render([cpu]))
    table = [page.anchor(one.name) for one in sections.SECTIONS]
    assert shown[0] == "top"
    assert shown[1:] == [name for name in table if name in shown]
    assert set(table) - set(shown) == {"counters", "over-time"}, "no case of this run has counters, nor was a rate sustained"


def test_a_section_of_a_feature_is_one_file_and_one_line(cpu: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counts_rows.py").write_text(BROUGHT)
    monkeypatch.syspath_prepend(tmp_path)
    extend.use({"sections": {"counted": "counts_rows:SECTION"}})
    shown = report.render([cpu])
    assert names(shown)[1:3] == ["results", "counted"]
    assert f"<h2>What a feature counted</h2><p>{len(cpu[1])} rows of 1 devices</p>" in shown


def test_a_section_that_does_not_load_says_so_and_the_others_stand(cpu: Kept) -> None:
    extend.use({"sections": {"broken": "not_there_at_all:SECTION"}})
    shown = report.render([cpu])
    assert names(shown)[1:3] == ["broken", "results"]
    assert "not_there_at_all does not load" in shown
