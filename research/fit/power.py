"""Power: the fit of its coefficients to published readings on H200 and B200, and its scores. `python -m research.fit power`.

A reading is what `power_readings` makes of the power at the highest clock, cut at the cap. The energy of a 16-bit matrix operation is
given by times on other GPUs (fit/gemm.py). Power is counted for the measured time. No time of H200 is fitted: how much slower its matrix
products are at the cap than the same ones on H100 in short runs is a test.

Readings of a machine that had to wait are no power of a kernel: the first case of a worker at a new shape, and sizes before which a
kernel is compiled, are the host's time (`tags`), here as in research/accuracy.py; so are experts that were read once, for the collector
took a compiler's second for the kernel's.
"""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels import power
from hotlap.core.model.kernels.base import Chip, Floats
from research.fit import data as measured_data
from research.fit import power_cases as cases
from research.fit import power_readings as readings
from research.fit import scores
from research.fit.data import Rows
from research.fit.data import root as data_root
from research.fit.power_cases import Series
from research.fit.scores import Score

GPU, BURST = "h200-sxm", "h100-sxm"
GPUS = ("h200-sxm", "b200")  # whose files carry power
BOUNDS = {  # least, where the fit begins, most
    "busy_share.prefill": (0.005, 0.05, 0.8),
    "busy_share.decode": (0.005, 0.05, 0.8),
    "busy_share.moe": (0.005, 0.05, 0.8),
    "busy_share.triton": (0.005, 0.05, 0.8),
    "dram_pj_per_byte": (20.0, 60.0, 80.0),
    "l2_pj_per_byte": (2.0, 8.0, 12.0),
}
WAITS = (0.005, 0.005, 0.01, 0.02, 0.2, 0.25)  # where the fit begins, in the order of GAPS
PULL = 1.0  # towards the start, per unit of log: a case at its cap only says that it would draw no less
MOST_ROWS, STEPS = 3000, 16  # of each family on each machine; of the fit
CAPPED_W = 690.0  # readings of a board that is at its limit
BELOW_W = 670.0  # readings that are surely below: capped ones of warm matrix products scatter by 10 W
COMPUTE_FLOP_PER_B = 600.0  # matrix products above it do not wait for memory on either GPU
SAME_CLOCK = (1.0, 1.4)  # ratios of times that a clock explains
CHUNK = 256
QUIET = "whole second, no compiler"
HOST, ONCE = "read after a wait", "read once"
Mask = NDArray[np.bool_]
Fitted = Mapping[str, Mapping[str, float]]


def chip(slug: str) -> Chip:
    """A machine of the table at its highest clock, as power sees it."""
    return scores.fastest(slug)


@functools.cache
def series(gpu: str, root: Path) -> tuple[Series, ...]:
    """All cases with power on a GPU, by family."""
    return tuple(cases.rows(gpu, root, BURST if gpu == GPU else ""))


# ---------------------------------------------------------------- rows, as research/accuracy.py scores them


def rows(gpu: str, root: Path) -> Rows:
    """Cases of 0.34 ms and more that carry power: of each its family and its place in the series of that family."""
    chosen = [(one, np.flatnonzero(long(one) & np.isfinite(one.power_w))) for one in (series(gpu, root) if gpu in GPUS else ())]
    if not chosen:
        return measured_data.none(gpu)
    columns = [one.at(places) for one, places in chosen]
    family = np.concatenate([np.full(len(places), one.family) for one, places in chosen])
    seconds, power_w, fold, source = (np.concatenate([getattr(c, n) for c in columns]) for n in ("seconds", "power_w", "fold", "source"))
    params = {"family": family, "place": np.concatenate([places for _, places in chosen])}
    return Rows(gpu, params, seconds, power_w, family, fold, fold == 0, source)


def tags(data: Rows) -> NDArray[np.str_]:
    """Rows whose reading averages a wait of the host, and experts of which the collector took one reading."""
    found = np.where((data.params["family"] == "moe") & readings.once(data.power_w), ONCE, "").astype("<U60")
    for one, mask, places in _parts(data):
        found[np.flatnonzero(mask)[one.cold[places]]] = HOST
    return found


def measured(data: Rows) -> Floats:
    """What is scored: watts."""
    return data.power_w


def constant(data: Rows) -> Floats:
    """The share of the limit that is best for all rows of the machine, in watts: the least mean error of any constant."""
    levels = np.linspace(float(data.power_w.min()), float(data.power_w.max()), 400)
    best = levels[np.argmin([np.abs(level / data.power_w - 1).mean() for level in levels])]
    return np.full(len(data.power_w), best)


def predicted(data: Rows, coefficients: Fitted) -> Floats:
    """Expected readings, in watts."""
    found = np.full(len(data.seconds), np.nan)
    table, machine = {**power.stored(), **coefficients["fitted"]}, chip(data.gpu)
    for one, mask, places in _parts(data):
        found[mask] = reading_w(one, machine, table, waits(coefficients, data.gpu), places)
    return found


def _parts(data: Rows) -> list[tuple[Series, Mask, NDArray[np.intp]]]:
    root = data_root()
    if root is None:
        raise SystemExit("no measurements: set HOTLAP_SHARED to the folder that holds data/kernels")
    masks = [(one, data.params["family"] == one.family) for one in series(data.gpu, root)]
    return [(one, mask, data.params["place"][mask]) for one, mask in masks]


def waits(coefficients: Fitted, gpu: str) -> Floats:
    """Of the collector between cases, in the order of GAPS; where a fit begins for a machine that was not fitted: they are its host's."""
    known = coefficients["waits_s"]
    return np.array([known.get(f"{gpu} {name}", start) for name, start in zip(cases.GAPS, WAITS, strict=True)])


# ---------------------------------------------------------------- what is read


def long(series: Series) -> Mask:
    """The rows that the accuracy table is about."""
    return series.seconds >= cases.POWER_FROM_S


def whole(series: Series) -> Mask:
    """Long rows that were surely read for most of a second: compilers fool the collector into a few repeats of a mixture of experts."""
    return long(series) & readings.whole(np.nan_to_num(series.power_w)) if series.family == "moe" else long(series)


def settled_w(series: Series, machine: Chip, table: power.Coefficients) -> Floats:
    """Power of each case once it is steady: at the highest clock, or the cap."""
    slow = np.char.find(series.source, "triton_attn") >= 0
    drawn = power.power_w(series.demand, series.seconds, machine, series.family, coefficients=table)
    if slow.any():
        drawn = np.where(slow, power.power_w(series.demand, series.seconds, machine, "triton", coefficients=table), drawn)
    return np.minimum(drawn, power.limit_w(machine) * power.MARGIN)


def reading_w(
    series: Series, machine: Chip, table: power.Coefficients, gaps: Floats, places: NDArray[np.intp] | None = None
) -> Floats:
    """What the collector should have read of these cases, or of all."""
    places = np.arange(len(series.seconds)) if places is None else places
    own, before = series.at(places), series.at(series.previous[places])
    return _read_w(own, before, machine, table, gaps)


def _read_w(own: Series, before: Series, machine: Chip, table: power.Coefficients, gaps: Floats) -> Floats:
    at_rest = (table["idle_share"] + table["leakage_share"]) * power.limit_w(machine) * power.static_factor(machine, table)
    return readings.expected_w(settled_w(own, machine, table), settled_w(before, machine, table), at_rest, own.when(gaps))


def clock_known(series: Series) -> Mask:
    """Warm matrix products at the cap whose clock follows from the time that a burst takes."""
    with np.errstate(invalid="ignore"):
        ratio = series.seconds / series.full_clock_s
        bound = sum(series.demand.operations.values()) > COMPUTE_FLOP_PER_B * series.demand.dram_bytes
        return bound & (series.power_w >= CAPPED_W - 5) & ~series.cold & long(series) & (ratio >= SAME_CLOCK[0]) & (ratio <= SAME_CLOCK[1])


# ---------------------------------------------------------------- fit


def fit(data: Sequence[Rows]) -> dict[str, dict[str, float]]:
    """Coefficients, and waits of each machine, from the rows that are not held out; every family of a machine weighs the same."""
    from scipy.optimize import least_squares

    gpus = [one.gpu for one in data if np.any(~one.held)]
    trained = [_trained(one) for one in data if np.any(~one.held)]
    least, start, most = (np.array([b[i] for b in BOUNDS.values()]) for i in range(3))
    count, every = len(start), len(WAITS)

    def residuals(x: Floats) -> Floats:
        table = {**power.stored(), **dict(zip(BOUNDS, np.exp(x[:count]), strict=True))}
        parts = [PULL * (x[:count] - np.log(start))]
        for n, (gpu, sides) in enumerate(zip(gpus, trained, strict=True)):
            gaps = x[count + every * n : count + every * (n + 1)]
            parts += [_even(np.log(_read_w(own, before, chip(gpu), table, gaps) / own.power_w)) for own, before in sides]
        return np.concatenate(parts)

    begin = np.concatenate([np.log(start), *[WAITS] * len(gpus)])
    low, high = (np.concatenate([np.log(b), np.full(every * len(gpus), w)]) for b, w in ((least, 0.0), (most, 2.0)))
    found = least_squares(residuals, begin, loss="soft_l1", f_scale=0.05, max_nfev=STEPS, bounds=(low, high)).x
    names = [f"{gpu} {name}" for gpu in gpus for name in cases.GAPS]
    fitted = dict(zip(BOUNDS, np.exp(found[:count]).tolist(), strict=True))
    return {"fitted": fitted, "waits_s": dict(zip(names, found[count:].tolist(), strict=True))}


def _trained(data: Rows) -> list[tuple[Series, Series]]:
    """Of each family the cases to fit, and those before them; some of many, always the same."""
    found, kept = list[tuple[Series, Series]](), ~data.held & (tags(data) == "")
    for one, mask, places in _parts(data):
        chosen = places[kept[mask]]
        chosen = np.random.default_rng(1).permutation(chosen)[:MOST_ROWS]
        found.append((one.at(chosen), one.at(one.previous[chosen])))
    return [pair for pair in found if len(pair[0].seconds)]


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


def table(root: Path, fitted: Fitted) -> tuple[list[Score], list[str]]:
    """Scores on fold 0 of H200, and lines about the power state and the slowdown."""
    machine, known, given, gaps = chip(GPU), {**power.stored(), **fitted["fitted"]}, series(GPU, root), waits(fitted, GPU)
    fits, pooled = list[Score](), dict[tuple[str, str], list[tuple[Floats, Floats]]]()
    for one in given:
        for which, rows_of in {"all": long(one), QUIET: whole(one) & ~one.cold}.items():
            asked = rows_of & one.held & (one.power_w < CAPPED_W)
            for method, values in _methods(one, asked, machine, known, gaps).items():
                fits.append(scores.score(one.family, which, method, values, one.power_w[asked]))
                pooled.setdefault((which, method), []).append((values, one.power_w[asked]))
    for (which, method), pairs in pooled.items():
        expected, read = (np.concatenate([pair[i] for pair in pairs]) for i in range(2))
        fits.append(scores.score("together", which, method, expected, read))
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


def _slowdowns(given: Sequence[Series], machine: Chip, known: power.Coefficients) -> list[str]:
    """Measured and expected slowdown of matrix products at the cap, by dtype; none was fitted."""
    lines = []
    for own in given:
        which = clock_known(own)
        for unit, count in own.demand.operations.items():
            chosen = which & (count > 0)
            if chosen.any():
                demand = own.at(np.flatnonzero(chosen)).demand
                held = power.clock(demand, power.PowerDemand(own.full_clock_s[chosen]), machine, kind=own.family, coefficients=known)
                ratio = own.seconds[chosen] / own.full_clock_s[chosen]
                error, medians = np.abs(held.slowdown / ratio - 1).mean(), [np.median(f) - 1 for f in (ratio, held.slowdown)]
                lines.append(f"{unit}: at the cap slower by a median {medians[0]:.1%}, expected {medians[1]:.1%}; MAPE {error:.1%}")
    return lines


def show(scored: list[Score], lines: list[str]) -> str:
    """The table as text."""
    return "\n".join([f"rows of fold 0 below {CAPPED_W:.0f} W", scores.show(scored), *lines])


def kept() -> dict[str, dict[str, float]]:
    """The coefficients and waits of the package."""
    file = importlib.resources.files("hotlap.core.model") / "coefficients" / "power.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {name: tables[name] for name in ("fitted", "waits_s")}


def main() -> None:
    """Prints the coefficients as they are refitted with all rows, and their scores."""
    where = data_root()
    if where is None:
        raise SystemExit("no measurements: set HOTLAP_SHARED to the folder that holds data/kernels")
    found = fit([rows(gpu, where).holding(None) for gpu in GPUS])
    for name, values in found.items():
        print(f"[{name}]", *(f'"{key}" = {value:.4g}' for key, value in values.items()), sep="\n")
    print(show(*table(where, found)))


if __name__ == "__main__":
    main()
