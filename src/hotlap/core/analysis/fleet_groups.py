"""Devices that stand out, those of one host together where most of them do: a node's fault is one line, not eight."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hotlap.core.analysis.fleets import FleetDevice, FleetVerdict

LEAST = 4  # devices of a host, from which half of them being bad is the host's matter


@dataclass(frozen=True)
class FleetGroup:
    """Devices of one line. `devices`: the worst first. `of`: how many the host has, where it stands for its devices; else 1."""

    devices: list[FleetDevice]
    of: int = 1

    @property
    def first(self) -> FleetDevice:
        return self.devices[0]

    @property
    def level(self) -> float | None:
        """The middle of the devices' levels."""
        known = sorted(device.level for device in self.devices if device.level is not None)
        return known[len(known) // 2] if known else None

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Of all intervals."""
        lows = [device.low for device in self.devices if device.low is not None]
        highs = [device.high for device in self.devices if device.high is not None]
        return min(lows, default=None), max(highs, default=None)


def groups(judged: FleetVerdict) -> list[FleetGroup]:
    """The named devices in their order. A host stands for its bad ones where all are bad, or at least half of four or more."""
    hosts = Counter(device.host for device in judged.devices)
    bad: dict[str, list[FleetDevice]] = {}
    for device in judged.named:
        if device.code != "fast":
            bad.setdefault(device.host, []).append(device)
    whole = {host for host, own in bad.items() if len(hosts) > 1 and len(own) > 1 and _most(len(own), hosts[host])}
    lines: list[FleetGroup] = []
    for device in judged.named:
        if device.host not in whole or device.code == "fast":
            lines.append(FleetGroup([device]))
        elif device is bad[device.host][0]:
            lines.append(FleetGroup(bad[device.host], hosts[device.host]))
    return lines


def _most(bad: int, devices: int) -> bool:
    return bad == devices or (devices >= LEAST and 2 * bad >= devices)
