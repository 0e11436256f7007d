"""Links and their rates as commands of `ip` and `tc`: what makes them, and what a set of faults makes of them. Only text; nothing is run here."""

from __future__ import annotations

import dataclasses

from tests.netbed.spec import SPINE, Spec


@dataclasses.dataclass
class Slowed:
    """What faults ask of links: Mbit/s by node and direction, by directed pair, by leaf."""

    send: dict[str, float] = dataclasses.field(default_factory=dict)
    receive: dict[str, float] = dataclasses.field(default_factory=dict)
    pairs: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    uplinks: dict[int, float] = dataclasses.field(default_factory=dict)


def fabric(spec: Spec, pids: dict[str, int]) -> str:
    """For `ip -batch` in the fabric's namespace: bridges, uplinks, and a link to each node, whose end there is eth0."""
    lines = ["link set lo up", *(f"link add {name} type bridge" for name in (SPINE, *_leaves(spec)))]
    for leaf in _leaves(spec):
        lines += [f"link add {leaf}-up type veth peer name {leaf}-down", f"link set {leaf}-up master {leaf}", f"link set {leaf}-down master {SPINE}"]
    for node, pid in pids.items():
        lines += [f"link add {node} type veth peer name eth0 netns {pid}", f"link set {node} master {spec.switch(node)}"]
    ports = [port for leaf in _leaves(spec) for port in (f"{leaf}-up", f"{leaf}-down")]
    return "\n".join([*lines, *(f"link set {name} up" for name in (SPINE, *_leaves(spec), *ports, *pids))]) + "\n"


def ports(spec: Spec, slowed: Slowed | None = None) -> str:
    """For `tc -batch` in the fabric's namespace: what nodes receive, and both ways of each uplink."""
    slowed = slowed or Slowed()
    lines = []
    for node in spec.everyone:
        lines += _shaped(spec, node, slowed.receive.get(node, spec.mbps(node)))
    for number, leaf in enumerate(_leaves(spec), start=1):
        for port in (f"{leaf}-up", f"{leaf}-down"):
            lines += _shaped(spec, port, slowed.uplinks.get(number, spec.uplink_mbps))
    return "\n".join(lines) + "\n"


def inside(spec: Spec, node: str) -> str:
    """For `ip -batch` in the node's namespace. It has no route beyond the bed."""
    return f"link set lo up\naddress add {spec.address(node)}/16 dev eth0\nlink set eth0 up\n"


def sending(spec: Spec, node: str, slowed: Slowed | None = None) -> str:
    """For `tc -batch` in the node's namespace: what it sends, and to whom it sends more slowly."""
    slowed = slowed or Slowed()
    lines = _shaped(spec, "eth0", slowed.send.get(node, spec.mbps(node)))
    for number, ((_, receiver), rate) in enumerate(sorted((pair, rate) for pair, rate in slowed.pairs.items() if pair[0] == node), start=32):
        lines += _class(spec, "eth0", f"{number}", rate)
        lines.append(f"filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst {spec.address(receiver)}/32 flowid 1:{number}")
    return "\n".join(lines) + "\n"


def bare(devices: list[str]) -> str:
    """For `tc -force -batch`: what was there goes, before it is made anew."""
    return "".join(f"qdisc del dev {device} root\n" for device in devices)


def devices(spec: Spec) -> list[str]:
    return [*spec.everyone, *(f"{leaf}-{way}" for leaf in _leaves(spec) for way in ("up", "down"))]


def _leaves(spec: Spec) -> list[str]:
    return [f"leaf{number}" for number in range(1, spec.leaves + 1)]


def _shaped(spec: Spec, device: str, mbps: float) -> list[str]:
    rate = _rate(spec, mbps)
    return [f"qdisc add dev {device} root handle 1: htb default 16", f"class add dev {device} parent 1: classid 1:1 htb {rate}", *_class(spec, device, "16", mbps)]


def _class(spec: Spec, device: str, number: str, mbps: float) -> list[str]:
    held = max(int(mbps * 1e6 / 8 * spec.queue_ms / 1e3), 2 * spec.burst_kb * 1024)
    return [
        f"class add dev {device} parent 1:1 classid 1:{number} htb {_rate(spec, mbps)}",
        f"qdisc add dev {device} parent 1:{number} handle {number}: bfifo limit {held}",
    ]


def _rate(spec: Spec, mbps: float) -> str:
    return f"rate {int(mbps * 1e6)}bit ceil {int(mbps * 1e6)}bit burst {spec.burst_kb}kb cburst {spec.burst_kb}kb quantum 60000"
