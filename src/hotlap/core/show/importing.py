"""What `import` prints: runs that are new or were there, their cases, and what could not be used."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from hotlap.core.show import layout, words
from hotlap.core.store import paths
from hotlap.core.store.readers.formats import Format
from hotlap.core.store.readers.imported import Imported
from hotlap.core.store.readers.outside import Outside
from hotlap.core.store.readers.table import MODELS_MAX
from hotlap.core.units import show

CONFLICT = "not imported: these runs are there already with other numbers, units or directions; remove them, then import again:"
BESIDE = "runs of the same time, host and device were brought in before, with other numbers, and hotlap history counts both:"
ONE_MODEL = "model: none is named, and devices are called by numbers, so all count as one model; --model NAME, or a column, says others"
SHOWN = 8  # values, cases or runs that are named


def kept(result: Imported, name: str, dry: bool) -> list[str]:
    """`name`: the format's."""
    verb = "would be added" if dry else "added"
    cases = words.some([f"{case} ({unit})" if unit else case for case, unit in result.cases.items()], 6)
    lines = [f"{name}: {words.counted(len(result.added), 'run')} {verb}, {len(result.present)} there already", f"cases: {cases}"]
    if result.of_file:
        of = "" if len(result.of_file) == len(result.added) else f" of {words.counted(len(result.of_file), 'run')}"
        lines.append(f"time{of}: when the file was last written, since its results have none; a copy of the file adds no run")
    lines += [_column(what, words.clean(column)) for what, column in result.columns.items()]
    lines += [ONE_MODEL] if result.is_numbered else []
    if column := words.clean(result.not_model):
        why = f"which is one word for each device, and {MODELS_MAX} at most"
        lines.append(f"column '{column}' is not taken for the devices' model, {why}; --model {column} takes it")
    copies = [f"{run} is {there} again" for run, there in result.copies.items()]
    lines += _listed("the same numbers are there already, under other labels:", copies)
    beside = [f"{run} beside {there}" for run, there in result.beside.items()]
    lines += _listed(BESIDE, beside)
    lines += _listed(f"{words.counted(result.unreadable, 'value')} that cannot be used, kept as errors:", result.reasons, result.unreadable)
    lines += _listed(f"{words.counted(len(result.not_run), 'result')} without a number there:", result.not_run)
    lines += _listed(f"{words.counted(len(result.ignored), 'number')} left out: their meaning is not known:", result.ignored)
    if not result.usable:
        lines.append("no result has a number that can be used: exit code 3")
    folder = paths.runs(paths.home())
    lines += _listed(CONFLICT, [f"rm -r {shlex.quote(str(folder / run))}" for run in result.conflicting])
    single = len(result.added) == 1 and not result.present
    alone = f"hotlap show {result.added[0]}" if single else "hotlap history"  # which needs more runs
    step = f"hotlap gate {result.fleet} --against fleet" if result.fleet else alone
    return [*lines, f"next    {step}"] if result.added and not dry else lines


def _column(what: str, column: str) -> str:
    if what == "case":
        return f"case: with {column}, of which all devices have the same values; as labels of runs: --label-column"
    return f"{what}: column '{column}'"


def _listed(head: str, texts: Sequence[str], count: int = 0) -> list[str]:
    left = max(count, len(texts)) - SHOWN
    return [head, *(f"  {words.clean(text)}" for text in texts[:SHOWN]), *([f"  and {left} more"] if left > 0 else [])] if texts else []


def simulated(result: Outside, clock_hz: float, dry: bool) -> list[str]:
    """Of a simulator's log."""
    verb = "would be added" if dry else "added"
    of = f"{words.counted(result.launches, 'kernel')} at {show(clock_hz, 'Hz')}"
    lines = [f"simulator: {words.counted(len(result.added), 'run')} {verb} of {of}, {len(result.present)} there already"]
    lines += [f"cases: {words.some(result.mapped, 6)}"] if result.mapped else []
    lines += [f"kernels that no entry of a map names: {words.some(result.others, 6)}"] if result.others else []
    lines += [f"{words.counted(result.broken, 'kernel')} left out: not simulated to the end"] if result.broken else []
    if result.mapped and result.added and not dry:
        lines.append(f"next    hotlap model correlate {result.added[0]} MEASURED")
    return lines


def bundles(taken: Mapping[str, Sequence[str]], dry: bool) -> list[str]:
    """Of runs of Hotlap."""
    verb = "would be added" if dry else "added"
    lines = [f"bundle: {words.counted(len(taken['added']), 'run')} {verb}, {len(taken['present'])} there already"]
    return [*lines, f"next    hotlap show {taken['added'][0]}"] if taken["added"] and not dry else lines


def unclaimed(files: Sequence[Path]) -> str:
    return f"{words.counted(len(files), 'file')} of no known format left: {words.some([file.name for file in files], 4)}"


def formats(known: Sequence[Format], width: int) -> str:
    """A format per paragraph: what it brings, and where it was seen."""
    room = max(len(known_format.name) for known_format in known)
    lines = []
    for known_format in known:
        lines += layout.paragraph(f"{known_format.name:<{room}}  ", known_format.brings, width)
        origin = f"seen: {known_format.origin}" if known_format.reads else "format not seen: nothing is read"
        lines += layout.paragraph(" " * (room + 2), origin, width)
    return "\n".join(lines)
