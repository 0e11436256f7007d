"""Predictions of many cases at once: cases that share their texts are evaluated together, and each is answered by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.model.bounds import bounds
from hotlap.core.model.calibration import Calibration
from hotlap.core.model.expect import Expected, expect
from hotlap.core.model.machines import Spec
from hotlap.core.record import Limit, Notice
from hotlap.core.work.base import Param, Workload

OUTSIDE = Notice("outside_measured", "outside of what was measured: the interval is wide")
IMPLEMENTATION = "implementation"
HALVES = 64  # of cases evaluated together that are tried again where one of them is impossible, at most
SECONDS = ("bound_s", "expected_s", "low_s", "high_s", "power_w", "energy_j", "clock_hz")


class _Asked(NamedTuple):
    """What was asked for."""

    kind: Workload
    spec: Spec
    plain: Mapping[str, Any]
    columns: Columns
    by: Calibration | None


class Columns(NamedTuple):
    """Cases as columns of one length. Numbers are NaN where a case cannot be."""

    numbers: Mapping[str, NDArray[np.float64]]
    texts: Mapping[str, NDArray[Any]]  # and flags
    wrong: NDArray[np.bool_]
    error: InputError | None  # of the first case that cannot be


def at_once(workload: str, spec: Spec, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], by: Calibration | None) -> Limit:
    """The limits of these cases: `plain` parameters are the same for all, `arrays` broadcast against each other (the implementation
    among them). A case that is impossible is unknown, the others are answered. Raises InputError where none is possible."""
    kind, shape = work.find(workload), np.broadcast_shapes(*(one.shape for one in arrays.values()))
    columns = _columns(kind, {name: np.broadcast_to(one, shape).ravel() for name, one in arrays.items()})
    asked = _Asked(kind, spec, plain, columns, by)
    answer, error = _Answer(int(np.prod(shape))), columns.error
    for rows in _groups(kind, columns, plain):
        error = _answered(answer, asked, rows, error)
    if error is not None and not answer.answered:
        raise error
    return answer.limit(shape, error)


def _answered(answer: _Answer, asked: _Asked, rows: NDArray[np.int64], error: InputError | None) -> InputError | None:
    """Answers what is possible of these cases, in halves where some are not: the first error so far."""
    open_, failed = [rows], 0
    while open_ and failed < HALVES:
        rows = open_.pop()
        try:
            _fill(answer, asked, rows)
        except InputError as one:
            error, failed = error or one, failed + 1
            open_ += [half for half in (rows[len(rows) // 2 :], rows[: len(rows) // 2]) if len(rows) > 1]
    return error


def _columns(kind: Workload, flat: Mapping[str, NDArray[Any]]) -> Columns:
    count = len(next(iter(flat.values())))
    numbers, texts, wrong = dict[str, Any](), dict[str, Any](), np.zeros(count, dtype=bool)
    error: InputError | None = None
    for name, values in flat.items():
        param = kind.param(name)
        if param is None and name != IMPLEMENTATION:
            raise InputError(kind.no_parameter(name))
        if param is None or param.kind not in ("int", "float"):
            texts[name] = values
            continue
        numbers[name], bad, why = _checked(param, values)
        wrong |= bad
        error = error or why
    return Columns(numbers, texts, wrong, error)


def _checked(param: Param, values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_], InputError | None]:
    """Numbers of a parameter, those out of its range, and what is wrong with the first of them."""
    error: InputError | None = None
    if not np.issubdtype(values.dtype, np.number):
        kinds, which = np.unique(values.astype(str), return_inverse=True)
        each = np.full(len(kinds), np.nan)
        for n, one in enumerate(kinds.tolist()):
            try:
                each[n] = float(param.parse(one))  # type: ignore[arg-type]
            except InputError as wrong:
                error = error or wrong
        return each[which], np.isnan(each[which]), error
    values = values.astype(np.float64)
    low, high = -np.inf if param.low is None else param.low, np.inf if param.high is None else param.high
    bad = ~((values >= low) & (values <= high) & np.isfinite(values))
    if bad.any():
        first = values[np.argmax(bad)]
        error = InputError(f"'{param.name}' must be finite, not {first}")
        if np.isfinite(first):
            try:
                param.parse(float(first))
            except InputError as wrong:
                error = wrong
    return values, bad, error


def _groups(kind: Workload, columns: Columns, plain: Mapping[str, Any]) -> Iterator[NDArray[np.int64]]:
    """Places of the cases whose texts agree; of attention one query, decode, and many, prefill, are different kernels."""
    places = np.flatnonzero(~columns.wrong)
    keys = [np.unique(values.astype(str), return_inverse=True)[1] for values in columns.texts.values()]
    if kind.model == "attention" and "query" in columns.numbers:
        keys.append(columns.numbers["query"] == 1)
    if not keys:
        yield from ([places] if len(places) else [])
        return
    joined = np.zeros(len(columns.wrong), dtype=np.int64)
    for key in keys:
        joined = joined * (int(key.max()) + 1) + key
    for one in np.unique(joined[places]).tolist():
        yield places[joined[places] == one]


def remarks(known: Expected) -> list[Notice]:
    """What the family says of the kernel that it took."""
    return [Notice("nearest_kernel", text) for text in known.remarks]


class _Answer:
    """Fields of the limits, filled group by group."""

    def __init__(self, count: int) -> None:
        self.count, self.answered = count, False
        self.fields = {name: np.full(count, np.nan) for name in SECONDS}
        self.parts: dict[str, NDArray[Any]] = {}
        self.choice: dict[str, NDArray[Any]] = {}
        self.inside, self.limiter = np.zeros(count, dtype=bool), np.full(count, "", dtype="<U40")
        self.level = np.full(count, "", dtype=object)
        self.notes = dict[str, Notice]()

    def put(self, rows: NDArray[np.int64], values: Mapping[str, Any]) -> None:
        self.answered = True
        for name, value in values.items():
            self.fields[name][rows] = value

    def tables(self, rows: NDArray[np.int64], known: Expected) -> None:
        self.notes |= {note.seen: note for note in remarks(known)}
        for table, own in ((self.parts, known.parts), (self.choice, known.choice)):
            for name, value in own.items():
                texts = np.asarray(value).dtype.kind in "US"
                column = table.setdefault(name, np.full(self.count, "", dtype=object) if texts else np.zeros(self.count))
                column[rows] = value

    def limit(self, shape: tuple[int, ...], error: InputError | None) -> Limit:
        unknown = np.isnan(self.fields["expected_s"])

        def shaped(values: NDArray[Any]) -> Any:
            return values.reshape(shape)

        def masked(table: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
            return {name: shaped(_masked(value, unknown)) for name, value in table.items()}

        levels = list(dict.fromkeys(self.level[self.level != ""].tolist()))
        notes = [*([OUTSIDE] if np.any(~self.inside & ~unknown) else []), *self.notes.values()]
        notes += [Notice("some_unknown", f"{int(unknown.sum())} of {self.count} cases are unknown: {error}")] if error is not None else []
        nothing = unknown.all() and np.isnan(self.fields["bound_s"]).all()
        return Limit(
            kind="unknown" if nothing else "bound", limiter=shaped(self.limiter),
            **{name: shaped(values) for name, values in self.fields.items()},
            parts=masked(self.parts), choice=masked(self.choice), inside=shaped(self.inside), known=shaped(self.level.astype(str)),
            calibration_level="; ".join(levels), notes=notes,
        )  # fmt: skip


def _fill(answer: _Answer, asked: _Asked, rows: NDArray[np.int64]) -> None:
    """Answers these cases. Raises InputError where they are impossible together; their bounds stay where only an expectation is missing."""
    kind, plain, columns = asked.kind, asked.plain, asked.columns
    numbers = {name: values[rows] for name, values in columns.numbers.items()}
    texts = {name: _plain(values[rows[0]]) for name, values in columns.texts.items()}
    implementation = str(texts.pop(IMPLEMENTATION, plain.get(IMPLEMENTATION, "")))
    given = {**{name: value for name, value in plain.items() if name != IMPLEMENTATION}, **texts}
    full = {**kind.parse({**given, **{name: _plain(values[0]) for name, values in numbers.items()}}), **numbers}
    if not numbers:  # one case, asked for several times
        size = next(p.name for p in kind.params if p.name in full and p.kind in ("int", "float"))
        full[size] = np.full(len(rows), float(str(full[size])))
    floor, limiters = bounds(kind.name, full, asked.spec)
    answer.put(rows, {"bound_s": floor})
    answer.limiter[rows] = np.where(np.isnan(floor), "", limiters)
    known = expect(kind.name, full, asked.spec, implementation, asked.by)
    answer.put(rows, {
        "expected_s": known.seconds, "low_s": known.low_s, "high_s": known.high_s, "power_w": known.power_w,
        "energy_j": known.power_w * known.seconds, "clock_hz": known.clock_hz,
    })  # fmt: skip
    answer.tables(rows, known)
    answer.inside[rows], answer.level[rows] = known.inside, known.known.words


def _masked(values: NDArray[Any], unknown: NDArray[np.bool_]) -> NDArray[Any]:
    if values.dtype == object:
        return values.astype(str)
    return np.where(unknown, np.nan, values) if unknown.any() else values


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else value

