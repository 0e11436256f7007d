"""Writes what a program says of its training as MLPerf logs it: `:::MLLOG {json}`, a line per entry, flushed. Runs within the program.

Entries have the fields of mlperf-logging 4.1 (mllog/mllog.py): namespace, time_ms, event_type, key, value, metadata with file and lineno.
The standard library alone is imported. Of several ranks the first alone writes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, TextIO

TOKEN = ":::MLLOG "
OWN = ("mllog_writer.py", "stepping.py")  # not where the program said it
EVENTS = {"start": "INTERVAL_START", "stop": "INTERVAL_END"}


class QualityLog:
    """One file of one process."""

    def __init__(self, path: str) -> None:
        self.pid, self.began, self.ended, self.success, self.evaluations = os.getpid(), False, False, False, 0
        leads = int(os.environ.get("RANK", "0") or 0) == 0
        self.file: TextIO | None = open(path, "a", encoding="utf-8", buffering=1) if leads else None  # noqa: SIM115 - open to the end

    def write(self, key: str, value: Any, metadata: dict[str, Any] | None = None) -> None:
        if self.file is None or self.pid != os.getpid():
            return
        frame = sys._getframe(1)
        while frame.f_back is not None and os.path.basename(frame.f_code.co_filename) in OWN:
            frame = frame.f_back
        about = {"file": os.path.basename(frame.f_code.co_filename), "lineno": frame.f_lineno, **(metadata or {})}
        event = EVENTS.get(key.rpartition("_")[2], "POINT_IN_TIME")
        time_ms = round(time.time() * 1e3, 3)
        entry = {"namespace": "", "time_ms": time_ms, "event_type": event, "key": key, "value": value, "metadata": about}
        self.file.write(f"{TOKEN}{json.dumps(entry)}\n")

    def begin(self) -> None:
        """The clock starts, at the first `with hotlap.steps()`."""
        if not self.began:
            self.began = True
            if seed := os.environ.get("HOTLAP_SEED"):
                self.write("seed", int(seed))
            self.write("run_start", None)

    def evaluated(
        self, value: float, target: float | None, samples: float | None, epoch: float | None, better: str, name: str
    ) -> None:
        self.begin()
        self.evaluations += 1
        about: dict[str, Any] = {"better": better, **({"metric": name} if name else {})}
        about |= {} if target is None else {"target": target}
        counted = {"samples_count": samples, "epoch_num": epoch}
        about.update({key: count for key, count in counted.items() if count is not None} or {"step_num": self.evaluations})
        self.write("eval_accuracy", float(value), about)
        if target is not None and (value >= target if better == "higher" else value <= target) and not self.success:
            self.success = True

    def end(self) -> None:
        """The clock stops."""
        if self.began and not self.ended:
            self.ended = True
            self.write("run_stop", None, {"status": "success" if self.success else "aborted"})


_OPEN: dict[str, QualityLog] = {}


def of(path: str) -> QualityLog:
    """The one log of this process."""
    if path not in _OPEN:
        _OPEN[path] = QualityLog(path)
    return _OPEN[path]
