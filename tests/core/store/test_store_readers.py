"""Files of other benchmark frameworks: recognised by content, samples by process, failures not run, and nothing harmful unpacked."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import statistics
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from foreign import GOOGLE_CSV, NVBENCH, PHORONIX, files
from foreign_serving import HELD

from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.record import Result
from hotlap.core.store import select
from hotlap.core.store.readers import archives, formats, google_benchmark
from hotlap.core.store.readers.source import Source

SHARED = Path(os.environ.get("HOTLAP_SHARED") or Path(__file__).resolve().parents[3].parent / "shared") / "data" / "tools"
recorded = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the recorded files of other tools are not there: {SHARED}")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def results(home: Path) -> dict[tuple[str, str], Result]:
    """By host and label of what the home holds."""
    return {(f"{run.run.machine.host} {run.run.devices[0]}", " ".join([str(r.case.params["name"]), *r.case.params.get("parameters", [])])): r
            for run in select.every(home) for r in select.results(run)}  # type: ignore[misc]  # fmt: skip


def kept(home: Path) -> dict[str, list[list[float]]]:
    """Samples by round of each case, by label."""
    return {label: [one.values for one in result.rounds if one.values] for (_, label), result in results(home).items()}


EXPECTED: dict[str, dict[str, list[list[float]]]] = {
    "hyperfine": {"sum 1 n=1": [[1.5], [2.0], [2.5]], "false": [[0.1]]},
    "pytest-benchmark": {"t.py::test_a[1] n=1": [[2e-6, 3e-6, 9e-6]], "t.py::test_b": [[4e-6]]},
    "pyperf": {"timeit stmt=sum(x)": [[2e-6, 4e-6], [3e-6, 3e-6]], "memory": [[4096.0, 8192.0]]},
    "asv": {"b.time_sum n=1": [[1e-6, 2e-6, 3e-6]], "b.time_sum n=2": [], "b.track_rate": [[250e9]], "b.time_fails": []},
    "google-benchmark": {"BM_sum/64": [[2e-6, 3e-6, 7e-6]], "BM_only": [[5e-3]], "BM_skip": []},
    "nvbench": {"copy n=1": [[0.0010034715849794225]]},
    "criterion": {"sums/sum": [[500e-9, 390e-9, 425e-9]]},
    "jmh": {"org.own.A.write size=10 mode=thrpt threads=1": [[1e3, 3e3], [5e3, 3e3]], "org.own.A.read mode=avgt threads=4": [[20e-6, 35e-6]]},
    "benchmarkdotnet": {"Own.Sleep(Ms: 1) Ms=1": [[30e-9, 20e-9], [40e-9]], "Own.Fails": []},
    "conbench": {"file-read format=parquet": [[3.0, 1.0, 2.0]], "broken": []},
    "phoronix": {"Own Size: 64 version=1 arguments=64": [[0.216e9], [0.112e9], [0.287e9]], "Gone version=1": []},
    "superbench": {"kernel-launch/event_overhead": [[5.95e-6]], "gemm-flops/FP16_TC": [[279147e9]], "nccl-bw/allreduce_8_time": [[37.84e-6]]},
    **HELD,
}


@pytest.mark.parametrize("name", [reader.NAME for reader in formats.READERS if reader.NAME in EXPECTED])
def test_a_file_is_recognised_and_its_samples_are_kept_by_process(tmp_path: Path, home: Path, name: str, capsys: Capture) -> None:
    path = files(tmp_path / "in")[name]
    assert [reader.NAME for reader in formats.READERS if reader.detect(Source.open(path))] == [name]
    given = path.rename(path.with_name("x.bin")) if name not in ("asv", "criterion") else path
    assert main(["import", str(given)]) == 0
    assert capsys.readouterr().out.startswith(f"{name}: ")
    found = kept(home) if name != "nvbench" else {k: v for k, v in kept(home).items() if v} or {"copy n=1": [r.values for x in results(home).values() for r in x.rounds if r.values]}
    assert found.keys() == EXPECTED[name].keys()
    for label, rounds in EXPECTED[name].items():
        assert [pytest.approx(one, rel=1e-14) for one in rounds] == found[label]
    assert main(["import", str(given)]) == 0
    assert "0 runs added" in capsys.readouterr().out


def test_what_a_reader_reads_beside_its_files_is_not_called_unknown(tmp_path: Path, home: Path, capsys: Capture) -> None:
    folder = files(tmp_path / "in")["asv"].parents[1]
    (folder / "vm" / "machine.json").write_text('{"machine": "vm", "version": 1}')
    (folder / "notes.txt").write_text("mine")
    assert main(["import", str(folder)]) == 0
    assert "1 file of no known format left: notes.txt" in capsys.readouterr().out


def test_machines_labels_and_failures_come_along(tmp_path: Path, home: Path) -> None:
    found = files(tmp_path / "in")
    for name in ("pytest-benchmark", "asv", "conbench", "hyperfine", "superbench", "nvbench"):
        assert main(["import", str(found[name])]) == 0
    runs = {run.run.plan.name: run.run for run in select.every(home)}
    assert runs["pytest-benchmark"].labels == {"commit": "c0ffee", "branch": "main", "project": "own"}
    assert (runs["pytest-benchmark"].machine.host, runs["pytest-benchmark"].machine.cpu.threads) == ("vm", 2)
    assert runs["asv"].labels == {"commit": "c0ffee", "environment": "py"}
    assert runs["asv"].began.startswith("2026-11-22T19:19:12")
    assert runs["conbench"].began.startswith("2026-11-22T19:18:30")
    reasons = {str(r.case.params["name"]): (r.status, r.reason) for r in results(home).values() if r.reason}
    assert reasons["b.time_fails"] == ("not_run", "the benchmark failed")
    assert reasons["b.time_sum"] == ("not_run", "skipped for these parameters")
    assert reasons["false"] == ("measured", "1 of 2 rounds was not run: the command ended with exit code 1")
    assert reasons["broken"] == ("not_run", "Segmentation fault")
    assert reasons["copy"] == ("not_run", "too large")
    assert {run.run.machine.devices[0].key for run in select.every(home) if run.run.machine.host == "sb-01"} == {"imported:0:unknown", "imported:1:unknown"}


def test_units_say_which_way_is_better(tmp_path: Path, home: Path) -> None:
    for path in files(tmp_path / "in").values():
        assert main(["import", str(path)]) == 0
    ways = {str(r.case.params["name"]): (r.unit, r.better) for r in results(home).values()}
    assert ways["org.own.A.write"] == ("1/s", "higher")
    assert ways["org.own.A.read"] == ("s", "lower")
    assert ways["b.track_rate"] == ("B/s", "higher")
    assert ways["Own Size: 64"] == ("B/s", "higher")
    assert ways["gemm-flops/FP16_TC"] == ("FLOP/s", "higher")


def test_a_folder_and_a_zip_are_searched(tmp_path: Path, home: Path, capsys: Capture) -> None:
    files(tmp_path / "in")
    assert main(["import", str(tmp_path / "in"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["imported"]) == 18
    count = len(list(select.every(home)))
    packed = tmp_path / "all.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(tmp_path / "in" / "p.json", "deep/er/p.json")
    assert main(["import", str(packed)]) == 0
    assert "pytest-benchmark: 0 runs added, 1 there already" in capsys.readouterr().out
    assert len(list(select.every(home))) == count


def test_what_else_a_file_says_is_kept_beside_its_numbers(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("nvbench", "google-benchmark"):
        assert main(["import", str(files(tmp_path)[name])]) == 0
    metrics = {name: [one.metrics for one in found.rounds if one.values] for (_, name), found in results(home).items() if found.values}
    assert metrics["copy n=1"] == [
        {"samples": 512, "noise": 0.0123, "bytes_per_second": 8.5e11, "nv/batch/time/gpu/mean": 0.00099}
    ]
    assert metrics["BM_sum/64"] == [{"bytes_per_second": 2e6, "own_counter": 4.0, "cpu_time_s": 1e-6}]
    assert metrics["BM_only"] == [{"items_per_second": 200.0, "samples": 10, "noise": pytest.approx(0.02)}]
    capsys.readouterr()
    for run in select.every(home):
        assert main(["show", run.run.id]) in (0, 3)  # 3: of the device where all was skipped
    out = capsys.readouterr().out
    assert re.search(r"copy n=1 +1.00 ms +– +850 GB/s +– +1 aggregate of 512 samples \(nvbench\)", out)
    assert "1 aggregate of 512 samples (nvbench), which vary by 1.2 %" in out
    assert re.search(r"BM_sum/64 +3.00 µs +1 round +2.00 MB/s", out)
    assert re.search(r"BM_only +5.00 ms +– +200 /s +– +1 aggregate of 10 samples \(google-benchmark\)", out)
    nvbench = next(run.run.id for run in select.every(home) if run.run.devices == ["imported:0:Quadro GV100"])
    assert main(["show", nvbench, "--json"]) == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    assert case["codes"] == ["aggregate"]
    assert case["more"] == {"rates": {"bytes_per_second": 8.5e11}, "metrics": metrics["copy n=1"][0]}


def test_of_nvbench_every_sample_where_it_was_kept(tmp_path: Path, home: Path) -> None:
    document: dict[str, Any] = json.loads(json.dumps(NVBENCH))
    data = [{"name": "filename", "value": "n.json-bin/0.bin"}, {"name": "size", "value": "3"}]
    document["benchmarks"][0]["states"][0]["summaries"].append({"tag": "nv/json/bin:nv/cold/sample_times", "data": data})
    (tmp_path / "n.json-bin").mkdir()
    (tmp_path / "n.json-bin" / "0.bin").write_bytes(struct.pack("<3f", 1.0, 2.0, 4.0))
    (tmp_path / "n.json").write_text(json.dumps(document))
    assert main(["import", str(tmp_path / "n.json")]) == 0
    assert [one.values for r in results(home).values() for one in r.rounds if one.values] == [[1.0, 2.0, 4.0]]
    (tmp_path / "n.json-bin" / "0.bin").write_bytes(b"\0" * 11)
    assert main(["import", str(tmp_path / "n.json")]) == 2


def test_names_that_repeat_stay_apart(tmp_path: Path, home: Path) -> None:
    (tmp_path / "h.json").write_text(json.dumps({"results": [{"command": "a", "times": [1.0]}, {"command": "a", "times": [3.0]}]}))
    assert main(["import", str(tmp_path / "h.json")]) == 0
    assert kept(home) == {"a": [[1.0]], "a (2)": [[3.0]]}


def test_the_csv_of_google_benchmark(tmp_path: Path, home: Path) -> None:
    (tmp_path / "g.csv").write_text(GOOGLE_CSV)
    assert main(["import", str(tmp_path / "g.csv")]) == 0
    assert kept(home) == {"BM_sum/64": [[pytest.approx(188.913e-9)]], "BM_skip": []}


def test_every_format_names_its_origin_and_two_claims_are_refused(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [one for one in formats.formats() if one.reads]
    assert sum(one.name in EXPECTED for one in seen) >= 9
    assert all("at " in reader.ORIGIN or "run here" in reader.ORIGIN for reader in formats.READERS)
    path = files(tmp_path)["google-benchmark"]

    class Other:
        NAME, BRINGS, ORIGIN = "other", "nothing", "here"
        detect, read = staticmethod(google_benchmark.detect), staticmethod(google_benchmark.read)

    class Unseen(Other):
        NAME, ORIGIN = "unseen", ""

    with pytest.raises(InputError, match="google-benchmark and other both take it for theirs; say which with --from google-benchmark"):
        formats.find(Source.open(path), readers=(google_benchmark, Other()))
    assert formats.find(Source.open(path), "other", (google_benchmark, Other())).NAME == "other"  # type: ignore[union-attr]
    with pytest.raises(InputError, match="'unseen' was not seen yet"):
        formats.find(Source.open(path), readers=(Unseen(),))
    assert main(["import", "--formats"]) == 0
    assert "hyperfine 1.15.0, run here" in " ".join(capsys.readouterr().out.split())
    assert main(["import", str(path), "--from", "hyperfin"]) == 2
    assert "did you mean 'hyperfine'" in capsys.readouterr().err


# ---------------------------------------------------------------- the statistic that the tool prints


@recorded
def test_the_statistic_of_each_recorded_file_is_that_of_what_is_kept(home: Path) -> None:
    for name in ("hyperfine.json", "pytest_benchmark.json", "google_benchmark.json", "asv", "pts_composite.xml"):
        assert main(["import", str(SHARED / name)]) == 0
    samples = {str(r.case.params["name"]): [v for one in r.rounds for v in one.values] for r in results(home).values()}
    for result in json.loads((SHARED / "hyperfine.json").read_text())["results"]:
        own = samples[result["command"]]
        assert (statistics.mean(own), statistics.median(own)) == (pytest.approx(result["mean"]), pytest.approx(result["median"]))
    for test in json.loads((SHARED / "pytest_benchmark.json").read_text())["benchmarks"]:
        own = samples[test["fullname"]]
        assert (statistics.mean(own), statistics.median(own)) == (pytest.approx(test["stats"]["mean"]), pytest.approx(test["stats"]["median"]))
    scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}
    for row in json.loads((SHARED / "google_benchmark.json").read_text())["benchmarks"]:
        if row.get("aggregate_name") in ("mean", "median"):
            own = samples[row["run_name"]]
            assert getattr(statistics, row["aggregate_name"])(own) == pytest.approx(row["real_time"] * scale[row["time_unit"]])
    by_label = {label: [v for one in r.rounds for v in one.values] for (_, label), r in results(home).items()}
    printed = {"n=100 kind='a'": 10.7e-6, "n=100 kind='b'": 7.03e-6, "n=1000 kind='a'": 36.1e-6, "n=1000 kind='b'": 28.0e-6}
    assert {k: statistics.median(by_label[f"b.Suite.time_sum {k}"]) for k in printed} == pytest.approx(printed, rel=5e-3)
    assert statistics.mean(samples["Own sample Size: 64"]) == pytest.approx(0.205e9, abs=5e5)
    assert statistics.mean(samples["Own sample Size: 128"]) == pytest.approx(0.461e9, abs=5e5)


# ---------------------------------------------------------------- bad input


def _cut(text: str, places: int) -> list[str]:
    return [text[: len(text) * n // (places + 1)] for n in range(1, places + 1)]


def _malformed(folder: Path) -> list[tuple[str, bytes]]:
    """Forty files, each of them wrong in another way."""
    texts = {name: path.read_text() for name, path in files(folder).items() if name not in ("asv", "criterion", "superbench")}
    cut = [(f"{name} cut {n}", part.encode()) for name, text in texts.items() for n, part in enumerate(_cut(text, 3))]
    changed = [
        ("infinity", texts["hyperfine"].replace("1.5", "Infinity", 1)), ("nan", texts["pytest-benchmark"].replace("2e-06", "NaN", 1)),
        ("text for a number", texts["conbench"].replace("[3.0", '["three"', 1)), ("comma", texts["conbench"].replace("[3.0", '["3,0"', 1)),
        ("unit", texts["google-benchmark"].replace('"us"', '"fortnights"')), ("units differ", texts["google-benchmark"].replace('"us"', '"ns"', 1)),
        ("codes", texts["hyperfine"].replace("[0, 0, 0]", "[0]")), ("no unit", texts["jmh"].replace('"scoreUnit"', '"u"', 1)),
        ("unit of time", texts["jmh"].replace("ops/ms", "ops/fortnight")), ("zero operations", texts["benchmarkdotnet"].replace('"Operations": 2', '"Operations": 0')),
        ("a value that its trials do not give", texts["phoronix"].replace("0.205", "205")), ("a trial", texts["phoronix"].replace("0.112", "0,112")),
        ("entity", texts["phoronix"].replace("<PhoronixTestSuite>", '<!DOCTYPE x [<!ENTITY a "b">]><PhoronixTestSuite>', 1)),
        ("no tag name", texts["conbench"].replace('"name": "file-read"', '"nom": "x"')), ("time", texts["conbench"].replace("2026-11-22T19:18:20Z", "soon")),
        ("value missing", texts["nvbench"].replace('"value": "0.0010034715849794225"', '"valu": "1"')),
    ]
    return [*cut, *((name, text.encode()) for name, text in changed), ("gzip cut", gzip.compress(texts["jmh"].encode())[:60]), ("bytes", b"\xff\xfe" + texts["jmh"].encode("utf-16-le"))]


def test_forty_malformed_files_give_a_line_and_no_number(tmp_path: Path, home: Path, capsys: Capture) -> None:
    broken = _malformed(tmp_path / "in")
    assert len(broken) >= 40
    for number, (name, data) in enumerate(broken):
        path = tmp_path / f"{number}.dat"
        path.write_bytes(data)
        assert main(["import", str(path)]) == 2, name
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1), name
        assert str(path) in err, name
    assert not (home / "runs").exists() or not list(select.every(home))


def test_a_byte_order_mark_and_gzip_are_read(tmp_path: Path, home: Path) -> None:
    text = files(tmp_path / "in")["hyperfine"].read_bytes()
    (tmp_path / "x").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text))
    assert main(["import", str(tmp_path / "x")]) == 0
    assert kept(home) == EXPECTED["hyperfine"]


# ---------------------------------------------------------------- archives and bundles


def _zip(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("name", ["../out.json", "/abs.json", "a/../../out.json", "C:/x.json", "..\\out.json"])
def test_no_member_leads_out_of_an_archive(tmp_path: Path, name: str, capsys: Capture) -> None:
    (tmp_path / "in").mkdir()
    packed = _zip(tmp_path / "in" / "x.zip", (name, b"{}"))
    assert main(["import", str(packed)]) == 2
    assert "leads out of the archive" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["in"]


def test_links_sizes_and_members_of_archives_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = zipfile.ZipInfo("link.json")
    link.external_attr = 0o120777 << 16
    with pytest.raises(InputError, match="is a link"):
        archives.unpack(_zip(tmp_path / "link.zip", (link, b"/etc/passwd")), tmp_path / "a")
    monkeypatch.setattr(archives, "LIMIT_BYTES", 2**20)
    with pytest.raises(InputError, match="more than 1 GiB"):
        archives.unpack(_zip(tmp_path / "bomb.zip", ("a", b"\0" * 2**21)), tmp_path / "b")
    monkeypatch.setattr(archives, "LIMIT_MEMBERS", 3)
    with pytest.raises(InputError, match="4 members"):
        archives.unpack(_zip(tmp_path / "many.zip", *((str(n), b"") for n in range(4))), tmp_path / "c")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "many.zip").read_bytes()[:40])
    with pytest.raises(InputError, match="no zip that can be read"):
        archives.unpack(tmp_path / "cut.zip", tmp_path / "d")


def _zipped_run(folder: Path, run: Path, change: bytes = b"") -> Path:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for file in sorted(run.iterdir()):
            archive.writestr(f"{run.name}/{file.name}", file.read_bytes() + (change if file.name == "samples.jsonl" else b""))
    (folder / "colleague.zip").write_bytes(buffer.getvalue())
    return folder / "colleague.zip"


def test_a_mailed_run_is_taken_in_and_never_in_place_of_another(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    assert main(["import", str(files(tmp_path / "in")["hyperfine"])]) == 0
    (run,) = select.every(home)
    packed = _zipped_run(tmp_path, run.path)
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "other"))
    capsys.readouterr()
    assert main(["import", str(packed)]) == 0
    assert f"bundle: 1 run added, 0 there already\nnext    hotlap show {run.run.id}" in capsys.readouterr().out
    assert main(["import", str(packed)]) == 0
    assert "0 runs added, 1 there already" in capsys.readouterr().out
    before = (tmp_path / "other" / "runs" / run.run.id / "samples.jsonl").read_bytes()
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "third"))
    assert main(["import", str(_zipped_run(tmp_path, run.path, before[:-9]))]) == 0
    assert f"run {run.run.id} is not whole: samples.jsonl: its last line was cut off" in capsys.readouterr().out
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "other"))
    assert main(["import", str(_zipped_run(tmp_path, run.path, before))]) == 2
    assert re.search(r"a run \S+ of other content is kept", capsys.readouterr().err)
    assert (tmp_path / "other" / "runs" / run.run.id / "samples.jsonl").read_bytes() == before
    bad = json.loads((run.path / "run.json").read_text()) | {"id": "../../evil"}
    assert main(["import", str(_zip(tmp_path / "evil.zip", ("run.json", json.dumps(bad).encode()), ("samples.jsonl", b"")))]) == 2
    assert "is no id of a run" in capsys.readouterr().err


def test_xml_with_a_document_type_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "composite.xml").write_text(PHORONIX.replace("<PhoronixTestSuite>", "<!-- --><PhoronixTestSuite>").replace('?>\n', '?>\n<!DOCTYPE a SYSTEM "file:///etc/passwd">\n', 1))
    assert main(["import", str(tmp_path / "composite.xml")]) == 2
    assert "document type" in capsys.readouterr().err


def test_each_path_that_brings_nothing_is_named(tmp_path: Path, home: Path, capsys: Capture) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("nothing")
    good = files(tmp_path)["hyperfine"]
    for order in ([good, tmp_path / "empty"], [tmp_path / "empty", good]):
        assert main(["import", *map(str, order)]) == 2
        assert f"'{tmp_path / 'empty'}' holds nothing that can be imported" in capsys.readouterr().err
    assert not (home / "runs").exists()


def test_results_without_a_time_are_known_by_their_content(tmp_path: Path, home: Path, capsys: Capture) -> None:
    """A checkout or a copy is written at another time: hyperfine's results, which have none, are the same run."""
    path, copy = tmp_path / "h.json", tmp_path / "copy.json"
    path.write_text(files(tmp_path / "all")["hyperfine"].read_text())
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert main(["import", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "1 run added, 0 there already" in printed
    assert "time: when the file was last written, since its results have none" in printed
    copy.write_bytes(path.read_bytes())
    os.utime(path, (1_700_086_400, 1_700_086_400))
    assert main(["import", str(path), str(copy)]) == 0
    printed = capsys.readouterr().out
    assert "0 runs added, 2 there already" in printed
    assert "time:" not in printed
    assert [run.run.began[:10] for run in select.every(home)] == ["2023-11-14"]  # type: ignore[union-attr]
    copy.write_text(path.read_text().replace("1.5", "1.6"))
    os.utime(copy, (1_700_000_000, 1_700_000_000))
    assert main(["import", str(copy)]) == 0
    assert "1 run added" in capsys.readouterr().out


def test_two_copies_of_new_results_are_one_run(tmp_path: Path, home: Path, capsys: Capture) -> None:
    for day, name in enumerate(("a.json", "b.json")):
        path = tmp_path / "both" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(files(tmp_path / "all")["hyperfine"].read_text())
        os.utime(path, (1_700_000_000 + 86400 * day,) * 2)
    assert main(["import", str(tmp_path / "both")]) == 0
    assert "1 run added" in capsys.readouterr().out
    assert len(list(select.every(home))) == 1


@pytest.mark.parametrize("kind", ["simulator", "cutlass"])
def test_a_log_written_at_another_time_is_the_same_run(kind: str, tmp_path: Path, home: Path, capsys: Capture) -> None:
    log = Path(__file__).parent / "simulators" / "vectors.log"
    csv = "Operation,Runtime,Disposition,m,n,k\ngemm_a,0.5,passed,64,64,64\n"
    path = tmp_path / ("k.log" if kind == "simulator" else "k.csv")
    path.write_bytes(log.read_bytes() if kind == "simulator" else csv.encode())
    words = ["import", str(path)] if kind == "simulator" else ["kernel", "add", str(path)]
    for time_s in (1_700_000_000, 1_700_086_400):
        os.utime(path, (time_s, time_s))
        assert main(words) == 0, capsys.readouterr()
    assert len({run.run.began for run in select.every(home)}) == len({run.run.id.rpartition("-")[2] for run in select.every(home)})  # type: ignore[union-attr]
    assert all(run.run.began.startswith("2023-11-14") for run in select.every(home))  # type: ignore[union-attr]


def test_a_json_object_that_holds_others_is_no_table(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"version": "1.0", "suites": [{"name": "a", "value": 3}]}))
    assert main(["import", str(path), "--time", "2026-11-01"]) == 2
    said = capsys.readouterr().err
    assert "it is one object, of which 'suites' holds others, and no list of rows" in said
    assert "hotlap import --formats lists what is read" in said


def test_pyperf_means_its_processes_and_says_its_machine(tmp_path: Path, home: Path) -> None:
    assert main(["import", str(files(tmp_path / "in")["pyperf"])]) == 0
    (run,) = [one.run for one in select.every(home)]
    assert (run.machine.host, run.machine.cpu.name, run.machine.cpu.threads) == ("vm", "Xeon", 2)
    assert run.began.startswith("2026-11-22T19:18:09")
    (timed,) = [result for (_, label), result in results(home).items() if label.startswith("timeit")]
    values = [value for one in timed.rounds for value in one.values]
    assert sum(values) / len(values) == pytest.approx(3e-6, rel=1e-15)  # what pyperf prints: the mean over all values
    assert (timed.unit, timed.better, len(timed.rounds)) == ("s", "lower", 2)
