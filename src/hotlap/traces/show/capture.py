"""What was captured, in words: the program, the window, what recording it cost, and where the traces are."""

from __future__ import annotations

import statistics
from pathlib import Path

from hotlap.core import units
from hotlap.core.show import layout, words
from hotlap.traces.captured import Captured, CapturedProcess, CaptureOverhead, CaptureWindow, fitting

NO_OPERATORS = (
    "the program does not use PyTorch, so there are no operators: the trace holds its steps, with --stacks Python's functions, and with "
    "HOTLAP_MARKERS=all in the environment what hotlap.marker marks"
)


def lines(path: Path, captured: Captured, width: int, color: bool = False) -> list[str]:
    """A few lines over the analysis of its traces."""
    lines = [layout.painted(program(captured), "bold", color) + ended(captured)]
    for name, value in facts(captured):
        lines += layout.paragraph(f"{name:<8}", value, width)
    lines += [f"trace   {path / name}" for name in captured.traces] or ["trace   none was recorded"]
    return lines


def program(captured: Captured) -> str:
    return words.clean(" ".join(captured.argv))


def ended(captured: Captured) -> str:
    """Behind the program where it failed."""
    return f" · ended with {captured.exit_code}" if captured.exit_code else ""


def facts(captured: Captured) -> list[tuple[str, str]]:
    """Windows, troubles, steps and costs, each under its name."""
    named = []
    for one in captured.processes:
        if one.windows or one.trace:
            named.append(("window", _window(one)))
        if one.trouble:
            named.append(("trouble", words.clean(one.trouble)))
    if beside := busy(captured):
        named.append(("busy", beside))
    if captured.processes:
        named.append(("steps", _usual(captured.processes[0])))
    if captured.overhead is not None:
        named.append(("cost", overhead(captured.overhead)))
    if captured.overhead is not None and captured.overhead.import_s:
        named.append(("note", NO_OPERATORS))
    return named


def busy(captured: Captured) -> str:
    """Other programs had processors that the program needs; "" where they had not."""
    host = captured.host
    if host is None or not captured.crowded:
        return ""
    seen = f"other programs used {host.others:.1f} of {host.cores} processors, and this one {host.used:.1f}"
    return f"{seen}: its steps and gaps took longer than on a quiet machine, and findings are less sure. Stop them and record again"


def further(path: Path, captured: Captured) -> str:
    """How to look into what was recorded."""
    if captured.tool == "ncu":
        return "counters have no timeline; docs/kernels.md says how to read them"
    return f"hotlap trace {path / ('trace-rank*.json' if captured.ranks else captured.traces[0])} --html page.html"


def _usual(process: CapturedProcess) -> str:
    """How long steps take when nothing records them."""
    seconds = [seconds for some in process.usual_s for seconds in some]
    if not process.steps:
        return "none were made: no optimiser stepped, and hotlap.step() was not called"
    if len(seconds) < 2:
        return f"{process.steps} in all; too few without the profiler to say how long they take"
    low, middle, high = statistics.quantiles(seconds, n=4)
    half = f", half of them between {units.show(low, 's')} and {units.show(high, 's')}"
    return f"{process.steps} in all; median {units.show(middle, 's')} over {len(seconds)} without the profiler{half}"


def _window(process: CapturedProcess) -> str:
    count = len([w for w in process.windows if w.complete])
    if not process.windows:
        return f"process {process.place}: all of it"
    first = process.windows[0]
    steps = max(len(first.steps_s) - first.within, 0)
    length = units.show(max(first.ended_s - first.began_s, 0.0), "s")
    if not process.steps:
        return f"process {process.place}: {length} by the clock"
    if not steps and not first.within:
        return f"process {process.place}: {length} by the clock; no step of {process.steps} lies within it{_elsewhere(first)}"
    last = first.first + max(steps - 1, 0)
    lasted = f"the profiler was on for {length}" if first.within else f"{length} by the clock"  # warm-up and export are in it, too
    said = f"process {process.place}: steps {first.first} to {last} of {process.steps}, {lasted}"
    more = f"; the profiler was on {len(process.windows)} times" if len(process.windows) > 1 else ""
    cut = f", cut short: {fitting(process.steps, steps + process.steps)}" if first.within else ", cut short"
    return said + ("" if count else cut) + more


def _elsewhere(window: CaptureWindow) -> str:
    return ": it came before the first was done; give a larger --after" if window.first <= 1 else "; give a larger --seconds"


def overhead(cost: CaptureOverhead) -> str:
    """In words: inside of the window, outside, and over the whole run."""
    parts = []
    if cost.inside is not None and cost.inside <= 1:
        varied = max(cost.spread or 0.0, 1 - cost.inside)
        parts.append(f"the profiler's overhead is below what this run can resolve (steps varied by ± {units.percent(varied)})")
    elif cost.inside is not None:
        known = cost.low is not None and cost.high is not None
        between = f" (95 % interval {_more(cost.low)} to {_more(cost.high)})" if known else ""
        if known and (cost.low or 0.0) <= 1 <= (cost.high or 0.0):
            parts.append(f"steps with the profiler on are not distinguishable from those before and after{between}")
        else:
            parts.append(f"steps took {_more(cost.inside)} with the profiler on than those before and after{between}")
    else:
        parts.append("there were no steps without the profiler to compare with")
    if cost.outside_s:
        parts.append(f"{units.show(cost.outside_s, 's')} a step outside of the window")
    parts.append(f"the profiler's start, stop and export paused the program for {units.show(cost.still_s, 's')}")
    if cost.import_s:
        parts[-1] += f", {units.show(cost.import_s, 's')} of it to import PyTorch, whose profiler records: the program itself had not"
    if cost.whole is not None and cost.whole >= 1:
        parts.append(f"with all of it the run took {1 + cost.whole:.1f} times as long")
    elif cost.whole is not None and cost.whole > 0:
        open_steps = cost.inside is not None and cost.low is not None and cost.low <= 1
        without = ", not counting what the profiler may cost within those steps" if open_steps else ""
        parts.append(f"{units.percent(cost.whole)} of the whole run{without}")
    return "; ".join(parts)


def _more(ratio: float | None) -> str:
    value = (ratio or 1.0) - 1
    return f"{100 * abs(value):.1f} % {'longer' if value >= 0 else 'shorter'}"
