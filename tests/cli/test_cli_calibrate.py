"""hotlap calibrate: a sweep on a simulated GPU is learnt, kept, used and removed; a closed loop on cases it has not seen."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

import hotlap
from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.model import kept
from hotlap.core.model.predict import predict
from hotlap.core.record import Device
from hotlap.core.store import calibrations as store
from hotlap.core.store import select

TARGET = "simulated:h200-sxm?times=tiles&efficiency=0.8&noise=0.01&seed=3"  # tile by tile, and a quarter slower than the table says
UNSEEN = """schema = 1
name = "unseen"
[measure]
rounds = 6
round_time = "5 s"
[[case]]
workload = "gemm"
dtype = "bf16"
m = [512, 2048, 3072, 12288]
n = [6144]
k = [4096, 7168]
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One calibration that several tests read."""
    folder = tmp_path_factory.mktemp("calibrated")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTLAP_HOME", str(folder))
        assert main(["model", "calibrate", "--target", TARGET]) == 0
    return folder


@pytest.fixture(autouse=True)
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.slow("measures sweeps of a simulated GPU")
def test_it_is_kept_listed_and_learnt_again_from_its_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (home / "calibrations" / "simulated-h200-sxm.toml").read_text()
    assert main(["model", "calibrate", "--list"]) == 0
    assert "simulated-h200-sxm" in capsys.readouterr().out
    assert main(["model", "calibrate", "--from", "latest"]) == 0
    out = capsys.readouterr().out
    assert "arithmetic rate, bf16" in out
    assert "how predictions change" in out
    assert (home / "calibrations" / "simulated-h200-sxm.toml").read_text() == text


@pytest.mark.slow("measures sweeps of a simulated GPU")
def test_predict_takes_it_where_it_is_named_and_never_a_simulated_one_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", "gemm", "m=4096", "dtype=bf16", "--machine", "h200-sxm"]
    assert main([*words, "--calibration", "simulated-h200-sxm"]) == 0
    assert "a sweep on the simulated GPU (" in " ".join(capsys.readouterr().out.split())
    assert main(words) == 0
    assert "sweep" not in capsys.readouterr().out
    net = ["predict", "net", "llama-3-8b", "--machine", "h200-sxm"]
    shown = []
    for more in ([], ["--calibration", "simulated-h200-sxm"]):
        assert main([*net, *more, "--json"]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    assert shown[0] != shown[1]


@pytest.mark.slow("measures sweeps of a simulated GPU")
def test_cases_that_were_not_in_the_sweep_are_expected_nearer_to_what_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "unseen.toml"
    plan.write_text(UNSEEN)
    run = hotlap.run(plan, target=TARGET)
    measured = np.array([float(np.median(one.seconds)) for one in run.results])
    known = kept.load("simulated-h200-sxm", kept.place())
    before, after = ([predict("gemm", "h200-sxm", calibration=c, **one.case.params) for one in run.results] for c in (None, known))
    errors = [float(np.mean([abs(one.expected_s / m - 1) for one, m in zip(found, measured, strict=True)])) for found in (before, after)]
    assert errors[0] > 0.15
    assert errors[1] < 0.05
    assert all(one.low_s <= m <= one.high_s for one, m in zip(after, measured, strict=True))
    assert main(["explain", run.id, "--json"]) == 0
    assert "sweep on the simulated GPU" not in capsys.readouterr().out  # another simulated GPU may have other options


def test_in_python_it_is_used_as_on_the_command_line(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"workload": "gemm", "machine": "h200-sxm", "m": np.array([512, 2048]), "dtype": "bf16"}
    plain = hotlap.predict(**asked)
    named = hotlap.predict(**asked, calibration="simulated-h200-sxm")
    assert np.all(np.abs(named.expected_s / plain.expected_s - 1) > 0.1)
    assert "sweep on the simulated GPU" in named.calibration_level
    (tmp_path / "calibrations").mkdir()
    text = (home / "calibrations" / "simulated-h200-sxm.toml").read_text()
    (tmp_path / "calibrations" / "h200-sxm.toml").write_text(text)
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    assert np.array_equal(hotlap.predict(**asked).expected_s, named.expected_s)
    assert hotlap.predict(**{**asked, "machine": "h200", "m": 512}).expected_s == pytest.approx(named.expected_s[0])
    assert np.array_equal(hotlap.predict(**asked, spec_only=True).expected_s, plain.expected_s)
    for words, message in ({"calibration": "h200-sx"}, "did you mean"), ({"calibration": "h200-sxm", "spec_only": True}, "do not go together"):
        with pytest.raises(InputError, match=message):
            hotlap.predict(**asked, **words)
    with pytest.raises(InputError, match="of h200-sxm, not of b200"):
        hotlap.predict("gemm", "b200", calibration="h200-sxm")


def test_a_run_is_explained_by_what_another_one_taught_of_its_device(home: Path) -> None:
    (bundle,) = select.runs("plan=calibrate", home)
    (simulated,) = bundle.run.machine.devices
    real = msgspec.structs.replace(simulated, target="cuda")
    learnt = (home / "calibrations" / "simulated-h200-sxm.toml").read_text()

    def on(device: Device, run: str) -> set[str]:
        machine = msgspec.structs.replace(bundle.run.machine, devices=[device])
        return set(kept.of(dataclasses.replace(bundle, run=msgspec.structs.replace(bundle.run, id=run, machine=machine)), home))

    store.save("h200-sxm", learnt, home)
    assert on(real, "20261121T000000-000000") == {real.key}
    assert on(real, bundle.run.id) == set()  # it was learnt from this one
    assert on(simulated, "20261121T000000-000000") == set()
    store.forget("h200-sxm", home)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model", "calibrate", "--list", "--forget", "x"], "do not go together"), (["model", "calibrate", "--list", "--target", "cuda"], "takes no --target"),
        (["model", "calibrate", "--forget", "simulated-h200-sx"], "simulated-h200-sxm"), (["model", "calibrate", "--from", "nothing"], "nothing"),
        (["model", "calibrate", "--target", "simulated:h200-sxm?count=2", "--device", "all"], "of one device"),
        (["predict", "gemm", "--machine", "b200", "--calibration", "simulated-h200-sxm"], "of h200-sxm, not of b200"),
        (["predict", "gemm", "--machine", "h200-sxm", "--calibration", "x", "--spec-only"], "do not go together"),
    ],
)  # fmt: skip
def test_a_usage_error_gets_one_line_and_exit_2(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err


def test_a_damaged_file_is_one_line_and_forgetting_removes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    (tmp_path / "calibrations").mkdir()
    (tmp_path / "calibrations" / "h200-sxm.toml").write_bytes(b"schema = 1\nmachine = \xff")
    assert main(["predict", "gemm", "dtype=bf16", "--machine", "h200-sxm"]) != 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert "h200-sxm.toml" in captured.err
    assert main(["predict", "gemm", "dtype=bf16", "--machine", "h200-sxm", "--spec-only"]) == 0
    assert main(["model", "calibrate", "--forget", "h200-sxm"]) == 0
    assert main(["predict", "gemm", "dtype=bf16", "--machine", "h200-sxm"]) == 0
