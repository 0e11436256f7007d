"""`compare --where`, and the comparison that `history` prints after a change of one case on one host."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from hotlap.cli import main

WOBBLE = (0.0, 0.4, -0.3, 0.1, -0.5, 0.2, 0.3, -0.2)


@pytest.fixture
def nightly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hosts, two cases, sixteen nights; from the ninth on n1 loses 5 % in one case."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    each = [(night, host, case) for night in range(16) for host in ("n1", "n2") for case in ("triad 1 GiB", "copy")]
    level = {(host, case, late): 4000.0 for _, host, case in each for late in (False, True)} | {("n1", "triad 1 GiB", True): 3800.0}
    rows = [
        f"2026-11-{night + 1:02}T00:00:00,{host},H200,{case},{level[host, case, night > 7] + WOBBLE[night % 8]},GB/s" for night, host, case in each
    ]
    path = tmp_path / "nightly.csv"
    path.write_text("\n".join(["time,host,device,case,value,unit", *rows]) + "\n")
    return path


def test_history_prints_the_comparison_of_the_case_and_host_that_changed(nightly: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(nightly)]) == 0
    capsys.readouterr()
    assert main(["history"]) == 0
    (command,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next    hotlap compare ")]
    assert "--where 'case=triad 1 GiB' --where host=n1 " in command
    assert main([*shlex.split(command)[2:], "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert [(case["name"], case["state"]) for case in answer["cases"]] == [("triad 1 GiB", "slower")]
    assert answer["cases"][0]["value"] == pytest.approx(0.95, abs=0.001)
    assert {len(side["runs"]) for side in answer["sides"]} == {8}
    both = ["compare", "2026-11-01..2026-11-09", "2026-11-09..2026-11-17"]
    assert main([*both, "--where", "host=n2", "--assume-stable"]) == 0
    assert "2 cases: 2 same" in capsys.readouterr().out
    assert main([*both, "--where", "host=n3"]) == 2
    assert "has host=n3; valid: n1, n2" in capsys.readouterr().err


def test_a_comma_in_where_begins_a_filter_or_a_value_and_each_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    assert main(["run", "quick", "--target", "simulated:h200-sxm", "--rounds", "1"]) == 0
    capsys.readouterr()

    def shown(*where: str) -> list[str]:
        assert main(["show", "--json", *(word for one in where for word in ("--where", one))]) == 0
        return [case["name"] for case in json.loads(capsys.readouterr().out)["cases"]]

    assert shown("workload=stream,op=triad") == shown("workload=stream", "op=triad") != shown("workload=stream")
    assert set(shown("workload=stream,fma")) == {*shown("workload=stream"), *shown("workload=fma")}
    for where, words in (("workload=gemm,dtype=bf17", "'dtype' cannot be 'bf17'"), ("workload=fma,typo", "there is no workload 'typo'")):
        assert main(["show", "--where", where]) == 2
        assert words in capsys.readouterr().err
