"""What to know about a number, as a code, and over a table of results each code once with what to do next."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from msgspec import structs

from hotlap.core import work
from hotlap.core.analysis import fleets
from hotlap.core.analysis.noticed import SAME as SAME
from hotlap.core.analysis.noticed import codes as codes
from hotlap.core.analysis.noticed import own_power, unimportant, widened_by_cap
from hotlap.core.analysis.noticed import raised as raised
from hotlap.core.analysis.power_limit import LASTING, RAISE
from hotlap.core.analysis.state import MOST_ROUNDS, QUIET, asking_for
from hotlap.core.model import ceilings
from hotlap.core.record import Notice, Result, Row
from hotlap.core.show import rates, words
from hotlap.core.stats import busy as stats_busy
from hotlap.core.stats.stopping import FEWEST
from hotlap.core.store.fold import FALSE_RATE, disturbed, stuttered
from hotlap.core.units import percent

Severity = Literal["info", "warning", "error"]
LONGER = "longer rounds (--round-time)"
CLOCK = "compare cycles (hotlap explain), or fix the clock (a GPU: nvidia-smi -lgc; a processor: governor performance, no turbo)"


@dataclass(frozen=True)
class NoticeKind:
    """One code: its plain word in a table, and what to do."""

    word: str
    action: str
    severity: Severity = "warning"


KINDS = {  # the most important first
    "stand_in": NoticeKind("stand-in", "take no number of it for hardware: measure on a GPU", "error"),
    "wrong_result": NoticeKind("wrong result", "do not use the number: kernel, its reference, driver or device is wrong", "error"),
    "tampered": NoticeKind("tampered", "do not use the number: the program interferes with its own timing", "error"),
    "timers": NoticeKind(
        "timers differ",
        "do not use the number: run it again on an idle machine (--wait-quiet '5 min'), and with more work a call (a larger size); "
        "where the timers still differ, the device's timer is wrong", "error",
    ),
    "beats_bound": NoticeKind("beats bound", "do not use the number: the timer, the counted work or the bound is wrong", "error"),
    "invalid": NoticeKind("", "do not use the number", "error"),  # of 0.1, which kept no cause
    "error": NoticeKind("", "mend what the reason names, then run again", "error"),
    "too_short": NoticeKind("too short", "give a call more work (a larger size), or time a batch of calls"),
    "incomplete": NoticeKind("incomplete", "mend what made rounds fail, then run again"),
    "aggregate": NoticeKind("aggregate", "keep the samples there, as nvbench --jsonbin does"),
    "few_rounds": NoticeKind("few rounds", f"run at least {FEWEST} rounds (--rounds, or a larger --budget)"),
    "busy": NoticeKind("busy", QUIET),
    "throttled": NoticeKind("throttled", "look at cooling and power supply; or accept it as what this machine does"),
    "limit_lowered": NoticeKind("power limit lowered", RAISE),
    "stutter": NoticeKind("stutter", "look at what the device and the host did then: compiling, moving memory, other programs"),
    "not_deterministic": NoticeKind("varying bits", "look for atomics and for sums whose order is not fixed; if it is meant, nothing"),
    "leak": NoticeKind("leak", "free what a call allocates; measure the case alone until then"),
    "host_bound": NoticeKind(
        "host bound", "record such calls as a graph, fuse them, or make each larger; without a graph the number is the host's", "info",
    ),
    "new_memory": NoticeKind(
        "new memory", "write into memory that is there (out=), or let the C library keep what is freed, by setting "
        "MALLOC_MMAP_THRESHOLD_=4294967296 and MALLOC_TRIM_THRESHOLD_=4294967296; GPUs' allocators keep it", "info",
    ),
    "not_steady": NoticeKind("not steady", LONGER),
    "drift": NoticeKind("drifting", f"{LONGER}; look at clock and temperature"),
    "bimodal": NoticeKind("two levels", "both values are real: look at the samples over time in the report"),
    "clock_varied": NoticeKind("clock varied", CLOCK, "info"),
    "noise": NoticeKind("noisy", ""),
    "few_samples": NoticeKind("few samples", LONGER),
    "timer_coarse": NoticeKind("coarse timer", "longer samples: set sample_time in the plan"),
    "timer_refused": NoticeKind("timer refused", "the wall clock's number holds the launch too; another driver may bring a timer", "info"),
    "one_process": NoticeKind("one process", "the workload command measures the same code in fresh processes", "info"),
    "low_clock": NoticeKind("low clock", "look at power limit, temperature, and clocks that were set", "info"),
    "whole_card": NoticeKind("whole card", "read power, clock and temperature with all slices idle but this one", "info"),
    "far_host": NoticeKind("far host", "let Hotlap run on the processors near the GPU (taskset, the container's cpuset)"),
    "first_cache": NoticeKind("first cache", "for L2, take a size above one unit's first cache", "info"),
    "emulated": NoticeKind("emulated", "gemm int8 measures the units that are made for 8 bits", "info"),
    "hidden_pixels": NoticeKind("hidden", "blend=add shows what is written", "info"),
    "pacing": NoticeKind("pacing", "of many late frames: look at what the host and the display's compositor did then"),
    "software_device": NoticeKind("not a GPU", "install the GPU's driver, or choose the device by the program's own option"),
    "untested_version": NoticeKind("new version", "compare the number with what the program prints", "info"),
    "tool_says": NoticeKind("warning", "read the warning: the program printed it", "info"),
    "network_open": NoticeKind("open network", "run it as a user who may make network namespaces", "info"),
    "differs": NoticeKind("counts otherwise", "compare by the column that counts as Hotlap does", "info"),
    "terms": NoticeKind("terms", "publish it only as its owner's rules allow", "info"),
    "power_cap": NoticeKind("power cap", "nothing: at its power limit a card's power cap is normal", "info"),
}
QUIETLY = "measure on a quiet machine first"
CHANCE = 0.05  # results that chance alone may give, from which it is said
NAMED = 3  # cases of a notice that are named; of more their number is said, and the table shows which


@dataclass(frozen=True)
class TableNotice:
    """One kind of notice. `seen` says what was found, `action` what to do."""

    code: str
    rows: tuple[Row, ...]
    seen: str
    action: str = ""
    severity: Severity = "warning"

    @property
    def word(self) -> str:
        return KINDS[self.code].word or words.STATES.get(self.code, self.code)

    @property
    def labels(self) -> list[str]:
        return [row.label for row in self.rows]


# ---------------------------------------------------------------- of one row


def code(row: Row) -> str:
    """The most important one; "" for none."""
    return next(iter(codes(row)), "")


def word(row: Row) -> str:
    """The same as a plain word; "" where there is none, or the state says it."""
    return named(code(row))


def named(code: str) -> str:
    """A code as a plain word."""
    return KINDS[code].word if code in KINDS else code.replace("_", " ")


def beside(row: Row) -> str:
    """The word, and of a throttled clock how much of the time: what stands beside a number."""
    said = word(row)
    held = [share for notice in row.result.notices for share in notice.shares.values()]
    return f"{said} {percent(max(held))}" if held and code(row) in ("throttled", "power_cap") else said


def whole(notice: Notice) -> Notice:
    """With what to do, where it says nothing of its own."""
    kind = KINDS.get(SAME.get(notice.code, notice.code))
    return notice if notice.action or kind is None else structs.replace(notice, action=kind.action)


def slower_than_expected(row: Row) -> bool | None:
    """Whether a call takes longer than the whole interval that the model expects; None where it expects none."""
    limit, median = row.gap.limit, row.summary.median
    if limit is None or limit.high_s is None or not median:
        return None
    seconds = ceilings.seconds(row.case, row.result.unit, median)
    return None if seconds is None else bool(seconds > float(limit.high_s))


# ---------------------------------------------------------------- of a table


def find(rows: Sequence[Row]) -> list[TableNotice]:
    """Each kind once, or once per reason; the most important first. What was not run is no notice."""
    of: dict[str, list[Row]] = {}
    for row in rows:
        for one in codes(row):
            of.setdefault(one, []).append(row)
    found = [notice for code, members in of.items() for notice in _grouped(code, members)]
    order, weight = list(KINDS), {"error": 0, "warning": 1, "info": 2}
    known = [replace(notice, action="") if _measured_elsewhere(notice) else notice for notice in found if notice.code in KINDS]
    if busy(rows):
        known = [_after_quiet(notice) for notice in known]
    return sorted(known, key=lambda notice: (weight[notice.severity], _settled(notice), order.index(notice.code)))


def _after_quiet(notice: TableNotice) -> TableNotice:
    """On a busy machine more rounds are more noise."""
    if notice.code == "few_rounds" and not any(row.result.left_out for row in notice.rows):  # a quiet machine does not bring them
        return replace(notice, action=f"{QUIETLY}, then {notice.action}")
    return replace(notice, action=QUIETLY) if notice.code in ("noise", "few_rounds") else notice


def _measured_elsewhere(notice: TableNotice) -> bool:
    """Whether all of it was imported: advice on how to run would be of no use."""
    return all(row.result.imported for row in notice.rows)


def _settled(notice: TableNotice) -> bool:
    """Whether all of its numbers are as certain as asked all the same."""
    return all(row.verdict.state in ("measured", "pass", "fail") for row in notice.rows)


def _grouped(code: str, rows: Sequence[Row]) -> list[TableNotice]:
    if code not in KINDS:
        return []
    kind, reason = KINDS[code], _REASONS.get(code)
    if reason:
        groups = words.alike(rows, reason)
        return [
            TableNotice(code, tuple(group), words.clean(why or "no reason was given"), _action(code, group), kind.severity)
            for group, why in groups
        ]
    found = _SEEN[code](rows) if code in _SEEN else _detail(code, rows)
    seen = "; ".join(part for part in (found, _widest([row for row in rows if codes(row)[0] == code])) if part)
    return [TableNotice(code, tuple(rows), words.clean(seen), _action(code, rows), _severity(code, rows))]


_REASONS: dict[str, Callable[[Row], str]] = {
    **dict.fromkeys(("wrong_result", "tampered", "timers", "beats_bound", "invalid", "error"), lambda row: row.verdict.reason),
    "incomplete": lambda row: row.result.reason,
}


def _severity(code: str, rows: Sequence[Row]) -> Severity:
    """A clock that the power cap holds is news only where the number is worse than the model expects with it, or rounds differ by it."""
    if code == "power_cap" and any(map(widened_by_cap, rows)):
        return "warning"
    if code in ("power_cap", "low_clock") and any(slower_than_expected(row) for row in rows):
        return "warning"
    if code == "host_bound" and any(one.eager_s is None for row in rows for one in row.result.used):
        return "warning"  # the number itself is the host's
    return KINDS[code].severity


def _widest(rows: Sequence[Row]) -> str:
    """Of those that are less certain than asked."""
    wide = [row for row in rows if row.verdict.state == "inconclusive" and row.summary.half_width is not None]
    if not wide:
        return ""
    widest = max(wide, key=lambda row: row.summary.half_width or 0.0)
    return f"interval {'up to ' if len(wide) > 1 else ''}{words.interval(widest)}"


OF_BLOCKS = {
    "incomplete": "give the client a quieter machine, or mend what the reason names; then compare again",
    "few_rounds": "take more pairs (--pairs, or a larger --budget)",
}


def _action(code: str, rows: Sequence[Row]) -> str:
    """What to do, where it depends on what was found."""
    if code in OF_BLOCKS and words.of_blocks(rows):
        return OF_BLOCKS[code]
    if code == "few_rounds" and any(row.result.left_out for row in rows):
        return QUIET
    if code == "power_cap" and any(map(widened_by_cap, rows)):
        return LASTING
    if code == "power_cap" and any(slower_than_expected(row) for row in rows):
        return "compare the limit in force with the card's own: nvidia-smi -q -d POWER"
    if code == "busy" and not _disturbed(rows):
        return "other guests of this host: nothing to stop here; measure at another time, or on a machine of your own"
    return rounds_needed(rows) if code == "noise" else KINDS[code].action


def rounds_needed(rows: Sequence[Row]) -> str:
    """The options for as many rounds as reach the precision asked, or how many it would take, or that no number of them does."""
    known = [row.summary.needed for row in rows if row.summary.needed is not None]
    if not known or min(known) > MOST_ROUNDS:
        wanted = f"as noisy as it is, about {min(known)} rounds would be needed" if known else "more rounds will not do"
        return f"measure on a quieter machine, or ask for less (--precision): {wanted}"
    most = max(one for one in known if one <= MOST_ROUNDS)
    served = [row for row in rows if row.summary.needed is not None and row.summary.needed <= MOST_ROUNDS]
    options = asking_for(most, [row.result for row in served])
    if len(served) == len(rows):
        return f"{options}: so many rounds should reach the precision asked if the machine stays as noisy"
    rest = [row for row in rows if row not in served]
    reached = f"so many rounds should reach the precision asked, if the machine stays as noisy, in {_cases(served)}"
    return f"{options}: {reached}; {_cases(rest)} would need a quieter machine, or a larger --precision"


def _cases(rows: Sequence[Row]) -> str:
    """By name where they are few, else how many."""
    labels = list(dict.fromkeys(words.clean(row.label) for row in rows))
    return words.some(labels, NAMED) if len(labels) <= NAMED else f"{len(labels)} cases"


def which(notice: TableNotice, rows: Sequence[Row]) -> str:
    """The cases that a notice is of: by name where they are few, with the devices where there are several; else how many of those with a
    number. Of tests, which raise by chance too, whether it may be that."""
    having = sum(map(words.numbered, rows))
    if len(notice.rows) <= NAMED:
        where = f" on {words.some(words.devices(notice.rows), NAMED)}" if len(words.devices(rows)) > 1 else ""
        return f"{words.some(list(dict.fromkeys(notice.labels)), NAMED)}{where}{_chance(notice, having)}"
    thing = "results" if len(words.devices(rows)) > fleets.MANY else "cases"
    return f"all {having} {thing}" if len(notice.rows) == having else f"{len(notice.rows)} of {having} {thing}"


def _chance(notice: TableNotice, having: int) -> str:
    """That chance alone raises a test in so many rounds of one of so many results; "" for what is no test, or where it seldom does."""
    may = all(having * _by_chance(row, notice.code) >= CHANCE for row in notice.rows)
    return f" ({len(notice.rows)} of {having} results: it may be chance)" if may else ""


def _by_chance(row: Row, code: str) -> float:
    """How often a perfect machine raises a test in as many rounds of a case as this one has, or more; 0 where no single round raised it."""
    rounds, rate = row.result.used or row.result.rounds, FALSE_RATE.get(code, 0.0)
    n, hits = len(rounds), sum(any(notice.code == code for notice in one.notices) for one in rounds)
    return sum(math.comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(hits, n + 1)) if hits else 0.0


def _detail(code: str, rows: Sequence[Row]) -> str:
    """What the notices of this code say; of several texts the first."""
    details = [notice.seen for row in rows for notice in row.result.notices if SAME.get(notice.code, notice.code) == code and notice.seen]
    if not details:
        return ""
    (_, said), *others = words.alike(details, str)
    return ("for example " if others else "") + said


def _aggregate(rows: Sequence[Row]) -> str:
    noise = [one.metrics["noise"] for row in rows for one in row.result.used if "noise" in one.metrics]
    vary = f", which vary by {span(noise, percent)} (standard deviation)" if noise else ""
    return f"{words.some(list(dict.fromkeys(rates.aggregate(row) for row in rows)), 2)}{vary}: no rounds, so no 95 % interval"


def _few(rows: Sequence[Row]) -> str:
    gone = [len(row.result.left_out) for row in rows if row.result.left_out]
    counts, single = [row.summary.rounds for row in rows], bool(gone) and max(gone) == 1
    if not gone:
        return f"{span(counts, str)} of the {FEWEST} rounds that a 95 % interval needs"
    thing = "undisturbed round" if max(counts) == 1 else "undisturbed rounds"
    why = f"during {'it' if single else 'them'} other programs ran, or the timers disagreed"
    unused = f"{span(gone, str)} more {'was' if single else 'were'} measured and {'is' if single else 'are'} not used, because {why}"
    return f"{span(counts, str)} {thing}, and a 95 % interval needs {FEWEST}; {unused}"


def _few_samples(rows: Sequence[Row]) -> str:
    counts = [len(one.values) for row in rows for one in row.result.rounds if any(notice.code == "few_samples" for notice in one.notices)]
    return f"{span(counts, str)} {'sample' if max(counts) == 1 else 'samples'} in some rounds" if counts else _detail("few_samples", rows)


def span(values: Sequence[float], write: Callable[[float], str]) -> str:
    """Least to most, as written; once where both are written alike."""
    low, high = write(min(values)), write(max(values))
    if low == high or (high.endswith(" %") and low.endswith(" %") and float(low[:-2]) == float(high[:-2])):
        return high  # 1.00 % and 1.0 % are one figure
    return f"{low.removesuffix(' %') if high.endswith(' %') else low} to {high}"


def _busy(rows: Sequence[Row]) -> str:
    seen = taken([row.result for row in rows])
    return seen or _detail("busy", rows)


def _throttled(rows: Sequence[Row]) -> str:
    shares: dict[str, list[float]] = {}
    for row in rows:
        for notice in row.result.notices:
            for name, share in notice.shares.items():
                shares.setdefault(name, []).append(share)
    said = ", ".join(f"{name} in {span(found, percent)} of the readings" for name, found in shares.items())
    return said or _detail("throttled", rows)


def clocks(rows: Sequence[Row]) -> str:
    """Range of the clock beside the samples."""
    seen = [hz / 1e9 for row in rows for one in row.result.rounds for hz in one.clocks_hz]
    return f"{span(seen, lambda ghz: f'{ghz:.2f}')} GHz" if seen else ""


_SEEN: dict[str, Callable[[Sequence[Row]], str]] = {
    "too_short": lambda rows: "a call takes less time than timing it", "few_rounds": _few, "aggregate": _aggregate, "busy": _busy,
    "noise": lambda rows: "", "few_samples": _few_samples, "throttled": _throttled, "power_cap": _throttled, "clock_varied": clocks,
    "stutter": lambda rows: stuttered([one for row in rows for one in row.result.used]),
}


# ---------------------------------------------------------------- a busy machine


def _disturbed(rows: Sequence[Row]) -> bool:
    """Whether programs of this machine ran beside the samples."""
    return any((one.disturbed or 0.0) >= 0.005 for row in rows for one in row.result.rounds) or any(
        notice.code == "shared_device" for row in rows for notice in row.result.notices
    )


def taken(results: Sequence[Result]) -> str:
    """What others took of the machine while the numbers were measured; "" where it was not watched."""
    rounds = [one for result in results for one in result.rounds if one.round not in set(result.left_out) and one.values]
    disturbed = [one.disturbed for one in rounds if one.disturbed is not None]
    stolen = [one.steal for one in rounds if one.steal is not None]
    parts = []
    if disturbed and sum(disturbed) >= 0.005 * len(disturbed):
        parts.append(f"other programs ran during {percent(sum(disturbed) / len(disturbed))} of the samples")
    if stolen and sum(stolen) >= 0.005 * len(stolen):
        parts.append(f"the hypervisor took {percent(sum(stolen) / len(stolen))} of the processor time (steal)")
    return ", ".join(parts)


def busy(rows: Sequence[Row]) -> str:
    """That the machine was busy, in one sentence for all; "" where it was not, or only for some cases."""
    results = [row.result for row in rows if words.numbered(row)]
    seen, but = beside_all(results), but_atomics(row.case.workload for row in rows)
    return f"The machine was busy: {seen}. Treat every number as a lower limit of the speed{but}. For better ones {QUIET}" if seen else ""


def banner(rows: Sequence[Row]) -> str:
    """That the machine was busy, while what is used was measured or while much else was; "" where it was not."""
    return busy(rows) or _unused(rows)


def _unused(rows: Sequence[Row]) -> str:
    """That the machine was busy during many rounds, which no number uses; "" where few were, or every number is good without."""
    left = [one for row in rows for one in row.result.rounds if one.round in row.result.left_out and disturbed(one)]
    rounds = sum(bool(one.values) for row in rows for one in row.result.rounds)
    if len(left) <= stats_busy.MANY * rounds or not any(row.verdict.state == "inconclusive" for row in rows):
        return ""
    steal = {2 * (one.steal or 0.0) > (one.disturbed or 0.0) for one in left}
    who = ["other programs ran"] * (False in steal) + ["the hypervisor took the processors"] * (True in steal)
    during = f"{' or '.join(who)} during {len(left)} of {rounds} rounds"
    return f"The machine was busy: {during}, and no number uses these. For more rounds that count {QUIET}"


def but_atomics(workloads: Iterable[str]) -> str:
    """That numbers of a busy machine are lower limits does not hold of these; "" where there are none."""
    return ", but for atomics, for which fewer cores contend" if any(work.traits(name).contended for name in workloads) else ""


def beside_all(results: Sequence[Result]) -> str:
    """What others took while all of these were measured; "" where they ran beside none, or only beside some."""
    disturbed = sum(stats_busy.beside(result.notices) for result in results)
    if disturbed <= stats_busy.MANY * len(results):
        return ""
    return taken(results) or f"other programs ran during {disturbed} of {len(results)} cases"


def notes(row: Row) -> list[tuple[str, str]]:
    """Every notice of one row that its sensors and samples raised: its word, and what was seen."""
    by_word: dict[str, str] = {}
    without = unimportant(row, [SAME.get(notice.code, notice.code) for notice in row.result.notices])
    for notice in row.result.notices:
        code = SAME.get(notice.code, notice.code)
        if code in without:
            continue
        code = "power_cap" if code == "throttled" and own_power(row) else code
        seen = _clock(row) if code == "clock_varied" else taken([row.result]) if code == "busy" else ""
        by_word.setdefault(KINDS[code].word if code in KINDS else code.replace("_", " "), seen or words.clean(_with_action(notice)))
    return list(by_word.items())


def _with_action(notice: Notice) -> str:
    return " → ".join(filter(None, (notice.seen, notice.action)))


def _clock(row: Row) -> str:
    """Median and range of the clock; the number in cycles where that is what stays the same."""
    seen = [hz for one in row.result.rounds for hz in one.clocks_hz]
    said = f"{statistics.median(seen) / 1e9:.2f} GHz median, {clocks([row])}" if seen else ""
    return "; ".join(part for part in (said, words.in_cycles(row)) if part)
