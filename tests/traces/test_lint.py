"""Every rule of lint: a trace that breaks it, and one that does not."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trace_samples
from marked import half, launch, marker, opened, ranked, step, written

from hotlap.core.errors import InputError
from hotlap.traces.cli import lint as trace_lint
from hotlap.traces.events import Half
from hotlap.traces.lint import lint
from hotlap.traces.markers import Flaw, rules
from hotlap.traces.show import lint as printing
from hotlap.traces.timeline import Timeline

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "traces"


def flaws(path: Path, events: list[dict[str, Any]], rule: str) -> list[Flaw]:
    return [one for one in lint([opened(path / "t.json", events)]).flaws if one.rule == rule]


def good() -> list[dict[str, Any]]:
    """Two steps with marked parts, whose work is all launched in a part."""
    events: list[dict[str, Any]] = []
    for i in (0, 1):
        at = 1000 * i
        events += [step(i, at, 900), marker("forward", at + 10, 400), marker("backward", at + 450, 400)]
        events += [*launch("k1", 10 * i + 1, at + 20, at + 60, 100), *launch("k2", 10 * i + 2, at + 460, at + 500, 100)]
    return events


def test_a_trace_marked_well_has_no_flaw(tmp_path: Path) -> None:
    found = lint([opened(tmp_path / "good.json", good())])
    assert found.flaws == []
    assert (found.markers, found.names) == ([6], [4])
    assert set(found.not_told) == {"ranks-differ", "names-changed"}


def test_left_open(tmp_path: Path) -> None:
    (one,) = flaws(tmp_path, [*good(), half("B", "load", 1200)], "left-open")
    assert one.severity == "error"
    assert one.names == ["load"]
    assert (one.places[0].time_s, one.places[0].thread) == (pytest.approx(1.2e-3), "7/7")


def test_left_open_in_a_file_that_is_cut_off_is_no_error(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [*good(), half("B", "load", 1200)]})[:-2]
    (tmp_path / "cut.json").write_text(text + ', {"ph": "X", "na')
    linted = lint([Timeline.open(tmp_path / "cut.json", cache=False)])
    assert [(one.rule, one.severity) for one in linted.flaws] == [("left-open", "warning")]
    assert "the file is cut off: what stands before the cut was read" in [notice.seen for notice in linted.notices["cut.json"]]
    assert "notice the file is cut off" in printing.lint(linted, 100)


def test_closed_without_opening(tmp_path: Path) -> None:
    (one,) = flaws(tmp_path, [*good(), half("E", "", 1950)], "closed-unopened")
    assert (one.severity, one.names) == ("error", ["(no name)"])
    (one,) = flaws(tmp_path, [half("E", "earlier", 1), *[dict(e, ts=e["ts"] + 5) for e in good()]], "closed-unopened")
    assert one.severity == "info"
    assert "begun before recording" in one.detail


def test_an_end_of_another_name(tmp_path: Path) -> None:
    events = [*good(), half("B", "outer", 1900), half("B", "inner", 1910), half("E", "outer", 1920), half("E", "inner", 1930)]
    found = flaws(tmp_path, events, "closed-unopened")
    assert [(one.names, one.severity) for one in found] == [(["outer"], "error"), (["inner"], "error")]
    assert "closed the range 'inner'" in found[0].detail


def test_closed_on_another_thread(tmp_path: Path) -> None:
    found = lint([opened(tmp_path / "t.json", [*good(), half("B", "io", 1900), half("E", "io", 1960, tid=8)])]).flaws
    assert [one.rule for one in found] == ["closed-elsewhere"]
    assert found[0].detail == "opened on 7/7, closed on 7/8 after 0.06 ms"
    assert [place.thread for place in found[0].places] == ["7/7", "7/8"]


def test_an_end_that_came_before_or_in_another_domain_closes_nothing_elsewhere(tmp_path: Path) -> None:
    found = lint([opened(tmp_path / "t.json", [*good(), half("E", "io", 1850, tid=8), half("B", "io", 1900)])]).flaws
    assert [one.rule for one in found] == ["left-open", "closed-unopened"]
    halves = [Half(what=w, name="io", start_ns=at, thread=t, domain=d) for w, at, t, d in (("begin", 1, "7/7", "a"), ("end", 2, "7/8", "b"))]
    trace = opened(tmp_path / "t.json", good())
    trace.head = msgspec.structs.replace(trace.head, halves=halves)
    assert [one.rule for one in lint([trace]).flaws] == ["left-open", "closed-unopened"]
    trace.head = msgspec.structs.replace(trace.head, halves=[msgspec.structs.replace(one, domain="a") for one in halves])
    assert [one.rule for one in lint([trace]).flaws] == ["closed-elsewhere"]


def test_left_open_in_a_trace_of_nsight_systems(tmp_path: Path) -> None:
    (tmp_path / "report.sqlite").write_bytes(trace_samples.nsys())
    trace = Timeline.open(tmp_path / "report.sqlite", cache=False)
    found = lint([trace])
    (one,) = [flaw for flaw in found.flaws if flaw.rule == "left-open"]
    assert one.names == ["open"]
    assert round(one.places[0].time_s * 1e9) == 1800 - trace.head.origin_ns
    assert one.places[0].thread == "77/78"
    assert found.not_told["too-short"] == "the cost of a range was measured for PyTorch only"


def test_balanced_halves_are_well(tmp_path: Path) -> None:
    events = [*good(), half("B", "a", 1900), half("B", "b", 1910), half("E", "", 1920), half("E", "a", 1930)]
    assert lint([opened(tmp_path / "t.json", events)]).flaws == []


def test_crossed(tmp_path: Path) -> None:
    (one,) = flaws(tmp_path, [*good(), marker("read", 1900, 50), marker("parse", 1930, 50)], "crossed")
    assert one.names == ["read", "parse"]
    assert "0.03 ms after" in one.detail
    assert flaws(tmp_path, [*good(), marker("read", 1900, 50), marker("parse", 1930, 21)], "crossed") == []  # a rounding


def test_ids(tmp_path: Path) -> None:
    several = [marker(f"batch {i * 37}", 3000 + 20 * i, 10) for i in range(8)]
    (one,) = flaws(tmp_path, good() + several, "ids")
    assert (one.count, len(one.names)) == (8, 8)
    assert flaws(tmp_path, good() + several[:7], "ids") == []
    recurring = several + [marker(f"batch {i * 37}", 4000 + 20 * i, 10) for i in range(8)]
    assert flaws(tmp_path, good() + recurring, "ids") == []  # parts of the program, by number
    layers = [marker(f"layer_{i}", 3000 + 20 * i, 10) for i in range(8)]
    assert flaws(tmp_path, good() + layers, "ids") == []
    addresses = [marker(f"buffer 0x7f00{i}0", 3000 + 20 * i, 10) for i in range(2)]
    (one,) = flaws(tmp_path, good() + addresses, "ids")
    assert "addresses" in one.detail


def test_near_duplicates(tmp_path: Path) -> None:
    (one,) = flaws(tmp_path, [*good(), marker("Forward", 1900, 50)], "near-duplicates")
    assert one.names == ["Forward", "forward"]
    assert one.places[0].time_s == pytest.approx(1.9e-3)  # the rarer spelling


def test_recursive_and_several_depths(tmp_path: Path) -> None:
    found = lint([opened(tmp_path / "t.json", [*good(), marker("forward", 20, 100), marker("log", 1900, 20), marker("log", 460, 20)])]).flaws
    assert [(one.rule, one.names) for one in found] == [("recursive", ["forward"]), ("several-depths", ["log"])]
    assert found[0].detail == "1 of 3 ranges; 11 % of the name's time is counted twice"
    assert found[1].detail == "ranges by depth: 0: 1, 1: 1"  # the step's range is no depth


def test_no_step(tmp_path: Path) -> None:
    (one,) = flaws(tmp_path, [e for e in good() if "ProfilerStep" not in e["name"]], "no-step")
    assert one.severity == "warning"
    assert flaws(tmp_path, [dict(e, name=e["name"].replace("ProfilerStep#", "iteration ")) for e in good()], "no-step") == []


def test_too_short(tmp_path: Path) -> None:
    tiny = [marker("tiny", 1900 + 5 * i, 1 + i) for i in range(3)]
    (one,) = flaws(tmp_path, good() + tiny, "too-short")
    assert (one.names, one.count) == (["tiny"], 3)
    assert "median of 2 µs" in one.detail
    assert flaws(tmp_path, good() + [dict(e, dur=6) for e in tiny], "too-short") == []
    assert flaws(tmp_path, good() + [dict(e, dur=0) for e in tiny], "too-short") == []  # marks of a moment


def test_unmarked(tmp_path: Path) -> None:
    (one,) = flaws(tmp_path, [*good(), *launch("k3", 99, 860, 870, 200)], "unmarked")
    assert one.detail.startswith("33 % of the busy time")
    assert one.count == 1
    assert flaws(tmp_path, [*good(), *launch("k3", 99, 860, 870, 90)], "unmarked") == []
    bare = [e for e in good() if e["cat"] != "user_annotation"]
    assert [one.rule for one in lint([opened(tmp_path / "t.json", bare)]).flaws] == ["no-step", "unmarked"]


def test_ranks(tmp_path: Path) -> None:
    less = [e for e in good() if e["name"] != "backward"]
    found = lint([ranked(tmp_path / "0.json", 0, good()), ranked(tmp_path / "1.json", 1, [*less, marker("forward", 1900, 50)])])
    assert found.compared == "ranks"
    details = [one.detail for one in found.flaws if one.rule == "ranks-differ"]
    assert details == ["rank 1 lacks what rank 0 marks", "not used equally often: 'forward' 2 × on rank 0, 3 × on rank 1"]


def test_runs(tmp_path: Path) -> None:
    later = [dict(e, name={"backward": "backward_pass"}.get(e["name"], e["name"])) for e in good()]
    traces = [opened(tmp_path / "a.json", good()), opened(tmp_path / "b.json", [*later, marker("evaluate", 1900, 50)])]
    found = [one for one in lint(traces).flaws if one.rule == "names-changed"]
    assert [(one.severity, one.names) for one in found] == [("warning", ["backward", "backward_pass"]), ("info", ["evaluate"])]
    assert lint(traces, "ranks").compared == "ranks"


def test_every_rule_says_why_where_from_and_what_to_do() -> None:
    known, framework, _ = rules()
    assert len(known) == 13
    for one in known.values():
        assert one.because
        assert one.remedy
        assert re.search(r"nvidia\.github\.io|pytorch\.org|common practice; no source found|benchmarks/", one.source), one.name
    assert all(framework.search(name) for name in ("ProfilerStep#3", "Optimizer.step#SGD.step", "nccl:all_reduce", "enumerate(DataLoader)#x"))
    assert not framework.search("forward")


def command(*words: str, as_json: bool = False) -> int:
    parser = ArgumentParser()
    trace_lint.add(parser)
    args = parser.parse_args(words)
    args.json = as_json
    return trace_lint.run(args)


def test_exit_codes_and_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fine = str(written(tmp_path / "good.json", good()))
    wrong = str(written(tmp_path / "wrong.json", [*good(), half("B", "load", 1200), marker("Forward", 1900, 50)]))
    assert command(fine) == 0
    assert "no flaw found" in capsys.readouterr().out
    assert command(wrong) == 1
    out = capsys.readouterr().out
    assert "ERROR  A range was opened and never closed  [left-open]" in out
    assert "at         1.200 ms on thread 7" in out
    assert "2 flaws: 1 error, 1 warning" in out
    assert command(wrong, as_json=True) == 1
    assert [one["rule"] for one in json.loads(capsys.readouterr().out)["flaws"]] == ["left-open", "near-duplicates"]
    warned = str(written(tmp_path / "warned.json", [*good(), marker("Forward", 1900, 50)]))
    assert (command(warned), command(warned, "--fail-on", "warning")) == (0, 1)
    assert command("--list") == 0
    assert "near-duplicates: Names are spelt almost alike (warning)" in capsys.readouterr().out


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fine = str(written(tmp_path / "good.json", good()))
    (tmp_path / "no.txt").write_text("nothing of the kind")
    with pytest.raises(InputError, match="is no trace that Hotlap knows"):
        command(str(tmp_path / "no.txt"))
    with pytest.raises(InputError, match="name a trace"):
        command()
    with pytest.raises(InputError, match=r"no severity 'eror'; did you mean 'error'\?"):
        command(fine, "--fail-on", "eror")
    assert command(fine, str(tmp_path / "no.txt")) == 0
    assert "left out:" in capsys.readouterr().err


def test_lines_fit_the_width(tmp_path: Path) -> None:
    several = [marker(f"a rather long name of a part that takes in request {i * 37}", 3000 + 20 * i, 10) for i in range(9)]
    found = lint([opened(tmp_path / "t.json", [*good(), *several, half("B", "load", 1200)])])
    assert all(len(line) <= 80 for line in printing.lint(found, 80).splitlines())


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared traces are not here")
def test_traces_of_others() -> None:
    found = lint([Timeline.open(SHARED / "kineto" / "resnet50_num_workers_0.pt.trace.json.gz", cache=False)])
    assert [one.rule for one in found.flaws] == ["unmarked"]
    found = lint([Timeline.open(SHARED / "hta" / "nccl_data.json.gz", cache=False)])
    assert found.flaws == []
    found = lint([Timeline.open(SHARED / "hta" / "trace_diff_control.json.gz", cache=False)])
    assert {one.rule for one in found.flaws} == {"several-depths"}
