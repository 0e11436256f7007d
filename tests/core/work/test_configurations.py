"""Ten configurations of Hugging Face: each gives a plan and a prediction, with the parameters that transformers and diffusers count."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hotlap.cli import main
from hotlap.core.plan.read import read
from hotlap.core.record import Case
from hotlap.core.work.networks import config, steps, walk
from hotlap.core.work.networks.layered import Layered

TABLE = tomllib.loads(Path(__file__).with_name("configurations.toml").read_text("utf-8"))["configuration"]
NAMES = [given["name"] for given in TABLE]


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The configuration as Hugging Face publishes it: in a folder of the model's name."""
    found = tmp_path / request.param["name"]
    found.mkdir()
    (found / "config.json").write_text(json.dumps(request.param["config"]), encoding="utf-8")
    return found


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_there_are_ten_of_ten_kinds() -> None:
    assert len(NAMES) == len(set(NAMES)) == 10
    assert len({given["class"] for given in TABLE}) == 10
    assert all(given["source"] for given in TABLE)


@pytest.mark.parametrize(("folder", "given"), [(given, given) for given in TABLE], ids=NAMES, indirect=["folder"])
def test_it_has_a_plan_a_prediction_and_its_parameters(folder: Path, given: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    network = config.read(folder)
    parameters = walk.walk(network, "layers", 1).parameters if isinstance(network, Layered) else network.counted
    assert parameters == pytest.approx(given["parameters"], rel=0.01)

    phase = "decode" if "decode" in steps.phases(network) else "forward"
    out = folder / "plan.toml"
    notes = printed(capsys, "plan", "from", str(folder), "--phase", phase, "-o", str(out))["notes"]
    plan = read(out.read_text("utf-8"), "plan.toml", "plan", "plan.toml")
    expected_s = sum(use.calls * (use.expected_s or 0.0) for use in plan.uses)
    assert list(notes["steps"].values()) == [pytest.approx(expected_s, rel=1e-5)]
    assert notes["unknown"] == {}

    step = printed(capsys, "predict", "net", str(folder), "--machine", "h200-sxm")["step"]
    assert (step["network"], step["phase"]) == (given["name"], phase)
    assert 0 < step["low_s"] < step["seconds"] < step["high_s"]
    assert step["seconds"] == pytest.approx(expected_s, rel=1e-5)
    assert {use.case for use in plan.uses} == {Case(**part["case"]).id for part in step["parts"]}

    of_the_reading = {"read_as", "part_left_out", "no_workload"}
    for notices in (notes["remarks"], step["notices"]):
        assert [one["code"] for one in notices if one["code"] in of_the_reading] == given.get("codes", [])
