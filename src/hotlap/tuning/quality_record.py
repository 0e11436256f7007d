"""What is kept of a comparison of two models' answers.

    UnitAnswers (A), UnitAnswers (B) → UnitDifference, one per unit → QualityKept → Quality

A unit is what is independent of the others: an item, or a window of a text. A position is where a model answers: an item has one, a window
one per token. KL is Kullback and Leibler's divergence of B's answer from A's, in nats.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Notice, Record

KIND = "tuning-quality"
SESSION = "quality.json"  # of a bundle: one QualityKept
VALUES = "quality-units.npz"  # of a bundle: an array per field of UnitDifference, units one after another; `sizes`: of each

Answer = Literal["as good", "worse", "cannot tell"]
SideKind = Literal["recorded", "function", "onnx"]
MEASURES = {  # name → what it is
    "kl": "mean KL divergence of B from A", "kl_p99": "99th percentile of KL over positions", "kl_p999": "99.9th percentile of KL",
    "flips": "share of positions where the likeliest answer changes", "perplexity": "perplexity of B over that of A, less 1",
    "accuracy": "share of right answers that B loses",
}  # fmt: skip
DISTANCES = ("kl", "kl_p99", "kl_p999", "flips")  # never below 0: they are compared with their margin alone
MARGINS = {"kl": 0.02, "accuracy": 0.005}  # where none is asked for


class UnitAnswers(NamedTuple):
    """What a model answers to one unit. `logs`: logarithms of probabilities, positions × classes; None where only right or wrong is known.
    `labels`: the right classes, -1 where none is known."""

    name: str
    logs: NDArray[np.float32] | None
    labels: NDArray[np.int64] | None
    right: NDArray[np.bool_] | None


class UnitDifference(NamedTuple):
    """Of one unit, an entry per position; None where it is not known."""

    name: str
    kl: NDArray[np.float32] | None
    flipped: NDArray[np.bool_] | None
    loss_a: NDArray[np.float32] | None  # −log of the probability of the right class
    loss_b: NDArray[np.float32] | None
    right_a: NDArray[np.bool_] | None
    right_b: NDArray[np.bool_] | None


class AnswersAsked(Record, frozen=True, kw_only=True):
    """What `tuning quality` was asked."""

    a: str
    b: str
    data: str = ""
    window: int = 256  # tokens
    margins: dict[str, float] = {}  # measure → the most that it may be; {}: those of MARGINS that the answers allow
    most: int = 0  # units; 0: all


class QualityKept(Record, frozen=True, kw_only=True):
    """A bundle of answers compared."""

    asked: AnswersAsked
    kinds: dict[str, SideKind]  # of A and B
    units: int = 0  # compared
    planned: int = 0  # that there were
    unit: Literal["item", "window"] = "item"
    positions: int = 0
    classes: int = 0
    broken: int = 0  # units in which B gives no number: none of them is in the arrays
    same: bool = False  # no output of B differs from A's
    notices: list[Notice] = []


class QualityMeasure(Record, frozen=True, kw_only=True):
    """One number with its interval of 95 %."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    a: float | None = None  # of A and B themselves: accuracy, perplexity
    b: float | None = None
    lost: int | None = None  # items that A has right and B wrong; the other way round: gained
    gained: int | None = None
    p: float | None = None  # of there being no loss
    margin: float | None = None  # None: beside the answer
    answer: Answer | None = None
    visible: float | None = None  # the smallest loss (of a distance: beyond the margin) seen in 80 % of such comparisons
    needed: int | None = None  # units for an answer, about; None: there is one, or their number does not help
    method: str = ""


class Quality(Record, frozen=True, kw_only=True):
    """Is B as good as A?"""

    asked: AnswersAsked
    kinds: dict[str, SideKind]
    answer: Answer
    unit: str
    units: int
    planned: int
    positions: int
    broken: int
    measures: list[QualityMeasure]
    notices: list[Notice] = []
