"""Opportunities, track and track report on the command line: what is printed, written, and what exits how."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from hotlap.cli import main, parser_of
from hotlap.core.measure.targets import simulated
from hotlap.core.plan import case
from hotlap.core.record import Machine, Plan, RunRecord, Samples, Stop, Use, encode
from hotlap.core.show.document import Document
from hotlap.core.store.bundle import Bundle
from hotlap.kernels.cli import halves
from hotlap.kernels.cli.checks import CheckProgress

NORM = case("rowwise", {"op": "rmsnorm", "rows": 8192})
GEMM = case("gemm", {"m": 4096, "n": 4096, "k": 4096})
USES = [
    Use(case=NORM.id, step="llama-3-8b prefill batch=4", kernel="norm", calls=64), Use(case=GEMM.id, step="llama-3-8b prefill batch=4", kernel="output", calls=32),
]  # fmt: skip


def kept(home: Path, day: int, revision: str, faults: dict[str, str], uses: list[Use] = USES) -> Bundle:
    """A run of six rounds on the simulated GPU, made in this process and kept."""
    (device,) = simulated.find("h200-sxm", {})
    samples = []
    for n in range(6):
        target = simulated.open(device, {"noise": "0.002", "seed": f"{10 * day + n}", **faults})
        for one in (NORM, GEMM):
            prepared = target.prepare(one)
            seconds = [target.time(prepared.enqueue, 1).device_s for _ in range(5)]
            samples.append(Samples(case=one.id, device=device.key, round=n, values=seconds, method="event-batch"))
    began = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day)
    run = RunRecord(
        id=f"{began:%Y%m%dT%H%M%S}-00000{day}", began=began.isoformat(timespec="milliseconds"), ended=began.isoformat(timespec="milliseconds"),
        stops=[Stop("rounds_max")], hotlap="0.1.0", plan=Plan(name="norms", cases=[NORM, GEMM], uses=uses, weighed_on="h200-sxm"), target="simulated",
        devices=[device.key], labels={"revision": revision}, machine=Machine(host="node1", devices=[device]),
    )  # fmt: skip
    folder = home / "runs" / run.id
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(encode(run))
    (folder / "samples.jsonl").write_bytes(b"".join(encode(one) + b"\n" for one in samples))
    return Bundle(run, folder, samples)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three revisions of two runs each; in the last one row kernels take three times as long."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    for day in range(6):
        kept(tmp_path, day, f"rev{day // 2}", {"slow_kernel": "2.0@rowwise"} if day >= 4 else {})
    return tmp_path


def test_opportunities_prints_writes_and_says_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "opportunities", "--out", str(home / "o.html")]) == 0
    text = capsys.readouterr().out
    assert "1  rowwise rmsnorm" in text
    assert f"hotlap explain 20261106T000000-000005 --where case={NORM.id}" in text
    assert "rowwise rmsnorm" in (home / "o.html").read_text(encoding="utf-8")
    assert main(["kernel", "opportunities", "latest", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (answer,) = document["devices"]
    assert msgspec.convert(document, Document).exit_code is None
    assert next(one["case"]["workload"] for one in answer["found"]) == "rowwise"


def test_opportunities_refuses_what_it_cannot_weigh(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, reason in (
        (["--networks", "lama"], "there is no network 'lama'"), (["--weight", "gpt=2"], "none of the networks here"),
        (["--weight", "llama-3-8b=much"], "not a quantity"), (["--phase", "sleep"], "--phase cannot be 'sleep'"), (["--batch", "0"], "--batch is a whole number from 1"),
        (["rev0"], "no run is 'rev0'"), (["revision=rev0"], "names 2 runs"), (["--networks", "bert-large"], "is called by bert-large"),
        (["--phase", "decode"], "has no such step with phase decode"), (["--networks", "llama-3-8b", "--tp", "8"], "is called by llama-3-8b prefill batch=1 context=2048 tp=8"),
    ):  # fmt: skip
        assert main(["kernel", "opportunities", *words]) == 2, words
        assert reason in capsys.readouterr().err
    kept(home, 8, "bare", {}, uses=[])
    assert main(["kernel", "opportunities"]) == 2
    assert "says nothing of networks" in capsys.readouterr().err


def test_track_names_the_revision_and_the_network(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "220")
    assert main(["kernel", "track", "--network", "llama-3-8b", "--out", str(home / "t.html")]) == 0
    text = capsys.readouterr().out
    assert "brought by revision rev1 → rev2" in text
    assert "in a step of llama-3-8b prefill batch=4 (norm × 64)" in text
    assert "rev1 → rev2" in (home / "t.html").read_text(encoding="utf-8")
    assert main(["kernel", "track", "--where", "workload=gemm", "--changed"]) == 0
    assert "none with a change" in capsys.readouterr().out
    assert main(["kernel", "track", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["lives"]) == 2
    assert main(["kernel", "track", "--network", "gpt-9"]) == 2
    assert "no case of these runs is called by 'gpt-9'" in capsys.readouterr().err


@pytest.mark.slow("compares plans of many cases")
def test_a_release_report_in_three_forms_with_exit_codes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "track", "report", "--from", "rev1", "--to", "rev2", "--out", str(home / "r.md")]) == 1
    assert "Regression: 1 slower, 1 same" in capsys.readouterr().out
    assert "## Slower" in (home / "r.md").read_text(encoding="utf-8")
    assert main(["kernel", "track", "report", "--from", "rev2", "--to", "rev1", "--out", str(home / "r.html")]) == 0
    assert "1 faster" in capsys.readouterr().out
    assert "No regression found" in (home / "r.html").read_text(encoding="utf-8")
    assert main(["kernel", "track", "report", "--from", "rev0", "--to", "2026-11-03..2026-11-04", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"], document["exit_code"]) == ("pass", 0)
    assert document["counts"] == {"same": 2}
    assert main(["kernel", "track", "report", "--from", "rev7", "--to", "rev1"]) == 2
    assert "no run is of 'rev7'" in capsys.readouterr().err
    assert main(["kernel", "track", "report", "--from", "rev0", "--to", "rev1", "--network", "dit"]) == 2
    assert "their plans know llama-3-8b" in capsys.readouterr().err


def test_no_runs_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "empty"))
    assert main(["kernel", "track"]) == 2
    assert "no runs are kept yet" in capsys.readouterr().err
    assert main(["kernel", "track", "report", "--from", "a", "--to", "b"]) == 2
    assert "no run is of 'a'" in capsys.readouterr().err


def test_kernel_run_waits_with_the_options_of_run_and_the_other_words_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--wait", "3 s", "--wait-quiet"]
    of_run, of_kernel = (parser_of(name).parse_args([*words, *asked]) for name, words in (("run", []), ("kernel run", ["run", "mine"])))
    assert (of_kernel.wait, of_kernel.wait_quiet) == (of_run.wait, of_run.wait_quiet) == ("3 s", "5 min")
    assert main(["kernel", "check", "mine", "--wait", "1 s"]) == 2
    assert "--wait and --wait-quiet are of hotlap kernel run" in capsys.readouterr().err
    assert main(["kernel", "check", "mine", "--budget", "1 min"]) == 2
    assert "check takes no --budget: it is of hotlap kernel run" in capsys.readouterr().err


def test_a_check_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """An interpreter of Triton takes a minute a case: the first is said at once, and a log has a line in 5 s at most."""
    progress = CheckProgress(3, 120.0)
    for done in range(3):
        progress(NORM, done)
    assert capsys.readouterr().err == "checking 1 of 3: rowwise rmsnorm rows=8192 columns=4096 bf16; 120 s at most\n"


@pytest.mark.parametrize(
    ("rounds", "why", "said"),
    [
        (3, "budget", "the budget of 20 s ended after 3 of the 6 rounds that the 95 % interval of each number needs: --budget '40 s' is enough for all"),
        (6, "budget", ""), (3, "interrupted", ""),
    ],
)  # fmt: skip
def test_a_budget_that_ended_before_an_interval_names_one_that_is_enough(rounds: int, why: str, said: str) -> None:
    run = RunRecord(
        id="r1", began="2026-11-21T10:00:00.000+00:00", stops=[Stop(why)], hotlap="0", plan=Plan(name="p", cases=[]), target="host",  # type: ignore[arg-type]
        devices=["d"], machine=Machine(host="n"),
    )  # fmt: skip
    samples = [Samples(case="c", device="d", round=n, values=[1.0]) for n in range(rounds)]
    assert halves._cut_short([Bundle(run, Path("nowhere"), samples)], argparse.Namespace(budget="20 s")) == said
