"""Which unit of a phase runs next: equal time for each, or most of it for those that draw the most power; and where a cycle goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hotlap.stress.record import Phase

ALIKE = 0.98  # of the most power that any unit draws: it counts among the hottest


@dataclass
class DutyScheduler:
    """Fair by time, not by count: a slow dtype gets no more of it than a fast one."""

    spent_s: dict[str, float] = field(default_factory=dict)  # unit → time that it had
    hot: frozenset[str] = frozenset()  # units that draw the most; empty where that is not known

    def learn_power(self, watts: Mapping[str, float]) -> None:
        """Learns what each unit drew alone."""
        most = max(watts.values(), default=0.0)
        self.hot = frozenset(name for name, drawn in watts.items() if most > 0 and drawn >= ALIKE * most)

    def next(self, names: Sequence[str], hottest: float) -> int:
        """The place of the unit that is furthest behind its share; one that never ran comes first. `hottest`: share of the time for
        those that draw the most; 0 is equal time for all."""
        shares = self._shares(names, hottest)
        return min(range(len(names)), key=lambda n: (self.spent_s.get(names[n], 0.0) / shares[n], n))

    def _shares(self, names: Sequence[str], hottest: float) -> list[float]:
        hot = [name in self.hot for name in names]
        if not hottest or not any(hot) or all(hot):
            return [1.0] * len(names)
        return [hottest / sum(hot) if one else max(1 - hottest, 1e-3) / (len(hot) - sum(hot)) for one in hot]

    def record(self, name: str, seconds: float) -> None:
        self.spent_s[name] = self.spent_s.get(name, 0.0) + seconds

    def never_ran(self, names: Sequence[str]) -> bool:
        """Whether one of these never ran."""
        return any(name not in self.spent_s for name in names)


def rest(phases: Sequence[Phase], done_s: float, left_s: float) -> list[tuple[Phase, float]]:
    """Phases that are left of the cycle in which a run of `done_s` stands, and how long each: shorter where time is left for less than
    that, so that the last of them is not cut off."""
    cycle_s = sum(one.seconds for one in phases)
    past_s = done_s % cycle_s
    parts: list[tuple[Phase, float]] = []
    for one in phases:
        skipped_s, past_s = min(one.seconds, past_s), max(past_s - one.seconds, 0.0)
        if skipped_s < one.seconds:
            parts.append((one, one.seconds - skipped_s))
    ahead_s = sum(seconds for _, seconds in parts)
    short = left_s / ahead_s if 0.8 * ahead_s < left_s < ahead_s else 1.0  # a probe, or a process that began again, took the difference
    return [(one, seconds * short) for one, seconds in parts]
