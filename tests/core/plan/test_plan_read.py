"""Plans are read completely or refused with file, line, what is valid and what next."""

from __future__ import annotations

import dataclasses
import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import examples
from hotlap.core import plan, work
from hotlap.core.errors import InputError, PlanError
from hotlap.core.plan.axes import MOST
from hotlap.core.plan.read import read
from hotlap.core.record import Case, MeasureOptions, Plan
from hotlap.core.work import layers, network, science

GiB = 2**30


def write(folder: Path, text: str) -> str:
    path = folder / "my plan.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def cases(text: str) -> list[dict[str, object]]:
    return [dict(case.params) for case in read(text, "p.toml", "p", "p.toml").cases]


def test_a_whole_plan(tmp_path: Path) -> None:
    path = write(tmp_path, """
schema = 1
name = "mine"
about = "one line"
[measure]
rounds = 7
rounds_max = 9
round_time = "90 ms"
budget = "2 min"
precision = "5 %"
sample_time = "1 ms"
readings = "20 Hz"
seed = 42
[[case]]
workload = "stream"
op = ["copy", "triad"]
size = { from = "256 MiB", to = "1 GiB", factor = 2 }
skip = [{ op = "copy", size = "1 GiB" }]
[[case]]
workload = "sync"
implementation = ""
""")
    got = plan.load(path)
    assert (got.name, got.about, got.source) == ("mine", "one line", path)
    assert got.measure == MeasureOptions(
        rounds=7, rounds_max=9, round_s=0.09, budget_s=120.0, precision=0.05, sample_s=0.001, readings_hz=20.0, seed=42,
    )
    assert [work.label(case) for case in got.cases] == [
        "stream copy fp32 256 MiB", "stream copy fp32 512 MiB", "stream triad fp32 256 MiB", "stream triad fp32 512 MiB",
        "stream triad fp32 1 GiB", "sync synchronize",
    ]
    assert got.cases[0].params == {"op": "copy", "dtype": "fp32", "size": GiB // 4, "cache": "warm"}


def test_without_a_name_the_file_gives_it_and_defaults_measure(tmp_path: Path) -> None:
    got = plan.load(write(tmp_path, '[[case]]\nworkload = "sync"\n'))
    assert (got.name, got.measure) == ("my plan", MeasureOptions())


def test_axes_multiply_in_the_order_written() -> None:
    got = cases('[[case]]\nworkload = "transfer"\nmemory = ["pageable", "pinned"]\nsize = [4, "1 KiB"]\ndirection = ["d2h", "h2d"]')
    expected = itertools.product(["pageable", "pinned"], [4, 1024], ["d2h", "h2d"])
    assert [(c["memory"], c["size"], c["direction"]) for c in got] == list(expected)


@pytest.mark.parametrize(("range_", "expected"), [
    ('{ from = "16 KiB", to = "64 KiB", factor = 2 }', [16384, 32768, 65536]),
    ('{ from = 10, to = 100, factor = 3 }', [10, 30, 90]),
    ('{ from = 1, to = 4, factor = 1.3 }', [1, 2, 3, 4]),  # rounded, each once
    ('{ from = 1, to = 8, step = 3 }', [1, 4, 7]),
    ('{ from = 5, to = 5, step = 1 }', [5]),
    ('{ from = "1 KiB", to = "3 KiB", step = "1 KiB" }', [1024, 2048, 3072]),
    ('[1, { from = 2, to = 4, step = 2 }, 9]', [1, 2, 4, 9]),
])
def test_ranges(range_: str, expected: list[int]) -> None:
    assert [c["size"] for c in cases(f'[[case]]\nworkload = "transfer"\nsize = {range_}')] == expected


def test_a_range_reaches_its_end_in_floating_point() -> None:
    got = cases('[[case]]\nworkload = "command"\nargv = ["a"]\ntimeout = { from = 0.1, to = 0.7, step = 0.1 }')
    assert len(got) == 7
    assert got[-1]["timeout"] == 0.7


@settings(max_examples=examples(200))
@given(st.integers(1, 10**6), st.floats(1.01, 50), st.floats(1, 1e4))
def test_a_geometric_range_stays_inside_and_grows(low: int, factor: float, span: float) -> None:
    high = int(low * span)
    got = [c["size"] for c in cases(f'[[case]]\nworkload = "transfer"\nsize = {{ from = {low}, to = {high}, factor = {factor!r} }}')]
    assert got[0] == low
    assert got[-1] <= high  # type: ignore[operator]
    assert all(a < b for a, b in itertools.pairwise(got))  # type: ignore[operator]


def test_filters() -> None:
    head = '[[case]]\nworkload = "stream"\nop = ["read", "copy"]\nsize = ["4 KiB", "8 KiB", "16 KiB"]\n'
    def sizes(text: str) -> list[tuple[object, object]]:
        return [(c["op"], c["size"]) for c in cases(head + text)]
    assert sizes('only = [{ op = "copy", size = ["4 KiB", "8 KiB"] }]') == [("copy", 4096), ("copy", 8192)]
    assert sizes('only = [{ op = "copy" }]\nskip = [{ size = { from = "8 KiB" } }]') == [("copy", 4096)]
    assert sizes('skip = { size = { to = "8 KiB" }, dtype = "fp32" }') == [("read", 16384), ("copy", 16384)]


def test_argv_is_an_axis_only_as_a_list_of_lists() -> None:
    assert [c["argv"] for c in cases('[[case]]\nworkload = "command"\nargv = ["ls", "-l"]')] == [["ls", "-l"]]
    assert [c["argv"] for c in cases('[[case]]\nworkload = "command"\nargv = [["ls"], ["ls", "-l"]]')] == [["ls"], ["ls", "-l"]]
    assert [c["argv"] for c in cases('[[case]]\nworkload = "command"\nargv = "ls -l"')] == [["ls", "-l"]]


def test_a_string_is_parted_into_argv_as_a_shell_does() -> None:
    assert [c["argv"] for c in cases("""[[case]]\nworkload = "command"\nargv = './b --name "two words" $HOME *'""")] == [
        ["./b", "--name", "two words", "$HOME", "*"]
    ]


def test_implementation_is_an_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(work.WORKLOADS, "sync", dataclasses.replace(work.find("sync"), implementations=("a", "b")))
    got = read('[[case]]\nworkload = "sync"\nimplementation = ["a", "b"]', "p", "p", "p").cases
    assert [case.implementation for case in got] == ["a", "b"]


CASE = '[[case]]\nworkload = "stream"\nsize = "1 MiB"\n'
COMMAND = '[[case]]\nworkload = "command"\nargv = ["./bench"]\n'
WRONG = {  # text: line, words of the answer
    "rounds = 6\n" + CASE: (1, ["no key 'rounds'", "valid: about, case, measure, name, schema"]),
    "shema = 1\n" + CASE: (1, ["no key 'shema'", "did you mean 'schema'?"]),
    "schema = 2\n" + CASE: (1, ["schema 2, newer", "upgrade Hotlap"]),
    "schema = true\n" + CASE: (1, ["'schema' is a whole number"]),
    "name = 3\n" + CASE: (1, ["'name' is one line of text in quotes, not 3"]),
    'name = ""\n' + CASE: (1, ["'name' is one line of text"]),
    'about = """a\nb"""\n' + CASE: (1, ["'about' is one line of text"]),
    "measure = 3\n" + CASE: (1, ["write [measure]", "round_time"]),
    "[measure]\n\nround = 6\n" + CASE: (3, ["no key 'round'", "did you mean 'rounds'?", "round_time"]),
    "[measure]\nrounds = 0\n" + CASE: (2, ["'rounds' is a whole number from 1", "not 0"]),
    "[measure]\nrounds = 2.5\n" + CASE: (2, ["'rounds' is a whole number", "not 2.5"]),
    "[measure]\nrounds = true\n" + CASE: (2, ["'rounds' is a whole number", "not True"]),
    "[measure]\nrounds = 6\nrounds_max = 5\n" + CASE: (3, ["rounds_max (5) is below rounds (6)"]),
    '[measure]\nround_time = "8 m"\n' + CASE: (2, ["'round_time' is a time", "'8 s'", "not '8 m'"]),
    "[measure]\nround_time = nan\n" + CASE: (2, ["'round_time' is a time"]),
    "[measure]\nbudget = -1\n" + CASE: (2, ["'budget' is a time above zero"]),
    '[measure]\nprecision = "5"\n' + CASE: (2, ["'precision' is a share", "'5 %'"]),
    f"[measure]\nseed = 1{'0' * 400}\n{CASE}": (2, ["'seed' is a whole number"]),
    '[measure]\nreadings = ["10 Hz"]\n' + CASE: (2, ["'readings' is a rate"]),
    "": (None, ["no cases", "add [[case]] with workload = one of atomic, attention, barrier"]),
    "case = []\n": (1, ["no cases"]),
    "case = [3]\n": (1, ["cases are tables"]),
    '[case]\nworkload = "sync"\n': (1, ["write [[case]] with two brackets"]),
    "\n[[case]]\nsize = 4\n": (2, ["no 'workload'", "valid: atomic, attention, barrier"]),
    '[[case]]\nworkload = "streem"\n': (2, ["no workload 'streem'", "did you mean 'stream'?", "valid: atomic, attention, barrier"]),
    '[[case]]\nworkload = ["stream", "fma"]\n': (2, ["one name in quotes"]),
    '[[case]]\nworkload = "callable"\nname = "f"\n': (2, ["hotlap.measure", "'command'"]),
    '[[case]]\nworkload = "stream"\n': (1, ["stream needs 'size'"]),
    '[[case]]\nworkload = "stream"\nsizes = 4\n': (3, ["no parameter 'sizes'", "did you mean 'size'?", "skip"]),
    '[[case]]\nworkload = "stream"\nsize = "1 MiB/s"\n': (3, ["'size'", "unit 'MiB/s'", "'256 MiB'"]),
    '[[case]]\nworkload = "stream"\nsize = "1 KiB"\n': (3, ["at least 4 KiB and at most 64 TiB, not '1 KiB'"]),
    '[[case]]\nworkload = "stream"\nsize = [\n "1 MiB",\n "big",\n]\n': (5, ["'big' is not a quantity"]),
    '[[case]]\nworkload = "stream"\nsize = []\n': (3, ["'size' is an empty list"]),
    '[[case]]\nworkload = "stream"\nsize = [[4096]]\n': (3, ["'size' is a number"]),
    f'[[case]]\nworkload = "stream"\nsize = 1{"0" * 400}\n': (3, ["'size' is too large"]),
    '[[case]]\nworkload = "stream"\nsize = 2026-01-01\n': (3, ["'size' is a number in B"]),
    CASE + 'op = "tried"\n': (4, ["'op' cannot be 'tried'", "did you mean 'triad'?", "copy"]),
    CASE + "op = { from = 1, to = 2, step = 1 }\n": (4, ["'op' is not a number and cannot have a range"]),
    '[[case]]\nworkload = "stream"\nsize = ["4 KiB", "512mib"]\n': (3, ["did you mean '512 MiB'?"]),
    '[[case]]\nworkload = "gemm"\nm = 100000000\n': (3, ["at least 1 and at most 16777216, not 10^8"]),
    '[[case]]\nworkload = "gemm"\ndtype = "fp99"\n': (3, ["valid: bf16, fp16, fp32, fp4, fp64, fp8, fp8_block, int4, int8, tf32"]),
    '[measure]\nround_time = "8 m"\n' + CASE + "\n": (2, ["not '8 m'; did you mean '8 min'?"]),
    CASE + 'implementation = "foo"\n': (4, ["stream has no implementation 'foo'", "leave 'implementation' out"]),
    CASE + 'implementation = [\n"",\n"foo"]\n': (6, ["no implementation 'foo'"]),
    COMMAND + 'read = "pattern"\n': (4, ["read = 'pattern' needs 'expression', a regular expression"]),
    COMMAND + 'read = ["wall", "pointer"]\n': (4, ["read = 'pointer' needs 'expression', a JSON pointer"]),
    COMMAND + 'read = "pattern"\nexpression = "("\n': (5, ["'(' is not a regular expression: missing )"]),
    COMMAND + 'read = "pattern"\nexpression = ["a", "b["]\n': (5, ["'b[' is not a regular expression"]),
    COMMAND + 'expression = "rate: (.*)"\n': (4, ["'expression' is not used with read = 'wall'", "read = 'pattern'"]),
    COMMAND + 'unit = "ms"\n': (4, ["a wall time is in s", "scale = 1000"]),
    COMMAND + "scale = 0\n": (4, ["'scale' is 0"]),
    COMMAND + 'environment = ["A=1", "B"]\n': (4, ["'environment' is a list of NAME=value, not 'B'"]),
    COMMAND + "timeout = 0\n": (4, ["'timeout' must be at least 1 ms, not 0 s"]),
    '[[case]]\nworkload = "command"\nargv = []\n': (3, ["'argv' is empty"]),
    '[[case]]\nworkload = "command"\nargv = "echo \'a"\n': (3, ["'argv' cannot be parted", "no closing quotation"]),
    CASE + "implementation = 3\n": (4, ["'implementation' is a string"]),
    '[[case]]\nworkload = "stream"\nsize = { from = 4096, to = 8192 }\n': (3, ["needs either factor or step", "from ="]),
    '[[case]]\nworkload = "stream"\nsize = { from = 4096, to = 8192, factor = 2, step = 1 }\n': (3, ["either factor or step"]),
    '[[case]]\nworkload = "stream"\nsize = { from = 4096, till = 8192, factor = 2 }\n': (3, ["no key 'till'", "factor, from, step, to"]),
    '[[case]]\nworkload = "stream"\nsize = { from = 4096, factor = 2 }\n': (3, ["has no 'to'"]),
    '[[case]]\nworkload = "stream"\nsize = { from = 8192, to = 4096, factor = 2 }\n': (3, ["begins above its end"]),
    '[[case]]\nworkload = "stream"\nsize = { from = 4096, to = 8192, factor = 1 }\n': (3, ["must be above 1"]),
    '[[case]]\nworkload = "stream"\nsize = { from = 4096, to = 8192, factor = inf }\n': (3, ["'factor': 'inf' is not finite"]),
    '[[case]]\nworkload = "stream"\nsize = { from = 4096, to = 8192, step = 0 }\n': (3, ["must be above 0"]),
    '[[case]]\nworkload = "stream"\nsize = { from = 4096, to = "1 GiB", step = 1 }\n': (3, ["more than 100000 values", "raise step"]),
    '[[case]]\nworkload = "peer"\nsize = 4\nto = { from = 0, to = 4, factor = 2 }\n': (4, ["must begin above 0", "step"]),
    CASE + "skip = 3\n": (4, ["'skip' is a list of tables"]),
    CASE + "only = []\n": (4, ["'only' is a list of tables"]),
    CASE + 'skip = [{ opp = "copy" }]\n': (4, ["no parameter 'opp'", "did you mean 'op'?"]),
    CASE + 'skip = [\n { op = "triad" },\n]\n': (1, ["leave no case"]),
    CASE + 'skip = [\n { op = "copy" },\n]\n': (5, ["matches no combination"]),
    CASE + '\n[[case]]\nworkload = "stream"\nop = "triad"\nsize = 1048576\n': (5, ["stream triad fp32 1 MiB", "[[case]] of line 1"]),
    CASE + 'op = ["copy", "copy"]\n': (1, ["twice in this [[case]]"]),
    "x = = 1\n": (1, ["not valid TOML", "column 5"]),
    CASE + 'op = "copy\n': (4, ["not valid TOML"]),
    CASE + "x = [1,\n": (4, ["not valid TOML"]),
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: repr(text[-45:]))
def test_wrong_plans_are_named(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    line, words = WRONG[text]
    with pytest.raises(PlanError) as caught:
        plan.load(path)
    message = str(caught.value)
    if line is None:
        assert message.startswith(f"{path}: ")
    elif "valid TOML" in message and "[1,\n" in text:
        assert message.startswith(f"{path}:")  # at the end of the document: the line depends on the Python version
    else:
        assert caught.value.where == f"{path}:{line}", message
    assert all(word in message for word in words), message
    assert "\n" not in message
    assert caught.value.exit_code == 2


def test_too_many_cases() -> None:
    text = f'[[case]]\nworkload = "peer"\nsize = {{ from = 1, to = {MOST // 2}, step = 1 }}\nto = [1, 2, 3]'
    with pytest.raises(PlanError, match=r"p:1: this \[\[case\]\] adds 150000 to a plan of at most 100000 cases.*size \(50000\) × to \(3\)"):
        read(text, "p", "p", "p")


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(PlanError, match="nested too deeply"):
        read("x = " + "[" * 100_000, "p", "p", "p")


@pytest.mark.parametrize(("name", "words"), [
    ("quik", ["no plan 'quik'", "did you mean 'quick'?", "valid: calibrate, calibrate-cpu, compute, graphics, graphics-small, kernels, kernels-small, latency, link, memory, quick, standard"]),
    ("no/such.toml", ["no plan 'no/such.toml'", "valid: calibrate"]),
    ("", ["no plan ''"]),
    ("a\0b", ["no plan"]),
    ("x" * 5000, ["cannot be read"]),
    (".", ["is a folder"]),
])
def test_missing_files(name: str, words: list[str]) -> None:
    with pytest.raises(PlanError) as caught:
        plan.load(name)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(b'name = "a"\n\nabout = "\xff"\n')
    with pytest.raises(PlanError, match=r"p\.toml:3: byte 0xff is not UTF-8"):
        plan.load(str(path))


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero here")
def test_a_device_that_never_ends_is_refused() -> None:
    with pytest.raises(PlanError, match="larger than 4 MiB"):
        plan.load("/dev/zero")


def test_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(b'\xef\xbb\xbfname = "w"\r\n\r\n[[case]]\r\nworkload = "sync"\r\nkind = "evnt"\r\n')
    with pytest.raises(PlanError, match=r"p\.toml:5: .*did you mean 'event'"):
        plan.load(str(path))


@settings(max_examples=examples(150))
@given(st.text(max_size=200))
def test_any_text_is_a_plan_or_a_plan_error(text: str) -> None:
    with pytest.raises(PlanError):  # random text never makes a case
        read(text, "p", "p", "p")


def test_case() -> None:
    made = plan.case("stream", {"size": "1 GiB", "op": "copy", "implementation": ""})
    assert made.params == {"op": "copy", "dtype": "fp32", "size": GiB, "cache": "warm"}
    assert made.implementation == ""
    assert made.id == plan.case("stream", {"op": "copy", "size": GiB}).id
    for workload, params in (
        ("strem", {}), ("stream", {}), ("stream", {"size": "1 s"}), ("stream", {"size": 10**400}), ("sync", {"x": 1}),
        ("sync", {"implementation": "foo"}), ("command", {"argv": ["a"], "read": "pattern"}),
    ):
        with pytest.raises(InputError):
            plan.case(workload, params)


def test_a_plan_made_in_python_is_completed() -> None:
    given = Plan(name="p", cases=[Case(workload="stream", params={"size": "1 GiB"}), Case(workload="gemm", params={"m": np.int64(8)})])
    got = plan.check(given)
    assert got.cases[0].params == {"op": "triad", "dtype": "fp32", "size": GiB, "cache": "warm"}
    assert got.cases[1].params["m"] == 8
    assert plan.check(got) == got
    quick = plan.load("quick")
    assert plan.check(quick) == quick


SYNC = Case(workload="sync")


@pytest.mark.parametrize(("given", "words"), [
    (5, "a plan is a name, a path or a hotlap.core.record.Plan, not 5"),
    (Plan(name="p"), "the plan 'p' has no cases"),
    (Plan(name="p", cases=[3]), "has 3 among its cases"),  # type: ignore[list-item]
    (Plan(name="p", cases=[SYNC, SYNC]), "'sync synchronize' twice"),
    (Plan(name="p", cases=[Case(workload="stream")]), "stream needs 'size'"),
    (Plan(name="p", cases=[Case(workload="callable", params={"name": "f"})]), "hotlap.measure"),
    (Plan(name="p", cases=[Case(workload="nope")]), "valid: atomic, attention, barrier"),
    (Plan(name=3, cases=[SYNC]), "'name' of a plan is text, not 3"),  # type: ignore[arg-type]
    (Plan(name="p", cases=[SYNC], measure={"rounds": 3}), "is a hotlap.core.record.MeasureOptions"),  # type: ignore[arg-type]
    (Plan(name="p", cases=[SYNC], measure=MeasureOptions(rounds="x")), "'rounds' is a whole number"),  # type: ignore[arg-type]
    (Plan(name="p", cases=[SYNC], measure=MeasureOptions(rounds=40)), "rounds_max .30. is below rounds"),
])
def test_a_plan_made_in_python_is_refused(given: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan.check(given)


def test_override() -> None:
    quick = plan.load("quick")
    assert plan.override(quick, {"rounds": "28"}).measure.rounds_max == 28
    assert plan.override(quick, {"rounds_max": 3}).measure.rounds == 3
    assert plan.override(quick, {"precision": "1 %"}).measure.precision == 0.01
    assert plan.override(quick, {}) == quick
    with pytest.raises(InputError, match="did you mean 'rounds'"):
        plan.override(quick, {"round": 3})


class TestBuiltin:
    def test_names(self) -> None:
        assert set(plan.builtin()) == {"quick", "standard", "memory", "compute", "latency", "link", "calibrate", "calibrate-cpu", "graphics", "graphics-small", "kernels", "kernels-small"}
        assert all(about and "\n" not in about for about in plan.builtin().values())

    @pytest.mark.parametrize("name", ["quick", "standard", "memory", "compute", "latency", "link", "calibrate"])
    def test_each_is_valid_and_gives_an_interval(self, name: str) -> None:
        got = plan.load(name)
        assert (got.name, got.source, got.about) == (name, "built in", plan.builtin()[name])
        assert got.measure.rounds >= 6
        assert got.measure.round_s / len(got.cases) >= 0.3  # seconds for a case in a round
        assert got.measure.rounds * got.measure.round_s <= got.measure.budget_s

    @pytest.mark.parametrize("name", ["kernels", "kernels-small"])
    def test_kernels_hold_every_family_and_end_in_time(self, name: str) -> None:
        got = plan.load(name)
        every = {one.name for family in (network, layers, science) for one in family.WORKLOADS} - {"collective"}
        assert {case.workload for case in got.cases} == every | {"gemm"}
        assert len(got.cases) == 200 or name == "kernels-small"
        assert got.measure.rounds == got.measure.rounds_max == 6
        assert got.measure.rounds * got.measure.round_s <= got.measure.budget_s < 300

    def test_quick_is_a_minute_of_at_least_a_dozen_cases(self) -> None:
        quick = plan.load("quick")
        assert 12 <= len(quick.cases) <= 24
        assert (quick.measure.rounds, quick.measure.rounds_max, quick.measure.round_s, quick.measure.precision) == (6, 20, 8.0, 0.1)

    def test_standard_has_every_workload_a_machine_can_run_by_itself(self) -> None:
        standard = plan.load("standard")
        assert {case.workload for case in standard.cases} == {
            "stream", "gather", "chase", "fma", "gemm", "intensity", "launch", "sync", "atomic", "barrier", "transfer", "peer",
        }  # fmt: skip

    def test_a_file_of_the_same_name_needs_its_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "quick").write_text('name = "mine"\n[[case]]\nworkload = "sync"\n', encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        assert plan.load("quick").source == "built in"
        assert plan.load("./quick").name == "mine"
