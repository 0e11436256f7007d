"""A stress run's live lines and its report as text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hotlap.core.analysis.symptoms import REASONS
from hotlap.core.record import Device
from hotlap.core.show import layout, telemetry, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.stats.energy import Energy
from hotlap.core.units import percent, show, size
from hotlap.stress.record import ALLOWED, FILE, Tick
from hotlap.stress.throughput import PICTURES, Rate
from hotlap.stress.verdict import UNRATED, DeviceVerdict, Skew, StressRun, StressVerdict, span

PHASES = {"products": "GEMM"}
BLOCKS = "▁▂▃▄▅▆▇█"
CLASSES = {"fail": "error", "inconclusive": "inconclusive", "pass": "pass"}  # of the style sheet
STYLES = {"pass": "good", "fail": "bad", "inconclusive": "warn"}
ORDER = ("fail", "inconclusive", "pass")
WHOLE = 2  # devices that are told in full though they pass


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as blocks between the lowest and the highest; a flat one in the middle."""
    last = [v for v in values[-width:] if math.isfinite(v)]
    if not last:
        return ""
    low, high = min(last), max(last)
    return "".join(BLOCKS[int((v - low) / (high - low) * 7.999)] if high > low * 1.001 else BLOCKS[3] for v in last)


def named(text: str) -> str:
    """A kind of unit, or a text that holds one, in the field's word: the files' `products fp16` is GEMM fp16."""
    return re.sub(r"\bproducts (?=[a-z]+\d)", "GEMM ", text)


def unit(kind: str, base: str) -> str:
    """FLOP/s, or OP/s where a kind's operations are of integers; of what draws what its rate counts."""
    if base == "1/s" and kind.startswith(PICTURES):
        return words.counted_unit(kind.removeprefix(PICTURES), base)
    return "OP/s" if base == "FLOP/s" and kind.startswith("products int") else base


def count(number: float) -> str:
    """A large number in three digits: 1.67e16."""
    return re.sub(r"e\+0?", "e", f"{number:.3g}")


def rate(tick: Tick) -> str:
    """Throughput while busy of the unit that ran last, with its name; or idle."""
    done = tick.parts().get(tick.unit) or next(reversed(list(tick.parts().values())), None)
    if done is None or done.busy_s <= 0:
        return "idle"
    kind = tick.unit or tick.phase
    value = show(done.flop / done.busy_s, unit(kind, "FLOP/s")) if done.flop else ""
    value = value or (show(done.moved_bytes / done.busy_s, "B/s") if done.moved_bytes else "")
    value = value or (show(done.steps / done.busy_s, unit(kind, "1/s")) if done.steps else "")
    return f"{kind.removeprefix('products ')} {value}".strip()


def logged(tick: Tick, past_s: float, errors: int) -> str:
    """A line of a plain log: when, what runs and how fast, what the sensors show, errors so far."""
    parts = [f"{past_s:.0f} s", rate(tick)]
    shown = tick.shown
    parts += [show(shown["power_w"], "W")] if "power_w" in shown else []
    parts += [f"{shown['temperature_c']:.0f} °C"] if "temperature_c" in shown else []
    parts += [show(shown[clock], "Hz") for clock in ("clock_hz.sm", "clock_hz") if clock in shown][:1]
    held = [name for bit, name in REASONS.items() if int(shown.get("throttle", 0.0)) & bit and name != "idle"]
    parts += [f"throttled by {' and '.join(held)}"] if held else []
    return ", ".join([*parts, f"{errors} error{'s' * (errors != 1)}"])


def _course(ticks: Sequence[Tick]) -> list[float]:
    """Rates of the kind that ran last, tick by tick: those of others would be steps that are none."""
    if not ticks:
        return []
    parts = [tick.parts().get(ticks[-1].unit or ticks[-1].phase) for tick in ticks]
    return [done.amount / done.busy_s for done in parts if done and done.busy_s > 0]


def rows(
    devices: Mapping[str, Device], ticks: Mapping[str, Sequence[Tick]], errors: Mapping[str, int], state: Mapping[str, str], width: int
) -> list[str]:
    """One row per device: what it does and shows now."""
    devices = dict(sorted(devices.items(), key=lambda pair: (pair[1].target, pair[1].index)))
    latest = {key: (ticks[key][-1] if ticks.get(key) else None) for key in devices}
    last = {key: (None if state.get(key) else t) for key, t in latest.items()}  # one that has ended shows nothing now

    def cell(sensor: str, unit: str) -> list[Cell]:
        return [Cell(show(t.shown[sensor], unit) if t and sensor in t.shown else "–") for t in last.values()]

    def held(t: Tick | None, past: Sequence[Tick]) -> str:
        masks = [int(one.shown["throttle"]) for one in past if "throttle" in one.shown]
        return percent(sum(1 for m in masks if m & ~0x113) / len(masks)) if t and masks else "–"

    clock = "clock_hz.sm" if any(t and "clock_hz.sm" in t.shown for t in last.values()) else "clock_hz"
    heat = [Cell(f"{t.shown['temperature_c']:.0f}" if t and "temperature_c" in t.shown else "–") for t in last.values()]
    spark = [sparkline(_course(ticks.get(key, [])), 12) for key in devices]
    columns = [
        Column("device", [Cell(d.shown) for d in devices.values()]),
        Column("now", [Cell(state.get(key) or (PHASES.get(t.phase, t.phase) if t else "starting")) for key, t in last.items()]),
        Column("power", cell("power_w", "W"), right=True),
        Column("clock", cell(clock, "Hz"), right=True),
        Column("°C", heat, right=True),
        Column("throughput", [Cell(rate(t) if t else "–") for t in last.values()], right=True),
        Column("throttled", [Cell(held(latest[key], ticks.get(key, []))) for key in last], right=True),
        Column("errors", [Cell(str(errors.get(key, 0)), "bad" if errors.get(key) else "") for key in devices], right=True),
        Column("", [Cell(s) for s in spark]),
    ]  # fmt: skip
    return layout.fitted(columns, width, ("", "throttled", "clock")).lines(False)


def report_of(judged: StressRun, width: int = 100, color: bool = False) -> str:
    """`report` of a run that was read, with the energy of each device."""
    return report(judged.verdict, devices(judged), width, color, telemetry.energies(judged.bundle))


def report(
    verdict: StressVerdict, devices: Mapping[str, Device], width: int = 100, color: bool = False, spent: Mapping[str, Energy] | None = None
) -> str:
    """The verdict and what it rests on: a block per device, the worst first; of many, those that pass have a line each."""
    lines: list[str] = []
    brief = passing(verdict)
    for one in worst_first(verdict):
        if one not in brief:
            lines += [*_device(verdict.run, one, devices, (width, color), (spent or {}).get(one.device)), ""]
    if brief:
        lines += [*_brief(brief, devices, width, color), ""]
    if verdict.skew:
        lines += [*layout.paragraph("pulses   ", together(verdict.skew), width), ""]
    if verdict.allowed:
        lines += [*layout.paragraph("allowed  ", allowed(verdict), width), ""]
    state = verdict.state.upper()
    first, *rest = layout.paragraph(f"{state}  ", because(verdict), width)
    return "\n".join([*lines, layout.painted(state, STYLES.get(verdict.state, "dim"), color) + first.removeprefix(state), *rest])


def worst_first(verdict: StressVerdict) -> list[DeviceVerdict]:
    """Devices that fail, then those of which nothing can be said, then the rest; each in their order."""
    return sorted(verdict.devices, key=lambda one: ORDER.index(one.state) if one.state in ORDER else 1)


def passing(verdict: StressVerdict) -> list[DeviceVerdict]:
    """Devices of which a line is enough: those that pass, where there are many."""
    return [one for one in verdict.devices if one.state == "pass"] if len(verdict.devices) > WHOLE else []


def because(verdict: StressVerdict) -> str:
    """Why the verdict is what it is; of several devices, which of them."""
    bad = [one for one in verdict.devices if one.state == verdict.state]
    if verdict.state == "pass" or len(verdict.devices) < 2 or not bad:
        return named(verdict.reason)
    return named(f"{len(bad)} of {len(verdict.devices)} devices: {verdict.reason}")


def _brief(verdicts: Sequence[DeviceVerdict], devices: Mapping[str, Device], width: int, color: bool) -> list[str]:
    """A row per device that passes."""
    lines = layout.fitted(device_columns(verdicts, devices), width, ("checked", "time")).lines(color)
    for text, names in remarks(verdicts, devices).items():
        lines += layout.paragraph("  · ", named(f"{text} ({names})"), width)
    return lines


def remarks(verdicts: Sequence[DeviceVerdict], devices: Mapping[str, Device]) -> dict[str, str]:
    """What was remarked of these devices, each once: text → which of them."""
    by: dict[str, list[str]] = {}
    for one in verdicts:
        for finding in one.findings:
            by.setdefault(f"{finding.title}: {finding.detail}", []).append(
                devices[one.device].shown if one.device in devices else one.device
            )
    return {text: words.some(names, 4) if len(names) < len(verdicts) else f"all {len(names)}" for text, names in by.items()}


def device_columns(verdicts: Sequence[DeviceVerdict], devices: Mapping[str, Device]) -> list[Column]:
    """Each device and `row_of` it."""
    rows, states = list(map(row_of, verdicts)), [f"state {CLASSES.get(verdict.state, '')}".strip() for verdict in verdicts]
    return [
        Column("device", [Cell(devices[each.device].shown if each.device in devices else each.device) for each in verdicts], names=True),
        Column("state", [Cell(row[0], kind=kind) for row, kind in zip(rows, states, strict=True)]),
        *(Column(head, [Cell(row[n]) for row in rows], right=True) for n, head in enumerate(HEADS) if n),
    ]


WRONG = 5  # results that are listed in text
HEADS = ("state", "time", "checked", "power", "°C", "wrong", "slowest kind")


def wrong_of(device: DeviceVerdict) -> str:
    """How many of its results were wrong."""
    return f"{'≥ ' * device.at_least}{sum(device.errors.values())}"


def unlisted(run: str, device: DeviceVerdict, listed: int) -> str:
    """How many wrong results of a run are not listed, and where they are."""
    left, kept = sum(device.errors.values()) - listed, len(device.wrong)
    if left <= 0:
        return ""
    where = f"the first {kept}" if kept < listed + left or device.at_least else "all"
    return f"and {'at least ' * device.at_least}{left} more; hotlap stress --judge {run} --json has {where}"


def row_of(device: DeviceVerdict) -> list[str]:
    """A device in a row: state, time, units checked, average power, hottest, wrong results, the kind farthest below what is expected."""
    f = device.figures
    shares = [(r.sustained / r.expected, r.kind) for r in device.rates if r.expected]
    power, heat = ("power_w.average", "temperature_c.peak")
    return [
        device.state, span(f.get("seconds", 0.0)), f"{f['checked']:.0f}", f"{f[power]:.0f} W" if power in f else "–",
        f"{f[heat]:.0f}" if heat in f else "–", wrong_of(device),
        f"{named(min(shares)[1])} {percent(min(shares)[0])} of expected" if shares else "–",
    ]  # fmt: skip


def allowed(verdict: StressVerdict) -> str:
    """The violation budgets that a run was judged by, as `--allow` takes them."""
    return ", ".join(f"{name}={100 * v:g}%" if ALLOWED[name][0] == "share" else f"{name}={v:.0f}" for name, v in verdict.allowed.items())


def together(skew: Skew) -> str:
    """How well synchronised devices began their pulses together, in words."""
    apart = f"{show(skew.median_s, 's')} apart in the median, {show(skew.most_s, 's')} at most"
    return f"{skew.pulses} began on {skew.devices} devices {apart}"


def facts(device: DeviceVerdict, spent: Energy | None = None) -> list[tuple[str, str]]:
    """What a device did and showed: name and words."""
    f = device.figures
    share = f["check_s"] / (f["busy_s"] + f["check_s"]) if f["busy_s"] + f["check_s"] else 0.0
    checked = "all checked" if f["checked"] == f["units"] else f"{f['checked']:.0f} checked"
    did = [f"{count(f['flop'])} operations"] * bool(f["flop"]) + [f"{show(f['moved_bytes'], 'B')} moved"] * bool(f["moved_bytes"])
    pairs = [("time", _time(f, spent))] if f.get("seconds") or spent else []
    work = ", ".join([f"{f['units']:.0f} units of work", checked, *did])
    pairs.append(("work", f"{work}; checks took {percent(share)} of the time" if f["units"] else "no unit of work was done"))
    if without := [f"{named(name.removeprefix(UNRATED))} ({number:.0f} units)" for name, number in f.items() if name.startswith(UNRATED)]:
        pairs.append(("no rate", f"{', '.join(without)}: neither operations nor bytes are counted"))
    if "power_w.peak" in f:
        pairs.append(("power", f"peak {f['power_w.peak']:.0f} W, average {f['power_w.average']:.0f} W{_doubted(device, 'power_w')}"))
    if device.goal:
        pairs.append(("set point", device.goal))
    pairs.append(("power limit", device.reached))
    if "temperature_c.peak" in f:
        pairs.append(("temperature", f"peak {f['temperature_c.peak']:.0f} °C; {_heat(f)}{_doubted(device, 'temperature_c')}"))
    if reasons := throttled(device):
        pairs.append(("throttled by", reasons))
    if "memory_tested_bytes" in f:
        pairs.append(("memory", f"{size(f['memory_tested_bytes'])} held all patterns, in slices"))
    if device.dtypes:
        cover = ", ".join(f"{n} {percent(s)}" for n, s in device.dtypes.items())
        pairs.append(("checksum", f"sees this share of bit flips alone, the rest is for the repeat: {cover}"))
    return [(name, text) for name, text in pairs if text]


def throttled(device: DeviceVerdict) -> str:
    """Throttle reasons with the share of the time, or of readings, for which each was set."""
    sampled = [f"{name} {percent(part)}" for name, part in device.throttling.items() if name != "idle" and name not in device.counted]
    counted = [f"{name} {percent(part)}" for name, part in device.throttling.items() if name in device.counted]
    by_counter = [f"{', '.join(counted)} of the time, by the driver's counters"] if counted else []
    rules = {finding.rule for finding in device.findings}
    normal = device.throttling.get("software power cap") and not rules & {"power limit lowered", "capped below its limit"}
    texts = [*by_counter, *([f"{', '.join(sampled)} of readings"] if sampled else [])]
    texts += ["at its power limit a card's power cap is normal and not counted as throttling"] * bool(normal and texts)
    return "; ".join(texts)


def _time(f: Mapping[str, float], spent: Energy | None) -> str:
    load = f"{span(f['seconds'])} under load" if f.get("seconds") else ""
    if spent is None or spent.joules is None:
        return load
    how = "by the energy counter" if spent.source == "counter" else "by the integral of power"
    return ", ".join(filter(None, (load, f"{telemetry.value('energy_j', spent.joules)} {how} over {span(spent.seconds)}")))


def _doubted(device: DeviceVerdict, sensor: str) -> str:
    """A word where a finding says that this sensor is not to be believed."""
    rule = next((finding.rule for finding in device.findings if finding.where == sensor), "")
    return f" (of a {NOT_BELIEVED.get(rule, rule)}: only until then)" if rule else ""


NOT_BELIEVED = {"nonsense from sensor": "lying sensor"}


def signed(share: float) -> str:
    """A change in per cent; one that rounds to nothing has no minus."""
    return f"{100 * round(share, 3) + 0.0:+.1f} %"


def _spread(share: float | None) -> str:
    return "–" if share is None else f"±{100 * share:.1f} %"


def _heat(f: Mapping[str, float]) -> str:
    if "temperature_c.rise" not in f:
        return "too short to tell whether it is steady: run it for 4 min or longer"
    return "steady at the end" if f.get("thermal.steady") else f"still moving: {f['temperature_c.rise']:+.1f} °C over the last third"


def _device(
    run: str, verdict: DeviceVerdict, devices: Mapping[str, Device], form: tuple[int, bool], spent: Energy | None
) -> list[str]:
    width, color = form
    device = devices.get(verdict.device)
    name = f"{device.selector} {device.name}" if device else verdict.device
    lines = [f"{name}: {layout.painted(verdict.state, STYLES.get(verdict.state, 'dim'), color)}"]
    for what, text in facts(verdict, spent):
        lines += layout.paragraph(f"  {what:<13}", text, width)
    if verdict.rates:
        lines += ["", *_rates(verdict.rates, width, color)]
    if verdict.findings:
        lines.append("")
    for finding in verdict.findings:
        more = f" → {finding.action}" if finding.action else ""
        mark = f"  {'!' if finding.severity != 'info' else '·'} "
        lines += layout.paragraph(mark, named(f"{finding.title}: {finding.detail}{more}"), width)
    for wrong in verdict.wrong[:WRONG]:
        bits = f", bit{'s' * (len(wrong.bits) != 1)} {', '.join(map(str, wrong.bits))}" if wrong.bits else ""
        text = f"{named(wrong.unit)}, {wrong.place}: expected {wrong.expected}, got {wrong.got}{bits}, {wrong.kind}, by {wrong.by}"
        lines += layout.paragraph("    ", text, width)
    if more := unlisted(run, verdict, WRONG):
        lines += layout.paragraph("    ", more, width)
    return lines


def _changed(rate: Rate) -> Cell:
    shown = "–" if rate.change is None else signed(rate.change)
    return Cell(shown, "bad" if rate.falls and shown.startswith("-") else "")


def _rates(rates: Sequence[Rate], width: int, color: bool) -> list[str]:
    """A row per kind of unit: how fast, how steady, and beside what."""
    if not rates:
        return []

    name, *columns = rate_columns(rates)
    indented = replace(name, head=f"  {name.head}", cells=[Cell(f"  {cell.text}") for cell in name.cells])
    lines = layout.fitted([indented, *columns], width, ("spread", "of expected", "peak")).lines(color)
    why = dict.fromkeys(one.no_limit for one in rates if one.no_limit)
    for reason in why:
        kinds = ", ".join(named(one.kind) for one in rates if one.no_limit == reason)
        lines += layout.paragraph("  · ", f"no bound of {kinds}: {reason}", width)
    return lines


def rate_columns(rates: Sequence[Rate]) -> list[Column]:
    """Each kind of unit: its rates, how steady they are, and shares of what is known of it."""

    def share(value: float, of: float | None) -> Cell:
        return Cell(percent(value / of) if of else "–")

    columns = [
        Column("throughput", [Cell(named(each.kind)) for each in rates], names=True, kind="kind"),
        Column("peak", [Cell(show(each.peak, unit(each.kind, each.unit))) for each in rates], right=True, kind="n spare"),
        Column("sustained", [Cell(show(each.sustained, unit(each.kind, each.unit))) for each in rates], right=True),
        Column("change", [_changed(each) for each in rates], right=True),
        Column("spread", [Cell(_spread(each.spread)) for each in rates], right=True, kind="n spare"),
        Column("of bound", [share(each.sustained, each.bound) for each in rates], right=True),
        Column("of expected", [share(each.sustained, each.expected) for each in rates], right=True),
    ]  # fmt: skip
    if any(each.reference for each in rates):
        columns.append(Column("of reference", [share(each.sustained, each.reference) for each in rates], right=True))
    return columns


def devices(judged: StressRun) -> dict[str, Device]:
    """The devices of the run by their keys."""
    run = judged.bundle.run
    return {d.key: d for d in run.machine.devices if d.key in run.devices}


def torn(judged: StressRun) -> list[str]:
    """A warning where lines could not be read."""
    n = judged.torn
    return [f"{words.counted(n, 'line')} of {FILE} could not be read: torn"] if n else []
