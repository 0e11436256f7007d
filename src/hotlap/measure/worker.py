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
from hotlap.measure.doubts import doubts
from hotlap.measure.loop import Overhead, Slot, measure, timing_overhead
from hotlap.measure.protocol import Began, Ended, Fault, Job, Message, Took
from hotlap.record import Case, Samples
from hotlap.sensors import cpu_clock
from hotlap.sensors.sampler import Sampler
from hotlap.targets.base import Target

PREPARE_SHARE = 0.5  # of a round's time goes into preparing and checking; the rest into samples


def main() -> int:
    """Reads a Job from standard input, writes Messages to what was standard output; libraries' chatter goes to stderr."""
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the session decides
    channel = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    try:
        _round(job, channel)
    except HotlapError as error:
        _say(channel, Fault(message=str(error), exit_code=error.exit_code))
        return error.exit_code
    return 0


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
    slot_s = job.options.round_s * PREPARE_SHARE / max(len(job.cases), 1)
    cases = list(job.cases)
    random.Random(job.seed).shuffle(cases)
    for case in cases:
        _say(channel, Began(case=case.id))
        samples = _case(target, case, job, slot_s, overhead)
        readings = [msgspec.structs.replace(r, round=job.round) for r in sampler.drain()] if sampler else []
        samples = msgspec.structs.replace(samples, flags=samples.flags + doubts(samples, readings, device))
        _say(channel, Took(samples=samples, readings=readings))
        if not sys.stdin.buffer.readline():
            return  # the session is gone
    if sampler:
        sampler.stop()
    share = sampler.cost_s * job.options.readings_hz if sampler else None
    _say(channel, Ended(seconds=target.clock.now() - began, sampler_share=share, missing=sensors.missing(target)))


def _case(target: Target, case: Case, job: Job, slot_s: float, overhead: Overhead) -> Samples:
    seed = random.Random(f"{job.seed} {case.id}").getrandbits(31)
    slot = Slot(seconds=slot_s, sample_s=job.options.sample_s, seed=seed, round=job.round, clock=_clock_of(target))
    return msgspec.structs.replace(measure(target, case, slot, overhead), device=job.device_key)


def _clock_of(target: Target) -> Callable[[], float | None]:
    """How the device's own clock is measured between samples: only CPUs can do it from here."""
    if target.dialect == "model":
        return target.library.clock_hz  # type: ignore[no-any-return]
    if target.device.kind == "cpu":
        return lambda: cpu_clock.measure(target.clock)
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
