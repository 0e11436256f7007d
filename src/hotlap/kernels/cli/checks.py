"""How far a check of kernels is, on standard error: an interpreter takes a minute for what a GPU does at once."""

from __future__ import annotations

import sys
import time

from hotlap.cli.progress import LOG_S
from hotlap.core import units, work
from hotlap.core.record import Case


class CheckProgress:
    """One line that is rewritten on a terminal; in a log one a case, at most one in 5 s."""

    def __init__(self, count: int, limit_s: float) -> None:
        self.count, self.limit_s, self.live = count, limit_s, sys.stderr.isatty()
        self.logged_s = time.monotonic() - LOG_S

    def __call__(self, case: Case, done: int) -> None:
        text = f"checking {done + 1} of {self.count}: {work.label(case)}; {units.exact(self.limit_s, 's')} at most"
        if self.live:
            sys.stderr.write(f"\r\x1b[K{text}"[:160])
            sys.stderr.flush()
        elif time.monotonic() - self.logged_s >= LOG_S:
            self.logged_s = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clears the line that was being rewritten."""
        if self.live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
