"""Each number by itself: interval, rounds and samples, state, limit with its cause and sources, notices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hotlap.core import work
from hotlap.core.analysis import power_limit
from hotlap.core.model.causes import PACED
from hotlap.core.record import Row
from hotlap.core.show import counters, layout, words
from hotlap.core.show import notices as noticing
from hotlap.core.stats.summary import DEPENDENT, MANY_OUTLIERS
from hotlap.core.units import percent

STATE_STYLES = {"pass": "good", "fail": "bad", "measured": "", "inconclusive": "warn", "not_run": "dim", "invalid": "bad", "error": "bad"}


def explain(rows: Sequence[Row], width: int = 100, color: bool = False) -> str:
    """Each number against its limit: the headroom, its named cause, and every term of the limit with its source. Several devices one
    after the other, each under its name."""
    if not rows:
        return "no results: no case was measured"
    sources = Sources()
    lines: list[str] = []
    keys = words.devices(rows)
    for key in keys:
        lines += ["", layout.painted(words.clean(key), "accent", color)] if len(keys) > 1 else []
        for name, members in words.families(row for row in rows if row.device == key):
            lines += ["", layout.painted(name, "bold", color)]
            for row in members:
                lines += [*_explained(row, sources, width, color, once=len(rows) > 1), ""]
            lines.pop()
    lines += _to_do(rows, width, color) if len(rows) > 1 else []
    lines += _inputs(rows, width, color)
    return "\n".join([*lines[1:], *_sources(sources, width, color)])


def briefly(row: Row, who: str, width: int = 100, color: bool = False, others: str = "") -> list[str]:
    """One number among many: `who` it is of, what it misses of its limit, why, and what to know of it; what the `others` reach. What only
    other cases of this device make likely is left out beside them: their calls lose as much, and they are faster."""
    modelled = row.gap.limit is not None and row.gap.limit.expected_s
    parts = ("interval", "state", "limit", "reference", "cause", "notice", "", *(() if others and not modelled else ("split",)))
    lines = _explained(row, Sources(), width, color, parts)
    lines[1:1] = _part("others", others, width, color) if others else []
    return [f"  {layout.painted(words.clean(who), 'bold', color)}", *lines]


def over_devices(rows: Sequence[Row], width: int = 100, color: bool = False) -> list[str]:
    """One case on several devices as one block: the middle value and both ends, its share of the limit, and each cause with the devices
    that have it where not all have the same."""
    ordered = sorted(rows, key=lambda row: math.inf if row.summary.median is None else row.summary.median)
    known = [row for row in ordered if words.numbered(row)]
    middle, count = (known or ordered)[len(known or ordered) // 2], words.counted(len(rows), "device")
    reached, of = words.share_of(middle)
    of_best = middle.gap.reference_kind == "ceiling"
    share = "" if not known or middle.gap.share is None else f"{reached} {of}" if of_best else f"{reached} of {of}"
    ends = dict.fromkeys(words.value(row) for row in (known[0], known[-1])) if known else {}
    span = f"{' to '.join(ends)} on {count}" if len(ends) > 1 else f"on {count}"
    number = layout.painted(words.value(middle) if known else words.state(middle), STATE_STYLES[middle.verdict.state] or "bold", color)
    beside = f"  {'  '.join(filter(None, (number, span, share)))}"
    lines = [f"  {layout.painted(words.clean(middle.label), 'accent', color)}{beside}"]
    whys: Sequence[tuple[str, Callable[[Row], str], Callable[[Row], str]]] = (
        ("state", lambda row: row.verdict.state, _state_line), ("cause", lambda row: row.gap.cause, cause_line),
    )  # fmt: skip
    for name, kind, line in whys:
        groups: dict[str, list[Row]] = {}
        for row in ordered if name == "state" else known:
            groups.setdefault(kind(row), []).append(row)
        for members in groups.values():
            text = words.clean(line(members[len(members) // 2]))
            who = f"{words.some(words.devices(members), 3)}: " if len(groups) > 1 else ""
            lines += _part(name, who + text, width, color) if text else []
    return lines


LEAST_SHARE = 0.03  # of a gap, below which a cause is not named


@dataclass
class Sources:
    """Sources of terms, numbered as they first come, so that each is printed once."""

    seen: dict[str, int] = field(default_factory=dict)

    def number(self, source: str) -> int:
        return self.seen.setdefault(source, len(self.seen) + 1)

    def terms(self, row: Row) -> str:
        """The terms of a row's limit, each with the number of its source."""
        found = row.gap.limit.provenance if row.gap.limit else []
        return ", ".join(f"{words.term(one)} [{self.number(one.source)}]" for one in found)


def split_line(row: Row) -> str:
    """Where the time between bound and measured goes, the largest first; and by how much it was faster than expected, if it was."""
    split, limit = row.gap.split, row.gap.limit
    missed = split.get("unexplained", 0.0)
    whole = sum(split.values()) - min(missed, 0.0)
    if not split or whole <= 0 or limit is None or not limit.bound_s:
        return ""
    known = row.gap.cause not in ("", "unknown")  # a named cause explains some of what no part does
    rest = "unexplained" if not known else "beyond what is expected" if limit.expected_s else "unexplained by readings"
    own = {"unexplained": rest}
    if case := row.gap.names.get("best_case"):
        own[PACED] = f"best rate of this run, of {case}, below the bound"
    named = {own.get(name, name): value for name, value in split.items()}
    if not limit.expected_s:
        of = "estimated from other cases of this run, as there is no model of this kernel"
        return f"{words.quantity(whole, 's')} over the bound: {_shares(named, whole)}; {of}"
    expected = words.quantity(limit.expected_s, "s")
    if missed >= 0:
        return f"{words.quantity(whole, 's')} over the bound: {_shares(named, whole)}; expected {expected}, {limit.calibration_level}"
    causes = {name: value for name, value in split.items() if name != "unexplained"}
    faster = f"measured {words.quantity(-missed, 's')} ({percent(-missed / limit.expected_s)}) faster than expected"
    over = f"{words.quantity(whole, 's')} is over the bound: {_shares(causes, whole)}"
    return f"expected {expected}, of which {over}; {faster}; {limit.calibration_level}"


def _shares(split: Mapping[str, float], whole: float) -> str:
    large = sorted((one for one in split.items() if abs(one[1]) >= LEAST_SHARE * whole), key=lambda one: -abs(one[1]))
    rest = whole - sum(value for _, value in large)
    said = [f"{name} {words.quantity(value, 's')} ({percent(value / whole)})" for name, value in large]
    return ", ".join([*said, f"the rest {words.quantity(rest, 's')}"] if abs(rest) > 0.005 * whole else said)


def ends_shown(row: Row) -> bool:
    """Whether both ends of the interval stand beside its half-width."""
    return words.interval(row).startswith("±")


def _to_do(rows: Sequence[Row], width: int, color: bool) -> list[str]:
    """What to do about cases that are less certain than asked, once for all that have the same reason."""
    notices = [one for one in noticing.find(rows) if one.action and any(row.verdict.state == "inconclusive" for row in one.rows)]
    wider = tuple(row for row in rows if _wants_rounds(row))
    noisy = [one for one in notices if one.code == "noise" and one.action == noticing.rounds_needed(one.rows)]
    if wider and noisy:  # one advice, for all that more rounds serve
        notices = [one for one in notices if one not in noisy]
        also = [row for one in noisy for row in one.rows if row.verdict.state == "inconclusive"]
        wider = tuple(row for row in rows if row in wider or row in also)
    named = [(notice.word, notice) for notice in notices]
    if wider:
        named.append(("precision", noticing.TableNotice("noise", wider, "", noticing.rounds_needed(wider))))
    lines = ["", layout.painted("what to do", "bold", color)] if named else []
    for word, notice in named:
        lines += layout.paragraph(f"  {word:<13} ", f"{noticing.which(notice, rows)} → {notice.action}", width, most=16)
    return lines


def _inputs(rows: Sequence[Row], width: int, color: bool) -> list[str]:
    """That operators read other inputs in each call: a reader's own loop over one tensor, in a cache, is faster."""
    known = (row for row in rows if words.numbered(row) and not row.result.imported and work.traits(row.case.workload).operator)
    if not any(row.case.params.get("cache", "rotated") == "rotated" for row in known):
        return []
    text = "operators read other inputs in each call, up to 64 sets in turn: from memory where these do not fit the last cache together"
    return ["", *_named("inputs: ", text, width, color)]


def _wants_rounds(row: Row) -> bool:
    """Whether more rounds are advised, and no notice of the row advises them."""
    wide = row.verdict.state == "inconclusive" and row.summary.reached is False and not row.result.imported and not row.result.too_short
    return wide and not {"noise", "busy"} & set(noticing.codes(row)) and not power_limit.uneven(row.result)


def _explained(row: Row, sources: Sources, width: int, color: bool, only: Sequence[str] = (), once: bool = False) -> list[str]:
    """`once`: what to do stands below, for all cases."""
    style, label, ends = STATE_STYLES[row.verdict.state], words.clean(row.label), _ends(row)
    number = f"{words.value(row)}  {words.interval(row)}" if words.numbered(row) else words.state(row)
    fits = len(label) + len(number) + len(ends) + 6 <= width
    if fits and ends:
        number, ends = f"{number}  {ends}", ""
    lines = [f"  {layout.painted(label, 'accent', color)}  {layout.painted(number, style or 'bold', color)}"]
    parts = [("interval", ends), ("state", _state_line(row, once)), ("rounds", _rounds_line(row))]
    if words.numbered(row):
        name = "reference" if row.gap.reference_kind == "ceiling" else "limit"
        parts += [(name, limit_line(row)), ("cause", cause_line(row)), ("split", split_line(row)), ("from", sources.terms(row)),
                  ("count", counters.line(row) if counters.of(row) else ""), ("time", counters.waited(row))]
    parts += [("" if place else "notice", ": ".join(filter(None, note))) for place, note in enumerate(noticing.notes(row))]
    for name, text in parts:
        if text and (not only or name in only):
            lines += _part(name, text, width, color)
    return lines


def _part(name: str, text: str, width: int, color: bool) -> list[str]:
    """A named line of a case, as many as it takes."""
    return _named(f"    {name:<9} ", text, width, color)


def _named(first: str, text: str, width: int, color: bool) -> list[str]:
    pieces = layout.paragraph(first, words.clean(text), width, most=8)
    return [layout.painted(first, "dim", color) + pieces[0][len(first) :], *pieces[1:]]


def _ends(row: Row) -> str:
    """Both ends of the interval, and the best round where it is far from the median."""
    ends = words.ends(row.summary, words.unit_of(row)) if ends_shown(row) else ""
    best = f"best {words.quantity(row.summary.best, words.unit_of(row))}" if words.best(row) else ""
    return "  ".join(filter(None, (ends, best)))


def _state_line(row: Row, once: bool = False) -> str:
    """Of what is not simply measured: state, notice, reason, and what to do; of an uncertain number without it where that stands `once`."""
    verdict = row.verdict
    if verdict.state == "measured":
        return ""
    named = ", ".join(filter(None, (words.state(row), noticing.word(row))))
    if once and verdict.state == "inconclusive" and row.summary.reached is False and row.summary.expected not in (None, math.inf):
        return f"{named}: by how much its rounds differ, ± {percent(row.summary.expected or 0.0, 2)} is usual"
    action = f" → {verdict.action}" if verdict.action and not (once and verdict.state == "inconclusive") else ""
    return f"{named}{f': {verdict.reason}' if verdict.reason else ''}{action}"


REPLACED = {  # Samples.foreign: what ran while a sample was taken that was replaced
    "run_delay": "waited for a processor", "processor": "others used the processors", "process": "another process used the GPU",
    "brake": "power brake or hardware slowdown",
}


def _rounds_line(row: Row) -> str:
    """Rounds used and left out, samples replaced, and why."""
    result, summary = row.result, row.summary
    if not words.numbered(row):
        return ""
    parts = [words.counted(summary.rounds, "round")]
    if result.reason and result.reason != row.verdict.reason:
        parts.append(result.reason)
    replaced = sum(len(one.replaced) for one in result.rounds)
    parts.append(words.counted(summary.samples, "sample") + (f", {replaced} replaced ({_causes(row)})" if replaced else ""))
    if summary.effective is not None and summary.samples >= 20 and summary.effective < DEPENDENT * summary.samples:
        parts.append(f"effective sample size {summary.effective:.0f} (autocorrelated)")
    if summary.outliers > MANY_OUTLIERS * summary.samples >= 1:
        parts.append(words.counted(summary.outliers, "outlier"))
    if duty := [one.duty for one in result.rounds if one.duty is not None]:
        parts.append(f"share of the round in timed code {noticing.span(duty, percent)}")
    return "; ".join(parts)


def _causes(row: Row) -> str:
    counts: dict[str, int] = {}
    for one in row.result.rounds:
        for cause, count in one.foreign.items():
            counts[cause] = counts.get(cause, 0) + count
    return ", ".join(f"{REPLACED.get(cause, cause)}: {count}" for cause, count in counts.items()) or "others ran meanwhile"


def _sources(sources: Sources, width: int, color: bool) -> list[str]:
    lines = ["", layout.painted("sources", "bold", color)] if sources.seen else []
    for source, number in sources.seen.items():
        lines += layout.paragraph(f"{f'[{number}]':>6} ", words.clean(source) or "not given", width, most=8)
    return lines


def limit_line(row: Row) -> str:
    """The limit with its value, the share reached and the headroom; the run's best median where no limit is known, or why there is none."""
    gap, limit = row.gap, row.gap.limit
    if gap.share is None or gap.limit_value is None:
        return f"unknown: {limit.reason if limit and limit.reason else 'no figure with a source'}"
    value, setter = words.quantity(gap.limit_value, words.unit_of(row)), words.setter(row)
    if words.is_best(row):
        of = f" ({setter})" if setter else ""
        return f"none: no other case of this run has a higher median rate{of}, and {_farther(row)}"
    if gap.reference_kind == "ceiling":
        return f"{_best(row, value, setter)}, reached {gap.share:.2f} of it; {_farther(row)}"
    reached = ", ".join(filter(None, (f"reached {words.share(gap)}", words.headroom(gap))))
    said = "; ".join(filter(None, (reached, _expected(row))))
    return f"{gap.reference_kind} {value}{f', set by {setter}' if setter else ''}; {said}"


def _best(row: Row, value: str, setter: str) -> str:
    """The run's best median with the case that has it; where that is a rate of another kind, what this case would reach at it."""
    gap, of = row.gap, f" ({setter})" if setter else ""
    case, rate = gap.names.get("best_case", ""), gap.numbers.get("best_rate")
    unit = "B/s" if not gap.limiter.startswith("compute") else "OP/s" if ".int" in gap.limiter else "FLOP/s"
    if not case or not rate or row.result.unit == unit:
        return f"best median of {f'this run, of {case}' if case else 'a case of this run'}: {value}{of}"
    return f"{value}, what this case would reach at the best median rate{of} of this run, {words.quantity(rate, unit)} of {case}"


def _farther(row: Row) -> str:
    """The bound, where the run's own best is nearer because the bound leaves memory out, or most of it."""
    limit = row.gap.limit
    if limit is None or not limit.bound_s:
        return "no limit is known"
    value = work.find(row.case.workload).value(float(limit.bound_s), row.case.params)
    bound = f"the bound {words.quantity(value, words.unit_of(row))}, set by {limit.limiter}"
    return f"{bound}, is higher: it leaves out the time of memory, or most of it"


def _expected(row: Row) -> str:
    """How a number lies to what the model expects, where its limit is a bound."""
    slower = noticing.slower_than_expected(row)
    if slower is None or row.gap.reference_kind != "bound":
        return ""
    return "slower than the model expects" if slower else "not slower than the model expects"


def cause_line(row: Row) -> str:
    """The named cause and the reason for it, without the numbers that stand in the line of the limit."""
    cause, why = row.gap.cause.replace("_", " "), words.why(row)
    if row.gap.cause == "at_limit" and not why:
        return ""
    if row.gap.basis == "no_limit":
        return "" if row.gap.share is None else "unknown"
    return f"{cause}: {why}" if cause and why else cause or why
