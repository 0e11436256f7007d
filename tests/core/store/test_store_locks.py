"""One run per device at a time, between real processes."""

from __future__ import annotations

import builtins
import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import pytest

from hotlap.cli import commands, main, parser_of
from hotlap.core import extend
from hotlap.core.errors import Busy, MachineError
from hotlap.core.record import Device
from hotlap.core.store import locks, paths

HOLD = """
import sys
from hotlap.core.record import Device
from hotlap.core.store import locks
with locks.hold([Device(target="cuda", index=0, name="a GPU", uuid=sys.argv[1], kind="gpu")]):
    print("held", flush=True)
    sys.stdin.readline()
"""


def device(uuid: str = "", target: str = "cuda", kind: Literal["gpu", "cpu"] = "gpu", index: int = 0, **more: str) -> Device:
    return Device(target=target, index=index, name="a device", uuid=uuid, kind=kind, **more)


GPU = device("GPU-1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_LOCKS", str(tmp_path / "all" / "locks"))
    return tmp_path / "all" / "locks"


@pytest.fixture
def other(folder: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, with a home of its own, that holds the device GPU-1 until a line comes."""
    environment = {**os.environ, "HOTLAP_HOME": str(tmp_path / "another home")}
    process = subprocess.Popen([sys.executable, "-c", HOLD, "GPU-1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        if process.poll() is None:
            process.kill()


def taken(one: Device, wait_s: float = 0.0) -> None:
    with locks.hold([one], wait_s):
        pass


def test_make_names_its_own_way_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_BEGUN_BY", "make run")
    with locks.hold([GPU]), pytest.raises(Busy, match="""wait for it: make run ARGS="--wait '10 min'";"""), locks.hold([GPU]):
        pass
    makefile = (Path(__file__).parents[3] / "Makefile").read_text()
    assert "HOTLAP_BEGUN_BY='make run' .venv/bin/hotlap run" in makefile



@pytest.mark.parametrize("verb", commands.VERBS)
def test_no_verb_advises_an_option_that_it_lacks(verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = extend.resolve(commands.VERBS[verb].module)
    monkeypatch.setattr(module, "run", lambda _: taken(GPU))
    monkeypatch.setattr("hotlap.cli._parsed", lambda *_: None)
    with locks.hold([GPU]):
        assert main(verb.split()) == 3
    said = capsys.readouterr().err
    assert "the device GPU-1 is held by process" in said
    assert ("--wait" in said) == ("--wait" in parser_of(verb).format_help())


def test_a_device_that_is_held_names_its_owner(other: subprocess.Popen[str]) -> None:
    with pytest.raises(Busy, match=rf"the device GPU-1 is held by process {other.pid} \(-c GPU-1.*\) since \d\d:\d\d:\d\d UTC, \d+ s ago; wait for it: --wait '10 min'; where process {other.pid} is yours, it can be ended: kill {other.pid}"):
        taken(GPU)
    held = locks.owner(locks.path(GPU))
    assert held is not None
    assert (held.pid, held.device) == (other.pid, "GPU-1")
    taken(device("GPU-2"))  # another device is free


def test_waiting_ends_with_a_name_or_with_the_device(other: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Busy, match=r"was not let go within 0\.2 s"):
        taken(GPU, wait_s=0.2)
    assert f"hotlap: waiting at most 0.2 s for the device {GPU.key}, which process {other.pid} (" in capsys.readouterr().err
    assert other.stdin is not None
    other.stdin.write("\n")
    other.stdin.flush()
    with locks.hold([GPU], wait_s=60):
        held = locks.owner(locks.path(GPU))
        assert held is not None
        assert held.pid == os.getpid()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_death_lets_go_and_what_it_left_is_harmless(other: subprocess.Popen[str]) -> None:
    other.send_signal(signal.SIGKILL)
    other.wait()
    left = locks.owner(locks.path(GPU))
    assert left is not None
    assert left.pid == other.pid
    with locks.hold([GPU]):
        assert locks.owner(locks.path(GPU)) != left


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b'{"pid": "x"}'])
def test_any_content_is_harmless(folder: Path, content: bytes) -> None:
    with locks.hold([GPU]):
        (path,) = folder.iterdir()
        path.write_bytes(content)
        assert locks.owner(path) is None
        with pytest.raises(Busy, match="is held by another process; wait"):
            taken(GPU)
    with locks.hold([GPU]):
        assert locks.owner(path) is not None


def test_an_error_inside_lets_go_and_passes_through() -> None:
    def fail() -> None:
        with locks.hold([GPU]):
            raise OSError("of the measuring")

    with pytest.raises(OSError, match="of the measuring"):
        fail()
    taken(GPU)


def test_any_key_is_a_file_name(folder: Path) -> None:
    keys = ["opencl:0:Intel(R) Xeon(R) / 2 cores", "../..", "x" * 5000, "\udcff", "-"]
    with locks.hold([device(key) for key in keys]):
        assert len(list(folder.iterdir())) == len(keys)


def test_the_cpu_is_one_device_whichever_target_drives_it() -> None:
    by_opencl = device(target="opencl", kind="cpu", uuid="of the driver's own making")
    by_torch = device(target="torch", kind="cpu")
    with locks.hold([by_opencl]), pytest.raises(Busy, match=r"the device torch:0:a device is held, as of the driver's own making, by process"):
        taken(by_torch)
    with locks.hold([by_opencl, by_torch]):  # `--device all` does not wait for itself
        taken(GPU)


def test_a_gpu_without_a_uuid_is_known_by_its_place_on_the_bus() -> None:
    first, same, second = (device(target=t, pci_address=p) for t, p in (("opencl", "0000:01:00.0"), ("torch", "0000:01:00.0"), ("torch", "0000:02:00.0")))
    with locks.hold([first]):
        taken(second)
        with pytest.raises(Busy):
            taken(same)
    with locks.hold([device(index=0)]):
        taken(device(index=1))  # neither UUID nor address: as the target names them


def test_what_is_set_on_a_device_is_a_lock_of_its_own() -> None:
    with locks.hold([GPU], settings=True):
        taken(GPU)
        with pytest.raises(Busy, match="the device settings of GPU-1 is held"), locks.hold([GPU], settings=True):
            pass


def test_a_simulated_device_is_nobodys(folder: Path) -> None:
    simulated = device(target="simulated")
    with locks.hold([simulated]):
        taken(simulated)
    assert not folder.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_every_user_can_lock_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        taken(GPU)
    finally:
        os.umask(before)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert stat.S_IMODE(file.stat().st_mode) == 0o666


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="becomes two other users, which only root can")
def test_two_users_meet_at_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    # All is imported before: other users need not be able to read this Python.
    become = "import fcntl, os, sys, tempfile, hotlap.core.store.locks; os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2])); os.umask(0o077)"
    with tempfile.TemporaryDirectory() as place:  # pytest's own folders are the user's
        os.chmod(place, 0o777)
        monkeypatch.setenv("HOTLAP_LOCKS", f"{place}/locks")
        assert _after_two_users(f"{become}\n{HOLD}") == "held\n"


def _after_two_users(code: str) -> str:
    """What the second user is told once the first has let go; while it holds the device, the second is refused."""
    first = subprocess.Popen([sys.executable, "-c", code, "GPU-1", "12345"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        second = subprocess.run([sys.executable, "-c", code, "GPU-1", "12346"], capture_output=True, text=True, input="\n")
        assert f"Busy: the device GPU-1 is held by process {first.pid}" in second.stderr
        first.communicate("\n")
    return subprocess.run([sys.executable, "-c", code, "GPU-1", "12346"], capture_output=True, text=True, input="\n").stdout


def test_a_file_that_cannot_be_opened_is_one_clear_line(folder: Path) -> None:
    taken(GPU)
    (file,) = folder.iterdir()
    file.unlink()
    file.mkdir()
    with pytest.raises(MachineError, match=r"^the lock '.*' of GPU-1 cannot be opened: .*have its owner give it the mode 666, or set HOTLAP_LOCKS"):
        taken(GPU)


@pytest.mark.skipif(sys.platform == "win32", reason="links are POSIX")
def test_a_link_in_its_place_is_not_followed(folder: Path, tmp_path: Path) -> None:
    taken(GPU)
    (file,) = folder.iterdir()
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MachineError, match="cannot be opened"):
        taken(GPU)
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_cannot_be_made_is_named(folder: Path) -> None:
    folder.parent.write_text("")
    with pytest.raises(MachineError, match=r"cannot be kept in '.*locks' .*; set HOTLAP_LOCKS to a folder"):
        taken(GPU)


@pytest.mark.skipif(os.name != "posix", reason="the folders of POSIX")
def test_without_a_wish_the_folder_is_the_machines_and_never_a_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[Path] = []

    def only_in_tmp(folder: Path, parents: bool) -> Path:
        made.append(folder)
        if folder.parent != Path("/tmp"):
            raise PermissionError(13, "Permission denied")
        return folder

    monkeypatch.delenv("HOTLAP_LOCKS")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(paths, "_shared", only_in_tmp)
    assert paths.locks() == Path("/tmp/hotlap-locks")
    assert made == [Path("/run/lock/hotlap"), Path("/tmp/hotlap-locks")]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks by msvcrt")
def test_without_fcntl_measuring_goes_on_and_the_log_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "fcntl":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with locks.hold([GPU]):
        assert "no fcntl" in caplog.text


def test_who_only_looks_keeps_nobody_from_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    assert locks.beside([GPU]) == ""
    assert locks.owner(locks.path(GPU)) is None
    real, tries = locks._system_lock, list[int]()

    def looked_at(descriptor: int) -> None:
        """Another one looks, as we come."""
        tries.append(descriptor)
        if len(tries) == 1:
            raise BlockingIOError(errno.EAGAIN, "held")
        real(descriptor)

    monkeypatch.setattr(locks, "_system_lock", looked_at)
    taken(GPU)
    assert len(tries) == 2


def test_polling_is_by_the_clock_not_by_the_count(other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(locks.time, "monotonic", lambda: sum(slept))
    monkeypatch.setattr(locks.time, "sleep", slept.append)
    with pytest.raises(Busy), ExitStack() as stack:
        stack.enter_context(locks.hold([GPU], wait_s=1.05))
    assert sum(slept) == pytest.approx(1.05)
    assert max(slept) <= locks.POLL_S
    assert time.monotonic() == sum(slept)
