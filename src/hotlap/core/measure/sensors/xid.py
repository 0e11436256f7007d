"""Xid events of one GPU, through NVML's event set, without waiting.

`xid` is the code of the last one since the source was opened, 0 before the first; `xid.count` how many there were, since the
same code twice is otherwise not seen. Several between two readings are a reading each. Events of before are not told by the
driver: they stand in the kernel's log.
"""

from __future__ import annotations

import weakref
from typing import Any

from hotlap.core.record import Reading

XID_EVENT, TIMEOUT = 0x8, 10  # nvmlEventTypeXidCriticalError, NVML_ERROR_TIMEOUT
AT_ONCE = 64  # events taken in one reading: a card that storms must not hold the sampler


class Xids:
    """Raises NVMLError from its constructor where the device or driver has no such events."""

    def __init__(self, binding: Any, handle: Any) -> None:
        self.n = binding
        self.set = binding.nvmlEventSetCreate()
        self.end = weakref.finalize(self, _free, binding, self.set)
        self.last, self.count = 0, 0
        try:
            binding.nvmlDeviceRegisterEvents(handle, XID_EVENT, self.set)
        except binding.NVMLError:
            self.end()
            raise

    def read(self, device: str, time_s: float) -> list[Reading]:
        """Raises NVMLError where waiting failed for another reason than that nothing came."""
        codes = self._new()
        self.count += len(codes)
        self.last = codes[-1] if codes else self.last
        found = [Reading(sensor="xid", device=device, time_s=time_s, value=float(code)) for code in codes or [self.last]]
        return [*found, Reading(sensor="xid.count", device=device, time_s=time_s, value=float(self.count))]

    def _new(self) -> list[int]:
        codes: list[int] = []
        while len(codes) < AT_ONCE:
            try:
                event = self.n.nvmlEventSetWait(self.set, 0)
            except self.n.NVMLError as error:
                if error.value == TIMEOUT or codes:  # what came before the failure is told first; the failure comes again
                    break
                raise
            if event.eventType & XID_EVENT:
                codes.append(int(event.eventData))
        return codes


def _free(binding: Any, events: Any) -> None:
    try:
        binding.nvmlEventSetFree(events)
    except Exception:  # at the interpreter's end the library may be gone
        return
