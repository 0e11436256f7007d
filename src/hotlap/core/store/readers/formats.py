"""Which reader a file is for, by its content alone; and the table of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hotlap.core.errors import InputError, nearest
from hotlap.core.store.readers import (
    aiperf,
    asv,
    benchmarkdotnet,
    conbench,
    criterion,
    exported,
    google_benchmark,
    guidellm,
    hyperfine,
    inference_perf,
    jmh,
    llama_bench,
    nccl_tests,
    nvbench,
    perftest,
    phoronix,
    pyperf,
    pytest_benchmark,
    sglang_bench,
    superbench,
    vllm_bench,
)
from hotlap.core.store.readers.source import ReadRun, Source


class Reader(Protocol):
    """A module of this folder; see `source`. `BESIDE`, where it has one: names of files that belong to its own."""

    NAME: str
    BRINGS: str
    ORIGIN: str

    def detect(self, source: Source) -> bool: ...

    def read(self, source: Source) -> list[ReadRun]: ...


@dataclass(frozen=True)
class Format:
    """What `--formats` lists. `reads` is False where no file of the format was seen."""

    name: str
    brings: str
    origin: str

    @property
    def reads(self) -> bool:
        return bool(self.origin)


READERS: tuple[Reader, ...] = (
    hyperfine, pytest_benchmark, pyperf, asv, google_benchmark, nvbench, criterion, jmh, benchmarkdotnet, conbench, phoronix, superbench,
    vllm_bench, sglang_bench, aiperf, guidellm, inference_perf, llama_bench, nccl_tests, perftest, exported,
)  # fmt: skip
OTHERS = (
    Format("table", "CSV or JSON: a row per number, or a column per metric, as the options of columns say", "our own: docs/import.md"),
    Format("bundle", "runs of Hotlap: folders, or a zip with any number of them", "our own: docs/bundle.md"),
    Format("simulator", "cycles of kernels as seconds (--map, --clock, --machine)", "logs of Accel-Sim and GPGPU-Sim: tests/core/store"),
)


def formats() -> list[Format]:
    return [*(Format(reader.NAME, reader.BRINGS, reader.ORIGIN) for reader in READERS), *OTHERS]


def find(source: Source, name: str = "", readers: Sequence[Reader] = READERS) -> Reader | None:
    """The reader of a file; None for a table. `name`: the user's choice.

    Raises InputError where two readers take the file for theirs, and for a format that was never seen.
    """
    if name == "table":
        return None
    claims = [reader for reader in readers if name == reader.NAME] if name else [reader for reader in readers if reader.detect(source)]
    if name and not claims:
        raise InputError(f"there is no format '{name}'; {nearest(name, [known.name for known in formats()])}")
    if len(claims) > 1:
        names = [reader.NAME for reader in claims]
        raise InputError(f"{source.path}: {' and '.join(names)} both take it for theirs; say which with --from {names[0]}")
    if claims and not claims[0].ORIGIN:
        raise InputError(f"{source.path}: the format '{claims[0].NAME}' was not seen yet, so it is not read; a table of it can be")
    return claims[0] if claims else None


def read(source: Source, reader: Reader) -> list[ReadRun]:
    """Runs of a file. Raises InputError that names the place, also for a file of another shape than its reader knows."""
    try:
        runs = reader.read(source)
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        what = f"there is no {error} where it should be" if isinstance(error, KeyError) else f"{error}"
        raise InputError(f"{source.path}: not of the form that '{reader.NAME}' reads: {what}; hotlap import --formats lists all") from None
    if not any(run.cases for run in runs):
        raise InputError(f"{source.path}: it holds no results of {reader.NAME}")
    return runs


def merged(runs: Iterable[ReadRun]) -> list[ReadRun]:
    """Runs of one group, host, device and labels as one, at the latest time of them."""
    groups: dict[tuple[object, ...], list[ReadRun]] = {}
    for place, run in enumerate(runs):
        key = (run.group, run.host, run.device, run.uuid, run.index, tuple(sorted(run.labels.items()))) if run.group else (place,)
        groups.setdefault(key, []).append(run)
    return [_together(members) for members in groups.values()]


def _together(members: Sequence[ReadRun]) -> ReadRun:
    return replace(
        members[0], cases=[case for run in members for case in run.cases], time_s=max(run.time_s for run in members),
        ignored=tuple(name for run in members for name in run.ignored),
    )
