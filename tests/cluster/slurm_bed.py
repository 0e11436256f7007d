"""Slurm of this machine for tests: slurmctld, two slurmd and munge of its own, in network, process, mount and UTS namespaces that have no
link outwards, and that end with the process that made them, however that ends. A pair of links inside is needed for names to be resolved
(AI_ADDRCONFIG).

    with slurm(folder) as bed:
        bed.run(["srun", "-N2", "hostname"])
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NEEDED = ("slurmctld", "slurmd", "munged", "srun", "unshare", "nsenter", "ip")
HOST = "bed"
CONF = """ClusterName=bed
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=26817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={d}/munge/socket,cred_expire=10
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={d}/state
SlurmdSpoolDir={d}/spool/%n
TmpFS={d}/tmp/%n
SlurmctldPidFile={d}/slurmctld.pid
SlurmdPidFile={d}/slurmd-%n.pid
SlurmctldLogFile={d}/log/slurmctld.log
SlurmdLogFile={d}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
InactiveLimit=0
KillWait=3
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=n1 NodeHostname=bed NodeAddr=127.0.0.1 Port=26821 CPUs=4 RealMemory=1000 State=UNKNOWN
NodeName=n2 NodeHostname=bed NodeAddr=127.0.0.1 Port=26822 CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
PartitionName=closed Nodes=n[1-2] State=DOWN
"""
UP = """set -e
ip link set lo up
ip link add v0 type veth peer name v1
ip addr add 10.0.0.1/32 dev v0
ip link set v0 up
ip link set v1 up
hostname {host}
printf '127.0.0.1 localhost {host}\\n' > {d}/hosts
mount --bind {d}/hosts /etc/hosts
munged --key-file={d}/munge/key --socket={d}/munge/socket --pid-file={d}/munge/pid --log-file={d}/munge/log --seed-file={d}/munge/seed --num-threads=2
slurmctld -c -i
slurmd -N n1
slurmd -N n2
touch {d}/up
cat > /dev/null
"""


def lacking() -> str:
    """Why there can be none here; "" where there can."""
    if os.geteuid():
        return "Slurm's daemons in namespaces need root"
    missing = [name for name in NEEDED if not shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")]
    return f"there is no {missing[0]} here: apt install slurmctld slurmd slurm-client munge iproute2" if missing else ""


@dataclass
class SlurmBed:
    """A running one."""

    folder: Path
    pid: int

    def run(self, argv: Sequence[str], timeout_s: float = 120.0, **environment: str) -> subprocess.CompletedProcess[str]:
        """A program in its namespaces."""
        return subprocess.run(self.argv(argv), env=self.environment(environment), capture_output=True, text=True, timeout=timeout_s)

    def argv(self, argv: Sequence[str]) -> list[str]:
        return ["nsenter", "-t", str(self.pid), "-n", "-p", "-m", "-u", *argv]

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        return os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"} | more


@contextmanager
def slurm(folder: Path) -> Iterator[SlurmBed]:
    """One whose files are in `folder`, which must be short and on a disk where sockets can be."""
    for name in ("state", "spool/n1", "spool/n2", "tmp/n1", "tmp/n2", "log", "munge"):
        (folder / name).mkdir(parents=True)
    for name in (folder, folder / "munge"):
        name.chmod(0o755)
    (folder / "munge" / "key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge" / "key").chmod(0o400)
    (folder / "cgroup.conf").touch()
    (folder / "slurm.conf").write_text(CONF.format(d=folder))
    (folder / "up.sh").write_text(UP.format(d=folder, host=HOST))
    bed = SlurmBed(folder, 0)
    spaces = ["unshare", "--net", "--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc"]
    with open(folder / "out", "wb") as out:
        holder = subprocess.Popen([*spaces, "sh", str(folder / "up.sh")], env=bed.environment({}), stdin=subprocess.PIPE, stdout=out, stderr=out)
    try:
        bed.pid = _inside(holder, folder)
        yield bed
    finally:
        holder.kill()
        holder.wait()


def _inside(holder: subprocess.Popen[bytes], folder: Path) -> int:
    """The first process in the namespaces, once both nodes are idle there."""
    deadline = time.monotonic() + 60
    while not (folder / "up").exists():
        if holder.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Slurm did not start: {(folder / 'out').read_text()[-1000:]}")
        time.sleep(0.05)
    pid = int(Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()[0])
    while True:
        nodes = SlurmBed(folder, pid).run(["sinfo", "-h", "-p", "main", "-o", "%t %D"]).stdout.split()
        if nodes == ["idle", "2"]:
            return pid
        if time.monotonic() > deadline:
            raise RuntimeError(f"Slurm's nodes are not idle: {nodes}")
        time.sleep(0.1)
