"""The expected times of many cases at once, those that differ in numbers alone in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hotlap.core.errors import InputError, NotModelled
from hotlap.core.model import machines
from hotlap.core.model.calibration import Calibration
from hotlap.core.model.cases import alike
from hotlap.core.model.expect import expect
from hotlap.core.record import Case


class Prices(NamedTuple):
    """Seconds of one call by Case.id; and of cases without, why: reason → cases, "" where the model expects nothing of the workload."""

    seconds: dict[str, float]
    unknown: dict[str, list[Case]]


def prices(cases: Sequence[Case], machine: str, calibration: Calibration | None = None) -> Prices:
    """What is expected of each case on a machine of the table. Raises InputError for an unknown machine."""
    spec, priced = machines.load(machine), Prices({}, {})
    for group in alike(cases):
        try:
            seconds = expect(group.workload, group.params, spec, group.implementation, calibration).seconds
        except InputError as error:
            priced.unknown.setdefault("" if isinstance(error, NotModelled) else error.reason, []).extend(group.cases)
            continue
        for case, one in zip(group.cases, np.broadcast_to(seconds, len(group.cases)).tolist(), strict=True):
            priced.seconds[case.id] = one
    return priced
