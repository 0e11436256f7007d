"""Devices that only play a GPU, as the CUDA driver that the tests bring does: what marks them, says so and refuses them stands here.

Their bundles are kept and shown, each number with the notice `stand_in`. What holds a number against hardware refuses them. (The simulated
GPU needs none of this: its target and its names keep it apart from hardware everywhere.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from hotlap.core.errors import InputError
from hotlap.core.record import Comparison, Device, Notice, Result, RunRecord

NOTICE = Notice("stand_in", "measured on a stand-in, not on a GPU: its numbers are of the processor and of no hardware")
SUFFIX = "(stand-in)"
PARAMETER = "stand_in=true"  # of a case in an exported file


def mark(device: Device) -> Device:
    """The device as a stand-in: by a fact, and by its name, which earlier versions show too."""
    name = device.name if device.name.endswith(SUFFIX) else f"{device.name} {SUFFIX}"
    return replace(device, name=name, facts={**device.facts, "stand_in": True})


def of_run(run: RunRecord) -> list[Device]:
    """The stand-ins among the devices that a run measured."""
    return [device for device in run.machine.devices if device.stand_in and device.key in run.devices]


def noted(result: Result, device: Device | None) -> Result:
    """The result, with the notice where its device is a stand-in."""
    return replace(result, notices=[NOTICE, *result.notices]) if device is not None and device.stand_in else result


def noted_pair(comparison: Comparison) -> Comparison:
    """The same of a comparison of two stand-ins."""
    return comparison if _noted(comparison.notices) else replace(comparison, notices=[NOTICE, *comparison.notices])


def has(result: Result) -> bool:
    """Whether the result is of a stand-in."""
    return _noted(result.notices)


def _noted(notices: Iterable[Notice]) -> bool:
    return any(notice.code == NOTICE.code for notice in notices)


def refuse(runs: Iterable[RunRecord], what: str) -> None:
    """Raises InputError where one of the runs is of a stand-in. `what`: a noun, as in "a baseline"."""
    for run in runs:
        refuse_devices(of_run(run), what, f"run {run.id}")


def refuse_devices(devices: Iterable[Device], what: str, whose: str = "the target") -> None:
    """The same of devices, before anything is measured."""
    found = next((device for device in devices if device.stand_in), None)
    if found:
        raise InputError(
            f"{whose} is of the stand-in {found.name}, which is no GPU, and {what} needs measurements of hardware; "
            "valid: runs on a GPU or processor; of a stand-in: hotlap show, and hotlap compare with another stand-in"
        )


def refuse_mixed(runs: Sequence[RunRecord]) -> bool:
    """Whether all of the runs are of stand-ins. Raises InputError where only some are."""
    kinds = {bool(of_run(run)) for run in runs}
    if len(kinds) > 1:
        refuse(runs, "a comparison with hardware")
    return kinds == {True}
