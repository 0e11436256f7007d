"""The regression report of a release: on the terminal, and as Markdown for a change log or a review."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column, Table, plain
from hotlap.core.show.table import markdown as markdown_table
from hotlap.core.units import percent, show
from hotlap.kernels.release import REGRESSIONS, KernelSum, Release, ReleasedKernel
from hotlap.kernels.show.track import cost, interval, moved
from hotlap.kernels.track import grown

STYLES = {"broken": "bad", "slower": "bad", "missing": "warn", "fixed": "good", "faster": "good", "inconclusive": "warn", "same": "dim"}
HEADINGS = {
    "broken": "Broken: results that were right and are not", "slower": "Slower", "missing": "Missing: measured before, not any more",
    "fixed": "Fixed: no valid result before", "new": "New", "faster": "Faster", "inconclusive": "Inconclusive", "same": "The same",
    "not run": "Not run on either side",
}
OPEN = ("broken", "slower", "missing", "fixed", "new", "faster")  # each kernel on a line; of the rest the names, or their number
FEW, SUSPECTS = 8, 6
READING = (
    "A and B are medians over rounds; percentages are of time, estimated from all rounds with the 95 % interval: on scattered data they "
    "may lie apart from the ratio of the two. Slower and faster: by more than the threshold and not by chance (5 % over all cases). "
    "Steps are summed within each run, over the kernels that both sides have"
)


def verdict(release: Release) -> str:
    """One sentence: whether it may be shipped, as far as this is known."""
    counts = release.counted()
    counted = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    if release.apart:
        return f"Not comparable: {release.apart}"
    if any(kind in counts for kind in REGRESSIONS):
        return f"Regression: {counted}"
    if release.code == 3:
        return f"Inconclusive: {counted}"
    return f"No regression found: {counted}"


def release(release: Release, width: int = 100, color: bool = False) -> str:
    """The verdict, sums of steps, kernels by kind, what could have brought it, and what to run next."""
    style = {1: "bad", 3: "warn"}.get(release.code, "good")
    sides = {"A  ": _side(release.a, release.a_runs), "B  ": _side(release.b, release.b_runs)}
    lines = [*(line for first, side in sides.items() for line in layout.paragraph(first, side, width)), ""]
    lines += [layout.painted(line, style, color) for line in layout.paragraph("", verdict(release), width)]
    lines += ["", *layout.fitted(step_columns(release.steps), width, ("kernels",)).lines(color)] if release.steps else []
    for kind in OPEN:
        own = [kernel for kernel in release.kernels if kernel.kind == kind]
        if own:
            lines += ["", layout.painted(HEADINGS[kind], "bold", color), *_kernels(own, width, color)]
    for kind in ("inconclusive", "not run"):
        own = [kernel for kernel in release.kernels if kernel.kind == kind]
        if own:
            lines += ["", *layout.paragraph(f"{HEADINGS[kind]}: ", words.some([kernel.label for kernel in own], FEW), width)]
    lines += _suspects(release, width) + _next(release, width)
    return "\n".join([*lines, "", *(layout.painted(line, "dim", color) for line in layout.paragraph("", f"{READING}.", width))])


def _side(name: str, runs: Sequence[str]) -> str:
    last = f" to {runs[-1]}" if len(runs) > 1 else ""
    return f"{words.clean(name)} · {words.counted(len(runs), 'run')}, {runs[0]}{last}"


def step_columns(sums: Sequence[KernelSum]) -> list[Column]:
    """Steps of networks: how many of their kernels both sides have, their sums, and the difference."""
    return [
        Column("step of a network", [Cell(words.clean(each.step)) for each in sums], wrap=True),
        Column("kernels", [Cell(f"{each.kernels} of {each.of}") for each in sums], right=True),
        Column("A", [Cell(show(each.a_s, "s")) for each in sums], right=True),
        Column("B", [Cell(show(each.b_s, "s")) for each in sums], right=True),
        Column("B − A", [Cell(difference(each), _style(each)) for each in sums]),
    ]


def difference(kernel: KernelSum) -> str:
    """Seconds and share that a step gained or lost, with the interval."""
    change = kernel.b_s - kernel.a_s
    sign = "+" if change >= 0 else "−"
    if kernel.low_s is None or kernel.high_s is None:
        return f"{sign}{show(abs(change), 's')} ({words.signed(change / kernel.a_s)})"
    return f"{sign}{show(abs(change), 's')} ({words.signed(kernel.low_s / kernel.a_s)} to {words.signed(kernel.high_s / kernel.a_s)})"


def _style(kernel: KernelSum) -> str:
    if kernel.low_s is None or kernel.high_s is None:
        return ""
    return "bad" if kernel.low_s > 0 else "good" if kernel.high_s < 0 else ""


def _kernels(own: Sequence[ReleasedKernel], width: int, color: bool) -> list[str]:
    timed = any(one.time_ratio for one in own)
    columns = [Column("", [Cell("") for _ in own]), *kernel_columns(own)]
    grid = layout.fitted([column for column in columns if timed or column.head != "time"], width)
    lines = [grid.header(color)]
    for place, one in enumerate(own):
        lines += grid.line(place, color)
        for said in notes(one):
            lines += layout.paragraph("      ", said, width)
    return lines


def kernel_columns(own: Sequence[ReleasedKernel]) -> list[Column]:
    """Each kernel on both sides, and how its time changed."""
    return [
        Column("kernel", [Cell(words.clean(kernel.label)) for kernel in own], wrap=True),
        Column("A", [Cell(level(kernel, "a")) for kernel in own], right=True),
        Column("B", [Cell(level(kernel, "b")) for kernel in own], right=True),
        Column("time", [Cell(change(kernel), STYLES.get(kernel.kind, "")) for kernel in own], wrap=True),
    ]


def notes_column(own: Sequence[ReleasedKernel]) -> Column:
    """What stands under a kernel on a terminal."""
    return Column("", [Cell("; ".join(notes(kernel))) for kernel in own])


def suspects(release: Release) -> Table:
    """What differs between the sides."""
    rows = [(d.name.removeprefix("label "), d.a, d.b) for d in release.suspects]
    return Table([Column(head, [Cell(row[n]) for row in rows]) for n, head in enumerate(("what", "A", "B"))])


def level(kernel: ReleasedKernel, side: str) -> str:
    """The median of a side."""
    summary = kernel.comparison.a if side == "a" else kernel.comparison.b
    return words.quantity(summary.median, kernel.comparison.unit)


def change(kernel: ReleasedKernel) -> str:
    """The ratio of times in words, with its interval."""
    if kernel.time_ratio is None:
        return words.DASH
    span = "" if kernel.low is None or kernel.high is None else f" {interval(kernel.time_ratio, kernel.low, kernel.high)}"
    return f"{moved(kernel.time_ratio)}{span}"


def notes(kernel: ReleasedKernel) -> list[str]:
    """What a network pays, why there is no number, and how the error moved."""
    found = [cost(kernel.costs[0])] if kernel.costs and kernel.kind in (*REGRESSIONS, "faster") else []
    found += [words.clean(kernel.reason)] if kernel.reason and kernel.kind not in ("faster", "same") else []
    if kernel.error_a is not None and kernel.error_b is not None and grown(kernel.error_a, kernel.error_b):
        found.append(f"the largest error grew from {percent(kernel.error_a)} to {percent(kernel.error_b)} of its tolerance")
    return found


def _suspects(release: Release, width: int) -> list[str]:
    if not release.suspects:
        said = "Nothing that the runs know of differs between the two: label them with --label revision=…"
        return ["", *layout.paragraph("", said, width)]
    lines = ["", "What differs and could have brought it"]
    for found in release.suspects[:SUSPECTS]:
        a, b = words.differing(found.a or words.DASH, found.b or words.DASH)
        lines += layout.paragraph("  ", f"{found.name.removeprefix('label ')}  {a} → {b}", width)
    more = len(release.suspects) - SUSPECTS
    return lines + ([f"  and {more} more: --json has them"] if more > 0 else [])


def nexts(release: Release) -> list[str]:
    """Commands that would find out more, each once, of the worst kernels."""
    return list(dict.fromkeys(kernel.next for kernel in release.kernels if kernel.next))[:3]


def _next(release: Release, width: int) -> list[str]:
    found = nexts(release)
    return ["", *(f"next    {command}" for command in found)] if found else []


# ---------------------------------------------------------------- Markdown


def markdown(release: Release) -> str:
    """The same as Markdown (GitHub's tables)."""
    lines = [f"# Kernels: {plain(release.a)} → {plain(release.b)}", "", f"**{plain(verdict(release))}**", ""]
    lines += [f"- A: {plain(_side(release.a, release.a_runs))}", f"- B: {plain(_side(release.b, release.b_runs))}"]
    if release.steps:
        lines += ["", "## Steps of networks", "", *markdown_table(Table(step_columns(release.steps)))]
    for kind in OPEN:
        own = [kernel for kernel in release.kernels if kernel.kind == kind]
        if own:
            lines += ["", f"## {HEADINGS[kind]}", "", *markdown_table(Table([*kernel_columns(own), notes_column(own)]))]
    for kind in ("inconclusive", "same", "not run"):
        own = [kernel for kernel in release.kernels if kernel.kind == kind]
        if own:
            lines += ["", f"## {HEADINGS[kind]}", "", f"{words.counted(len(own), 'kernel')}: {plain('; '.join(k.label for k in own))}"]
    if release.suspects:
        lines += ["", "## What differs and could have brought it", "", *markdown_table(suspects(release))]
    if nexts(release):
        lines += ["", "## What to run next", "", "```console", *(f"$ {command}" for command in nexts(release)), "```"]
    return "\n".join([*lines, "", f"{READING}.", ""])
