"""Lint of markers: what is wrong with the ranges that a program marks, in one trace, over ranks, and from run to run."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.traces import lint_ranges, lint_several
from hotlap.traces.events import Events
from hotlap.traces.markers import SEVERITIES, Flaw, Linted, Marks, rules


def lint(traces: Sequence[Events], compared: str = "") -> Linted:
    """All rules on each trace, then those on several: as ranks where each names another, else as runs in the order given.

    `compared` is "ranks" or "runs" where that is to be decided by the caller.
    """
    known, framework, parts = rules()
    marks = [Marks(one, framework) for one in traces]
    flaws: list[Flaw] = []
    for one in marks:
        flaws += lint_ranges.flaws(one, known, parts)
    ranks = [one.head.rank for one in traces]
    if not compared and len(traces) > 1:
        compared = "ranks" if None not in ranks and len(set(ranks)) == len(ranks) else "runs"
    not_told: dict[str, str] = {}
    if len(traces) == 1:
        compared = ""
        not_told = dict.fromkeys(("ranks-differ", "names-changed"), "needs several traces")
    elif compared == "ranks":
        flaws += lint_several.ranks(marks, known["ranks-differ"])
    else:
        flaws += lint_several.runs(marks, known["names-changed"])
    if any(one.events.head.reader != lint_ranges.MEASURED for one in marks):
        not_told["too-short"] = "the cost of a range was measured for PyTorch only"
    if not any(len(one.events.work) for one in marks):
        not_told["unmarked"] = "nothing ran on a device"
    flaws.sort(key=lambda one: (-SEVERITIES.index(one.severity), list(known).index(one.rule)))
    return Linted(
        files=[one.file for one in marks], markers=[len(one.places) for one in marks], names=[len(one.ids) for one in marks],
        compared=compared, flaws=flaws, not_told=not_told,
        notices={one.file: one.events.head.notices for one in marks if one.events.head.notices},
    )  # fmt: skip
