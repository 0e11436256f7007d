"""torch.compile against eager: rounds in fresh processes with cold caches; how long compiling takes, what it wins, when it has paid."""

from __future__ import annotations

import math
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from hotlap.core.errors import InputError, MachineError
from hotlap.core.measure.supervisor import SPEED_ENVIRONMENT
from hotlap.core.stats import order
from hotlap.kernels import apart
from hotlap.kernels.binaries.graphs import EagerComparison, Spread
from hotlap.kernels.eager_round import EagerJob, EagerRound

LIMIT_S = 1800.0  # of one round
NO_COMPILER = "no C++ compiler is here, which torch.compile's inductor needs on a processor; apt install g++"
COMPILERS = ("g++", "clang++", "c++")


def run(job: EagerJob, rounds: int, listen: Callable[[str], None] = lambda _: None) -> EagerComparison:
    """Raises InputError for a factory that is none, MachineError where a round's process ends badly."""
    reason = _missing(job)
    if reason:
        done = [_round(msgspec.structs.replace(job, time_it=False))]
    else:
        done = []
        for number in range(rounds):
            listen(f"round {number + 1} of {rounds}: a fresh process compiles {job.factory}")
            done.append(_round(msgspec.structs.replace(job, explain=number == 0)))
    return folded(job, done, reason)


def folded(job: EagerJob, rounds: Sequence[EagerRound], reason: str = "") -> EagerComparison:
    """All rounds as one answer."""
    first = rounds[0]
    shown = EagerComparison(
        factory=job.factory,
        target=job.target,
        backend=job.backend,
        device=first.device,
        versions=first.versions,
        rounds=len(rounds),
        graphs=first.graphs,
        breaks=first.breaks,
        guards=first.guards,
        memory=first.memory,
        reason=reason,
        recompiled=max((one.recompiled or 0 for one in rounds), default=0),
    )
    timed = [one for one in rounds if one.eager_s and one.compiled_s and one.compile_s]
    if not timed:
        return shown
    eager, after, first_s = (np.array([getattr(one, name) for one in timed]) for name in ("eager_s", "compiled_s", "compile_s"))
    saved = eager - after
    extra = np.maximum(first_s - after, 0.0)  # a step would have been done anyway
    even = np.where(saved > 0, extra / np.where(saved > 0, saved, 1.0), math.inf)
    return msgspec.structs.replace(
        shown,
        eager_s=spread(eager),
        compiled_s=spread(after),
        speedup=spread(eager / after),
        compile_s=spread(first_s),
        break_even=spread(even),
        difference=max((one.difference for one in timed if one.difference is not None), default=None),
        rounding=max((one.rounding for one in timed if one.rounding is not None), default=None),
    )


def spread(values: Sequence[float] | np.ndarray) -> Spread:
    """From order statistics, so that infinite values have their place."""
    ordered = sorted(float(one) for one in values)
    median = statistics.median(ordered)
    place, _ = order.ranks(len(ordered))
    if not place:
        return Spread(median=median)
    return Spread(median=median, low=ordered[place - 1], high=ordered[-place])


def _missing(job: EagerJob) -> str:
    """Why nothing can be compiled here."""
    wants = job.backend == "inductor" and job.target.startswith("torch:cpu")
    named = os.environ.get("CXX", "")
    return NO_COMPILER if wants and not any(shutil.which(one) for one in (*COMPILERS, *([named] if named else []))) else ""


def _round(job: EagerJob) -> EagerRound:
    with tempfile.TemporaryDirectory(prefix="hotlap-eager-") as scratch:
        cold = {"TORCHINDUCTOR_CACHE_DIR": str(Path(scratch) / "inductor"), "TRITON_CACHE_DIR": str(Path(scratch) / "triton")}
        try:
            said = apart.answer(
                "hotlap.kernels.eager_round", msgspec.json.encode(job), LIMIT_S, {**SPEED_ENVIRONMENT, **os.environ, **cold}
            )
        except apart.Broken as error:
            raise MachineError(f"{job.factory}: the round's process {error}") from None
    found = msgspec.json.decode(said, type=EagerRound)
    if found.problem:
        raise (InputError if found.usage_error else MachineError)(f"{job.factory}: {found.problem}")
    return found
