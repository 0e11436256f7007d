"""Small files of /proc and /sys under a root, so that a recorded tree can stand in for a machine."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FileTree:
    """`Tree("/")` is this machine. Paths are relative, as in ``proc/stat``."""

    root: str = "/"

    def read(self, path: str) -> str:
        """The whole file. Raises OSError."""
        descriptor = os.open(os.path.join(self.root, path), os.O_RDONLY)
        try:
            parts = []
            while part := os.read(descriptor, 65536):
                parts.append(part)
            return b"".join(parts).decode(errors="replace")
        finally:
            os.close(descriptor)

    def tap(self, path: str) -> Tap:
        """The file, to be read again and again."""
        return Tap(os.path.join(self.root, path))

    def text(self, path: str) -> str:
        """The file's content without surrounding space; "" where it cannot be read."""
        try:
            return self.read(path).strip(" \t\n\0")
        except OSError:
            return ""

    def number(self, path: str) -> int | None:
        """The file's content as a whole number; None where it is none."""
        try:
            return int(self.text(path))
        except ValueError:
            return None

    def link_number(self, path: str) -> int | None:
        """The number in the target of a link such as ``pid:[4026531836]``; None where there is none."""
        try:
            digits = re.search(r"\d+", os.readlink(os.path.join(self.root, path)))
        except OSError:
            return None
        return int(digits[0]) if digits else None

    def exists(self, path: str) -> bool:
        return os.path.exists(os.path.join(self.root, path))

    def glob(self, pattern: str) -> list[str]:
        """Relative paths in the order people count: cpu2 before cpu10."""
        found = (path.relative_to(self.root).as_posix() for path in Path(self.root).glob(pattern))
        return sorted(found, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])


class Tap:
    """A file whose content changes, kept open: at ten readings a second, finding it anew would be a third of the cost."""

    FIRST_BYTES = 4096  # all that is needed of the files that sensors read

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor: int | None = None

    def read(self) -> str:
        """The beginning of what the file holds now. Raises OSError; the next call then opens it anew."""
        if self.descriptor is None:
            self.descriptor = os.open(self.path, os.O_RDONLY)
        try:
            return os.pread(self.descriptor, self.FIRST_BYTES, 0).decode(errors="replace")
        except OSError as error:
            self.close()
            error.filename = self.path  # reading by number does not know it
            raise

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    __del__ = close
