"""The text of ibnetdiscover and of iblinkinfo as links between hosts and switches: where nodes hang, and which links run below their best.

Formats: rdma-core, infiniband-diags/man/ibnetdiscover.8.in.rst (TOPOLOGY FILE FORMAT), and iblinkinfo.c: a link's width and the signalling
rate of one lane, `4X 106.25 Gbps`; `Could be` names what both ends support.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hotlap.bringup.record import FabricFinding

# Gb/s of a lane: as it signals → what it carries (InfiniBand Architecture Specification, volume 2; 8b/10b to QDR, 64b/66b after)
LANES = {
    "SDR": (2.5, 2.0), "DDR": (5.0, 4.0), "QDR": (10.0, 8.0), "FDR10": (10.3125, 10.0), "FDR": (14.0625, 13.64), "EDR": (25.78125, 25.0),
    "HDR": (53.125, 50.0), "NDR": (106.25, 100.0), "XDR": (212.5, 200.0),
}  # fmt: skip
HEADING = re.compile(r'^(?P<kind>Switch|Ca|Rt)\s+\d+\s+"(?P<guid>[SHR]-[0-9a-fx]+)"\s+#\s+"(?P<name>[^"]*)"')
LINK = re.compile(
    r'^\[(?P<port>\d+)\](?:\[ext \d+\])?(?:\([0-9a-fx]+\))?\s+"(?P<guid>[SHR]-[0-9a-fx]+)"\[(?P<peer>\d+)\](?:\[ext \d+\])?'
    r'(?:\([0-9a-fx]+\))?\s+#.*?"(?P<name>[^"]*)"(?:\s+lid\s+\d+)?\s+(?P<width>\d+)x(?P<speed>\w+)\s*$'
)
OF = re.compile(r"^(?P<kind>Switch|CA|RT|Router): (?:0x[0-9a-f]+ )?(?P<name>.*):\s*$")
ARROW = re.compile(
    r'^\s*(?P<guid>0x[0-9a-f]+)?\s*(?:"(?P<own>[^"]*)"\s+)?(?P<lid>\d+)\s+(?P<port>\d+)\[[^\]]*\]\s+==\(\s*(?:(?P<width>\d+)X\s+(?P<lane>[\d.]+)\s+Gbps\s+)?'
    r'(?P<state>\w+)\s*/\s*\w+\s*\)==>\s*(?:0x[0-9a-f]+\s+)?(?:(?P<far>\d+)\s+(?P<peer>\d+))?\[[^\]]*\]\s+"(?P<name>[^"]*)"\s*\((?P<note>[^)]*)\)'
)
COULD = re.compile(r"Could be (?:(\d+)X)?\s*(?:([\d.]+)\s*Gbps)?")


class FabricPort(NamedTuple):
    """One end of a link. `host`: a description such as `node7 mlx5_0` of an adapter, whose first word is the host. `key`: GUID, or LID of
    iblinkinfo, which has that of both ends: switches that nobody named have one description."""

    name: str
    port: int
    host: bool
    key: str

    @property
    def node(self) -> str:
        return self.name.split()[0].split(".")[0] if self.host and self.name.split() else ""

    @property
    def adapter(self) -> str:
        return " ".join(self.name.split()[1:])


class FabricLink(NamedTuple):
    """`width`: lanes; `speed`: the name of a lane's rate. `best`: what both ends support, where the file says it."""

    ends: tuple[FabricPort, FabricPort]
    width: int
    speed: str
    best: tuple[int, str] | None = None

    @property
    def gbps(self) -> float:
        """What it carries."""
        return _gbps((self.width, self.speed))


def _gbps(link: tuple[int, str]) -> float:
    """Of a width and the name of a lane's rate."""
    return link[0] * LANES[link[1]][1]


def is_fabric(text: str) -> bool:
    """Whether a file is of either program."""
    return any(HEADING.match(line) or ARROW.match(line) for line in text.splitlines())


def links(text: str) -> list[FabricLink]:
    """Every link once, of either program's text; lines that are none are left out."""
    seen: dict[frozenset[FabricPort], FabricLink] = {}
    for link in (*_discovered(text), *_listed(text)):
        key = frozenset(link.ends)
        if key not in seen or (link.best and not seen[key].best):
            seen[key] = link
    return list(seen.values())


def _discovered(text: str) -> Iterable[FabricLink]:
    own, host, guid = "", False, ""
    for line in text.splitlines():
        if heading := HEADING.match(line):
            own, host, guid = heading["name"], heading["kind"] == "Ca", heading["guid"]
        elif (link := LINK.match(line)) and own and link["speed"] in LANES:
            peer = FabricPort(link["name"], int(link["peer"]), link["guid"].startswith("H"), link["guid"])
            yield FabricLink((FabricPort(own, int(link["port"]), host, guid), peer), int(link["width"]), link["speed"])


def _listed(text: str) -> Iterable[FabricLink]:
    """Headings say what an end is; without one, in the form with all on a line, what has three ports or more is a switch."""
    rows, own = list[tuple[str, re.Match[str]]](), ""
    kinds: dict[str, bool] = {}
    for line in text.splitlines():
        if heading := OF.match(line):
            own = heading["name"].strip()
            kinds[own] = heading["kind"] == "CA"
        elif arrow := ARROW.match(line):
            rows.append(((arrow["own"] or own).strip(), arrow))
    ports = defaultdict[str, set[int]](set)
    for name, arrow in rows:
        ports[name].add(int(arrow["port"]))
    for name, arrow in rows:
        speed = lane(arrow["lane"])
        if arrow["peer"] is None or not speed or arrow["state"] != "Active":
            continue
        both = [FabricPort(each, int(arrow[port]), kinds.get(each, len(ports[each]) < 3), f"LID {arrow[lid]}") for each, port, lid in (
            (name, "port", "lid"), (arrow["name"].strip(), "peer", "far"))]  # fmt: skip
        could = COULD.search(arrow["note"])
        best = (int(could[1] or arrow["width"]), lane(could[2]) or speed) if could and (could[1] or could[2]) else None
        yield FabricLink((both[0], both[1]), int(arrow["width"]), speed, best)


def lane(gbps: str | None) -> str:
    """The name of a lane's signalling rate, which some versions round; "" for none."""
    return next((name for name, (rate, _) in LANES.items() if gbps and abs(float(gbps) - rate) < 0.004 * rate), "")


def leaves(cables: Sequence[FabricLink], names: Sequence[str]) -> dict[str, str]:
    """The switch of each node that has one; of a node on several, all of them."""
    switches = defaultdict[str, set[str]](set)
    for host, switch in _hosts(cables):
        switches[host.node].add(switch)
    return {name: " + ".join(sorted(switches[short])) for name in names if (short := name.split(".")[0]) in switches}


def _hosts(cables: Iterable[FabricLink]) -> list[tuple[FabricPort, str]]:
    """Ports of hosts, and the switch of each: its description, with its key where several have that."""
    pairs = [(a, b) for link in cables for a, b in (link.ends, link.ends[::-1]) if a.host and not b.host]
    alike = Counter(name for name, _ in {(switch.name, switch.key) for _, switch in pairs})
    return [(host, f"{switch.name} ({switch.key})" if alike[switch.name] > 1 else switch.name) for host, switch in pairs]


def host_gbps(cables: Sequence[FabricLink], names: Sequence[str]) -> dict[str, float]:
    """What all links of each node carry together."""
    wanted, total = {name.split(".")[0]: name for name in names}, dict[str, float]()
    for link in cables:
        for end in link.ends:
            if name := wanted.get(end.node):
                total[name] = total.get(name, 0.0) + link.gbps
    return total


def findings(cables: Sequence[FabricLink], names: Sequence[str]) -> list[FabricFinding]:
    """Links of these nodes, by the names of adapters, and between switches, that run below what both ends support or below most of their
    kind; swapped rails."""
    wanted = {name.split(".")[0] for name in names}
    groups = defaultdict[str, list[FabricLink]](list)
    for link in cables:
        hosts = [end for end in link.ends if end.host]
        if not hosts or any(end.node in wanted for end in hosts):
            groups[f"{hosts[0].adapter}/{hosts[0].port}" if hosts else ""].append(link)
    answer = list[FabricFinding]()
    for group in groups.values():
        counts = Counter((link.width, link.speed) for link in group)
        usual = max(counts, key=lambda each: (counts[each], _gbps(each)))
        for link in group:
            best = max(usual, link.best or usual, key=_gbps)
            if link.gbps < _gbps(best):
                ends = [f"{end.name} port {end.port}" for end in link.ends]
                seen, could = f"{link.width}x{link.speed}", f"{best[0]}x{best[1]}"
                answer.append(FabricFinding(code="narrow" if link.width < best[0] else "slow", members=ends, seen=seen, usual=could))
    return answer + _swapped(_hosts(cables), wanted)


def _swapped(hosts: Sequence[tuple[FabricPort, str]], wanted: set[str]) -> list[FabricFinding]:
    """Adapters of one name that hang on another switch than those of most nodes with the same switches."""
    by_node = defaultdict[str, dict[str, str]](dict)
    for host, switch in hosts:
        if host.node in wanted:
            by_node[host.node][f"{host.adapter}/{host.port}"] = switch
    groups = defaultdict[frozenset[str], list[str]](list)
    for node, switches in by_node.items():
        groups[frozenset(switches.values())].append(node)
    answer = list[FabricFinding]()
    for nodes in groups.values():
        rails = {rail for node in nodes for rail in by_node[node]}
        usual = {rail: Counter(_switches(by_node, nodes, rail)).most_common(1)[0] for rail in rails}
        for node in nodes:
            for rail, own in sorted(by_node[node].items()):
                name, count = usual[rail]
                if own != name and 2 * count > len(nodes):
                    answer.append(FabricFinding(code="swapped", members=[node, rail.split("/")[0]], seen=own, usual=name))
    return answer


def _switches(by_node: Mapping[str, Mapping[str, str]], nodes: Sequence[str], rail: str) -> list[str]:
    return [by_node[node][rail] for node in nodes if rail in by_node[node]]
