"""A bed of real nodes here: how fast it stands, whether links carry what they are shaped to, faults are seen and undone, what is left.

    python benchmarks/netbed.py [--nodes 16] [--matrix 4]     needs root; ssh where HOTLAP_SSHD names an sshd (scripts/sshd.sh)
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.netbed import bed as beds
from tests.netbed.senders import rate_mbps, shaped_mbps
from tests.netbed.spec import Spec

WITHIN = 0.10


def verdict(seen: float, shaped: float) -> str:
    wanted = shaped_mbps(shaped)
    off = seen / wanted - 1
    return f"{seen:6.1f} of {wanted:6.1f} Mbit/s ({off:+.1%}): {'reached' if abs(off) <= WITHIN else 'missed'}"


def stands(nodes: int) -> None:
    began, spent = time.monotonic(), os.times()
    with beds.Bed(Spec(nodes=nodes, leaves=max(nodes // 4, 1))) as bed:
        daemons = "listens in each" if beds.sshd() else "is not here"
        print(f"{nodes} nodes stand after {time.monotonic() - began:.1f} s of wall, sshd {daemons}")
        if beds.sshd():
            began = time.monotonic()
            calls = [bed.popen(["ssh", node, "hostname"], stdout=-1) for node in bed.spec.names]
            right = sum(call.communicate()[0].strip() == node for call, node in zip(calls, bed.spec.names, strict=True))
            print(f"ssh from the controller, all at once: {right} of {nodes} answer with their own name, {time.monotonic() - began:.1f} s")
        folder, ended = bed.folder, time.monotonic()
    times = os.times()
    print(f"down after {time.monotonic() - ended:.1f} s; its folder is {'left' if folder.exists() else 'gone'}")
    print(f"CPU of this process and those that it waited for: {sum(times[:4]) - sum(spent[:4]):.1f} s")


def matrix(nodes: int) -> None:
    with beds.Bed(Spec(nodes=nodes, leaves=2)) as bed:
        names = bed.spec.names
        shaped = bed.spec.node_mbps
        print(f"\nMbit/s of TCP, senders in rows; links are shaped to {shaped:g}, of which TCP hands over {shaped_mbps(shaped):.1f}")
        print("      " + "".join(f"{name:>8}" for name in names))
        worst = 0.0
        for sender in names:
            rates = {receiver: rate_mbps(bed, sender, receiver) for receiver in names if receiver != sender}
            worst = max([worst, *(abs(rate / shaped_mbps(shaped) - 1) for rate in rates.values())])
            print(f"{sender:<6}" + "".join(f"{rates[name]:8.1f}" if name in rates else f"{'-':>8}" for name in names))
        print(f"furthest off: {worst:.1%}; asked: within {WITHIN:.0%}: {'reached' if worst <= WITHIN else 'missed'}")
        faults(bed)


def faults(bed: beds.Bed) -> None:
    near, far = bed.spec.names[1], bed.spec.names[-1]
    cases: list[tuple[tuple[str | float, ...], float]] = [
        (("slow-pair", "n01", far, 40.0), 40.0), (("slow-send", "n01", 50.0), 50.0), (("slow-receive", far, 30.0), 30.0),
        (("slow-node", "n01", 60.0), 60.0), (("slow-uplink", 1, 80.0), 80.0),
    ]  # fmt: skip
    print()
    for (kind, *values), rate in cases:
        with bed.hurt(str(kind), *values):
            seen = rate_mbps(bed, "n01", far)
        print(f"{kind:<13}n01 to {far} {verdict(seen, rate)}; healed {verdict(rate_mbps(bed, 'n01', far), bed.spec.node_mbps)}")
    write = ["sh", "-c", "head -c 100000 /dev/zero > /tmp/some"]
    with bed.hurt("disk-full", near):
        full = bed.run(write, near).returncode
    print(f"disk-full    a write fails: {bool(full)}; healed, it fails: {bool(bed.run(write, near).returncode)}")
    if (beds.CPU / "cpu.shares").exists():
        with bed.hurt("cpu", near, 0.2):
            limited = share(bed, near)
            counts = dict(line.split() for line in (beds.CPU / f"{bed.folder.name}-{near}/cpu.stat").read_text().splitlines())
        held = f"held back in {counts['nr_throttled']} of {counts['nr_periods']} periods"
        print(f"cpu 0.2      a loop gets {limited:.2f} of a CPU, {held}; healed, {share(bed, near):.2f}")


def share(bed: beds.Bed, node: str) -> float:
    """CPU seconds that a loop in the node gets in each of two seconds."""
    loop = "import time; end = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint(time.process_time() / 2)"
    return float(bed.run([sys.executable, "-I", "-S", "-c", loop], node).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--matrix", type=int, default=4, help="nodes between which every rate is measured")
    asked = parser.parse_args()
    if why := beds.missing():
        raise SystemExit(why)
    print("load {:.1f}, {:.1f}, {:.1f} (1, 5, 15 min), {} cores".format(*os.getloadavg(), os.cpu_count()))
    stands(asked.nodes)
    matrix(asked.matrix)
    print(f"\nleft in {beds.CPU}: {[str(path) for path in beds.CPU.glob(beds.MARK + '*')]}; beds that stand: {len(beds.beds())}")


if __name__ == "__main__":
    main()
