"""What the model expects of a step, as it is kept with the run. All times are seconds."""

from __future__ import annotations

from typing import Literal

from hotlap.core.record import Record

Section = Literal["forward", "backward", "optimiser"]


class ExpectedPart(Record, frozen=True, kw_only=True):
    """Kernels of one kind in one pass of a step."""

    section: Section
    name: str  # products, attention, passes, tables, updates, framework; on a GPU the model's families
    seconds: float


class ExpectedStep(Record, frozen=True, kw_only=True):
    """`seconds` None: nothing is expected, `why` says why and `fix` what to type. Low and high are a 90 % interval."""

    arm: str = ""
    seconds: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    parts: list[ExpectedPart] = []
    calls: float = 0.0  # of the framework's operations
    on: str = ""  # the device, or its entry in the machine table
    words: str = ""  # how sure it is: what it follows from
    remarks: list[str] = []  # what of the step is not in it
    why: str = ""
    fix: str = ""

    def section_s(self, section: str) -> float:
        return sum(part.seconds for part in self.parts if part.section == section)

    def named_s(self, name: str) -> float:
        return sum(part.seconds for part in self.parts if part.name == name)
