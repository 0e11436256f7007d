"""The result of a search as a file: what `tuning apply` sets, and what `tuning revert` puts back."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from hotlap.core.errors import InputError, MachineError, SchemaError
from hotlap.core.measure import targets
from hotlap.core.record import Device, Record
from hotlap.core.show.table import harmless
from hotlap.core.store.toml import pairs, quoted
from hotlap.tuning import restoring
from hotlap.tuning.applying import Applied, filled
from hotlap.tuning.record import TuningKept

RUN, VARIABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*"), re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
    command: list[str] = []  # with its placeholders
    environment: dict[str, str] = {}
    arguments: dict[str, str] = {}
    prefix: list[str] = []
    files: dict[str, str] = {}
    load: dict[str, str] = {}  # of a server's client


def of(kept: TuningKept, run: str, target: str, means: Applied, words: Sequence[str]) -> TunedFile | None:
    """None where no gain was confirmed. `means`: what the winner sets; arguments of all placeholders. `words`: of the command."""
    done = kept.outcome
    if done is None or done.answer != "gain" or kept.device is None or done.ratio is None or done.low is None or done.high is None:
        return None
    return TunedFile(
        run=run, subject=kept.asked.subject, goal=kept.asked.goal, device=kept.device.key, name=kept.device.name, target=target,
        ratio=done.ratio, low=done.low, high=done.high, versions=kept.versions, command=list(words),
        environment=dict(means.environment), arguments=dict(means.arguments), prefix=list(means.prefix), files=dict(means.files),
        load=dict(means.load),
    )  # fmt: skip


def toml(tuned: TunedFile) -> str:
    """As a file."""
    values = msgspec.to_builtins(tuned)
    plain = {name: value for name, value in values.items() if not isinstance(value, dict)}
    tables = {name: value for name, value in values.items() if isinstance(value, dict) and value}
    lines = ["# hotlap tuning apply FILE sets it, hotlap tuning revert FILE puts back what stood before"]
    lines += pairs(plain)
    for name, table in tables.items():
        lines += ["", f"[{name}]", *quoted(table)]
    return "\n".join(lines) + "\n"


def read(path: str) -> TunedFile:
    """Raises InputError for a file that cannot be read or is none: it may come from elsewhere, and a shell runs what is made of it."""
    try:
        tuned = msgspec.convert(tomllib.loads(Path(path).read_text("utf-8")), TunedFile)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; give what tuning run --out wrote") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SchemaError(f"{path} is no result of tuning run --out: {error}") from None
    for what, valid, names in (("a run", RUN, [tuned.run]), ("a variable", VARIABLE, tuned.environment)):
        if bad := [name for name in names if not valid.fullmatch(name)]:
            raise SchemaError(f"{path} is no result of tuning run --out: '{harmless(bad[0])}' is no name of {what}")
    return tuned


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
    """Where what its files held before lies, while it is applied; beside it, for good, variables as they were."""
    return home / "tuning-applied" / f"{tuned.run}.json"


def apply(tuned: TunedFile, home: Path) -> list[str]:
    """Writes its files, where it is not applied yet, and returns lines of shell for the rest. Raises InputError where another result holds
    one of these files, MachineError."""
    place = note(home, tuned)
    if not place.exists():
        _write(tuned, place)
    return [*(f"export {name}={shlex.quote(value)}" for name, value in tuned.environment.items()), *command(tuned)]


def _write(tuned: TunedFile, place: Path) -> None:
    before = [restoring.as_found(path) for path in tuned.files]
    for other in sorted(place.parent.glob("*.json")):
        if both := {one.path for one in before} & {one.path for one in restoring.held(other)}:
            raise InputError(f"'{min(both)}' is set by the result of {other.stem}, which is applied: put it back first, by tuning revert")
    restoring.keep(place.with_suffix(".variables"), {name: os.environ.get(name) for name in tuned.environment})
    restoring.keep(place, before)
    try:
        for path, content in tuned.files.items():
            restoring.write(path, content)
    except BaseException:
        restoring.mend(place)
        raise


def command(tuned: TunedFile) -> list[str]:
    """The tuned command, where a command line was tuned by its words, and the load of a server's client; as comments."""
    words = [*tuned.prefix, *filled(tuned.command, tuned.arguments)] if tuned.arguments or tuned.prefix else []
    texts = [shlex.join(words)] * bool(words) + [f"load: {key} = {value}" for key, value in tuned.load.items()]
    return [f"# {line}" for text in texts for line in text.splitlines()]


def revert(tuned: TunedFile, home: Path) -> list[str]:
    """Puts files back, where they are not yet, and returns lines of shell for the rest. Raises InputError where it was never applied,
    MachineError."""
    place = note(home, tuned)
    try:
        before = msgspec.json.decode(place.with_suffix(".variables").read_bytes(), type=dict[str, str | None])
    except FileNotFoundError:
        raise InputError("it is not applied here: there is nothing to put back") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise MachineError(f"variables as they were cannot be read from '{place.with_suffix('.variables')}': {error}") from None
    restoring.mend(place)
    return [
        f"unset {name}" if (value := before.get(name)) is None else f"export {name}={shlex.quote(value)}" for name in tuned.environment
    ]  # fmt: skip
