"""What an output says: rows by every reader, and everything that disproves a number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.core.measure.tools.tools_made import numbers, reading_of, tool

from hotlap.core.errors import NotSupported
from hotlap.core.measure.tools.reading import ToolOutput, parse, read

RATE = r"""read = "regex"
match = '(?P<name>\w+): (?P<value>\S+) (?P<unit>\S+)'
name = "{name}"
unit = "{unit}"
units = { "MB/sec" = "MB/s", "MiB/sec" = "MiB/s" }
"""


def test_every_match_is_a_row(tmp_path: Path) -> None:
    answer = reading_of(tmp_path, RATE, "copy: 12.5 MB/sec\nscale: 2 MiB/sec\n")
    assert numbers(answer) == {"copy": (12.5e6,), "scale": (2 * 2**20,)}
    assert [value.unit for value in answer.values] == ["B/s", "B/s"]
    assert [value.place for value in answer.values] == ["line 1", "line 2"]


def test_matches_within_a_match_are_numbered(tmp_path: Path) -> None:
    result = "read = \"regex\"\nmatch = 'done.*'\neach = '\\d+ \\((?P<value>\\d+)\\)'\nname = \"rate\"\ndevice = \"GPU {index}\"\nunit = \"fps\"\npick = \"last\"\n"
    answer = reading_of(tmp_path, result, "done 1 (5) - 2 (6)\rdone 3 (7) - 4 (8)\n")
    assert [(value.device, value.values) for value in answer.values] == [("GPU 0", (7.0,)), ("GPU 1", (8.0,))]


def test_sections_give_their_fields_to_the_rows_below(tmp_path: Path) -> None:
    result = r"""read = "sections"
heading = ['^Device: (?P<card>\w+)', '^  (?P<test>\w+) \((?P<unit>\w+)\)']
match = '^    (?P<metric>\w+) : (?P<value>\S+)'
name = "{test} {metric}"
device = "{card}"
unit = "{unit}"
units = { GBPS = "GB/s", GFLOPS = "GFLOP/s" }
"""
    text = "Device: one\n  memory (GBPS)\n    float : 5\n    float2 : 6\nDevice: two\n    float : 7\n  compute (GFLOPS)\n    float : 8\n"
    answer = reading_of(tmp_path, result, text)
    assert [(value.device, value.name, value.unit, value.values) for value in answer.values] == [
        ("one", "memory float", "B/s", (5e9,)), ("one", "memory float2", "B/s", (6e9,)), ("two", "compute float", "FLOP/s", (8e9,)),
    ]  # fmt: skip


TABLE = """read = "table"
rows = '^\\s*\\d+ '
columns = ["size", "time", "rate"]
name = "{size}"
value = "rate"
unit = "GB/s"
"""


def test_a_table_by_its_columns(tmp_path: Path) -> None:
    answer = reading_of(tmp_path, TABLE, "# size time rate\n  8  1.5  2.5\n 16  3.0  5.0\n# done\n")
    assert numbers(answer) == {"8": (2.5e9,), "16": (5e9,)}


def test_a_torn_row_is_no_number(tmp_path: Path) -> None:
    assert reading_of(tmp_path, TABLE, "  8  1.5  2.5\n 16  3.0\n").refused == "line 2 has 2 fields where 3 are expected: '16  3.0'"


def test_csv_from_its_heading_to_the_empty_line(tmp_path: Path) -> None:
    result = 'read = "csv"\nheader = "^test,"\nname = "{test}"\nvalue = "fps"\nunit = "fps"\n'
    assert numbers(reading_of(tmp_path, result, "catia,43.3\n\ntest,weight,fps\na,1,34.5\nb,2,44\n\nmore\n")) == {"a": (34.5,), "b": (44.0,)}


def test_json_by_a_path_with_stars(tmp_path: Path) -> None:
    document = {"version": "1", "tests": {"copy": {"gpus": [{"id": 0, "rate": {"sum": 5.5}}, {"id": 1, "rate": {"sum": 6}}]}}}
    result = 'read = "json"\nat = "tests/*/gpus/*"\nname = "{key1}"\ndevice = "GPU {id}"\nvalue = "rate/sum"\nunit = "GB/s"\ncheck = ["version == 1"]\n'
    answer = reading_of(tmp_path, result, "warning first\n" + json.dumps(document))
    assert [(value.name, value.device, value.values) for value in answer.values] == [("copy", "GPU 0", (5.5e9,)), ("copy", "GPU 1", (6e9,))]


def test_a_document_per_line_behind_a_prefix(tmp_path: Path) -> None:
    result = 'read = "jsonl"\nprefix = ":::LOG "\nwhere = ["key == rate"]\nname = "{key}"\nunit = "1/s"\n'
    assert numbers(reading_of(tmp_path, result, 'x\n:::LOG {"key": "rate", "value": 3}\n:::LOG {"key": "x"}\n')) == {"rate": (3.0,)}


def test_xml_with_attributes_of_all_levels(tmp_path: Path) -> None:
    text = '<run device="A"><test name="copy" unit="gbps"><metric name="float">5</metric></test></run>'
    result = 'read = "xml"\nat = "test/*"\nname = "{name}"\nvalue = "text"\nunit = "{unit}"\nunits = { gbps = "GB/s" }\ndevice = "{device}"\n'
    answer = reading_of(tmp_path, result, text)
    assert [(value.name, value.device, value.values) for value in answer.values] == [("float", "A", (5e9,))]
    assert "its XML is cut or not valid" in reading_of(tmp_path, result, text[:-7]).refused
    assert "document type" in reading_of(tmp_path, result, "<!DOCTYPE x><run/>").refused


def test_pairs_once_each(tmp_path: Path) -> None:
    result = 'read = "pairs"\nname = "hpl"\nvalue = "HPL_Tflops"\nunit = "TFLOP/s"\ncheck = ["Success == 1"]\n'
    assert numbers(reading_of(tmp_path, result, "Success=1\nHPL_Tflops=0.5\n")) == {"hpl": (0.5e12,)}
    assert "'Success' stands there twice" in reading_of(tmp_path, result, "Success=1\nHPL_Tflops=0.5\nSuccess=1\n").refused
    assert "Success == 1 does not hold (Success is 0)" in reading_of(tmp_path, result, "Success=0\nHPL_Tflops=0.5\n").values[0].refused


def test_a_framework_s_own_reader(tmp_path: Path) -> None:
    document = {"results": [{"command": "sleep 1", "mean": 1.0, "times": [1.0, 1.1], "exit_codes": [0, 0]}]}
    answer = reading_of(tmp_path, 'reader = "hyperfine"\n', json.dumps(document))
    assert numbers(answer) == {"sleep 1": (1.0, 1.1)}
    document["results"][0]["exit_codes"] = [0, 1]
    assert reading_of(tmp_path, 'reader = "hyperfine"\n', json.dumps(document)).values[0].refused
    assert "no file of hyperfine" in reading_of(tmp_path, 'reader = "hyperfine"\n', '{"results": [').refused


# ---------------------------------------------------------------- never a number, always a reason


@pytest.mark.parametrize("text", ["0", "0.000", "-", "", "N/A", "inf", "nan", "-3", "1e999", "1,5", "12,345.6", "0x10", "5 MB", None, True])
def test_what_is_no_number(text: str | bool | None) -> None:
    with pytest.raises(NotSupported):
        parse(text)


def test_what_is_one() -> None:
    assert [parse("1.5e3"), parse(3), parse("1,234.5", ","), parse("0", zero=True), parse(".5")] == [1500.0, 3.0, 1234.5, 0.0, 0.5]


def test_a_number_that_is_none_names_its_line(tmp_path: Path) -> None:
    answer = reading_of(tmp_path, RATE, "copy: 5 MB/s\nscale: nan MB/s\n")
    assert numbers(answer) == {"copy": (5e6,)}
    assert answer.values[1].refused == "scale (line 2): 'nan' is no number"


def test_a_unit_that_contradicts(tmp_path: Path) -> None:
    result = RATE.replace('unit = "{unit}"', 'unit = "MiB/s"')
    assert reading_of(tmp_path, result, "copy: 5 MB/sec\n").values[0].refused == "line 1: the output says 'MB/s' where the tool file says 'MiB/s'"
    assert numbers(reading_of(tmp_path, result, "copy: 5 MiB/sec\n")) == {"copy": (5 * 2**20,)}


def test_a_unit_that_nobody_knows(tmp_path: Path) -> None:
    assert "the unit 'furlongs' is not known" in reading_of(tmp_path, RATE, "copy: 5 furlongs\n").values[0].refused


def test_one_name_with_two_numbers(tmp_path: Path) -> None:
    answer = reading_of(tmp_path, RATE, "copy: 5 MB/s\ncopy: 6 MB/s\n")
    assert answer.refused.startswith("'copy' stands there twice (line 1 and line 2)")
    assert numbers(reading_of(tmp_path, RATE + 'pick = "last"\n', "copy: 5 MB/s\ncopy: 6 MB/s\n")) == {"copy": (6e6,)}
    assert numbers(reading_of(tmp_path, RATE + 'pick = "samples"\n', "copy: 5 MB/s\ncopy: 6 MB/s\n")) == {"copy": (5e6, 6e6)}
    assert not numbers(reading_of(tmp_path, RATE + 'pick = "samples"\n', "copy: 5 MB/s\ncopy: inf MB/s\n"))


def test_no_row_says_how_the_output_ends(tmp_path: Path) -> None:
    assert reading_of(tmp_path, RATE, "starting\nSegmentation fault\n").refused == "stdout has no row for '{name}'; it ends: Segmentation fault"
    assert reading_of(tmp_path, RATE, "").refused == "stdout is empty"
    assert reading_of(tmp_path, 'from = "r.csv"\n' + RATE, "").refused == "r.csv is not there"


def test_colours_carriage_returns_and_a_byte_order_mark(tmp_path: Path) -> None:
    assert numbers(reading_of(tmp_path, RATE, "\ufeff\x1b[1mcopy: 5 MB/s\x1b[0m\rscale: 6 MB/s\r\n")) == {"copy": (5e6,), "scale": (6e6,)}


RUN = 'command = ["x"]\nsuccess = "PASS"\nnever = ["unable to .*", "0 operations"]\n'


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (ToolOutput(0, "PASS\ncopy: 5 MB/s\n"), ""),
        (ToolOutput(0, "PASS\nunable to connect: refused\ncopy: 5 MB/s\n"), "mine says: unable to connect: refused"),
        (ToolOutput(0, "PASS copy: 5 MB/s", "  0 operations done"), "mine says: 0 operations done"),
        (ToolOutput(3, "PASS\ncopy: 5 MB/s\n", "no such device"), "mine ended with status 3: no such device"),
        (ToolOutput(-9, "PASS\ncopy: 5 MB/s\n"), "mine ended with status -9: copy: 5 MB/s"),
        (ToolOutput(0, "copy: 5 MB/s\nFAIL\n"), "mine did not print 'PASS'; it ends: FAIL"),
        (ToolOutput(0, "", ""), "mine did not print 'PASS'; it printed nothing"),
        (ToolOutput(None, "PASS\ncopy: 5 MB/s\n"), ""),
    ],
)
def test_what_refutes_comes_before_what_is_read(tmp_path: Path, output: ToolOutput, reason: str) -> None:
    answer = read(tool(tmp_path, f"[[result]]\n{RATE}", run=RUN), output)
    assert answer.refused == reason
    assert bool(numbers(answer)) is not bool(reason)


def test_a_format_that_was_not_seen_reads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'name = "mine"\nabout = "x"\nmeasures = "disk"\nfind = ["x"]\nformat_not_seen = "its manual"\n[[result]]\n{RATE}')
    from hotlap.core.measure.tools import toolfile

    assert "its format was not seen" in read(toolfile.load(path), ToolOutput(0, "copy: 5 MB/s")).refused


def test_the_device_and_what_only_plays_one(tmp_path: Path) -> None:
    text = f"[[result]]\n{RATE}[device]\nmatch = 'RENDERER: (.+)'\nsoftware = [\"llvmpipe\"]\n[[notice]]\nwhen = 'swap'\nsay = \"bound by the display\"\n"
    answer = read(tool(tmp_path, text), ToolOutput(0, "RENDERER: llvmpipe (LLVM 15)\ncopy: 5 MB/s\n", "no swap interval"))
    assert answer.device == "llvmpipe (LLVM 15)"
    assert [notice.code for notice in answer.notices] == ["software_device", "tool_says"]
    assert read(tool(tmp_path, text), ToolOutput(0, "RENDERER: NVIDIA L4\ncopy: 5 MB/s\n")).notices == ()


def test_terms_stand_with_every_number(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'name = "mine"\nabout = "x"\nmeasures = "disk"\nfind = ["x"]\nterms = "SPEC"\n[[result]]\n{RATE}')
    from hotlap.core.measure.tools import toolfile

    assert [notice.code for notice in read(toolfile.load(path), ToolOutput(0, "copy: 5 MB/s")).notices] == ["terms"]
