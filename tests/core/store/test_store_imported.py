"""Numbers measured elsewhere: every form people have, and nothing half brought in."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.core.analysis.history import history
from hotlap.core.errors import InputError
from hotlap.core.show.history import places
from hotlap.core.store import paths, select
from hotlap.core.store.readers import imported, table
from hotlap.core.store.readers.source import Source
from hotlap.core.store.readers.table import TableColumns, moment

CSV = "time,benchmark,result,unit,label.commit,gpu\n2026-11-01T03:00:00Z,decode,12.5,ms,a1,G0\n2026-11-01T03:00:00Z,decode,13,ms,a1,G0\n2026-11-02 03:00,copy,4.25,TB/s,b2,G0\n"


def keep(tmp_path: Path, text: str, name: str = "x.csv", better: str | None = None) -> imported.Imported:
    path = tmp_path / name
    path.write_text(text) if not name.endswith(".gz") else path.write_bytes(gzip.compress(text.encode()))
    return imported.bring_in(table.read(Source.open(path), TableColumns()), "x", tmp_path / "home", {"": better} if better else {})  # type: ignore[dict-item]


def test_rows_become_runs_with_values_in_base_units(tmp_path: Path) -> None:
    found = keep(tmp_path, CSV)
    assert (len(found.added), found.present, found.cases) == (2, [], {"decode": "s", "copy": "B/s"})
    first, second = select.every(tmp_path / "home")
    (decode,) = select.results(first)
    assert decode.values == pytest.approx([0.0125, 0.013])
    assert (decode.unit, decode.better, decode.metric, decode.device) == ("s", "lower", "time", "imported:0:G0")
    (copy,) = select.results(second)
    assert (copy.values, copy.better, second.run.labels) == ([4.25e12], "higher", {"commit": "b2"})
    assert first.run.began.startswith("2026-11-01T03:00:00")
    assert first.notices == []


def test_each_device_of_a_host_is_a_series_of_its_own(tmp_path: Path) -> None:
    lines = [f"2026-01-{day:02},decode,{10 if gpu != 'GPU-2' or day < 15 else 10.5},ms,n1,{gpu}" for day in range(1, 29) for gpu in ("GPU-10", "GPU-2", "GPU-1")]
    keep(tmp_path, "\n".join(["time,case,value,unit,host,gpu", *lines]))
    every = list(select.every(tmp_path / "home"))
    assert {one.run.machine.devices[0].name: one.run.machine.devices[0].index for one in every} == {"GPU-1": 0, "GPU-2": 1, "GPU-10": 2}
    found = {one.device: [change.index for change in one.changes] for one in history(every)}
    assert found == {"imported:0:GPU-1": [], "imported:1:GPU-2": [14], "imported:2:GPU-10": []}
    assert sorted(places(history(every))) == ["n1 GPU-1", "n1 GPU-10", "n1 GPU-2"]


SKUS = [f"2026-11-01,n{node:02},{'H100' if node < 4 else 'H200'},triad,{4200 + node},GB/s" for node in range(8)]


@pytest.mark.parametrize("column", ["model", "sku", "SKU", "gpu_model", "device_model"])
def test_a_column_called_like_the_model_is_the_devices_and_is_named(
    column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "x.csv").write_text("\n".join([f"time,node,{column},case,value,unit", *SKUS]))
    assert main(["import", str(tmp_path / "x.csv")]) == 0
    out = capsys.readouterr().out
    assert f"model: column '{column}'" in out
    assert {one.run.machine.devices[0].name for one in select.every(tmp_path / "home")} == {"H100", "H200"}
    assert out.splitlines()[-1] == "next    hotlap gate 2026-11-01 --against fleet"  # each series has one point


def test_many_devices_of_several_days_are_a_fleet_and_a_few_are_histories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for devices, step in ((9, "hotlap gate 2026-11-01..2026-11-03 --against fleet"), (6, "hotlap history")):
        rows = [f"2026-11-0{day},n{node},copy,{4000 + node + day},GB/s" for day in (1, 2, 3) for node in range(devices)]
        (tmp_path / "fleet.csv").write_text("\n".join(["time,node,case,value,unit", *rows, ""]))
        monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / f"home{devices}"))
        assert main(["import", str(tmp_path / "fleet.csv")]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"next    {step}"
    assert main(["gate", "2026-11-01", "--against", "fleet", "--json"]) in (0, 1, 3)


@pytest.mark.parametrize(
    ("header", "rows", "column"),
    [
        ("time,host,model,step_ms", ["2026-01-01,a,resnet50,12", "2026-01-01,a,gpt2,15"], "model"),  # what was trained
        ("time,host,sku,case,value,unit", [f"2026-01-01,n{n},4090,a,{n},ms" for n in (1, 2)], "sku"),  # numbers
        ("time,host,model,step_ms", [f"2026-01-01,n{n},name-{n},{n}" for n in range(1, 11)], "model"),  # a name for each
        ("time,host,uuid,gpu,step_ms", ["2026-01-01,a,u1,GPU 0,12", "2026-01-01,a,u2,GPU 1,15"], ""),
    ],
)
def test_a_column_that_is_only_called_so_is_not_taken_and_that_is_said(
    header: str, rows: list[str], column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "x.csv").write_text("\n".join([header, *rows]))
    assert main(["import", str(tmp_path / "x.csv")]) == 0
    out = capsys.readouterr().out
    assert "model: column" not in out
    assert (f"--model {column} takes it" in out) if column else ("--model" not in out)
    single = len(list(select.every(tmp_path / "home"))) == 1  # of which the models are cases
    assert out.splitlines()[-1].startswith("next    hotlap show" if single else "next    hotlap history") or len(rows) > 4
    assert ("case: with model" in out) == single


def test_a_gpu_beside_a_uuid_is_the_model(tmp_path: Path) -> None:
    found = keep(tmp_path, "time,host,uuid,gpu,step_ms\n2026-01-01,a,u1,H200,12\n2026-01-01,a,u2,H200,15\n")
    assert found.columns == {"device": "uuid", "model": "gpu"}
    assert {one.run.machine.devices[0].key for one in select.every(tmp_path / "home")} == {"imported:0:H200", "imported:1:H200"}


def test_series_of_several_points_are_no_survey(tmp_path: Path) -> None:
    rows = [f"2026-11-0{day},n{node},triad,4200,GB/s" for day in (1, 2) for node in range(6)]
    assert keep(tmp_path, "\n".join(["time,node,case,value,unit", *rows[:6]])).fleet == "2026-11-01"
    (tmp_path / "other").mkdir()
    assert keep(tmp_path / "other", "\n".join(["time,node,case,value,unit", *rows])).fleet == ""


def test_a_label_is_of_the_runs_and_a_column_is_kept_by_its_own_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "x.csv").write_text("time,case,value,unit,build\n2026-11-01,a,1,GB/s,b7\n")
    for words in (["--label", "site=A", "--label-column", "build"], ["--label", "site=B", "--label", "build"]):
        assert main(["import", str(tmp_path / "x.csv"), *words]) == 0
    former = "hotlap: '--label build' is taken as --label-column build; --label NAME=VALUE labels the runs\n"
    assert capsys.readouterr().err == former
    labels = [dict(one.run.labels) for one in select.every(tmp_path / "home")]
    assert sorted(labels, key=str) == [{"build": "b7", "site": "A"}, {"build": "b7", "site": "B"}]


def test_twice_adds_nothing(tmp_path: Path) -> None:
    keep(tmp_path, CSV)
    again = keep(tmp_path, CSV)
    assert (again.added, len(again.present)) == ([], 2)


def test_a_column_per_metric(tmp_path: Path) -> None:
    found = keep(tmp_path, "time;commit;speed;watts\n2026.01.01 3:00:00 +0100;aaa0;154,023;10.4\n2026.01.02 3:00:00 +0100;aaa1;;10.2\n", better="higher")
    assert list(found.cases) == ["speed", "watts"]
    first, second = select.every(tmp_path / "home")
    assert [r.values for r in select.results(first)] == [[154023.0], [10.4]]
    assert [r.case.params["name"] for r in select.results(second)] == ["watts"]
    assert first.run.labels == {"commit": "aaa0"}
    assert first.run.began.startswith("2026-01-01T02:00:00")


def test_a_column_says_its_unit_at_the_end_of_its_name(tmp_path: Path) -> None:
    found = keep(tmp_path, "time,gpu,copy_GBps,lat_us,power (W),link_gbps\n2026-01-01,g,4300,5.1,300,100\n")
    assert found.cases == {"copy_GBps": "B/s", "lat_us": "s", "power (W)": "W", "link_gbps": "gbps"}
    (run,) = select.every(tmp_path / "home")
    assert [(r.values, r.better) for r in select.results(run)] == [
        ([4.3e12], "higher"), ([pytest.approx(5.1e-6)], "lower"), ([300.0], "lower"), ([100.0], "higher"),
    ]  # fmt: skip


def test_a_column_of_cases_beside_a_column_per_metric_names_each_case(tmp_path: Path) -> None:
    """All cases of a host were taken for rounds of one, called GB/s."""

    def place(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    of_one = keep(place("one"), "time,node,case,GB/s\n2026-01-01,n1,copy,4300\n2026-01-01,n1,copy,4310\n2026-01-01,n1,read,4500\n")
    assert of_one.cases == {"copy": "B/s", "read": "B/s"}
    (run,) = select.every(tmp_path / "one" / "home")
    assert [r.values for r in select.results(run)] == [[4.3e12, 4.31e12], [4.5e12]]
    of_two = keep(place("two"), "time,node,test,lat_us,bw (GB/s),site\n2026-01-01,n1,a,5,43,x\n2026-01-01,n1,b,6,45,x\n")
    assert of_two.cases == {"a lat_us": "s", "a bw (GB/s)": "B/s", "b lat_us": "s", "b bw (GB/s)": "B/s"}
    (run,) = select.every(tmp_path / "two" / "home")
    assert run.run.labels == {"site": "x"}
    named = keep(place("three"), "time,gpu_index,name,power (W)\n2026-01-01,0,H200,500\n2026-01-02,0,H200,510\n")
    assert named.cases == {"power (W)": "W"}  # the name of the device, which is a label
    assert keep(place("four"), "time,name,ms\n2026-01-01,a,5\n2026-01-01,b,6\n").cases == {"a": "s", "b": "s"}
    five = keep(place("five"), "time,test,latency,unit\n2026-01-01,a,5,ms\n2026-01-01,b,6,us\n")
    assert five.cases == {"a latency": "s", "b latency": "s"}
    assert keep(place("rate"), "time,test,tokens/s\n2026-01-01,a,5\n2026-01-01,b,6\n").cases == {"a": "tokens/s", "b": "tokens/s"}
    alone = keep(place("alone"), "time,op,commit,run,lat_us\n2026-01-01,a,c1,x,5\n2026-01-01,b,c1,y,6\n2026-01-01,a,c2,z,7\n")
    assert alone.cases == {"a lat_us": "s", "b lat_us": "s"}  # of one host at one time, too
    assert {tuple(run.run.labels) for run in select.every(tmp_path / "alone" / "home")} == {("commit", "run")}
    with pytest.raises(InputError, match=r":3: no 'test': what is this number of\?"):
        keep(place("six"), "time,test,lat_us\n2026-01-01,a,5\n2026-01-01,,6\n")


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("tokens/s", "tokens/s"), ("decode tok/sec", "tok/s"), ("tokens_per_s", "tokens/s"), ("images per second", "images/s"), ("img_per_sec", "img/s"),
        ("throughput (tokens/s)", "tokens/s"), ("tok_s", "tok/s"), ("reqs_s", "reqs/s"), ("steps s", "steps/s"), ("request_s", "s"), ("copy GB/s", "GB/s"), ("copy_GB/s", "GB/s"),
        ("GB/s", "GB/s"), ("ms", "ms"), ("step_s", "s"), ("total_s", "s"), ("time_sec", "s"), ("wall seconds", "s"), ("elapsed", ""), ("latency / s", "s"), ("walltime/s", "s"), ("errors/s", ""), ("page_faults_per_s", ""), ("setup_s", "s"),
    ],
)  # fmt: skip
def test_a_rate_is_no_time(name: str, unit: str) -> None:
    """``tokens_per_s`` was taken for seconds, of which fewer are better."""
    assert table.suffix(name) == unit


def _sizes(path: Path) -> str:
    """Ten hosts with two operations at three sizes, of two commits; n3 is 10 % slower."""
    lines = [
        f"2026-11-28,n{host},c{host // 5},{run},{op},{size},{level * (0.9 if host == 3 else 1) * (1 + run / 1000):.3f}"
        for host in range(10) for op in ("gather", "reduce") for size, level in ((1, 20), (64, 200), (4096, 380)) for run in range(3)
    ]  # fmt: skip
    path.write_text("\n".join(["time,host,commit,attempt,op,size_mb,busbw_GBps", *lines]) + "\n")
    return str(path)


def test_columns_that_cross_tell_cases_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Operations and sizes were labels: a run each, of which a fleet had the last of each device, of any size, and passed."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    words = ["import", _sizes(tmp_path / "x.csv"), "--label-column", "attempt"]
    assert main(words) == 2
    assert "a setting is --case size_mb" in capsys.readouterr().err
    assert main([*words, "--case", "size_mb"]) == 0
    assert "case: with op, of which all devices have the same values" in capsys.readouterr().out
    kept = list(select.every(tmp_path / "home"))
    assert {tuple(run.run.labels) for run in kept} == {("attempt", "commit")}
    assert {str(case.params["name"]) for run in kept for case in run.run.plan.cases} == {
        f"size_mb={size} {op} busbw_GBps" for size in (1, 64, 4096) for op in ("gather", "reduce")
    }
    assert main(["gate", "attempt=0", "--against", "fleet"]) == 1
    printed = capsys.readouterr().out
    assert "n3 " in printed.partition("\ncase ")[0]
    assert "last runs" not in printed


def test_a_fleet_says_that_last_runs_are_of_other_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    assert main(["import", _sizes(tmp_path / "x.csv"), *(word for name in ("attempt", "op", "size_mb") for word in ("--label-column", name))]) == 0
    capsys.readouterr()
    assert main(["gate", "2026-11-28", "--against", "fleet"]) == 3
    printed = " ".join(capsys.readouterr().out.split())
    differ = printed.partition("the last runs of the devices differ in ")[2].partition(": ")[0]
    assert any(name in differ for name in ("attempt (", "op (", "size_mb ("))
    assert "commit" not in differ  # a device has one
    assert "numbers of one case may be of different work; choose runs by a label, as in hotlap gate" in printed


@pytest.mark.parametrize("words", [["--case", "op", "--case", "size_mb"], ["--case", "op", "--case", "size_mb", "--value", "busbw_GBps"]])
def test_several_columns_that_are_named_tell_cases_apart(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    assert main(["import", _sizes(tmp_path / "x.csv"), "--label-column", "attempt", *words]) == 0
    names = {str(case.params["name"]).removesuffix(" busbw_GBps") for run in select.every(tmp_path / "home") for case in run.run.plan.cases}
    assert names == {f"{op} size_mb={size}" for size in (1, 64, 4096) for op in ("gather", "reduce")}


def test_runs_whose_ids_would_be_the_same_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 4,000 rows two had the same six digits in every other import, and one was lost."""
    monkeypatch.setattr(imported, "SHORT", 1)
    head, lines = "time,host,gpu,gpu_model,copy_GBps\n", [f"2026-01-01,n{number // 4},{number % 4},H200,{4000 + number}" for number in range(60)]
    text = head + "\n".join(lines)
    found = keep(tmp_path, text)
    assert (len(found.added), len(set(found.added))) == (60, 60)
    values = {(run.run.machine.host, *result.values) for run in select.every(tmp_path / "home") for result in select.results(run)}
    assert values == {(f"n{number // 4}", (4000 + number) * 1e9) for number in range(60)}
    for again in (text, head + "\n".join(reversed(lines)), *(head + line for line in lines)):
        assert keep(tmp_path, again).added == []
    assert len(keep(tmp_path, f"{head}2026-01-01,m0,0,H200,1\n2026-01-01,m1,0,H200,1\n").added) == 2


def test_of_several_runs_those_that_hold_what_is_asked_for_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    keep(tmp_path, "time,host,copy_GBps\n2026-01-01,n1,4300\n2026-01-01,n2,4200\n")
    assert main(["show", "2026-01-01", "--where", "host=n1"]) == 0
    printed = capsys.readouterr().out
    assert "4.30 TB/s" in printed
    assert "no case was measured" not in printed
    assert "n2" not in printed


def test_a_unit_in_brackets_is_read_from_a_column_s_name(tmp_path: Path) -> None:
    found = keep(tmp_path, "time,host,bandwidth (GB/s),delay [us],share (of it)\n2026-01-01,n,4300,5.1,3\n", better="higher")
    assert found.cases == {"bandwidth (GB/s)": "B/s", "delay [us]": "s", "share (of it)": ""}


def test_a_column_of_numbers_that_is_called_a_version_is_a_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = keep(tmp_path, "time,copy_GBps,driver,fw_version\n2026-01-01,4300,570.1,3\n2026-01-02,4200,575.2,3\n")
    assert found.cases == {"copy_GBps": "B/s"}
    assert [one.run.labels for one in select.every(tmp_path / "home")] == [{"driver": "570.1", "fw_version": "3"}, {"driver": "575.2", "fw_version": "3"}]
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "other"))
    path = tmp_path / "levels.csv"
    path.write_text("time,copy_GBps,level\n2026-01-01,4300,2\n")
    assert main(["import", str(path)]) == 2
    assert "a setting is --case level, or where a whole run has one --label-column level" in capsys.readouterr().err
    path.write_text("time,case,value\n2026-01-01,level,2\n")
    assert main(["import", str(path)]) == 2
    assert "--label-column" not in capsys.readouterr().err


def test_of_a_wide_file_some_columns_and_a_direction_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    path = tmp_path / "wide.csv"
    path.write_text("date,host,gpu,score_a,lat,driver\n2026-09-01,n1,g1,43,5.1,570\n")
    wide = ["import", str(path), "--value", "score_a", "--value", "lat"]
    assert main(wide) == 2
    assert f"{path}: which way is 'score_a' better" in capsys.readouterr().err
    assert main([*wide, "--better", "score_a=higher", "--better", "lower"]) == 0
    assert "1 run added" in capsys.readouterr().out
    (run,) = select.every(tmp_path / "home")
    assert [(r.case.params["name"], r.better) for r in select.results(run)] == [("score_a", "higher"), ("lat", "lower")]
    assert main([*wide, "--better", "lower", "--unit", "ms"]) == 2
    assert f"rm -r {paths.runs(tmp_path / 'home') / run.run.id}" in capsys.readouterr().out
    for words, message in ((["--better", "sideways"], "not 'sideways'"), (["--better", "late=lower"], "did you mean 'lat'"), (["--value", "x"], "no column 'x'")):
        assert main([*wide, *words]) == 2
        assert message in capsys.readouterr().err


def test_json_in_its_forms(tmp_path: Path) -> None:
    rows = [{"timestamp": 1690391261, "case": "a", "value": 3, "unit": "s"}, {"timestamp": 1690391261000, "case": "b", "value": 4.5, "unit": "GB/s"}]
    assert len(keep(tmp_path, json.dumps(rows), "x.json").added) == 1  # seconds and milliseconds of one moment
    lines = "\n".join(json.dumps(one) for one in rows)
    assert len(keep(tmp_path, lines, "y.jsonl.gz").present) == 1
    nested = [{"timestamp": 1690391262, "metrics": [{"name": "p50", "value": 29, "unit": "ms"}, {"name": "tps", "value": 5, "unit": "tx/s"}], "attributes": {"branch": "main"}}]
    found = keep(tmp_path, json.dumps(nested), "z.json")
    assert found.cases == {"p50": "s", "tps": "tx/s"}


def test_what_is_no_number_is_kept_as_an_error_with_its_line(tmp_path: Path) -> None:
    found = keep(tmp_path, "time,case,value,unit\n1690391261,a,1.0,s\n1690391262,a,nan,s\n1690391263,a,,s\n1690391264,a,-2,s\n1690391265,b,-3,GB/s\n")
    assert (len(found.added), found.unreadable) == (5, 4)
    reasons = [select.results(b)[0].reason for b in select.every(tmp_path / "home")]
    assert reasons == ["", "'nan' is not a number, in line 3", "no number, in line 4", "'-2' is no duration, which is above zero, in line 5", "'-3' is no rate, which is above zero, in line 6"]
    assert found.reasons == reasons[1:]


def test_a_comma_that_may_be_a_decimal_point_is_refused(tmp_path: Path) -> None:
    found = keep(tmp_path, "time;case;value;unit\n1;a;1,5;GB/s\n2;a;1,500;GB/s\n3;a;-2;W\n".replace("a;-2", "b;-2"))
    assert found.reasons == ["'1,5' is not a number, in line 2"]
    assert [r.values for b in select.every(tmp_path / "home") for r in select.results(b)] == [[], [1.5e12], [-2.0]]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "x.csv", "no rows"), ("time,case,value\n", "x.csv", "no rows"), ("a,b\n1,2\n", "x.csv", "no column of times"), ("time,case,value\n1,a\n", "x.csv", "x.csv:2: 2 fields"),
        ("time,case,value\nsoon,a,1\n", "x.csv", "x.csv:2: 'soon' is no time"), ("time,case,value\n1,a,1\n", "x.csv", "which way is 'a' better"),
        ("time,case,value,unit\n1,a,1,s\n2,a,1,B\n", "x.csv", "in s in line 2 and in B in line 3"), ("time,value\n1,1\n", "x.csv", "--case"), ("{", "x.json", "x.json:1: not JSON"),
        ("[1]", "x.json", "item 1 is no object"), ("time,case,value,unit\n1,,1,s\n", "x.csv", "x.csv:2: no 'case'"), ("time,note\n1,hello\n", "x.csv", "no column of numbers"),
        ("time,case,value,unit\n-5,a,1,s\n", "x.csv", "no time in seconds"),
    ],
)
def test_what_cannot_be_brought_in_is_answered_and_nothing_is_written(tmp_path: Path, text: str, name: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        keep(tmp_path, text, name)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "home").exists()


def test_bytes_that_are_no_text_and_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"time,case\xff\n")
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"time,case,value\n" * 9)[:25])
    for name, message in (("x.csv", "not UTF-8"), ("x.csv.gz", "cannot be read"), ("none.csv", "no file")):
        with pytest.raises(InputError, match=message):
            table.read(Source.open(tmp_path / name), TableColumns())


@pytest.mark.parametrize("text", ["2026-11-01T03:00:00Z", "2026-11-01 03:00", "2026/11/1 3:00", "2026-11-01T04:00:00+01:00", "1793502000", "1793502000000", "1793502000.0"])
def test_one_moment_in_its_spellings(text: str) -> None:
    assert moment(text, "x") == 1793502000.0


def test_what_was_brought_in_gets_no_advice_about_how_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The state stands there all the same: one round has no interval."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "x.csv").write_text(CSV)
    assert main(["import", str(tmp_path / "x.csv")]) == 0
    for verb in ("show", "explain"):
        capsys.readouterr()
        main([verb, "latest"])
        out = capsys.readouterr().out
        assert "inconclusive, few rounds" in out
        assert "→" not in out
        assert "--round" not in out


@pytest.mark.slow("whole runs")
def test_every_verb_works_on_what_was_brought_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    path = tmp_path / "nightly.csv"
    rows = [f"2026-{1 + n // 28:02}-{1 + n % 28:02},decode,{(10 if n < 60 else 11) + n % 3 * 0.01},ms,{'old' if n < 60 else 'new'}" for n in range(120)]
    path.write_text("\n".join(["date,case,value,unit,label.build", *rows]) + "\n")
    assert main(["import", str(path), "--dry-run"]) == 0
    assert "120 runs would be added" in capsys.readouterr().out
    assert main(["list"]) == 0
    assert "no runs" in capsys.readouterr().out
    assert main(["import", str(path)]) == 0
    assert main(["history"]) == 0
    out = capsys.readouterr().out
    assert "worse: step of +10" in out
    assert "label build old → new" in out
    assert main(["compare", "build=old", "build=new"]) == 1
    assert "slower" in capsys.readouterr().out
    assert main(["baseline", "save", "build=old", "--name", "old"]) == 0
    assert main(["gate", "build=new", "--against", "baseline:old"]) == 1
    for verb in ("show", "explain", "report"):
        assert main([verb, "latest"]) == 0
    assert main(["import", str(path), "--time", "when"]) == 2
    assert "there is no column 'when'" in capsys.readouterr().err


def test_one_time_may_be_given_for_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    path = tmp_path / "nt.csv"
    path.write_text("node,triad_GBps\na,100\nb,101\n")
    assert main(["import", str(path)]) == 2
    assert "no column of times; name it with --time, or give one for all rows: --time 2026-11-01; the columns are node, triad_GBps" in capsys.readouterr().err
    assert main(["import", str(path), "--time", "2026-11-01"]) == 0
    assert [(run.run.began[:10], select.results(run)[0].values) for run in select.every(tmp_path / "home")] == [("2026-11-01", [100e9]), ("2026-11-01", [101e9])]
    for wrong, said in (("nodo", "did you mean 'node'? valid: node, triad_GBps, or a time such as 2026-11-01"), ("2026-13-45", "'2026-13-45' is no time")):
        assert main(["import", str(path), "--time", wrong]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(("name", "text"), [("passwd", "root:x:0\na:b,c,d\n"), ("train.py", "import torch, sys\nx = 1\n"), ("train.py", "a = 1\n"), ("notes.md", "# a\n\nb, c\n")])
def test_a_file_that_is_no_table_is_said_to_be_none(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / name).write_text(text)
    assert main(["import", str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"hotlap: no reader recognises {tmp_path / name}, and it is no table (")
    assert "hotlap import --formats" in said
    assert ("hotlap bench 'python3 train.py'" in said) == (name == "train.py")


def test_a_table_of_another_name_is_read_and_a_broken_one_says_its_line(tmp_path: Path) -> None:
    assert len(keep(tmp_path, CSV, "numbers.out").added) == 2
    with pytest.raises(InputError, match=r"x.csv:5: 1 fields, but the header has 6"):
        keep(tmp_path, CSV + "torn\n")


def test_after_a_single_run_the_next_step_works_with_a_single_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "a.csv").write_text("\n".join(CSV.splitlines()[:3]) + "\n")
    assert main(["import", str(tmp_path / "a.csv")]) == 0
    step = capsys.readouterr().out.splitlines()[-1].removeprefix("next    hotlap ").split()
    assert step[0] == "show"
    assert main(step) == 0
    (tmp_path / "b.csv").write_text(CSV.replace("12.5", "14"))
    assert main(["import", str(tmp_path / "b.csv")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next    hotlap history"


def test_a_unit_for_one_column_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not taken for a unit of all numbers that is called `latency=us`."""
    (tmp_path / "x.csv").write_text("time,host,latency,rate\n2026-11-20,n1,5.5,90\n")
    assert main(["import", str(tmp_path / "x.csv"), "--unit", "latency=us"]) == 2
    assert "--unit is the column of units, or one unit for all numbers, not 'latency=us'" in capsys.readouterr().err
