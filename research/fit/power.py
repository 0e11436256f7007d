"""Power: the fit of its coefficients to published readings on H200, and its scores. `python -m research.fit power`.

A reading is what `power_readings` makes of the power at the highest clock, cut at the cap. The energy of a 16-bit matrix operation is
given by times on other GPUs (fit/gemm.py). No time of H200 is fitted: how much slower its matrix products are at the cap than the same
ones on H100 in short runs is a test.
"""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels import power
from hotlap.core.model.kernels.base import Chip, Demand, Floats
from research.fit import power_cases as cases
from research.fit import power_readings as readings
from research.fit import scores
from research.fit.data import root as data_root
from research.fit.power_cases import Series
from research.fit.scores import Score

GPU, BURST = "h200-sxm", "h100-sxm"
BOUNDS = {  # least, where the fit begins, most
    "busy_share.gemm": (0.005, 0.05, 0.5),
    "busy_share.prefill": (0.005, 0.05, 0.5),
    "busy_share.decode": (0.005, 0.05, 0.5),
    "busy_share.moe": (0.005, 0.05, 0.5),
    "dram_pj_per_byte": (20.0, 60.0, 80.0),
    "l2_pj_per_byte": (2.0, 8.0, 12.0),
}
WAITS = (0.05, 0.05, 0.05, 0.1, 0.4, 0.3)  # where the fit begins, in the order of GAPS
PULL = 2.0  # towards the start, per unit of log: a case at its cap only says that it would draw no less
WAITING_W = 138.0  # between cases, clocks up: the fp8 matrix products of a few µs, launched one by one, read 137.5 to 139 W
CAPPED_W = 690.0  # readings of a board that is at its limit
BELOW_W = 670.0  # readings that are surely below: capped ones of warm matrix products scatter by 10 W
COMPUTE_FLOP_PER_B = 600.0  # matrix products above it do not wait for memory on either GPU
SAME_CLOCK = (1.0, 1.4)  # ratios of times that a clock explains
CHUNK = 256
QUIET = "whole second, no compiler"
Mask = NDArray[np.bool_]


def chip(slug: str) -> Chip:
    """A machine of the table at its highest clock, as power sees it."""
    return scores.fastest(slug)


def rows(gpu: str, root: Path) -> list[Series]:
    return cases.rows(gpu, root, BURST)


# ---------------------------------------------------------------- what is read


def long(series: Series) -> Mask:
    """The rows that the accuracy table is about."""
    return series.seconds >= cases.POWER_FROM_S


def whole(series: Series) -> Mask:
    """Long rows that were surely read for most of a second: compilers fool the collector into a few repeats of a mixture of experts."""
    return long(series) & readings.whole(series.power_w) if series.family == "moe" else long(series)


def settled_w(series: Series, machine: Chip, table: power.Coefficients) -> Floats:
    """Power of each case once it is steady: at the highest clock, or the cap."""
    drawn = power.power_w(series.demand, series.seconds, machine, series.family, coefficients=table)
    return np.minimum(drawn, power.limit_w(machine) * power.MARGIN)


def reading_w(series: Series, machine: Chip, table: power.Coefficients, gaps: Floats) -> Floats:
    """What the collector should have read."""
    steady = settled_w(series, machine, table)
    return readings.expected_w(steady, steady[series.previous], WAITING_W, series.when(gaps))


def clock_known(series: Series) -> Mask:
    """Warm matrix products at the cap whose clock follows from the time that a burst takes."""
    with np.errstate(invalid="ignore"):
        ratio = series.seconds / series.full_clock_s
        bound = sum(series.demand.operations.values()) > COMPUTE_FLOP_PER_B * series.demand.dram_bytes
        return bound & (series.power_w >= CAPPED_W - 5) & ~series.cold & long(series) & (ratio >= SAME_CLOCK[0]) & (ratio <= SAME_CLOCK[1])


# ---------------------------------------------------------------- fit


def fit(given: list[Series]) -> dict[str, dict[str, float]]:
    """Coefficients and waits, from the rows that are not held out; every family weighs the same. Deterministic, some 20 s."""
    from scipy.optimize import least_squares

    residuals = _residuals(given)
    least, start, most = (np.array([b[i] for b in BOUNDS.values()]) for i in range(3))
    count = len(start)
    solution = least_squares(
        residuals,
        np.concatenate([np.log(start), WAITS]),
        loss="soft_l1",
        f_scale=0.05,
        max_nfev=60,
        bounds=(np.concatenate([np.log(least), np.zeros(len(WAITS))]), np.concatenate([np.log(most), np.full(len(WAITS), 2.0)])),
    ).x
    fitted = dict(zip(BOUNDS, np.exp(solution[:count]).tolist(), strict=True))
    return {"fitted": fitted, "waits_s": dict(zip(cases.GAPS, solution[count:].tolist(), strict=True))}


def _residuals(given: list[Series]) -> Callable[[Floats], Floats]:
    machine, start = chip(GPU), np.array([b[1] for b in BOUNDS.values()])
    trained = [whole(one) & ~one.held for one in given]

    def residuals(x: Floats) -> Floats:
        values = np.exp(x[: len(start)])
        table = {**power.stored(), **dict(zip(BOUNDS, values, strict=True))}
        parts = [PULL * (x[: len(start)] - np.log(start))]
        for one, train in zip(given, trained, strict=True):
            parts.append(_even(np.log(reading_w(one, machine, table, x[len(start) :]) / one.power_w)[train]))
        return np.concatenate(parts)

    return residuals


def _even(errors: Floats) -> Floats:
    """As if there were 2,000 rows of it."""
    return np.asarray(errors / np.sqrt(max(len(errors), 1) / 2000))


# ---------------------------------------------------------------- scores


def neighbours_w(series: Series, train: Mask, asked: Mask) -> Floats:
    """The reading of the training row of the same kind that is nearest in log space of its sizes."""
    have, want = np.log2(series.shape[train]), np.log2(series.shape[asked])
    kinds, wanted, found = series.kind[train], series.kind[asked], np.empty(len(want))
    for start in range(0, len(want), CHUNK):
        part = slice(start, start + CHUNK)
        distance = np.abs(want[part, None, :] - have[None, :, :]).sum(axis=2) + 1e3 * (wanted[part, None] != kinds[None, :])
        found[part] = series.power_w[train][np.argmin(distance, axis=1)]
    return found


def table(root: Path, fitted: dict[str, dict[str, float]]) -> tuple[list[Score], list[str]]:
    """Scores on held-out rows, and lines about the power state and the slowdown."""
    machine, known, given = chip(GPU), {**power.stored(), **fitted["fitted"]}, rows(GPU, root)
    gaps = np.array([fitted["waits_s"][name] for name in cases.GAPS])
    fits, pooled = list[Score](), dict[tuple[str, str], list[tuple[Floats, Floats]]]()
    for series in given:
        for which, rows_of in {"all": long(series), QUIET: whole(series) & ~series.cold}.items():
            asked = rows_of & series.held & (series.power_w < CAPPED_W)
            for method, values in _methods(series, asked, machine, known, gaps).items():
                fits.append(scores.score(series.family, which, method, values, series.power_w[asked]))
                pooled.setdefault((which, method), []).append((values, series.power_w[asked]))
            seen = rows_of & ~series.held & (series.power_w < CAPPED_W)
            fits.append(
                scores.score(series.family, which, "reading, fitted", reading_w(series, machine, known, gaps)[seen], series.power_w[seen])
            )
            pooled.setdefault((which, "reading, fitted"), []).append((reading_w(series, machine, known, gaps)[seen], series.power_w[seen]))
    for (which, method), pairs in pooled.items():
        expected, measured = (np.concatenate([pair[i] for pair in pairs]) for i in range(2))
        fits.append(scores.score("together", which, method, expected, measured))
    return fits, [*(_states(one, machine, known) for one in given), *_slowdowns(given, machine, known)]


def _methods(series: Series, asked: Mask, machine: Chip, known: power.Coefficients, gaps: Floats) -> dict[str, Floats]:
    """Expected readings of the rows that are asked for, by each method."""
    train = long(series) & ~series.held
    return {
        "reading": reading_w(series, machine, known, gaps)[asked],
        "steady power": settled_w(series, machine, known)[asked],
        "neighbours": neighbours_w(series, train, asked),
        "constant": np.full(int(asked.sum()), np.median(series.power_w[train & (series.power_w < CAPPED_W)])),
    }


def _states(series: Series, machine: Chip, known: power.Coefficients) -> str:
    drawn = power.power_w(series.demand, series.seconds, machine, series.family, coefficients=known) >= power.MARGIN * power.limit_w(
        machine
    )
    high, low = series.held & long(series) & (series.power_w >= CAPPED_W), series.held & long(series) & (series.power_w < BELOW_W)
    told = f"{drawn[high].mean():.1%} of {high.sum()} rows read at {CAPPED_W:.0f} W or more" if high.any() else "no rows"
    return f"{series.family}: capped on {told}; not capped on {1 - drawn[low].mean():.1%} of {low.sum()} read below {BELOW_W:.0f} W"


def _slowdowns(given: list[Series], machine: Chip, known: power.Coefficients) -> list[str]:
    """Measured and expected slowdown of matrix products at the cap, by dtype; none was fitted."""
    lines = []
    for series in given:
        which = clock_known(series)
        for unit, count in series.demand.operations.items():
            chosen = which & (count > 0)
            if chosen.any():
                demand = _chosen(series, chosen)
                held = power.clock(demand, power.PowerDemand(series.full_clock_s[chosen]), machine, kind=series.family, coefficients=known)
                measured = series.seconds[chosen] / series.full_clock_s[chosen]
                error, medians = np.abs(held.slowdown / measured - 1).mean(), [np.median(f) - 1 for f in (measured, held.slowdown)]
                lines.append(f"{unit}: at the cap slower by a median {medians[0]:.1%}, expected {medians[1]:.1%}; MAPE {error:.1%}")
    return lines


def _chosen(series: Series, which: Mask) -> Demand:
    return series.demand._replace(
        operations={unit: count[which] for unit, count in series.demand.operations.items()},
        special=series.demand.special[which],
        dram_bytes=series.demand.dram_bytes[which],
        l2_bytes=series.demand.l2_bytes[which],
    )


def show(scored: list[Score], lines: list[str]) -> str:
    """The table as text."""
    return "\n".join([f"held-out rows below {CAPPED_W:.0f} W, but where it says fitted", scores.show(scored), *lines])


def kept() -> dict[str, dict[str, float]]:
    """The coefficients and waits of the package."""
    file = importlib.resources.files("hotlap.core.model") / "coefficients" / "power.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {name: tables[name] for name in ("fitted", "waits_s")}


def main() -> None:
    """Prints the coefficients as they are refitted, and their scores."""
    where = data_root()
    if where is None:
        raise SystemExit("no measurements: set HOTLAP_SHARED to the folder that holds data/kernels")
    found = fit(rows(GPU, where))
    for name, values in found.items():
        print(f"[{name}]", *(f'"{key}" = {value:.4g}' for key, value in values.items()), sep="\n")
    print(show(*table(where, found)))


if __name__ == "__main__":
    main()
