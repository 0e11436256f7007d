"""Two models' answers compared unit by unit, and kept."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from hotlap.core.errors import HotlapError, InputError, MachineError, SchemaError
from hotlap.core.measure import runs, signals
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.targets import host
from hotlap.core.record import IMPORTED, METHOD, MeasureOptions, Notice, Plan, Stop, encode
from hotlap.core.store import files, labels
from hotlap.core.store.bundle import Bundle
from hotlap.tuning import quality, quality_sides
from hotlap.tuning.quality_record import KIND, SESSION, VALUES, AnswersAsked, QualityKept, UnitAnswers, UnitDifference
from hotlap.tuning.quality_sides import QualitySide, Questions

Listener = Callable[[int, int], None]  # units compared, of how many
TOLERANCE = 1e-6  # of a logarithm of a probability: outputs that differ by no more are the same


def compare(asked: AnswersAsked, home: Path, marks: Mapping[str, object], listen: Listener = lambda *_: None) -> Path:
    """A bundle's folder. Raises InputError before anything is kept; Ctrl-C keeps the units compared until then."""
    questions = quality_sides.questions(asked.data, asked.window) if asked.data else None
    a, b = (quality_sides.side(text, questions) for text in (asked.a, asked.b))
    pairs, planned = _paired(a, b, asked.most)
    kept = QualityKept(
        asked=asked, kinds={"A": a.kind, "B": b.kind}, planned=planned, unit="window" if a.windows or b.windows else "item",
        notices=_dropped(questions, asked),
    )  # fmt: skip
    comparison = Comparing(kept)
    interrupted: list[int] = []
    with signals.caught(interrupted.append):
        for first, second in pairs:
            comparison.add(first, second)
            listen(comparison.count, planned)
            if interrupted:
                break
    done = comparison.kept(interrupted=bool(interrupted))
    return _write(done, comparison.units, home, marks)


class Comparing:
    """Units added one by one."""

    def __init__(self, begun: QualityKept) -> None:
        self.begun, self.units = begun, list[UnitDifference]()
        self.count = self.broken = self.classes = 0
        self.same = True

    def add(self, a: UnitAnswers, b: UnitAnswers) -> None:
        self.count += 1
        self.same = self.same and _alike(a, b)
        unit = quality.difference(a, b)
        if unit is None:
            self.broken += 1
            return
        if not self.units:
            quality.check(self.begun, unit)
        elif [value is None for value in unit] != [value is None for value in self.units[0]]:
            raise InputError(f"{a.name} does not answer as those before it: some units have logits, labels or right, and others do not")
        self.classes = self.classes or (0 if a.logs is None else a.logs.shape[1])
        self.units.append(unit)

    def kept(self, interrupted: bool = False) -> QualityKept:
        notices = list(self.begun.notices)
        if interrupted:
            notices.append(Notice("stopped_early", f"{self.count} of {self.begun.planned} {self.begun.unit}s were compared"))
        positions = sum(size(unit) for unit in self.units)
        same = self.same and self.count > 0
        return replace(
            self.begun, units=len(self.units), positions=positions, broken=self.broken, classes=self.classes, same=same, notices=notices
        )


def size(unit: UnitDifference) -> int:
    """Positions of a unit."""
    return max((len(values) for values in unit[1:] if values is not None), default=0)


def _alike(a: UnitAnswers, b: UnitAnswers) -> bool:
    if a.logs is None or b.logs is None:
        return False  # right and wrong alone do not show it
    return a.logs.shape == b.logs.shape and bool(np.allclose(a.logs, b.logs, rtol=0, atol=TOLERANCE))


def _paired(a: QualitySide, b: QualitySide, most: int) -> tuple[Iterator[tuple[UnitAnswers, UnitAnswers]], int]:
    """Units of both sides, those of two files by their names. Raises InputError where they are not the same units."""
    if a.kind == b.kind == "recorded":
        first, second = ({unit.name: unit for unit in side.answers(0)} for side in (a, b))
        for side, by_name in ((a, first), (b, second)):
            if len(by_name) != side.units:
                raise InputError(f"'{side.name}' answers an item twice: it has {side.units} answers to {len(by_name)} ids")
        for name, other, missing in ((a.name, b.name, first.keys() - second), (b.name, a.name, second.keys() - first)):
            if missing:
                what = f"{len(missing)} items that '{other}' does not, as '{min(missing)}'"
                raise InputError(f"'{name}' answers {what}; pairs are of the same items")
        names = list(first)[: most or None]
        return ((first[name], second[name]) for name in names), len(names)
    if a.units != b.units:
        raise InputError(f"A answers {a.units} units and B {b.units}; pairs are of the same items")
    return zip(a.answers(most), b.answers(most), strict=True), min(a.units, most or a.units)


def _dropped(questions: Questions | None, asked: AnswersAsked) -> list[Notice]:
    if questions is None or not questions.rest:
        return []
    return [Notice("tokens_left_out", f"the last {questions.rest} tokens of '{asked.data}' fill no window of {asked.window}")]


# ---------------------------------------------------------------- the bundle


def _write(kept: QualityKept, units: Sequence[UnitDifference], home: Path, marks: Mapping[str, object]) -> Path:
    device = host.describe()
    imported = set(kept.kinds.values()) == {"recorded"}
    names = [Path(text).name for text in (kept.asked.a, kept.asked.b)]
    plan = Plan(
        name="quality", about=f"{names[1]} against {names[0]}", source="hotlap tuning quality", measure=MeasureOptions(readings_hz=0)
    )
    checked = labels.check(dict(marks))
    target = IMPORTED if imported else device.target
    record = runs.record(plan, target, [device], fingerprint([device]), kind=KIND, method=METHOD, labels=checked, seed=0)
    stopped = any(notice.code == "stopped_early" for notice in kept.notices)
    try:
        with runs.begin(record, [device], home, held=True) as open_run:  # nothing is timed, so nothing is locked
            files.write_whole(open_run.writer.path / VALUES, packed(units))
            files.write_whole(open_run.writer.path / SESSION, msgspec.json.format(encode(kept), indent=2) + b"\n")
            open_run.finish([Stop("interrupted" if stopped else "imported" if imported else "program_ended")])
            return open_run.writer.path
    except OSError as error:
        raise MachineError(f"the comparison cannot be kept: {error}") from None


def packed(units: Sequence[UnitDifference]) -> bytes:
    """The arrays of all units, as a .npz."""
    arrays: dict[str, np.ndarray] = {
        "names": np.array([unit.name for unit in units] or [""]), "sizes": np.array([size(unit) for unit in units], np.int32)
    }
    for place, name in enumerate(UnitDifference._fields[1:], 1):
        parts = [unit[place] for unit in units]
        if units and parts[0] is not None:
            arrays[name] = np.concatenate([part for part in parts if part is not None])
            arrays[f"{name}_sizes"] = np.array([len(part) for part in parts if part is not None], np.int32)
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def unpacked(data: bytes) -> list[UnitDifference]:
    """Raises ValueError, KeyError or OSError for what is none."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        count = len(file["sizes"])
        columns: list[list[np.ndarray] | list[None]] = []
        for name in UnitDifference._fields[1:]:
            if name not in file.files:
                columns.append([None] * count)
                continue
            columns.append(np.split(file[name], np.cumsum(file[f"{name}_sizes"])[:-1]))
        return [UnitDifference(str(name), *values) for name, *values in zip(file["names"][:count], *columns, strict=True)]


def read(bundle: Bundle) -> tuple[QualityKept, list[UnitDifference]] | None:
    """None where the run was killed before it was written. Raises SchemaError."""
    contents = files.long(bundle.path, (SESSION, VALUES))
    if SESSION not in contents or VALUES not in contents:
        return None
    try:
        return msgspec.json.decode(contents[SESSION], type=QualityKept), unpacked(contents[VALUES])
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, KeyError, OSError, HotlapError) as error:
        raise SchemaError(f"{bundle.path}: {SESSION} and {VALUES} do not belong together, or are none: {error}") from None
