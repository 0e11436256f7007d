"""Quantiles, shares, attainment and the client's verdict, against closed forms and published numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from hotlap.core import objectives
from hotlap.core.errors import InputError
from hotlap.core.record import Machine, Plan, RunRecord
from hotlap.serving import arrivals, quantiles, steady, summary, verdict
from hotlap.serving.reading import ServingRun
from hotlap.serving.record import ClientState, Request, Served, ServingAsked
from hotlap.serving.summary import METRICS


def test_ranks_are_those_of_the_binomial_distribution() -> None:
    """Conover 3.2: of 71 requests none holds p99 from above, of 1,000 the 985th and 997th do."""
    values = np.arange(1.0, 72.0)
    assert quantiles.quantile(values, 0.99).high is None
    assert quantiles._ranks(1000, 0.5) == (469, 532)
    low, high = quantiles._ranks(1000, 0.99)
    chances = [math.comb(1000, k) * 0.99**k * 0.01 ** (1000 - k) for k in range(1001)]
    assert sum(chances[:low]) <= 0.025 < sum(chances[: low + 1])
    assert sum(chances[:high]) >= 0.975 > sum(chances[: high - 1])


@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
def test_intervals_of_quantiles_hold_the_truth(p: float) -> None:
    random, held = np.random.default_rng(4), 0
    truth = -math.log(1 - p)
    for _ in range(400):
        found = quantiles.quantile(random.exponential(1.0, 1000), p)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    assert held >= 0.93 * 400


def test_neighbours_that_are_alike_count_as_fewer() -> None:
    random = np.random.default_rng(1)
    alone = random.random(3000) < 0.5
    assert quantiles.effective(alone) > 1000
    alike = np.repeat(random.random(60) < 0.5, 50)  # a queue: fifty in a row share their fate
    assert quantiles.effective(alike) < 200
    lone, together = quantiles.share(alone), quantiles.share(alike)
    assert lone is not None
    assert together is not None
    assert together[2] - together[1] > 3 * (lone[2] - lone[1])


def test_a_share_is_wilsons() -> None:
    """Newcombe, Stat. Med. 17, 1998, table I, method 3: 1 of 29 is 0.0061 to 0.1718, 0 of 20 to 0.1611."""
    assert quantiles.share([True] + [False] * 28) == pytest.approx((1 / 29, 0.0061, 0.1718), abs=1e-4)
    assert quantiles.share([False] * 20) == pytest.approx((0.0, 0.0, 0.1611), abs=1e-4)
    assert quantiles.share([]) is None


def test_cut_requests_are_counted_by_their_bound() -> None:
    """Kaplan and Meier's estimate for the remission times of Freireich et al. 1963 (6-MP): S(10) = 0.753, S(16) = 0.627, S(23) = 0.448."""
    times = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
    cut = [0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1]
    for share, time in ((0.24, 10), (0.37, 16), (0.5, 23), (0.55, 23)):
        assert quantiles.quantile(times, share, cut).value == time
    assert quantiles.quantile(times, 0.56, cut).value is None  # S never falls below 0.448
    found = quantiles.quantile(times, 0.5, cut)
    assert (found.low, found.high) == (13, None)  # as R's survfit gives it with conf.type = "log-log"


def test_without_cuts_kaplan_meier_is_the_order_statistic() -> None:
    values = np.random.default_rng(2).exponential(1.0, 200)
    none = np.zeros(200, bool)
    for p in (0.5, 0.9, 0.99):
        assert quantiles._kaplan_meier(values, none, p).value == quantiles.quantile(values, p).value


def request(index: int = 0, **more: Any) -> Request:
    given: dict[str, Any] = {
        "due_s": 1.0, "sent_s": 1.1, "headers_s": 1.15, "first_s": 1.2, "last_s": 1.5, "ended_s": 1.51, "output_tokens": 4, "chunks": 4, "stall_s": 0.2,
    }  # fmt: skip
    return Request(index=index, **{**given, **more})


@pytest.mark.parametrize(
    ("limits", "more", "good"),
    [
        ("ttft<=250ms", {}, True), ("ttft<=150ms", {}, False), ("tpot<=101ms", {}, True), ("tpot<=99ms", {}, False), ("e2e<=0.5s", {}, False),
        ("stall<=0.2s", {}, True), ("ttft<=1s,tpot<=1ms", {}, False), ("tpot<=1ms", {"output_tokens": 1, "chunks": 1}, True),
        ("ttft<=1s", {"outcome": "refused"}, False), ("ttft<=1s", {"outcome": "timeout", "first_s": None}, False),
        ("e2e<=1s", {"outcome": "censored"}, None), ("e2e<=400ms", {"outcome": "censored"}, False),  # it took longer already
        ("ttft<=100ms", {"outcome": "censored"}, False), ("ttft<=100ms", {"outcome": "censored", "first_s": None}, False),
        ("ttft<=9s", {"outcome": "censored", "first_s": None}, None),
    ],
)  # fmt: skip
def test_a_request_is_good_when_it_meets_every_objective(limits: str, more: dict[str, Any], good: bool | None) -> None:
    assert summary.good(request(**more), objectives.parse(limits, METRICS)) is good


def test_objectives_are_printed_as_they_are_read() -> None:
    limits = objectives.parse(" TTFT <= 450 ms , tpot<40ms,", METRICS)
    assert objectives.show(limits) == "ttft<=450ms,tpot<=40ms"
    assert objectives.parse(objectives.show(limits), METRICS) == limits
    for text, says in (("", "has no objective"), ("450ms", "is not known"), ("ttft", "has an upper limit"), ("ttft<=0s", "above 0"), ("ttfb<=1s", "'ttft'")):
        with pytest.raises(InputError, match=says):
            objectives.parse(text, METRICS)


def run_of(requests: list[Request], client: ClientState | None, **asked: Any) -> ServingRun:
    given = ServingAsked(url="http://127.0.0.1:1", model="tiny", arrivals="poisson:8", seed=1, input_tokens=8, output_tokens=4)
    record = RunRecord(id="r", kind="serving", began="", hotlap="", plan=Plan(name="tiny"), machine=Machine(host="h"), target="host", devices=[])
    return ServingRun(record, Served(asked=replace(given, **asked), client=client), requests, {}, {}, [])


SOUND = ClientState(wall_s=10.0, cpu_s=0.5, run_delay_s=0.01, tick_lags_s=[1e-4, 2e-4, 5e-4, 1e-3], ticks=500)


def sent(lag_s: float = 1e-4, count: int = 300, drawn: str = "poisson:8") -> list[Request]:
    times = arrivals.due_s(arrivals.parse(drawn), 7)
    return [
        request(index, due_s=due, sent_s=due + lag_s, headers_s=due + lag_s, first_s=due + 0.1, last_s=due + 0.2, ended_s=due + 0.2)
        for index, due in zip(range(count), times, strict=False)
    ]


@pytest.mark.parametrize(
    ("requests", "client", "asked", "flaws"),
    [
        (sent(), SOUND, {}, []), (sent(0.01), SOUND, {}, ["late"]), (sent(0.0015), SOUND, {}, []),  # 1.5 of 100 ms: beside it no matter
        (sent(), replace(SOUND, cpu_s=9.5), {}, ["starved"]), (sent(), replace(SOUND, tick_lags_s=[1e-3, 5e-3, 9e-3, 0.1]), {}, ["starved"]),
        (sent(drawn="constant:8"), SOUND, {}, ["arrivals"]), (sent(), SOUND, {"arrivals": "poisson:16"}, ["arrivals"]),
        (sent(drawn="gamma:8,0.25"), SOUND, {"arrivals": "gamma:8,0.25"}, []), (sent(drawn="gamma:8,0.25"), SOUND, {}, ["arrivals"]),
        (sent(), replace(SOUND, own_errors=3), {}, ["limit"]), (sent(), None, {}, ["killed"]),
    ],
)  # fmt: skip
def test_the_client_is_judged_first(requests: list[Request], client: ClientState | None, asked: dict[str, Any], flaws: list[str]) -> None:
    serving = run_of(requests, client, objectives="ttft<=1s", attain=0.9, **asked)
    judged = verdict.of(serving, summary.of(serving))
    assert judged.client.flaws == flaws
    assert (judged.state, judged.code) == (("inconclusive", 3) if flaws else ("pass", 0))


@pytest.mark.parametrize(("attain", "state", "code"), [(0.5, "pass", 0), (0.999, "fail", 1), (0.9, "inconclusive", 3)])
def test_the_verdict_is_that_of_the_interval(attain: float, state: str, code: int) -> None:
    requests = [replace(one, outcome="refused") if one.index % 10 == 3 else one for one in sent()]
    serving = run_of(requests, SOUND, objectives="ttft<=1s", attain=attain)
    judged = verdict.of(serving, summary.of(serving))
    assert judged.summary.attainment is not None
    assert judged.summary.attainment.share == 0.9
    assert (judged.state, judged.code) == (state, code)


def test_the_gamma_function_is_the_incomplete_one() -> None:
    """Abramowitz and Stegun: P(1, x) = 1 − e^−x, P(½, x) = erf √x; P(5, 5) = 0.55950671 by its finite sum."""
    for x in (0.01, 0.5, 2.0, 9.0, 40.0):
        assert verdict.gamma_below(1.0, x) == pytest.approx(1 - math.exp(-x), abs=1e-12)
        assert verdict.gamma_below(0.5, x) == pytest.approx(math.erf(math.sqrt(x)), abs=1e-12)
        assert verdict.gamma_below(5.0, x) == pytest.approx(1 - math.exp(-x) * sum(x**k / math.factorial(k) for k in range(5)), abs=1e-12)


def test_kolmogorovs_chance_is_that_of_the_table() -> None:
    """D of 100 values has a chance of 5 % at 0.134, of 1 % at 0.161 (Miller, J. Am. Stat. Assoc. 51, 1956)."""
    for distance, chance in ((0.13403, 0.05), (0.16081, 0.01)):
        x = (np.arange(100) + 1) / 100 - distance
        assert verdict.kolmogorov(np.clip(x, 0, 1)) == pytest.approx((distance, chance), abs=2e-3)


def test_the_warm_up_is_in_no_figure() -> None:
    serving = run_of([request(0, due_s=0.0, outcome="error", reason="cold"), *sent()[1:]], SOUND, warm_up=1)
    found = summary.of(serving)
    assert (found.due, found.outcomes["error"], found.reasons) == (299, 0, {})


def test_the_servers_counters_take_ttft_apart() -> None:
    server = {"queue_s": 300 * 0.03, "queue_count": 300.0, "prefill_s": 300 * 0.05, "prefill_count": 300.0}
    serving = run_of(sent(lag_s=0.001), SOUND)
    parts = summary.of(serving._replace(served=replace(serving.served, server=server))).ttft_parts
    assert parts == pytest.approx({"total": 0.1, "client": 0.001, "server_queue": 0.03, "prefill": 0.05, "rest": 0.019})
    others = {**server, "queue_count": 600.0, "prefill_count": 600.0}  # somebody else's requests are in them too
    assert summary.of(serving._replace(served=replace(serving.served, server=others))).ttft_parts == {}


def test_a_server_that_speaks_of_its_cache_on_hits_alone_has_no_more_of_them() -> None:
    """As vLLM before 0.32: usage has cached_tokens only where there are some."""
    requests = [replace(one, input_tokens=100, cached_tokens=50 if one.index == 7 else None) for one in sent()]
    figures = summary.of(run_of(requests, SOUND))
    assert figures.cached_share == pytest.approx(0.5 / len(requests))
    assert "shared_cache" not in {notice.code for notice in figures.notices}


def queue(rate: float, count: int, seed: int, slower_from: float = math.inf) -> list[Request]:
    """Four servers of a tenth of a second each, M/M/4: 40 requests a second at most."""
    random = np.random.default_rng(seed)
    free, requests = [0.0] * 4, []
    for index, due in enumerate(np.cumsum(random.exponential(1 / rate, count)).tolist()):
        begin = max(min(free), due)
        ended = begin + float(random.exponential(0.1 if due < slower_from else 0.4))
        free[free.index(min(free))] = ended
        requests.append(request(index, due_s=due, ended_s=ended))
    return requests


def test_a_queue_that_grows_is_named_and_one_that_does_not_is_none() -> None:
    for seed in range(20):
        assert [notice.code for notice in steady.doubts(queue(60, 1000, seed))] == ["growing"]
        assert steady.doubts(queue(12, 1000, seed)) == []


def test_a_level_that_changed_is_named_with_the_steady_part() -> None:
    for seed in range(4):
        notices = steady.doubts(queue(8, 2000, seed, slower_from=150.0))
        assert [notice.code for notice in notices] == ["level_changed"]
        assert float(notices[0].seen.rpartition(" to ")[2].partition(" ")[0]) == pytest.approx(150, abs=8)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"output_tokens": 3}, "more_chunks"), ({"output_tokens": 16}, "several_tokens"), ({"stall_s": 2.0}, "stalled"), ({}, ""),
    ],
)  # fmt: skip
def test_what_a_server_does_otherwise_is_named(more: dict[str, Any], code: str) -> None:
    """On the honest one nothing is."""
    honest = [replace(one, asked_output=4, asked_input=8, input_tokens=8, counted=True, even=True, first_tokens=1) for one in sent()]
    changed = [replace(one, **more) if one.index == 5 or code == "several_tokens" else one for one in honest]
    serving = run_of(changed, SOUND)._replace(gaps_s={one.index: np.full(3, 0.03) for one in changed})
    assert [notice.code for notice in summary.of(serving).notices] == ([code] if code else [])


def test_counters_that_contradict_the_clock_are_named() -> None:
    server = {"queue_s": 300 * 0.09, "queue_count": 300.0, "prefill_s": 300 * 0.05, "prefill_count": 300.0}
    serving = run_of(sent(), SOUND)
    notices = summary.of(serving._replace(served=replace(serving.served, server=server))).notices
    assert "metrics_disagree" in {notice.code for notice in notices}


def test_lengths_that_differ_from_what_was_asked_are_named() -> None:
    short = [replace(one, asked_input=8, input_tokens=13, asked_output=4, output_tokens=2) for one in sent()]
    assert {"input_length", "early_end"} <= {notice.code for notice in summary.of(run_of(short, SOUND)).notices}
    right = [replace(one, asked_input=8, input_tokens=8, asked_output=4, output_tokens=4) for one in sent()]
    assert not {"input_length", "early_end"} & {notice.code for notice in summary.of(run_of(right, SOUND)).notices}
