"""Is B as good as A: what their answers to the same units differ by, and what that means against margins.

KL divergence, flips, and the ratio of perplexities, with windows as units: as llama.cpp's `perplexity --kl-divergence` prints them.
Accuracy by an exact test of pairs (`core.stats.paired`). *As good*: of each measure with a margin the whole interval lies below it.
*Worse*: of one it lies above; of accuracy and perplexity, above 0 is enough where the margin is not surely kept. Else it cannot be told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.core.stats import binomial, means, paired
from hotlap.tuning.quality_record import DISTANCES, MARGINS, Answer, Quality, QualityKept, QualityMeasure, UnitAnswers, UnitDifference

CHUNK = 32  # positions at once
FEW = 12  # units, below which an interval is wide whatever they say
MANY, UNEVEN = 64, 0.75  # units, and their standard deviation over the mean, beyond which few of them miss a mean above more often
SEEN = 1.959964 + 0.841621  # standard errors that are seen in 80 %
Floats = NDArray[np.float64]


def difference(a: UnitAnswers, b: UnitAnswers) -> UnitDifference | None:
    """Of one unit; None where B gives no number. What a probability of 0 makes infinite is kept so. Raises InputError where A gives no
    number, or the two do not fit each other."""
    if a.logs is not None and np.isnan(a.logs).any():
        raise InputError(f"{a.name}: A gives no number; what B is compared with must answer every position")
    kl, flipped = (None, None) if a.logs is None or b.logs is None else _divergence(a, b)
    labels = _labels(a, b)
    loss_a, loss_b = _losses(a.logs, labels), _losses(b.logs, labels)
    if any(values is not None and np.isnan(values).any() for values in (kl, loss_b)):
        return None
    right_a, right_b = _right(a, labels), _right(b, labels)
    if right_a is not None and right_b is not None and right_a.shape != right_b.shape:
        raise InputError(f"{a.name}: A is right or wrong at {right_a.size} positions, and B at {right_b.size}; they must be alike")
    return UnitDifference(a.name, kl, flipped, loss_a, loss_b, right_a, right_b)


def _labels(a: UnitAnswers, b: UnitAnswers) -> NDArray[np.int64] | None:
    """A's right classes, or B's where A has none. Raises InputError where they are not of these answers, or differ."""
    given = [side.labels for side in (a, b) if side.labels is not None]
    for labels in given:
        for logs in (a.logs, b.logs):
            if logs is not None and labels.shape != logs.shape[:1]:
                raise InputError(f"{a.name}: labels of shape {labels.shape} for {len(logs)} positions; give one for each")
            if logs is not None and not -1 <= labels.min() <= labels.max() < logs.shape[1]:
                wrong = labels[(labels < -1) | (labels >= logs.shape[1])][0]
                raise InputError(f"{a.name}: its label is {wrong}; valid: 0 to {logs.shape[1] - 1}, or -1 where none is known")
    if len(given) == 2 and not (given[0].shape == given[1].shape and ((given[0] == given[1]) | (np.minimum(*given) < 0)).all()):
        raise InputError(f"{a.name}: A and B have different right classes; both must answer the same items in the same order")
    return given[0] if given else None


def _divergence(a: UnitAnswers, b: UnitAnswers) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    assert a.logs is not None
    assert b.logs is not None
    if a.logs.shape != b.logs.shape:
        shapes = " and ".join(" × ".join(str(size) for size in side.logs.shape) for side in (a, b) if side.logs is not None)
        raise InputError(f"{a.name}: A and B answer with {shapes} numbers (positions × classes); they must be alike")
    kl, flipped = np.empty(len(a.logs), np.float32), np.empty(len(a.logs), bool)
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(a.logs), CHUNK):
            part = slice(start, start + CHUNK)
            p = a.logs[part].astype(float)
            terms = np.where(np.exp(p) == 0, 0.0, np.exp(p) * (p - b.logs[part]))
            kl[part] = np.maximum(terms.sum(-1), 0.0)  # rounding may put it just below
            kl[part][np.isnan(b.logs[part]).any(-1)] = np.nan
            flipped[part] = p.argmax(-1) != b.logs[part].argmax(-1)
    return kl, flipped


def _losses(logs: NDArray[np.float32] | None, labels: NDArray[np.int64] | None) -> NDArray[np.float32] | None:
    """Of positions whose class is known."""
    if logs is None or labels is None:
        return None
    known = np.flatnonzero(labels >= 0)
    return -logs[known, labels[known]]


def _right(side: UnitAnswers, labels: NDArray[np.int64] | None) -> NDArray[np.bool_] | None:
    if side.right is not None:
        return side.right
    if side.logs is None or labels is None:
        return None
    known = np.flatnonzero(labels >= 0)
    right: NDArray[np.bool_] = side.logs[known].argmax(-1) == labels[known]
    return right


# ---------------------------------------------------------------- the answer


def judge(kept: QualityKept, units: Sequence[UnitDifference]) -> Quality:
    """The measures that these answers have, and what they mean together."""
    units, infinite = _finite(kept, units)
    measures = [measure for build in (_kl, _tails, _flips, _perplexity, _accuracy) for measure in build(kept, units)] if units else []
    margins = _margins(kept, measures)
    measures = [_held(measure, margins.get(measure.name), kept.units) for measure in measures]
    answers = [measure.answer for measure in measures if measure.answer]
    answer: Answer = "as good" if answers and answers == ["as good"] * len(margins) else "cannot tell"
    if kept.broken or "worse" in answers:
        answer = "worse"
    return Quality(
        asked=kept.asked, kinds=kept.kinds, answer=answer, unit=kept.unit, units=kept.units, planned=kept.planned,
        positions=kept.positions, broken=kept.broken, measures=measures, notices=[*kept.notices, *infinite, *_notices(kept, measures)],
    )  # fmt: skip


def check(kept: QualityKept, unit: UnitDifference) -> None:
    """Raises InputError for a margin on what answers like this one do not have."""
    has = {
        **dict.fromkeys(DISTANCES, unit.kl is not None), "perplexity": unit.loss_a is not None and kept.unit == "window",
        "accuracy": unit.right_a is not None and unit.right_b is not None,
    }  # fmt: skip
    for name in kept.asked.margins:
        if not has[name]:
            what = "probabilities of both sides" if name in DISTANCES else "right classes"
            what = "windows with probabilities and right classes" if name == "perplexity" else what
            there = ", ".join(name for name in has if has[name])
            raise InputError(f"--margin {name}: these answers do not have it, since it takes {what}; they have {there}")


def _finite(kept: QualityKept, units: Sequence[UnitDifference]) -> tuple[Sequence[UnitDifference], list[Notice]]:
    """Without divergences, or losses, where a probability of 0 makes some infinite: a mean has no number then."""
    notices = []
    for what, names in (("KL", ("kl",)), ("perplexity", ("loss_a", "loss_b"))):
        if what == "perplexity" and kept.unit == "item":
            continue
        each = [[getattr(unit, name) for name in names] for unit in units]
        count = sum(any(values is not None and np.isinf(values).any() for values in unit) for unit in each)
        if count:
            units = [unit._replace(kl=None) if what == "KL" else unit._replace(loss_a=None, loss_b=None) for unit in units]
            seen = f"in {count} of {kept.units} {kept.unit}s a probability is 0 that the other side or the label does not exclude"
            notices.append(Notice("zero_probability", f"{seen}: {what} is infinite there, and has no number"))
    return units, notices


def _margins(kept: QualityKept, measures: Sequence[QualityMeasure]) -> Mapping[str, float]:
    there = [measure.name for measure in measures]
    if kept.asked.margins or not there:
        return kept.asked.margins
    chosen = "accuracy" if "accuracy" in there and (kept.unit == "item" or "kl" not in there) else "kl"
    return {chosen: MARGINS[chosen]}


def _held(measure: QualityMeasure, margin: float | None, units: int) -> QualityMeasure:
    """Against its margin."""
    if margin is None:
        return measure
    answer: Answer = "cannot tell"
    if measure.high is not None and measure.high < margin:
        answer = "as good"
    elif measure.low is not None and measure.low > (margin if measure.name in DISTANCES else 0.0):
        answer = "worse"
    needed = None
    if answer == "cannot tell" and measure.high is not None and measure.value < margin:
        needed = math.ceil(units * max((measure.high - measure.value) / (margin - measure.value), 1.0) ** 2)
    return replace(measure, margin=margin, answer=answer, needed=needed)


def _notices(kept: QualityKept, measures: Sequence[QualityMeasure]) -> list[Notice]:
    notices = []
    if kept.broken:
        every = f"{kept.broken} of {kept.units + kept.broken} {kept.unit}s"
        notices.append(Notice("not_a_number", f"in {every} B gives no number (NaN or infinite)"))
    if kept.same:
        notices.append(Notice("same_outputs", "no output of B differs from A's"))
    if 0 < kept.units < FEW:
        notices.append(Notice("few_units", f"{kept.units} {kept.unit}s; intervals hold from about {FEW} on"))
    for measure in measures:
        spread = (measure.visible or 0.0) / SEEN * math.sqrt(kept.units)
        if measure.name == "kl" and kept.unit == "window" and FEW <= kept.units < MANY and spread > UNEVEN * measure.value:
            seen = f"KL differs between windows by {100 * spread / measure.value:.0f} % of its mean"
            notices.append(Notice("uneven_units", f"{seen}; of {kept.units} such windows an interval is too short more often"))
    return notices


# ---------------------------------------------------------------- the measures


def _kl(kept: QualityKept, units: Sequence[UnitDifference]) -> list[QualityMeasure]:
    if units[0].kl is None:
        return []
    return [_mean("kl", [unit.kl for unit in units if unit.kl is not None])]


def _mean(name: str, each: Sequence[NDArray[np.float32]], shown: Callable[[float], float] = float) -> QualityMeasure:
    """Over units, each as heavy as it has positions."""
    values, sizes = [float(unit.mean(dtype=float)) for unit in each if len(unit)], [len(unit) for unit in each if len(unit)]
    whole = means.mean(values, sizes, positive=name in DISTANCES)
    if whole is None:
        return QualityMeasure(name=name, value=shown(values[0]), method="a single unit has no interval")
    low = max(whole.low, 0.0) if name in DISTANCES else whole.low
    wider = ", as wide as that of lognormal units" if name in DISTANCES else ""
    return QualityMeasure(
        name=name, value=shown(whole.mean), low=shown(low), high=shown(whole.high), visible=SEEN * whole.error,
        method=f"mean of units, Student's t with Hall's correction for skewness{wider}",
    )  # fmt: skip


def _tails(kept: QualityKept, units: Sequence[UnitDifference]) -> list[QualityMeasure]:
    """Quantiles; the interval is that of the share of positions below, with units as rounds (Woodruff, J. Am. Stat. Assoc. 47, 1952)."""
    each = [unit.kl for unit in units if unit.kl is not None]
    if not each:
        return []
    ordered = np.sort(np.concatenate(each))
    measures = []
    for name, p in (("kl_p99", 0.99), ("kl_p999", 0.999)):
        if len(ordered) * (1 - p) < 1:
            continue
        value = float(ordered[math.ceil(p * len(ordered)) - 1])
        worth = binomial.over_rounds([int((unit <= value).sum()) for unit in each], [len(unit) for unit in each]).effective
        ends = binomial.interval(p * worth, worth)
        below, above = math.floor(ends[0] * len(ordered)), math.ceil(ends[1] * len(ordered))
        high = float(ordered[above]) if above < len(ordered) else None
        low = float(ordered[max(below - 1, 0)])
        measures.append(QualityMeasure(name=name, value=value, low=low, high=high, method="order statistics, by units"))
    return measures


def _flips(kept: QualityKept, units: Sequence[UnitDifference]) -> list[QualityMeasure]:
    each = [unit.flipped for unit in units if unit.flipped is not None]
    if not each:
        return []
    events, counts = [int(unit.sum()) for unit in each], [len(unit) for unit in each]
    if kept.unit == "item":
        low, high = binomial.interval(sum(events), sum(counts))
        share, effective, method = sum(events) / sum(counts), float(sum(counts)), "exact interval of a share (Clopper and Pearson)"
    else:
        share, low, high, effective = binomial.over_rounds(events, counts)
        method = "exact interval of a share, by units (Korn and Graubard)"
    visible = SEEN * math.sqrt(max(share * (1 - share), 1 / effective) / effective)
    return [QualityMeasure(name="flips", value=share, low=low, high=high, visible=visible, method=method)]


def _perplexity(kept: QualityKept, units: Sequence[UnitDifference]) -> list[QualityMeasure]:
    pairs = [(unit.loss_a, unit.loss_b) for unit in units if unit.loss_a is not None and unit.loss_b is not None and len(unit.loss_a)]
    if not pairs or kept.unit == "item":
        return []
    measure = _mean("perplexity", [b - a for a, b in pairs], math.expm1)
    a, b = (math.exp(float(np.concatenate([pair[place] for pair in pairs]).mean(dtype=float))) for place in (0, 1))
    return [replace(measure, a=a, b=b)]


def _accuracy(kept: QualityKept, units: Sequence[UnitDifference]) -> list[QualityMeasure]:
    pairs = [(unit.right_a, unit.right_b) for unit in units if unit.right_a is not None and unit.right_b is not None and len(unit.right_a)]
    if not pairs:
        return []
    a, b = np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])
    lost, gained = int((a & ~b).sum()), int((~a & b).sum())
    if kept.unit == "window":
        measure = _mean("accuracy", [pair[0].astype(np.float32) - pair[1] for pair in pairs])
    else:
        found = paired.loss(lost, gained, len(a))
        measure = QualityMeasure(
            name="accuracy", value=found.loss, low=found.low, high=found.high, p=paired.above(lost, gained, len(a)),
            visible=paired.visible((lost + gained) / len(a), len(a)),
            method="exact test of pairs" if found.exact else "approximate test of pairs",
        )  # fmt: skip
    return [replace(measure, a=float(a.mean()), b=float(b.mean()), lost=lost, gained=gained)]
