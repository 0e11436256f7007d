"""hotlap cluster accept pack NODE --for rma | --check PACK.zip"""

from __future__ import annotations

import argparse
import hashlib
import sys
import zipfile
from pathlib import Path

from hotlap.bringup import accept_folder, accept_show, cli_accept, rma, rma_verify
from hotlap.bringup.rma import PackFiles
from hotlap.cli import terminal
from hotlap.core.errors import InputError, MachineError, nearest
from hotlap.core.show import words
from hotlap.core.store import paths

PURPOSES = ("rma",)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", nargs="?", default="", help="which node")
    parser.add_argument("--for", dest="purpose", default="rma", choices=PURPOSES, help="for whom: rma, the vendor (default)")
    cli_accept.add_which(parser, "--of")
    parser.add_argument("-o", "--out", default=".", metavar="FOLDER", help="where the zip and the page are written (default: here)")
    parser.add_argument("--check", default="", metavar="PACK.zip", help="check a pack, and write nothing")


def run(args: argparse.Namespace) -> int:
    """Exit code 1 where a pack that is checked was changed."""
    if bool(args.node) == bool(args.check):
        raise InputError("a pack of what? give a node, or --check PACK.zip")
    if args.check:
        return _checked(args)
    folder = accept_folder.chosen(paths.home(), args.of)
    if args.node not in folder.plan.nodes:
        raise InputError(f"the acceptance {folder.plan.name} has no node '{args.node}'; {nearest(args.node, folder.plan.nodes)}")
    now = folder.standings()[args.node]
    if now.state not in ("suspect", "retest", "quarantined", "rejected", "lost"):
        how = f" by a person's decision ({'; '.join(now.overrides)})" if now.overridden else ""
        found = f"before: {accept_show.causes(now.before)}" if now.overridden and now.before else "no fault of it is known"
        print(f"hotlap: {words.clean(f'{args.node} is {now.state}{how}: {found}')}", file=sys.stderr)
    data, page = rma.pack(folder, args.node, args.purpose)
    stem = Path(args.out) / rma.name_of(args.node, args.purpose)
    terminal.write(stem.with_name(f"{stem.name}.html"), page)
    zipped = stem.with_name(f"{stem.name}.zip")
    try:
        zipped.write_bytes(data)
    except OSError as error:
        raise MachineError(f"'{zipped}' cannot be written: {error.strerror}") from None
    digest = hashlib.sha256(data).hexdigest()
    files = PackFiles(zip=str(zipped), page=f"{stem}.html", sha256=digest, files=len(rma_verify.contents(str(zipped))))
    if args.json:
        terminal.answer(args.json, {"pack": files})
        return 0
    print(f"zip     {files.zip}\npage    {files.page}\nsha256  {digest}")
    print(f"check   python3 {rma.VERIFY} {zipped.name} {digest}   (the script is in the zip)")
    return 0


def _checked(args: argparse.Namespace) -> int:
    try:
        wrong = rma_verify.problems(rma_verify.contents(args.check))
    except rma_verify.UNREADABLE as error:
        wrong = [f"it cannot be unpacked: {error}"]
        if not _listed(args.check):
            why = f"'{args.check}' is no pack that can be read: {error}"
            raise InputError(f"{why}; hotlap cluster accept pack NODE writes one") from None
    code = 1 if wrong else 0
    if args.json:
        terminal.answer(args.json, {"pack": args.check, "problems": wrong}, code=code)
        return code
    print("\n".join(wrong) if wrong else f"{args.check}: every file and event is as it was written")
    return code


def _listed(path: str) -> bool:
    """Whether it is a zip whose directory has what a pack has: then what cannot be unpacked was changed."""
    try:
        with zipfile.ZipFile(path) as archive:
            known = {info.filename: info for info in archive.infolist()}
    except rma_verify.UNREADABLE:
        return False
    large = sum(info.file_size for info in known.values()) > rma_verify.MOST
    return {rma_verify.MANIFEST, rma_verify.LEDGER} <= set(known) and not large
