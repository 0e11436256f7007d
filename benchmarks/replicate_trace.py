"""A large trace from a small one: its events again and again, each copy later in time and with identifiers of its own.

    python benchmarks/replicate_trace.py TRACE.json.gz OUT.json[.gz] --megabytes 340

The text of the events stays as the profiler wrote it; `ts`, `correlation`, `External id`, the ids of flows and the numbers of
profiler steps are shifted.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

TIME = re.compile(rb'("ts"\s*:\s*)(\d+(?:\.\d+)?)')
IDS = re.compile(rb'("(?:correlation|[Ee]xternal id|id)"\s*:\s*)(\d+)')
STEP = re.compile(rb"(ProfilerStep#)(\d+)")


def unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def parts(text: bytes) -> tuple[bytes, bytes, bytes]:
    """Before the events, the events, after them."""
    begin = re.search(rb'"traceEvents"\s*:\s*\[', text)
    if begin is None:
        raise SystemExit("no traceEvents in it")
    end = text.rfind(b"]", 0, text.rfind(b'"traceName"') if b'"traceName"' in text else len(text))
    return text[: begin.end()], text[begin.end() : end].strip().rstrip(b","), text[end:]


def copies(events: bytes, count: int) -> Iterator[bytes]:
    """The events, then the same again, later."""
    times = [float(found.group(2)) for found in TIME.finditer(events)]
    ids = [int(found.group(2)) for found in IDS.finditer(events)]
    span = int(max(times) - min(one for one in times if one > 0)) + 1000
    most = max(ids) + 1
    for copy in range(count):
        later, more = copy * span, copy * most

        def shifted(match: re.Match[bytes], later: int = later) -> bytes:
            value = match.group(2)
            whole, dot, rest = value.partition(b".")
            return match.group(1) + (str(int(whole) + later).encode() + dot + rest if int(whole) else value)

        text = TIME.sub(shifted, events) if copy else events
        text = IDS.sub(lambda found, more=more: found.group(1) + str(int(found.group(2)) + more).encode(), text) if copy else text
        yield STEP.sub(lambda found, copy=copy: found.group(1) + str(int(found.group(2)) + 1000 * copy).encode(), text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=float, default=340.0)
    options = parser.parse_args()
    before, events, after = parts(unpacked(options.trace))
    count = max(1, round(options.megabytes * 1e6 / len(events)))
    opening = gzip.open(options.out, "wb", compresslevel=6) if options.out.suffix == ".gz" else options.out.open("wb")  # noqa: SIM115
    with opening as file:
        file.write(before)
        for number, text in enumerate(copies(events, count)):
            file.write(b",\n" if number else b"\n")
            file.write(text)
        file.write(b"\n" + after)
    print(json.dumps({"copies": count, "bytes": options.out.stat().st_size}), file=sys.stderr)


if __name__ == "__main__":
    main()
