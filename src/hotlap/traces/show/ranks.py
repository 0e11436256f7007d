"""Traces of many ranks as text: rank by rank, or by quantiles where they are many; who waits for whom; what collectives reach."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from hotlap.core import units
from hotlap.core.record import Finding
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.traces.bandwidth import Moved
from hotlap.traces.ranks import AllRanks
from hotlap.traces.show import trace as printing

ROWS = 16  # ranks that have a row each
COLLECTIVES = 8
FEW = 6  # files that are not used, mismatches, late ranks
SEEN = 0.0005  # share of the window below which waiting is left out


def ranks(whole: AllRanks, findings: Sequence[Finding], width: int, color: bool = False) -> str:
    """The whole answer, without what one rank's own trace tells."""
    lines = [*_head(whole, width, color), "", *(_each if len(whole.ranks) <= ROWS else _quantiles)(whole, width, color)]
    device = next((one.device for one in whole.ranks.values() if one.device), "")
    parts = [one(whole, width, color) for one in (_matrix, _late, _roles)] + [_moved(whole.moved, device, width, color)]
    for part in parts:
        if part:
            lines += ["", *part]
    if findings:
        lines += ["", layout.painted("What to do about all ranks, by what it would save of the window", "bold", color)]
        for number, one in enumerate(findings, 1):
            lines += ["", *printing.finding(number, one, width, color)]
    elif whole.arrivals is not None:
        lines += ["", "Nothing found about the ranks together that would gain 2 % or more."]
    return "\n".join(lines)


def _head(whole: AllRanks, width: int, color: bool) -> list[str]:
    count = sum(one.events for one in whole.ranks.values())
    devices = {one.device for one in whole.ranks.values() if one.device}
    hosts = {one.host for one in whole.ranks.values() if one.host}
    about = [
        f"{count:,} events", f"on {words.counted(len(hosts), 'host')}" if len(hosts) > 1 else "", ", ".join(sorted(devices)[:3]),
    ]  # fmt: skip
    title = layout.painted(words.counted(len(whole.ranks), "rank"), "bold", color)
    lines = [" · ".join([title, *(words.clean(one) for one in about if one)])]
    windows = {one.window for one in whole.ranks.values()}
    said = f": {windows.pop()}" if len(windows) == 1 else ", each by its own definition"
    lines += layout.paragraph("window  ", f"median {units.show(whole.window_s, 's')}{said}", width)
    lines += layout.paragraph("clocks  ", clocks(whole), width)
    if whole.steps:
        steps = whole.steps
        median, slowest = units.show(steps.median_s, "s"), units.show(steps.slowest_s, "s")
        text = f"median {median} over ranks, slowest rank {steps.slowest_rank} with {slowest}; "
        text += f"within a rank they vary by {units.percent(steps.within)} (median deviation)"
        lines += layout.paragraph("steps   ", text, width)
    for notice in whole.notices:
        lines += layout.paragraph("note    ", notice.text, width)
    for one in whole.mismatches[:FEW]:
        group = f"group {words.clean(one.group)}: " if one.group else ""
        lines += layout.paragraph("differs ", f"{group}rank {one.rank} {one.what}", width)
    if len(whole.mismatches) > FEW:
        lines.append(f"        {len(whole.mismatches) - FEW} more ranks differ")
    lines += unused(whole, width)
    notices = [(rank, notice) for rank, one in whole.ranks.items() for notice in one.notices]
    for rank, notice in notices[:FEW]:
        lines += layout.paragraph("notice  ", f"rank {rank}: {words.clean(notice.text)}", width)
    if len(notices) > FEW:
        lines.append(f"        {len(notices) - FEW} more notices")
    return lines


def unused(whole: AllRanks, width: int) -> list[str]:
    """Files that are no traces, and why."""
    lines = []
    for bad in whole.unusable[:FEW]:
        lines += layout.paragraph("unused  ", words.clean(f"{os.path.basename(bad.file)}: {bad.why}"), width)
    if len(whole.unusable) > FEW:
        lines.append(f"        {len(whole.unusable) - FEW} more files are not used")
    return lines


def apart(whole: AllRanks, width: int, color: bool) -> str:
    """That files are answered one by one, and why."""
    if whole.apart is None:
        return ""
    if len(whole.apart.sizes) > 1:
        text = f"of different runs, as they say: of {', '.join(map(str, whole.apart.sizes))} ranks. Each is answered by itself."
    else:
        text = (
            "not taken for ranks of one program: no collective of one is found in another, and they do not all say a rank of their own. "
            "Each is answered by itself. If they are ranks, put the rank into their names (rank0.json …)."
        )
    title = layout.painted(words.counted(len(whole.apart.files), "trace"), "bold", color)
    return "\n".join([title, *layout.paragraph("note    ", text, width), *unused(whole, width)])


def clocks(whole: AllRanks) -> str:
    """What is known of the clocks, in a sentence."""
    clocks = whole.clocks
    if not clocks.used:
        return "nothing joins these traces: no collective of one is found in another, so arrival order is unknown"
    within = units.show(max(clocks.residual_ns, 1_000.0) / 1e9, "s")
    met = f"{clocks.used:,} collectives"
    if clocks.limit_ns < 0:
        return f"do not agree as recorded, and {met} are too few to set them by: arrival order is unknown"
    if not clocks.agree:
        waited = units.show(clocks.waited_ns / 1e9, "s")
        return (
            f"do not agree: arrival order is unknown. Even set by {met}, a quarter of their ends lie more than {within} from the "
            f"median end; first and last arrival are {waited} apart"
        )
    known = whole.arrivals
    close = f"; at {known.close:,} no rank was clearly last" if known and known.close else ""
    if not clocks.corrected:
        return f"agree as recorded: three of four ends of {met} lie within {within} of the median end{close}"
    most = _span(float(np.max(np.abs(clocks.offset))) / 1e9)
    drift = float(np.max(np.abs(clocks.drift)))
    drifting = f" and a drift of up to {1e6 * drift:.3g} µs/s" if drift else ""
    return (
        f"set by the ends of {met}: offsets up to {most}{drifting} taken out; after that three of four ends lie within {within} of the "
        f"median end{close}"
    )


def _span(seconds: float) -> str:
    return units.show(seconds, "s") if seconds < 3600 else f"{seconds / 3600:,.0f} h"


def _share(value: float | None) -> str:
    return words.DASH if value is None else f"{100 * value:.1f} %"


def _column(head: str, texts: Sequence[str], style: str = "") -> Column:
    return Column(head, [Cell(text, style) for text in layout.aligned(texts)], right=True)


def _files(paths: Sequence[str]) -> Column:
    return Column("file", [Cell(layout.shortened(words.clean(os.path.basename(path)), 32), "dim") for path in paths])


def _waiting(whole: AllRanks) -> tuple[dict[int, float], dict[int, Any]]:
    known = whole.arrivals
    return (dict(zip(known.ranks, known.lost.tolist(), strict=True)), {one.rank: one for one in known.late}) if known else ({}, {})


def _each(whole: AllRanks, width: int, color: bool) -> list[str]:
    lost, late = _waiting(whole)
    rows = list(whole.ranks.items())
    columns = [
        Column("rank", [Cell(str(rank)) for rank, _ in rows], right=True),
        _column("window", [units.show(one.window_s, "s") for _, one in rows]),
        _column("compute", [_share(one.compute_share) for _, one in rows]),
        _column("exposed communication", [_share(one.exposed_communication_share) for _, one in rows]),
        _column("idle", [_share(one.idle_share) for _, one in rows]),
        _column("waits", [_share(lost.get(rank)) for rank, _ in rows]),
        _column("last", [f"{late[rank].times:,}×" if rank in late else words.DASH for rank, _ in rows]),
        _column("is waited for", [_share(late[rank].share) if rank in late else words.DASH for rank, _ in rows]),
        _files([one.file for _, one in rows]),
    ]
    if all(one.idle_share is None for _, one in rows):
        columns = [one for one in columns if one.head != "idle"]
    lines = layout.fitted(columns, width, spare=["file"]).lines(color)
    return [*lines, layout.painted(_meaning(whole), "dim", color)]


def _meaning(whole: AllRanks) -> str:
    hosts = [one.idle_share is None for one in whole.ranks.values()]  # their traces hold no work of a device
    where = "" if all(hosts) else ", where nothing ran on a device"
    compute = f"compute{where}: main thread in operators; " if any(hosts) else ""
    return f"{compute}waits: for later ranks, with nothing to compute, of the window"


def _quantiles(whole: AllRanks, width: int, color: bool) -> list[str]:
    lost, _ = _waiting(whole)
    given: list[tuple[str, dict[int, float]]] = [
        ("window", {rank: one.window_s for rank, one in whole.ranks.items()}),
        ("compute", {rank: v for rank, one in whole.ranks.items() if (v := one.compute_share) is not None}),
        ("exposed communication", {rank: v for rank, one in whole.ranks.items() if (v := one.exposed_communication_share) is not None}),
        ("idle", {rank: v for rank, one in whole.ranks.items() if (v := one.idle_share) is not None}),
        ("waits", lost),
    ]
    given = [(name, values) for name, values in given if values]
    cells: list[list[str]] = []
    for name, values in given:
        low, *middle, high = np.quantile(list(values.values()), [0, 0.25, 0.5, 0.75, 1])
        shown = [units.show(float(v), "s") if name == "window" else _share(float(v)) for v in (low, *middle, high)]
        cells.append([*shown, str(min(values, key=lambda r: values[r])), str(max(values, key=lambda r: values[r]))])
    heads = ("least", "25 %", "median", "75 %", "most", "rank of least", "rank of most")
    columns = [
        Column("over ranks", [Cell(name) for name, _ in given]),
        *(Column(head, [Cell(row[i]) for row in cells], right=True) for i, head in enumerate(heads)),
    ]
    return [*layout.fitted(columns, width, spare=["25 %", "75 %"]).lines(color), layout.painted(_meaning(whole), "dim", color)]


def _matrix(whole: AllRanks, width: int, color: bool) -> list[str]:
    """Who waits for whom, for few ranks; only ranks that are waited for have a column, and where that is one, its row tells it."""
    known = whole.arrivals
    if known is None or not 2 < len(known.ranks) <= ROWS or not known.waits.any():
        return []
    window = whole.window_s or 1.0
    shown = [i for i in range(len(known.ranks)) if known.waits[:, i].max() / window >= SEEN]
    if len(shown) < 2:
        return []
    columns = [Column("waits, rank", [Cell(str(rank)) for rank in known.ranks], right=True)]
    columns += [
        _column(f"for {known.ranks[i]}", [_share(float(v) / window) if v / window >= SEEN else words.DASH for v in known.waits[:, i]])
        for i in shown
    ]
    while len(columns) > 2 and layout.total(columns) > width:
        columns.pop()
    return layout.Grid(columns, width).lines(color) if len(columns) > 1 else []


def _late(whole: AllRanks, width: int, color: bool) -> list[str]:
    """The ranks that others wait for most, where there is no row for each."""
    known = whole.arrivals
    if known is None or len(known.ranks) <= ROWS:
        return []
    shown = [one for one in known.late if one.share >= SEEN][:FEW]
    if not shown:
        return []
    columns = [
        Column("last comes rank", [Cell(str(one.rank)) for one in shown], right=True),
        _column("times", [f"{one.times:,}" for one in shown]),
        _column("after the median", [units.show(one.median_s, "s") for one in shown]),
        _column("is waited for", [_share(one.share) for one in shown]),
        Column("longer before it", [Cell(", ".join(one.more).replace("_", " ") or words.DASH) for one in shown], wrap=True),
        _files([whole.ranks[one.rank].file for one in shown]),
    ]
    lines = layout.fitted(columns, width, spare=["file"]).lines(color)
    more = len(known.late) - len(shown)
    return [*lines, layout.painted(f"{more} more ranks come last at times", "dim", color)] if more else lines


def _roles(whole: AllRanks, width: int, color: bool) -> list[str]:
    rows = whole.roles[: 2 * ROWS]
    if not rows:
        return []
    columns = [
        Column("by", [Cell(f"{one.role} {one.place}") for one in rows]),
        Column("ranks", [Cell(f"{len(one.ranks):,}") for one in rows], right=True),
        _column("compute", [units.show(one.compute_s, "s") if one.compute_s is not None else words.DASH for one in rows]),
        _column("waits", [_share(one.lost_share) for one in rows]),
    ]
    return layout.fitted(columns, width).lines(color)


def _moved(rows: Sequence[Moved], device: str, width: int, color: bool) -> list[str]:
    if not rows:
        return []
    shown = rows[:COLLECTIVES]

    def rate(value: float | None) -> str:
        return units.show(value, "B/s") if value is not None else words.DASH

    columns = [
        Column("collective", [Cell(f"{one.collective} {one.dtype.removeprefix('c10::')}".strip()) for one in shown]),
        _column("size", [units.show(one.bytes, "B") if one.bytes >= 0 else words.DASH for one in shown]),
        _column("ranks", [f"{one.ranks:,}" for one in shown]),
        _column("calls", [f"{one.calls:,}" for one in shown]),
        _column("without waiting", [units.show(one.seconds, "s") if one.seconds else words.DASH for one in shown]),
        _column("algorithm", [rate(one.algorithm_b_s) for one in shown]),
        _column("bus", [rate(one.bus_b_s) for one in shown]),
        _column("expected", [rate(one.expected_bus_b_s) for one in shown]),
    ]
    known = any(one.expected_bus_b_s is not None for one in shown)
    lines = layout.fitted(columns if known else columns[:-1], width, spare=["algorithm"]).lines(color)
    if not known and device:
        lines.append(layout.painted(f"nothing to expect: the machine table does not hold {words.clean(device)}", "dim", color))
    wrong = [one for one in rows if one.above_peak]
    if wrong:
        lines += layout.paragraph(
            "", f"data error: {words.counted(len(wrong), 'kind')} faster than the links allow; sizes or times here are wrong", width
        )
    if len(rows) > len(shown):
        rest = units.show(sum(one.total_s for one in rows[COLLECTIVES:]), "s")
        lines.append(layout.painted(f"{len(rows) - len(shown)} more kinds take {rest} in all", "dim", color))
    return lines


def document(whole: AllRanks, findings: Sequence[Finding]) -> dict[str, Any]:
    """The same for programs."""
    lost, late = _waiting(whole)
    clock = whole.clocks
    rows = [
        {
            "rank": rank, "file": one.file, "host": one.host, "device": one.device, "events": one.events, "window_s": one.window_s,
            "window": one.window, "compute_share": one.compute_share, "exposed_communication_share": one.exposed_communication_share,
            "idle_share": one.idle_share, "idle": one.idle, "waits_share": lost.get(rank), "notices": one.notices,
            "offset_s": float(clock.offset[np.searchsorted(clock.ranks, rank)]) / 1e9,
        }
        for rank, one in whole.ranks.items()
    ]  # fmt: skip
    few = whole.arrivals is not None and len(whole.ranks) <= ROWS
    return {
        "ranks": rows, "unusable": [one._asdict() for one in whole.unusable], "notices": whole.notices, "mismatches": whole.mismatches,
        "clocks": {
            "agree": clock.agree, "set": clock.corrected, "collectives": clock.used, "ends_within_s": clock.residual_ns / 1e9,
            "as_recorded_s": clock.raw_ns / 1e9, "arrivals_apart_s": clock.waited_ns / 1e9,
        },
        "lost_share": whole.arrivals.lost_share if whole.arrivals else None, "late": list(late.values()),
        "waits_s": whole.arrivals.waits.tolist() if few and whole.arrivals else None, "collectives": whole.moved, "roles": whole.roles,
        "steps": whole.steps, "findings": list(findings),
    }  # fmt: skip
