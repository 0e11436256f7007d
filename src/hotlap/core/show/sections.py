"""The parts of the page that are words and tables. Whatever came from outside goes through `text`, which escapes it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hotlap.core.record import Device, Row
from hotlap.core.show import layout, words
from hotlap.core.show import notices as noticing
from hotlap.core.show.conclusions import Conclusions
from hotlap.core.show.listing import stopped
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import show, size


@dataclass(frozen=True)
class Side:
    """One device of one run: a column where several stand side by side."""

    bundle: Bundle
    device: Device
    rows: tuple[Row, ...]
    name: str


def text(value: object) -> str:
    """Escaped, in one printable line."""
    return html.escape(words.clean(str(value)))


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """A list of what is known; what is not is left out."""
    items = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in pairs if value not in (None, "", [], {}))
    return f"<dl>{items}</dl>"


# ---------------------------------------------------------------- conclusions


def conclusions(found: Conclusions) -> str:
    """Figures, findings, and what to do."""
    cards = "".join(_card(figure.title, figure.row) for figure in found.figures)
    findings = "".join(
        f'<li class="{one.severity}"><b>{text(one.title)}</b><span>{text(one.detail)}</span></li>' for one in found.findings
    )
    actions = "".join(f"<li>{text(action)}</li>" for action in found.actions)
    banner = f'<p class="banner">{text(found.banner)}</p>' if found.banner else ""
    todo = f'<ol class="actions">{actions}</ol>' if actions else "<p>Nothing: the numbers can be used as they are.</p>"
    return (
        f'<p class="lead">{text(found.verdict)}</p>{banner}<ul class="figures">{cards}</ul><div class="columns">'
        f'<div><h3>What was found</h3><ul class="findings">{findings}</ul></div><div><h3>What to do</h3>{todo}</div></div>'
    )


def _card(title: str, row: Row) -> str:
    number, _, unit = words.value(row).partition(" ")
    doubtful = ' class="doubtful"' if row.verdict.state != "measured" else ""
    share = words.of_limit(row.gap) if row.gap.share is not None else "no limit is known"
    doubt = "" if row.verdict.state == "measured" else f'<div class="doubt">{text(_doubted(row))}</div>'
    return (
        f'<li{doubtful}><div class="name">{text(title)}</div><div class="value">{text(number)} <small>{text(unit)}</small></div>'
        f'<div class="share">{text(words.interval(row))}; {text(share)}</div><div class="case">{text(row.label)}</div>{doubt}</li>'
    )


def _doubted(row: Row) -> str:
    """State and doubt: inconclusive, busy."""
    return ", ".join(filter(None, (words.state(row), noticing.beside(row))))


# ---------------------------------------------------------------- set-up and machine


def setup(bundle: Bundle) -> str:
    """Which run this is and how it was measured."""
    run, options = bundle.run, bundle.run.asked
    rounds = len({s.round for s in bundle.samples})
    precision = f"± {show(options.precision, '%', 2)} of the median" if options else ""
    order = {"single": "", "one after another": "devices one after another", "together": "devices at once"}[run.order]
    ending, rate = stopped(run.stops), f"{options.readings_hz:.3g} a second" if options and options.readings_hz else ""
    how: tuple[tuple[str, object], ...]
    if bundle.run.plan.cases or bundle.samples:
        how = (("Rounds", f"{rounds}, each a fresh process; {ending}".removesuffix("; ")), ("Precision asked", precision))
    else:
        virtual = "virtual: it passes faster than the clock of this machine" if run.target.startswith("simulated") else ""
        how = (("Stopped", ending), ("Time", virtual), ("Readings", rate))
    share = f"{run.sampler_share:.2%} of one core, drivers included" if run.sampler_share is not None else ""
    return facts((
        ("Run", run.id), ("Plan", ": ".join(filter(None, (run.plan.name, run.plan.about)))),
        ("Began", _time(run.began)), ("Ended", _time(run.ended) or "not finished"), *how,
        ("Target", run.target), ("Order", order), ("Labels", ", ".join(f"{k}={v}" for k, v in run.labels.items())),
        ("Seed", run.seed or ""), ("Reading sensors took", share), ("Hotlap", run.hotlap),
    ))


def _time(moment: str) -> str:
    return f"{moment[:10]} {moment[11:19]} UTC" if moment else ""


def machine(bundle: Bundle) -> str:
    """Host, processor, software and settings."""
    seen, cpu = bundle.run.machine, bundle.run.machine.cpu
    caches = ", ".join(f"{level.upper()} {size(n)}" for level, n in cpu.cache_bytes.items())
    cores = f", {cpu.cores} cores" if cpu.cores else ""
    return facts((
        ("Host", seen.host), ("System", " ".join(filter(None, (seen.os, seen.kernel)))), ("Virtual", seen.virtual),
        ("Processor", f"{cpu.name}{cores}" if cpu.name else ""), ("Caches", caches),
        ("Memory", size(seen.memory_bytes) if seen.memory_bytes else ""),
        ("Software", ", ".join(f"{k} {v}" for k, v in seen.software.items())),
        ("Settings", ", ".join(f"{k}={v}" for k, v in seen.settings.items())),
    ))


def sensors(bundle: Bundle) -> str:
    """What was read while the run went on, and what could not be, with the reason."""
    read = dict.fromkeys(one.sensor for one in bundle.readings if one.status == "ok")
    failed = {(one.sensor, one.reason): None for one in bundle.readings if one.status == "error"}
    missing = {(one.sensor, one.reason): None for one in bundle.readings if one.status == "not_supported"}
    return facts((
        ("Sensors", ", ".join(read)), ("Failed", "; ".join(f"{name}: {reason}" for name, reason in failed)),
        ("Not supported", "; ".join(f"{name}: {reason}" for name, reason in missing)),
    ))


def device(one: Device) -> str:
    """What a device says of itself."""
    return facts((
        ("Device", one.name), ("Selector", one.selector), ("UUID", one.uuid),
        ("PCI", " ".join(filter(None, (one.pci_address, one.pci_id)))),
        ("Driver", one.driver), ("Units", one.compute_units), ("Highest clock", show(one.clock_max_hz, "Hz") if one.clock_max_hz else ""),
        ("Memory", size(one.memory_bytes) if one.memory_bytes else ""), ("Last cache", size(one.cache_bytes) if one.cache_bytes else ""),
        ("Machine table", one.machine),
    ))


# ---------------------------------------------------------------- results


def results(sides: Sequence[Side]) -> str:
    """The table of results: all columns for one side, the essential ones side by side for several. What was not run stands below."""
    body = _single(_run(sides[0].rows)) if len(sides) == 1 else _several(sides)
    kind = "stack results" if len(sides) == 1 else "sides"
    every = [row for side in sides for row in side.rows]
    return f'<div class="scroll"><table class="{kind}">{body}</table></div>{_not_run(every)}{_reading(every)}'


def _run(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.verdict.state != "not_run"]


def _single(rows: Sequence[Row]) -> str:
    best = any(map(words.best, rows))
    heads = ("Case", "Value", "± 95 %", *(["Best"] * best), "Of limit", "State")
    lines = [f"<thead><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr></thead><tbody>"]
    written = {id(row): pair for row, pair in zip(rows, numbers(rows), strict=True)}
    for name, members in words.families(rows):
        lines.append(f'<tr class="family"><th colspan="{len(heads)}">{name.capitalize()}</th></tr>')
        lines += [_row(row, *written[id(row)], best) for row in members]
    return "".join([*lines, "</tbody>"])


def numbers(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Value and interval of each row, escaped, with decimal points and units that stand under each other."""
    values = layout.aligned([words.value(row) for row in rows])
    intervals = layout.aligned([words.interval(row) for row in rows])
    return [(_spaced(value), _spaced(interval)) for value, interval in zip(values, intervals, strict=True)]


def _spaced(padded: str) -> str:
    """Blanks that pad a number made as wide as what they stand for: a digit (U+2007), or the point before the first (U+2008)."""
    found = re.match(r"((?:[±≤≥]\s)?)(\s*)(\S+?)(\s*)(\s\S.*)?$", padded)
    if found is None:
        return text(padded)
    sign, before, number, after, unit = (part or "" for part in found.groups())
    point = "\u2008" if after and "." not in number else ""
    rest = "\u2007" * (len(after) - len(point))
    return f"{html.escape(sign)}{chr(0x2007) * len(before)}{html.escape(number)}{point}{rest}{html.escape(words.clean(unit))}"


def _row(row: Row, value: str, interval: str, best: bool) -> str:
    seen = "; ".join(": ".join(filter(None, note)) for note in noticing.notes(row))
    title = "; ".join(filter(None, (row.verdict.reason, seen)))
    besides = f'<td class="n best">{text(words.best(row))}</td>' * best
    return (
        f'<tr class="{row.verdict.state}"><th>{text(row.label)}</th><td class="number value">{value}</td>'
        f'<td class="number">{interval}</td>{besides}<td class="wide">{share(row)}</td>'
        f'<td class="state {row.verdict.state}" title="{text(title)}">{text(_doubted(row))}</td></tr>'
    )


def share(row: Row) -> str:
    """Meter, share, and what it is a share of; the run's own best is no limit and has no meter."""
    if not words.numbered(row):
        return ""
    if row.gap.share is None:
        return f'<span class="of">{words.DASH}</span>'
    if row.gap.against == "ceiling":
        return f'<span class="of best-of">{text(words.of_limit(row.gap))}</span>'
    full = min(max(row.gap.share, 0.0), 1.0) * 100
    return (
        f'<span class="meter {row.gap.against}"><i style="width:{full:.1f}%"></i></span>'
        f'<span class="pct">{text(words.share(row.gap))}</span> <span class="of">{text(row.gap.against)}</span>'
    )


def _several(sides: Sequence[Side]) -> str:
    heads = "".join(f'<th class="group" colspan="3">{text(side.name)}</th>' for side in sides)
    columns = '<th class="first">Value</th><th>± 95 %</th><th>Of limit</th>' * len(sides)
    lines = [f'<thead><tr><th rowspan="2">Case</th>{heads}</tr><tr>{columns}</tr></thead><tbody>']
    by_case = [{row.case.id: (row, *pair) for row, pair in zip(_run(side.rows), numbers(_run(side.rows)), strict=True)} for side in sides]
    every = {row.case.id: row for side in sides for row in _run(side.rows)}
    for name, members in words.families(every.values()):
        lines.append(f'<tr class="family"><th colspan="{1 + 3 * len(sides)}">{name.capitalize()}</th></tr>')
        for member in members:
            cells = "".join(_cells(found.get(member.case.id)) for found in by_case)
            lines.append(f"<tr><th>{text(member.label)}</th>{cells}</tr>")
    return "".join([*lines, "</tbody>"])


def _cells(found: tuple[Row, str, str] | None) -> str:
    if found is None:
        return f'<td class="first of">{words.DASH}</td><td></td><td></td>'
    row, value, interval = found
    state = row.verdict.state
    marked = f'<span class="state {state}" title="{text(row.verdict.reason)}">{text(_doubted(row))}</span>'
    if not words.numbered(row):
        return f'<td class="first">{marked}</td><td></td><td></td>'
    doubt = f" state {state}" if state in ("inconclusive", "invalid") else ""
    number = f"{value} {marked}" if state == "invalid" else value
    held = f'<span class="of">{text(words.of_limit(row.gap))}</span>'
    uncertain = f'<td class="number{doubt}" title="{text(_doubted(row))}">{interval}</td>'
    return f'<td class="first number value">{number}</td>{uncertain}<td class="wide">{held}</td>'


def _not_run(rows: Sequence[Row]) -> str:
    """What this target or device cannot run, by reason."""
    without = [row for row in rows if row.verdict.state == "not_run"]
    groups = words.alike(without, lambda row: row.verdict.reason)
    said = "; ".join(f"{text(words.some(list(dict.fromkeys(r.label for r in group)), 6))} ({text(why)})" for group, why in groups)
    return f'<p class="note">Not run: {said}.</p>' if said else ""


def _reading(rows: Sequence[Row]) -> str:
    having = [row for row in rows if words.numbered(row)]
    seen = {row.gap.against if row.gap.share is not None else "unknown" for row in having}
    kinds = {
        "bound": "<b>bound</b>: the roofline (speed-of-light) limit",
        "expected": "<b>expected</b>: what the model expects of a good implementation",
        "ceiling": "<b>of best</b>: ÷ the best rate that a case of this run reached, no limit is known",
        "unknown": f"<b>{words.DASH}</b>: no limit is known",
    }
    parts = ["<b>±</b>: 95 % interval of the median over rounds, as a share of the median"]
    parts += ["<b>(88 %)</b> and the like: its confidence with fewer than 6 rounds"] * any(map(words.unsure, having))
    parts += ["<b>best</b>: the best round, in the unit of the value, where they are far apart"] * any(map(words.best, having))
    parts += [about for kind, about in kinds.items() if kind in seen]
    return f'<p class="note">{"; ".join(parts)}.</p>' if having else ""


# ---------------------------------------------------------------- gaps and causes


@dataclass
class Sources:
    """Sources of terms, numbered as they come, each printed once."""

    seen: dict[str, int] = field(default_factory=dict)

    def mark(self, source: str) -> str:
        number = self.seen.setdefault(source, len(self.seen) + 1)
        return f'<sup><a href="#source-{number}">{number}</a></sup>'

    def listed(self) -> str:
        items = "".join(f'<li id="source-{number}">{text(source) or "not given"}</li>' for source, number in self.seen.items())
        return f'<h3>Sources</h3><ol class="sources">{items}</ol>' if items else ""


def gaps(rows: Sequence[Row], sources: Sources) -> str:
    """Each number that is held against something: what is missing, why, and what the limit is made of."""
    held = sorted((row for row in rows if words.numbered(row) and row.gap.share is not None), key=lambda row: row.gap.share or 0.0)
    without = [row for row in rows if words.numbered(row) and row.gap.share is None]
    lines = "".join(_gap(row, sources) for row in held)
    head = '<th>Case</th><th class="n">Reached</th><th class="n">Of</th><th>Limit or reference</th><th>Cause of the gap</th>'
    table = f'<table class="stack"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>' if held else ""
    return table + (_no_limit(without) if without else "")


def _gap(row: Row, sources: Sources) -> str:
    limit = row.gap.limit
    terms = ", ".join(text(words.term(one)) + sources.mark(one.source) for one in limit.provenance) if limit else ""
    made = f'<div class="of">{terms}</div>' if terms and row.gap.against != "ceiling" else ""
    setter = words.setter(row)
    against = "this run's own best" if row.gap.against == "ceiling" else row.gap.against
    reached = f"{row.gap.share:.2f}" if row.gap.against == "ceiling" else words.share(row.gap)
    cause, why = row.gap.cause.replace("_", " "), words.why(row)
    return (
        f'<tr><th>{text(row.label)}</th><td class="n value">{text(reached)}</td>'
        f'<td class="n">{text(words.quantity(row.gap.limit_value, row.result.unit))}</td>'
        f'<td class="long">{text(against)}{f", {text(setter)}" if setter else ""}{made}</td>'
        f'<td class="long"><b>{text(cause)}</b>{f": {text(why)}" if why else ""}</td></tr>'
    )


def _no_limit(rows: Sequence[Row]) -> str:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reason = row.gap.limit.reason if row.gap.limit and row.gap.limit.reason else "no figure with a source"
        reasons.setdefault(reason, []).append(row.label)
    items = "".join(f"<li>{text(', '.join(labels))}: {text(reason)}</li>" for reason, labels in reasons.items())
    return f'<h3>No limit is known</h3><ul class="note">{items}</ul>'


def notices(bundle: Bundle, rows: Sequence[Row]) -> str:
    """Every doubt with the cases it concerns, and what to do."""
    record = "".join(f'<li class="warning"><b>The record</b><span>{text(notice.text)}</span></li>' for notice in bundle.notices)
    items = "".join(
        f'<li class="{one.severity}"><b>{text(one.word)}: {text(words.some(one.labels, 6))}</b>'
        f"<span>{text(one.seen)}{f'. What to do: {text(one.action)}' if one.action else ''}</span></li>"
        for one in noticing.find(rows)
    )
    return f'<ul class="findings">{record}{items}</ul>' if record or items else "<p>None.</p>"
