"""Files that are cut, appended to, translated or empty: one line each, and never a number that the whole file does not have."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator

import pytest

from hotlap.core.measure.tools import toolfile
from hotlap.core.measure.tools.reading import ToolOutput, ToolReading, read
from hotlap.core.measure.tools.toolfile import ToolFile
from hotlap.tools import files, testing

FRACTIONS = (0.0, 0.15, 0.35, 0.5, 0.65, 0.8, 0.95)
NUMBERS = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
WORDS = ("nan", "inf", "-", "N/A", "-1.0")


def good() -> Iterator[tuple[ToolFile, ToolOutput]]:
    for path in sorted(files.OWN.glob("*.toml")):
        tool = toolfile.load(path)
        sample = next((sample for sample in tool.sample if sample.expect), None)
        if sample:
            yield tool, testing.output(tool, sample)


GOOD = {tool.name: (tool, output) for tool, output in good()}


def changed(output: ToolOutput, change: object) -> ToolOutput:
    assert callable(change)
    return ToolOutput(output.status, change(output.stdout), change(output.stderr), {name: change(text) for name, text in output.files.items()})


def known(answer: ToolReading) -> set[tuple[str, str, float]]:
    return {(value.name, value.unit, number) for value in answer.values for number in value.values}


def sensible(answer: ToolReading) -> None:
    """Every number is one, and what has none has a reason in one line."""
    for value in answer.values:
        assert value.values or value.refused
        assert all(math.isfinite(number) and number >= 0 for number in value.values)
        assert "\n" not in value.refused
    assert "\n" not in answer.refused
    assert answer.values or answer.refused


@pytest.mark.parametrize("name", GOOD)
def test_a_file_that_is_cut_gives_no_number_that_the_whole_one_lacks(name: str) -> None:
    """A cut in the middle of a number would be another one: the last line is taken as whole only where it ends."""
    tool, output = GOOD[name]
    whole = known(read(tool, output, tool.settings({})))
    for fraction in FRACTIONS:
        cut = changed(output, lambda text, part=fraction: text[: text.rfind("\n", 0, int(len(text) * part)) + 1])
        answer = read(tool, cut, tool.settings({}))
        sensible(answer)
        assert known(answer) <= whole, f"{name} at {fraction}"


@pytest.mark.parametrize("name", GOOD)
def test_a_file_that_is_cut_anywhere_gives_no_other_number(name: str) -> None:
    """Also within a number: 12 of 123.4 is none."""
    tool, output = GOOD[name]
    whole = known(read(tool, output, tool.settings({})))
    draw = random.Random(11)
    for _ in range(40):
        part = draw.random()
        answer = read(tool, changed(output, lambda text, part=part: text[: int(len(text) * part)]), tool.settings({}))
        sensible(answer)
        assert known(answer) <= whole, f"{name} at {part}"


@pytest.mark.parametrize("name", GOOD)
def test_an_empty_output_gives_a_reason(name: str) -> None:
    tool, output = GOOD[name]
    answer = read(tool, changed(output, lambda text: ""), tool.settings({}))
    assert answer.refused
    assert not answer.values


@pytest.mark.parametrize("name", GOOD)
def test_words_in_place_of_numbers_are_never_numbers(name: str) -> None:
    tool, output = GOOD[name]
    whole = known(read(tool, output, tool.settings({})))
    draw = random.Random(7)
    for word in WORDS:
        answer = read(tool, changed(output, lambda text, put=word: NUMBERS.sub(lambda m: put if draw.random() < 0.5 else m[0], text)), tool.settings({}))
        sensible(answer)
        assert {number for *_, number in known(answer)} <= {number for *_, number in whole}, f"{name} with {word}"


@pytest.mark.parametrize("name", GOOD)
def test_another_language_s_decimal_comma_is_never_a_number(name: str) -> None:
    tool, output = GOOD[name]
    whole = {number for *_, number in known(read(tool, output, tool.settings({})))}
    answer = read(tool, changed(output, lambda text: NUMBERS.sub(lambda m: m[0].replace(".", ","), text)), tool.settings({}))
    sensible(answer)
    assert {number for *_, number in known(answer)} <= whole, name


@pytest.mark.parametrize("name", GOOD)
def test_an_output_appended_to_an_old_one_is_refused_or_the_same(name: str) -> None:
    tool, output = GOOD[name]
    whole = known(read(tool, output, tool.settings({})))
    answer = read(tool, changed(output, lambda text: text + text), tool.settings({}))
    sensible(answer)
    assert known(answer) <= whole, name


@pytest.mark.parametrize("name", [name for name, (tool, _) in GOOD.items() if tool.run and tool.run.once])
def test_an_output_of_two_runs_is_refused_where_repetitions_look_alike(name: str) -> None:
    tool, _ = GOOD[name]
    doubled = [changed(testing.output(tool, sample), lambda text: text + text) for sample in tool.sample if sample.expect]
    assert any("stands there twice" in read(tool, output, tool.settings({})).refused for output in doubled)
