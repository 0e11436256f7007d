"""Runs of simulators that Hotlap is not: cycles of kernels by their core clock as seconds, kernels told to be cases of ours by a map.

A map is TOML, first fit first:

    [[kernel]]
    name = "ampere_*gemm*"   # as a shell's pattern
    launch = [1, 3]          # optional: only these launches, as the simulator counts them
    workload = "gemm"
    m = 4096                 # and the workload's parameters, as in a plan
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec.structs import replace

import hotlap
from hotlap.core import units, work
from hotlap.core.errors import InputError
from hotlap.core.plan import read as plans
from hotlap.core.record import IMPORTED, UNNAMED, Case, Device, Machine, Plan, RunRecord, Samples, Stop
from hotlap.core.store import paths
from hotlap.core.store.readers import accelsim, imported
from hotlap.core.store.readers.accelsim import SimulatedLaunch, SimulatorRun
from hotlap.core.work import program

METHOD = "simulator"  # Samples.method of what an outside simulator says
CLOCKS = (1e8, 1e10)  # Hz: beyond them a clock was given in MHz


@dataclass(frozen=True)
class ImportEntry:
    """One [[kernel]] of a map."""

    pattern: str
    launches: frozenset[int]  # empty: all
    case: Case

    def fits(self, launch: SimulatedLaunch) -> bool:
        return fnmatchcase(launch.kernel, self.pattern) and (not self.launches or launch.number in self.launches)


@dataclass(frozen=True)
class Outside:
    """What came of a file: new and known runs, kernels that are cases of ours and others, launches, those that did not end."""

    added: list[str]
    present: list[str]
    mapped: list[str]
    others: list[str]
    launches: int
    broken: int
    clock_hz: float


@dataclass(frozen=True)
class ImportOptions:
    """What the user adds to a file. `machine`: slug of the machine table that was simulated."""

    entries: Sequence[ImportEntry] = ()
    clock_hz: float | None = None
    machine: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def bring_in(path: Path, asked: ImportOptions, home: Path, dry: bool = False) -> Outside:
    """Keeps a file's kernels as runs under `home`, one for each configuration. Raises InputError; nothing is written then."""
    simulations = accelsim.read(path)
    bundles = [_bundle(one, path, asked) for one in simulations]
    for number, entry in enumerate(asked.entries, 1):
        if not any(entry.fits(launch) for one in simulations for launch in one.launches):
            kernels = ", ".join(sorted({launch.kernel for one in simulations for launch in one.launches})[:5])
            raise InputError(f"{path}: no kernel fits name = '{entry.pattern}' of entry {number} of the map; there are {kernels}")
    folder = paths.runs(home)
    bundles = [(replace(run, id=imported.present_id(folder, run, samples)), samples) for run, samples in bundles]
    fresh = [(run, samples) for run, samples in bundles if not (folder / run.id).exists()]
    if not dry:
        paths.create(folder)
        for run, samples in fresh:
            imported.keep(folder, run, samples)
    cases = {case.id: case for run, _ in bundles for case in run.plan.cases}.values()
    added = [run.id for run, _ in fresh]
    foreign = [work.traits(one.workload).source == "file" for one in cases]
    own, other = ([work.label(one) for one, is_foreign in zip(cases, foreign, strict=True) if is_foreign is side] for side in (False, True))
    return Outside(
        added, [run.id for run, _ in bundles if run.id not in added], own, other, sum(len(one.launches) for one in simulations),
        sum(one.broken for one in simulations), _clock(simulations[0], path, asked),
    )  # fmt: skip


def _clock(simulation: SimulatorRun, path: Path, asked: ImportOptions) -> float:
    clock = asked.clock_hz or simulation.clock_hz
    if clock is None:
        raise InputError(f"{path}: it does not say the core's clock (-gpgpu_clock_domains); give --clock, as in --clock '1.41 GHz'")
    if not CLOCKS[0] <= clock <= CLOCKS[1]:
        low, high = (units.show(end, "Hz") for end in CLOCKS)
        raise InputError(f"a core's clock of {units.show(clock, 'Hz')} is none: from {low} to {high}, as in --clock '1.41 GHz'")
    return clock


def _bundle(simulation: SimulatorRun, path: Path, asked: ImportOptions) -> tuple[RunRecord, list[Samples]]:
    """One run: a kernel's launches are the samples of one round, for a simulator repeats itself."""
    clock = _clock(simulation, path, asked)
    key = f"{simulation.simulator} {simulation.config or path.name}".strip()
    device = Device(
        target=IMPORTED, index=0, name=simulation.config or asked.machine or "simulated GPU",
        kind="gpu" if asked.machine else "other", uuid=key,
        driver=simulation.simulator, machine=asked.machine, clock_max_hz=clock,
    )  # fmt: skip
    groups: dict[str, tuple[Case, list[SimulatedLaunch]]] = {}
    for launch in simulation.launches:
        case = next((entry.case for entry in asked.entries if entry.fits(launch)), None) or _own(launch)
        groups.setdefault(case.id, (case, []))[1].append(launch)
    samples = [_sample(case, launches, device, clock) for case, launches in groups.values()]
    moment = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    began = moment.isoformat(timespec="milliseconds")
    said = repr((key, clock, asked.machine, [(s.case, s.values) for s in samples]))
    run = RunRecord(
        id=f"{moment:%Y%m%dT%H%M%S}-{hashlib.sha256(said.encode()).hexdigest()[:6]}", began=began, ended=began, stops=[Stop("imported")],
        hotlap=hotlap.__version__, kind=IMPORTED, target=IMPORTED, machine=Machine(host=UNNAMED, devices=[device]),
        plan=Plan(name=path.name.removesuffix(".gz").rpartition(".")[0] or path.name, cases=[c for c, _ in groups.values()],
                  source="hotlap import"),
        devices=[device.key],
        labels={"simulator": simulation.simulator.partition(" ")[0]} | ({"config": simulation.config} if simulation.config else {})
        | dict(asked.labels),
    )  # fmt: skip
    return run, samples


def _own(launch: SimulatedLaunch) -> Case:
    return program.IMPORTED.case({"name": launch.kernel, "unit": "s", "better": "lower"})


def _sample(case: Case, launches: Sequence[SimulatedLaunch], device: Device, clock_hz: float) -> Samples:
    """Counters are means over launches of one kernel."""
    names = dict.fromkeys(name for launch in launches for name in launch.counters)
    means = {}
    for name in names:
        values = [launch.counters[name] for launch in launches if name in launch.counters]
        means[name] = sum(values) / len(values)
    means["cycles"] = sum(launch.cycles for launch in launches) / len(launches)
    return Samples(
        case=case.id, device=device.key, round=0, values=[launch.cycles / clock_hz for launch in launches], method=METHOD,
        variant=launches[0].kernel, counters={**means, "clock_hz": clock_hz},
    )  # fmt: skip


# ---------------------------------------------------------------- the map


def read_map(path: Path) -> list[ImportEntry]:
    """Raises InputError with the file and the entry."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file '{path}'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"'{path}' cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None
    given = data.get("kernel")
    if not isinstance(given, list) or not given or not all(isinstance(item, Mapping) for item in given) or len(data) > 1:
        raise InputError(f"{path}: a map is a list of [[kernel]] tables, each with name, workload and the workload's parameters")
    return [_entry(item, f"{path}: [[kernel]] {number}") for number, item in enumerate(given, 1)]


def _entry(item: Mapping[str, object], where: str) -> ImportEntry:
    name, workload, launch = item.get("name"), item.get("workload"), item.get("launch", [])
    if not isinstance(name, str) or not isinstance(workload, str):
        raise InputError(f"{where}: it needs name, the kernel's (a shell's pattern), and workload, one of Hotlap's")
    given: list[object] = launch if isinstance(launch, list) else [launch]
    numbers = [number for number in given if isinstance(number, int) and not isinstance(number, bool) and number > 0]
    if len(numbers) < len(given):
        raise InputError(f"{where}: 'launch' is a number from 1, or a list of them, not {launch!r}")
    try:
        case = plans.case(workload, {key: value for key, value in item.items() if key not in ("name", "workload", "launch")})
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return ImportEntry(name, frozenset(numbers), case)
