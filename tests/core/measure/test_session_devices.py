"""A session's devices and time: order, names, limits; its processes are made up here, so that every second is as the test says."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from scripting import CASE, OTHER, plan

import hotlap
from hotlap.core.errors import InputError
from hotlap.core.measure import session
from hotlap.core.measure.protocol import CaseDone, CaseStarted, Job, RoundDone
from hotlap.core.record import Device, Notice, Samples


class Told:
    """A process that says what the test wants, of any device."""

    jobs: list[Job]
    hung = spent = False

    def __init__(self, one: Job, limit_s: float, stop: threading.Event) -> None:
        self.job = one

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def go_on(self) -> None:
        return

    def messages(self) -> Any:
        for case in self.job.cases:
            yield CaseStarted(case=case.id)
            yield CaseDone(samples=Samples(case=case.id, device=self.job.device_key, round=self.job.round, values=[1.0], ended_s=1e9), readings=[], spent=False)
        yield RoundDone(seconds=1e9, sampler_share=0.25, missing={"nvml": "not here"}, notices=[Notice("few_readings", "a sensor is odd")])


def test_a_round_on_a_real_device_took_what_the_wall_clock_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device with a clock of its own it is that clock's. Warnings are said once, of the first round."""
    two = [Device(target="opencl", index=n, name="n", kind="gpu", uuid=f"GPU-{n}") for n in range(2)]
    monkeypatch.setattr(session.targets, "find", lambda _: two)
    heard: list[Any] = []
    start: Any = Told
    path = session.run(plan(), session.SessionOptions(target="opencl", device="1", home=tmp_path), lambda d, n, e: heard.append((d.index, n, e)), start)
    kept = hotlap.load(path).bundle.run
    assert (kept.sampler_share, kept.sensors_missing, kept.devices, kept.order) == (0.25, {"nvml": "not here"}, ["GPU-1"], "single")
    ends = [event for _, _, event in heard if isinstance(event, RoundDone)]
    assert len(ends) == 6
    assert all(0 <= one.seconds < 1e6 for one in ends)
    assert [(d, n) for d, n, event in heard if event == "a sensor is odd"] == [(1, 0)]


@pytest.mark.parametrize(("together", "order"), [(False, "one after another"), (True, "together")])
def test_several_devices_are_measured_in_the_order_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool, order: str) -> None:
    two = [Device(target="opencl", index=n, name="n", kind="gpu", uuid=f"GPU-{n}") for n in range(2)]
    monkeypatch.setattr(session.targets, "find", lambda _: two)
    heard: list[int] = []
    start: Any = Told
    options = session.SessionOptions(target="opencl", device="all", together=together, home=tmp_path)
    found = hotlap.load(session.run(plan(), options, lambda d, n, e: heard.append(d.index), start))
    assert found.bundle.run.order == order
    assert sorted((s.device, s.round) for s in found.samples) == [(f"GPU-{d}", n) for d in range(2) for n in range(6)]
    if not together:
        assert heard == sorted(heard)
    alone = session.SessionOptions(target="opencl", device="0", together=True, home=tmp_path)
    with pytest.raises(InputError, match="--together measures several devices at once"):
        session.run(plan(), alone, lambda *_: None, start)


def test_devices_are_named_by_index_or_uuid() -> None:
    two = [Device(target="t", index=n, name="n", kind="gpu", uuid=uuid) for n, uuid in enumerate(("GPU-aaaa-1", "GPU-bbbb-2"))]
    assert session.choose(two, "") == two[:1]
    assert session.choose(two, "all") == two
    assert session.choose(two, "1") == session.choose(two, "GPU-bbbb-2") == session.choose(two, "t:1") == session.choose(two, "bbbb") == session.choose(two, "bbbb-") == two[1:]
    assert session.choose(two, "GPU-BBBB") == two[1:]
    assert session.choose(two, "1, 0,1") == two[::-1]
    for wanted in ("2", "bbb", "gpu-", "cccc"):
        with pytest.raises(InputError, match=f"there is no device '{wanted}'; valid: all, 0 .GPU-aaaa-1., 1"):
            session.choose(two, wanted)


def test_what_is_said_before_the_first_round_is_of_the_first_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = [Device(target="opencl", index=n, name="n", kind="gpu", uuid=f"GPU-{n}") for n in range(2)]
    monkeypatch.setattr(session.targets, "find", lambda _: two)
    heard: list[tuple[int, int]] = []
    start: Any = Told
    options = session.SessionOptions(target="opencl", device="all", home=tmp_path)
    session.run(plan(CASE, OTHER, round_s=0.15), options, lambda d, n, e: heard.append((d.index, n)) if "at least" in str(e) else None, start)
    assert heard == [(0, 0)]


def test_the_limit_of_a_run_s_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 s, by a clock that began at 7 s and stands at 37 s; 10 s of them were measuring programs."""
    now = [7.0]
    monkeypatch.setattr(session.SystemClock, "now", lambda _: now[0])
    limit = session._Limit(100.0)
    assert not limit.over(None)
    now[0] = 37.0
    assert (limit.used_s(None), limit.used_s(12.0), limit.left_s, session._Limit(float("inf")).left_s) == (30.0, 12.0, 70.0, None)
    assert not limit.over(1e9)  # the first case is always measured
    limit.cases = 2
    assert [limit.over(s) for s in (None, 66.0, 67.0)] == [False, False, True]  # half as much again
    limit.programs_s = 10.0
    assert [limit.over(s) for s in (95.0, 96.0)] == [False, True]  # 5 s for one program more
    now[0] = 107.5
    assert (limit.left_s, limit.over(None)) == (0.0, True)


@pytest.mark.parametrize(("target", "programs_s"), [("host", 5.0), ("opencl", 0.0)])
def test_what_programs_took_is_counted_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, programs_s: float) -> None:
    device = Device(target=target, index=0, name="n", kind="cpu")
    monkeypatch.setattr(session.targets, "find", lambda _: [device])
    limits: list[Any] = []

    class Limit(session._Limit):
        def __init__(self, seconds: float) -> None:
            super().__init__(seconds)
            limits.append(self)

    monkeypatch.setattr(session, "_Limit", Limit)

    class Program(Told):
        def messages(self) -> Any:
            for case in self.job.cases:
                yield CaseStarted(case=case.id)
                took = Samples(case=case.id, device=self.job.device_key, round=self.job.round, values=[1.0], began_s=3.0, ended_s=5.5)
                yield CaseDone(samples=took, readings=[], spent=False)
            yield RoundDone(seconds=2.5, sampler_share=None, missing={}, notices=[])

    start: Any = Program
    monkeypatch.setattr(session.programs.Worker, "round", lambda _, *given: Program(*given))
    session.run(plan(rounds=2, rounds_max=2), session.SessionOptions(target=target, home=tmp_path), lambda *_: None, start)
    assert (limits[0].cases, limits[0].programs_s) == (2, programs_s)


@pytest.mark.parametrize(("status", "asked"), [("not_run", 2), ("measured", 1)])
def test_a_device_is_asked_for_all_that_it_cannot_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Any, asked: int) -> None:
    """Though starting it took the budget: else each case that was not asked for would say that the budget was used up."""
    device = Device(target="opencl", index=0, name="n", kind="cpu")
    monkeypatch.setattr(session.targets, "find", lambda _: [device])
    monkeypatch.setattr(session._Limit, "used_s", lambda self, _: self.seconds)
    seen: list[str] = []

    class Unable(Told):
        told = False

        def enough(self) -> None:
            self.told = True

        def messages(self) -> Any:
            for case in self.job.cases:
                if self.told:
                    break
                seen.append(case.id)
                yield CaseStarted(case=case.id)
                took = Samples(case=case.id, device=self.job.device_key, round=0, status=status, reason="it does not draw", values=[1.0] * (asked == 1))
                yield CaseDone(samples=took, readings=[], spent=False)
            yield RoundDone(seconds=0.0, sampler_share=None, missing={}, notices=[])

    start: Any = Unable
    session.run(plan(CASE, OTHER), session.SessionOptions(target="opencl", home=tmp_path, limit_s=10.0), lambda *_: None, start)
    assert len(seen) == asked


@pytest.mark.parametrize(("together", "measured"), [(False, 3), (True, 6)])
def test_devices_one_after_another_share_the_time_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool, measured: int) -> None:
    """Simulated devices, 10 s a case on each by their own clock, of 34.9 s; a case is begun where it would end in time."""
    two = [Device(target="simulated", index=n, name="n", kind="gpu", uuid=f"GPU-{n}") for n in range(2)]
    monkeypatch.setattr(session.targets, "find", lambda _: two)
    both = threading.Barrier(2 if together else 1, timeout=60)

    class Virtual(Told):
        def messages(self) -> Any:
            for case in self.job.cases:
                both.wait()
                yield CaseStarted(case=case.id)
                took = Samples(case=case.id, device=self.job.device_key, round=self.job.round, values=[1.0], ended_s=self.job.start_s + 10.0)
                yield CaseDone(samples=took, readings=[], spent=False)
            yield RoundDone(seconds=10.0, sampler_share=None, missing={}, notices=[])

        def enough(self) -> None:
            return

    start: Any = Virtual
    options = session.SessionOptions(target="simulated:h200-sxm", device="all", together=together, home=tmp_path, limit_s=34.9)
    found = hotlap.load(session.run(plan(), options, lambda *_: None, start))
    assert len(found.samples) == measured
