"""Several programs' numbers of one quantity, and Hotlap's own, as one table: the same limit, and why they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hotlap.core import work
from hotlap.core.record import Case, Row

OURS = "Hotlap"


class BesideRow(NamedTuple):
    """One number. `comparable`: as Hotlap counts it, in the unit of the case that means the same; None where there is none or no number."""

    who: str
    name: str
    row: Row
    comparable: float | None
    differs: str


class Quantity(NamedTuple):
    """Numbers that mean the same. `like`: the case of Hotlap's; None: there is none, and they share their unit alone."""

    name: str
    unit: str
    like: Case | None
    rows: Sequence[BesideRow]


def quantities(rows: Sequence[Row], measures: Mapping[str, str]) -> list[Quantity]:
    """Rows of tools and of our own cases by what they mean. `measures`: tool → quantity, for numbers without a case of ours."""
    groups: dict[tuple[str, str], list[BesideRow]] = {}
    likes: dict[tuple[str, str], Case] = {}
    for row in rows:
        like = _like(row)
        name = work.label(like) if like else measures.get(str(row.case.params.get("tool", "")), "")
        key = (name, row.result.unit or str(row.case.params.get("unit", "")))
        if like:
            likes[key] = like
        groups.setdefault(key, []).append(_entry(row, like))
    return [Quantity(*key, likes.get(key), sorted(members, key=lambda one: one.who != OURS)) for key, members in groups.items()]


def _like(row: Row) -> Case | None:
    """The case of ours that a row means; of our own rows that itself."""
    like = work.traits(row.case.workload).like
    if like is None:
        return row.case
    text, _ = like(row.case.params)
    return work.case_of(text) if text and work.find(text.split()[0]).unit == row.case.params.get("unit") else None


def _entry(row: Row, like: Case | None) -> BesideRow:
    scale = work.traits(row.case.workload).like
    median = row.summary.median
    if scale is None:
        return BesideRow(OURS, work.label(row.case), row, median, "")
    factor = scale(row.case.params)[1]
    label = str(row.case.params.get("name", ""))
    notices = [notice for samples in row.result.rounds for notice in samples.notices if notice.code == "differs"]
    differs = notices[0].seen if notices else ""
    return BesideRow(str(row.case.params["tool"]), label, row, median * factor if like and median is not None else None, differs)
