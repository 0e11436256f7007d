"""What a rule is, and what it may find before its gain is known."""

from __future__ import annotations

import functools
import importlib.resources
import shlex
import tomllib
from typing import Any, Literal, NamedTuple

from hotlap.core.record import Record
from hotlap.traces.advice.marks import AdviceMarks
from hotlap.traces.replay import ReplayChange


class AdviceRule(Record, frozen=True, kw_only=True):
    """A rule's data, from rules.toml."""

    name: str
    title: str
    least: float  # share below which it is silent; of what, the file says
    remedy: str
    jax: str = ""  # the remedy where the program is JAX's
    switch: str = ""  # an environment variable that mends it: NAME=VALUE
    source: str = ""

    def experiment(self, program: str = "PROGRAM") -> str:
        """The command that measures what the switch gains; "" where no switch does it."""
        return f"hotlap ab {shlex.quote(program)} {shlex.quote(f'env {self.switch} {program}')}" if self.switch else ""


class Tip(NamedTuple):
    """What a rule found. The gain comes from a change of the trace, or is given where no replay can tell."""

    rule: str
    detail: str  # one sentence with numbers
    evidence: dict[str, Any]
    high: ReplayChange | float  # the fix at its best: a change, or a share of the window
    low: ReplayChange | float  # at its least
    confidence: Literal["low", "medium", "high"]
    where: str = ""
    remedy: str = ""  # instead of the rule's, where more is known
    cap: float = 1.0  # share of the window that the fix cannot exceed: what its parent cause takes in all
    switch: bool = True  # whether the rule's switch mends it here
    marks: AdviceMarks | None = None  # where it is in the trace; None: what the change at its best alters


@functools.cache
def rules() -> dict[str, AdviceRule]:
    """All rules by name."""
    text = (importlib.resources.files("hotlap.traces.advice") / "rules.toml").read_text(encoding="utf-8")
    return {name: AdviceRule(name=name, **fields) for name, fields in tomllib.loads(text).items()}


def percent(share: float) -> str:
    """A share in words: 12.3 %."""
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"
