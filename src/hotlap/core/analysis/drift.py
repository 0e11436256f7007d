"""Whether two sides were measured one after the other, and what the level may have done in between: by the series' own earlier runs, else
by the class of the machine (`drift.toml`), else not at all, where the user says that it was stable."""

from __future__ import annotations

import math
import statistics
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hotlap.core.analysis.history import SIMULATED
from hotlap.core.errors import HotlapError
from hotlap.core.record import IMPORTED, Allowance, Case, Device, Machine, RunRecord
from hotlap.core.stats import drift
from hotlap.core.stats.drift import Drift
from hotlap.core.store import when
from hotlap.core.store.bundle import Bundle, load, target_name
from hotlap.core.store.select import results
from hotlap.core.units import parse

if TYPE_CHECKING:
    from hotlap.core.store.catalog import Entry

DAY_S = 86400.0
MOST = 200  # earlier runs that are read
Past = Mapping[str, Sequence[tuple[float, float]]]
"""By case: when each earlier run began, in seconds since 1970, and the logarithm of its level; in order of time."""


def one_after_the_other(a: Sequence[RunRecord], b: Sequence[RunRecord]) -> bool:
    """Whether all runs of one side had ended, or been begun where no end is known, before the first of the other began."""
    left, right = (_spans(side) for side in (a, b))
    if not left or not right:
        return False
    orders = (left, right), (right, left)
    return any(max(end for _, end in one) <= min(two)[0] and max(one)[0] < min(two)[0] for one, two in orders)


def _spans(runs: Sequence[RunRecord]) -> list[tuple[float, float]]:
    found = []
    for run in runs:
        began = when.seconds(run.began)
        if began is not None:
            found.append((began, max(began, when.seconds(run.ended) or began) if run.ended else began))
    return found


def kept(a: Sequence[RunRecord], b: Sequence[RunRecord], home: Path) -> Past:
    """`past` of the newest runs of the home that fit; one that cannot be read is passed over."""
    from hotlap.core.store.catalog import Catalog  # sqlite3 is loaded when a run is looked for, not before

    sides = [*a, *b]
    first = min((start for start, _ in _spans(sides)), default=None)
    if first is None:
        return {}
    places = {(run.machine.host, target_name(run.target)) for run in sides}
    tags = [{"host": host, "target": target} for host, target in sorted(places)]
    with closing(Catalog(home)) as catalog:
        entries = [one for tag in tags for one in catalog.find(tags=tag, until_s=first, newest=MOST)]
    return past(_read(entries), a, b, {case.id for run in sides for case in run.plan.cases})


def _read(entries: Iterable[Entry]) -> Iterator[Bundle]:
    for entry in entries:
        with suppress(HotlapError):
            yield load(entry.path, readings=False)


def past(bundles: Iterable[Bundle], a: Sequence[RunRecord], b: Sequence[RunRecord], cases: Iterable[str] = ()) -> Past:
    """The runs of the same host, target and devices that began before the older side did; `cases`: ids of those that are wanted, all if
    there are none. A run on several devices counts by the geometric mean over them."""
    sides = [*a, *b]
    first = min((start for start, _ in _spans(sides)), default=math.inf)
    hosts, ids = {run.machine.host for run in sides}, {run.id for run in sides}
    targets, devices, wanted = {target_name(run.target) for run in sides}, {key for run in sides for key in run.devices}, set(cases)
    rounds: dict[str, list[tuple[float, float]]] = {}
    for bundle in bundles:
        run, began = bundle.run, when.seconds(bundle.run.began)
        if began is None or began >= first or run.id in ids or run.machine.host not in hosts or target_name(run.target) not in targets:
            continue
        levels: dict[str, list[float]] = {}
        for result in results(bundle):
            if result.device in devices and result.status == "measured" and result.values and (not wanted or result.case.id in wanted):
                levels.setdefault(result.case.id, []).append(statistics.median(result.values))
        for case, values in levels.items():
            if min(values) > 0:
                rounds.setdefault(case, []).append((began, math.log(statistics.geometric_mean(values))))
    return {case: sorted(points) for case, points in rounds.items()}


def between(a: Sequence[RunRecord], b: Sequence[RunRecord], case: Case, known: Past) -> tuple[Drift, Allowance]:
    """What the level of a case may do between the two sides, and where that is known from."""
    points = known.get(case.id, ())
    days = np.array([int(at // DAY_S) for at, _ in points])
    gap = _gap(a, b)
    learnt = drift.learnt([level for _, level in points], days, gap) if len(points) else None
    runs, counted = len(points), len(set(days.tolist()))
    if learnt is not None:
        return learnt, Allowance(basis="history", drift=math.expm1(float(learnt.reach.max())), runs=runs, days=counted)
    name, share, source = allowance([*a, *b])
    return drift.allowed(share), Allowance(basis="table", drift=share, machine=name, source=source, runs=runs, days=counted)


def _gap(a: Sequence[RunRecord], b: Sequence[RunRecord]) -> int:
    """Days from the middle of the older side to that of the younger; 0 where all runs lie within one day."""
    starts = [[start for start, _ in _spans(side)] for side in (a, b)]
    if len({int(start // DAY_S) for side in starts for start in side}) == 1:
        return 0
    return max(round(abs(statistics.median(starts[0]) - statistics.median(starts[1])) / DAY_S), 1)


def allowance(runs: Sequence[RunRecord]) -> tuple[str, float, str]:
    """Class of the machine, drift as a share, and its source; of several machines the one that drifts most."""
    return max((allowance_of(_class(run)) for run in runs), key=lambda one: one[1])


def allowance_of(name: str) -> tuple[str, float, str]:
    """The table's row of a class."""
    return _classes()[name]


def _class(run: RunRecord) -> str:
    devices = [one for one in run.machine.devices if one.key in run.devices] or [_host(run)]
    return class_of(run.machine, devices)


def class_of(machine: Machine, devices: Sequence[Device]) -> str:
    """The row of the table for these devices of a machine; without any, of its processors."""
    if devices and all(one.target == SIMULATED for one in devices):
        return "simulated"
    if devices and all(one.kind == "gpu" for one in devices):
        return "gpu"
    if machine.virtual:
        return "virtual"
    return "unknown" if any(one.target == IMPORTED for one in devices) else "dedicated"


def _host(run: RunRecord) -> Device:
    return Device(target=target_name(run.target), index=0, name=run.machine.host, kind="cpu")


@cache
def _classes() -> dict[str, tuple[str, float, str]]:
    document = tomllib.loads(Path(__file__).with_name("drift.toml").read_text(encoding="utf-8"))
    return {one["name"]: (one["name"], parse(one["drift"], "%"), one["source"]) for one in document["class"]}
