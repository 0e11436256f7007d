"""How networks of the table are run, as options of every command that weighs by them."""

from __future__ import annotations

import argparse

from hotlap.cli.plan_from import DTYPES
from hotlap.coverage.networks.steps import PHASES
from hotlap.errors import InputError, nearest

OPTIONS = ("phase", "batch", "context", "tp", "dtype")


def add(parser: argparse.ArgumentParser, of: str = "of the networks") -> None:
    parser.add_argument("--phase", help=f"{of}, with commas: prefill,decode,forward,train (default: all but train)")
    parser.add_argument("--batch", help="with commas (default: 1 and 32)")
    parser.add_argument("--context", help="with commas, as in 1k,32k (default: as usual for the network)")
    parser.add_argument("--tp", help="tensor-parallel GPUs, with commas (default: 1, 8 above 60 billion parameters)")
    parser.add_argument("--dtype", help=f"of weights and products, with commas: {','.join(DTYPES)} (default: bf16)")


def settings(args: argparse.Namespace) -> dict[str, tuple[object, ...]]:
    """What was given of `compose.Choices`. Raises InputError."""
    found: dict[str, tuple[object, ...]] = {}
    for name in OPTIONS:
        words = [word.strip() for word in (getattr(args, name) or "").split(",") if word.strip()]
        if words:
            found["phases" if name == "phase" else name] = tuple(_read(name, word) for word in words)
    return found


def _read(name: str, word: str) -> object:
    valid = {"phase": PHASES, "dtype": DTYPES}.get(name)
    if valid is None:
        return _whole(name, word)
    if word not in valid:
        raise InputError(f"--{name} cannot be '{word}'; {nearest(word, valid)}")
    return word


def _whole(name: str, word: str) -> int:
    times = 1024 if word.lower().endswith("k") else 1
    digits = word[:-1] if times > 1 else word
    if not digits.isdecimal() or int(digits) < 1:
        raise InputError(f"--{name} is whole numbers with commas, as in 1,8 or 1k,32k, not '{word}'")
    return int(digits) * times
