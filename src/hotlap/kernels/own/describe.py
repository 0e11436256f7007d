"""What a kernel's file says of itself, in a process of its own: a file that crashes or hangs takes nothing with it."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hotlap.core.errors import InputError, NotSupported, nearest
from hotlap.core.measure.workloads import operators
from hotlap.core.record import Value
from hotlap.core.work import find
from hotlap.kernels import kept as kernels
from hotlap.kernels.cost import evaluate
from hotlap.kernels.own import signatures
from hotlap.kernels.own.needed import family
from hotlap.kernels.own.python import module

KEYS = (
    "name", "about", "workload", "only", "params", "read_bytes", "written_bytes", "operations", "unit_of_arithmetic", "cases",
    "inputs", "outputs", "writes", "arguments", "function", "items", "group", "defines", "options", "reference", "terms",
)  # fmt: skip
HEADER = re.compile(r"^\s*//:( ?)(.*)$")


def describe(path: Path) -> kernels.KeptKernel:
    """Raises InputError: what is wrong, what is valid."""
    kind = kernels.KINDS.get(path.suffix)
    if kind is None:
        raise InputError(f"'{path.name}' is no kernel; valid: {', '.join(kernels.KINDS)}, or the CSV of the CUTLASS profiler")
    return _python(path) if kind == "python" else _table(path, kind)


def launched(path: Path) -> tuple[str, int] | None:
    """The function that a source's heading launches, and the work-items of a group; None where it has none, or no plain number."""
    beside = path.with_suffix(".toml")
    text = beside.read_text("utf-8") if beside.is_file() else _heading(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    function, group = document.get("function", path.stem), document.get("group")
    return (str(function), group) if isinstance(group, int) and group > 0 else None


def _heading(path: Path) -> str:
    """The TOML in the lines that begin with //: of a source."""
    lines = [head for line in path.read_text("utf-8", errors="replace").splitlines() if (head := HEADER.match(line))]
    return "\n".join(line[2] for line in lines)


def files(path: Path) -> list[Path]:
    """What belongs to it: the file, and the TOML beside it."""
    beside = path.with_suffix(".toml")
    return [path, beside] if path.suffix != ".py" and beside.is_file() else [path]


def _python(path: Path) -> kernels.KeptKernel:
    code = module(path, "described")
    values = {key: getattr(code, key) for key in KEYS if hasattr(code, key)}
    _callable(path, code, "launch", "launch(inputs, params), which returns the outputs")
    if not values.get("workload"):
        _callable(path, code, "inputs", "inputs(make, params), which returns tensors by name, or 'workload', the one it implements")
        _callable(path, code, "reference", "reference(inputs, params), which returns what is right, from inputs in fp64")
    values.setdefault("about", (code.__doc__ or "").strip().split("\n")[0])
    return _made(path, "python", values, {})


def _callable(path: Path, code: Any, name: str, what: str) -> None:
    if not callable(getattr(code, name, None)):
        raise InputError(f"{path.name} has no function {what}")


def _table(path: Path, kind: kernels.Kind) -> kernels.KeptKernel:
    beside = path.with_suffix(".toml")
    if beside.is_file():
        text, where = beside.read_text("utf-8"), beside.name
    elif kind == "library":
        raise InputError(f"{path.name} needs {beside.name} beside it, which says how to launch it; see docs/own-kernels.md")
    else:
        text, where = _heading(path), f"the lines of {path.name} that begin with //:"
    if not text.strip():
        missing = f"{path.name} does not say how to launch it: TOML in lines that begin with //:, or in {beside.name}"
        raise InputError(f"{missing}; hotlap kernel new {path.name} [--like WORKLOAD] writes them from its signature")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where}: not valid TOML: {error}") from None
    for key in document:
        if key not in KEYS:
            raise InputError(f"{where}: there is no key '{key}'; {nearest(key, KEYS)}")
    left = "outputs" if "writes" not in document else "writes"  # one of them says what it leaves
    for key in (left, "arguments", *(() if document.get("workload") else ("inputs", "reference"))):
        if key not in document:
            raise InputError(f"{where}: '{key}' is missing; see docs/own-kernels.md")
    _arguments(path, document)
    return _made(path, kind, document, {key: document[key] for key in document if key in KEYS[10:]})


def _arguments(path: Path, document: Mapping[str, Any]) -> None:
    """Raises InputError where the function takes more or fewer; nothing where its signature cannot be read."""
    wanted, given = document.get("function", path.stem), document["arguments"]
    if path.suffix == ".so" or not isinstance(given, list):
        return
    text = signatures.COMMENT.sub(" ", path.read_text("utf-8", errors="replace"))
    found = next((one for one in signatures.SIGNATURE.finditer(text) if one[1] == wanted), None)
    taken = signatures.arguments(found[2]) if found else []
    if found and len(taken) != len(given):
        names = ", ".join(one.name for one in taken)
        lists = f"{wanted} takes {len(taken)} arguments ({names}), and 'arguments' lists {len(given)}"
        raise InputError(f"{path.name}: {lists}; give each of them, in order")


def _made(path: Path, kind: kernels.Kind, document: Mapping[str, Any], table: dict[str, object]) -> kernels.KeptKernel:
    workload = str(document.get("workload", ""))
    if workload and workload not in operators.FAMILIES:
        raise InputError(f"{path.name}: {family(workload)}")
    name = str(document.get("name", "")) or re.sub(r"[^a-z0-9_-]+", "-", path.stem.lower()).strip("-_")
    kernel = kernels.KeptKernel(
        name=name, kind=kind, file=path.name, about=str(document.get("about", ""))[:200], workload=workload,
        only=_only(path, workload, document.get("only", {})), settings=_settings(path, document.get("params", {})),
        read_bytes=str(document.get("read_bytes", "")), written_bytes=str(document.get("written_bytes", "")),
        operations=str(document.get("operations", "")), unit_of_arithmetic=str(document.get("unit_of_arithmetic", "")),
        cases=[dict(one) for one in document.get("cases", [])], table=table,
    )  # fmt: skip
    own: list[dict[str, Value]] = [] if workload else [{}]
    for one in kernel.cases or own:
        kernels.case(kernel, one)  # its cost can be worked out, and its cases are valid
        if not workload:
            evaluate(document.get("terms", 1), kernels.settings(kernel, one))
    if workload and table:
        _sizes(kernel, find(workload).parse({**{name: values[0] for name, values in kernel.only.items()}, **(kernel.cases or [{}])[0]}))
    return kernel


def _sizes(kernel: kernels.KeptKernel, params: Mapping[str, Value]) -> None:
    """Raises InputError where a size names no parameter of the workload, as the guess from a signature may."""
    outputs, listed = kernel.table.get("outputs"), kernel.table.get("arguments")
    shapes = [one.get("shape") for one in outputs.values() if isinstance(one, Mapping)] if isinstance(outputs, Mapping) else []
    numbers = [str(one).rpartition(":")[0] for one in listed if ":" in str(one)] if isinstance(listed, list) else []
    for size in [*(size for shape in shapes if isinstance(shape, list) for size in shape), *numbers, kernel.table.get("items", 1)]:
        if isinstance(size, (str, int, float)):
            try:
                evaluate(size, params)
            except InputError as error:
                raise InputError(f"{kernel.file}: {error}; it implements {kernel.workload}: correct its heading") from None


def _only(path: Path, workload: str, given: object) -> dict[str, list[Value]]:
    if not isinstance(given, Mapping):
        raise InputError(f"{path.name}: 'only' is a table of the parameters it can do, as in only = {{ op = 'softmax' }}")
    choices = {}
    for key, values in given.items():
        param = find(workload).param(str(key)) if workload else None
        if param is None:
            names = [p.name for p in find(workload).params] if workload else []
            said = f"'only' names '{key}', which is no parameter of {workload or 'a workload'}"
            raise InputError(f"{path.name}: {said}; {nearest(str(key), names)}")
        choices[str(key)] = [param.parse(one) for one in (values if isinstance(values, (list, tuple)) else [values])]
    return choices


def _settings(path: Path, given: object) -> list[kernels.KernelSetting]:
    if not isinstance(given, Mapping):
        raise InputError(f"{path.name}: 'params' is a table of parameters with their defaults, as in params = {{ n = 1024 }}")
    return [_setting(path, str(name), one) for name, one in given.items()]


def _setting(path: Path, name: str, given: object) -> kernels.KernelSetting:
    table: Mapping[str, Any] = given if isinstance(given, Mapping) else {"default": given}
    default = table.get("default")
    if not isinstance(default, (bool, int, float, str)):
        raise InputError(f"{path.name}: the parameter '{name}' needs a default: a number, a word, true or false")
    choices = [str(one) for one in table.get("choices", [])]
    return kernels.KernelSetting(name=name, default=default, about=str(table.get("about", "")), choices=choices)


def main() -> int:
    """Describes the file named by the first argument: JSON to what was standard output, which the file itself cannot reach."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        answer.write(msgspec.json.encode(describe(Path(sys.argv[1]))))
    except (InputError, NotSupported) as error:
        answer.write(msgspec.json.encode({"wrong": str(error), "is_missing": isinstance(error, NotSupported)}))
        answer.flush()
        return 2
    answer.flush()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # threads and exit handlers of the file have no say
