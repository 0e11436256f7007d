#!/usr/bin/env python3
"""What scripts/gpu_check.sh reads off the runs it kept: numbers against their limits, and how sensors moved under load.

    gpu_summary.py limits      exit 1 if a number beats its provable bound by more than 1 %
    gpu_summary.py readings    of the runs labelled part=burn or step=burn, or of all where there is none
    gpu_summary.py pack DIR    each run as a zip in DIR

Takes every run under HOTLAP_HOME.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from hotlap.core import units
from hotlap.core.analysis import rows as tables
from hotlap.core.record import Row, Samples
from hotlap.core.show import listing
from hotlap.core.store import paths, select
from hotlap.core.store.bundle import Bundle

ALLOWED = 1.01  # of the bound: what a clock's error may add


def limits(bundles: Iterable[Bundle]) -> int:
    """A line per case: value, limit, share, cause, agreement of timers. The number of cases faster than their bound."""
    beaten = 0
    for bundle in bundles:
        print(f"\n{bundle.run.id}  {bundle.run.plan.name} on {bundle.run.target}  ({listing.stopped(bundle.run.stops) or 'not ended'})")
        for row in tables.rows(bundle):
            too_fast = row.gap.reference_kind == "bound" and (row.gap.share or 0.0) > ALLOWED
            beaten += too_fast
            print(f"  {line(row)}{'  FASTER THAN ITS BOUND' if too_fast else ''}")
    print(f"\n{beaten} cases are faster than their bound")
    return beaten


def line(row: Row) -> str:
    if row.summary.median is None:
        return f"{row.label:<44} {row.result.status}: {row.result.reason}"
    unit = row.result.unit
    share = f"{row.gap.share:.1%} of {row.gap.reference_kind}" if row.gap.share is not None else "no limit known"
    width = f"± {row.summary.half_width:.2%}" if row.summary.half_width is not None else "no interval"
    return (
        f"{row.label:<44} {units.show(row.summary.median, unit):>14} {width:>11}  {share} {units.show(row.gap.limit_value, unit)}, "
        f"{row.gap.cause or 'no cause'}, {timers(row.result.rounds)}, {row.verdict.state} {row.verdict.reason}"
    )


def timers(rounds: list[Samples]) -> str:
    """How the device's timer and the wall clock agree, the batch, and what passes between samples."""
    ratios = [r.wall_ratio for r in rounds if r.wall_ratio is not None]
    gaps = [r.bookkeeping_s for r in rounds if r.bookkeeping_s is not None]
    said = [f"{r.method} × {r.calls}" for r in rounds[:1]]
    said += [f"device ÷ wall {median(ratios):.4f}"] if ratios else []
    said += [f"between samples {units.show(median(gaps), 's')}"] if gaps else []
    return ", ".join(said)


def readings(bundles: list[Bundle]) -> int:
    """Least, median and greatest of every sensor, and the rate of each round."""
    burns = [b for b in bundles if "burn" in (b.run.labels.get("part"), b.run.labels.get("step"))] or bundles
    for bundle in burns:
        print(f"\n{bundle.run.id}  {bundle.run.plan.name} on {bundle.run.target}")
        for row in tables.rows(bundle):
            rates = ", ".join(units.show(v, row.result.unit) for v in row.result.values)
            print(f"  {row.label}, by round: {rates or row.result.reason}")
        for name, values in columns(bundle).items():
            if values:
                least, middle, most = min(values), median(values), max(values)
                print(f"  {name:<28} {least:>12.5g} {middle:>12.5g} {most:>12.5g}   least, median, greatest of {len(values)}")
        for name, reason in sorted({(r.sensor, r.reason) for r in bundle.readings if r.status != "ok"}):
            print(f"  {name:<28} {reason}")
    return 0


def columns(bundle: Bundle) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for part in bundle.readings:
        found.setdefault(part.sensor, []).extend(v for v in part.values if v is not None)
    return found


def pack(bundles: list[Bundle], folder: Path) -> int:
    for bundle in bundles:
        step = bundle.run.labels.get("step", bundle.run.plan.name)
        print(shutil.make_archive(str(folder / f"{step}-{bundle.run.id}"), "zip", bundle.path.parent, bundle.path.name))
    return 0


def main() -> int:
    match sys.argv[1:]:
        case ["limits"]:
            return 1 if limits(bundles_here()) else 0
        case ["readings"]:
            return readings(bundles_here())
        case ["pack", folder]:
            return pack(bundles_here(), Path(folder))
    print("usage: gpu_summary.py limits | readings | pack DIR", file=sys.stderr)
    return 2


def bundles_here() -> list[Bundle]:
    bundles = select.every(paths.home())
    if not bundles:
        raise SystemExit(f"no run under {paths.home()}")
    return bundles


if __name__ == "__main__":
    sys.exit(main())
