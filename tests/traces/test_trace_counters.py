"""Readers of kernels' counters: Nsight Compute's tables and reports, ROCm Compute Profiler's table; whole, foreign, cut and damaged."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import examples
from hotlap.core.errors import InputError
from hotlap.traces import counters
from hotlap.traces.counters import analysis, loading, numbers
from hotlap.traces.counters.numbers import Style
from hotlap.traces.show import kernels

TRACES = Path(os.environ.get("HOTLAP_SHARED") or Path(__file__).resolve().parents[2].parent / "shared") / "data" / "traces"
shared = pytest.mark.skipif(not TRACES.is_dir(), reason="no real traces: HOTLAP_SHARED is not set and ../shared is not there")

HEAD = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC"'
DETAILS = HEAD + ',"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"'
KERNEL = '"0","7","app","127.0.0.1","gemm(float *, int)","1","7","(384, 1, 1)","(9, 32, 1)","0","10.0"'


def details(*lines: tuple[str, str, str], rules: str = "") -> str:
    rows = "".join(f'{KERNEL},"Section","{name}","{unit}","{value}",\n' for name, unit, value in lines)
    return f"==PROF== Connected to process 7\n1.5,2\n==PROF== Disconnected\n{DETAILS}\n{rows}{rules}"


def read(path: Path, text: str | bytes) -> counters.KernelProfile:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return counters.read(path)


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("texts", "decimal", "values"),
    [
        (["1,215,000,000.00", "508,757", "21.68"], ".", [1215e6, 508757, 21.68]),
        (["27.595.520", "12,5", "1.024"], ",", [27595520, 12.5, 1024]),
        (["1.215.000,25", "384"], ",", [1215000.25, 384]),
        (["12 345,5", "7"], ",", [12345.5, 7]),
        (["1.5", "168"], ".", [1.5, 168]),
        (["0.125", "1,024"], ".", [0.125, 1024]),
        (["1,024"], ".", [1024]),
    ],
)
def test_the_decimal_sign_is_told_by_all_numbers_of_a_file(texts: list[str], decimal: str, values: list[float]) -> None:
    how = numbers.style(texts)
    assert how == Style(decimal, True)
    assert [numbers.number(text, how) for text in texts] == values


def test_numbers_that_contradict_each_other_are_a_notice(tmp_path: Path) -> None:
    found = read(tmp_path / "a.csv", details(("Duration", "us", "1.5"), ("Waves Per SM", "", "1,25"), ("Block Size", "", "2.75")))
    assert "two ways" in found.notices[0].seen
    assert found.kernels[0].metrics["duration_s"] == pytest.approx(1.5e-6)


@pytest.mark.parametrize("text", ["", "N/A", "(256, 1, 1)", "CachePreferNone", "1e999", "nan", "-", "inf", "0x10"])
def test_what_is_no_number_is_none(text: str) -> None:
    assert numbers.number(text, Style()) is None


@pytest.mark.parametrize(
    ("written", "scale", "base"),
    [
        ("nsecond", 1e-9, "s"), ("us", 1e-6, "s"), ("Kbyte/block", 1e3, "B"), ("Gbyte/second", 1e9, "B/s"), ("cycle/nsecond", 1e9, "Hz"),
        ("Ghz", 1e9, "Hz"), ("%", 0.01, "%"), ("inst", 1, ""), ("register/thread", 1, ""), ("", 1, ""), ("byte/s", 1, "B/s"), ("msecond", 1e-3, "s"),
    ],
)  # fmt: skip
def test_units_as_profilers_write_them(written: str, scale: float, base: str) -> None:
    found = numbers.unit(written)
    assert found[0] == pytest.approx(scale)
    assert found[1] == base


# ---------------------------------------------------------------- ncu --csv


def test_details_page_with_lines_before_it_and_the_profilers_own_rules(tmp_path: Path) -> None:
    own = f'{KERNEL},"Occupancy","","","","TheoreticalOccupancy","OPT","few fit","local","81.25"\n'
    lines = [("Duration", "us", "406.24"), ("Memory Throughput", "%", "21.68"), ("Memory Throughput", "Gbyte/second", "59.1"), ("Registers Per Thread", "register/thread", "168")]
    (one,) = read(tmp_path / "a.csv", details(*lines, ("Stack Size", "", "1,760"), ("Cache", "", "PreferNone"), rules=own)).kernels
    assert (one.name, one.grid, one.block, one.registers, one.capability) == ("gemm(float *, int)", (9, 32, 1), (384, 1, 1), 168, "10.0")
    assert one.duration_s == pytest.approx(406.24e-6)
    assert one.metrics["memory_share"] == pytest.approx(0.2168)
    assert one.metrics["dram_bandwidth"] == pytest.approx(59.1e9)
    assert one.others == {"Stack Size": (1760, "")}
    assert [(r.rule, r.scope, r.gain) for r in one.remarks] == [("TheoreticalOccupancy", "local", 0.8125)]


def test_raw_page_takes_units_from_its_second_line(tmp_path: Path) -> None:
    text = (
        HEAD + ',"gpu__time_duration.sum","sm__throughput.avg.pct_of_peak_sustained_elapsed","launch__registers_per_thread","my__metric"\n'
        '"","","","","","","","","","","","usecond","%","register/thread","inst"\n'
        f'{KERNEL},"12.50","71.5","32","1,000,000"\n' + KERNEL.replace('"0"', '"1"', 1) + ',"2.50","n/a","64","5"\n'
    )
    first, second = read(tmp_path / "a.csv", text).kernels
    assert first.duration_s == pytest.approx(12.5e-6)
    assert first.metrics["compute_share"] == pytest.approx(0.715)
    assert first.others["my__metric"] == (1_000_000, "inst")
    assert second.registers == 64
    assert "compute_share" not in second.metrics


def test_the_same_profile_in_another_locale_reads_the_same(tmp_path: Path) -> None:
    lines = [("Duration", "ns", "406,240"), ("Compute (SM) Throughput", "%", "23.59"), ("Elapsed Cycles", "cycle", "27,595,520")]
    foreign = [(name, unit, value.translate({44: ".", 46: ","})) for name, unit, value in lines]
    one = read(tmp_path / "a.csv", details(*lines)).kernels[0]
    other = read(tmp_path / "b.csv", details(*foreign)).kernels[0]
    assert one == other
    assert one.others["Elapsed Cycles"] == (27595520, "cycle")


def test_kernels_are_told_apart_by_process_and_id_and_broken_lines_are_counted(tmp_path: Path) -> None:
    text = details(("Duration", "us", "1")) + KERNEL.replace('"7"', '"8"', 1) + ',"S","Duration","us","2",\n' + '"x","y","z"\n"3","7","cut'
    found = read(tmp_path / "a.csv", text)
    assert [one.duration_s for one in found.kernels] == [pytest.approx(1e-6), pytest.approx(2e-6)]
    assert found.notices[0].count >= 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"a,b,c\n1,2,3\n", "holds no counters that Hotlap knows"),
        ("a.csv", DETAILS.encode() + b"\n", "no kernel under it"),
        ("a.csv", b"\x00\xff\xfe" * 50, "holds no counters"),
        ("pmc_perf.csv", b"Dispatch_ID,Kernel_Name,Grid_Size,Workgroup_Size\n", "no kernel under it"),
        ("a.ncu-rep", b"NVR\0", "no whole report"),
        ("a.ncu-rep", b"NVR\0\xff\xff\xff\xff12", "no whole report"),
        ("a.ncu-rep", b"NVR\0\x02\0\0\0\x08\x07", "holds no kernel"),
        ("a.ncu-rep", b"NVR\0\x02\0\0\0\x08\x07\x06\0\0\0\x08\xff\xff\xff\xff\x0f", "counts more messages"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_line(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read(tmp_path / name, content)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        counters.read(tmp_path / "absent.csv")


# ---------------------------------------------------------------- .ncu-rep, written here


def varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def field(number: int, value: int | float | str | bytes) -> bytes:
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def sized(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message


def block(results: list[bytes], strings: list[str], sources: tuple[bytes, ...] = ()) -> bytes:
    payload = b"".join(map(sized, (*sources, *results)))
    table = b"".join(field(1, one) for one in strings)
    return sized(field(1, len(sources)) + field(2, len(results)) + field(4, table) + field(5, len(payload))) + payload


def launch(name: str, metrics: dict[int, float | int | str], extra: bytes = b"") -> bytes:
    def value(one: float | int | str) -> bytes:
        return field(1, one) if isinstance(one, str) else field(3, one) if isinstance(one, float) else field(5, one)

    grid = field(1, 4) + field(2, 2) + field(3, 1)
    body = b"".join(field(13, field(1, number) + field(2, value(one))) for number, one in metrics.items())
    return field(5, "_Zmangled") + field(7, name) + field(10, grid) + field(11, field(1, 256) + field(2, 1) + field(3, 1)) + body + extra


NAMES = [
    "gpu__time_duration.sum", "device__attribute_compute_capability_major", "device__attribute_compute_capability_minor",
    "device__attribute_display_name", "launch__registers_per_thread", "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sass__inst_executed_per_opcode",
]  # fmt: skip


def report() -> bytes:
    opcodes = field(13, field(1, 6) + field(2, field(5, 9)) + field(3, field(1, field(1, "FADD")) + field(2, field(5, 4))) + field(3, field(1, field(1, "FFMA")) + field(2, field(5, 5))))
    said = field(19, field(1, "SOLBottleneck") + field(3, field(1, field(1, field(1, "small grid") + field(2, 2)))))
    first = launch("daxpy(double *)", {0: 84480.0, 1: 8, 2: 6, 3: "Some GPU", 4: 32.0, 5: 41.0}, opcodes + said + field(99, "of a later version"))
    second = launch("late", {7: 5, 0: float("nan")})
    return b"NVR\0" + sized(field(1, 7)) + block([], []) + block([first], NAMES, (b"\x08\x01",)) + block([second], ["memory_l1_wavefronts_shared"])


def test_report_of_nsight_compute(tmp_path: Path) -> None:
    first, second = read(tmp_path / "a.ncu-rep", report()).kernels
    assert (first.name, first.device, first.capability, first.grid, first.registers) == ("daxpy(double *)", "Some GPU", "8.6", (4, 2, 1), 32)
    assert first.duration_s == pytest.approx(84.48e-6)
    assert first.metrics["compute_share"] == pytest.approx(0.41)
    assert first.opcodes == {"FADD": 4, "FFMA": 5}
    assert [(r.rule, r.kind, r.text) for r in first.remarks] == [("SOLBottleneck", "OPT", "small grid")]
    assert second.metrics["shared_wavefronts"] == 5, "texts of a later block are added to those before"
    assert second.duration_s is None


def test_a_packed_report_is_unpacked_and_a_bomb_is_refused(tmp_path: Path) -> None:
    assert len(read(tmp_path / "a.ncu-rep.gz", gzip.compress(report())).kernels) == 2
    assert len(read(tmp_path / "a.csv.gz", gzip.compress(details(("Duration", "us", "1")).encode())).kernels) == 1
    (tmp_path / "b.gz").write_bytes(gzip.compress(bytes(2 << 20)))
    with pytest.raises(InputError, match="larger than 1 MiB"):
        loading.load(tmp_path / "b.gz", 1 << 20)


def test_a_report_that_is_cut_keeps_the_kernels_before_the_cut(tmp_path: Path) -> None:
    found = read(tmp_path / "a.ncu-rep", report()[:-20])
    assert [one.name for one in found.kernels] == ["daxpy(double *)"]
    assert "cut off or damaged" in found.notices[0].seen
    assert kernels.text(found, analysis.analyse(found)).splitlines()[1].startswith("notice the file is cut off or damaged")


# ---------------------------------------------------------------- ROCm Compute Profiler

PMC = "Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Arch_VGPR,Accum_VGPR,SGPR,wave_size,Start_Timestamp,End_Timestamp"
PMC_COUNTERS = ",SQ_WAVE_CYCLES,SQ_WAIT_ANY,TCC_EA_RDREQ_sum,TCC_EA_RDREQ_32B_sum,TCC_EA_WRREQ_sum,TCC_EA_WRREQ_64B_sum\n"
PMC_LINE = '0,"copy(double*, int)",0,1048576,256,0,8,0,16,64,1000,21000,100,90,1000,0,1000,1000\n'


def test_counters_of_amd_become_bytes_and_shares(tmp_path: Path) -> None:
    (tmp_path / "sysinfo.csv").write_text("gpu_model,gpu_arch,cu_per_gpu,max_sclk,hbm_bw\nMI200,gfx90a,104,1700,1638.4\n")
    found = read(tmp_path / "pmc_perf.csv", PMC + PMC_COUNTERS + PMC_LINE)
    (one,) = found.kernels
    assert (one.vendor, one.capability, one.grid, one.duration_s) == ("amd", "gfx90a", (4096, 1, 1), pytest.approx(20e-6))
    assert one.metrics["dram_read_bytes"] == 64_000
    assert one.metrics["dram_write_bytes"] == 64_000
    assert one.metrics["memory_share"] == pytest.approx(128_000 / 20e-6 / 1638.4e9)
    assert one.metrics["wait_share"] == pytest.approx(0.9)
    assert not found.notices


def test_without_the_file_of_the_machine_shares_of_peaks_are_unknown(tmp_path: Path) -> None:
    found = read(tmp_path / "pmc_perf.csv", PMC + PMC_COUNTERS + PMC_LINE)
    assert "memory_share" not in found.kernels[0].metrics
    assert "sysinfo.csv" in found.notices[0].seen


# ---------------------------------------------------------------- real files


@shared
def test_real_reports_have_the_values_that_nsight_compute_shows() -> None:
    found = counters.read(TRACES / "ncu" / "manual_nvtx.ncu-rep")
    assert [one.name.split("(")[0] for one in found.kernels] == ["init_data_kernel", "daxpy_kernel", "check_results_kernel"]
    first = found.kernels[0]
    assert (first.device, first.capability, first.grid, first.registers) == ("NVIDIA GeForce RTX 3070", "8.6", (16384, 1, 1), 16)
    assert first.duration_s == pytest.approx(84.48e-6)
    assert first.metrics["dram_share"] == pytest.approx(0.882, abs=1e-3)
    assert first.opcodes["I2F"] == 131072
    assert any("79.2%" in said.text for said in first.remarks)
    (one,) = counters.read(TRACES / "ncu" / "CuVectorAddDrv.ncu-rep").kernels
    assert one.duration_s == pytest.approx(3.232e-6)


@shared
@pytest.mark.parametrize(("folder", "arch", "read_bytes"), [("kernel_MI200", "gfx90a", 8.39e6), ("kernel_MI300X", "gfx942", 8.4e6)])
def test_real_tables_of_amd_count_the_bytes_that_the_copy_reads(folder: str, arch: str, read_bytes: float) -> None:
    found = counters.read(TRACES / "rocprof" / folder / "pmc_perf.csv")
    assert len(found.kernels) == 3
    for one in found.kernels:
        assert one.capability == arch
        assert one.metrics["dram_read_bytes"] == pytest.approx(read_bytes, rel=0.01)  # a copy of 1,048,576 doubles
        assert one.metrics["threads_active"] == pytest.approx(64)


@shared
def test_every_cut_of_a_real_report_is_read_or_refused(tmp_path: Path) -> None:
    data = (TRACES / "ncu" / "CuVectorAddDrv.ncu-rep").read_bytes()
    ends = [attempt(tmp_path / "a.ncu-rep", data[:size]) for size in range(0, len(data), 997)]
    assert ends[0] == "refused"
    assert attempt(tmp_path / "a.ncu-rep", data) == "read"


# ---------------------------------------------------------------- anything


def attempt(path: Path, content: bytes) -> str:
    """Reads, analyses and prints it all, or refuses it in one line: which of both."""
    refused = ""
    try:
        profile = read(path, content)
    except InputError as error:
        refused = str(error)
    if refused:
        assert "\n" not in refused
        return "refused"
    said = kernels.text(profile, analysis.analyse(profile))
    assert all(line.isprintable() for line in said.split("\n"))
    return "read"


@settings(max_examples=examples(150))
@given(data=st.data())
def test_damaged_reports(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = bytearray(report())
    for place, byte in data.draw(st.lists(st.tuples(st.integers(4, len(content) - 1), st.integers(0, 255)), max_size=6)):
        content[place] = byte
    cut = bytes(content[: data.draw(st.integers(0, len(content)))])
    end = attempt(tmp_path_factory.getbasetemp() / "damaged.ncu-rep", cut)
    assert end == "read" if cut == report() else end in ("read", "refused")


VALUES = st.one_of(st.text(max_size=8), st.sampled_from(["1,5", "2.000.000", "1e308", "-3", "0", "101", "N/A", "99.9"]), st.floats().map(str))


@pytest.mark.slow("traces of many events")
@settings(max_examples=examples(150))
@given(rows=st.lists(st.tuples(st.sampled_from(["Duration", "Memory Throughput", "Compute (SM) Throughput", "Registers Per Thread", "Waves Per SM", "# SMs", "Theoretical Occupancy", "Achieved Occupancy", "Issued Warp Per Scheduler", "Dynamic Shared Memory Per Block"]), st.sampled_from(["%", "", "us", "Gbyte/second", "Kbyte/block"]), VALUES), max_size=12), tail=st.text(max_size=20))
def test_any_values_in_a_table(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]], tail: str) -> None:
    end = attempt(tmp_path_factory.getbasetemp() / "any.csv", (details(*rows) + tail).encode("utf-8", "replace"))
    assert end == "read" if rows and not tail else end in ("read", "refused")


@settings(max_examples=examples(100))
@given(cells=st.lists(VALUES, min_size=16, max_size=19))
def test_any_values_in_a_table_of_amd(tmp_path_factory: pytest.TempPathFactory, cells: list[str]) -> None:
    line = ",".join(cell.replace(",", "").replace('"', "") for cell in cells)
    end = attempt(tmp_path_factory.getbasetemp() / "pmc_perf.csv", (PMC + PMC_COUNTERS + "0,k," + line).encode("utf-8", "replace"))
    assert end in ("read", "refused")
