"""How much longer work takes beside other programs if disturbed samples are not repeated, from one look at the machine: whether to warn.

A model of fair shares. Work that wants all n cores, while others use the share b of their time with r tasks runnable, takes
1 + max(b, r / n) times as long, since a scheduler gives each runnable task the same; of what is left the hypervisor takes steal. Work
on a GPU needs one core, (r + 1) / n where that is above 1, and shares the GPU in slices with those on it. So much longer are times
while it lasts; it comes and goes, so medians are off by about as much. `benchmarks/busy.py` prints what was seen beside it.
"""

from __future__ import annotations

from collections.abc import Iterable

from hotlap.core.record import Look, Notice

QUIET = 0.10  # expected noise below which nothing is said of the machine
MANY = 1 / 3  # of a run's cases, from which on the machine was busy for all of them
MOST = 9.0  # ten times as long: beyond it the figure says nothing more
CODES = ("busy", "shared_device", "steal")


def beside(notices: Iterable[Notice]) -> bool:
    """Whether measuring noticed that others ran beside a number."""
    return any(notice.code in CODES for notice in notices)


def expected_noise(look: Look) -> float | None:
    """By what share times would be off, or more, if no disturbed sample were replaced; None where nothing of the machine could be seen."""
    found = _on_processor(look)
    if look.kind != "gpu":
        return found
    device = _on_device(look)
    return device if found is None else max(found, device or 0.0)


def _on_processor(look: Look) -> float | None:
    cores = look.cores or 1
    if look.others_share is None:
        return None if look.load is None else min(_taken(look.load / cores, cores, look.kind), MOST)
    taken = _taken(max(look.others_share, (look.runnable or 0.0) / cores), cores, look.kind)
    left = max(1 - (look.steal_share or 0.0), 1 / (1 + MOST))
    return min((1 + taken) / left - 1, MOST)


def _taken(share: float, cores: int, kind: str) -> float:
    """How much longer our work takes: of all cores, or of the one that a GPU's work needs."""
    return share if kind != "gpu" else max(share + 1 / cores - 1, 0.0)


def _on_device(look: Look) -> float | None:
    """Others take their share of a GPU in turns with us: at most a slice each."""
    if look.device_share is None:
        return None if look.processes is None else 0.0
    most = float(look.processes or 1)
    return min(look.device_share / max(1 - look.device_share, 0.01), most, MOST)
