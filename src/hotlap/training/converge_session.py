"""Time to quality, kept: of logs that are there, or of programs run in fresh processes, A B, B A, each with a seed of its own."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

import hotlap
from hotlap.core.errors import InputError, MachineError, SchemaError
from hotlap.core.measure import runs, signals
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.targets import host
from hotlap.core.record import IMPORTED, Machine, Plan, RunRecord, Stop, encode
from hotlap.core.store import bundle as bundles
from hotlap.core.store import files, labels
from hotlap.core.store.bundle import Bundle
from hotlap.training import launching, mllog
from hotlap.training.converge_record import SESSION, ConvergeAsked, ConvergeKept, ConvergeRun
from hotlap.training.launching import Launch, Running
from hotlap.training.mllog import QualityAsked
from hotlap.training.record import ProgramKind, TrainingAsked

KIND = "converge"
Listener = Callable[[Launch, int, int], None]
UNSAID = "the program logged nothing: `with hotlap.steps() as t` and `t.quality(value, target)` do, or its own lines of :::MLLOG"


def of_logs(asked: ConvergeAsked, home: Path, marks: Mapping[str, object]) -> Path:
    """Logs of elsewhere. Raises InputError."""
    sides = {}
    for name, place in (("A", asked.a), ("B", asked.b)):
        texts = [(path, mllog.read(path)) for path in mllog.files(place)]
        sides[name] = [(text, mllog.parsed(text, str(path), quality(asked))) for path, text in texts]
    _same_benchmark([run for side in sides.values() for _, run in side])
    now = datetime.now(UTC)
    run = RunRecord(
        id=bundles.new_id(now), began=now.isoformat(timespec="milliseconds"), hotlap=hotlap.__version__, kind=KIND, target=IMPORTED,
        machine=Machine(host="unknown"), devices=[], plan=Plan(name="time to quality", source="hotlap training converge"),
        labels=labels.check(dict(marks)),
    )  # fmt: skip
    writer = bundles.Writer.create(run, home)
    kept = ConvergeKept(asked=asked, a=[one for _, one in sides["A"]], b=[one for _, one in sides["B"]])
    for name, side in sides.items():
        for number, (text, _) in enumerate(side):
            (writer.path / f"log-{name}-{number:03}.txt").write_text(mllog.kept(text), encoding="utf-8")
    _write(writer.path, kept)
    writer.finish(replace(run, ended=run.began, stops=[Stop("imported")]))
    return writer.path


def quality(asked: ConvergeAsked) -> QualityAsked:
    return QualityAsked(asked.target, asked.better, asked.metric, asked.interpolate)


def _same_benchmark(every: Sequence[ConvergeRun]) -> None:
    first: dict[str, str] = {}
    for run in every:
        if run.benchmark:
            first.setdefault(run.benchmark, run.source)
    if len(first) > 1:
        (one, where), (other, there) = list(first.items())[:2]
        raise InputError(f"{where} is a log of {one}, and {there} of {other}: time to quality is compared within one benchmark")


def of_programs(
    asked: ConvergeAsked, kinds: tuple[ProgramKind, ProgramKind], home: Path, marks: Mapping[str, object],
    listen: Listener = lambda *_: None, wait_s: float = 0.0,
) -> Path:
    """Runs them in turns. Raises InputError before anything is run."""
    programs = [
        TrainingAsked(program=program, kind=kind, steps=0, processes=asked.runs, data=["real"], limit_s=asked.limit_s)
        for program, kind in zip((asked.a, asked.b), kinds, strict=True)
    ]
    for program in programs:
        launching.command(program, Launch(0, ""))
    device = host.describe()
    plan = Plan(name="time to quality", about=f"{asked.a} against {asked.b}", source="hotlap training converge")
    base = secrets.randbits(31)
    record = runs.record(plan, device.target, [device], fingerprint([device]), kind=KIND, labels=labels.check(dict(marks)), seed=base)
    with runs.begin(record, [device], home, wait_s) as held:
        kept, running, stop = ConvergeKept(asked=asked), Running(), Stop("error", "the programs could not be run")
        folder = held.writer.path
        try:
            with signals.caught(running.interrupt):
                for number in range(2 * asked.runs):
                    turn, second = divmod(number, 2)
                    name = "AB"[(turn + second) % 2]
                    launch = Launch(number, name, environment=_environment(folder, name, turn, base + number))
                    listen(launch, number, 2 * asked.runs)
                    _launch(programs["AB".index(name)], launch, folder, running)
                    kept = _with(kept, name, folder / f"log-{name}-{turn:03}.txt", base + number)
                    _write(folder, kept)
                    if running.interrupted:
                        break
            stop = Stop("interrupted") if running.interrupted else Stop("program_ended")
        except OSError as error:
            raise MachineError(f"time to quality cannot be kept: {error}; what there is lies in {folder}") from None
        finally:
            kept = replace(kept, failed="interrupted: not all runs are there" if running.interrupted else kept.failed)
            with contextlib.suppress(OSError):
                _write(folder, kept)
            held.finish([stop])
    return folder


def _environment(folder: Path, name: str, turn: int, seed: int) -> dict[str, str]:
    return {"HOTLAP_MLLOG": str(folder / f"log-{name}-{turn:03}.txt"), "HOTLAP_SEED": str(seed)}


def _launch(program: TrainingAsked, launch: Launch, folder: Path, running: Running) -> None:
    """Runs it; lines of MLLOG that it printed stand in for those that it did not log."""
    processes = launching.run(program, launch, folder, running, lambda: None)
    log, output = Path(launch.environment["HOTLAP_MLLOG"]), folder / f"output-{launch.number}.txt"
    printed = output.read_text("utf-8", "replace") if output.is_file() else ""
    if not log.is_file() or not log.stat().st_size:
        log.write_text(mllog.kept(printed), encoding="utf-8")
    for process in processes:
        with contextlib.suppress(OSError):
            (folder / process.file).unlink()
    launching.tidy(folder, launch.number)
    code = processes[0].exit_code if processes else None
    if code and not running.interrupted:
        with log.open("a", encoding="utf-8") as file:
            error = processes[0].error
            said = f"{error.type}: {error.message}" if error.type else f"exit code {code}"
            file.write(f"# the program failed: {said}\n")


def _with(kept: ConvergeKept, name: str, log: Path, seed: int) -> ConvergeKept:
    text = log.read_text("utf-8", "replace")
    failed = next((line.removeprefix("# ") for line in text.splitlines() if line.startswith("# the program failed")), "")
    source = f"{name} {log.stem[-3:]}"
    try:
        run = mllog.parsed(text, source, quality(kept.asked)) if mllog.TOKEN in text else ConvergeRun(source=source, why=UNSAID)
    except InputError as error:
        run = ConvergeRun(source=source, why=str(error))
    run = replace(run, seed=run.seed or str(seed))
    if failed and not run.reached:
        run = replace(run, why=failed)
    return replace(kept, a=[*kept.a, run]) if name == "A" else replace(kept, b=[*kept.b, run])


def _write(folder: Path, kept: ConvergeKept) -> None:
    files.write_whole(folder / SESSION, msgspec.json.format(encode(kept), indent=2) + b"\n")


def read(bundle: Bundle) -> ConvergeKept | None:
    """None where the run was killed before it said what it is. Raises SchemaError."""
    contents = files.long(bundle.path, (SESSION,))
    if SESSION not in contents:
        return None
    try:
        return msgspec.json.decode(contents[SESSION], type=ConvergeKept)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SchemaError(f"{bundle.path}/{SESSION}: {error}") from None
