"""A change compared with its base: two runs that were measured in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hotlap.core.analysis import turns
from hotlap.core.analysis.standards import unmeasured
from hotlap.core.errors import InputError
from hotlap.core.record import Comparison, Result, Row, State, Stop, Turns, Verdict
from hotlap.core.store import select
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import percent

ADVICE = "less background load, programs that run longer, or a larger --min-effect"
STATES: dict[str, State] = {"slower": "fail", "faster": "pass", "same": "pass"}


@dataclass(frozen=True)
class AgainstBase:
    """The run of the base, in turns with the one that is judged."""

    base: Bundle
    name: str
    stop: Stop

    def judge(self, rows: Sequence[Row]) -> list[Verdict]:
        """Slower beyond the threshold fails; faster or surely the same passes; all else is inconclusive."""
        planned = self.base.run.turns
        if planned is None:
            raise InputError(f"{self.base.run.id} was not measured in turns with another run")
        before = {one.case.id: one for one in select.results(self.base)}
        return [unmeasured(row) or self._compared(before.get(row.case.id), row, planned) for row in rows]

    def _compared(self, before: Result | None, row: Row, planned: Turns) -> Verdict:
        if before is None:
            return Verdict(state="inconclusive", reason="the base has no number for it", against=self.name)
        return _verdict(turns.comparison(before, row.result, planned, self.stop), self.name, planned.min_effect)


def _verdict(compared: Comparison, name: str, min_effect: float) -> Verdict:
    normal = compared.a.median
    threshold = normal and (normal * (1 + min_effect) if compared.better == "lower" else normal / (1 + min_effect))
    change, low, high = compared.change
    state, reason = STATES.get(compared.answer, "inconclusive"), compared.reason
    if change is not None:
        unsure = f"whether by more than {percent(min_effect)} is not certain from {compared.n_b} runs a side: {ADVICE}"
        sure = unsure if state == "inconclusive" else reason
        reason = f"{_signed(compared, change, low, high)}; {sure}"
    return Verdict(
        state=state, reason=reason, against=name, threshold=threshold,
        provenance=f"median of {compared.n_a} runs of the {name}, in turns with this, less {percent(min_effect)}",
        ratio=compared.ratio, low=compared.low, high=compared.high,
    )


def _signed(compared: Comparison, change: float | None, low: float | None, high: float | None) -> str:
    """By how much the metric changes, with its interval."""
    def shown(share: float | None) -> str:
        return "?" if share is None else f"{'+' if share > 0 else ''}{percent(share)}"

    interval = f" [{shown(low)}, {shown(high)}]" if low is not None else ""
    return f"{compared.metric.replace('_', ' ') or 'value'} {shown(change)}{interval}"
