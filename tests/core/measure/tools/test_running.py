"""One execution: behind a wall, in a folder of its own, for a limited time; and whether the program is there at all."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.core.measure.tools.tools_made import tool

from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure.tools import finding, running
from hotlap.core.measure.tools.toolfile import ToolFile

closed = pytest.mark.skipif(not running.closable(), reason="this user may not make a network namespace here")


def script(folder: Path, text: str, more: str = "", head: str = "", parameters: str = "") -> ToolFile:
    """A tool whose program is a line of shell."""
    run = f'command = ["{{program}}", "-c", """{text}"""]\n{more}'
    path = folder / "mine.toml"
    path.write_text(f'name = "mine"\nabout = "x"\nmeasures = "machine"\nfind = ["sh"]\n{head}[run]\n{run}\n{parameters}')
    from hotlap.core.measure.tools import toolfile

    return toolfile.load(path)


def executed(made: ToolFile, given: dict[str, object] | None = None) -> running.Executed:
    return running.execute(made, "/bin/sh", running.check(made, given or {}))


def test_both_streams_and_the_files_it_wrote(tmp_path: Path) -> None:
    done = executed(script(tmp_path, "echo out; echo err >&2; echo file > r.xml; pwd; exit 3"))
    assert (done.output.status, done.output.stderr, done.output.files) == (3, "err\n", {"r.xml": "file\n"})
    place = done.output.stdout.split()[1]
    assert done.output.stdout.startswith("out\n")
    assert not Path(place).exists()


def test_it_speaks_english_without_colours_and_leaves_the_home_alone(tmp_path: Path) -> None:
    done = executed(script(tmp_path, "echo $LC_ALL $NO_COLOR $EXTRA; echo $HOME; touch $HOME/.settings", 'environment = { EXTRA = "{seconds}" }',
                           parameters="[parameters]\nseconds = { default = 7 }"))  # fmt: skip
    first, home = done.output.stdout.split("\n")[:2]
    assert first == "C 1 7"
    assert home != os.environ.get("HOME")
    assert not Path(home).exists()


def test_its_time_is_limited_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    done = executed(script(tmp_path, "(sleep 300 & echo $! ; echo begun; sleep 300)", 'timeout = "0.5 s"'))
    assert done.late == "mine ran longer than its limit of 500 ms and was ended"
    pid = int(done.output.stdout.split()[0])
    deadline = time.monotonic() + 20  # a process that was killed ends once a busy machine runs it
    while (left := _alive(pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_its_memory_is_limited(tmp_path: Path) -> None:
    hog = f"{sys.executable} -c 'b = bytearray(2**31)' 2>&1 | tail -n 1"
    assert "MemoryError" in executed(script(tmp_path, hog, 'memory = "1 GiB"')).output.stdout


def test_standard_input_is_empty(tmp_path: Path) -> None:
    assert executed(script(tmp_path, "read answer || echo nobody")).output.stdout == "nobody\n"


def test_a_program_that_ends_by_a_signal(tmp_path: Path) -> None:
    assert executed(script(tmp_path, "kill -SEGV $$")).output.status == -11


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    made = tool(tmp_path, "", run='command = ["{program}"]')
    with pytest.raises(NotSupported, match=r"mine cannot be started: .*No such file"):
        running.execute(made, "/no/such/program", {})


# ---------------------------------------------------------------- the network

SENDS = "import socket; s = socket.create_connection(('127.0.0.1', {port}), 2); print('connected')"


@closed
@pytest.mark.parametrize(("needs", "connected"), [("", False), ("needs = ['loopback']", False), ("needs = ['network']", True)])
def test_only_a_tool_that_says_so_reaches_this_machine_s_network(tmp_path: Path, needs: str, connected: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: server.accept(), daemon=True).start()
        line = f"{sys.executable} -c \\\"{SENDS.format(port=server.getsockname()[1])}\\\" 2>&1 | tail -n 1"
        done = executed(script(tmp_path, line, head=f"{needs}\n"))
        if not connected:
            socket.create_connection(server.getsockname(), 2).close()  # the thread ends
    assert ("connected" in done.output.stdout) is connected
    assert connected or "Error" in done.output.stdout


@closed
def test_a_server_stands_beside_it_on_a_loopback_of_their_own(tmp_path: Path) -> None:
    serve = tmp_path / "serve.py"
    serve.write_text("import socket, sys\ns = socket.create_server(('127.0.0.1', int(sys.argv[1])))\nwhile True: s.accept()\n")
    line = f"{sys.executable} -c \\\"{SENDS.format(port='{port}')}\\\""
    more = f'server = ["{sys.executable}", "{serve}", "{{port}}"]'
    assert executed(script(tmp_path, line, more, head="needs = ['loopback']\n")).output.stdout == "connected\n"


def test_a_server_that_fails_is_the_reason(tmp_path: Path) -> None:
    made = script(tmp_path, "true", 'server = ["false"]', head="needs = ['loopback']\n")
    with pytest.raises(NotSupported, match="the server false ended with status 1"):
        executed(made)


def test_a_prefix_runs_it_elsewhere(tmp_path: Path) -> None:
    """A shell stands in for adb: it says where it ran."""
    there = tmp_path / "there"
    there.write_text('#!/bin/sh\necho "on the device"\nexec "$@"\n')
    there.chmod(0o755)
    text = f'command = ["{{program}}", "rate 5"]\nprefix = ["{there}"]\n[version]\nrun = ["{{program}}", "mine v3"]\nmatch = "mine v(.)"\n'
    path = tmp_path / "mine.toml"
    path.write_text(f'name = "mine"\nabout = "x"\nmeasures = "machine"\nfind = ["echo"]\n[run]\n{text}')
    from hotlap.core.measure.tools import toolfile

    made = toolfile.load(path)
    place = finding.find(made)
    assert (place.program, place.version, place.missing) == ("echo", "3", "")
    assert running.execute(made, place.program, {}).output.stdout == "on the device\nrate 5\n"
    gone = path.read_text().replace(str(there), "no-such-adb")
    path.write_text(gone)
    assert finding.find(toolfile.load(path)).missing == "there is no program no-such-adb, which stands in front of it"


# ---------------------------------------------------------------- what a parameter may name

NAMES = '[parameters]\nplace = { default = "scratch" }\nsize = { default = "1 MiB", unit = "B" }\nsource = { default = "", input = true }\n'


@pytest.mark.parametrize("place", ["/dev/sda", "/etc/passwd", "../x", "~/x", "a:/dev/sda", "name=/dev/nvme0n1", "x,../../y"])
def test_a_parameter_never_leads_out(tmp_path: Path, place: str) -> None:
    made = script(tmp_path, "true", parameters=NAMES)
    with pytest.raises(InputError, match="tools write only into that folder: leave it out"):
        running.check(made, {"place": place})


def test_a_place_inside_and_a_file_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = script(tmp_path, "true", parameters=NAMES)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").write_text("x")
    assert running.check(made, {"place": "sub", "source": "config"})["source"] == str(tmp_path / "config")
    with pytest.raises(InputError, match="there is no file 'gone'"):
        running.check(made, {"source": "gone"})
    with pytest.raises(InputError, match="is no regular file"):
        running.check(made, {"source": "/dev/null"})


def test_what_it_writes_must_fit(tmp_path: Path) -> None:
    made = script(tmp_path, "true", 'space = "size"', parameters=NAMES)
    assert executed(made).output.status == 0
    with pytest.raises(NotSupported, match=r"mine writes 1e\+06 TB|mine writes .* set TMPDIR to another disk"):
        executed(made, {"size": "1000000 TB"})


# ---------------------------------------------------------------- whether it is there


def program(folder: Path, name: str, text: str) -> dict[str, str]:
    """A PATH with a program of this name in front."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return {"PATH": f"{path.parent}:/usr/bin:/bin"}


VERSION = '[version]\nrun = ["{program}", "--version"]\nmatch = "mine v(\\\\S+)"\nleast = "2.1"\ntested = ["2.10"]\n'


@pytest.mark.parametrize(
    ("prints", "version", "missing", "untested"),
    [
        ("mine v2.10", "2.10", "", False),
        ("mine v3.0", "3.0", "", True),
        ("mine v2.0", "2.0", "version 2.0 is too old: 2.1 is the least", False),
        ("yours v3", "", "is another program of that name", False),
        ("", "", "is another program of that name", False),
    ],
)
def test_its_version_tells_it_from_another(tmp_path: Path, prints: str, version: str, missing: str, untested: bool) -> None:
    made = tool(tmp_path, VERSION, program="mine")
    place = finding.find(made, program(tmp_path, "mine", f"echo '{prints}' >&2; exit 1"))
    assert (place.version, place.untested) == (version, untested)
    assert missing in place.missing
    assert bool(place.missing) is bool(missing)


def test_a_missing_one_comes_with_what_installs_it(tmp_path: Path) -> None:
    made = tool(tmp_path, '[install]\ndebian = "mine-tools"\nsource = "https://example.org/mine"\n', program="no-such-program")
    place = finding.find(made)
    assert place.missing == "there is no program no-such-program"
    assert place.remedy in ("apt-get install mine-tools", "https://example.org/mine")


@pytest.mark.parametrize(("need", "reason"), [("display", "it needs a display"), ("gpu", "it needs a GPU"), ("mpi", "it needs mpirun")])
def test_what_it_needs(tmp_path: Path, need: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_gpu", lambda: False)
    path = tmp_path / "mine.toml"
    path.write_text(f'name = "mine"\nabout = "x"\nmeasures = "disk"\nfind = ["mine"]\nneeds = ["{need}"]\n[run]\ncommand = ["x"]\n')
    from hotlap.core.measure.tools import toolfile

    environment = {"PATH": program(tmp_path, "mine", "true")["PATH"].partition(":")[0]}
    assert finding.find(toolfile.load(path), environment).missing.startswith(reason)
