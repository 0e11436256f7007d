"""What is said of a trace: text, Markdown, JSON against golden files; the page's numbers against the JSON; the annotated trace read again."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import trace_sample

from hotlap.core.errors import MachineError
from hotlap.core.show import pdf
from hotlap.core.store.schema import about
from hotlap.traces import writing
from hotlap.traces.advice import trace as advising
from hotlap.traces.advice.trace import Advice
from hotlap.traces.events import KERNEL, OTHER
from hotlap.traces.show import answer as trace_answer
from hotlap.traces.show import flame as trace_flame
from hotlap.traces.show import markdown as trace_markdown
from hotlap.traces.show import page as trace_page
from hotlap.traces.show import perfetto as trace_perfetto
from hotlap.traces.show import rows as trace_rows
from hotlap.traces.show import scene as trace_scene
from hotlap.traces.show import schema, trace
from hotlap.traces.show.page import RankBar
from hotlap.traces.study import Study
from hotlap.traces.timeline import Timeline

Golden = Callable[[str, str], None]
Made = tuple[Study, Advice]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.chdir(tmp_path)
    trace_sample.write(Path("sample.json"))
    study = Study(Timeline.open("sample.json"))
    return study, advising.advise(study)


@pytest.fixture
def host_alone(tmp_path: Path) -> Made:
    path = tmp_path / "host.json"
    path.write_text(json.dumps([one for one in trace_sample.events() if one.get("cat") in ("cpu_op", "user_annotation")]))
    study = Study(Timeline.open(path))
    return study, advising.advise(study)


def drawn(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="drawn">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def column(scene: dict[str, Any], name: str, dtype: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(scene[name]), dtype)


# ---------------------------------------------------------------- golden


def test_trace_text_is_as_it_was(made: Made, golden: Golden) -> None:
    golden("trace.txt", trace.trace(*made, width=100) + "\n")


def test_trace_markdown_is_as_it_was(made: Made, golden: Golden) -> None:
    golden("trace.md", trace_markdown.markdown(trace_answer.answer(*made)))


def test_trace_json_is_as_it_was(made: Made, golden: Golden) -> None:
    encoded = msgspec.json.encode(trace_answer.Answers(traces=[trace_answer.answer(*made)]))
    rounded = json.loads(encoded, parse_float=lambda text: float(f"{float(text):.6g}"))
    golden("trace.json", json.dumps(rounded, indent=1, ensure_ascii=False) + "\n")


# ---------------------------------------------------------------- answer


def test_answer_reads_back_as_the_same_record(made: Made) -> None:
    found = trace_answer.answer(*made)
    assert msgspec.json.decode(msgspec.json.encode(found), type=trace_answer.Answer) == found


def test_answer_marks_the_slow_step_and_names_places_of_findings(made: Made) -> None:
    found = trace_answer.answer(*made)
    assert [one.number for one in found.steps if one.slow] == [trace_sample.SLOW]
    assert found.steps[trace_sample.SLOW].length_s == pytest.approx(trace_sample.SLOW_US * 1e-6)
    loads = next(one for one in found.findings if one.finding.rule == "data-loader")
    assert loads.places == trace_sample.STEPS
    assert loads.longest[0].step == trace_sample.SLOW
    assert loads.longest[0].duration_s == pytest.approx((trace_sample.SLOW_US - 7000) * 1e-6)
    assert loads.manual == "docs/findings.md#data-loader"


def test_findings_and_their_marks_go_together(made: Made) -> None:
    study, advice = made
    assert len(advice.marks) == len(advice.findings) > 1
    for one, marks in zip(advice.findings, advice.marks, strict=True):
        assert len(marks), one.rule
        assert (marks.end >= marks.start).all()
    waits = advice.marks[[one.rule for one in advice.findings].index("synchronise")]
    assert {study.events.names[int(study.events.name[place])] for place in waits.place} == {"cudaStreamSynchronize"}


def test_every_key_of_the_json_is_described() -> None:
    printed, texts = schema.json_schema(), about("hotlap.traces.show")
    assert set(printed["$defs"]) == set(texts)
    for name, keys in texts.items():
        record = printed["$defs"][name]
        assert {key: one["description"] for key, one in record["properties"].items()} == keys
        assert all(keys.values())


# ---------------------------------------------------------------- page


def test_page_is_whole_and_asks_nothing_of_the_network(made: Made) -> None:
    page = trace_page.page(*made)
    assert page.count("<section") == page.count("</section>")
    assert not re.search(r"<(?:script|img|iframe|link)[^>]+(?:src|href)=\"(?!data:)", page)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|importScripts", page)
    assert all(url.startswith("https://") for url in re.findall(r'<a href="(http[^"]*)"', page))
    assert "{{" not in page.split("<script>")[0]
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids)), "an id stands twice, so that a script finds the wrong element"


def test_page_says_the_numbers_of_the_json(made: Made) -> None:
    page = trace_page.page(*made)
    found = trace_answer.answer(*made)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert data["traces"] == [json.loads(msgspec.json.encode(found))]
    assert found.total is not None
    assert f"{100 * (found.total.idle_share or 0):.1f} %" in page
    for share in found.idle.values():
        assert share < 0.0005 or f"{100 * share:.1f} %" in page
    for one in found.findings:
        assert f"<b>{trace.gain(one.finding)}</b>" in page
    for row in found.kernels:
        assert f'data-v="{row.calls}"' in page
    assert "vectorized_elementwise_kernel&lt;CUDAFunctor_add&gt;" in page


def test_page_escapes_what_comes_from_the_file(tmp_path: Path) -> None:
    making = trace_sample.Making()
    for i in range(3):
        making.launch("</script><b>x", "<img src=x onerror=alert(1)>", 100 + 500 * i, (200 + 500 * i, 300))
    path = tmp_path / "<i>.json"
    path.write_text(json.dumps({"traceEvents": making.events}))
    study = Study(Timeline.open(path))
    page = trace_page.page(study, advising.advise(study))
    assert "<img" not in page
    assert "<i>.json" not in page
    assert page.count("</script>") == 3  # what is drawn, the data, the script itself


def test_page_of_the_host_alone_says_that_shares_do_not_apply(host_alone: Made) -> None:
    page = trace_page.page(*host_alone)
    assert "shares of a device are not applicable" in page
    flame = drawn(page)["flame"]
    assert flame["of"] == "host"
    assert flame["time_us"][0] == pytest.approx(sum(t for t, up in zip(flame["time_us"], flame["parent"], strict=True) if up == 0))


def test_page_shows_ranks_where_they_are_given(made: Made) -> None:
    bars = [RankBar(n, {"compute": 0.5, "exposed_communication": 0.2, "exposed_copy": 0.0, "idle": 0.3}, 0.001 * n) for n in range(3)]
    page = trace_page.page(*made, ranks=bars)
    assert 'id="ranks"' in page
    assert page.count(">rank ") == 3
    assert 'id="ranks"' not in trace_page.page(*made)


# ---------------------------------------------------------------- timeline


def test_timeline_draws_the_slowest_step_with_every_event_of_it(made: Made) -> None:
    study, advice = made
    scene = trace_scene.scene(study, list(advice.marks))
    assert scene["words"].startswith(f"step {trace_sample.SLOW}, the longest of {trace_sample.STEPS}")
    assert scene["span"] * scene["unit_ns"] == trace_sample.SLOW_US * 1000
    first = column(scene, "first", "<u4")
    start, end, name = column(scene, "start", "<i4"), column(scene, "end", "<i4"), column(scene, "name", "<u2")
    assert len(first) == sum(row["levels"] for row in scene["rows"]) + 1
    for low, high in pairwise(first):
        assert (start[low:high][1:] >= end[low:high][:-1]).all(), "events of a row stand one behind another"
    said = [scene["names"][i] for i in name]
    assert said.count(trace_sample.KERNEL) == 4
    assert said.count("cudaLaunchKernel") == 5
    call, operator = column(scene, "call", "<i4"), column(scene, "operator", "<u2")
    for i in np.flatnonzero(np.array(said) == trace_sample.KERNEL):
        assert said[call[i]] == "cudaLaunchKernel"
        assert scene["operators"][operator[i]] == "aten::add"
    line = column(scene, "line", "<u2")
    assert scene["lines"][line[said.index("aten::add")]] == "train.py(12): step"


def test_timeline_marks_the_places_of_findings(made: Made) -> None:
    study, advice = made
    marks = trace_scene.scene(study, list(advice.marks))["marks"]
    at = [one.rule for one in advice.findings].index("data-loader")
    assert marks[at]["places"] == trace_sample.STEPS
    assert marks[at]["here"] == 1
    (part,) = marks[at]["parts"]
    assert part["start"] == [50_000]
    assert part["end"] == [(50 + trace_sample.SLOW_US - 7000) * 1000]


@pytest.mark.slow("simulates whole runs, and draws them")
def test_timeline_merges_what_is_too_much_to_draw_and_loses_no_time(tmp_path: Path) -> None:
    making = trace_sample.Making()
    for i in range(3000):
        making.launch("aten::add", f"kernel_{i % 5}", 1000 + 3 * i, (1000 + 3 * i, 2))
    making.launch("aten::mm", "long", 12000, (12000, 40000))
    path = tmp_path / "many.json"
    path.write_text(json.dumps({"traceEvents": [one for one in making.events if one.get("cat") != "cpu_op"]}))
    study = Study(Timeline.open(path))
    scene = trace_scene.scene(study, [], most=500)
    merged, start, end = column(scene, "merged", "<u2"), column(scene, "start", "<i4"), column(scene, "end", "<i4")
    assert len(merged) <= 500
    kernels = column(scene, "paint", "u1") == 0
    assert merged[kernels].sum() == 3001
    assert (end[kernels].max() - start[kernels].min()) * scene["unit_ns"] == pytest.approx(51_000_000, rel=1e-6)
    assert "long" in scene["names"]


@pytest.mark.slow("a page of 25,000 events; a browser")
def test_page_stays_small_though_every_event_has_a_long_name_of_its_own(tmp_path: Path) -> None:
    making = trace_sample.Making()
    for i in range(25_000):
        making.launch(f"operator_{i}_{'x' * 200}", f"kernel_{i}_{'y' * 200}", 1000 + 500 * i, (1100 + 500 * i, 300))
    path = tmp_path / "names.json"
    path.write_text(json.dumps({"traceEvents": making.events}))
    study = Study(Timeline.open(path, cache=False))
    assert len(trace_page.page(study, Advice([], 0, None)).encode()) < 5_000_000


def test_timeline_gives_rows_to_work_that_overlaps_on_a_stream() -> None:
    start, end = np.array([0, 5, 6, 20], np.int64), np.array([10, 15, 7, 30], np.int64)
    assert trace_rows._levels(start, end).tolist() == [0, 1, 2, 0]


# ---------------------------------------------------------------- icicle


def test_icicle_adds_up_to_the_time_of_the_device_and_its_gaps(made: Made) -> None:
    study, _ = made
    flame = trace_flame.flame(study)
    work = study.events.work
    assert flame["time_us"][0] == pytest.approx(study.events.duration[work].sum() / 1e3)
    gaps = study.idles[0].gaps
    assert flame["idle_us"][0] == pytest.approx((gaps.end - gaps.start).sum() / 1e3)
    assert flame["calls"][0] == len(work)
    at = flame["name"].index("vectorized_elementwise_kernel<CUDAFunctor_add>")
    assert flame["name"][flame["parent"][at]] == "aten::add"
    assert flame["time_us"][at] == pytest.approx(300 * 4 * trace_sample.STEPS)
    assert not [name for name in flame["name"] if name.startswith("ProfilerStep")]


# ---------------------------------------------------------------- in a browser


@pytest.mark.slow("a page of 25,000 events; a browser")
@pytest.mark.skipif(not pdf.browser(), reason="no Chromium is here")
def test_page_draws_in_a_browser(made: Made, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(trace_page.page(*made), encoding="utf-8")
    argv = [*pdf.command(pdf.browser(), str(tmp_path / "profile")), "--virtual-time-budget=3000", "--dump-dom", page.as_uri()]
    found = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=True).stdout
    assert f"Drawn: step {trace_sample.SLOW}, the longest of {trace_sample.STEPS}" in found
    legend = re.search(r'id="legend">(.*?)</div>', found)
    assert legend
    assert re.findall(r">([^<>]+)</span>", legend[1])[:3] == ["kernel", "communication", "copy"]
    flame = set(re.findall(r'data-node="\d+"[^>]*>([^<]+)<', found))
    assert {"all", "aten::add", "vectorized_elementwise_kernel&lt;CUDAFunctor_add&gt;"} <= flame
    assert len(re.findall(r'class="jump" data-finding="\d+">', found)) == len(made[1].findings)  # no longer hidden


# ---------------------------------------------------------------- annotated trace


def test_annotated_trace_reads_back_with_all_that_was_in_it(made: Made, tmp_path: Path) -> None:
    study, advice = made
    out = tmp_path / "out.json.gz"
    trace_perfetto.write(study, advice, out)
    document = json.loads(gzip.decompress(out.read_bytes()))
    phases = [one["ph"] for one in document["traceEvents"]]
    assert phases.count("s") == phases.count("f") == len(study.events.work)  # an arrow to each piece of work
    again = Timeline.open(out)
    before = study.events
    mine = np.array([one.process == writing.NOTES for one in again.threads])
    kept = (again.thread < 0) | ~mine[again.thread]
    assert int(kept.sum()) == len(before)
    for name in ("duration", "kind", "device", "stream", "correlation", "external", "bytes"):
        assert sorted(getattr(again, name)[kept].tolist()) == sorted(getattr(before, name).tolist()), name
    assert again.breakdown() == before.breakdown()
    assert (again.head.rank, again.head.ranks, again.head.devices) == (1, 2, before.head.devices)
    assert {again.launches[i] for i in again.launch[again.kind == KERNEL]} == {before.launches[i] for i in before.launch[before.kind == KERNEL]}
    assert set(again.stacks) == set(before.stacks)


def test_annotated_trace_holds_findings_gaps_and_critical_path(made: Made, tmp_path: Path) -> None:
    study, advice = made
    out = tmp_path / "out.json"
    trace_perfetto.write(study, advice, out)
    again = Timeline.open(out)
    lanes = {one.thread: place for place, one in enumerate(again.threads) if one.process == writing.NOTES}
    assert [name for name in lanes if name[0].isdecimal()] == [
        f"{i}. {trace.gain(one)}: {one.title}" for i, one in enumerate(advice.findings, 1)
    ]
    for name, place in lanes.items():
        here = np.flatnonzero(again.thread == place)
        here = here[np.argsort(again.start[here], kind="stable")]
        assert len(here), name
        assert set(again.kind[here].tolist()) == {OTHER}
        assert (again.start[here][1:] >= again.end[here][:-1]).all(), f"slices of '{name}' overlap"
    gaps = study.idles[0].gaps
    assert again.duration[again.thread == lanes["device 0 idle because"]].sum() == (gaps.end - gaps.start).sum()
    path = again.thread == lanes["critical path"]
    end = int(study.timed.end.max())
    assert again.end[path].max() + again.head.origin_ns == end


def test_annotated_trace_where_it_cannot_be_written(made: Made, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be written"):
        trace_perfetto.write(*made, tmp_path / "no" / "out.json")
