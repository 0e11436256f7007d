"""Users' kernels, kept under HOTLAP_HOME/kernels: a folder each, with a folder for each revision of its files.

    kernels/NAME/kernel.json      what it is: written whole, then renamed
    kernels/NAME/REVISION/…       its files as they were added; REVISION hashes their content
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from hotlap.core.errors import InputError, MachineError, nearest
from hotlap.core.record import Case, Record, Value
from hotlap.core.work import base, find, traits
from hotlap.core.work.program import KERNEL
from hotlap.kernels.cost import evaluate

FILE = "kernel.json"
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
Kind = Literal["python", "opencl", "cuda", "library"]
KINDS: Mapping[str, Kind] = {".py": "python", ".cl": "opencl", ".cu": "cuda", ".so": "library"}
RUNS_ON: Mapping[Kind, str] = {"python": "torch", "library": "torch:cpu", "opencl": "opencl", "cuda": "cuda"}


class KernelSetting(Record, frozen=True, kw_only=True):
    """One parameter of a kernel that is a workload of its own; its type is that of its default."""

    name: str
    default: Value
    about: str = ""
    choices: list[str] = []


class Revision(Record, frozen=True, kw_only=True):
    """Files as they were added at a time."""

    hash: str
    added: str  # UTC, ISO 8601
    files: list[str] = []  # from where


class KeptKernel(Record, frozen=True, kw_only=True):
    """A user's kernel, as its file describes it: what it implements or takes, and what it costs."""

    name: str
    kind: Kind
    file: str  # the name of the one that was added
    about: str = ""
    workload: str = ""  # that it implements; "" is one of its own
    only: dict[str, list[Value]] = {}  # parameters of that workload that it can do; those not named: all
    settings: list[KernelSetting] = []  # of a workload of its own
    read_bytes: str = ""  # expressions over the settings
    written_bytes: str = ""
    operations: str = ""
    unit_of_arithmetic: str = ""
    cases: list[dict[str, Value]] = []  # worth measuring where none are named
    table: dict[str, object] = {}  # how to launch it, of kinds but Python
    revisions: list[Revision] = []  # oldest first; the last one is used

    @property
    def revision(self) -> str:
        return self.revisions[-1].hash if self.revisions else ""


def folder(home: Path) -> Path:
    return home / "kernels"


def names(home: Path) -> list[str]:
    try:
        return sorted(one.name for one in os.scandir(folder(home)) if one.is_dir() and (Path(one.path) / FILE).is_file())
    except OSError:
        return []


def load(name: str, home: Path) -> KeptKernel:
    """Raises InputError for one that is not kept, or whose description cannot be read."""
    path = folder(home) / name / FILE
    if not NAME.fullmatch(name) or not path.is_file():
        first = f"it is a file: hotlap kernel add {name} first, which names the kernel" if Path(name).is_file() else ""
        hint = first or nearest(name, names(home)) or "none is kept yet: hotlap kernel add FILE"
        raise InputError(f"there is no kernel '{name}'; {hint}")
    try:
        return msgspec.json.decode(path.read_bytes(), type=KeptKernel)
    except (msgspec.MsgspecError, OSError) as error:
        raise InputError(f"{path} cannot be read ({error}); add the kernel again") from None


def kept(home: Path) -> list[KeptKernel]:
    """All that can be read, by name."""
    kernels = []
    for name in names(home):
        try:
            kernels.append(load(name, home))
        except InputError:
            continue
    return kernels


def refuse_target(kernel: KeptKernel, target: str) -> None:
    """Raises InputError, before anything is opened, for a target on which no kernel of this kind runs; "": its own. What is simulated
    has no driver to look for, and says in each result that it runs none."""
    wanted, here = RUNS_ON[kernel.kind], target.partition("?")[0]
    family, place = here.partition(":")[::2]
    elsewhere = family != wanted.partition(":")[0] or (wanted == "torch:cpu" and place not in ("", "cpu"))
    if family not in ("", "simulated") and elsewhere:
        raise InputError(f"the kernel {kernel.name} ({kernel.file}) runs on the target {wanted}, not on {here}; leave --target out")


def announce(home: Path) -> None:
    """Lets plans name kernels as implementations of the workloads that they implement."""
    by_workload: dict[str, list[str]] = {}
    for one in kept(home):
        if one.workload:
            by_workload.setdefault(one.workload, []).append(one.name)
    base.ADDED.clear()
    base.ADDED.update({workload: tuple(members) for workload, members in by_workload.items()})


def hashed(files: Sequence[Path]) -> str:
    """12 hex digits of the content and names of files."""
    found = hashlib.sha256()
    for path in sorted(files, key=lambda one: one.name):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:12]


def keep(kernel: KeptKernel, files: Sequence[Path], home: Path) -> KeptKernel:
    """Copies the files as the kernel's latest revision; what was kept before stays. Raises InputError and MachineError."""
    if not NAME.fullmatch(kernel.name):
        raise InputError(f"'{kernel.name}' is no name for a kernel: a letter, then letters, digits, - and _, 40 at most, all small")
    own, now = folder(home) / kernel.name, datetime.now(UTC).isoformat(timespec="seconds")
    before = load(kernel.name, home).revisions if (own / FILE).is_file() else []
    this = hashed(files)
    places = [str(path.absolute()) for path in files]
    revisions = [*(one for one in before if one.hash != this), Revision(hash=this, added=now, files=places)]
    saved = msgspec.structs.replace(kernel, revisions=revisions)
    try:
        (own / this).mkdir(parents=True, exist_ok=True)
        for path in files:
            shutil.copyfile(path, own / this / path.name)
        fresh = own / f"{FILE}.new"
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(saved)))
        os.replace(fresh, own / FILE)
    except OSError as error:
        raise MachineError(f"the kernel cannot be kept in '{own}': {error.strerror or error}") from None
    return saved


def remove(name: str, home: Path) -> KeptKernel:
    """Forgets a kernel and all its revisions; runs that measured it stay. Raises InputError and MachineError."""
    found = load(name, home)
    try:
        shutil.rmtree(folder(home) / name)
    except OSError as error:
        raise MachineError(f"the kernel '{name}' cannot be removed: {error.strerror or error}") from None
    return found


def changed(kernel: KeptKernel) -> bool:
    """Whether the files that were added are there and hold something else by now."""
    files = [Path(file) for revision in kernel.revisions[-1:] for file in revision.files]
    try:
        return bool(files) and hashed(files) != kernel.revision
    except OSError:
        return False


def path(kernel: KeptKernel, home: Path) -> Path:
    """The file of its latest revision."""
    return folder(home) / kernel.name / kernel.revision / kernel.file


def used(cases: Sequence[Case], home: Path) -> dict[str, str]:
    """Name → revision, of the kernels that cases name; what is no longer kept is left out."""
    wanted = {kernel_of(case) for case in cases} - {""}
    return {one.name: one.revision for one in kept(home) if one.name in wanted} if wanted else {}


def kernel_of(case: Case) -> str:
    """The name of the user's kernel that a case runs; "" where it is one of ours."""
    if traits(case.workload).source == "user kernel":
        return str(case.params.get("name", ""))
    return case.implementation if case.implementation not in ("", *find(case.workload).implementations) else ""


# ---------------------------------------------------------------- cases


def case(kernel: KeptKernel, given: Mapping[str, object]) -> Case:
    """One case of a kernel: of the workload that it implements, or of its own with its cost worked out. Raises InputError."""
    if kernel.workload:
        spec = find(kernel.workload)
        picked = {name: values[0] for name, values in kernel.only.items() if name not in given}
        made = Case(workload=spec.name, params=spec.parse({**picked, **given}), implementation=kernel.name)
        if reason := refused(kernel, made):
            raise InputError(reason)
        return made
    values = settings(kernel, given)
    words = [f"{name}={_written(value)}" for name, value in values.items()]
    cost = {
        "bytes": kernel.read_bytes, "bytes_written": kernel.written_bytes, "operations": kernel.operations,
    }  # fmt: skip
    numbers = {name: evaluate(text, values) for name, text in cost.items() if text}
    unit = {"unit_of_arithmetic": _unit(kernel.unit_of_arithmetic, values)} if kernel.operations else {}
    return KERNEL.case({"name": kernel.name, "settings": words, **numbers, **unit})


def _unit(text: str, values: Mapping[str, Value]) -> str:
    """`fma.{dtype}` with the settings filled in."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def _written(value: Value) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def settings(kernel: KeptKernel, given: Mapping[str, object]) -> dict[str, Value]:
    """Complete settings of a workload of its own, typed as their defaults. Raises InputError."""
    known = {one.name: one for one in kernel.settings}
    for name in given:
        if name not in known:
            raise InputError(f"the kernel {kernel.name} has no parameter '{name}'; {nearest(name, known)}")
    return {name: _param(one).parse(given.get(name, one.default)) for name, one in known.items()}


def _param(setting: KernelSetting) -> base.Param:
    kinds: dict[type, Literal["int", "float", "str", "bool", "list"]] = {bool: "bool", int: "int", float: "float", str: "str", list: "list"}
    choices = tuple(setting.choices)
    if setting.name == "dtype":  # sizes and errors are by it
        choices = choices or tuple(base.DTYPES)
        for name in choices:
            if name not in base.DTYPES:
                raise InputError(f"there is no dtype '{name}'; {nearest(name, base.DTYPES)}; parameters of other types: another name")
    return base.Param(setting.name, kinds[type(setting.default)], setting.about, setting.default, choices=choices)


def refused(kernel: KeptKernel, wanted: Case) -> str:
    """Why the kernel does not do a case of the workload that it implements; "" where it does."""
    full = find(wanted.workload).full(wanted.params)
    for name, values in kernel.only.items():
        if full.get(name) not in values:
            return f"the kernel {kernel.name} does {name} = {', '.join(map(str, values))}, not {full.get(name)}"
    return ""
