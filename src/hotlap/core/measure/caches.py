"""How large a device's last cache is: what cold cases empty and rotated inputs must not fit."""

from __future__ import annotations

from hotlap.core.model import machines
from hotlap.core.record import Device

UNKNOWN_BYTES = 32 << 20


def last_bytes(device: Device) -> int:
    """The largest that the driver or the machine table knows, else 32 MiB: ROCm's driver tells of 4 MiB of L2, not of the 256 MiB of
    Infinity Cache behind it. Of a MIG slice, which is no machine of the table, what the driver tells."""
    slug = device.machine or machines.recognise(device)
    spec = machines.load(slug) if slug and machines.known(slug) else None
    listed = (spec.l2_bytes or 0.0, spec.llc_bytes or 0.0) if spec else ()
    return int(max(device.cache_bytes or 0, *listed, 0)) or UNKNOWN_BYTES
