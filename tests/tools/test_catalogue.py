"""Hotlap's tool files: each reads its own samples, names where its format was seen, and says what its numbers do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.core.measure.tools import toolfile
from hotlap.core.measure.tools.toolfile import ToolFile
from hotlap.tools import files, testing

OWN = {path.stem: path for path in sorted(files.OWN.glob("*.toml"))}
ASKED = (
    "glmark2", "vkmark", "vkpeak", "clpeak", "mixbench", "babelstream", "nvbandwidth", "nccl-tests", "rccl-tests", "rocm-bandwidth-test",
    "transferbench", "gpu-burn", "gpu-fryer", "dcgm-diag3", "dcgm-diag4", "rvs", "hpcc", "hpl", "hpcg", "osu", "fio", "iperf3", "perftest",
    "stress-ng", "stressapptest", "sysbench-cpu", "sysbench-memory", "sysbench-fileio", "hashcat", "blender-benchmark", "luxmark",
    "unigine-superposition", "furmark", "furmark1", "kombustor", "specviewperf", "3dmark", "benchncnn", "mlperf-loadgen", "mlperf-training",
    "mangohud", "phoronix", "hyperfine", "pytest-benchmark", "mbw", "ioping", "qperf", "nuttcp", "likwid-bench", "x11perf", "clinfo", "ffmpeg",
)  # fmt: skip


@pytest.fixture(params=OWN, scope="module")
def tool(request: pytest.FixtureRequest) -> ToolFile:
    return toolfile.load(OWN[request.param])


def test_every_sample_gives_its_numbers_or_its_reason(tool: ToolFile) -> None:
    assert [sample.fault for sample in testing.test(tool) if sample.fault] == []


def test_it_has_a_good_sample_and_one_that_is_refused(tool: ToolFile) -> None:
    if not tool.format_seen:
        assert tool.format_not_seen, f"{tool.name}: a file without [[result]] says where its format was looked for"
        assert tool.sample == []
        return
    assert any(sample.expect for sample in tool.sample), tool.name
    assert any(sample.refuse for sample in tool.sample), tool.name


def test_it_says_where_it_comes_from_and_what_its_numbers_do_not_say(tool: ToolFile) -> None:
    assert tool.site.startswith("http"), tool.name
    assert tool.lies, tool.name
    assert tool.install, tool.name
    assert tool.about


def test_the_tools_that_labs_run_are_there() -> None:
    assert [name for name in ASKED if name not in OWN] == []
    seen = [name for name, path in OWN.items() if toolfile.load(path).format_seen]
    assert len(OWN) >= 50
    assert len(seen) >= 45


def test_no_sample_is_left_over() -> None:
    named = {text[1:] for path in OWN.values() for sample in toolfile.load(path).sample
             for text in (sample.stdout, sample.stderr, *sample.files.values()) if text.startswith("@")}  # fmt: skip
    there = {f"samples/{path.relative_to(files.OWN / 'samples')}" for path in (files.OWN / "samples").rglob("*") if path.is_file()}
    assert there == named


def test_a_file_of_one_s_own_replaces_and_adds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding a tool is one file and no code."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home" / "tools").mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    text = 'name = "{name}"\nabout = "{about}"\nmeasures = "disk"\nfind = ["true"]\n'
    (tmp_path / "home" / "tools" / "fio.toml").write_text(text.format(name="fio", about="of the home"))
    (tmp_path / "home" / "tools" / "mine.toml").write_text(text.format(name="mine", about="of the home"))
    (tmp_path / "tools" / "mine.toml").write_text(text.format(name="mine", about="of this folder"))
    assert files.load("fio", tmp_path / "home").about == "of the home"
    assert files.load("mine", tmp_path / "home").about == "of this folder"
    assert {tool.name for tool in files.every(tmp_path / "home")} == {*OWN, "fio", "mine"}
