"""The `//:` lines of a kernel in OpenCL C or CUDA C++, guessed from its signature: a start for its author, who knows better."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from hotlap.core.errors import InputError
from hotlap.core.measure.workloads import operators
from hotlap.core.work import find
from hotlap.core.work.base import Param, Workload
from hotlap.kernels.own import needed, products, signatures
from hotlap.kernels.own.signatures import DTYPES, SCALARS, Argument, listed

SUFFIXES = (".cl", ".cu")
HINT = "# guessed from the signature: hotlap kernel check says what is wrong; keys: docs/own-kernels.md"
ROWS = ("rows", "m", "n", "tokens", "batch", "size", "count", "elements")  # what a work-item is likely to take
GROUP = 64  # work-items of a group
LEAST_GROUP, MOST_GROUP = 32, 1024  # that an array may say
BOUNDS = re.compile(r"(?:__launch_bounds__|reqd_work_group_size)\s*\(\s*(\d+)[\s,)]")
SHARED = re.compile(r"(?:__shared__|__local|\blocal)\s+\w+\s+\w+\s*\[\s*(\d+)\s*\](?!\s*\[)")  # of one dimension
GROUPED = re.compile(r"get_group_id\(0\)|blockIdx\.x")  # a group takes a row
ITEMWISE = re.compile(r"get_global_id\(0\)|blockDim\.x\s*\*\s*blockIdx\.x|blockIdx\.x\s*\*\s*blockDim\.x")
LOOP = re.compile(r"for\s*\([^;]*;[^;]*?<\s*(\w+)[^;]*;[^)]*\)")
SUMS = re.compile(r"\w\s*\+=|\bfmaf?\s*\(|\bmad\s*\(")
EPSILON = "1e-5"  # that norms of the workload add to the variance
SKELETON = {
    ".cl": "__kernel void {name}({inputs}, __global float *out, {sizes})\n{{\n    int i = get_global_id(0);\n}}\n",
    ".cu": '__global__ void {name}({inputs}, float *out, {sizes})\n{{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n}}\n',
}
POINTER = {".cl": "__global const {kind} *{name}", ".cu": "const {kind} *{name}"}
WHOLE = {"int64": {".cl": "long", ".cu": "long long"}, "int32": {".cl": "int", ".cu": "int"}}  # C types of whole numbers


def guessed(path: Path, like: str) -> str:
    """The whole file with its heading. A file that is not there is begun. `like`: the workload that it implements; "": none.

    Raises InputError for another kind of file, one that has a heading, and one without a kernel.
    """
    if path.suffix not in SUFFIXES:
        as_it_is = "a .py file says it in Python: hotlap kernel add FILE.py"
        raise InputError(f"'{path.name}' gets no heading; valid: {', '.join(SUFFIXES)}; {as_it_is}")
    if like and like not in operators.FAMILIES:
        raise InputError(needed.family(like))
    spec = find(like) if like else None
    text = path.read_text("utf-8") if path.exists() else _begun(path, spec)
    if re.search(r"^\s*//:", text, re.MULTILINE):
        raise InputError(f"{path.name} has lines that begin with //: already; take them out for new ones")
    signature = signatures.SIGNATURE.search(signatures.COMMENT.sub(" ", text))
    if signature is None:
        raise InputError(f"{path.name} has no function that begins with '__kernel void' or '__global__ void'")
    arguments = signatures.arguments(signature[2])
    product = products.of(arguments)
    if product is not None and (spec is None or spec.name == products.WORKLOAD):
        lines = [HINT, *products.heading(signature[1], arguments, product, spec)]
    else:
        lines = _heading(path, signature[1], arguments, spec, signatures.COMMENT.sub(" ", text))
    return "\n".join(f"//: {line}" for line in lines) + "\n\n" + text


def _begun(path: Path, spec: Workload | None) -> str:
    if spec and spec.name == products.WORKLOAD:
        return products.SKELETON[path.suffix].format(name=re.sub(r"\W", "_", path.stem))
    sizes = [p.name for p in _extents(spec)] if spec else ["n"]
    name = re.sub(r"\W", "_", path.stem)
    inputs = needed.of_workload(spec.name, _op(path, name, spec)) if spec else {}
    listed = [POINTER[path.suffix].format(name=one, kind=_kind(value, path.suffix)) for one, value in inputs.items()]
    listed = listed or [POINTER[path.suffix].format(name="x", kind="float")]
    return SKELETON[path.suffix].format(name=name, inputs=", ".join(listed), sizes=", ".join(f"int {size}" for size in sizes or ["n"]))


def _kind(kind: str, suffix: str) -> str:
    return WHOLE.get(kind, {suffix: "char"})[suffix] if kind else "float"


def _heading(path: Path, function: str, arguments: Sequence[Argument], spec: Workload | None, code: str) -> list[str]:
    """`code`: the file without its comments."""
    outputs = [one for one in arguments if one.pointer and not one.const]
    inputs = [one for one in arguments if one.pointer and one.const]
    dtype = next((DTYPES[one.kind] for one in [*outputs, *inputs] if one.kind in DTYPES), "fp32")
    sizes = {one.name: _size(one.name, spec) for one in arguments if not one.pointer and one.kind not in ("float", "double")}
    sizes = _strange(sizes, spec, code)
    shape = _shape(list(dict.fromkeys(sizes.values())), spec)
    lines = [HINT]
    if spec:
        op = _op(path, function, spec)
        wanted = list(needed.of_workload(spec.name, op))
        absent = [name for name in wanted if name not in {one.name for one in inputs}] if len(inputs) < len(wanted) else []
        called = _called([one.name for one in inputs], wanted)
        absent = [name for name in absent if name not in called.values()]
        lines += [f"# {line}" for line in [needed.left_out(absent, spec.name, op)] if line]
        arguments = [one._replace(name=called.get(one.name, one.name)) for one in arguments]
    lines += _like(path, function, spec, shape, dtype) if spec else [*_own(inputs, shape, dtype), *_terms(code, shape)]
    dtypes = ', dtype = "dtype"' if spec and spec.param("dtype") else ""
    lines.append(f'function = "{function}"')
    tables = ", ".join(f"{one.name} = {{ shape = {listed(shape)}{dtypes} }}" for one in outputs)
    lines += [f"outputs = {{ {tables} }}"]
    lines += [f"arguments = {listed([_argument(one, sizes) for one in arguments])}"]
    every = [size for size in sizes.values() if size == " * ".join(shape)]
    items = next((size for size in (*every, *ROWS) if size in (*every, *shape)), shape[0])
    grouped = GROUPED.search(code)
    group, why = _group(code)
    last = f"group = {group}{why}"
    if len(shape) > 1 and grouped and not ITEMWISE.search(code):
        return [*lines, f'items = "{items} * {group}"  # a group for each of {items}, by {grouped[0]}', last]
    all_of = items if len(shape) > 1 else " * ".join(shape)
    return [*lines, f'items = "{all_of}"  # work-items in all; whole groups run, so leave out those beyond it', last]


def _group(code: str) -> tuple[int, str]:
    """Work-items of a group, and a comment that says by what: what the kernel declares, or an array that a group shares and that has an
    element for each."""
    for declared in (BOUNDS, SHARED):
        for found in declared.finditer(code):
            if LEAST_GROUP <= int(found[1]) <= MOST_GROUP:
                return int(found[1]), f"  # by {' '.join(found[0].split())}"
    return GROUP, ""


def _called(inputs: Sequence[str], wanted: Sequence[str]) -> dict[str, str]:
    """Arguments with names of their own → inputs of the workload that begin so, or the only one that is left."""
    free = [name for name in wanted if name not in inputs]
    strange = [name for name in inputs if name not in wanted]
    near = {name: [one for one in free if one.startswith(name)] for name in strange}
    called = {name: several[0] for name, several in near.items() if len(several) == 1}
    return {strange[0]: free[0]} if not called and len(strange) == len(free) == 1 else called


def _shape(sizes: list[str], spec: Workload | None) -> list[str]:
    """Of the output: all extents of the workload, also those that the kernel is not given because it runs once for each."""
    extents = [p.name for p in _extents(spec)] if spec else []
    return extents if extents and ({*sizes} <= {*extents} or sizes == [" * ".join(extents)]) else sizes or ["n"]


def _like(path: Path, function: str, spec: Workload, shape: Sequence[str], dtype: str) -> list[str]:
    """What of the workload it can do: the operation by the names of function and file, and the type."""
    op = _op(path, function, spec)
    only = [f'op = "{op}"'] if op else []
    only += [f'dtype = "{dtype}"'] if spec.param("dtype") else []
    needed = ", ".join(f"{size} = 1024" for size in shape if spec.param(size))
    adds = [f"# {op}: ε = {EPSILON} is added to the variance before its root"] if "norm" in op else []
    return [f'workload = "{spec.name}"', *adds, f"only = {{ {', '.join(only)} }}", *([f"cases = [{{ {needed} }}]"] if needed else [])]


def _op(path: Path, function: str, spec: Workload) -> str:
    """The operation that file and function are named after, else the workload's default; "" where it has no operations."""
    op = spec.param("op")
    if op is None or not op.choices:
        return ""
    stem = f"{path.stem} {function}".lower().replace("_", "")
    backward = any(word in stem for word in ("backward", "bwd", "grad"))
    choices = [one for one in op.choices if one.endswith("_backward") == backward] or list(op.choices)
    named = [one for one in choices if one.replace("_", "") in stem] or [one for one in choices if one[:3] in stem]
    return str(max(named, key=len) if named else op.default or op.choices[0])


def _own(inputs: Sequence[Argument], shape: Sequence[str], dtype: str) -> list[str]:
    count = " * ".join(shape)
    params = ", ".join(f"{size} = 1024" for size in shape)
    tables = ", ".join(f"{one.name} = {{ shape = {listed(shape)} }}" for one in inputs)
    first = inputs[0].name if inputs else "0"
    return [
        f'params = {{ {params}, dtype = "{dtype}" }}', f'read_bytes = "{len(inputs)} * {count} * size(dtype)"',
        f'written_bytes = "{count} * size(dtype)"', f"inputs = {{ {tables} }}",
        f'reference = "{first}"  # what is right, as an expression of PyTorch over the inputs',
    ]


def _terms(code: str, shape: Sequence[str]) -> list[str]:
    """How many numbers an element sums, where a loop over a size sums: the error that is allowed grows with it."""
    looped = [size for size in shape if size in LOOP.findall(code)]
    if not looped or not SUMS.search(LOOP.sub(" ", code)):
        return []
    return [f'terms = "{" * ".join(looped)}"  # numbers that an element sums: the error allowed grows with their root']


def _extents(spec: Workload) -> list[Param]:
    """Sizes of a case: whole numbers from 1 on, three at most."""
    return [p for p in spec.params if p.kind == "int" and p.low == 1][:3]


def _size(name: str, spec: Workload | None) -> str:
    """The workload's parameter that an argument is likely to be."""
    if spec is None:
        return name
    names = [p.name for p in spec.params if p.kind == "int"]
    near = [one for one in names if one.startswith(name) or name.startswith(one)] or difflib.get_close_matches(name, names, 1)
    return near[0] if near else name


def _strange(sizes: dict[str, str], spec: Workload | None, code: str) -> dict[str, str]:
    """The only size whose name says nothing of the workload: its last extent where the code counts to it in a loop, else all of them."""
    extents = [p.name for p in _extents(spec)] if spec else []
    unknown = [name for name, size in sizes.items() if size not in extents]
    if len(sizes) != 1 or len(unknown) != 1 or not extents or (spec and spec.param(sizes[unknown[0]])):
        return sizes
    looped = re.search(rf"for\s*\([^;]*;[^;]*<\s*{re.escape(unknown[0])}\b", code)
    return {unknown[0]: extents[-1] if looped else " * ".join(extents)}


def _argument(argument: Argument, sizes: dict[str, str]) -> str:
    if argument.pointer:
        return argument.name
    if argument.name in sizes:
        return f"{sizes[argument.name]}:{SCALARS.get(argument.kind, 'int32')}"
    return f"{EPSILON if 'eps' in argument.name else '1'}:{SCALARS[argument.kind]}"
