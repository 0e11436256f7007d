"""A program of the user's own, run with a profiler for a bounded window of its steps; the trace and telemetry land in a bundle."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec.structs import replace

import hotlap
from hotlap.core.errors import HotlapError, InputError, MachineError
from hotlap.core.measure import sensors, signals, targets
from hotlap.core.measure.foreign import ForeignHost
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.sampler import Sampler
from hotlap.core.measure.targets import host
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.record import Device, MeasureOptions, Plan, RunRecord, Samples, Stop
from hotlap.core.stats.ratio import ratio
from hotlap.core.stats.series import MAD_TO_SD
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels
from hotlap.core.work.program import CALLABLE, cannot_start
from hotlap.traces import captured, tools
from hotlap.traces.captured import WITHIN, Captured, CapturedProcess, CaptureHost, CaptureOverhead, fitting

PLAN = "capture"
DRAIN_S = 1.0
OUTLYING = 3.0  # robust standard deviations from which on a step is drawn in, where steps with and without the profiler are compared


@dataclass(frozen=True)
class CaptureOptions:
    """How to record."""

    argv: Sequence[str]
    tool: str = "pytorch"
    warmup: int = 10  # steps before the window
    steps: int = 20  # of the window
    seconds: float = 0.0  # a window by the clock instead; 0: by steps
    after_s: float = 10.0  # when that one begins, from when PyTorch was imported
    limit_s: float = 60.0  # a window of steps ends after this, whatever is left of it
    windows: int = 1  # how often the profiler is on; the trace is of the first
    apart: int = 30  # steps between them
    shapes: bool = False
    stacks: bool = False
    memory: bool = False
    readings_hz: float = 10.0
    quiet: bool = False  # the program's output goes to standard error
    labels: Mapping[str, str] = field(default_factory=dict)
    home: Path = Path()


def capture(options: CaptureOptions) -> Path:
    """Runs the program and returns the bundle's folder; what was recorded is kept however the program ends.

    Raises InputError for a program that is not there or options that make no sense, Unavailable for a tool that is not installed.
    """
    check(options)
    wrapped = tools.find(options.tool)
    devices = _devices()
    began = datetime.now(UTC)
    case = CALLABLE.case({"name": f"a step of {shlex.join(options.argv)}"})
    record = RunRecord(
        id=bundles.new_id(began), kind="capture", began=began.isoformat(timespec="milliseconds"), hotlap=hotlap.__version__,
        plan=Plan(
            name=PLAN, about=shlex.join(options.argv), cases=[case], measure=MeasureOptions(rounds=1, readings_hz=options.readings_hz),
        ),
        machine=fingerprint(devices), target=devices[0].target, devices=[d.key for d in devices],
        order="together" if len(devices) > 1 else "single", labels=labels.check(dict(options.labels)),
    )  # fmt: skip
    writer = bundles.Writer.create(record, options.home)
    stop = Stop("error", "the program could not be run")
    sampler = Sampler(SystemClock(), _sources(devices), 1 / options.readings_hz) if options.readings_hz > 0 else None
    try:
        with _sampling(sampler, writer), _watched() as seen:
            code, interrupted = _run(options, wrapped.argv(options.argv, writer.path), writer.path)
        wrapped.finish(writer.path)
        found = replace(_found(options, writer.path, code), host=next(iter(seen), None))
        captured.write(writer.path, found)
        for one in found.processes[:1]:
            if usual := [seconds for some in one.usual_s for seconds in some]:
                times = Samples(case=case.id, device=devices[0].key, round=0, values=usual, method="program", warmup_samples=1)
                writer.append(replace(times, began_s=one.began_s, ended_s=one.ended_s))
        stop = Stop("interrupted") if interrupted else Stop("program_ended", str(code) if code else "")
    except OSError as error:
        raise MachineError(f"the capture cannot be kept: {error}; what there is lies in {writer.path}") from None
    finally:
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        share = sampler.share if sampler else None
        writer.finish(replace(record, ended=ended, stops=[stop], sampler_share=share))
    return writer.path


def check(options: CaptureOptions) -> None:
    if not options.argv:
        raise InputError("give the program after --, as in hotlap trace capture -- python train.py")
    if why := cannot_start(options.argv[0]):
        raise InputError(why)
    for name, value, least in (("warmup", options.warmup, 1), ("steps", options.steps, 1), ("windows", options.windows, 1)):
        if value < least:
            raise InputError(f"--{name} {value} is too few; {least} at least")
    if options.tool == "rocprofv3" and options.seconds:
        raise InputError("rocprofv3 records the whole program: --seconds has no meaning with it; leave it out")
    tools.refuse_ranks(options.tool, options.argv, os.environ)


def _devices() -> list[Device]:
    """The CUDA devices where there are any, else this host: the program may use what it likes."""
    try:
        return targets.find(targets.parse("cuda"))
    except HotlapError:
        return [host.describe()]


def _sources(devices: Sequence[Device]) -> list[SensorSource]:
    """Sensors of all devices, those of the host once."""
    found: dict[tuple[str, str], SensorSource] = {}
    for device in devices:
        for source in sensors.find(host.HostTarget(device)):
            found.setdefault((type(source).__name__, source.device), source)
    return list(found.values())


@contextlib.contextmanager
def _sampling(sampler: Sampler | None, writer: bundles.Writer) -> Iterator[None]:
    """Telemetry beside the program, kept each second."""
    if sampler is None:
        yield
        return
    done = threading.Event()

    def keep() -> None:
        while not done.wait(DRAIN_S):
            with contextlib.suppress(MachineError):  # a full disk is told when the run is finished
                writer.readings(sampler.drain())

    thread = threading.Thread(target=keep, name="hotlap-capture", daemon=True)
    sampler.start()
    thread.start()
    try:
        yield
    finally:
        sampler.stop()
        done.set()
        thread.join()
        writer.readings(sampler.drain())


@contextlib.contextmanager
def _watched() -> Iterator[list[CaptureHost]]:
    """Who used the processors meanwhile; stays empty where /proc does not say."""
    seen, watched, began, before = list[CaptureHost](), ForeignHost(), time.monotonic(), os.times()
    yield seen
    after, others = os.times(), watched.others()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    if others is not None:
        seen.append(CaptureHost(cores=watched.cores, used=used / max(time.monotonic() - began, 1e-9), others=others))


# ---------------------------------------------------------------- the program


def _run(options: CaptureOptions, argv: Sequence[str], folder: Path) -> tuple[int, bool]:
    """The program's exit code, 128 + n where signal n ended it, and whether the user interrupted it."""
    here = Path(__file__).parent / "recorder"
    asked = {
        "folder": str(folder), "warmup": options.warmup, "steps": options.steps, "seconds": options.seconds, "after_s": options.after_s,
        "limit_s": options.limit_s, "windows": options.windows, "apart": options.apart, "shapes": options.shapes, "stacks": options.stacks,
        "memory": options.memory, "how": tools.HOW[options.tool],
        "no_ranks": f"{tools.RANKS}; {tools.FOR_RANKS}" if options.tool in tools.REPLAYING else "",
    }  # fmt: skip
    paths = os.pathsep.join(filter(None, (str(here), os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "PYTHONPATH": paths, "HOTLAP_RECORD": msgspec.json.encode(asked).decode()}
    try:
        process = subprocess.Popen(argv, env=environment, start_new_session=os.name == "posix", stdout=2 if options.quiet else None)
    except OSError as error:
        raise InputError(f"'{options.argv[0]}' cannot be run: {error.strerror}") from None
    asked_to_end: list[int] = []
    with _forwarding(process, asked_to_end.append):
        code = process.wait()
    return (code if code >= 0 else 128 - code), bool(asked_to_end)


def _forwarding(process: subprocess.Popen[bytes], note: Callable[[int], None]) -> AbstractContextManager[None]:
    """Ctrl-C and SIGTERM go to the program, which then writes what it has; a second time they end it, a third time at once."""
    firmer = iter((signal.SIGINT, signal.SIGTERM))

    def handle(number: int) -> None:
        note(number)
        with contextlib.suppress(ProcessLookupError, AttributeError):
            os.killpg(process.pid, next(firmer, signal.SIGKILL))

    return signals.caught(handle)


# ---------------------------------------------------------------- what came of it


def _found(options: CaptureOptions, folder: Path, code: int) -> Captured:
    """What the program's processes left behind; those with a trace first, then those that made most steps."""
    processes = []
    for file in sorted(folder.glob("process-*.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            processes.append(msgspec.json.decode(file.read_bytes(), type=CapturedProcess))
            file.unlink()
    processes = [one for one in processes if one.armed or one.steps]
    processes.sort(key=lambda one: (not one.trace, -one.steps, one.place))
    traces = [one.trace for one in processes if one.trace] or [file.name for file in tools.traces(options.tool, folder)]
    return Captured(
        argv=list(options.argv), tool=options.tool, exit_code=code, processes=processes, traces=traces,
        overhead=overhead(processes[0]) if processes and processes[0].windows else None,
    )  # fmt: skip


def overhead(process: CapturedProcess) -> CaptureOverhead:
    """Steps that were recorded against those before and after, by Welch's t on logarithms, with outliers of each side drawn in: windows
    have few steps, and neighbours that are alike leave a test that assumes nothing too few to decide. And all of it together against the
    run."""
    on = [seconds for window in process.windows for seconds in window.steps_s]
    off = [seconds for some in process.usual_s for seconds in some]
    still_s = sum(window.start_s + window.stop_s + window.write_s for window in process.windows)
    import_s = sum(window.import_s for window in process.windows)
    outside_s = process.own_s / process.calls if process.calls else 0.0
    if not on or not off:
        return CaptureOverhead(outside_s=outside_s, still_s=still_s, import_s=import_s)
    # By windows where there are several: their neighbours are what they are compared with, so that drift cancels.
    if len(process.windows) >= 4:
        beside = [before + after for before, after in pairwise(process.usual_s)]
        pairs = [(_median(a), _median(w.recorded_s)) for a, w in zip(beside, process.windows, strict=False) if a and w.steps_s]
        inside = ratio([a for a, _ in pairs], [b for _, b in pairs], paired=True)
    else:
        inside = ratio(_drawn_in(off), _drawn_in([s for window in process.windows for s in window.recorded_s]), assume="normal")
    known = inside.low is None or inside.low > 1  # an interval that holds 1 is no cost; no profiler makes steps shorter
    more_s = still_s + outside_s * process.steps + (max(sum(on) - len(on) * _median(off), 0.0) if known else 0.0)
    whole = more_s / (process.loop_s - more_s) if process.loop_s > more_s else None
    return CaptureOverhead(
        inside=inside.ratio, low=inside.low, high=inside.high, spread=_spread(off), outside_s=outside_s, still_s=still_s,
        import_s=import_s, whole=whole,
    )  # fmt: skip


def _spread(values: Sequence[float]) -> float | None:
    if len(values) < 2 or not _median(values):
        return None
    ends = statistics.quantiles(values, n=20, method="inclusive")
    return (ends[-1] - ends[0]) / 2 / _median(values)


def _drawn_in(values: Sequence[float]) -> list[float]:
    """Those far from the median drawn in to three robust standard deviations; none where more than half are equal."""
    middle = _median(values)
    reach = OUTLYING * MAD_TO_SD * _median([abs(value - middle) for value in values]) or math.inf
    return [min(max(value, middle - reach), middle + reach) for value in values]


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def why_nothing(record: Captured, options: CaptureOptions) -> str:
    """Why there is no trace, and what to do."""
    trouble = next((one.trouble for one in record.processes if one.trouble), "")
    most = max((one.steps for one in record.processes), default=0)
    if trouble:
        few = 0 < most < options.warmup + WITHIN + options.steps and not options.seconds
        return f"{trouble}; it made {words(most)}: {fitting(most, options.steps)}" if few else trouble
    if not record.processes and record.exit_code:
        return f"the program ended with {record.exit_code}, and no process of it imported PyTorch: see what it printed above"
    if not record.processes:
        return "no process of the program imported PyTorch with the recorder on; Python's -I, -E and -S keep it out"
    if record.exit_code and not options.seconds:
        return f"the program ended with {record.exit_code} after {words(most)}, before its window began"
    if options.seconds:
        when = f"{options.after_s:g} s after the import of PyTorch"
        return f"the program ended before its window, {when}, began; give a smaller --after"
    if not most:
        instead = "call hotlap.step() at the end of each, or give --seconds 3 for a window by the clock"
        return f"the program made no step of an optimiser; {instead}"
    return f"the program ended after {words(most)}, before its window began; {fitting(most, options.steps)}"


def words(steps: int) -> str:
    """1 step, 5 steps."""
    return f"{steps} step{'' if steps == 1 else 's'}"
