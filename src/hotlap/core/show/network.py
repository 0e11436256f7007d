"""What `predict net` prints: the step, what it means in tokens, the memory, and where the time goes."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.model.networks.result import StepEstimate, StepPart
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.units import percent

BAR, LEAST_BAR = 24, 6
OTHERS = 76  # the other columns with names of usual length; a bar is what is left
LEAST = 0.005  # of the step: smaller parts are put together


def step(estimate: StepEstimate, width: int = 100, color: bool = False) -> str:
    """A line for each part, the longest first; its bar is its share of the step."""
    setting = estimate.setting
    ways = [f"{name} {setting[name]}" for name in ("tp", "pp", "dp", "ep") if setting[name] > 1]
    where = f"{words.counted(estimate.gpus, 'GPU')} of {estimate.machine}" + (f" ({', '.join(ways)})" if ways else "")
    context = f"context {setting['context']}, " if setting["context"] else ""
    title = f"{estimate.network} {estimate.phase}, batch {setting['batch']}, {context}{setting['dtype']}, on {where}"
    lines = layout.paragraph("", title, width)
    lines += [line for name, text in _facts(estimate) for line in layout.paragraph(f"  {name:<10}  ", text, width)]
    lines += ["", *layout.Grid(_columns(estimate.parts, width), width).lines(color)]
    return "\n".join([*lines, "", *(piece for notice in estimate.notices for piece in layout.paragraph("  ", notice.text, width))])


def _facts(estimate: StepEstimate) -> list[tuple[str, str]]:
    what = {"decode": "a token", "prefill": "to the first token", "forward": "a pass", "train": "a step"}[estimate.phase]
    between = f"between {words.quantity(estimate.low_s, 's')} and {words.quantity(estimate.high_s, 's')}"
    samples_s = estimate.setting["batch"] * estimate.setting["dp"] / estimate.seconds
    rate = f"{samples_s:.4g} samples/s" if estimate.tokens_s is None else f"{estimate.tokens_s:.0f} tokens/s"
    facts = [("expected", f"{words.quantity(estimate.seconds, 's')} {what}, {between}"), ("rate", rate)]
    if estimate.share_of_peak is not None:
        peak = estimate.operations / (estimate.seconds * estimate.gpus * estimate.share_of_peak) if estimate.share_of_peak else None
        published = f", {words.quantity(peak, 'FLOP/s')} a GPU as published" if peak else ""
        facts.append(("of peak", f"{percent(estimate.share_of_peak)} of the bf16 peak{published}"))
    if estimate.energy_per_token_j is not None:
        facts.append(("energy", f"{words.quantity(estimate.energy_per_token_j, 'J')} a token"))
    elif estimate.energy_j is not None:
        facts.append(("energy", f"{words.quantity(estimate.energy_j, 'J')} a step"))
    return [*facts, ("memory", _memory(estimate))]


def _memory(estimate: StepEstimate) -> str:
    parts = [f"{name} {words.quantity(value, 'B')}" for name, value in estimate.memory_bytes.items()]
    if estimate.fits is None and estimate.machine_memory_bytes is not None:
        return f"{', '.join(parts)}, of {words.quantity(estimate.machine_memory_bytes, 'B')} a GPU; activations not known"
    fits = {True: "fits", False: "does NOT fit", None: "not known whether it fits"}[estimate.fits]
    return f"{words.quantity(estimate.memory_total_bytes, 'B')} a GPU: {fits} ({', '.join(parts)})"


def _columns(parts: Sequence[StepPart], width: int) -> list[Column]:
    bar = min(BAR, max(width - OTHERS, LEAST_BAR))
    shown = [part for part in parts if part.share >= LEAST]
    rest = sum(part.total_s for part in parts if part.share < LEAST)
    total = sum(part.total_s for part in parts) or 1.0
    names = [_name(part) for part in shown]
    times = [part.total_s for part in shown] + ([rest] if rest else [])
    each = [f"{part.times:g} × {words.quantity(part.each_s, 's')}" if part.each_s else "" for part in shown] + ([""] if rest else [])
    return [
        Column("where the time goes", [Cell(name) for name in names + (["the rest"] if rest else [])], wrap=True),
        Column("time", [Cell(text, "bold") for text in layout.aligned([words.quantity(value, "s") for value in times])]),
        Column("share", [Cell(percent(value / total)) for value in times], right=True),
        Column("", [Cell("█" * round(bar * value / max(times)), "accent") for value in times]),
        Column("calls", [Cell(text, "dim") for text in each]),
        Column("held by", [Cell(part.limiter) for part in shown] + ([Cell("")] if rest else [])),
    ]  # fmt: skip


def _name(part: StepPart) -> str:
    name = part.name.removesuffix(", backward")
    return name if part.group in ("communication", "bubble", name) else f"{part.group}: {name}"
