"""A change compared with its base: two runs that were measured in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from hotlap.core.analysis import changes, turns
from hotlap.core.analysis.standards import unmeasured
from hotlap.core.errors import InputError
from hotlap.core.record import Comparison, Result, Row, State, Stop, Turns, Verdict
from hotlap.core.store import select
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import percent, signed_percent

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
        return _verdict(turns.comparison(before, row.result, planned, self.stop), row.result, self.name, planned.min_effect)


def _verdict(compared: Comparison, result: Result, name: str, min_effect: float) -> Verdict:
    normal = compared.a.median
    threshold = normal and (normal * (1 + min_effect) if compared.better == "lower" else normal / (1 + min_effect))
    less = f", {signed_percent(threshold / normal - 1)}" if threshold and normal else ""
    verdict = Verdict(
        state=STATES.get(compared.answer, "inconclusive"), reason=compared.reason, against=name, threshold=threshold,
        provenance=f"median of {compared.n_a} runs of the {name}, in turns with this{less}",
        ratio=compared.ratio, low=compared.low, high=compared.high,
    )
    size = changes.from_to(result, (normal, compared.b.median), verdict)
    if not size:
        return verdict
    unsure = f"whether by more than {percent(min_effect)} is not certain from {compared.n_b} runs a side: {ADVICE}"
    way = {"slower": ", worse", "faster": ", better"}.get(compared.answer, "")
    return replace(verdict, reason=f"{size}{way}; {unsure if verdict.state == 'inconclusive' else compared.reason}")
