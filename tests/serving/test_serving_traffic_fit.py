"""What is fitted to a trace: the truth of traffic that was drawn from a law, and sums over blocks that can be done by hand."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from hotlap.serving import traffic, traffic_fit, traffic_scale
from hotlap.serving.traffic import TrafficTrace

SHARED = Path(os.environ.get("HOTLAP_SHARED", "")) / "data" / "serving"
recorded = pytest.mark.skipif(not os.environ.get("HOTLAP_SHARED") or not SHARED.is_dir(), reason="the public traces are not here: $HOTLAP_SHARED/data/serving")


def drawn(rate: float, shape: float, n: int, seed: int = 0) -> TrafficTrace:
    """Gamma intervals, lognormal lengths."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.gamma(shape, 1 / (rate * shape), n))
    asked, wanted = (np.maximum(rng.lognormal(mean, 0.5, n), 1).astype(np.int64) for mean in (7.0, 5.0))
    return TrafficTrace("drawn", "Mooncake", times - times[0], asked, wanted)


def of_blocks(*rows: tuple[int, tuple[int, ...]]) -> TrafficTrace:
    tokens = np.array([tokens for tokens, _ in rows])
    return TrafficTrace("own", "Mooncake", np.arange(len(rows), dtype=float), tokens, np.ones_like(tokens), tuple(ids for _, ids in rows))


@pytest.mark.parametrize("shape", [0.25, 1.0, 4.0])
def test_the_interval_of_burstiness_holds_the_law_it_was_drawn_from(shape: float) -> None:
    truth = 1 / math.sqrt(shape)
    held = 0
    for seed in range(40):
        known = traffic_fit.fit(drawn(8.0, shape, 2000, seed)).arrivals
        assert known is not None
        assert known.burstiness is not None
        assert known.burstiness.low is not None
        assert known.burstiness.high is not None
        assert known.burstiness.basis == "intervals"
        held += known.burstiness.low <= truth <= known.burstiness.high
    assert held >= 33  # of 40, where 95 % are meant: fewer than that in 1 of 1,000


def test_a_good_law_fits_and_another_does_not() -> None:
    regular, bursts, poisson = (traffic_fit.fit(drawn(8.0, shape, 4000, 3)).arrivals for shape in (4.0, 0.25, 1.0))
    for known in (regular, bursts, poisson):
        assert known is not None
        assert known.burstiness is not None
        assert known.burstiness.gamma_distance is not None
        assert known.burstiness.gamma_distance < 0.04
        assert known.burstiness.gamma_fits
    assert [known.burstiness.poisson for known in (regular, bursts, poisson) if known and known.burstiness] == [False, False, True]
    clumps = np.sort(np.concatenate([np.arange(0, 400, 10.0) + 1e-3 * k for k in range(40)]))  # 40 requests at once every 10 s
    trace = TrafficTrace("clumps", "Azure", clumps - clumps[0], np.full(1600, 5), np.full(1600, 5))
    known = traffic_fit.fit(trace).arrivals
    assert known is not None
    assert known.burstiness is not None
    assert known.burstiness.gamma_distance is not None
    assert known.burstiness.gamma_distance > 0.5
    assert known.burstiness.gamma_fits is False


def test_the_gamma_distribution_has_its_closed_forms() -> None:
    x = np.array([0.0, 1e-6, 0.1, 1.0, 2.0, 3.0, 10.0, 50.0])
    assert traffic_fit.gamma_cdf(1.0, x) == pytest.approx(1 - np.exp(-x), abs=1e-12)
    assert traffic_fit.gamma_cdf(2.0, x) == pytest.approx(1 - (1 + x) * np.exp(-x), abs=1e-12)
    assert traffic_fit.gamma_cdf(0.5, x) == pytest.approx([math.erf(math.sqrt(value)) for value in x], abs=1e-12)


def test_a_change_of_the_rate_is_found_and_is_no_burst() -> None:
    slow, fast = drawn(4.0, 1.0, 2000, 1), drawn(12.0, 1.0, 6000, 2)
    assert slow.times_s is not None
    assert fast.times_s is not None
    turn = float(slow.times_s[-1])
    both = TrafficTrace(
        "both", "Azure", np.concatenate([slow.times_s, turn + 0.1 + fast.times_s]), np.concatenate([slow.input_tokens, fast.input_tokens]),
        np.concatenate([slow.output_tokens, fast.output_tokens]),
    )  # fmt: skip
    known = traffic_fit.fit(both).arrivals
    assert known is not None
    assert known.burstiness is not None
    first, second = known.stretches
    assert first.end_s == second.start_s == pytest.approx(turn, rel=0.02)
    assert (first.rate_hz, second.rate_hz) == (pytest.approx(4.0, rel=0.1), pytest.approx(12.0, rel=0.1))
    assert second.ratio == pytest.approx(3.0, rel=0.15)
    assert second.low is not None
    assert second.high is not None
    assert second.low < 3.0 * 1.05
    assert second.high > 3.0 / 1.05
    assert first.requests + second.requests == 8000
    assert known.burstiness.cv == pytest.approx(1.0, abs=0.06)
    assert known.rate_hz == pytest.approx(7999 / known.seconds)
    whole = np.diff(both.times_s)
    assert whole.std() / whole.mean() > 1.1  # which a rate that changes alone makes of Poisson arrivals


def test_of_a_clock_that_ticks_the_counts_are_taken() -> None:
    trace = drawn(4.0, 1.0, 6000, 5)
    assert trace.times_s is not None
    ticking = TrafficTrace(trace.name, "Mooncake", np.floor(trace.times_s / 3) * 3, trace.input_tokens, trace.output_tokens)
    known = traffic_fit.fit(ticking).arrivals
    assert known is not None
    assert known.burstiness is not None
    assert (known.tick_s, known.burstiness.basis, known.burstiness.gamma_distance, known.burstiness.poisson) == (3.0, "counts", None, None)
    assert known.burstiness.low is not None
    assert known.burstiness.high is not None
    assert known.burstiness.low < 1.0 < known.burstiness.high
    assert known.bin_s % 3.0 == 0
    gaps = np.diff(ticking.times_s)
    assert gaps.std() / gaps.mean() > 3  # what the intervals would have it be


def test_equal_intervals_have_no_shape_and_few_requests_no_interval() -> None:
    even = TrafficTrace("even", "Azure", np.arange(200) / 4, np.full(200, 7), np.full(200, 3))
    known = traffic_fit.fit(even)
    assert known.arrivals is not None
    assert known.arrivals.burstiness is not None
    assert (known.arrivals.burstiness.shape, known.arrivals.burstiness.cv) == (None, pytest.approx(0.0, abs=1e-9))
    assert (known.input.log_sd, known.input.lognormal) == (pytest.approx(0.0, abs=1e-12), None)
    few = traffic_fit.fit(drawn(4.0, 1.0, 12)).arrivals
    assert few is not None
    assert few.burstiness is None
    assert traffic_fit.fit(drawn(4.0, 1.0, 1)).arrivals is None


def test_lengths_of_a_lognormal_are_not_refuted_and_those_of_two_heaps_are() -> None:
    rng = np.random.default_rng(11)
    smooth = traffic_fit.lengths(np.round(rng.lognormal(8.0, 0.7, 3000)).astype(np.int64))
    assert (smooth.log_mean, smooth.log_sd) == (pytest.approx(8.0, abs=0.05), pytest.approx(0.7, abs=0.03))
    assert smooth.lognormal is True
    assert smooth.limit == pytest.approx(0.895 / math.sqrt(3000), rel=0.01)
    heaps = traffic_fit.lengths(np.repeat([100, 4000], 500))
    assert heaps.lognormal is False
    assert heaps.distance == pytest.approx(0.5 * math.erfc(-1 / math.sqrt(2)) - 0.5, abs=1e-9)  # each heap stands one σ from the mean
    assert heaps.quantiles == {"min": 100, "p10": 100, "p50": 2050, "p90": 4000, "p99": 4000, "max": 4000}


def test_a_prefix_counts_from_the_beginning_and_the_last_block_in_part() -> None:
    known = traffic_fit.sharing(of_blocks((1100, (1, 2, 3)), (1100, (1, 2, 3)), (1024, (1, 9)), (600, (8, 2)), (512, ())))
    assert known.cached_tokens == 1100 + 512  # the third begins with block 1; the fourth knows block 2, but not what stands before it
    assert known.distinct_tokens == 1100 + 512 + 512  # blocks 1, 2 and the 76 tokens of 3; 9; 8
    assert (known.requests, known.commonest, known.input_tokens) == (2, 0.6, 4336)
    assert known.share == 1612 / 4336


# ---------------------------------------------------------------- scaling


def cv(trace: TrafficTrace) -> float:
    assert trace.times_s is not None
    gaps = np.diff(trace.times_s)
    return float(gaps.std() / gaps.mean())


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 3.7])
def test_dividing_times_keeps_every_request_and_the_cv_to_the_digit(factor: float) -> None:
    trace = drawn(8.0, 0.25, 3000)
    fast = traffic_scale.scaled(trace, factor)
    assert trace.times_s is not None
    assert fast.times_s is not None
    assert cv(fast) == pytest.approx(cv(trace), rel=1e-12)
    assert fast.times_s[-1] == pytest.approx(trace.times_s[-1] / factor)
    assert np.array_equal(fast.input_tokens, trace.input_tokens)


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 3.7])
def test_thinning_and_merging_keep_duration_and_bursts(factor: float) -> None:
    trace = drawn(8.0, 0.25, 8000)
    other = traffic_scale.scaled(trace, factor, "requests", seed=4)
    assert trace.times_s is not None
    assert other.times_s is not None
    assert len(other.input_tokens) == pytest.approx(8000 * factor, abs=2)
    assert other.times_s[-1] == pytest.approx(trace.times_s[-1], rel=0.01)
    assert np.all(np.diff(other.times_s) >= 0)
    assert cv(other) == pytest.approx(2.0, rel=0.1)
    rng = np.random.default_rng(0)
    if factor < 1:  # what is done elsewhere: each request kept or not, which leaves 1 + p (CV² − 1)
        plain = cv(TrafficTrace("x", "Azure", trace.times_s[rng.random(8000) < factor], trace.input_tokens, trace.output_tokens))
        assert plain == pytest.approx(math.sqrt(1 + factor * 3), rel=0.1)
        assert plain < 1.75


def test_scaled_requests_take_as_long_as_those_that_there_were_and_none_are_made_to_coincide() -> None:
    few = TrafficTrace("few", "Azure", np.array([0.0, 0.4, 1.0, 1.3]), np.arange(4) + 1, np.arange(4) + 1)
    for seed in range(20):
        for factor in (0.5, 2.0, 3.0):
            times = traffic_scale.scaled(few, factor, "requests", seed).times_s
            assert times is not None
            assert times[-1] == pytest.approx(1.3)
            assert len(set(times.round(9).tolist())) == len(times)
            assert len(times) - 1 == pytest.approx(3 * factor, abs=0.5)  # the rate is of intervals, of which a trace has one fewer


def test_the_course_of_the_rate_stays_where_requests_are_scaled() -> None:
    slow, fast = drawn(4.0, 1.0, 2000, 1), drawn(12.0, 1.0, 6000, 2)
    assert slow.times_s is not None
    assert fast.times_s is not None
    turn = float(slow.times_s[-1])
    times = np.concatenate([slow.times_s, turn + 0.1 + fast.times_s])
    tokens = np.concatenate([slow.input_tokens, fast.input_tokens])
    halved = traffic_scale.scaled(TrafficTrace("both", "Azure", times, tokens, tokens), 0.5, "requests", seed=1)
    assert halved.times_s is not None
    before = np.count_nonzero(halved.times_s < turn)
    assert before / turn == pytest.approx(2.0, rel=0.1)
    assert (len(halved.times_s) - before) / (halved.times_s[-1] - turn) == pytest.approx(6.0, rel=0.1)


def test_the_same_seed_gives_the_same_trace_and_another_another() -> None:
    trace = drawn(8.0, 0.5, 500)
    first, again, other = (traffic_scale.lines(traffic_scale.scaled(trace, 0.5, "requests", seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_copies_of_a_request_share_no_prefix_with_it_but_among_their_own() -> None:
    rows = [(512 * 3, (0, 1, 10 + at)) for at in range(40)]
    twice = traffic_scale.scaled(of_blocks(*rows), 2.0, "requests")
    assert len(twice.prefix) == 79  # twice the 39 intervals
    assert len(set(twice.prefix)) == 79  # no id of a last block comes twice
    assert {ids[:2] for ids in twice.prefix} == {(0, 1), (50, 51)}
    assert traffic_fit.sharing(twice).cached_tokens == 2 * traffic_fit.sharing(of_blocks(*rows)).cached_tokens - 2 * 512


def test_what_is_written_is_read_again_to_a_tenth_of_a_microsecond(tmp_path: Path) -> None:
    trace = traffic_scale.scaled(of_blocks((600, (1, 2)), (512, (1,)), (1300, (1, 5, 6))), 3.0)
    (tmp_path / "x.jsonl").write_text(traffic_scale.lines(trace))
    again = traffic.read(tmp_path / "x.jsonl")
    assert trace.times_s is not None
    assert again.times_s is not None
    assert again.times_s.tolist() == pytest.approx(trace.times_s.tolist(), abs=1e-7)
    assert (again.prefix, again.input_tokens.tolist()) == (trace.prefix, trace.input_tokens.tolist())
    assert json.loads(traffic_scale.lines(trace).splitlines()[1]) == {"timestamp": 333.3333, "input_length": 512, "output_length": 1, "hash_ids": [1]}


@recorded
def test_what_the_public_traces_are_like() -> None:
    known = {name: traffic_fit.fit(traffic.read(SHARED / name)) for name in (
        "azure_llm_2023_code.csv", "azure_llm_2023_conv_first_half.csv", "mooncake_conversation.jsonl.gz", "mooncake_synthetic.jsonl.gz",
    )}  # fmt: skip
    code, conversation, mooncake, synthetic = (one.arrivals for one in known.values())
    assert code
    assert conversation
    assert mooncake
    assert synthetic
    assert [one.burstiness.basis for one in (code, conversation, mooncake, synthetic) if one.burstiness] == ["intervals", "intervals", "counts", "intervals"]
    assert mooncake.tick_s == pytest.approx(3.0, abs=0.002)
    assert code.burstiness
    assert code.burstiness.cv > 10  # on and off: no Gamma distribution is like it
    assert code.burstiness.gamma_distance
    assert code.burstiness.gamma_distance > 0.5
    assert synthetic.burstiness
    assert synthetic.burstiness.poisson is True
    assert len(conversation.stretches) > 1
    shared = known["mooncake_conversation.jsonl.gz"].sharing
    assert shared
    assert shared.share == pytest.approx(0.3736, abs=1e-4)
    assert known["azure_llm_2023_code.csv"].sharing is None
