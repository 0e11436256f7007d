"""What is concluded from counters: occupancy, bounds, rules and gains, by hand-checkable numbers and the profilers' own."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.traces import counters
from hotlap.traces.counters import analysis, formula, metrics, occupancy, rocprof_compute, rules
from hotlap.traces.counters.kernel import CountedKernel, KernelProfile, Remark
from hotlap.traces.counters.rules import Hint
from hotlap.traces.show import kernels

TRACES = Path(os.environ.get("HOTLAP_SHARED") or Path(__file__).resolve().parents[2].parent / "shared") / "data" / "traces"
shared = pytest.mark.skipif(not TRACES.is_dir(), reason="no real traces: HOTLAP_SHARED is not set and ../shared is not there")

# A matrix product on a B200, as Nsight Compute prints it: microsoft/superbenchmark, tests/data/cublaslt_ncu.log.
B200 = CountedKernel(
    place=0, name="gemm", capability="10.0", grid=(9, 32, 1), block=(384, 1, 1), registers=168, shared_bytes=206720, duration_s=406.24e-6,
    metrics={
        "compute_share": 0.2359, "memory_share": 0.2168, "multiprocessors": 152.0, "waves": 1.89, "occupancy_theoretical": 0.1875,
        "occupancy_achieved": 0.1553, "registers": 168.0, "shared_config_bytes": 233472.0, "shared_driver_bytes": 1024.0, "blocks": 288.0,
    },
    remarks=[Remark(rule="LaunchConfiguration", text="", scope="global", gain=0.5), Remark(rule="TheoreticalOccupancy", text="", scope="local", gain=0.8125)],
)  # fmt: skip


def kernel(**known: float) -> CountedKernel:
    return CountedKernel(place=0, name="k", grid=(10_000, 1, 1), block=(256, 1, 1), duration_s=1e-3, metrics=known)


def hint(one: CountedKernel, rule: str) -> Hint:
    found = {hint.rule: hint for hint in analysis.of(one).hints}
    assert rule in found, f"{rule} did not fire, only {sorted(found)}"
    return found[rule]


def fired(one: CountedKernel) -> set[str]:
    return {hint.rule for hint in analysis.of(one).hints}


# ---------------------------------------------------------------- the profiler's own numbers


def test_gains_are_those_that_nsight_compute_prints() -> None:
    tail, few = hint(B200, "partial-wave"), hint(B200, "occupancy")
    assert tail.gain_global == 1 / (1 + 1) == B200.remarks[0].gain
    assert few.gain_local == 1 - 12 / 64 == B200.remarks[1].gain
    assert few.gain_global is None, "without the scheduler's counters its share of the kernel is not known"
    assert tail.gain_low == pytest.approx((152 - 136) / 152 / 2)  # 16 of 152 multiprocessors idle in the second of two waves
    assert analysis.of(B200).hints[0].rule == "partial-wave"


def test_occupancy_and_its_limits_are_those_that_nsight_compute_prints() -> None:
    found = analysis.of(B200).occupancy
    assert found is not None
    assert (found.warps, found.most, found.share) == (12, 64, 0.1875)
    assert found.limits == {"warps": 5, "registers": 1, "shared": 1, "blocks": 32}
    assert found.limited_by == ["registers per thread", "shared memory per block"]


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared_bytes", "warps", "limited"),
    [  # CUDA occupancy calculator
        ("8.0", 256, 32, 0, 64, []),
        ("8.0", 256, 64, 0, 32, ["registers per thread"]),
        ("8.0", 1024, 65, 0, 0, ["registers per thread"]),
        ("8.0", 32, 16, 0, 32, ["blocks"]),
        ("8.6", 1024, 32, 0, 32, ["threads per block"]),
        ("9.0", 128, 168, 0, 12, ["registers per thread"]),
        ("7.0", 256, 32, 49152, 16, ["shared memory per block"]),
        ("7.5", 100, 40, 0, 32, []),
        ("9.0", 384, 168, 200_000, 12, ["registers per thread", "shared memory per block"]),
    ],
)
def test_occupancy_from_the_launch(capability: str, threads: int, registers: int, shared_bytes: int, warps: int, limited: list[str]) -> None:
    found = occupancy.nvidia(capability, threads, registers, shared_bytes)
    assert found is not None
    assert (found.warps, found.limited_by) == (warps, limited)


def test_occupancy_of_an_unknown_device_is_unknown() -> None:
    assert occupancy.nvidia("99.0", 256, 32, 0) is None
    assert occupancy.of(kernel()) is None


def test_occupancy_of_amd_by_registers_and_lds() -> None:
    def waves(registers: int, lds: int) -> int:
        one = CountedKernel(place=0, name="k", vendor="amd", capability="gfx90a:sramecc+", block=(256, 1, 1), registers=registers, shared_bytes=lds)
        found = occupancy.of(one)
        assert found is not None
        return found.warps

    assert waves(8, 0) == 32
    assert waves(128, 0) == 16  # 512 / 128 = 4 waves on each of 4 SIMDs
    assert waves(8, 32768) == 8  # two groups of four waves


# ---------------------------------------------------------------- what bounds it


@pytest.mark.parametrize(
    ("compute", "memory", "waves", "kind", "headroom"),
    [
        (0.90, 0.30, 5.0, "compute", 0.10),
        (0.30, 0.90, 5.0, "memory", 0.10),
        (0.70, 0.65, 5.0, "both", 0.30),
        (0.65, 0.40, 5.0, "compute", 0.35),
        (0.30, 0.20, 5.0, "latency", 0.70),
        (0.30, 0.20, 0.5, "small grid", 0.70),
        (0.85, 0.84, 5.0, "compute", 0.15),
    ],
)
def test_bound(compute: float, memory: float, waves: float, kind: str, headroom: float) -> None:
    found = analysis.of(kernel(compute_share=compute, memory_share=memory, waves=waves)).bound
    assert found.kind == kind
    assert found.headroom == pytest.approx(headroom)


def test_the_level_of_memory_that_is_busiest_is_named() -> None:
    assert analysis.of(kernel(compute_share=0.1, memory_share=0.9, dram_share=0.4, l2_share=0.9, l1_share=0.3)).bound.level == "L2"


def test_more_than_a_peak_is_an_error_of_the_data_and_is_left_out() -> None:
    found = analysis.of(kernel(compute_share=0.2, memory_share=1.2, dram_share=1.2, issue_share=0.1))
    assert [error.split(":")[0] for error in found.errors] == ["memory, of its peak 120 %", "DRAM, of its peak 120 %", "the busier of compute and memory, of its peak 120 %"][: len(found.errors)]
    assert len(found.errors) >= 2
    assert found.bound.kind == "unknown"
    assert all("memory_share" not in one.evidence and "dram_share" not in one.evidence for one in found.hints)
    assert not analysis.of(kernel(compute_share=0.2, memory_share=1.0005)).errors, "profilers round"


def test_two_sources_of_occupancy_that_differ_are_told() -> None:
    other = CountedKernel(place=0, name="k", capability="8.0", block=(256, 1, 1), registers=32, metrics={"occupancy_theoretical": 0.5})
    assert "the profiler says 50 %" in analysis.of(other).errors[0]


# ---------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("rule", "known", "local", "whole"),
    [
        ("issue-slots", {"issue_share": 0.25, "compute_share": 0.5, "memory_share": 0.4}, 0.75, 0.5),
        ("issue-slots", {"issue_share": 0.59, "compute_share": 0.1, "memory_share": 0.1}, 0.41, 0.41),
        ("divergence", {"threads_active": 16.0, "threads_on": 8.0, "compute_share": 0.5}, 0.75, 0.375),
        ("uncoalesced", {"l2_sectors": 100.0, "l2_sectors_excess": 75.0, "active_sum_lts": 50.0, "elapsed_sum_lts": 100.0}, 0.75, 0.375),
        ("uncoalesced-shared", {"shared_wavefronts": 10.0, "shared_wavefronts_excess": 5.0, "active_sum_l1tex": 1.0, "elapsed_sum_l1tex": 2.0}, 0.5, 0.25),
        ("bank-conflicts:load", {"conflicts_load": 50.0, "wavefronts_load": 100.0, "l1_share": 0.4}, 0.5, 0.2),
        ("small-grid", {"blocks": 38.0, "multiprocessors": 152.0}, None, 0.75),
        ("partial-wave", {"waves": 4.5}, None, 0.2),
        ("imbalance:sm", {"active_mean_sm": 120.0, "active_most_sm": 180.0, "active_sum_sm": 1.0, "elapsed_sum_sm": 1.0}, 1 / 3, 1 / 3),
        ("pipe-high:fma", {"pipe_fma": 0.7, "pipe_alu": 0.3}, 0.3, None),
        ("pipes-low", {"pipe_fma": 0.1, "compute_share": 0.1, "memory_share": 0.2}, 0.9, None),
        ("occupancy", {"occupancy_theoretical": 0.5, "issue_share": 0.5, "compute_share": 0.7, "memory_share": 0.1}, 0.5, 0.3),
        ("occupancy-achieved", {"occupancy_theoretical": 0.5, "occupancy_achieved": 0.25}, 0.5, None),
        ("stall:long_scoreboard", {"stall_ratio_long_scoreboard": 8.0, "cycles_per_issue": 10.0, "issue_share": 0.5, "compute_share": 0.3, "memory_share": 0.3}, 0.8, 0.5),
        ("stall:drain", {"stall_samples_drain": 60.0, "samples": 100.0, "issue_share": 0.1, "compute_share": 0.3, "memory_share": 0.9}, 0.6, 0.1),
        ("sectors:global_op_ld", {"sector_bytes_global_op_ld": 8.0, "sector_most_bytes_global_op_ld": 32.0, "l1_share": 0.2, "l2_share": 0.8, "l1_hit_global_op_ld": 0.5}, 0.75, 0.3),
        ("fp64", {"flop_fadd": 0.0, "flop_fmul": 0.0, "flop_ffma": 0.0, "flop_dadd": 0.0, "flop_dmul": 0.0, "flop_dfma": 1.0, "fp32_peak": 64.0, "fp64_peak": 2.0, "pipe_fp64": 0.5}, 1 - 1 / 32, 0.5 - 1 / 64),
        ("waits-amd", {"wait_share": 0.9, "compute_share": 0.1, "memory_share": 0.4}, 0.9, 0.6),
        ("lds-conflicts", {"lds_conflict_share": 0.25}, 0.25, None),
    ],
)  # fmt: skip
def test_rule_by_hand(rule: str, known: dict[str, float], local: float | None, whole: float | None) -> None:
    found = hint(kernel(**known), rule)
    assert found.gain_local == (None if local is None else pytest.approx(local))
    assert found.gain_global == (None if whole is None else pytest.approx(whole))
    assert found.evidence
    assert set(found.evidence) <= {*known, *metrics.completed(known), "waves", "blocks", "multiprocessors", "occupancy", "busiest_share", "pipe_most", "block_threads"}


@pytest.mark.parametrize(
    ("rule", "known"),
    [
        ("issue-slots", {"issue_share": 0.6, "compute_share": 0.1, "memory_share": 0.1}),
        ("divergence", {"threads_active": 24.0, "threads_on": 24.0}),
        ("uncoalesced", {"l2_sectors": 100.0, "l2_sectors_excess": 0.0}),
        ("bank-conflicts:load", {"conflicts_load": 9.0, "wavefronts_load": 100.0}),
        ("partial-wave", {"waves": 0.9}),
        ("partial-wave", {"waves": 4.0}),
        ("small-grid", {"blocks": 152.0, "multiprocessors": 152.0}),
        ("occupancy", {"occupancy_theoretical": 0.8}),
        ("occupancy-achieved", {"occupancy_theoretical": 0.5, "occupancy_achieved": 0.41}),
        ("stall:barrier", {"stall_ratio_barrier": 3.0, "cycles_per_issue": 10.0, "issue_share": 0.5}),
        ("pipe-high:fma", {"pipe_fma": 0.6}),
        ("block-size", {}),
    ],
)
def test_a_rule_is_silent_at_its_threshold(rule: str, known: dict[str, float]) -> None:
    assert rule not in fired(kernel(**known))


def test_a_block_that_is_no_multiple_of_a_warp() -> None:
    one = CountedKernel(place=0, name="k", block=(100, 1, 1), metrics={})
    assert hint(one, "block-size").gain_global == pytest.approx(1 / 4 * (1 - 4 / 32))


def test_instructions_that_are_not_fused() -> None:
    one = CountedKernel(place=0, name="k", metrics={"pipe_fma": 0.5}, opcodes={"FADD": 30.0, "FMUL": 30.0, "FFMA": 40.0})
    assert hint(one, "not-fused-fp32").gain_global == pytest.approx(0.5 * 0.6 * 0.5)
    assert "not-fused-fp64" not in fired(one)


def test_fp64_on_a_device_with_little_of_it_is_bounded_by_the_headroom() -> None:
    known = {"pipe_fp64": 0.37, "compute_share": 0.37, "memory_share": 0.88}
    small = CountedKernel(place=0, name="k", capability="8.6", metrics=known)
    assert hint(small, "fp64-small").gain_global == pytest.approx(0.12)
    assert "fp64-small" not in fired(CountedKernel(place=0, name="k", capability="9.0", metrics=known))


@pytest.mark.slow("traces of many events")
@given(known=st.dictionaries(st.sampled_from(sorted(metrics.table().metrics)), st.one_of(st.floats(0, 1), st.floats(0, 1e6)), max_size=40))
def test_gains_are_shares_and_none_exceeds_its_parents(known: dict[str, float]) -> None:
    found = analysis.of(CountedKernel(place=0, name="k", grid=(7, 1, 1), block=(33, 1, 1), metrics=known, capability="8.6"))
    by_rule = {one.rule: one for one in found.hints}
    for one in found.hints:
        assert all(gain is None or 0 <= gain <= 1 for gain in (one.gain_local, one.gain_global, one.gain_low))
        parent = by_rule.get(one.parent)
        if parent is not None and None not in (one.gain_global, parent.gain_global):
            assert one.gain_global <= parent.gain_global
        if one.gain_low is not None:
            assert one.gain_low <= (one.gain_global or 0)
    assert [one.gain for one in found.hints] == sorted((one.gain for one in found.hints), reverse=True)


# ---------------------------------------------------------------- rules and metrics as data


def test_every_rule_names_metrics_that_exist_and_has_its_texts() -> None:
    computed = {"warp", "warps_block", "waves_whole", "waves_part", "local", "parent"}
    known = {*metrics.table().metrics, *rocprof_compute.table()["formula"], *computed}
    for rule in rules.table().values():
        for text in (rule.when, rule.local, rule.whole, rule.low, *rule.shows):
            assert not text or formula.uses(text) <= known, f"{rule.name}: {formula.uses(text) - known}"
        assert rule.title
        assert rule.remedy
        assert rule.source
        assert rule.link.startswith("https://")
        assert not rule.parent or rule.parent in rules.table()
        assert "{" not in rule.title + rule.remedy + rule.when


def test_every_name_of_a_profiler_leads_to_one_metric() -> None:
    table = metrics.table()
    for one in table.metrics.values():
        for name in one.ncu:
            assert table.by_name[name].name == one.name
        assert one.unit in ("s", "B", "Hz", "B/s", "%", "")
        assert one.about


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * a", 7), ("a / b", None), ("a > 2 and not b", True), ("first(missing, a)", 3), ("known(missing)", False), ("known(a)", True),
        ("min(a, 1) - max(2, a)", -2), ("0 < a < 2", False), ("missing > 1", None), ("floor(a / 2)", 1), ("-a", -3),
    ],
)  # fmt: skip
def test_formula(text: str, value: float | None) -> None:
    assert formula.value(text, {"a": 3.0, "b": 0.0}) == value


@pytest.mark.parametrize("text", ["a +", "__import__('os')", "a.b", "a[0]", "'text'", "lambda: 1", "open(a)", "a ** 9", ""])
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        formula.value(text, {"a": 3.0})


# ---------------------------------------------------------------- how it is told


def printed(*found: CountedKernel, width: int = 100) -> str:
    profile = KernelProfile(path="some/gemm.ncu-rep", reader="ncu-rep", kernels=list(found))
    return kernels.text(profile, analysis.analyse(profile), width)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_report_of_a_kernel(width: int) -> None:
    said = printed(B200, width=width)
    assert max(map(len, said.splitlines())) <= width
    assert "5.3 % to 50 % (at most 203 µs)" in " ".join(said.split())
    assert "81 % of its part" in said
    assert "not to be added" in said
    plain = " ".join(said.split())
    assert "the profiler's own estimates: LaunchConfiguration 50 % (global), TheoreticalOccupancy 81 % (local)" in plain
    assert "occupancy limited by registers per thread and shared memory per block" in plain


def test_launches_of_one_kernel_stand_together_and_small_gains_are_counted_only() -> None:
    tail = {"waves": 99.5, "compute_share": 0.9, "memory_share": 0.3}
    many = [CountedKernel(place=n, name="void f<int>(float *, int, int, int, int, int)", grid=(4, 1, 1), duration_s=1e-6 * (n + 1), metrics=tail) for n in range(3)]
    said = printed(*many, CountedKernel(place=3, name="g", duration_s=1e-3))
    lines = said.splitlines()
    assert lines[3].startswith("g ")
    assert lines[4].split()[:6] == ["void", "f<int>(…)", "3", "6.00", "µs", "0.60"]
    assert "launch 3, the longest of 3: 3.00 µs" in said
    assert "1 finding under 2 % not shown" in said
    assert "collect them" in said  # of g, which has no metrics


def test_a_name_cannot_touch_the_terminal() -> None:
    assert "\x1b" not in printed(CountedKernel(place=0, name="\x1b[2Jevil", device="\x07", metrics={}))


@shared
def test_real_kernels_are_bound_by_what_nsight_compute_says() -> None:
    found = analysis.analyse(counters.read(TRACES / "ncu" / "manual_nvtx.ncu-rep"))
    assert [one.bound.kind for one in found] == ["memory"] * 3  # its rule: over 80 % of the available memory performance
    assert {one.bound.level for one in found} == {"DRAM"}
    for one in found:
        assert one.occupancy is not None
        assert one.occupancy.share == one.kernel.metrics["occupancy_theoretical"]
        limits = {name: one.kernel.others[f"launch__occupancy_limit_{name}"][0] for name in ("warps", "registers", "shared_mem", "blocks")}
        assert list(one.occupancy.limits.values()) == list(limits.values())
        assert not one.errors
    assert "stall:drain" in {hint.rule for hint in found[0].hints}
    assert "stall:long_scoreboard" in {hint.rule for hint in found[1].hints}
    (small,) = analysis.analyse(counters.read(TRACES / "ncu" / "CuVectorAddDrv.ncu-rep"))
    assert small.bound.kind == "small grid"  # its rule: only 0.7 full waves


def test_every_rule_is_listed_with_what_to_do(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    assert main(["trace", "show", "--rules"]) == 0
    rows = [re.split(r"   *", line.strip()) for line in capsys.readouterr().out.splitlines()]
    assert rows == [[one.name, f"{one.title} → {one.remedy} [{one.when}]"] for one in rules.table().values()]
    raw = tomllib.loads(Path(rules.__file__).with_name("rules.toml").read_text(encoding="utf-8"))["rule"]
    assert list(dict.fromkeys(name.partition(":")[0] for name, *_ in rows)) == list(raw)
