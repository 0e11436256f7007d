"""The review of five newcomers: each of its 30 findings has a test, a task or an argument; its tasks are one command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.review.findings import FINDINGS, Finding
from benchmarks.review.tasks import TASKS

TESTS = Path(__file__).resolve().parent
REVIEW = TESTS.parent / "benchmarks" / "review"


def test_every_finding_and_task_is_there_once() -> None:
    assert [one.number for one in FINDINGS] == list(range(1, 31))
    assert [one.number for one in TASKS] == list(range(1, 28))


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: str(finding.number))
def test_a_finding_is_held_by_what_is_there(finding: Finding) -> None:
    assert finding.tests or finding.tasks or finding.argued, "neither test nor task nor argument"
    for node in finding.tests:
        file, _, name = node.partition("::")
        assert re.search(rf"^def {name}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE), f"there is no test {node}"
    assert {*finding.tasks} <= {task.number for task in TASKS}


@pytest.mark.slow("starts Python twenty times")
def test_wrong_inputs_and_guessed_names_have_an_answer() -> None:
    done = subprocess.run([sys.executable, str(REVIEW), "4", "27"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 tasks, 0 failed" in done.stdout
