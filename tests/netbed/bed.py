"""A bed of real nodes on this machine: made, entered, hurt, healed, taken down. Used by the tests' fixture and by `scripts/netbed`.

Nothing of a bed is in the root network namespace: its links lie in the fabric's and the nodes' own, which go when their processes go.
What stays after a kill is a folder, and perhaps a control group; both carry the bed's mark, and `clean` removes only such.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.netbed import links, warden
from tests.netbed.spec import CONTROLLER, Spec

MARK = "hotlap-netbed-"
CPU = Path("/sys/fs/cgroup/cpu")
ROOT = Path(__file__).resolve().parents[2]
RATES = ("slow-node", "slow-send", "slow-receive", "slow-pair", "slow-uplink")
FAULTS = (*RATES, "link-down", "stopped", "disk-full", "cpu", "clock")
CLOCK = "HOTLAP_AGENT_CLOCK_S"  # of agents that begin in the node; no clock of the machine is touched
USAGE = {
    "slow-node": "NODE MBPS", "slow-send": "NODE MBPS", "slow-receive": "NODE MBPS", "slow-pair": "FROM TO MBPS", "slow-uplink": "LEAF MBPS",
    "link-down": "NODE", "stopped": "NODE", "disk-full": "NODE", "cpu": "NODE SHARE",
    "clock": "NODE SECONDS",
}  # fmt: skip
PATIENCE_S = 60.0


class BedError(Exception):
    """What cannot be, in one line."""


def missing() -> str:
    """Why no bed can be made here; "" where one can."""
    if os.geteuid() != 0:
        return "a bed of nodes needs root: it makes namespaces and links"
    lacks = [tool for tool in ("ip", "tc", "nsenter") if not shutil.which(tool)]
    if lacks:
        return f"a bed of nodes needs {', '.join(lacks)}: apt install iproute2 util-linux"
    done = subprocess.run(["unshare", "-n", "-m", "ip", "link", "add", "bed0", "type", "veth", "peer", "name", "bed1"], capture_output=True, text=True)
    return f"this kernel makes no bed of nodes: {done.stderr.strip()}" if done.returncode else ""


def sshd() -> dict[str, Any] | None:
    """The daemon and its environment: $HOTLAP_SSHD (scripts/sshd.sh prints one), else what is installed."""
    path = os.environ.get("HOTLAP_SSHD") or shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if not path or not shutil.which("ssh-keygen"):
        return None
    root = Path(path).resolve().parents[2]  # unpacked below another root, it needs the libraries there
    libraries = sorted(str(place) for place in [*root.glob("lib/*-linux-gnu"), *root.glob("usr/lib/*-linux-gnu")])
    environment = {"PATH": os.environ["PATH"], **({} if root == Path("/") else {"LD_LIBRARY_PATH": ":".join(libraries)})}
    return {"argv": [str(Path(path).resolve())], "environment": environment, "root": str(root)}


class Bed:
    """`with Bed(Spec(nodes=2)) as bed: bed.run(["hostname"], node="n01")`."""

    def __init__(self, spec: Spec | None = None, *, stays: bool = False) -> None:
        self.spec, self.stays = spec or Spec(), stays
        self.folder = Path()
        self.state: dict[str, Any] = {}
        self._warden: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if why := missing():
            raise BedError(why)
        clean()
        self.folder = Path(tempfile.mkdtemp(prefix=MARK))
        try:
            self._make()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.down()

    @classmethod
    def at(cls, folder: Path) -> Bed:
        """One that stands already."""
        bed = cls(Spec(**json.loads((folder / "spec.json").read_text())), stays=True)
        bed.folder, bed.state = folder, json.loads((folder / "state.json").read_text())
        return bed

    @property
    def ssh_config(self) -> str:
        """For `ssh -F` in the controller, who also has it as its own ~/.ssh/config."""
        return f"{warden.PRIVATE}/ssh_config"

    def pid(self, node: str) -> int:
        if node not in self.state["pids"]:
            raise BedError(f"there is no node {node!r}; there are {', '.join(self.state['pids'])}")
        return int(self.state["pids"][node])

    def argv(self, argv: Sequence[str], node: str = CONTROLLER, environment: dict[str, str] | None = None) -> list[str]:
        """The command that runs a command in a node."""
        home = f"{warden.PRIVATE}/home"
        clocks = {CLOCK: values[-1] for values in self.faults() if values[:2] == ["clock", node]}  # noqa: B035 - the last counts
        own = {"HOME": home, "PATH": os.environ["PATH"], "HOSTNAME": node, "USER": "root", "LANG": "C.UTF-8", **clocks, **(environment or {})}
        inside = ["nsenter", "-t", str(self.pid(node)), "-m", "-u", "-i", "-n", "-p", "--"]
        full = [*inside, "env", "--default-signal=INT", "-i", "-C", home, *(f"{name}={value}" for name, value in own.items()), *argv]
        group = self._group(node)
        return ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *full] if group.is_dir() else full

    def run(self, argv: Sequence[str], node: str = CONTROLLER, **more: Any) -> subprocess.CompletedProcess[str]:
        """As subprocess.run, in a node; text, captured, without input."""
        more = {"text": True, "capture_output": True, **({} if "input" in more else {"stdin": subprocess.DEVNULL}), **more}
        return subprocess.run(self.argv(argv, node, more.pop("env", None)), **more)

    def popen(self, argv: Sequence[str], node: str = CONTROLLER, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(self.argv(argv, node, more.pop("env", None)), text=True, **more)

    def processes(self, node: str) -> list[int]:
        """All of a node but its first, as this machine numbers them."""
        first = self.pid(node)
        return [pid for pid in _of_namespace(_namespace(first)) if pid != first]

    def faults(self) -> list[list[str]]:
        kept = self.folder / "faults.json"
        return json.loads(kept.read_text()) if kept.exists() else []  # type: ignore[no-any-return]

    def fault(self, kind: str, *values: str | float) -> None:
        """One of FAULTS; its values as USAGE has them. It lasts until `heal`."""
        asked = [kind, *map(str, values)]
        if kind == "slow-uplink" and len(asked) > 1:
            asked[1] = asked[1].removeprefix("leaf")  # as list has it
        self._check(asked)
        before = self.faults()
        (self.folder / "faults.json").write_text(json.dumps([*before, asked]))  # first: a kill leaves nothing that `heal` does not know
        try:
            if kind in RATES:
                self._shape([*before, asked], before)
            else:
                self._hurt(kind, asked[1], asked[2:], undo=False)
        except BedError:
            (self.folder / "faults.json").write_text(json.dumps(before))
            raise

    def heal(self) -> None:
        """Undoes every fault."""
        before = self.faults()
        for kind, *values in reversed(before):
            if kind not in RATES:
                self._hurt(kind, values[0], values[1:], undo=True)
        self._shape([], before)
        (self.folder / "faults.json").unlink(missing_ok=True)

    @contextlib.contextmanager
    def hurt(self, kind: str, *values: str | float) -> Iterator[None]:
        self.fault(kind, *values)
        try:
            yield
        finally:
            self.heal()

    def down(self) -> None:
        """Ends every process of the bed, then removes its folder."""
        _remove(self.folder, self._warden)
        if self._warden and self._warden.stdin:
            self._warden.stdin.close()

    def _make(self) -> None:
        _write_nodes(self.spec, self.folder)
        (self.folder / "spec.json").write_text(json.dumps(dataclasses.asdict(self.spec)))
        (self.folder / "sshd.json").write_text(json.dumps(sshd()))
        maker = 0 if self.stays else os.getpid()
        with (self.folder / "warden.log").open("wb") as log:
            self._warden = subprocess.Popen(
                [sys.executable, "-m", "tests.netbed.warden", str(self.folder), str(maker)], cwd=ROOT, env={"PATH": os.environ["PATH"]},
                stdin=subprocess.DEVNULL if self.stays else subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + PATIENCE_S
        while not (self.folder / "state.json").exists():
            if self._warden.poll() is not None or time.monotonic() > end:
                raise BedError((self.folder / "warden.log").read_text().strip() or f"the bed did not stand after {PATIENCE_S:.0f} s")
            time.sleep(0.02)
        self.state = json.loads((self.folder / "state.json").read_text())
        while sshd() and not all(listens(self.pid(node), 22) for node in self.spec.names):
            if time.monotonic() > end:
                raise BedError(f"sshd does not listen: {self.run(['cat', f'{warden.PRIVATE}/sshd.log'], self.spec.names[0]).stdout.strip()}")
            time.sleep(0.02)

    def _check(self, asked: list[str]) -> None:
        kind, values = asked[0], asked[1:]
        if kind not in USAGE:
            raise BedError(f"there is no fault {kind!r}; valid: {', '.join(FAULTS)}")
        wanted = USAGE[kind].split()
        if len(values) != len(wanted):
            raise BedError(f"{kind} takes {USAGE[kind]}, not {' '.join(values) or 'nothing'}")
        for value, name in zip(values, wanted, strict=True):
            if name in ("NODE", "FROM", "TO"):
                self.pid(value)
                continue
            try:
                good = (float(value) > 0 or (name == "SECONDS" and -1e9 < float(value) < 0)) and float(value) < 1e9 and (name != "LEAF" or (value.isdigit() and int(value) <= self.spec.leaves)) and (name != "SHARE" or float(value) <= 1)
            except ValueError:
                good = False
            if not good:
                valid = {"LEAF": f"1 to {self.spec.leaves}", "SHARE": "above 0, at most 1 (a CPU)", "MBPS": "above 0", "SECONDS": "ahead, or behind with a minus"}[name]
                raise BedError(f"{kind}: {name} is {valid}, not {value}")

    def _shape(self, faults: list[list[str]], before: list[list[str]]) -> None:
        """Links whose rates differ from those before; where nothing was wrong before and nothing is, all of them."""
        was, slowed, whole = self._slowed(before), self._slowed(faults), not before and not faults
        fabric = int(self.state["warden"])
        if whole or links.ports(self.spec, was) != links.ports(self.spec, slowed):
            warden.run("tc", links.bare(links.devices(self.spec)), pid=fabric, force=True)
            warden.run("tc", links.ports(self.spec, slowed), pid=fabric)
        for node in self.spec.everyone:
            if whole or links.sending(self.spec, node, was) != links.sending(self.spec, node, slowed):
                warden.run("tc", links.bare(["eth0"]), pid=self.pid(node), force=True)
                warden.run("tc", links.sending(self.spec, node, slowed), pid=self.pid(node))

    def _slowed(self, faults: list[list[str]]) -> links.Slowed:
        slowed = links.Slowed()
        for kind, *values in faults:
            rate = float(values[-1]) if kind in RATES else 0.0
            if kind in ("slow-node", "slow-send"):
                slowed.send[values[0]] = rate
            if kind in ("slow-node", "slow-receive"):
                slowed.receive[values[0]] = rate
            if kind == "slow-pair":
                slowed.pairs[values[0], values[1]] = rate
            if kind == "slow-uplink":
                slowed.uplinks[int(values[0])] = rate
        return slowed

    def _hurt(self, kind: str, node: str, values: list[str], *, undo: bool) -> None:
        if kind == "link-down":
            warden.run("ip", f"link set {node} {'up' if undo else 'down'}\n", pid=int(self.state["warden"]))
        elif kind == "stopped":
            inside = self.processes(node)
            # nsenter, outside, stops when what it started stops, and does not go on with it
            for pid in [*inside, *(_entering(inside) if undo else [])]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT if undo else signal.SIGSTOP)
        elif kind == "disk-full":
            if node == CONTROLLER:
                raise BedError("the controller has this machine's /tmp, which is not filled")
            self.run(["rm", "-f", "/tmp/full"] if undo else ["sh", "-c", "cat /dev/zero > /tmp/full"], node)
        elif kind == "clock":
            self._inside(node, "home/.ssh/environment").write_text("" if undo else f"{CLOCK}={values[0]}\n")
        else:
            self._limit(node, 0.0 if undo else float(values[0]))

    def _inside(self, node: str, name: str) -> Path:
        """A file of a node's own."""
        return Path(f"/proc/{self.pid(node)}/root{warden.PRIVATE}", name)

    def _limit(self, node: str, share: float) -> None:
        group, everyone = self._group(node), [self.pid(node), *self.processes(node)]
        if not (CPU / "cpu.shares").exists():
            raise BedError("a limit of CPU time needs the control group `cpu` of version 1, which is not here")
        if share:
            group.mkdir(exist_ok=True)
            (group / "cpu.cfs_quota_us").write_text(f"{max(int(share * 100_000), 1000)}")
            _move(everyone, group)
        elif group.is_dir():
            _empty(group)

    def _group(self, node: str) -> Path:
        return CPU / f"{self.folder.name}-{node}"


def beds() -> list[Bed]:
    """Those that stand."""
    return [Bed.at(folder) for folder in _folders() if _stands(folder)]


def clean() -> list[str]:
    """Removes what killed makers left: folders and control groups with this mark, whose bed does not stand. -> their names"""
    gone = [folder for folder in _folders() if not _stands(folder) and time.time() - folder.stat().st_mtime > (0 if (folder / "state.json").exists() else 2 * PATIENCE_S)]
    for folder in gone:
        _remove(folder)
    named = {folder.name for folder in _folders()}
    groups = [group for group in CPU.glob(f"{MARK}*") if not any(group.name.startswith(f"{name}-") for name in named)]
    for group in groups:
        _empty(group)
    return [folder.name for folder in gone] + [group.name for group in groups]


def listens(pid: int, port: int) -> bool:
    """Whether something does in the network of a process."""
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:])


def _folders() -> list[Path]:
    return sorted(path for path in Path(tempfile.gettempdir()).glob(f"{MARK}*") if path.is_dir() and path.stat().st_uid == os.getuid())


def _stands(folder: Path) -> bool:
    try:
        state = json.loads((folder / "state.json").read_text())
    except (OSError, ValueError):
        return False
    return bool(warden.began(int(state["warden"])) == state["began"])


def _remove(folder: Path, child: subprocess.Popen[bytes] | None = None) -> None:
    """Its processes, its control groups, itself. `child`: its warden, where this process made it."""
    if not folder.name.startswith(MARK):
        return
    nodes = list[str]()
    if _stands(folder):
        state = json.loads((folder / "state.json").read_text())
        nodes = [name for name in map(_namespace, state["pids"].values()) if name]
        if not child:
            os.kill(int(state["warden"]), signal.SIGKILL)
    if child:
        child.kill()
        child.wait()
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and ((not child and _stands(folder)) or any(_of_namespace(node) for node in nodes)):
        time.sleep(0.02)
    for group in CPU.glob(f"{folder.name}-*"):
        _empty(group)
    shutil.rmtree(folder, ignore_errors=True)


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _of_namespace(name: str) -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _namespace(int(entry)) == name]


def _entering(inside: list[int]) -> list[int]:
    """The nsenters that started some of these."""
    parents = set[int]()
    for pid in inside:
        with contextlib.suppress(OSError, IndexError):
            parents.add(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]))
    entering = list[int]()
    for pid in parents - set(inside):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text() == "nsenter\n":
                entering.append(pid)
    return entering


def _move(pids: list[int], group: Path) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            (group / "cgroup.procs").write_text(str(pid))


def _empty(group: Path) -> None:
    for _ in range(50):
        _move([int(pid) for pid in (group / "cgroup.procs").read_text().split()], CPU)
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.02)


def _write_nodes(spec: Spec, folder: Path) -> None:
    """The files of each node, which it copies into a memory of its own: who it is, whom it knows."""
    shown = "".join(f"{spec.address(node)} {node}\n" for node in spec.everyone)
    passwd = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith(("root:", "sshd:"))]
    own = [f"root:x:0:0:root:{warden.PRIVATE}/home:/bin/bash", "sshd:x:74:65534:sshd:/run/sshd:/usr/sbin/nologin"]
    daemon = sshd() is not None
    for node in spec.everyone:
        place = folder / "nodes" / node
        place.mkdir(parents=True, mode=0o700)
        serial = uuid.uuid4().hex
        for name, text in {
            "hosts": f"127.0.0.1 localhost\n{shown}", "hostname": f"{node}\n", "machine-id": f"{serial}\n", "product_serial": f"BED{serial[:10].upper()}\n",
            "passwd": "\n".join([*own, *passwd]) + "\n",
        }.items():  # fmt: skip
            (place / name).write_text(text)
        if daemon:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node, "-f", str(place / "key")], check=True, stdin=subprocess.DEVNULL)
    if daemon:
        _write_ssh(spec, folder / "nodes")


def _write_ssh(spec: Spec, nodes: Path) -> None:
    public = {node: (nodes / node / "key.pub").read_text() for node in spec.everyone}
    for node in spec.names:
        (nodes / node / "authorized_keys").write_text(public[CONTROLLER])
        (nodes / node / "sshd_config").write_text(
            f"ListenAddress {spec.address(node)}:22\nHostKey {warden.PRIVATE}/key\nAuthorizedKeysFile {warden.PRIVATE}/authorized_keys\nPidFile none\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no\nPrintMotd no\nPermitUserEnvironment yes\nMaxStartups 200\n"
            "MaxSessions 200\nSubsystem sftp internal-sftp\n"
        )
    known = "".join(f"{node},{spec.address(node)} {public[node]}" for node in spec.names)
    (nodes / CONTROLLER / "known_hosts").write_text(known)
    (nodes / CONTROLLER / "ssh_config").write_text(
        f"Host *\n  User root\n  IdentityFile {warden.PRIVATE}/key\n  IdentitiesOnly yes\n  UserKnownHostsFile {warden.PRIVATE}/known_hosts\n"
        "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  BatchMode yes\n  LogLevel ERROR\n"
    )
