"""The expected times of many cases at once, those that differ in numbers alone in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hotlap import work
from hotlap.errors import InputError
from hotlap.model import machines
from hotlap.model.bounds import MANY
from hotlap.model.calibration import Calibration
from hotlap.model.expect import expect
from hotlap.record import Case


class Prices(NamedTuple):
    """Seconds of one call by Case.id; and of cases without, why: reason → cases."""

    seconds: dict[str, float]
    unknown: dict[str, list[Case]]


def prices(cases: Sequence[Case], machine: str, calibration: Calibration | None = None) -> Prices:
    """What is expected of each case on a machine of the table. Raises InputError for an unknown machine."""
    spec, found = machines.load(machine), Prices({}, {})
    for group in _groups(cases):
        try:
            seconds = expect(group[0].workload, _together(group), spec, calibration=calibration).seconds
        except InputError as error:
            found.unknown.setdefault(str(error), []).extend(group)
            continue
        for case, one in zip(group, np.broadcast_to(seconds, len(group)).tolist(), strict=True):
            found.seconds[case.id] = one
    return found


def _groups(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases that can be asked for together: of one workload, with the same words; prefill and decode apart."""
    found: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        words = tuple((name, value) for name, value in case.params.items() if not _is_number(value))
        apart: object = case.params.get("query") == 1 if case.workload == "attention" else "" if case.workload in MANY else case.id
        found.setdefault((case.workload, words, apart), []).append(case)
    return list(found.values())


def _together(group: Sequence[Case]) -> dict[str, Any]:
    """One case's parameters, or those of all with numbers as arrays."""
    kind = work.find(group[0].workload)
    rows = [kind.full(case.params) for case in group]
    if len(rows) == 1:
        return rows[0]
    return {name: np.array([row[name] for row in rows], float) if _is_number(value) else value for name, value in rows[0].items()}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
