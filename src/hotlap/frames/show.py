"""What captures print."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from hotlap.core import units
from hotlap.core.record import Summary
from hotlap.core.show import layout
from hotlap.core.show.table import Cell, Column, Table, harmless
from hotlap.frames import likes, lows
from hotlap.frames.judged import JudgedFrames, Pick
from hotlap.frames.record import Hitch, StreamFigures

STREAMS, HITCHES, FILES = 6, 5, 3
DASH = "–"
CAUSES = {
    "compile": "pipelines were compiled", "clock": "the GPU's clock fell", "memory": "memory in use grew", "gpu": "the GPU took longer",
    "present": "Present took longer", "host": "the CPU took longer", "unknown": "no column of the file explains it",
}  # fmt: skip
EVIDENCE = {
    "compile_s": ("compiling", "s"), "pipelines": ("pipelines", ""), "clock_mhz": ("clock", "MHz"), "usual_clock_mhz": ("usually", "MHz"),
    "vram_grew_gb": ("video memory", "GB"), "rss_grew_gb": ("the process", "GB"), "gpu_busy_s": ("GPU busy", "s"),
    "in_present_s": ("in Present", "s"), "cpu_busy_s": ("CPU busy", "s"), "outside_present_s": ("outside of Present", "s"),
}  # fmt: skip


def lines(judged: JudgedFrames, width: int, color: bool) -> list[str]:
    """One screen: files, streams, and of the one with most frames what is known, with its hitches."""
    if not judged.figures:
        return ["no stream of the captures has two frames"]
    text = [*layout.paragraph("captures  ", files(judged), width), ""]
    columns = table(judged).columns
    grid = layout.fitted(columns, width, ("generated", "dropped", "p50"))
    text += [*grid.lines(color), *_left_out(columns, grid.columns, width)]
    if len(judged.keys) > STREAMS:
        text.append(f"and {len(judged.keys) - STREAMS} more with fewer frames; --process NAME shows those of one program")
    text.append("")
    for name, words in facts(judged, judged.keys[0]):
        text += layout.paragraph(f"{name:<10}", words, width)
    text += _hitches(judged, width, color)
    for notice in judged.notices:
        text += layout.paragraph("note      ", notice.text, width)
    return text


def _left_out(columns: Sequence[Column], shown: Sequence[Column], width: int) -> list[str]:
    """What is in columns that have no room."""
    gone = [column for column in columns if column.head not in {one.head for one in shown}]
    rows = [", ".join(f"{column.head} {column.cells[place].text}" for column in gone) for place in range(len(columns[0].cells))]
    names = [cell.text for cell in columns[0].cells]
    said = rows[0] if len(rows) == 1 else "; ".join(f"{name}: {row}" for name, row in zip(names, rows, strict=True))
    return layout.paragraph("no room   ", harmless(said), width) if gone else []


def files(judged: JudgedFrames) -> str:
    kept = [capture.kept for capture in judged.captures]
    tools = " and ".join(dict.fromkeys(f"{one.tool} ({one.layout})" for one in kept))
    names = ", ".join(dict.fromkeys(one.file for one in kept[:FILES])) + (f" and {len(kept) - FILES} more" if len(kept) > FILES else "")
    asked = judged.whole.asked
    skipped = f", without the first {units.show(asked.skip_s, 's')}" if asked.skip_s else ""
    made = ", generated frames among them" if asked.generated == "include" else ""
    return harmless(f"{len(kept)} of {tools}: {names}{skipped}{made}")


def table(judged: JudgedFrames) -> Table:
    """A row for each stream, numbers over captures."""
    keys = judged.keys[:STREAMS]
    columns = [
        Column("program", [Cell(key or "not said") for key in keys], wrap=True),
        Column("frames", [Cell(str(sum(one.frames for one in judged.of(key)))) for key in keys], right=True),
        Column("average fps", [_rate(judged.over(key, lambda one: one.average_fps)) for key in keys], right=True),
        *(Column(name, [_time(judged.over(key, _percentile(name))) for key in keys], right=True) for name in ("p50", "p99", "p99.9")),
        Column("1 % low", [_rate(judged.over(key, low("slowest frames", 0.01))) for key in keys], right=True),
        Column("1 % low by time", [_rate(judged.over(key, low("slowest time", 0.01))) for key in keys], right=True),
        Column("hitches", [Cell(str(sum(len(one.hitches) for one in judged.of(key)))) for key in keys], right=True),
        Column("dropped", [_count([one.dropped for one in judged.of(key)]) for key in keys], right=True),
        Column("generated", [_count([one.generated for one in judged.of(key)]) for key in keys], right=True),
    ]  # fmt: skip
    return Table([column for column in columns if column.head == "program" or {cell.text for cell in column.cells} != {DASH}])


def low(definition: str, share: float) -> Pick:
    return lambda one: next((x.rate for x in one.lows if x.definition == definition and x.share == share), None)


def _percentile(name: str) -> Pick:
    return lambda one: one.percentiles_s[name]


def _interval(summary: Summary, text: str) -> str:
    if summary.half_width is None:
        return text
    sure = "" if (summary.confidence or 0) >= 0.95 else f" ({units.percent(summary.confidence or 0.0)})"
    return f"{text} ± {units.percent(summary.half_width)}{sure}"


def _rate(summary: Summary | None) -> Cell:
    if summary is None or summary.median is None:
        return Cell(DASH)
    return Cell(_interval(summary, units.round_to(summary.median)), value=summary.median)


def _time(summary: Summary | None) -> Cell:
    if summary is None or summary.median is None:
        return Cell(DASH)
    return Cell(_interval(summary, units.show(summary.median, "s")), value=summary.median)


def _count(counts: Sequence[int | None]) -> Cell:
    known = [count for count in counts if count is not None]
    return Cell(str(sum(known)) if known else DASH)


def facts(judged: JudgedFrames, key: str) -> list[tuple[str, str]]:
    """What is known of a stream beside the table, medians over captures."""
    every = judged.of(key)
    kept = [("below", f"{key or 'the program'} alone, {_lasting(every)}")] if len(judged.keys) > 1 else []
    text = [*kept, ("lows", _lows(judged, key)), ("pacing", _pacing(every)), ("animation", _animation(every)), ("bound by", _bound(every))]
    text += [("clicks", _clicks(every)), ("energy", _energy(every))]
    return [(name, words) for name, words in text if words]


def _lasting(every: Sequence[StreamFigures]) -> str:
    return f"{sum(one.frames for one in every)} frames in {units.show(sum(one.seconds for one in every), 's')}"


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _lows(judged: JudgedFrames, key: str) -> str:
    """How far the definitions lie apart."""
    rates = {name: found for name in lows.DEFINITIONS if (found := _median([low(name, 0.01)(one) for one in judged.of(key)])) is not None}
    if not rates:
        return ""
    ordered = sorted(rates, key=rates.__getitem__)
    ends = [f"{units.round_to(rates[name])} ({name}: {lows.DEFINITIONS[name].used_by})" for name in (ordered[0], ordered[-1])]
    tenth = _median([low("slowest frames", 0.001)(one) for one in judged.of(key)])
    small = f"; 0.1 % low by slowest frames {units.round_to(tenth)}" if tenth is not None else ""
    return f"1 % low is {' to '.join(ends)} fps, by the definition{small}"


def _pacing(every: Sequence[StreamFigures]) -> str:
    jitter, stutter = _median([one.jitter_s for one in every]) or 0.0, _median([one.stutter_share for one in every]) or 0.0
    spread, slow = _median([one.adaptive_sd_s for one in every]) or 0.0, _median([one.low_fps_share for one in every]) or 0.0
    parts = [
        f"{units.show(jitter, 's', 2)} from frame to frame", f"spread {units.show(spread, 's', 2)} around the last 0.5 s",
        f"stutter {units.percent(stutter)} of the time", f"below 25 fps {units.percent(slow)}",
    ]  # fmt: skip
    if (uneven := _median([one.uneven_share for one in every])) is not None:
        parts.append(f"{units.percent(uneven)} of display steps are no whole refreshes")
    if (displayed := _median([one.displayed_fps for one in every])) is not None:
        parts.append(f"{units.round_to(displayed)} displays/s")
    return ", ".join(parts)


def _animation(every: Sequence[StreamFigures]) -> str:
    known = [one.animation for one in every if one.animation]
    if not known:
        return ""
    mean, share = statistics.median(one.mean_s for one in known), _median([one.share for one in known])
    p99 = _median([one.p99_s for one in known])
    parts = [f"error {units.show(mean, 's')} on average", *([f"p99 {units.show(p99, 's')}"] if p99 is not None else [])]
    return ", ".join([*parts, *([f"{units.percent(share)} of display time"] if share is not None else [])])


def _bound(every: Sequence[StreamFigures]) -> str:
    known = [one.bound for one in every if one.bound]
    if not known:
        return ""
    parts = [f"GPU {units.percent(statistics.median(one.gpu for one in known))} of frames"]
    if (cpu := _median([one.cpu for one in known])) is not None:
        parts += [f"CPU {units.percent(cpu)}", f"neither {units.percent(_median([one.waiting for one in known]) or 0.0)}"]
    return f"{', '.join(parts)}; GPU busy {units.percent(statistics.median(one.busy for one in known))} of the time"


def _clicks(every: Sequence[StreamFigures]) -> str:
    known = [one.click for one in every if one.click]
    if not known:
        return ""
    middle = statistics.median(one.median_s for one in known)
    return f"{sum(one.clicks for one in known)} clicks, to photon {units.show(middle, 's')}"


def _energy(every: Sequence[StreamFigures]) -> str:
    parts = []
    for rail in dict.fromkeys(used.rail for one in every for used in one.energy):
        some = [used for one in every for used in one.energy if used.rail == rail]
        joules, watts = statistics.median(used.joules for used in some), statistics.median(used.watts for used in some)
        parts.append(f"{units.show(joules, 'J')} a frame, {units.round_to(1 / joules)} frames per J ({rail}, {units.show(watts, 'W')})")
    return "; ".join(parts)


# ---------------------------------------------------------------- hitches


def worst(judged: JudgedFrames, key: str) -> list[tuple[int, Hitch]]:
    """Hitches of a stream with their capture, the longest first."""
    every = [(one.round, hitch) for one in judged.of(key) for hitch in one.hitches]
    return sorted(every, key=lambda pair: -pair[1].seconds)


def hitch_table(every: Sequence[tuple[int, Hitch]]) -> Table:
    return Table([
        Column("capture", [Cell(str(number + 1)) for number, _ in every], right=True),
        Column("at", [Cell(units.show(hitch.time_s, "s", 4), value=hitch.time_s) for _, hitch in every], right=True),
        Column("length", [Cell(units.show(hitch.seconds, "s"), value=hitch.seconds) for _, hitch in every], right=True),
        Column("usual frame", [Cell(units.show(hitch.local_s, "s"), value=hitch.local_s) for _, hitch in every], right=True),
        Column("what fell on it", [Cell(because(hitch)) for _, hitch in every], wrap=True),
    ])  # fmt: skip


def because(hitch: Hitch) -> str:
    evidence = ", ".join(_evidence(name, value) for name, value in hitch.evidence.items())
    return f"{hitch.cause}: {CAUSES[hitch.cause]}" + (f" ({evidence})" if evidence else "")


def _evidence(name: str, value: float) -> str:
    words, unit = EVIDENCE[name]
    if unit == "s":
        return f"{words} + {units.show(value, 's')}"
    return f"{words} {'+ ' if unit == 'GB' else ''}{units.round_to(value)} {unit}".rstrip()


def counted(every: Sequence[tuple[int, Hitch]]) -> str:
    """How many, how long together, and by what fell on them."""
    causes: dict[str, int] = {}
    for _, hitch in every:
        causes[hitch.cause] = causes.get(hitch.cause, 0) + 1
    by = ", ".join(f"{count} {cause}" for cause, count in sorted(causes.items(), key=lambda pair: -pair[1]))
    return f"{len(every)}, together {units.show(sum(hitch.seconds for _, hitch in every), 's')}, by what fell on them: {by}"


def _hitches(judged: JudgedFrames, width: int, color: bool) -> list[str]:
    every = worst(judged, judged.keys[0])
    if not every:
        return layout.paragraph("hitches   ", "none: no frame took 2.5 times as long as those around it, and 8 ms longer", width)
    of = f"; the longest {HITCHES}:" if len(every) > HITCHES else ":"
    head = f"{counted(every)}{of}"
    grid = layout.fitted(hitch_table(every[:HITCHES]).columns, width, ("usual frame",))
    return [*layout.paragraph("hitches   ", head, width), *grid.lines(color)]


# ---------------------------------------------------------------- as another tool


def like(judged: JudgedFrames, tool: str, width: int, color: bool) -> list[str]:
    """That tool's numbers, a column for each stream of each capture."""
    streams = sorted(judged.streams, key=lambda stream: (stream.round, judged.keys.index(stream.key)))[:STREAMS]
    numbers = [likes.numbers(tool, stream) for stream in streams]
    heads = [f"{stream.key or 'frames'}{f' ({stream.round + 1})' if len(judged.captures) > 1 else ''}" for stream in streams]
    columns = [Column(f"as {tool} prints it", [Cell(name) for name in numbers[0]])]
    columns += [Column(harmless(head), [Cell(text) for text in one.values()], right=True) for head, one in zip(heads, numbers, strict=True)]
    return layout.fitted(columns, width).lines(color)
