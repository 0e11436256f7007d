"""Names of hosts as schedulers write them: ``n[001-128,200]``, ``rack[1-2]n[01-16]``, commas between them, or a file with a name a line."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from hotlap.core.errors import InputError

MOST = 65_536
VALID = "valid: n01,n02 or n[01-16,20], or a file of names"
_NAME = re.compile(r"[A-Za-z0-9_][\w.:@%-]*")  # none begins with a dash: ssh would take it as an option
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def parse(text: str) -> list[str]:
    """The hosts that a text names, in its order. Raises InputError for none, a malformed range, and a host that stands twice."""
    if "[" not in text and "," not in text and Path(text).is_file():
        lines = [line.partition("#")[0].strip() for line in Path(text).read_text(encoding="utf-8", errors="replace").splitlines()]
        parts = [part for line in lines if line for part in _parts(line)]
    elif "/" in text:
        raise InputError(f"there is no file '{text}' of names of hosts; {VALID}")
    else:
        parts = _parts(text)
    names: dict[str, None] = {}
    for name in (name for part in parts for name in _expanded(part)):
        if not _NAME.fullmatch(name):
            raise InputError(f"'{name}' is no name of a host; {VALID}")
        if name in names:
            raise InputError(f"the host '{name}' stands twice in --hosts; name each once")
        names[name] = None
        if len(names) > MOST:
            raise InputError(f"--hosts names more than {MOST:,} hosts; give fewer")
    if not names:
        raise InputError(f"--hosts names no host; {VALID}")
    return list(names)


def _parts(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts, depth, part = list[str](), 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise InputError(f"'{text}' has a bracket too many; {VALID}")
        if letter == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    if depth:
        raise InputError(f"'{text}' lacks a ]; {VALID}")
    return [part for part in (*parts, part.strip()) if part]


def _expanded(part: str) -> list[str]:
    pieces = [_numbers(piece[1:-1], part) if piece.startswith("[") else [piece] for piece in re.split(r"(\[[^\]]*\])", part)]
    count = 1
    for piece in pieces:
        count *= len(piece)
    if count > MOST:
        raise InputError(f"'{part}' names {count:,} hosts; {MOST:,} are the most")
    return ["".join(choice) for choice in product(*pieces)]


def _numbers(text: str, part: str) -> list[str]:
    numbers = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        if not match:
            raise InputError(f"'{item}' in '{part}' is no number or range; {VALID}")
        low, high = match[1], match[2] or match[1]
        if int(high) < int(low) or int(high) - int(low) >= MOST:
            raise InputError(f"'{item}' in '{part}' runs backwards or is too long; {VALID}")
        if match[2] and len(high) < len(low):
            raise InputError(f"'{item}' in '{part}' has ends of unlike width; {VALID}")
        numbers += [f"{number:0{len(low)}}" for number in range(int(low), int(high) + 1)]
    return numbers
