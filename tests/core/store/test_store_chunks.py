"""Readings of long runs: set aside, compacted, read back; also after a crash."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from keeping import make_run, pack

from hotlap.core.errors import SchemaError
from hotlap.core.record import Readings
from hotlap.core.store import bundle, chunks, compact, lines

pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def drain(start_s: float, count: int = 40, number: int = 0, device: str = "gpu-0", seed: int = 1) -> list[Readings]:
    """Sensors as a sampler gives them: three read together, one slowly, one with failures, one not supported."""
    random = np.random.default_rng([seed, int(start_s)])
    times = (start_s + np.arange(count) * 0.1 + random.uniform(0, 1e-3, count)).round(6).tolist()
    power = (np.round(random.normal(650e3, 4e3, count)) / 1e3).tolist()
    values: dict[str, list[float | None]] = {
        "power_w": power, "temperature_c": random.integers(60, 70, count).astype(float).tolist(),
        "pressure": random.uniform(0, 1, count).tolist(),
    }  # fmt: skip
    broken: list[float | None] = [None if n % 7 == 3 else 5e-3 * n for n in range(count)]
    return [
        Readings(sensor="ecc", device=device, status="not_supported", reason="no ECC"),
        *(Readings(sensor=name, device=device, times_s=times, values=v, round=number) for name, v in values.items()),
        Readings(sensor="fan", device=device, times_s=times[::5], values=[0.0] * len(times[::5]), round=number),
        Readings(sensor="flaky", device=device, times_s=times, values=broken, round=number),
        Readings(sensor="dead", device=device, times_s=times[:2], values=[None, None], status="error", reason="lost", round=number),
    ]


def written(folder: Path, drains: list[list[Readings]]) -> Path:
    log = folder / "readings-000001.log"
    log.write_bytes(b"".join(lines.line(one) for drained in drains for one in drained))
    compact.compact(folder)
    return folder / "readings-000001.parquet"


def pairs(found: list[Readings]) -> dict[tuple[str, str, int, str, str], list[tuple[float, float | None]]]:
    table: dict[tuple[str, str, int, str, str], list[tuple[float, float | None]]] = {}
    for one in found:
        at = table.setdefault((one.device, one.sensor, one.round, one.status, one.reason), [])
        at += [(round(t, 6), v) for t, v in zip(one.times_s, one.values, strict=True)]
    return {key: sorted(at) for key, at in table.items()}


def test_nothing_is_lost_in_a_chunk(tmp_path: Path) -> None:
    drains = [drain(10.0 * n, number=n // 3, device=f"gpu-{n % 2}", seed=n) for n in range(12)]
    chunk = written(tmp_path, drains)
    assert pairs(chunks.readings(chunk)) == pairs([one for drained in drains for one in drained])


def test_a_series_is_in_order_of_time_and_of_one_device(tmp_path: Path) -> None:
    drains = [drain(10.0 * n, device=f"gpu-{n % 2}", seed=n) for n in range(6)]
    written(tmp_path, drains[::-1])
    found = chunks.series(tmp_path, "gpu-1", "power_w")
    asked = [(t, v) for one in (o for d in drains for o in d) if one.device == "gpu-1" and one.sensor == "power_w"
             for t, v in zip(one.times_s, one.values, strict=True)]  # fmt: skip
    assert list(zip(found.times_s.round(6).tolist(), found.values.tolist(), strict=True)) == sorted((round(t, 6), v) for t, v in asked)
    assert len(chunks.series(tmp_path, "gpu-1", "no such sensor").values) == 0


def test_levels_hold_least_mean_and_highest(tmp_path: Path) -> None:
    drains = [drain(100.0 * n, count=600, number=n) for n in range(3)]
    written(tmp_path, drains)
    level = chunks.levels(tmp_path)["gpu-0", "power_w"]
    values = np.array([v for drained in drains for one in drained if one.sensor == "power_w" for v in one.values], dtype=float)
    assert level.counts.sum() == len(values) == 1800
    assert len(level.low) == 9  # 600 readings a round: two stretches of 256 and a rest, none over two rounds
    assert level.low.min() == values.min()
    assert level.high.max() == values.max()
    assert np.average(level.mean, weights=level.counts) == pytest.approx(values.mean(), rel=1e-12)
    assert np.all(np.diff(level.first_s) > 0)
    assert "dead" not in {sensor for _, sensor in chunks.levels(tmp_path)}


@pytest.mark.parametrize("values", [[0.1, 0.2], [1e-9, 1.0], [math.pi, 2.0], [-0.0, 1.0], [2.0**60, 1.0], [1.5, None]])
def test_values_come_back_exactly(tmp_path: Path, values: list[float | None]) -> None:
    read = [Readings(sensor="x", device="d", times_s=[1.0, 2.0], values=values)]
    found = chunks.readings(written(tmp_path, [read]))[0].values
    assert [None if v is None else v.hex() for v in found] == [None if v is None else v.hex() for v in values]


def long_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bundle.Writer, list[Readings]]:
    monkeypatch.setattr(bundle, "LOG_BYTES", 20_000)
    writer = bundle.Writer.create(make_run(), home)
    given = []
    for n in range(30):
        drained = drain(10.0 * n, number=n // 10)
        writer.readings(drained)
        given += drained
    return writer, given


@pytest.mark.slow("long runs, compacted in processes of their own")
def test_a_long_run_is_compacted_while_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, given = long_run(tmp_path, monkeypatch)
    writer.finish(make_run())
    assert sorted(file.suffix for file in writer.path.glob("readings-*")) == [".parquet"] * len(list(writer.path.glob("levels-*")))
    assert (writer.path / "readings.log").stat().st_size == 0
    found = [one for chunk in chunks.stored(writer.path) for one in chunks.readings(chunk)]
    assert pairs(found) == pairs(given)
    read = bundle.load(writer.path)
    assert {one.sensor for one in read.readings} == {"power_w", "temperature_c", "pressure", "fan", "flaky"}
    assert not read.notices


@pytest.mark.slow("long runs, compacted in processes of their own")
def test_a_zip_holds_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, given = long_run(tmp_path, monkeypatch)
    writer.finish(make_run())
    packed = pack(writer.path, tmp_path)
    assert pairs([one for chunk in chunks.stored(packed) for one in chunks.readings(chunk)]) == pairs(given)
    assert len(bundle.load(packed).readings) == len(bundle.load(writer.path).readings) > 0


@pytest.mark.slow("long runs, compacted in processes of their own")
def test_a_killed_run_keeps_what_was_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever moment the compaction was killed at, every reading is read once."""
    writer, given = long_run(tmp_path, monkeypatch)
    if writer._compacting:
        writer._compacting.wait()
    read = pairs([o for c in chunks.stored(writer.path) for o in chunks.readings(c)] + _logs(writer.path))
    assert read == pairs(given)
    waiting = compact.waiting(writer.path) or [writer.path / "readings.log"]
    (writer.path / "levels-000999.parquet.tmp").write_bytes(b"half")  # killed while it wrote
    assert len(bundle.load(writer.path).readings) > 0
    assert all(log.exists() for log in waiting)
    writer.finish(make_run())
    again = bundle.Writer.resume(writer.path)
    again.readings(drain(1000.0, number=4))
    again.finish(make_run())
    found = pairs([one for chunk in chunks.stored(again.path) for one in chunks.readings(chunk)])
    assert found == pairs([*given, *drain(1000.0, number=4)])


@pytest.mark.slow("long runs, compacted in processes of their own")
def test_a_compaction_killed_half_way_counts_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, _ = long_run(tmp_path, monkeypatch)
    if writer._compacting:
        writer._compacting.wait()
    writer.readings(drain(300.0, number=3))  # so that the log is not empty
    writer._readings.set_aside(compact.aside(writer.path))
    log = compact.waiting(writer.path)[-1]
    text = log.read_bytes()
    writer.finish(make_run())
    whole = len(bundle.load(writer.path).readings)
    log.write_bytes(text)  # killed before the log was removed
    assert len(bundle.load(writer.path).readings) == whole
    compact._levels_of(log).unlink()  # killed between chunk and levels
    assert {one.sensor for one in bundle.load(writer.path).readings} >= {"ecc", "power_w"}
    compact.compact(writer.path)
    assert len(bundle.load(writer.path).readings) == whole
    assert not list(writer.path.glob("readings-*.log"))


def _logs(folder: Path) -> list[Readings]:
    return [one for log in [*compact.waiting(folder), folder / "readings.log"] for one in lines.read(log.read_bytes(), Readings, "log").records]


@pytest.mark.slow("long runs, compacted in processes of their own")
def test_what_is_no_chunk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, _ = long_run(tmp_path, monkeypatch)
    writer.finish(make_run())
    broken = sorted(writer.path.glob("levels-*.parquet"))[0]
    broken.write_bytes(b"no Parquet")
    with pytest.raises(SchemaError, match=r"levels-000001\.parquet: .*; restore it from a copy"):
        bundle.load(writer.path)


@pytest.mark.slow("long runs, compacted in processes of their own")
def test_the_command_compacts_a_folder(tmp_path: Path) -> None:
    (tmp_path / "readings-000001.log").write_bytes(b"".join(lines.line(one) for one in drain(0.0)))
    subprocess.run([sys.executable, "-m", "hotlap.core.store.compact", str(tmp_path)], check=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["levels-000001.parquet", "readings-000001.parquet"]
