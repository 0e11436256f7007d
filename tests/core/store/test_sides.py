"""A side of a release is named by a revision, a label, a version, a run or a date; what is ambiguous or unknown is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.core.errors import InputError
from hotlap.core.record import Device, Machine, Plan, RunRecord, encode
from hotlap.core.store import sides


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Four runs on four days: two revisions, two versions of torch."""
    for n in range(4):
        device = Device(target="cuda", index=0, name="H200", kind="gpu", uuid="GPU-0", driver="550.54")
        run = RunRecord(
            id=f"2026110{n + 1}T100000-00000{n}", began=f"2026-11-0{n + 1}T10:00:00.000+00:00", hotlap="0.1.0", plan=Plan(name="p"), target="cuda",
            devices=["GPU-0"], labels={"revision": ("a1b2c3d4", "e5f6a7b8")[n // 2], "stage": "old" if n < 2 else "new"},
            machine=Machine(host="node1", devices=[device], software={"torch": "2.8.0" if n < 3 else "2.9.0", "triton": "3.5.0"}),
        )  # fmt: skip
        folder = tmp_path / "runs" / run.id
        folder.mkdir(parents=True)
        (folder / "run.json").write_bytes(encode(run))
        (folder / "samples.jsonl").write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "said", "count"),
    [
        ("a1b2c3d4", "revision a1b2c3d4", 2), ("e5f6", "revision e5f6a7b8", 2), ("e5f6a7b8ffff", "revision e5f6a7b8", 2),
        ("old", "stage old", 2), ("stage=new", "stage new", 2), ("torch=2.9.0", "torch 2.9.0", 1), ("2.8.0", "torch 2.8.0", 3),
        ("driver=550.54", "driver 550.54", 4), ("20261101T100000-000000", "20261101T100000-000000", 1), ("2026-11-03", "2026-11-03", 1),
        ("latest", "latest", 1),
    ],
)  # fmt: skip
def test_a_side_is_found_by_what_it_is_called(home: Path, name: str, said: str, count: int) -> None:
    words, found = sides.entries(name, home)
    assert (words, len(found)) == (said, count)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "no run is of 'nothing'"), ("torch=2.7.0", "no run was made with torch 2.7.0"), ("", "an empty name"),
        ("stage=older", "no run has stage=older"), ("colour=red", "no run has a label 'colour'"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said(home: Path, name: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        sides.entries(name, home)
