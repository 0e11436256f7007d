"""Operators with recorded shapes against what their machine allows: bound, expected time, headroom."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.model.predict import predict
from hotlap.core.record import Device
from hotlap.core.work import aten, find, traits
from hotlap.traces import recorded
from hotlap.traces.study import Study

MOST = 200  # shapes asked of the model, those that take most time
SLOW = 1.3  # times the expected: less is what libraries differ by from one another
ABOVE = 1.05  # a time that beats its bound by more is an error of the data


class RooflineRow(NamedTuple):
    """One operator with one shape."""

    operator: str
    work: aten.CallRequest
    calls: int
    median_s: float  # device time of a call
    total_s: float
    bound_s: float | None  # nothing can be faster, where each argument is an array of its own; None unknown
    sure_s: float | None  # nor where arguments are broadcast or the same array
    expected_s: float | None
    high_s: float | None  # of the expectation's interval
    places: NDArray[np.int64]  # of its kernels in the trace
    reason: str = ""  # why there is no expectation

    @property
    def impossible(self) -> bool:
        """Faster than the bound: the shape, the time or the machine is not what it seems."""
        return self.sure_s is not None and self.median_s * ABOVE < self.sure_s

    @property
    def headroom_s(self) -> float:
        """What all calls together would save at the expected time; 0 where they are not clearly slower."""
        if self.expected_s is None or self.impossible or self.median_s <= SLOW * self.expected_s:
            return 0.0
        return max(self.total_s - self.calls * self.expected_s, 0.0)

    @property
    def beyond(self) -> bool:
        """Slower than the whole interval of the expectation."""
        return self.high_s is not None and self.median_s > self.high_s


def machine(study: Study) -> str:
    """The machine of the table that a trace was recorded on: as named, else by the name its profiler wrote; "" unknown.

    Raises InputError for a name that is not in the table.
    """
    if study.machine:
        return machines.load(study.machine).slug
    for one in study.events.head.devices:
        device = Device(target="trace", index=0, name=str(one.get("name", "")), kind="gpu", memory_bytes=one.get("totalGlobalMem"))
        if slug := machines.recognise(device):
            return slug
    return ""


def rows(study: Study) -> list[RooflineRow]:
    """Operators by total time, most first, with their limits on their machine; none where shapes or the machine are not known."""
    slug = machine(study)
    if not slug or not len(study.devices):
        return []
    found = []
    for group in itertools.islice(recorded.groups(study), MOST):
        if parts := recorded.asked(group.operator, group.shape):
            found.append(_row(parts, group, slug, _names(study, group.places)))
    return found


def _names(study: Study, places: NDArray[np.int64]) -> Sequence[str]:
    return [study.events.names[int(one)] for one in np.unique(study.events.name[places])]


def _row(parts: Sequence[aten.CallRequest], group: recorded.RecordedGroup, slug: str, kernels: Sequence[str]) -> RooflineRow:
    """An operator of several parts, as both gradients of a convolution, is compared with their limits together."""
    median_s, total_s, count = float(np.median(group.each_s)), float(group.each_s.sum()), len(group.each_s)
    parts = [_typed(one, kernels) for one in parts]
    first = parts[0]
    names = " and ".join(str(one.params["op"]) for one in parts if "op" in one.params)
    work = first if len(parts) == 1 else aten.CallRequest(first.workload, {**first.params, "op": names})
    try:
        limits = [predict(one.workload, slug, **one.params) for one in parts]
        beside = any(traits(one.workload).traffic in ("elements", "rows") for one in parts)
        sure_s = _sure(parts, slug) if beside else _together([one.bound_s for one in limits])
    except InputError as error:
        return RooflineRow(group.operator, work, count, median_s, total_s, None, None, None, None, group.places, str(error))
    bound_s, expected_s, high_s = (
        _together(ends) for ends in zip(*((one.bound_s, one.expected_s, one.high_s or one.expected_s) for one in limits), strict=True)
    )
    reason = next((one.reason for one in limits if one.reason), "")
    sure_s = None if _expanded(group.shape.strides, group.shape.dims) else sure_s
    return RooflineRow(group.operator, work, count, median_s, total_s, bound_s, sure_s, expected_s, high_s, group.places, reason)


def _sure(parts: Sequence[aten.CallRequest], slug: str) -> float | None:
    """The bound of one array alone, the result: what is read may be broadcast, or be the result itself."""
    sizes = [one.params.get("elements") or one.params["rows"] * one.params["columns"] for one in parts]
    copies = [aten.moving(size, one.params["dtype"]) for size, one in zip(sizes, parts, strict=True)]
    return _together([predict(one.workload, slug, **one.params).bound_s for one in copies])


def _expanded(strides: str, dims: str) -> bool:
    """Whether an argument is repeated along a side without taking memory for it."""
    try:
        return any(
            step == 0 and side > 1 for steps, sides in zip(json.loads(strides or "[]"), json.loads(dims), strict=False)
            for step, side in zip(steps, sides, strict=False)
        )  # fmt: skip
    except (ValueError, TypeError):
        return False


def _typed(work: aten.CallRequest, kernels: Sequence[str]) -> aten.CallRequest:
    """Kernels tell that fp32 was multiplied as tf32."""
    dtypes = find(work.workload).param("dtype")
    if work.params.get("dtype") != "fp32" or not dtypes or "tf32" not in dtypes.choices:
        return work
    tf32 = any("tf32" in one or "s1688" in one for one in kernels)
    return aten.CallRequest(work.workload, {**work.params, "dtype": "tf32"}) if tf32 else work


def _together(ends: Sequence[float | None]) -> float | None:
    known = [end for end in ends if end is not None]
    return sum(known) if len(known) == len(ends) else None
