"""Every format's minimal sample gives the events that were put in."""

from __future__ import annotations

import builtins
import gzip
import json
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import trace_samples as samples

from hotlap.core.errors import InputError, Unavailable
from hotlap.traces.advice.trace import Advice
from hotlap.traces.events import KINDS, KernelLaunch
from hotlap.traces.readers import xplane
from hotlap.traces.show import answer as answers
from hotlap.traces.show import trace as printing
from hotlap.traces.timeline import Timeline

SHARED = [Path(p) for p in (os.environ.get("HOTLAP_SHARED", ""), str(Path(__file__).parents[2] / ".." / "shared")) if p]
DATA = next((p / "data" / "traces" for p in SHARED if (p / "data" / "traces").is_dir()), None)
shared = pytest.mark.skipif(DATA is None, reason="no recorded traces: set HOTLAP_SHARED or put them at ../shared")


def opened(folder: Path, name: str, contents: bytes) -> Timeline:
    (folder / name).write_bytes(contents)
    return Timeline.open(folder / name)


def listed(trace: Timeline) -> list[tuple[str, str, int, int]]:
    """Kind, name, start and duration, by start."""
    rows = zip(trace.kind.tolist(), trace.name.tolist(), trace.start.tolist(), trace.duration.tolist(), strict=True)
    return sorted(((KINDS[k], trace.names[n], s + trace.head.origin_ns, d) for k, n, s, d in rows), key=lambda row: (row[2], row[1]))


def one(trace: Timeline, name: str) -> dict[str, int]:
    """The columns of the first event of a name."""
    at = int(np.flatnonzero(trace.name == trace.names.index(name))[0])
    return {column: int(values[at]) for column, values in trace.columns.items()}


@pytest.mark.parametrize("reader", samples.FORMATS)
def test_each_sample_goes_to_its_reader_and_a_few_columns_are_enough_for_the_breakdown(tmp_path: Path, reader: str) -> None:
    name, make = samples.FORMATS[reader]
    trace = opened(tmp_path, name, make())
    assert trace.head.reader == reader.partition(" ")[0]
    assert len(trace)
    assert (trace.duration >= 0).all()
    few = Timeline.open(tmp_path / name, columns="breakdown")
    assert few.breakdown() == trace.breakdown()
    assert sorted(few.columns) == sorted(("start", "duration", "kind", "name", "thread", "device", "stream"))


def test_nsys(tmp_path: Path) -> None:
    trace = opened(tmp_path, "report.sqlite", samples.nsys())
    assert listed(trace) == [
        ("memory", "[memory]", 1100, 0), ("marker", "layer", 1500, 2000), ("marker", "lib:inner", 1600, 100), ("other", "mark", 1850, 0),
        ("runtime", "cudaLaunchKernel", 1900, 50), ("kernel", "gemm(float*)", 2000, 500), ("kernel", "gemm(float*)", 2600, 100),
        ("copy", "Memcpy HtoD (Pageable -> Device)", 3000, 100), ("set", "Memset (Device)", 3200, 10), ("sync", "Context Sync", 3300, 100),
        ("other", "poll", 3500, 400), ("kernel", "CUDA graph 6", 4000, 500), ("memory", "[memory]", 4600, 0),
    ]  # fmt: skip
    kernel = one(trace, "gemm(float*)")
    assert (kernel["device"], kernel["stream"], kernel["correlation"], kernel["thread"]) == (0, 7, 9, -1)
    assert kernel["correlation"] == one(trace, "cudaLaunchKernel")["correlation"]
    assert trace.launches[kernel["launch"]] == KernelLaunch((2, 3, 1), (128, 1, 1), 32, 1024, -1.0)
    assert trace.bytes[trace.of_kind(KINDS.index("memory"))].tolist() == [256, -256]
    assert one(trace, "Context Sync")["stream"] == -1
    assert trace.threads[one(trace, "layer")["thread"]] == ("77", "78", "main")
    assert trace.head.facts == {"export_schema_version": "3.25.0", "kernels_in_graphs": 2}
    assert trace.head.unix_ns == 1_700_000_000_000_001_100
    assert trace.head.devices == [{"id": 0, "name": "GPU", "smCount": 108}]
    assert {one.seen: one.count for one in trace.head.notices} == {
        "events without a time or of negative duration were skipped": 1, "markers that were opened and not closed were skipped": 1,
        "markers were closed by another thread than opened them": 1, "CUDA graphs were recorded as a whole: their kernels are not known": 1,
    }  # fmt: skip


def test_nsys_counts_a_call_once_that_stands_twice_with_and_without_its_version(tmp_path: Path) -> None:
    names = [(1, "cudaMemcpy"), (2, "cudaMemcpy_v3020"), (3, "cudaFree_v3020")]
    calls = [(0, 100, 1 << 24, 5, 1), (1, 99, 1 << 24, 5, 2), (200, 300, 1 << 24, 6, 2), (310, 320, 1 << 24, 7, 3),
             (400, 500, 2 << 24, 5, 1), (520, 530, 2 << 24, 0, 1), (522, 528, 2 << 24, 0, 2)]  # fmt: skip
    data = samples._database([
        ("StringIds(id INT, value TEXT)", names),
        ("CUPTI_ACTIVITY_KIND_RUNTIME(start INT, end INT, globalTid INT, correlationId INT, nameId INT)", calls),
    ])  # fmt: skip
    found = [(name, start, length) for _, name, start, length in listed(opened(tmp_path, "twice.sqlite", data))]
    assert found == [
        ("cudaMemcpy", 0, 100), ("cudaMemcpy", 200, 100), ("cudaFree", 310, 10), ("cudaMemcpy", 400, 100),
        ("cudaMemcpy", 520, 10), ("cudaMemcpy", 522, 6),  # without a number of their own they may be two
    ]  # fmt: skip


def test_nsys_reads_old_names_texts_in_place_and_processes_apart(tmp_path: Path) -> None:
    trace = opened(tmp_path, "old.sqlite", samples._database([
        ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL(start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT, name TEXT)",
         [(10, 20, 0, 7, 5, 1 << 24, "k1"), (30, 40, 0, 7, 5, 2 << 24, "k2"), (50, 60, None, "x", 2.5, None, None)]),
        ("EXPORT_META_DATA(name TEXT, value TEXT)", [("EXPORT_SCHEMA_VERSION", "2.9.1")]),
    ]))  # fmt: skip
    assert [row[1:] for row in listed(trace)] == [("k1", 10, 10), ("k2", 30, 10), ("unnamed -1", 50, 10)]
    assert trace.correlation.tolist() == [5, 5 + (1 << 32), -1]
    assert trace.device.tolist() == [0, 0, -1]
    assert trace.launch.tolist() == [-1] * 3
    assert trace.head.facts["export_schema_version"] == "2.9.1"
    assert trace.head.facts["processes"] == 2


def test_a_database_of_another_schema_is_refused_with_the_tables_that_were_looked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the tables CUPTI_ACTIVITY_KIND_KERNEL.*nsys export"):
        opened(tmp_path, "x.sqlite", samples._database([("songs(id INT)", [(1,)])]))
    with pytest.raises(InputError, match="no events"):
        opened(tmp_path, "y.sqlite", samples._database([("NVTX_EVENTS(start INT, end INT, eventType INT)", [])]))
    with pytest.raises(InputError, match="unpack it first"):
        opened(tmp_path, "z.sqlite.gz", gzip.compress(samples.nsys()))


@pytest.mark.slow("a database that computes until it is stopped")
def test_a_database_made_to_run_for_ever_is_stopped(tmp_path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(tmp_path / "trap.sqlite")
    connection.execute(
        "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(start) AS (SELECT 1 UNION ALL SELECT start+1 FROM c) SELECT start, start AS end FROM c"
    )
    connection.commit()
    with pytest.raises(InputError, match=r"cannot be read as a SQLite database.*interrupted"):
        Timeline.open(tmp_path / "trap.sqlite")


@pytest.mark.parametrize("schema", [3, 4])
def test_rocpd(tmp_path: Path, schema: int) -> None:
    trace = opened(tmp_path, "results.db", samples.rocpd(schema))
    assert listed(trace) == ROCM
    kernel, copy = one(trace, "gemm(float*)"), one(trace, "Memcpy HtoD")
    assert (kernel["device"], kernel["stream"], kernel["correlation"]) == (0, 1, 9)
    assert one(trace, "hipLaunchKernel")["correlation"] == 9
    assert trace.launches[kernel["launch"]] == KernelLaunch((4, 2, 1), (64, 1, 1), -1, 512, -1.0)
    assert (copy["bytes"], copy["device"]) == (4096, 0)
    assert trace.threads[one(trace, "layer")["thread"]][:2] == ("77", "78")
    assert trace.head.facts == {"schema_version": str(schema)}
    assert trace.head.devices == [{"id": 0, "name": "AMD Instinct MI300X"}]


JAX = (49, 2_263_564, [385_603, 279_105])
ROCM = [
    ("marker", "layer", 1500, 2000),
    ("runtime", "hipLaunchKernel", 1900, 50),
    ("kernel", "gemm(float*)", 2000, 500),
    ("copy", "Memcpy HtoD", 3000, 100),
]


def test_rocprof_json(tmp_path: Path) -> None:
    trace = opened(tmp_path, "results.json", samples.rocprof_json())
    assert listed(trace) == ROCM
    kernel, copy = one(trace, "gemm(float*)"), one(trace, "Memcpy HtoD")
    assert (kernel["device"], kernel["stream"], kernel["correlation"], copy["bytes"], copy["device"]) == (0, 1, 9, 4096, 0)
    assert trace.launches[kernel["launch"]] == KernelLaunch((4, 2, 1), (64, 1, 1), -1, 512, -1.0)
    assert trace.head.devices == [{"id": 0, "name": "AMD Instinct MI300X", "units": 304}]
    cut = samples.rocprof_json()[:-40]
    with pytest.raises(InputError, match="no JSON of rocprofv3"):
        opened(tmp_path, "cut.json", cut)


def test_rocprof_csv_takes_the_tables_beside_that_of_kernels_along(tmp_path: Path) -> None:
    for name, contents in samples.rocprof_csv().items():
        (tmp_path / f"199_{name}").write_bytes(contents)
    (tmp_path / "200_hip_api_trace.csv").write_bytes(samples.rocprof_csv()["hip_api_trace.csv"])
    trace = Timeline.open(tmp_path / "199_kernel_trace.csv")
    assert [(kind, name.replace(", int", ""), *rest) for kind, name, *rest in listed(trace)] == [
        (kind, name.replace("gemm(float*)", "gemm(float*)"), *rest) for kind, name, *rest in ROCM
    ]
    kernel = one(trace, "gemm(float*, int)")
    assert (kernel["device"], kernel["stream"], kernel["correlation"]) == (1, 0, 9)  # the queue is an address: the first one is 0
    assert trace.launches[kernel["launch"]] == KernelLaunch((4, 2, 1), (64, 1, 1), -1, 512, -1.0)
    assert trace.head.facts["files"].count(".csv") == 4
    assert "200" not in trace.head.facts["files"]
    assert [(one.seen, one.count) for one in trace.head.notices] == [("lines with another number of values than the header were skipped", 1)]
    alone = Timeline.open(tmp_path / "199_hip_api_trace.csv")
    assert len(alone) == 1
    assert alone.head.facts == {}


def test_memory_snapshot(tmp_path: Path) -> None:
    trace = opened(tmp_path, "snapshot.pickle", samples.memory())
    start = 1_700_000_000_000_000_000
    assert listed(trace) == [
        ("other", "segment_alloc", start, 0), ("memory", "[memory]", start + 10_000, 0), ("memory", "[memory]", start + 20_000, 0),
        ("memory", "[memory]", start + 31_000, 0),
    ]  # fmt: skip
    assert trace.bytes.tolist() == [2048, 512, 300, -512]
    assert trace.external.tolist() == [-1, 1212, 1512, 1000]  # the segments say that 1000 bytes were left at the end
    assert trace.stacks == ["model.py(7): forward;train.py(3): main"]
    assert trace.stack.tolist() == [-1, 0, 0, -1]


def test_a_pickle_that_runs_code_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (builtins.exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",))

    for protocol in range(2, 6):
        text = pickle.dumps({"segments": [], "device_traces": [[Trap()]]}, protocol=protocol)
        with pytest.raises(InputError, match="refused: its pickle holds more than containers"):
            opened(tmp_path, "trap.pickle", text)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"\x80\x04]r\xff\xff\xff\x7f.", "refused"),  # a place in the memo that would take 32 GiB
        (b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\x00\x00.", "cut off"),  # bytes that are not there
        (b"\x80\x04\x96\x00\x00\x00\x00\x00\x00\x00\x00.", "refused"),
        (b"\x80\x04]\x94.", "no memory snapshot"),
        (b"\x80\x04a.", "damaged"),
        (b"\x80\x04]", "cut off"),
        (pickle.dumps({"device_traces": [[{"action": "alloc"}] * 2000] * 1000}), "more often than a file of its size"),
        (pickle.dumps({"device_traces": [[1, None, {"action": []}]]}), "holds no allocations"),
    ],
)
def test_damaged_pickles_and_traps_are_refused(tmp_path: Path, text: bytes, says: str) -> None:
    with pytest.raises(InputError, match=says):
        opened(tmp_path, "x.pickle", text)


def test_memory_entries_without_time_or_total(tmp_path: Path) -> None:
    text = pickle.dumps({"device_traces": [[], [{"action": "alloc", "size": 8}, {"action": "free_completed", "size": 9}]]})
    trace = opened(tmp_path, "x.pickle", text)
    assert trace.device.tolist() == [1, 1]
    assert trace.start.tolist() == [0, 1000]
    assert trace.external.tolist() == [-1, -1]
    assert "a microsecond apart" in trace.head.notices[0].seen


def test_xplane_of_a_device(tmp_path: Path) -> None:
    trace = opened(tmp_path, "x.pb", samples.xplane())
    assert listed(trace) == [
        ("kernel", "gemm_fusion", 2000, 500),
        ("device_marker", "jit_step", 2000, 1100),
        ("copy", "MemcpyH2D", 3000, 100),
    ]
    kernel, copy = one(trace, "gemm_fusion"), one(trace, "MemcpyH2D")
    assert (kernel["device"], kernel["stream"], kernel["correlation"], copy["bytes"], copy["correlation"]) == (0, 7, 9, 4096, 10)
    assert trace.launches[kernel["launch"]] == KernelLaunch((2, 3, 1), (128, 1, 1), 32, 1024, 50.0)
    assert trace.head.facts == {"hosts": "host"}


def test_xplane_written_by_jax() -> None:
    """JAX 0.10.2 on a CPU; its own trace.json.gz of the same run has as many events and these lengths of the two steps."""
    trace = Timeline.open(samples.HERE / "jax_cpu.xplane.pb")
    steps = trace.of_kind(KINDS.index("marker"))
    assert trace.named(steps) == ["step 0", "step 1"]  # by their step_num
    assert (len(trace), int(trace.duration.sum())) == JAX[:2]
    assert trace.duration[steps].tolist() == JAX[2]
    assert trace.head.unix_ns is not None
    assert trace.head.unix_ns > 1_700_000_000 * 10**9
    assert {t.name.split("/")[0] for t in trace.threads} == {"python", "tf_XLAPjRtCpuClient"}


def test_xplane_passes_over_what_it_does_not_know_and_keeps_what_stands_before_damage(tmp_path: Path) -> None:
    whole = samples.xplane()
    assert len(opened(tmp_path, "a.xplane.pb", samples.doubled(whole))) == 3
    trace = opened(tmp_path, "b.xplane.pb", whole + whole[: len(whole) // 2])
    assert len(trace) == 3
    assert "cut off or damaged" in trace.head.notices[0].seen
    with pytest.raises(InputError, match="no events"):
        opened(tmp_path, "c.xplane.pb", whole[:40])


def test_xplane_without_protobuf_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    xplane._plane_type.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(Unavailable, match="XPlane files need protobuf") as error:
        opened(tmp_path, "x.pb", samples.xplane())
    assert error.value.remedy == "pip install protobuf"


def test_nsysjax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = opened(tmp_path, "x.zip", samples.nsysjax())
    assert listed(trace) == [
        ("marker", "TSL:XlaModule:#hlo_module=jit_step#", 1000, 3000), ("kernel", "fusion.3", 2000, 400), ("kernel", "nccl all-gather.1", 2500, 300),
    ]  # fmt: skip
    assert trace.breakdown().exposed_communication_share == pytest.approx(300 / 800)
    assert "thunks" in trace.head.notices[0].seen
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    without = Timeline.open(tmp_path / "x.zip")
    assert len(without) == 1
    assert "pyarrow is not installed" in without.head.notices[0].seen


def test_kineto(tmp_path: Path) -> None:
    trace = opened(tmp_path, "trace.json", samples.kineto())
    origin = trace.head.origin_ns
    assert [(kind, name, start, length) for kind, name, start, length in listed(trace) if kind in ("kernel", "operator", "marker")] == [
        ("marker", "ProfilerStep#3", 90_000, 200_000), ("marker", "half", 95_000, 4_000), ("operator", "aten::mm", 100_000, 50_500),
        ("kernel", "gemm", 120_000, 30_001), ("kernel", "ncclDevKernel_AllReduce", 140_000, 20_000),
    ]  # fmt: skip
    gemm, mm = one(trace, "gemm"), one(trace, "aten::mm")
    assert trace.launches[gemm["launch"]] == KernelLaunch((2, 3, 1), (128, 1, 1), 32, 1024, 50.0)
    assert trace.shapes[mm["shape"]].dims == "[[64, 32], [32, 16]]"
    assert trace.stacks[mm["stack"]] == "train.py(3): step;train.py(9): main"
    assert (mm["external"], mm["sequence"], one(trace, "cudaLaunchKernel")["correlation"]) == (5, 3, gemm["correlation"])
    talk = trace.collectives[one(trace, "ncclDevKernel_AllReduce")["collective"]]
    assert talk == ("allreduce", "Float", 10, 10, "0", 2)
    assert (one(trace, "[memory]")["bytes"], one(trace, "[memory]")["external"]) == (-512, 1024)
    assert (trace.head.rank, trace.head.ranks, trace.head.unix_ns) == (1, 2, 1_700_000_000_000_000_000 + origin)
    assert trace.threads[mm["thread"]] == ("1", "1", "main")
    assert trace.head.notices == []


def test_a_notice_says_which_field_was_left_out_and_whether_it_matters(tmp_path: Path) -> None:
    common = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 9, "dur": 2}
    fields = [{"correlation": "N/A", "device": 0, "stream": 7}, {"device": "0", "stream": 7, "correlation": 5}, {"grid": [1, 2, 3], "device": 0, "stream": "7", "correlation": "6"}]
    events = [common | {"ts": 10 * i, "args": one} for i, one in enumerate(fields)]
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    trace = Timeline.open(tmp_path / "a.json")
    assert trace.stream.tolist() == [7, 7, 7]
    # '0' is read as the number that it is: nothing is left out.
    seen = "'correlation' is of an unusual type in some events, which were read without it: causes of idle time and gains leave that work out"
    assert [(one.code, one.seen) for one in trace.head.notices] == [("unusual_values", seen)]
    (doubt,) = answers.answer(trace.study(), Advice([], 0, None)).doubts
    assert (doubt.field, doubt.events, doubt.matters, doubt.affects) == ("correlation", 1, True, seen.partition(": ")[2])


@pytest.mark.parametrize("category", ["mtia_ccp_events", "privateuse1", "npu_activity"])
def test_work_of_an_accelerator_is_work_copies_and_waits(tmp_path: Path, category: str) -> None:
    """On-device events of MTIA stand in one category; of a category that is not known, device and stream say that it is a device's."""
    names = ["aten_addmm_fused", "DMA_IN host to device", "MemsetAsync", "wait_event 3"]
    events = [
        {"ph": "X", "cat": category, "name": name, "pid": 3, "tid": 9, "ts": 100 + 10 * i, "dur": 10, "args": {"device": 1, "stream": 4}}
        for i, name in enumerate(names)
    ]
    events.append({"ph": "X", "cat": "mtia_runtime", "name": "mtiaSynchronizeStream", "pid": 1, "tid": 1, "ts": 90, "dur": 50})
    events.append({"ph": "X", "cat": "my_category", "name": "of the host", "pid": 1, "tid": 1, "ts": 90, "dur": 5})
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    trace = Timeline.open(tmp_path / "a.json")
    assert [KINDS[k] for k in trace.kind] == ["kernel", "copy", "set", "device_marker", "runtime", "other"]
    study = trace.study()
    assert study.devices == [1]
    assert study.blocking.tolist() == [False] * 4 + [True, False]
    assert trace.breakdown().compute_share == pytest.approx(1 / 3)
    assert "Nothing ran on a device" not in printing.trace(study, Advice([], 0, None), 100)


@shared
def test_the_recorded_nsight_systems_database() -> None:
    assert DATA is not None
    trace = Timeline.open(DATA / "nsys" / "saxpy-mpi-cuda_nsys_perlmutter0.sqlite")
    counts = {KINDS[k]: int((trace.kind == k).sum()) for k in np.unique(trace.kind)}
    assert counts == {"kernel": 5, "copy": 15, "runtime": 57, "marker": 22, "overhead": 16}  # rows of its tables; 38 of 95 calls stand twice
    assert trace.head.notices == []
    assert trace.head.devices[0]["name"] == "NVIDIA A100-SXM4-40GB"
    # by hand from the rows: five kernels and fifteen copies, none of which overlap
    found = trace.breakdown()
    assert found.compute_share is not None
    assert found.copy_share is not None
    assert found.idle_share is not None
    assert found.compute_share + found.copy_share + found.idle_share == pytest.approx(1)
    assert found.window_s == pytest.approx(1.097327843)


@shared
def test_the_recorded_nsys_jax_archive() -> None:
    assert DATA is not None
    trace = Timeline.open(DATA / "nsys" / "pax_fsdp4_4proc_proc0.zip", cache=False)
    assert int((trace.kind == KINDS.index("marker")).sum()) == 27_891
    assert int((trace.kind == 0).sum()) == 13_827
    assert 0.4 < (trace.breakdown().overlap or 0) < 0.6
