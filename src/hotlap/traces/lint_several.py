"""Rules of lint that hold several traces against each other: ranks of one run, or runs of one program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from hotlap.traces.marker_names import changed
from hotlap.traces.markers import Flaw, MarkerRule, Marks, Spot, flaw


def ranks(marks: Sequence[Marks], rule: MarkerRule) -> Iterator[Flaw]:
    """Names that some ranks lack, then names that some use more often than others do."""
    used = [one.usage() for one in marks]
    every = sorted({name for one in used for name in one})
    by_lacking: dict[tuple[int, ...], list[str]] = {}
    uneven: list[tuple[str, list[int]]] = []
    for name in every:
        counts = [one.get(name, 0) for one in used]
        if 0 in counts:
            by_lacking.setdefault(tuple(i for i, count in enumerate(counts) if not count), []).append(name)
        elif len(set(counts)) > 1:
            uneven.append((name, counts))
    for lacking, names in by_lacking.items():
        verb = "mark" if len(marks) - len(lacking) > 1 else "marks"
        detail = f"{_ranks(marks, lacking)} {'lacks' if len(lacking) == 1 else 'lack'} what {_others(marks, lacking)} {verb}"
        yield flaw(rule, detail, names=names, places=_first(marks, names[0]), count=len(names))
    if uneven:
        name, counts = uneven[0]
        low, high = int(np.argmin(counts)), int(np.argmax(counts))
        least, most = f"{min(counts):,} × on {_ranks(marks, [low])}", f"{max(counts):,} × on {_ranks(marks, [high])}"
        detail = f"not used equally often: '{name}' {least}, {most}"
        yield flaw(rule, detail, names=[one for one, _ in uneven], places=_first(marks, name), count=len(uneven))


def runs(marks: Sequence[Marks], rule: MarkerRule) -> Iterator[Flaw]:
    """Names that changed from each trace to the next."""
    for before, after in pairwise(marks):
        was, now = before.usage(), after.usage()
        marks_changed = changed(was, now)
        which = f"from {before.file} to {after.file}"
        for old, new in marks_changed.renamed:
            detail = f"{which}: '{old}' ({was[old]:,} ×) seems to be '{new}' ({now[new]:,} ×) now"
            yield flaw(rule, detail, names=[old, new], places=[*_first([before], old), *_first([after], new)])
        if marks_changed.gone:
            spots = _first([before], marks_changed.gone[0])
            yield flaw(rule, f"{which}: no longer there", "info", names=marks_changed.gone, places=spots, count=len(marks_changed.gone))
        if marks_changed.new:
            spots = _first([after], marks_changed.new[0])
            yield flaw(rule, f"{which}: new", "info", names=marks_changed.new, places=spots, count=len(marks_changed.new))


def _ranks(marks: Sequence[Marks], which: Sequence[int]) -> str:
    named = [_rank(marks[i]) for i in which]
    return ("rank " if len(named) == 1 else "ranks ") + ", ".join(named[:8]) + (f" and {len(named) - 8} more" if len(named) > 8 else "")


def _others(marks: Sequence[Marks], which: Sequence[int]) -> str:
    return _ranks(marks, [i for i in range(len(marks)) if i not in which])


def _rank(marks: Marks) -> str:
    return str(marks.events.head.rank) if marks.events.head.rank is not None else marks.file


def _first(marks: Sequence[Marks], text: str) -> list[Spot]:
    """The first use of a name in the first trace that has it."""
    for one in marks:
        if ids := [i for i, found in one.templates.items() if found == text]:
            return one.spots(one.of_names(ids))[:1]
    return []
