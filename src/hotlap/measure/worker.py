"""One round: a fresh process that runs every case once, in random order, and says so line by line."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import sys
from collections.abc import Callable
from typing import IO

import msgspec

from hotlap import sensors, targets
from hotlap.errors import HotlapError
from hotlap.measure import programs
from hotlap.measure.doubts import doubts
from hotlap.measure.loop import Overhead, Slot, measure, timing_overhead
from hotlap.measure.protocol import SHORTEST_SLOT_S, Began, Ended, Fault, Job, Message, Sampling, Took
from hotlap.record import Case, Samples
from hotlap.sensors import cpu_clock
from hotlap.sensors.sampler import Sampler
from hotlap.targets.base import Target
from hotlap.workloads.operators import timers

PREPARE_SHARE = 0.5  # of a case's time goes into preparing and checking, until the round shows how much it takes


def main() -> int:
    """Reads a Job from standard input, writes Messages to what was standard output; libraries' chatter goes to stderr."""
    channel = begin()
    try:
        for line in iter(sys.stdin.buffer.readline, b""):
            job = msgspec.json.decode(line, type=Job)
            _round(job, channel)
            if not job.more:
                break
    except HotlapError as error:
        _say(channel, Fault(message=str(error), exit_code=error.exit_code))
        return error.exit_code
    return 0


def begin() -> IO[bytes]:
    """What a process that measures does first: it dies with its session, which alone decides on Ctrl-C. Returns the channel to it;
    standard output is standard error from here on."""
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return channel


def _round(job: Job, channel: IO[bytes]) -> None:
    spec = targets.parse(job.spec)
    device = targets.find(spec)[job.device]
    target = targets.open_device(spec, device)
    _start_at(target, job.start_s)
    began = target.clock.now()
    sampler = Sampler(target.clock, sensors.find(target), 1 / job.options.readings_hz) if job.options.readings_hz > 0 else None
    if sampler:
        sampler.start()
    overhead = timing_overhead(target)
    cases, sampled_s = list(job.cases), 0.0
    random.Random(job.seed).shuffle(cases)
    for number, case in enumerate(cases):
        _say(channel, Began(case=case.id))
        slot_s = _slot(job.options.round_s, target.clock.now() - began, sampled_s, number, len(cases))
        real = None if target.dialect == "model" else channel
        samples = _case(target, case, job, slot_s, overhead, real)
        sampled_s += slot_s if samples.seconds else 0.0
        readings = [msgspec.structs.replace(r, round=job.round) for r in sampler.drain()] if sampler else []
        samples = msgspec.structs.replace(samples, flags=samples.flags + doubts(samples, readings, device))
        tainted = bool(timers.tainted)
        _say(channel, Took(samples=samples, readings=readings, tainted=tainted))
        if tainted:
            return
        answer = sys.stdin.buffer.readline()
        if not answer:
            return  # the session is gone
        if answer.strip():
            break  # it has enough
    if sampler:
        sampler.stop()
    _say(channel, Ended(
        seconds=target.clock.now() - began, sampler_share=sampler.share if sampler else None,
        missing=sensors.missing(target) if sampler else {}, warnings=list(sampler.warnings) if sampler else [],
    ))


def _slot(round_s: float, spent_s: float, sampled_s: float, done: int, cases: int) -> float:
    """Time for the next case's samples: an equal share of what is left of the round, less what preparing has taken so far."""
    share = (round_s - spent_s) / (cases - done)
    preparing = (spent_s - sampled_s) / done if done else share * PREPARE_SHARE
    return max(share - preparing, SHORTEST_SLOT_S)


def _case(target: Target, case: Case, job: Job, slot_s: float, overhead: Overhead, channel: IO[bytes] | None) -> Samples:
    """`channel` is None where the clock is not the session's."""

    def sampling(timed_s: float, between_s: float) -> None:
        if channel is not None:
            _say(channel, Sampling(timed_s=timed_s, between_s=between_s))

    seed = random.Random(f"{job.seed} {case.id}").getrandbits(31)
    slot = Slot(seconds=slot_s, sample_s=job.options.sample_s, seed=seed, round=job.round, clock=_clock_of(target), sampling=sampling)
    if case.workload == "command" and target.dialect != "model":
        most_s = None if job.left_s is None else job.left_s / len(job.cases) / (job.options.rounds + 1)
        return msgspec.structs.replace(programs.measure(target, case, slot, most_s), device=job.device_key)
    return msgspec.structs.replace(measure(target, case, slot, overhead), device=job.device_key)


def _clock_of(target: Target) -> Callable[[], float | None]:
    """How the device's own clock is measured between samples: only CPUs can do it from here."""
    if target.dialect == "model":
        return target.library.clock_hz  # type: ignore[no-any-return]
    if target.device.kind == "cpu":
        return lambda: cpu_clock.quiet(target.clock)
    return lambda: None


def _start_at(target: Target, start_s: float) -> None:
    if target.dialect == "model":
        target.clock.sleep(start_s)


def _say(channel: IO[bytes], message: Message) -> None:
    with contextlib.suppress(BrokenPipeError):
        channel.write(msgspec.json.encode(message) + b"\n")


def _die_with_parent() -> None:
    """Linux: if the session is killed, so is its round; a measurement nobody keeps must not go on heating the device."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    sys.exit(main())
