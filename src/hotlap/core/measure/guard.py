"""What may watch code that nobody vouches for while it is measured. Core trusts; who brings such code brings a guard of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hotlap.core.measure.protocol import Sampling
from hotlap.core.record import Samples

spent: list[str] = []
"""Why nothing more can be measured in this process, which then ends: a guard adds to it."""


class Guard:
    """Of one operator, in the process that measures it. What answers with a string says what cannot stand; "": nothing."""

    again = False  # whether a call on changed input is timed against the same call again

    def watch(self, library: Any, target: Any, parts: Sequence[tuple[Any, Sequence[str]]]) -> None:
        """From now on. `parts`: owners, and the names of their functions that time and check."""

    def placed(self, value: Any) -> Any:
        """An input as the operator is given it."""
        return value

    def outside(self, inputs: Mapping[str, Any]) -> str:
        """The input beside whose memory something was written."""
        return ""

    def refused(self, outputs: Sequence[Any], inputs: Mapping[str, Any], place: Any, writes: Sequence[str]) -> str:
        """Why outputs cannot stand as results."""
        return ""

    def shared(self, first: Sequence[Any], second: Sequence[Any], inputs: Mapping[str, Any], writes: Sequence[str]) -> str:
        """Why the outputs of two calls are not two results."""
        return ""

    def unfinished(self, place: Any) -> str:
        """What goes on after a call has returned."""
        return ""

    def replaced(self) -> str:
        """Which part of what times and checks is no longer what it was."""
        return ""


class Account:
    """Of one process, in the session: whether its account of where time went can be believed. This one believes it."""

    def sampling(self, message: Sampling, now_s: float, silent_s: float) -> None:
        """A message that came `now_s`; until `silent_s`, nothing had come."""

    def judged(self, samples: Samples) -> Samples:
        """A case's samples as they can stand."""
        return samples
