"""Charts as hand-written SVG: vectors on paper, no library, colours left to the page's style sheet.

Coordinates are rounded to a tenth of a pixel; every text is escaped; a point's numbers show when it is pointed at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

LEFT, RIGHT, TOP, BOTTOM = 76.0, 14.0, 12.0, 40.0  # room for the axes' numbers
LINE_HEIGHT, LETTER = 14.0, 7.0  # of a label's text
CLOSE = 0.01  # of a pixel: what rounding may take off a line's height

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """What one direction shows: its range, whether it is logarithmic, and how a number is written."""

    low: float
    high: float
    show: Callable[[float], str]
    title: str = ""
    log: bool = False
    ticks: tuple[float, ...] = ()

    def place(self, value: float) -> float:
        """From 0 at `low` to 1 at `high`, held within."""
        if self.log:
            part = math.log(max(value, self.low * 1e-9) / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(max(part, 0.0), 1.0)


def log_axis(values: Sequence[float], show: Callable[[float], str], title: str = "", margin: float = 1.25) -> Axis:
    """Around positive values, with ticks at 1, or 1, 2 and 5, of each decade."""
    low, high = min(values) / margin, max(values) * margin
    if high / low < 4:
        middle = math.sqrt(low * high)
        low, high = middle / 2, middle * 2
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1.0,) if high / low > 3000 else (1.0, 3.0) if high / low > 60 else (1.0, 2.0, 5.0)
    return Axis(low, high, show, title, True, tuple(m * 10.0**d for d in decades for m in steps if low <= m * 10.0**d <= high))


def size_axis(values: Sequence[float], show: Callable[[float], str], title: str = "") -> Axis:
    """Around sizes in bytes, with ticks at powers of two, at most 9 of them."""
    low, high = min(values) / 1.3, max(values) * 1.3
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(1, math.ceil((last - first + 1) / 9))
    return Axis(low, high, show, title, True, tuple(2.0**n for n in range(first, last + 1, step)))


def linear_axis(low: float, high: float, show: Callable[[float], str], title: str = "", most: int = 6) -> Axis:
    """From `low` to `high`, widened to round numbers, with ticks at 1, 2 or 5 times a power of ten."""
    if not high > low:
        low, high = low - abs(low) * 0.05 - 1e-12, high + abs(high) * 0.05 + 1e-12
    raw = (high - low) / most
    scale = 10.0 ** math.floor(math.log10(raw))
    step = next(m * scale for m in (1, 2, 5, 10) if m * scale >= raw)
    first, last = math.floor(low / step), math.ceil(high / step)
    return Axis(first * step, last * step, show, title, False, tuple(n * step for n in range(first, last + 1)))


@dataclass
class Chart:
    """A drawing in the making: axes first, then marks in the order of calling, then labels."""

    x: Axis
    y: Axis
    name: str  # what a screen reader says
    width: float = 640.0
    height: float = 380.0
    right: float = RIGHT  # room beside the last point, for labels
    parts: list[str] = field(default_factory=list)
    labels: list[tuple[float, float, str, str]] = field(default_factory=list)

    def at(self, point: Point) -> Point:
        """From data to pixels."""
        across, up = self.x.place(point[0]), self.y.place(point[1])
        return LEFT + across * (self.width - LEFT - self.right), self.height - BOTTOM - up * (self.height - TOP - BOTTOM)

    def line(self, points: Sequence[Point], kind: str) -> None:
        if len(points) > 1:
            self.parts.append(f'<path class="line {kind}" d="{path(map(self.at, points))}"/>')

    def band(self, points: Sequence[tuple[float, float, float]]) -> None:
        """The area between the least and the highest: x, low, high."""
        if len(points) > 1:
            around = [self.at((x, high)) for x, _, high in points] + [self.at((x, low)) for x, low, _ in reversed(points)]
            self.parts.append(f'<path class="band" d="{path(around)}Z"/>')

    def dots(self, points: Sequence[Point], kind: str) -> None:
        """Many points as one path."""
        if points:
            self.parts.append(f'<path class="line cloud {kind}" d="M0 0{cloud([self.at(point) for point in points])}"/>')

    def dot(self, point: Point, kind: str, tooltip: str = "", radius: float = 3.6) -> None:
        x, y = self.at(point)
        title = f"<title>{escape(tooltip)}</title>" if tooltip else ""
        self.parts.append(f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}">{title}</circle>')

    def span(self, x: float, low: float, high: float, kind: str) -> None:
        """An interval, standing."""
        (place, bottom), (_, top) = self.at((x, low)), self.at((x, high))
        if bottom - top > 1:
            self.parts.append(f'<path class="span {kind}" d="M{place:.1f} {bottom:.1f}V{top:.1f}"/>')

    def label(self, point: Point, text: str, kind: str = "", anchor: str = "start") -> None:
        """Text at a point, or beside the chart's end; labels that would lie on each other are moved apart."""
        x, y = self.at(point)
        if kind == "beside":
            x, y = x + 8, y + 4
        self.labels.append((x, y, f'class="label {kind}" text-anchor="{anchor}"', text))

    def svg(self) -> str:
        body = "".join([self._grid(), *self.parts, *self._placed()])
        return f'<svg class="chart" viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-label="{escape(self.name)}">{body}</svg>'

    def _grid(self) -> str:
        right, bottom = self.width - self.right, self.height - BOTTOM
        lines, texts = [], []
        for tick in self.y.ticks:
            _, y = self.at((self.x.low, tick))
            lines.append(f"M{LEFT:g} {y:.1f}H{right:g}")
            texts.append(f'<text class="tick" x="{LEFT - 7:g}" y="{y + 4:.1f}" text-anchor="end">{escape(self.y.show(tick))}</text>')
        for tick in self.x.ticks:
            x, _ = self.at((tick, self.y.low))
            lines.append(f"M{x:.1f} {TOP:g}V{bottom:g}")
            texts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 16:g}" text-anchor="middle">{escape(self.x.show(tick))}</text>')
        titles = f'<text class="axis" x="{right:g}" y="{self.height - 6:g}" text-anchor="end">{escape(self.x.title)}</text>'
        return f'<path class="grid" d="{"".join(lines)}"/>{"".join(texts)}{titles}'

    def _placed(self) -> list[str]:
        """Labels of one column pushed apart downwards, then the whole held inside."""
        positions: list[list[float]] = []
        ordered = sorted(self.labels, key=lambda label: label[1])
        for x, y, _, text in ordered:
            taken = [other for other in positions if abs(other[0] - x) < LETTER * max(len(text), 8)]
            while near := [other[1] for other in taken if abs(other[1] - y) < LINE_HEIGHT - CLOSE]:
                y = max(near) + LINE_HEIGHT
            positions.append([x, y])
        return [
            f'<text {attributes} x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
            for (x, y), (_, _, attributes, text) in zip(positions, ordered, strict=True)
        ]


def path(points: Sequence[Point] | map[Point]) -> str:
    """Pixels joined by lines."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def cloud(points: Sequence[Point]) -> str:
    """Pixels as dots of one path: a dot is a line of no length with round ends. A tenth of the bytes of circles."""
    if not points:
        return ""
    moves = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise([(0.0, 0.0), *((round(x, 1), round(y, 1)) for x, y in points)])]
    return "".join(f"m{dx:.4g} {dy:.4g}h0" for dx, dy in moves)
