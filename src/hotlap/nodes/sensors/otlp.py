"""Readings as OpenTelemetry metrics, sent by OTLP over HTTP in JSON.

A metric is hotlap.NAME with its unit beside it, the part of a sensor is the attribute `sensor`. A reading that failed is left
out. Times are the sensor's own where it has one, else when the reading came. Source: OTLP 1.x, "OTLP/HTTP" and its JSON mapping.
"""

from __future__ import annotations

import json
import math
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.record import Reading
from hotlap.nodes.sensors import exposition

URL, PATH = "http://localhost:4318", "/v1/metrics"  # where collectors listen by default
TIMEOUT_S, KEPT = 5.0, 100_000  # readings that wait for a collector that does not answer; the oldest go first
UNITS = {  # the end of a name as Prometheus writes it: UCUM
    "_watts": "W", "_joules": "J", "_celsius": "Cel", "_hertz": "Hz", "_bytes": "By", "_seconds": "s", "_volts": "V", "_amperes": "A",
    "_ratio": "1", "_bytes_per_second": "By/s",
}
SUM_SO_FAR = 2  # AGGREGATION_TEMPORALITY_CUMULATIVE
Timed = tuple[Reading, float]  # with the UNIX time at which it came


def body(timed: list[Timed], labels: Mapping[str, Mapping[str, str]], host: str, began_s: float) -> dict[str, Any]:
    """One request's document. `labels`: device → its labels; `began_s`: UNIX time from which counters are told."""
    metrics: dict[str, dict[str, Any]] = {}
    for reading, came_s in timed:
        if reading.status != "ok" or reading.value is None or not math.isfinite(reading.value):
            continue
        stem, _, part = reading.sensor.partition(".")
        name, unit, counts = _named(stem)
        own = {**labels.get(reading.device, {"device": reading.device}), **({"sensor": part} if part else {})}
        own.pop("host", None)  # it is the resource's
        point: dict[str, Any] = {
            "timeUnixNano": _nanos(reading.sensor_s or came_s),
            "asDouble": reading.value,
            "attributes": _attributes(own),
        }
        kind: dict[str, Any] = {"dataPoints": []}
        if counts:
            point["startTimeUnixNano"] = _nanos(min(began_s, reading.sensor_s or came_s))
            kind |= {"aggregationTemporality": SUM_SO_FAR, "isMonotonic": True}
        metric = metrics.setdefault(name, {"name": name, "unit": unit, "sum" if counts else "gauge": kind})
        metric["sum" if counts else "gauge"]["dataPoints"].append(point)
    resource = {"attributes": _attributes({"service.name": "hotlap", "host.name": host})}
    scopes = [{"scope": {"name": "hotlap"}, "metrics": list(metrics.values())}]
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": scopes}]}


def _named(stem: str) -> tuple[str, str, bool]:
    """hotlap.power, W, and whether it only grows."""
    name, kind = exposition.named(stem)
    name = name.removesuffix("_total")
    ending = max((end for end in UNITS if name.endswith(end)), key=len, default="")
    return f"hotlap.{name.removeprefix('hotlap_').removesuffix(ending)}", UNITS.get(ending, "1"), kind == "counter"


def _attributes(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": text}} for key, text in labels.items()]


def _nanos(time_s: float) -> str:
    return str(round(time_s * 1e9))


def address(url: str) -> str:
    """Where to send to. Raises InputError: it is no URL, or holds a password, which would be shown."""
    parts = urllib.parse.urlsplit(url or URL)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise InputError("--to otlp takes a URL without user and password, as in otlp:http://HOST:4318")
    return parts.geturl() if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{PATH}"


class Sender:
    """Sends what it was given every `period_s`, beside whoever reads sensors. `tell` gets a line when sending fails and when it
    works again."""

    def __init__(self, url: str, period_s: float, host: str, tell: Callable[[str], None]) -> None:
        self.url, self.host, self.tell, self.period_s = address(url), host, tell, max(period_s, 1.0)
        self.labels: Mapping[str, Mapping[str, str]] = {}
        self.waiting: list[Timed] = []
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.lost, self.failed, self.began_s = 0, "", time.time()
        self.reached = False  # the collector has taken something
        self.thread = threading.Thread(target=self._keep, daemon=True)
        self.thread.start()

    def add(self, readings: list[Reading]) -> None:
        now = time.time()
        with self.lock:
            self.waiting += [(one, now) for one in readings]
            self._shorten()

    def close(self) -> None:
        """Sends the rest; what could not be sent is told."""
        self.ended.set()
        self.thread.join(TIMEOUT_S + self.period_s)
        self.send()
        lost = self.lost + len(self.waiting)
        if lost:
            self.tell(f"{lost} readings did not reach {self.url}: {self.failed}")

    def send(self) -> None:
        """All that waits, in one request; kept where that fails."""
        with self.lock:
            batch, self.waiting = self.waiting, []
        if not batch:
            return
        try:
            data = json.dumps(body(batch, self.labels, self.host, self.began_s)).encode()
            asked = urllib.request.Request(self.url, data=data, headers={"Content-Type": "application/json"}, method="POST")
            with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as answer:
                answer.read()
        except Exception as error:  # of the many ways in which a request can fail none may end the watch
            why = getattr(error, "reason", None) or error
            why = str(getattr(why, "strerror", None) or why)
            if not self.failed:
                self.tell(f"readings cannot be sent to {self.url}: {why}; they are kept and sent later")
            self.failed = why
            with self.lock:
                self.waiting = batch + self.waiting
                self._shorten()
            return
        self.reached = True
        if self.failed:
            self.tell(f"readings reach {self.url} again")
            self.failed = ""

    def _shorten(self) -> None:
        over = len(self.waiting) - KEPT
        if over > 0:
            del self.waiting[:over]
            self.lost += over

    def _keep(self) -> None:
        while not self.ended.wait(self.period_s):
            self.send()
