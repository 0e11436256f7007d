"""Opportunities: a planted slow kernel ranks first with the right amount, weights count, and what is not known is said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from hotlap.core import plan as plans
from hotlap.core.analysis import rows as tables
from hotlap.core.errors import InputError
from hotlap.core.measure.targets import simulated
from hotlap.core.measure.targets.faults import Faults
from hotlap.core.model import machines
from hotlap.core.record import Case, Gap, Limit, Machine, Plan, Row, RunRecord, Samples, Stop, Use
from hotlap.core.show import words
from hotlap.core.store.bundle import Bundle
from hotlap.core.work import find as workload
from hotlap.kernels import signs
from hotlap.kernels.coverage import usage
from hotlap.kernels.coverage.usage import Needed
from hotlap.kernels.opportunities import On, Opportunities, find
from hotlap.kernels.show import opportunities as shown
from hotlap.kernels.show import opportunities_page

ON = On("r1", spec=machines.load("h200-sxm"), weighed_on="h200-sxm")
STEP, OTHER = "llama-3-8b prefill batch=1 context=2048 tp=1", "other decode batch=1"


def case(name: str, **params: object) -> Case:
    return Case(workload=name, params=workload(name).parse(params))


NORM = case("rowwise", op="rmsnorm", rows=8192, columns=4096)
GEMM = case("gemm", m=4096, n=4096, k=4096)
SKEWED = case("gemm", m=4097, n=4096, k=4095)
ADD = case("pointwise", op="add", elements=2**26)
CASES = (NORM, GEMM, SKEWED, ADD)


def simulated_run(uses: Sequence[Use], options: Mapping[str, str] = {}, cases: Sequence[Case] = CASES, machine: str = "h200-sxm") -> Bundle:
    """Six rounds of each case on the simulated GPU, in this process."""
    (device,) = simulated.find(machine, options)
    samples = []
    for n in range(6):
        target = simulated.open(device, {"seed": str(n), **options})
        for one in cases:
            prepared = target.prepare(replace(one, implementation=""))  # a simulated GPU runs no kernel: it plays the workload
            seconds = [target.time(prepared.enqueue, 1).device_s for _ in range(5)]
            samples.append(Samples(case=one.id, device=device.key, round=n, values=seconds, method="event-batch", counters=prepared.counters()))
    plan = Plan(name="test", cases=list(cases), uses=list(uses), weighed_on=machine)
    run = RunRecord(
        id="r1", began="2026-11-21T10:00:00.000+00:00", stops=[Stop("rounds_max")], hotlap="0", plan=plan, target="simulated",
        devices=[device.key], machine=Machine(host="node1", devices=[device]),
    )  # fmt: skip
    return Bundle(run, Path("nowhere"), samples)


def use(one: Case, calls: float, step: str = STEP, kernel: str = "kernel") -> Use:
    return Use(case=one.id, step=step, kernel=kernel, calls=calls)


def found(bundle: Bundle, weights: Mapping[str, float] = {}, needed: Sequence[Needed] = ()) -> Opportunities:
    rows = tables.rows(bundle)
    return find(rows, needed or usage.of_plan(bundle.run.plan).needed, ON, weights)


USES = [use(NORM, 64, kernel="norm"), use(GEMM, 32), use(ADD, 64)]


def test_a_planted_slow_kernel_ranks_first_with_the_right_amount() -> None:
    healthy, slow = (simulated_run(USES, options) for options in ({}, {"slow_kernel": "2.0@rowwise"}))
    before, after = (next(row for row in tables.rows(b) if row.case.id == NORM.id).result.seconds[0] for b in (healthy, slow))
    planted_s = 64 * (after - before)
    assert not any(one.case.id == NORM.id for one in found(healthy).ranked)
    (first, *_) = found(slow).ranked
    assert first.case.id == NORM.id
    assert first.against == "expected"
    (place,) = first.places
    assert place.win_s == pytest.approx(planted_s, rel=0.15)
    assert first.win.lower_s * 64 < planted_s < first.win.upper_s * 64
    step = found(slow).steps[0]
    assert place.share == pytest.approx(place.win_s / step.seconds)
    assert first.energy_j == pytest.approx((first.power_w or 0) * first.win.s)


def test_kernels_of_one_step_that_call_the_same_case_are_won_together() -> None:
    split = [use(NORM, 40, kernel="norm"), use(NORM, 24, kernel="other norm"), use(NORM, 1, OTHER, "norm"), *USES[1:]]
    whole, parts = (found(simulated_run(uses, {"slow_kernel": "2.0@rowwise"})) for uses in (USES, split))
    (one, *_), (both, *_) = whole.ranked, parts.ranked
    assert [(place.step, place.kernels, place.calls) for place in both.places] == [
        (OTHER, {"norm": 1.0}, 1.0), (STEP, {"norm": 40.0, "other norm": 24.0}, 64.0),
    ]  # fmt: skip
    assert both.places[1].win_s == pytest.approx(one.places[0].win_s) == pytest.approx(whole.steps[0].win_s)
    assert both.places[1].share == pytest.approx(one.places[0].share)
    alone = found(simulated_run([*split[:2], *split[3:]], {"slow_kernel": "2.0@rowwise"}))
    assert alone.ranked[0].step_energy_j == pytest.approx(one.step_energy_j)
    assert shown.win(alone.ranked[0]) == shown.win(one)
    assert f"norm × 40 and other norm × 24 (× 64 together) in {STEP}" in dict(shown.details(alone.ranked[0]))["where"]


def test_what_is_said_of_a_case_as_fast_as_expected_is_of_all_kernels_of_its_step() -> None:
    split = [use(GEMM, 20, kernel="up"), use(GEMM, 12, kernel="gate"), *USES[2:], USES[0]]
    whole, parts = (found(simulated_run(uses)) for uses in (USES, split))
    assert shown.within(parts, 400) == shown.within(whole, 400)
    two = [Bundle(b.run, Path("nowhere"), [one for one in b.samples if one.round < 2]) for b in (simulated_run(uses, {"slow_kernel": "4.0@gemm"}) for uses in (USES, split))]
    once, twice = (shown.within(found(one), 400) for one in two)
    assert any("gemm" in line and line.startswith("Perhaps") for line in once)
    assert once == twice


def test_a_difference_within_the_intervals_is_no_opportunity() -> None:
    answer = found(simulated_run(USES))
    assert {one.case.id for one in (*answer.ranked, *answer.within)} == {NORM.id, GEMM.id, ADD.id}
    assert all(one.measured.s > 0 and one.win.lower_s <= 0 for one in answer.within)


def test_without_intervals_nothing_is_sure_and_the_reason_is_the_rounds() -> None:
    bundle = simulated_run(USES, {"slow_kernel": "4.0@rowwise"})
    two = Bundle(bundle.run, Path("nowhere"), [one for one in bundle.samples if one.round < 2])
    said = " ".join(shown.opportunities(found(two)).split())
    assert "is open: the run has no intervals, which take 6 rounds" in said
    assert "slower than expected but measured in too few rounds for an interval: rowwise" in said
    assert "take 6 rounds" in opportunities_page.page(two, [found(two)])


def test_weights_decide_between_networks() -> None:
    uses = [use(NORM, 64), use(GEMM, 640, STEP), use(ADD, 64, OTHER), use(GEMM, 64, OTHER)]
    bundle = simulated_run(uses, {"slow_kernel": "3.0@rowwise,pointwise"})
    assert found(bundle, {"llama-3-8b": 0.001}).ranked[0].case.id == ADD.id
    assert found(bundle, {"other": 0.001}).ranked[0].case.id == NORM.id
    assert [one.weight for one in found(bundle).steps] == [0.5, 0.5]
    with pytest.raises(InputError, match="none of the networks here"):
        found(bundle, {"lama": 2})
    with pytest.raises(InputError, match="all weights are 0"):
        found(bundle, {"llama-3-8b": 0, "other": 0})


def test_what_was_not_measured_is_said_with_its_share() -> None:
    lost = case("gemm", m=8192, n=8192, k=8192)
    needed = [*usage.of_plan(simulated_run(USES).run.plan).needed, Needed(STEP, "up", 10, lost)]
    answer = found(simulated_run(USES), needed=needed)
    (missing,) = answer.missing
    assert (missing.kernel, missing.reason) == ("up", "not in the run's plan")
    step = answer.steps[0]
    assert missing.seconds == pytest.approx(step.seconds - step.measured_s)
    text = shown.opportunities(answer, 200)
    assert "not measured" in text
    assert "up (not in the run's plan)" in text


def test_without_an_expected_time_the_bound_stands_in_and_says_so() -> None:
    rows = [_without_expectation(row) for row in tables.rows(simulated_run(USES))]
    answer = find(rows, usage.of_plan(simulated_run(USES).run.plan).needed, ON)
    gemm = next(one for one in answer.ranked if one.case.id == GEMM.id)
    assert gemm.against == "bound"
    assert gemm.win.s == pytest.approx(gemm.most_s)
    assert "no expected time is known; bound" in shown.goal(gemm)
    assert shown.win(gemm).startswith("≤ ")


def test_a_bound_that_takes_the_weights_to_be_cached_promises_nothing() -> None:
    """A matrix of 50 MiB fits L2 of H200 to the byte: its bound is of arithmetic alone, and hundreds of times what memory allows."""
    weights = case("gemm", m=1, n=5120, k=5120, dtype="bf16")
    bundle = simulated_run([use(weights, 64)], {"slow_kernel": "9.0@gemm"}, (weights,))
    (one,) = found(bundle).ranked
    assert one.cached_share > 0.99
    assert "can be won is open" in shown.goal(one)
    assert "at most" not in shown.goal(one)
    assert "from the cache" in words.headroom(tables.rows(bundle)[0].gap)
    alone = [_without_expectation(row) for row in tables.rows(bundle)]
    assert find(alone, usage.of_plan(bundle.run.plan).needed, ON).ranked == []


def test_a_case_that_nothing_is_known_of_is_said() -> None:
    rows = [replace(row, gap=Gap(limit=Limit(kind="unknown"))) if row.case.id == ADD.id else row for row in tables.rows(simulated_run(USES))]
    answer = find(rows, usage.of_plan(simulated_run(USES).run.plan).needed, ON)
    assert answer.unheld == [next(row.label for row in rows if row.case.id == ADD.id)]
    assert "nothing is known to compare it with" in shown.opportunities(answer, 200)


def _without_expectation(row: Row) -> Row:
    assert row.gap.limit is not None
    gone = replace(row.gap.limit, expected_s=None, low_s=None, high_s=None, parts={})
    return replace(row, gap=replace(row.gap, limit=gone, split={}))


def test_similar_cases_that_do_better_are_named() -> None:
    half = case("rowwise", op="rmsnorm", rows=4096, columns=4096)
    named = [replace(one, implementation=name) for one in (half,) for name in ("slow", "fast")]
    bundle = simulated_run([use(NORM, 64), use(half, 1)], {"slow_kernel": "1.0@rowwise"}, (NORM, half, *named))
    quick = [replace(s, values=[x / 2 for x in s.values]) if s.case in (named[1].id, half.id) else s for s in bundle.samples]
    (first,) = [one for one in found(Bundle(bundle.run, bundle.path, quick)).ranked if one.case.id == NORM.id]
    assert [one.kind for one in first.similar] == ["size"] * len(first.similar)
    assert "rows=4096" in shown.peer(first.similar[0])
    needed = [Needed(STEP, "norm", 1, named[0])]
    (slow,) = found(Bundle(bundle.run, bundle.path, quick), needed=needed).ranked
    assert slow.similar[0].kind == "implementation"
    assert slow.similar[0].ratio == pytest.approx(2.0, rel=0.01)
    assert slow.rule == "other-implementation"


def test_tiles_are_said_to_be_the_model_s_and_a_nearly_full_wave_is_no_sign_of_few() -> None:
    full, few = (case("gemm", m=m, n=m // 2, k=2048, dtype="bf16", layout="nt") for m in (2048, 256))
    rows = {row.case.id: row for row in tables.rows(simulated_run([], cases=(full, few)))}
    assert "few tiles, long k" not in signs.of_sizes(rows[full.id], 132)  # 128 for 132 units
    said = signs.of_sizes(rows[few.id], 132)["few tiles, long k"]
    assert re.fullmatch(r"\d+ tiles for 132 units \(at \d+ × \d+, the tile that the model takes\), k = 2048", said), said


def test_signs_of_sizes_and_every_rule_has_words() -> None:
    rows = {row.case.id: row for row in tables.rows(simulated_run([], cases=(GEMM, SKEWED)))}
    assert "misaligned" in signs.of_sizes(rows[SKEWED.id], 132)
    assert "misaligned" not in signs.of_sizes(rows[GEMM.id], 132)
    transposed = case("gemm", m=4097, n=4096, k=4096, dtype="bf16", layout="tn")
    row = replace(rows[SKEWED.id], case=transposed)
    assert "m = 4097" in signs.of_sizes(row, 132)["misaligned"]  # A lies by columns: its stored rows are m long
    assert "misaligned" not in signs.of_sizes(replace(row, case=case("gemm", m=4097, n=4096, k=4096, dtype="bf16")), 132)
    assert signs.rule(SKEWED, ["misaligned"], "unknown", "").name == "misaligned"
    assert signs.rule(GEMM, [], "power", "").name == "held-back"
    assert signs.rule(case("chase", size="1 MiB"), [], "", "").name == "measure"
    assert all(one.change and not one.change.endswith(".") for one in signs.rules())


def test_networks_of_the_table_weigh_a_plan_without_uses() -> None:
    needed = usage.chosen(Plan(name="bare"), ["llama-3-8b"]).needed
    assert {one.step for one in needed} == {f"llama-3-8b {how} context=2048 tp=1" for how in ("prefill batch=1", "prefill batch=32", "decode batch=1", "decode batch=32")}
    assert usage.of_table("llama-3-8b") == needed
    assert usage.of_table("lama") == []
    assert {one.network for one in needed} == {"llama-3-8b"}
    with pytest.raises(InputError, match="says nothing of networks"):
        usage.chosen(Plan(name="bare"), [])
    with pytest.raises(InputError, match="there is no network 'lama'"):
        usage.chosen(Plan(name="bare"), ["lama"])
    with pytest.raises(InputError, match="no case of the run r1"):
        found(simulated_run([], cases=(ADD,)), needed=needed)


NETS = [
    use(GEMM, 32, "llama-3-8b prefill batch=4 context=2048 tp=1"), use(NORM, 64, "llama-3-8b decode batch=4 context=2048 tp=1"),
    use(ADD, 9, "resnet-50 forward batch=4"), use(ADD, 1, "mine.py:net forward"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "settings", "places"),
    [
        ([], {}, [0, 1, 2, 3]), ([], {"phases": ("decode",)}, [1]), (["all"], {"phases": ("prefill", "forward"), "batch": (4,)}, [0, 2]),
        (["llama-3-8b"], {"tp": (1,), "dtype": ("bf16",)}, [0, 1]), (["resnet-50"], {"batch": (4,)}, [2]), (["mine.py:net"], {}, [3]),
        ([], {"context": (2048,)}, [0, 1, 2]),  # of which resnet-50 has none
    ],
)  # fmt: skip
def test_of_the_plan_only_the_steps_that_are_run_so(names: Sequence[str], settings: usage.Settings, places: Sequence[int]) -> None:
    plan = Plan(name="nets", cases=list(CASES), uses=NETS)
    assert list(usage.chosen(plan, names, settings).uses) == [NETS[place] for place in places]


def test_steps_that_the_plan_lacks_come_from_the_table_or_are_refused() -> None:
    plan = Plan(name="nets", cases=list(CASES), uses=NETS)
    eight = {"phases": ("decode",), "batch": (4,), "tp": (8,)}
    assert usage.chosen(plan, ["llama-3-8b"], eight) == usage.steps(["llama-3-8b"], eight)
    both = usage.chosen(plan, ["llama-3-8b", "bert-large"], {"phases": ("decode",), "batch": (8,)})
    assert {step.partition(" ")[0] for step in both.steps} == {"llama-3-8b"}
    assert "bert-large has no phase decode" in both.left_out[0]
    for names, settings, told in (
        ([], {"batch": (4, 8)}, "the plan 'nets' has no such step with batch 8; its steps: llama-3-8b prefill batch=4 context=2048 tp=1, "),
        (["mine.py:net"], {"phases": ("forward",)}, "no such step with phase forward; its steps: mine.py:net forward"),
    ):
        with pytest.raises(InputError, match=told):
            usage.chosen(plan, names, settings)


def test_what_cannot_be_of_the_steps_asked_for_is_said() -> None:
    bundle = simulated_run(USES)
    answer = replace(found(bundle), left_out=["bert-large has no phase decode"])
    assert "  left out: bert-large has no phase decode" in shown.opportunities(answer).splitlines()
    assert "left out: bert-large has no phase decode" in opportunities_page.page(bundle, [answer])


def test_the_page_and_the_text_say_the_same() -> None:
    bundle = simulated_run(USES, {"slow_kernel": "2.0@rowwise"})
    answer = found(bundle)
    page, text = opportunities_page.page(bundle, [answer]), shown.opportunities(answer, 80)
    for part in (answer.ranked[0].label, "bytes set its pace"):
        assert part in page
    assert max(map(len, text.splitlines())) <= 80
    assert f"hotlap explain r1 --where case={NORM.id}" in text


def test_the_uses_survive_a_plan_file(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(plans.text(Plan(name="p", cases=list(CASES), uses=USES)), encoding="utf-8")
    assert [one.calls for one in usage.of_plan(plans.load(str(file))).needed] == [64, 32, 64]


@pytest.mark.parametrize(
    ("text", "reason"), [("1.0", "slow_kernel"), ("1.0@rowise", "no workload 'rowise'"), ("x@gemm", "slow_kernel"), ("-1@gemm", "from 0")]
)
def test_a_slow_kernel_that_cannot_be_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Faults.parse({"slow_kernel": text})
    assert Faults.parse({"slow_kernel": "1.0@rowwise.rmsnorm"}).slow_kernel.factor(NORM) == 2.0
    assert Faults.parse({"slow_kernel": "1.0@rowwise.softmax"}).slow_kernel.factor(NORM) == 1.0
