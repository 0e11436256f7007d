"""The guard of users' kernels, part by part; `test_adversaries` has it catch whole kernels that cheat."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.core.measure import guard
from hotlap.core.measure.targets.base import SystemClock
from hotlap.kernels.guard import watchful, zones
from hotlap.kernels.guard.watchful import Watchful


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What is found taints the process."""
    yield
    guard.spent.clear()


def watched(parts: Any = ()) -> tuple[Watchful, Any]:
    target = SimpleNamespace(clock=SystemClock(), library=None, device=None)
    watching = Watchful()
    watching.watch(None, target, parts)
    return watching, target


def test_core_s_own_guard_trusts() -> None:
    trusting, value = guard.Guard(), object()
    trusting.watch(None, None, ())
    assert trusting.placed(value) is value
    assert not trusting.again
    assert [trusting.outside({}), trusting.refused([], {}, "cpu", ()), trusting.shared([], [], {}, ()), trusting.unfinished("cpu"), trusting.replaced()] == [""] * 5
    assert guard.spent == []


def test_what_times_and_checks_must_stay_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Check:
        def right(self) -> bool:
            return False

    watching, target = watched([(Check, ("right",))])
    assert watching.replaced() == ""
    assert guard.spent == []
    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", time.monotonic)
        assert watching.replaced() == "time.perf_counter was replaced while the kernel ran: what times and checks must stay as it is"
    assert guard.spent == ["time.perf_counter"]
    with monkeypatch.context() as patch:
        patch.setattr(Check, "right", lambda _: True)
        assert "Check.right was replaced" in watching.replaced()
    with monkeypatch.context() as patch:
        patch.setattr(zones, "goes_on", lambda *_: False)
        assert "zones.goes_on was replaced" in watching.replaced()
    assert watching.replaced() == ""
    target.clock = SystemClock()
    assert "SimpleNamespace.clock was replaced" in watching.replaced()


@pytest.mark.parametrize(("place", "goes_on", "seen"), [("cpu", True, ["threads"]), ("cpu", False, []), ("cuda", True, [])])
def test_work_that_goes_on_spends_the_process(monkeypatch: pytest.MonkeyPatch, place: str, goes_on: bool, seen: list[str]) -> None:
    monkeypatch.setattr(watchful.zones, "goes_on", lambda *_: goes_on)
    assert ("threads work outside the timed region" in Watchful().unfinished(place)) == bool(seen)
    assert guard.spent == seen


@pytest.mark.parametrize(("spins_s", "share", "left_behind"), [(0.008, 1.0, False), (9.0, 1.0, True), (9.0, 0.0, False), (9.0, 0.05, True)])
def test_a_pool_that_spins_is_not_work_left_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spins_s: float, share: float, left_behind: bool
) -> None:
    """Two threads that are ready until they have had `spins_s` of a processor each, of which they get a share: on a busy host a small one."""
    now = [0.0]
    used = lambda: min(2 * share * now[0], 2 * spins_s)  # noqa: E731
    monkeypatch.setattr(zones, "TASKS", tmp_path)
    monkeypatch.setattr(zones, "_others_ready", lambda: 2 if used() < 2 * spins_s else 0)
    assert zones.goes_on(lambda s: now.__setitem__(0, now[0] + s), lambda: now[0], used) is left_behind
