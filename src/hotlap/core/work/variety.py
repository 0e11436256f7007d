"""How cases of a workload differ for its kernels: sizes at the edge of a tile, stored rows, forms. Covering plans vary it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

EDGES = ("on 256", "on 128", "on 64", "above", "below")
"""A size against the tiles of kernels: a multiple of 256, of 128 or of 64; 1 to 32 above a multiple of 64, or 1 to 31 below one."""
ALIGNMENTS = ("1 B", "2 B", "4 B", "8 B", "16 B")
"""The largest power of two that divides the bytes of every stored row, 16 and more as one."""

Rule = Mapping[str, tuple[str, ...]]
"""Levels by feature that cannot stand together."""


class VarietyColumns(Protocol):
    """Parameters of many cases by name, numbers as arrays."""

    def __getitem__(self, name: str, /) -> NDArray[Any]: ...

    def by_word(self, name: str, key: Callable[[str], int], /) -> NDArray[np.int64]:
        """A number for the text of each case."""
        ...


@dataclass(frozen=True)
class VarietyForm:
    """A feature that is not the choice of one parameter: levels with the parameters that give them, in the order in which `of` numbers
    them."""

    name: str
    levels: Mapping[str, Mapping[str, Any]]
    of: Callable[[VarietyColumns], NDArray[np.int_]]


@dataclass(frozen=True, kw_only=True)
class Variety:
    """The declaration of one workload."""

    edges: tuple[str, ...] = ()  # parameters whose place at the edge of a tile counts
    grown: tuple[str, ...] = ()  # what else grows so that a case reaches a size
    rows: tuple[str, ...] = ()  # parameters that are the length of a stored row
    row_lengths: Callable[[VarietyColumns], list[NDArray[Any]]] | None = None  # the same, where no parameter alone is
    padded: bool = False  # rows can be made longer by the parameter `pad`
    sized: bool = True  # False: its working set says little, or cannot be had in every size
    forms: tuple[VarietyForm, ...] = ()
    values: Mapping[str, Callable[[VarietyColumns], NDArray[Any]]] = field(
        default_factory=dict
    )  # sizes of edges that stand for others at 0
    rules: tuple[Rule, ...] = ()
    base: Mapping[str, Any] = field(default_factory=dict)  # of a case to begin with, beside the usual small sizes
    fitted: Callable[[dict[str, Any], Mapping[str, str], int], Iterable[dict[str, Any]]] = lambda params, levels, step: (params,)
    """Parameters with what hangs together in them: of the levels asked for, and the elements of the alignment asked for."""
    directed: Mapping[str, Any] = field(default_factory=dict)  # of directed cases: what `base` is of others
    beside: int = 0  # the other sizes beside one of 1
    least: Mapping[str, Any] = field(default_factory=dict)  # what must not be more than a size of 1
    together: Callable[[dict[str, Any]], dict[str, Any]] = lambda params: params  # a directed case with what hangs together


def first(*conditions: NDArray[np.bool_]) -> NDArray[np.int_]:
    """The number of the first condition that holds; one more than the last where none does."""
    return np.select(list(conditions), list(range(len(conditions))), len(conditions))
