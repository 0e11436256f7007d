"""hotlap training frontier: values in turns, points with their reasons, the frontier, the knee and the line, and what is refused. Programs
sleep, so that which point is better is sure on any machine; how fast they are is never asserted on."""

from __future__ import annotations

import json
import math
import os
import textwrap
from pathlib import Path

import msgspec
import pytest

import hotlap
from hotlap.cli import main
from hotlap.core.show.document import Document
from hotlap.core.store import bundle as bundles
from hotlap.training import frontier, frontier_show
from hotlap.training.cli_frontier import values_of
from hotlap.training.frontier import BatchPoint, TrainingFrontier
from hotlap.training.record import TrainingAsked
from hotlap.training.summary import ProcessEstimate

SIZED = """
    import os, sys, time
    import hotlap
    size = int(os.environ.get("BATCH") or sys.argv[-1])
    if size == 16:
        raise MemoryError("no room for 16")
    if size == 32:
        raise ValueError("32 is odd")
    with hotlap.steps() as t:
        for _ in range(12):
            time.sleep(0.04 if size == 5 else 0.002 * size)
            t.step(tokens=8 * size)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(hotlap.__file__).parents[1]), str(tmp_path)]))
    return tmp_path


def script(home: Path) -> str:
    path = home / "train.py"
    path.write_text(textwrap.dedent(SIZED))
    return str(path)


def latest(home: Path) -> TrainingFrontier:
    kept = frontier_show.read(bundles.load(max((home / "home" / "runs").iterdir())))
    assert kept is not None
    return kept


def run(*words: str) -> int:
    return main(["training", "frontier", *words])


def test_a_program_that_fails_after_some_steps_has_a_point_and_no_success(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "crash.py"
    path.write_text("import hotlap\nfor _ in range(9):\n    hotlap.step()\nraise ValueError('bad batch')\n")
    assert run(str(path), "--vary", "BATCH=1,2", "--processes", "1") == 3
    assert [(point.processes, point.lost) for point in latest(home).points] == [(1, "failed"), (1, "failed")]
    out = " ".join(capsys.readouterr().out.split())
    assert "the program failed at 1, 2, whose steps until then count" in out
    assert "J/BATCH" in out


def test_values_are_measured_in_turns_and_a_lost_one_leaves_the_others(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(script(home), "--vary", "BATCH=1,4,16,32", "--processes", "2", "--json") == 3
    kept = latest(home)
    bundle = bundles.load(max((home / "home" / "runs").iterdir()))
    assert bundle.run.kind == "training-frontier"
    order = [one["arm"] for one in json.loads((bundle.path / "training.json").read_text())["processes"]]
    assert order == ["BATCH=1", "BATCH=4", "BATCH=16", "BATCH=32", "BATCH=4", "BATCH=1"]  # what failed once is not tried again
    assert [(point.value, point.processes, point.lost) for point in kept.points] == [(1, 2, ""), (4, 2, ""), (16, 1, "memory"), (32, 1, "failed")]
    assert "no room for 16" in kept.points[2].reason
    assert "ValueError: 32 is odd; its output is in output-" in kept.points[3].reason
    assert kept.unit == "tokens"
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document, strict=True)
    assert answer["exit_code"] == 3
    assert [point["value"] for point in answer["runs"][0]["frontier"]["points"]] == [1, 4, 16, 32]
    assert main(["show", "latest"]) == 0
    out = capsys.readouterr().out
    assert "out of memory: 16; no point at 32" in " ".join(out.split())
    page = home / "page.html"
    assert main(["report", "latest", "--out", str(page)]) == 0
    text = page.read_text()
    assert "Throughput over BATCH" in text
    assert "no room for 16" in text


@pytest.mark.slow("twelve fresh processes")
def test_a_value_that_is_slower_and_gives_less_is_surely_beaten(home: Path) -> None:
    assert run(script(home), "--vary=--size=2,5", "--processes", "6") == 0
    kept = latest(home)
    assert [point.arm for point in kept.points] == ["size=2", "size=5"]
    assert [point.front for point in kept.points] == [True, False]
    assert kept.axes == ["throughput", "step_s", "memory_bytes"]
    assert "surely beaten: 5" in frontier_show.answer(kept)


def test_where_all_run_out_of_memory_nothing_is_measured_and_it_says_why(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(script(home), "--vary", "BATCH=16,32", "--processes", "1") == 2
    out, err = capsys.readouterr()
    assert not out
    assert "out of memory: no room for 16; kept as" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--vary", "BATCH=1,0"], "'0' is none"), (["--vary", "BATCH=1,,2"], "'' is none"), (["--vary", "BATCH=2,2"], "each once"),
        (["--vary", "BATCH=3"], "two values at least"), (["--vary", "BATCH"], "not 'BATCH'"), (["--batch", "1,2"], "--batch is of a network"),
    ],
)  # fmt: skip
def test_a_list_that_is_none_is_refused_in_a_line(home: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    assert run(script(home), *words) == 2
    assert told in capsys.readouterr().err
    assert not (home / "home" / "runs").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["resnet-50"], "cannot be built as a module"), (["minilm-l6", "batch=2"], "leave one of them out"),
        (["minilm-l6", "--vary", "BATCH=1,2"], "--vary is of a program"), (["minilm-l6", "--batch", "1,x"], "'x' is none"),
    ],
)  # fmt: skip
def test_a_network_that_cannot_be_varied_so_is_refused(capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    assert run(*words) == 2
    assert told in capsys.readouterr().err


def test_values_may_stand_in_any_order() -> None:
    assert values_of("8, 1,4", "--batch") == [8, 1, 4]


# ---------------------------------------------------------------- what follows from points


def point(value: int, step_s: float, half: float = 0.0) -> BatchPoint:
    """Of a batch of `value`; `half`: of its interval, relative."""
    rate = value / step_s
    return BatchPoint(
        value=value, arm=f"batch={value}", processes=6,
        step_s=ProcessEstimate(value=step_s, low=step_s * (1 - half), high=step_s * (1 + half)),
        throughput=ProcessEstimate(value=rate, low=rate * (1 - half), high=rate * (1 + half)),
    )  # fmt: skip


def test_the_line_gives_back_what_steps_are_made_of() -> None:
    line = frontier.line([point(value, 0.010 + 0.002 * value) for value in (1, 2, 8, 32)])
    assert line is not None
    assert (line.fixed_s, line.each_s, line.half) == (pytest.approx(0.010), pytest.approx(0.002), pytest.approx(5.0))
    assert line.worst < 1e-9
    assert (line.half_low, line.half_high) == (pytest.approx(5.0), pytest.approx(5.0))
    wide = frontier.line([point(value, 0.010 + 0.002 * value, 0.05) for value in (1, 2, 8, 32)])
    assert wide is not None
    assert wide.half_low is not None
    assert wide.half_high is not None
    assert wide.half_low < 5 < wide.half_high
    assert frontier.line([point(value, 0.010 + 0.0001 * value, 0.2) for value in (1, 2, 8)]) is None  # noise alone
    assert frontier.line([BatchPoint(value=value, arm="", step_s=ProcessEstimate(value=0.01 + 0.002 * value)) for value in (1, 2, 8)]) is None
    assert frontier.line([point(1, 0.01), point(2, 0.02)]) is None
    assert frontier.line([point(value, 0.01 / value) for value in (1, 2, 4)]) is None  # no time that grows


def test_the_knee_is_the_smallest_that_reaches_most_of_it_and_sure_only_where_intervals_leave_no_other() -> None:
    points = [point(value, 0.010 + 0.001 * value, 0.01) for value in (1, 8, 64, 512)]
    knee = frontier._knee(points)
    assert knee is not None
    assert (knee.value, knee.sure) == (512, True)  # 64 gives 865 of 981: 0.88
    wide = frontier._knee([point(one.value, 0.010 + 0.001 * one.value, 0.2) for one in points])
    assert wide is not None
    assert not wide.sure
    assert frontier._knee(points[:1]) is None


def test_points_without_an_interval_beat_nothing() -> None:
    bare = [point(2, 0.01), point(4, 0.05)]  # 200 and 80 a second: the first is better in both
    sure, axes = frontier._fronts(bare)
    assert ([one.front for one in sure], axes) == ([True, False], ["throughput", "step_s"])
    unknown = [BatchPoint(value=one.value, arm=one.arm, step_s=ProcessEstimate(value=1.0), throughput=ProcessEstimate(value=1.0)) for one in bare]
    assert [one.front for one in frontier._fronts(unknown)[0]] == [True, True]


def test_a_frontier_is_said_on_a_screen() -> None:
    asked = TrainingAsked(program="net", kind="network", vary="batch", values=[2, 4], processes=6)
    points, axes = frontier._fronts([point(2, 0.01, 0.01), point(4, 0.05, 0.01)])
    lost = BatchPoint(value=8, arm="batch=8", processes=1, lost="killed", reason="killed by the system (signal 9), as where memory runs out")
    kept = TrainingFrontier(asked=asked, unit="tokens", points=[*points, lost], axes=axes, knee=frontier._knee(points))
    text = frontier_show.text(kept, 120, False)
    assert "on the frontier of batch: 2; surely beaten: 4; out of memory: 8" in " ".join(text.split())
    assert frontier_show.code(kept) == 0  # running out of memory is an answer
    assert math.isinf(frontier._span(ProcessEstimate(value=1.0)).high)
