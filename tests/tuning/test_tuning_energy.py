"""Energy as a goal: of a program by a counter of the processor's, of a plan on a simulated GPU; without a sensor it is refused with why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hotlap.cli import main
from hotlap.core.errors import InputError, NotSupported, Unavailable
from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.system import System
from hotlap.core.measure.targets import host
from hotlap.core.measure.targets.base import SystemClock
from hotlap.tuning import benches, joules
from hotlap.tuning.applying import Applied
from hotlap.tuning.record import TuningAsked

ZONE = "sys/class/powercap/intel-rapl:0"
PROGRAM = """
n=$(cat n 2>/dev/null || echo 7); n=$(( (n * 1103515245 + 12345) % 2147483648 )); echo $n > n
spent=200000000; [ "$1" = thrifty ] && spent=150000000
sleep 0.25
now=$(( $(cat root/ZONE/energy_uj) + spent + n / 65536 % 200 * 10000 )); echo $now > root/ZONE/energy_uj
sleep 0.25
""".replace("ZONE", ZONE)
PLAN = 'name = "power"\n[measure]\nrounds = 6\nround_time = "2 s"\n[[case]]\nworkload = "gemm"\nm = 4096\nn = 4096\nk = 4096\ndtype = "bf16"\n'
NOTHING = Applied({}, {}, [], {}, {})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def counter(here: Path, monkeypatch: pytest.MonkeyPatch) -> list[SensorSource]:
    """A processor whose counter the program of these tests advances: what reads it is what reads a real one."""
    zone = here / "root" / ZONE
    zone.mkdir(parents=True)
    for name, content in (("name", "package-0"), ("energy_uj", "1000"), ("max_energy_range_uj", "262143328850000")):
        (zone / name).write_text(f"{content}\n")
    (here / "root" / "proc").mkdir()
    (here / "root" / "proc" / "stat").write_text("cpu  1 1 1 1 1 1 1 1 0 0\n")
    (here / "toy.sh").write_text(PROGRAM)
    sources: list[SensorSource] = [System(SystemClock().now(), str(here / "root"))]
    monkeypatch.setattr(joules, "meter", lambda: joules.EnergyMeter([host.describe()], sources))
    return sources


def asked(subject: str, goal: str, **more: Any) -> TuningAsked:
    return TuningAsked(subject=subject, kind=benches.kind_of(subject), goal=goal, seed=1, **more)


def test_joules_of_a_program_are_those_that_the_counter_grew_by(here: Path, counter: list[SensorSource]) -> None:
    ran = benches.subject_of(asked("sh toy.sh", "energy"), here).run(NOTHING, 0, 60.0)
    assert ran.value == pytest.approx(201.0, abs=1.0 + 1e-6)
    assert ran.metrics["time"] > 0.5


@pytest.mark.slow("some thirty runs of half a second, waiting")
def test_a_setting_that_spends_less_is_a_gain_of_energy(here: Path, counter: list[SensorSource], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tuning", "run", "sh toy.sh {mode}", "--switches", "mode=usual,thrifty", "--goal", "energy", "--budget", "40 s", "--seed", "1"]
    assert main([*words, "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)["tuning"]["outcome"]
    assert (outcome["answer"], outcome["winner"]) == ("gain", [{"switch": "mode", "value": "thrifty"}])
    assert outcome["low"] < 0.75 + 0.01
    assert outcome["high"] > 0.75 - 0.01


def test_joules_of_a_plan_on_a_simulated_gpu_are_its_power_times_its_time(here: Path) -> None:
    (here / "plan.toml").write_text(PLAN)
    where = {"target": "simulated:h200-sxm?seed=3"}
    subject = benches.subject_of(asked("plan.toml", "energy", how=where), here)
    assert isinstance(subject, benches.PlanSubject)
    ran = subject.run(NOTHING, 1, 60.0)
    free_w, idle_w = 700.0, 50.0
    assert idle_w < ran.value / ran.metrics["time"] <= free_w
    capped = benches.subject_of(asked("plan.toml", "energy", how={"target": "simulated:h200-sxm?seed=3&power_cap=300W"}), here)
    less = capped.run(NOTHING, 1, 60.0)
    assert less.value / less.metrics["time"] == pytest.approx(300.0, rel=0.05)


def test_a_sensor_that_does_not_answer_is_why_a_plan_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "plan.toml").write_text(PLAN)
    words = ["plan.toml", "--goal", "energy", "--switches", "X=1", "--target", "simulated:h200-sxm?dead=power_w,energy_j"]
    assert main(["tuning", "run", *words]) == 3
    assert "no sensor tells its energy or power" in capsys.readouterr().err


def test_a_processor_without_a_counter_is_why_a_program_is_refused(here: Path) -> None:
    (here / "proc").mkdir()
    (here / "proc" / "stat").write_text("cpu  1 1 1 1 1 1 1 1 0 0\n")
    with pytest.raises(Unavailable, match="no sensor tells its energy or power: this kernel shows no RAPL zone"):
        joules.check(host.describe(), [System(0.0, str(here))], 0.0)


def test_energy_of_what_has_none_is_refused(here: Path, counter: list[SensorSource]) -> None:
    (here / "server.toml").write_text('[server]\nsimulated = "h200-sxm?model=gpt-2"\n')
    with pytest.raises(InputError, match="a simulated server spends no energy"):
        benches.subject_of(asked("server.toml", "J/token"), here)
    meter = joules.meter()
    with meter.on():
        pass
    with pytest.raises(NotSupported, match="no two readings"):
        meter.joules(1.0, 1.0)
