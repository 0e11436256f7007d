"""What MODULE:NAME or FILE.py:NAME means in a user's code. Finding it runs that code, so it belongs in a process of its own."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from hotlap.core.errors import InputError, nearest


def find(text: str, word: str, fits: Callable[[Any], bool] = callable) -> Any:
    """`word`: what is named, FACTORY or FUNCTION. Raises InputError: no such module, or none in it that fits, and those that do."""
    where, _, name = text.rpartition(":")
    form = f"write MODULE:{word} or FILE.py:{word}"
    if not where or not name:
        raise InputError(f"'{text}' names nothing; {form}")
    try:
        loaded = _file(Path(where), form) if where.endswith(".py") else _module(where)
    except ModuleNotFoundError as error:
        raise InputError(f"there is no module {error.name}; {form}") from None
    except InputError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise InputError(f"importing '{where}' fails: {line(error)}") from None
    found = getattr(loaded, name, None)
    if not fits(found):
        valid = [key for key, value in vars(loaded).items() if fits(value) and not key.startswith("_")]
        raise InputError(f"'{where}' has no {word.lower()} '{name}'; {nearest(name, valid) or 'none is in it'}")
    return found


def line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:300]}"


def _module(name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")
    return importlib.import_module(name)


def _file(path: Path, form: str) -> ModuleType:
    """Modules beside it can be imported; one that is loaded already under its name is another one."""
    if not path.is_file():
        raise InputError(f"there is no file '{path}'; {form}")
    name = f"hotlap_user_{path.stem}" if path.stem in sys.modules else path.stem
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise InputError(f"'{path}' is no Python module; {form}")
    sys.path.insert(0, str(path.resolve().parent))
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made
