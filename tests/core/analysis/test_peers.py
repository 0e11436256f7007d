"""Which of several devices changed otherwise than the others: the error of both counts, the worst is named first."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.analysis.matching import Values
from hotlap.core.analysis.peers import Peers, judged, peers, slower
from hotlap.core.record import Case, Comparison, OnDevice
from hotlap.core.show import comparison
from hotlap.core.stats.summary import summarize

NOISE = 0.004


def side(rng: np.random.Generator, levels: list[float], rounds: int = 6, hosts: bool = True, name: str = "a") -> Values:
    """Rates by run and device: a run of each, or one run of all whose rounds have noise in common."""
    shared = 0.0 if hosts else rng.normal(0, 5 * NOISE, rounds)
    return {
        (f"{name}{n}" if hosts else name, f"d{n}"): tuple(level * np.exp(shared + rng.normal(0, NOISE, rounds)))
        for n, level in enumerate(levels)
    }


def one(seed: int, after: list[float], hosts: bool = True) -> Peers:
    """Levels are 1, 2, 3 … before, and those times `after`."""
    rng = np.random.default_rng(seed)
    before = [1.0 + n for n in range(len(after))]
    a, b = side(rng, before, hosts=hosts), side(rng, [x * y for x, y in zip(before, after, strict=True)], hosts=hosts, name="b")
    found = peers(a, b, [f"d{n}" for n in range(len(after))], lower=False)
    assert found is not None
    return found


def named(found: list[OnDevice]) -> dict[str, str]:
    return {one.device: one.answer for one in found if one.answer in ("better", "worse", "split")}


@pytest.mark.parametrize("hosts", [True, False])
def test_noise_names_no_device(hosts: bool) -> None:
    """A device against the mean of two others as if that were exact was named in 17 % of such comparisons."""
    seeds = 150
    assert sum(bool(named(judged([one(seed, [1.0] * 3, hosts)], [0.0])[0])) for seed in range(seeds)) <= 0.05 * seeds
    assert sum(bool(named(judged([one(seed, [1.0] * 6, hosts)], [0.0])[0])) for seed in range(seeds // 3)) <= 0.08 * seeds // 3


@pytest.mark.parametrize("hosts", [True, False])
@pytest.mark.parametrize(
    ("after", "bad"),
    [
        ([1.0, 0.95, 1.0], {"d1": "worse"}), ([1.0, 1.0, 1.05], {"d2": "better"}), ([1.0, 0.95, 1.0, 0.9, 1.0], {"d1": "worse", "d3": "worse"}),
        ([0.95, 0.95, 0.95, 0.95, 1.0], {"d4": "better"}),
    ],
)
def test_the_bad_ones_are_named_alone(after: list[float], bad: dict[str, str], hosts: bool) -> None:
    found = judged([one(3, after, hosts), one(4, [1.0] * len(after), hosts)], [0.02, 0.02])
    assert [named(case) for case in found] == [bad, {}]
    sizes = {each.device: each.vs_peers for each in found[0]}
    usual = float(np.median(after))
    assert all(sizes[f"d{n}"] == pytest.approx(level / usual, abs=0.015) for n, level in enumerate(after))


@pytest.mark.parametrize("hosts", [True, False])
@pytest.mark.parametrize("after", [[1.0, 0.9], [1.0, 0.9, 1.0, 0.9], [1.0, 0.9, 0.85]])
def test_without_a_majority_none_is_named_and_it_is_said(after: list[float], hosts: bool) -> None:
    (found,) = judged([one(5, after, hosts)], [0.02])
    assert named(found) == {f"d{n}": "split" for n in range(len(after))}
    assert {each.device for each in found if slower(each, 0.02)} == {f"d{n}" for n, level in enumerate(after) if level == min(after)}
    case, none = Case(workload="stream", params={"op": "copy"}), summarize([])
    held = Comparison(case=case, a=none, b=none, answer="same", devices=found)
    printed = " ".join(comparison.comparison([held], width=300).split())
    who = "d1 and d0 differ in" if len(after) == 2 else f"the {len(after)} devices differ in"
    assert who in printed
    assert ("of two devices nobody can say which is off" in printed) == (len(after) == 2)


def test_a_lost_device_is_found_among_the_noise_of_its_run() -> None:
    """What is common to the devices of a run is 5 times the noise of each."""
    found = [named(judged([one(seed, [1.0, 0.97, 1.0, 1.0], hosts=False)], [0.0])[0]) for seed in range(30)]
    assert sum(each == {"d1": "worse"} for each in found) >= 27


def test_too_few_rounds_or_one_device_say_nothing() -> None:
    rng = np.random.default_rng(1)
    a, b = side(rng, [1.0, 1.0, 1.0], rounds=3), side(rng, [1.0, 0.5, 1.0], rounds=3, name="b")
    few = peers(a, b, ["d0", "d1", "d2"], lower=False)
    (found,) = judged([few], [0.02])
    assert {(each.answer, each.p, each.low) for each in found} == {("inconclusive", None, None)}
    assert peers(a, b, ["d0"], lower=False) is None
    assert judged([None], [0.02]) == [[]]
