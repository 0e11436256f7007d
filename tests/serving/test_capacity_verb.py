"""hotlap serving capacity: what the model expects, what a search makes of benches, and the verb on a simulated server."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from html import escape
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from tests.serving.played import URL, PlayedBenches, asked, judged, model

from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.record import Stop
from hotlap.core.show.document import Document
from hotlap.serving import capacity, capacity_session, cli_capacity, several, show_capacity, steady
from hotlap.serving.address import Address
from hotlap.serving.capacity import Capacity, CapacityOptions, RateEvidence, SearchEnded
from hotlap.serving.capacity_record import ArrivalsAsked, RateVisited, ServerCapacity
from hotlap.serving.capacity_session import ServerSearch
from hotlap.serving.record import ClientState, Request
from hotlap.serving.session import ServingOptions
from hotlap.serving.several import SeveralBenches

POISSON = ArrivalsAsked("poisson")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


# ---------------------------------------------------------------- the model


def deterministic(load: float, within: float) -> float:
    """Share of an M/D/1 queue's requests that wait at most so many times the service time (Erlang, 1909)."""
    terms = range(math.floor(within) + 1)
    return (1 - load) * math.fsum((-load * (within - j)) ** j / math.factorial(j) * math.exp(load * (within - j)) for j in terms)


def test_one_place_at_a_time_is_an_m_d_1_queue() -> None:
    what = asked("e2e<=1s", output_tokens=8)
    server = model(what, "simulated:h200-sxm?model=llama-3-8b&batch=1")
    service_s = server.play("constant:0.01", 1, 0)[0].ended_s
    for load in (0.5, 0.8):
        played = server.play(f"poisson:{load / service_s:.9g}", 20_000, 3)
        waits = np.array([one.ended_s - one.due_s for one in played])[1000:] / service_s - 1
        for within in (0.5, 2.0):
            assert (waits <= within + 1e-9).mean() == pytest.approx(deterministic(load, within), abs=0.015)


@pytest.mark.slow("a search with a thousand steps")
def test_the_expected_capacity_holds_that_of_an_m_d_1_queue() -> None:
    what = asked(output_tokens=2)
    service_s = model(what, "simulated:h200-sxm?model=llama-3-8b&batch=1").play("constant:0.01", 1, 0)[0].ended_s
    server = model(replace(what, objectives=f"e2e<={5 * service_s:.9f}s"), "simulated:h200-sxm?model=llama-3-8b&batch=1")
    low, high = 0.0, 1.0
    for _ in range(40):
        low, high = (low, (low + high) / 2) if deterministic((low + high) / 2, 4.0) < 0.9 else ((low + high) / 2, high)
    found = server.capacity("poisson:{}", 0.9)
    assert found.known_good is not None
    assert found.known_bad is not None
    assert found.known_good <= low / service_s <= found.known_bad < 1.3 * found.known_good


def test_a_closed_loop_never_has_more_under_way() -> None:
    played = model(asked(output_tokens=16)).play("closed:4", 60, 0)
    assert len(played) == 60
    events = sorted([(one.due_s, 1) for one in played] + [(one.ended_s, -1) for one in played])
    under_way = np.cumsum([step for _, step in events])
    assert under_way.max() == 4
    assert [one.tokens for one in played] == [16] * 60
    assert all(one.due_s < one.first_s < one.ended_s for one in played)


# ---------------------------------------------------------------- a search over benches


@pytest.mark.slow("searches of thousands of requests")
def test_a_simulated_server_holds_what_the_model_expects() -> None:
    """The benches have other seeds than the model's own search."""
    server = model(asked())
    expected = server.capacity(POISSON.form, 0.9)
    heard: list[RateVisited] = []
    search = ServerSearch(PlayedBenches(server), POISSON, CapacityOptions(attain=0.9, start=20, requests=10_000), lambda visited, _: heard.append(visited))
    kept = search.kept(search.run(), expected, "llama-3-8b on h200-sxm")
    c = kept.capacity
    assert c.known_good is not None
    assert c.known_bad is not None
    assert expected.known_good is not None
    assert expected.known_bad is not None
    assert max(c.known_good, expected.known_good) <= min(c.known_bad, expected.known_bad)  # they overlap
    assert c.known_bad < 1.4 * c.known_good
    assert heard == kept.rates[:-1]
    shown = show_capacity.text(kept, 120, False)
    assert "measured is as expected" in shown
    assert f"it holds {c.known_good:.1f}/s and does not hold {c.known_bad:.1f}/s at 90 %" in shown
    assert show_capacity.code(kept) == 0
    page = show_capacity.section(kept)
    assert "Attainment against rate" in page
    assert f"held: {c.known_good:.1f}/s" in page
    assert page.count("<circle") == len(c.evidence)
    assert msgspec.json.decode(msgspec.json.encode(kept), type=ServerCapacity) == kept


def test_rates_of_a_client_at_fault_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    search = ServerSearch(
        PlayedBenches(model(asked()), starved=30.0), POISSON, CapacityOptions(attain=0.9, start=8, requests=2000), lambda *_: None
    )
    kept = search.kept(search.run())
    refused = [visited.rate for visited in kept.rates if visited.flaws]
    assert refused
    assert min(refused) >= 30
    assert {evidence.rate for evidence in kept.capacity.evidence} == {visited.rate for visited in kept.rates} - set(refused)
    assert kept.capacity.known_bad is None
    assert show_capacity.code(kept) == 3
    shown = show_capacity.text(kept, 160, False)
    assert "inconclusive: the client: it got too little of a processor" in shown
    assert "which do not count" in shown


def test_where_the_client_was_at_fault_in_most_runs_the_answer_is_the_client() -> None:
    search = ServerSearch(PlayedBenches(model(asked())), POISSON, CapacityOptions(attain=0.9, start=8, requests=2000), lambda *_: None)
    kept = search.kept(search.run())
    none = msgspec.structs.replace(kept.capacity, known_good=None, known_bad=None, short=False)
    rates = [msgspec.structs.replace(visited, flaws=["late"] if place else []) for place, visited in enumerate(kept.rates)]
    most = msgspec.structs.replace(kept, capacity=none, rates=rates)
    fault = f"it was at fault in {len(rates) - 1} of {len(rates)} runs"
    assert show_capacity.answer(most) == f"inconclusive: the client: {fault}; {show_capacity.CLIENT}"
    assert "no rate is shown to be held" in show_capacity.answer(msgspec.structs.replace(kept, capacity=none))


def test_a_client_at_fault_everywhere_ends_it() -> None:
    search = ServerSearch(PlayedBenches(model(asked()), starved=0.0), POISSON, CapacityOptions(attain=0.9, start=8), lambda *_: None)
    kept = search.kept(search.run())
    assert len(kept.rates) == 3
    assert show_capacity.answer(kept) == "inconclusive: the client: no rate was measured soundly; give it a core of its own, away from the server"
    assert (show_capacity.code(kept), show_capacity.measured(kept)) == (3, False)


def test_ctrl_c_keeps_what_was_measured() -> None:
    search = ServerSearch(PlayedBenches(model(asked()), end_after=3), POISSON, CapacityOptions(attain=0.9, start=8, requests=6000), lambda *_: None)
    kept = search.kept(search.run())
    assert (len(kept.rates), kept.ended, show_capacity.code(kept)) == (3, "interrupted", 130)
    assert [evidence.rate for evidence in kept.capacity.evidence] == [8, 32, 128]
    assert kept.capacity.known_bad == 128
    text = " ".join(show_capacity.text(kept, 300, False).split())
    assert "it was interrupted; what was measured until then counts; the same command with --start" in text
    over = replace(kept, ended="precision")
    assert "begins a new search" not in show_capacity.text(over, 300, False)
    assert "met without the first 10 % of each rate" in text


def test_a_search_says_why_it_ended_and_what_it_took_back() -> None:
    search = ServerSearch(PlayedBenches(model(asked())), POISSON, CapacityOptions(attain=0.9, start=60, requests=2000, rates=4), lambda *_: None)
    kept = search.kept(search.run())
    assert "all 2000 requests that --requests allows were sent" in show_capacity.text(kept, 300, False)
    fewer = replace(kept, capacity=replace(kept.capacity, requests=900))
    assert "all 4 rates that --rates allows were measured" in show_capacity.text(fewer, 300, False)
    narrow = replace(kept, options=replace(kept.options, width=0.6), capacity=replace(kept.capacity, known_good=60.0, known_bad=90.0))
    assert "that --" not in show_capacity.text(narrow, 300, False)
    assert all((visited.goodput or 0.0) <= visited.rate for visited in kept.rates)  # however many came by chance
    again = replace(kept.capacity, known_good=None, withdrawn=70.1, inflation=23.2)
    shown = show_capacity.text(replace(kept, capacity=again), 400, False)
    assert "withdrawn earlier in this search 70.1/s was shown to be held" in shown
    assert "23 requests tell as much as one alone), and by all of them no rate is: allow more requests" in shown
    assert "bursts" not in show_capacity.text(replace(kept, capacity=replace(again, inflation=1.0)), 400, False)


def test_a_bench_that_the_time_cut_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none of its requests could be decided too: that the time was spent is said."""
    benches = SeveralBenches(Address("http", "127.0.0.1", 1, "127.0.0.1", ""), asked(), ServingOptions(Path()), "search", seconds=60.0)
    cut = judged(replace(asked(), arrivals="poisson:4"), [Request(index=0, due_s=0.0, outcome="censored", ended_s=0.1)], ClientState(wall_s=1, cpu_s=0.1))

    run = replace(cut.serving.run, stops=[Stop("over")])
    cut = cut._replace(serving=cut.serving._replace(run=run))
    monkeypatch.setattr(several.session, "run", lambda *_: Path())
    monkeypatch.setattr(several.bundles, "load", lambda _: None)
    monkeypatch.setattr(several.show_kind, "read", lambda _: cut)
    search = ServerSearch(benches, POISSON, CapacityOptions(attain=0.9, start=4, requests=2000), lambda *_: None)
    kept = search.kept(search.run())
    assert (len(kept.rates), kept.ended) == (1, "budget")
    assert "the time was spent" in show_capacity.text(kept, 300, False)


def test_refused_requests_are_missed() -> None:
    search = ServerSearch(PlayedBenches(model(asked()), failed=50), POISSON, CapacityOptions(attain=0.9, start=4, requests=2000), lambda *_: None)
    answer = search.measure(4.0, 100)
    assert answer is not None
    assert answer.count(False) == 50
    assert (search.rates[0].failed, search.rates[0].met, search.rates[0].outrun) == (50, 50, False)


def test_a_server_that_is_outrun_is_bad_however_patient_its_objectives() -> None:
    search = ServerSearch(
        PlayedBenches(model(asked("ttft<=10min"))), POISSON, CapacityOptions(attain=0.9, start=4, requests=6000), lambda *_: None
    )
    answer = search.measure(400.0, 400)
    assert answer == [False] * 400
    assert search.rates[0].outrun
    assert search.measure(20.0, 400) == [True] * 400
    assert not search.rates[1].outrun


def test_who_waits_for_long_but_is_served_is_not_outrun() -> None:
    due = np.arange(100) / 10
    assert not steady.outrun(due.tolist(), (due + 1.5).tolist())  # fifteen wait at any time
    assert steady.outrun(due.tolist(), (due * 1.6).tolist())  # three of eight wait at the end
    assert not steady.outrun(due.tolist(), [None] * 10 + (due[10:] + 0.1).tolist())  # ten that never came, from the beginning on
    assert not steady.outrun([0.0, 1.0], [None, None])


def test_requests_that_the_end_cut_do_not_flatter() -> None:
    assert capacity_session.marks([True, False, True]) == [True, False, True]
    assert capacity_session.marks([True, False, True, None, True, None]) == [True, False, True]
    assert capacity_session.marks([None, True, False]) == [True, False]
    assert capacity_session.marks([None, None]) == []
    cut = [Request(index=i, due_s=i / 10, sent_s=i / 10, ended_s=i / 10 + 0.1, outcome="censored") for i in range(5)]
    search = ServerSearch(PlayedBenches(model(asked())), POISSON, CapacityOptions(attain=0.9, start=4, requests=2000), lambda *_: None)
    search.benches.bench = lambda *_: judged(replace(asked(), arrivals="poisson:4"), cut, ClientState(wall_s=1, cpu_s=0.1))  # type: ignore[method-assign, assignment]
    with pytest.raises(SearchEnded):
        search.measure(4.0, 5)


# ---------------------------------------------------------------- the verb

SIMULATED = "simulated:h200-sxm?model=llama-3-8b&tp=1"
SMALL = [SIMULATED, "--slo", "ttft<=5s", "--input", "16", "--output", "2", "--requests", "2000"]


@pytest.mark.slow("loads a simulated server for some seconds")
def test_a_search_is_printed_kept_and_shown_again(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ended by its time; a machine that is too busy for the client is said to be so."""
    code = main(["serving", "capacity", *SMALL, "--start", "20", "--for", "6 s", "--label", "stage=try", "--json"])
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    kept = msgspec.convert(answer["capacity"], ServerCapacity)
    assert code == show_capacity.code(kept)
    assert kept.rates[0].rate == 20
    assert kept.expected is not None
    assert kept.expected_of == "llama-3-8b on h200-sxm"
    assert kept.ended in ("budget", "rounds_max")
    assert main(["show", answer["run"]]) == (0 if kept.capacity.evidence else 3)
    shown = capsys.readouterr().out
    assert show_capacity.text(kept, 120, False) in shown
    main(["show", f"search={kept.label}"])
    assert capsys.readouterr().out.startswith(answer["run"])  # the search's answer, and its rates after it
    assert main(["list", f"search={kept.label}", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert {run["id"] for run in runs} == {answer["run"], *(visited.run for visited in kept.rates)}
    assert all(run["labels"]["stage"] == "try" for run in runs)
    served = [json.loads((home / "runs" / visited.run / "serving.json").read_text())["asked"] for visited in kept.rates]
    assert len({one["salt"] for one in served}) == len({one["seed"] for one in served}) == len(served)
    assert main(["gate", answer["run"]]) == 2
    assert "a search for a server's capacity" in capsys.readouterr().err
    assert main(["report", answer["run"], "--out", str(home / "page.html")]) == 0
    assert "Capacity of the server" in (home / "page.html").read_text()
    assert main(["report", f"search={kept.label}", "--out", str(home / "whole.html")]) == 0
    page = (home / "whole.html").read_text()
    assert f"<h1>{escape(show_capacity.title(kept))}, measured from" in page
    assert page.index("<h2>Capacity of the server</h2>") < page.index("<h2>Requests to the server</h2>")
    places = [page.index(f"<h3>{heading}</h3><p>{run}</p>") for run, heading in show_capacity.headings(kept)]
    assert places == sorted(places)
    assert "with --attain it says" not in page  # what each of its benches would say by itself


def test_each_rate_is_held_not_held_or_unclear_by_all_together() -> None:
    rates = [(40.0, "a", []), (10.0, "b", []), (20.0, "c", []), (80.0, "d", []), (15.0, "e", ["late"])]
    visited = [RateVisited(rate=rate, run=run, requests=100, met=90, decided=100, flaws=flaws) for rate, run, flaws in rates]
    known = Capacity(attain=0.9, confidence=0.95, known_good=12.0, known_bad=40.0, estimate=None, pooled=True, requests=300, evidence=())
    kept = ServerCapacity(
        asked=asked("ttft<=450ms"), arrivals="poisson", options=CapacityOptions(attain=0.9, start=1.0), label="l", rates=visited, capacity=known,
        ended="over",
    )  # fmt: skip
    assert show_capacity.headings(kept) == [
        ("b", "10.0/s offered: held"), ("e", "15.0/s offered: not counted"), ("c", "20.0/s offered: unclear"), ("a", "40.0/s offered: not held"),
        ("d", "80.0/s offered: not held"),
    ]  # fmt: skip
    assert show_capacity.title(kept).startswith("Capacity of ")
    assert show_capacity.title(kept).endswith(": the rate at which 90 % meet ttft<=450ms")
    columns = show_capacity.table(kept).columns
    assert [cell.text for cell in columns[1].cells] == ["held", "not counted", "unclear", "not held", "not held"]
    assert "failed" not in [column.head for column in columns]  # none did
    assert show_capacity.table(replace(kept, rates=[replace(visited[0], failed=2)])).columns[5].head == "failed"


def test_a_rate_that_was_visited_twice_has_two_shares() -> None:
    visited = [RateVisited(rate=rate, run=run, requests=100, met=met, decided=100) for rate, run, met in ((85.0, "a", 61), (60.0, "b", 99), (85.0, "c", 93))]
    visited.insert(1, RateVisited(rate=85.0, run="x", requests=100, met=0, decided=100, flaws=["late"]))
    evidence = tuple(RateEvidence(rate=one.rate, requests=90, met=one.met - 5, low=0.1, high=0.9) for one in visited if not one.flaws)
    capacity = Capacity(attain=0.9, confidence=0.95, known_good=None, known_bad=None, estimate=None, pooled=False, requests=300, evidence=evidence)
    kept = ServerCapacity(
        asked=asked(), arrivals="poisson", options=CapacityOptions(attain=0.9, start=1.0), label="l", rates=visited,
        capacity=capacity, ended="over",
    )  # fmt: skip
    assert {run: one.met for run, one in show_capacity.evidence_of(kept).items()} == {"a": 56, "b": 94, "c": 88}
    lines = show_capacity.text(kept, 160, False)
    assert "62.22 %" in lines
    assert "97.78 %" in lines


@pytest.mark.slow("a process that is interrupted under load")
def test_ctrl_c_ends_the_verb_with_its_answer(home: Path) -> None:
    command = [sys.executable, "-m", "hotlap", "serving", "capacity", *SMALL, "--start", "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            if "(1 of at most 12)" in line:
                break
        os.kill(process.pid, signal.SIGINT)
        printed = process.stdout.read()
        assert process.wait() == 130
    assert "it was interrupted; what was measured until then counts" in printed
    run = printed.rpartition("kept as ")[2].partition(";")[0]
    kept = json.loads((home / "runs" / run / "capacity.json").read_text())
    assert kept["ended"] == "interrupted"
    assert kept["rates"]


@pytest.mark.parametrize(
    ("argv", "told_so"),
    [
        ([SIMULATED], "give --slo"),
        ([SIMULATED, "--slo", "ttft<=1s", "--attain", "100 %"], "below 100 %"),
        ([SIMULATED, "--slo", "ttft<=1s", "--arrivals", "poisson:8"], "the rates are what is searched"),
        ([SIMULATED, "--slo", "ttft<=1s", "--arrivals", "gamma"], "gamma:SHAPE"),
        ([SIMULATED, "--slo", "ttft<=1s", "--arrivals", "gamma:0"], "the shape of gamma"),
        ([SIMULATED, "--slo", "ttft<=1s", "--rates", "2"], "at least 4 rates"),
        ([SIMULATED, "--slo", "ttft<=1s", "--requests", "100"], "give at least 2000"),
        ([SIMULATED, "--slo", "ttft<=1s", "--attain", "99.9 %", "--requests", "9000"], "give at least 50000"),
        ([SIMULATED, "--slo", "ttft<=1s", "--start", "9", "--max-rate", "4"], "above its greatest rate"),
        ([SIMULATED, "--slo", "ttft<=1s", "--gpu", "h200-sxm"], "known of a simulated server"),
        (["http://127.0.0.1:9", "--slo", "ttft<=1s", "--gpu", "h200-sxm"], "needs both --gpu and --network"),
        (["http://127.0.0.1:9", "--slo", "ttft<=1s", "--gpu", "h2000", "--network", "llama-3-8b"], "no machine 'h2000'"),
        (["http://192.0.2.1:8000", "--slo", "ttft<=1s"], "load goes to loopback alone"),
        ([SIMULATED, "--slo", "tfft<=1s"], "ttft"),
    ],
)  # fmt: skip
def test_what_was_asked_wrongly_is_one_line(argv: list[str], told_so: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serving", "capacity", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told_so in err
    assert err.count("\n") == 1


def test_beyond_this_machine_a_search_needs_a_greatest_rate() -> None:
    import argparse

    away = Address("http", "gpu.example", 8000, "192.0.2.1", "/v1")
    with pytest.raises(InputError, match="needs --max-rate"):
        cli_capacity.bounded(argparse.Namespace(max_rate=None), away, "a search for capacity")
    cli_capacity.bounded(argparse.Namespace(max_rate="8"), away, "a search for capacity")


def test_a_dead_server_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serving", "capacity", "http://127.0.0.1:9", "--model", "m", "--slo", "ttft<=1s", "--max-rate", "20"]) == 3
    assert "no server answers" in capsys.readouterr().err


def test_what_takes_long_is_said_before_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    cli_capacity._warn(10_000, 1.0)
    assert "up to 10000 requests have to be sent: 2.8 h at 1.00/s, 17 min at 10.0/s" in capsys.readouterr().err
    cli_capacity._warn(10_000, 50.0)
    assert capsys.readouterr().err == ""


@pytest.mark.slow("a search of thousands of requests")
def test_no_rate_is_held_that_the_server_never_answers() -> None:
    """A server of four places, whose queue takes long to fill a patient objective."""
    server = model(asked("ttft<=2s", 64, 24), f"{URL}&batch=4")
    search = ServerSearch(PlayedBenches(server), POISSON, CapacityOptions(attain=0.9, start=8, requests=6000, width=0.2), lambda *_: None)
    kept = search.kept(search.run())
    answered = kept.capacity.answered
    assert answered is not None
    assert answered[0] == pytest.approx(4 / server.play("constant:1", 1, 1)[0].ended_s, rel=0.1)
    assert (kept.capacity.known_good or 0.0) <= answered[0]
    assert "where more came than was served: no higher rate is held" in show_capacity.text(kept, 300, False)


def test_runs_too_short_for_their_objective_show_no_rate_to_be_held() -> None:
    search = capacity.CapacitySearch(lambda rate, requests: [True] * requests, CapacityOptions(attain=0.9, start=40, max_rate=40, requests=2000), long_s=600.0)
    search.run()
    answer = search.answer()
    assert (answer.known_good, answer.short) == (None, True)
    fault = ServerSearch(PlayedBenches(model(asked("ttft<=2s")), starved=0.0), POISSON, CapacityOptions(attain=0.9, start=8), lambda *_: None)
    kept = replace(fault.kept(answer), capacity=answer)
    assert show_capacity.code(kept) == 3
    assert show_capacity.answer(kept).startswith("inconclusive: runs are too short for an objective of 2.00 s: a run needs 20.0 s")


def test_answers_a_second_are_those_of_a_queue_that_lasts() -> None:
    due = np.arange(400) / 40.0
    ended = 1.0 + np.arange(400) / 30.0
    begun = ended - 0.1
    per_s = steady.answered(due.tolist(), begun.tolist(), ended.tolist(), saturated=True)
    assert per_s is not None
    assert per_s == pytest.approx((30.0, 30.0, 30.0), rel=0.05)
    assert steady.answered(due.tolist(), due.tolist(), ended.tolist(), saturated=True) is None  # all at once: no place was waited for
    assert steady.answered(due.tolist(), begun.tolist(), (due + 8.0).tolist(), saturated=False) is None
