"""What a section of a report is made from, and what every section uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from hotlap.core.record import Device, Row
from hotlap.core.show import kinds
from hotlap.core.show.kinds import Kind
from hotlap.core.show.table import text
from hotlap.core.store.bundle import Bundle

Runs = Sequence[tuple[Bundle, Sequence[Row]]]


@dataclass(frozen=True)
class Side:
    """One device of one run: a column where several stand side by side."""

    bundle: Bundle
    device: Device
    rows: tuple[Row, ...]
    name: str


@dataclass(frozen=True)
class Report:
    """Runs that are read and analysed. `known`: run id → its kind, and what that shows of it, of runs that are more than a plan's cases."""

    runs: Runs
    sides: Sequence[Side]
    known: Mapping[str, tuple[Kind, Any]]

    @cached_property
    def measured(self) -> list[Side]:
        """Sides of runs that have cases and rounds."""
        return [side for side in self.sides if side.bundle.run.id not in self.known or self.known[side.bundle.run.id][0].CASES]

    @property
    def rows(self) -> list[Row]:
        """Those of every measured side."""
        return [row for side in self.measured for row in side.rows]

    @cached_property
    def sum(self) -> Bundle | None:
        """The run that says what all the others come to, which carry its labels; None where there is none."""
        first = [bundle for bundle, _ in self.runs if kinds.sums_up(bundle.run.kind) and bundle.run.id in self.known]
        if len(first) != 1 or not first[0].run.labels:
            return None
        return first[0] if all(first[0].run.labels.items() <= bundle.run.labels.items() for bundle, _ in self.runs) else None

    def of(self, kind: str) -> list[Any]:
        """What is shown of each run of a kind."""
        return [self.known[bundle.run.id][1] for bundle, _ in self.runs if bundle.run.kind == kind and bundle.run.id in self.known]

    def each(self, part: Callable[[Side], str]) -> str:
        """A part per measured side, under its name where there are several."""
        parts = [(side, part(side)) for side in self.measured]
        if len(parts) == 1:
            return parts[0][1]
        return "".join(f"<h3>{text(side.name)}</h3>{inner}" for side, inner in parts if inner)


class ReportSection(NamedTuple):
    """A section in the table: its name in the bar, its heading, and its HTML, "" where it has nothing to say.

    `after`: the section that one of a feature stands behind; "" stands first.
    """

    name: str
    title: str
    html: Callable[[Report], str]
    new_page: bool = False
    after: str = ""


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """A list of what is known; what is not is left out."""
    items = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in pairs if value not in (None, "", [], {}))
    return f"<dl>{items}</dl>"
