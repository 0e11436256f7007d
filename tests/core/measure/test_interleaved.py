"""Several plans in turns: whose round comes when, and how one of them ends all."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.core.errors import MachineError
from hotlap.core.measure import interleaved
from hotlap.core.measure.protocol import CaseDone
from hotlap.core.measure.session import SessionOptions
from hotlap.core.plan import case
from hotlap.core.record import MeasureOptions, Plan
from hotlap.core.store import bundle as bundles

pytestmark = pytest.mark.slow("processes of several rounds")


def parts(home: Path, *asked: tuple[str, int]) -> tuple[list[interleaved.Part], list[tuple[int, int]]]:
    """A part for each target and its rounds, and the list of part and round to which each case done adds."""
    done: list[tuple[int, int]] = []

    def part(number: int, target: str, rounds: int) -> interleaved.Part:
        options = MeasureOptions(rounds=rounds, rounds_max=rounds, round_s=0.2, seed=3)
        plan = Plan(name=f"part {number}", cases=[case("stream", {"size": "64 MiB"})], measure=options)

        def listen(_device: object, at: int, event: object) -> None:
            if isinstance(event, CaseDone):
                done.append((number, at))

        return interleaved.Part(plan, SessionOptions(target, home=home), listen)

    return [part(number, *one) for number, one in enumerate(asked)], done


def test_rounds_come_in_turns_and_a_part_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    both, done = parts(tmp_path, ("simulated:h200-sxm?noise=0.01", 4), ("simulated:a100-sxm-80gb?noise=0.01", 2))
    paths = interleaved.run(both)
    assert done == [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (0, 3)]
    found = [bundles.load(path) for path in paths]
    assert [one.run.plan.name for one in found] == ["part 0", "part 1"]
    assert [len(one.samples) for one in found] == [4, 2]


def test_an_error_of_one_part_ends_the_others_and_is_the_one_that_is_raised(tmp_path: Path) -> None:
    both, done = parts(tmp_path, ("simulated:h200-sxm", 40), ("simulated:h200-sxm?lost=0.5s", 40))
    with pytest.raises(MachineError, match="fallen off the bus"):
        interleaved.run(both)
    assert 1 < len(done) < 12
