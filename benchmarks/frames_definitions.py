"""The pictures of docs/frames.md: eight definitions of 1 % low on the same frames, of three captures; a capture before and after a change.

    python benchmarks/frames_definitions.py [--out docs/images]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hotlap.core.show import charts
from hotlap.frames import lows

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "images"
STRETCHES = 300  # of a capture, of each of which the longest frame is drawn
STYLE = """
svg { font: 12px system-ui, sans-serif; background: #fff; }
text { fill: #24292f; } .tick, .axis { fill: #57606a; font-size: 11px; } .grid { stroke: #d0d7de; fill: none; }
.dot { stroke: none; } path { fill: none; }
.l0 { stroke: #2361c4; } .l1 { stroke: #b5471d; }
.s0 { fill: #2361c4; } .s1 { fill: #b5471d; } .s2 { fill: #1a7f4b; } .name { font-weight: 600; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; } text { fill: #e6edf3; } .tick, .axis { fill: #9198a1; } .grid { stroke: #30363d; }
  .l0 { stroke: #79a7ff; } .l1 { stroke: #f0955f; } .s0 { fill: #79a7ff; } .s1 { fill: #f0955f; } .s2 { fill: #5fc78f; }
}
"""


def captures() -> dict[str, NDArray[np.float64]]:
    """Frame times in ms."""
    random = np.random.default_rng(1)
    frequent = 8.0 * np.exp(random.normal(0, 0.1, 20_000))
    frequent[::97] *= random.uniform(2, 4, len(frequent[::97]))
    rare = 8.0 * np.exp(random.normal(0, 0.1, 20_000))
    rare[::4000] = 250.0
    single = np.array([200.0, *[8.0] * 999])
    return {"1000 frames, one of 200 ms": single, "a hitch in 97 frames": frequent, "5 stalls of 250 ms in 20,000": rare}


def picture() -> str:
    """An SVG that stands alone, in the colours that the reader prefers."""
    slowest = {name: np.sort(times)[::-1] for name, times in captures().items()}
    rates = {name: [one.rate(times, 0.01) or 0.0 for one in lows.DEFINITIONS.values()] for name, times in slowest.items()}
    size = len(lows.DEFINITIONS)
    axis = charts.log_axis([rate for some in rates.values() for rate in some], lambda v: f"{v:g} fps", "1 % low")
    chart = charts.Chart(axis, charts.Axis(0.0, float(size) + 1, lambda _: ""), "eight definitions of 1 % low", 760.0, 440.0)
    for number, (name, definition) in enumerate(lows.DEFINITIONS.items()):
        height = size - number - 0.5
        chart.label((axis.low, height + 0.3), f"{name}: {definition.formula} ({definition.used_by})", "name")
        for place, some in enumerate(rates.values()):
            chart.dot((some[number], height - 0.1), f"s{place}", f"{some[number]:.1f} fps", 5.0)
    for place, name in enumerate(rates):
        x = axis.low * (axis.high / axis.low) ** (0.34 * place)
        chart.dot((x * 1.02, size + 0.75), f"s{place}", "", 5.0)
        chart.label((x * 1.06, size + 0.65), name)
    return _alone(chart)


def _alone(chart: charts.Chart) -> str:
    return chart.svg().replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace('">', f'"><style>{STYLE}</style>', 1) + "\n"


def sides() -> dict[str, NDArray[np.float64]]:
    """Frame times in ms of the first capture of either side, as docs/frames.md makes them."""
    captured = {}
    for side, stalls in (("before", 12), ("after", 0)):
        random = np.random.default_rng(0)
        times = 9.0 * random.normal(1, 0.01) * np.exp(random.normal(0, 0.1, 3000))
        times[random.choice(3000, stalls)] += 90
        captured[side] = times
    return captured


def before_after() -> str:
    """The longest frame of each stretch, over time."""
    longest = [times.reshape(STRETCHES, -1).max(axis=1) for times in sides().values()]
    ends = [times.cumsum().reshape(STRETCHES, -1)[:, -1] / 1000 for times in sides().values()]
    height = charts.log_axis([float(ms) for some in longest for ms in some], lambda v: f"{v:g} ms", "longest frame")
    width = charts.linear_axis(0.0, float(max(at[-1] for at in ends)), lambda v: f"{v:g} s", "time")
    chart = charts.Chart(width, height, "frame times before and after", 760.0, 260.0)
    for place, (side, at, some) in enumerate(zip(sides(), ends, longest, strict=True)):
        chart.line(list(zip(at.tolist(), some.tolist(), strict=True)), f"l{place}")
        chart.label((width.high * (0.02 + 0.3 * place), height.high * 0.88), f"{side}: 1 % low {_low(side):.1f} fps", "name")
        chart.dot((width.high * (0.012 + 0.3 * place), height.high * 0.9), f"s{place}", "", 4.0)
    return _alone(chart)


def _low(side: str) -> float:
    return lows.DEFINITIONS["slowest frames"].rate(np.sort(sides()[side])[::-1], 0.01) or 0.0


PICTURES = {"frames-definitions.svg": picture, "frames-before-after.svg": before_after}


def main() -> int:
    parser = argparse.ArgumentParser(description="draws the pictures of docs/frames.md")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    for name, draw in PICTURES.items():
        (args.out / name).write_text(draw(), encoding="utf-8")
    for name, times in captures().items():
        slowest = np.sort(times)[::-1]
        print(f"{name}: " + ", ".join(f"{key} {one.rate(slowest, 0.01):.1f}" for key, one in lows.DEFINITIONS.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
