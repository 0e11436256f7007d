"""A run of training as part of a page: step time over steps, its parts, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from hotlap.core import units
from hotlap.core.show import charts
from hotlap.core.show.bands import figure
from hotlap.core.show.table import html
from hotlap.training import show
from hotlap.training.reading import MeasuredProcess, TrainingRun
from hotlap.training.record import column
from hotlap.training.summary import ArmFigures, TrainingSummary

DRAWN = 2000  # steps of an arm at most; of more, evenly spread ones
KINDS = ("s0", "s1", "s2", "s3", "s4", "s5")
COLOURS = ("--s2", "--s1", "--s3", "--s4", "--s5", "--good", "--warn", "--faint")  # of parts
BAR, GAP = 26.0, 12.0  # pixels


def lead(run: TrainingRun, summary: TrainingSummary) -> str:
    """The answer, and what was asked."""
    return f'<p class="lead">{escape(show.answer(summary))}.</p><p>{escape(show.asked_text(run))}.</p>'


def section(run: TrainingRun, summary: TrainingSummary) -> str:
    arms = [arm for arm in summary.arms if arm.step_s]
    if not arms:
        return "<p>No step was measured.</p>"
    pairs = [line.partition(" ") for line in show.facts(run, summary)]
    words = "".join(f"<p><b>{escape(head.capitalize())}:</b> {escape(rest)}</p>" for head, _, rest in pairs)
    return f'{html(show.table(arms))}{words}<div class="plots">{_over_steps(run, arms)}{_parts(arms)}</div>'


def _leads(run: TrainingRun, arm: str) -> list[MeasuredProcess]:
    return [launch[0] for launch in run.launches if launch[0].process.arm == arm and len(launch[0].table)]


def _over_steps(run: TrainingRun, arms: Sequence[ArmFigures]) -> str:
    """Every process's steps over each other; where the window begins is a line."""
    drawn = []
    for kind, arm in zip(KINDS, arms, strict=False):
        points = [
            (float(step), float(time)) for one in _leads(run, arm.name)
            for step, time in zip(one.table[:, 0], column(one.table, "time"), strict=True) if time > 0
        ]  # fmt: skip
        drawn.append((arm.name, kind, points[:: -(-len(points) // DRAWN) or 1]))
    every = [time for _, _, points in drawn for _, time in points]
    if not every:
        return ""
    last = max(step for _, _, points in drawn for step, _ in points)
    axis = charts.linear_axis(0.0, max(last, 1.0), lambda v: f"{v:g}", "step")
    times = charts.log_axis(every, lambda v: units.show(v, "s", 2))
    chart = charts.Chart(axis, times, "time of a step over steps", height=260.0, right=64.0)
    for name, kind, points in drawn:
        chart.dots(points, kind)
        if points:
            chart.label((axis.high, float(np.median([time for _, time in points]))), name, f"beside {kind}")
    warm = max(arm.warm for arm in arms)
    left = sum(arm.steps - arm.undisturbed for arm in arms if arm.undisturbed is not None)
    disturbed = f", and {left} that waited for a processor," if left else ""
    return figure("Time of a step", f" every step of all processes; of each up to {warm} that warm up{disturbed} are in no figure", chart)


def _parts(arms: Sequence[ArmFigures]) -> str:
    """A bar an arm, its parts beside each other."""
    names = [name for name in show.PARTS if any(arm.parts_s.get(name, 0.0) > 0 for arm in arms)]
    most = max(sum(max(seconds, 0.0) for seconds in arm.parts_s.values()) for arm in arms)
    width, height = 640.0, GAP + len(arms) * (BAR + GAP)
    body = []
    for row, arm in enumerate(arms):
        x, y = charts.LEFT, GAP + row * (BAR + GAP)
        body.append(f'<text class="tick" x="{charts.LEFT - 7:g}" y="{y + BAR / 2 + 4:.1f}" text-anchor="end">{escape(arm.name)}</text>')
        for colour, name in zip(COLOURS, names, strict=False):
            wide = max(arm.parts_s.get(name, 0.0), 0.0) / most * (width - charts.LEFT - charts.RIGHT)
            shown = f"{show.PARTS[name]} {units.show(arm.parts_s.get(name, 0.0), 's')}"
            body.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{BAR:g}" style="fill:var({colour})">'
                f"<title>{escape(shown)}</title></rect>"
            )
            x += wide
    pairs = zip(COLOURS, names, strict=False)
    legend = ", ".join(f'<span style="color:var({colour})">{escape(show.PARTS[name])}</span>' for colour, name in pairs)
    svg = f'<svg class="chart" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="parts of a step">{"".join(body)}</svg>'
    return f"<figure><figcaption><b>Where it goes</b> the parts sum to the step: {legend}</figcaption>{svg}</figure>"
