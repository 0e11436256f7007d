"""`hotlap frames capture`: a program under MangoHud, or under what writes logs as MangoHud does, where none is here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from tests.frames import simulated

from hotlap.cli import main
from hotlap.core import extend
from hotlap.core.show.document import Document
from hotlap.features import TABLE

Printed = pytest.CaptureFixture[str]
WRAPPER = """#!/bin/sh
# Stands where MangoHud stands: runs the program, and leaves a log and a summary where the configuration says.
if [ "$#" -eq 0 ]; then echo "ERROR: No program supplied"; exit 1; fi
"$@" || exit $?
folder=$(echo "$MANGOHUD_CONFIG" | sed 's/.*output_folder=\\([^,]*\\).*/\\1/')
echo "$MANGOHUD_CONFIG" >> "{home}/configured"
for log in "{home}"/logs/*.csv; do if [ -e "$log" ]; then cp "$log" "$folder"; fi; done
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `logs`, whose files every capture gets, and `configured`, what MangoHud was asked for."""
    (tmp_path / "logs").mkdir()
    programs = tmp_path / "programs"
    programs.mkdir()
    wrapper = programs / "mangohud"
    wrapper.write_text(WRAPPER.format(home=tmp_path))
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("DISPLAY", ":99")
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def log(place: Path, program: str = "game") -> None:
    name = f"{program}_2026-11-25_10-00-00"
    simulated.mangohud(place / "logs" / f"{name}.csv", simulated.frames(1, 1200))
    (place / "logs" / f"{name}_summary.csv").write_text("0.1% Min FPS,1% Min FPS,97% Percentile FPS,Average FPS\n1,2,3,4")


def test_each_process_is_a_round_and_its_summary_no_capture(place: Path, capsys: Printed) -> None:
    log(place)
    script = place / "drawn by.sh"
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$PWD" "$HOME" "$@" >> seen\n')
    script.chmod(0o755)
    words = ["a b", "it's", "back\\slash", "$HOME", '"quoted"', "{seconds}"]
    asked = ["frames", "capture", "--captures", "2", "--seconds", "3 s", "--after", "2 s", "--start", "1 s", "--json", "--", str(script), *words]
    assert main(asked) == 0
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    seen = (place / "seen").read_text().splitlines()
    assert seen[2 : 2 + len(words)] == words  # as the shell would have given them
    assert Path(seen[0]) == place  # where it was started from
    assert "hotlap-tool-" not in seen[1]  # with the user's own home
    assert len(answer["frames"]["captures"]) == 2
    assert all("game_2026" in one["file"] for one in answer["frames"]["captures"])
    configured = (place / "configured").read_text().splitlines()
    assert len(configured) == 2
    assert all("autostart_log=2,log_duration=3,log_interval=0" in line and "upload" not in line for line in configured)
    assert main(["show", answer["run"]]) == 0
    assert "average fps" in capsys.readouterr().out


@pytest.mark.parametrize(("body", "why"), [
    ("exit 0", "the program ended by itself before 2 s of frames"),
    ("echo lost >&2; exit 4", "the program ended with status 4: lost"),
    ("sleep 60", "MangoHud saw no complete log within 5 s"),
])  # fmt: skip
def test_no_log_is_one_line_with_its_reason(place: Path, capsys: Printed, body: str, why: str) -> None:
    script = place / "program"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    assert main(["frames", "capture", "--captures", "3", "--seconds", "1 s", "--start", "1 s", "--", "./program"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert why in err.splitlines()[-1]
    assert sum(line.startswith("hotlap: capture ") for line in err.splitlines()) == 1  # it does not go on


def test_of_two_programs_that_draw_one_is_chosen(place: Path, capsys: Printed) -> None:
    log(place, "launcher")
    log(place, "game")
    assert main(["frames", "capture", "--captures", "1", "--", "true"]) == 3
    assert "2 programs drew" in capsys.readouterr().err
    assert main(["frames", "capture", "--captures", "1", "--process", "game", "--", "true"]) == 0
    assert main(["frames", "capture", "--captures", "1", "--process", "other", "--", "true"]) == 3
    assert "no program that drew has 'other' in its name" in capsys.readouterr().err


def test_what_is_missing_is_said_in_one_line(place: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["frames", "capture", "--", "no-such-program"]) == 2
    assert "there is no program 'no-such-program'" in capsys.readouterr().err
    assert main(["frames", "capture"]) == 2
    assert "no program; give the one that draws at the end" in capsys.readouterr().err
    for option, value in (("--seconds", "1.5 s"), ("--after", "0 s"), ("--start", "1 h"), ("--captures", "0")):
        assert main(["frames", "capture", option, value, "--", "true"]) == 2
        assert option in capsys.readouterr().err
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert main(["frames", "capture", "--", "true"]) == 3
    assert "it needs a display" in capsys.readouterr().err
    (place / "programs" / "mangohud").unlink()
    monkeypatch.setenv("PATH", str(place / "programs"))
    (place / "programs" / "true").symlink_to("/bin/true")
    assert main(["frames", "capture", "--", "true"]) == 3
    assert "MangoHud cannot be run: there is no program mangohud" in capsys.readouterr().err


def test_without_the_feature_that_reads_tools_one_line_says_so(place: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    without = {what: lines for what, lines in TABLE.items() if what != "tool_files"}
    monkeypatch.setattr("hotlap.cli.TABLE", without)
    try:
        assert main(["frames", "capture", "--", "true"]) == 3
    finally:
        extend.use(TABLE)
    assert "knows other people's tools, MangoHud too, is not here" in capsys.readouterr().err


def test_ctrl_c_keeps_what_was_captured(place: Path, capsys: Printed) -> None:
    """The second process of the program sends Ctrl-C to Hotlap itself."""
    log(place)
    script = place / "game.sh"
    script.write_text(f'#!/bin/sh\necho run >> seen\n[ $(wc -l < seen) -lt 2 ] || {{ kill -INT {os.getpid()}; sleep 5; }}\n')
    script.chmod(0o755)
    asked = ["frames", "capture", "--captures", "4", "--seconds", "3 s", "--after", "2 s", "--start", "1 s", "--json", "--", str(script)]
    assert main(asked) == 130
    printed = capsys.readouterr()
    assert "1 of 4 captures are kept" in printed.err
    assert json.loads(printed.out)
    (run,) = (place / "home" / "runs").iterdir()
    assert (run / "frames.json").exists()


def test_ctrl_c_before_the_first_capture_keeps_nothing(place: Path, capsys: Printed) -> None:
    log(place)
    script = place / "game.sh"
    script.write_text(f"#!/bin/sh\nkill -INT {os.getpid()}\nsleep 5\n")
    script.chmod(0o755)
    assert main(["frames", "capture", "--captures", "2", "--", str(script)]) == 130
    assert not (place / "home" / "runs").exists() or not list((place / "home" / "runs").iterdir())
