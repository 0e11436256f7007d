"""What verbs share: the terminal's width and colour, JSON output, and the home of all runs."""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec

from hotlap.core import stand_in, units
from hotlap.core.errors import InputError, MachineError
from hotlap.core.model import machines
from hotlap.core.show import former, pdf, shape, words
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths, select

UNDIVIDED = ("case=",)  # names of cases hold what looks like further filters
ANOTHER_FILTER = re.compile(r",\s*(?=[A-Za-z_]\w*=)")


def width() -> int:
    """Columns of the terminal; 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def color() -> bool:
    """Whether standard output is a terminal that wants colour (https://no-color.org)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.buffer.write(json_text(value).encode())
    sys.stdout.flush()


def json_text(value: Any) -> str:
    """One JSON document, indented."""
    return (msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n").decode()


def answer(asked: int, value: Any, key: str = "", code: int | None = None, judged: bool = True) -> None:
    """The answer of a verb without cases, in the shape of JSON that is asked for. `key`: where a list or one record stands in shape 3; by
    default its own keys do. `code`, `judged`: as in `shape.answer`."""
    if asked == shape.SHAPE:
        keys = {key: value} if key else value if isinstance(value, Mapping) else {name: getattr(value, name) for name in _names(value)}
        print_json(shape.answer(keys, code, judged=judged))
    else:
        print_former(value)


def print_former(value: Any) -> None:
    """In shape 2."""
    print_json(former.keys(value))


def _names(record: Any) -> tuple[str, ...]:
    return record.__struct_fields__ if isinstance(record, msgspec.Struct) else tuple(one.name for one in fields(record))


def runs(selectors: Sequence[str]) -> list[bundles.Bundle]:
    """The runs that selectors name, each once, in the order given. Warnings go to standard error."""
    return list(each(selectors, readings=True))


def each(selectors: Sequence[str], readings: bool = False, read: Callable[[int, int], None] | None = None) -> Iterator[bundles.Bundle]:
    """The same one at a time, for verbs that go through many. `read`: how many are, of how many."""
    entries = select.entries(selectors, paths.home())
    for number, entry in enumerate(entries, 1):
        bundle = bundles.load(entry.path, readings)
        for notice in bundle.notices:
            print(f"hotlap: {bundle.run.id}: {notice.text}", file=sys.stderr)
        if read:
            read(number, len(entries))
        yield bundle


def on_hardware(selectors: Sequence[str], what: str) -> Iterator[bundles.Bundle]:
    """Runs that selectors name, or all of the home without those of stand-ins. Raises InputError where one that is named, or all, are."""
    left_out: list[bundles.Bundle] = []
    kept = 0
    for bundle in each(selectors) if selectors else select.every(paths.home()):
        if stand_in.of_run(bundle.run):
            left_out.append(bundle)
        else:
            kept += 1
            yield bundle
    if left_out and (selectors or not kept):
        stand_in.refuse([one.run for one in left_out], what)
    if left_out:
        named = f"{words.counted(len(left_out), 'run')} of a stand-in, which is no GPU: left out"
        print(f"hotlap: {named}; hotlap list names them", file=sys.stderr)


def pairs(items: Sequence[str], what: str) -> dict[str, str]:
    """`name=value` arguments as a mapping. Raises InputError for one without a sign, and for two values of one name."""
    for item in items:
        if "=" not in item:
            raise InputError(f"'{item}' is not {what}; write name=value")
    found: dict[str, str] = {}
    for name, _, value in (item.partition("=") for item in items):
        if found.setdefault(name, value) != value:
            raise InputError(f"{what} '{name}' is given twice, as {found[name]} and {value}; give it once")
    return found


def filters(items: Sequence[str]) -> dict[str, str]:
    """`pairs` of --where, where NAME=VALUE behind a comma is a filter of its own; other words there are further values of the last."""
    apart = [piece for item in items for piece in ([item] if item.startswith(UNDIVIDED) else ANOTHER_FILTER.split(item))]
    return pairs(apart, "a filter")


def whole(text: str, option: str, least: int = 1, most: int = 100_000_000) -> int:
    """A whole number as an option gives it. Raises InputError naming the option and what is valid."""
    if not text.isdecimal() or not least <= int(text) <= most:
        raise InputError(f"{option} is a whole number from {least} to {most:,}, not '{text}'")
    return int(text)


def share(text: str, option: str) -> float:
    """A share as an option gives it. Raises InputError naming the option."""
    try:
        return units.parse(text, "%")
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


def min_effect(text: str, below: float = 1.0) -> float:
    """The smallest change to report, as a share. Raises InputError for what is none."""
    found = share(text, "--min-effect")
    if not 0 <= found < below:
        most = f" to under {units.exact(below, '%')}" if math.isfinite(below) else " on"
        raise InputError(f"--min-effect is a share from 0{most}, as in '2 %', not {text}")
    return found


def machine(parser: argparse.ArgumentParser, about: str) -> None:
    """The option of verbs that predict: all have the same default, and their output names the machine."""
    parser.add_argument("--machine", default=machines.USUAL, metavar="NAME", help=f"{about} (default: {machines.USUAL})")


def page(out: str, content: str, as_json: bool) -> None:
    """A page that the user asked for with --out, named where it does not get into JSON."""
    write_page(page_file(out), content)
    print(f"page    {out}", file=sys.stderr if as_json else sys.stdout)


def page_file(out: str) -> Path:
    """Raises InputError for an ending of no page."""
    path = Path(out)
    if path.suffix and path.suffix.lower() not in (".html", ".htm", ".pdf", ".md"):
        raise InputError(f"a page is not written as '{path.suffix}'; valid: FILE.html, FILE.pdf")
    return path


def write_page(path: Path, content: str) -> None:
    """HTML, as PDF where the file is named so. Raises as `write`, and Unavailable where nothing here makes a PDF."""
    if path.suffix.lower() == ".pdf":
        writable(path)
        pdf.write(content, path)
    else:
        write(path, content)


def writable(path: Path) -> None:
    """Raises InputError where a file cannot be written: there is no such folder, or it is one, or standard output is meant."""
    if str(path) == "-":
        raise InputError("'-' is no name of a file; write one with its ending, as in page.html")
    if not path.parent.is_dir() or path.is_dir():
        raise InputError(f"'{path}' cannot be written: {'it is a folder' if path.is_dir() else f'there is no folder {path.parent}'}")


def write(path: Path, content: str) -> None:
    """A file that the user asked for. Raises InputError where there is no such folder, MachineError when the system refuses."""
    writable(path)
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise MachineError(f"'{path}' cannot be written: {error.strerror}") from None
