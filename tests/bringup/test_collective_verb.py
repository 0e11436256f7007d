"""`hotlap cluster collective`: definitions against published reports, operations that give what they should, members of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from hotlap.bringup import cli_collective, collectives, member_collective
from hotlap.bringup.collectives import CollectiveRow
from hotlap.bringup.record import LinkKnown
from hotlap.cli import main
from hotlap.core.show.document import Document


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("op", "ranks", "algbw", "busbw"),
    [("all_reduce", 16, 260.20, 487.87), ("all_gather", 16, 361.14, 338.57), ("alltoall", 16, 84.40, 79.11), ("all_reduce", 32, 476.55, 923.32)],
)  # fmt: skip
def test_bus_bandwidth_is_as_published(op: str, ranks: int, algbw: float, busbw: float) -> None:
    """Rows of reports of NVIDIA's cluster-readiness-engine, GB/s."""
    assert algbw * collectives.factor(op, ranks) == pytest.approx(busbw, rel=2e-4)


def test_parts_after_an_operation_are_what_nccl_tests_asks_for() -> None:
    """Of three ranks whose buffers differ in every part."""
    world = 3
    before = [[part[0] for part in member_collective._parts("", rank, world, 12)] for rank in range(world)]
    for rank in range(world):
        for place in range(world):
            summed = before[0][place] ^ before[1][place] ^ before[2][place]
            assert member_collective.wanted("all_reduce", rank, world, place) == summed
            assert member_collective.wanted("reduce_scatter", rank, world, place) == (summed if place == (rank + 1) % world else None)
            assert member_collective.wanted("all_gather", rank, world, place) == before[place][place]
            assert member_collective.wanted("alltoall", rank, world, place) == before[place][rank]
            assert member_collective.wanted("broadcast", rank, world, place) == before[0][place]


@pytest.mark.parametrize(("rounds", "beside"), [(2, " (50 %)"), (5, " (94 %)"), (6, "")])
def test_an_interval_of_few_rounds_has_its_confidence_beside_it(rounds: int, beside: str) -> None:
    lines = [collectives.RankLine(op="all_reduce", size=1024, time_s=1e-3 + number * 1e-5, wrong=0) for number in range(rounds)]
    row = collectives._row("all_reduce", 1024, {"n1": lines, "n2": lines}, 2)
    assert cli_collective._interval(row) == f"1.00 ms to {1 + (rounds - 1) / 100:.2f} ms{beside}"


@pytest.mark.slow("processes of three members")
@pytest.mark.parametrize("op", collectives.OPS)
def test_every_operation_gives_what_it_should(op: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "collective", op, "--local", "3", "--rounds", "2", "--iterations", "1", "--sizes", "1KiB,100kB", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    rows = msgspec.convert(answer["collective"], list[CollectiveRow])
    assert [(row.op, row.size, row.ranks, row.rounds, row.wrong) for row in rows] == [(op, 1032, 3, 2, 0), (op, 100_008, 3, 2, 0)]
    for row in rows:
        assert row.algbw == pytest.approx(row.size / row.time_s)
        assert row.busbw == pytest.approx(row.algbw * collectives.factor(op, 3))
        assert sum(row.slowest.values()) == 2


@pytest.mark.slow("PyTorch in two processes")
@pytest.mark.parametrize(
    "op", [op if op == "all_reduce" else pytest.param(op, marks=pytest.mark.nightly("more of PyTorch")) for op in collectives.WAYS["gloo"]]
)
def test_gloo_gives_the_same_operations(op: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert main(["cluster", "collective", op, "--by", "gloo", "--local", "2", "--rounds", "1", "--sizes", "64KiB", "--json"]) == 0
    (row,) = msgspec.convert(json.loads(capsys.readouterr().out)["collective"], list[CollectiveRow])
    assert (row.op, row.size, row.wrong) == (op, 65_536, 0)


@pytest.mark.nightly("PyTorch in two processes")
def test_nccl_without_gpus_is_refused_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() > 1:
        pytest.skip("two GPUs are here")
    assert main(["cluster", "collective", "--by", "nccl", "--local", "2", "--rounds", "1", "--sizes", "64KiB"]) == 3
    assert "nccl needs a GPU for each rank" in capsys.readouterr().out


@pytest.mark.slow("a program of two members")
def test_a_member_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('no torch here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert main(["cluster", "collective", "--by", "gloo", "--local", "2", "--rounds", "1"]) == 3
    out = capsys.readouterr().out
    assert "slot00 died" in out
    assert "no torch here" in out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["all_reduced", "--local", "2"], "there is no operation 'all_reduced'"), (["alltoall", "--by", "gloo", "--local", "2"], "by gloo there is no alltoall"),
        (["--local", "1"], "needs two members"), (["--local", "2", "--sizes", "0"], "a size is from 1 B"), (["--local", "2", "--rounds", "0"], "--rounds is a number"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(words: list[str], reason: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "collective", *words]) == 2
    assert reason in capsys.readouterr().err
    assert not (home / "runs").exists()


def test_the_model_of_gpus_stands_beside_times_by_nccl(capsys: pytest.CaptureFixture[str]) -> None:
    row = CollectiveRow(
        op="all_reduce", size=1 << 30, ranks=8, rounds=3, time_s=0.004, low_s=None, high_s=None, algbw=268e9, busbw=469e9, wrong=0, slowest={"n1": 3},
    )  # fmt: skip
    (with_model,) = collectives.modelled([row], "h100-sxm", 1)
    assert with_model.model is not None
    assert with_model.model.bound_s is not None
    assert with_model.model.expected_s is not None
    assert with_model.model.bound_s < with_model.model.expected_s
    assert "of the model" in cli_collective.lines([with_model], LinkKnown(code="unknown"), "nccl", 200, False)[0]
    assert main(["cluster", "collective", "--local", "2", "--machine", "h100-sxm"]) == 2
    assert "--machine is of GPUs" in capsys.readouterr().err
    assert main(["cluster", "collective", "--local", "2", "--by", "nccl", "--machine", "h9000"]) == 2
    assert "h9000" in capsys.readouterr().err
