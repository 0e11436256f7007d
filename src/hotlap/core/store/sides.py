"""Runs by what a release is called: a revision, the value of a label, the version of a library or driver, a run, or a date."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from hotlap.core.errors import HotlapError, InputError, nearest
from hotlap.core.record import RunRecord
from hotlap.core.store import bundle as bundles
from hotlap.core.store import select

if TYPE_CHECKING:
    from hotlap.core.store.catalog import Catalog, Entry

REVISIONS = ("revision", "commit", "git")  # labels that name the code's revision, of a run the first that is there
OWN = ("device", "host", "machine", "plan", "target", "workload")  # tags of the catalog that are no labels
SHORTEST = 4  # characters that may stand for a longer revision
VALID = "a revision, a label's value or label=value, a version or library=version, a run, or a date"


def entries(name: str, home: Path) -> tuple[str, list[Entry]]:
    """What `name` was taken for, in words, and its runs. Raises InputError: what is valid, what is near, what it could mean."""
    text = name.strip()
    if not text:
        raise InputError(f"an empty name; give {VALID}")
    if "=" in text and not text.startswith(("/", ".")):
        return _pair(text, home)
    tags = _tags(home)
    for found in (_labelled(text, tags), _begun(text, tags)):
        if found:
            label, value = found
            return f"{label} {value}", select.entries([f"{label}={value}"], home)
    try:
        return text, select.entries([text], home)
    except InputError:
        versions = _versions(home, lambda _, version: version == text)
        if versions:
            return _one(text, versions)
    known = {value for label, values in tags.items() if label not in OWN for value in values}
    raise InputError(f"no run is of '{text}'; {nearest(text, known) or 'none has a label'}; a side is {VALID}")


def _pair(text: str, home: Path) -> tuple[str, list[Entry]]:
    """label=value, else library=version; several labels with commas."""
    name, _, value = text.partition("=")
    if name not in _tags(home):
        has = _versions(home, lambda library, _: library == name)
        if (name, value) in has:
            return f"{name} {value}", has[name, value]
        if has:
            raise InputError(f"no run was made with {name} {value}; {nearest(value, {version for _, version in has})}")
    return text.replace("=", " "), select.entries([text], home)


def _labelled(value: str, tags: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """The label that has this value, revisions first. Raises InputError where several others do."""
    has = [label for label, values in tags.items() if label not in OWN and value in values]
    first = next((label for label in REVISIONS if label in has), "")
    if not first and len(has) > 1:
        raise InputError(f"'{value}' is a value of the labels {', '.join(has)}; say which, as in {has[0]}={value}")
    label = first or (has[0] if has else "")
    return (label, value) if label else None


def _begun(text: str, tags: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """The one revision that begins so, or that what was given begins with: commits are cut at many lengths."""
    if len(text) < SHORTEST:
        return None
    has = [
        (label, value) for label in REVISIONS for value in tags.get(label, ())
        if value.startswith(text) or (len(value) >= SHORTEST and text.startswith(value))
    ]
    if len(has) > 1:
        raise InputError(f"'{text}' begins {len(has)} revisions; write more of it: {', '.join(value for _, value in has[:5])}")
    return has[0] if has else None


def _one(text: str, by_side: Mapping[tuple[str, str], list[Entry]]) -> tuple[str, list[Entry]]:
    if len(by_side) > 1:
        names = [f"{library}={version}" for library, version in by_side]
        raise InputError(f"'{text}' is the version of several; say which: {', '.join(names)}")
    ((library, version), runs) = next(iter(by_side.items()))
    return f"{library} {version}", runs


def _versions(home: Path, fits: Callable[[str, str], bool]) -> dict[tuple[str, str], list[Entry]]:
    """Runs by library, or driver, and version; every run.json is read for it."""
    by_version: dict[tuple[str, str], list[Entry]] = {}
    for entry in select.entries([], home):
        try:
            run = bundles.read_run(entry.path)
        except HotlapError:  # such a run is named where it is read as a whole
            continue
        for one in sorted(_software(run)):
            if fits(*one):
                by_version.setdefault(one, []).append(entry)
    return by_version


def _software(run: RunRecord) -> set[tuple[str, str]]:
    drivers = {("driver", device.driver) for device in run.machine.devices if device.key in run.devices and device.driver}
    return {*run.machine.software.items(), ("hotlap", run.hotlap), *drivers}


def _tags(home: Path) -> dict[str, list[str]]:
    with closing(_catalog(home)) as catalog:
        catalog.find(newest=1)  # takes in what came since
        return catalog.tags()


def _catalog(home: Path) -> Catalog:
    from hotlap.core.store.catalog import Catalog  # sqlite3 is loaded when a run is looked for, not before

    return Catalog(home)
