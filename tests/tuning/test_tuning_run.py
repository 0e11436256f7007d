"""`hotlap tuning run` on a program whose cost is written in it, so that no machine's load has a part in the answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hotlap.cli import main
from hotlap.core.errors import Busy
from hotlap.core.show.document import Document
from hotlap.core.store import bundle as bundles
from hotlap.tuning import result, session

PROGRAM = """
n=$(cat n 2>/dev/null || echo 7); n=$(( (n * 1103515245 + 12345) % 2147483648 )); echo $n > n
base=10000; loss=1.5
case "$1" in fast) base=9000;; crash) echo broken >&2; exit 3;; oom) kill -9 $$;; hang) sleep 60;; esac
[ "$KIND" = liar ] && { base=$((base / 2)); loss=1.7; }
[ -f slow.txt ] && [ "$(cat slow.txt)" = quick ] && base=$((base * 85 / 100))
echo "loss $loss"; echo "cost $((base + n / 65536 % 200))"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.sh").write_text(PROGRAM)
    return tmp_path


def tuned(switches: str, *more: str, subject: str = "sh toy.sh {mode}") -> list[str]:
    words = ["tuning", "run", subject, "--switches", switches, "--metric", "cost ([0-9]+)", "--better", "lower"]
    return [*words, "--budget", "1 min", "--seed", "3", *more]


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    msgspec.convert(document, Document)
    return document


def newest(here: Path) -> Path:
    return max((here / "home" / "runs").iterdir())


@pytest.mark.slow("some eighty runs of a shell")
def test_a_gain_is_confirmed_and_what_fails_is_dropped_with_its_reason(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(tuned("mode=slow,fast,crash,oom; KIND=liar", "--result", "loss ([0-9.]+)", "--out", "best.toml", "--json"))
    document = answer(capsys)
    outcome = document["tuning"]["outcome"]
    assert (code, outcome["answer"]) == (0, "gain")
    assert outcome["winner"] == [{"switch": "mode", "value": "fast"}]
    assert outcome["low"] < 0.9 < outcome["high"] < 1
    why = {(one["settings"][0]["value"], one["code"]): one["reason"] for one in outcome["dropped"] if len(one["settings"]) == 1}
    assert "status 3: broken" in why["crash", "failed"]
    assert "SIGKILL" in why["oom", "failed"]
    assert "its result is 1.7" in why["liar", "results_changed"]
    assert len(document["trials"]) == sum(outcome["runs"].values())
    assert main(["show", "latest"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "answer mode=fast: cost ([0-9]+) -" in shown
    assert "pairs of fresh runs that the search had not seen" in shown
    assert main(["report", "latest", "--out", "page.html"]) == 0
    assert "Settings searched" in (here / "page.html").read_text()
    capsys.readouterr()
    assert main(["tuning", "apply", "best.toml", "--json"]) == 0
    assert answer(capsys)["shell"] == ["# sh toy.sh fast"]
    assert main(["tuning", "revert", "best.toml", "--json"]) == 0
    assert answer(capsys)["shell"] == []
    text = (here / "best.toml").read_text()
    for old, new, said in (("host:0", "host:9", "another device"), ('"0.2', '"0.1', "search anew")):
        (here / "best.toml").write_text(text.replace(old, new))
        assert main(["tuning", "apply", "best.toml"]) == 2
        assert said in capsys.readouterr().err
    assert main(tuned("mode=slow,fast,other", "--json")) == 0  # what was learnt is its first guess
    assert answer(capsys)["tuning"]["guess"] == [{"switch": "mode", "value": "fast"}]


@pytest.mark.slow("some fifty runs of a shell")
def test_nothing_worth_it_is_an_answer_and_changes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "slow.txt").write_text("as it was")
    (here / "own.toml").write_text('[contents]\npath = "slow.txt"\ncontent = "{value}"\nvalues = ["same", "equal"]\n')
    assert main(tuned("own.toml", "--out", "best.toml", subject="sh toy.sh")) == 0
    assert "nothing worth it" in " ".join(capsys.readouterr().out.split())
    assert (here / "slow.txt").read_text() == "as it was"
    assert not (here / "best.toml").exists()


@pytest.mark.slow("some fifty runs of a shell")
def test_a_file_is_a_switch_and_is_applied_and_put_back(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "own.toml").write_text('[contents]\npath = "slow.txt"\ncontent = "{value}"\nvalues = ["quick"]\n')
    assert main(tuned("own.toml", "--out", "best.toml", subject="sh toy.sh")) == 0
    assert not (here / "slow.txt").exists()
    assert main(["tuning", "apply", "best.toml"]) == 0
    assert (here / "slow.txt").read_text() == "quick"
    assert main(["tuning", "revert", "best.toml"]) == 0
    assert not (here / "slow.txt").exists()


@pytest.mark.slow("a search that is killed")
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_killed_search_leaves_files_as_found_and_goes_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "slow.txt").write_text("as it was")
    (here / "own.toml").write_text('[contents]\npath = "slow.txt"\ncontent = "{value}"\nvalues = ["quick"]\n')
    words = tuned("own.toml", "--out", "best.toml", subject="sh -c 'sleep 0.05; sh toy.sh'")
    process = subprocess.Popen([sys.executable, "-m", "hotlap", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    trials = None
    until = time.monotonic() + 60
    while time.monotonic() < until:
        trials = next((here / "home" / "runs").glob("*/tuning-trials.jsonl"), None) if (here / "home" / "runs").is_dir() else None
        if trials and trials.read_bytes().count(b"\n") >= 6:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert trials is not None
    done = trials.read_bytes().count(b"\n")
    note = trials.parent / "files-before.json"
    until = time.monotonic() + 60
    while note.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert (here / "slow.txt").read_text() == "as it was"
    with trials.open("ab") as file:
        file.write(b'{"number": 99, "pha')  # a torn line
    assert main(["tuning", "run", "--resume", "latest", "--json"]) == 0
    document = answer(capsys)
    assert document["tuning"]["outcome"]["answer"] == "gain"
    assert [one["number"] for one in document["trials"]] == list(range(len(document["trials"])))
    assert len(document["trials"]) > done
    assert (here / "slow.txt").read_text() == "as it was"
    assert main(["tuning", "run", "--resume", "latest"]) == 2
    assert "has its answer" in capsys.readouterr().err
    assert result.read(str(here / "best.toml")).files  # --out of the search that was begun
    assert main(["tuning", "run", "--resume", "latest", "--out", "again.toml"]) == 0
    assert (here / "again.toml").read_text() == (here / "best.toml").read_text()


@pytest.mark.slow("a run that hangs is ended after five seconds")
def test_a_setting_that_hangs_is_ended_and_dropped(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(tuned("mode=slow,hang,fast", "--json"))
    dropped = answer(capsys)["tuning"]["outcome"]["dropped"]
    assert any("longer than its limit" in one["reason"] for one in dropped if one["settings"][0]["value"] == "hang")


def test_a_search_that_ends_before_a_number_keeps_why(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tuned("OMP_DYNAMIC=true", subject="sh toy.sh crash")) == 2
    assert "as found it gives no number: the program ended with status 3: broken" in capsys.readouterr().err
    kept = session.read(bundles.load(newest(here)))
    assert kept is not None
    assert kept.kept.outcome is None


@pytest.mark.parametrize(("words", "said"), [
    (["sh toy.sh", "--switches", "omp_thread"], "did you mean 'omp_threads'"),
    (["sh toy.sh", "--switches", "omp_wait=passive,active; KIND"], "there is no switch 'KIND'"),
    (["sh toy.sh {mode}", "--switches", "mode=slow"], "give its values, as found first"),
    (["sh toy.sh", "--switches", "loader_workers"], "there is nothing to try"),
    (["sh toy.sh {precision}", "--switches", "precision"], "give --result"),
    (["sh toy.sh", "--goal", "J/token"], "is of a script"),
    (["sh toy.sh", "--goal", "tims"], "did you mean 'time'"),
    (["sh toy.sh", "--metric", "cost ([0-9]+)"], "which way is the metric better"),
    (["sh toy.sh", "--under", "p99<=50ms"], "an objective on 'p99' is not known"),
    (["sh toy.sh", "--under", "power<=300W"], "limits are on times of a program: time, step"),
    (["sh toy.sh", "--tolerance", "1 %"], "--tolerance is of --result"),
    (["sh toy.sh", "--resolve", "0"], "--resolve is a share above 0"),
    (["sh toy.sh", "--budget", "0 s"], "--budget is a time above 0"),
    (["sh toy.sh", "--seed", "x"], "--seed is a whole number"),
    (["sh toy.sh", "--target", "cuda"], "--target and --device are for plans"),
    (["nothere.toml"], "cannot be read"), ([""], "nothing to tune"), (["sh 'toy"], "no command line"),
    (["sh toy.sh", "--out", "nofolder/best.toml"], "cannot be written"),
    (["--resume", "latest"], "no run is 'latest'"),
    (["http://127.0.0.1:9", "--switches", "omp_wait"], "the server is not started here"),
    (["http://192.0.2.1:9", "--switches", "concurrency=2,4"], "load goes to loopback alone"),
])  # fmt: skip
def test_what_is_asked_wrongly_is_refused_in_one_line(words: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tuning", "run", *words]) == 2
    err = capsys.readouterr().err.strip().splitlines()
    assert said in err[-1]


def test_a_result_file_that_is_none_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, said in (("run = 3", "is no result of tuning run"), ("[", "is no result of tuning run")):
        (here / "best.toml").write_text(text)
        assert main(["tuning", "apply", "best.toml"]) == 2
        assert said in capsys.readouterr().err
    assert main(["tuning", "revert", "none.toml"]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_held_device_is_waited_for_as_long_as_asked(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    waits: list[float] = []

    def begin(*given: Any) -> Any:
        waits.append(given[3])
        raise Busy("host:0 is held")

    monkeypatch.setattr(session.runs, "begin", begin)
    assert [main(tuned("mode=slow,fast", *more)) for more in ([], ["--wait", "10 min"])] == [3, 3]
    assert waits == [0.0, 600.0]
    monkeypatch.undo()
    assert main(["tuning", "run", "echo 1", "--wait", "soon"]) == 2
    assert "soon" in capsys.readouterr().err
