"""Time against energy over clocks and caps: what a dry run says, what a simulated card shows, what is chosen under a limit."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from hotlap import cli
from hotlap.core import plan as plans
from hotlap.core.analysis.frontier import FrontierPoint, frontier
from hotlap.core.errors import Busy, InputError, Interrupted, MachineError, Unavailable
from hotlap.core.measure import runs, session, targets
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.record import Device, Plan
from hotlap.core.show import kinds
from hotlap.core.store import bundle as bundles
from hotlap.core.store import locks
from hotlap.tuning import power_points, power_show, power_sweep
from hotlap.tuning.power_choice import Tops, halfway
from hotlap.tuning.power_guard import Wish
from hotlap.tuning.power_settings import Bounds, calls

DEVICE = Device(target="cuda", index=0, name="Test", kind="gpu", uuid="GPU-1")
PLAN = """
name = "energies"
[measure]
rounds = 2
rounds_max = 2
round_time = "3 s"
[[case]]
workload = "gemm"
m = 4096
n = 4096
k = 4096
dtype = "bf16"
"""
SOURCE = Path(power_sweep.__file__).parent.parent


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def test_nobody_mends_what_another_has_set_and_still_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power_sweep.targets, "find", lambda _: [DEVICE])
    monkeypatch.setattr(power_sweep, "bounds", lambda _: Bounds())
    monkeypatch.setattr(power_sweep, "sensed", lambda *_: None)
    monkeypatch.setattr(power_sweep, "guarded", lambda *_: pytest.fail("settings were reached"))
    with locks.hold([DEVICE], settings=True), pytest.raises(Busy):
        power_sweep.measure(Plan(name="p"), session.SessionOptions(target="cuda", home=tmp_path), [Wish(power_w=400.0)], lambda *_: None, lambda _: None)


@pytest.mark.slow("measures at every setting of a simulated GPU")
def test_settings_move_time_and_energy_as_the_model_says(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["tuning", "power", str(home / "plan.toml"), "--target", "simulated:h200-sxm", "--device", "0", "--clocks", "1.2GHz", "--power", "450", "--json"]
    assert cli.main(argv) == 0
    dry = json.loads(capsys.readouterr().out)
    assert any("nothing is set" in line for line in dry["dry_run"])
    (command,) = (line for line in dry["dry_run"] if line.startswith("command: "))
    assert "--device 0 --clocks 1.2GHz --power 450" in command  # of the device that was looked at
    assert not (home / "home" / "runs").exists()
    assert cli.main([*argv, "--apply"]) == 0
    measured = {one["name"]: one for one in json.loads(capsys.readouterr().out)["frontier"]["points"]}
    expected = {one["name"]: one for one in dry["frontier"]["points"]}
    assert set(measured) == set(expected) == {"free", "1.20 GHz", "450 W"}
    for name in ("1.20 GHz", "450 W"):
        assert measured[name]["joules"] < measured["free"]["joules"]
        assert measured[name]["slower"] == pytest.approx(expected[name]["slower"], abs=0.08)
    assert measured["1.20 GHz"]["clock_hz"] == pytest.approx(1.2e9)
    assert measured["450 W"]["joules"] / measured["450 W"]["seconds"] <= 450 * 1.03
    assert cli.main(["tuning", "power", "--runs", *(one["source"] for one in measured.values()), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["frontier"]["points"]
    assert {one["name"]: one["joules"] for one in again} == {name: one["joules"] for name, one in measured.items()}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--machine", "h200-sxm", "--power", "900"], "above the limit"), (["--machine", "h200-sxm", "--clocks", "9GHz"], "outside of what the model knows"),
        (["--machine", "h200-sxm", "--clocks", "1.2"], "a clock has a unit, as in 1.2GHz"),
        (["--target", "simulated:h200-sxm", "--power", "5000", "--apply"], "5000 W is above the limit"),
        (["--target", "host", "--power", "400"], "has a power cap"), (["--target", "host", "--power", "400", "--apply"], "has a power cap"),
        (["--machine", "h2000"], "no machine 'h2000'"), (["--machine", "h200-sxm", "--clocks", "fast"], "fast"),
    ],
)  # fmt: skip
def test_bad_settings_are_one_line(home: Path, capsys: pytest.CaptureFixture[str], argv: list[str], said: str) -> None:
    assert cli.main(["tuning", "power", str(home / "plan.toml"), *argv]) == 2
    assert said in capsys.readouterr().err


def test_the_former_name_answers(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [str(home / "plan.toml"), "--machine", "h200-sxm", "--clocks", "1.2GHz"]
    assert cli.main(["energy", "frontier", *argv]) == 0
    out, err = capsys.readouterr()
    assert "'energy frontier' is now 'tuning power'" in err
    assert cli.main(["tuning", "power", *argv]) == 0
    assert capsys.readouterr() == (out, "")


# ---------------------------------------------------------------- a limit, and settings between


def point(name: str, seconds: float, joules: float, keeps: str = "kept") -> FrontierPoint:
    return FrontierPoint(name=name, seconds=seconds, joules=joules, keeps=keeps)  # type: ignore[arg-type]


def test_the_least_energy_that_keeps_the_limit_is_the_best() -> None:
    points = [point("free", 1.0, 10.0), point("a", 1.1, 9.0), point("b", 1.2, 8.0, "unsure"), point("c", 1.3, 7.0, "missed")]
    assert frontier(points, within="99 % of calls within 1.15 s").best["energy, 99 % of calls within 1.15 s"] == "a"
    assert not [name for name in frontier(points[2:], within="99 % of calls within 1.15 s").best if "within" in name]


def test_without_a_run_of_the_free_card_nothing_is_against_it() -> None:
    two = power_show.frontier(frontier([point("500 W", 1.2, 8.0), point("400 W", 1.5, 6.0)]))
    assert "against free" not in two
    assert "against 500 W" in two
    one = power_show.frontier(frontier([point("500 W", 1.2, 8.0)]))
    assert "500 W alone: nothing is compared" in one
    assert "–" in one
    assert not any(text in one for text in ("against", "0.0 %", "1.000"))
    assert "best" not in one


def test_a_run_without_a_case_is_refused(tmp_path: Path) -> None:
    record = runs.record(Plan(name="tuning"), "host", [DEVICE], fingerprint([DEVICE]), kind="tuning")
    with pytest.raises(InputError, match="has no case"):
        power_points.of_run(bundles.Bundle(record, tmp_path))


def test_settings_between_lie_beside_the_best_that_keeps_the_limit() -> None:
    wishes = [Wish(), Wish(power_w=400.0), Wish(power_w=500.0), Wish(power_w=600.0)]
    points = {
        "free": point("free", 1.0, 10.0), "600 W": point("600 W", 1.1, 9.0), "500 W": point("500 W", 1.2, 8.0),
        "400 W": point("400 W", 1.5, 6.0, "missed"),
    }  # fmt: skip
    names, tops = list(map(power_sweep.name, wishes)), Tops(None, 700.0)
    assert halfway(wishes, points, names, tops) == [Wish(power_w=450.0), Wish(power_w=550.0)]
    free: Mapping[str, FrontierPoint] = {**points, **{name: point(name, 2.0, 1.0, "missed") for name in ("500 W", "600 W")}}
    assert halfway(wishes, free, names, tops) == [Wish(power_w=650.0)]
    close = [Wish(power_w=400.0), Wish(power_w=403.0)]
    assert halfway(close, {"400 W": point("400 W", 1, 1), "403 W": point("403 W", 1, 2)}, ["400 W", "403 W"], tops) == []
    none = {name: point(name, 1, 1, "missed") for name in points}
    assert halfway(wishes, none, names, tops) == []


def test_a_modelled_limit_is_held_against_each_call(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["tuning", "power", str(home / "plan.toml"), "--machine", "h200-sxm", "--power", "300,500", "--under", "p99<=250us", "--refine", "3", "--json"]
    assert cli.main(argv) == 0
    found = json.loads(capsys.readouterr().out)["frontier"]
    points = {each["name"]: each for each in found["points"]}
    assert len(points) == 6
    assert {each["keeps"] for each in points.values()} == {"kept", "missed"}
    assert all((each["keeps"] == "kept") == (each["seconds"] <= 250e-6) for each in points.values())
    best = found["best"]["energy, 99 % of calls within 250 µs"]
    assert points[best]["joules"] == min(each["joules"] for each in points.values() if each["keeps"] == "kept")


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--under", "p50<=2ms"], "'p50' is not known"), (["--under", "p99<=2"], "no unit"), (["--under", "p99>=2ms"], "upper limit"),
        (["--refine", "-1"], "--refine"), (["--refine", "1000"], "0 to 100"),
    ],
)  # fmt: skip
def test_a_bad_limit_is_one_line(home: Path, capsys: pytest.CaptureFixture[str], argv: list[str], text: str) -> None:
    assert cli.main(["tuning", "power", str(home / "plan.toml"), "--machine", "h200-sxm", "--power", "400", *argv]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert text in err


@pytest.mark.slow("measures at every setting of a simulated GPU")
def test_under_a_limit_calls_are_timed_one_by_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--target", "simulated:h200-sxm?seed=5&noise=0.02", "--power", "300,500", "--under", "p99<=260us", "--refine", "2", "--apply", "--json"]
    assert cli.main(["tuning", "power", str(home / "plan.toml"), *argv]) == 0
    found = json.loads(capsys.readouterr().out)["frontier"]
    keeps = {each["name"]: each["keeps"] for each in found["points"]}
    assert keeps["free"] == "kept"
    assert keeps["300 W"] == "missed"
    assert len(keeps) == 5
    assert cli.main(["tuning", "power", "--runs", *(each["source"] for each in found["points"]), "--under", "p99<=260us", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["frontier"]
    assert {each["name"]: each["keeps"] for each in again["points"]} == keeps
    assert again["best"] == found["best"]


def test_without_a_sensor_of_power_nothing_is_set(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dead = "simulated:h200-sxm?dead=power_w,energy_j"
    spec = targets.parse(dead)
    with pytest.raises(Unavailable, match="no sensor tells its power or energy"):
        power_sweep.sensed(spec, targets.find(spec)[0])
    assert cli.main(["tuning", "power", str(home / "plan.toml"), "--target", dead, "--power", "400", "--apply"]) == 3
    out, err = capsys.readouterr()
    assert (out, err.count("nothing was set")) == ("", 1)
    assert not (home / "home" / "runs").exists()


def test_calls_are_those_of_the_driver() -> None:
    assert calls(1.2e9, 400.0) == ["nvmlDeviceSetGpuLockedClocks(1200, 1200)", "nvmlDeviceSetPowerManagementLimit(400000)"]
    assert calls(None, None) == []


def test_one_module_alone_sets_anything_through_nvml() -> None:
    """So that its one check, that under HOTLAP_NVML=stand-in only a stand-in is set, holds for all."""
    setting = ("nvmlDeviceSet", "nvmlDeviceReset", "nvmlUnitSet", "nvmlDeviceClear")
    found = [path.name for path in sorted(SOURCE.rglob("*.py")) if any(f".{name}" in path.read_text("utf-8") for name in setting)]
    assert found == ["power_settings.py"]


def test_a_run_whose_calls_were_timed_together_does_not_say(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "short.toml").write_text(PLAN.replace("4096", "64").replace("3 s", "0.05 s"))
    assert cli.main(["run", str(home / "short.toml"), "--target", "simulated:h200-sxm", "--no-report"]) == 0
    capsys.readouterr()
    code = cli.main(["tuning", "power", "--runs", "latest", "--under", "p99<=1ms"])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "--under measures them anew" in err or "energy" in err
    assert power_points.MISSED == 0.01


def test_a_cap_equal_to_the_cards_own_is_one_setting_with_it() -> None:
    wishes = [Wish(), Wish(power_w=500.0), Wish(power_w=700.0)]
    points = {"free": point("free", 1.0, 10.0), "500 W": point("500 W", 1.1, 9.0), "700 W": point("700 W", 1.0, 10.0)}
    assert halfway(wishes, points, ["free", "500 W", "700 W"], Tops(2e9, 700.0)) == [Wish(power_w=600.0)]


def test_an_interrupted_setting_cannot_go_on_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, again = plans.load(str(home / "plan.toml")), "hotlap tuning power plan.toml --power 400 --apply"
    options = session.SessionOptions(target="simulated:h200-sxm", home=home / "home", part_of=again)

    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match=f"begin anew: {again}"):
        power_sweep.measure(plan, options, [Wish(power_w=400.0)], interrupt, lambda _: None)
    (run,) = (home / "home" / "runs").iterdir()
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    assert cli.main(["run", "--resume", "latest"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"begin anew: {again}" in err
    assert {file.name: file.read_bytes() for file in run.iterdir()} == before
    assert kinds.unfinished("plan", again) == f"not finished: begin anew by {again}"  # of one that was killed


def test_a_held_device_is_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def measure(_: Plan, options: session.SessionOptions, *__: object) -> list[power_sweep.Measured]:
        waits.append(options.wait_s)
        raise Busy("it is held")

    monkeypatch.setattr(power_sweep, "measure", measure)
    words = ["tuning", "power", str(home / "plan.toml"), "--target", "simulated:h200-sxm", "--power", "400", "--apply"]
    assert [cli.main([*words, *more]) for more in ([], ["--wait", "2 min"])] == [3, 3]
    assert waits == [0.0, 120.0]


def test_each_run_of_a_sweep_has_the_command_that_begins_it_anew(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ended(_: Plan, options: session.SessionOptions, *__: object) -> Path:
        asked.append(options.part_of)
        raise MachineError("the disk is full")

    monkeypatch.setattr(power_sweep.session, "run", ended)
    words = ["tuning", "power", str(home / "plan.toml"), "--target", "simulated:h200-sxm", "--power", "400", "--refine", "2", "--apply"]
    assert cli.main(words) == 3
    assert asked == [f"hotlap {' '.join([*words[:3], '--target', 'simulated:h200-sxm', '--power', '400', '--refine', '2', '--apply'])}"]


def test_a_run_that_is_of_no_plan_is_not_ended_by_resuming_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = runs.record(Plan(name="tuning"), "host", [DEVICE], fingerprint([DEVICE]), kind="tuning")
    with runs.begin(record, [], home / "home"):
        pass
    file = home / "home" / "runs" / record.id / "run.json"
    before = file.read_bytes()
    assert cli.main(["run", "--resume", record.id]) == 2
    assert "is a run of kind tuning" in capsys.readouterr().err
    assert file.read_bytes() == before
