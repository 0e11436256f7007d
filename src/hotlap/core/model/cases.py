"""Expected times of many cases on a machine at once: alike ones in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.errors import InputError, NotModelled, NotSupported
from hotlap.core.model import limits
from hotlap.core.model.bounds import MANY
from hotlap.core.model.calibration import Calibration
from hotlap.core.model.expect import expect
from hotlap.core.model.machines import Spec
from hotlap.core.record import Case

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Alike:
    """Cases of one workload that differ in numbers only: `params` has those as arrays. `places` are theirs among all."""

    workload: str
    implementation: str
    params: dict[str, Any]
    places: list[int]
    cases: list[Case]


@dataclass(frozen=True)
class Times:
    """Seconds of each case with the stated 90 % interval; NaN where nothing is expected, and `missing` says why. `bounded`: cases of which
    no time is expected but a bound is known, taken for it."""

    seconds: Floats
    low_s: Floats
    high_s: Floats
    missing: dict[int, str] = field(default_factory=dict)
    bounded: frozenset[int] = frozenset()


def alike(cases: Sequence[Case]) -> list[Alike]:
    """Cases in groups that one pass can take; those whose workload takes no arrays stand alone."""
    groups: dict[tuple[object, ...], list[int]] = {}
    full = [work.find(case.workload).full(case.params) for case in cases]
    for place, (case, params) in enumerate(zip(cases, full, strict=True)):
        texts = tuple((name, value) for name, value in params.items() if isinstance(value, str | bool | list))
        alone = place if case.workload not in MANY else params.get("query") == 1
        groups.setdefault((case.workload, case.implementation, repr(texts), alone), []).append(place)
    similar = []
    for places in groups.values():
        first = full[places[0]]
        params = {
            name: value if isinstance(value, str | bool | list) or len(places) == 1 else np.array([float(full[p][name]) for p in places])
            for name, value in first.items()
        }
        one = cases[places[0]]
        similar.append(Alike(one.workload, one.implementation, params, places, [cases[place] for place in places]))
    return similar


def times(groups: Sequence[Alike], spec: Spec, calibration: Calibration | None = None) -> Times:
    """Of all cases, in the order in which they were given to `alike`."""
    count = sum(len(group.places) for group in groups)
    seconds, low, high = (np.full(count, np.nan) for _ in range(3))
    missing: dict[int, str] = {}
    bounded: set[int] = set()
    for group in groups:
        try:
            level = expect(group.workload, group.params, spec, group.implementation, calibration)
        except InputError as error:
            for place, case in zip(group.places, group.cases, strict=True):
                floor = limits.limit(case, spec).bound_s
                if floor is None:
                    missing[place] = _reason(group.workload, error)
                else:
                    seconds[place] = low[place] = high[place] = floor
                    bounded.add(place)
            continue
        seconds[group.places], low[group.places], high[group.places] = level.seconds, level.low_s, level.high_s
    return Times(seconds, low, high, missing, frozenset(bounded))


def _reason(workload: str, error: InputError) -> str:
    """Without the list of what is valid, which nobody asked for."""
    return workload if isinstance(error, NotModelled) else error.reason


def simulated(groups: Sequence[Alike], spec: Spec) -> Times:
    """The same by the simulated GPU, which gives no interval."""
    from hotlap.core.model.simulate import cases as played

    count = sum(len(group.places) for group in groups)
    seconds, missing = np.full(count, np.nan), dict[int, str]()
    for group in groups:
        for place, case in zip(group.places, group.cases, strict=True):
            try:
                seconds[place] = played.call(case, spec).seconds
            except NotSupported as error:
                missing[place] = str(error)
    return Times(seconds, seconds, seconds, missing)
