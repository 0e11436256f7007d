"""The manual names everything there is: workloads with their parameters, verbs with their options, plan keys, public names."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

import hotlap
from hotlap import cli
from hotlap.cli import parser_of
from hotlap.cli.commands import VERBS
from hotlap.core.measure.targets.faults import INJECTIONS
from hotlap.core.plan import measuring
from hotlap.core.show import workloads
from hotlap.core.work import WORKLOADS
from hotlap.nodes import audit

DOCS = Path(__file__).resolve().parent.parent / "docs"


def section(document: str, title: str) -> str:
    parts = re.split(rf"^## {re.escape(title)}$", (DOCS / document).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(parts) == 2, f"{document} needs one section '## {title}'"
    return re.split(r"^## ", parts[1], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_and_parameter_is_described(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, link = section("workloads.md", name), f"[{name}](#{name})"
    assert text.strip(), f"docs/workloads.md, section {name}: say what a call counts and what its result is checked against"
    assert link in (DOCS / "workloads.md").read_text(encoding="utf-8"), f"docs/workloads.md needs {link} in its table of families"
    assert cli.main(["schema", "workloads", name]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.startswith(f"{name}: ")
    table = lines[next(n for n, line in enumerate(lines) if line.startswith("parameter")) + 1 :]
    rows = [re.split(r"  +", line, maxsplit=2) for line in table if not line.startswith(" ")]
    assert [(parameter, shown) for parameter, shown, _ in rows] == [(p.name, workloads.default(p)) for p in WORKLOADS[name].params]
    assert all(meaning.strip() for *_, meaning in rows)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_is_described(verb: str) -> None:
    """A verb on the page of commands, its options and arguments in its help."""
    parser = parser_of(verb)
    assert section("command-line.md", parser.prog).strip()  # the verbs of a noun that are one parser share a section
    for action in parser._actions:
        assert action.help, f"{verb} {action.option_strings or action.dest}"
    printed = parser.format_help()
    for action in parser._actions:
        if action.help is not argparse.SUPPRESS:  # a former name
            assert all(option in printed for option in action.option_strings), verb


def test_every_plan_key_is_described() -> None:
    text = (DOCS / "plans.md").read_text(encoding="utf-8")
    for key in measuring.OPTIONS:
        assert f"`{key}`" in text, key


def test_every_fault_of_the_simulator_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert "hotlap devices --simulated" in (DOCS / "simulated.md").read_text(encoding="utf-8")
    assert cli.main(["devices", "--simulated", "--target", "host"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for name, (about, example, answer) in INJECTIONS.items():
        assert f" {name}={example} {about} → {answer}" in printed


def test_the_public_names_are_these() -> None:
    """A change here needs a line in the changelog."""
    assert hotlap.__all__ == [
        "Run", "Timeline", "__version__", "changes", "compare", "findings", "load", "marker", "measure", "predict", "run", "step", "steps",
    ]  # fmt: skip
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    for name in hotlap.__all__:
        assert getattr(hotlap, name) is not None
        assert f"hotlap.{name}" in text, name


def test_the_number_of_rules_is_that_of_the_list() -> None:
    assert set(re.findall(r"(\d+) rules\b", (DOCS / "audit.md").read_text(encoding="utf-8"))) == {str(len(audit.builtin()))}


def test_no_table_is_cut_by_an_empty_line() -> None:
    """What follows one is rendered as text: a table begins with its heading and a line of dashes."""
    for path in [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]:
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, (before, line, after) in enumerate(zip(lines, lines[1:], [*lines[2:], ""], strict=False), 2):
            assert not (line.startswith("| ") and not before) or re.fullmatch(r"\|[ :|-]+\|", after), f"{path.name}:{number}"
