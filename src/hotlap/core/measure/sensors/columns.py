"""Readings turned into columns: one stretch per sensor, as a bundle keeps them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from hotlap.core.record import Reading, Readings


@dataclass
class ReadingColumn:
    """One sensor since the last drain."""

    times_s: list[float] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    own_s: list[float | None] | None = None  # the sensor's own times, from the first that it gave
    windows_s: float = 0.0  # sum of the averaging windows
    windows: int = 0  # readings that said theirs
    reason: str = ""  # of the last failure

    def add(self, reading: Reading) -> None:
        """One more."""
        if reading.sensor_s is not None and self.own_s is None:
            self.own_s = [None] * len(self.times_s)
        self.times_s.append(reading.time_s)
        self.values.append(reading.value if reading.status == "ok" else None)
        if self.own_s is not None:
            self.own_s.append(reading.sensor_s)
        if reading.window_s is not None:
            self.windows_s += reading.window_s
            self.windows += 1
        self.reason = reading.reason or self.reason

    @property
    def window_s(self) -> float | None:
        """Mean averaging window of those readings that said one, to three digits; None where none did."""
        return float(f"{self.windows_s / self.windows:.3g}") if self.windows else None

    def readings(self, sensor: str, device: str) -> Readings:
        """The stretch; `error` where no reading gave a value."""
        dead = all(value is None for value in self.values)
        return Readings(
            sensor=sensor, device=device, times_s=self.times_s, values=self.values, status="error" if dead else "ok", reason=self.reason,
            window_s=self.window_s, sensor_times_s=self.own_s or [],
        )


class ReadingColumns:
    """Of all sensors since the last drain. One thread may add while another drains."""

    def __init__(self) -> None:
        self.columns: dict[tuple[str, str], ReadingColumn] = {}
        self.unsupported: dict[tuple[str, str], str] = {}  # waiting to be written, once
        self.reported: set[tuple[str, str]] = set()  # those that were
        self.lock = threading.Lock()

    def add(self, readings: Iterable[Reading]) -> None:
        """New readings."""
        with self.lock:
            for one in readings:
                self._keep(one)

    def drain(self) -> list[Readings]:
        """What came since the last drain, one column per sensor; a sensor that is not supported is in the first one only."""
        with self.lock:
            columns, self.columns = self.columns, {}
            absent, self.unsupported = self.unsupported, {}
        return [
            *(Readings(sensor=s, device=d, status="not_supported", reason=reason) for (s, d), reason in absent.items()),
            *(column.readings(*key) for key, column in columns.items()),
        ]

    def _keep(self, reading: Reading) -> None:
        key = (reading.sensor, reading.device)
        if reading.status == "not_supported":
            if key not in self.reported:
                self.reported.add(key)
                self.unsupported[key] = reading.reason
            return
        column = self.columns.get(key)
        if column is None:
            column = self.columns[key] = ReadingColumn()
        column.add(reading)
