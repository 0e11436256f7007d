"""Whether the time that sampling took is in the samples: a kernel that swaps timers in its process does not reach the session's clock."""

from __future__ import annotations

from msgspec.structs import replace

from hotlap.core.measure import guard
from hotlap.core.measure.protocol import Sampling
from hotlap.core.record import Samples

CLOCK_SHARE, CLOCK_S = 0.75, 0.05  # so much of the time that sampling took must be in the worker's account, but for so many seconds


class GuardAccount(guard.Account):
    """Of a process that runs users' kernels."""

    def __init__(self) -> None:
        self.begun: tuple[Sampling, float] | None = None  # the message that sampling begins, and when it came
        self.took = (0.0, 0.0)  # how long sampling lasted at least, and by the worker's account

    def sampling(self, message: Sampling, now_s: float, silent_s: float) -> None:
        account_s = message.timed_s + message.between_s
        if not account_s:
            self.begun = message, now_s
        elif self.begun is not None:
            (first, came_s), self.begun = self.begun, None
            # A loaded or stopped host delivers either message late, by seconds, so that when the last one came says nothing. Two things
            # do, and the longer one counts: what lies between the two messages' own times (a kernel that swaps timers does not reach
            # their clock), and, should these be forged, the time from the first message's coming to the last look that found nothing:
            # the second one was not sent by then. That the first came late, or that nobody could look for a while, only shortens it.
            self.took = max(message.sent_s - first.sent_s, silent_s - came_s), account_s

    def judged(self, samples: Samples) -> Samples:
        """Samples that add up to less time than sampling lasted were not timed by a clock that can be believed."""
        (lasted_s, account_s), self.took = self.took, (0.0, 0.0)
        if samples.status != "measured" or account_s >= CLOCK_SHARE * lasted_s - CLOCK_S:
            return samples
        reason = f"sampling lasted {lasted_s:.3g} s and its samples account for {account_s:.3g} s: its timer was tampered with"
        return replace(samples, status="invalid", reason=reason)
