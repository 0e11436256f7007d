"""From the model of rates to names: parts, losses with intervals, the next best explanation, what would tell, what was not excluded."""

from __future__ import annotations

import math

import numpy as np

from hotlap.bringup import explain, factors, schedule, unfit
from hotlap.bringup.explain import Model, PartFit
from hotlap.bringup.factors import Groups
from hotlap.bringup.record import Culprit, Evidence, FabricLayout, Floats, Ints, Isolation, NamedPart, Open, SlowPart, Transfers
from hotlap.core.stats import student

TELLS = math.log(20)  # odds of 20 to 1: below, the next best explanation is not excluded
NORMAL = 1.96  # of a 95 % interval
UPLINKS = ("uplink", "uplink-out", "uplink-in")
OF_NODES = ("node", "send", "receive")
FEWEST = 4  # nodes, from which on the slow one can be found: of two both transfers are slow, of three most
SHARE = 0.05  # of transfers that may be faster than a fleet


def isolation(run: Evidence, model: Model, shared: list[PartFit]) -> Isolation:
    """What was named, and what is open. `shared`: named nodes that are fast among themselves."""
    where, tests = run.where, run.tests
    fits, among = _merged(model.fits), {fit.factor.first for fit in shared}
    culprits = [_culprit(fit, model, tests, where) for fit in fits if not (fit.factor.kind in OF_NODES and fit.factor.first in among)]
    if shared:
        culprits.insert(0, _group(shared, where))
    unexplained = _unexplained(model, tests, among)
    sure = model.faster < SHARE and unexplained < 0.3 and (where.nodes > 2 or not fits)
    culprits = _gpus(culprits if sure else [], run)
    return Isolation(
        culprits=culprits, nodes=where.nodes, screening=run.screened, confirming=run.confirmed, transfers=len(tests) + run.repeated,
        fleet=math.exp(model.fleet), noise=model.noise.sigma, disturbed=unexplained, faster=model.faster,
        open=_open(run, model, fits, sure), sure=sure,
        below=None if run.expected is None else 1.0 - math.exp(model.fleet) / run.expected,
    )  # fmt: skip


def _unexplained(model: Model, tests: Transfers, among: set[int]) -> float:
    """The share of transfers; those that leave a group of nodes, or enter it, are explained by what these share."""
    source, sink = (np.isin(ends, sorted(among)) for ends in (tests.sender, tests.receiver))
    return float(np.mean((np.abs(model.view - model.current) > max(4 * model.noise.sigma, explain.MATTERS)) & (source == sink)))


def part(factor: SlowPart, where: FabricLayout) -> NamedPart:
    """Its name."""
    if factor.kind == "rail":
        return NamedPart(kind="rail", members=[str(factor.first)])
    if factor.kind in UPLINKS or factor.kind == "leaf pair":
        leaves = [factor.first] if factor.kind in UPLINKS else [factor.first, factor.second]
        return NamedPart(kind=factor.kind, members=[where.leaf_name(leaf) for leaf in leaves])
    second = [] if factor.second < 0 else [where.names[factor.second] if factor.kind == "link" else str(factor.second)]
    return NamedPart(kind=factor.kind, members=[where.names[factor.first], *second])


def _merged(fits: list[PartFit]) -> list[PartFit]:
    """Both directions of a node, or of an uplink, are it."""
    by_factor = {fit.factor: fit for fit in fits}
    for whole, out, into in (("node", "send", "receive"), ("uplink", "uplink-out", "uplink-in")):
        for factor in [factor for factor in by_factor if factor.kind == out]:
            other = by_factor.get(SlowPart(into, factor.first))  # type: ignore[arg-type]
            same = SlowPart(whole, factor.first)  # type: ignore[arg-type]
            if other:
                mine = by_factor.pop(factor)
                del by_factor[other.factor]
                count = mine.tests + other.tests
                effect = (mine.effect * mine.tests + other.effect * other.tests) / max(count, 1)
                by_factor[same] = PartFit(same, effect, mine.error / math.sqrt(2), count, mine.gain + other.gain)
        for factor in [factor for factor in by_factor if factor.kind in (out, into)]:
            if SlowPart(whole, factor.first) in by_factor:  # type: ignore[arg-type]
                del by_factor[factor]
    return list(by_factor.values())


def _culprit(fit: PartFit, model: Model, tests: Transfers, where: FabricLayout) -> Culprit:
    other, odds = runner_up(fit, model, tests, where)
    wide = NORMAL * math.hypot(fit.error, model.noise.sigma / math.sqrt(max(int((model.current == 0).sum()), 1)))
    unsure = other is not None and odds < TELLS
    return Culprit(
        part=part(fit.factor, where), loss=fit.loss, low=max(1 - math.exp(fit.effect + wide), 0.0), high=1 - math.exp(fit.effect - wide),
        tests=fit.tests, runner_up=part(other.factor, where) if other else None, odds=odds,
        telling=telling(fit, other, tests, where) if other and unsure else [],
    )  # fmt: skip


def same(each: Culprit) -> bool:
    """Whether its next best explanation explains as much, and no transfer would distinguish them."""
    return each.runner_up is not None and each.odds < TELLS and not each.telling


def runner_up(fit: PartFit, model: Model, tests: Transfers, where: FabricLayout) -> tuple[PartFit | None, float]:
    """The part that would explain the same transfers next best, and the odds against it (logarithm)."""
    rest = [other for other in model.fits if other.factor != fit.factor and not _halves(other.factor, fit.factor)]
    current = explain.limiting(rest, tests, where)[0]
    place, _ = factors.members(tests, where, fit.factor)
    slow = np.zeros(len(tests), bool)
    slow[place[model.view[place] - current[place] < -2 * model.noise.sigma]] = True
    best, most = None, -math.inf
    mine = -math.inf
    for some in model.groups:
        own, penalty = _only(some, np.unique(some.group[slow[some.test]])), model.penalty(some)
        effects, gains = factors.search(own, model.view, current, model.noise)
        for group in range(len(own.factors)):
            factor, net = own.factor(group), float(gains[group]) - penalty
            if factor == fit.factor:
                mine = max(mine, net)
            elif net > most and gains[group] > 0:
                best, most = PartFit(factor, float(effects[group]), gain=float(gains[group])), net
    if math.isinf(mine):
        mine = fit.gain
    return (best, mine - most) if best else (None, 0.0)


def _only(some: Groups, kept: Ints) -> Groups:
    """Some of the groups."""
    place: Ints = np.full(len(some.factors), -1)
    place[kept] = np.arange(len(kept))
    rows = np.flatnonzero(place[some.group] >= 0)
    return Groups(some.kind, some.test[rows], place[some.group[rows]], some.offset[rows], some.factors[kept])


def _halves(first: SlowPart, second: SlowPart) -> bool:
    """Whether both are of a node, or of an uplink: its directions and itself."""
    return first.first == second.first and any(first.kind in kinds and second.kind in kinds for kinds in (OF_NODES, UPLINKS))


def telling(fit: PartFit, other: PartFit, tests: Transfers, where: FabricLayout) -> list[str]:
    """The transfer that passes one part and not the other, among nodes that are not otherwise suspected; none where all pass both."""
    nodes = [int(node) for each in (fit, other) for node in _nodes(each.factor, where)]
    good = [node for node in range(where.nodes) if node not in nodes][:8]
    pairs = [(a, b) for a in dict.fromkeys([*nodes, *good]) for b in dict.fromkeys([*good, *nodes]) if a != b]
    trial = Transfers()
    trial.add(np.array(pairs), np.ones((len(pairs), where.rails)), 0, where)
    effect = min(fit.effect, other.effect)  # of both: what the two lose differs by their noise
    expected = [explain.limiting([PartFit(each.factor, effect)], trial, where)[0] for each in (fit, other)]
    gap = np.abs(expected[0] - expected[1])
    best = int(np.argmax(gap))
    return [where.names[trial.sender[best]], where.names[trial.receiver[best]]] if gap[best] > 0 else []


def _nodes(factor: SlowPart, where: FabricLayout) -> list[int]:
    if factor.kind in UPLINKS or factor.kind == "leaf pair":
        leaves = [factor.first] if factor.second < 0 else [factor.first, factor.second]
        return [int(node) for leaf in leaves for node in where.members(leaf)[:2]]
    if factor.kind == "rail":
        return []
    return [factor.first, factor.second] if factor.kind == "link" else [factor.first]


def _group(fits: list[PartFit], where: FabricLayout) -> Culprit:
    effect = float(np.median([fit.effect for fit in fits]))
    low, high = min(fit.loss for fit in fits), max(fit.loss for fit in fits)
    return Culprit(
        part=NamedPart(kind="group", members=sorted({where.names[fit.factor.first] for fit in fits})),
        loss=1 - math.exp(effect), low=low, high=high, tests=sum(fit.tests for fit in fits),
    )  # fmt: skip


def _gpus(culprits: list[Culprit], run: Evidence) -> list[Culprit]:
    """A NIC whose GPU is slow by itself is that GPU; GPUs that are slow alone are named with what they lose alone."""
    if run.alone is None:
        return culprits
    logs = np.log(np.maximum(run.alone, 1e-12))
    centre, sigma = explain.level(logs.ravel())
    least = math.sqrt(2 * math.log(max(logs.size, 2))) + 2  # beyond the largest of so many normal values
    answer = list(culprits)
    for node, rail in np.argwhere(logs - centre < -least * sigma):
        members, effect = [run.where.names[node], str(rail)], float(logs[node, rail] - centre)
        answer = [each for each in answer if each.part != NamedPart(kind="nic", members=members)]
        low, high = max(1 - math.exp(effect + NORMAL * sigma), 0.0), 1 - math.exp(effect - NORMAL * sigma)
        answer.append(Culprit(part=NamedPart(kind="gpu", members=members), loss=1 - math.exp(effect), low=low, high=high, tests=1))
    return answer


def smallest(tests: int, penalty: float, model: Model) -> float:
    """The loss that so many transfers of a part would have shown: where the gain in likelihood pays its penalty. 1: none would."""
    if tests == 0:
        return 1.0
    zero = np.zeros(1)
    for loss in np.linspace(0.005, 0.95, 190):
        effect = math.log1p(-loss)
        if -effect < explain.SINGLE * model.noise.sigma:
            continue
        gain: Floats = model.noise.likelihood(zero) - model.noise.likelihood(np.array([effect]))
        if tests * float(gain[0]) > penalty:
            return float(loss)
    return 1.0


def _open(run: Evidence, model: Model, fits: list[PartFit], sure: bool) -> list[Open]:
    """What the transfers do not exclude."""
    where, tests, count = run.where, run.tests, run.where.nodes
    answer = list[Open]()
    by_node = np.bincount(tests.sender, minlength=count) + np.bincount(tests.receiver, minlength=count)
    penalty = {some.kind: model.penalty(some) for some in model.groups}
    few = int(by_node[by_node > 0].min())
    least = smallest(few, penalty["node"], model) if sure and count >= FEWEST else 1.0
    answer.append(Open(code="small", loss=least, count=few))
    links = np.unique(tests.sender * count + tests.receiver)
    repeated = int((np.bincount(np.searchsorted(links, tests.sender * count + tests.receiver)) > 1).sum())
    if count > schedule.SMALL or len(links) < count * (count - 1):
        answer.append(Open(code="links", count=len(links), of=count * (count - 1), loss=float(repeated)))
    untested = [where.names[node] for node in np.flatnonzero(by_node == 0)]
    if untested:
        answer.append(Open(code="untested", members=untested, count=len(untested)))
    kept = {fit.factor.first for fit in fits if fit.factor.kind in (*OF_NODES, "nic")}
    vanished = [where.names[node] for node in sorted(run.early - kept)]
    if vanished:
        answer.append(Open(code="vanished", members=vanished, count=len(vanished)))
    effects = [fit.effect for fit in fits if fit.factor.kind == "link"]
    alike = len(effects) if len(effects) > 1 and max(effects) - min(effects) < 4 * model.noise.sigma else 0
    ways = sum(fit.factor.kind == "leaf pair" for fit in fits)
    if alike or ways > 1:
        answer.append(Open(code="alike", count=alike + (ways if ways > 1 else 0)))
    members, loss = unfit.sharing(tests, where, model)
    again = [where.names[node] for node in sorted(run.again)]
    if together := [where.names[node] for node in members] or sharing(tests, model, where) or again:
        answer.append(Open(code="sharing", members=together, count=len(together), loss=loss))
    slow = {fit.factor.first for fit in fits if fit.factor.kind in UPLINKS}
    within = np.bincount(np.concatenate([tests.sender[tests.out == 0], tests.receiver[tests.out == 0]]), minlength=count)
    masked = [where.names[node] for node in range(count) if int(where.leaf[node]) in slow and within[node] == 0]
    if masked:
        answer.append(Open(code="masked", members=masked, count=len(masked)))
    if where.known:
        answer += _uplinks(where, tests)
    else:
        answer.append(Open(code="topology"))
    if run.expected is None:
        answer.append(Open(code="common"))
    if run.cut:
        answer.append(Open(code="cut", count=run.screened + run.confirmed))
    if run.alone is None and any(fit.factor.kind == "nic" for fit in fits):
        answer.append(Open(code="gpu"))
    return answer


def sharing(tests: Transfers, model: Model, where: FabricLayout) -> list[str]:
    """Nodes, two to half of all, whose transfers are slow without an explanation more often than those of most: binomial, 5 % over all."""
    sender, receiver, slow = explain.of_all_rails(tests, model.view - model.current < -4 * model.noise.sigma)
    ends, both = np.concatenate([sender, receiver]), np.concatenate([slow, slow]).astype(float)
    counts, slows = (np.bincount(ends, weights, where.nodes) for weights in (None, both))
    shares = slows / np.maximum(counts, 1)
    usual = max(float(np.median(shares[counts > 0])), model.noise.disturbed)
    least = SHARE / where.nodes
    names = [
        where.names[node] for node in np.flatnonzero(shares > usual)
        if student.incomplete_beta(usual, float(slows[node]), float(counts[node] - slows[node] + 1)) < least
    ]  # fmt: skip
    return names if 2 <= len(names) <= where.nodes / 2 else []


def _uplinks(where: FabricLayout, tests: Transfers) -> list[Open]:
    """Uplinks that carried nothing, and such that carried less than the others, as their leaf lacks nodes."""
    full = where.full()
    loaded = np.zeros(len(full), np.int64)
    crossing = tests.out > 0
    np.maximum.at(loaded, where.leaf[tests.sender[crossing]], tests.out[crossing])
    np.maximum.at(loaded, where.leaf[tests.receiver[crossing]], tests.into[crossing])
    idle = [where.leaf_name(int(leaf)) for leaf in np.flatnonzero((loaded == 0) & (full > 0))]
    light = [where.leaf_name(int(leaf)) for leaf in np.flatnonzero((loaded > 0) & (loaded < int(full.max())))]
    answer = [Open(code="uplinks", members=idle, count=len(idle))] if idle else []
    return answer + ([Open(code="light", members=light, count=len(light))] if light else [])
