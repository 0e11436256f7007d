"""What a sweep has taught, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hotlap.core.model.calibration import Calibration, Factor, Learnt
from hotlap.core.record import Limit
from hotlap.core.show import words

FEW = "in fewer than 3 rounds without them"
Shown = tuple[str, str, str, str]


def learnt(calibration: Calibration, cases: Sequence[tuple[Mapping[str, Any], Limit, Limit]]) -> str:
    """By family: spec → measured with intervals, how well it fits; then how predictions change."""
    lines = [f"{calibration.name}, {calibration.driver}", f"run {calibration.run} of {calibration.date}"]
    for family, factors in calibration.families.items():
        before, after = f"{100 * factors.before:.1f} %", f"{100 * factors.after:.1f} %"
        head = f"{family}: {factors.cases} cases, off by {before} on average by published figures, {after} with what they taught"
        lines += ["", head, *_aligned([("", "spec", "measured", "90 % interval"), *_factors(factors)])]
    if calibration.facts:
        used = "measured as they are, used in no prediction" if calibration.families else "kernels, between which others are expected"
        lines += ["", used]
        rows = [
            (n, "", words.quantity(f.value, "s"), f"{words.quantity(f.low, 's')} to {words.quantity(f.high, 's')}{_mark(n, calibration)}")
            for n, f in calibration.facts.items()
        ]
        lines += _aligned(rows)
    if cases:
        lines += ["", "how predictions change, for cases that were not measured"]
        lines += _aligned([("", "spec only", "with the sweep", "90 % interval"), *(_change(*one) for one in cases)])
    if calibration.disturbed:
        lines += ["", f"{calibration.disturbed_words}, and {FEW}: stop those, and calibrate again"]
        lines += [f"  {name}" for name in calibration.disturbed if name not in calibration.facts]
    return "\n".join(words.clean(line).rstrip() for line in lines)


def _mark(name: str, calibration: Calibration) -> str:
    return ", disturbed" if name in calibration.disturbed else ""


def _factors(learnt: Learnt) -> list[Shown]:
    """A factor is of time, so a rate is its inverse."""
    rows = [(f"arithmetic rate, {name}", factor) for name, factor in learnt.dtypes.items()] or [("arithmetic rate", learnt.arithmetic)]
    rows = [row for row in rows if not _unsaid(row[1])]
    rates = [
        (name, "1", f"× {1 / f.value:.3f}", f"{1 / f.high:.3f} to {1 / f.low:.3f}") for name, f in [*rows, ("memory rate", learnt.memory)]
    ]
    f = learnt.host
    host = [] if _unsaid(f) else [("host's time", "1", f"× {f.value:.3f}", f"{f.low:.3f} to {f.high:.3f}")]
    call = learnt.call_s
    value = f"{1e6 * call.value:+.2f} µs"
    return [*rates, *host, ("cost of a call", "as fitted", value, f"{1e6 * call.low:+.2f} to {1e6 * call.high:+.2f} µs")]


def _unsaid(factor: Factor) -> bool:
    """A factor that the sweep said nothing of: no case has such a part."""
    return abs(factor.value - 1) < 1e-3


def _change(case: Mapping[str, Any], before: Limit, after: Limit) -> Shown:
    sizes = " ".join(f"{name}={value}" for name, value in case.items())
    low, high = (words.quantity(float(one), "s") for one in (after.low_s, after.high_s))
    return f"gemm {sizes}", words.quantity(float(before.expected_s), "s"), words.quantity(float(after.expected_s), "s"), f"{low} to {high}"


def listing(calibrations: Mapping[str, Calibration]) -> str:
    """All that are kept."""
    if not calibrations:
        return "no calibration is kept: hotlap model calibrate measures one"
    rows = [
        (name, one.date, ", ".join(one.families) or "kernels of a processor", f"{one.name}, run {one.run}")
        for name, one in calibrations.items()
    ]  # fmt: skip
    return "\n".join(line.rstrip() for line in _aligned([("name", "date", "families", "device"), *rows]))


def _aligned(rows: Sequence[Shown]) -> list[str]:
    wide = [max(len(row[n]) for row in rows) for n in range(4)]
    return [f"  {row[0]:<{wide[0]}}  {row[1]:>{wide[1]}}  {row[2]:>{wide[2]}}  {row[3]:<{wide[3]}}" for row in rows]
