"""What a bench claims of a server is so: a queue that grows, what failed, counts of tokens, one population under one name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.serving.played import SOUND, asked, judged
from tests.serving.sse_server import serving
from tests.serving.test_serving_figures import request

from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.serving import address, arrivals, cli, cli_capacity, definitions, expected, show, steady
from hotlap.serving.capacity import Capacity, CapacityOptions
from hotlap.serving.capacity_record import RateVisited, ServerCapacity
from hotlap.serving.record import Planned, Prompt, Request, Schedule, ServedOn
from hotlap.serving.session import ServingOptions
from hotlap.serving.several import SeveralBenches
from hotlap.serving.verdict import ServingVerdict


def alike(count: int, **more: Any) -> list[Request]:
    usual: dict[str, Any] = {"output_tokens": 16, "asked_output": 16, "chunks": 16, "stall_s": 0.005} | more
    return [
        request(i, due_s=i * 0.3, sent_s=i * 0.3, headers_s=i * 0.3, first_s=i * 0.3 + 0.1, last_s=i * 0.3 + 0.19, ended_s=i * 0.3 + 0.19, **usual)
        for i in range(count)
    ]


def bench(every: list[Request], limits: str = "", attain: float | None = None) -> ServingVerdict:
    return judged(replace(asked(limits), arrivals="constant:3.3", attain=attain), every, SOUND)


def test_arrivals_that_come_together_at_the_end_are_no_queue_that_grows() -> None:
    """All take 0.14 s, whatever comes; at 60 a second of four places they take ever longer."""
    bunched = 0
    for seed in range(60):
        due = [time for time, _ in zip(arrivals.due_s(arrivals.parse("gamma:15,0.4"), seed), range(60), strict=False)]
        every = [request(index, due_s=time, ended_s=time + 0.14) for index, time in enumerate(due)]
        _, counts = steady.under_way(every)
        bunched += counts[-1] > 6 and counts[-1] > 1.5 * counts[len(counts) // 2]
        assert not steady.grows(every)
        cut = [one if one.due_s + 0.14 <= due[-1] else replace(one, ended_s=due[-1], outcome="censored") for one in every]
        assert not steady.grows(cut)
    assert bunched


def test_a_queue_of_which_the_end_cut_most_grows() -> None:
    every = [request(i, due_s=i * 0.1, ended_s=min(i * 0.3 + 0.3, 10.0), outcome="ok" if i < 32 else "censored") for i in range(100)]
    assert steady.grows(every)
    (notice,) = steady.doubts(every)
    assert "most of the second half did not end: more come than are served" in notice.seen


def test_what_the_end_cut_did_not_fail_by_another_tools_definitions() -> None:
    every = [*alike(10), request(10, outcome="censored", last_s=None), request(11, outcome="error", reason="status 500")]
    numbers = definitions.vllm(bench(every).serving)
    assert (numbers.completed, numbers.failed, numbers.cut) == (10, 1, 1)
    assert show.defined_rates(numbers).startswith("10 completed, 1 failed, 1 cut by the end and left out;")


@pytest.mark.parametrize(
    ("tokens", "why", "does"),
    [(48, "counts more tokens than max_tokens allows", "TPOT and ITL are in doubt"), (4, "counts fewer tokens than it sends chunks", "its TPOT and ITL are in doubt")],
)
def test_a_count_of_tokens_that_cannot_be_meets_no_tpot(tokens: int, why: str, does: str) -> None:
    for limits, state in (("tpot<=4ms", "inconclusive"), ("tpot<=1s", "inconclusive"), ("e2e<=1s", "pass"), ("ttft<=1ms,tpot<=1s", "fail")):
        assert bench(alike(40, output_tokens=tokens), limits, 0.5).state == state
    verdict = bench(alike(40, output_tokens=tokens), "tpot<=4ms", 0.5)
    assert verdict.code == 3
    assert show.answer(verdict) == f"inconclusive: tpot is in doubt (the server {why}), so the objective cannot be judged"
    notes = [notice.text for notice in verdict.summary.notices]
    assert any(does in note for note in notes)
    assert not any("look at" in note or "the server ended them" in note for note in notes)


def test_tokens_beyond_what_was_asked_that_came_count() -> None:
    for tokens in (17, 48):  # one more, as of an end that is counted; and many, each in a chunk
        assert bench(alike(40, output_tokens=tokens, chunks=min(tokens, 16) if tokens == 17 else tokens), "tpot<=10ms", 0.5).state == "pass"


def test_notes_advise_no_metric_that_is_not_known() -> None:
    whole = bench(alike(40, chunks=1, stall_s=None))
    assert [notice.code for notice in whole.summary.notices if notice.code in ("one_chunk", "several_tokens")] == ["one_chunk"]
    four = bench(alike(40, chunks=4))  # by usage at the end alone: how many each chunk has is not known
    notes = {notice.code: notice.text for notice in four.summary.notices}
    assert notes["several_tokens"].endswith("look at TPOT")
    assert "ITL is not known" in notes["itl_unknown"]


def test_a_median_says_of_how_many_it_is() -> None:
    """Of 20 that began the end cut 5 after their first token and one before it."""
    every = [one if one.index < 15 else replace(one, outcome="censored", last_s=None, ended_s=one.due_s + 0.15) for one in alike(20)]
    every.append(request(20, due_s=6.0, sent_s=6.0, first_s=None, last_s=None, ended_s=6.05, outcome="censored", chunks=0))
    figures = bench(every)
    populations = dict(zip(*([cell.text for cell in column.cells] for column in show.table(figures.summary.latencies).columns[:2]), strict=True))
    assert (populations["TTFT"], populations["E2E"]) == ("first token (20, and 1 cut)", "answered (15, and 6 cut)")
    known = figures.serving._replace(served=replace(figures.serving.served, on=ServedOn(gpu="h200-sxm", network="llama-3-8b")))
    modelled = expected.of(known, figures.summary)
    assert modelled is not None
    assert [(one.name, one.requests) for one in modelled.figures] == [("TTFT", 20), ("TPOT", 15)]
    table = next(one for one in figures.summary.latencies if one.name == "TTFT")
    assert modelled.figures[0].measured.value == pytest.approx(table.quantiles[0].value)
    assert "] of 20: " in " ".join(show._expected(modelled, 300))


def test_rates_of_a_search_are_shown_in_order_each_with_its_heading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    with serving(service_s=0.001) as server:
        what = replace(asked("ttft<=1s"), url=server.url, model="tiny", output_tokens=2, input_tokens=8)
        benches = SeveralBenches(address.resolve(server.url, False), what, ServingOptions(tmp_path), cli_capacity.LABEL)
        runs = [benches.bench(f"constant:{rate}", 3).serving.run.id for rate in (90, 60)]
    visited = [RateVisited(rate=rate, run=run, requests=3, met=3, decided=3) for rate, run in zip((90.0, 60.0), runs, strict=True)]
    known = Capacity(attain=0.9, confidence=0.95, known_good=70.0, known_bad=80.0, estimate=None, pooled=False, requests=6, evidence=())
    benches.keep(cli_capacity.KIND, cli_capacity.FILE, ServerCapacity(
        asked=what, arrivals="constant", options=CapacityOptions(attain=0.9, start=1.0), label=benches.id, rates=visited, capacity=known, ended="over",
    ))  # fmt: skip
    main(["show", f"search={benches.id}"])
    shown = capsys.readouterr().out.splitlines()
    assert "search for the capacity of" in shown[0]
    places = [shown.index(heading) for heading in ("60.0/s offered: held", "90.0/s offered: not held")]
    assert places == sorted(places)
    assert [shown[place + 1].partition(" ")[0] for place in places] == [runs[1], runs[0]]


def test_a_trace_without_hash_ids_says_nothing_of_a_prefix_cache() -> None:
    for prefix, share in (((), None), ((7,), 0.5)):
        planned = tuple(Planned(index=i, due_s=i / 10, prompt=Prompt(input_tokens=512, output_tokens=4, prefix=prefix)) for i in range(2))
        assert cli._prefix_share(Schedule(arrivals="trace", seed=0, planned=planned)) == share


def test_a_server_beyond_this_machine_is_named_once() -> None:
    with pytest.raises(InputError, match=r"^'192\.0\.2\.1' is not this machine: "):
        address.resolve("http://192.0.2.1:8000", False)
    assert address._named("gpu.example", "192.0.2.1") == "'gpu.example' (192.0.2.1)"
