"""What `hotlap trace` prints and writes for several ranks: few, eight, and a thousand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from made_ranks import Ranks, slow
from msgspec.structs import replace

from hotlap.cli import main
from hotlap.core.show import shape
from hotlap.core.store.schema import about
from hotlap.traces import ranks, reducing
from hotlap.traces.advice import ranks as advising
from hotlap.traces.ranks import AllRanks
from hotlap.traces.show import ranks as printing

pytestmark = pytest.mark.slow("traces of many ranks")

WIDTH = 100


def shown(whole: AllRanks) -> str:
    text = printing.ranks(whole, advising.advise(whole), WIDTH)
    assert all(len(line) <= WIDTH for line in text.splitlines())
    return text


def test_two_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = slow(2, late=1).write(tmp_path)
    assert main(["trace", *paths]) == 0
    text = capsys.readouterr().out
    assert text.startswith("2 ranks")
    assert "clocks  agree as recorded: three of four ends of 20 collectives lie within 1.00 µs" in text
    assert "10 to 20 %  Ranks wait for a slow one" in text
    assert "Rank 1: the others wait for it most" in text
    assert "waits, rank" not in text  # of two, the table of ranks tells all


def test_eight_ranks_tell_who_waits_for_whom(tmp_path: Path) -> None:
    made = slow(8, late=5, device="NVIDIA H100 80GB HBM3")
    for again in range(5):
        at = 40_000 + 1000.0 * again
        made.compute(2, at, at + 300)
        made.meet({rank: at + (300 if rank == 2 else 0) for rank in range(8)}, at + 320)
    text = shown(ranks.analysed(made.write(tmp_path)))
    lines = text.splitlines()
    row = next(place for place, line in enumerate(lines) if line.lstrip().startswith("waits, rank"))
    assert lines[row].split() == ["waits,", "rank", "for", "2", "for", "5"]
    assert lines[row + 3].split() == ["2", "–", "9.2", "%"]  # 20 × 200 µs of 43.3 ms
    assert "rank5.json" in text
    assert "expected" in text


def test_a_thousand_ranks_are_quantiles_and_the_odd_ones(tmp_path: Path) -> None:
    base = [reducing.reduced(path) for path in slow(4, late=3).write(tmp_path)]
    assert all(isinstance(one, reducing.Reduced) for one in base)
    everyone = tuple(range(1000))
    found = []
    for rank in everyone:
        one = base[3 if rank == 333 else rank % 3]
        assert isinstance(one, reducing.Reduced)
        calls = one.calls._replace(groups=[group._replace(members=everyone, size=1000) for group in one.calls.groups])
        found.append(replace(one, own_rank=rank, ranks=1000, calls=calls, file=f"rank{rank}.json"))
    text = shown(ranks.merged(found))
    assert text.startswith("1000 ranks · 80,000 events")
    assert len(text.splitlines()) < 50
    assert "over ranks" in text
    odd = next(line for line in text.splitlines() if line.split()[:1] == ["333"])
    assert "compute" in odd
    assert "rank333.json" in odd


def test_clocks_that_do_not_agree_are_said(tmp_path: Path) -> None:
    jumps = np.random.default_rng(3).uniform(-300, 300, (3, 200))
    text = shown(ranks.analysed(slow(3, late=1, clock=lambda rank, time: time + jumps[rank, int(time // 1000)]).write(tmp_path)))
    assert "clocks  do not agree: arrival order is unknown." in " ".join(text.split("\n"))
    assert "Ranks wait" not in text


def test_traces_that_nothing_joins(tmp_path: Path) -> None:
    made = Ranks(2)
    made.compute(0, 0, 10)
    made.compute(1, 0, 30)
    text = shown(ranks.analysed(made.write(tmp_path)))
    assert "nothing joins these traces" in " ".join(text.split())


def test_json_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow(3, late=1).write(tmp_path)
    (tmp_path / "other.txt").write_text("x")
    assert main(["trace", "--json", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["rank"] for one in found["ranks"]] == [0, 1, 2]
    texts = about("hotlap.traces.show")
    assert list(texts["Ranks"]) == [name for name in found if name not in shape.HEAD]
    assert list(texts["Rank"]) == list(found["ranks"][0])
    assert found["late"][0]["rank"] == 1
    assert found["findings"][0]["rule"] == "waiting-for-ranks"
    assert found["waits_s"][0][1] > 0
    assert [Path(one["file"]).name for one in found["unusable"]] == ["other.txt"]
    assert found["worst"]["rank"] == 1


def test_a_folder_of_one_file_is_that_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow(2, late=1).write(tmp_path, ranks=[1])
    assert main(["trace", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("rank1.json")


def test_traces_that_nothing_joins_are_printed_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Ranks(2)
    made.compute(0, 0, 10)
    made.compute(1, 0, 30)
    for number, name in enumerate(("x.json", "y.json", "notes.txt")):
        (tmp_path / name).write_text(made.text(number, told=False) if number < 2 else "none")
    assert main(["trace", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("2 traces\nnote    not taken for ranks of one program")
    assert "unused  notes.txt" in text
    assert text.index("\nx.json") < text.index("\ny.json")
    assert main(["trace", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [Path(one["file"]).name for one in found["traces"]] == ["x.json", "y.json"]
    assert [Path(one["file"]).name for one in found["unusable"]] == ["notes.txt"]
    assert main(["trace", str(tmp_path), "--html", str(tmp_path / "page.html")]) == 2
    assert "name one of them" in capsys.readouterr().err


def test_nothing_usable_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("y")
    assert main(["trace", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
