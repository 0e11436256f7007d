"""An audit's findings as JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from hotlap.core.show import words
from hotlap.core.show.junit import suite, text
from hotlap.nodes.audit import SEVERITIES, AuditOutcome, AuditRule


def audit(host: str, outcomes: Sequence[AuditOutcome], rules: Mapping[str, AuditRule], least: str = "error") -> str:
    """One suite for the node, a test per rule and member. A finding fails from severity `least` on; a lesser one stands in the output."""
    suites = ElementTree.Element("testsuites", name="hotlap node audit")
    suite(suites, words.clean(host), [_audited(one, rules[one.rule], SEVERITIES.index(least)) for one in outcomes])
    return text(suites)


def _audited(outcome: AuditOutcome, rule: AuditRule, least: int) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=f"audit.{outcome.rule}", name=words.clean(f"{rule.title} {outcome.at}".strip()))
    if outcome.finding and SEVERITIES.index(outcome.finding.severity) >= least:
        failure = ElementTree.SubElement(case, "failure", message=words.clean(f"{rule.severity}: {rule.title}"))
        failure.text = words.clean(outcome.finding.detail)
    elif outcome.finding:
        ElementTree.SubElement(case, "system-out").text = words.clean(f"{rule.severity}: {outcome.finding.detail}")
    elif outcome.state != "pass":
        ElementTree.SubElement(case, "skipped", message=words.clean(f"{outcome.state}: {outcome.reason}"))
    return case
