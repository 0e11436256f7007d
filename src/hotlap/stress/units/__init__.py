"""Units of load whose every result is checked: matrix products, memory patterns, link traffic, atomics, pictures."""

from __future__ import annotations

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Target
from hotlap.stress.record import DTYPES
from hotlap.stress.units import graphics, memory, products, simulated, traffic
from hotlap.stress.units.base import TRIES, Unit, Wrong

__all__ = ["TRIES", "Unit", "Wrong", "units"]


def units(target: Target, kind: str, dtypes: list[str], seed: int) -> tuple[list[Unit], dict[str, str]]:
    """The units of one kind of load, and those that the device cannot do, with the reason."""
    units_: list[Unit] = []
    missing: dict[str, str] = {}
    if kind == "products":
        for dtype in dtypes or [one for one in DTYPES if one in target.features]:
            try:
                units_.append(_product(target, dtype, seed))
            except NotSupported as error:
                missing[f"products {dtype}"] = str(error)
        return units_, missing
    if kind == "graphics":
        return [*units_, *(drawn := graphics.units(target, seed))[0]], drawn[1]
    try:
        units_.append(_other(target, kind, seed))
    except NotSupported as error:
        missing[kind] = str(error)
    return units_, missing


def _product(target: Target, dtype: str, seed: int) -> Unit:
    if dtype not in target.features:
        raise NotSupported(f"{target.device.name} has no {dtype} matrix product")
    if target.dialect == "model":
        return simulated.product(target, dtype, seed)
    torch = target.dialect == "torch"
    return products.TorchProduct(target, dtype, seed) if torch else products.KernelProduct(target, dtype, seed)


def _other(target: Target, kind: str, seed: int) -> Unit:
    torch = target.dialect == "torch"
    if target.dialect == "model":
        return simulated.other(target, kind, seed)
    if kind == "link":
        return traffic.LinkTraffic(target, seed)
    if kind == "memory":
        return memory.TorchMemory(target, seed) if torch else memory.KernelMemory(target, seed)
    return traffic.TorchAtomics(target) if torch else traffic.KernelAtomics(target)
