"""Traces of several ranks, as every verb that meets them answers: all together, then the one that the others wait for most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hotlap.cli import terminal
from hotlap.core.record import Finding
from hotlap.core.show import layout
from hotlap.traces import ranks
from hotlap.traces.advice import ranks as advising
from hotlap.traces.advice.trace import Advice
from hotlap.traces.ranks import AllRanks
from hotlap.traces.show import ranks as printing_ranks
from hotlap.traces.show import trace as printing
from hotlap.traces.study import Study


class Together(NamedTuple):
    """What the ranks' traces say together."""

    whole: AllRanks
    findings: list[Finding]

    @property
    def file(self) -> str:
        """The trace to look into."""
        return self.whole.ranks[self.whole.worst].file


def read(files: Sequence[str], on: str = "processes", machine: str = "", least: float = advising.LEAST_GAIN) -> Together:
    """The ranks of these files; `least`: the gain below which a finding is left out. Raises InputError where none is usable."""
    whole = ranks.analysed(files, on, machine=machine)
    return Together(whole, list(advising.advise(whole, least)))


def text(ranked: Together, study: Study, advice: Advice, kernels: int = printing.KERNELS) -> str:
    """All ranks, then the trace of `ranked.file`, which was opened and advised on."""
    whole, (width, color) = ranked.whole, (terminal.width(), terminal.color())
    why = "the others wait for it most" if whole.arrivals and whole.arrivals.late else "its window is the longest"
    title = layout.painted(f"Rank {whole.worst}: {why}", "bold", color)
    together = printing_ranks.ranks(whole, ranked.findings, width, color)
    return f"{together}\n\n{title}\n{printing.trace(study, advice, width, color, kernels)}"


def document(ranked: Together, advice: Advice) -> dict[str, Any]:
    """The same for programs."""
    worst = {"rank": ranked.whole.worst, "findings": advice.findings, "together": advice.together}
    return printing_ranks.document(ranked.whole, ranked.findings) | {"worst": worst}
