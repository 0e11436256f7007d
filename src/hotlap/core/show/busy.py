"""A look at the machine in one line."""

from __future__ import annotations

from hotlap.core.record import Look
from hotlap.core.show import words
from hotlap.core.stats.busy import QUIET, expected_noise
from hotlap.core.units import percent

REPLACED = "disturbed samples are taken again, which takes longer, and what stays disturbed is marked"
UNDEFENDED = "disturbed runs are not repeated, so numbers may be worse than on an idle machine"
KEPT = "nothing is taken again: what is disturbed is marked"


def warning(look: Look) -> str:
    """That the machine is busy, and who uses it; "" where it is quiet or nothing could be seen. What comes of it depends on the verb."""
    noise = expected_noise(look)
    if noise is None or noise < QUIET:
        return ""
    return words.clean(f"the machine is busy: {'; '.join(_who(look))}")


def fitness(look: Look, governor: str) -> list[str]:
    """Whether a machine is fit to measure, in lines: how busy it was, and what its processors' clocks do. `governor`: "" unknown."""
    cores = f"others use {look.others_share * look.cores:.1f} of {look.cores} cores" if look.others_share is not None and look.cores else ""
    steal = f"steal {percent(look.steal_share)}" if look.steal_share is not None else ""
    load = warning(look) or ", ".join(filter(None, ("quiet", cores, steal)))
    known = {"": "cannot be read here, as on most virtual machines", "performance": "performance: the clock stays high"}
    clock = known.get(governor, f"{governor}: the clock follows the load; 'performance' keeps it high")
    return [f"load      {load}", f"governor  {words.clean(clock)}"]


def _who(look: Look) -> list[str]:
    users = []
    if look.kind == "gpu" and (look.processes or look.device_share):
        busy = f", which keep it busy {percent(look.device_share)} of the time" if look.device_share else ""
        count = look.processes or 1
        users.append(f"{count} other process{'' if count == 1 else 'es'} on the GPU{busy}")
    if look.others_share is not None and look.cores:
        named = [f"{one.name} (pid {one.pid}) uses {one.cores:.1f} of {look.cores} cores" for one in look.busiest if one.cores >= 0.1]
        used = look.others_share * look.cores
        if named or used >= 0.1:
            users += [" and ".join(named) or f"others use {used:.1f} of {look.cores} cores"]
        if look.runnable is not None and look.runnable > look.cores:
            users.append(f"{look.runnable:.0f} tasks run or wait for a processor")
    elif look.load is not None and look.cores:
        users.append(f"a load of {look.load:.1f} on {look.cores} cores")
    if look.steal_share and look.steal_share >= 0.01:
        users.append(f"the hypervisor gives {percent(look.steal_share)} of the processor's time to others (steal)")
    if not users and look.runnable is not None:  # short tasks, each below what is named
        users.append(f"short tasks of other programs: {look.runnable:.1f} run or wait for a processor on average")
    return users
