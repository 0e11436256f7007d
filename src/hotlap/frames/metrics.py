"""What is said of the frames of one stream. Each function names where its formula is from; times are in s.

A percentile is given only where at least 10 frames lie beyond it: p99 of 1000 frames, p99.9 of 10,000.
"""

from __future__ import annotations

import math

import numpy as np

from hotlap.frames import hitches, lows
from hotlap.frames.record import (
    AnimationFigures,
    BoundFigures,
    ClickFigures,
    Floats,
    FrameEnergy,
    FramesAsked,
    LowRate,
    Stream,
    StreamFigures,
)

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
SHARES = (0.01, 0.001)
STUTTER, LOW_FPS, WINDOW_S = 2.5, 25.0, 0.5
BUSY = 0.95
RAILS, READ = ("gpu_power", "cpu_power"), 0.9  # of the frames, that must have a power
OFF = 0.1  # of a refresh, by which a display step may miss a whole number of them


def judge(stream: Stream, asked: FramesAsked) -> StreamFigures:
    """Everything that is known of a stream."""
    times = stream.times_s
    ascending = np.sort(times)
    seconds = float(times.sum())
    shown = stream.steps_s[np.isfinite(stream.steps_s)]
    return StreamFigures(
        round=stream.round, name=stream.name, key=stream.key, frames=len(times), seconds=seconds, dropped=stream.dropped,
        generated=stream.generated, average_fps=len(times) / seconds,
        displayed_fps=len(shown) / float(shown.sum()) if len(shown) > 1 else None,
        percentiles_s={name: percentile(ascending, p) for name, p in PERCENTILES.items()},
        lows=low_rates(ascending[::-1]), stutter_share=stutter_share(times), low_fps_share=low_fps_share(times),
        adaptive_sd_s=adaptive_sd(times), jitter_s=float(np.abs(np.diff(times)).mean()), uneven_share=uneven_share(shown, asked.refresh_hz),
        hitches=hitches.of(stream), animation=animation(stream), bound=bound(stream), click=click(stream.clicks_s),
        energy=energy(stream),
    )  # fmt: skip


def percentile(ascending: Floats, p: float) -> float | None:
    """Type 7 of Hyndman and Fan, Sample quantiles in statistical packages, 1996, as PERCENTILE of spreadsheets; of times, not of rates."""
    beyond = round(len(ascending) * (1 - p), 6)
    return lows.quantile(ascending, p) if beyond >= lows.FEWEST or p <= 0.5 else None


def low_rates(slowest: Floats) -> list[LowRate]:
    """1 % and 0.1 % low by all eight definitions (`lows.DEFINITIONS`)."""
    times = slowest * 1000
    enough = {share: round(len(times) * share, 6) >= lows.FEWEST for share in SHARES}
    return [
        LowRate(definition=name, share=share, rate=definition.rate(times, share) if enough[share] else None)
        for share in SHARES for name, definition in lows.DEFINITIONS.items()
    ]  # fmt: skip


def moving_mean(times: Floats) -> Floats:
    """Of the last frames, at most round(10 · √mean in ms) of them. CXWorld/CapFrameX@59b14cf GetMovingAverage, SampleBasedMovingAverage."""
    size = min(max(round(10 * math.sqrt(float(times.mean()) * 1000)), 1), len(times))
    sums = np.concatenate([[0.0], np.cumsum(times)])
    ends = np.arange(1, len(times) + 1)
    begins = np.maximum(ends - size, 0)
    return np.asarray((sums[ends] - sums[begins]) / (ends - begins))


def stutter_share(times: Floats) -> float:
    """Time in frames longer than 2.5 × the moving mean, of all time. CXWorld/CapFrameX@59b14cf GetStutteringTimePercentage; its overlay
    and its count take the mean of the whole capture."""
    return float(times[times > STUTTER * moving_mean(times)].sum() / times.sum())


def low_fps_share(times: Floats) -> float:
    """Time in other frames under 25 fps, of all time. CXWorld/CapFrameX@59b14cf GetLowFPSTimePercentage."""
    return float(times[(times <= STUTTER * moving_mean(times)) & (1 / times < LOW_FPS)].sum() / times.sum())


def adaptive_sd(times: Floats) -> float:
    """√(Σ(t − mean of the trailing 500 ms)² ÷ (N − 1)). CXWorld/CapFrameX@59b14cf GetAdaptiveStandardDeviation, of times."""
    ends = np.cumsum(times)
    begins = np.minimum(np.searchsorted(ends, ends - WINDOW_S, side="left"), np.arange(len(times)))
    sums = np.concatenate([[0.0], ends])
    means = (sums[1:] - sums[begins]) / (np.arange(1, len(times) + 1) - begins)
    return math.sqrt(float(((times - means) ** 2).sum()) / max(len(times) - 1, 1))


def uneven_share(steps: Floats, refresh_hz: float | None) -> float | None:
    """Display steps that are no whole number of refreshes, within a tenth of one. Ours; it needs the rate of the display."""
    if refresh_hz is None or not len(steps):
        return None
    refreshes = steps * refresh_hz
    return float((np.abs(refreshes - np.maximum(np.rint(refreshes), 1)) > OFF).mean())


def animation(stream: Stream) -> AnimationFigures | None:
    """Of |error| (PresentMon's own statistics), and Σ|error| ÷ Σ display time (GamersNexus, white paper of October 2025)."""
    errors = np.abs(stream.errors_s[np.isfinite(stream.errors_s)])
    if not len(errors):
        return None
    shown = float(np.nansum(stream.steps_s))
    share = float(errors.sum()) / shown if shown > 0 else None
    return AnimationFigures(frames=len(errors), mean_s=float(errors.mean()), p99_s=percentile(np.sort(errors), 0.99), share=share)


def bound(stream: Stream) -> BoundFigures | None:
    """A frame is bound by the GPU where GPU busy ≥ 0.95 of its time, else by the CPU where CPU busy is, else it waits. Of PresentMon;
    with frame generation GPU busy is too low (PresentMon#178)."""
    gpu, cpu, times = stream.columns.get("gpu_busy"), stream.columns.get("cpu_busy"), stream.times_s
    if gpu is None:
        return None
    of_gpu = gpu >= BUSY * times
    by_gpu = float(of_gpu.mean())
    busy = float(np.nansum(gpu) / times.sum())
    if cpu is None:
        return BoundFigures(busy=busy, gpu=by_gpu, cpu=None, waiting=None)
    by_cpu = float((~of_gpu & (cpu >= BUSY * times)).mean())
    return BoundFigures(busy=busy, gpu=by_gpu, cpu=by_cpu, waiting=1 - by_gpu - by_cpu)


def click(clicks: Floats) -> ClickFigures | None:
    """Over clicks, never over frames. PresentMon's ClickToPhotonLatency."""
    if not len(clicks):
        return None
    return ClickFigures(clicks=len(clicks), median_s=float(np.median(clicks)), p95_s=percentile(np.sort(clicks), 0.95))


def energy(stream: Stream) -> list[FrameEnergy]:
    """Of each rail whose power the file has beside frames. Ours. Rows without power count by the others; a rail at 0 W was not read."""
    kept = []
    for rail in RAILS:
        watts = stream.columns.get(rail)
        if watts is None:
            continue
        known = np.isfinite(watts) & (watts > 0)
        if known.mean() >= READ:
            average = float((watts * stream.times_s)[known].sum() / stream.times_s[known].sum())
            joules = average * float(stream.times_s.mean())
            kept.append(FrameEnergy(rail=rail, watts=average, joules=joules, frames_per_j=1 / joules))
    return kept
