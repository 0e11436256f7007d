"""A process killed at any moment, and a disk that is full: what was kept before stays readable, and the run can go on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from keeping import make_run, make_samples

from draws import draws
from hotlap.core.errors import MachineError
from hotlap.core.record import Stop
from hotlap.core.store import select
from hotlap.core.store.bundle import Writer, load

HERE = Path(__file__).parent

# Children are forked from one process that has imported everything, so that a hundred of them take seconds.
KILLER = """
import json, os, random, select, signal, struct, sys, time
from pathlib import Path
from keeping import make_run, make_samples
from hotlap.core.record import Readings
from hotlap.core.store.bundle import Writer

def write_forever(number, acknowledge):
    run = make_run(f"20261121T101500-{number:06d}")
    writer = Writer.create(run, Path(sys.argv[1]))
    os.write(acknowledge, struct.pack("i", 0))
    for line in range(10**9):
        seconds = [1e-3 + line * 1e-9] * (1, 40, 3000)[line % 3]  # short lines, and some of many pages
        writer.append(make_samples(line, values=seconds))
        os.write(acknowledge, struct.pack("i", line + 1))
        if line % 5 == 0:
            writer.readings([Readings(sensor="power_w", device="d", times_s=[1.0] * 50, values=[300.0] * 50, round=line)])
        if line % 7 == 0:  # run.json, too, is replaced at any moment
            from hotlap.core.store import files, bundle
            files.write_whole(writer.path / "run.json", bundle._text(run))

random.seed(7)
found = {}
for number in range(int(sys.argv[2])):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        write_forever(number, writing)
    os.close(writing)
    got = os.read(reading, 4)  # it has begun
    time.sleep(random.uniform(0, 0.03))
    os.kill(child, signal.SIGKILL)
    while part := os.read(reading, 65536):
        got += part
    os.close(reading)
    os.waitpid(child, 0)
    found[f"20261121T101500-{number:06d}"] = max(struct.unpack(f"{len(got) // 4}i", got))
print(json.dumps(found))
"""


def run_script(text: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(HERE)!r})\n{text}", *arguments],
        capture_output=True, text=True, timeout=300, check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow("kills a writer again and again")
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and fork are POSIX")
def test_killed_at_random_moments_every_line_acknowledged_is_there(tmp_path: Path) -> None:
    acknowledged: dict[str, int] = json.loads(run_script(KILLER, str(tmp_path), str(draws(100))))
    assert len(acknowledged) == draws(100)
    assert any(acknowledged.values())  # the children did write
    for name, lines in acknowledged.items():
        path = tmp_path / "runs" / name
        read = load(path)
        assert lines <= len(read.samples) <= lines + 1
        assert [s.round for s in read.samples] == list(range(len(read.samples)))
        assert len(read.notices) <= 2  # at most one torn line in each of the two files
        writer = Writer.resume(path)
        assert len(writer.notices) == len(read.notices)
        writer.append(make_samples(10**9))
        writer.finish(read.run)
        again = load(path)
        assert again.notices == []
        assert again.samples == [*read.samples, make_samples(10**9)]


FULL = """
import json, resource, sys
from pathlib import Path
from keeping import make_run, make_samples
from hotlap.core.errors import MachineError
from hotlap.core.record import Stop
from hotlap.core.store.bundle import Writer, load
writer = Writer.create(make_run(), Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
kept, said = 0, []
for round in range(100):
    try:
        writer.append(make_samples(round, values=[0.001] * 100))
        kept += 1
    except MachineError as error:
        said.append(str(error))
        if len(said) == 3:
            break
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.append(make_samples(round + 1))
print(json.dumps([kept, said, len(load(writer.path).samples), load(writer.path).notices]))
"""


@pytest.mark.slow("whole runs")
@pytest.mark.skipif(sys.platform == "win32", reason="RLIMIT_FSIZE is POSIX")
def test_a_file_that_may_not_grow_leaves_no_half_line(tmp_path: Path) -> None:
    kept, said, read, warnings = json.loads(run_script(FULL, str(tmp_path)))
    assert kept > 5
    assert len(said) == 3
    assert "File too large" in said[0]
    assert f"{kept} lines of samples are kept in {tmp_path / 'runs'}" in said[0]
    assert "hotlap run --resume 20261121T101500-aaaaaa" in said[0]
    assert (read, warnings) == (kept + 1, [])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, check=False)
    if mount.returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def until_full(write: Callable[[int], object]) -> str:
    """What is said when there is no more room."""
    for number in range(1000):
        try:
            write(number)
        except MachineError as error:
            return str(error)
    raise AssertionError("the disk never filled")


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
def test_a_full_disk_keeps_what_was_written_and_lets_the_run_go_on(small_disk: Path) -> None:
    writer = Writer.create(make_run(), small_disk)
    said = until_full(lambda n: writer.append(make_samples(n, values=[0.001] * 500)))
    assert "No space left on device" in said
    assert f"{writer.kept} lines of samples are kept in {writer.path}" in said
    kept = load(writer.path)
    assert len(kept.samples) == writer.kept > 3
    assert kept.notices == []
    until_full(lambda n: writer.append(make_samples(1000 + n)))  # smaller ones, to the last byte
    said = until_full(lambda n: Writer.create(make_run(f"20261121T101600-{n:06d}"), small_disk))
    assert "nothing was measured yet" in said
    with pytest.raises(MachineError, match="are kept in"):
        writer.finish(make_run(stops=[Stop("budget")]))
    (found,) = select.runs("latest", small_disk)  # without room for a catalog
    assert found.samples[: len(kept.samples)] == kept.samples
    assert found.run == kept.run
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    writer = Writer.resume(writer.path)
    writer.append(make_samples(5000))
    writer.finish(make_run(stops=[Stop("budget")]))
    assert load(writer.path).run.stops == [Stop("budget")]
    assert load(writer.path).samples == [*found.samples, make_samples(5000)]
