"""Slow transfers explained by as few parts as the Bayesian information criterion allows, from the coarse part to the fine.

log rate = fleet + the largest loss among sender, receiver, uplinks, leaf pair, rail, NIC and link + residual
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from hotlap.bringup import factors
from hotlap.bringup.factors import Groups, TransferNoise
from hotlap.bringup.record import FabricLayout, Flags, Floats, Ints, SlowPart, Transfers
from hotlap.core.errors import MachineError
from hotlap.core.stats import student

SINGLE = 3.0  # standard deviations of a single transfer that a part has to lose: healthy parts of a busy fabric differ lastingly by less
PASSES = 40
CHANCE = 0.05  # over all links, that one is slow so often by disturbances
LEAST_SIGMA = 1e-4  # relative; a simulator without noise has none
MATTERS = 0.01  # by which a transfer is off before it needs an explanation: shaped links repeat to 0.01 %, and what is beside them does not
LEAST_FASTER = 1e-6  # of transfers; where none is faster than what limits it, a single one excludes a slow part against two that are slow


@dataclass
class PartFit:
    """One part that is slow. `effect`: logarithm of what it lets through; `error`: its standard error; `tests`: where it is what limits."""

    factor: SlowPart
    effect: float
    error: float = 0.0
    tests: int = 0
    gain: float = 0.0
    shared: bool = False  # named by what transfers carry together, which share it unfairly

    @property
    def loss(self) -> float:
        return 1.0 - math.exp(self.effect)


@dataclass
class Model:
    """What transfers are explained by. `fleet`: logarithm of the rate without a fault."""

    fleet: float
    noise: TransferNoise
    fits: list[PartFit] = field(default_factory=list)
    off: Floats = field(default_factory=lambda: np.empty(0))
    current: Floats = field(default_factory=lambda: np.empty(0))
    faster: float = 0.0  # the share of links that is clearly faster than the fleet: above a few percent there is no fleet
    groups: list[Groups] = field(default_factory=list)
    view: Floats = field(default_factory=lambda: np.empty(0))  # as `off`; of transfers that share a slow part unfairly, their mean
    weight: Floats = field(default_factory=lambda: np.empty(0))  # of each: 1, or a share of its bundle
    bundles: factors.Bundles | None = None

    def penalty(self, some: Groups, lenient: bool = False) -> float:
        """Of one more part: BIC's half log T for its loss, and the choice among all parts of its kind."""
        return 0.5 * math.log(max(len(self.off), 2)) + (0.0 if lenient else math.log(max(len(some.factors), 1)))


def level(logs: Floats) -> tuple[float, float]:
    """The fleet's logarithm of the rate and its standard deviation: of the upper half's densest part, as faults and disturbances only slow.

    From there, the median of what lies within three standard deviations, until it stays.
    """
    upper = np.sort(logs)[len(logs) // 2 :]
    width = max(len(upper) // 2, 1)
    spans = upper[width:] - upper[: len(upper) - width] if len(upper) > width else np.zeros(1)
    begin = int(np.argmin(spans))
    centre, sigma = float(np.median(upper[begin : begin + width + 1])), max(float(spans[begin]), LEAST_SIGMA)
    for _ in range(30):
        near = logs[np.abs(logs - centre) < 3 * sigma]
        if not len(near):  # between two values of few
            break
        new = float(np.median(near))
        spread = max(1.4826 * float(np.median(np.abs(near - new))) * 1.02, LEAST_SIGMA)
        if abs(new - centre) < 1e-9 and abs(spread - sigma) < 1e-9:
            break
        centre, sigma = new, spread
    return centre, sigma


def _usual(tests: Transfers, values: Floats) -> Floats:
    """The median of each link's, by rail: what a link is only sometimes is noise. [links]"""
    order = np.lexsort((values, tests.rail, tests.receiver, tests.sender))
    link = np.column_stack([tests.sender, tests.receiver, tests.rail])[order]
    first = np.flatnonzero(np.r_[True, (link[1:] != link[:-1]).any(axis=1)])
    count = np.diff(np.r_[first, len(order)])
    ordered = values[order]
    return np.asarray((ordered[first + (count - 1) // 2] + ordered[first + count // 2]) / 2)


def explain(tests: Transfers, where: FabricLayout) -> Model:
    """The model of transfers. Parts are added in passes until none pays for itself. Raises MachineError where nothing was measured."""
    if not len(tests):
        raise MachineError("no transfer between members gave a rate", "hotlap cluster logs --all has what members printed")
    logs = np.log(np.maximum(tests.rate, 1e-12))
    fleet, sigma = level(logs)
    off = np.maximum(logs - fleet, -factors.DEEPEST)
    model = Model(fleet, TransferNoise(sigma, 0.05), off=off, current=np.zeros(len(tests)), groups=factors.groups(tests, where))
    model.bundles = factors.bundles(tests, where) if where.known else None
    model.view, model.weight = off, np.ones(len(tests))
    model.faster = float(np.mean(_usual(tests, off) > max(5 * sigma, MATTERS)))
    dropped = set[SlowPart]()  # that did not pay for themselves beside the others: they would block others in each pass
    for _ in range(PASSES):
        chosen = _best(model, tests, where, dropped)
        model.fits += chosen
        _refit(model, tests, where)
        dropped |= {fit.factor for fit in chosen if fit not in model.fits}
        if not chosen:
            break
        _noise(model)
    while weak := _weak(model, tests, where):
        model.fits = [fit for fit in model.fits if fit.factor not in weak]
        _refit(model, tests, where)
    model.fits.sort(key=lambda fit: (factors.ORDER.index(fit.factor.kind), -fit.loss))
    return model


def _best(model: Model, tests: Transfers, where: FabricLayout, dropped: set[SlowPart]) -> list[PartFit]:
    """Parts whose gain is above their penalty, the best first; of parts that share a slow transfer only the better one in this pass."""
    found_parts: list[tuple[float, PartFit]] = []
    known = {fit.factor for fit in model.fits} | dropped
    for some in model.groups:
        effects, gains = factors.search(some, model.view, model.current, model.noise)
        together, shared = _together(model, some)
        effects, gains = np.where(shared > 0, together, effects), np.where(shared > 0, shared, gains)
        net = gains - model.penalty(some)
        for group in np.flatnonzero((net > 0) & _beyond(model, some, effects) & _again(model, some, tests)):
            factor = some.factor(int(group))
            if factor not in known and _several(model, tests, where, factor) and not _passing(
                model.view - model.current, tests, factor, float(effects[group])
            ):  # fmt: skip
                fit = PartFit(factor, float(effects[group]), gain=float(gains[group]), shared=bool(shared[group] > 0))
                found_parts.append((float(net[group]), fit))
    found_parts.sort(key=lambda each: (-each[0], factors.ORDER.index(each[1].factor.kind)))
    touched, chosen = np.zeros(len(tests), bool), list[PartFit]()
    for _, fit in found_parts:
        place, _offset = factors.members(tests, where, fit.factor)
        slow = place[model.view[place] - model.current[place] < -2 * model.noise.sigma]
        if not touched[slow].any():
            chosen.append(fit)
        touched[slow] = True  # a part that waits for the next pass keeps worse ones waiting
    return chosen


def _passing(left: Floats, tests: Transfers, factor: SlowPart, effect: float) -> bool:
    """Whether a link among so many may be slow so often by disturbances that pass: other transfers are so slow as often, for no reason.

    `left` [T]: what nothing but this link explains.
    """
    if factor.kind != "link":
        return False
    links = tests.sender * (int(tests.receiver.max()) + 1) + tests.receiver
    times, which = np.unique(np.column_stack([links, tests.round]), axis=0, return_inverse=True)  # a disturbance hits all rails at once
    slow = np.bincount(which.ravel(), left < 0.5 * effect) > 0
    own = times[:, 0] == factor.first * (int(tests.receiver.max()) + 1) + factor.second
    count, often = int(own.sum()), int(slow[own].sum())
    usual = (float(slow[~own].sum()) + 1) / (float((~own).sum()) + 2)
    return often == 0 or student.incomplete_beta(usual, often, count - often + 1) * len(np.unique(times[:, 0])) > CHANCE


def _weak(model: Model, tests: Transfers, where: FabricLayout) -> set[SlowPart]:
    """Parts that lost, when all was fitted, what they were chosen for: less than what is told, in a single round, or by chance."""
    current, owner, _, without = limiting(model.fits, tests, where)
    weak = set[SlowPart]()
    for number, fit in enumerate(model.fits):
        mine = owner == number
        passing = _passing(model.view - np.where(mine, without, current), tests, fit.factor, fit.effect)
        if -fit.effect < SINGLE * model.noise.sigma or len(np.unique(tests.round[mine])) < 2 or passing:
            weak.add(fit.factor)
    return weak


def _several(model: Model, tests: Transfers, where: FabricLayout, factor: SlowPart) -> bool:
    """Whether what leaves share is slow for several nodes at both of its ends: else it is that node."""
    if factor.kind not in ("uplink", "uplink-out", "uplink-in", "leaf pair"):
        return True
    place, _ = factors.members(tests, where, factor)
    slow = place[model.view[place] - model.current[place] < -2 * model.noise.sigma]
    ends = np.concatenate([tests.sender[slow], tests.receiver[slow]])
    inside = where.leaf[ends] == factor.first
    return min(len(np.unique(ends[inside])), len(np.unique(ends[~inside]))) > 1


def _together(model: Model, some: Groups) -> tuple[Floats, Floats]:
    """Effects and gains of uplinks and pairs of leaves by what bundles carry together; none of other kinds. [groups], [groups]"""
    effects, gains = np.zeros(len(some.factors)), np.zeros(len(some.factors))
    own = next((each for each in model.bundles.groups if each.kind == some.kind), None) if model.bundles else None
    if own is None:
        return effects, gains
    values, noise = _bundled(model)
    current = model.bundles.mean(model.current)  # type: ignore[union-attr]
    sub_effects, sub_gains = factors.search(own, values, current, noise)
    unfair = _unfair(model, some)
    place = {tuple(factor): number for number, factor in enumerate(some.factors.tolist())}
    for number, factor in enumerate(own.factors.tolist()):
        if unfair[group := place[tuple(factor)]]:
            effects[group], gains[group] = sub_effects[number], sub_gains[number]
    return effects, gains


def _unfair(model: Model, some: Groups) -> Flags:
    """Whether most transfers of a group are slow, and by more different losses than noise makes them. [groups]"""
    count = len(some.factors)
    left = (model.view - model.current)[some.test] / model.noise.sigma
    sizes = np.maximum(np.bincount(some.group, minlength=count), 1)
    order = np.lexsort((left, some.group))
    starts = np.cumsum(sizes) - sizes
    low, middle, high = (left[order][starts + np.rint(part * (sizes - 1)).astype(np.int64)] for part in (0.25, 0.5, 0.75))
    result: Flags = (middle < -2.0) & (high - low > 2.5 * 1.35)  # 1.35: between the quartiles of a normal distribution
    return result


def _bundled(model: Model) -> tuple[Floats, TransferNoise]:
    """What bundles carry together, as logarithms over the fleet's, and its noise: of a mean at least, and what good ones differ by."""
    assert model.bundles is not None
    values = model.bundles.mean(model.view)
    centre, spread = level(values - model.bundles.mean(model.current))
    if centre < -4 * model.noise.sigma:  # all of them are slow, as between two leaves of which one has a slow uplink
        centre = 0.0
    least = model.noise.sigma / math.sqrt(float(np.median(model.bundles.sizes)))
    return values - centre, TransferNoise(max(spread, least), model.noise.disturbed, model.noise.faster)


def _shared(model: Model, owner: Ints, without: Floats) -> None:
    """What is looked at of transfers that share a slow part unfairly, where other parts alone do not explain what they carry together."""
    model.view, model.weight = model.off.copy(), np.ones(len(model.off))
    shared = np.array([fit.shared for fit in model.fits] or [False])
    if model.bundles is None or not shared.any():
        return
    place = np.flatnonzero((owner >= 0) & shared[owner] & (model.bundles.bundle >= 0))
    together = model.bundles.mean(model.off)
    lacking = together < model.bundles.mean(without) - 3 * model.noise.sigma
    place = place[lacking[model.bundles.bundle[place]]]
    bundle = model.bundles.bundle[place]
    model.view[place], model.weight[place] = together[bundle], 1.0 / model.bundles.sizes[bundle]


def _again(model: Model, some: Groups, tests: Transfers) -> Flags:
    """Whether each group is slow in more than a single round: a passing disturbance hits all rails of a transfer. [groups]"""
    slow = model.view[some.test] - model.current[some.test] < -2 * model.noise.sigma
    places = np.unique(some.group[slow] * (int(tests.round.max(initial=0)) + 1) + tests.round[some.test[slow]])
    result: Flags = np.bincount(places // (int(tests.round.max(initial=0)) + 1), minlength=len(some.factors)) > 1
    return result


def _beyond(model: Model, some: Groups, effects: Floats) -> Flags:
    """Whether each effect is beyond what parts without a fault differ by: the largest of so many normal values, and two sigma. [groups]"""
    left = model.view - model.current
    kept = np.abs(left[some.test]) < 4 * model.noise.sigma
    count = len(some.factors)
    many = np.bincount(some.group[kept], minlength=count)
    means = np.bincount(some.group[kept], left[some.test[kept]], count) / np.maximum(many, 1)
    own = model.noise.sigma**2 / np.maximum(np.bincount(some.group, minlength=count), 1)
    usual = many > 0
    spread = (1.4826 * float(np.median(np.abs(means[usual] - np.median(means[usual]))))) ** 2 if usual.sum() > 3 else 0.0
    between = max(spread - float(np.median(own[usual])), 0.0) if usual.sum() > 3 else 0.0
    unsure = 1 + 2 / math.sqrt(2 * max(int(kept.sum()), 1))  # the spread is an estimate: two of its own standard errors more
    result: Flags = -effects > (math.sqrt(2 * math.log(3 * max(count, 1))) + 2) * unsure * np.sqrt(between + own)
    return result & (-effects > SINGLE * model.noise.sigma)


def limiting(fits: list[PartFit], tests: Transfers, where: FabricLayout) -> tuple[Floats, Ints, Floats, Floats]:
    """Of each transfer the largest loss, whose it is (-1: nobody's), its offset, and the largest loss without that part. [T] each"""
    count = len(tests)
    first, second, owner, offset = np.zeros(count), np.zeros(count), np.full(count, -1), np.zeros(count)
    for number, fit in enumerate(fits):
        place, shift = factors.members(tests, where, fit.factor)
        effect = np.minimum(fit.effect + shift, 0.0)
        deeper = effect < first[place]
        top, rest = place[deeper], place[~deeper]
        second[top] = first[top]
        first[top], owner[top], offset[top] = effect[deeper], number, shift[deeper]
        second[rest] = np.minimum(second[rest], effect[~deeper])
    return first, owner, offset, second


def _refit(model: Model, tests: Transfers, where: FabricLayout) -> None:
    """Losses again, all together; parts that do not pay for themselves go."""
    penalties = {some.kind: model.penalty(some) for some in model.groups}
    for _ in range(4):
        current, owner, offset, without = limiting(model.fits, tests, where)
        _shared(model, owner, without)
        mine, size = owner >= 0, len(model.fits)
        off, weight, who = model.view[mine], model.weight[mine], owner[mine]
        near = np.abs(off - current[mine]) < 3 * model.noise.sigma
        many = np.bincount(who[near], weight[near], size)
        total = np.bincount(who[near], (off - offset[mine])[near] * weight[near], size)
        like = model.noise.likelihood(off - current[mine]) - model.noise.likelihood(off - without[mine])
        gains, counts = np.bincount(who, like * weight, size), np.bincount(who[near], minlength=size)
        kept = list[PartFit]()
        for number, fit in enumerate(model.fits):
            if gains[number] <= penalties[fit.factor.kind]:
                continue
            fit.effect = min(float(total[number] / many[number]), 0.0) if many[number] else fit.effect
            fit.tests, fit.gain = int(counts[number]), float(gains[number])
            fit.error = model.noise.sigma / math.sqrt(max(float(many[number]), 1.0))
            kept.append(fit)
        stays = len(kept) == len(model.fits)
        model.fits = kept
        if stays:
            break
    model.current, owner, _, without = limiting(model.fits, tests, where)
    _shared(model, owner, without)


def _noise(model: Model) -> None:
    """The spread and the share of disturbed transfers, of what is left; transfers that are looked at together do not count."""
    alone = model.weight == 1.0
    left = (model.view - model.current)[alone]
    usual = np.abs(left) < 4 * model.noise.sigma
    near = left[usual]
    if len(near) < 8:
        return
    healthy = usual & (model.current[alone] == 0.0)
    shift = float(np.median(left[healthy])) if healthy.any() else 0.0
    model.fleet, model.off = model.fleet + shift, np.maximum(model.off - shift, -factors.DEEPEST)
    model.view = np.maximum(model.view - shift, -factors.DEEPEST)
    left = (model.view - model.current)[alone]
    sigma = max(float(np.std(near)), LEAST_SIGMA)
    slow = float(np.mean(left < -4 * sigma))
    fast = float(np.mean(left[model.current[alone] == 0.0] > 5 * sigma)) if healthy.any() else 0.0
    model.noise = TransferNoise(sigma, min(max(slow, 0.01), 0.3), min(max(fast, LEAST_FASTER), 0.3))


def suspects(model: Model, tests: Transfers, where: FabricLayout) -> set[int]:
    """Nodes that a node's, a direction's or a NIC's loss could explain, before the choice among all is paid for."""
    coarse = [fit for fit in model.fits if fit.factor.kind in factors.COARSE]
    current = limiting(coarse, tests, where)[0]
    nodes = {fit.factor.first for fit in model.fits if fit.factor.kind in ("node", "send", "receive", "nic")}
    for some in model.groups:
        if some.kind in ("node", "send", "receive", "nic"):
            _, gains = factors.search(some, model.view, current, model.noise)
            nodes |= {int(some.factors[group, 0]) for group in np.flatnonzero(gains > model.penalty(some, lenient=True))}
    return nodes


def of_all_rails(tests: Transfers, slow: Flags) -> tuple[Ints, Ints, Flags]:
    """Senders, receivers, and whether any rail was slow, of each transfer once: a disturbance that passes hits all of its rails."""
    times, which = np.unique(np.column_stack([tests.round, tests.sender, tests.receiver]), axis=0, return_inverse=True)
    return times[:, 1], times[:, 2], np.bincount(which.ravel(), slow) > 0


def slow_links(model: Model, tests: Transfers, least: int = 1) -> list[tuple[int, int]]:
    """Pairs that nothing explains, slow in at least so many transfers and fast in none; the slowest first."""
    left = model.view - model.current
    slow, fast = left < -3 * model.noise.sigma, left > -model.noise.sigma
    place = np.flatnonzero(slow)
    pairs = Counter((int(tests.sender[at]), int(tests.receiver[at])) for at in place[np.argsort(left[place])])
    held = set(zip(tests.sender[fast].tolist(), tests.receiver[fast].tolist(), strict=True))
    return [pair for pair, count in pairs.most_common() if count >= least and pair not in held]
