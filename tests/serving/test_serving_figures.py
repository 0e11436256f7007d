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
from hotlap.serving import arrivals, expected, quantiles, scraped, show, steady, summary, verdict
from hotlap.serving.reading import ServingRun
from hotlap.serving.record import ClientState, Request, Served, ServedOn, ServingAsked
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
    only_later = client is not None and client.cpu_s < 9 and set(flaws) <= {"late", "starved"}  # by 10 ms, beside a limit of 1 s
    assert (judged.state, judged.code) == (("pass", 0) if only_later else ("inconclusive", 3))


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
        ({"output_tokens": 3}, "more_chunks"), ({"output_tokens": 16, "asked_output": 16}, "several_tokens"), ({"stall_s": 2.0}, "stalled"), ({}, ""),
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
    short = [replace(one, asked_input=8, input_tokens=13, asked_output=4, output_tokens=2, chunks=2) for one in sent()]
    assert {"input_length", "early_end"} <= {notice.code for notice in summary.of(run_of(short, SOUND)).notices}
    right = [replace(one, asked_input=8, input_tokens=8, asked_output=4, output_tokens=4) for one in sent()]
    assert not {"input_length", "early_end"} & {notice.code for notice in summary.of(run_of(right, SOUND)).notices}


def cold(requests: list[Request], until_s: float, times: float = 8.0) -> list[Request]:
    """Those that were due before took so many times as long, from sending to the last token."""
    return [
        replace(one, **{name: one.sent_s + (getattr(one, name) - one.sent_s) * times for name in ("first_s", "last_s", "ended_s")})
        if one.due_s < until_s and one.sent_s is not None else one
        for one in requests
    ]  # fmt: skip


def test_figures_hold_for_the_part_after_a_start_and_both_are_printed() -> None:
    """Requests are chosen by when they were due: one that never ended stays in."""
    requests = cold(sent(count=600), 20.0)
    requests[400] = replace(requests[400], outcome="timeout", first_s=None, last_s=None, ended_s=requests[400].due_s + 5, reason="late")
    serving = run_of(requests, SOUND, objectives="ttft<=200ms", attain=0.95)
    judged = verdict.of(serving, summary.of(serving))
    held = judged.summary.steady
    assert held is not None
    assert held.window.rule == "start"
    assert held.window.begin_s == pytest.approx(20, abs=3)
    kept = [one for one in requests if one.due_s >= held.window.begin_s]
    assert held.window.requests == len(kept)
    assert requests[400] in kept
    assert held.attainment is not None
    assert (held.attainment.requests, held.attainment.met) == (len(kept), len(kept) - 1)
    assert judged.summary.attainment is not None
    assert judged.summary.attainment.share is not None
    assert judged.summary.attainment.share < 0.85  # of all of it
    assert judged.state == "pass"
    text = "\n".join(show.lines(judged, 400, False))
    assert f"figures are of the {len(kept)} requests due from" in text
    assert "of the whole run, p50 / p90 / p99: TTFT" in text
    assert "; of the whole run 7" in text


def test_a_server_that_becomes_slower_leaves_nothing_out() -> None:
    for seed in range(4):
        requests = queue(8, 2000, seed, slower_from=150.0)
        assert steady.window(requests, arrivals.parse("poisson:8"), False) is None
        assert steady.window(queue(12, 1000, seed), arrivals.parse("poisson:12"), False) is None
    assert steady.window(cold(sent(count=600), 20.0), arrivals.parse("ramp:1-20,60s"), False) is None
    assert steady.window(cold(sent(count=600), 20.0), arrivals.kept("trace"), False) is None


def test_a_closed_loop_leaves_out_its_first_turn_and_its_last() -> None:
    requests = [request(index, due_s=float(index // 8), ended_s=index // 8 + 1.0) for index in range(80)]
    process = arrivals.parse("closed:8")
    counted = steady.window(requests, process, True)
    timed = steady.window(requests, process, False)  # the end of the time cuts all places at once
    assert counted is not None
    assert timed is not None
    assert (counted.begin_s, counted.end_s, counted.requests, counted.rule) == (1.0, 9.0, 64, "turns")
    assert (timed.begin_s, timed.end_s, timed.requests) == (1.0, None, 72)
    assert steady.window(requests, arrivals.parse("closed:24"), True) is None  # nothing much would be left
    assert steady.window([replace(one, due_s=0.0) for one in requests], process, True) is None  # nor here


def test_a_slow_start_is_named_with_how_much_slower() -> None:
    def tpot(one: Request) -> float | None:
        return one.tpot_s

    for seed in range(4):
        random = np.random.default_rng(seed)
        even = [replace(one, last_s=(one.first_s or 0) + 0.1 * float(random.lognormal(0, 0.1))) for one in sent(count=500)]
        start = steady.slow_start(cold(even, 15.0, 3.0), tpot)
        assert start is not None
        assert start.ratio == pytest.approx(3, rel=0.1)
        assert start.until_s == pytest.approx(15, abs=1)
        assert steady.slow_start(even, tpot) is None
        assert steady.slow_start(queue(12, 1000, seed), lambda one: (one.ended_s or 0) - one.due_s) is None
    late = [replace(one, last_s=(one.last_s or 0) + (0.5 if one.due_s > 40 else 0)) for one in sent(count=500)]
    assert steady.slow_start(late, tpot) is None  # it became slower


SGLANG = """
sglang:queue_time_seconds_sum{model_name="m"} 9.0
sglang:queue_time_seconds_count{model_name="m"} 300
sglang:per_stage_req_latency_seconds_sum{stage="prefill_forward",tp_rank="0"} 15.0
sglang:per_stage_req_latency_seconds_count{stage="prefill_forward",tp_rank="0"} 300
sglang:per_stage_req_latency_seconds_sum{stage="decode_forward",tp_rank="0"} 99.0
sglang:per_stage_req_latency_seconds_count{stage="decode_forward",tp_rank="0"} 300
sglang:time_to_first_token_seconds_sum{model_name="m"} 27.0
sglang:time_to_first_token_seconds_count{model_name="m"} 300
sglang:cached_tokens_total{model_name="m"} 1200
sglang:prompt_tokens_total{model_name="m"} 2400
"""


def of_server(server: dict[str, float], requests: list[Request] | None = None) -> summary.ServingSummary:
    serving = run_of(requests or sent(lag_s=0.001), SOUND)
    return summary.of(serving._replace(served=replace(serving.served, server=server)))


def codes(found: summary.ServingSummary) -> set[str]:
    """Without that of chunks whose times are not there."""
    return {notice.code for notice in found.notices} - {"itl_unknown"}


def test_sglangs_counters_take_ttft_apart_too() -> None:
    found = of_server(scraped.grown({}, scraped.read(SGLANG.encode())))
    wanted = {"total": 0.1, "client": 0.001, "server_queue": 0.03, "prefill": 0.05, "rest": 0.019, "front": 0.01}
    assert found.ttft_parts == pytest.approx(wanted)
    assert "network and HTTP 19.0 ms, of which 10.0 ms in the server before its queue" in " ".join(show._parts(found, 400))
    assert found.cached_share == 0.5
    assert codes(found) == {"shared_cache", "outside_server"}  # 9 of 99 ms are in no counter


def test_what_the_server_does_not_count_is_said() -> None:
    without = "\n".join(line for line in SGLANG.splitlines() if "prefill" not in line)
    found = of_server(scraped.grown({}, scraped.read(without.encode())))
    assert (found.ttft_parts, found.ttft_missing) == ({}, ["prefill"])
    serving = run_of(sent(), SOUND)
    assert "/metrics has no time of its queue and its prefill" in "\n".join(show.lines(verdict.of(serving, summary.of(serving)), 200, False))


def test_a_server_that_serves_others_too_is_named() -> None:
    server = {"queue_s": 9.0, "queue_count": 600.0, "prefill_s": 15.0, "prefill_count": 600.0}
    assert codes(of_server(server)) == {"other_requests"}


@pytest.mark.parametrize(("own_s", "code"), [(0.19, ""), (0.24, "metrics_disagree")])
def test_a_clock_that_runs_fast_shows_in_whole_answers(own_s: float, code: str) -> None:
    """200 ms as seen here; of a TTFT of milliseconds a fifth would be lost in the network."""
    server = {"e2e_s": 300 * own_s, "e2e_count": 300.0}
    assert codes(of_server(server, sent())) == ({code} if code else set())


@pytest.mark.parametrize(("clock", "code"), [(1.0, ""), (1.2, "metrics_disagree")])
def test_a_clock_that_runs_fast_shows_behind_a_busy_machine(clock: float, code: str) -> None:
    """Each request is 80 ms late on its way, more than a fifth of what it took: what follows the first token is not."""
    server = {"ttft_s": 300 * 0.02 * clock, "ttft_count": 300.0, "e2e_s": 300 * 0.12 * clock, "e2e_count": 300.0}
    assert codes(of_server(server, sent())) == ({code} if code else {"outside_server"})


H200 = ServedOn(gpu="h200-sxm", network="llama-3-8b")


def served_by_model(times: float, count: int = 120) -> summary.ServingSummary | Any:
    """Requests of 512 tokens in and 32 out, each alone: what the model expects, and so many times that."""
    table = expected.engine(H200, 1024).table
    ttft_s, tpot_s = times * table.prompt_s(512), times * table.seconds(1, 528, [])
    requests = [
        request(index, due_s=float(index), sent_s=float(index), first_s=index + ttft_s, last_s=index + ttft_s + 31 * tpot_s,
                ended_s=index + ttft_s + 31 * tpot_s, input_tokens=512, output_tokens=32, chunks=32)
        for index in range(count)
    ]  # fmt: skip
    serving = run_of(requests, SOUND, arrivals="constant:1")
    serving = serving._replace(served=replace(serving.served, on=H200))
    return verdict.of(serving, summary.of(serving)).expected


@pytest.mark.parametrize(("times", "answer"), [(1.0, "as expected"), (2.0, "slower"), (0.5, "faster")])
def test_the_model_stands_beside_what_was_measured(times: float, answer: str) -> None:
    found = served_by_model(times)
    assert found is not None
    assert [(figure.name, figure.answer) for figure in found.figures] == [("TTFT", answer), ("TPOT", answer)]
    for figure, gap in zip(found.figures, (found.ttft_gap, found.tpot_gap), strict=True):
        assert figure.low_s < figure.expected_s < figure.high_s
        assert figure.expected_s == pytest.approx(figure.alone_s, rel=0.02)  # nobody beside it
        assert sum(gap.values()) == pytest.approx(figure.measured.value, rel=0.02)
        assert gap["unexplained"] == pytest.approx((times - 1) * figure.alone_s, abs=0.02 * figure.alone_s)
    text = " ".join(show._expected(found, 200))
    assert ("as expected" if times == 1 else f"{answer} than expected") in text


def test_the_model_expects_the_queue_of_this_load_too() -> None:
    """Several at once: the last waits for the prompts of the others, whether they come in time or as places of a closed loop."""
    for drawn, due in (("constant:1", lambda index: float(index // 4)), ("closed:8", lambda index: 0.5 * (index // 8))):
        requests = [
            request(index, due_s=due(index), sent_s=due(index), first_s=due(index) + 0.05, last_s=due(index) + 0.4, ended_s=due(index) + 0.4,
                    input_tokens=4096, output_tokens=32, chunks=32)
            for index in range(80)
        ]  # fmt: skip
        serving = run_of(requests, SOUND, arrivals=drawn)
        found = expected.of(serving._replace(served=replace(serving.served, on=H200)), summary.of(serving))
        assert found is not None
        assert found.figures[0].expected_s > 1.5 * found.figures[0].alone_s


def test_a_network_that_is_gone_is_said_and_the_rest_is_shown() -> None:
    serving = run_of([replace(one, input_tokens=8) for one in sent()], SOUND)
    judged = verdict.of(serving._replace(served=replace(serving.served, on=replace(H200, network="no-such"))), summary.of(serving))
    assert judged.expected is None
    assert codes(judged.summary) == {"not_expected"}


def test_the_last_of_a_few_that_were_looked_at_long_bounds_nothing_above() -> None:
    """One was looked at for long enough to end; 19 were cut sooner: the curve falls to 0 there, and says nothing of what is above."""
    values = quantiles.quantile([0.3, *[0.1] * 18, 0.8], 0.9, [False, *[True] * 18, False])
    assert values.value == 0.8
    assert values.high is None
    assert values.low is not None


def test_no_more_answers_a_second_than_were_due() -> None:
    few = summary.of(run_of(sent(count=4, drawn="constant:1"), SOUND, arrivals="constant:1", objectives="ttft<=1s"))
    assert few.rate_due == pytest.approx(1.0)
    assert few.rate_ok == pytest.approx(1.0)
    assert few.goodput is not None
    assert few.goodput[0] == pytest.approx(1.0)


def test_the_lengths_of_a_trace_are_its_own() -> None:
    asked = run_of([], SOUND, arrivals="trace").served.asked
    assert "lengths of the trace" in show.asked_text(asked)
    assert "tokens in" not in show.asked_text(asked)


def test_of_a_closed_loop_it_is_said_what_is_left_out_and_no_rate_is_due() -> None:
    requests = [request(index, due_s=float(index // 8), sent_s=float(index // 8), ended_s=index // 8 + 1.0) for index in range(80)]
    serving = run_of(requests, SOUND, arrivals="closed:8")
    asked = [replace(serving.served.asked, **more) for more in ({"seconds": 11.0}, {"requests": 80})]
    timed, counted = (summary.of(serving._replace(served=replace(serving.served, asked=each))) for each in asked)
    assert timed.rate_due is None
    assert " due)" not in " ".join(show._rates(timed, 120))
    assert "its last" not in " ".join(show._window(timed, 200))
    assert "the first turn of the loop, and its last" in " ".join(show._window(counted, 200))


def test_a_quantile_that_only_the_end_cut_is_no_never() -> None:
    """Two of ten took 0.51 s, the others were cut after 1 s: longer than that. Of failures it is never."""
    some = [request(0), request(1), *(request(index, outcome="censored", last_s=None, ended_s=2.0) for index in range(2, 10))]
    cut = next(one for one in summary.of(run_of(some, SOUND)).latencies if one.name == "E2E")
    assert (cut.count, cut.cut, cut.never) == (10, 8, 0)
    assert show._quantile(cut, cut.quantiles[0]).startswith("cut")
    bad = [request(0), request(1), *(request(index, outcome="refused", first_s=None) for index in range(2, 10))]
    failed = next(one for one in summary.of(run_of(bad, SOUND)).latencies if one.name == "E2E" and one.population == "all")
    assert failed.never == 8
    assert show._quantile(failed, failed.quantiles[0]).startswith("never")


def test_an_expectation_says_its_rule_and_of_which_requests_it_is() -> None:
    few, many = served_by_model(1.0), served_by_model(1.0, expected.MOST + 10)
    assert "first" not in show.expected_rule(few)
    assert f"the first {expected.MOST} requests" in show.expected_rule(many)
    assert show.RULE in " ".join(show._expected(few, 500))
    assert served_by_model(1.0, 3).figures[0].answer == "unknown"  # no interval: nothing can be said


def test_a_delay_that_is_small_beside_every_limit_does_not_matter_to_objectives() -> None:
    judged = verdict.ClientVerdict(flaws=["late", "starved"], lag_s=[1e-4, 1.5e-3, 3e-3, 0.05], loop_lag_s=[1e-4, 1.5e-3, 3e-3, 0.05], cpu_share=0.2)
    assert verdict.matter(judged, objectives.parse("ttft<=200ms", METRICS)) == []
    assert verdict.matter(judged, objectives.parse("ttft<=100ms", METRICS)) == ["late", "starved"]  # p99 is 3 % of it
    assert verdict.matter(judged, objectives.parse("ttft<=1s,tpot<=40ms", METRICS)) == ["late", "starved"]
    assert verdict.matter(replace(judged, cpu_share=0.95), objectives.parse("ttft<=1s", METRICS)) == ["starved"]
    assert verdict.matter(judged, ()) == ["late", "starved"]


@pytest.mark.parametrize(("drawn", "remedy"), [("poisson:8", "ask for a lower rate"), ("closed:8", "ask for fewer at a time")])
def test_a_late_client_says_what_would_be_sound_and_what_to_do(drawn: str, remedy: str) -> None:
    serving = run_of(sent(0.01), SOUND, arrivals=drawn)
    judged = verdict.of(serving, summary.of(serving))
    assert "p90 of at most 2.0 ms is sound" in " ".join(show._client(judged.client, 300))  # 2 % of 100 ms
    assert show.answer(judged).startswith(f"inconclusive: the client: {remedy}")
