"""hotlap trace: what it prints and writes, and what it refuses before any work is done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.traces.cli.trace import writable


def sample(path: Path) -> Path:
    events = []
    for i in range(20):
        at = 1000 * i
        events += [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at, "dur": 300, "args": {}},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 10, "dur": 5, "args": {"correlation": i}},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + 30, "dur": 200, "args": {"correlation": i, "device": 0, "stream": 7}},
        ]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_trace_prints_json_alone_and_writes_what_was_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = sample(tmp_path / "a.json")
    page, marked = tmp_path / "a.html", tmp_path / "marked.json"
    assert main(["trace", str(file), "--json", "--html", str(page), "--perfetto", str(marked)]) == 0
    said = capsys.readouterr()
    (found,) = json.loads(said.out)["traces"]
    assert found["events"] == 60
    assert found["total"]["compute_share"] == pytest.approx(20 * 200 / 19200)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert json.loads(marked.read_text(encoding="utf-8"))["traceEvents"]
    assert said.err.count("wrote") == 2


def test_trace_prints_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(sample(tmp_path / "a.json")), "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("## a.json\n")


def test_a_page_of_several_ranks_is_of_the_one_that_counts_with_bars_of_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(sample(tmp_path / f"rank{rank}.json")) for rank in (0, 1)]
    assert main(["trace", *files, "--html", str(tmp_path / "page.html")]) == 0
    assert "2 ranks" in capsys.readouterr().out
    assert "Rank 1" in (tmp_path / "page.html").read_text() or "rank 1" in (tmp_path / "page.html").read_text()


def test_lint_and_diff_are_verbs_of_two_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(sample(tmp_path / name)) for name in ("a.json", "b.json")]
    assert main(["trace", "lint", files[0]]) == 0
    assert main(["trace", "diff", *files]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--html", "{}/no/page.html"], "there is no folder"),
        (["--html", "{}"], "it is a folder"),
        (["--perfetto", "{}/a.json"], "is the trace itself"),
        (["--json", "--markdown"], "exclude each other"),
        (["--kernels", "-1"], "0 or more"),
    ],
)
def test_trace_refuses_in_one_line(arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = sample(tmp_path / "a.json")
    before = file.read_bytes()
    assert main(["trace", str(file), *(one.format(tmp_path) for one in arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert file.read_bytes() == before


def test_trace_finds_out_that_a_page_cannot_be_written_before_it_reads(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        writable(str(tmp_path / "no" / "x.html"), ["not-even-there.json"])


def test_trace_help_prints(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["trace", "show", "--help"])
    assert left.value.code == 0
    assert "less than 2 % too" in capsys.readouterr().out


def test_trace_of_several_files_tells_which_are_none_and_reads_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("nothing to see")
    assert main(["trace", str(other), str(sample(tmp_path / "a.json"))]) == 3
    assert "notes.txt" in capsys.readouterr().out
    assert main(["trace", str(other), str(other)]) == 2


def test_names_in_a_trace_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = sample(tmp_path / "a.json")
    for word in ("gemm", "aten::mm", "cudaLaunchKernel"):
        file.write_text(file.read_text().replace(f'"{word}"', f'"{word}\\u001b[31m\\u0007"'))
    for verb in ([], ["lint"]):
        assert main(["trace", *verb, str(file)]) == 0
        said = capsys.readouterr().out
        assert "\x1b" not in said
        assert "\x07" not in said
    assert main(["trace", str(file), "--all"]) == 0
    said = capsys.readouterr().out
    assert "gemm\\x1b[31m" in said
    assert "\x1b" not in said
    assert main(["trace", "diff", str(file), str(file)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_the_only_trace_among_other_files_is_no_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample(tmp_path / "a.json")
    (tmp_path / "notes.txt").write_text("nothing to see")
    assert main(["trace", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("unused  notes.txt")
    assert "rank" not in said.replace("ranks one", "")
