"""How much each constant of the change-point method matters: answers with it halved and doubled, beside those of today.

    python benchmarks/change_constants.py [--series 60] [--seed 20261] [--only NAME …] [--json]

The same series for every row, 200 points about 100, of noise scaled as in `changes.py`: *independent* is normal, Student t3, with
spikes and quantised; *dependent* is a first-order autoregression of 0.5 and 0.8. False: share of series of noise in which a change is
reported. 2 %: share of steps of that size found within 5 points. Drift: share of drifts of 5 % in all that are called one.
Provisional: share of series of noise, cut at 100 points, with a provisional change; and of steps of 5 % seen 3 points later.
All rows see the same series, so that differences are of the constant; a share of 240 series is known to ± 6 in 100 at 50 %.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from changes import BASE, NEAR, PLACES, POINTS, Floats, noise

from hotlap.core.stats import changes, levels, split

INDEPENDENT, DEPENDENT = ("normal", "Student t3", "2 % spikes", "quantised"), ("ar 0.5", "ar 0.8")
FRESH_AT = 3  # points after a step
CONSTANTS: dict[str, ModuleType] = {
    "ALPHA": changes, "SPAN": changes, "STEP": changes, "NEAR": changes,
    "EDGE": split, "GRID": split, "FEW_ORDERS": split, "LAGS": split, "WINSORIZED": split, "CLEAR": split,
    "PACE": levels, "RECENT": levels, "FEWEST_AFTER": levels, "FEWEST_BEFORE": levels, "PROVISIONAL": levels, "ENOUGH": levels,
    "DEPENDENT": levels, "CAUTION": levels, "STEP_ROOM": levels, "CUT_COST": levels, "FAR": levels, "HINT": levels,
    "DRIFT_POINTS": levels, "LINE_POINTS": levels, "PASSES": levels,
}  # fmt: skip
"""Whose answers depend on nothing else are left out: ROWS (speed), STATIONARY (a limit of the arithmetic)."""


@contextmanager
def changed(name: str, factor: float) -> Iterator[float]:
    """With one constant another; whole numbers stay whole."""
    module = CONSTANTS[name]
    old = getattr(module, name)
    new = max(round(old * factor), 1) if isinstance(old, int) else old * factor
    places = [one for one in (changes, levels, split) if hasattr(one, name)]
    for place in places:
        setattr(place, name, new)
    forget()
    try:
        yield new
    finally:
        for place in places:
            setattr(place, name, old)
        forget()


def forget() -> None:
    """Tables that were computed with other constants."""
    for module in (levels, split):
        for one in vars(module).values():
            if hasattr(one, "cache_clear"):
                one.cache_clear()


def find(x: Floats, provisional: bool = False) -> list[changes.Change]:
    return changes.changes(BASE + x, alpha=changes.ALPHA, provisional=provisional)


def figures(series: dict[str, Floats], at: Floats) -> dict[str, float]:
    """Shares over all series; keys are the columns."""
    out: dict[str, float] = {}
    ramp = 5.0 * np.linspace(0, 1, POINTS)
    for kind, names in (("independent", INDEPENDENT), ("dependent", DEPENDENT)):
        rows = np.concatenate([series[name] for name in names])
        places = np.tile(at, len(names))
        out[f"false, {kind}"] = float(np.mean([bool(find(x)) for x in rows]))
        stepped = rows + 2 * (np.arange(POINTS) >= places[:, None])
        found = [any(abs(one.index - k) <= NEAR for one in find(x)) for x, k in zip(stepped, places, strict=True)]
        out[f"2 %, {kind}"] = float(np.mean(found))
    rows = np.concatenate([series[name] for name in INDEPENDENT])
    out["drift"] = float(np.mean([any(one.kind == "drift" for one in find(x + ramp)) for x in rows]))
    out["provisional, false"] = float(np.mean([any(one.provisional for one in find(x[:100], True)) for x in rows]))
    fresh = rows[:, : 100 + FRESH_AT] + 5.0 * (np.arange(100 + FRESH_AT) >= 100)
    out["provisional, seen"] = float(np.mean([any(abs(one.index - 100) <= NEAR for one in find(x, True)) for x in fresh]))
    return out


def row(asked: tuple[str, float, int, int]) -> dict[str, Any]:
    """One line of the table: a constant, its value, the figures."""
    name, factor, count, seed = asked
    random = np.random.default_rng(seed)
    series = {one: noise(one, random, (count, POINTS)) for one in (*INDEPENDENT, *DEPENDENT)}
    at = random.integers(*PLACES, count)
    if not name:
        return {"name": "as it is", "value": None, **figures(series, at)}
    with changed(name, factor) as value:
        return {"name": name, "value": value, **figures(series, at)}


def show(rows: list[dict[str, Any]]) -> str:
    """As a table in markdown: shares in percent; = where it is the same."""
    columns = [key for key in rows[0] if key not in ("name", "value")]
    lines = [f"| constant | value | {' | '.join(columns)} |", f"|---|---|{'---|' * len(columns)}"]
    for one in rows:
        cells = [f"{one[key]:.1%}" if one is rows[0] or one[key] != rows[0][key] else "=" for key in columns]
        value = "" if one["value"] is None else f"{one['value']:g}"
        lines.append(f"| {one['name']} | {value} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, default=60, help="of each noise")
    parser.add_argument("--seed", type=int, default=20261)
    parser.add_argument("--only", nargs="*", choices=list(CONSTANTS), default=list(CONSTANTS), metavar="NAME")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    asked = [("", 1.0), *((name, factor) for name in options.only for factor in (0.5, 2.0))]
    with ProcessPoolExecutor() as pool:
        rows = list(pool.map(row, [(name, factor, options.series, options.seed) for name, factor in asked]))
    print(json.dumps(rows) if options.json else show(rows))


if __name__ == "__main__":
    main()
