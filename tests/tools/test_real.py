"""Programs that are installed here, run for real by their files: the numbers are those that they print, and their failures are no numbers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotlap.core import units
from hotlap.core.measure.tools import finding, reading, running, toolfile
from hotlap.core.measure.tools.reading import ToolOutput, ToolValue
from hotlap.core.measure.tools.toolfile import ToolFile
from hotlap.tools import files, testing

REAL: dict[str, dict[str, object]] = {  # parameters with which each takes a few seconds at most
    "fio": {"seconds": 1, "size": "8 MiB"}, "iperf3": {"seconds": 1}, "sysbench-cpu": {"seconds": 1}, "sysbench-memory": {"seconds": 1},
    "sysbench-fileio": {"seconds": 1}, "mbw": {"size": 16}, "stress-ng": {"seconds": 1}, "stressapptest": {"seconds": 1},
    "ioping": {"count": 5}, "hyperfine": {}, "clinfo": {}, "likwid-bench": {}, "qperf": {"seconds": 1}, "nuttcp": {"seconds": 1},
    "ffmpeg": {}, "x11perf": {"repeat": 1}, "glmark2-es2": {"seconds": 1}, "mangohud": {},
}  # fmt: skip
NEEDED = 14  # of them are here where CI has installed them
FIGURE = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def load(name: str) -> ToolFile:
    return toolfile.load(files.OWN / f"{name}.toml")


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """An X server of the test's own, "" where there is none."""
    if not shutil.which("Xvfb"):
        yield ""
        return
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "800x600x24", "-nolisten", "tcp"], pass_fds=[write],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write)
    with os.fdopen(read) as file:
        number = file.readline().strip()
    yield f":{number}" if number else ""
    server.terminate()
    server.wait()


def own_tool(name: str, display: str, monkeypatch: pytest.MonkeyPatch) -> tuple[ToolFile, finding.FoundTool]:
    tool = load(name)
    if name == "clinfo" and not any(Path("/etc/OpenCL/vendors").glob("*.icd")):
        pytest.skip("clinfo: the system has no OpenCL driver")
    if display:
        monkeypatch.setenv("DISPLAY", display)
    place = finding.find(tool)
    if place.missing:
        pytest.skip(f"{name}: {place.missing}")
    return tool, place


def printed(value: ToolValue, number: float, output: ToolOutput) -> bool:
    """Whether the output holds this number, in the unit that the tool prints it in: some figure of it is the number by a power of a prefix."""
    text = "\n".join([output.stdout, output.stderr, *output.files.values()])
    scales = {*units.DECIMAL.values(), *units.BINARY.values(), 60.0, 1 / 8, 125.0, 125e3, 125e6}
    figures = {float(figure) for figure in FIGURE.findall(text)}
    return any(abs(figure * scale - number) <= 1e-9 * number for figure in figures for scale in scales)


@pytest.mark.slow("runs other people's programs")
@pytest.mark.parametrize("name", REAL)
def test_its_numbers_are_those_it_prints(name: str, display: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tool, place = own_tool(name, display, monkeypatch)
    settings = running.check(tool, {key: value for key, value in REAL[name].items() if key in tool.parameters})
    done = running.execute(tool, place.program, settings)
    assert not done.late
    answer = reading.read(tool, done.output, settings)
    assert answer.refused == "", done.output
    numbers = [(value, number) for value in answer.values for number in value.values]
    assert numbers, [value.refused for value in answer.values]
    assert [f"{value.name} {number}" for value, number in numbers if not printed(value, number, done.output)] == []


def test_enough_of_them_are_here() -> None:
    """Where CI installs everything, a tool that is missing is a failure; elsewhere it is skipped."""
    if os.environ.get("HOTLAP_TEST_TOOLS") != "required":
        pytest.skip("HOTLAP_TEST_TOOLS is not 'required': tools that are missing are skipped")
    here = [name for name in REAL if finding.find(load(name)).program]
    assert len(here) >= NEEDED, here


# ---------------------------------------------------------------- what looks like success and is none


def refused(tool: ToolFile, output: ToolOutput) -> str:
    answer = reading.read(tool, output, tool.settings({}))
    assert [value.name for value in answer.values if value.values] == []
    reasons = [answer.refused, *(value.refused for value in answer.values)]
    return next(filter(None, reasons))


def run(*argv: str, folder: Path) -> ToolOutput:
    """A program's own output, by a command that its tool file would not give."""
    if not shutil.which(argv[0]):
        pytest.skip(f"there is no program {argv[0]}")
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL)
    written = {path.name: path.read_text(errors="replace") for path in folder.iterdir() if path.is_file()}
    return ToolOutput(done.returncode, done.stdout, done.stderr, written)


@pytest.mark.slow("runs other people's programs")
def test_iperf3_on_a_refused_connection(tmp_path: Path) -> None:
    output = run("iperf3", "-c", "127.0.0.1", "-p", "1", "-t", "1", "-J", folder=tmp_path)
    assert "Connection refused" in refused(load("iperf3"), output)


@pytest.mark.slow("runs other people's programs")
def test_hyperfine_with_a_failing_command(tmp_path: Path) -> None:
    tool = load("hyperfine")
    name = next(result.source for result in tool.result)
    argv = ["hyperfine", "-N", "-i", "--runs", "3", "--export-json", name if "." in name else "r.json", "false"]
    output = run(*argv, folder=tmp_path)
    assert output.status == 0
    assert "status" in refused(tool, output) or "exit" in refused(tool, output)


@pytest.mark.slow("runs other people's programs")
def test_glmark2_with_a_scene_that_there_is_not(tmp_path: Path, display: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tool, place = own_tool("glmark2-es2", display, monkeypatch)
    name = next(result.source for result in tool.result)
    assert place.program
    output = run(place.program, "--off-screen", "-b", "build:duration=1", "-b", "nosuch:duration=1", "--results-file", name if "." in name else "r.xml", folder=tmp_path)
    assert output.status == 0
    assert "nosuch" in refused(tool, output)


def test_stress_ng_with_nothing_done() -> None:
    """0 operations end with status 0: samples of its output hold that, and none of them gives a number."""
    tool = load("stress-ng")
    idle = [sample for sample in tool.sample if sample.refuse and sample.status == 0]
    assert idle
    assert all(sample.refuse in refused(tool, testing.output(tool, sample)) for sample in idle)
