"""What a number can be compared with without a history: its limit, or rules that a user wrote. Each threshold says where it comes from."""

from __future__ import annotations

import math
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from hotlap.core import units, work
from hotlap.core.analysis import noticed
from hotlap.core.analysis.state import advised
from hotlap.core.errors import InputError, nearest
from hotlap.core.record import IMPORTED, Case, Gap, Limit, Row, Summary, Term, Verdict
from hotlap.core.units import percent, show

CONFIDENCE = 0.95  # of an interval that decides


class Standard(Protocol):
    """What rows are compared with."""

    @property
    def name(self) -> str: ...

    def judge(self, rows: Sequence[Row]) -> list[Verdict]:
        """A verdict per row, in order. Rows that were not measured keep the state they have."""


def held(row: Row, threshold: float, against: str, provenance: str) -> Verdict:
    """A number against the worst value that passes: its whole interval must be on one side of it."""
    summary, unit, higher = row.summary, row.result.unit, row.result.better == "higher"
    fields: dict[str, Any] = {"against": against, "threshold": threshold, "provenance": provenance}
    if summary.median and threshold:
        low, high = _ratio_interval(summary, threshold, higher)
        fields |= {"ratio": summary.median / threshold if higher else threshold / summary.median, "low": low, "high": high}
    if summary.low is None or summary.high is None or (summary.confidence or 0.0) < CONFIDENCE:
        reason = advised(f"{summary.rounds} of the 6 rounds that a 95 % interval needs", ": run with --rounds 6 or more", row.result)
        return Verdict(state="inconclusive", reason=reason, **fields)
    slow, fast = (summary.low, summary.high) if higher else (summary.high, summary.low)
    sign = "at least" if higher else "at most"
    asked = f"{sign} {show(threshold, unit)} ({provenance})"
    if (slow >= threshold) if higher else (slow <= threshold):
        return Verdict(state="pass", reason=asked, **fields)
    if (fast < threshold) if higher else (fast > threshold):
        return Verdict(state="fail", reason=f"{show(summary.median, unit)} is not {asked}", **fields)
    reason = advised(_around(summary.low, summary.high, threshold, unit), ": run more rounds", row.result)
    return Verdict(state="inconclusive", reason=reason, **fields)


def _around(low: float, high: float, threshold: float, unit: str) -> str:
    """An interval and the threshold in it, with as many digits as tell both ends from it."""
    for digits in range(4, 7):
        texts = [show(value, unit, digits) for value in (low, threshold, high)]
        if len(set(texts)) == len(texts):
            break
    low_text, middle, high_text = texts
    usual = show(threshold, unit, 4)
    middle = middle if usual in (low_text, high_text) else usual  # so that devices with one threshold show the same
    alike = low_text.partition(" ")[2] == high_text.partition(" ")[2]
    return f"the threshold, {middle}, lies within its interval, {low_text.partition(' ')[0] if alike else low_text} to {high_text}"


def _ratio_interval(summary: Summary, threshold: float, higher: bool) -> tuple[float | None, float | None]:
    if not summary.low or not summary.high or summary.low <= 0:
        return None, None
    ends = (summary.low / threshold, summary.high / threshold)
    return ends if higher else (1 / ends[1], 1 / ends[0])


def unmeasured(row: Row) -> Verdict | None:
    """The verdict of a row that nothing can be compared with, None for the others."""
    if row.verdict.state in ("not_run", "invalid", "error") or not row.result.values:
        return row.verdict
    return None


# ---------------------------------------------------------------- limits


@dataclass(frozen=True)
class AgainstLimit:
    """A share of what the hardware allows. Without a share only an expected value, which has an interval, passes or fails: a bound
    says what is possible, not what is normal. For that reason a share fails only what a healthy device surely reaches, unless it was
    agreed: a rule's share has a source of its own."""

    share: float | None = None
    agreed: bool = False

    @property
    def name(self) -> str:
        return f"{_asked(self.share)} of the limit" if self.share is not None else "limit"

    def judge(self, rows: Sequence[Row]) -> list[Verdict]:
        return [unmeasured(row) or self._one(row) for row in rows]

    def _one(self, row: Row) -> Verdict:
        gap, limit = row.gap, row.gap.limit
        if gap.limit_value is None or gap.reference_kind not in ("bound", "expected") or limit is None:
            why = limit.reason if limit and limit.reason else "only a ceiling of the run itself is known"
            return Verdict(state="inconclusive", reason=f"no limit is known: {why}", against=self.name)
        source = _source(gap.reference_kind, limit)
        if self.share is not None:
            asked = f"{_asked(self.share)} of the {gap.reference_kind}, {show(gap.limit_value, row.result.unit)}{_with_cache(gap)}"
            where_from = f"{asked}{_usual_share(gap.reference_kind, limit)}; source of the {gap.reference_kind}: {source}"
            higher = row.result.better == "higher"
            verdict = held(row, gap.limit_value * self.share if higher else gap.limit_value / self.share, self.name, where_from)
            return self._fair(verdict, row, limit) if verdict.state == "fail" else verdict
        if gap.reference_kind == "expected" and limit.high_s and limit.expected_s:
            slowest = float(limit.high_s) / float(limit.expected_s)
            threshold = gap.limit_value / slowest if row.result.better == "higher" else gap.limit_value * slowest
            return held(row, threshold, self.name, f"slow end of the expected value: {source}")
        reason = f"a {gap.reference_kind} says what is possible, not what is normal: give --share, or judge against a baseline"
        return Verdict(state="inconclusive", reason=reason, against=self.name)

    def _fair(self, verdict: Verdict, row: Row, limit: Limit) -> Verdict:
        """A fail that says nothing of the device is none: what may stay in a cache counts as moved in no time, and a healthy device may
        be below the share too."""
        share, gap = self.share or 0.0, row.gap
        memory, spared = (gap.numbers.get(name) for name in ("limit_memory_b_s", "limit_spared_bytes"))
        usual = _reached(gap.reference_kind, limit)
        if memory and spared and row.result.unit == "B/s" and row.summary.low is not None and row.summary.low >= share * memory:
            reason = (
                f"at least {_asked(share)} of the {show(memory, 'B/s')} published for memory, but not of the bound, which counts the "
                f"{units.size(round(spared))} that may stay in cache as moved in no time: ask it of sizes well above the "
                f"cache{_larger(row, spared, share, row.summary.low / memory)}"
            )
        elif usual and usual[2] < share:
            reason = (
                f"not even a healthy device is expected to reach {_asked(share)} of the {gap.reference_kind} here, but "
                f"{_span(usual[0], usual[2])}: judge this case with --against expected or a baseline"
            )
        elif not usual and (spared or not self.agreed):
            cached = f", and the bound counts the {units.size(round(spared))} that may stay in cache as moved in no time" if spared else ""
            reason = f"what a healthy device reaches here is not known{cached}: judge this case with --against a baseline or fleet"
        elif usual and usual[0] < share and not self.agreed:
            reason = (
                f"a healthy device is expected to reach {_span(usual[0], usual[2])} of the {gap.reference_kind} here, so it too may be "
                f"below {_asked(share)}: judge this case with --against expected, a baseline or fleet"
            )
        else:
            return verdict
        seen = f"{show(row.summary.median or 0.0, row.result.unit)}: {reason}"
        return replace(verdict, state="inconclusive", reason=seen)


CACHES = 32  # times what may stay in cache: moving so much, the bound is 3 % above the rate of memory


LARGEST_GIB = 32  # that is advised


def _larger(row: Row, spared: float, share: float, reached: float) -> str:
    """What measures memory in sizes well above the cache, and judges it: large enough for a bound that the row's slow end, a share
    `reached` of memory's rate, passes with half of its margin; "" of numbers measured elsewhere. The size has no space, so that it is never
    shown as a range."""
    if row.result.target == IMPORTED:
        return ""
    margin = max(1 - share / reached, 1e-9)
    gibs = max(1, math.ceil(max(CACHES, 2 / margin) * spared / 2**30))
    if gibs > LARGEST_GIB:
        return f"; it is so near to {_asked(share)} that no size up to {LARGEST_GIB} GiB decides"
    simulated = row.result.target == "simulated"  # its machine and options are the run's, and not known here
    target = "TARGET" if simulated else shlex.quote(row.result.target)
    size, judged = f"hotlap bench stream op=copy size={gibs}GiB", f"hotlap gate --against limit --share '{_asked(share)}'"
    measured = f"{size} --target {target} --device all"
    if simulated:  # a plan measures several nodes, too
        measured = f"{size} --save-plan large.toml --dry-run; hotlap run large.toml --target TARGET --device all"
    whose = " (TARGET as for this run)" if simulated else ""
    return f", as in: {measured}; then: {judged}{whose}"


EXPECTED = "expected time"  # the term of a limit's provenance that a bound does not rest on


def _terms(against: str, limit: Limit) -> list[Term]:
    return [term for term in limit.provenance if against == "expected" or term.name != EXPECTED]


SETTERS = {"arithmetic unit": "peak ", "memory": "memory bandwidth", "link": "link bandwidth", "cache": "first-cache "}
"""How the term of a limit's provenance begins that sets it, by limiter."""


def _source(against: str, limit: Limit) -> str:
    """Where the figure comes from that sets the limit."""
    terms = _terms(against, limit)
    setting = [term for name in (EXPECTED, SETTERS.get(limit.limiter)) if name for term in terms if term.name.startswith(name)]
    return next((term.source for term in (*setting, *reversed(terms))), "the machine table")


def _with_cache(gap: Gap) -> str:
    """Of a bound on memory: why it is above the published bandwidth."""
    rate, spared = (gap.numbers.get(name) for name in ("limit_memory_b_s", "limit_spared_bytes"))
    if not rate or not spared or gap.reference_kind != "bound":
        return ""
    return f" from {show(rate, 'B/s')} published and {units.size(round(spared))} that may stay in cache"


def _usual_share(against: str, limit: Limit) -> str:
    """The shares of a bound that the model expects of a healthy device in this case."""
    shares = _reached(against, limit)
    if shares is None or against != "bound":
        return ""
    low, middle, high = shares
    return f"; a healthy device is expected to reach {_span(low, high)} of it, most likely {percent(middle)}"


def _reached(against: str, limit: Limit) -> tuple[float, float, float] | None:
    """Least, expected and greatest share of a bound, or of the expected value, that the model expects of a healthy device."""
    whole_s = limit.bound_s if against == "bound" else limit.expected_s
    if not (whole_s and limit.expected_s and limit.low_s and limit.high_s):
        return None
    low, middle, high = (float(whole_s) / float(time_s) for time_s in (limit.high_s, limit.expected_s, limit.low_s))
    return low, middle, high


def _span(low: float, high: float) -> str:
    """Of shares: ``62 to 91 %``."""
    ends = percent(low), percent(high)
    return ends[1] if ends[0] == ends[1] else f"{ends[0].removesuffix(' %')} to {ends[1]}"


def _asked(share: float) -> str:
    """As it was written: a share that was asked for is not rounded."""
    return f"{share * 100:.6g} %"


# ---------------------------------------------------------------- rules


NOTICES = (*noticed.CODES, *noticed.SAME)
KEYS = ("why", "where", "at_least", "at_most", "share_at_least", "half_width_at_most", "no_notices")
FORMER = {"no_flags": "no_notices"}  # keys of 0.1


@dataclass(frozen=True)
class Rule:
    """One `[[rule]]`: which rows it is about, what it asks, and why."""

    why: str
    where: Mapping[str, str] = field(default_factory=dict)
    at_least: str | float | None = None
    at_most: str | float | None = None
    share_at_least: float | None = None
    half_width_at_most: float | None = None
    no_notices: tuple[str, ...] = ()
    place: str = ""  # file:line

    def fits(self, case: Case, label: str = "") -> bool:
        return all(_fits(case, label or work.label(case), name, text) for name, text in self.where.items())

    def judge(self, row: Row, against: str) -> list[Verdict]:
        """A verdict for each thing asked."""
        unit, verdicts = row.result.unit, list[Verdict]()
        for text, higher in ((self.at_least, True), (self.at_most, False)):
            if text is not None:
                if (row.result.better == "higher") != higher:
                    key = "at_most" if higher else "at_least"
                    raise _refused(f"{row.label} is better when {row.result.better}: write {key}", self.place)
                verdicts.append(held(row, _threshold(text, unit, self.place), against, self.why))
        if self.share_at_least is not None:
            one = AgainstLimit(self.share_at_least, agreed=True).judge([row])[0]
            provenance = f"{one.provenance} ({self.why})" if one.provenance else self.why
            verdicts.append(replace(one, reason=f"{one.reason} ({self.why})", provenance=provenance))
        sure = (row.summary.confidence or 0.0) >= CONFIDENCE
        width = row.summary.half_width if sure else None
        if self.half_width_at_most is not None:
            good = width is not None and width <= self.half_width_at_most
            interval = f"interval ± {percent(width)}" if width is not None else "no 95 % interval"
            interval += f", at most {_asked(self.half_width_at_most)} ({self.why})"
            verdicts.append(Verdict(state="pass" if good else "fail", reason=interval))
        if self.no_notices:
            raised = {*noticed.codes(row), *(set(noticed.raised(row)) & noticed.SAME.keys())}
            seen = [code for code in self.no_notices if code in raised]
            interval = f"flagged {', '.join(seen)}" if seen else f"no {', '.join(self.no_notices)}"
            verdicts.append(Verdict(state="fail" if seen else "pass", reason=f"{interval} ({self.why})"))
        return verdicts


def _threshold(text: str | float, unit: str, place: str) -> float:
    """With its unit, unless the metric has none: a bare 5 of B/s would let everything pass."""
    bare = not isinstance(text, str) or _BARE.fullmatch(text.strip()) is not None
    if bare and unit in units.BASE_UNITS and unit:
        raise _refused(f"'{text}' has no unit; the case is in {unit}, as in '{text} {_usual(unit)}'", place)
    try:
        return units.parse(text, unit)
    except InputError as error:
        raise _refused(str(error), place) from None


_BARE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _usual(unit: str) -> str:
    return {"B/s": "TB/s", "FLOP/s": "TFLOP/s", "OP/s": "TOP/s", "s": "us"}.get(unit, unit)


def _fits(case: Case, label: str, name: str, text: str) -> bool:
    if name == "workload":
        return case.workload == text
    if name == "label":
        return text in label
    value = case.params.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value == units.parse(text, "B" if name == "size" else "")
    return str(value) == text


@dataclass(frozen=True)
class AgainstRules:
    """Rules of a file; every one must be about some row that was measured."""

    file: str
    rules: tuple[Rule, ...]

    @property
    def name(self) -> str:
        return f"rules {self.file}"

    def of_part(self, kept: Iterable[Case], left: Iterable[Case]) -> AgainstRules:
        """Without rules that are about no case that was `kept`, but about one that was `left` out. Raises InputError where none is left."""
        kept, left = list(kept), list(left)
        rules = tuple(one for one in self.rules if any(map(one.fits, kept)) or not any(map(one.fits, left)))
        if not rules:
            valid = nearest("", {case.workload for case in left if any(one.fits(case) for one in self.rules)})
            raise InputError(f"{self.file}: every rule is about cases that --where leaves out; {valid}")
        return AgainstRules(self.file, rules)

    def judge(self, rows: Sequence[Row]) -> list[Verdict]:
        for rule in self.rules:
            if not any(rule.fits(row.case, row.label) and unmeasured(row) is None for row in rows):
                has = nearest("", {row.case.workload for row in rows})
                raise _refused(f"this rule is about no case that was measured; {has}", rule.place)
        return [unmeasured(row) or self._one(row) for row in rows]

    def _one(self, row: Row) -> Verdict:
        fitting = [rule for rule in self.rules if rule.fits(row.case, row.label)]
        verdicts = [replace(verdict, rules=[rule.why]) for rule in fitting for verdict in rule.judge(row, self.name)]
        if not verdicts:
            return Verdict(state="measured", reason="no rule is about it", against=self.name)
        state = next(one for one in ("fail", "inconclusive", "pass") if any(verdict.state == one for verdict in verdicts))
        deciding = [verdict for verdict in verdicts if verdict.state == state]
        valued = min((one for one in deciding if one.ratio is not None), key=_ratio, default=deciding[0])
        reasons = "; ".join(dict.fromkeys(verdict.reason for verdict in deciding))
        whys = list(dict.fromkeys(why for verdict in deciding for why in verdict.rules))
        return replace(valued, reason=reasons, against=self.name, rules=whys)


def _ratio(verdict: Verdict) -> float:
    return verdict.ratio if verdict.ratio is not None else math.inf


def _refused(message: str, place: str) -> InputError:
    return InputError(f"{place}: {message}")


def rules(path: Path) -> AgainstRules:
    """The rules of a TOML file. Raises InputError with file and line."""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        raise InputError(f"the rules '{path}' cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _refused(f"not TOML: {error}", str(path)) from None
    tables = document.get("rule")
    if not isinstance(tables, list) or not tables or set(document) - {"rule", "schema"}:
        raise _refused("a rules file is a list of [[rule]] tables, each with 'why' and what is asked", str(path))
    lines = text.splitlines()
    places = [number for number, line in enumerate(lines, 1) if line.replace(" ", "").startswith("[[rule]]")]
    for one, first in zip(tables, places, strict=False):
        if unknown := [key for key in one if FORMER.get(key, key) not in KEYS]:
            at = next((n for n, line in enumerate(lines[first:], first + 1) if line.partition("=")[0].strip(" \"'") == unknown[0]), first)
            raise _refused(f"a rule has no key '{unknown[0]}'; {nearest(unknown[0], KEYS)}", f"{path}:{at}")
    return AgainstRules(path.name, tuple(_rule(one, f"{path}:{place}") for one, place in zip(tables, places, strict=False)))


def _rule(given: Any, place: str) -> Rule:
    given = {FORMER.get(key, key): value for key, value in given.items()}
    if not str(given.get("why", "")).strip():
        raise _refused("a rule needs 'why': where its threshold comes from", place)
    asked = [key for key in KEYS[2:] if key in given]
    if not asked:
        raise _refused(f"a rule asks for something: {', '.join(KEYS[2:])}", place)
    where = given.get("where", {})
    if not isinstance(where, dict):
        raise _refused("'where' is a table of names and values, as in where = { workload = \"gemm\" }", place)
    shares = {key: _share(given[key], key, place) for key in ("share_at_least", "half_width_at_most") if key in given}
    asks = {key: given[key] for key in ("at_least", "at_most") if key in given}
    for key, value in asks.items():
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise _refused(f"'{key}' is a quantity with its unit, as in {key} = \"4.2 TB/s\"", place)
    return Rule(
        why=str(given["why"]), where={str(k): str(v) for k, v in where.items()}, place=place,
        no_notices=_notices(given["no_notices"], place) if "no_notices" in given else (),
        **asks, **shares,
    )


def _share(value: Any, key: str, place: str) -> float:
    """Above 0 and at most 1; a bare 5 is not 5 %."""
    share = math.nan
    if isinstance(value, (str, int, float)):
        with suppress(InputError):
            share = units.parse(value, "%")
    if not 0 < share <= 1:
        raise _refused(f"'{key}' is a share above 0 and at most 100 %, as in {key} = \"5 %\" or 0.05, not {value}", place)
    return share


def _notices(given: Any, place: str) -> tuple[str, ...]:
    names = given if isinstance(given, list) and given else [given]
    for name in names:
        if name not in NOTICES:
            raise _refused(f"'no_notices' is a list of codes, and there is no code '{name}'; {nearest(str(name), NOTICES)}", place)
    return tuple(names)
