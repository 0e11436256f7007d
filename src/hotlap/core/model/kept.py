"""Which of the calibrations kept under the home is used: read, one line where it is damaged."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hotlap.core.errors import InputError, nearest
from hotlap.core.model import calibration_text, machines
from hotlap.core.model.calibration import Calibration
from hotlap.core.store import calibrations as store
from hotlap.core.store import paths
from hotlap.core.store.bundle import Bundle


def place() -> Path:
    """The home, which is not made for reading."""
    try:
        return paths.place(os.environ, sys.platform)
    except RuntimeError:  # the user's data folder is not known: nothing can be kept there
        return Path(os.devnull)


def load(name: str, home: Path) -> Calibration:
    """By name. Raises InputError where there is none, SchemaError for one that cannot be read."""
    text = store.find(name, home) if name in store.names(home) else None
    if text is None:
        have = nearest(name, store.names(home)) or "none is kept: hotlap model calibrate measures one"
        raise InputError(f"there is no calibration '{name}'; {have}")
    return calibration_text.read(text, str(store.path(name, home)))


def chosen(machine: str, name: str, spec_only: bool, home: Path) -> Calibration | None:
    """Of a machine of the table: the one named, else its own; None where it has none or it is not wanted. An imagined machine takes its
    original's, so that both stand to their figures alike."""
    if spec_only and name:
        raise InputError(f"published figures only and the calibration '{name}' do not go together; give one of them")
    spec = machines.load(machine)
    have = store.names(home)
    slug = spec.slug if name or spec.slug in have else spec.table_slug
    if spec_only or (not name and slug not in have):
        return None
    found = load(name or slug, home)
    if found.machine not in (spec.slug, spec.table_slug):
        raise InputError(f"the calibration '{name or slug}' is of {found.machine}, not of {slug}; valid: the machine {found.machine}")
    return found


def of(bundle: Bundle, home: Path) -> dict[str, Calibration]:
    """By device of a run: of that machine, learnt from another run, for what was learnt from a run explains nothing of it. None of
    simulated GPUs, whose options change what they are."""
    calibrations = {}
    for device in bundle.run.machine.devices:
        if device.target == "simulated" or device.stand_in:
            continue
        name = store.name_of(device.machine or machines.recognise(device), device.target)
        if name in store.names(home) and (one := load(name, home)).run != bundle.run.id:
            calibrations[device.key] = one
    return calibrations
