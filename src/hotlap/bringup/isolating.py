"""The slow part by name: matchings that screen, suspects against good partners, the smallest explanation. Whoever measures is a function.

Each round is both directions of a matching, first the one, then the other: at once, a slow direction would show in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hotlap.bringup import explain, naming, schedule
from hotlap.bringup.explain import Model, PartFit
from hotlap.bringup.record import Evidence, FabricLayout, Floats, Ints, Isolation, Transfers
from hotlap.core.stats import student

Transfer = Callable[[Ints], Floats]  # [P, 2] senders and receivers at once → [P, rails] B/s, NaN where it was not measured
FIRST = 5  # rounds of a tournament after which is looked whether a node, a direction or an uplink explains it
MEETINGS = 3  # good partners that confirm a suspect (clusters study, stage 3)
FEWEST = 6  # nodes, below which two slow transfers are half of all
LEAST_SLOW = 2  # transfers of a round that no part explains, from which it is repeated where nothing is named
BY_CHANCE = 0.001  # that as many of them are slow again by passing disturbances
CONFIRM, CONFIRM_LINKS, CONFIRM_MANY = 4, 6, 24  # rounds at most; the latter two of links, of few nodes and of many, with those before


@dataclass
class Isolating:
    """One isolation on its way. `expected`: B/s of a transfer by a model or a data sheet; None: unknown."""

    where: FabricLayout
    transfer: Transfer
    random: np.random.Generator
    whole: bool = False  # every pair, of many nodes too, even after something is named
    screen: int = 0  # rounds; 0: as many as it takes
    alone: Floats | None = None  # of every GPU by itself, relative to what it should give [N, rails]
    expected: float | None = None
    tell: Callable[[str, int], None] = lambda what, number: None
    tests: Transfers = field(default_factory=Transfers)
    rounds: int = 0
    screened: int = 0
    confirmed: int = 0
    early: frozenset[int] = frozenset()
    more: Callable[[], bool] = lambda: True  # whether there is time for another round
    cut: bool = False  # there was none
    repeated: int = 0  # transfers
    pairs: dict[int, Ints] = field(default_factory=dict)  # of each round, one way

    def run(self) -> tuple[Isolation, Model]:
        """Measures, and names."""
        few, small = self.where.nodes < schedule.FEW, self.where.nodes <= schedule.SMALL
        most = CONFIRM_LINKS if small else CONFIRM_MANY if self.whole else CONFIRM
        if few and not self.screen:
            rounds = schedule.tournament(self.where, self.random)
            self._screen(rounds * (schedule.REPEATS // len(rounds)))
            self._confirm(self._early(), CONFIRM)
        elif (small or self.whole) and not self.screen:
            rounds = schedule.tournament(self.where, self.random)
            self._screen(rounds[:FIRST])
            self._confirm(self._early(), min(CONFIRM, MEETINGS))
            model = explain.explain(self.tests, self.where)
            if self.whole or not model.fits or model.faster >= naming.SHARE:
                self._screen(rounds[FIRST:])
                self._confirm(explain.explain(self.tests, self.where), most - self.confirmed, True)
        else:
            self._screen(schedule.matchings(self.where, self.screen or schedule.screening(self.where.nodes), self.random))
            self._confirm(self._early(), CONFIRM)
        model = explain.explain(self.tests, self.where)
        model, shared = self._group(model)
        again = self._repeated(model) if not model.fits and not shared and self.confirmed < most else frozenset[int]()
        evidence = Evidence(
            self.where, self.tests, self.screened, self.confirmed, self.alone, self.expected, self.early, self.cut, self.repeated, again
        )
        return naming.isolation(evidence, model, shared), model

    def _early(self) -> Model:
        """What screening alone explains."""
        model = explain.explain(self.tests, self.where)
        self.early = frozenset(fit.factor.first for fit in model.fits if fit.factor.kind in naming.OF_NODES)
        return model

    def _round(self, pairs: Ints, what: str) -> bool:
        """Both directions; False where there are no pairs, or no time."""
        if not len(pairs) or not self._may():
            return False
        self._count(what)
        self.pairs[self.rounds] = pairs
        for way in (pairs, pairs[:, ::-1]):
            self.tests.add(way, self.transfer(way), self.rounds, self.where)
        return True

    def _may(self) -> bool:
        """Whether there is time for another round."""
        self.cut = self.cut or not self.more()
        return not self.cut

    def _count(self, what: str) -> None:
        self.rounds += 1
        self.tell(what, self.rounds)

    def _screen(self, rounds: list[Ints]) -> None:
        for pairs in rounds:
            self.screened += self._round(pairs, "screening")

    def _confirm(self, model: Model, most: int, links: bool = False) -> None:
        """Suspects against good partners, until each has met enough; in the first round also all nodes of leaves with a slow uplink."""
        met: dict[int, int] = {}
        again: dict[tuple[int, int], int] = {}
        for number in range(most):
            suspected = explain.suspects(model, self.tests, self.where)
            wanted = {node: self._partners(node) for node in sorted(suspected) if met.get(node, 0) < MEETINGS}
            if links:
                suspected -= {fit.factor.first for fit in model.fits if fit.factor.kind == "link"}
            slow = [(fit.factor.first, fit.factor.second) for fit in model.fits if fit.factor.kind == "link"]
            slow += explain.slow_links(model, self.tests, 1 if links else 2)
            slow = [pair for pair in dict.fromkeys(slow) if again.get(pair, 0) < MEETINGS]
            pairs = schedule.confirmation(self.where, wanted, suspected, slow, self.random)
            for first, second in pairs:
                for node in (int(first), int(second)):
                    met[node] = met.get(node, 0) + 1
                for pair in ((int(first), int(second)), (int(second), int(first))):
                    again[pair] = again.get(pair, 0) + 1
            if number == 0:
                leaves = [fit.factor.first for fit in model.fits if fit.factor.kind in ("uplink", "uplink-out", "uplink-in")]
                busy = {int(node) for node in pairs.ravel()}
                pairs = np.concatenate([pairs, schedule.inside(self.where, dict.fromkeys(leaves), self.random, busy)])
            if not self._round(pairs, "confirming"):
                break
            self.confirmed += 1
            model = explain.explain(self.tests, self.where)

    def _repeated(self, model: Model) -> frozenset[int]:
        """The round in which most transfers were slow, once more as a whole: what passes is fast now, and what transfers share that nobody
        knows of is not, as an uplink of other nodes than the topology says. → nodes of those slow both times, where they are more than
        chance gives. The second time counts for nothing else, so that no single pair is blamed."""
        tests, slow = self.tests, model.view - model.current < -4 * model.noise.sigma
        counts = np.bincount(tests.round[slow], minlength=self.rounds + 1)
        number = int(counts.argmax())
        pairs = self.pairs.get(number)
        if pairs is None or counts[number] < LEAST_SLOW or self.where.nodes < FEWEST or not self._may():
            return frozenset()
        self._count("confirming")
        self.confirmed += 1
        then = slow & (tests.round == number)
        first = set(zip(tests.sender[then].tolist(), tests.receiver[then].tolist(), strict=True))
        both = set[tuple[int, int]]()
        for way in (pairs, pairs[:, ::-1]):
            rates = self.transfer(way)
            self.repeated += int((~np.isnan(rates)).sum())
            slowest = np.where(np.isnan(rates), np.inf, rates).min(axis=1)
            off = np.log(np.maximum(slowest, 1e-12)) - model.fleet
            both |= first & {(int(a), int(b)) for a, b in way[off < -4 * model.noise.sigma]}
        usual = min(max(model.noise.disturbed, 1 / max(2 * len(pairs), 1)), 0.5)
        count, times = len(first), len(both)
        by_chance = student.incomplete_beta(usual, float(times), float(count - times + 1)) if times else 1.0
        return frozenset(node for pair in both for node in pair) if by_chance < BY_CHANCE else frozenset()

    def _partners(self, node: int) -> set[int]:
        tests = self.tests
        others = np.concatenate([tests.receiver[tests.sender == node], tests.sender[tests.receiver == node]])
        return set(others.tolist())

    def _group(self, model: Model) -> tuple[Model, list[PartFit]]:
        """Named nodes that lose alike, among themselves: where they are fast there, what they share is slow, not they. → those that are so,
        as they were named before."""
        nodes = [fit for fit in model.fits if fit.factor.kind in ("node", "send", "receive")]
        names = sorted({fit.factor.first for fit in nodes})
        effects = [fit.effect for fit in nodes]
        alike = len(names) >= 2 and (not self.where.known or (len(names) > 2 and max(effects) - min(effects) < 4 * model.noise.sigma))
        if not alike:
            return model, []
        before = len(self.tests)
        for pairs in schedule.circle(self.random.permutation(names))[:2]:
            self.confirmed += self._round(schedule.carried(self.where, pairs), "confirming")
        if self.cut:
            return model, []
        logs = np.log(np.maximum(self.tests.rate[before:], 1e-12)) - model.fleet
        fast = logs > 0.5 * float(np.median(effects))
        sender, receiver = self.tests.sender[before:], self.tests.receiver[before:]
        among = {node for node in names if fast[(sender == node) | (receiver == node)].mean() > 0.5}
        shared = [fit for fit in nodes if fit.factor.first in among] if len(among) >= 2 else []
        return explain.explain(self.tests, self.where), shared
