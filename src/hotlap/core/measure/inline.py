"""The same loop on a Python callable of one's own, in this process."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from hotlap.core.errors import InputError
from hotlap.core.measure import foreign, targets
from hotlap.core.measure.loop import CaseBudget, time_prepared, timing_overhead
from hotlap.core.measure.rounds import Rounds
from hotlap.core.measure.targets.base import Target
from hotlap.core.measure.targets.host import HostTarget
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.record import Case, Check, MeasureOptions, Notice, Samples
from hotlap.core.store import locks
from hotlap.core.work.program import CALLABLE

ONE_PROCESS = Notice(code="one_process", seen="rounds share one process, so differences between processes are not in the interval")


def case_of(fn: Callable[..., Any], work: Mapping[str, float | str] | None) -> Case:
    """The callable as a case: its qualified name, and what one call does where that is given."""
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    module = getattr(inspect.getmodule(fn), "__name__", "")
    return CALLABLE.case({"name": f"{module}.{name}" if module else name, **(work or {})})


def rounds(call: Callable[[], Any], case: Case, spec: str, options: MeasureOptions) -> tuple[Target, list[Samples]]:
    """Rounds of the loop, as many as the options' precision takes. An exception of the callable passes through unchanged."""
    target: Target = HostTarget()
    if spec:
        parsed = targets.parse(spec)
        if parsed.name == "simulated":
            raise InputError("a simulated GPU cannot run a callable; valid: opencl, cuda, torch, or none for the wall clock")
        target = targets.open_device(parsed, targets.find(parsed)[0])

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            call()

    others = locks.beside([target.device])
    call()
    overhead, watch = timing_overhead(target), foreign.beside(target)
    planned, samples = Rounds([case], options), list[Samples]()
    while not (following := planned.next()).stop:
        began_s = target.clock.now()
        blank = Samples(case=case.id, device=target.device.key, round=planned.number)
        budget = CaseBudget(
            seconds=following.round_s, sample_s=options.sample_s, round=planned.number, patience_s=following.patience_s,
            clock=foreign.clock_beside(target, watch), watch=watch, alone=options.deadline_s > 0,
            whole=options.deadline_s > 0 or options.sustain_s > 0,
        )
        prepared = Prepared(enqueue, lambda: Check(passed=True, what="returned without an exception; the result is the caller's to check"))
        samples.append(_noticed(time_prepared(target, prepared, budget, blank, overhead), others))
        planned.add(samples[-1])
        planned.ended(target.clock.now() - began_s)
    return target, samples


def _noticed(samples: Samples, others: str) -> Samples:
    """`others`: who holds the device meanwhile; "" nobody."""
    held = [Notice("shared_device", others)] if others else []
    return replace(samples, notices=[*samples.notices, ONE_PROCESS, *held])
