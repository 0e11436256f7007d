"""How a row is said, the same everywhere: number, interval, share of the limit, state, family. Unknown is a dash, never zero."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from hotlap.core.analysis.noticed import numbered as numbered
from hotlap.core.analysis.rates import is_aggregate
from hotlap.core.record import BLOCK, IMPORTED, UNNAMED, Gap, Row, Summary, Term
from hotlap.core.show import gaps
from hotlap.core.show.gaps import counted_unit as counted_unit
from hotlap.core.show.gaps import unit_of as unit_of
from hotlap.core.units import BASE_UNITS, COUNTED, percent, round_to, show
from hotlap.core.units import counted as counted
from hotlap.core.work import label as label_of
from hotlap.core.work import traits
from hotlap.core.work.traits import HEADINGS

T = TypeVar("T")
DASH = "–"
CONTEXT = 8  # characters kept beside what differs between two long texts

STATES = {
    "pass": "pass", "fail": "fail", "measured": "measured", "inconclusive": "inconclusive", "not_run": "not run", "invalid": "invalid",
    "error": "error",
}
MARKS = {"pass": "✓", "fail": "✗", "measured": " ", "inconclusive": "?", "not_run": "-", "invalid": "x", "error": "!"}

def family(row: Row) -> str:
    return traits(row.case.workload).heading


def families(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Rows by family, in the order of HEADINGS; within one, in the order given."""
    found: dict[str, list[Row]] = {name: [] for name in HEADINGS}
    for row in rows:
        found[family(row)].append(row)
    return [(name, members) for name, members in found.items() if members]


def devices(rows: Iterable[Row]) -> list[str]:
    """Keys of the devices, in the order they come."""
    return list(dict.fromkeys(row.device for row in rows))


def stands(row: Row) -> bool:
    """Whether the number may be used: an invalid one is shown, marked, and nothing is concluded from it."""
    return row.verdict.state in ("pass", "fail", "measured", "inconclusive") and row.summary.median is not None


def of_blocks(rows: Iterable[Row]) -> bool:
    """Whether every round is a block of requests to a server, which no process of its own takes."""
    methods = {one.method for row in rows for one in row.result.rounds}
    return methods == {BLOCK}


def quantity(value: float | None, unit: str, digits: int = 3) -> str:
    """A number with its unit; units of the user's own take no prefix."""
    if value is None or math.isnan(value):
        return DASH
    if unit not in (*BASE_UNITS, *COUNTED):
        return f"{round_to(value, digits)} {clean(unit)}"
    text = show(value, unit, digits)
    return text.replace("1/s", "/s") if unit == "1/s" else text


def value(row: Row) -> str:
    """The median over rounds; of a call too short to time the limit that is known."""
    if not numbered(row):
        return DASH
    limit = "" if not row.result.too_short else "≥ " if row.result.better == "higher" else "≤ "
    return limit + quantity(row.summary.median, unit_of(row))


def interval(row: Row) -> str:
    """Half-width of the interval as a share of the median, both ends where that would pass 100 %; its confidence below 95 %."""
    if not numbered(row) or row.result.too_short or is_aggregate(row.result):
        return DASH
    return of_interval(row.summary, unit_of(row), row.verdict.state != "invalid")


def of_interval(summary: Summary, unit: str, stands: bool = True) -> str:
    """The same of a summary alone. `stands`: its number may be used."""
    if summary.half_width is None:
        return DASH if summary.rounds > 1 else "1 round"
    sure = f" ({percent(summary.confidence or 0.0)})" if stands and _unsure(summary) else ""
    if summary.half_width > 1 and summary.low is not None and summary.high is not None:
        return f"[{_short_range(summary.low, summary.high, unit)}]{sure}"
    return f"± {percent(summary.half_width, 2)}{sure}"


def unsure(row: Row) -> bool:
    """Whether the interval has less than 95 % confidence, which stands beside it."""
    return _unsure(row.summary) and row.verdict.state != "invalid"


def confidences(rows: Iterable[Row]) -> str:
    """The confidences below 95 % that stand beside intervals, as in `(75 %), (88 %)`; "" where there is none."""
    shares = sorted({round(row.summary.confidence or 0.0, 2) for row in rows if unsure(row)})
    return ", ".join(f"({round(100 * share)} %)" for share in shares)


def _unsure(summary: Summary) -> bool:
    return summary.half_width is not None and summary.confidence is not None and round(summary.confidence, 2) < 0.95


def _short_range(low: float, high: float, unit: str) -> str:
    """Two digits each; the unit once where both have the same."""
    first, last = quantity(low, unit, 2), quantity(high, unit, 2)
    same = first.partition(" ")[2] == last.partition(" ")[2]
    return f"{first.partition(' ')[0] if same else first} – {last}"


def wider(rows: Iterable[Row], precision: float) -> str:
    """How many intervals are wider than the precision that was to be expected of them, as in ``1 interval of measured cases is wider
    (± 12 %)``; "" for none."""
    widths = [row.summary.half_width for row in rows if row.summary.reached and stands(row) and not row.result.too_short]
    wide = [width for width in widths if width and width > precision and percent(width, 2) != percent(precision, 2)]
    if not wide:
        return ""
    verb, most = ("is", "") if len(wide) == 1 else ("are", "up to ")
    return f"{counted(len(wide), 'interval')} of measured cases {verb} wider ({most}± {percent(max(wide), 2)})"


BEST_APART = 0.10  # of the median: a best round nearer to it says nothing new


def best(row: Row, unit: bool = False) -> str:
    """The best round, in the unit in which the value is shown, where it is far from the median; others' programs only make it worse.
    `unit`: with it."""
    summary = row.summary
    if summary.best is None or not summary.median or not stands(row) or row.result.too_short:
        return ""
    if abs(summary.best / summary.median - 1) <= BEST_APART:
        return ""
    bare = in_unit_of(summary.best, summary.median, unit_of(row))
    return f"{bare} {quantity(summary.median, unit_of(row)).partition(' ')[2]}" if unit else bare


def in_unit_of(value: float, shown: float, unit: str, digits: int = 3) -> str:
    """A bare number in the prefix in which another is shown."""
    return round_to(value / _scale(shown, unit), digits)


def _scale(shown: float, unit: str) -> float:
    """What one of the unit that a number is shown in is worth."""
    number = float(quantity(shown, unit, 4).partition(" ")[0])
    return float(1000.0 ** round(math.log(abs(shown / number), 1000))) if unit in (*BASE_UNITS, *COUNTED) and shown and number else 1.0


def ends(summary: Summary, unit: str) -> str:
    """Both ends of the interval with one prefix: ``[27.9 – 28.1] GB/s``; "" where there is none."""
    if summary.low is None or summary.high is None or summary.median is None:
        return ""
    suffix = quantity(summary.median, unit, 4).partition(" ")[2]
    low, high = (
        in_unit_of(end, summary.median, unit, 4 if abs(end) >= abs(summary.median) / 10 else 3) for end in (summary.low, summary.high)
    )
    return f"[{low} – {high}] {suffix}"


def share(gap: Gap) -> str:
    """Of the limit, in whole per cent, so that 97 % and 71 % stand beside each other; finer below 10 %."""
    if gap.share is None:
        return DASH
    number = gap.share * 100
    if number >= 9.95 or number == 0:
        return f"{number:.0f} %"
    return f"{number:.1f} %" if number >= 0.05 else "< 0.1 %"


def is_best(row: Row) -> bool:
    """Whether the case has the run's best rate itself, so that its share of it says nothing."""
    return row.gap.reference_kind == "ceiling" and row.gap.names.get("best_case") == label_of(row.case)


def share_of(row: Row) -> tuple[str, str]:
    """Share and what it is a share of: ``97 %``, ``bound``; of the run's own best, which limits nothing, a ratio: ``0.92``, ``of best``;
    of the case that has it ``the best``."""
    gap = row.gap
    if gap.share is None:
        return DASH, ""
    if is_best(row):
        return "the", "best"
    return (f"{gap.share:.2f}", "of best") if gap.reference_kind == "ceiling" else (share(gap), gap.reference_kind)


def of_limit(row: Row) -> str:
    """The same as one text."""
    return " ".join(share_of(row)).rstrip()


def headroom(gap: Gap) -> str:
    """What is missing to a limit, in words; "" where no limit is known."""
    if gap.share is None or gap.reference_kind not in ("bound", "expected"):
        return ""
    if gap.share > 1 and gap.reference_kind == "expected":  # which limits nothing
        return "faster than expected"
    if share := gap.numbers.get("limit_cached_share"):
        return f"a bound with {percent(share)} of the bytes from the cache, whose rate is not published: how much can be won is open"
    if gap.basis == "memory_left_out":
        return "the bound leaves out the time of memory: how much can be won is open"
    return f"headroom {percent(1 - gap.share)}" if gap.share <= 0.999 else ""


def cached(rows: Sequence[Row]) -> str:
    """How to read the shares of cases whose bound takes most bytes from a cache; "" where there is none."""
    names = [clean(row.label) for row in rows if row.gap.share is not None and row.gap.numbers.get("limit_cached_share")]
    which = some(list(dict.fromkeys(names)), 2)
    return f"{which}: the bound counts bytes that stay in the cache as free, so that no run comes near it" if names else ""


def setter(row: Row) -> str:
    """What sets the limit."""
    name = gaps.set_by(row.gap) or (row.gap.limit.limiter if row.gap.limit else "")
    return clean(name.removeprefix("bandwidth ").removeprefix("compute "))


def why(row: Row) -> str:
    """The reason of the gap, without the numbers of the limit."""
    return clean(gaps.why(row.case, row.gap))


def term(term: Term) -> str:
    """One term of a limit; a bare count has no decimals that say nothing."""
    return f"{clean(term.name)} {f'{term.value:g}' if term.unit == '' else quantity(term.value, term.unit)}"


def state(row: Row) -> str:
    return STATES[row.verdict.state]


def in_cycles(row: Row) -> str:
    """The number in clock cycles, for work whose time is a number of them: what is left of it when the clock varies."""
    result = row.result
    if not result.bound_by_clock or not result.cycles or len(result.cycles) != len(result.values) != 0:
        return ""
    clocks = [cycles / seconds for cycles, seconds in zip(result.cycles, result.seconds, strict=False) if seconds > 0]
    if len(clocks) != len(result.values):
        return ""
    if result.unit == "s":
        counts = [value * hz for value, hz in zip(result.values, clocks, strict=True)]
        return f"{round_to(statistics.median(counts))} cycles per {traits(result.case.workload).step}"
    counts = [value / hz for value, hz in zip(result.values, clocks, strict=True)]
    return f"{round_to(statistics.median(counts))} {clean(result.unit.removesuffix('/s'))} per cycle"


def clean(text: str) -> str:
    """One printable line: what a label or a program's output could do to a terminal is made visible instead."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\n\t\r" else f"\\x{ord(c):02x}" for c in text)


def differing(a: str, b: str, most: int = 40) -> tuple[str, str]:
    """Two texts for one line: long ones without what they share at both ends, then without their middles."""
    texts = [clean(a), clean(b)]
    if max(map(len, texts)) > most:
        texts = [_few(text.split(", ")) for text in texts]
    if max(map(len, texts)) > most:
        ahead = max(_shared(*texts) - CONTEXT, 0)
        behind = max(_shared(*(text[:ahead:-1] for text in texts)) - CONTEXT, 0)
        texts = ["…" * (ahead > 0) + text[ahead : len(text) - behind] + "…" * (behind > 0) for text in texts]
    first, second = (one if len(one) <= most else f"{one[: most // 2 - 1]}…{one[-(most // 2 - 1) :]}" for one in texts)
    return first, second


def _few(items: Sequence[str]) -> str:
    """Of many values the first and the last."""
    return ", ".join(items) if len(items) < 4 else f"{items[0]} … {items[-1]}, {len(items)} in all"


def _shared(a: str, b: str) -> int:
    """Characters that two texts begin with alike."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def some(labels: Sequence[str], most: int = 2) -> str:
    """A few of many: ``a, b and 3 more``; never ``and 1 more``."""
    few = len(labels) <= most + 1  # "and 1 more" takes as much room as its name
    shown = [clean(label) for label in labels[: most + few]]
    if not few:
        return f"{', '.join(shown)} and {len(labels) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def short(names: Sequence[str], most: int = 24) -> dict[str, str]:
    """Names that are too long by their ends, as far as that still tells them apart: the id of a device is never broken over lines."""
    found = {name: name if len(name) <= most else f"{name[: most // 2]}…{name[-(most - most // 2 - 1):]}" for name in names}
    return {name: clean(text if list(found.values()).count(text) == 1 else name) for name, text in found.items()}


def imported_name(key: str) -> str:
    """What an imported device is called: its UUID, else its name; "" where neither was given."""
    name = key.removeprefix(f"{IMPORTED}:").partition(":")[2] if key.startswith(f"{IMPORTED}:") else key
    return "" if name == UNNAMED else name


def signed(share: float, digits: int = 1) -> str:
    """A change in per cent with its sign: `+12.0 %`; what rounds to zero has none."""
    text = f"{share:+.{digits}%}".replace("%", " %")
    return text if any(digit in text for digit in "123456789") or not math.isfinite(share) else text[1:]


_ALONE = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w-]|\.\d)")


def alike(
    items: Iterable[T], text: Callable[[T], str], beside: Callable[[T], str] = lambda _: "", two: bool = False
) -> list[tuple[list[T], str]]:
    """Those whose texts (and what is `beside` them) are the same but for numbers that stand alone, in the order in which they come, and the
    texts of each group as one: a number that differs becomes its range, ``33.4 to 66.7 TFLOP/s``; with `two`, just
    two values are ``33.4 and 66.7 TFLOP/s``, in the order in which they come."""
    groups: dict[tuple[str, str], tuple[list[T], list[str]]] = {}
    for item in items:
        said = text(item)
        members, texts = groups.setdefault((beside(item), _ALONE.sub("#", said)), ([], []))
        members.append(item)
        texts.append(said)
    return [(members, _merged(texts, two)) for members, texts in groups.values()]


def _merged(texts: Sequence[str], two: bool) -> str:
    columns = zip(*(_ALONE.findall(text) for text in texts), strict=True)
    ranges = iter([_range(column, text, two) for column, text in zip(columns, _ends(texts[0]), strict=True)])
    return _ALONE.sub(lambda _: next(ranges), texts[0])


def _ends(text: str) -> Iterator[Callable[..., str] | None]:
    """For each number of a text: min or max where it is the lower or upper end of a range, ``25 to 62 %``."""
    found, spans = list(_ALONE.finditer(text)), False
    for one, after in zip_longest(found, found[1:]):
        spans, ended = not spans and after is not None and text[one.end() : after.start()] == " to ", spans
        yield max if ended else min if spans else None


def _range(numbers: Sequence[str], end: Callable[..., str] | None = None, two: bool = False) -> str:
    if end:
        return end(numbers, key=float)
    if two and len(values := list(dict.fromkeys(numbers))) == 2:
        return " and ".join(values)
    low, high = min(numbers, key=float), max(numbers, key=float)
    return low if low == high else f"{low} to {high}"
