"""The verdicts on runs of many devices on one screen, or as a page: summary, the worst devices, cases that did not pass, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from hotlap.core.analysis import absent, fleets, verdicts
from hotlap.core.record import Judgement, Row, State
from hotlap.core.show import judgement as judging
from hotlap.core.show import layout, page, table, words
from hotlap.core.show.table import Column, Table

CASES, REASONS = 8, 4  # on a terminal
PAGE_DEVICES, PAGE_CASES, PAGE_REASONS, PAGE_SOURCES, PAGE_RUNS = 60, 100, 40, 6, 24


def are_many(judged: Sequence[Judgement]) -> bool:
    """Whether several runs together have more devices than a block each is of use for."""
    return len(judged) > 1 and len({(one.run, row.device) for one in judged for row in one.rows}) > fleets.MANY


def judgements(judged: Sequence[Judgement], hosts: Mapping[str, str], width: int = 100, color: bool = False) -> str:
    """At most a screen: what is said of the whole, the worst devices, the worst cases, why, and the verdict last. `hosts`: of each run."""
    rows, head, again = _ordered(judged, hosts), judging.reference(judged[0].against), _again(judged, hosts)
    devices, left = judging.device_columns(rows, words.devices(rows), head, whole=again)
    lines = [layout.painted(_summary(judged, hosts, rows), "bold", color), ""]
    lines += [*layout.fitted(devices, width).lines(color), *judging.left_out(left)]
    cases, more = judging.case_columns(rows, CASES)
    if cases:
        lines += ["", *layout.fitted(cases, width, judging.SPARE).lines(color), *_more(more, "case")]
    pairs = judging.reasons([row for row in rows if row.verdict.state in judging.NOT_PASSED])
    lines += [""] * bool(pairs)
    for name, said in pairs[:REASONS]:
        lines += layout.paragraph(f"  {name:<13} ", said, width, most=None)
    lines += _more(len(pairs) - REASONS, "reason")
    state = _state(judged)
    answer = layout.painted(words.STATES[state].upper(), judging.VERDICT_STYLES.get(state, "warn"), color)
    return "\n".join([*lines, "", f"{answer}  against {words.clean(judged[0].against)}: {_tally(judged, hosts)}"])


def page_of(judged: Sequence[Judgement], hosts: Mapping[str, str]) -> str:
    """The same as one HTML file, with more of each."""
    rows, head, again = _ordered(judged, hosts), judging.reference(judged[0].against), _again(judged, hosts)
    devices, left = judging.device_columns(rows, words.devices(rows), head, PAGE_DEVICES, again)
    cases, more = judging.case_columns(rows, PAGE_CASES)
    all_passed = not cases
    if all_passed:
        cases, more = judging.case_columns(rows, PAGE_CASES, passed=True)
    pairs = judging.reasons([row for row in rows if row.verdict.state in judging.NOT_PASSED])
    stacked = "results stack labelled"
    devices, cases = _titled(devices), _titled(cases)
    worst = table.html(Table(devices), stacked) + page.notes([line.strip() for line in judging.left_out(left, page=True)], "note")
    below = page.notes([line.strip() for line in _more(more, "case", "--json")], "note")
    state = _state(judged)
    tone = {"pass": "good", "fail": "bad"}.get(state, "warn")
    shown = f'<span class="state" style="color: var(--{tone})">{words.STATES[state].upper()}</span>'
    against = f"against {words.clean(judged[0].against)}"
    lead = f'<p class="sub">{table.text(_summary(judged, hosts, rows))}</p>'
    lead += f'<p class="lead">{shown} {table.text(f"{against}: {_tally(judged, hosts)}")}.</p>'
    sections = [
        page.Section("Worst", "Devices, the worst first", worst),
        page.Section(
            "Cases", "Cases, all of which passed" if all_passed else "Cases that did not pass everywhere",
            table.html(Table(cases), stacked) + below if cases else "",
        ),
        page.Section("Why", "Why", page.notes([f"{name}: {said}" for name, said in pairs[:PAGE_REASONS]])),
        page.Section("Basis", "What it rests on", page.notes(_basis(judged, hosts, rows))),
    ]  # fmt: skip
    runs = [
        {"run": one.run, "host": hosts.get(one.run, ""), "state": one.state, "reason": one.reason, "missing": one.missing} for one in judged
    ]
    return page.page(f"{_devices(judged, hosts)} {against}", sections, {"verdict": state, "runs": runs}, lead)


def _basis(judged: Sequence[Judgement], hosts: Mapping[str, str], rows: Sequence[Row]) -> list[str]:
    """Where thresholds come from, and the runs, whose ids begin with the time."""
    sources = Counter(row.verdict.provenance for row in rows if row.verdict.provenance).most_common()
    notes = [f"threshold of {words.counted(count, 'result')}: {words.clean(source)}" for source, count in sources[:PAGE_SOURCES]]
    notes += [f"and {words.counted(len(sources) - PAGE_SOURCES, 'more source')} of thresholds"] * (len(sources) > PAGE_SOURCES)
    named = [f"{one.run} of {hosts.get(one.run, '')}".removesuffix(" of ") for one in judged]
    return [*notes, f"runs: {words.some(named, PAGE_RUNS)}"]


def _titled(columns: Sequence[Column]) -> list[Column]:
    return [replace(column, title=column.head.strip().capitalize()) for column in columns]


def placed(judged: Sequence[Judgement], hosts: Mapping[str, str]) -> list[Judgement]:
    """For reports that list cases: rows with a name of their device that is its own among all runs, as hosts call their devices alike."""
    keys = [(one.run, device) for one in judged for device in dict.fromkeys(row.device for row in one.rows)]
    if len({device for _, device in keys}) == len(keys):
        return list(judged)
    names = _names(judged, hosts)
    return [
        structs.replace(one, rows=[structs.replace(row, device=names[one.run, row.device]) for row in one.rows]) for one in judged
    ]


def together(judged: Sequence[Judgement]) -> Judgement:
    """One verdict of several runs, whose rows have names of devices as `placed` gives them."""
    rows = [row for one in judged for row in one.rows]
    return Judgement(
        run=f"{judged[0].run} and {len(judged) - 1} more", state=_state(judged), against=judged[0].against, rows=rows,
        missing={name: why for one in judged for name, why in one.missing.items()},
        reason=f"{verdicts.of_devices([(row.device, row) for row in rows])} over {len(judged)} runs",
    )  # fmt: skip


def _names(judged: Sequence[Judgement], hosts: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """By run and device."""
    pairs = dict.fromkeys((one.run, row.device) for one in judged for row in one.rows)
    of_host: dict[str, set[str]] = {}
    for run, device in pairs:
        of_host.setdefault(hosts.get(run, ""), set()).add(device)
    again, short = _again(judged, hosts), words.short(list(dict.fromkeys(device for _, device in pairs)))
    names: dict[tuple[str, str], str] = {}
    for run, device in pairs:
        host = hosts.get(run, "")
        place = " ".join(dict.fromkeys([host, run] if again and host else [host or run]))
        own = short[device] if again else device
        names[run, device] = place if host and len(of_host[host]) == 1 else f"{place} {own}"
    return names


def _ordered(judged: Sequence[Judgement], hosts: Mapping[str, str]) -> list[Row]:
    """The rows of all runs, the worst state first, each with a name of its device that is its own among all runs."""
    names = _names(judged, hosts)
    rows = [structs.replace(row, device=names[one.run, row.device]) for one in judged for row in one.rows]
    return sorted(rows, key=lambda row: judging.ORDER.index(row.verdict.state))


def _again(judged: Sequence[Judgement], hosts: Mapping[str, str]) -> bool:
    """Whether there are several runs of a device, which the run tells apart."""
    pairs = {(one.run, row.device) for one in judged for row in one.rows}
    return len({(hosts.get(run, ""), device) for run, device in pairs}) < len(pairs)


def _state(judged: Sequence[Judgement]) -> State:
    return min((one.state for one in judged), key=judging.ORDER.index)


def _summary(judged: Sequence[Judgement], hosts: Mapping[str, str], rows: Sequence[Row]) -> str:
    places = {hosts.get(one.run, one.run) for one in judged}
    cases = words.counted(len({row.case.id for row in rows}), "case")
    return f"{words.counted(len(judged), 'run')} of {words.counted(len(places), 'host')}, {_devices(judged, hosts)}, {cases}"


def _devices(judged: Sequence[Judgement], hosts: Mapping[str, str]) -> str:
    return words.counted(len({(hosts.get(one.run, one.run), row.device) for one in judged for row in one.rows}), "device")


def _tally(judged: Sequence[Judgement], hosts: Mapping[str, str]) -> str:
    """How many devices are in each state; of several runs of a device how many runs."""
    lost = absent.text({name: why for one in judged for name, why in one.missing.items()})
    said = _counted(judged, hosts)
    return f"{said}; {words.clean(lost)}" if lost else said


def _counted(judged: Sequence[Judgement], hosts: Mapping[str, str]) -> str:
    rows = [((hosts.get(one.run, one.run), row.device), one.run, row) for one in judged for row in one.rows]
    if len({device for device, *_ in rows}) == len({(run, device) for device, run, _ in rows}):
        return verdicts.of_devices([(" ".join(device), row) for device, _, row in rows])
    counts = Counter(one.state for one in judged)
    texts = [f"{counts[state]} {verdicts.WORDS[state]}" for state in judging.ORDER if counts[state]]
    return f"of {len(judged)} runs {', '.join(texts)}"


def _more(left: int, thing: str, where: str = "--json or --out FILE") -> list[str]:
    return [f"  … and {words.counted(left, f'more {thing}')}; {where} has all"] if left > 0 else []
