"""The one grammar of objectives on latency: `ttft<=450ms,tpot<=40ms`. A request is good when it meets all of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from hotlap.core import units
from hotlap.core.errors import InputError, nearest
from hotlap.core.where import Record

_FORM = re.compile(r"\s*([A-Za-z_]\w*)\s*(<=|<|≤|>=|>|=)?\s*(.*?)\s*$")


class Objective(Record, frozen=True, kw_only=True):
    """The most that a latency may be."""

    metric: str
    limit_s: float

    @property
    def text(self) -> str:
        return f"{self.metric}<={units.exact(self.limit_s, 's').replace(' ', '')}"


def parse(text: str, metrics: Mapping[str, str]) -> tuple[Objective, ...]:
    """Objectives, in the order given. `metrics`: those there are, with what they mean.

    Raises InputError for another metric (with the nearest name), no limit, a limit that is no time above zero, and one metric twice.
    """
    objectives = tuple(_objective(part, metrics) for part in text.split(",") if part.strip())
    if not objectives:
        raise InputError(f"'{text}' has no objective; write as in 'ttft<=450ms,tpot<=40ms'; {nearest('', metrics)}")
    names = [objective.metric for objective in objectives]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the objective '{name}' is given twice in '{text}'; give it once")
    return objectives


def _objective(part: str, metrics: Mapping[str, str]) -> Objective:
    match = _FORM.match(part)
    if not match or match[1].lower() not in metrics:
        name = match[1] if match else part.strip()
        raise InputError(f"an objective on '{name}' is not known: {nearest(name.lower(), metrics)}")
    if match[2] not in ("<=", "<", "≤"):
        raise InputError(f"'{part.strip()}' is no objective: a latency has an upper limit; write as in '{match[1]}<=450ms'")
    if match[3].replace(".", "", 1).isdecimal():
        raise InputError(f"'{part.strip()}': the limit has no unit; write as in '{match[1]}<={match[3]}ms'")
    limit_s = units.parse(match[3], "s")
    if not 0 < limit_s < math.inf:
        raise InputError(f"'{part.strip()}': the limit is a time above 0")
    return Objective(metric=match[1].lower(), limit_s=limit_s)


def show(objectives: tuple[Objective, ...]) -> str:
    """As they are written."""
    return ",".join(objective.text for objective in objectives)
