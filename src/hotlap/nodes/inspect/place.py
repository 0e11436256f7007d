"""Where facts are read: this machine, a folder that looks like one, or a snapshot. What was read can be kept as a snapshot."""

from __future__ import annotations

import errno
import fnmatch
import io
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from hotlap.core.errors import InputError, SchemaError
from hotlap.core.measure.sensors.tree import FileTree
from hotlap.nodes.facts import natural
from hotlap.nodes.inspect import commands, redact

INDEX = "hotlap/snapshot.json"
LARGEST_BYTES = 8 << 20  # of one file of a snapshot
WHOLE_BYTES = 256 << 20  # of all files of a snapshot, so that a bad archive cannot fill the memory
MOST_BYTES = 1 << 20  # of one file that is read on a live machine


class FactPlace(FileTree):
    """A tree with links, binary files and the outputs of commands."""

    live = False

    def content(self, path: str) -> bytes:
        """The whole file. Raises OSError."""
        with open(os.path.join(self.root, path), "rb") as file:
            return redact.file(path, file.read(MOST_BYTES), self.identifiers)

    identifiers = False

    def read(self, path: str) -> str:
        return self.content(path).decode(errors="replace")

    def link(self, path: str) -> str:
        """Where a link points, as it is written; "" where it is none."""
        try:
            return os.readlink(os.path.join(self.root, path))
        except OSError:
            return ""

    def real(self, path: str) -> str:
        """The path with its links resolved, relative to the root; "" where that leads outside or nowhere."""
        here, top = os.path.realpath(os.path.join(self.root, path)), os.path.realpath(self.root)
        return os.path.relpath(here, top) if os.path.exists(here) and here.startswith(top.rstrip("/") + "/") else ""

    def names(self, folder: str) -> list[str]:
        """What stands in a folder, in the order people count."""
        return [path.rpartition("/")[2] for path in self.glob(f"{folder}/*")]

    def command(self, name: str) -> commands.Output:
        """What a command of the table printed; a reason where it did not."""
        try:
            return commands.Output(self.content(f"commands/{name}").decode(errors="replace"), commands.shown(name))
        except OSError:
            if why := self.text(f"commands/{name}.missing"):
                return commands.Output("", commands.shown(name), why)
            return commands.Output("", commands.shown(name), f"the snapshot holds no output of {name}")

    @property
    def about(self) -> dict[str, str]:
        """Of the snapshot: host, arch, taken, hotlap."""
        return {}


@dataclass(frozen=True)
class Live(FactPlace):
    """This machine: files below `root`, and commands that are run, each once."""

    identifiers: bool = False
    outputs: dict[str, commands.Output] = field(default_factory=dict, hash=False, compare=False)
    live = True

    def command(self, name: str) -> commands.Output:
        if name not in self.outputs:
            found = commands.run(name)
            self.outputs[name] = commands.Output(redact.output(name, found.text, self.identifiers), found.source, found.reason)
        return self.outputs[name]

    @property
    def about(self) -> dict[str, str]:
        return {"arch": os.uname().machine, "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


@dataclass(frozen=True)
class Packed(FactPlace):
    """Files in memory: a snapshot, or what a test makes up. `seen` are paths that were there without being read."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    reals: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    seen: frozenset[str] = frozenset()
    index: Mapping[str, str] = field(default_factory=dict)

    def content(self, path: str) -> bytes:
        if path in self.files:
            return self.files[path]
        if self.errors.get(path) == "denied":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        if path in self.errors:
            raise OSError(errno.EIO, self.errors[path], path)
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    def exists(self, path: str) -> bool:
        return path in self._all

    def link(self, path: str) -> str:
        return self.links.get(path, "")

    def link_number(self, path: str) -> int | None:
        digits = "".join(part for part in self.link(path).rpartition("/")[2] if part.isdigit())
        return int(digits) if digits else None

    def real(self, path: str) -> str:
        return self.reals.get(path, path if self.exists(path) else "")

    def glob(self, pattern: str) -> list[str]:
        parts = pattern.split("/")
        found = (path for path in self._levels.get(len(parts), ()) if _fits(path, parts))
        return sorted(found, key=natural)

    @property
    def about(self) -> dict[str, str]:
        return dict(self.index)

    @cached_property
    def _all(self) -> frozenset[str]:
        found = set()
        for path in {*self.files, *self.links, *self.seen, *self.reals, *self.errors}:
            while path and path not in found:
                found.add(path)
                path = path.rpartition("/")[0]
        return frozenset(found)

    @cached_property
    def _levels(self) -> dict[int, list[str]]:
        levels: dict[int, list[str]] = {}
        for path in self._all:
            levels.setdefault(path.count("/") + 1, []).append(path)
        return levels


def _fits(path: str, parts: list[str]) -> bool:
    return all(fnmatch.fnmatchcase(a, b) for a, b in zip(path.split("/"), parts, strict=True))


@dataclass(frozen=True)
class PlaceRecorder(Live):
    """This machine, and a note of all that was read of it: what a snapshot is made from."""

    files: dict[str, bytes] = field(default_factory=dict, hash=False, compare=False)
    notes: dict[str, dict[str, str]] = field(default_factory=lambda: {"links": {}, "reals": {}, "errors": {}}, hash=False, compare=False)
    seen: set[str] = field(default_factory=set, hash=False, compare=False)

    def content(self, path: str) -> bytes:
        try:
            self.files[path] = super().content(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            self.notes["errors"][path] = "denied" if isinstance(error, PermissionError) else str(error.strerror)
            raise
        return self.files[path]

    def exists(self, path: str) -> bool:
        if there := super().exists(path):
            self.seen.add(path)
        return there

    def link(self, path: str) -> str:
        if target := super().link(path):
            self.notes["links"][path] = target
        return target

    def link_number(self, path: str) -> int | None:
        self.link(path)
        return super().link_number(path)

    def real(self, path: str) -> str:
        if target := super().real(path):
            self.notes["reals"][path] = target
        return target

    def glob(self, pattern: str) -> list[str]:
        paths = super().glob(pattern)
        self.seen.update(paths)
        return paths

    def write(self, target: Path, about: Mapping[str, str]) -> int:
        """The snapshot as a tarball; the number of its files. Raises OSError."""
        index = {"schema": 1, "about": dict(about), **self.notes, "seen": sorted(self.seen)}
        members = {INDEX: json.dumps(index, indent=1).encode(), **self.files}
        members |= {f"commands/{name}": out.text.encode() for name, out in self.outputs.items() if not out.reason}
        members |= {f"commands/{name}.missing": out.reason.encode() for name, out in self.outputs.items() if out.reason}
        partial = target.with_name(target.name + ".part")
        with tarfile.open(partial, "w:gz") as archive:
            for name, content in members.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        os.replace(partial, target)
        return len(members)


def opened(where: str) -> FactPlace:
    """What `--root` names: a folder or a snapshot. Raises InputError."""
    path = Path(where)
    if path.is_dir():
        index = path / INDEX
        if index.is_file():
            return packed({str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}, where)
        if path.resolve() == Path("/"):
            return Live("/")
        if not any((path / name).is_dir() for name in ("proc", "sys", "commands")):
            raise InputError(f"'{where}' is no node's root: it has no proc, sys or commands; node inspect --snapshot writes one")
        return FactPlace(where)
    if not path.is_file():
        raise InputError(f"there is no folder or snapshot '{where}'; hotlap node inspect --snapshot FILE.tar.gz writes one")
    files, links = _unpacked(path)
    found = packed(files, where)
    return found if INDEX in files or not links else _laid_out(files, links)


def _unpacked(path: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files of a tarball, and where its links point, in memory."""
    files, links, total = dict[str, bytes](), dict[str, str](), 0
    try:
        with tarfile.open(path) as archive:
            for entry in archive:
                name = entry.name.removeprefix("./").strip("/")
                if entry.issym():
                    links[name] = entry.linkname
                if not entry.isfile():
                    continue
                total += entry.size
                if entry.size > LARGEST_BYTES or total > WHOLE_BYTES:
                    raise InputError(f"'{path}' is too large for a snapshot at {entry.name}: at most 8 MiB a file and 256 MiB in all")
                content = archive.extractfile(entry)
                files[name] = content.read() if content else b""
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError(
            f"'{path}' is neither a snapshot nor JSON facts ({str(error).splitlines()[0].rstrip(':')}); "
            "hotlap node inspect --snapshot FILE.tar.gz writes one"
        ) from None
    return files, links


@dataclass(frozen=True)
class Unpacked(FactPlace):
    """A plain tree from a tarball, in a folder of its own for as long as it is read: its links are followed as on a machine."""

    folder: tempfile.TemporaryDirectory[str] | None = field(default=None, hash=False, compare=False)


def _laid_out(files: Mapping[str, bytes], links: Mapping[str, str]) -> Unpacked:
    """Files first, links after them, so that nothing is written through a link; no name and no link may lead out."""
    folder = tempfile.TemporaryDirectory(prefix="hotlap-snapshot-")
    for name, content in files.items():
        if ".." in name.split("/"):
            continue
        place = Path(folder.name, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    for name, target in links.items():
        up = [part == ".." for part in target.split("/")]
        inside = name.count("/") - sum(up)  # ".." anywhere but in front could lead out through another link
        if ".." in name.split("/") or target.startswith("/") or inside < 0 or any(b and not a for a, b in pairwise(up)):
            continue
        place = Path(folder.name, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(place):
            place.symlink_to(target)
    tops = [one for one in Path(folder.name).iterdir() if one.is_dir()]
    root = tops[0] if len(tops) == 1 and tops[0].name not in ("proc", "sys", "commands") else Path(folder.name)
    return Unpacked(str(root), folder=folder)


def packed(files: Mapping[str, bytes], where: str = "") -> Packed:
    """A snapshot from its files; a tarball of a plain tree has no index, and then may stand in one folder."""
    if INDEX not in files:
        tops = {name.partition("/")[0] for name in files}
        if len(tops) == 1 and not tops & {"proc", "sys", "commands"}:
            (top,) = tops
            files = {name.removeprefix(f"{top}/"): content for name, content in files.items()}
        if not any(name.startswith(("proc/", "sys/", "commands/")) for name in files):
            wanted = "it has no proc, sys or commands; hotlap node inspect --snapshot writes one"
            raise InputError(f"'{where}' is no snapshot of a node: {wanted}")
        return Packed(where, files=files)
    try:
        index = json.loads(files[INDEX])
        if index["schema"] > 1:
            raise SchemaError(f"'{where}' was written by a newer Hotlap (snapshot schema {index['schema']}, this one reads 1)")
        tables = {key: {str(k): str(v) for k, v in index[key].items()} for key in ("links", "reals", "errors", "about")}
        seen = frozenset(map(str, index["seen"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, SchemaError):
            raise
        raise SchemaError(f"'{where}' has a broken {INDEX} ({type(error).__name__}: {error}); write the snapshot anew") from None
    links, reals, errors, about = (tables[key] for key in ("links", "reals", "errors", "about"))
    return Packed(where, files=files, links=links, reals=reals, errors=errors, index=about, seen=seen)
