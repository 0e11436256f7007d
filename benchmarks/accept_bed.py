"""An acceptance of a bed of real nodes with planted faults, as `accept.py --bed` and a test run it.

Inventories are files of each node, links are shaped, agents are killed, and a library computes wrong results.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec
from isolate_bed import BedLauncher
from tests.netbed.bed import Bed
from tests.netbed.spec import Spec

from hotlap.bringup import accept_driver, accept_folder, accept_live, accept_plan, cli_accept_run, rma
from hotlap.bringup.accept_folder import AcceptFolder
from hotlap.bringup.accept_record import MEASURED, AcceptEvent
from hotlap.cluster import agent
from hotlap.cluster.launch.base import AgentProcess, popen
from hotlap.cluster.record import Campaign, Member

MBPS = 20.0  # of a node's link: far below what one core moves
GPUS, ADAPTERS = 8, 2
VBIOS, OTHER = "96.00.99.00.01", "96.00.74.00.02"
ROOT = "/tmp/inventory"  # in each node
GPU = "<gpu id='00000000:{0:02x}:00.0'><product_name>NVIDIA H200</product_name><vbios_version>{1}</vbios_version></gpu>"
BAD_HASH = """
_right = sha256
def sha256(data=b"", **more):
    return _right(data[:-1] if len(data) == 1 << 20 and bytes(data[:2]) == b"\\0\\1" else data, **more)
"""
ENDS: Mapping[str, tuple[str, str]] = {  # fault → cause that is to be named, and the state in which it ends
    "gpu-missing": ("gpu-missing", "quarantined"), "gpu-count": ("gpu-count", "quarantined"), "rail": ("rail", "quarantined"),
    "firmware": ("firmware", "quarantined"), "slow-link": ("slow-link", "quarantined"), "throttling": ("throttling", "quarantined"),
    "corruption": ("corruption", "quarantined"), "bmc": ("bmc", "quarantined"), "serial": ("serial", "quarantined"),
    "late": ("late", "accepted"), "clock": ("clock", "quarantined"), "vanished": ("vanished", "lost"),
}  # fmt: skip


@dataclass
class PlantedBed:
    """A bed and what is wrong with its nodes. `faults`: a kind by node; what is repaired is taken out of it."""

    bed: Bed
    faults: dict[str, str]
    calls: dict[str, int] = field(default_factory=dict)
    bmcs: dict[str, socket.socket] = field(default_factory=dict)

    def plant(self) -> None:
        """What is there from the beginning."""
        for node in self.bed.spec.names:
            self.inventory(node)
            self._groups(node)
            listening = socket.create_server(("127.0.0.1", 0), backlog=64)
            self.bmcs[node] = listening
        for node, kind in self.faults.items():
            if kind == "clock":
                self.bed.fault("clock", node, 3600.0)
            elif kind == "slow-link":
                self.bed.fault("slow-send", node, MBPS * 0.6)
            elif kind == "serial":
                self._serial(node, self.serial(self._next(node)))
            elif kind == "corruption":
                self._library(node)

    def place(self, node: str) -> str:
        """Of its BMC; of a dead one a port on which nobody listens."""
        port = self.bmcs[node].getsockname()[1]
        if self.faults.get(node) == "bmc":
            self.bmcs[node].close()
        return f"127.0.0.1:{port}"

    def repair(self, node: str) -> None:
        """As a person would, before a retest."""
        kind = self.faults.pop(node)
        if kind in ("slow-link", "clock"):
            self.bed.heal()
        self.inventory(node)

    def serial(self, node: str) -> str:
        """What its agent will say, as the delivery note has it."""
        own = self.bed.folder / "nodes" / node
        if Path("/sys/class/dmi/id/product_serial").exists():
            return (own / "product_serial").read_text().strip()
        return f"machine-id {(own / 'machine-id').read_text().strip()}"

    def _next(self, node: str) -> str:
        names = self.bed.spec.names
        return names[(names.index(node) + 1) % len(names)]

    def _serial(self, node: str, serial: str) -> None:
        name = "product_serial" if Path("/sys/class/dmi/id/product_serial").exists() else "machine-id"
        self.bed._inside(node, name).write_text(f"{serial.removeprefix('machine-id ')}\n")

    def _library(self, node: str) -> None:
        """A hash of the node's Python that is wrong for some data."""
        source = Path(str(hashlib.__file__)).read_text() + BAD_HASH
        self._fed(node, f"cat > /tmp/hashlib.py && mount --bind /tmp/hashlib.py {hashlib.__file__}", source.encode())

    def _fed(self, node: str, script: str, data: bytes) -> None:
        """A script of a node's shell, with what it reads. Raises CalledProcessError."""
        subprocess.run(self.bed.argv(["sh", "-c", script], node), input=data, capture_output=True, check=True)

    def _groups(self, node: str) -> None:
        """Control groups where a machine has them: a bed's node sees a bare /sys."""
        mounts = "mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/cpu && mount -t cgroup -o cpu none /sys/fs/cgroup/cpu"
        self.bed.run(["sh", "-c", mounts], node)

    def inventory(self, node: str) -> None:
        """Its files of /proc, /sys and nvidia-smi, in the node itself."""
        fault, files = self.faults.get(node), dict[str, str]()
        count = GPUS - (fault == "gpu-count")
        for index in range(count):
            folder = f"sys/bus/pci/devices/0000:{index + 16:02x}:00.0"
            files |= {f"{folder}/class": "0x030200\n", f"{folder}/vendor": "0x10de\n", f"{folder}/device": "0x2335\n"}
        listed = [
            GPU.format(index + 16, OTHER if fault == "firmware" and index == 2 else VBIOS)
            for index in range(count - (fault == "gpu-missing"))
        ]  # fmt: skip
        files["commands/nvidia-smi-q.xml"] = f"<nvidia_smi_log>{''.join(listed)}</nvidia_smi_log>"
        for rail in range(ADAPTERS):
            port = f"sys/class/infiniband/mlx5_{rail}/ports/1"
            subnet = ADAPTERS - 1 - rail if fault == "rail" else rail
            files |= {f"{port}/gids/0": f"fd00:0000:0000:{subnet:04x}:0000:0000:0000:0001\n", f"{port}/rate": "400 Gb/sec (4X NDR)\n"}
            files[f"sys/class/infiniband/mlx5_{rail}/fw_ver"] = "28.43.2026\n"
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w") as archive:
            for name, text in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        self._fed(node, f"rm -rf {ROOT} && mkdir {ROOT} && tar xf - -C {ROOT}", held.getvalue())

    def launched(self, campaign: Campaign) -> PlantingLauncher:
        return PlantingLauncher(self.bed, planted=self, step=campaign.steps[0].name if campaign.steps else "reach")


@dataclass(frozen=True)
class PlantingLauncher(BedLauncher):
    """Agents in the nodes, and the faults that begin with a step."""

    planted: PlantedBed = field(kw_only=True)
    step: str = field(kw_only=True)

    def start(self, member: Member) -> AgentProcess:
        planted, fault = self.planted, self.planted.faults.get(member.name)
        planted.calls[member.name] = planted.calls.get(member.name, 0) + 1
        if fault == "late" and planted.calls[member.name] == 1:
            return popen(["sh", "-c", "echo 'No route to host' >&2; exit 255"])
        if fault == "throttling" and self.step == "soak" and ["cpu", member.name, "0.05"] not in self.bed.faults():
            self.bed.fault("cpu", member.name, 0.05)
        address = self.bed.spec.address(member.name)
        environment = {"SSH_CONNECTION": f"10.77.0.1 1 {address} 22", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        process = popen(self.bed.argv([sys.executable, "-I", "-S", "-c", agent.BOOTSTRAP], member.name, environment))
        if fault == "vanished" and self.step == "soak":
            threading.Thread(target=self._vanish, args=(member.name,), daemon=True).start()
        return process

    def _vanish(self, node: str) -> None:
        """The node loses its power once its soak runs."""
        for _ in range(3000):
            running = [pid for pid in self.bed.processes(node) if accept_live.SCRIPT.encode() in _line(pid)]
            if running:
                for pid in self.bed.processes(node):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.02)


def _line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


class BedRow(NamedTuple):
    """What became of a fault. `codes`: causes that were named."""

    kind: str
    node: str
    state: str
    codes: list[str]
    right: bool


class BedAnswer(NamedTuple):
    """What became of all. `repaired`: the state of nodes that were repaired and tried again."""

    rows: list[BedRow]
    accepted: int
    healthy: int
    repaired: dict[str, str]
    verified: int
    packs: int
    missing: int


def plan_of(planted: PlantedBed, transfer_s: float, **more: str) -> bytes:
    names = planted.bed.spec.names
    product = {
        "name": "bed", "nodes": ",".join(names), "gpus": GPUS, "expect": {"gpu[*].vbios": VBIOS, "ib[*].firmware": "28.43.2026"},
        "rails": {f"mlx5_{rail}": f"fd00:0:0:{rail}" for rail in range(ADAPTERS)},
        "serials": {node: planted.serial(node) for node in names},
        "bmc": {node: planted.place(node) for node in names},
    }  # fmt: skip
    given = {
        "name": "bed", "python": sys.executable, "waves": ["rest"], "max_out": "100%", "transfer": f"{transfer_s} s", "soak": "2 s",
        "launch": {"hosts": ",".join(names)}, "product": [product], **more,
    }  # fmt: skip
    words = ["hotlap", "node", "inspect", "--root", ROOT, "--json"]
    return (accept_plan.text(given) + f"\n[commands]\ninspect = {msgspec.json.encode(words).decode()}\n").encode()


@contextlib.contextmanager
def standing(nodes: int, faults: dict[str, str]) -> Iterator[PlantedBed]:
    leaves = max(nodes // 4, 1)
    spec = Spec(nodes=nodes, leaves=leaves, node_mbps=MBPS, uplink_mbps=MBPS * -(-nodes // leaves))
    with Bed(spec) as bed:
        planted = PlantedBed(bed, faults)
        try:
            planted.plant()
            yield planted
        finally:
            for listening in planted.bmcs.values():
                listening.close()


def drive(
    folder: AcceptFolder, planted: PlantedBed, scope: frozenset[str] = frozenset(), tell: Callable[[AcceptEvent], None] = lambda _: None
) -> None:
    fleet = accept_live.LiveFleet(folder.plan, folder.id, planted.launched)
    with folder.held():
        accept_driver.AcceptDriver(folder, fleet, 1.0, scope, tell).run()
    folder.checked()


def again(folder: AcceptFolder, planted: PlantedBed) -> None:
    """As `accept run --again`: steps that showed neither good nor bad, once more."""
    with folder.held():
        for now in folder.standings().values():
            if event := cli_accept_run.again(now):
                folder.append(msgspec.structs.replace(event, number=len(folder.events()) + 1))
    drive(folder, planted)


def retested(folder: AcceptFolder, planted: PlantedBed, node: str) -> str:
    """Repaired and tried again; the state in which it ends."""
    planted.repair(node)
    now, events = folder.standings()[node], folder.events()
    asked = AcceptEvent(
        number=len(events) + 1, time_s=time.time(), node=node, was=now.state, to="retest", step=now.step, faults=now.faults, by="tester",
        reason="repaired",
    )  # fmt: skip
    with folder.held():
        folder.append(asked)
    drive(folder, planted, frozenset([node]))
    return folder.standings()[node].state


def verifies(folder: AcceptFolder, node: str, place: Path) -> bool:
    """Whether its pack verifies by the script inside, on an interpreter without Hotlap, and no longer once a byte is changed."""
    data, _ = rma.pack(folder, node, "rma")
    unpacked = place / f"{node}-rma"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(unpacked)
    check = [sys.executable, "-I", "-S", str(unpacked / rma.VERIFY)]
    good = subprocess.run(check, capture_output=True, cwd="/").returncode == 0
    ledger = unpacked / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"quarantined"', b'"quarantinec"', 1))
    return good and subprocess.run(check, capture_output=True, cwd="/").returncode == 1


def accepted(nodes: int, place: Path, transfer_s: float = 1.0) -> BedAnswer:
    """All faults at once on a bed."""
    faults = {f"n{number + 1:02d}": kind for number, kind in enumerate(list(ENDS)[: nodes - 4])}
    with standing(nodes, dict(faults)) as planted:
        data = plan_of(planted, transfer_s)
        folder = accept_folder.create(place, accept_plan.parse(data, "bed.toml"), data)
        drive(folder, planted, tell=_tell)
        standings, events = folder.standings(), folder.events()
        rows = list[BedRow]()
        for node, kind in faults.items():
            codes = sorted({fault.code for event in events if event.node == node for fault in event.faults})
            code, state = ENDS[kind]
            rows.append(BedRow(kind, node, standings[node].state, codes, code in codes and standings[node].state == state))
        healthy = [node for node in planted.bed.spec.names if node not in faults]
        out = [node for node in faults if standings[node].state == "quarantined"]
        verified = sum(verifies(folder, node, place) for node in out)
        again = [node for node in out if faults[node] in ("gpu-count", "rail", "slow-link")]
        repaired = {node: retested(folder, planted, node) for node in again}
        ended = folder.standings()
        lacking = (each for each in ended.values() if not all(each.evidence.get(step) for step in MEASURED))
        missing = sum(each.state == "accepted" for each in lacking)
        good = sum(standings[node].state == "accepted" for node in healthy)
        return BedAnswer(rows, good, len(healthy), repaired, verified, len(out), missing)


def _tell(event: AcceptEvent) -> None:
    if event.faults and event.to != "retest":
        print(f"  {event.node}: {event.was} → {event.to}: {', '.join(fault.code for fault in event.faults)}", file=sys.stderr, flush=True)
