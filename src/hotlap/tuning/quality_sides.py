"""Where answers come from: files of answers that are there, functions, ONNX classifiers; each unit by unit, so that two models of many
classes are compared in the memory of one window."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError, MachineError, Unavailable, nearest
from hotlap.tuning.quality_record import SideKind, UnitAnswers

Array = NDArray[Any]
Scale = Literal["logits", "probabilities"]
SCALES: tuple[Scale, ...] = ("logits", "probabilities")  # keys of recorded answers
ROUNDED = 0.05  # by which probabilities that were rounded may miss a sum of 1
RECORDED = (".npz", ".jsonl")
RIGHT = ("right", "correct", "acc", "exact_match")  # keys of right or wrong; the last two are lm-eval's
ITEM_KEYS = ("id", "doc_id")
BATCH = 64  # items that a classifier gets at once
FORMS = "answers in .npz or .jsonl, a function as file.py:function or module:function, or a classifier in .onnx"


class Questions(NamedTuple):
    """What `--data` holds. `tokens`: each a window; else `inputs` of items by name. `labels`: of items, -1 where none is known."""

    path: str
    tokens: Array | None = None
    inputs: Mapping[str, Array] = {}
    labels: NDArray[np.int64] | None = None
    rest: int = 0  # tokens behind the last whole window

    def __len__(self) -> int:
        arrays = [self.tokens, *self.inputs.values(), self.labels]
        return next((len(array) for array in arrays if array is not None), 0)


class QualitySide(NamedTuple):
    """One of A and B. `answers(most)`: its units in order, at most so many; 0: all."""

    name: str
    kind: SideKind
    units: int
    windows: bool
    answers: Callable[[int], Iterator[UnitAnswers]]


def kind_of(text: str) -> SideKind:
    """Raises InputError for what is none."""
    path = Path(text)
    if path.suffix in RECORDED or path.suffix == ".onnx":
        if not path.is_file():
            raise InputError(f"there is no file '{text}'; a side is {FORMS}")
        return "onnx" if path.suffix == ".onnx" else "recorded"
    place, colon, function = text.rpartition(":")
    if colon and place and function.isidentifier():
        return "function"
    raise InputError(f"'{text}' is no side of a comparison; it is {FORMS}")


def side(text: str, questions: Questions | None) -> QualitySide:
    """Raises InputError, and Unavailable where a package is missing."""
    kind = kind_of(text)
    if kind == "recorded":
        return _recorded(text, questions)
    if questions is None or (questions.tokens is None and not questions.inputs):
        raise InputError(f"'{text}' runs here, so it needs --data FILE.npz with tokens, windows, or the inputs of items")
    run = _function(text) if kind == "function" else _classifier(text, questions)
    ask = _windows if questions.tokens is not None else _items
    return QualitySide(text, kind, len(questions), questions.tokens is not None, lambda most: ask(text, run, questions, most))


# ---------------------------------------------------------------- what is asked


def questions(path: str, window: int) -> Questions:
    """Of a .npz with `tokens` (one row of them, cut into windows), `windows`, or inputs by their names with `labels`. Raises InputError."""
    arrays = _arrays(path)
    if "tokens" in arrays:
        tokens = _whole(arrays["tokens"], path, "tokens").ravel()
        count = len(tokens) // window
        if not count:
            raise InputError(f"'{path}' has {len(tokens)} tokens, less than a window of {window}; --window smaller, or more text")
        return Questions(path, tokens[: count * window].reshape(count, window), rest=len(tokens) - count * window)
    if "windows" in arrays:
        tokens = _whole(arrays["windows"], path, "windows")
        if tokens.ndim != 2 or tokens.size < 2 * len(tokens) or not len(tokens):
            raise InputError(f"'{path}': windows is an array of shape {tokens.shape}; valid: windows × tokens, at least 2 of them")
        return Questions(path, tokens)
    labels = _whole(arrays.pop("labels"), path, "labels").ravel() if "labels" in arrays else None
    lengths = {name: len(array) for name, array in arrays.items()} | ({"labels": len(labels)} if labels is not None else {})
    if len(set(lengths.values())) > 1:
        raise InputError(f"'{path}': its arrays are of unlike lengths: {', '.join(f'{name} {size}' for name, size in lengths.items())}")
    if not lengths or not next(iter(lengths.values())):
        raise InputError(f"'{path}' has no items; it holds tokens, windows, or inputs by name and labels")
    return Questions(path, inputs=arrays, labels=labels)


def _arrays(path: str) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise InputError(f"there is no file '{path}'") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError, KeyError) as error:
        raise InputError(f"'{path}' is no .npz of plain arrays that can be read ({error}); np.savez writes one") from None


def _whole(array: Array, path: str, name: str) -> NDArray[np.int64]:
    if array.dtype.kind not in "iub" or not array.ndim:
        raise InputError(f"'{path}': {name} are of type {array.dtype}; valid: whole numbers")
    return array.astype(np.int64)


# ---------------------------------------------------------------- answers that are there


def _recorded(text: str, questions: Questions | None) -> QualitySide:
    units = _of_lines(text) if text.endswith(".jsonl") else _of_arrays(text)
    if not units:
        raise InputError(f"'{text}' has no answers")
    labels = questions.labels if questions is not None else None
    if labels is not None:
        if len(labels) != len(units):
            raise InputError(f"'{text}' has {len(units)} answers, and '{questions.path if questions else ''}' {len(labels)} labels")
        units = [unit._replace(labels=labels[place : place + 1]) for place, unit in enumerate(units)]
    several = any(_positions(unit) > 1 for unit in units)
    return QualitySide(text, "recorded", len(units), several, lambda most: iter(units[: most or None]))


def _positions(unit: UnitAnswers) -> int:
    return len(unit.logs) if unit.logs is not None else len(unit.right) if unit.right is not None else 0


def _of_arrays(text: str) -> list[UnitAnswers]:
    arrays = _arrays(text)
    right = next((arrays[name] for name in RIGHT if name in arrays), None)
    scale = next((name for name in SCALES if name in arrays), None)
    outputs = arrays[scale] if scale else None
    if right is None and outputs is None:
        raise InputError(f"'{text}' has neither logits nor right nor probabilities; it has {', '.join(arrays) or 'nothing'}")
    count = len(outputs) if outputs is not None else len(right) if right is not None else 0
    names = [str(name) for name in arrays["ids"]] if "ids" in arrays else [str(place) for place in range(count)]
    labels = _whole(arrays["labels"], text, "labels") if "labels" in arrays else None
    for name, array in (("ids", names), ("labels", labels), ("right", right)):
        if array is not None and len(array) != count:
            raise InputError(f"'{text}': {len(array)} {name} of {count} answers")
    logs = None if outputs is None else logarithms(outputs, text, scale)
    return [
        UnitAnswers(
            names[place], None if logs is None else np.atleast_2d(logs[place]),
            None if labels is None else np.atleast_1d(labels[place]),
            None if right is None else np.atleast_1d(_truth(right[place], f"{text}: right")),
        ) for place in range(count)
    ]  # fmt: skip


def _of_lines(text: str) -> list[UnitAnswers]:
    units: list[UnitAnswers] = []
    with open(text, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                units.append(_of_line(line, f"{text}:{number}", str(len(units))))
    return units


def _of_line(line: str, where: str, name: str) -> UnitAnswers:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise InputError(f'{where}: not an object; write as in {{"id": 7, "right": true}}')
    name = str(next((fields[key] for key in ITEM_KEYS if key in fields), name))
    right = next((np.atleast_1d(_truth(fields[key], f"{where}: {key}")) for key in RIGHT if key in fields), None)
    try:
        scale = next((key for key in SCALES if key in fields), None)
        logs = np.atleast_2d(logarithms(np.asarray(fields[scale], np.float32), where, scale)) if scale else None
        labels = np.atleast_1d(np.asarray(fields["label"], np.int64)) if "label" in fields else None
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, InputError) else InputError(f"{where}: answers or label are no numbers: {error}") from None
    if right is None and logs is None:
        raise InputError(f"{where}: neither right nor logits nor probabilities; it has {', '.join(fields) or 'nothing'}")
    return UnitAnswers(name, logs, labels, right)


def _truth(value: Any, where: str) -> NDArray[np.bool_]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise InputError(f"{where} is {value!r}; valid: true, false, 1, 0")
    return array.astype(bool)


def scale_of(outputs: Array) -> Scale | None:
    """Outputs that are at least 0 and sum to 1 are probabilities, all others logits. Rows with NaN say nothing; None if all do."""
    x = np.asarray(outputs)
    if x.dtype.kind not in "fiu" or not x.ndim:
        return None
    rows = x[~np.isnan(x).any(-1)].astype(np.float32, copy=False)
    if not rows.size:
        return None
    return "probabilities" if (rows >= 0).all() and np.allclose(rows.sum(-1), 1, rtol=0, atol=ROUNDED) else "logits"


def logarithms(outputs: Array, where: str, scale: Scale | None = None) -> NDArray[np.float32]:
    """Logarithms of probabilities, over the last axis. `scale`: what outputs are; None: as `scale_of` takes them. One number between 0 and
    1 is that of the second of two classes. Raises InputError for what is neither."""
    x = np.asarray(outputs)
    if x.dtype.kind not in "fiu" or not x.ndim or not x.size:
        raise InputError(f"{where}: answers of type {x.dtype} and shape {x.shape}; valid: numbers, the last axis is of classes")
    x = x.astype(np.float32, copy=False)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if x.shape[-1] == 1:
            if ((x < 0) | (x > 1)).any():
                raise InputError(f"{where}: one number for an answer, and it is no probability; give a number per class")
            x, scale = np.concatenate([1 - x, x], -1), "probabilities"
        if (scale or scale_of(x)) == "probabilities":
            total = x.sum(-1, keepdims=True)
            if (x < 0).any() or (np.abs(total - 1) > ROUNDED).any():
                raise InputError(f"{where}: probabilities that are below 0, or do not sum to 1; give them with more digits, or logits")
            logs: NDArray[np.float32] = np.log(x / total)
            return logs
        logs = x - x.max(-1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
    return logs


# ---------------------------------------------------------------- models that run here


def _windows(text: str, run: Callable[[Any], Any], questions: Questions, most: int) -> Iterator[UnitAnswers]:
    """Of each window the answer at every token but the last, whose next one is known."""
    assert questions.tokens is not None
    scale: Scale | None = None
    for place, window in enumerate(questions.tokens[: most or None]):
        outputs = _numbers(_called(text, run, window, f"window {place}"))
        if outputs.ndim == 3 and len(outputs) == 1:
            outputs = outputs[0]
        if outputs.ndim != 2 or len(outputs) != len(window):
            what = f"a window of {len(window)} tokens with an array of shape {outputs.shape}"
            raise InputError(f"'{text}' answers {what}; valid: tokens × classes")
        labels = window[1:].astype(np.int64)
        if labels.min() < 0 or labels.max() >= outputs.shape[1]:
            raise InputError(f"'{text}' knows {outputs.shape[1]} tokens, and window {place} of '{questions.path}' has others")
        scale = scale or scale_of(outputs)
        yield UnitAnswers(f"window {place}", logarithms(outputs[:-1], text, scale), labels, None)


def _items(text: str, run: Callable[[Any], Any], questions: Questions, most: int) -> Iterator[UnitAnswers]:
    count = min(most or len(questions), len(questions))
    scale: Scale | None = None
    for start in range(0, count, BATCH):
        stop = min(start + BATCH, count)
        feed = {name: array[start:stop] for name, array in questions.inputs.items()}
        given = next(iter(feed.values())) if len(feed) == 1 and not isinstance(run, _Session) else feed
        outputs = _numbers(_called(text, run, given, f"items {start} to {stop - 1}"))
        if outputs.ndim < 2 or len(outputs) != stop - start:
            raise InputError(f"'{text}' answers {stop - start} items with an array of shape {outputs.shape}; valid: items × classes")
        outputs = outputs.reshape(stop - start, -1)
        scale = scale or scale_of(outputs)
        logs = logarithms(outputs, text, scale)
        for place in range(start, stop):
            labels = None if questions.labels is None else questions.labels[place : place + 1]
            yield UnitAnswers(f"item {place}", logs[place - start][None], labels, None)


def _called(text: str, run: Callable[[Any], Any], given: Any, where: str) -> Any:
    try:
        return run(given)
    except Exception as error:  # the user's own code
        raise InputError(f"'{text}' failed at {where}: {type(error).__name__}: {' '.join(str(error).split())[:300]}") from error


def _numbers(outputs: Any) -> Array:
    """Of PyTorch too, in types that NumPy lacks."""
    if hasattr(outputs, "detach"):
        outputs = outputs.detach().float().cpu().numpy()
    return np.asarray(outputs)


def _function(text: str) -> Callable[[Any], Any]:
    place, _, name = text.rpartition(":")
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else _module(place)
    except InputError:
        raise
    except Exception as error:  # the user's own code
        raise InputError(f"'{place}' cannot be imported: {type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
    found = getattr(module, name, None)
    if not callable(found):
        there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise InputError(f"'{place}' has no function '{name}'; {nearest(name, there)}")
    function: Callable[[Any], Any] = found
    return function


def _module(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(name)


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"there is no file '{path}'")
    name = f"hotlap_quality_{path.stem}_{abs(hash(str(path.resolve())))}"
    if name in sys.modules:  # A and B of one file share what it loads
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"'{path}' is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _Session:
    """A classifier in ONNX Runtime: the output of most numbers is its answer, the first of those."""

    def __init__(self, session: Any, names: Sequence[str]) -> None:
        self.session, self.names = session, names

    def __call__(self, feed: Mapping[str, Array]) -> Array:
        kinds = {given.name: given.type for given in self.session.get_inputs()}
        ready = {name: feed[name].astype(_DTYPES[kinds[name]]) if kinds[name] in _DTYPES else feed[name] for name in self.names}
        outputs = [np.asarray(output) for output in self.session.run(None, ready)]
        numbers = [output for output in outputs if output.dtype.kind == "f"]
        if not numbers:
            raise ValueError("none of its outputs are numbers")
        return max(numbers, key=lambda output: output.size)


_DTYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
    "tensor(int32)": np.int32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8,
}  # fmt: skip


def _classifier(text: str, questions: Questions) -> _Session:
    if questions.tokens is not None:
        raise InputError(f"'{text}' is a classifier of items; '{questions.path}' holds tokens: give a function that runs the model")
    try:
        import onnxruntime
    except ImportError:
        raise Unavailable(f"'{text}' needs ONNX Runtime, which is not installed", "pip install onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common base
        raise MachineError(f"'{text}' cannot be loaded: {' '.join(str(error).split())[:300]}") from None
    names = [given.name for given in session.get_inputs()]
    for name in names:
        if name not in questions.inputs:
            raise InputError(f"'{text}' wants the input '{name}', which '{questions.path}' lacks; {nearest(name, questions.inputs)}")
    return _Session(session, names)
