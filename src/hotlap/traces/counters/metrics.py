"""Hotlap's names of metrics, and the profilers' names and units that lead to them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from hotlap.core.record import Record
from hotlap.core.units import percent, show
from hotlap.traces.counters import formula
from hotlap.traces.counters.numbers import unit as unit_of

ROUNDING = 0.001  # a share of a peak may stand this much above 1: profilers round


class Metric(Record, frozen=True, kw_only=True):
    """One metric, as metrics.toml describes it."""

    name: str
    unit: str
    about: str
    ncu: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    raw: str = ""
    peak: bool = False
    formula: str = ""


class MetricTable(NamedTuple):
    """All metrics, and where each of the profilers' names leads."""

    metrics: dict[str, Metric]
    by_name: dict[str, Metric]
    by_label: dict[str, list[Metric]]
    words: dict[str, list[str]]


@cache
def table() -> MetricTable:
    """metrics.toml, with one metric for each word where `each` says so."""
    text = resources.files("hotlap.traces.counters").joinpath("metrics.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)
    words = found.pop("words")
    metrics: dict[str, Metric] = {}
    for name, facts in found.items():
        for word in words[facts["each"]] if "each" in facts else [""]:
            one = _metric(name, facts, word)
            metrics[one.name] = one
    by_label: dict[str, list[Metric]] = {}
    for one in metrics.values():
        for label in one.label:
            by_label.setdefault(label, []).append(one)
    return MetricTable(metrics, {name: one for one in metrics.values() for name in reversed(one.ncu)}, by_label, words)


def _metric(name: str, facts: dict[str, Any], word: str) -> Metric:
    def put(text: str) -> str:
        return text.replace("{}", word) if word else text

    return Metric(
        name=f"{name}_{word}" if word else name, unit=facts["unit"], raw=facts.get("raw", ""), peak=facts.get("peak", False),
        about=put(facts["about"]).replace("_", " "), ncu=tuple(map(put, facts.get("ncu", ()))), label=tuple(facts.get("label", ())),
        formula=put(facts.get("formula", "")),
    )  # fmt: skip


def by_name(values: Mapping[str, tuple[float, str]]) -> tuple[dict[str, float], set[str]]:
    """Metrics in base units, from values and units under the profiler's own names ("" where the file gives no unit); and the names
    that were used."""
    known, used = {}, set()
    for metric in table().metrics.values():
        name = next((name for name in metric.ncu if name in values), None)
        if name is None:
            continue
        number, written = values[name]
        used.add(name)
        if math.isfinite(value := number * unit_of(written or metric.raw)[0]):
            known[metric.name] = value
    return known, used


def by_label(label: str, number: float, written: str) -> tuple[str, float] | None:
    """Name and value in base units of a line of the details page; None where Hotlap has no name for it."""
    scale, base = unit_of(written)
    for metric in table().by_label.get(label, []):
        if base == metric.unit and math.isfinite(number * scale):
            return metric.name, number * scale
    return None


def completed(known: Mapping[str, float]) -> dict[str, float]:
    """With what follows from others by formula."""
    every = dict(known)
    for metric in table().metrics.values():
        if metric.formula and metric.name not in every:
            value = formula.value(metric.formula, every)
            if value is not None:
                every[metric.name] = float(value)
    return every


def impossible(known: Mapping[str, float]) -> list[str]:
    """Names of shares of a peak that are above it, or below 0."""
    metrics = table().metrics
    return [name for name, value in known.items() if name in metrics and metrics[name].peak and not -ROUNDING <= value <= 1 + ROUNDING]


def worded(name: str, value: float) -> str:
    """A metric for people: ``DRAM, of its peak 88 %``."""
    metric = table().metrics.get(name)
    if metric is None:
        return f"{name.replace('_', ' ')} {_count(value)}"
    text = percent(value) if metric.unit == "%" else show(value, metric.unit) if metric.unit else _count(value)
    return f"{metric.about} {text}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
