"""What a word names as a network: one of the table, a network's own file, or a Hugging Face configuration."""

from __future__ import annotations

import json
from pathlib import Path

from hotlap.core.errors import InputError
from hotlap.core.work.networks import config, layered, shape, steps, walk
from hotlap.core.work.networks.steps import Source

NEAR = 0.1  # of a network's parameters: norms and biases are not counted in plain transformers, which is much only of tiny ones
PEEKED_BYTES = 2**22  # a file of JSON up to here is looked into for a configuration; traces are mostly larger


def read(word: str, as_type: str = "") -> Source | None:
    """The network; `as_type`: how a configuration is read, whatever its model_type. None for a file that is neither of these, as a trace.
    Raises InputError: what is wrong with the file, or the nearest names."""
    if not is_file(word):
        return steps.find(word)
    path = Path(word)
    if path.suffix == ".toml":
        return _written(path)
    return config.read(path, as_type) if path.is_dir() or _is_config(path) else None


def is_file(word: str) -> bool:
    """A path that there is, or one that is written as a file's: a missing one is reported as a file."""
    path = Path(word)
    return path.exists() or path.suffix in (".json", ".toml")


def _written(path: Path) -> Source:
    """A user's own network, as those of the table are written: by its layers, or as a stack of transformer layers."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no file '{path}'; give a network's TOML file, or a name of 'hotlap plan from --list'") from None
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' cannot be read as text: {error}") from None
    given = layered.parsed(text, path.stem)
    if "case" in given:
        raise InputError(f"'{path}' is a plan already: 'hotlap run' measures it")
    source: Source = (
        layered.from_document(given, path.stem) if isinstance(given.get("layers"), list) else shape.from_document(given, path.stem)
    )
    counted = source.counted if isinstance(source, shape.Network) else walk.walk(source, "layers", 1).parameters
    if abs(counted - source.parameters) > NEAR * source.parameters:
        said = f"its layers have {counted:,} parameters, and 'parameters' is {source.parameters:,.0f}"
        raise InputError(f"'{path}': {said}; mend the one that is wrong")
    return source


def _is_config(path: Path) -> bool:
    """One that is missing or no JSON counts as a configuration, too, if it is named so: reading it says what is wrong."""
    if path.name == "config.json" or not path.exists():
        return True
    try:
        if path.suffix != ".json" or path.stat().st_size > PEEKED_BYTES:
            return False
        return config.is_config(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return False
