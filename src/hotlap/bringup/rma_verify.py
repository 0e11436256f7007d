#!/usr/bin/env python3
"""Checks a pack of evidence about one node. It needs Python 3.9 or later and nothing else; no network.

    python3 verify.py [FOLDER]                  the unpacked folder (default: the one that holds this file)
    python3 verify.py PACK.zip [SHA256]         the zip itself, against the digest on the page beside it

MANIFEST.sha256 has the SHA-256 of every file, as `sha256sum -c` reads it; every event of ledger.jsonl that rests on a measurement names the
SHA-256 of its evidence, and that is the file's name.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import zipfile
import zlib

MANIFEST, LEDGER, EVIDENCE = "MANIFEST.sha256", "ledger.jsonl", "evidence/"
MOST = 64 << 20  # bytes of all files of a zip
UNREADABLE = (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)  # the last: encrypted, or a method that is unknown


def contents(path: str) -> dict[str, bytes]:
    """Every file of a folder or a zip by its name. Raises UNREADABLE."""
    if not os.path.isdir(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
            if size > MOST:
                raise zipfile.BadZipFile(f"it would unpack to {size} bytes; a pack has at most {MOST}")
            return {info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()}
    files = {}
    for folder, _, names in os.walk(path):
        for name in names:
            place = os.path.join(folder, name)
            with open(place, "rb") as file:
                files[os.path.relpath(place, path).replace(os.sep, "/")] = file.read()
    return {name: data for name, data in files.items() if "__pycache__/" not in name}


def problems(files: dict[str, bytes]) -> list[str]:
    """What is wrong with a pack's files; nothing where all is as it was written."""
    listed = {}
    for line in files.get(MANIFEST, b"").decode(errors="replace").split("\n"):
        digest, _, name = line.partition("  ")
        listed[name] = digest
    listed.pop("", None)
    if not listed:
        return [f"{MANIFEST} is missing or empty"]
    wrong = []
    for name in sorted(set(listed) | (set(files) - {MANIFEST})):
        if name not in files:
            wrong.append(f"{name} is missing")
        elif name not in listed:
            wrong.append(f"{name} is not in {MANIFEST}")
        elif hashlib.sha256(files[name]).hexdigest() != listed[name]:
            wrong.append(f"{name} was changed")
    if not wrong and "".join(f"{listed[name]}  {name}\n" for name in sorted(listed)).encode() != files[MANIFEST]:
        wrong.append(f"{MANIFEST} was changed")
    return wrong + _events(files)


def _events(files: dict[str, bytes]) -> list[str]:
    """Events whose evidence is not there, or is not what its name says."""
    wrong = []
    for number, line in enumerate(files.get(LEDGER, b"").splitlines(), 1):
        try:
            digest = json.loads(line).get("evidence", "")
        except (ValueError, AttributeError):
            wrong.append(f"{LEDGER}:{number}: no event")
            continue
        name = f"{EVIDENCE}{digest}.json"
        if digest and hashlib.sha256(files.get(name, b"")).hexdigest() != digest:
            wrong.append(f"{LEDGER}:{number}: its evidence {digest[:12]} is missing or was changed")
    return wrong


def main(words: list[str]) -> int:
    path = words[0] if words else os.path.dirname(os.path.abspath(__file__))
    try:
        files = contents(path)
        if len(words) > 1:
            with open(path, "rb") as file:
                if hashlib.sha256(file.read()).hexdigest() != words[1].lower():
                    print(f"{path}: its SHA-256 is not {words[1]}", file=sys.stderr)
                    return 1
    except UNREADABLE as error:
        print(f"{path} cannot be read: {error}", file=sys.stderr)
        return 1
    wrong = problems(files)
    for text in wrong:
        print(text, file=sys.stderr)
    if wrong:
        return 1
    events = files.get(LEDGER, b"").count(b"\n")
    print(f"{len(files) - 1} files and {events} events are as they were written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
