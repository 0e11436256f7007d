"""The page: whole without a network, whatever came from outside escaped, its data readable, its charts there."""

from __future__ import annotations

import json
import re
from dataclasses import replace as changed
from html.parser import HTMLParser

import pytest
import report_sample as sample
from msgspec.structs import replace

from hotlap.core.errors import InputError
from hotlap.core.record import Notice, Row, Stop
from hotlap.core.show import report
from hotlap.core.store.bundle import Bundle

Kept = tuple[Bundle, list[Row]]
EVIL = "<script>alert(1)</script>\"'&{{body}}</title>"
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements with their attributes, text of scripts by id, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.scripts: dict[str, str] = {}
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[self.elements[-1][1].get("id", "")] = data
        else:
            self.words.append(data)

    def of_class(self, name: str) -> list[str]:
        return [tag for tag, attributes in self.elements if name in attributes.get("class", "").split()]


@pytest.fixture(scope="module")
def one(cpu: Kept) -> str:
    return report.render([cpu])


def test_it_is_well_formed(one: str, cpu: Kept, gpu: Kept) -> None:
    for text in (one, report.render([gpu]), report.render([cpu, gpu])):
        page = Page(text)
        assert not page.wrong
        assert not page.open


def test_it_needs_no_network(one: str) -> None:
    page = Page(one)
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = attributes.get(name, "")
            assert value == "" or value.startswith(("#", "data:,")), f"{tag} {name}={value}"
    style = re.search(r"<style>(.*?)</style>", one, re.DOTALL)
    assert style
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    for call in ("fetch(", "XMLHttpRequest", "import(", "WebSocket", "sendBeacon"):
        assert call not in page.scripts[""]


def test_every_link_within_the_page_leads_somewhere(gpu: Kept) -> None:
    page = Page(report.render([gpu]))
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for _, a in page.elements if a.get("href", "").startswith("#")} <= set(ids)


def test_conclusions_stand_first(one: str) -> None:
    text = " ".join(Page(one).words)
    order = ["What was found", "What to do", "Results", "What the machine looks like", "Gaps and their causes",
             "Samples over time", "Notices: what to doubt", "Set-up, machine and devices", "How each number was obtained"]
    places = [text.rindex(title) if title == "Results" else text.index(title) for title in order]
    assert places == sorted(places)


def test_everything_from_outside_is_escaped(cpu: Kept) -> None:
    kept, rows = cpu
    device = replace(sample.CPU, name=EVIL, driver=EVIL)
    machine = replace(kept.run.machine, host=EVIL, devices=[device], settings={EVIL: EVIL}, software={EVIL: EVIL})
    run = replace(kept.run, machine=machine, labels={EVIL: EVIL}, devices=[device.key], stops=[Stop("error", EVIL)])
    evil = [
        replace(
            row, label=EVIL, device=device.key, verdict=replace(row.verdict, reason=EVIL), gap=replace(row.gap, basis="throttled", names={"seen": EVIL}, cause=EVIL),
            result=replace(row.result, unit=EVIL, notices=[replace(f, code=EVIL, seen=EVIL) for f in row.result.notices]),
        )
        for row in rows
    ]
    text = report.render([(changed(kept, run=run, notices=[Notice("torn_line", EVIL)]), evil)])
    page = Page(text)
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert "<script>alert" not in text
    assert not page.wrong
    assert any(EVIL in word for word in page.words)
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_its_data_is_the_runs_data(one: str, cpu: Kept) -> None:
    document = json.loads(Page(one).scripts["data"])
    (run,) = document["runs"]
    assert run["run"]["id"] == cpu[0].run.id
    assert len(run["samples"]) == len(cpu[0].samples)
    assert run["samples"][0]["values"] == cpu[0].samples[0].values
    assert len(run["results"]["results"]) == len(cpu[1])


def test_data_that_is_too_large_is_left_out_and_said(cpu: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "EMBEDDED_BYTES", 1000)
    document = json.loads(Page(report.render([cpu])).scripts["data"])
    assert "samples" not in document["runs"][0]
    assert "not in this page" in document["note"]
    assert document["runs"][0]["results"]["results"]


def test_a_quick_run_is_small_enough_for_a_mail(one: str) -> None:
    assert len(one.encode()) < 500_000


def test_charts_are_there(cpu: Kept, gpu: Kept) -> None:
    page = Page(report.render([gpu]))
    assert page.of_class("chart") == ["svg"] * 3
    assert len(page.of_class("samples")) == len(gpu[1])
    assert len(page.of_class("sensor")) == 3 * len(gpu[1])  # clock, power, temperature
    assert len(Page(report.render([cpu])).of_class("sensor")) == sum(row.summary.rounds > 0 for row in cpu[1])  # the clock alone


def test_a_sensor_that_is_missing_is_named_with_its_reason(cpu: Kept) -> None:
    words = " ".join(Page(report.render([cpu])).words)
    assert "power_w: no RAPL in this virtual machine" in words


def test_unknown_is_a_dash_and_never_zero(cpu: Kept) -> None:
    row = next(row for row in cpu[1] if row.gap.share is None and row.verdict.state == "measured")
    text = report.render([(cpu[0], [row])])
    line = re.search(rf"<tr[^>]*><th>{re.escape(row.label)}</th>.*?</tr>", text)
    assert line
    assert ">–<" in line[0]
    assert not re.search(r"(?<![\d.])0 %", line[0])
    assert 'class="meter' not in line[0]


def test_an_invalid_number_is_shown_and_marked(cpu: Kept) -> None:
    row = next(row for row in cpu[1] if row.verdict.state == "invalid")
    line = re.search(rf"<tr[^>]*><th>{re.escape(row.label)}</th>.*?</tr>", report.render([cpu]))
    assert line
    assert "invalid" in line[0]
    assert "20.0" in line[0]
    assert "GB/s" in line[0]


def test_what_was_not_run_is_said_below_the_table(cpu: Kept) -> None:
    text = report.render([cpu])
    for row in cpu[1]:
        if row.verdict.state == "not_run":
            assert f"<th>{row.label}</th>" not in text.partition('id="charts"')[0]
            assert row.verdict.reason in text


def test_few_rounds_have_an_interval_with_its_confidence() -> None:
    kept = sample.bundle(sample.CPU, sample.CPU_CASES, rounds=2)
    text = report.render([(kept, sample.rows(kept, sample.CPU_CASES))])
    assert "(50 %)" in text
    assert "few rounds" in text


def test_several_runs_stand_side_by_side(cpu: Kept, gpu: Kept) -> None:
    page = Page(report.render([cpu, gpu]))
    groups = [a for tag, a in page.elements if tag == "th" and a.get("class") == "group"]
    assert len(groups) == 2
    text = " ".join(page.words)
    assert "2 runs" in text
    assert sample.CPU.name in text
    assert sample.GPU.name in text


def test_the_same_run_twice_has_two_names(cpu: Kept) -> None:
    assert not Page(report.render([cpu, cpu])).wrong


def test_runs_without_results_make_a_page(cpu: Kept) -> None:
    kept = changed(cpu[0], samples=[], readings=[], notices=[Notice("missing_file", "samples.jsonl is missing; nothing of it is known")])
    page = Page(report.render([(kept, [])]))
    assert "Nothing was measured." in " ".join(page.words)
    assert "samples.jsonl is missing" in " ".join(page.words)
    with pytest.raises(InputError, match="at least one run"):
        report.page([])


def test_a_device_that_the_machine_does_not_list_is_named_by_its_key(cpu: Kept) -> None:
    kept = changed(cpu[0], run=replace(cpu[0].run, machine=replace(cpu[0].run.machine, devices=[])))
    assert sample.CPU.key in report.render([(kept, cpu[1])])


def test_page_from_a_bundle_goes_through_the_model(cpu: Kept) -> None:
    page = Page(report.page([cpu[0]]))
    assert not page.wrong
    assert len(page.of_class("results")) == 1
