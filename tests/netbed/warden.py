"""The process that holds a bed: its network namespace is the fabric, each node's first process is its grandchild.

It ends when its maker ends (however), when its input ends, or on SIGTERM; the nodes' namespaces, links, mounts and processes then go with it.
Started by `bed.py` as `python -m tests.netbed.warden FOLDER MAKER`, MAKER 0 for a bed that stays. It tells READY by `FOLDER/state.json`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from tests.netbed import links, system
from tests.netbed.spec import CONTROLLER, Spec

PRIVATE = "/run/netbed"  # in each node: its home, keys and identity; a tmpfs
REPOSITORY = Path(__file__).resolve().parents[2]


def hold(folder: Path, maker: int) -> None:
    spec = Spec(**json.loads((folder / "spec.json").read_text()))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    watched = [os.pidfd_open(maker)] if maker else []
    system.unshare(system.NEWNET)
    going, go = os.pipe()  # ends with this process: no node outlives it
    ready, tell = os.pipe()
    pids = {node: _started(spec, node, folder, (going, tell), (go, ready)) for node in spec.everyone}
    os.close(tell)
    run("ip", links.fabric(spec, pids))
    run("tc", links.ports(spec))
    os.write(go, b"g" * len(pids))
    heard = b""
    while len(heard) < len(pids):
        more = os.read(ready, len(pids))
        if not more:
            raise SystemExit("a node could not be made; what it wrote stands above")
        heard += more
    part = folder / "state.part"
    part.write_text(json.dumps({"warden": os.getpid(), "began": began(os.getpid()), "maker": maker, "pids": pids}))
    part.rename(folder / "state.json")
    if maker:
        select.select([*watched, 0], [], [])
    else:
        signal.pause()


def began(pid: int) -> str:
    """When a process began, in ticks since boot: a number that a later process of the same id does not have. "" where there is none, or a dead one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except OSError:
        return ""


def run(tool: str, batch: str, *, pid: int = 0, force: bool = False) -> None:
    """`ip` or `tc` in the network of this process, or of another."""
    into = ["nsenter", "-t", str(pid), "-n", "--"] if pid else []
    done = subprocess.run([*into, tool, *(["-force"] if force else []), "-batch", "-"], input=batch, text=True, capture_output=True)
    if done.returncode and not force:
        raise SystemExit(f"{tool}: {done.stderr.strip()}")


def _started(spec: Spec, node: str, folder: Path, inner: tuple[int, int], outer: tuple[int, int]) -> int:
    """The node's first process, as this one sees its number. Between them stands one whose end is its end."""
    told, tell = os.pipe()
    if not os.fork():
        system.die_with_parent(signal.SIGKILL)
        system.unshare(system.ALL)
        first = os.fork()
        if not first:
            try:
                system.die_with_parent(signal.SIGKILL)
                for end in (*outer, told, tell):
                    os.close(end)
                _node(spec, node, folder, *inner)
            except BaseException as error:
                print(f"node {node}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os.write(tell, str(first).encode())
        for end in (*inner, *outer, told, tell):
            os.close(end)
        os.waitpid(first, 0)
        os._exit(0)
    os.close(tell)
    pid = int(os.read(told, 20))
    os.close(told)
    return pid


def _node(spec: Spec, node: str, folder: Path, going: int, tell: int) -> None:
    """Process 1 of a node: makes its view of the machine, starts sshd, then buries what ends. It never returns."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    system.sethostname(node)
    sshd = json.loads((folder / "sshd.json").read_text())
    _mounts(spec, node, folder, [REPOSITORY, *([Path(sshd["root"])] if sshd else [])])
    if os.read(going, 1) != b"g":  # the link is there
        os._exit(0)
    run("ip", links.inside(spec, node))
    run("tc", links.sending(spec, node))
    if sshd and node != CONTROLLER:
        null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
        log = (os.POSIX_SPAWN_OPEN, 2, f"{PRIVATE}/sshd.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        argv = [*sshd["argv"], "-D", "-e", "-f", f"{PRIVATE}/sshd_config"]
        os.posix_spawn(argv[0], argv, sshd["environment"], file_actions=[*null, log], setsigmask=[])  # type: ignore[arg-type]
    os.write(tell, b"r")
    os.close(tell)
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            continue


def _mounts(spec: Spec, node: str, folder: Path, seen: list[Path]) -> None:
    """`seen`: folders that stay seen below the node's own /tmp."""
    own, size = folder / "nodes" / node, f"size={spec.tmp_mb}m,mode="
    files = {path.name: (path.read_bytes(), path.stat().st_mode & 0o777) for path in sorted(own.iterdir())}
    system.mount("none", "/", flags=system.RECURSIVE | system.PRIVATE)
    if node != CONTROLLER:  # it keeps the machine's /tmp, where campaigns of a test lie
        _own_tmp(size + "1777", seen)
    system.mount("proc", "/proc", "proc")
    system.mount("sysfs", "/sys", "sysfs", flags=system.READ_ONLY)
    system.mount("tmpfs", "/run", "tmpfs", options=size + "755")
    system.mount("tmpfs", "/dev/shm", "tmpfs", options=size + "1777")
    for place in (f"{PRIVATE}/home/.ssh", "/run/sshd"):
        Path(place).mkdir(parents=True, mode=0o700)
    os.chmod(PRIVATE, 0o755)
    for name, (content, mode) in files.items():
        target = Path(PRIVATE, name)
        target.write_bytes(content)
        target.chmod(mode)
    if "ssh_config" in files:
        Path(PRIVATE, "home/.ssh/config").write_bytes(files["ssh_config"][0])
    for name, target in {
        "passwd": "/etc/passwd", "hosts": "/etc/hosts", "hostname": "/etc/hostname", "machine-id": "/etc/machine-id",
        "product_serial": "/sys/class/dmi/id/product_serial",
    }.items():  # fmt: skip
        if Path(target).exists():  # a machine without a firmware's tables has no serial to stand in for
            system.mount(f"{PRIVATE}/{name}", target, flags=system.BIND)


def _own_tmp(options: str, seen: list[Path]) -> None:
    stage = Path("/run")  # private already; what is mounted here is moved away
    kept = [(path, path.relative_to("/tmp")) for path in seen if path.is_relative_to("/tmp")]
    system.mount("tmpfs", str(stage), "tmpfs", options=options)
    for path, below in kept:
        (stage / below).mkdir(parents=True)
        system.mount(str(path), str(stage / below), flags=system.BIND | system.RECURSIVE)
    system.mount(str(stage), "/tmp", flags=system.MOVE)


if __name__ == "__main__":
    hold(Path(sys.argv[1]), int(sys.argv[2]))
