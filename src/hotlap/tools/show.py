"""Tools as a list, one of them in full, what their samples gave, and their numbers beside Hotlap's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hotlap.core import units
from hotlap.core.measure.tools import finding
from hotlap.core.measure.tools.finding import FoundTool
from hotlap.core.measure.tools.reading import ToolReading, ToolValue
from hotlap.core.measure.tools.toolfile import QUANTITIES, TERMS, ToolFile, seconds
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.tools.beside import OURS, BesideRow, Quantity
from hotlap.tools.testing import Tested

LIMITS = ("bound", "expected")  # that are the same for all who measure it
LEAST_ROOM = 24  # of the last column of the list
NEXT = "next    hotlap tool show NAME; hotlap tool run NAME; docs/tools.md"


def listed(pairs: Sequence[tuple[ToolFile, FoundTool]], width: int, color: bool) -> str:
    """Those that are here first; of the others the command that installs them."""
    ordered = sorted(pairs, key=lambda pair: (bool(pair[1].missing), QUANTITIES.index(pair[0].measures), pair[0].name))
    columns = [
        Column("tool", [Cell(tool.name, "bold" if not place.missing else "") for tool, place in ordered]),
        Column("measures", [Cell(tool.measures) for tool, _ in ordered]),
        Column("here", [_here(tool, place) for tool, place in ordered]),
    ]
    room = max(width - layout.total(columns) - layout.GAP, LEAST_ROOM)
    columns += [Column("what", [Cell(layout.shortened(tool.about, room), "dim") for tool, _ in ordered])]
    here = sum(not place.missing for _, place in ordered)
    count = f"{here} of {words.counted(len(ordered), 'tool')} can be run here; the results of all but those not seen can be read"
    others = "no: hotlap tool show NAME says where it comes from"
    return "\n".join([*layout.fitted(columns, width, ("what",)).lines(color), "", *layout.paragraph("", f"{count}; {others}", width), NEXT])


def planned(pairs: Sequence[tuple[ToolFile, Mapping[str, str]]], rounds: int) -> str:
    """What is going to be executed, how often, and how long that may take by the limits of the tools' files."""
    limits_s = [seconds(tool.run.timeout, settings) for tool, settings in pairs if tool.run]
    names = words.some([tool.name for tool, _ in pairs], 4)
    each = f"at most {units.show(max(limits_s), 's', 3)}" + (" each" if rounds * len(pairs) > 1 else "")
    whole = f", {units.show(rounds * sum(limits_s), 's', 3)} in all" if rounds * len(pairs) > 1 else ""
    return f"{names}: {words.counted(rounds * len(pairs), 'execution')}, {each}{whole}"


def _here(tool: ToolFile, place: FoundTool) -> Cell:
    if not tool.format_seen:
        return Cell("format not seen", "dim")
    if not place.missing:
        return Cell(f"version {place.version}" if place.version else "yes", "good")
    if place.lacks:
        return Cell(f"needs {'mpirun' if place.lacks == 'mpi' else f'a {place.lacks}' if place.lacks != 'root' else 'root'}", "dim")
    installs = place.remedy.startswith(tuple(command for _, command in finding.MANAGERS.values()))
    return Cell(place.remedy if installs and not place.program else "no", "dim")


def shown(tool: ToolFile, place: FoundTool, width: int) -> str:
    """All that is known of one."""
    state = f"here, {place.program}, version {place.version or 'not known'}" if not place.missing else place.missing
    facts = [
        ("measures", f"{tool.measures}: {tool.about}"), ("here", state), ("install", _install(tool, place)),
        ("needs", ", ".join(tool.needs)), ("site", tool.site), ("licence", tool.licence), ("terms", TERMS.get(tool.terms, "")),
        ("command", " ".join(tool.run.command) if tool.run and tool.runs else "it is not run from here: hotlap tool read"),
        ("format", f"not seen: {tool.format_not_seen or 'no sample'}" if not tool.format_seen else ""), ("file", tool.path),
    ]
    lines = [tool.name]
    for name, text in facts:
        lines += layout.paragraph(f"  {name:<9} ", text, width, 6) if text else []
    if tool.parameters:
        lines += ["", "parameters"]
        for name, spec in tool.parameters.items():
            choices = f": {', '.join(spec.choices)}" if spec.choices else ""
            lines += layout.paragraph(f"  {name}={spec.default}  ", f"{spec.about}{choices}", width)
    lines += ["", "numbers"] if tool.result else []
    for result in tool.result:
        means = f"; means {result.like}" + (f" (× {result.factor:g})" if result.factor != 1 else "") if result.like else ""
        only = [*result.where, *result.like_where] if result.like else []
        means += f", only where {' and '.join(only)}" if only else ""
        name = result.name or f"those of {result.reader}"
        lines += layout.paragraph(f"  {name}  ", f"{result.unit or 'unit as printed'}, {result.better} is better{means}", width)
    lines += ["", "what its numbers do not say"] if tool.lies else []
    for lie in tool.lies:
        lines += layout.paragraph("  - ", lie, width, 8)
    lines += ["", "seen in"] if tool.sample else []
    for sample in tool.sample:
        lines += layout.paragraph("  - ", sample.origin, width)
    return "\n".join(lines)


def _install(tool: ToolFile, place: FoundTool) -> str:
    """What installs it here, and where it comes from."""
    if not place.missing or place.program:
        return ""
    source = tool.install.get("source", "")
    return "; ".join(dict.fromkeys(filter(None, (place.remedy if place.remedy not in source else "", source))))


def tested(results: Mapping[str, Sequence[Tested] | str], width: int, color: bool) -> str:
    """A line per sample that is not as its file says, and the count. A text in place of samples: why the file cannot be read."""
    lines: list[str] = []
    good = 0
    for name, samples in results.items():
        if isinstance(samples, str):
            lines += layout.paragraph(f"{layout.painted('✗', 'bad', color)} {name}: ", samples, width, 8)
            continue
        good += sum(not sample.fault for sample in samples)
        for sample in samples:
            if sample.fault:
                lines += layout.paragraph(f"{layout.painted('✗', 'bad', color)} {name}: ", f"{sample.fault} ({sample.origin})", width, 8)
        if not samples:
            lines += [f"- {name}: no sample, so nothing shows that it reads the format"]
    count = sum(len(samples) for samples in results.values() if not isinstance(samples, str))
    return "\n".join([*lines, f"{good} of {words.counted(count, 'sample')} of {words.counted(len(results), 'tool')} as their files say"])


def read(tool: ToolFile, answer: ToolReading, width: int, color: bool) -> str:
    """Numbers of a file, and why there is none."""
    lines = [f"{tool.name}{f' on {answer.device}' if answer.device else ''}"]
    if answer.refused:
        return "\n".join(lines + layout.paragraph("no number: ", answer.refused, width))
    numbers = [value for value in answer.values if value.values]
    columns = [
        Column("number", [Cell(" ".join(filter(None, (value.device, value.name)))) for value in numbers], wrap=True),
        Column("value", [Cell(_values(value)) for value in numbers], right=True),
        Column("better", [Cell(value.better, "dim") for value in numbers]),
    ]
    lines += layout.fitted(columns, width).lines(color) if numbers else []
    for value in answer.values:
        lines += layout.paragraph("no number: ", value.refused, width) if value.refused else []
    for notice in answer.notices:
        lines += layout.paragraph("notice: ", notice.text, width)
    return "\n".join(lines)


def _values(value: ToolValue) -> str:
    shown_values = [units.show(number, value.unit) for number in value.values[:3]]
    more = f" … {len(value.values)} in all" if len(value.values) > 3 else ""
    return f"{', '.join(shown_values)}{more}"


# ---------------------------------------------------------------- beside Hotlap


def beside(groups: Sequence[Quantity], width: int, color: bool) -> str:
    """A table per quantity: who says what, as Hotlap counts it, its share of the limit, and why it differs."""
    lines: list[str] = []
    for group in groups:
        title = group.name or "other numbers"
        lines += [layout.painted(title, "bold", color), *_quantity(group, width, color), ""]
        reasons: dict[tuple[str, str], list[str]] = {}
        for row in group.rows:
            reasons.setdefault((row.who, row.differs), []).append(row.name)
        for (who, differs), names in reasons.items():
            head = f"  {who} {words.some(names, 2)}: "
            if len(head) > width // 2:  # a hanging indent has no room beside it
                lines += [head.rstrip(), *layout.paragraph("      ", differs, width)] if differs else []
                continue
            lines += layout.paragraph(head, differs, width) if differs else []
        lines += [""] if any(differs for _, differs in reasons) else []
    return "\n".join(lines).rstrip()


def _quantity(group: Quantity, width: int, color: bool) -> list[str]:
    rows = group.rows
    columns = [
        Column("who", [Cell(row.who, "bold" if row.who == OURS else "") for row in rows]),
        Column("number", [Cell(row.name) for row in rows], wrap=True),
        Column("says", [Cell(_says(row)) for row in rows], right=True),
        Column("interval", [Cell(words.interval(row.row), "dim") for row in rows]),
    ]
    if group.like:
        columns += [Column("as Hotlap counts", [Cell(units.show(row.comparable, group.unit)) for row in rows], right=True)]
        ours = next((row.comparable for row in rows if row.who == OURS), None)
        if ours:
            shares = [Cell(units.percent(row.comparable / ours) if row.comparable is not None else "") for row in rows]
            columns += [Column("of Hotlap's", shares, right=True)]
        if any(row.row.gap.reference_kind in LIMITS for row in rows):
            shares = [Cell(words.share(row.row.gap) if row.row.gap.reference_kind in LIMITS else "") for row in rows]
            columns += [Column("of limit", shares, right=True)]
    if any(row.row.summary.median is None for row in rows):
        columns += [Column("why not", [Cell(row.row.result.reason, "dim") for row in rows], wrap=True)]
    return layout.fitted(columns, width, ("interval",)).lines(color)


def _says(row: BesideRow) -> str:
    return words.value(row.row) if row.row.summary.median is not None else "not run"
