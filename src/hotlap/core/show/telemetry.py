"""A bundle of `hotlap node watch`: per device, what each sensor read, how long each cause held the clock, and energy with its error."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from hotlap.core.analysis.catalogue import catalogue
from hotlap.core.analysis.symptoms import PLAUSIBLE, REASONS
from hotlap.core.errors import InputError
from hotlap.core.record import Readings
from hotlap.core.stats import energy
from hotlap.core.store import chunks
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import show

Floats = NDArray[np.float64]
FEW = 4  # sensors that stayed at 0 and still have a line each
CODES = ("xid",)  # values that are names, not amounts
LINK = ("pcie_width", "pcie_generation")
ERRORS = ("ecc_corrected", "ecc_uncorrected", "remapped_rows", "retired_pages", "pcie_replays", "pcie_errors", "nvlink_errors")
FLAGGED = ("xid.count",)
GROWING = ("energy_j", "throttle_s", "pcie_bytes", "nvlink_bytes")  # counters of what is no error
HELD_MAX = 3.0  # a mask stands for the time to the next reading, at most this × their median distance
UNITS = {
    "_bytes_per_s": "B/s", "_v": "V", "_a": "A", "_w": "W", "_j": "J", "_c": "°C", "_hz": "Hz", "_rpm": "rpm", "_bytes": "B", "_s": "s",
}  # fmt: skip


@dataclass(frozen=True)
class Sensor:
    """What one sensor came to; without a value, why."""

    name: str
    count: int = 0
    low: float = float("nan")
    mean: float = float("nan")
    high: float = float("nan")
    window_s: float | None = None  # over which each value is an average; 0 instantaneous, None unknown
    reason: str = ""
    codes: frozenset[float] = frozenset()  # of a sensor of codes: those that were seen


@dataclass(frozen=True)
class Watched:
    """One device over the whole watch. `held`: cause → share of the time watched."""

    device: str
    name: str
    sensors: list[Sensor] = field(default_factory=list)
    held: dict[str, float] = field(default_factory=dict)
    energy: energy.Energy | None = None


def of(bundle: Bundle) -> list[Watched]:
    """Every device of a watch's bundle, in the order in which they were read; of long ones every reading counts, from the levels."""
    levels = chunks.levels(bundle.path) if chunks.available() and chunks.stored(bundle.path, "levels") else {}
    raw = bundle.readings[len(chunks.thinned(levels)) :]  # what was compacted comes first, as means
    odd = chunks.failed(bundle.path) if levels else []
    averaged = chunks.windows(bundle.path) if levels else {}
    parts: dict[chunks.Key, list[Readings]] = {key: [] for key in levels}
    for one in [*raw, *(msgspec.structs.replace(one, times_s=[], values=[]) for one in odd)]:  # the levels have their values
        parts.setdefault((one.device, one.sensor), []).append(one)
    names = {d.key: d.name if d.target == "host" else f"{d.selector} {d.name}" for d in bundle.run.machine.devices}
    watched = []
    for device in dict.fromkeys(device for device, _ in parts):
        mine = {sensor: some for (of, sensor), some in parts.items() if of == device}
        sensors = [_sensor(name, some, levels.get((device, name)), averaged.get((device, name))) for name, some in sorted(mine.items())]
        exact: dict[str, tuple[Floats, Floats]] = {
            name: _series(bundle, (device, name), [*raw, *odd]) for name in ("power_w", "energy_j", "throttle") if name in mine
        }
        watched.append(Watched(device, names.get(device, device), sensors, _held(exact.get("throttle")), _energy(exact)))
    return watched


def _sensor(name: str, some: Sequence[Readings], level: chunks.Levels | None, window_s: float | None) -> Sensor:
    values = np.array([v for one in some for v in one.values if v is not None], dtype=float)
    low, high, counts = values, values, np.ones(len(values))
    means = values
    if level is not None:
        low, high = np.concatenate([level.low, low]), np.concatenate([level.high, high])
        means, counts = np.concatenate([level.mean, means]), np.concatenate([level.counts, counts])
    reason = next((one.reason for one in reversed(some) if one.reason), "")
    windows = [one.window_s for one in some if one.window_s is not None]
    window_s = windows[-1] if windows else window_s
    if not len(means):
        return Sensor(name, window_s=window_s, reason=reason or "no value was read")
    mean = float(np.average(means, weights=counts))
    codes = frozenset([*low.tolist(), *high.tolist()]) if name in CODES else frozenset()
    return Sensor(name, int(counts.sum()), float(low.min()), mean, float(high.max()), window_s, reason, codes)


def energies(bundle: Bundle) -> dict[str, energy.Energy]:
    """Device → its energy between the first and the last reading; only those of which it is known."""
    compacted = chunks.available() and chunks.stored(bundle.path, "levels")
    levels = chunks.levels(bundle.path) if compacted else {}
    known = [*bundle.readings[len(chunks.thinned(levels)) :], *(chunks.failed(bundle.path) if compacted else [])]
    by_device = {}
    for key in bundle.run.devices:
        exact = {name: _series(bundle, (key, name), known) for name in ("power_w", "energy_j")}
        spent = _energy(exact)
        if spent is not None and spent.joules is not None:
            by_device[key] = spent
    return by_device


def _series(bundle: Bundle, key: chunks.Key, raw: Iterable[Readings]) -> tuple[Floats, Floats]:
    """Times and values of every reading, in order; failed ones are left out."""
    mine = [one for one in raw if (one.device, one.sensor) == key]
    pairs = [(t, v) for one in mine for t, v in zip(one.times_s, one.values, strict=True) if v is not None]
    times, values = (np.array(column, dtype=float) for column in (zip(*pairs, strict=True) if pairs else ((), ())))
    if chunks.available() and chunks.stored(bundle.path):
        kept = chunks.series(bundle.path, *key)
        times, values = np.concatenate([kept.times_s, times]), np.concatenate([kept.values, values])
    order = np.argsort(times, kind="stable")
    return times[order], values[order]


def _held(masks: tuple[Floats, Floats] | None) -> dict[str, float]:
    if masks is None or len(masks[0]) < 2:
        return {}
    times, values = masks
    passed = np.diff(times)
    passed = np.minimum(passed, HELD_MAX * float(np.median(passed)))
    whole = float(passed.sum())
    bits = values[:-1].astype(np.int64)
    shares = {name: float(passed[(bits & bit) > 0].sum()) / whole for bit, name in REASONS.items()} if whole else {}
    return {name: share for name, share in shares.items() if share}


def _energy(exact: Mapping[str, tuple[Floats, Floats]]) -> energy.Energy | None:
    power, counter = (exact.get(name, (np.zeros(0), np.zeros(0))) for name in ("power_w", "energy_j"))
    times = np.concatenate([power[0], counter[0]])
    try:
        return energy.window(float(times.min()), float(times.max()), _lists(power), _lists(counter)) if len(times) else None
    except InputError:
        return None


def _lists(column: tuple[Floats, Floats]) -> energy.Series:
    return column[0].tolist(), column[1].tolist()


# ---------------------------------------------------------------- as text


def value(sensor: str, number: float | None) -> str:
    """A value in its sensor's unit, or the names of the causes in a mask."""
    if number is None:
        return "?"
    stem = sensor.partition(".")[0]
    if stem == "throttle":
        return "+".join(name for bit, name in REASONS.items() if int(number) & bit) or "none"
    one = unit(sensor)
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if one in ("Hz", "B", "B/s", "J") and abs(number) >= size:
            return f"{number / size:.3g} {prefix}{one}"
    return f"{100 * number:.3g} %" if one == "share" else f"{number:.4g} {one}".strip()


def unit(sensor: str) -> str:
    """The unit that a sensor's name ends in; share for those of 1, empty for counts."""
    stem = sensor.partition(".")[0]
    return "share" if stem in ("utilization", "fan", "pressure") else next((u for end, u in UNITS.items() if stem.endswith(end)), "")


def lines(watched: Sequence[Watched], width: int = 100) -> list[str]:
    """A block per device: least, mean and most of each sensor, what happened, throttle reasons, its energy."""
    told: list[str] = []
    for one in watched:
        told += ["", one.name, *_table(one, width), *(piece for note in notes(one) for piece in _wrapped(note, width))]
    return told or ["nothing was read"]


def notes(watched: Watched) -> list[str]:
    """What happened to a device, its throttle reasons and its energy, in a line each."""
    held = [f"throttled by {name}: {100 * share:.1f} % of the time" for name, share in watched.held.items() if name != "idle"]
    return [*(f"! {text}" for text in events(watched)), *held, *_energy_said(watched.energy)]


def events(watched: Watched) -> list[str]:
    """Errors that sensors told: codes with their meaning, counters that are not 0, a link that changed, values that cannot be."""
    texts = list[str]()
    for s in (s for s in watched.sensors if s.count):
        stem = s.name.partition(".")[0]
        low, high = value(s.name, s.low), value(s.name, s.high)
        if s.name in CODES:
            texts += [_xid(f"{code:.0f}") for code in sorted(s.codes) if code]
        elif s.name in PLAUSIBLE and not PLAUSIBLE[s.name][0] <= s.low <= s.high <= PLAUSIBLE[s.name][1]:
            texts.append(f"{s.name} read {low} to {high}, which cannot be: its mean stands for nothing")
        elif stem in LINK and s.low < s.high:
            texts.append(f"{s.name} was between {low} and {high}")
        elif (stem in ERRORS or s.name in FLAGGED) and s.high:
            rose = f"rose by {value(s.name, s.high - s.low)} to {high}" if s.low < s.high else f"is {high} since before the watch"
            texts.append(f"{s.name} {rose}")
    return texts


def _xid(code: str) -> str:
    return f"Xid {code}: {catalogue()['xid'].get(code, {}).get('meaning', 'not in the catalogue')}"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 40), initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def averages(sensor: str) -> bool:
    """Whether a mean of its values means something: not of codes, counters and the lanes of a link."""
    stem = sensor.partition(".")[0]
    return stem not in (*CODES, *ERRORS, *LINK, *GROWING) and sensor not in FLAGGED


def _table(watched: Watched, width: int) -> list[str]:
    still = [s.name for s in watched.sensors if s.count and s.low == s.high == 0 and s.name != "throttle"]
    folded = set(still) if len(still) > FEW else set()
    hidden = folded | {"throttle"} | ({"energy_j"} if watched.energy and watched.energy.source == "counter" else set())
    rows = [s for s in watched.sensors if s.count and s.name not in hidden]
    room = max([24, *(len(s.name) for s in rows)])
    table = [f"  {'sensor':<{room}} {'least':>12} {'mean':>12} {'most':>12}  averaged over"] if rows else []
    for s in rows:
        cells = [value(s.name, s.low), value(s.name, s.mean) if averages(s.name) else "–", value(s.name, s.high)]
        shown = " ".join(f"{cell:>12}" for cell in cells)
        table.append(f"  {s.name:<{room}} {shown}  {window(s.window_s)}".rstrip())
    if folded:
        table += _wrapped(f"0 throughout: {', '.join(still)}", width)
    failed = absent([(s.name, s.reason) for s in watched.sensors if s.count and s.reason], width, "at times no value")
    return table + absent([(s.name, s.reason) for s in watched.sensors if not s.count], width) + failed


def absent(unavailable: Iterable[tuple[str, str]], width: int = 100, what: str = "no value") -> list[str]:
    """Sensors without a value by their reason: a line for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, reason in unavailable:
        reasons.setdefault(reason, []).append(name)
    texts = (f"{what} of {', '.join(names)}: {reason}" for reason, names in reasons.items())
    return [line for text in texts for line in _wrapped(text, width)]


def window(window_s: float | None) -> str:
    """An averaging window in words; empty where it is not known."""
    return "" if window_s is None else "(now)" if window_s == 0 else show(window_s, "s")


def _energy_said(spent: energy.Energy | None) -> list[str]:
    if spent is None or spent.joules is None:
        return []
    error = spent.error_j or 0.0
    how = "counter" if spent.source == "counter" else "integral of power, which is taken to be monotonic between readings"
    parts = [f"energy {value('energy_j', spent.joules)} ± {value('energy_j', error)} over {show(spent.seconds, 's')}, by {how}"]
    if spent.integral_j is not None and spent.difference is not None:
        parts.append(f"integral of power {value('energy_j', spent.integral_j)}, {100 * spent.difference:+.1f} % from the counter; "
                    f"readings of power cover {100 * spent.sampled:.0f} % of the time")
    elif spent.source == "integral":
        parts.append(f"readings of power cover {100 * spent.sampled:.0f} % of the time")
    return parts + [notice.text for notice in spent.notices]
