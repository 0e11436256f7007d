"""Verdicts as JUnit XML, which every CI reads. No schema is binding; this keeps to what the readers of Jenkins, GitLab and GitHub share."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from hotlap.core import stand_in
from hotlap.core.record import Judgement, Row
from hotlap.core.show import words

ELEMENTS = {"fail": "failure", "invalid": "error", "error": "error", "inconclusive": "error", "not_run": "skipped", "measured": "skipped"}

COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}  # attribute of a suite → the element that it counts


def junit(judgements: Sequence[Judgement]) -> str:
    """A suite per run, a test per case. What is inconclusive is an error, unless the user had it read as pass or fail."""
    suites = ElementTree.Element("testsuites", name="hotlap gate")
    for one in judgements:
        suite(suites, f"{one.run} against {one.against}", [*(_case(row, one) for row in one.rows), *_missing(one)])
    return text(suites)


def _missing(judgement: Judgement) -> list[ElementTree.Element]:
    """Who was asked for a result and has none, each as a test."""
    cases = []
    for name, why in judgement.missing.items():
        case = ElementTree.Element("testcase", classname="without a result", name=words.clean(name))
        tag = {"pass": "system-out", "fail": "failure"}.get(judgement.inconclusive_as, "error")
        child = ElementTree.SubElement(case, tag, {} if tag == "system-out" else {"message": words.clean(f"no result: {why}")})
        child.text = words.clean(why) if tag == "system-out" else None
        cases.append(case)
    return cases


def suite(suites: ElementTree.Element, name: str, cases: list[ElementTree.Element]) -> None:
    kinds = [next((child.tag for child in case), "") for case in cases]
    counts = {name: str(kinds.count(tag)) for name, tag in COUNTED.items()}
    ElementTree.SubElement(suites, "testsuite", {"name": name, "tests": str(len(cases)), **counts}).extend(cases)


def text(suites: ElementTree.Element) -> str:
    """The file, with the totals of its suites."""
    for name in ("tests", *COUNTED):
        suites.set(name, str(sum(int(one.get(name, "0")) for one in suites)))
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(row: Row, judgement: Judgement) -> ElementTree.Element:
    sign = f" {stand_in.SUFFIX}" if stand_in.has(row.result) else ""
    name = words.clean(f"{row.label}{sign}")
    case = ElementTree.Element("testcase", classname=f"{row.case.workload}.{words.clean(row.device)}", name=name)
    verdict = row.verdict
    tag = ELEMENTS.get(verdict.state, "")
    if verdict.state == "inconclusive" and judgement.inconclusive_as:
        tag = {"pass": "", "fail": "failure"}[judgement.inconclusive_as]
    if tag:
        ElementTree.SubElement(case, tag, message=words.clean(f"{words.state(row)}: {verdict.reason}"))
    if verdict.state in ("pass", "inconclusive") and not tag:
        ElementTree.SubElement(case, "system-out").text = words.clean(f"{words.value(row)}: {words.state(row)}, {verdict.reason}")
    return case
