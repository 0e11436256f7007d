"""The growth of counters between two readings of one node: what is wrong now, not at some time since boot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hotlap.core.errors import InputError
from hotlap.nodes.facts import Facts

LASTING = (".ecc.", ".remap.")  # counters that a card keeps over a boot: those of its whole life
LEVEL = 1.645  # of the normal distribution: 95 % on one side


@dataclass(frozen=True)
class Earlier:
    """An earlier reading, and how long before the present one it was taken; None where one of them does not say."""

    facts: Facts
    hours: float | None
    rebooted: bool = False

    def growth(self, name: str, now: float) -> tuple[float | None, str]:
        """How much a counter grew; None and the reason where that cannot be determined."""
        before = self.facts.value(name)
        if not isinstance(before, (int, float)) or isinstance(before, bool):
            return None, f"{name} was not known at the earlier reading"
        if self.rebooted and not any(part in name for part in LASTING):
            return None, f"{name}: the node was booted in between, and the counter began anew"
        if now < before:
            return None, f"{name} was {before:g} and is {now:g}: it was cleared in between, or the part was replaced"
        return now - before, ""

    def per_hour(self, count: float) -> float | None:
        """The lowest rate that explains a count: its lower 95 % limit, so that one error in a short time condemns nothing.

        Counts are taken as Poisson's, by Wilson and Hilferty's approximation of chi-square (PNAS 17, 684, 1931).
        """
        if self.hours is None:
            return None
        low = count * (1 - 1 / (9 * count) - LEVEL / (3 * count**0.5)) ** 3 if count >= 1 else 0.0
        return low / self.hours

    def worded(self, count: float) -> str:
        """As in ``5 in 60 s, 300 an hour``."""
        if self.hours is None:
            return f"{count:g}"
        rate = f", {count / self.hours:.3g} an hour" if count else ""
        return f"{count:g} in {span(self.hours)}{rate}"


def span(hours: float) -> str:
    """A length of time for people, in the largest unit that it fills."""
    for unit, length in (("d", 24.0), ("h", 1.0), ("min", 1 / 60)):
        if hours >= length:
            return f"{hours / length:.3g} {unit}"
    return f"{hours * 3600:.3g} s"


def between(before: Facts, now: Facts) -> Earlier:
    """Raises InputError for two nodes, or for readings in the wrong order."""
    if before.host != now.host:
        raise InputError(f"the earlier reading is of '{before.host}', this one of '{now.host}'; growth is computed for one node")
    first, second = (_time(facts.taken) for facts in (before, now))
    hours = (second - first).total_seconds() / 3600 if first and second else None
    if hours is not None and hours < 0:
        raise InputError(f"the earlier reading was taken at {before.taken}, not before this one of {now.taken}")
    boots = [facts.value("kernel.boot_id") for facts in (before, now)]
    return Earlier(before, hours or None, rebooted=None not in boots and boots[0] != boots[1])


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
