"""Who was asked for a result and has none: named with the reason, so that a verdict never passes over it.

A kind of run (`hotlap.core.show.kinds.Kind`) that asks several machines may have `without_result(bundle)`: reasons by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from hotlap.core import extend
from hotlap.core.record import IMPORTED, Row
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import counted

MOST = 3  # groups that a sentence names
_NUMBER = re.compile(r"\d+")


def of_run(bundle: Bundle) -> dict[str, str]:
    """Reasons by name; none for a kind of run that asks one machine. Raises as its feature."""
    kind = extend.find("kinds", bundle.run.kind)
    found: dict[str, str] = kind.without_result(bundle) if kind is not None and hasattr(kind, "without_result") else {}
    return found


def cut(bundle: Bundle, rows: Sequence[Row]) -> dict[str, str]:
    """Of a run that was interrupted or killed: how much of what is judged it never came to, by its host; none where it came to all."""
    run = bundle.run
    if IMPORTED in (run.kind, run.target) or (run.ended and not run.stopped_by("interrupted")):
        return {}
    left, devices = [row for row in rows if not row.result.rounds], {row.device for row in rows}
    how = "was interrupted" if run.ended else "has not ended"
    amount = f"{len(left)} of {counted(len(rows), 'result')} missing"
    if len(devices) > 1:
        amount += f", on {len({row.device for row in left})} of {len(devices)} devices"
    return {f"part of {run.machine.host}": f"{how}: {amount}"} if left else {}


def of_runs(bundles: Iterable[Bundle]) -> dict[str, dict[str, str]]:
    """The same by run, the oldest first, without those that a later one of these runs measured."""
    known: dict[str, dict[str, str]] = {}
    for bundle in sorted(bundles, key=lambda one: one.run.began):
        there = {device.uuid.partition("/")[0] for device in bundle.run.machine.devices} | {bundle.run.machine.host}
        known = {run: {name: why for name, why in lost.items() if name not in there} for run, lost in known.items()}
        known[bundle.run.id] = of_run(bundle)
    return {run: lost for run, lost in known.items() if lost}


def groups(lost: Iterable[tuple[str, str]]) -> list[tuple[list[str], str]]:
    """Names with the same reason together, the rarest reason first: what befell one of many is not hidden by what befell the others."""
    by_reason: dict[str, list[str]] = {}
    for name, why in lost:
        by_reason.setdefault(why, []).append(name)
    return sorted(((names, why) for why, names in by_reason.items()), key=lambda pair: len(pair[0]))


def folded(names: Sequence[str]) -> str:
    """Names that differ in one number as schedulers write them, with how many: ``n[01-03,07] (4)``; others with commas between them."""
    shapes: dict[tuple[str, str], list[str]] = {}
    for name in names:
        last = list(_NUMBER.finditer(name))[-1:]
        head, number, tail = (name[: last[0].start()], last[0][0], name[last[0].end() :]) if last else (name, "", "")
        shapes.setdefault((head, tail), []).append(number)
    parts = [f"{head}[{_ranges(own)}]{tail}" if len(own) > 1 else f"{head}{own[0]}{tail}" for (head, tail), own in shapes.items()]
    return ",".join(parts) + (f" ({len(names)})" if len(names) > 1 else "")


def _ranges(numbers: Sequence[str]) -> str:
    ordered = sorted(set(numbers), key=lambda text: (int(text or 0), len(text)))
    spans: list[list[str]] = []
    for text in ordered:
        before = spans[-1][-1] if spans else ""
        if before and int(text) == int(before) + 1 and (len(text) == len(before) or "0" not in (text[0], before[0])):
            spans[-1][1:] = [text]
        else:
            spans.append([text])
    return ",".join("-".join(span) for span in spans)


def text(lost: Mapping[str, str]) -> str:
    """Who lacks a result and why, in a few words; "" for nobody."""
    if not lost:
        return ""
    found = groups(lost.items())
    said = "; ".join(f"{folded(names)} {why}" for names, why in found[:MOST])
    more = f"; {sum(len(names) for names, _ in found[MOST:])} more for other reasons" if len(found) > MOST else ""
    return f"{len(lost)} without a result: {said}{more}"
