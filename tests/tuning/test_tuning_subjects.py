"""One run of a subject: what a setting means for it, and what it gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.core.errors import InputError, NotSupported
from hotlap.tuning import benches, catalogue, tape
from hotlap.tuning.applying import Applied, ChosenSwitches
from hotlap.tuning.record import TuningAsked
from hotlap.tuning.space import SwitchSetting


def test_words_before_a_command_stand_before_a_script_that_steps(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os, hotlap\nprint('by', os.environ['BEFORE'])\nwith hotlap.steps() as t:\n    for _ in range(9):\n        t.step()\n")
    asked = TuningAsked(subject=f"python {script}", kind="program", goal="step", result="by ([0-9]+)")
    ran = benches.subject_of(asked, tmp_path).run(Applied({}, {}, ["env", "BEFORE=7"], {}, {}), 0, 60.0)
    assert ran.result == 7.0


def test_a_metric_of_the_users_own_may_have_the_name_of_a_goal(tmp_path: Path) -> None:
    how = {"read": "pattern", "expression": "tps=([0-9.]+)", "better": "higher"}
    asked = TuningAsked(subject="echo tps=40", kind="program", goal="tokens/s", better="higher", how=how)
    subject = benches.subject_of(asked, tmp_path)
    assert subject.run(Applied({}, {}, [], {}, {}), 0, 60.0).value == 40.0


def test_a_load_given_as_text_is_read_as_what_it_is(tmp_path: Path) -> None:
    asked = TuningAsked(subject="http://127.0.0.1:1", kind="server", goal="p99")
    subject = benches.subject_of(asked, tmp_path)
    assert isinstance(subject, benches.ServerSubject)
    side = subject._side(Applied({}, {}, [], {}, {"input": "256", "ignore_eos": "false"}))
    assert (side.load.input, side.load.ignore_eos) == (256, False)
    for load, text in (({"input": "many"}, r"\[load\]: expected `int`"), ({"inptu": "3"}, "no key 'inptu'"), ({"input": "0"}, "from 1")):
        with pytest.raises(InputError, match=text):
            subject._side(Applied({}, {}, [], {}, load))


def test_a_setting_that_is_bad_input_is_dropped_and_kept_and_the_search_goes_on(tmp_path: Path) -> None:
    class Refusing:
        device, words = None, list[str]()

        def run(self, applied: Applied, number: int, limit_s: float) -> benches.Ran:
            raise InputError("input is a whole number")

    switches = {"inputs": catalogue.TuningSwitch(load="input = {value}", values=["many"])}
    asked = TuningAsked(subject="x", kind="program", goal="time")
    bench = tape.TuningTape(Refusing(), asked, ChosenSwitches(switches, {"inputs": ["as found"]}, []), tmp_path)  # type: ignore[arg-type]
    assert bench.take((SwitchSetting("inputs", "many"),), "alone").reason == "input is a whole number"
    assert len(tape.read(bench.file.read_bytes())) == 1


@pytest.mark.parametrize(("goal", "limit", "known"), [("time", "step<=1s", "time"), ("step", "time<=1s", "step")])
def test_a_limit_on_what_a_run_does_not_tell_is_refused(tmp_path: Path, goal: str, limit: str, known: str) -> None:
    asked = TuningAsked(subject="python train.py", kind="program", goal=goal, under=[limit])
    with pytest.raises(InputError, match=f"give a limit on {known}"):
        benches.subject_of(asked, tmp_path)


def test_a_script_without_a_step_says_how_steps_are_marked(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    subject = benches.subject_of(TuningAsked(subject=f"python {script}", kind="program", goal="step"), tmp_path)
    with pytest.raises(NotSupported, match=r"no step of the script could be timed; mark each of several: with hotlap.steps\(\) as t: … t.step\(\)"):
        subject.run(Applied({}, {}, [], {}, {}), 0, 60.0)
