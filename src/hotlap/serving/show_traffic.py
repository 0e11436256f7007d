"""A trace on one screen: its course and lengths, or the numbers that are fitted to it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hotlap.core import units
from hotlap.core.show import layout, words
from hotlap.core.show.history import sparkline
from hotlap.core.show.table import Cell, Column
from hotlap.serving.traffic_fit import FEWEST, PrefixSharing, RateStretch, TrafficArrivals, TrafficBurstiness, TrafficFit, TrafficLengths

COURSE = 60  # columns
FIRST = 11  # of the name of a line
STRETCHES = 6  # that are shown
ESTIMATED = "tokens are a quarter of the characters: the trace holds none"


def shown(known: TrafficFit, path: str, width: int, color: bool) -> str:
    """What the trace holds, in at most 24 lines."""
    lines = [_head(known)]
    if known.arrivals:
        lines += [f"  {'rate':<{FIRST}}{sparkline(known.arrivals.rates_hz, cells=COURSE)}", *_line("", _extremes(known.arrivals), width)]
        lines += _line("bursts", _bursts(known.arrivals), width)
    lines += ["", *_table(known, width, color), ""]
    lines += _line("prefixes", _sharing(known.sharing), width) if known.sharing else _line("prefixes", "no hash ids", width)
    lines += _line("notice", ESTIMATED, width) if known.estimated else []
    return "\n".join([*lines, f"next    hotlap serving traffic fit {path}"])


def fitted(known: TrafficFit, path: str, width: int) -> str:
    """Parameters, with intervals and how well they fit."""
    lines = [_head(known)]
    if arrivals := known.arrivals:
        lines += ["", "arrivals", *_line("rate", f"{_hz(arrivals.rate_hz)} over {_time(arrivals.seconds)}", width)]
        lines += _changes(arrivals, width)
        lines += _line("bursts", _bursts(arrivals), width)
        lines += _gamma(arrivals, width)
    lines += ["", "lengths"]
    for what, lengths in (("input", known.input), ("output", known.output)):
        lines += _line(what, _lognormal(lengths), width)
    if known.sharing:
        lines += ["", "prefixes", *_line("sharing", _sharing(known.sharing), width)]
    lines += _line("notice", ESTIMATED, width) if known.estimated else []
    times = "" if known.timed else " --arrivals poisson:8"
    return "\n".join([*lines, "", f"next    hotlap serving bench URL --trace {path}{times}"])


def scaled(before: TrafficFit, after: TrafficFit, way: str, out: str, width: int, color: bool) -> str:
    """Both sides of a scaling."""
    rows = [("requests", str(before.requests), str(after.requests))]
    if (old := before.arrivals) and (new := after.arrivals):
        rows += [("duration", _time(old.seconds), _time(new.seconds))]
        rows += [("rate", _hz(old.rate_hz), _hz(new.rate_hz)), ("CV of arrivals", _cv(old.burstiness), _cv(new.burstiness))]
    if before.sharing and after.sharing:
        rows += [("input in a cache", units.percent(before.sharing.share), units.percent(after.sharing.share))]
    columns = [
        Column("", [Cell(row[0]) for row in rows]), Column("trace", [Cell(row[1]) for row in rows], right=True),
        Column("scaled", [Cell(row[2]) for row in rows], right=True),
    ]  # fmt: skip
    count = len(before.arrivals.stretches) if before.arrivals else 1
    stretches = "one stretch, in which no change of rate was found" if count == 1 else f"each of {count} stretches of one rate"
    how = {
        "time": "all times were divided by the factor, so the rate is multiplied by it; the CV of intervals stays exactly the same",
        "requests": f"requests were thinned or merged within {stretches}: each keeps its duration and its intervals' CV, in another order",
    }[way]
    return "\n".join([*layout.fitted(columns, width).lines(color), *layout.paragraph("", how, width), f"trace   {out}"])


# ---------------------------------------------------------------- parts


def _line(name: str, text: str, width: int) -> list[str]:
    return layout.paragraph(f"  {name:<{FIRST}}", text, width, 6)


def _head(known: TrafficFit) -> str:
    left = f", {known.left_out} without an answer left out" if known.left_out else ""
    during = f" in {_time(known.arrivals.seconds)}" if known.arrivals else " at one time" if known.timed else ", no times"
    return f"{known.trace} · {known.format} · {words.counted(known.requests, 'request')}{during}{left}"


def _hz(rate: float) -> str:
    return units.show(rate, "1/s") if rate else "0 /s"


def _time(seconds: float) -> str:
    """Hours and days where seconds are too many to read."""
    for unit, scale in (("d", 86400.0), ("h", 3600.0)):
        if seconds >= 2 * scale:
            return f"{units.round_to(seconds / scale)} {unit}"
    return units.show(seconds, "s")


def _extremes(arrivals: TrafficArrivals) -> str:
    if len(arrivals.rates_hz) < FEWEST:
        return _hz(arrivals.rate_hz)
    low, high = _hz(min(arrivals.rates_hz)), _hz(max(arrivals.rates_hz))
    return f"{_hz(arrivals.rate_hz)}; in bins of {_time(arrivals.bin_s)} from {low} to {high}"


def _cv(burstiness: TrafficBurstiness | None) -> str:
    if burstiness is None:
        return "not known"
    if burstiness.low is None or burstiness.high is None:
        return units.round_to(burstiness.cv)
    return f"{units.round_to(burstiness.cv)} ({units.round_to(burstiness.low)} to {units.round_to(burstiness.high)})"


def _bursts(arrivals: TrafficArrivals) -> str:
    """CV and Gamma shape, and what they were taken from."""
    burstiness = arrivals.burstiness
    if burstiness is None:
        return "too few requests to tell"
    if burstiness.shape is None:
        return "none: all intervals are the same"
    ends = [units.round_to(1 / end**2) if end else "∞" for end in (burstiness.high, burstiness.low) if end is not None]
    shape = f"Gamma shape {units.round_to(burstiness.shape)}" + (f" ({' to '.join(ends)})" if ends else "")
    text = f"CV {_cv(burstiness)}, {shape}; 1 is Poisson, a lower shape comes in bursts"
    if arrivals.tick_s:
        text += f"; of counts, for the trace's clock ticks every {_time(arrivals.tick_s)}: nothing is known below that"
    return text


def _gamma(arrivals: TrafficArrivals, width: int) -> list[str]:
    """How well a Gamma distribution stands for the intervals, and the words that ask for it."""
    burstiness = arrivals.burstiness
    if burstiness is None or burstiness.gamma_distance is None or burstiness.shape is None:
        return []
    off = f"shares of intervals are off by up to {units.percent(burstiness.gamma_distance)}"
    poisson = "" if burstiness.poisson is None else "; Poisson is not refuted" if burstiness.poisson else "; Poisson is refuted at 5 %"
    words_of_it = f"--arrivals gamma:{units.round_to(arrivals.rate_hz)},{units.round_to(burstiness.shape)}"
    verdict = f"fits, as {words_of_it}" if burstiness.gamma_fits else "does not fit: replay the trace"
    return _line("Gamma", f"{verdict}: {off}{poisson}", width)


def _changes(arrivals: TrafficArrivals, width: int) -> list[str]:
    if len(arrivals.rates_hz) < FEWEST:
        return _line("changes", "too few requests to tell", width)
    if len(arrivals.stretches) == 1:
        return _line("changes", f"none found in {len(arrivals.rates_hz)} bins of {_time(arrivals.bin_s)}", width)
    lines: list[str] = []
    for number, stretch in enumerate(arrivals.stretches[:STRETCHES]):
        lines += _line("changes" if not number else "", _stretch(stretch), width)
    left = len(arrivals.stretches) - STRETCHES
    return lines + (_line("", f"and {left} more", width) if left > 0 else [])


def _stretch(stretch: RateStretch) -> str:
    text = f"{_hz(stretch.rate_hz)} from {_time(stretch.start_s)} to {_time(stretch.end_s)}"
    if stretch.ratio is None or stretch.low is None or stretch.high is None or math.isnan(stretch.ratio):
        return text
    ratio, low, high = map(units.round_to, (stretch.ratio, stretch.low, stretch.high))
    return f"{text}; × {ratio} ({low} to {high})"


def _table(known: TrafficFit, width: int, color: bool) -> list[str]:
    sides: Sequence[tuple[str, TrafficLengths]] = (("input tokens", known.input), ("output tokens", known.output))
    columns = [Column("", [Cell(f"  {name}") for name, _ in sides])]
    columns += [
        Column(name, [Cell(f"{lengths.quantiles[name]:.0f}") for _, lengths in sides], right=True) for name in known.input.quantiles
    ]
    columns += [Column("mean", [Cell(units.round_to(lengths.mean)) for _, lengths in sides], right=True)]
    return layout.fitted(columns, width, ("p10", "min", "max")).lines(color)


def _lognormal(lengths: TrafficLengths) -> str:
    """Median and factor, as people read them, and the parameters."""
    if lengths.quantiles["min"] == lengths.quantiles["max"]:
        return f"all of {words.counted(round(lengths.mean), 'token')}"
    text = f"lognormal: median {units.round_to(math.exp(lengths.log_mean))}, × or ÷ {units.round_to(math.exp(lengths.log_sd))} holds 68 %"
    text += f" (μ {lengths.log_mean:.3f}, σ {lengths.log_sd:.3f})"
    if lengths.distance is None or lengths.limit is None:
        return f"{text}; too few to tell whether it fits"
    verdict = "it is not refuted" if lengths.lognormal else "it is refuted"
    off = f"off by up to {units.percent(lengths.distance)} of requests, by chance {units.percent(lengths.limit)} at most"
    return f"{text}; {verdict}: {off}"


def _sharing(sharing: PrefixSharing) -> str:
    requests = f"{sharing.requests} requests begin with blocks that came before"
    held = f"a cache that never forgets holds {units.show(sharing.distinct_tokens, '')} tokens"
    if sharing.distinct_tokens >= 1e6:
        held = f"a cache that never forgets holds {units.round_to(sharing.distinct_tokens / 1e6)} million tokens"
    first = f"{units.percent(sharing.commonest)} begin with the same block"
    return f"{units.percent(sharing.share)} of input tokens could come from a cache; {requests}; {first}; {held}"

