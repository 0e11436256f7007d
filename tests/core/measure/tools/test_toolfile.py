"""Tool files: what is wrong in one is named with file and place, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.measure.tools.tools_made import tool

from hotlap.core.errors import InputError
from hotlap.core.measure.tools import toolfile

RESULT = '[[result]]\nread = "regex"\nmatch = "rate (.*)"\nname = "rate"\nunit = "B/s"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[result]]\nread = \"regex\"\nname = \"x\"\n", "read = 'regex' needs 'match'"),
        ('[[result]]\nread = "regexp"\nname = "x"\n', "Invalid enum value 'regexp'"),
        ('[[result]]\nname = "x"\n', "needs 'read' (how rows are found) or 'reader'"),
        ('[[result]]\nread = "json"\n', "'name' is missing"),
        (RESULT + 'colour = "red"\n', "unknown field `colour`"),
        (RESULT.replace("(.*)", "(.*"), "is not a regular expression"),
        (RESULT + 'check = ["rate above 3"]\n', "is no condition; write FIELD == VALUE"),
        (RESULT + 'like = "streem op=copy"\n', "there is no workload 'streem'; did you mean 'stream'?"),
        ('[parameters]\nsize = { default = "1 furlong", unit = "B" }\n', "parameter 'size': its default is not valid"),
        ('[parameters]\nout = { default = 1 }\n', "this name is Hotlap's own"),
        ('[[sample]]\norigin = "x"\n', "it needs 'expect' (its numbers) or 'refuse'"),
        ('[[sample]]\norigin = ""\nrefuse = "x"\n', "'origin' is empty"),
    ],
)
def test_a_fault_is_one_line_with_file_and_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        tool(tmp_path, text)
    assert message in str(caught.value)
    assert str(tmp_path / "mine.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ('command = ["{program}", "{sice}"]', "'{sice}' in '{sice}' is no parameter"),
        ('command = ["x"]\ntimeout = "5 s + 2 * hours"', "timeout: 'hours' is no parameter"),
        ('command = ["x"]\nmemory = "lots"', "'lots' is not a quantity"),
    ],
)
def test_a_fault_of_the_run(tmp_path: Path, run: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        tool(tmp_path, "", run=run)
    assert message in str(caught.value)


def test_the_name_is_the_file_s(tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text('name = "mine"\nabout = "x"\nmeasures = "disk"\nfind = ["x"]\n')
    with pytest.raises(InputError, match=r"name is 'mine', and the file is called 'other\.toml'"):
        toolfile.load(path)


@pytest.mark.parametrize("content", [b"name = ", b"\xff\xfe", b'name = "mine"\nfind = "x"\n'])
def test_a_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mine.toml").write_bytes(content)
    with pytest.raises(InputError, match=r"mine\.toml"):
        toolfile.load(tmp_path / "mine.toml")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        toolfile.load(tmp_path / "gone.toml")


PARAMETERS = """[parameters]
size = { default = "64 MiB", unit = "B", low = "1 MiB", high = "1 GiB" }
mode = { default = "read", choices = ["read", "write"] }
seconds = { default = 2, low = 1, identity = false }
direct = { default = true }
"""


def test_parameters_as_the_command_has_them(tmp_path: Path) -> None:
    made = tool(tmp_path, PARAMETERS)
    assert made.settings({}) == {"size": "67108864", "mode": "read", "seconds": "2", "direct": "true"}
    settings = made.settings({"size": "2 MiB", "direct": "false"})
    assert made.identity(settings, at_default=False) == ["size=2097152", "direct=false"]
    assert made.identity(settings, at_default=True) == ["mode=read"]
    assert toolfile.seconds("5 s + 4 * seconds", settings) == 13.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sise": "1"}, "mine has no parameter 'sise'; did you mean 'size'?"),
        ({"size": "1 KiB"}, "'size' is at least 1 MiB and at most 1 GiB, not 1 KiB"),
        ({"size": "2 GB"}, "'size' is at least 1 MiB"),
        ({"size": "big"}, "'size': 'big' is not a quantity"),
        ({"mode": "erase"}, "'mode' cannot be 'erase'; valid: read, write"),
        ({"seconds": "1.5"}, "'seconds' is a whole number, not 1.5"),
        ({"direct": "maybe"}, "'direct' is true or false, not 'maybe'"),
    ],
)
def test_a_parameter_that_is_not_valid(tmp_path: Path, given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        tool(tmp_path, PARAMETERS).settings(given)
    assert message in str(caught.value)


def test_a_tool_without_results_reads_nothing(tmp_path: Path) -> None:
    assert not tool(tmp_path, "").format_seen
    assert tool(tmp_path, RESULT).format_seen
