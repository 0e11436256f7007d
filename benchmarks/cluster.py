"""What campaigns cost here: agents started, steps over running agents, fan-in and status of very many recorded members; over the nodes of
a bed, as root: agents by ssh, and Hotlap sent to members that lack it.

    python benchmarks/cluster.py [--agents 256] [--nodes 32] [--recorded 10000] [--only agents|steps|fanin|status|ssh|wheels]
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.netbed import bed as beds
from tests.netbed.spec import Spec

import hotlap
from hotlap.cluster import controller, fanin, folder, parcel, session
from hotlap.cluster.launch.local import LocalLauncher
from hotlap.cluster.record import AttemptDone, Campaign, Member, MemberEvent, StepRecord
from hotlap.core.record import Case, Device, Machine, Plan, RunRecord, Samples, encode

ROOT = Path(__file__).resolve().parents[1]
ASKED = {
    "agents": "≤ 60 CPU s", "steps": "≤ 0.3 s", "ssh": "≤ 60 CPU s", "wheels": "nothing", "status": "< 1 CPU s",
    "fanin": "≤ 30 CPU s, ≤ 300 MB",
}  # fmt: skip


def cpu_s() -> float:
    """Of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def step(number: int, argv: list[str], gather: str = "command") -> StepRecord:
    return StepRecord(number=number, name=argv[0], gather=gather, argv=argv, label=" ".join(argv))  # type: ignore[arg-type]


def campaign(home: Path, count: int, steps: list[StepRecord], members: list[Member] | None = None) -> folder.CampaignFolder:
    named, began = folder.new_id()
    asked = Campaign(
        id=named, hotlap=hotlap.__version__, began=began, launcher="local", options={"count": count}, python=sys.executable, steps=steps,
    )
    return folder.create(home, asked, members or LocalLauncher(count, sys.executable).members(), {}, "local")


def agents(home: Path, count: int) -> str:
    """Start, one step, collect."""
    kept = campaign(home, count, [step(1, ["true"])])
    began, wall = cpu_s(), time.monotonic()
    session.measure(kept, lambda event: None, fanout=count)
    measured = sum(state.state == "measured" for state in kept.states(time.time()))
    return f"{cpu_s() - began:.1f} CPU s, {time.monotonic() - wall:.1f} s; {measured} of {count} measured"


def steps(home: Path, count: int = 16, turns: int = 50) -> str:
    """No-work steps over agents that run."""
    kept = campaign(home, count, [step(number, ["true"]) for number in range(1, turns + 1)])
    launcher, took = LocalLauncher(count, sys.executable), list[float]()
    with kept.held():
        conductor = controller.ClusterController(kept, launcher)
        conductor.open(launcher.members())
        for one in kept.campaign.steps:
            began = time.monotonic()
            conductor.step(one, launcher.members())
            took.append(time.monotonic() - began)
        conductor.close()
    return f"median {statistics.median(took):.3f} s, worst {max(took):.3f} s of {turns} steps over {count} agents"


def by_ssh(bed: beds.Bed, home: Path, *command: str) -> str:
    """A campaign over all nodes of a bed: start, one step, collect. CPU time is that of the controller and of all nodes."""
    python = ["--python", os.path.realpath(sys.executable)]  # without Hotlap, but of the version that its wheels are for
    words = [sys.executable, "-m", "hotlap", "cluster", "run", "--hosts", ",".join(bed.spec.names), *python, "--", *command]
    began, nodes_s, wall = cpu_s(), node_cpu_s(bed), time.monotonic()
    done = bed.run(words, env={"HOTLAP_HOME": str(home), "PYTHONPATH": str(ROOT / "src")})
    wall_s = time.monotonic() - wall
    time.sleep(1.0)  # until the last sshd is buried, and its time is known
    spent = cpu_s() - began + node_cpu_s(bed) - nodes_s
    states = folder.load(max((home / "runs").iterdir())).states(time.time())
    measured = sum(state.state == "measured" for state in states)
    why = next((f"; {state.why}" for state in states if state.why), "") or ("" if states else done.stderr[-200:])
    sent = "".join(f"; {line.partition(': ')[2]}" for line in done.stderr.splitlines() if "wheels" in line)
    return f"{spent:.1f} CPU s, {wall_s:.1f} s; {measured} of {len(states)} measured{why}{sent}"


def node_cpu_s(bed: beds.Bed) -> float:
    """Of the processes of all nodes, and of those that they have waited for."""
    ticks = 0
    for name in bed.spec.names:
        for pid in (bed.pid(name), *bed.processes(name)):
            with suppress(OSError):
                ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def over_bed(home: Path, nodes: int, wanted: Sequence[str]) -> None:
    why = beds.missing() or ("" if beds.sshd() else "there is no sshd: HOTLAP_SSHD=$(scripts/sshd.sh FOLDER)")
    if why:
        print(f"ssh     left out: {why}")
        return
    with beds.Bed(Spec(nodes=nodes, leaves=max(nodes // 4, 1), tmp_mb=400)) as bed:
        if "ssh" in wanted:
            print(f"ssh     {by_ssh(bed, home / 'ssh', 'true')} (asked {ASKED['ssh']})", flush=True)
        if "wheels" in wanted:
            with tempfile.TemporaryDirectory() as place:
                size = sum(path.stat().st_size for path in parcel.built(Path(place))) / 1e6
            print(f"wheels  {by_ssh(bed, home / 'wheels', 'hotlap', 'schema')}; {size:.0f} MB to each", flush=True)
            print(f"wheels  {by_ssh(bed, home / 'again', 'hotlap', 'schema')}, once they are there", flush=True)


def recorded(home: Path, count: int) -> folder.CampaignFolder:
    """A campaign of so many members, each with the bundle of a run of 12 cases in 3 rounds."""
    members = [Member(name=f"n{index:05}", index=index, address=f"n{index:05}", facts={"cpu": "x"}) for index in range(count)]
    kept = campaign(home, count, [step(1, ["hotlap", "run", "x.toml"], "run")], members)
    cases = [Case(workload="chase", params={"size": 1 << (12 + n)}) for n in range(12)]
    device = Device(target="cuda", index=0, name="NVIDIA H200", kind="gpu", machine="h200-sxm")
    lines = b"".join(
        encode(Samples(case=case.id, device=device.key, round=number, values=[1e-6 * (1 + 0.001 * n) for n in range(20)])) + b"\n"
        for number in range(3) for case in cases
    )  # fmt: skip
    run = RunRecord(
        id="r", began="2026-11-25T00:00:00", hotlap="0", plan=Plan(name="x", cases=cases), machine=Machine(host="n", devices=[device]),
        target="cuda", devices=[device.key],
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("result.json", json.dumps({"rounds": [{"time_s": 1.0}]}))
        archive.writestr("run/run.json", encode(run))
        archive.writestr("run/samples.jsonl", lines)
    content = out.getvalue()
    digest, events = hashlib.sha256(content).hexdigest(), []
    done = encode(AttemptDone(digest=digest, size=len(content), code=0, seconds=1.0))
    for member in members:
        attempt = kept.attempt(1, member.name, 1)
        attempt.mkdir(parents=True)
        (attempt / folder.BUNDLE).write_bytes(content)
        (attempt / folder.DONE).write_bytes(done)
        began = MemberEvent(time_s=1.0, member=member.name, step=1, attempt=1, to="running")
        events += [began, msgspec.structs.replace(began, time_s=2.0, was="running", to="measured", evidence=digest)]
    (kept.path / folder.EVENTS).write_bytes(b"".join(encode(event) + b"\n" for event in events))
    return kept


def fan_in(path: Path) -> str:
    """In this process, which has done nothing else."""
    kept = folder.load(path)
    began, wall = cpu_s(), time.monotonic()
    with kept.held():
        states = fanin.collect(kept, "rounds_max")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    run = msgspec.json.decode((path / "run.json").read_bytes(), type=RunRecord)
    size = (path / "samples.jsonl").stat().st_size / 1e6
    return (
        f"{cpu_s() - began:.1f} CPU s, {time.monotonic() - wall:.1f} s, {memory:.0f} MiB at most; {len(states)} members, "
        f"{run.kept} lines, {size:.0f} MB"
    )


def status(home: Path, kept: folder.CampaignFolder) -> str:
    """The command, from its start to its end."""
    began, wall = cpu_s(), time.monotonic()
    command = [sys.executable, "-m", "hotlap", "cluster", "status", str(kept.path)]
    out = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HOTLAP_HOME": str(home)}).stdout
    return f"{cpu_s() - began:.2f} CPU s, {time.monotonic() - wall:.2f} s: {out.splitlines()[0] if out else 'no answer'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=256)
    parser.add_argument("--nodes", type=int, default=32, help="of the bed, at most 32")
    parser.add_argument("--recorded", type=int, default=10_000)
    parser.add_argument("--only", choices=tuple(ASKED))
    parser.add_argument("--fan-in", metavar="FOLDER", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fan_in:
        print(fan_in(Path(args.fan_in)))
        return
    with tempfile.TemporaryDirectory(prefix="hotlap-bench-") as place:
        home = Path(place)
        wanted = [args.only] if args.only else list(ASKED)
        if "agents" in wanted:
            print(f"agents  {agents(home, args.agents)} (asked {ASKED['agents']})", flush=True)
        if "steps" in wanted:
            print(f"steps   {steps(home)} (asked {ASKED['steps']})", flush=True)
        if {"ssh", "wheels"} & set(wanted):
            over_bed(home, args.nodes, wanted)
        if {"fanin", "status"} & set(wanted):
            kept = recorded(home, args.recorded)
            if "status" in wanted:
                print(f"status  {status(home, kept)} (asked {ASKED['status']})", flush=True)
            if "fanin" in wanted:
                command = [sys.executable, __file__, "--fan-in", str(kept.path)]
                line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
                print(f"fanin   {line} (asked {ASKED['fanin']})", flush=True)


if __name__ == "__main__":
    main()
