"""How networks are run, as options of every command that knows them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TypeVar

from hotlap.core import units
from hotlap.core.errors import InputError, nearest
from hotlap.core.work.networks.steps import DTYPES, PHASES, count

_T = TypeVar("_T")


def add(parser: argparse.ArgumentParser, of: str = "of the networks") -> None:
    parser.add_argument("--phase", help=f"{of}, with commas: prefill,decode,forward,train (default: all but train)")
    parser.add_argument("--batch", help="with commas (default: 1 and 32)")
    parser.add_argument("--context", help="with commas, as in 1k,32k, where k is 1024 (default: as usual for the network)")
    parser.add_argument("--tp", help="tensor-parallel GPUs, with commas (default: 1, 8 above 60 billion parameters)")
    parser.add_argument("--dtype", help=f"of weights and products, with commas: {','.join(DTYPES)} (default: bf16)")


def settings(args: argparse.Namespace, counts: Sequence[str] = ("batch", "context", "tp")) -> dict[str, tuple[object, ...]]:
    """What was given of `compose.Choices`; `counts`: which options are whole numbers. Raises InputError."""
    readers: dict[str, Callable[[str, str], object]] = {"phase": _one_of(PHASES), "dtype": _one_of(DTYPES), **dict.fromkeys(counts, count)}
    given = {name: getattr(args, name) for name in readers}
    return {
        "phases" if name == "phase" else name: values(text, f"--{name}", readers[name]) for name, text in given.items() if text is not None
    }


def values(text: str, option: str, read: Callable[[str, str], _T]) -> tuple[_T, ...]:
    """Each value once, from words with commas."""
    return tuple(dict.fromkeys(read(one.strip(), option) for one in text.split(",")))


def _one_of(valid: Sequence[str]) -> Callable[[str, str], str]:
    def read(text: str, option: str) -> str:
        if text not in valid:
            raise InputError(f"{option} cannot be '{text}'; {nearest(text, valid)}")
        return text

    return read


def share(text: str, option: str) -> float:
    value = units.parse(text, "")
    if not 0 < value <= 1:
        raise InputError(f"{option} is a share above 0 and up to 1, as 99% or 0.99, not '{text}'")
    return value
