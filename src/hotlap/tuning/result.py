"""The result of a search as a file: what `tuning apply` sets, and what `tuning revert` puts back."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from hotlap.core.errors import InputError, SchemaError
from hotlap.core.measure import targets
from hotlap.core.record import Device, Record
from hotlap.tuning import restoring
from hotlap.tuning.applying import Applied, filled
from hotlap.tuning.record import TuningKept


class TunedFile(Record, frozen=True, kw_only=True):
    """What a result file holds. Ratios are of costs, tuned ÷ as found."""

    run: str
    subject: str
    goal: str
    device: str  # its key
    name: str = ""
    target: str = "host"
    ratio: float
    low: float
    high: float
    versions: dict[str, str]
    environment: dict[str, str] = {}
    arguments: dict[str, str] = {}
    prefix: list[str] = []
    files: dict[str, str] = {}


def of(kept: TuningKept, run: str, target: str, means: Applied) -> TunedFile | None:
    """None where no gain was confirmed. `means`: what the winner sets; arguments of all placeholders."""
    done = kept.outcome
    if done is None or done.answer != "gain" or kept.device is None or done.ratio is None or done.low is None or done.high is None:
        return None
    return TunedFile(
        run=run, subject=kept.asked.subject, goal=kept.asked.goal, device=kept.device.key, name=kept.device.name, target=target,
        ratio=done.ratio, low=done.low, high=done.high, versions=kept.versions, environment=dict(means.environment),
        arguments=dict(means.arguments), prefix=list(means.prefix), files=dict(means.files),
    )  # fmt: skip


def toml(tuned: TunedFile) -> str:
    """As a file: strings and numbers as JSON writes them are TOML too."""
    values = msgspec.to_builtins(tuned)
    plain = {name: value for name, value in values.items() if not isinstance(value, dict)}
    tables = {name: value for name, value in values.items() if isinstance(value, dict) and value}
    lines = ["# hotlap tuning apply FILE sets it, hotlap tuning revert FILE puts back what stood before"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in plain.items()]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def read(path: str) -> TunedFile:
    """Raises InputError for a file that cannot be read or is none."""
    try:
        return msgspec.convert(tomllib.loads(Path(path).read_text("utf-8")), TunedFile)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; give what tuning run --out wrote") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SchemaError(f"{path} is no result of tuning run --out: {error}") from None


def check(tuned: TunedFile, here: Sequence[Device], versions: Mapping[str, str]) -> None:
    """Raises InputError where it is of another device or version."""
    if tuned.device not in {device.key for device in here}:
        raise InputError(f"it is of another device, {tuned.name or tuned.device}: search here with hotlap tuning run")
    for name, version in tuned.versions.items():
        if versions.get(name) != version:
            now = f"{name} {versions[name]} is here" if name in versions else f"{name} is not here"
            raise InputError(f"it is of {name} {version}, and {now}: a gain may be lost with another version; search anew")


def devices(tuned: TunedFile) -> list[Device]:
    """Those here of its target."""
    return targets.find(targets.parse(tuned.target))


def note(home: Path, tuned: TunedFile) -> Path:
    """Where what stood before lies."""
    return home / "tuning-applied" / f"{tuned.run}.json"


def apply(tuned: TunedFile, home: Path) -> list[str]:
    """Writes its files and returns lines of shell for the rest. Raises InputError where it stands already, MachineError."""
    place = note(home, tuned)
    if place.exists():
        raise InputError(f"it is applied already: hotlap tuning revert puts back what stood before ({place})")
    restoring.keep(place, [restoring.as_found(path) for path in tuned.files])
    try:
        for path, content in tuned.files.items():
            restoring.write(path, content)
    except BaseException:
        restoring.mend(place)
        raise
    return [*(f"export {name}={shlex.quote(value)}" for name, value in tuned.environment.items()), *command(tuned)]


def command(tuned: TunedFile) -> list[str]:
    """The tuned command, where a command line was tuned by its words; as a comment."""
    if not (tuned.arguments or tuned.prefix):
        return []
    return [f"# {shlex.join([*tuned.prefix, *filled(shlex.split(tuned.subject), tuned.arguments)])}"]


def revert(tuned: TunedFile, home: Path) -> list[str]:
    """Puts files back and returns lines of shell for the rest. Raises InputError where it was not applied, MachineError."""
    place = note(home, tuned)
    if not place.exists():
        raise InputError("it is not applied here: there is nothing to put back")
    restoring.mend(place)
    return [f"unset {name}" for name in tuned.environment]
