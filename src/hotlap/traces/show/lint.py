"""Lint of markers as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from hotlap.core.show import layout, words
from hotlap.traces.markers import SEVERITIES, Flaw, Linted, MarkerRule

MARKS = {"error": "bad", "warning": "warn", "info": "dim"}
MOST_FLAWS, MOST_NAMES, MOST_PLACES = 4, 6, 3  # of one rule that are printed


def lint(linted: Linted, width: int, color: bool = False) -> str:
    """Rule by rule, the worst first, then how many of each severity."""
    lines = []
    for file, markers, names in zip(linted.files, linted.markers, linted.names, strict=True):
        about = f"{words.counted(markers, 'range')} of {words.counted(names, 'name')}"
        lines.append(f"{layout.painted(words.clean(file), 'bold', color)} · {about}")
        for notice in linted.notices.get(file, []):
            lines += layout.paragraph("notice ", words.clean(notice.text), width)
    if linted.compared:
        lines.append(f"{len(linted.files)} traces taken as {linted.compared}")
    for _, group in groupby(linted.flaws, key=lambda one: (one.rule, one.severity)):
        lines += ["", *_rule(list(group), len(linted.files) > 1, width, color)]
    counts = {level: sum(one.severity == level for one in linted.flaws) for level in reversed(SEVERITIES)}
    said = ", ".join(words.counted(count, level) if level != "info" else f"{count} info" for level, count in counts.items() if count)
    lines += ["", f"{words.counted(len(linted.flaws), 'flaw')}: {said}" if linted.flaws else "no flaw found"]
    for reason in dict.fromkeys(linted.not_told.values()):
        lines += layout.paragraph("", f"not asked ({reason}): {', '.join(n for n, r in linted.not_told.items() if r == reason)}", width)
    return "\n".join(lines)


def _rule(several: Sequence[Flaw], files: bool, width: int, color: bool) -> list[str]:
    first = several[0]
    level = layout.painted(first.severity.upper(), MARKS[first.severity], color)
    lines = [f"{level}  {layout.painted(first.title, 'bold', color)}  [{first.rule}]"]
    for each in several[:MOST_FLAWS]:
        lines += layout.paragraph("  is         ", words.clean(_seen(each)), width, most=6)
        if each.places:
            lines += layout.paragraph("  at         ", words.clean(_places(each, files)), width)
    if len(several) > MOST_FLAWS:
        lines.append(f"             and {len(several) - MOST_FLAWS} more of this rule: --json has each")
    for head, text in (("because", first.because), ("source", first.source), ("mend", first.remedy)):
        lines += layout.paragraph(f"  {head:<9}  ", text, width)
    return lines


def _seen(flaw: Flaw) -> str:
    """The names, where the detail does not tell them, and the detail."""
    untold = [name for name in flaw.names if name not in flaw.detail]
    if not untold:
        return flaw.detail
    more = max(flaw.count, len(flaw.names)) if flaw.rule in ("ids", "ranks-differ", "names-changed") else len(flaw.names)
    rest = f" and {more - MOST_NAMES:,} more" if more > MOST_NAMES and len(untold) > MOST_NAMES else ""
    listed = ", ".join(f"'{layout.shortened(name, 60)}'" for name in untold[:MOST_NAMES]) + rest
    times = f" ({flaw.count:,} ×)" if flaw.count > 1 and flaw.rule.startswith(("left", "closed")) else ""
    return f"{flaw.detail}: {listed}{times}"


def _places(flaw: Flaw, files: bool) -> str:
    """Times by file and thread: 68.590 ms, 145.187 ms … on thread 7/7 (python)."""
    texts = []
    for (file, thread), group in groupby(flaw.places[:MOST_PLACES], key=lambda place: (place.file, place.thread)):
        times = ", ".join(_time(place.time_s) for place in group)
        more = " …" if flaw.count > len(flaw.places) and file == flaw.places[-1].file else ""
        texts.append((f"{file}: " if files else "") + times + more + (f" on thread {_thread(thread)}" if thread else ""))
    return "; ".join(texts)


def _time(time_s: float) -> str:
    return f"{time_s * 1e3:.3f} ms" if time_s < 10 else f"{time_s:.6f} s"


def _thread(text: str) -> str:
    """Without the number where the thread's name repeats it."""
    place, _, name = text.partition(" ")
    process, _, thread = place.partition("/")
    name = name.removeprefix(f"thread {thread}").strip().strip("()")
    return (thread if process == thread else place) + (f" ({name})" if name else "")


def rules(rules: Mapping[str, MarkerRule], width: int) -> str:
    """All rules, as --list prints them."""
    lines: list[str] = []
    for one in rules.values():
        lines += [f"{one.name}: {one.title} ({one.severity})"]
        limit = f"{one.threshold:g} {one.counts}" if one.counts else ""
        for head, text in (("threshold", limit), ("because", one.because), ("source", one.source), ("mend", one.remedy)):
            lines += layout.paragraph(f"  {head:<9}  ", text, width) if text else []
        lines.append("")
    return "\n".join(lines).rstrip()
