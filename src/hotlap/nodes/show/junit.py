"""An audit's findings as JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from hotlap.core.show import words
from hotlap.core.show.junit import suite, text
from hotlap.nodes.audit import SEVERITIES, AuditOutcome, AuditRule


def audit(host: str, found: Sequence[AuditOutcome], rules: Mapping[str, AuditRule], least: str = "error") -> str:
    """One suite for the node, a test per rule and member. A finding fails from severity `least` on; a lesser one is told in the output."""
    suites = ElementTree.Element("testsuites", name="hotlap node audit")
    suite(suites, words.clean(host), [_audited(one, rules[one.rule], SEVERITIES.index(least)) for one in found])
    return text(suites)


def _audited(one: AuditOutcome, rule: AuditRule, least: int) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=f"audit.{one.rule}", name=words.clean(f"{rule.title} {one.at}".strip()))
    if one.finding and SEVERITIES.index(one.finding.severity) >= least:
        failure = ElementTree.SubElement(case, "failure", message=words.clean(f"{rule.severity}: {rule.title}"))
        failure.text = words.clean(one.finding.detail)
    elif one.finding:
        ElementTree.SubElement(case, "system-out").text = words.clean(f"{rule.severity}: {one.finding.detail}")
    elif one.state != "pass":
        ElementTree.SubElement(case, "skipped", message=words.clean(f"{one.state}: {one.reason}"))
    return case
