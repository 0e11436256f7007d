"""What `tuning apply` sets and `tuning revert` puts back, and the file in between; a search as it is kept and shown."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hotlap.core.errors import InputError, SchemaError
from hotlap.core.record import encode
from hotlap.tuning import result, show, tape
from hotlap.tuning.record import TuningAsked, TuningOutcome, TuningTrial
from hotlap.tuning.result import TunedFile

TUNED = TunedFile(run="20260101-120000-ab", subject="x", goal="time", device="host:0", ratio=0.9, low=0.88, high=0.92, versions={"hotlap": "0"})


def tuned(**more: Any) -> TunedFile:
    return msgspec.structs.replace(TUNED, **more)


def test_a_file_of_any_text_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "best.toml"
    wanted = tuned(subject="python '\U0001f680 \x7f \x1b'\n", environment={"A": "\U0001f680"}, command=["a", "b\nc"], load={"concurrency": "4"})
    file.write_text(result.toml(wanted), "utf-8")
    assert result.read(str(file)) == wanted


@pytest.mark.parametrize(("more", "said"), [
    ({"run": "../../x"}, "no name of a run"), ({"run": ""}, "no name of a run"), ({"environment": {"A=1; touch x #": "1"}}, "no name of a variable"),
])  # fmt: skip
def test_a_file_from_elsewhere_says_no_path_and_no_command(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = tmp_path / "best.toml"
    file.write_text(result.toml(tuned(**more)))
    with pytest.raises(SchemaError, match=said):
        result.read(str(file))


def test_a_command_of_several_lines_is_a_comment_whole() -> None:
    lines = result.command(tuned(command=["python", "-c", "import x\nfoo({n})"], arguments={"n": "2"}, prefix=["nice"], load={"concurrency": "4"}))
    assert lines == ["# nice python -c 'import x", "# foo(2)'", "# load: concurrency = 4"]
    assert subprocess.run(["sh", "-c", "\n".join(lines)], capture_output=True, check=True).stdout == b""
    assert result.command(tuned(subject="server.toml", prefix=["numactl"], command=["serve"])) == ["# numactl serve"]


def test_apply_and_revert_given_again_print_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3 x")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    file = tmp_path / "a.conf"
    file.write_text("as it was")
    best = tuned(environment={"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "active"}, files={str(file): "tuned"})
    with pytest.raises(InputError, match="not applied here"):
        result.revert(best, tmp_path)
    lines = ["export OMP_NUM_THREADS=1", "export OMP_WAIT_POLICY=active"]
    assert result.apply(best, tmp_path) == lines
    assert file.read_text() == "tuned"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert result.apply(best, tmp_path) == lines
    for _ in range(2):
        assert result.revert(best, tmp_path) == ["export OMP_NUM_THREADS='3 x'", "unset OMP_WAIT_POLICY"]
        assert file.read_text() == "as it was"


def test_two_results_do_not_hold_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "a.conf"
    file.write_text("as it was")
    first, second = tuned(run="1", files={"a.conf": "A"}), tuned(run="2", files={str(file): "B"})
    result.apply(first, tmp_path)
    with pytest.raises(InputError, match="is set by the result of 1"):
        result.apply(second, tmp_path)
    result.revert(first, tmp_path)
    result.apply(second, tmp_path)
    result.revert(second, tmp_path)
    assert file.read_text() == "as it was"


def test_a_search_without_a_look_cannot_tell() -> None:
    asked = TuningAsked(subject="x", kind="program", goal="time")
    assert show.answer(asked, TuningOutcome(answer="cannot_tell")).startswith("cannot tell: the time ended")
    assert show.answer(asked, TuningOutcome(answer="nothing")).startswith("nothing worth it")


def test_a_broken_line_between_runs_is_an_error_and_a_torn_last_one_is_left_out() -> None:
    trials = [TuningTrial(number=number, phase="as_found") for number in range(5)]
    whole = [encode(trial) + b"\n" for trial in trials]
    assert tape.read(b"".join(whole) + b'{"number": 9, "pha') == trials
    with pytest.raises(SchemaError, match=r"tuning-trials.jsonl:2"):
        tape.read(b"".join([whole[0], b"{\n", *whole[1:]]))
