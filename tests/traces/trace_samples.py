"""Minimal traces of every format, written from the formats' descriptions; each holds one of all that its reader reads."""

from __future__ import annotations

import io
import json
import lzma
import pickle
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "samples"
GLOBAL = (77 << 24) | 78  # process 77, thread 78


def kineto() -> bytes:
    """Two operators with shapes and stacks, a launch, a kernel, a collective, a copy, a set, halves, a moment of memory."""
    events = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "ts": 0, "args": {"name": "main"}},
        _x("aten::mm", "cpu_op", 100.0, 50.5, 1, 1, {"External id": 5, "Sequence number": 3, "Input Dims": [[64, 32], [32, 16]],
           "Input type": ["float", "float"], "Call stack": "train.py(3): step;train.py(9): main"}),
        _x("cudaLaunchKernel", "cuda_runtime", 110.25, 4, 1, 1, {"correlation": 9, "External id": 5}),
        _x("gemm", "kernel", 120, 30.001, 0, 7, {"device": 0, "stream": 7, "correlation": 9, "grid": [2, 3, 1], "block": [128, 1, 1],
           "registers per thread": 32, "shared memory": 1024, "est. achieved occupancy %": 50}),
        _x("ncclDevKernel_AllReduce", "kernel", 140, 20, 0, 9, {"device": 0, "stream": 9, "correlation": 10, "Collective name": "allreduce",
           "dtype": "Float", "In msg nelems": 10, "Out msg nelems": 10, "Group size": 2, "Process Group Name": "0"}),
        _x("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", 165, 5, 0, 7, {"device": 0, "stream": 7, "bytes": 4096}),
        _x("Memset (Device)", "gpu_memset", 172, 1, 0, 7, {"device": 0, "stream": 7, "bytes": 16}),
        _x("ProfilerStep#3", "user_annotation", 90, 200, 1, 1, {}),
        {"ph": "B", "name": "half", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": 95},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 99},
        {"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "s": "t", "pid": 1, "tid": 1, "ts": 105,
         "args": {"Bytes": -512, "Total Allocated": 1024, "Device Id": 0}},
    ]  # fmt: skip
    about = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], "distributedInfo": {"rank": 1, "world_size": 2},
             "baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": events, "traceName": "trace.json"}  # fmt: skip
    return json.dumps(about).encode()


def _x(name: str, cat: str, ts: float, dur: float, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def _database(statements: list[tuple[str, list[tuple[Any, ...]]]]) -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA page_size=512")
    for table, rows in statements:
        connection.execute(f"CREATE TABLE {table}")
        name = table.partition("(")[0]
        for row in rows:
            connection.execute(f"INSERT INTO {name} VALUES ({','.join('?' * len(row))})", row)
    connection.commit()
    return connection.serialize()


def nsys() -> bytes:
    """Schema 3: kernels in a graph, a copy, a set, a synchronisation, calls, markers of two domains, one left open."""
    return _database([
        ("StringIds(id INTEGER PRIMARY KEY, value TEXT)", [(1, "gemm(float*)"), (2, "cudaLaunchKernel_v7000"), (3, "layer"), (4, "main"), (5, "poll")]),
        (("CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT, demangledName INT, "
         "gridX INT, gridY INT, gridZ INT, blockX INT, blockY INT, blockZ INT, registersPerThread INT, staticSharedMemory INT, "
         "dynamicSharedMemory INT, graphNodeId INT)"),
         [(2000, 2500, 0, 7, 9, 77 << 24, 1, 2, 3, 1, 128, 1, 1, 32, 16, 1008, 4), (2600, 2700, 0, 7, 9, 77 << 24, 1, 2, 3, 1, 128, 1, 1, 32, 16, 1008, 5),
          (2900, 2800, 0, 7, 9, 77 << 24, 1, 2, 3, 1, 128, 1, 1, 32, 16, 1008, None)]),
        (("CUPTI_ACTIVITY_KIND_MEMCPY(start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT, bytes INT, copyKind INT, "
         "srcKind INT, dstKind INT)"), [(3000, 3100, 0, 7, 10, 77 << 24, 4096, 1, 0, 2)]),
        ("CUPTI_ACTIVITY_KIND_MEMSET(start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT, bytes INT, memKind INT)",
         [(3200, 3210, 0, 7, 11, 77 << 24, 64, 2)]),
        ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT, syncType INT)",
         [(3300, 3400, 0, 0xFFFFFFFF, 12, 77 << 24, 4)]),
        ("CUPTI_ACTIVITY_KIND_RUNTIME(start INT, end INT, globalTid INT, correlationId INT, nameId INT)", [(1900, 1950, GLOBAL, 9, 2)]),
        ("NVTX_EVENTS(start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT, endGlobalTid INT, domainId INT)",
         [(1000, None, 75, "lib", None, GLOBAL, None, 1), (1500, 3500, 59, None, 3, GLOBAL, None, 0), (1600, 1700, 60, "inner", None, GLOBAL, GLOBAL + 1, 1),
          (1800, None, 59, "open", None, GLOBAL, None, 0), (1850, None, 34, "mark", None, GLOBAL, None, 0)]),
        ("OSRT_API(start INT, end INT, globalTid INT, nameId INT)", [(3500, 3900, GLOBAL, 5)]),
        ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT, graphId INT)",
         [(4000, 4500, 0, 7, 13, 77 << 24, 6)]),
        ("CUDA_GPU_MEMORY_USAGE_EVENTS(start INT, globalPid INT, deviceId INT, bytes INT, memoryOperationType INT)",
         [(1100, 77 << 24, 0, 256, 0), (4600, 77 << 24, 0, 256, 1)]),
        ("ThreadNames(nameId INT, priority INT, globalTid INT)", [(4, 20, GLOBAL)]),
        ("TARGET_INFO_GPU(id INT, name TEXT, smCount INT)", [(0, "GPU", 108)]),
        ("TARGET_INFO_SESSION_START_TIME(utcEpochNs INT)", [(1_700_000_000_000_000_000,)]),
        ("META_DATA_EXPORT(name TEXT, value TEXT)", [("EXPORT_SCHEMA_VERSION", "3.25.0")]),
    ])  # fmt: skip


def rocpd(schema: int = 3) -> bytes:
    """One agent, a kernel, a copy, a call and a marker; in schema 4 the times stand in a table of their own."""
    run = "_00000a1b_2c3d_4e5f_8a9b_0123456789ab"
    if schema == 3:
        kernel, copy, region = (
            "start INT, end INT, agent_id INT, stream_id INT",
            "start INT, end INT, stream_id INT",
            "start INT, end INT, pid INT, tid INT",
        )
        values: list[tuple[Any, ...]] = [(2000, 2500, 1, 1), (3000, 3100, 1), (1900, 1950, 1, 1), (1500, 3500, 1, 1)]
    else:
        kernel = copy = region = "start_id INT, end_id INT, track_id INT"
        values = [(1, 2, 1), (3, 4, 1), (5, 6, 2), (7, 8, 2)]
    return _database([
        (f"rocpd_metadata{run}(id INTEGER PRIMARY KEY, tag TEXT, value TEXT)", [(1, "schema_version", str(schema))]),
        (f"rocpd_string{run}(id INTEGER PRIMARY KEY, string TEXT)", [(1, "MEMORY_COPY_HOST_TO_DEVICE"), (2, "hipLaunchKernel"), (3, "layer")]),
        (f"rocpd_info_process{run}(id INTEGER PRIMARY KEY, pid INT)", [(1, 77)]),
        (f"rocpd_info_thread{run}(id INTEGER PRIMARY KEY, pid INT, tid INT, name TEXT)", [(1, 1, 78, "main")]),
        (f"rocpd_info_agent{run}(id INTEGER PRIMARY KEY, type TEXT, type_index INT, name TEXT, product_name TEXT)",
         [(1, "GPU", 0, "gfx942", "AMD Instinct MI300X"), (2, "CPU", 0, "EPYC", "EPYC")]),
        (f"rocpd_info_kernel_symbol{run}(id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT)", [(1, "_Z4gemm", "gemm(float*)")]),
        (f"rocpd_track{run}(id INTEGER PRIMARY KEY, pid INT, tid INT, agent_id INT, stream_id INT)", [(1, 1, None, 1, 1), (2, 1, 1, None, None)]),
        (f"rocpd_event{run}(id INTEGER PRIMARY KEY, stack_id INT)", [(1, 9), (2, 10)]),
        (f"rocpd_timestamp{run}(id INTEGER PRIMARY KEY, value INT)",
         list(enumerate([2000, 2500, 3000, 3100, 1900, 1950, 1500, 3500], 1)) if schema == 4 else []),
        ((f"rocpd_kernel_dispatch{run}({kernel}, kernel_id INT, group_segment_size INT, workgroup_size_x INT, workgroup_size_y INT, "
         "workgroup_size_z INT, grid_size_x INT, grid_size_y INT, grid_size_z INT, event_id INT)"), [(*values[0], 1, 512, 64, 1, 1, 256, 2, 1, 1)]),
        (f"rocpd_memory_copy{run}({copy}, name_id INT, size INT, dst_agent_id INT, src_agent_id INT, event_id INT)", [(*values[1], 1, 4096, 1, 2, 2)]),
        (f"rocpd_region{run}({region}, name_id INT, event_id INT)", [(*values[2], 2, 1), (*values[3], 3, None)]),
    ])  # fmt: skip


def rocprof_json() -> bytes:
    """One process of the tool."""

    def record(kind: int, operation: int, correlation: int, start: int, end: int, **more: Any) -> dict[str, Any]:
        return {"size": 64, "kind": kind, "operation": operation, "thread_id": 78, "correlation_id": {"internal": correlation, "external": 0},
                "start_timestamp": start, "end_timestamp": end, **more}  # fmt: skip

    gpu, cpu = {"handle": 5001}, {"handle": 5000}
    return json.dumps({"rocprofiler-sdk-tool": [{
        "metadata": {"pid": 77, "init_time": 1, "fini_time": 9000},
        "agents": [{"id": cpu, "type": 1, "node_id": 0, "name": "EPYC"},
                   {"id": gpu, "type": 2, "node_id": 1, "logical_node_type_id": 0, "product_name": "AMD Instinct MI300X", "cu_count": 304}],
        "kernel_symbols": [{"kernel_id": 3, "kernel_name": "_Z4gemm", "formatted_kernel_name": "gemm(float*)"}],
        "strings": {"buffer_records": [{"kind": "NONE", "operations": []}, {"kind": "HIP_RUNTIME_API", "operations": ["hipMalloc", "hipLaunchKernel"]},
                                       {"kind": "MEMORY_COPY", "operations": ["NONE", "HOST_TO_DEVICE"]}, {"kind": "MARKER_CORE_API", "operations": ["roctxRangePush"]}],
                    "marker_api": [{"key": 4, "value": "layer"}]},
        "buffer_records": {
            "kernel_dispatch": [record(0, 0, 9, 2000, 2500, dispatch_info={"agent_id": gpu, "queue_id": {"handle": 1}, "kernel_id": 3, "group_segment_size": 512,
                                "workgroup_size": {"x": 64, "y": 1, "z": 1}, "grid_size": {"x": 256, "y": 2, "z": 1}}, stream_id={"handle": 1})],
            "memory_copy": [record(2, 1, 10, 3000, 3100, dst_agent_id=gpu, src_agent_id=cpu, bytes=4096)],
            "hip_api": [record(1, 1, 9, 1900, 1950)],
            "marker_api": [record(3, 0, 4, 1500, 3500)],
        },
    }]}).encode()  # fmt: skip


def rocprof_csv() -> dict[str, bytes]:
    """Tables of one run, by what their names end in."""

    def table(*rows: str) -> bytes:
        return ("\n".join(rows) + "\n").encode()

    return {
        "kernel_trace.csv": table(
            '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","Private_Segment_Size",'
            '"Group_Segment_Size","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"',
            '"KERNEL_DISPATCH","Agent 1",139690710949888,15,"gemm(float*, int)",9,2000,2500,0,512,64,1,1,256,2,1',
            '"KERNEL_DISPATCH","Agent 1",139690710949888,15,"cut'),
        "memory_copy_trace.csv": table(
            '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"',
            '"MEMORY_COPY","HOST_TO_DEVICE","Agent 0","Agent 1",10,3000,3100'),
        "hip_api_trace.csv": table(
            '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"',
            '"HIP_RUNTIME_API","hipLaunchKernel",77,78,9,1900,1950'),
        "marker_api_trace.csv": table(
            '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"',
            '"MARKER_CORE_API","layer",77,78,4,1500,3500'),
    }  # fmt: skip


def memory() -> bytes:
    """Two allocations and a free on device 0; 300 bytes are left of them, and 700 of what was there before."""
    frames = [{"filename": "model.py", "line": 7, "name": "forward"}, {"filename": "train.py", "line": 3, "name": "main"}]
    entries = [
        {"action": "segment_alloc", "addr": 1 << 40, "size": 2048, "stream": 0, "time_us": 1_700_000_000_000_000, "frames": []},
        {"action": "alloc", "addr": 1 << 40, "size": 512, "stream": 0, "time_us": 1_700_000_000_000_010, "frames": frames},
        {"action": "alloc", "addr": (1 << 40) + 512, "size": 300, "stream": 0, "time_us": 1_700_000_000_000_020, "frames": frames},
        {"action": "free_requested", "addr": 1 << 40, "size": 512, "stream": 0, "time_us": 1_700_000_000_000_030, "frames": []},
        {"action": "free_completed", "addr": 1 << 40, "size": 512, "stream": 0, "time_us": 1_700_000_000_000_031, "frames": []},
    ]
    segments = [
        {"device": 0, "address": 1 << 40, "total_size": 2048, "allocated_size": 1000, "active_size": 1000, "stream": 0, "blocks": []}
    ]
    return pickle.dumps(
        {"segments": segments, "device_traces": [entries, []], "allocator_settings": {"expandable_segments": False, "fraction": 0.5}}
    )


def field(number: int, value: int | bytes | str) -> bytes:
    """A field of protobuf."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def xplane() -> bytes:
    """A device with a stream and a line of modules: a kernel with its launch, a copy."""

    def stat(key: int, value: int | str) -> bytes:
        return field(1, key) + (field(3, value) if isinstance(value, int) else field(5, value))

    def entry(key: int, value: bytes) -> bytes:
        return field(1, key) + field(2, value)

    def event(kind: int, offset: int, duration: int, *stats: bytes) -> bytes:
        return field(1, kind) + field(2, offset) + field(3, duration) + b"".join(field(4, one) for one in stats)

    details = "regs:32 static_shared:16 dynamic_shared:1008 grid:2,3,1 block:128,1,1 occ_pct:50"
    stream = field(1, 7) + field(2, "Stream #7(Compute,MemcpyH2D)") + field(3, 1000) + b"".join(
        field(4, one) for one in (
            event(1, 1_000_000, 500_000, stat(1, 9), stat(2, details)),
            event(2, 2_000_000, 100_400, stat(1, 10), stat(3, "kind_src:pinned kind_dst:device size:4096 dest:0 async:1")),
        )
    )  # fmt: skip
    modules = field(1, 8) + field(2, "XLA Modules") + field(3, 1000) + field(4, event(3, 1_000_000, 1_100_400))
    plane = field(1, 1) + field(2, "/device:GPU:0") + field(3, stream) + field(3, modules)
    for key, name in ((1, "gemm_fusion"), (2, "MemcpyH2D"), (3, "jit_step")):
        plane += field(4, entry(key, field(1, key) + field(2, name)))
    for key, name in ((1, "correlation_id"), (2, "kernel_details"), (3, "memcpy_details")):
        plane += field(5, entry(key, field(1, key) + field(2, name)))
    return field(1, plane) + field(4, "host")


def nsysjax() -> bytes:
    """Markers of a host thread, and thunks of the device: a loop with a kernel in it, a collective."""
    import pyarrow
    from pyarrow import parquet

    host = "Start (ns),End (ns),Duration (ns),Name,PID,TID\n1000,4000,3000,TSL:XlaModule:#hlo_module=jit_step#,77,78\n"
    rows = [
        {
            "Name": "TSL:XlaModule:#hlo_module=jit_step#",
            "Projected Start": 2000,
            "Projected Duration": 900,
            "RangeId": 1.0,
            "RangeStack": ":1",
        },
        {"Name": "TSL:Thunk:#hlo_op=while.1#", "Projected Start": 2000, "Projected Duration": 500, "RangeId": 2.0, "RangeStack": ":1:2"},
        {
            "Name": "TSL:Thunk:#name=x,hlo_op=fusion.3#",
            "Projected Start": 2000,
            "Projected Duration": 400,
            "RangeId": 3.0,
            "RangeStack": ":1:2:3",
        },
        {
            "Name": "TSL:Thunk:#hlo_op=all-gather.1#",
            "Projected Start": 2500,
            "Projected Duration": 300,
            "RangeId": 4.0,
            "RangeStack": ":1:4",
        },
    ]
    table, packed = io.BytesIO(), io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), table)
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("report_nvtx_pushpop_trace.csv.xz", lzma.compress(host.encode()))
        archive.writestr("nvtx_gpu_proj_trace/trace.parquet", table.getvalue())
    return packed.getvalue()


def doubled(text: bytes) -> bytes:
    """A float of protobuf is eight bytes: what a reader that knows only whole numbers has to pass over."""
    return text + varint(9 << 3 | 1) + struct.pack("<d", 0.5)


FORMATS: dict[str, tuple[str, Callable[[], bytes]]] = {  # reader: a name of a file, its contents
    "kineto": ("trace.json", kineto),
    "nsys": ("report.sqlite", nsys),
    "rocpd": ("results.db", rocpd),
    "rocprof": ("results.json", rocprof_json),
    "rocprof csv": ("1_kernel_trace.csv", lambda: rocprof_csv()["kernel_trace.csv"]),
    "memory": ("snapshot.pickle", memory),
    "xplane": ("host.xplane.pb", xplane),
    "nsysjax": ("nsys_jax.zip", nsysjax),
}
