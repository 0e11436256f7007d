"""What a terminal shows, compared with golden files and against what may never happen: a number without its notice."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace as changed

import pytest
import report_sample as sample
from msgspec.structs import replace

from hotlap.core.analysis.compare import compare
from hotlap.core.analysis.environment import differences
from hotlap.core.model import machines
from hotlap.core.model.predict import predict
from hotlap.core.plan import case as case_of
from hotlap.core.record import Case, Device, Limit, Notice, Row, Summary
from hotlap.core.show import comparison, explain, layout, listing, notices, table, text, words
from hotlap.core.store.bundle import Bundle

Kept = tuple[Bundle, list[Row]]
Golden = Callable[[str, str], None]
ESCAPES = re.compile(r"\x1b\[\d+m")
WIDTHS = (80, 100, 130)


@pytest.mark.parametrize("width", WIDTHS)
def test_table(cpu: Kept, golden: Golden, width: int) -> None:
    kept, rows = cpu
    golden(f"table-{width}.txt", f"{text.heading(kept)}\n{text.table(rows, width)}\n")


def test_a_share_of_a_bound_that_reads_from_the_cache_says_so_below_the_table(gpu: Kept) -> None:
    plain = gpu[1]
    row = next(row for row in plain if row.gap.share is not None and row.gap.reference_kind == "bound")
    cached = replace(row, gap=replace(row.gap, numbers={**row.gap.numbers, "limit_cached_share": 0.98}))
    text_of = f"{row.label}: the bound counts bytes that stay in the cache as free, so that no run comes near it"
    assert text_of in " ".join(text.table([cached], 100).split())
    assert "read from the cache" not in text.table([row], 100)


def test_table_of_a_gpu(gpu: Kept, golden: Golden) -> None:
    golden("table-gpu.txt", f"{text.heading(gpu[0])}\n{text.table(gpu[1], 100)}\n")


@pytest.mark.parametrize("width", [80, 90, 100, 110, 120, 140, 200])
def test_nothing_is_wider_than_the_terminal(cpu: Kept, gpu: Kept, width: int) -> None:
    for rows in (cpu[1], gpu[1]):
        for printed in (text.table(rows, width), text.explain(rows, width)):
            assert max(map(len, printed.splitlines())) <= width


def test_colour_adds_nothing_but_colour(cpu: Kept) -> None:
    for show in (text.table, text.explain):
        plain, painted = show(cpu[1], 100, False), show(cpu[1], 100, True)
        assert "\x1b" not in plain
        assert ESCAPES.sub("", painted) == plain
        assert painted != plain


def test_decimal_points_stand_under_each_other(cpu: Kept) -> None:
    found = [re.search(r" (\d+)(\.\d+)? +(?:GB/s|GFLOP/s|ns|µs|M/s) ", line) for line in text.table(cpu[1], 100).splitlines() if "± " in line]
    ends = [match.end(1) for match in found if match]
    assert len(ends) > 15
    assert len(set(ends)) == 1


def test_few_rounds_have_an_interval_with_its_confidence() -> None:
    kept = sample.bundle(sample.CPU, sample.CPU_CASES, rounds=3)
    rows = sample.rows(kept, sample.CPU_CASES)
    printed = text.table(rows, 100)
    assert "few rounds" in printed
    assert re.search(r"± [\d.]+ % \(75 %\)", printed), "the interval of 3 rounds says the confidence it has"
    assert all(row.verdict.state != "measured" for row in rows)


def test_an_interval_wider_than_its_value_is_shown_by_its_ends(cpu: Kept) -> None:
    row = cpu[1][0]
    wide = replace(row.result, unit="s", metric="time", better="lower"), Summary(rounds=6, median=64e-6, low=60e-6, high=1.5e-3, half_width=11.25)
    printed = words.interval(replace(row, result=wide[0], summary=wide[1]))
    assert printed == "[60 µs – 1.5 ms]"
    assert "±" not in printed


def test_unknown_is_a_dash_and_never_zero(cpu: Kept) -> None:
    for row in cpu[1]:
        line = next(line for line in text.table([row], 200).splitlines() if row.label in line)
        if row.gap.share is None and row.verdict.state != "not_run":
            assert "0 %" not in line.replace("10 %", "").partition("±")[0]
            assert words.DASH in line
        if row.verdict.state == "not_run":
            assert not re.search(r"\d (GB/s|GFLOP/s|ns|µs)", line)
    assert words.quantity(None, "B/s") == words.quantity(float("nan"), "B/s") == words.DASH


def test_an_invalid_number_is_shown_and_marked(cpu: Kept) -> None:
    row = next(row for row in cpu[1] if row.verdict.state == "invalid")
    shown = words.quantity(row.summary.median, row.result.unit)
    for line in (next(line for line in text.table([row], 100).splitlines() if row.label in line), text.explain([row], 100)):
        assert re.search(rf"{shown.replace(' ', ' +')}.*invalid", line, re.DOTALL)
    assert f"x {row.label}" in text.table([row], 100)


def test_three_notices_at_most_and_explain_has_them_all(cpu: Kept) -> None:
    found = [notice.word for notice in notices.find(cpu[1])]
    below = text.table(cpu[1], 100, run="20261121-103000-c0ffee").partition("cases: ")[2]
    assert len(found) == 4
    assert all(f"\n{name} " in below for name in found[:3])
    assert f"\n{found[3]} " not in below
    assert "1 more notice: hotlap explain 20261121-103000-c0ffee" in below
    explained = text.explain(cpu[1], 100)
    assert all(name in explained for name in found)


def test_what_was_not_run_is_one_line_and_explain_says_why(cpu: Kept) -> None:
    printed, explained = text.table(cpu[1], 100), " ".join(text.explain(cpu[1], 100).split())
    without = [row for row in cpu[1] if row.verdict.state == "not_run"]
    assert len(without) == 2
    assert printed.count("not run ") == 1
    assert all(row.verdict.reason in explained for row in without)


def test_a_runs_own_best_is_no_limit(cpu: Kept) -> None:
    rows = [row for row in cpu[1] if row.gap.reference_kind == "ceiling"]
    printed = text.table(rows, 130)
    assert "of best" in printed
    assert not re.search("[█▓▒]", printed)
    for said in (printed, text.explain(rows, 130)):
        assert not re.search("ceiling|headroom|at limit", said)


def test_labels_cannot_drive_the_terminal(cpu: Kept) -> None:
    row = replace(cpu[1][0], label="stream \x1b[31mred\x07\n\rtwo")
    printed = text.table([row], 100) + text.explain([row], 100)
    assert "\x1b" not in printed
    assert "\x07" not in printed
    assert "stream \\x1b[31mred\\x07  two" in printed


def test_long_names_wrap_and_keep_their_numbers(cpu: Kept) -> None:
    row = replace(cpu[1][0], label="command " + " ".join(f"--option-{n}=value" for n in range(30)))
    printed = text.table([row], 80)
    assert words.value(row).split()[0] in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_several_devices_have_a_table_each(cpu: Kept, gpu: Kept) -> None:
    printed = text.table([*cpu[1], *gpu[1]], 100)
    assert sample.CPU.key in printed
    assert sample.GPU.key in printed
    assert printed.count("of limit ") == 2


def test_nothing_measured_is_said() -> None:
    assert text.table([]) == text.explain([]) == "no results: no case was measured"


def test_explain(cpu: Kept, golden: Golden) -> None:
    golden("explain.txt", text.explain(cpu[1], 90) + "\n")


def test_what_to_do_stands_once_below_many_cases_and_beside_a_single_one(cpu: Kept) -> None:
    wide = [row for row in cpu[1] if row.verdict.state == "inconclusive" and row.verdict.action]
    assert wide[0].verdict.action in " ".join(text.explain(wide[:1], 100).split())
    many = " ".join(text.explain([*cpu[1], *wide[:1]], 100).split())
    assert wide[0].verdict.action not in many.partition(" what to do ")[0]
    assert " what to do " in many


def test_rounds_that_are_advised_name_the_cases_they_serve_once(cpu: Kept) -> None:
    row = cpu[1][0]
    wide = [
        replace(row, label=name, summary=replace(row.summary, needed=needed, reached=False),
                verdict=replace(row.verdict, state="inconclusive"), result=replace(row.result, notices=[Notice("noise", "loud")] if name == "a" else []))
        for name, needed in (("a", 45), ("b", 100), ("c", None))
    ]  # fmt: skip
    printed = " ".join(text.explain(wide, 200).split()).partition(" what to do ")[2]
    assert printed.count("--rounds") == 1
    assert "--rounds 100" in printed
    assert "so many rounds should reach the precision asked, if the machine stays as noisy, in a and b; c would need a quieter machine, or a larger --precision" in printed


def test_a_case_that_has_the_run_s_best_rate_is_not_held_against_itself(cpu: Kept) -> None:
    best = next(row for row in cpu[1] if row.label == "stream triad fp32 1 GiB")
    best = replace(best, gap=replace(best.gap, names={"best_case": best.label}))
    assert words.of_limit(best) == "the best"
    printed = " ".join(text.explain([best], 100).split())
    assert "none: no other case of this run has a higher median rate (memory), and " in printed
    assert "1.00" not in printed
    other = next(row for row in cpu[1] if row.label == "stream copy fp32 1 GiB")
    assert words.of_limit(other) == "0.92 of best"


def test_explain_names_each_source_once(gpu: Kept) -> None:
    printed = text.explain(gpu[1], 100)
    assert printed.count("NVIDIA H200 datasheet, 2024") == 1
    assert "4.80 TB/s [1]" in printed


@pytest.mark.slow("compares many runs")
def test_comparison(cpu: Kept, golden: Golden) -> None:
    faster = [changed(seen, value=seen.value * (1 + 0.03 * (n % 3 - 1))) for n, seen in enumerate(sample.CPU_CASES)]
    other = sample.bundle(sample.CPU, faster)
    other = changed(other, run=replace(other.run, id="20261122-103000-c0ffef", machine=replace(other.run.machine, kernel="Linux 6.9")))
    found = compare([cpu[0]], [other])
    differs = differences([cpu[0].run], [other.run])
    golden("comparison.txt", comparison.comparison(found, ([cpu[0]], [other]), differs, 100) + "\n")
    golden("matrix.txt", comparison.matrix({"new": comparison.Other(found), "newer": comparison.Other(found)}, "old", (), 100) + "\n")
    assert comparison.comparison([]).startswith("nothing to compare")


def test_devices(golden: Golden) -> None:
    missing = {
        "cuda": {"reason": "libcuda.so.1 is not here", "remedy": "install the NVIDIA driver"},
        "torch": {"reason": "PyTorch is not installed", "remedy": "pip install torch"},
    }
    bare = Device(target="opencl", index=1, name="no facts", kind="other")
    golden("devices.txt", text.devices([sample.CPU, sample.GPU, bare], missing, 100) + "\n")
    assert "no device" in text.devices([], missing, 100)


def test_what_can_be_simulated(golden: Golden) -> None:
    injections = {"noise": {"about": "relative standard deviation of samples", "example": "noise=0.01", "answer": "wide intervals"}}
    golden("simulated.txt", listing.simulated(["h100-sxm", "h200-sxm"], injections, 100) + "\n")


def test_a_run_of_many_devices_is_one_line_and_its_labels_can_be_copied(cpu: Kept) -> None:
    label = {"pallet": "P1", "cluster": "a-long-name-of-a-cluster-that-somebody-thought-of", "purchase": "order-2026-11-24-0001"}
    many = replace(cpu[0].listed, devices=[f"simulated:{n}" for n in range(40)], models=["h200-sxm"] * 40)
    lines = text.runs([replace(many, labels={"pallet": "P1"})], 120).splitlines()
    assert len(lines) == 2
    assert [head in lines[0] for head in ("began", "rounds", "cases")] == [True] * 3
    assert "h200-sxm × 40" in lines[1]
    for width in (80, 120):
        listed = text.runs([replace(many, labels=label)], width).splitlines()
        assert max(map(len, listed)) <= width
        assert all(any(f"{name}={value}" in line for line in listed) for name, value in label.items())
        assert listed[1].endswith("all rounds done")
    two = replace(many, devices=["a:0", "a:1", "b:0"], models=["h200-sxm", "h200-sxm", "b200"])
    assert "h200-sxm × 2 and b200 × 1" in text.runs([two], 140)


def test_runs_of_several_hosts_have_them_beside(cpu: Kept) -> None:
    several = [replace(cpu[0].listed, host=f"node{n}") for n in (1, 2)]
    for width in (80, 140):
        lines = text.runs(several, width).splitlines()
        assert " host " in lines[0]
        assert all(any(f" {one.host} " in line for line in lines) for one in several)
        assert max(map(len, lines)) <= width
    assert " host " not in text.runs(several[:1] * 2, 140)


def test_older_runs_that_are_not_listed_are_counted(cpu: Kept) -> None:
    assert text.runs([cpu[0].listed], 110, left_out=161).startswith("… 161 older runs: hotlap list --all\nrun ")


def test_runs(cpu: Kept, gpu: Kept, golden: Golden) -> None:
    running = changed(cpu[0], run=replace(cpu[0].run, ended="", labels={}))
    golden("runs.txt", text.runs([one.listed for one in (cpu[0], gpu[0], running)], 110) + "\n")
    assert "not finished" in text.runs([running.listed], 80)
    assert text.runs([], 80).startswith("no runs are kept yet")


def test_a_run_that_did_not_finish_says_so(cpu: Kept) -> None:
    running = changed(cpu[0], run=replace(cpu[0].run, ended=""))
    assert "--resume" in text.heading(running)


def test_machines_and_one_machine() -> None:
    specs = [machines.load(name) for name in machines.names()]
    printed = text.machines(specs, 100)
    assert all(spec.slug in printed for spec in specs)
    assert max(map(len, printed.splitlines())) <= 100
    one = text.machine(machines.load("h200-sxm"), 100)
    assert all(source.split()[0] in one for source in machines.load("h200-sxm").sources)
    assert "4.800 TB/s" in one
    assert "None" not in one


def test_prediction_says_bound_source_and_unknown() -> None:
    case = case_of("gemm", {"dtype": "bf16"})
    printed = text.prediction(case, "h200-sxm", predict("gemm", "h200-sxm", **case.params), 100)
    assert "nothing can be faster" in printed
    assert "counted from the case's parameters" in printed
    assert "may stay in" not in printed
    thin = case_of("gemm", {"dtype": "bf16", "m": 16, "n": 4096, "k": 4096})
    printed = " ".join(text.prediction(thin, "h200-sxm", predict("gemm", "h200-sxm", **thin.params), 100).split())
    assert "memory 32.25 MiB may stay in NVIDIA H200 SXM 141 GB's cache of 50 MiB" in printed
    assert "the limit leaves memory out; the expected time reads from DRAM" in printed
    launch = case_of("launch", {})
    assert "unknown" in text.prediction(launch, "h200-sxm", predict("launch", "h200-sxm", **launch.params), 100)


# ---------------------------------------------------------------- words and columns


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0 %"), (0.00001, "0 %"), (0.0004, "0.04 %"), (0.0064, "0.64 %"), (0.013, "1.3 %"), (0.119, "12 %"), (1.034, "103 %"), (-0.02, "-2.0 %")],
)
def test_percent(share: float, said: str) -> None:
    assert words.percent(share) == said


def test_quantity_leaves_units_of_the_users_own_alone() -> None:
    assert words.quantity(12345.0, "frames/s") == "12345 frames/s"
    assert words.quantity(2.5e7, "1/s") == "25.0 M/s"
    assert words.quantity(0.5, "tokens") == "0.500 tokens"


def test_ends_have_one_prefix() -> None:
    assert words.ends(Summary(rounds=6, median=0.999e9, low=0.95e9, high=1.05e9), "B/s") == "[950.0 – 1050] MB/s"
    assert words.ends(Summary(rounds=3, median=1.0), "B/s") == ""


def test_unknown_workloads_are_the_users_own(cpu: Kept) -> None:
    row = replace(cpu[1][0], case=Case(workload="later"))
    assert words.family(row) == "user"


def test_aligned() -> None:
    assert layout.aligned(["28.0 GB/s", "411 GB/s", "–", "1 round"]) == [" 28.0 GB/s", "411   GB/s", "  –", "1 round"]
    assert layout.aligned(["± 12 %", "± 0.64 %"]) == ["± 12    %", "±  0.64 %"]
    assert layout.aligned([]) == []


def test_names_from_files_cannot_steer_a_terminal() -> None:
    evil = "gemm\x1b[31m\x07\x9b2J"
    said = "gemm\\x1b[31m\\x07\\x9b2J"
    assert layout.Grid([table.Column("kernel", [table.Cell(evil)])], 40).lines(False)[1] == said
    assert layout.paragraph("where  ", evil, 60) == ["where  " + said]
    assert layout.painted(evil, "bold", False) == said


def test_long_names_go_on_at_their_joints_and_columns_share_the_room() -> None:
    name = "at::native::vectorized_elementwise_kernel"
    columns = [table.Column(head, [table.Cell(name)], wrap=True) for head in ("kernel", "operator")]
    grid = layout.Grid(columns, 50)
    assert grid.sizes == [24, 24]
    assert [line.split()[0] for line in grid.lines(False)[1:]] == ["at::native::vectorized_", "elementwise_kernel"]
    assert all(len(line) <= 50 for line in grid.lines(False))


@pytest.mark.parametrize(
    ("share", "kind", "drawn"),
    [(0.5, "bound", "█████·····"), (0.98, "bound", "█████████▊"), (1.7, "expected", "▓▓▓▓▓▓▓▓▓▓"), (1.0, "ceiling", " " * 10), (0.0, "expected", "··········"), (None, "bound", " " * 10)],
)
def test_bar(share: float | None, kind: str, drawn: str) -> None:
    assert layout.bar(share, kind, 10) == drawn


def test_a_case_that_several_devices_did_not_run_is_named_once(cpu: Kept) -> None:
    first, second = [row for row in cpu[1] if row.verdict.state == "not_run"][:2]
    others = [replace(first, device=f"GPU-{n}") for n in range(3)]
    rows = [*others, *(replace(second, device=f"GPU-{n}") for n in range(3))]
    said = " ".join(text.table(rows, 200).splitlines()[-1].split())
    assert said.startswith(f"not run {first.label} and {second.label} on 3 devices: ")
    said = " ".join(text.table(rows[:-1], 200).splitlines()[-1].split())
    assert said.startswith(f"not run {first.label} on 3 devices and {second.label} on 2 devices: ")


def test_beside_faster_devices_no_split_rests_on_calls_that_theirs_have_too(gpu: Kept) -> None:
    """Launches that 37 healthy devices have as well were named for all that a slow card lost."""
    row = next(row for row in gpu[1] if row.case.workload == "fma")
    known = Limit(kind="bound", bound_s=30e-6, limiter="arithmetic unit")
    row = replace(row, gap=replace(row.gap, limit=known, split={"launch, at most": 1.56e-6}))
    alone = "\n".join(explain.briefly(row, "card 3"))
    beside = "\n".join(explain.briefly(row, "card 3", others="the median of 40 devices is 134 TFLOP/s, 100 % of the bound"))
    assert "launch, at most" in alone
    assert "launch" not in beside.split("others", 1)[1]
    assert "100 % of the bound" in beside
