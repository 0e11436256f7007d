"""Calibrations under the home: one TOML file per machine, as text."""

from __future__ import annotations

from pathlib import Path

from hotlap.core.errors import InputError, MachineError, SchemaError, nearest
from hotlap.core.store import files

FOLDER = "calibrations"


def name_of(machine: str, target: str) -> str:
    """What the calibration of a machine is called; a simulated GPU's stands apart, so that it never passes for the real one's."""
    return f"simulated-{machine}" if target == "simulated" else machine


def path(name: str, home: Path) -> Path:
    """Where a calibration is kept, there or not."""
    return home / FOLDER / f"{name}.toml"


def save(name: str, text: str, home: Path) -> Path:
    """Writes it whole, in place of an older one. Raises MachineError."""
    to = path(name, home)
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(to, text.encode())
    except OSError as error:
        raise MachineError(f"the calibration '{to}' cannot be written: {error.strerror or error}; nothing was changed") from None
    return to


def find(name: str, home: Path) -> str | None:
    """The text of a calibration; None where there is none. Raises MachineError, SchemaError."""
    try:
        return path(name, home).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise SchemaError(f"{path(name, home)}: not a calibration that can be read: it is no text; measure it again or remove it") from None
    except OSError as error:
        raise MachineError(f"'{path(name, home)}' cannot be read: {error.strerror or error}") from None


def names(home: Path) -> list[str]:
    """Of all that are kept, sorted."""
    return sorted(one.stem for one in (home / FOLDER).glob("*.toml"))


def forget(name: str, home: Path) -> Path:
    """Removes it. Raises InputError where there is none of this name."""
    have = names(home)
    if name not in have:
        raise InputError(f"there is no calibration '{name}'; {nearest(name, have) or 'none is kept: hotlap model calibrate measures one'}")
    path(name, home).unlink()
    return path(name, home)
