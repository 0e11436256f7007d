"""Runs by what people call them, and results of a run by what they are of."""

from __future__ import annotations

import dataclasses
import difflib
import logging
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from msgspec.structs import replace

from hotlap.core import stand_in, units, work
from hotlap.core.errors import HotlapError, InputError, nearest
from hotlap.core.record import Case, Device, Machine, Plan, Result, RunRecord, Samples, Status
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths, when
from hotlap.core.store.bundle import Bundle, target_name
from hotlap.core.store.files import RUN
from hotlap.core.store.fold import fold
from hotlap.core.work.base import Param

if TYPE_CHECKING:
    from hotlap.core.store.catalog import Catalog, Entry

__all__ = ["VALID", "cases", "entries", "every", "fold", "no_match_error", "only", "read", "results", "runs"]

VALID = "an id or its beginning, latest, label=value, a time (today, 2026-11-21, a..b), or a path"
FACTS = ("case", "device", "host", "implementation", "label", "machine", "metric", "plan", "status", "target", "time", "workload")
"""What `results` filters by, beside every parameter of every workload."""
_log = logging.getLogger(__name__)


def runs(selector: str, home: Path) -> list[Bundle]:
    """The runs that a selector names, oldest first; several form a group.

    A selector is an id or the unique beginning of one, `latest`, `label=value` (several with commas: all must hold; workload,
    device, machine, model, host, target and plan serve as labels too), a time or a range of times, or a path to a bundle's folder
    or zip. Raises InputError, with what is near and what is valid, when it names none or is ambiguous.
    """
    return [bundles.load(entry.path) for entry in entries([selector], home)]


def entries(selectors: Sequence[str], home: Path) -> list[Entry]:
    """Where the runs are that selectors name, each once, in the order given; all of the home where there are none. No bundle is read.

    Raises as `runs` does.
    """
    with closing(_catalog(home)) as catalog:
        if not selectors:
            return catalog.find()
        found: dict[str, Entry] = {}
        for selector in selectors:
            for entry in _entries(selector.strip(), catalog, home):
                found.setdefault(entry.id, entry)
    return list(found.values())


def every(home: Path) -> Iterator[Bundle]:
    """All runs of the home that can be read, oldest first, one at a time and without readings; the log names those that cannot."""
    return read(entries([], home))


def read(chosen: Sequence[Entry], read_one: Callable[[int, int], None] = lambda *_: None) -> Iterator[Bundle]:
    """The same of some. `read_one`: hears how many were read, and of how many."""
    for number, entry in enumerate(chosen, 1):
        try:
            bundle = bundles.load(entry.path, readings=False)
        except HotlapError as error:
            _log.warning("a run cannot be read and is passed over: %s", error)
            continue
        read_one(number, len(chosen))
        yield bundle


def _catalog(home: Path) -> Catalog:
    from hotlap.core.store.catalog import Catalog  # sqlite3 is loaded when a run is looked for, not before

    return Catalog(home)


def _is_path(text: str) -> bool:
    """Whether a path is meant. A name without a separator is one only if a bundle is there, so that no file hides a selector."""
    first, *deeper = re.split(r"[/\\]" if os.altsep else "/", text)
    if "=" in first:
        return False
    try:
        return bool(deeper) or text.endswith(".zip") or (Path(text) / RUN).is_file()
    except (OSError, ValueError):
        return False


def _entries(text: str, catalog: Catalog, home: Path) -> list[Entry]:
    if not text:
        raise InputError(f"which run? give {VALID}")
    if _is_path(text):
        return [_at(Path(text).expanduser())]
    if text == "latest":
        return catalog.find(newest=1) or _raise_unknown_run(text, catalog, home)
    if "=" in text:
        return _labelled(text, catalog, home)
    if when.is_time(text):
        since_s, until_s = when.span(text)
        return catalog.find(since_s=since_s, until_s=until_s) or _raise_unknown_run(text, catalog, home)
    found = catalog.find(prefix=text)
    exact = [e for e in found if e.id == text]
    if len(found) > 1 and not exact:
        shown = ", ".join(e.id for e in found[-5:])
        raise InputError(f"'{text}' begins the ids of {len(found)} runs; write more of it, as in {shown}")
    return exact or found or _raise_unknown_run(text, catalog, home)


def _at(path: Path) -> Entry:
    from hotlap.core.store.catalog import Entry

    run = bundles.read_run(path)
    return Entry(run.id, path, when.seconds(run.began))


def _labelled(text: str, catalog: Catalog, home: Path) -> list[Entry]:
    wanted: dict[str, str] = {}
    for item in text.split(","):
        name, sign, value = (part.strip() for part in item.partition("="))
        if not sign or not name:
            raise InputError(f"'{item}' in '{text}' is not label=value; several are separated by commas")
        if wanted.setdefault(name, value) != value:
            raise InputError(f"'{text}' wants two values of {name}; a run has one, so give one selector for each")
    found = catalog.find(tags=wanted)
    if found:
        return found
    known = catalog.tags()
    for name, value in wanted.items():
        if name not in known:
            raise InputError(f"no run has a label '{name}'; {nearest(name, known) or 'none is kept yet: hotlap run measures one'}")
        if value not in known[name]:
            raise InputError(f"no run has {name}={value}; {nearest(value, known[name])}")
    return _raise_unknown_run(text, catalog, home)


def _raise_unknown_run(text: str, catalog: Catalog, home: Path) -> list[Entry]:
    """Raises: nothing is called so."""
    folder = paths.runs(home) / text
    with suppress(OSError):  # a name too long for the system is no run either
        if text not in (".", "..") and folder.is_dir():  # one that the catalog passed over: say why
            bundles.load(folder)
        if Path(text).is_file():
            raise InputError(f"'{text}' is no run but a file; results of other tools become runs by: hotlap import {shlex.quote(text)}")
    if text.endswith((".html", ".pdf")) and not Path(text).exists():
        raise InputError(f"no run is '{text}'; a page is written by --out {text}")
    ids = [entry.id for entry in catalog.find()]
    if not ids:
        raise InputError(f"no run is '{text}', since none is kept under '{home}'; hotlap run measures one")
    close = difflib.get_close_matches(text, [*ids, "latest"], n=3, cutoff=0.6)
    near = f"nearest: {', '.join(close)}" if close else f"the newest: {', '.join(reversed(ids[-3:]))}"
    raise InputError(f"no run is '{text}'; {near} (of {len(ids)}: hotlap list); valid: {VALID}")


# ---------------------------------------------------------------- results


def results(bundle: Bundle, where: Mapping[str, str] = {}) -> list[Result]:
    """A result per case and device, in the plan's order, then the devices'. A case that was never reached is `not_run`.

    `where` keeps those that fit all of it: a parameter (``size=256 MiB``, alternatives with commas, ranges of numbers
    ``a..b``), or one of FACTS; ``label`` takes name=value, ``time`` what a selector takes. Raises InputError for a name or
    value that is not valid.
    """
    tests = [_test(name, text) for name, text in where.items()]
    groups: dict[tuple[str, str], list[Samples]] = {}
    for samples in bundle.samples:
        groups.setdefault((samples.case, samples.device), []).append(samples)
    devices = {d.key: d for d in bundle.run.machine.devices}
    matching = []
    for case in {c.id: c for c in bundle.run.plan.cases}.values():
        for key in bundle.run.devices:
            device = devices.get(key)
            target = device.target if device else target_name(bundle.run.target)
            result = stand_in.noted(_reached(fold(case, groups.get((case.id, key), []), target, key), bundle.run), device)
            if all(test(bundle.run, result, device) for test in tests):
                matching.append(result)
    return matching


def _reached(result: Result, run: RunRecord) -> Result:
    """A case without a round of a run whose time was up says so."""
    if result.rounds or not run.stopped_by("budget"):
        return result
    return replace(result, reason=f"the budget of {run.plan.measure.budget_s:g} s was used up")


def cases(plan: Plan, where: Mapping[str, str]) -> list[Case]:
    """The plan's cases that a filter of `results` keeps, as far as it is known before anything is measured.

    Raises InputError for a name or value that is not valid, or when none is left.
    """
    run = RunRecord(id="", began="", hotlap="", plan=plan, machine=Machine(host=""), target="", devices=[])
    tests = {name: _test(name, text) for name, text in where.items()}
    matching = [fold(case, [], "") for case in plan.cases]
    for name in [name for name in tests if name not in _LATER]:
        own = [r for r in matching if name in FACTS or name in r.case.params]
        has = set().union(*(_shown(name, run, r, None) if name in FACTS else {_written(name, r)} for r in own))
        matching = [result for result in matching if tests[name](run, result, None)]
        if not matching:
            said = f"; {nearest(where[name], sorted(has))}" if has else ""
            raise InputError(f"no case of the plan {plan.name} has {name}={where[name]}{said}")
    return [result.case for result in matching]


_LATER = ("device", "host", "label", "machine", "plan", "status", "target", "time")  # known once it is measured


def only(bundles: Sequence[Bundle], where: Mapping[str, str]) -> list[Bundle]:
    """The runs with the cases and devices that a filter of `results` keeps, without those that have none.

    Raises InputError as `results` does, and when none is left.
    """
    if not where:
        return list(bundles)
    kept = []
    for bundle in bundles:
        fit = {(result.case.id, result.device) for result in results(bundle, where)}
        cases = [case for case in bundle.run.plan.cases if case.id in {one for one, _ in fit}]
        devices = [key for key in bundle.run.devices if key in {one for _, one in fit}]
        run = replace(bundle.run, plan=replace(bundle.run.plan, cases=cases), devices=devices)
        if fit:
            samples = [one for one in bundle.samples if (one.case, one.device) in fit]
            kept.append(dataclasses.replace(bundle, run=run, samples=samples))
    if not kept:
        raise no_match_error(bundles, where)
    return kept


def no_match_error(bundles: Sequence[Bundle], where: Mapping[str, str]) -> InputError:
    """Why no result of these runs fits: the first filter that alone keeps none, and what the runs have instead."""
    for name, text in where.items():
        if not any(results(bundle, {name: text}) for bundle in bundles):
            has = sorted(set().union(*(_valid(name, bundle) for bundle in bundles)))
            said = f"; {nearest(text, has)}" if has else ""
            return InputError(f"no case of {_names(bundles)} has {name}={text}{said}")
    return InputError(f"no case of {_names(bundles)} fits all of {', '.join(f'{k}={v}' for k, v in where.items())}; leave one out")


def _names(bundles: Sequence[Bundle]) -> str:
    return bundles[0].run.id if len(bundles) == 1 else f"these {len(bundles)} runs"


def _valid(name: str, bundle: Bundle) -> set[str]:
    """What the results of a run are called in one respect, or the values that a parameter has, as a plan writes them."""
    devices = {d.key: d for d in bundle.run.machine.devices}
    kept = results(bundle)
    if name == "label":
        return {f"{k}={v}" for k, v in bundle.run.labels.items()}
    if name == "time":
        return {bundle.run.began}
    if name in FACTS:
        return set().union(*(_shown(name, bundle.run, r, devices.get(r.device)) for r in kept)) - {""}
    return {_written(name, r) for r in kept if name in r.case.params}


def _written(name: str, result: Result) -> str:
    value = result.case.params[name]
    spec = work.WORKLOADS.get(result.case.workload)
    param = spec.param(name) if spec else None
    if param and param.unit == "B" and isinstance(value, (int, float)):
        return units.size(value)
    return str(value)


_Test = Callable[[RunRecord, Result, Device | None], bool]


def _test(name: str, text: str) -> _Test:
    """Whether a result fits one filter."""
    if name == "time":
        since_s, until_s = when.span(text)
        return lambda run, _result, _device: since_s <= (when.seconds(run.began) or float("nan")) < until_s
    if name == "label":
        label, sign, value = text.partition("=")
        if not sign:
            raise InputError(f"'{text}' is not label=value, as in label=cluster=A")
        return lambda run, _result, _device: run.labels.get(label) == value
    if name in FACTS:
        wanted = {part.strip() for part in text.split(",")}
        known = {"workload": set(work.WORKLOADS), "status": set(get_args(Status))}.get(name, wanted)
        if stray := min(wanted - known, default=""):
            raise InputError(f"there is no {name} '{stray}'; {nearest(stray, known)}")
        return lambda run, result, device: bool({text, *_whole(text, wanted, run)} & _facts(name, run, result, device))
    return _parameter(name, text)


def _whole(text: str, parts: set[str], run: RunRecord) -> set[str]:
    """The name of a device is no list, though names hold commas."""
    return {text} if any(text == device.name for device in run.machine.devices) else parts


def _facts(name: str, run: RunRecord, result: Result, device: Device | None) -> set[str]:
    """What a result is called in one respect."""
    if name == "device":
        return {result.device} | ({str(device.index), device.selector, device.name} if device else set())
    if name == "machine":
        return {run.machine.host} | ({device.machine} if device else set())
    if name == "target":
        return {result.target, run.target}
    if name == "case":
        return {result.case.id, work.label(result.case)}
    facts = {
        "workload": result.case.workload, "implementation": result.case.implementation, "metric": result.metric,
        "status": result.status, "host": run.machine.host, "plan": run.plan.name,
    }
    return {facts[name]}


def _shown(name: str, run: RunRecord, result: Result, device: Device | None) -> set[str]:
    """The same, to choose from: a case by what tables call it."""
    return {work.label(result.case)} if name == "case" else _facts(name, run, result, device)


def _parameter(name: str, text: str) -> _Test:
    """By the value of a parameter, read as a plan would read it: for each workload in its own unit."""
    specs = {w.name: p for w in work.WORKLOADS.values() if (p := w.param(name)) is not None}
    if not specs:
        names = {p.name for w in work.WORKLOADS.values() for p in w.params}
        raise InputError(f"results have no '{name}'; {nearest(name, names | set(FACTS))}")
    accepted: dict[str, Callable[[object], bool]] = {}
    refused = ""
    for workload, param in specs.items():
        try:
            accepted[workload] = _accepts(param, text)
        except InputError as error:
            refused = str(error)
    if not accepted:
        choices = {choice for param in specs.values() for choice in param.choices}
        raise InputError(f"'{name}' cannot be '{text}'; {nearest(text, choices)}" if choices else refused)

    def test(_run: RunRecord, result: Result, _device: Device | None) -> bool:
        accepts = accepted.get(result.case.workload)
        return accepts is not None and name in result.case.params and accepts(result.case.params[name])

    return test


def _accepts(param: Param, text: str) -> Callable[[object], bool]:
    if param.kind == "list":
        return lambda value: value == param.parse(text)
    if param.kind in ("int", "float") and ".." in text:
        low, _, high = text.partition("..")
        least = units.parse(low.strip(), param.unit) if low.strip() else float("-inf")
        most = units.parse(high.strip(), param.unit) if high.strip() else float("inf")
        return lambda value: isinstance(value, (int, float)) and least <= value <= most
    wanted = [param.parse(part.strip()) for part in text.split(",")]
    return lambda value: value in wanted
