"""Gaps: which limit a result is compared with, its share, and each cause by its name."""

from __future__ import annotations

from statistics import median

import pytest
from msgspec import structs

from hotlap.core import plan, work
from hotlap.core.model import causes, cpu, machines
from hotlap.core.model.gap import CAPPED, Context, ceilings, context, from_bound, gap, split
from hotlap.core.model.limits import limit
from hotlap.core.model.machines import Spec
from hotlap.core.model.predict import expected
from hotlap.core.model.simulate import expected_call_s
from hotlap.core.notice import GAP_NUMBERS
from hotlap.core.record import Case, Cpu, Gap, Limit, Notice, Readings, Result, Row, Samples, Summary, Verdict
from hotlap.core.show import conclusions, gaps, words

H200 = machines.load("h200-sxm")
HOST = cpu.spec(
    Cpu(
        name="AMD EPYC", vendor="AuthenticAMD", family=25, model=17, cores=2, flags=["avx2", "fma", "avx512f"],
        cache_bytes={"l1d": 32768, "l2": 2**20, "l3": 2**25},
    ),
    3.7e9,
)


def result(case: Case, seconds: float, clock_hz: float | None = None, notices: list[Notice] | None = None, passes: int = 1) -> Result:
    """Six rounds around `seconds` a call."""
    kind, times = work.find(case.workload), [seconds * f for f in (1.0, 0.999, 1.001, 1.0, 0.999, 1.001)]
    rounds = [
        Samples(case=case.id, device="d", round=i, values=[t], clocks_hz=[clock_hz] if clock_hz else [], passes=passes, began_s=i, ended_s=i + 0.5)
        for i, t in enumerate(times)
    ]
    return Result(
        case=case, device="d", target="t", status="measured", metric=kind.metric, unit=kind.unit, better=kind.better,
        values=[kind.value(t, case.params) for t in times], seconds=times, rounds=rounds, notices=notices or [],
    )


def case(workload: str, **params: object) -> Case:
    return plan.case(workload, params)


def judge(one: Result, spec: Spec | None = H200, others: list[Result] | None = None, readings: list[Readings] | None = None) -> Gap:
    found = context([one, *(others or [])], spec, readings or [])
    seen = gap(one, Summary(rounds=6, median=median(one.values)), limit(one.case, spec), found)
    assert set(seen.numbers) <= set(GAP_NUMBERS)
    return seen


def why(seen: Gap) -> str:
    """In words, of what does not lie in the workload itself."""
    return gaps.brief(case("fma"), seen)


def slowed(asked: Case, efficiency: float, **more: object) -> Result:
    return result(asked, expected_call_s(asked, H200) / efficiency, **more)  # type: ignore[arg-type]


BIG = {
    "stream": {"size": "1 GiB"}, "fma": {"operations": 10**11}, "gemm": {"dtype": "bf16", "m": 8192, "n": 8192, "k": 8192},
    "transfer": {"size": "1 GiB"}, "intensity": {"size": "4 GiB", "fmas": 256},
}


@pytest.mark.parametrize("workload", BIG)
@pytest.mark.parametrize("efficiency", [1.0, 0.95, 0.73])
def test_a_known_efficiency_is_found_again(workload: str, efficiency: float) -> None:
    seen = judge(slowed(case(workload, **BIG[workload]), efficiency))
    assert seen.reference_kind == "bound"
    assert seen.share == pytest.approx(efficiency, rel=0.002)
    cause = {"stream": "bandwidth", "transfer": "bandwidth"}.get(workload, "arithmetic")
    assert seen.cause == ("at_limit" if efficiency >= 0.9 else cause)
    assert f"{100 * efficiency:.0f} % of the bound" in why(seen)


def test_others_are_the_cause_where_the_best_round_of_a_case_took_half_the_time_of_the_middle_one() -> None:
    """Not the cache that the working set lies in; with quiet rounds, or where nobody else was noticed, it is the cache."""
    small = case("stream", size="8 MiB")
    busy = [Notice("steal", "others ran during 3 of 6 rounds")]
    quiet = result(small, 0.002, notices=busy)
    assert judge(quiet, HOST).cause == "cache"
    times = [*quiet.seconds[:5], quiet.seconds[5] / 2]
    uneven = structs.replace(quiet, seconds=times)
    found = judge(uneven, HOST)
    assert (found.cause, found.basis) == ("shared", "slowed")
    assert "other programs ran meanwhile: the fastest round took" in why(found)
    assert judge(structs.replace(uneven, notices=[]), HOST).cause == "cache"


def test_the_limit_is_given_in_the_metric_s_unit() -> None:
    seen = judge(slowed(case("fma"), 0.8))
    assert seen.limit_value == pytest.approx(66.9e12, rel=1e-3)


# ---------------------------------------------------------------- what it is compared with


def test_a_bound_comes_before_a_ceiling_even_where_the_run_was_better() -> None:
    best, worse = slowed(case("gemm", dtype="bf16"), 0.8), slowed(case("gemm", dtype="bf16", m=2048), 0.5)
    seen = judge(worse, others=[best])
    assert (seen.reference_kind, seen.share) == ("bound", pytest.approx(0.5, rel=0.002))


def test_without_a_bound_the_other_cases_of_the_run_give_a_ceiling() -> None:
    fast, slow = result(case("stream", op="copy", size="1 GiB"), 2**30 / 29e9), result(case("stream", op="write", size="1 GiB"), 2**30 / 14e9)
    seen = judge(slow, HOST, [fast])
    assert (seen.reference_kind, seen.cause) == ("ceiling", "unknown")
    assert seen.share == pytest.approx(14 / 29, rel=0.01)
    assert seen.limit_value == pytest.approx(29e9, rel=0.01)
    assert "of the run's best" in why(seen)
    assert judge(fast, HOST, [slow]).cause == "bandwidth", "the run's own best is no limit"


def test_a_case_alone_is_no_ceiling_for_itself() -> None:
    seen = judge(result(case("stream", size="1 GiB"), 2**30 / 29e9), HOST)
    assert (seen.reference_kind, seen.share, seen.limit_value) == ("unknown", None, None)
    assert "no published memory bandwidth" in why(seen)


def test_a_bound_without_memory_yields_to_the_memory_ceiling_of_the_run() -> None:
    stream = result(case("stream", size="1 GiB"), 2**30 / 29e9)
    thin = result(case("intensity", fmas=4, size="256 MiB"), 2**28 / 28e9)
    seen = judge(thin, HOST, [stream])
    assert (seen.reference_kind, seen.cause) == ("ceiling", "bandwidth")
    assert seen.share == pytest.approx(28 / 29, rel=0.01)


def test_faster_than_the_bound_is_held_against_the_bound() -> None:
    stream = result(case("stream", size="1 GiB"), 2**30 / 29e9)
    asked = case("intensity", fmas=4, size="256 MiB")
    wrong = result(asked, limit(asked, HOST).bound_s / 2)
    seen = judge(wrong, HOST, [stream])
    assert (seen.reference_kind, seen.share) == ("bound", pytest.approx(2.0))


def test_an_expectation_is_used_where_there_is_no_bound() -> None:
    b60 = machines.load("arc-pro-b60")
    asked = case("gemm", dtype="bf16", m=8192, n=8192, k=8192)
    seen = judge(result(asked, expected_call_s(asked, b60) / 0.95), b60)
    assert (seen.reference_kind, seen.cause) == ("expected", "at_limit")


def test_what_beats_the_whole_interval_of_an_expectation_is_not_at_a_limit() -> None:
    asked = case("pointwise", op="add", elements=3211264, dtype="bf16")
    expected = Limit(kind="expected", expected_s=7e-6, low_s=4e-6, high_s=1e-5)

    def seen(seconds: float) -> Row:
        one = result(asked, seconds)
        summary = Summary(rounds=6, median=median(one.values))
        found = gap(one, summary, expected, context([one], H200, []))
        return Row(case=asked, device="d", label="", result=one, summary=summary, gap=found, verdict=Verdict(state="measured"))

    assert seen(4.1e-6).gap.cause == "at_limit"
    beyond = seen(3.9e-6)
    assert beyond.gap.cause == "unknown"
    assert "()" not in gaps.detail(beyond)
    assert words.headroom(beyond.gap) == "faster than expected"
    assert words.setter(beyond) == ""
    assert words.why(beyond).startswith("faster than the whole interval")


def test_rounded_operations_do_not_move_the_share() -> None:
    """Work-loads may do a little more than the case's operations in a call; the rate is what is compared."""
    asked = case("fma")
    exact = slowed(asked, 0.8)
    longer = result(asked, 1.0)
    rounded = Result(**{f: getattr(exact, f) for f in exact.__struct_fields__ if f != "seconds"}, seconds=[t * 1.3 for t in exact.seconds])
    assert judge(rounded).share == judge(exact).share
    assert longer.seconds != rounded.seconds


def test_an_unknown_machine_has_no_share() -> None:
    seen = judge(result(case("fma"), 1e-4), None)
    assert (seen.reference_kind, seen.share, seen.cause) == ("unknown", None, "unknown")
    assert "not in the machine table" in why(seen)


@pytest.mark.parametrize("status", ["not_run", "invalid", "error"])
def test_what_was_not_measured_has_no_cause(status: str) -> None:
    one = Result(case=case("fma"), device="d", target="t", status=status, reason="why", seconds=[1.0], values=[1.0])  # type: ignore[arg-type]
    seen = gap(one, Summary(rounds=1, median=1.0), limit(one.case, H200), Context(H200))
    assert (seen.share, seen.cause, seen.basis) == (None, "", "")


def test_a_program_s_own_number_has_no_limit() -> None:
    asked = Case(workload="command", params={"argv": ["true"], "unit": "points"})
    one = Result(case=asked, device="d", target="t", status="measured", unit="points", values=[3.0] * 6)
    seen = gap(one, Summary(rounds=6, median=3.0), limit(asked, H200), Context(H200))
    assert (seen.reference_kind, seen.cause) == ("unknown", "unknown")


# ---------------------------------------------------------------- causes


def test_throttling_is_named_power() -> None:
    flag = Notice(code="throttled", seen="held back by software power cap")
    seen = judge(slowed(case("gemm", dtype="bf16"), 0.7, notices=[flag]))
    assert (seen.cause, "software power cap" in why(seen)) == ("power", True)


@pytest.mark.parametrize(("shares", "cause"), [
    ({"hardware thermal": 1.0}, "heat"), ({"hardware slowdown": 1.0, "hardware thermal": 0.9}, "heat"),
    ({"software thermal": 0.6, "software power cap": 0.4}, "heat"), ({"software power cap": 1.0, "software thermal": 0.2}, "power"),
    ({"hardware slowdown": 1.0}, "power"),
])  # fmt: skip
def test_what_temperature_held_for_longer_than_power_is_heat(shares: dict[str, float], cause: str) -> None:
    flag = Notice(code="throttled", seen="held back", shares=shares)
    assert judge(slowed(case("gemm", dtype="bf16"), 0.7, notices=[flag])).cause == cause
    assert conclusions.CAUSE_ACTIONS[cause]


def test_power_at_its_limit_with_a_low_clock_is_named_power() -> None:
    one = slowed(case("gemm", **BIG["gemm"]), 0.7, clock_hz=1.4e9)
    watts = [Readings(sensor="power_w", device="d", round=i, times_s=[i + 0.2], values=[698.0]) for i in range(6)]
    seen = judge(one, readings=watts)
    assert (seen.cause, "698 W of 700 W" in why(seen)) == ("power", True)
    outside = [Readings(sensor="power_w", device="d", round=i, times_s=[i + 0.9], values=[698.0]) for i in range(6)]
    assert judge(one, readings=outside).cause == "clock"


def test_a_low_clock_that_explains_the_gap_is_named() -> None:
    seen = judge(slowed(case("fma", operations=10**11), 0.7, clock_hz=0.72 * 1.98e9))
    assert seen.cause == "clock"
    assert "72 % of its highest, 1.98 GHz; at that clock it reaches 97 %" in why(seen)


def test_a_clock_of_90_percent_is_low_and_one_of_98_is_not() -> None:
    assert judge(slowed(case("fma", operations=10**11), 0.85, clock_hz=0.9 * 1.98e9)).cause == "clock"
    assert judge(slowed(case("fma", operations=10**11), 0.89, clock_hz=0.98 * 1.98e9)).cause != "clock"


def test_a_low_clock_does_not_explain_memory_nor_a_far_wider_gap() -> None:
    assert judge(slowed(case("stream", size="1 GiB"), 0.7, clock_hz=1.4e9)).cause == "bandwidth"
    assert judge(slowed(case("fma", operations=10**11), 0.3, clock_hz=0.9 * 1.98e9)).cause == "unknown"


def test_the_clock_of_readings_counts_where_samples_have_none() -> None:
    clocks = [Readings(sensor="clock_hz.sm", device="d", round=i, times_s=[i + 0.2], values=[1.4e9]) for i in range(6)]
    assert judge(slowed(case("fma", operations=10**11), 0.7), readings=clocks).cause == "clock"


@pytest.mark.parametrize(("workload", "params"), [("launch", {}), ("launch", {"mode": "graph"}), ("sync", {"kind": "event"})])
def test_launches_are_their_own_cause(workload: str, params: dict[str, object]) -> None:
    assert judge(slowed(case(workload, **params), 0.8)).cause == "launch"


@pytest.mark.parametrize(
    ("workload", "params", "words"),
    [
        ("chase", {"size": "1 GiB"}, "in memory"), ("chase", {"size": "8 MiB"}, "in L2"), ("atomic", {}, "one address"),
        ("atomic", {"contention": "spread"}, "memory system"), ("barrier", {}, "wait for one another"),
    ],
)
def test_waiting_is_named_latency(workload: str, params: dict[str, object], words: str) -> None:
    seen = judge(slowed(case(workload, **params), 0.8))
    assert (seen.cause, words in gaps.why(case(workload, **params), seen)) == ("latency", True)


def test_a_call_of_a_few_launches_is_launch_or_too_small() -> None:
    launch = result(case("launch", mode="stream"), 3e-6)
    tiny, small = case("gemm", dtype="bf16", m=512, n=512, k=512), case("gemm", dtype="bf16", m=2048, n=2048, k=512)
    assert judge(result(tiny, 6e-6), others=[launch]).cause == "launch"
    seen = judge(result(small, 10e-6), others=[launch])
    assert (seen.cause, "3.3 times a launch of 3.00 µs (measured in this run)" in why(seen)) == ("too_small", True)
    assert "assumed" in why(judge(result(small, 8e-6)))


def test_passes_that_share_a_launch_are_not_its_fault() -> None:
    launch = result(case("launch"), 24e-6)
    one = result(case("stream", op="read", size="32 KiB"), 32768 / 200e9, passes=8192)
    assert judge(one, HOST, [launch]).cause == "cache"


def test_too_few_tiles_leave_units_idle() -> None:
    long = case("gemm", dtype="bf16", m=512, n=512, k=65536)
    seen = judge(result(long, 1e-3))
    assert (seen.cause, "16 tiles of 128 × 128 for 132 units" in why(seen)) == ("too_small", True)


def test_a_working_set_about_the_size_of_a_cache_is_named_cache() -> None:
    seen = judge(result(case("stream", size="80 MiB"), 30e-6))
    assert (seen.cause, "only partly stays in L2, 50 MiB" in why(seen)) == ("cache", True)


def test_memory_at_its_measured_rate_explains_a_thin_product() -> None:
    stream = result(case("stream", size="1 GiB"), 2**30 / 29e9)
    thin = case("gemm", m=1, n=8192, k=8192)
    seen = judge(result(thin, 4 * 8192 * 8192 / 26e9), HOST, [stream])
    assert (seen.cause, seen.reference_kind) == ("bandwidth", "ceiling")
    assert seen.share == pytest.approx(26 / 29, rel=0.01)
    mixed = case("gemm", m=1, n=4096, k=4096)  # 64 MiB beside 32 MiB of cache: no ceiling, but the cause is clear
    seen = judge(result(mixed, 4 * 4096 * 4096 / 26e9), HOST, [stream])
    assert (seen.cause, seen.reference_kind) == ("bandwidth", "bound")
    assert "memory traffic at the device's best median rate in this run, 29.0 GB/s, takes 90 % of the time" in why(seen)


def test_rounds_that_are_left_out_for_what_ran_beside_them_are_no_cause() -> None:
    """Four of six rounds were disturbed. Those that were used give the number and its cause; where all were, it is shared."""
    stream = result(case("stream", op="copy", size="1 GiB"), 2**30 / 36e9)
    one = result(case("intensity", fmas=4, size="128 MiB"), 2**27 / 35.6e9)
    marked = [structs.replace(r, notices=[Notice("shared_device", "others ran")]) if r.round < 4 else r for r in one.rounds]
    used = structs.replace(one, rounds=marked, left_out=[0, 1, 2, 3])
    assert judge(used, HOST, [stream]).cause == "bandwidth"
    assert judge(structs.replace(one, rounds=marked), HOST, [stream]).cause == "shared"


def test_a_bound_without_memory_says_so_where_no_other_case_shows_what_memory_can_do() -> None:
    """The same number alone, and beside a stream that shows memory to be its limit."""
    one = result(case("intensity", fmas=4, size="128 MiB"), 2**27 / 35.6e9)
    alone, beside = judge(one, HOST), judge(one, HOST, [result(case("stream", op="copy", size="1 GiB"), 2**30 / 36e9)])
    assert (alone.reference_kind, alone.cause, alone.basis) == ("bound", "unknown", "memory_left_out")
    assert "the bound leaves out the time of memory, of which the case moved 35.6 GB/s" in why(alone)
    assert words.headroom(alone) == "the bound leaves out the time of memory: how much can be won is open"
    assert (beside.reference_kind, beside.cause) == ("ceiling", "bandwidth")
    product = judge(result(case("gemm", dtype="fp32", m=4096, n=4096, k=4096), 2 * 4096**3 / 100e9), HOST)
    assert (product.basis, "headroom" in words.headroom(product)) == ("unexplained", True)  # no memory is that slow


def test_memory_and_arithmetic_one_after_the_other_are_expected_and_never_a_bound() -> None:
    stream = result(case("stream", size="1 GiB"), work.find("stream").work(case("stream", size="1 GiB").params).memory_bytes / 53.1e9)
    mixed = case("intensity", size="128 MiB", fmas=64)
    asked, bound = work.find("intensity").work(mixed.params), float(limit(mixed, HOST).bound_s or 0)
    memory_s, arithmetic_s = asked.memory_bytes / 53.1e9, 1.05 * bound
    chains = case("fma", dtype="fp32", operations=10**11)
    fma = result(chains, arithmetic_s * work.find("fma").work(chains.params).total_operations / asked.total_operations)
    measured_s = 1.2 * (memory_s + arithmetic_s)
    alone, seen = (judge(result(mixed, measured_s), HOST, others) for others in ([stream], [stream, fma]))
    assert alone.basis != "no_overlap"  # the run knows one of the rates alone
    assert (seen.cause, seen.basis, seen.reference_kind) == ("overlap", "no_overlap", "bound")
    assert seen.limit
    assert seen.limit.bound_s == bound
    assert [seen.numbers[name] for name in ("memory_s", "arithmetic_s")] == pytest.approx([memory_s, arithmetic_s], rel=0.01)
    assert seen.split[causes.APART] == pytest.approx(min(memory_s, arithmetic_s), rel=0.01)
    assert "memory and arithmetic do not overlap: 134 MB at 53.1 GB/s take 2.53 ms" in why(seen)


def test_a_clock_below_the_expected_one_is_counted_where_a_model_knows_the_kernel() -> None:
    asked = case("gemm", dtype="bf16", m=8192, n=8192, k=8192)
    known = expected(asked, H200, limit(asked, H200))
    assert known.clock_hz
    slow = split(1.3 * known.expected_s, known, 0.75 * known.clock_hz)
    assert slow["clock below the one expected"] > 0.2 * known.expected_s
    assert sum(slow.values()) == pytest.approx(1.3 * known.expected_s - known.bound_s)
    assert slow["unexplained"] < 0.1 * known.expected_s
    assert "clock below the one expected" not in split(1.3 * known.expected_s, known, known.clock_hz)
    assert split(known.expected_s, known, 0.75 * known.clock_hz)["unexplained"] == pytest.approx(0.0)  # no slower than expected


def test_a_power_cap_that_the_clock_did_not_show_takes_nothing() -> None:
    """At the highest clock no time went to a lower one; between the two, a part of it."""
    asked = case("gemm", dtype="bf16", m=8192, n=8192, k=8192)
    known = expected(asked, H200, limit(asked, H200))
    assert known.clock_hz
    assert H200.clock_max_hz
    slow_s, capped_s = 1.3 * known.expected_s, known.parts[CAPPED]
    highest = split(slow_s, known, H200.clock_max_hz, H200.clock_max_hz)
    assert capped_s > 0.01 * known.expected_s
    assert CAPPED not in highest
    assert highest["unexplained"] == pytest.approx(slow_s - known.expected_s + capped_s)
    assert sum(highest.values()) == pytest.approx(slow_s - known.bound_s)
    between = split(slow_s, known, (known.clock_hz + H200.clock_max_hz) / 2, H200.clock_max_hz)
    assert 0.3 * capped_s < between[CAPPED] < 0.6 * capped_s
    assert split(slow_s, known, known.clock_hz, H200.clock_max_hz)[CAPPED] == capped_s
    assert split(0.99 * known.expected_s, known, H200.clock_max_hz, H200.clock_max_hz)[CAPPED] == capped_s  # as expected


def test_random_gathers_are_latency() -> None:
    stream = result(case("stream", size="1 GiB"), 2**30 / 29e9)
    gather = case("gather", size="1 GiB")
    seen = judge(result(gather, work.find("gather").work(gather.params).memory_bytes / 9e9), HOST, [stream])
    assert seen.cause == "latency"


# ---------------------------------------------------------------- ceilings and context


def test_ceilings_are_the_best_of_each_resource() -> None:
    found = ceilings(
        [
            result(case("stream", op="copy", size="1 GiB"), 2**30 / 27e9), result(case("stream", op="triad", size="1 GiB"), 2**30 / 29e9),
            result(case("stream", op="read", size="512 KiB"), 2**19 / 200e9), result(case("fma"), 4e9 / 2.2e11),
            result(case("transfer", size="64 MiB"), 2**26 / 10e9), result(case("launch"), 24e-6), result(case("launch", mode="graph"), 1e-6),
        ],
        HOST,
    )
    rounded = {key: float(f"{rate:.2g}") for key, rate in found.best.items()}
    assert rounded == {"bandwidth memory": 29e9, "bandwidth L2": 2e11, "compute fma.fp32": 2.2e11, "link h2d pinned": 1e10}
    assert found.launch_s == pytest.approx(24e-6, rel=0.01)


def test_what_failed_is_no_ceiling() -> None:
    bad = Result(case=case("fma"), device="d", target="t", status="invalid", values=[1e20], seconds=[1e-9])
    assert ceilings([bad], HOST).best == {}


def test_context_knows_the_clocks_seen() -> None:
    found = context([slowed(case("fma"), 0.9, clock_hz=1.5e9), slowed(case("gemm"), 0.9, clock_hz=2.0e9)], H200)
    assert (found.clocks_hz, found.clock_max_hz, found.power_limit_w) == ((1.5e9, 2.0e9), 2.0e9, 700)


def test_without_a_model_the_run_s_own_clock_launches_and_waits_split_the_gap() -> None:
    asked = case("fma", dtype="fp32", operations=4 * 10**9)
    bound = float(limit(asked, HOST).bound_s or 0)
    waits = [Readings(sensor="pressure", device="host", times_s=[n + 0.2], values=[0.1], round=n) for n in range(6)]
    found = judge(result(asked, 1.6 * bound, clock_hz=0.8 * 3.7e9), HOST, [result(case("launch"), 1e-3 * bound)], waits)
    assert found.split["clock below its highest"] == pytest.approx(0.25 * bound)
    assert found.split["waiting for a core, at most"] == pytest.approx(0.16 * bound)
    assert found.split[causes.LAUNCHED] == pytest.approx(1e-3 * bound)
    assert sum(found.split.values()) == pytest.approx(0.6 * bound)
    assert found.split["unexplained"] == pytest.approx(0.189 * bound)


def test_waiting_counts_before_the_best_rate_of_cases_that_may_have_waited_too() -> None:
    asked = case("fma", dtype="fp32", operations=4 * 10**9)
    bound = float(limit(asked, HOST).bound_s or 0)
    other = case("intensity", fmas=64)
    waits = [Readings(sensor="pressure", device="host", times_s=[n + 0.2], values=[1.0], round=n) for n in range(6)]
    found = judge(result(asked, 2 * bound), HOST, [result(other, 1.9 * float(limit(other, HOST).bound_s or 0))], waits)
    assert found.split == {"waiting for a core, at most": pytest.approx(bound), "unexplained": pytest.approx(0.0, abs=1e-9)}


def test_nothing_is_split_at_the_bound_nor_where_nothing_is_known() -> None:
    asked = case("fma", dtype="fp32", operations=4 * 10**9)
    bound = float(limit(asked, HOST).bound_s or 0)
    assert judge(result(asked, 1.005 * bound), HOST).split == {}
    assert judge(result(asked, 2.0 * bound), HOST).split == {}  # no clock, no launch, no wait


def test_what_the_run_s_best_rate_takes_beyond_the_bound_is_explained() -> None:
    """A stream of 1 GiB reaches 4.2 TB/s; at that rate the 134 MB of this case take 32 µs, and the bound lets 52 MB of them stay in L2."""
    stream, asked = case("stream", op="copy", size="1 GiB"), case("intensity", fmas=1, size="128 MiB")
    best = result(stream, 2**30 / 4.2e12)
    at_best_s = 2**27 / 4.2e12
    seen = judge(result(asked, at_best_s / 0.83), others=[best])
    assert (seen.cause, seen.names["resource"]) == ("bandwidth", "bandwidth memory")
    assert seen.split[causes.PACED] == pytest.approx(at_best_s - seen.limit.bound_s, rel=0.01)  # type: ignore[union-attr,operator]
    assert sum(seen.split.values()) == pytest.approx(at_best_s / 0.83 - seen.limit.bound_s)  # type: ignore[union-attr,operator]
    assert seen.split["unexplained"] < 0.4 * sum(seen.split.values())
    assert seen.names["best_case"] == "stream copy fp32 1 GiB"


def test_a_case_that_is_itself_the_best_of_its_run_is_not_explained_by_that_rate() -> None:
    stream, asked = case("stream", op="copy", size="1 GiB"), case("intensity", fmas=1, size="128 MiB")
    moved_s = 2**27 / 4.2e12
    seen = judge(result(asked, moved_s), others=[result(stream, 2**30 / 4.1e12)])
    assert causes.PACED not in seen.split
    assert "best_case" not in seen.names


@pytest.mark.parametrize("asked", [
    case("attention", query=1, kv=32768, batch=64, heads=64, kv_heads=8), case("attention", query=1, kv=8192, batch=32, heads=64, kv_heads=8),
    case("gemm", m=256, n=8192, k=8192, dtype="bf16"), case("gemm", m=16, n=4096, k=4096, dtype="fp8"), case("moe", tokens=1024),
])  # fmt: skip
def test_no_part_takes_less_than_the_bound_that_it_sets(asked: Case) -> None:
    """A model divides the time in which parts overlap, so that the longest of them would have less than it takes alone."""
    found = expected(asked, H200, limit(asked, H200))
    parts, own = from_bound(found.parts, found)
    assert found.parts[own] < found.bound_s  # type: ignore[operator]
    assert parts[own] == pytest.approx(found.bound_s)
    assert sum(parts.values()) == pytest.approx(sum(found.parts.values()))
    assert parts["launch"] == found.parts["launch"]
    assert all(value >= 0 for value in split(1.1 * found.expected_s, found).values())  # type: ignore[operator]
