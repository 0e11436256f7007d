"""A user's kernel before it is measured: described by its file, and checked for right results, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from hotlap.core.errors import DoesNotCompile, InputError, MachineError, NotSupported, Unavailable
from hotlap.core.measure import targets
from hotlap.core.measure.protocol import CaseDone, CaseStarted, Job, RoundFailed
from hotlap.core.measure.session import choose, place_of, process
from hotlap.core.record import Case, MeasureOptions, Samples
from hotlap.core.store import paths
from hotlap.kernels import kept as kernels
from hotlap.kernels import own
from hotlap.kernels.own import describe, native

PATIENCE_S = 120.0  # for a file to be loaded, and for a case to be checked
CHECK_S = 0.05  # of samples, which are thrown away: an output of the timed loop is looked at too


def described(path: Path) -> tuple[kernels.KeptKernel, list[Path]]:
    """What the file says of itself, and the files that belong to it. Raises InputError with the reason where it cannot be
    loaded, MachineError where it needs a package that is not here."""
    if not path.is_file():
        raise InputError(f"there is no file '{path}'; give a .py, .cl, .cu or .so, or the CSV of the CUTLASS profiler")
    command = [sys.executable, "-m", "hotlap.kernels.own.describe", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        answer = f"{path.name} did not say what it is within {PATIENCE_S:.0f} s"
        raise InputError(f"{answer}; nothing but definitions belongs at its top") from None
    try:
        answer = msgspec.json.decode(done.stdout)
    except msgspec.MsgspecError:
        words = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        last = f": {words[-1][:200]}" if words else ""
        raise InputError(f"{path.name} ended the process that loaded it (status {done.returncode}){last}") from None
    if isinstance(answer, dict) and "wrong" in answer:
        raise (MachineError if answer.get("is_missing") else InputError)(str(answer["wrong"]))
    return msgspec.convert(answer, kernels.KeptKernel), describe.files(path)


Listener = Callable[[Case, int], None]
"""Called before a case is checked: which, and how many are done."""


def checked(
    cases: Sequence[Case], target: str, limit_s: float = PATIENCE_S, listen: Listener = lambda *_: None
) -> Iterator[Samples]:  # fmt: skip
    """Each case on the target's first device, with its check; one that ends or hangs its process takes only itself."""
    by_id = {case.id: case for case in cases}
    left = list(cases)
    try:
        device = choose(targets.find(targets.parse(target)), "")[0]
    except Unavailable as error:
        yield from (_without(case, str(error)) for case in left)
        return
    while left:
        options = MeasureOptions(round_s=CHECK_S * len(left), readings_hz=0.0)
        job = Job(
            spec=target, device=place_of(device, target), device_key=device.key, round=0, cases=left, options=options, seed=1,
        )
        began, done = "", set[str]()
        with process(job, limit_s, threading.Event()) as worker:
            for message in worker.messages():
                if isinstance(message, RoundFailed):
                    raise InputError(message.message)
                if isinstance(message, CaseStarted):
                    began = message.case
                    listen(by_id[began], len(cases) - len(left) + len(done))
                elif isinstance(message, CaseDone):
                    done.add(message.samples.case)
                    worker.go_on()
                    yield message.samples
        if began and began not in done:
            reason = "; ".join(filter(None, (f"the process {worker.ending()}: {worker.last_words()}", _beyond(by_id[began]))))
            yield Samples(case=began, device=device.key, round=0, status="error", reason=reason)
            done.add(began)
        if not done:
            raise InputError(f"the process {worker.ending()} before its first case; its last words: {worker.last_words()}")
        left = [case for case in left if case.id not in done]


def _beyond(case: Case) -> str:
    kernel = kernels.load(kernels.kernel_of(case), paths.home())
    return native.beyond(kernel, own.params_of(kernel, case)) if kernel.kind in ("opencl", "cuda") else ""


def _without(case: Case, reason: str) -> Samples:
    """Where there is no device of its target: whether CUDA C++ compiles can be said all the same."""
    kernel = kernels.load(kernels.kernel_of(case), paths.home())
    blank = Samples(case=case.id, device="", round=0, status="not_run", reason=reason)
    if kernel.kind != "cuda":
        return blank
    try:
        return msgspec.structs.replace(blank, reason=f"{reason}; it {native.compiled(kernel, own.params_of(kernel, case))}")
    except Unavailable as error:
        why = " either" if str(error) == reason else f": {error}"
        return msgspec.structs.replace(blank, reason=f"{reason}; whether it compiles is not known{why}")
    except DoesNotCompile as error:
        return msgspec.structs.replace(blank, status="error", reason=str(error))
    except NotSupported as error:
        return msgspec.structs.replace(blank, reason=f"{reason}; {error}")
