"""Times as people write them: a day, an hour, `today`, `yesterday`, and ranges of them.

A time that is written out is UTC unless it has an offset, as ids and tables show it; today and yesterday are the user's days.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from hotlap.core.errors import InputError

VALID = "today, yesterday, 2026-11, 2026-11-21, 2026-11-21T10:00 (UTC, or with an offset as in +01:00), or a range of them: a..b, a.., ..b"
Span = tuple[float, float]
"""From and to (not included), seconds since 1970 in UTC; infinite where a range is open."""

_WRITTEN = re.compile(r"(\d{4}-\d\d)(-\d\d)?(?:[T ](\d\d)(:\d\d)?(:\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")


def is_time(text: str) -> bool:
    """Whether this is meant as a time or a range, valid or not."""
    return ".." in text or text in ("today", "yesterday") or re.match(r"\d{4}-\d", text) is not None


def span(text: str, now: datetime | None = None) -> Span:
    """All moments that `text` covers: `2026-11-21` the whole day, `a..b` up to the end of b. Raises InputError: what is valid."""
    now = now or datetime.now()
    first, dots, last = text.partition("..")
    if not dots:
        return _one(text, now)
    since = _one(first, now)[0] if first.strip() else float("-inf")
    until = _one(last, now)[1] if last.strip() else float("inf")
    if since >= until:
        raise InputError(f"the range '{text}' ends before it begins; write the earlier time first")
    return since, until


def seconds(written: str) -> float | None:
    """A moment of a bundle (ISO 8601, UTC where it names no offset) as seconds since 1970; None when it is not one."""
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _one(text: str, now: datetime) -> Span:
    word = text.strip()
    if word in ("today", "yesterday"):
        day = now.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None) - timedelta(days=word == "yesterday")
        return _span(day, lambda d: d + timedelta(days=1))
    found = _WRITTEN.fullmatch(word)
    try:
        if not found or (found[3] and not found[2]):
            raise ValueError
        month, day_, hour, minute, second, offset = found.groups()
        start = datetime.fromisoformat(
            f"{month}{day_ or '-01'}T{hour or '00'}{minute or ':00'}{second or ':00'}{offset or 'Z'}"
        )
        return _span(start, _next(day_, hour, minute, second))
    except (ValueError, OverflowError, OSError):
        raise InputError(f"'{text}' is no time; valid: {VALID}") from None


def _next(day: str | None, hour: str | None, minute: str | None, second: str | None) -> Callable[[datetime], datetime]:
    """From the beginning of what was written to its end: a month, a day, an hour, a minute or a second."""
    if not day:
        return lambda d: d.replace(year=d.year + d.month // 12, month=d.month % 12 + 1)
    step = timedelta(seconds=1) if second else timedelta(minutes=1) if minute else timedelta(hours=1) if hour else timedelta(days=1)
    return lambda d: d + step


def _span(start: datetime, end: Callable[[datetime], datetime]) -> Span:
    # Without an offset (today) timestamp() takes local time, each end by itself: a day when clocks change has 23 or 25 hours.
    return start.timestamp(), end(start).timestamp()
