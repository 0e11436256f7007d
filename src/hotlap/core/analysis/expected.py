"""A run against what the model expects: the plan is judged, not each case.

A healthy device has cases that are slower than the model's interval. It fails where it has more of them than in one plan of a hundred
(`stats.beyond`), by what held-out measurements show of the interval; fewer are said and pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from hotlap.core import work
from hotlap.core.analysis.standards import held, unmeasured
from hotlap.core.errors import InputError, NotModelled
from hotlap.core.model import intervals, limits
from hotlap.core.model.expect import expect
from hotlap.core.model.machines import Spec
from hotlap.core.record import Device, Machine, Row, Verdict
from hotlap.core.stats.beyond import Beyond, most
from hotlap.core.units import percent

NAME = "expected"
FINDS = {0.05: 0.024, 0.15: 0.983}  # loss in every case → share of plans of 20 cases that fail (benchmarks/expected.py)
REST = "compare with a baseline or the fleet, or with --against limit --share"


class _Held(NamedTuple):
    """A case that is within the model's stated range."""

    family: str
    healthy: intervals.Healthy
    verdict: Verdict  # against the slow end: fail is beyond it, inconclusive may be


@dataclass(frozen=True)
class AgainstExpected:
    """The model's intervals on the devices of this machine."""

    machine: Machine
    name: str = NAME

    def judge(self, rows: Sequence[Row]) -> list[Verdict]:
        specs = {device.key: (device, limits.spec_for(device, self.machine)) for device in self.machine.devices}
        by_device: dict[str, list[_Held | Verdict]] = {}
        for row in rows:
            by_device.setdefault(row.device, []).append(unmeasured(row) or self._held(row, *specs.get(row.device, (None, None))))
        answers = {key: iter(_judged(own)) for key, own in by_device.items()}
        return [next(answers[row.device]) for row in rows]

    def _held(self, row: Row, device: Device | None, spec: Spec | None) -> _Held | Verdict:
        if spec is None or device is None:
            return _open("the device is not in the machine table")
        try:
            prediction = expect(row.case.workload, row.case.params, spec, row.case.implementation)
        except NotModelled:
            return _unjudged(f"the model expects nothing of {row.case.workload}")
        except InputError as error:
            return _open(str(error))
        if not intervals.tested(prediction.family):
            return _unjudged(f"no reference data on healthy cards for {row.case.workload}; judge it against a baseline or the fleet")
        healthy = intervals.healthy(prediction.family, spec.slug) if spec.original is None else None
        if why := _outside(row, device, spec, healthy, bool(prediction.inside[0]), self.machine.software.get("torch", "")):
            return _open(why)
        assert healthy is not None
        kind, params = work.find(row.case.workload), row.case.params
        usual, slowest = (kind.value(float(seconds[0]), params) for seconds in (prediction.seconds, prediction.high_s))
        verdict = held(row, slowest, NAME, f"slow end of the model's interval: {prediction.known.words}")
        scale = slowest / usual if row.result.better == "higher" else usual / slowest
        low, high = (None if end is None else end * scale for end in (verdict.low, verdict.high))
        return _Held(prediction.family, healthy, replace(verdict, ratio=verdict.ratio and verdict.ratio * scale, low=low, high=high))


def _outside(row: Row, device: Device, spec: Spec, healthy: intervals.Healthy | None, inside: bool, torch: str) -> str:
    """Why the model's interval says nothing of this case; "" where it does."""
    if healthy is None:
        return f"outside of the model's range: such cases were not measured on {spec.name}"
    dtype = str(row.case.params.get("dtype", ""))
    if dtype not in healthy.dtypes:
        return f"outside of the model's range: {dtype} was not measured on {spec.name}, but {', '.join(healthy.dtypes)}"
    if device.target == "torch" and _version(torch) < _version(healthy.torch):
        return f"outside of the model's range: PyTorch {torch or 'of an unknown version'}; measured were {healthy.torch} and later"
    return "" if inside else "outside of the model's range: nothing like this shape was measured"


def _version(text: str) -> tuple[int, ...]:
    """The first two numbers; none of a text that has none."""
    parts = text.split("+")[0].split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()


def _open(reason: str) -> Verdict:
    return Verdict(state="inconclusive", reason=reason, action=REST, against=NAME)


def _unjudged(reason: str) -> Verdict:
    return Verdict(state="measured", reason=reason, against=NAME)


def _judged(rows: Sequence[_Held | Verdict]) -> list[Verdict]:
    """Of one device."""
    known = [row for row in rows if isinstance(row, _Held)]
    kinds: dict[tuple[str, intervals.Healthy], int] = {}
    for one in known:
        kinds[one.family, one.healthy] = kinds.get((one.family, one.healthy), 0) + 1
    allowed = most([Beyond(cases, healthy.share, healthy.alike) for (_, healthy), cases in kinds.items()])
    slow = sum(one.verdict.state == "fail" for one in known)
    unsure = sum(one.verdict.state == "inconclusive" for one in known)
    if allowed >= len(known):  # so few that a healthy device may have nothing but such cases
        cases = "one case" if len(known) == 1 else f"{len(known)} cases"
        few = f"{cases} cannot fail this test; measure at least {_fewest(list(kinds))} shapes"
        return [row if isinstance(row, Verdict) else _too_few(row.verdict, few) for row in rows]
    usual = f"of {len(known)} cases a healthy device has at most {allowed} such in 99 of 100 plans"
    return [row if isinstance(row, Verdict) else _decided(row.verdict, slow, unsure, allowed, usual) for row in rows]


def _fewest(kinds: Sequence[tuple[str, intervals.Healthy]]) -> int:
    """Cases with which a device can fail: the kinds that were measured, in turns."""
    count = 1
    while most([Beyond(len(range(place, count, len(kinds))), of.share, of.alike) for place, (_, of) in enumerate(kinds)]) >= count:
        count += 1
    return count


def _too_few(verdict: Verdict, few: str) -> Verdict:
    return verdict if verdict.state != "fail" else replace(verdict, state="inconclusive", reason=f"{_slower(verdict)}; {few}")


def _decided(verdict: Verdict, slow: int, unsure: int, allowed: int, usual: str) -> Verdict:
    """By how many cases of the plan are slower than the interval, and may be."""
    if verdict.state == "pass":
        return verdict
    sure = verdict.state == "fail"
    if sure and slow > allowed:
        return replace(verdict, reason=f"{_slower(verdict)}; {slow} cases are: {usual}")
    if slow + unsure <= allowed:
        what = f"{_slower(verdict)}: {usual}, and {slow} are" if sure else f"not surely within the model's interval: {usual}"
        return replace(verdict, state="pass", reason=what)
    reason = f"{_slower(verdict)}; {slow} cases are, and {unsure} may be: {usual}" if sure else verdict.reason
    return replace(verdict, state="inconclusive", reason=reason)


def _slower(verdict: Verdict) -> str:
    return f"slower than the model's interval ({percent(verdict.ratio or 0.0)} of the expected speed)"
