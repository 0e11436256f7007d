"""Rates beside goodput, and pauses of the client's own process."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.serving.test_serving_figures import SOUND, request, run_of

from hotlap.serving import show, summary
from hotlap.serving.address import Address
from hotlap.serving.generator import Generator, LoadJob
from hotlap.serving.prompts import Words
from hotlap.serving.record import Request, ServingAsked

ASKED = ServingAsked(url="http://127.0.0.1:1", model="tiny", arrivals="poisson:8", seed=1, input_tokens=8, output_tokens=4)


def test_goodput_of_the_steady_part_is_at_most_what_came() -> None:
    """An open loop whose first requests were slow, and whose arrivals happen to be denser after them."""
    times = [*(index / 8 for index in range(24)), *(3 + index / 20 for index in range(300))]
    took = [2.0] * 24 + [0.2] * 300
    every = [
        request(index, due_s=due, sent_s=due, first_s=due + lasts / 2, last_s=due + lasts, ended_s=due + lasts)
        for index, (due, lasts) in enumerate(zip(times, took, strict=True))
    ]
    figures = summary.of(run_of(every, SOUND, objectives="ttft<=1s"))
    assert figures.steady is not None
    assert figures.rate_due is not None
    assert figures.steady.goodput is not None
    assert figures.steady.goodput[0] <= figures.rate_due
    assert figures.steady.goodput[2] <= figures.rate_due * (1 + 1e-9)


def test_of_a_closed_loop_the_rate_of_the_steady_part_stands_beside() -> None:
    """Its last turn is emptier: goodput of the steady part is above the rate of the whole run, which alone would look wrong."""
    requests: list[Request] = []
    for index in range(80):
        due_s, took_s = float(index // 8), 1.0 if index < 72 else 6.0
        requests.append(request(index, due_s=due_s, sent_s=due_s, first_s=due_s + 0.1, last_s=due_s + took_s, ended_s=due_s + took_s))
    figures = summary.of(run_of(requests, SOUND, arrivals="closed:8", objectives="ttft<=1s"))
    assert figures.steady is not None
    assert figures.steady.goodput is not None
    assert figures.steady.rate_ok is not None
    assert figures.rate_ok is not None
    assert figures.rate_ok < figures.steady.goodput[0] <= figures.steady.rate_ok
    assert f"{figures.rate_ok:.2f} answers/s of the whole run, 8.00 of the steady part" in " ".join(show._rates(figures, 200))


def test_ticks_that_a_pause_swallows_are_late_ones(tmp_path: Path) -> None:
    """Half a second in which nothing runs is 25 late ticks, not one: of a pause of a tenth of the time p90 tells."""

    async def pause() -> list[float]:
        job = LoadJob(asked=ASKED, address=Address("http", "127.0.0.1", 1, "127.0.0.1", ""), words=Words(), dialect=0)
        generator = Generator(job, tmp_path)
        generator.origin_s = time.monotonic()
        ticking = asyncio.create_task(generator._tick())
        await asyncio.sleep(0.05)
        time.sleep(0.5)
        await asyncio.sleep(0.05)
        ticking.cancel()
        return generator.lags_s

    lags_s = asyncio.run(pause())
    assert sum(lag_s > 0.25 for lag_s in lags_s) >= 12
    assert sum(lag_s > 0.02 for lag_s in lags_s) >= 23
