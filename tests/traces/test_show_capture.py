"""How a capture is shown: its findings on the terminal and on a page, and nothing of rounds, precision or cases, which it has not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from hotlap.__main__ import main
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.targets import host
from hotlap.core.record import MeasureOptions, Plan, RunRecord, Samples, Stop
from hotlap.core.store import bundle as bundles
from hotlap.core.work.program import CALLABLE
from hotlap.traces import capture, captured
from hotlap.traces.capture import CaptureOptions
from hotlap.traces.captured import Captured, CapturedProcess, CaptureHost, CaptureOverhead

UNTRUE = re.compile(r"at least 6 rounds|--rounds|[Pp]recision asked|1 round|few rounds|inconclusive|run was stopped|A round is a fresh")
SLOW = (8, 9, 10)  # steps
TRACE, SECOND = "trace-77.json", "trace-78.json"


def trace() -> str:
    """Twenty steps of 10 ms, three of them of 40 ms in a row, in the format of PyTorch's profiler."""
    events, now = [], 1000.0
    for step in range(20):
        length = 40_000.0 if step in SLOW else 10_000.0
        at = {"ph": "X", "ts": now, "pid": 77, "tid": 77}
        events.append(at | {"cat": "user_annotation", "name": f"ProfilerStep#{step}", "dur": length})
        events.append(at | {"cat": "cpu_op", "name": "aten::mm", "ts": now + 10, "dur": length - 20})
        now += length
    return json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events})


def kept(home: Path, traces: dict[str, str], tool: str = "pytorch", whole: bool = True) -> bundles.Bundle:
    """A capture as `hotlap trace capture` leaves it; not `whole`: without the record of what came of it."""
    device = host.describe()
    case = CALLABLE.case({"name": "a step of python train.py"})
    run = RunRecord(
        id="20261101T120000-abcdef", kind="capture", began="2026-11-01T12:00:00+00:00", ended="2026-11-01T12:00:09+00:00", hotlap="0.2.0",
        plan=Plan(name="capture", about="python train.py", cases=[case], measure=MeasureOptions(rounds=1)), machine=fingerprint([device]),
        target=device.target, devices=[device.key], stops=[Stop("program_ended")], labels={"program": "train"},
    )  # fmt: skip
    writer = bundles.Writer.create(run, home)
    for name, content in traces.items():
        (writer.path / name).write_text(content)
    one = CapturedProcess(place="77", pid=77, steps=60, trace=TRACE, usual_s=[[0.01, 0.02, 0.03]])
    if whole:
        captured.write(writer.path, Captured(argv=["python", "train.py"], tool=tool, exit_code=0, processes=[one], traces=list(traces)))
    writer.append(Samples(case=case.id, device=device.key, round=0, values=[0.01, 0.02, 0.03], method="program", warmup_samples=1))
    writer.finish(run)
    return bundles.load(writer.path)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    return tmp_path


def page(home: Path, run: str) -> str:
    assert main(["report", run, "--out", str(home / "page.html")]) == 0
    html = (home / "page.html").read_text(encoding="utf-8")
    return html[html.index('<section id="top">') : html.index('<script type="application/json"')]


def test_show_has_the_findings_and_how_to_get_the_page_of_the_trace(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = kept(home, {TRACE: trace()})
    assert main(["show", "program=train"]) == 0
    out = capsys.readouterr().out
    assert "steps   60 in all" in out
    assert "3 of 20 steps take up to 4.0 times the median of 10.0 ms, in a row" in out
    assert f"next    hotlap trace {bundle.path / TRACE} --html page.html" in out
    assert not UNTRUE.search(out)


def test_explain_and_gate_say_that_a_capture_has_no_cases(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = kept(home, {TRACE: trace()})
    assert main(["explain", bundle.run.id]) == 0
    out = capsys.readouterr().out
    assert f"a capture has no cases to explain; hotlap show {bundle.run.id} says where" in out
    assert not UNTRUE.search(out)
    assert main(["gate", bundle.run.id]) == 2
    assert "hotlap trace diff A B" in capsys.readouterr().err


def test_the_page_has_the_findings_and_no_advice_on_rounds(home: Path) -> None:
    bundle = kept(home, {TRACE: trace()})
    html = page(home, bundle.run.id)
    assert "Most to gain: 0 to 31 % of the window, some steps take far longer than the others." in html
    assert "3 of 20 steps take up to 4.0 times the median of 10.0 ms, in a row" in html
    assert "<dt>Steps</dt><dd>60 in all; median 20.0 ms" in html
    assert f"<code>hotlap trace {bundle.path / TRACE} --html page.html</code>" in html
    assert "A capture runs the program once" in html
    assert not UNTRUE.search(html)


def test_a_trace_that_cannot_be_read_says_so_beside_the_others(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = kept(home, {TRACE: trace(), SECOND: ""})
    assert main(["show", bundle.run.id]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "is empty" in out
    assert "in a row" in out
    assert out.endswith(f"{TRACE} --html page.html")  # one that can be read, not the folder: nothing joins the two
    html = page(home, bundle.run.id)
    assert f"<h3>{TRACE}</h3>" in html
    assert "is empty</p>" in html


def test_counters_have_no_timeline_to_look_into(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = kept(home, {"kernels.ncu-rep": "x"}, tool="ncu")
    assert main(["show", bundle.run.id]) == 0
    assert "next    counters have no timeline; docs/kernels.md" in capsys.readouterr().out
    assert "counters have no timeline" in page(home, bundle.run.id)


def test_a_capture_that_was_killed_has_no_advice_on_rounds(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = kept(home, {}, whole=False)
    main(["show", bundle.run.id])
    out = capsys.readouterr().out
    assert "trace   none was recorded" in out
    assert not UNTRUE.search(out)
    main(["report", bundle.run.id, "--out", str(home / "page.html")])
    html = (home / "page.html").read_text(encoding="utf-8")
    assert "No trace was recorded." in html
    assert "python train.py" in html
    assert "at least 6 rounds" not in html[: html.index('<script type="application/json"')]


@pytest.mark.parametrize(("code", "says"), [(2, "the program ended with 2, and no process of it imported PyTorch"), (0, "Python's -I, -E and -S keep it out")])
def test_a_program_that_never_imported_pytorch(code: int, says: str) -> None:
    assert says in capture.why_nothing(Captured(argv=["python", "x.py"], tool="pytorch", exit_code=code), CaptureOptions(argv=["python"]))


def test_a_capture_beside_other_programs_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = kept(home, {TRACE: trace()})
    assert main(["show", bundle.run.id]) == 0
    quiet = capsys.readouterr().out
    record = captured.read(bundle.path)
    assert record is not None
    assert "other programs used" not in quiet
    for used, others, crowded in ((0.9, 0.9, False), (0.7, 1.3, True), (1.8, 0.1, False), (1.5, 0.5, True)):
        host = CaptureHost(cores=2, used=used, others=others)
        captured.write(bundle.path, msgspec.structs.replace(record, host=host))
        assert main(["show", bundle.run.id]) == 0
        shown = capsys.readouterr().out
        assert (f"other programs used {others:.1f} of 2 processors, and this one {used:.1f}" in shown) == crowded


@pytest.mark.parametrize(("spread", "others", "crowded"), [(2.3, 0.8, True), (2.3, 0.1, False), (0.2, 0.8, False)])
def test_uneven_steps_beside_other_programs_are_disturbed_though_the_program_needs_little_on_average(
    spread: float, others: float, crowded: bool
) -> None:
    host, overhead = CaptureHost(cores=2, used=0.36, others=others), CaptureOverhead(spread=spread)
    assert Captured(argv=["python"], tool="pytorch", exit_code=0, host=host, overhead=overhead).crowded == crowded


def test_the_trace_of_a_capture_beside_other_programs_is_less_sure_wherever_it_is_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = kept(home, {TRACE: trace()})
    record = captured.read(bundle.path)
    assert record is not None
    host = CaptureHost(cores=2, used=0.7, others=1.3)
    captured.write(bundle.path, msgspec.structs.replace(record, host=host))
    assert main(["trace", str(bundle.path / TRACE), "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["traces"]
    assert [notice["code"] for notice in answer["notices"]] == ["crowded"]
    assert {each["finding"]["confidence"] for each in answer["findings"]} == {"low"}
    assert main(["trace", str(bundle.path / TRACE)]) == 0
    assert "other programs used 1.3 of 2 processors" in capsys.readouterr().out


def test_a_capture_is_a_run_to_trace_too(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = kept(home, {TRACE: trace()})
    assert main(["trace", str(bundle.path / TRACE)]) == 0
    by_file = capsys.readouterr().out
    for name in (bundle.run.id, "latest"):
        assert main(["trace", name]) == 0
        assert capsys.readouterr().out == by_file
    (bundle.path / captured.FILE).unlink()
    assert main(["trace", bundle.run.id]) == 2
    assert f"the run {bundle.run.id} holds no trace; hotlap trace capture" in capsys.readouterr().err
    assert main(["trace", "nothing.json"]) == 2
    assert "'nothing.json' cannot be read" in capsys.readouterr().err
