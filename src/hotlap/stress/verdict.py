"""The verdict of a stress run: per device what was done, what was wrong and why it was not faster; and one for all of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace as replaced

from hotlap.core import stand_in
from hotlap.core.analysis import symptoms
from hotlap.core.analysis.catalogue import WITHIN_BUDGET, Budgets, Findings, catalogue
from hotlap.core.analysis.symptoms import Columns
from hotlap.core.model import limits
from hotlap.core.record import Device, Finding, Readings, Record, RunRecord, State, Stop
from hotlap.core.store import files
from hotlap.core.store.bundle import Bundle
from hotlap.stress import conduct, power_limit
from hotlap.stress import throughput as speed
from hotlap.stress.record import ALLOWED, FILE, MOST_WRONG, SETUP, GoodDevice, GoodRun, Happened, Line, Mismatch, Profile, Tick, read
from hotlap.stress.throughput import Rate

__all__ = ["Budgets", "DeviceVerdict", "StressRun", "StressVerdict", "catalogue", "good_run", "hold", "judge", "of"]

BEHIND = 0.05  # of the peers' median throughput, or of a reference run's: too much
DEFAULT = Budgets()
Codes = Mapping[str, dict[str, dict[str, str]]]

WARMING = 2  # a card that warms up may lose a few percent soon after the start
UNRATED = "unrated."  # of figures: units of work of a kind that has no throughput


@dataclass(frozen=True)
class DeviceVerdict:
    """One device. `causes` are slugs, the first decides."""

    device: str
    state: State
    causes: list[str]
    findings: list[Finding]
    figures: dict[str, float] = field(default_factory=dict)
    throttling: dict[str, float] = field(default_factory=dict)  # reason → share of the time
    counted: list[str] = field(default_factory=list)  # reasons whose share is by the driver's counter, not by readings of a mask
    dtypes: dict[str, float] = field(default_factory=dict)  # share of flips that the checksum alone sees
    rates: list[Rate] = field(default_factory=list)  # by kind of unit
    reached: str = ""  # whether the power limit was, in words
    wrong: list[Mismatch] = field(default_factory=list)  # the permanent ones first, in order of time; of each process the first MOST_WRONG
    errors: dict[str, int] = field(default_factory=dict)  # permanent, transient → how many results were wrong, kept in full or not
    at_least: bool = False  # of `errors`: there may be more, in a run of an older Hotlap that did not count those it did not keep
    goal: str = ""  # how well a set point was held, in words


@dataclass(frozen=True)
class Skew:
    """How far apart synchronised devices began the same pulses of load: from the first to the last of them."""

    pulses: int
    devices: int
    median_s: float
    most_s: float


@dataclass(frozen=True)
class StressVerdict:
    run: str
    state: State
    reason: str
    devices: list[DeviceVerdict]
    allowed: dict[str, float] = field(default_factory=dict)  # violation budgets that it was judged by
    skew: Skew | None = None  # of synchronised devices


def judge(
    run: RunRecord,
    lines: Sequence[Line],
    readings: Sequence[Readings],
    budgets: Budgets = DEFAULT,
    own: Path | None = None,
    folder: Path | None = None,
) -> StressVerdict:
    """Fail where a device erred, lost ground or stopped; inconclusive where too little was done; pass only for work that was checked.

    `own`: a user's catalogue. `folder`: of the bundle, where readings that were compacted are read in full."""
    codes = catalogue(own)
    shown = {key: symptoms.exact(folder, key, readings) if folder else symptoms.columns(key, readings) for key in run.devices}
    shown["host"] = symptoms.columns("host", readings)
    devices = [_device(run, key, [x for x in lines if x.device == key], shown, (budgets, codes)) for key in run.devices]
    return replace(_all(run, _peers(devices, {d.key: d for d in run.machine.devices}), asdict(budgets)), skew=skew(lines))


def skew(lines: Sequence[Line]) -> Skew | None:
    """From the pulses that two devices or more began in their first processes; a process that was started again counts its own."""
    began: dict[int, dict[str, float]] = {}
    for x in lines:
        if isinstance(x, Tick) and x.attempt == 0:
            for number, time_s in x.pulses.items():
                began.setdefault(number, {})[x.device] = time_s
    apart = [max(some.values()) - min(some.values()) for some in began.values() if len(some) > 1]
    if not apart:
        return None
    return Skew(len(apart), max(len(some) for some in began.values()), float(np.median(apart)), max(apart))


@dataclass(frozen=True)
class StressRun:
    """A stress run that was read, and its verdict."""

    bundle: Bundle
    lines: list[Line]
    torn: int  # lines that could not be read
    verdict: StressVerdict


class _Kept(Record, frozen=True, kw_only=True):
    """What the verdict needs of a stress.json."""

    profile: Profile
    reference: GoodRun | None = None


def of(
    bundle: Bundle, own: Path | None = None, allowed: Mapping[str, float] | None = None, good: GoodRun | None = None,
) -> StressRun | None:  # fmt: skip
    """The verdict of a bundle, a folder or a zip; None where it holds no stress run. `own`: a user's catalogue. `allowed`: violation
    budgets, and `good`: the reference, instead of those that the run was begun with."""
    data = _file(bundle.path, FILE)
    if data is None:
        return None
    lines, torn = read(data)
    try:
        kept = msgspec.json.decode(_file(bundle.path, SETUP) or b"", type=_Kept)
        begun, good = kept.profile.allowed, good or kept.reference
    except msgspec.DecodeError:  # of an older Hotlap, or lost: the usual ones
        begun = {}
    given = {name: value for name, value in {**begun, **(allowed or {})}.items() if name in ALLOWED}
    verdict = judge(bundle.run, lines, bundle.readings, Budgets(**given), own, bundle.path)
    return StressRun(bundle, lines, torn, hold(verdict, bundle.run, good) if good else verdict)


def good_run(verdict: StressVerdict, run: RunRecord) -> GoodRun:
    """The reference that a run known to be good is for others."""
    models = {device.key: device.model for device in run.machine.devices}
    rates = {one.device: {rate.kind: rate.sustained for rate in one.rates} for one in verdict.devices}
    return GoodRun(run=verdict.run, devices=[GoodDevice(key=key, model=models.get(key, ""), rates=each) for key, each in rates.items()])


def _file(path: Path, name: str) -> bytes | None:
    if path.is_dir():
        return (path / name).read_bytes() if (path / name).is_file() else None
    return files.members(path, name).get(name) if path.is_file() else None


def hold(verdict: StressVerdict, run: RunRecord, good: GoodRun) -> StressVerdict:
    """The same verdict with its rates beside those of a run that is known to be good: the same device by its key, else one of the same
    model. A kind that is slower by more than 5 % fails; a device without a like is inconclusive."""
    models = {device.key: device.model for device in run.machine.devices}
    rates = {one.key: one.rates for one in good.devices}
    names = {one.key: one.model for one in good.devices}
    devices = []
    for device in verdict.devices:
        like = next(
            (key for key in sorted(rates, key=lambda key: key != device.device) if names[key] == models.get(device.device)), None
        )
        if like is None:
            what = f"run {good.run} has no device of this model"
            devices.append(_worse(device, "no reference", what, "give a run of the same model with --against", "inconclusive"))
            continue
        device = replace(device, rates=[replace(r, reference=rates[like].get(r.kind)) for r in device.rates])
        slower = [(r.sustained / r.reference, r) for r in device.rates if r.reference and r.sustained < (1 - BEHIND) * r.reference]
        if not any(r.reference for r in device.rates):
            what = f"run {good.run} did none of the kinds of work of this one"
            device = _worse(device, "nothing to compare", what, "give a run of the same profile with --against", "inconclusive")
        elif alone := [r.kind for r in device.rates if not r.reference]:
            said = f"{', '.join(alone)}: not in run {good.run}"
            device = replace(device, findings=[*device.findings, Finding(title="not compared", detail=said, severity="info", action="")])
        if slower:
            share, worst = min(slower, key=lambda pair: pair[0])
            more = f", and {len(slower) - 1} more kind{'s' * (len(slower) > 2)} by over {100 * BEHIND:.0f} %" if len(slower) > 1 else ""
            what = f"{worst.kind} is {100 * (1 - share):.1f} % under run {good.run}{more}"
            device = _worse(device, "behind the reference", what, "compare clocks, temperatures and settings of both runs")
        devices.append(device)
    return replace(_all(run, devices, verdict.allowed), skew=verdict.skew)


def _all(run: RunRecord, devices: list[DeviceVerdict], allowed: dict[str, float]) -> StressVerdict:
    states = [one.state for one in devices]
    state: State = "fail" if "fail" in states else "inconclusive" if "inconclusive" in states or not states else "pass"
    names = {d.key: d.shown for d in run.machine.devices}
    causes: dict[str, list[str]] = {}
    for one in devices:
        for cause in dict.fromkeys(one.causes if one.state == state else []):
            causes.setdefault(cause, []).append(names.get(one.device, one.device))
    said = [f"{cause} ({_where(where, len(devices))})" if len(devices) > 1 else cause for cause, where in causes.items()]
    longest = max((one.figures.get("seconds", 0.0) for one in devices), default=0.0)
    done = f"{len(devices)} device{'s' * (len(devices) > 1)} did checked work for {span(longest)}{_allowed(devices, names)}"
    reason = (", ".join(said) if said else done) + ("; on a stand-in, which is no GPU" if stand_in.of_run(run) else "")
    return StressVerdict(run.id, state, reason, devices, allowed)


def _allowed(devices: list[DeviceVerdict], names: Mapping[str, str]) -> str:
    """That nothing happened, or what did and is within its budget."""
    each = {names.get(one.device, one.device): [x.detail for x in one.findings if x.rule == WITHIN_BUDGET] for one in devices}
    some = {name: details for name, details in each.items() if details}
    if not some:
        return " without an error"
    if len(devices) == 1:
        return f"; allowed: {'; '.join(*some.values())}"
    return f"; errors within what is allowed on {_where(list(some), len(devices))}"


def _where(named: list[str], count: int) -> str:
    """Devices by name; of more than two that have it in common, that they all do."""
    return "all of them" if len(named) == count > 2 else ", ".join(named)


def span(seconds: float) -> str:
    """A length of time in its two largest units: 1 h 5 min, 2 min 20 s, 45 s."""
    whole = round(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    first = next((n for n, (value, _) in enumerate(parts) if value), 3)
    return " ".join(f"{value} {unit}" for n, (value, unit) in enumerate(parts[first : first + 2]) if value or not n)


def _device(run: RunRecord, key: str, lines: Sequence[Line], all_shown: Mapping[str, Columns], how: tuple[Budgets, Codes]) -> DeviceVerdict:
    (budgets, codes), shown = how, all_shown[key]
    ticks = [x for x in lines if isinstance(x, Tick)]
    wrong = sorted((x for x in lines if isinstance(x, Mismatch)), key=lambda x: x.kind != "permanent")
    events = [x for x in lines if isinstance(x, Happened)]
    device = next((d for d in run.machine.devices if d.key == key), None)
    spec = limits.spec_for(device, run.machine) if device else None
    collected = Findings(codes)
    figures, rates = _figures(ticks, shown), speed.rates(ticks, events, spec)
    errors, at_least = _counted(wrong, ticks)
    _wrong(wrong, (errors, at_least), collected, budgets)
    _events(events, collected, conduct.reaction(events, shown))
    symptoms.counters(shown, collected, budgets)
    throttling = symptoms.throttling(shown)
    symptoms.throttled(throttling, collected, budgets)
    symptoms.sensors(shown, collected, ticks)
    limit_w, _ = power_limit.known(device, shown, spec)
    goal = conduct.set_point(events, shown, collected)
    capped = conduct.capped_below(throttling, shown, limit_w, collected)
    conduct.lowered(throttling, limit_w, spec.power_w if spec else None, collected)
    busy = conduct.busy_host(device, all_shown["host"], shown, collected)
    conduct.narrow_link(device, spec.pcie_lanes if spec else None, shown, collected)
    conduct.rates(rates, collected)
    _course(rates, shown, collected, (budgets, busy, capped))
    symptoms.heat(shown, figures)
    if not figures["checked"]:
        collected.add(
            "no checked work", "no unit of work was done and checked: that is never a pass", "open", "see what did not run, above"
        )
    elif run.ended == "" or (not any(x.what == "ended" for x in events) and not collected.failed):
        what = "; ".join(map(_ending, run.stops)) or "it was killed, or is still running"
        collected.add("not finished", what, "open", f"hotlap stress --resume {run.id}")
    else:
        conduct.never_ran(ticks, events, collected)
    figures |= {"power_limit_w": limit_w} if limit_w else {}
    tested = [x.numbers["tested_bytes"] for x in events if x.what == "coverage" and "tested_bytes" in x.numbers]
    figures |= {"memory_tested_bytes": max(tested)} if tested else {}
    reached = power_limit.reached(device, spec, power_limit.PowerLimitSeen(shown, ticks, events, rates, throttling))
    state: State = "fail" if collected.failed else "inconclusive" if collected.open else "pass"
    cover = {x.unit.removeprefix("products "): x.numbers["covered"] for x in events if x.what == "coverage" and "covered" in x.numbers}
    causes = list(dict.fromkeys(collected.failed or collected.open))
    findings = _once([one for _, one in collected.findings])
    counted = list(symptoms.counted(shown))
    return DeviceVerdict(
        key, state, causes, findings, figures, throttling, counted, cover, rates, reached.text, wrong, errors, at_least, goal
    )


def _ending(stop: Stop) -> str:
    """Why it did not come to its end, in words."""
    return "it was interrupted (Ctrl-C or SIGTERM)" if stop.kind == "interrupted" else stop.detail or stop.kind.replace("_", " ")


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """Findings alike are told once, with how many they were."""
    counts: dict[tuple[str, str], int] = {}
    for one in findings:
        counts[one.title, one.detail] = counts.get((one.title, one.detail), 0) + 1
    kept = {(one.title, one.detail): one for one in findings}
    return [replaced(one, detail=f"{counts[key]} times: {one.detail}") if counts[key] > 1 else one for key, one in kept.items()]


def _figures(ticks: Sequence[Tick], shown: Columns) -> dict[str, float]:
    """Work done and checked, power and temperature."""
    figures = {
        "units": float(sum(x.units for x in ticks)), "checked": float(sum(x.checked for x in ticks)), "flop": sum(x.flop for x in ticks),
        "moved_bytes": sum(x.moved_bytes for x in ticks), "busy_s": sum(x.busy_s for x in ticks), "check_s": sum(x.check_s for x in ticks),
    }  # fmt: skip
    figures["seconds"] = sum(b.time_s - a.time_s for a, b in itertools.pairwise(ticks) if a.attempt == b.attempt)
    firsts = {x.attempt: x for x in reversed(ticks)}.values()  # what a process did before its first line
    figures["seconds"] += sum(x.busy_s + x.check_s for x in firsts)
    return figures | _unrated(ticks) | conduct.figures(shown)


def _unrated(ticks: Sequence[Tick]) -> dict[str, float]:
    """Units of work of each kind that counts neither operations nor bytes, and so has no throughput: `unrated.atomics`."""
    units: dict[str, float] = {}
    rated: set[str] = set()
    for kind, done in (pair for tick in ticks for pair in tick.parts().items()):
        units[kind] = units.get(kind, 0.0) + done.units
        rated |= {kind} if done.flop or done.moved_bytes or done.steps else set()
    return {f"{UNRATED}{kind}": count for kind, count in units.items() if kind not in rated and count}


def _counted(wrong: Sequence[Mismatch], ticks: Sequence[Tick]) -> tuple[dict[str, int], bool]:
    """How many results of each kind were wrong, and whether there may be more. What came after the last tick of a process that died is in
    `wrong` alone."""
    kinds = ("permanent", "transient")
    kept = {kind: sum(x.kind == kind for x in wrong) for kind in kinds}
    told = {kind: sum(x.wrong.get(kind, 0) for x in ticks) for kind in kinds}
    counts = {kind: max(kept[kind], told[kind]) for kind in kinds}
    return {kind: count for kind, count in counts.items() if count}, len(wrong) >= MOST_WRONG and not any(told.values())


def _wrong(wrong: Sequence[Mismatch], counts: tuple[dict[str, int], bool], findings: Findings, budgets: Budgets) -> None:
    """`wrong`: the permanent ones first."""
    errors, at_least = counts
    total = sum(errors.values())
    if not total or not wrong:
        return
    split = ", ".join(f"{count} {kind}" for kind, count in errors.items())
    if total <= budgets.errors:
        findings.allow(f"wrong results: {total} ({split}), of at most {budgets.errors:.0f}")
        return
    first = wrong[0]
    where = f"the first {first.kind} in {first.unit}, {first.place}: expected {first.expected}, got {first.got}"
    kept = f"; the first {len(wrong)} are kept in full" if total > len(wrong) or at_least else ""
    what = f"{'at least ' * at_least}{total} wrong result{'s' * (total != 1)}: {split}; {where}{kept}"
    action = "take the device out of service; repeat on another slot to tell card from host"
    findings.add(f"wrong results ({first.kind})", what, action=action)


def _events(events: Sequence[Happened], findings: Findings, reaction: str) -> None:
    for x in events:
        if x.what == "lost":
            findings.add("device lost", x.detail, action="look for Xid 79 in the kernel's log; reseat the card, power the node off and on")
        elif x.what == "hung":
            findings.add("hung", x.detail, action="reset the device; look for Xid 8, 109 or 119 in the kernel's log")
        elif x.what == "died":
            findings.add(
                "process died", f"{x.detail}; it was started again", action="look for the kernel's out-of-memory killer and driver errors"
            )
        elif x.what == "limit":
            own = bool(x.numbers.get("slowdown"))
            cause = "too hot" if own else "limit asked was reached"
            findings.add(
                cause,
                x.detail + ("; the load was stopped for it" if own else reaction),
                "fail" if own else "open",
                "look at airflow, fan and thermal contact" if own else "raise the limit, or lower the load",
            )
        elif x.what == "held":
            findings.add("held before the load", x.detail, "open", "let it cool, look at airflow and power supplies, and run it again")
        elif x.what == "suspended":
            findings.add("suspended", x.detail, "open", "keep the machine awake: systemd-inhibit")
        elif x.what == "clock_jump":
            findings.add("clock changed", f"{x.detail}; Hotlap's times are monotonic and not moved by it", "note")
        elif x.what == "unguarded":
            findings.add("limit without a sensor", x.detail, "open", "leave it out, or see hotlap sensors for what is missing")
        elif x.what == "hottest":
            findings.add("most power", x.detail, "note")
        elif x.what == "mix":
            findings.add("units mixed", x.detail, "note")
        elif x.what in ("not_run", "sensors"):
            findings.add("not run" if x.what == "not_run" else "sensor missing", x.detail, "note")


class _Fall(NamedTuple):
    """A kind's loss of throughput, and from which part of the run on."""

    loss: float
    kind: str
    early: str


def _falls(rates: Sequence[Rate], slope: float) -> list[_Fall]:
    """Kinds that lose more than `slope` from the first quarter to the last, or more than WARMING times that from a shorter part on; the
    largest loss first, each once."""
    falls = [_Fall(-one.change, one.kind, "quarter") for one in rates if one.falls and one.change is not None and -one.change > slope]
    falls += [_Fall(one.early_loss, one.kind, one.early) for one in rates if one.early_loss and one.early_loss > WARMING * slope]
    largest = dict[str, _Fall]()
    for one in sorted(falls, reverse=True):
        largest.setdefault(one.kind, one)
    return list(largest.values())


def _course(rates: Sequence[Rate], shown: Columns, findings: Findings, how: tuple[Budgets, bool, bool]) -> None:
    """Kinds whose throughput falls beyond the budget, and whether the clock says why. `how`: budgets, whether the host was busy, and
    whether a power cap holds the card below its limit."""
    budgets, busy, capped = how
    falling = _falls(rates, budgets.slope)
    if not falling:
        if usual := _falls(rates, DEFAULT.slope):  # more than is allowed unless asked
            findings.allow(f"throughput falls: {usual[0].kind} {-100 * usual[0].loss:+.1f} %, of at most {-100 * budgets.slope:+.0f} %")
        return
    worst = falling[0]
    clock = symptoms.change(shown, "clock_hz.sm")
    late = symptoms.throttling(shown, symptoms.LATE)
    free = not any(share > budgets.throttle and name != "idle" for name, share in late.items())
    if clock < -budgets.slope and free:
        what = f"clock {100 * clock:+.1f} % over the run without a reason of throttling; {worst.kind} {-100 * worst.loss:+.1f} %"
        findings.add("clock stuck low", what, action="reset the device; look at locked clocks")
        return
    kinds = len(falling) - 1
    more = f", and {kinds} more kind{'s' * (kinds > 1)}" if kinds else ""
    what = f"{worst.kind} {-100 * worst.loss:+.1f} % from the first {worst.early} of the run to the last quarter{more}"
    held = [name for name, share in late.items() if share > budgets.throttle and name not in ("idle", "software power cap")]
    if busy:  # then it is not known whose fall it is
        what += "; others were at work on the host or the device"
        findings.add("throughput falls", what, "open", "run it again with nothing else running")
        return
    look = "look at what lowers the power limit" if capped else f"look at what holds the clock: {', '.join(held)}" if held else ""
    findings.add("throughput falls", what, action=look or "look at temperature and clocks over time")


def _worse(device: DeviceVerdict, cause: str, detail: str, action: str, state: State = "fail") -> DeviceVerdict:
    """A further finding; what was worse already stays so."""
    what = Finding(title=cause, detail=detail, severity="error" if state == "fail" else "warning", action=action)
    if device.state == "fail" and state != "fail":
        return replace(device, findings=[*device.findings, what])
    return replace(
        device, state=state, causes=[*(device.causes if device.state == state else []), cause], findings=[*device.findings, what]
    )


def _peers(devices: list[DeviceVerdict], known: Mapping[str, Device]) -> list[DeviceVerdict]:
    """A device fails that is behind the median of the node's others of its model in any kind of unit. Of only two that differ nobody
    knows which one is as it should be: the verdict of the slower one stays open."""
    slow: list[DeviceVerdict] = []
    for device in devices:
        model = known[device.device].model if device.device in known else ""
        others = [x for x in devices if x is not device and x.device in known and known[x.device].model == model]
        behind: list[tuple[float, str]] = []
        for rate in device.rates:
            theirs = [r.sustained for x in others for r in x.rates if r.kind == rate.kind]
            if theirs and (share := rate.sustained / float(np.median(theirs))) < 1 - BEHIND:
                behind.append((share, rate.kind))
        if behind:
            share, kind = min(behind)
            if len(others) > 1:
                what = f"{kind} is {100 * (1 - share):.1f} % under the median of the others"
                device = _worse(device, "behind its peers", what, "audit its settings against theirs")
            else:
                what = f"{kind} is {100 * (1 - share):.1f} % under the only other device of its model"
                device = _worse(device, "behind its only peer", what, "audit its settings against the other's", "inconclusive")
        slow.append(device)
    return slow
