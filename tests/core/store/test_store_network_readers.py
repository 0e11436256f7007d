"""nccl-tests, rccl-tests and perftest: recognised by content, as text and as JSON. Samples are of their formats, with numbers of our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.store.readers import formats
from hotlap.core.store.readers.source import ReadRun, Source

TABLE = """{more}# nThread 1 nGpus 2 minBytes 8 maxBytes 33554432 step: 4194304(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   4021 on      node7 device  0 [0000:1a:00] TestCard A
#  Rank  1 Group  0 Pid   4021 on      node8 device  0 [0000:1a:00] TestCard A
node7:4021:4033 [0] NCCL INFO comm 0x55d0c8 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 - Init COMPLETE
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           8             4  bfloat16     sum      -1    11.52    0.00    0.00       0    11.41    0.00    0.00     N/A
    33554432      16777216  bfloat16     sum      -1    201.5  166.52  166.52       0    200.4  167.44  167.44       3
# Out of bounds values : 3 FAILED
# Avg bus bandwidth    : 83.49
"""
ROW = {"size": 8, "type": "float", "redop": "sum", "root": "    -1", "experiment_name": "all_gather_perf"}
DOCUMENT = {
    "version": 2, "start_time": "2026-11-24 20:00:00", "nccl_version": 22806,
    "config": {"devices": [{"rank": 0, "hostname": "node7", "device_info": "TestCard A"}]},
    "results": [{**ROW, "out_of_place": None, "in_place": {"time": 200.4, "alg_bw": 167.4, "bus_bw": 150.5, "nwrong": None}}],
    "out_of_bounds": {"count": 0, "okay": "true"},
}  # fmt: skip
BANDWIDTH = """                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]
Conflicting CPU frequency values detected: 1200.000000 != 3491.633000. CPU Frequency is not max.
 65536      5000             392.50             391.25\t\t     0.746250
"""
LATENCY = """                    RDMA_Read Latency Test
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]
 2       1000          1.25           6.75         1.50     \t       1.75        \t0.25   \t\t2.25
"""
RESULTS = {"MsgSize": 65536, "n_iterations": 5000, "BW_peak": 392.5, "BW_average": 391.25, "MsgRate": 0.74625}


def read(tmp_path: Path, text: str) -> tuple[str, ReadRun]:
    (tmp_path / "file").write_text(text)
    source = Source.open(tmp_path / "file")
    reader = formats.find(source)
    assert reader is not None
    (run,) = formats.read(source, reader)
    return reader.NAME, run


def values(run: ReadRun) -> dict[str, list[float]]:
    return {" ".join((case.name, *case.parameters[:1])): list(case.rounds[0].values) for case in run.cases}


@pytest.mark.parametrize(("more", "test"), [("", "collective"), ("# Collective test starting: all_reduce_perf\n", "all_reduce")])
def test_the_table_of_nccl_tests(more: str, test: str, tmp_path: Path) -> None:
    name, run = read(tmp_path, TABLE.format(more=more))
    assert (name, run.host, run.device, run.labels) == ("nccl-tests", "node7,node8", "TestCard A", {"ranks": "2", "hosts": "node7,node8"})
    assert values(run) == {
        f"{test} out of place: time size=8": [11.52], f"{test} in place: time size=8": [11.41],
        f"{test} out of place: time size=33554432": [201.5], f"{test} out of place: busbw size=33554432": [166.52],
        f"{test} in place: time size=33554432": [], f"{test} in place: busbw size=33554432": [],
    }  # fmt: skip
    assert run.cases[-1].rounds[0].failed == "3 elements are wrong"


FORMER = """#                                                       out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2   float     sum    36.50    0.00    0.00  2e-07    35.25    0.00    0.00    N/A
# Out of bounds values : {wrong}
# Avg bus bandwidth    : 0
"""


def test_the_former_table_has_the_largest_error_in_place_of_wrong_elements(tmp_path: Path) -> None:
    _, run = read(tmp_path, FORMER.format(wrong="0 OK"))
    assert values(run) == {"collective out of place: time size=8": [36.5], "collective in place: time size=8": [35.25]}
    assert run.cases[0].parameters == ("size=8", "type=float", "redop=sum")
    _, run = read(tmp_path, FORMER.format(wrong="3 FAILED"))
    assert {case.rounds[0].failed for case in run.cases} == {"3 values are out of bounds, and the table does not say in which row"}
    without = FORMER.format(wrong="0 OK").replace(" redop ", " ").replace(" sum ", " ")  # as alltoall has it
    assert read(tmp_path, without)[1].cases[0].parameters == ("size=8", "type=float")


@pytest.mark.parametrize("tag", ["[1,0]<stdout>:", "0: "])
def test_lines_that_a_launcher_marked_with_their_rank_are_read(tag: str, tmp_path: Path) -> None:
    _, plain = read(tmp_path, TABLE.format(more=""))
    _, run = read(tmp_path, "".join(f"{tag}{line}\n" for line in TABLE.format(more="").splitlines()))
    assert values(run) == values(plain)


def test_a_log_that_ends_early_says_so_and_keeps_its_rows(tmp_path: Path) -> None:
    whole = TABLE.format(more="")
    end = whole.index("# Out of bounds")
    _, run = read(tmp_path, whole[:end])
    assert [case.name for case in run.cases if case.rounds[0].failed.startswith("the log ends here")] == ["collective after size=33554432"]
    _, run = read(tmp_path, f"{whole[:end]}    67108864      16777216  bfloat16     su")
    torn = [case.rounds[0].failed for case in run.cases if "size=67108864" in case.parameters]
    assert torn == ["the row is cut off", "the row is cut off"]
    assert values(run)["collective out of place: time size=33554432"] == [201.5]


def test_the_json_of_nccl_tests(tmp_path: Path) -> None:
    name, run = read(tmp_path, json.dumps(DOCUMENT))
    assert (name, run.host, run.software) == ("nccl-tests", "node7", {"NCCL": "22806"})
    assert values(run) == {"all_gather in place: time size=8": [200.4], "all_gather in place: busbw size=8": [150.5]}


@pytest.mark.parametrize(("unit", "known"), [("MB/sec", "MiB/s"), ("MiB/sec", "MiB/s"), ("Gb/sec", "Gbit/s")])
def test_bandwidths_of_perftest(unit: str, known: str, tmp_path: Path) -> None:
    name, run = read(tmp_path, BANDWIDTH.format(unit=unit))
    (case,) = run.cases
    assert (name, run.device, case.name, case.unit) == ("perftest", "mlx5_0", "RDMA_Write BW: average", known)
    assert (case.rounds[0].values, case.rounds[0].metrics) == ([391.25], {"peak": 392.5, "messages_per_us": 0.74625})


def test_what_perftest_prints_between_lines_of_dashes_is_no_simulators_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    dashes = "-" * 87 + "\n"
    (tmp_path / "ib.txt").write_text(dashes + BANDWIDTH.format(unit="Gb/sec") + dashes)
    assert main(["import", str(tmp_path / "ib.txt")]) == 0, capsys.readouterr().err
    assert "RDMA_Write BW" in capsys.readouterr().out


def test_latencies_of_perftest(tmp_path: Path) -> None:
    _, run = read(tmp_path, LATENCY)
    (case,) = run.cases
    assert (case.name, case.unit, case.better, case.rounds[0].values) == ("RDMA_Read Latency: typical", "us", "lower", [1.5])


@pytest.mark.parametrize(("average", "unit"), [(391.25, "Gbit/s"), (391.25 * 125e6 / (1 << 20), "MiB/s")])
def test_the_json_of_perftest_has_the_unit_in_which_its_numbers_agree(average: float, unit: str, tmp_path: Path) -> None:
    document = {"test_info": {"test": "RDMA_Write_BW_Test", "Device": "mlx5_0"}, "results": RESULTS | {"BW_average": average}}
    _, run = read(tmp_path, json.dumps(document))
    assert (run.cases[0].name, run.cases[0].unit, run.cases[0].rounds[0].values) == ("RDMA Write BW: average", unit, [average])


@pytest.mark.parametrize("results", [RESULTS | {"BW_average": 100.0}, {"MsgSize": 8, "BW_average": 1.0}])
def test_a_json_of_perftest_without_a_unit_is_refused(results: dict[str, float], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no unit stands in the file"):
        read(tmp_path, json.dumps({"test_info": {}, "results": results}))


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no row"):
        read(tmp_path, "\n".join(line for line in TABLE.format(more="").splitlines() if "bfloat16" not in line))


def test_they_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "a.txt").write_text(TABLE.format(more=""))
    (tmp_path / "b.txt").write_text(BANDWIDTH.format(unit="Gb/sec"))
    assert main(["import", str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]) == 0
    capsys.readouterr()
    assert main(["list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2
