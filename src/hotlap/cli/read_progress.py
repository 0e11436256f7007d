"""How far a verb is that reads many runs."""

from __future__ import annotations

import sys
import time

QUIET_S = 2.0  # before anything is said of how far it is
LOG_S = 15.0  # between two lines in a log


class ReadProgress:
    """One line that is rewritten on a terminal, once it takes longer than `QUIET_S`; in a log a line every `LOG_S`."""

    def __init__(self) -> None:
        self.live, self.drawn, self.said_s = sys.stderr.isatty(), False, time.monotonic()

    def count(self, done: int, count: int, what: str = "runs read") -> None:
        now_s = time.monotonic()
        if self.live and (self.drawn or now_s - self.said_s >= QUIET_S):
            sys.stderr.write(f"\r\x1b[K{done} of {count} {what}")
            sys.stderr.flush()
            self.drawn = True
        elif not self.live and now_s - self.said_s >= LOG_S:
            self.said_s = now_s
            print(f"hotlap: {done} of {count} {what}", file=sys.stderr)

    def __enter__(self) -> ReadProgress:
        return self

    def __exit__(self, *_: object) -> None:
        """Clears the line."""
        if self.drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
