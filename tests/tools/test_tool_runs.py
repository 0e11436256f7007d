"""hotlap tool run and read: rounds, reasons, Hotlap's own number beside, and what is refused before anything runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hotlap.cli import main
from hotlap.core.analysis import rows as tables
from hotlap.core.measure.targets.host import HostTarget
from hotlap.core.store import bundle as bundles
from hotlap.core.store import locks

FILE = """name = "{name}"
about = "prints a rate"
measures = "{measures}"
terms = "{terms}"
find = ["sh"]
lies = ["it only prints"]
[parameters]
rate = {{ default = 5, about = "what it prints" }}
note = {{ default = "x", identity = false }}
[run]
command = ["{{program}}", "-c", '{line}']
timeout = "{timeout}"
[[result]]
read = "regex"
match = 'rate (?P<value>\\S+) (?P<unit>\\S+)'
name = "rate"
unit = "GB/s"
{more}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "tools").mkdir(parents=True)
    return tmp_path / "home"


def write(home: Path, name: str = "echoed", line: str = "echo rate {rate} GB/s", **more: str) -> None:
    given = {"measures": "machine", "terms": "", "timeout": "20 s", "more": "", **more}
    (home / "tools" / f"{name}.toml").write_text(FILE.format(name=name, line=line, **given))


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_rounds_are_processes_with_an_interval_and_sensors(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home, line='echo rate $((RANDOM_ + {rate})) GB/s'.replace("RANDOM_ + ", ""))
    code, said = answer(capsys, "tool", "run", "echoed", "rate=7", "--wait", "5 min")
    (case,) = said["cases"]
    assert (code, case["value"], case["unit"], case["name"]) == (0, 7e9, "B/s", "echoed rate rate=7")
    (path,) = (home / "runs").iterdir()
    kept = bundles.load(path)
    assert [one.round for one in kept.samples] == list(range(6))
    assert {column.device for column in kept.readings}
    (row,) = tables.rows(kept)
    assert (row.summary.low, row.summary.high) == (7e9, 7e9)
    assert main(["show", path.name]) == 0
    assert "echoed rate rate=7" in capsys.readouterr().out


def test_two_tools_run_in_turns(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("first", "second"):
        write(home, name)
    code, said = answer(capsys, "tool", "run", "first", "second", "--rounds", "3", "--wait", "5 min")
    assert (code, len(said["cases"])) == (0, 2)
    (path,) = (home / "runs").iterdir()
    kept = bundles.load(path)
    names = {case.id: case.params["tool"] for case in kept.run.plan.cases}
    order = [names[one.case] for one in sorted(kept.samples, key=lambda one: one.began_s)]
    assert order == ["first", "second", "second", "first", "first", "second"]


@pytest.mark.parametrize(
    ("line", "more", "reason"),
    [
        ("echo nothing", {}, "stdout has no row for 'rate'; it ends: nothing"),
        ("echo rate 0 GB/s", {}, "it is 0: nothing was measured"),
        ("echo rate 5 GB/s; echo broken >&2; exit 4", {}, "echoed ended with status 4: broken"),
        ("echo rate 5 MB/s", {}, "the output says 'MB/s' where the tool file says 'GB/s'"),
        ("sleep 60", {"timeout": "0.3 s"}, "echoed ran longer than its limit of 300 ms and was ended"),
    ],
)
def test_no_number_is_a_case_that_was_not_run(home: Path, capsys: pytest.CaptureFixture[str], line: str, more: dict[str, str], reason: str) -> None:
    write(home, line=line, **more)
    code, said = answer(capsys, "tool", "run", "echoed", "--rounds", "1", "--wait", "5 min")
    (case,) = said["cases"]
    assert (code, case["value"], case["state"]) == (3, None, "not_run")
    assert reason in json.dumps(said)


def test_a_tool_that_is_not_here(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home)
    file = home / "tools" / "echoed.toml"
    file.write_text(file.read_text().replace('find = ["sh"]', 'find = ["no-such-program"]'))
    with locks.hold([HostTarget().device]):  # which is not asked for
        assert main(["tool", "run", "echoed", "--rounds", "1"]) == 3
    assert capsys.readouterr().err == "hotlap: nothing was run: echoed: there is no program no-such-program\n"
    assert not (home / "runs").exists()
    write(home, "other")
    code, said = answer(capsys, "tool", "run", "echoed", "other", "--rounds", "1", "--wait", "5 min")
    assert code == 0
    assert "not run, because there is no program no-such-program" in json.dumps(said)


def test_what_means_a_case_of_ours_has_it_beside(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = 'like = "stream op=copy size=1MiB"\nfactor = 2.0\ndiffers = "it counts a copied byte once"'
    write(home, more=more)
    assert main(["tool", "run", "echoed", "--rounds", "2", "--wait", "5 min"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("stream copy fp32 1 MiB\n")
    (ours,) = [line for line in out.splitlines() if line.startswith("Hotlap ")]
    (theirs,) = [line for line in out.splitlines() if line.startswith("echoed ")]
    assert "5.00 GB/s" in theirs
    assert "10.0 GB/s" in theirs  # as Hotlap counts
    assert "100 %" in ours  # of itself
    assert "echoed rate: it counts a copied byte once" in out
    assert len(list((home / "runs").iterdir())) == 2
    assert main(["tool", "run", "echoed", "--rounds", "1", "--alone", "--wait", "5 min"]) == 0
    assert not [line for line in capsys.readouterr().out.splitlines() if line.startswith("Hotlap ")]


def test_a_like_number_has_the_limit_of_that_case(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A product of 1 TFLOP/s on a GPU of the table: its share is that of our own product at the same rate."""
    from msgspec.structs import replace

    write(home, line="echo rate {rate} TFLOP/s", more='like = "gemm m=8192 n=8192 k=8192 dtype=bf16"')
    file = home / "tools" / "echoed.toml"
    file.write_text(file.read_text().replace('unit = "GB/s"', 'unit = "TFLOP/s"'))
    assert main(["tool", "run", "echoed", "rate=600", "--alone", "--target", "simulated:h200-sxm", "--rounds", "2"]) == 0
    capsys.readouterr()
    (path,) = (home / "runs").iterdir()
    (row,) = tables.rows(bundles.load(path))
    assert row.gap.reference_kind in ("bound", "expected")
    assert row.gap.share == pytest.approx(600e12 / row.gap.limit_value, rel=1e-6)
    half = replace(row.result.case, params={**row.result.case.params, "factor": 0.5})
    kept = bundles.load(path)
    changed = replace(kept.run, plan=replace(kept.run.plan, cases=[half]))
    (other,) = tables.rows(bundles.Bundle(path=kept.path, run=changed, samples=[replace(one, case=half.id) for one in kept.samples],
                                          readings=kept.readings, notices=[]))  # fmt: skip
    assert other.gap.share == pytest.approx(row.gap.share / 2, rel=1e-6)
    assert other.gap.limit_value == pytest.approx(2 * row.gap.limit_value, rel=1e-6)


def test_terms_go_with_the_numbers_into_every_export(home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(home, terms="SPEC")
    assert main(["tool", "run", "echoed", "--rounds", "1", "--wait", "5 min"]) == 0
    assert "SPEC's fair-use rule" in capsys.readouterr().out
    (path,) = (home / "runs").iterdir()
    for words in (["show", path.name, "--format", "markdown"], ["show", path.name, "--format", "csv"]):
        assert main(words) == 0
        assert "fair-use" in capsys.readouterr().out, words
    _, said = answer(capsys, "show", path.name)
    assert said["cases"][0]["codes"].count("terms") == 1
    assert said["runs"][0]["labels"]["terms"] == "SPEC"
    page = tmp_path / "page.html"
    assert main(["report", path.name, "--out", str(page)]) == 0
    assert "fair-use" in page.read_text()


def test_a_file_from_elsewhere(home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(home)
    (tmp_path / "out.txt").write_text("rate 3.5 GB/s\n")
    assert main(["tool", "read", "echoed", str(tmp_path / "out.txt")]) == 0
    assert "3.50 GB/s" in capsys.readouterr().out
    (tmp_path / "out.txt").write_text("rate inf GB/s\n")
    assert main(["tool", "read", "echoed", str(tmp_path / "out.txt")]) == 3
    assert "no number: rate (line 1): 'inf' is no number" in capsys.readouterr().out


def test_the_tool_of_a_file_is_found_by_its_numbers(home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(home)
    file = tmp_path / "out.txt"
    file.write_text("rate 3.5 GB/s\n")
    assert main(["tool", "read", str(file)]) == 0
    said = capsys.readouterr()
    assert ("read as the output of echoed" in said.err, "3.50 GB/s" in said.out) == (True, True)
    assert main(["import", str(file)]) == 2
    assert f"hotlap tool read {file}" in capsys.readouterr().err
    write(home, "twin")
    assert main(["tool", "read", str(file)]) == 2
    assert f"{file} may be of echoed, twin; name the tool: hotlap tool read echoed {file}" in capsys.readouterr().err
    file.write_text("nothing\n")
    assert main(["tool", "read", str(file)]) == 2
    assert "no tool reads a number in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "run which tool? give names, or a quantity as memory"),
        (["run", "echoedd"], "there is no tool 'echoedd'; did you mean 'echoed'?"),
        (["run", "echoed", "rat=3"], "echoed has no parameter 'rat'; did you mean 'rate'?"),
        (["run", "echoed", "rate=many"], "'rate': 'many' is not a quantity"),
        (["run", "echoed", "note=/dev/sda"], "names a device, '/dev/sda'"),
        (["run", "echoed", "--rounds", "0"], "--rounds is a whole number from 1 to 1,000, not '0'"),
        (["run", "glmark2", "--prefix", "adb shell"], "--prefix: glmark2 cannot run elsewhere: its numbers stand in a file"),
        (["run", "inference"], "no tool for inference can be run here"),
        (["show"], "show which tool? give one name"),
        (["list", "echoed"], "list takes no name; hotlap tool show echoed"),
        (["read", "echoed"], "give the tool and its output"),
        (["read", "echoed", "gone.txt"], "there is no file 'gone.txt'"),
        (["test", "gone.toml"], "there is no file 'gone.toml'"),
    ],
)
def test_bad_input_is_one_line_before_anything_runs(home: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    write(home)
    code = main(["tool", *words])
    said = capsys.readouterr()
    assert code == (1 if words[0] == "test" else 2)
    assert message in said.err + said.out
    assert not (home / "runs").exists()


def test_an_interrupt_keeps_what_was_measured(home: Path) -> None:
    write(home, line="sleep 0.1; echo rate 5 GB/s")
    process = subprocess.Popen(
        [sys.executable, "-m", "hotlap", "tool", "run", "echoed", "--rounds", "1000", "--wait", "5 min"], env=dict(os.environ),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    samples = home / "runs"
    until = time.monotonic() + 300
    while not any(path.stat().st_size for path in samples.glob("*/samples.jsonl")) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    (path,) = samples.iterdir()
    kept = bundles.load(path)
    assert kept.samples
    assert [stop.kind for stop in kept.run.stops] == ["interrupted"]
    assert "5.00 GB/s" in out


def test_it_says_what_it_executes_and_how_far_it_is(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home)
    assert main(["tool", "run", "echoed", "--rounds", "3", "--alone", "--wait", "5 min"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "echoed: 3 executions, at most 20.0 s each, 60.0 s in all"
    assert sum(line.startswith("1 of 3 executions, echoed: ") for line in lines) == 1


def test_a_busy_machine_is_named_as_by_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hotlap.core.record import Look
    from hotlap.tools.cli import _Progress

    _Progress(1).looked(Look(seconds=1.0, others_share=0.9, cores=8))
    assert capsys.readouterr().err.startswith("hotlap: the machine is busy: ")


def test_a_budget_ends_after_the_round_that_fits(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(home, line="sleep 0.4; echo rate {rate} GB/s", more='like = "stream op=copy size=1MiB"\nfactor = 2.0')
    code, said = answer(capsys, "tool", "run", "echoed", "--rounds", "1000", "--budget", "2 s", "--wait", "5 min")
    (path,) = (home / "runs").iterdir()
    kept = bundles.load(path)
    assert (code, len(said["cases"]), [stop.kind for stop in kept.run.stops]) == (0, 1, ["budget"])
    assert 1 <= len(kept.samples) <= 5
    assert main(["tool", "run", "echoed", "--budget", "0 s"]) == 2
    assert "--budget is a time above 0, as in '2 min', not 0 s" in capsys.readouterr().err
