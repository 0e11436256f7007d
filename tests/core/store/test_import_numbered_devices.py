"""Devices that a table calls by their number in the host: they are of one model, and one fleet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hotlap.cli import main
from hotlap.core.store import select


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path


def _fleet(path: Path, column: str, called: str, slow: tuple[int, ...] = (4,)) -> str:
    """Twenty nodes of eight: those of a slot are 6 % slower in every node."""
    source = np.random.default_rng(5)
    lines = [f"timestamp,node,{column},copy_GBps,step_ms"]
    for node in range(20):
        for number in range(8):
            level = (0.94 if number in slow else 1.0) * np.exp(source.normal(0, 0.004, 2))
            lines.append(f"2026-11-26T02:00:00Z,node{node:02},{called.format(number)},{4200 * level[0]:.1f},{12 / level[1]:.4f}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize(("column", "called", "shown"), [
    ("gpu", "{}", "node13 device 4"), ("gpu_index", "{}", "node13 device 4"), ("gpu", "GPU-{}", "node13 GPU-4"), ("gpu_id", "cuda:{}", "node13 cuda:4"),
    ("device", "0000:{:02x}:00.0", "node13 0000:04:00.0"),
])  # fmt: skip
def test_a_slot_that_is_slow_in_every_node_is_no_fleet_of_its_own(
    home: Path, column: str, called: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each number was a model, compared with itself alone, and twenty slow devices passed."""
    assert main(["import", _fleet(home / "x.csv", column, called)]) == 0
    assert {device.model for run in select.every(home / "home") for device in run.run.machine.devices} == {"unknown"}
    assert "model: none is named, and devices are called by numbers, so all count as one model" in capsys.readouterr().out
    assert main(["gate", "2026-11-26", "--against", "fleet", "--json"]) == 1
    assert capsys.readouterr().out.count('"state": "fail"') >= 20
    assert main(["history", "--where", "host=node13"]) in (0, 1)
    assert shown in capsys.readouterr().out


def test_names_of_models_stay_the_models(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["time,node,device,copy (GB/s)", *(f"2026-11-26,n{n},{'A100' if n < 4 else 'H100'},{2000 + n}" for n in range(8))]
    (home / "x.csv").write_text("\n".join(lines) + "\n")
    assert main(["import", str(home / "x.csv")]) == 0
    assert "model: none" not in capsys.readouterr().out
    assert {device.model for run in select.every(home / "home") for device in run.run.machine.devices} == {"A100", "H100"}


def test_a_number_beside_a_uuid_is_a_label_and_any_other_is_asked_for(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uuid = "GPU-3d7e4e10-0a5b-4a4e-9f3c-0123456789ab"
    (home / "x.csv").write_text(f"time,node,uuid,gpu_index,copy (GB/s)\n2026-11-26,n1,{uuid},3,2000\n")
    assert main(["import", str(home / "x.csv")]) == 0
    (run,) = select.every(home / "home")
    assert (run.run.labels, run.run.machine.devices[0].uuid) == ({"gpu_index": "3"}, uuid)
    (home / "y.csv").write_text("time,node,board_slot,copy (GB/s)\n2026-11-26,n1,3,2000\n")
    assert main(["import", str(home / "y.csv")]) == 2
    assert "which device of its host a row is of is --device board_slot; a setting is --case board_slot" in capsys.readouterr().err
