"""A rate of zero is the worst there is: no verdict passes it, and it spoils none of the others."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.core.analysis import reference
from hotlap.core.record import Case, Gap, Result, Row, Summary, Verdict
from hotlap.core.work.program import IMPORTED


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path


def fleet(path: Path, nodes: int, cases: int, zero: str, text: str = "0") -> str:
    noise = random.Random(1)
    lines = ["time,host,case,value,unit"]
    for node in range(nodes):
        for case in range(cases):
            value = text if f"n{node:03}" == zero and case == 0 else f"{350 * math.exp(noise.gauss(0, 0.01)):.4f}"
            lines.append(f"2026-11-21,n{node:03},allreduce{case},{value},GB/s")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize(("nodes", "cases"), [(40, 3), (40, 1), (8, 1)])
def test_a_node_of_a_fleet_whose_rate_is_zero_does_not_pass(home: Path, nodes: int, cases: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", fleet(home / "fleet.csv", nodes, cases, "n003")]) == 0
    assert "'0' is no rate, which is above zero" in capsys.readouterr().out
    assert main(["gate", "2026-11-21", "--against", "fleet", "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    states = {case["host"]: set[str]() for case in answer["cases"]}
    for case in answer["cases"]:
        states[case["host"]].add(case["state"])
    assert "error" in states["n003"]
    assert {state for host, own in states.items() if host != "n003" for state in own} <= {"pass"}


def test_zero_of_a_number_of_which_less_is_better_is_a_number(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", fleet(home / "errors.csv", 8, 1, "n003"), "--better", "lower"]) == 0
    assert "is no rate" not in capsys.readouterr().out


def test_a_rate_of_zero_fails_against_any_reference() -> None:
    """As of runs that an older Hotlap brought in."""
    case = Case(workload="imported", params=IMPORTED.full({"name": "a", "unit": "B/s", "better": "higher"}))
    result = Result(case=case, device="d", target="imported", status="measured", unit="B/s", better="higher", values=[0.0] * 6)
    row = Row(case=case, device="d", label="a", result=result, summary=Summary(median=0.0, rounds=6), gap=Gap(), verdict=Verdict(state="pass"))
    held = reference.against(row, [3e9, 3.1e9, 3e9, 2.9e9], [], "4 runs", "baseline")
    assert held.state == "fail"  # type: ignore[union-attr]
    assert held.reason == "0 B/s, where the median of 4 runs is 3.00 GB/s"  # type: ignore[union-attr]


def test_an_import_without_a_usable_number_does_not_end_with_0(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "no result has a number that can be used: exit code 3"
    table = home / "zeros.csv"
    table.write_text("time,case,value,unit\n2026-11-21,a,0,GB/s\n2026-11-21,b,-1,GB/s\n")
    assert main(["import", str(table)]) == 3
    assert said in capsys.readouterr().out
    table.write_text("time,case,value,unit\n2026-11-22,a,0,GB/s\n2026-11-22,b,1,GB/s\n")
    assert main(["import", str(table)]) == 0
    assert said not in capsys.readouterr().out
