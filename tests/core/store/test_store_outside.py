"""Statistics of outside simulators as runs: what is read, what cycles become, kernels told to be cases, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap import cli
from hotlap.core.analysis import rows as tables
from hotlap.core.analysis.correlate import correlate
from hotlap.core.errors import InputError
from hotlap.core.store import bundle, paths
from hotlap.core.store.readers import accelsim, outside

SAMPLES = Path(__file__).parent / "simulators"
LOG, TABLE = SAMPLES / "vectors.log", SAMPLES / "stats.csv"
MAP = """
[[kernel]]
name = "copy_*"
launch = 1
workload = "stream"
op = "copy"
size = "256 MiB"

[[kernel]]
name = "*bf16_gemm*"
workload = "gemm"
m = 4096
n = 4096
k = 512
dtype = "bf16"
"""


@pytest.fixture
def mapped(tmp_path: Path) -> list[outside.ImportEntry]:
    (tmp_path / "map.toml").write_text(MAP)
    return outside.read_map(tmp_path / "map.toml")


def test_printed_statistics_become_launches() -> None:
    (found,) = accelsim.read(LOG)
    assert found.clock_hz == 1.41e9
    assert found.simulator == "Accel-Sim accelsim-commit-0123abcd_modified_0.0"
    assert [(one.kernel, one.number, one.cycles) for one in found.launches] == [
        ("copy_kernel", 1, 141000), ("ampere_bf16_gemm_128x128", 2, 282000), ("copy_kernel", 3, 142000),
    ]
    assert found.broken == 1  # the limit on cycles broke it off


def test_counters_that_are_never_reset_are_differences() -> None:
    copy, product, again = accelsim.read(LOG)[0].launches
    assert copy.counters == {"instructions": 9e6, "ipc": 63.8298, "dram_reads": 4000, "dram_writes": 3900, "occupancy": 0.875, "l2_hit": 0.1}
    assert product.counters["l2_hit"] == 0.8
    assert product.counters["dram_reads"] == 1000
    assert again.counters["l2_hit"] == 0.1


def test_the_table_of_get_stats_has_a_run_for_each_configuration(tmp_path: Path) -> None:
    plain, wide = accelsim.read(TABLE)
    assert (plain.config, wide.config) == ("A100-SASS", "A100-SASS-BW2X")
    assert [(one.kernel, one.cycles) for one in plain.launches] == [("copy_kernel", 141000), ("ampere_bf16_gemm_128x128", 282000)]
    assert plain.launches[1].counters["l2_hit"] == 0.8
    assert [(one.kernel, one.cycles) for one in wide.launches] == [("copy_kernel", 71000)]
    with pytest.raises(InputError, match="give --clock"):
        outside.bring_in(TABLE, outside.ImportOptions(), tmp_path)
    assert len(outside.bring_in(TABLE, outside.ImportOptions(clock_hz=1.41e9), tmp_path).added) == 2


def test_cycles_become_seconds_and_launches_of_a_kernel_one_case(tmp_path: Path) -> None:
    found = outside.bring_in(LOG, outside.ImportOptions(), tmp_path)
    run = bundle.load(paths.runs(tmp_path) / found.added[0])
    assert [one.values for one in run.samples] == [pytest.approx([1e-4, 142 / 1.41e6]), pytest.approx([2e-4])]
    assert (found.launches, found.broken, found.others) == (3, 1, ["copy_kernel", "ampere_bf16_gemm_128x128"])
    assert outside.bring_in(LOG, outside.ImportOptions(), tmp_path).present == found.added  # twice adds nothing


@pytest.mark.slow("whole runs")
def test_correlate_takes_a_mapped_run_like_any_simulation(tmp_path: Path, mapped: list[outside.ImportEntry], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = outside.bring_in(LOG, outside.ImportOptions(mapped, machine="a100-sxm-80gb"), tmp_path)
    assert found.mapped == ["stream copy fp32 256 MiB", "gemm bf16 m=4096 n=4096 k=512"]
    assert found.others == ["copy_kernel"]  # its third launch
    rows = tables.rows(bundle.load(paths.runs(tmp_path) / found.added[0]))
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    plan = tmp_path / "same.toml"
    plan.write_text('name = "same"\n[[case]]\nworkload = "stream"\nop = "copy"\nsize = "256 MiB"\n[[case]]\nworkload = "gemm"\nm = 4096\nn = 4096\nk = 512\ndtype = "bf16"\n')
    assert cli.main(["run", str(plan), "--target", "simulated:a100-sxm-80gb", "--label", "side=silicon"]) == 0
    capsys.readouterr()
    (silicon,) = (bundle.load(path) for path in paths.runs(tmp_path).iterdir() if path.name not in found.added)
    both = correlate([("sim", rows)], [("silicon", tables.rows(silicon))])
    assert both.regimes[0].cases == 2
    errors = {one.label.split()[0]: one.error for one in both.cases}
    measured = {row.case.workload: row.result.seconds[0] for row in tables.rows(silicon)}
    assert errors["gemm"] == pytest.approx(2e-4 / measured["gemm"] - 1, rel=1e-3)
    assert cli.main(["model", "correlate", found.added[0], "side=silicon"]) == 0
    assert "gemm bf16" in capsys.readouterr().out


def test_the_verb_says_what_it_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    (tmp_path / "map.toml").write_text(MAP)
    assert cli.main(["import", str(LOG), "--map", str(tmp_path / "map.toml")]) == 0
    out = capsys.readouterr().out
    assert "1 run added of 3 kernels at 1.41 GHz" in out
    assert "1 kernel left out" in out
    assert "hotlap model correlate" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[kernel]]\nname = "copy_kernel"\nworkload = "strem"', "did you mean|stream"), ('[[kernel]]\nworkload = "stream"', "needs name"),
        ('[[kernel]]\nname = "x"\nworkload = "stream"\nsize = "1 GiB"\nlaunch = 0', "from 1"), ("kernel = 3", r"list of \[\[kernel\]\]"),
        ('[[kernel]]\nname = "x"\nworkload = "gemm"\nrows = 1', "no parameter 'rows'"), ("[[kernel]", "not valid TOML"),
    ],
)
def test_a_wrong_map_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "map.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        outside.read_map(tmp_path / "map.toml")


def test_a_map_that_fits_nothing_and_a_log_without_kernels_are_named(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text('[[kernel]]\nname = "sgemm*"\nworkload = "stream"\nsize = "1 GiB"')
    with pytest.raises(InputError, match="no kernel fits name = 'sgemm\\*' of entry 1 of the map; there are ampere"):
        outside.bring_in(LOG, outside.ImportOptions(outside.read_map(tmp_path / "map.toml")), tmp_path)
    (tmp_path / "empty.log").write_text("GPGPU-Sim: it crashed\n")
    with pytest.raises(InputError, match="no kernel with its cycles"):
        outside.bring_in(tmp_path / "empty.log", outside.ImportOptions(), tmp_path)
    with pytest.raises(InputError, match="is none"):
        outside.bring_in(LOG, outside.ImportOptions(clock_hz=1410), tmp_path)
