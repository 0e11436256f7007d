"""What a case is: a program with a known defect, the same program with it mended, and the finding that an expert would name first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.advice.program import Program

NOTHING = ""  # as a truth: nothing is worth doing


@dataclass(frozen=True)
class Case:
    """A made trace. `truth` is a rule of docs/findings.md, or NOTHING."""

    name: str
    truth: str
    about: str  # what the program does, and what is wrong with it
    build: Callable[[bool], Program | Sequence[Program]]  # the program, of every rank; True: with the defect mended
    no_gain: bool = False  # mending it saves no time: the data cannot be trusted, or the program will run out of memory
    leave_out: Literal["", "calls", "host"] = ""  # what this profiler does not record: calls of the driver, or anything of the host
    fresh: bool = False  # by a reader who saw only the list of rules

    def programs(self, mended: bool = False) -> list[Program]:
        built = self.build(mended)
        return [built] if isinstance(built, Program) else list(built)

    def write(self, folder: Path) -> list[Path]:
        """The trace of each rank."""
        programs = self.programs()
        paths = [folder / (f"rank{program.rank}.json" if len(programs) > 1 else f"{self.name}.json") for program in programs]
        for program, path in zip(programs, paths, strict=True):
            program.save(path, self.leave_out)
        return paths

    def gain(self) -> float:
        """Share of the length that mending saves, of the slowest rank."""
        if self.no_gain or not self.truth:
            return 0.0
        return 1.0 - max(program.length for program in self.programs(True)) / max(program.length for program in self.programs())
