"""Rules of rules.toml, compared with the metrics of kernels: what each finds, with evidence and estimated gain."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from hotlap.core.record import Record
from hotlap.traces.counters import formula


class CounterRule(Record, frozen=True, kw_only=True):
    """One rule, its words filled in; see rules.toml for what each field means."""

    name: str
    title: str
    when: str
    remedy: str
    source: str
    link: str = ""
    local: str = ""
    whole: str = ""  # `global` in the file
    low: str = ""
    parent: str = ""
    work: bool = False
    shows: tuple[str, ...] = ()


class Hint(Record, frozen=True, kw_only=True):
    """What a rule found in one kernel. Gains are shares of time saved, 0 to 1; None where the rule cannot tell."""

    kernel: str
    place: int  # of the kernel in its file
    rule: str
    title: str
    evidence: dict[str, float]  # base units
    gain_local: float | None = None  # of the time of the part that the rule is about
    gain_global: float | None = None  # of the kernel's time: at most
    gain_low: float | None = None  # of the kernel's time: at least, where it is known
    parent: str = ""  # rule whose gain bounds this one's
    remedy: str
    source: str
    link: str = ""

    @property
    def gain(self) -> float:
        """What findings are ranked by: the middle of least and most; 0 where only a local gain is known."""
        most = self.gain_global or 0.0
        return most if self.gain_low is None else (most + self.gain_low) / 2


@cache
def bounds() -> dict[str, float]:
    """Thresholds of what bounds a kernel."""
    found: dict[str, float] = _file()["bound"]
    return found


def says(kind: str) -> str:
    """What a bound means, with places for {share} and {level}."""
    found: str = _file()["says"][kind.replace(" ", "-")]
    return found


@cache
def table() -> dict[str, CounterRule]:
    """Rules by name, in the order of the file, parents before children; one per word of `each`, as ``stall:barrier``."""
    found: dict[str, CounterRule] = {}
    for name, facts in _file()["rule"].items():
        for word, text in facts.get("each", {"": ""}).items():
            one = _rule(f"{name}:{word}" if word else name, facts, word, text)
            found[one.name] = one
    return found


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(resources.files("hotlap.traces.counters").joinpath("rules.toml").read_text(encoding="utf-8"))


def _rule(name: str, facts: dict[str, Any], word: str, text: str) -> CounterRule:
    def put(piece: str, shown: bool = False) -> str:
        return piece.replace("{text}", text).replace("{}", word.replace("_", " ") if shown else word)

    return CounterRule(
        name=name, title=put(facts["title"], True), when=put(facts["when"]), remedy=put(facts["remedy"], True), source=facts["source"],
        link=facts.get("link", ""), local=put(facts.get("local", "")), whole=put(facts.get("global", "")), low=put(facts.get("low", "")),
        parent=facts.get("parent", ""), work=facts.get("work", False), shows=tuple(map(put, facts.get("shows", ()))),
    )  # fmt: skip


def matching(kernel: str, place: int, names: Mapping[str, float], headroom: float | None) -> list[Hint]:
    """All hints of one kernel, the largest gain first. `names`: metrics that are known; `headroom`: share of the kernel's time that
    would go at the peak of compute or memory, whichever is nearer, None where it is not known."""
    hints: dict[str, Hint] = {}
    for rule in table().values():
        if formula.value(rule.when, names):
            hint = _hint(rule, names, headroom, hints.get(rule.parent))
            hints[rule.name] = Hint(kernel=kernel, place=place, **hint)
    return sorted(hints.values(), key=lambda one: (-one.gain, -(one.gain_local or 0.0)))


def _hint(rule: CounterRule, names: Mapping[str, float], headroom: float | None, parent: Hint | None) -> dict[str, Any]:
    """Gains by the rule's formulas; none exceeds that of its parent, nor the headroom where the kernel's work stays the same."""
    local = _share(rule.local, names)
    caps = [] if headroom is None or rule.work else [headroom]
    given = dict(names)
    if local is not None:
        given["local"] = local
    if parent is not None and parent.gain_global is not None:
        given["parent"] = parent.gain_global
        caps.append(parent.gain_global)
    most = _share(rule.whole, given)
    most = None if most is None else min(most, *caps, 1.0)
    low = _share(rule.low, given)
    return {
        "rule": rule.name, "title": rule.title, "evidence": {name: names[name] for name in rule.shows if name in names},
        "gain_local": local, "gain_global": most, "gain_low": None if low is None or most is None else min(low, most),
        "parent": rule.parent, "remedy": rule.remedy, "source": rule.source, "link": rule.link,
    }  # fmt: skip


def _share(text: str, names: Mapping[str, float]) -> float | None:
    value = formula.value(text, names) if text else None
    return None if value is None else min(max(float(value), 0.0), 1.0)
