"""What `coverage` prints: real use by weight, combinations, directed cases, regions, code paths, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.kernels.coverage.complete import Completion
from hotlap.kernels.coverage.measure import Coverage, CoveragePath, CoverageTable, Edge, StepCoverage
from hotlap.kernels.coverage.regions import REGIONS

STEPS, LACKING, PATHS, LEFT_OUT, NOT_CLOSED = 12, 10, 10, 4, 8  # listed; --json has all
BAR, LEAST_BAR = 16, 6
WHOLE = (
    "these steps are the kernels that a plan has of them: what --top left out is not in their time; --networks NAME,… weighs by whole steps"
)
WIDE = 100  # from this width on bars have their full length


def coverage(coverage: Coverage, width: int = 100, color: bool = False, closing: bool = False) -> str:
    """Several lines, none at the end; sections that nothing was asked of are left out. `closing`: a completion follows."""
    title = f"{words.some(list(coverage.plans), 4)}: {words.counted(coverage.cases, 'case')}, {coverage.strength}-way"
    lines = layout.paragraph("", f"{title}, weighted by predicted time on {coverage.machine}" if coverage.machine else title, width)
    sections = (
        _use(coverage, width, color), _tables(coverage, width, color), _edges(coverage, width), _regions(coverage, width, color),
        _paths(coverage.paths, width),
    )
    for section in sections:
        lines += ["", *section] if section else []
    open_ = bool(coverage.lacking or any(one.covered < one.possible for one in coverage.tables))
    said = [notice.text for notice in coverage.notices]
    said += ["--complete -o FILE writes the fewest cases that close what is missing"] if open_ and not closing else []
    notes = [piece for note in said for piece in layout.paragraph("  ", note, width)]
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def _bar(share: float, width: int) -> str:
    return layout.bar(share, "bound", BAR if width >= WIDE else LEAST_BAR)


def _percent(share: float) -> str:
    """Never 100 % where something is missing, never 0 % where something is there."""
    if 0 < share < 0.001:
        return "< 0.1 %"
    return f"{share * 100:.1f} %" if share < 0.9995 or share == 1 else "99.9 %"


def _use(coverage: Coverage, width: int, color: bool) -> list[str]:
    if not coverage.steps:
        return []
    if coverage.exact is None or coverage.near is None:
        return layout.paragraph("", "real use: not known, for the model expects no time of any kernel of these steps", width)
    head = f"real use: {_percent(coverage.exact)} of the time of {words.counted(len(coverage.steps), 'step')}"
    head += f", {_percent(coverage.near)} with near cases"
    least = sorted(coverage.steps, key=lambda step: step.exact)[:STEPS]
    lines = [*layout.paragraph("", head, width), "", *layout.Grid(_step_columns(least, width), width).lines(color)]
    rest = len(coverage.steps) - len(least)
    lines += [f"  and {words.counted(rest, 'step')} covered as well or better"] if rest else []
    lines += layout.paragraph("  ", WHOLE, width) if coverage.of_plans else []
    silent = sum(step.unweighed for step in coverage.steps)
    if silent:
        text = f"{words.counted(silent, 'kernel')} of these steps count nothing: the model expects no time of them"
        lines += layout.paragraph("  ", text, width)
    return [*lines, *left_out(coverage.left_out, width), *_lacking(coverage, width)]


def left_out(texts: Sequence[str], width: int) -> list[str]:
    """What of the steps asked for cannot be."""
    return _listed("left out", texts, LEFT_OUT, width)


def _listed(head: str, texts: Sequence[str], most: int, width: int) -> list[str]:
    lines = [piece for text in texts[:most] for piece in layout.paragraph(f"  {head}: ", text, width)]
    return [*lines, *([f"  {head}: {len(texts) - most} more"] if len(texts) > most else [])]


def _step_columns(steps: Sequence[StepCoverage], width: int) -> list[Column]:
    return [
        Column("step", [Cell(one.name) for one in steps], wrap=True),
        Column("exact", [Cell(_percent(one.exact), "bold") for one in steps], right=True),
        Column("", [Cell(_bar(one.exact, width)) for one in steps]),
        Column("near", [Cell(_percent(one.near)) for one in steps], right=True),
        Column("kernels", [Cell(str(one.kernels)) for one in steps], right=True),
        Column("time", [Cell(words.quantity(one.seconds, "s")) for one in steps], right=True),
    ]


def _lacking(coverage: Coverage, width: int) -> list[str]:
    if not coverage.lacking:
        return []
    lines = ["", "missing, by share of the steps' time"]
    for one in coverage.lacking[:LACKING]:
        more = f" and {len(one.uses) - 1} more" if len(one.uses) > 1 else ""
        near = f"; near: {one.near}" if one.near else ""
        text = f"{one.label}: {one.uses[0].kernel} of {one.uses[0].step}{more}{near}"
        lines += layout.paragraph(f"  {_percent(one.share):>7}  ", text, width)
    rest = len(coverage.lacking) - LACKING
    if rest > 0:
        share = sum(one.share for one in coverage.lacking[LACKING:])
        lines.append(f"  {_percent(share):>7}  {words.counted(rest, 'more case')}")
    return lines


def _tables(coverage: Coverage, width: int, color: bool) -> list[str]:
    if not coverage.tables:
        return []
    covered, possible = sum(one.covered for one in coverage.tables), sum(one.possible for one in coverage.tables)
    head = f"combinations: {covered} of {possible} {coverage.strength}-way ({_percent(covered / possible)})"
    taken = sum(one.impossible for one in coverage.tables)
    head += f"; {taken} that cannot be are left out" if taken else ""
    columns = [
        Column("workload", [Cell(one.workload) for one in coverage.tables]),
        Column("cases", [Cell(str(one.cases)) for one in coverage.tables], right=True),
        Column("covered", [Cell(_percent(one.share), "bold") for one in coverage.tables], right=True),
        Column("", [Cell(_bar(one.share, width)) for one in coverage.tables]),
        Column("of", [Cell(str(one.possible)) for one in coverage.tables], right=True),
        Column("levels seen", [Cell(_levels(one)) for one in coverage.tables], wrap=True),
    ]
    lines = [*layout.paragraph("", head, width), "", *layout.Grid(columns, width).lines(color)]
    open_ = [one for one in coverage.tables if one.examples]
    for one in sorted(open_, key=lambda table: table.share)[:3]:
        lines += layout.paragraph("  not covered: ", f"{one.workload}: {'; '.join(one.examples)}", width)
    return lines


def _levels(table: CoverageTable) -> str:
    """The features that are furthest from all their levels."""
    open_ = sorted((seen / there, name, seen, there) for name, seen, there in table.lowest if seen < there)
    shown = ", ".join(f"{name} {seen} of {there}" for _, name, seen, there in open_[:3])
    return (shown + (f", {len(open_) - 3} more" if len(open_) > 3 else "")) or "all"


def _edges(coverage: Coverage, width: int) -> list[str]:
    can = [one for one in coverage.edges if not one.reason]
    if not can:
        return []
    missing = [one for one in can if not one.covered]
    lines = [f"directed cases: {len(can) - len(missing)} of {len(can)}"]
    lines += [piece for name, text in _by_workload(missing) for piece in layout.paragraph(f"  {name}: ", text, width)]
    cannot: dict[str, list[str]] = {}
    for one in coverage.edges:
        if one.reason:
            cannot.setdefault(f"{one.name}: {one.reason}", []).append(one.workload)
    for text, names in cannot.items():
        lines += layout.paragraph("  cannot be: ", f"{text} ({', '.join(names)})", width)
    return lines


def _by_workload(missing: Sequence[Edge]) -> list[tuple[str, str]]:
    found: dict[str, list[str]] = {}
    for one in missing:
        found.setdefault(one.workload, []).append(one.name)
    return [(name, ", ".join(edges)) for name, edges in found.items()]


def _regions(coverage: Coverage, width: int, color: bool) -> list[str]:
    if not coverage.regions:
        return []
    most = max(coverage.regions.values()) or 1
    columns = [
        Column("region", [Cell(name) for name in coverage.regions]),
        Column("cases", [Cell(str(count)) if count else Cell("none", "warn") for count in coverage.regions.values()], right=True),
        Column("", [Cell(layout.bar(count / most, "bound", BAR)) for count in coverage.regions.values()]),
    ]
    return [f"regions of the roofline of {coverage.machine}", "", *layout.Grid(columns, width).lines(color)]


def _paths(paths: Sequence[CoveragePath], width: int) -> list[str]:
    if not paths:
        return []
    lines = [f"code paths that results name: {len(paths)}"]
    for one in paths[:PATHS]:
        which = f"{words.counted(len(one.cases), 'case')}: {words.some(list(one.cases), 3)}" if one.cases else "of a program, of no case"
        lines += layout.paragraph("  ", f"{one.name} ({one.source}): {which}", width)
    return [*lines, f"  and {len(paths) - PATHS} more"] if len(paths) > PATHS else lines


def completion(completion: Completion, after: Coverage, width: int = 100) -> str:
    """What was added, and what the plans cover with it."""
    parts = ", ".join(f"{count} for {purpose}" for purpose, count in completion.counts.items()) or "nothing is missing"
    lines = layout.paragraph("", f"completion: {words.counted(len(completion.cases), 'case')} ({parts})", width)
    covered, possible = sum(one.covered for one in after.tables), sum(one.possible for one in after.tables)
    reached = [f"{after.strength}-way {_percent(covered / possible)}"] if possible else []
    reached += [f"real use {_percent(after.exact)}"] if after.exact is not None else []
    can = [one for one in after.edges if not one.reason]
    reached += [f"directed cases {sum(one.covered for one in can)} of {len(can)}"] if can else []
    named = {name: count for name, count in after.regions.items() if name in REGIONS}
    reached += [f"regions {sum(count > 0 for count in named.values())} of {len(named)}"] if named else []
    lines += layout.paragraph("  with it: ", ", ".join(reached) or "as before", width)
    return "\n".join([*lines, *_listed("not closed", completion.failed, NOT_CLOSED, width)])
