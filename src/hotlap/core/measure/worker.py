"""One round: a fresh process that runs every case once, in random order, and says so line by line."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import random
import signal
import sys
from time import perf_counter  # as it was before any kernel was loaded
from typing import IO

import msgspec

from hotlap.core import extend
from hotlap.core.errors import HotlapError
from hotlap.core.measure import foreign, guard, near, programs, sensors, targets
from hotlap.core.measure import notices as noticing
from hotlap.core.measure.loop import CaseBudget, measure, timing_overhead
from hotlap.core.measure.protocol import SHORTEST_SLOT_S, CaseChoice, CaseDone, CaseStarted, Job, Message, RoundDone, RoundFailed, Sampling
from hotlap.core.measure.sensors.sampler import Sampler
from hotlap.core.measure.targets.base import Target
from hotlap.core.record import Case, Notice
from hotlap.core.work import traits

GREATEST_SHARE = 3.0  # of its share of a round's patience, that one case may wait
PREPARE_SHARE = 0.5  # of a case's time goes into preparing and checking, until the round shows how much it takes


def main() -> int:
    """Reads a Job from standard input, writes Messages to what was standard output; libraries' chatter goes to stderr."""
    channel = begin()
    try:
        for line in iter(sys.stdin.buffer.readline, b""):
            job = msgspec.json.decode(line, type=Job)
            extend.use(job.features)
            one_round(job, channel, sys.stdin.buffer)
            if not job.more:
                break
    except HotlapError as error:
        _say(channel, RoundFailed(message=str(error), exit_code=error.exit_code))
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


def one_round(job: Job, channel: IO[bytes], answers: IO[bytes]) -> None:
    """All cases of the job; each message goes to `channel`, and after each case a line comes from `answers`."""
    spec = targets.parse(job.spec)
    device = targets.find(spec)[job.device]
    far = near.bind(device)
    target = targets.open_device(spec, device)
    _begin(target, job)
    began = target.clock.now()
    sampler = Sampler(target.clock, sensors.find(target), 1 / job.options.readings_hz) if job.options.readings_hz > 0 else None
    if sampler:
        sampler.start()
    overhead = timing_overhead(target)
    watch = foreign.beside(target, lambda sensor: sampler.latest(sensor, device.key) if sampler else None)
    cases, sampled_s, waited_s = list(job.cases), 0.0, 0.0
    random.Random(job.seed).shuffle(cases)
    for number, case in enumerate(cases):
        _say(channel, CaseStarted(case=case.id))
        seconds = _share(job.options.round_s, target.clock.now() - began - waited_s, sampled_s, number, len(cases))
        budget = _budget(target, case, job, watch, None if target.dialect == "model" else channel)
        budget = dataclasses.replace(budget, seconds=seconds, patience_s=_patience_s(job, waited_s))
        if traits(case.workload).source == "program" and target.dialect != "model":
            most_s = None if job.left_s is None else job.left_s / len(job.cases) / (job.options.rounds + 1)
            samples = programs.measure(target, case, budget, most_s)
        else:
            samples = measure(target, case, budget, overhead)
        samples = msgspec.structs.replace(samples, device=job.device_key)
        sampled_s += seconds if samples.values else 0.0
        waited_s += samples.waited_s
        readings = [msgspec.structs.replace(r, round=job.round) for r in sampler.drain()] if sampler else []
        more = [Notice(code="far_host", seen=far)] if far and traits(case.workload).link else []
        samples = msgspec.structs.replace(samples, notices=samples.notices + noticing.notices(samples, readings, device) + more)
        _say(channel, CaseDone(samples=samples, readings=readings, spent=bool(guard.spent)))
        if guard.spent:
            return
        answer = answers.readline()
        if not answer:
            return  # the session is gone
        if answer.strip():
            break  # it has enough
    if sampler:
        sampler.stop()
    _say(channel, RoundDone(
        seconds=target.clock.now() - began, sampler_share=sampler.share if sampler else None,
        missing=sensors.missing(target) if sampler else {}, notices=sampler.notices if sampler else [],
    ))


def _share(round_s: float, spent_s: float, sampled_s: float, done: int, cases: int) -> float:
    """Time for the next case's samples: an equal share of what is left of the round, less what preparing has taken so far."""
    share = (round_s - spent_s) / (cases - done)
    preparing = (spent_s - sampled_s) / done if done else share * PREPARE_SHARE
    return max(share - preparing, SHORTEST_SLOT_S)


def _patience_s(job: Job, waited_s: float) -> float:
    """What one case may wait: some times its share of the round's patience, of what is left of that."""
    return max(min(job.patience_s - waited_s, GREATEST_SHARE * job.patience_s / len(job.cases)), 0.0)


def _budget(target: Target, case: Case, job: Job, watch: foreign.ForeignWatch, channel: IO[bytes] | None) -> CaseBudget:
    """What a case gets, but for its time. `channel` is None where the clock is not the session's."""

    def sampling(timed_s: float, between_s: float) -> None:
        if channel is not None:
            _say(channel, Sampling(timed_s=timed_s, between_s=between_s, sent_s=perf_counter()))

    seed = random.Random(f"{job.seed} {case.id}").getrandbits(31)
    return CaseBudget(
        seconds=0.0, sample_s=job.options.sample_s, seed=seed, round=job.round, clock=foreign.clock_beside(target, watch),
        sampling=sampling, watch=watch, choice=job.choices.get(case.id, CaseChoice()),
        alone=job.options.deadline_s > 0, whole=job.options.deadline_s > 0 or job.options.sustain_s > 0,
    )


def _begin(target: Target, job: Job) -> None:
    """A virtual clock goes on where the last round ended; a script has a page for each round."""
    if target.dialect == "model":
        target.clock.sleep(job.start_s)
        if hasattr(target.library, "turn_to"):
            target.library.turn_to(job.round)


def _say(channel: IO[bytes], message: Message) -> None:
    with contextlib.suppress(BrokenPipeError):
        channel.write(msgspec.json.encode(message) + b"\n")


def _die_with_parent() -> None:
    """Linux: if the session is killed, so is its round; a measurement nobody keeps must not go on heating the device."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    sys.exit(main())
