"""The notices of one result as codes, which views and rules see: power at the cap is no fault, and a low clock is what a brake does."""

from __future__ import annotations

from collections.abc import Collection

from hotlap.core.analysis import power_limit
from hotlap.core.analysis.rates import is_aggregate
from hotlap.core.record import Row
from hotlap.core.stats import order, series
from hotlap.core.stats.stopping import FEWEST

CODES = (  # that a result can carry, the most important first
    "stand_in", "wrong_result", "tampered", "timers", "beats_bound", "invalid", "error", "too_short", "incomplete", "aggregate",
    "few_rounds", "busy", "throttled", "limit_lowered", "stutter", "not_deterministic", "leak",
    "host_bound", "new_memory", "not_steady", "drift", "bimodal", "clock_varied", "noise",
    "few_samples", "timer_coarse", "timer_refused", "one_process", "low_clock", "whole_card", "far_host", "first_cache", "emulated",
    "hidden_pixels", "pacing", "software_device", "untested_version", "tool_says", "network_open", "differs", "terms", "power_cap",
)
SAME = {"shared_device": "busy", "steal": "busy"}  # codes that are one in a table
WIDENS = ("busy", "throttled", "not_steady", "drift", "bimodal", "clock_varied")  # notices that explain a wide interval
MANY_ROUNDS = 20  # from which two groups of rounds can be distinguished


def codes(row: Row) -> list[str]:
    """The most important first: of CODES, or flags of a later version. None where nothing is to be doubted. A power cap that came and went
    is why rounds differ, as a brake is."""
    seen = {*_of_state(row), *_of_notices(row)}
    ranked = [*CODES]
    if widened_by_cap(row):
        ranked.insert(ranked.index("throttled"), "power_cap")
    elif row.verdict.state == "inconclusive" and not row.result.too_short and not seen & {"few_rounds", "aggregate", *WIDENS}:
        seen.add("noise")
    return sorted(seen, key=lambda code: ranked.index(code) if code in ranked else len(ranked))


def raised(row: Row) -> list[str]:
    """Codes that measuring raised, each once."""
    return list(dict.fromkeys(notice.code for notice in row.result.notices))


def own_power(row: Row) -> bool:
    """Whether the power cap alone held the clock: what a heavy load does on a healthy device."""
    return {name for notice in row.result.notices for name in notice.shares} == {"software power cap"}


def widened_by_cap(row: Row) -> bool:
    """Whether a number is less certain than asked because the power cap held the clock in some of its rounds."""
    return row.verdict.state == "inconclusive" and not row.result.too_short and own_power(row) and power_limit.uneven(row.result)


def numbered(row: Row) -> bool:
    """Whether there is a number to show, believed or not."""
    return row.summary.median is not None and row.verdict.state != "not_run"


def _of_state(row: Row) -> list[str]:
    result, state = row.result, row.verdict.state
    if state == "not_run":
        return []
    if state in ("invalid", "error"):
        return [_disproved(row) if state == "invalid" else "error"]
    seen = ["too_short"] if result.too_short else []
    if state == "inconclusive" and not result.too_short and row.summary.rounds < FEWEST:
        seen.append("aggregate" if is_aggregate(result) else "few_rounds")
    if result.reason and (any(one.status in ("error", "not_run") for one in result.rounds) or not result.left_out):
        seen.append("incomplete")
    if len(result.values) >= MANY_ROUNDS and series.bimodal(result.values):
        seen.append("bimodal")
    return seen


def _disproved(row: Row) -> str:
    """Why an invalid number is one."""
    if row.result.status != "invalid":
        return "beats_bound"
    causes = [one.cause for one in row.result.rounds if one.cause]
    return next((cause for cause in ("wrong_result", "tampered", "timers") if cause in causes), "invalid")


def _of_notices(row: Row) -> list[str]:
    seen = [SAME.get(name, name) for name in (raised(row) if numbered(row) else [])]
    if "throttled" in seen and own_power(row):
        seen[seen.index("throttled")] = "power_cap"
    without = unimportant(row, seen) | ({"clock_varied"} if {"throttled", "power_cap"} & set(seen) else set())  # which is what a brake does
    return [name for name in seen if name not in without]


def unimportant(row: Row, seen: Collection[str]) -> set[str]:
    """Of the notices of a row those that add nothing: a low clock is what a brake does, a cap that was lowered is said as that, and some
    numbers hardly depend on the clock."""
    braked = {"throttled", "power_cap"} & set(seen)
    own = {"power_cap"} if "limit_lowered" in seen else set()
    return own | ({"low_clock"} if braked else set()) | (set() if _by_clock(row) else {"clock_varied"})


def _by_clock(row: Row) -> bool:
    """Whether the clock matters to a number: its time is a number of cycles, and of a wide interval cycles differ by at most half as much
    as seconds do."""
    if not row.result.bound_by_clock:
        return False
    seconds, cycles = (order.interval(values) if values else None for values in (row.result.seconds, row.result.cycles))
    if row.verdict.state != "inconclusive" or seconds is None or cycles is None:
        return True
    return cycles[1] / cycles[0] - 1 <= (seconds[1] / seconds[0] - 1) / 2
