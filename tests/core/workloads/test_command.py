"""Any program as a workload."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.measure.loop import CaseBudget
from hotlap.core.measure.programs import measure
from hotlap.core.measure.targets.host import HostTarget
from hotlap.core.record import Case, Samples


def _run(**given: object) -> Samples:
    return measure(HostTarget(), Case(workload="command", params=work.find("command").parse(given)), CaseBudget(seconds=0.05))


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_wall_time() -> None:
    samples = _run(argv=_python("import time; time.sleep(0.05)"))
    assert samples.status == "measured"
    assert samples.method == "program"
    assert all(v >= 0.05 for v in samples.values)


def test_a_number_by_pattern_is_scaled() -> None:
    samples = _run(argv=["echo", "speed: 1,234.5 MB/s"], read="pattern", expression=r"speed: ([\d.,]+) MB", unit="B/s", scale=1e6, better="higher")
    assert samples.method == "program"
    assert set(samples.values) == {1234.5e6}


def test_a_number_by_json_pointer_after_other_lines() -> None:
    samples = _run(argv=["printf", 'warming up\\n{"a": [{"b/c": "7.5"}]}\\n'], read="pointer", expression="/a/0/b~1c", unit="ms")
    assert set(samples.values) == {7.5}


def test_folder_and_environment(tmp_path: Path) -> None:
    (tmp_path / "value").write_text("3")
    samples = _run(argv=["sh", "-c", 'echo "$(cat value)$X"'], folder=str(tmp_path), environment=["X=4"], read="pattern", expression=r"\d+")
    assert set(samples.values) == {34.0}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"argv": ["/no/such/program"]}, "cannot be run"), ({"argv": ["sh", "-c", "echo bad news >&2; exit 3"]}, "status 3: bad news"),
        ({"argv": ["echo", "x"], "read": "pattern", "expression": r"\d"}, "not in the program's output"),
        ({"argv": ["echo", "ab"], "read": "pattern", "expression": "(a)"}, "no number"), ({"argv": ["echo", "ab"], "read": "pointer", "expression": "/a"}, "no JSON"),
        ({"argv": ["echo", "{}"], "read": "pointer", "expression": "/a"}, "nothing at '/a'"),
        ({"argv": ["echo", '{"a": true}'], "read": "pointer", "expression": "/a"}, "no number at"), ({"argv": ["sleep", "5"], "timeout": "0.05 s"}, "ran longer than its limit of 50 ms and was ended; give it more: timeout in a plan, --timeout"),
        ({"argv": ["echo", "inf"], "read": "pattern", "expression": ".+"}, "the number in the program's output is inf, which is not finite"),
        ({"argv": ["echo", "nan"], "read": "pattern", "expression": ".+"}, "is nan, which is not finite"),
        ({"argv": ["echo", '{"a": NaN}'], "read": "pointer", "expression": "/a"}, "is nan, which is not finite"),
        ({"argv": ["echo", "1e308"], "read": "pattern", "expression": ".+", "scale": 1e10}, "is 1e+308 × scale 1e+10, which is not finite"),
        ({"argv": ["true"], "folder": "/no/such/folder"}, "there is no folder '/no/such/folder'"),
        ({"argv": ["a\0b"]}, "cannot be run: embedded null byte"),
        ({"argv": ["echo", "rate 5"], "read": "pattern", "expression": "speed"}, "which ends: rate 5"),
        ({"argv": ["echo", "b"], "read": "pattern", "expression": "(a)?b"}, "found '', which is no number"),
    ],
)
def test_what_goes_wrong_is_the_reason(given: dict[str, object], reason: str) -> None:
    samples = _run(**given)
    assert samples.status in ("not_run", "invalid")
    assert reason in samples.reason


@pytest.mark.parametrize(("given", "reason"), [
    ({"argv": []}, "'argv' is empty"), ({"argv": ["true"], "read": "pattern"}, "needs 'expression'"),
    ({"argv": ["true"], "environment": ["X"]}, "NAME=value, not 'X'"),
    ({"argv": ["echo", "1"], "read": "pattern", "expression": "("}, "not a regular expression"),
])
def test_wrong_questions(given: dict[str, object], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        work.find("command").parse(given)
    case = Case(workload="command", params=work.find("command").complete(given))  # as a run of an earlier version may have kept it
    samples = measure(HostTarget(), case, CaseBudget(seconds=0.05))
    assert samples.status == "error"
    assert reason in samples.reason


def test_wrong_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"wall, pattern, pointer|did you mean"):
        work.find("command").parse({"argv": ["true"], "read": "patern"})
