"""Any endpoint in Prometheus' text format as a source; dcgm-exporter's fields get Hotlap's names and the GPU they are of."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence

from hotlap.core.errors import InputError
from hotlap.core.record import Reading
from hotlap.nodes.sensors import dcgm, exposition

TIMEOUT_S, BYTES_MAX = 5.0, 16 * 2**20
ACCEPT = "text/plain; version=0.0.4, application/openmetrics-text; q=0.5"


class Scrape:
    """One URL. Raises InputError: it is none of http, or holds a password, which would be shown; Unavailable without prometheus_client."""

    name = "prometheus"

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            self.device = parts.netloc if parts.hostname and parts.port != 0 else ""
        except ValueError:
            self.device = ""
        if not self.device or parts.scheme not in ("http", "https"):
            raise InputError("--scrape takes a URL as in http://HOST:9400/metrics")
        if "@" in self.device:
            raise InputError("--scrape takes no user or password in its URL, where they would be shown; let a proxy add them")
        exposition.client()
        self.url, self.timeout_s = url, timeout_s
        self.seen: list[str] = []

    def names(self) -> Sequence[str]:
        return ["reachable", *self.seen]

    def read(self, time_s: float) -> list[Reading]:
        """One request. Never raises: what failed stands under `reachable`, and nothing else is told."""
        try:
            text = self._text()
        except Exception as error:  # of the many ways in which a request can fail none may end the watch
            why = getattr(error, "reason", None) or error
            why = getattr(why, "strerror", None) or why
            return [Reading(sensor="reachable", device=self.device, time_s=time_s, status="error", reason=f"{self.url}: {why}")]
        samples = exposition.samples(text)
        if all(one.bad for one in samples):
            what = f"it begins {text.strip()[:40]!r}" if text.strip() else "it is empty"
            reason = f"{self.url}: the answer holds no metric in Prometheus' text format: {what}; name the path, as in /metrics"
            return [Reading(sensor="reachable", device=self.device, time_s=time_s, status="error", reason=reason)]
        found = [self._reading(one, time_s) for one in samples]
        self.seen = list(dict.fromkeys(one.sensor for one in found))
        return [Reading(sensor="reachable", device=self.device, time_s=time_s, value=1.0), *found]

    def _text(self) -> str:
        asked = urllib.request.Request(self.url, headers={"Accept": ACCEPT})
        with urllib.request.urlopen(asked, timeout=self.timeout_s) as answer:
            data = answer.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise ValueError(f"the answer is longer than {BYTES_MAX // 2**20} MiB")
        return bytes(data).decode("utf-8", errors="replace")

    def _reading(self, sample: exposition.Sample, time_s: float) -> Reading:
        if dcgm.known(sample):
            return dcgm.translate(sample, self.device, time_s)
        labels = "{" + ",".join(f"{key}={text}" for key, text in sample.labels.items()) + "}" if sample.labels else ""
        return exposition.reading(sample, sample.name + labels, self.device, time_s)
