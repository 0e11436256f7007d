"""The last reading of each sensor for whoever scrapes, served by prometheus_client; one that failed or is old is absent."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from hotlap.core.errors import MachineError
from hotlap.core.record import Reading
from hotlap.nodes.sensors import exposition

PORT = 9464  # what OpenTelemetry's exporters use
STALE_PERIODS, RARE_S = 3.0, 10.0  # a reading older than 3 periods, of the watch or its sensor's own up to 10 s, is not exported


class Exporter:
    """Serves /metrics on a port; 0 takes a free one. `labels`: of each device. Raises Unavailable without prometheus_client."""

    def __init__(self, port: int, period_s: float) -> None:
        client = exposition.client()
        self.period_s, self.lock = period_s, threading.Lock()
        self.labels: Mapping[str, Mapping[str, str]] = {}
        self.last: dict[tuple[str, str], tuple[float, float, Reading]] = {}  # when, how long after the one before, what
        registry = client.CollectorRegistry()
        registry.register(self)
        try:
            self.server, self.thread = client.start_http_server(port, registry=registry)
        except OSError as error:
            raise MachineError(f"port {port} cannot be opened: {error.strerror}; name another by --to prometheus:PORT") from None
        self.port = int(self.server.server_port)

    def take(self, readings: list[Reading]) -> None:
        with self.lock:
            now = time.monotonic()
            for one in readings:
                before = self.last.get((one.device, one.sensor))
                self.last[one.device, one.sensor] = (now, min(now - before[0], RARE_S) if before else 0.0, one)

    def collect(self) -> Iterator[Any]:
        """Families of metrics, as prometheus_client asks for them at each scrape."""
        with self.lock:
            now = time.monotonic()
            fresh = [one for at_s, gap_s, one in self.last.values() if now - at_s <= STALE_PERIODS * max(gap_s, self.period_s)]
        return exposition.families(fresh, self.labels)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
