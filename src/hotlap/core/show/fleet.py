"""The verdict on many devices on one screen: summary, the worst, what stands out, how sure; and cases folded to their ends and middle."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from hotlap.core.analysis import absent, fleets
from hotlap.core.analysis.fleet_groups import FleetGroup, groups
from hotlap.core.analysis.fleets import FleetCase, FleetDevice, FleetVerdict
from hotlap.core.record import UNNAMED, Row
from hotlap.core.show import layout, words
from hotlap.core.show import notices as noticing
from hotlap.core.show.explain import STATE_STYLES
from hotlap.core.show.table import Cell, Column, Table
from hotlap.core.units import percent

SHOWN = 10  # devices that are named on a terminal
ROOM = 24  # characters for names of outliers in a table of cases
SEEN = 0.01  # of the median, that an end may be off without a word
HOPELESS = 0.5  # a loss from which on nothing useful can be named
SCATTERED = "numbers differ so much that a device is named only from {} slower; take more rounds, or work that takes longer"
CASES = 8  # cases in the table on a terminal
NOTICES = 3  # cases that are named for each kind of remark
WHY: Mapping[fleets.Code, str] = {
    "slow": "slower in all", "slow_case": "slower in some", "tail": "slow samples", "slight": "slightly slower", "fast": "faster",
    "broken": "wrong or failed", "missing": "cases missing", "": "",
}


def called(verdict: FleetVerdict) -> dict[tuple[str, str], str]:
    """What each device is called, by host and key: as shortly as tells it from the others."""
    keys = [(device.host, device.device) for device in verdict.devices]
    names = {key: words.imported_name(key[1]) for key in keys}
    models = {device.model for device in verdict.devices}
    hosts = [host for host, _ in keys]
    ids = words.short([device for _, device in keys])
    if len(set(hosts)) == len(hosts):
        return {key: words.clean(key[0]) for key in keys}
    if len(set(hosts)) == 1:
        return {key: ids[key[1]] for key in keys}
    short = {key: ids[key[1]] if names[key] in models or not names[key] else names[key] for key in keys}
    return {key: f"{words.clean(key[0])} {words.clean(short[key])}" for key in keys}


def verdict(judged: FleetVerdict, width: int = 100, color: bool = False) -> str:
    """At most 24 lines but for long names: what is said of the whole, the worst devices, cases, and how sure all of it is."""
    lines = [layout.painted(summary(judged), "bold", color), *folded(judged, width, color), ""]
    lost = absent.text(judged.absent)
    if lost:
        lines += [*layout.paragraph("", words.clean(lost), width), ""]
    state = layout.painted(words.STATES[judged.state].upper(), {"pass": "good", "fail": "bad"}.get(judged.state, "warn"), color)
    said = f"{counted_runs(judged)} against fleet: of {len(judged.devices)} devices {tally(judged)}{without(judged)}"
    return "\n".join([*lines, f"{state}  {said}"])


def others(judged: FleetVerdict, host: str, row: Row) -> str:
    """What the median device of the same model reaches in a row's case; "" where nothing is known of it."""
    key = f"{host} {row.device}"
    case = next((one for one in judged.cases if one.case == row.case.id and key in one.values), None)
    if case is None or len(case.values) < 2:
        return ""
    middle, limit = case.ends[1], row.gap.limit_value if row.gap.reference_kind == "bound" else None
    share = "" if not limit else f", {percent(limit / middle if row.result.better == 'lower' else middle / limit)} of the bound"
    return f"the median of {len(case.values)} devices is {words.quantity(middle, words.unit_of(row))}{share}"


def without(judged: FleetVerdict) -> str:
    """How many have no result, beside the tally of devices."""
    return f"; {len(judged.absent)} without a result" if judged.absent else ""


def counted_runs(judged: FleetVerdict) -> str:
    """How many runs the verdict rests on, and of how many."""
    if judged.judged_runs >= judged.runs:
        return words.counted(judged.runs, "run")
    return f"{judged.judged_runs} of {judged.runs} runs (the last of each device)"


def folded(judged: FleetVerdict, width: int, color: bool, least: int = CASES) -> list[str]:
    """Devices that stand out, cases with their ends, and how sure all of it is. `least`: cases that are listed."""
    lines: list[str] = []
    if named := groups(judged)[:SHOWN]:
        lines += ["", *layout.fitted(devices(judged, named).columns, width, ("why",), rather="95 %").lines(color)]
        left = len(judged.named) - sum(len(group.devices) for group in named)
        lines += [f"  … and {left} more; --json or --out FILE has all"] if left else []
    spread = sorted(judged.cases, key=lambda case: -(case.spread or 0.0))[:least]
    lines += ["", *layout.fitted(cases(judged, spread).columns, width, rather="noise").lines(color)]
    less = ", which differ less" if all(case.spread is not None for case in judged.cases) else ""
    lines += [f"  … and {words.counted(len(judged.cases) - least, 'more case')}{less}"] if len(judged.cases) > least else []
    return [*lines, "", *(line for text in sure(judged) for line in layout.paragraph("", text, width))]


def mixed(judged: FleetVerdict) -> str:
    """That the runs that are compared differ in what they were of; "" where they do not."""
    if not judged.mixed:
        return ""
    name, values = next(iter(judged.mixed.items()))
    last = words.some([f"{label} ({words.some([value or 'none' for value in own], 3)})" for label, own in judged.mixed.items()], 3)
    example = shlex.quote(f"{name}={next(filter(None, values))}")
    why = "numbers of one case may be of different work"
    return f"the last runs of the devices differ in {last}: {why}; choose runs by a label, as in hotlap gate {example} --against fleet"


def has_steady_cases(judged: FleetVerdict) -> bool:
    """Whether there are cases in which no device stands out."""
    off = {(case.case, device.model) for device in judged.devices for case in device.off}
    return any((case.case, case.model) not in off for case in judged.cases)


def summary(judged: FleetVerdict) -> str:
    """How many devices, of which models, cases and rounds; of an interrupted run how many of its devices."""
    models = ", ".join(model_name(judged, model) for model in judged.reach)
    counts = (len(judged.devices), "device"), (len({case.case for case in judged.cases}), "case")
    devices, cases = (words.counted(count, thing) for count, thing in counts)
    if judged.measured < len(judged.devices):
        devices = f"{judged.measured} of {devices} measured"
    return f"{devices} ({models}), {cases}, {rounds(judged)}"


def rounds(judged: FleetVerdict) -> str:
    """How many rounds a case has."""
    uneven = judged.fewest is not None and judged.fewest < judged.rounds
    return f"{'up to ' if uneven else ''}{words.counted(judged.rounds, 'round')} each"


def interrupted(judged: FleetVerdict) -> str:
    """How runs that were interrupted are gone on with; "" for none."""
    runs = [words.clean(run) for run in judged.interrupted]
    if not runs:
        return ""
    which = "the run was interrupted" if judged.runs == 1 else f"{words.counted(len(runs), 'run')} of {judged.runs} interrupted"
    return f"{which}; hotlap run --resume {runs[0]} measures the rest{' of one' if len(runs) > 1 else ''}"


def tally(judged: FleetVerdict) -> str:
    """How many devices are in each state."""
    counts = judged.counts
    return ", ".join(f"{counts[state]} {words.STATES[state]}" for state in fleets.ORDER if counts[state])


def names(judged: FleetVerdict) -> dict[tuple[str, str], str]:
    """What each device that stands out is called in a list: by its host, where that stands for its devices."""
    spoken = called(judged)
    for group in groups(judged):
        if group.of > 1:
            count = f"all {group.of}" if len(group.devices) == group.of else f"{len(group.devices)} of {group.of}"
            spoken |= {(one.host, one.device): f"{words.clean(one.host)}: {count} devices" for one in group.devices}
    return spoken


def devices(judged: FleetVerdict, chosen: Sequence[FleetGroup], numbers: bool = False) -> Table:
    """A row per device or host: how far it is off over all cases, its worst case, and why it is named. `numbers`: and its serial number."""
    spoken, first = names(judged), [group.first for group in chosen]
    styles = [STATE_STYLES[device.state] for device in first]
    marks = [f"{words.MARKS[device.state]} {spoken[device.host, device.device]}" for device in first]
    marked = [Cell(mark, style) for mark, style in zip(marks, styles, strict=True)]
    columns = [Column("  device", marked, title="Device", names=True)]
    if any("rack" in device.labels for device in first):
        columns.append(Column("rack", [Cell(words.clean(device.labels.get("rack", words.DASH))) for device in first], title="Rack"))
    reasons = [", ".join(dict.fromkeys(map(why, group.devices))) for group in chosen]
    columns += [
        Column("all cases", [Cell(_share(group.level), value=group.level) for group in chosen], right=True, title="All cases"),
        Column("95 %", [Cell(_interval(*group.ends), "dim") for group in chosen], right=True),
        Column("worst case", [Cell(_worst(device)) for device in first], wrap=True, title="Worst case"),
        Column("why", [Cell(text) for text in reasons], title="Why"),
    ]
    known = [[device.facts.serial or device.facts.uuid for device in group.devices] for group in chosen]
    if numbers and any(map(any, known)):
        cells = [Cell(words.some([number for number in own if number], 8) if any(own) else words.DASH) for own in known]
        columns.append(Column("serial number or UUID", cells, wrap=True, title="Serial number or UUID", names=True))
    return Table(columns)


def why(device: FleetDevice) -> str:
    """Why it is named; of one slow case with a short name, which."""
    if device.code == "slow_case" and len(device.off) == 1:
        name = words.clean(device.off[0].label)
        return f"slower in {name if len(name) <= ROOM else 'one'}"
    return WHY[device.code]


def _worst(device: FleetDevice) -> str:
    if device.off:
        first = device.off[0]
        return f"{words.clean(first.label)} {f'{100 * first.tail:.0f} % slow samples' if first.tail else _share(first.size)}"
    return words.clean((device.broken or device.missing or [words.DASH])[0])


def _share(size: float | None) -> str:
    return words.DASH if size is None else words.signed(size)


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{words.signed(low)}, {words.signed(high)}]"


def cases(judged: FleetVerdict, chosen: Sequence[FleetCase]) -> Table:
    """A row per case: least, median, most over the devices, how much healthy ones differ, and which stand out."""
    spoken = names(judged)
    off: dict[tuple[str, str], list[str]] = {}
    for device in judged.devices:
        for case in device.off:
            off.setdefault((case.case, device.model), []).append(spoken[device.host, device.device])
    ends = [case.ends for case in chosen]
    columns = [Column("case", [Cell(words.clean(case.label), "bold") for case in chosen], wrap=True, title="Case", names=True)]
    if len({case.model for case in chosen}) > 1:
        columns.append(Column("model", [Cell(words.clean(case.model)) for case in chosen], title="Model"))
    for place, head in enumerate(("min", "median", "max")):
        texts = [words.quantity(end[place], case.unit) for case, end in zip(chosen, ends, strict=True)]
        numbered = [Cell(text, value=end[place]) for text, end in zip(texts, ends, strict=True)]
        kind = "number" if head == "median" else "number spare"  # on a phone the others have no room
        columns.append(Column(head, numbered, point=True, title=head.title(), kind=kind))
    columns += [
        Column("differ", [_percent(case.spread) for case in chosen], right=True, title="Devices differ"),
        Column("noise", [_percent(case.noise) for case in chosen], right=True, title="Noise", kind="n spare"),
        Column("outliers", [_outliers(off.get((case.case, case.model), [])) for case in chosen], wrap=True, title="Outliers"),
    ]
    return Table(columns)


def _percent(share: float | None) -> Cell:
    return Cell(words.DASH if share is None else percent(share, 2))


def _outliers(names: Sequence[str]) -> Cell:
    listed = words.some(list(dict.fromkeys(names)), 2)
    return Cell(words.DASH if not names else listed) if len(listed) <= ROOM else Cell(words.counted(len(names), "device"), kind="wide")


def sure(judged: FleetVerdict) -> list[str]:
    """What would have been named, how often a healthy fleet has a device named, and what could not be judged."""
    texts = [text for text in (interrupted(judged), mixed(judged), _differ(judged)) if text]
    for model, reach in judged.reach.items():
        known = [case.reach for case in judged.cases if case.model == model and case.reach is not None]
        if reach is None or not known:
            texts.append(f"{_of(judged, model)}the devices cannot be compared with each other: {_unjudged(judged, model)}")
            continue
        if reach >= HOPELESS:
            texts.append(_of(judged, model) + SCATTERED.format(percent(reach)))
            continue
        single = noticing.span(known, lambda share: percent(share, 2))
        smallest = f"{percent(reach, 2)} slower over all cases, or {single} slower in one"
        fails = f"gate fails a named one whose loss is surely above {percent(judged.min_effect)}"
        texts.append(f"{_of(judged, model)}a device is named from {smallest}; {fails}")
    if any(reach is not None and reach < HOPELESS for reach in judged.reach.values()):
        rate, if_so = f"{fleets.RATE * 100:g}", "if speeds of healthy devices scatter as a bell curve does"
        texts.append(f"false alarms: at most {rate} of 100 healthy fleets have a device named, {if_so}")
    notices: dict[str, list[str]] = {}
    for case in judged.cases:
        for notice in case.notices:
            notices.setdefault(notice.code, []).append(f"{words.clean(case.label)}: {notice.text}")
    for each in notices.values():
        texts += [*each[:NOTICES], *([f"{len(each) - NOTICES} more cases like these"] if len(each) > NOTICES else [])]
    return texts


def _differ(judged: FleetVerdict) -> str:
    """What the column says, where a case has an end that it does not hold (an outlier, or noise), and where it holds noise too."""
    known = [(case, *case.ends) for case in judged.cases if case.spread is not None]
    noisy = [case.noise is None for case, *_ in known]  # one value of each device: their spread includes the noise
    if known and all(noisy):
        return "differ: how much healthy devices differ, outliers left out; with one value a device this includes their noise"
    if not any(max(middle - low, high - middle) > max(2 * (case.spread or 0.0), SEEN) * middle for case, low, middle, high in known):
        return ""
    beside = "; where noise is not known, it is in it" if any(noisy) else ""
    return f"differ: by how much healthy devices differ, without the noise of measuring; min and max include noise and outliers{beside}"


def simulated(judged: FleetVerdict) -> list[str]:
    """The models of devices that were simulated."""
    return list(dict.fromkeys(device.model for device in judged.devices if device.facts.simulated))


def model_name(judged: FleetVerdict, model: str) -> str:
    if model in ("", UNNAMED):
        return "model unknown"
    return words.clean(f"{model} (simulated)" if model in simulated(judged) else model)


def _of(judged: FleetVerdict, model: str) -> str:
    return f"{model_name(judged, model)}: " if model not in ("", UNNAMED) or len(judged.reach) > 1 else ""


def _unjudged(judged: FleetVerdict, model: str) -> str:
    count = sum(device.model == model for device in judged.devices)
    if count < 5:
        several = "; where they are all of one model, import them with --model" if len(judged.reach) > 1 else ""
        return f"{words.counted(count, 'device')}, 5 are needed{several}"
    return "no case has values above zero on enough of them"
