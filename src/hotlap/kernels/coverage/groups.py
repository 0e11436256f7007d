"""Cases of one workload as columns, and what they count: bytes, working sets and operations of many cases at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.record import Case
from hotlap.core.work.base import Workload


class GroupColumns(dict[str, NDArray[Any]]):
    """Parameters of many cases of one workload, by name: numbers as float64, texts as objects. Keeps what was read of them."""

    def __init__(self, name: str, cases: Sequence[Case]) -> None:
        super().__init__()
        self.spec, self.length = work.find(name), len(cases)
        self._kept: dict[str, tuple[list[str], NDArray[np.int64]]] = {}
        for param in self.spec.params:
            values = [case.params.get(param.name, param.default) for case in cases]
            self[param.name] = np.array(values, dtype=np.float64) if param.kind in ("int", "float") else _objects(values)

    def texts(self) -> list[str]:
        return [name for name, values in self.items() if values.dtype == object]

    def words(self, name: str) -> tuple[list[str], NDArray[np.int64]]:
        """The texts of a parameter, and which of them each case has."""
        if name not in self._kept:
            places: dict[str, int] = {}
            found = [places.setdefault(value if isinstance(value, str) else str(value), len(places)) for value in self[name].tolist()]
            self._kept[name] = list(places), np.array(found, dtype=np.int64)
        return self._kept[name]

    def by_word(self, name: str, key: Callable[[str], int]) -> NDArray[np.int64]:
        """A number for the text of each case."""
        words, places = self.words(name)
        return np.array([key(word) for word in words], dtype=np.int64)[places]

    @cached_property
    def counted(self) -> dict[str, NDArray[np.float64]]:
        """Bytes moved, working set and operations of each case; `operations.UNIT` by arithmetic unit."""
        return _counted(self)


def _counted(columns: GroupColumns) -> dict[str, NDArray[np.float64]]:
    """Texts are grouped, numbers counted at once."""
    length, texts = columns.length, columns.texts()
    totals: dict[str, NDArray[np.float64]] = {name: np.zeros(length) for name in ("memory_bytes", "working_set_bytes", "link_bytes")}
    for places in _alike(columns, texts):
        given: dict[str, Any] = {name: values[places] for name, values in columns.items() if name not in texts}
        given.update({name: columns[name][places[0]] for name in texts})
        for name, values in _worked(columns.spec, given, len(places)).items():
            totals.setdefault(name, np.zeros(length))[places] = values
    return totals


def _alike(columns: GroupColumns, texts: Sequence[str]) -> list[NDArray[np.int64]]:
    """Places of cases with the same texts."""
    key = np.zeros(columns.length, dtype=np.int64)
    for name in texts:
        words, places = columns.words(name)
        key = key * len(words) + places
    order = np.argsort(key, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if columns.length else []


def _worked(spec: Workload, given: dict[str, Any], length: int) -> dict[str, Any]:
    """One count of many cases where the workload takes arrays, else one by one."""
    if length > 1:
        with contextlib.suppress(TypeError, ValueError, AssertionError):
            return _fields(spec, given)
    one_by_one = [
        _fields(spec, {name: _plain(value[i]) if isinstance(value, np.ndarray) else value for name, value in given.items()})
        for i in range(length)
    ]
    names = {name for one in one_by_one for name in one}
    return {name: np.array([one.get(name, 0.0) for one in one_by_one]) for name in names}


def _fields(spec: Workload, params: dict[str, Any]) -> dict[str, Any]:
    asked = spec.work(params)
    return {
        "memory_bytes": asked.memory_bytes, "working_set_bytes": asked.working_set_bytes, "link_bytes": asked.link_bytes,
        **{f"operations.{unit}": amount for unit, amount in asked.operations.items()},
    }  # fmt: skip


def _plain(value: Any) -> Any:
    number = float(value)
    return int(number) if number.is_integer() else number


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


@dataclass(frozen=True)
class CaseGroup:
    """The cases of one workload, and their columns, which are read once."""

    name: str
    cases: list[Case]

    @cached_property
    def columns(self) -> GroupColumns:
        return GroupColumns(self.name, self.cases)


Groups = Mapping[str, CaseGroup]


def grouped(cases: Sequence[Case]) -> dict[str, CaseGroup]:
    """By workload, in order of first appearance."""
    found: dict[str, CaseGroup] = {}
    for case in cases:
        if case.workload not in found:
            found[case.workload] = CaseGroup(case.workload, [])
        found[case.workload].cases.append(case)
    return found
