"""Who proposes what is looked at together: balanced combinations and a model of pairs, or Optuna. Neither judges.

A proposer sees costs of single runs and names configurations. Those join the pool beside all single settings; halving, leaving out and the
confirmation on fresh runs are the search's own, whoever proposed.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np

from hotlap.core.errors import InputError
from hotlap.tuning import space as spaces
from hotlap.tuning.space import Configuration, SwitchSetting, TuningSpace

ProposerName = Literal["model", "optuna"]
PROPOSERS: tuple[ProposerName, ...] = ("model", "optuna")
AS_IT_IS = ""  # Optuna's choice of a switch that is left as found


class Proposer(Protocol):
    """`space`: without what failed alone."""

    def next(self) -> Configuration | None:
        """What to run next; None where there is nothing more."""

    def learn(self, configuration: Configuration, log: float | None) -> None:
        """What a run gave: the logarithm of a cost, None where it failed."""

    def best(self, most: int) -> list[Configuration]:
        """What may be best, the best first."""


class ModelProposer:
    """Combinations in which every switch is as found in half of them; then a model of single settings and of pairs."""

    def __init__(self, space: TuningSpace, count: int, seed: int) -> None:
        self.drawn = iter(spaces.combinations(space, count, seed))
        self.tried: list[Configuration] = []
        self.logs: list[float] = []

    def next(self) -> Configuration | None:
        return next(self.drawn, None)

    def learn(self, configuration: Configuration, log: float | None) -> None:
        if log is not None:
            self.tried.append(configuration)
            self.logs.append(log)

    def best(self, most: int) -> list[Configuration]:
        return spaces.proposals(self.tried, np.array(self.logs), most) if self.logs else []


class OptunaProposer:
    """Optuna's sampler TPE (Bergstra and others, NIPS 2011) by `ask` and `tell`, seeded: the same runs lead to the same proposals."""

    def __init__(self, space: TuningSpace, count: int, seed: int) -> None:
        """Raises InputError where Optuna is not installed."""
        self.optuna = optuna_module()
        self.left = count
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of options that Optuna calls experimental
            sampler = self.optuna.samplers.TPESampler(seed=seed, multivariate=True)
        self.study = self.optuna.create_study(sampler=sampler)
        self.choices = {
            name: self.optuna.distributions.CategoricalDistribution([AS_IT_IS, *values]) for name, values in sorted(space.values.items())
        }
        self.asked: dict[Configuration, list[Any]] = {}  # trials that wait for their cost
        self.seen: dict[Configuration, list[float]] = {}

    def next(self) -> Configuration | None:
        if self.left < 1 or not self.choices:
            return None
        self.left -= 1
        trial = self.study.ask(self.choices)
        settings = [SwitchSetting(name, value) for name, value in trial.params.items() if value != AS_IT_IS]
        configuration = spaces.ordered(settings)
        self.asked.setdefault(configuration, []).append(trial)
        return configuration

    def learn(self, configuration: Configuration, log: float | None) -> None:
        states = self.optuna.trial.TrialState
        waiting = self.asked.get(configuration)
        if waiting:
            self.study.tell(waiting.pop(), log, state=states.FAIL if log is None else states.COMPLETE)
        elif log is not None and all(name in self.choices for name, _ in configuration):
            params = dict.fromkeys(self.choices, AS_IT_IS) | dict(configuration)
            self.study.add_trial(self.optuna.trial.create_trial(params=params, distributions=self.choices, value=log))
        if log is not None:
            self.seen.setdefault(configuration, []).append(log)

    def best(self, most: int) -> list[Configuration]:
        ranked = sorted(self.seen, key=lambda one: (statistics.fmean(self.seen[one]), len(one), one))
        return [one for one in ranked if one][:most]


def optuna_module() -> Any:
    """Raises InputError where it is not installed."""
    try:
        import optuna
    except ImportError:
        raise InputError(
            "--propose optuna: Optuna is not installed; pip install optuna brings it, and --propose model needs nothing more"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def proposer(name: ProposerName, space: TuningSpace, count: int, seed: int) -> Proposer:
    """Raises InputError where it needs what is not installed."""
    return OptunaProposer(space, count, seed) if name == "optuna" else ModelProposer(space, count, seed)


def check(name: ProposerName) -> None:
    """Before anything runs. Raises InputError."""
    if name == "optuna":
        optuna_module()


def fed(proposer: Proposer, runs: Sequence[tuple[Configuration, float]]) -> Proposer:
    """The proposer, which has learnt these runs."""
    for configuration, log in runs:
        if math.isfinite(log):
            proposer.learn(configuration, log)
    return proposer
