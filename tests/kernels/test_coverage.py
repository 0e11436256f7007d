"""What plans cover: shares by weight, near cases, t-way tables, regions, and a completion that closes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from hotlap.cli import main
from hotlap.core import plan as plans
from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.plan.read import read
from hotlap.core.record import Case, Use
from hotlap.core.work.compute import GEMM
from hotlap.core.work.variety import Variety
from hotlap.kernels.coverage import boundary, complete, covering, features, measure, realize, regions, similar, usage
from hotlap.kernels.coverage.groups import GroupColumns, grouped
from hotlap.kernels.coverage.regions import RegionRoof
from hotlap.kernels.show import coverage as report

ROOF = RegionRoof("h200-sxm", 4.8e12, 50e6, 3e-6, {"matrix.bf16": 989e12, "matrix.fp16": 989e12, "fma.fp32": 67e12}, 450e9)
GIB = 2.0**30


def case(name: str, **given: object) -> Case:
    return Case(workload=name, params=work.find(name).parse(given))


def gemm(**given: object) -> Case:
    return case("gemm", dtype="bf16", **given)


# ---------------------------------------------------------------- features


@pytest.mark.parametrize(
    ("size", "level"),
    [(256, "on 256"), (512, "on 256"), (128, "on 128"), (384, "on 128"), (64, "on 64"), (65, "above"), (96, "above"), (97, "below"), (63, "below"), (1, "above")],
)
def test_edges_of_tiles(size: int, level: str) -> None:
    assert features.EDGES[features.edge(np.array([float(size)]))[0]] == level


@pytest.mark.parametrize(
    ("given", "level"),
    [
        ({"n": 4096, "k": 4096}, "16 B"), ({"n": 4096, "k": 4097}, "2 B"), ({"n": 4100, "k": 4096}, "8 B"), ({"n": 4096, "k": 4096, "pad": 1}, "2 B"),
        ({"m": 7, "n": 4096, "k": 4096, "layout": "nt"}, "16 B"), ({"m": 7, "n": 4096, "k": 4096, "layout": "tn"}, "2 B"),
    ],
)  # fmt: skip
def test_alignment_is_that_of_the_least_aligned_stored_row(given: dict[str, object], level: str) -> None:
    columns = GroupColumns("gemm", [gemm(**given)])
    assert features.ALIGNMENTS[features.alignment(GEMM.variety or Variety(), columns)[0]] == level


@pytest.mark.parametrize(
    ("given", "odd"), [({"n": 255, "k": 255, "pad": 1}, False), ({"n": 256, "k": 256, "pad": 1}, True), ({"n": 256, "k": 255}, True), ({"n": 256, "k": 256}, False)]
)
def test_a_stride_is_odd_with_its_padding(given: dict[str, object], odd: bool) -> None:
    found = {edge.name: edge.covered for edge in boundary.boundary_cases(grouped([gemm(m=64, **given)]), GIB)}
    assert found["odd stride"] is odd


@pytest.mark.slow("makes designs of thousands of rows")
@pytest.mark.parametrize("name", [name for name in work.WORKLOADS if features.features(name)])
def test_every_row_of_a_design_becomes_a_case_of_these_levels(name: str) -> None:
    of = features.features(name)
    may = features.allowed(of, features.rules(name, of))
    made = covering.design([len(one.levels) for one in of], min(2, len(of)), may)
    for row in made.rows:
        found = realize.realize_case(name, of, row.tolist())
        assert found is not None, measure.words(of, row)
        assert plans.case(name, found.params).id == found.id  # plans take it as it is
        assert features.codes(of, GroupColumns(name, [found]))[0].tolist() == row.tolist()


@pytest.mark.parametrize("name", [name for name in work.WORKLOADS if boundary.named(name)])
def test_every_directed_case_can_be_made_or_says_why_not(name: str) -> None:
    for edge in boundary.named(name):
        if reason := boundary.impossible(name, edge, 8 * GIB):
            assert edge == "empty", reason
            continue
        made = boundary.make(name, edge, 8 * GIB)
        assert made is not None, edge
        assert {one.name: one.covered for one in boundary.boundary_cases(grouped([made]), 8 * GIB)}[edge]


def test_counts_at_once_are_those_of_single_cases() -> None:
    some = [gemm(m=m, n=512, k=256, layout=layout, epilogue=epilogue) for m in (1, 77) for layout in ("nn", "tt") for epilogue in ("none", "bias")]
    counted = GroupColumns("gemm", some).counted
    for place, one in enumerate(some):
        asked = work.find("gemm").work(one.params)
        assert counted["memory_bytes"][place] == asked.memory_bytes
        assert counted["operations.matrix.bf16"][place] == asked.operations["matrix.bf16"]


# ---------------------------------------------------------------- by weight


def uses(*some: tuple[Case, str, float, float | None]) -> usage.Used:
    return usage.Used({one.id: one for one, *_ in some}, [Use(case=one.id, step=step, kernel="k", calls=calls, expected_s=s) for one, step, calls, s in some])


def test_shares_are_calls_times_expected_time() -> None:
    have, close, far = gemm(m=1024), gemm(m=2048), gemm(m=16)
    asked = uses((have, "a", 2, 3.0), (close, "a", 1, 3.0), (far, "a", 1, 1.0), (far, "b", 5, 2.0), (have, "b", 1, None))
    steps, lacking = measure.by_weight(grouped([have]), asked, None)
    first, second = steps
    assert (first.exact, first.near, first.seconds) == (0.6, 0.9, 10.0)
    assert (second.exact, second.near, second.unweighed) == (0.0, 0.0, 1)
    assert [(one.case.id, round(one.share, 3)) for one in lacking] == [(far.id, 0.55), (close.id, 0.15)]  # mean over steps
    assert lacking[1].near == work.label(have)
    assert lacking[0].near == ""


@pytest.mark.parametrize(
    ("other", "like"),
    [
        ({}, True), ({"m": 2048, "n": 8192}, True), ({"m": 2049}, False), ({"k": 4097}, False), ({"layout": "nt"}, False),
        ({"epilogue": "bias"}, False), ({"batch": 2}, True), ({"batch": 3}, False),
    ],
)  # fmt: skip
def test_near_is_a_factor_of_two_with_equal_texts_and_alignment(other: dict[str, object], like: bool) -> None:
    asked = gemm(m=1024)
    exact, found = similar.matched([asked], grouped([gemm(**{"m": 1024, **other})]), None)
    assert (asked.id in exact) == (not other)
    assert (asked.id in found) == (like and bool(other))


def test_near_needs_the_same_side_of_the_roofline() -> None:
    few, many = gemm(m=176), gemm(m=340)  # the ridge of this machine lies between
    sides = regions.placed("gemm", GroupColumns("gemm", [few, many]), ROOF).computes.tolist()
    assert sides == [False, True]
    assert few.id in similar.matched([few], grouped([many]), None)[1]
    assert few.id not in similar.matched([few], grouped([many]), ROOF)[1]


def test_regions() -> None:
    some = {
        "launch-bound": case("pointwise", elements=64), "memory-bound": case("pointwise", elements=2**28), "compute-bound": gemm(m=8192, n=8192, k=8192),
        "near the ridge": gemm(m=256, n=8192, k=8192), "cache": case("pointwise", elements=2**22), "link": case("collective", size=2**26),
        "none of these": case("launch"),
    }  # fmt: skip
    for name, one in some.items():
        assert measure.by_region(grouped([one]), ROOF).get(name) == 1, name
    for name in regions.REGIONS:
        probe = next(regions.probes(regions.REGIONS.index(name), ROOF))
        assert measure.by_region(grouped([probe]), ROOF)[name] == 1


def test_tables_count_what_cases_have() -> None:
    (table,) = measure.by_features(grouped([case("stream", op="copy", size=2**20), case("stream", op="add", size=2**30)]), 2)
    assert (table.covered, table.possible, table.impossible) == (6, 6 * 2 + 6 * 3 + 2 * 3, 0)
    assert {name: seen for name, seen, _ in table.lowest} == {"op": 2, "dtype": 1, "size": 2}


def test_paths_gather_the_cases_that_share_one() -> None:
    found = measure.by_path([("tile 128", "variant", gemm(m=1)), ("tile 128", "variant", gemm(m=2)), ("tile 128", "variant", gemm(m=1)), ("x", "variant", gemm())])
    assert [(one.name, len(one.cases)) for one in found] == [("tile 128", 2), ("x", 1)]


def test_paths_of_a_run_are_without_the_shapes_of_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    plan = tmp_path / "few.toml"
    plan.write_text('[measure]\nrounds = 1\nrounds_max = 1\nround_time = 0.2\n[[case]]\nworkload = "gemm"\ndtype = "bf16"\nm = [4096, 8192]\n', "utf-8")
    assert main(["run", str(plan), "--target", "simulated:h200-sxm"]) in (0, 1)
    capsys.readouterr()
    assert main(["kernel", "coverage", str(plan), "--results", "latest", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["coverage"]["paths"]
    assert sum(len(one["cases"]) for one in found) == 2
    assert all(one["name"].startswith("gemm: tile ") and "4096" not in one["name"] for one in found)


# ---------------------------------------------------------------- completion


@pytest.mark.slow("makes designs of thousands of rows")
@pytest.mark.parametrize(
    ("strength", "cases"),
    [(2, [gemm(m=4096), case("rowwise", op="softmax"), case("conv")]), (3, [case("embedding"), case("stream", size=2**20), case("grouped_gemm")])],
)
def test_a_completion_closes_every_table(strength: int, cases: list[Case]) -> None:
    first, second, third = (case("embedding", tokens=n) for n in (1, 2, 3))
    asked = uses((first, "decode", 4, 1.0), (second, "decode", 1, 4.0), (third, "decode", 1, 0.01))
    made = complete.complete(cases, strength, 8 * GIB, asked, ROOF)
    assert made.failed == []
    assert len({one.id for one in [*cases, *made.cases]}) == len(cases) + len(made.cases)
    assert set(made.why) == {one.id for one in made.cases}
    after = measure.coverage(["all"], [*cases, *made.cases], strength, asked, ROOF, lambda have: boundary.boundary_cases(have, 8 * GIB))
    assert [one.workload for one in after.tables if one.covered < one.possible] == []
    assert all(one.covered or one.reason for one in after.edges)
    assert all(after.regions.values())
    assert after.exact is not None
    assert 0.99 <= after.exact < 1  # the third is not worth a case
    again = complete.complete([*cases, *made.cases], strength, 8 * GIB, asked, ROOF)
    assert list(again.cases) == []


def test_a_small_memory_leaves_the_huge_out_and_says_so() -> None:
    found = boundary.boundary_cases(grouped([gemm()]), 2.0**29)
    assert {one.name: one.reason for one in found}["huge"] == "needs 1 GiB of memory and --memory allows 512 MiB"


@pytest.mark.slow("makes designs of many rows")
def test_nothing_of_a_completion_is_above_the_memory_and_what_was_left_out_is_said() -> None:
    head = case("pointwise", elements=2**24)
    made = complete.complete([gemm()], 1, 2.0**20, uses((head, "decode", 4, 1.0)), ROOF)
    held = [work.find(one.workload).work(one.params).working_set_bytes for one in made.cases]
    assert held
    assert max(held) <= 2**20
    assert f"networks: {work.label(head)} needs more than --memory" in made.failed
    assert any(said.startswith("memory-bound on") for said in made.failed)
    after = measure.coverage(["p"], [gemm(), *made.cases], 1, None, ROOF)
    text = report.completion(made, after)
    assert text.count("not closed") == 9
    assert text.endswith(f"  not closed: {len(made.failed) - 8} more")


@pytest.mark.slow("makes designs of thousands of rows")
@pytest.mark.parametrize("memory_bytes", [2.0**20, 2.0**26])
def test_what_is_told_as_not_closed_is_not_closed(memory_bytes: float) -> None:
    made = complete.complete([gemm(m=4)], 2, memory_bytes, None, ROOF)
    reached = measure.by_region(grouped([gemm(m=4), *made.cases]), ROOF)
    told = {name for name in regions.REGIONS for said in made.failed if said.startswith(f"{name} on ") or f"that is {name} on " in said}
    assert told == {name for name, count in reached.items() if not count}
    assert told == ({"memory-bound", "near the ridge", "compute-bound", "link"} if memory_bytes == 2.0**20 else set())


@pytest.mark.slow("makes designs of many rows")
def test_a_completion_has_the_directed_cases_of_workloads_that_it_brings() -> None:
    cases = [case("rowwise", op="softmax")]
    made = complete.complete(cases, 1, 8 * GIB, None, ROOF)
    assert {"gemm", "pointwise"} <= {one.workload for one in made.cases}
    assert [one for one in boundary.boundary_cases(grouped([*cases, *made.cases]), 8 * GIB) if not one.covered and not one.reason] == []
    assert made.failed == []


def test_a_combination_that_another_row_has_is_not_told_as_open(monkeypatch: pytest.MonkeyPatch) -> None:
    real, tried = realize.realize_case, list[str]()

    def second_only(name: str, of: Sequence[features.CoverageFeature], row: Sequence[int]) -> Case | None:
        tried.append(name)
        return real(name, of, row) if len(tried) % 2 == 0 else None

    def each_twice(*args: object, **kwargs: object) -> covering.CoveringDesign:
        found = design(*args, **kwargs)  # type: ignore[arg-type]
        return covering.CoveringDesign(np.repeat(found.rows, 2, axis=0), found.possible, found.covered)

    design = covering.design
    monkeypatch.setattr(realize, "realize_case", second_only)
    monkeypatch.setattr(covering, "design", each_twice)
    made = complete.complete([case("stream", op="copy", size=2**20)], 2, 8 * GIB)
    assert made.counts["combinations"] > 1
    assert made.failed == []


# ---------------------------------------------------------------- networks and the command


def test_networks_have_the_steps_they_are_run_by() -> None:
    found = usage.steps(["llama-3-8b", "resnet-50"])
    assert [step.split(" context")[0] for step in found.steps] == [
        "llama-3-8b prefill batch=1", "llama-3-8b prefill batch=32", "llama-3-8b decode batch=1", "llama-3-8b decode batch=32",
        "resnet-50 forward batch=1", "resnet-50 forward batch=32",
    ]  # fmt: skip
    chosen = usage.steps(["bert-large", "llama-3-8b"], {"phases": ("decode",), "batch": (4,), "context": (1024,)})
    assert [step.split(" tp")[0] for step in chosen.steps] == ["llama-3-8b decode batch=4 context=1024"]
    assert "bert-large has no phase decode" in chosen.left_out[0]
    with pytest.raises(InputError, match="no network 'lama'"):
        usage.steps(["lama"])


def test_a_step_of_which_no_time_is_expected_is_not_known() -> None:
    one, other = gemm(m=64, n=64, k=64), gemm(m=128, n=64, k=64)
    silent = measure.coverage(["p"], [one], 2, uses((one, "net decode", 1, None)))
    assert (silent.exact, silent.near) == (None, None)
    both = measure.coverage(["p"], [one], 2, uses((one, "net decode", 1, 1e-3), (other, "other decode", 1, None)))
    assert both.exact == 1.0


def test_use_that_a_plan_knows_of_is_told_from_that_of_whole_networks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, decode = str(tmp_path / "top.toml"), ["llama-3-8b", "--phase", "decode", "--batch", "4"]
    assert main(["plan", "from", *decode, "--top", "60%", "-o", plan]) == 0
    capsys.readouterr()
    for words, told in (([plan], True), ([plan, "--networks", plan], True), ([plan, "--networks", *decode], False)):
        assert main(["kernel", "coverage", *words]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert ("what --top left out is not in their time" in text) == told
        assert ("real use: 100.0 %" in text) == told


@pytest.mark.slow("makes designs of thousands of rows")
def test_the_command_and_its_completion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "more.toml"
    assert main(["kernel", "coverage", "quick", "--networks", "llama-3-8b", "--phase", "decode", "--batch", "8", "--context", "1k", "--complete", "-o", str(out)]) == 0
    text = capsys.readouterr().out
    assert "real use: 0.0 % of the time of 1 step" in text
    assert "2-way 100.0 %" in text
    plan = plans.load(str(out))
    assert plan.weighed_on == "h200-sxm"
    assert {use.step.split(" tp")[0] for use in plan.uses} == {"llama-3-8b decode batch=8 context=1024"}
    assert out.read_text("utf-8").count("\n# ") >= len(plan.cases)  # each says why it is there
    assert main(["kernel", "coverage", "quick", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["coverage"]
    assert all(table["covered"] == table["possible"] for table in found["tables"])
    assert found["steps"][0]["exact"] == 1.0  # the plan's own uses are the weights where no network is named
    assert main(["kernel", "coverage", "quick", "--complete"]) == 0
    assert read(capsys.readouterr().out, "stdout", "x", "x").cases


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["quick", "--networks", "lama"], "there is no network 'lama'"), (["quick", "--strength", "5"], "--strength is 1 to 4"),
        (["quick", "--batch", "8"], "are of networks"), (["quick", "--networks", "all", "--batch", "x"], "--batch is a whole number from 1"),
        (["quick", "--networks", "all,bert-large"], "'all', or names"), (["quick", "-o", "x.toml"], "add --complete"),
        (["quick", "--share", "2"], "--share is a share above 0"), (["nothing.toml"], "there is no plan"), (["quick", "--machine", "h900"], "h900"),
        (["quick", "--networks", "all", "--phase", "dekode"], "--phase cannot be 'dekode'"), (["quick", "--memory", "much"], "much"),
        (["quick", "--networks", "bert-large", "--phase", "decode"], "has no phase decode"),
        (["quick", "--networks", "m1/config.json"], "hotlap plan from m1/config.json -o m1.toml, then --networks ./m1.toml"),
    ],
)  # fmt: skip
def test_a_usage_error_is_said_in_one_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "coverage", *words]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.slow("makes designs of thousands of rows")
@pytest.mark.parametrize("width", [80, 120])
def test_what_is_printed_fits(width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["kernel", "coverage", "quick", "--networks", "all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
